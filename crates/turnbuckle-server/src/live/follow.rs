//! Where a reader of a session stands, and which event it gets next. Decided without I/O.
//!
//! Events reach a reader on two ways: live, as they happen and perhaps before they are stored, and from the store. What was
//! streamed before it was stored is void when its owner dies; the next owner counts on from the last stored event, with a
//! higher epoch. [`Follow`] gives every stored event once and in order, whatever is lost or told twice on the way.

use std::fmt;
use std::str::FromStr;
use turnbuckle_core::event::Event;
use turnbuckle_core::ids::TurnId;

/// What tells an event that was not stored when it was given from another of the same number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// How often its turn had been taken up again.
    pub epoch: u32,
    /// Its turn.
    pub turn: TurnId,
}

/// A place in a session's events: the last one a reader has. It is what an SSE `id` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The event's number; 0 is before the first.
    pub seq: u64,
    /// Which event of that number; absent for the stored one.
    pub mark: Option<Mark>,
}

impl Place {
    /// Behind a stored event.
    pub const fn stored(seq: u64) -> Self {
        Self { seq, mark: None }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.mark {
            None => write!(f, "{}", self.seq),
            Some(Mark { epoch, turn }) => write!(f, "{}.{epoch}.{turn}", self.seq),
        }
    }
}

/// Text that names no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be the `id` of an event as it was sent, or an event's number")]
pub struct NotAPlace;

impl FromStr for Place {
    type Err = NotAPlace;

    fn from_str(text: &str) -> Result<Self, NotAPlace> {
        let number = |text: &str| text.parse::<u64>().map_err(|_| NotAPlace);
        let Some((seq, mark)) = text.split_once('.') else {
            return Ok(Self::stored(number(text)?));
        };
        let (epoch, turn) = mark.split_once('.').ok_or(NotAPlace)?;
        let epoch = epoch.parse().map_err(|_| NotAPlace)?;
        if turn.is_empty() || turn.len() > 200 {
            return Err(NotAPlace);
        }
        Ok(Self { seq: number(seq)?, mark: Some(Mark { epoch, turn: turn.into() }) })
    }
}

/// What to do with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// It is the next one.
    Give,
    /// The reader has it, or it is void.
    Skip,
    /// Something before it is missing: its owner is to tell it again.
    Gap,
    /// What was given before may be void, since its owner has changed unheard: the store is to be read first, and then
    /// [`forget`](Follow::forget) what it does not have.
    Doubt,
}

/// Events given before they were known to be stored, up to where the next run begins.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    from: u64,
    /// Absent for what a reader says it has without saying which: it is believed.
    mark: Option<Mark>,
    seen: Seen,
}

/// How it is known that the reader has a run of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// They were given here; had they become void, that would have been heard.
    Here,
    /// The reader says so. They may have become void before it came.
    Elsewhere,
}

/// A reader's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follow {
    /// The last event given.
    at: u64,
    /// Up to here, what was given is what is stored.
    sure: u64,
    /// What was given beyond, oldest first.
    loose: Vec<Run>,
}

impl Follow {
    /// A reader that has everything up to `sure` as it is stored, and beyond that, up to `place`, what its mark says.
    pub fn new(place: Place, sure: u64) -> Self {
        let sure = sure.min(place.seq);
        let loose = if place.seq > sure {
            vec![Run { from: sure + 1, mark: place.mark, seen: Seen::Elsewhere }]
        } else {
            Vec::new()
        };
        Self { at: place.seq, sure, loose }
    }

    /// The number of the last event given.
    pub const fn at(&self) -> u64 {
        self.at
    }

    /// Behind which event the store is to be read.
    pub const fn sure(&self) -> u64 {
        self.sure
    }

    /// The place behind the event given last.
    pub fn place(&self) -> Place {
        let mark = if self.at > self.sure {
            self.loose.last().and_then(|run| run.mark.clone())
        } else {
            None
        };
        Place { seq: self.at, mark }
    }

    /// An event as it happens, stored or not.
    pub fn live(&mut self, event: &Event) -> Take {
        let seq = event.seq;
        if seq == self.at + 1 {
            let of = |mark: &Mark| mark.turn == event.turn && mark.epoch == event.epoch;
            let last = self.loose.last().and_then(|run| run.mark.as_ref());
            if last.is_some_and(|mark| !of(mark)) {
                return Take::Doubt;
            }
            self.at = seq;
            self.extend(event);
            return Take::Give;
        }
        if seq > self.at {
            return Take::Gap;
        }
        if seq <= self.sure {
            return Take::Skip;
        }
        match self.run_of(seq).map(|run| &run.mark) {
            // The next owner begins right behind what is stored.
            Some(Some(mark))
                if mark.turn == event.turn && mark.epoch < event.epoch && seq == self.sure + 1 =>
            {
                self.back_to(seq - 1);
                self.at = seq;
                self.extend(event);
                Take::Give
            }
            Some(Some(mark)) if mark.turn == event.turn && mark.epoch < event.epoch => Take::Doubt,
            Some(Some(mark)) if mark.turn == event.turn => Take::Skip,
            // Of another turn: whole turns were missed, or the event is a dead owner's.
            Some(Some(_)) => Take::Doubt,
            Some(None) | None => Take::Skip,
        }
    }

    /// Everything up to `seq` is stored. Whether the store must be read.
    pub fn committed(&mut self, seq: u64) -> bool {
        if seq > self.at {
            return true;
        }
        let told = |run: &Run| run.from <= seq && run.seen == Seen::Elsewhere;
        if self.loose.iter().any(told) {
            return true;
        }
        if seq > self.sure {
            self.settle(seq);
        }
        false
    }

    /// An event from the store; they are read from [`sure`](Self::sure) on, in order.
    pub fn stored(&mut self, event: &Event) -> Take {
        let seq = event.seq;
        if seq <= self.sure {
            return Take::Skip;
        }
        if seq > self.sure + 1 {
            return Take::Gap;
        }
        if seq > self.at {
            self.at = seq;
            self.settle(seq);
            return Take::Give;
        }
        let known = match self.run_of(seq).map(|run| &run.mark) {
            Some(Some(mark)) => mark.turn == event.turn && mark.epoch == event.epoch,
            Some(None) | None => true,
        };
        if !known {
            self.back_to(seq - 1);
            self.at = seq;
        }
        self.settle(seq);
        if known { Take::Skip } else { Take::Give }
    }

    /// The store was read to its end, and what it does not have is void.
    pub fn forget(&mut self) {
        self.at = self.sure;
        self.loose.clear();
    }

    fn run_of(&self, seq: u64) -> Option<&Run> {
        self.loose.iter().rev().find(|run| run.from <= seq)
    }

    fn extend(&mut self, event: &Event) {
        let same = self.loose.last().is_some_and(|run| {
            run.seen == Seen::Here
                && run.mark.as_ref().is_some_and(|m| m.epoch == event.epoch && m.turn == event.turn)
        });
        if !same {
            let mark = Some(Mark { epoch: event.epoch, turn: event.turn.clone() });
            self.loose.push(Run { from: event.seq, mark, seen: Seen::Here });
        }
    }

    fn back_to(&mut self, seq: u64) {
        self.loose.retain(|run| run.from <= seq);
        self.at = seq;
    }

    /// What was given up to `seq` is what is stored.
    fn settle(&mut self, seq: u64) {
        self.sure = seq;
        if seq >= self.at {
            self.loose.clear();
            return;
        }
        // The run that `seq` lies in goes on behind it.
        let keep = self.loose.iter().rposition(|run| run.from <= seq + 1).unwrap_or(0);
        self.loose.drain(..keep);
        if let Some(first) = self.loose.first_mut() {
            first.from = first.from.max(seq + 1);
        }
    }
}

/// Of stored events up to a place with a mark, oldest first: the last one that the reader has. `None` when it lies further
/// back.
pub fn last_valid(mark: &Mark, stored: &[Event]) -> Option<u64> {
    stored.iter().rev().find(|e| e.turn == mark.turn && e.epoch <= mark.epoch).map(|e| e.seq)
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
