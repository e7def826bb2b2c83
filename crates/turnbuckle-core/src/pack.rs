//! Events in little room.
//!
//! Most events of a turn are deltas, and most of such an event is the same as in the one before: session, turn, agent, message
//! and part. Whoever keeps many events keeps a run of deltas as what they have in common, their text in one piece, and eight
//! bytes each. What is read is what was put in, event by event.
//!
//! ```
//! use turnbuckle_core::event::{Event, EventKind};
//! use turnbuckle_core::pack::Packed;
//!
//! let delta = |seq, offset, text: &str| Event {
//!     seq,
//!     epoch: 0,
//!     at: Default::default(),
//!     session: "s".into(),
//!     turn: "t".into(),
//!     agent: "main".into(),
//!     kind: EventKind::TextDelta {
//!         message: "t-a".into(),
//!         part: 0,
//!         offset,
//!         iteration: 0,
//!         text: text.into(),
//!     },
//! };
//! let events = [delta(1, 0, "Hello"), delta(2, 5, " world")];
//! let packed: Packed = events.iter().cloned().collect();
//! assert_eq!(packed.iter().collect::<Vec<_>>(), events);
//! ```

use crate::event::{AgentPath, Event, EventKind};
use crate::ids::{CallId, MessageId, SessionId, TurnId};
use crate::room;
use crate::time::Timestamp;
use serde::{Serialize, Serializer};
use std::sync::Arc;

/// Events in the order in which they were put in, for those who keep many.
#[derive(Clone, Debug, Default)]
pub struct Packed {
    entries: Vec<Entry>,
    len: usize,
}

/// An event that is no delta, as it lies.
#[derive(Clone, Copy, Debug)]
pub struct Whole<'a> {
    /// The turn it is of.
    pub turn: &'a TurnId,
    /// When it was.
    pub at: Timestamp,
    /// What it says.
    pub kind: &'a EventKind,
}

impl<'a> From<&'a Event> for Whole<'a> {
    fn from(event: &'a Event) -> Self {
        Self { turn: &event.turn, at: event.at, kind: &event.kind }
    }
}

#[derive(Clone, Debug)]
enum Entry {
    One(Box<One>),
    Run(Box<Run>),
}

/// What neighbours have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Origin {
    epoch: u32,
    session: SessionId,
    turn: TurnId,
    agent: AgentPath,
}

/// An event that stands for itself.
#[derive(Clone, Debug)]
struct One {
    seq: u64,
    at: Timestamp,
    origin: Arc<Origin>,
    kind: EventKind,
}

/// Deltas that continue each other.
#[derive(Clone, Debug)]
struct Run {
    /// The number of the first one.
    seq: u64,
    /// When the first one was.
    at: Timestamp,
    origin: Arc<Origin>,
    message: MessageId,
    part: u32,
    /// The offset of the first one.
    offset: u32,
    of: Of,
    text: String,
    pieces: Vec<Piece>,
}

/// What the deltas are of.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Of {
    Text { iteration: u32 },
    Thinking { iteration: u32 },
    Arguments { call: CallId },
}

/// One delta of a run.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Where its text ends in that of the run.
    end: u32,
    /// Milliseconds since the first one.
    after: u32,
}

/// A delta taken apart.
struct Delta<'a> {
    message: &'a MessageId,
    part: u32,
    offset: u32,
    of: Of,
    text: &'a str,
}

impl<'a> Delta<'a> {
    fn of(kind: &'a EventKind) -> Option<Self> {
        match kind {
            EventKind::TextDelta { message, part, offset, iteration, text } => {
                let of = Of::Text { iteration: *iteration };
                Some(Self { message, part: *part, offset: *offset, of, text })
            }
            EventKind::ThinkingDelta { message, part, offset, iteration, text } => {
                let of = Of::Thinking { iteration: *iteration };
                Some(Self { message, part: *part, offset: *offset, of, text })
            }
            EventKind::ToolCallArgsDelta { message, part, call, offset, text } => {
                let of = Of::Arguments { call: call.clone() };
                Some(Self { message, part: *part, offset: *offset, of, text })
            }
            _ => None,
        }
    }
}

impl Origin {
    fn is_of(&self, event: &Event) -> bool {
        self.turn == event.turn
            && self.epoch == event.epoch
            && self.agent == event.agent
            && self.session == event.session
    }

    fn event(&self, seq: u64, at: Timestamp, kind: EventKind) -> Event {
        let (session, turn) = (self.session.clone(), self.turn.clone());
        Event { seq, epoch: self.epoch, at, session, turn, agent: self.agent.clone(), kind }
    }
}

impl Run {
    /// A run of one delta; `None` when it is too long for one.
    fn begin(event: &Event, delta: Delta<'_>, origin: Arc<Origin>) -> Option<Self> {
        let end = u32::try_from(delta.text.len()).ok()?;
        Some(Self {
            seq: event.seq,
            at: event.at,
            origin,
            message: delta.message.clone(),
            part: delta.part,
            offset: delta.offset,
            of: delta.of,
            text: delta.text.to_owned(),
            pieces: vec![Piece { end, after: 0 }],
        })
    }

    /// Adds a delta, if it continues the run.
    fn extend(&mut self, event: &Event, delta: &Delta<'_>) -> bool {
        let piece = self.place(event, delta);
        if let Some(piece) = piece {
            room::push(&mut self.pieces, piece);
            room::append(&mut self.text, delta.text);
        }
        piece.is_some()
    }

    fn place(&self, event: &Event, delta: &Delta<'_>) -> Option<Piece> {
        let end = u32::try_from(self.text.len() + delta.text.len()).ok()?;
        let ms = event.at.as_millis().checked_sub(self.at.as_millis())?;
        let after = u32::try_from(ms).ok()?;
        let begin = u64::from(self.offset) + self.text.len() as u64;
        let continues = event.seq == self.seq + self.pieces.len() as u64
            && u64::from(delta.offset) == begin
            && delta.part == self.part
            && delta.of == self.of
            && *delta.message == self.message
            && self.origin.is_of(event);
        continues.then_some(Piece { end, after })
    }

    /// Whether the first delta of another run continues this one, and all of that fits.
    fn is_continued_by(&self, next: &Self) -> bool {
        let ms = next.at.as_millis().checked_sub(self.at.as_millis());
        let last = next.pieces.last().map_or(0, |piece| i64::from(piece.after));
        let fits = |number: Option<i64>| number.is_some_and(|n| u32::try_from(n).is_ok());
        next.seq == self.seq + self.pieces.len() as u64
            && u64::from(next.offset) == u64::from(self.offset) + self.text.len() as u64
            && (next.part, &next.of, &next.message) == (self.part, &self.of, &self.message)
            && next.origin == self.origin
            && u32::try_from(self.text.len() + next.text.len()).is_ok()
            && fits(ms)
            && fits(ms.and_then(|ms| ms.checked_add(last)))
    }

    /// Adds a run that continues this one; gives how many deltas that were.
    fn join(&mut self, next: &Self) -> usize {
        let end = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
        let ms = next.at.as_millis() - self.at.as_millis();
        let after = u32::try_from(ms).unwrap_or(u32::MAX);
        room::reserve(&mut self.pieces, next.pieces.len());
        self.pieces.extend(next.pieces.iter().map(|piece| Piece {
            end: end.saturating_add(piece.end),
            after: after.saturating_add(piece.after),
        }));
        room::append(&mut self.text, &next.text);
        next.pieces.len()
    }

    fn get(&self, index: usize) -> Option<Event> {
        let piece = *self.pieces.get(index)?;
        let before = index.checked_sub(1).and_then(|i| self.pieces.get(i));
        let from = before.map_or(0, |piece| piece.end);
        let text = self.text.get(from as usize..piece.end as usize)?.to_owned();
        let (message, part, offset) = (self.message.clone(), self.part, self.offset + from);
        let kind = match &self.of {
            Of::Text { iteration: n } => {
                EventKind::TextDelta { message, part, offset, iteration: *n, text }
            }
            Of::Thinking { iteration: n } => {
                EventKind::ThinkingDelta { message, part, offset, iteration: *n, text }
            }
            Of::Arguments { call } => {
                EventKind::ToolCallArgsDelta { message, part, call: call.clone(), offset, text }
            }
        };
        let at = Timestamp::from_millis(self.at.as_millis() + i64::from(piece.after));
        Some(self.origin.event(self.seq + index as u64, at, kind))
    }
}

impl Entry {
    fn len(&self) -> usize {
        match self {
            Entry::One(_) => 1,
            Entry::Run(run) => run.pieces.len(),
        }
    }

    /// The number of its first event.
    fn first(&self) -> u64 {
        match self {
            Entry::One(one) => one.seq,
            Entry::Run(run) => run.seq,
        }
    }

    fn origin(&self) -> &Arc<Origin> {
        match self {
            Entry::One(one) => &one.origin,
            Entry::Run(run) => &run.origin,
        }
    }

    fn get(&self, index: usize) -> Option<Event> {
        match self {
            Entry::One(one) => {
                (index == 0).then(|| one.origin.event(one.seq, one.at, one.kind.clone()))
            }
            Entry::Run(run) => run.get(index),
        }
    }
}

impl Packed {
    /// How many events there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an event.
    pub fn push(&mut self, event: &Event) {
        if !self.absorb(event) {
            self.stand_alone(event.clone());
        }
    }

    fn stand_alone(&mut self, event: Event) {
        let origin = self.origin_of(&event);
        let Event { seq, at, kind, .. } = event;
        self.entry(Entry::One(Box::new(One { seq, at, origin, kind })));
    }

    /// Adds a delta to a run; gives `false` for any other event.
    fn absorb(&mut self, event: &Event) -> bool {
        let Some(delta) = Delta::of(&event.kind) else { return false };
        if let Some(Entry::Run(run)) = self.entries.last_mut()
            && run.extend(event, &delta)
        {
            self.len += 1;
            return true;
        }
        let run = Run::begin(event, delta, self.origin_of(event));
        let begun = run.is_some();
        if let Some(run) = run {
            self.entry(Entry::Run(Box::new(run)));
        }
        begun
    }

    /// The origin of an event, shared with the one before where it is the same.
    fn origin_of(&self, event: &Event) -> Arc<Origin> {
        let last = self.entries.last().map(Entry::origin);
        last.filter(|origin| origin.is_of(event)).cloned().unwrap_or_else(|| {
            Arc::new(Origin {
                epoch: event.epoch,
                session: event.session.clone(),
                turn: event.turn.clone(),
                agent: event.agent.clone(),
            })
        })
    }

    fn entry(&mut self, entry: Entry) {
        self.close();
        self.len += entry.len();
        room::push(&mut self.entries, entry);
    }

    /// The last run is complete.
    fn close(&mut self) {
        if let Some(Entry::Run(run)) = self.entries.last_mut() {
            run.text.shrink_to_fit();
            run.pieces.shrink_to_fit();
        }
    }

    /// The events, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        let of = |entry| (0..Entry::len(entry)).filter_map(|index| entry.get(index));
        self.entries.iter().flat_map(of)
    }

    /// The events that are no deltas, oldest first, without a copy.
    pub fn wholes(&self) -> impl Iterator<Item = Whole<'_>> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::One(one) => Some(Whole { turn: &one.origin.turn, at: one.at, kind: &one.kind }),
            Entry::Run(_) => None,
        })
    }

    /// The numbers of the events, oldest first.
    pub fn seqs(&self) -> impl Iterator<Item = u64> + '_ {
        self.entries.iter().flat_map(|entry| {
            let first = entry.first();
            first..first + entry.len() as u64
        })
    }

    /// Adds others behind these, as they lie.
    pub fn append(&mut self, others: Self) {
        for entry in others.entries {
            let origin = match self.entries.last() {
                Some(last) if **last.origin() == **entry.origin() => last.origin().clone(),
                _ => entry.origin().clone(),
            };
            match (entry, self.entries.last_mut()) {
                (Entry::Run(run), Some(Entry::Run(last))) if last.is_continued_by(&run) => {
                    self.len += last.join(&run);
                }
                (Entry::Run(mut run), _) => {
                    run.origin = origin;
                    self.entry(Entry::Run(run));
                }
                (Entry::One(mut one), _) => {
                    one.origin = origin;
                    self.entry(Entry::One(one));
                }
            }
        }
    }

    /// The events whose number is higher than `seq`. Numbers must rise from event to event.
    pub fn after(&self, seq: u64) -> impl Iterator<Item = Event> + '_ {
        let later = self.entries.partition_point(|entry| entry.first() <= seq);
        // The entry before may have some, too.
        let entries = self.entries.get(later.saturating_sub(1)..).unwrap_or_default();
        entries.iter().flat_map(move |entry| {
            let skip = seq.saturating_add(1).saturating_sub(entry.first());
            let skip = usize::try_from(skip).unwrap_or(usize::MAX).min(entry.len());
            (skip..entry.len()).filter_map(|index| entry.get(index))
        })
    }

    /// The number of the first event of a turn.
    pub fn first_of(&self, turn: &TurnId) -> Option<u64> {
        self.entries.iter().find(|entry| entry.origin().turn == *turn).map(Entry::first)
    }

    /// The number of the last event.
    pub fn last_seq(&self) -> Option<u64> {
        let last = self.entries.last()?;
        Some(last.first() + last.len() as u64 - 1)
    }

    /// Drops the events up to the number `seq`. Numbers must rise from event to event.
    pub fn drop_through(&mut self, seq: u64) {
        if self.last_seq().is_none_or(|last| last <= seq) {
            *self = Self::default();
        } else if self.entries.first().is_some_and(|first| first.first() <= seq) {
            *self = self.after(seq).collect();
        }
    }

    /// Gives up room that is held for more.
    pub fn shrink(&mut self) {
        self.close();
        self.entries.shrink_to_fit();
    }
}

impl PartialEq for Packed {
    /// Whether the same events were put in.
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl Serialize for Packed {
    /// As a list of events.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl Extend<Event> for Packed {
    fn extend<T: IntoIterator<Item = Event>>(&mut self, events: T) {
        for event in events {
            if !self.absorb(&event) {
                self.stand_alone(event);
            }
        }
    }
}

impl FromIterator<Event> for Packed {
    fn from_iter<T: IntoIterator<Item = Event>>(events: T) -> Self {
        let mut packed = Self::default();
        packed.extend(events);
        packed
    }
}

#[cfg(test)]
#[path = "pack_tests.rs"]
mod tests;
