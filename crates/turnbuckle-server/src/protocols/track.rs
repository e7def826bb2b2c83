//! A turn as its events tell it, whatever is taken back on the way.

use turnbuckle_core::event::{Event, EventKind};
use turnbuckle_core::fold::{FoldError, TurnFold};
use turnbuckle_core::ids::TurnId;

/// How closely what was shown is to be compared with what is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// Something was only added.
    Lengths,
    /// What was there may have changed.
    Contents,
}

/// Folds the events of one turn. What is not stored yet can be taken back.
#[derive(Clone, Debug)]
pub(crate) struct Track {
    turn: TurnId,
    now: TurnFold,
    /// The number of the turn's last event.
    seq: u64,
    /// The turn up to the last event that is surely stored.
    sure: TurnFold,
    /// The events behind that.
    loose: Vec<Event>,
}

impl Track {
    pub(crate) fn new(turn: TurnId) -> Self {
        let (now, sure) = (TurnFold::default(), TurnFold::default());
        Self { turn, now, seq: 0, sure, loose: Vec::new() }
    }

    /// The turn it follows.
    pub(crate) fn turn(&self) -> &TurnId {
        &self.turn
    }

    /// The turn's messages as far as they go.
    pub(crate) fn messages(&self) -> &TurnFold {
        &self.now
    }

    /// An event; `None` when it is of another turn.
    ///
    /// # Errors
    /// When it does not fit what came before.
    pub(crate) fn take(&mut self, event: &Event) -> Result<Option<Check>, FoldError> {
        if event.turn != self.turn {
            return Ok(None);
        }
        let mut check = check(&event.kind);
        if event.seq <= self.seq {
            self.back_to(event.seq)?;
            check = Check::Contents;
        }
        self.now.apply(event.at, &event.kind)?;
        self.seq = event.seq;
        self.loose.push(event.clone());
        Ok(Some(check))
    }

    /// Everything up to `seq` is stored.
    pub(crate) fn stored(&mut self, seq: u64) {
        let sure = self.loose.partition_point(|event| event.seq <= seq);
        for event in self.loose.drain(..sure) {
            // It was applied once already.
            let _ = self.sure.apply(event.at, &event.kind);
        }
    }

    fn back_to(&mut self, seq: u64) -> Result<(), FoldError> {
        self.loose.retain(|event| event.seq < seq);
        self.now = self.sure.clone();
        for event in &self.loose {
            self.now.apply(event.at, &event.kind)?;
        }
        Ok(())
    }
}

fn check(kind: &EventKind) -> Check {
    match kind {
        EventKind::TextReplaced { .. }
        | EventKind::PartAdded { .. }
        | EventKind::PartDropped { .. }
        | EventKind::PartsDiscarded { .. }
        | EventKind::AssistantMessageResumed { .. } => Check::Contents,
        _ => Check::Lengths,
    }
}
