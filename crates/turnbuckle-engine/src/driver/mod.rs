//! Drives one turn: performs what the machine asks for, tells it what came, stores each step, hands out events.
//!
//! One pass of the loop: give out what the machine said, store it where the next effects cost money or act on the world, start
//! the effects, wait until something happens, tell the machine.

mod apply;
mod commit;
mod control;
mod deltas;
mod fit;
mod request;
mod start;
mod stream;
mod wait;
mod work;

pub(crate) use commit::{Writer, patient, write};
pub(crate) use control::Control;
pub use fit::structured;
pub(crate) use request::Conversation;
pub(crate) use stream::Outlet;
pub use stream::{Stopper, TurnStream};

use crate::runtime::{Assembler, Runtime};
use std::sync::Arc;
use turnbuckle_core::event::Event;
use turnbuckle_core::ids::{SessionId, TurnId};
use turnbuckle_core::machine::{Effect, EffectKind, Input, MachineError, Output, Recorded, Turn};
use turnbuckle_core::outcome::{Outcome, TurnError};
use turnbuckle_core::time::Timestamp;
use turnbuckle_store::StoreError;
use work::Work;

/// Why a driver had to leave a turn before its end. What was stored stays; the turn is taken up again from there.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The store failed, so nothing more may be done.
    #[error("the turn cannot go on because its steps cannot be stored: {}", .0.report())]
    Store(#[from] StoreError),
    /// The machine refused an input: a defect.
    #[error("the turn cannot go on: {0}")]
    Machine(#[from] MachineError),
}

impl DriveError {
    /// As a person is told in the stream.
    pub(crate) fn as_turn_error(&self) -> TurnError {
        match self {
            DriveError::Store(e) => TurnError::Store { message: e.report() },
            DriveError::Machine(e) => TurnError::Internal { message: e.to_string() },
        }
    }
}

/// One turn under way.
pub(crate) struct Driver {
    pub(crate) assembler: Arc<Assembler>,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) turn: Turn,
    pub(crate) conversation: Conversation,
    /// Stores the steps; absent for a turn without a session.
    pub(crate) writer: Option<Writer>,
    pub(crate) control: Arc<Control>,
    pub(crate) outlet: Outlet,
    pub(crate) next_seq: u64,
    pub(crate) session: SessionId,
    pub(crate) id: TurnId,
    /// Whether the turn was paused and its rows must say that it runs again.
    pub(crate) resumed: bool,
    work: Work,
    out: Output,
    /// Events not yet handed out.
    unpublished: Vec<Event>,
    /// Whether something happened that must be stored before anything else is done.
    must_store: Store,
}

/// Whether a commit is due.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Store {
    Later,
    Now,
}

impl Driver {
    pub(crate) fn new(
        assembler: Arc<Assembler>,
        runtime: Arc<Runtime>,
        turn: Turn,
        conversation: Conversation,
        control: Arc<Control>,
        outlet: Outlet,
        next_seq: u64,
    ) -> Self {
        Self {
            session: turn.spec().session.clone(),
            id: turn.spec().turn.clone(),
            assembler,
            runtime,
            turn,
            conversation,
            writer: None,
            control,
            outlet,
            next_seq,
            resumed: false,
            work: Work::default(),
            out: Output::default(),
            unpublished: Vec::new(),
            must_store: Store::Later,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.assembler.clock.now()
    }

    /// Tells the machine. The input is kept for the journal when the turn has one.
    pub(crate) fn feed(&mut self, input: Input) -> Result<(), MachineError> {
        let at = self.now();
        match &mut self.writer {
            None => self.turn.handle(at, input, &mut self.out),
            Some(writer) => {
                let entry = Recorded { n: self.turn.recorded(), at, input: input.clone() };
                self.turn.handle(at, input, &mut self.out)?;
                writer.journal.push(entry);
                Ok(())
            }
        }
    }

    /// Drives the turn until it ends or pauses.
    ///
    /// # Errors
    /// When it cannot go on; see [`DriveError`].
    pub(crate) async fn run(&mut self) -> Result<Outcome, DriveError> {
        loop {
            self.take_events();
            let effects = std::mem::take(&mut self.out.effects);
            let outcome = self.turn.outcome();
            let due = self.must_store == Store::Now
                || outcome.is_some()
                || effects.iter().any(|e| e.kind.needs_commit());
            if due && self.writer.is_some() {
                self.commit(outcome.as_ref()).await?;
            }
            self.must_store = Store::Later;
            self.outlet.push_all(self.unpublished.drain(..));
            if let Some(outcome) = outcome {
                return Ok(outcome);
            }
            for effect in effects {
                self.start(effect)?;
            }
            // Some effects are settled as they start, such as the end of the turn: then there is nothing to wait for.
            if !self.out.events.is_empty()
                || !self.out.effects.is_empty()
                || self.turn.outcome().is_some()
            {
                continue;
            }
            let happened = self.wait().await;
            self.apply(happened).await?;
        }
    }

    /// Gives the machine's events their numbers.
    fn take_events(&mut self) {
        if self.out.events.is_empty() {
            return;
        }
        let epoch = self.turn.epoch();
        let events = self.out.events.drain(..).map(|emitted| {
            let seq = self.next_seq;
            self.next_seq += 1;
            Event {
                seq,
                epoch,
                at: emitted.at,
                session: self.session.clone(),
                turn: self.id.clone(),
                agent: emitted.path,
                kind: emitted.kind,
            }
        });
        match &mut self.writer {
            None => self.unpublished.extend(events),
            Some(writer) => {
                let from = writer.events.len();
                writer.events.extend(events);
                writer.note_events(from);
                self.unpublished.extend(writer.events.iter().skip(from).cloned());
            }
        }
    }

    /// Hands out what has no store to wait for, such as deltas, while effects run.
    pub(crate) fn publish_deltas(&mut self) {
        self.take_events();
        if self.must_store == Store::Later {
            self.outlet.push_all(self.unpublished.drain(..));
        }
    }

    /// What the machine asked for and was handed out but not started, after a failure.
    pub(crate) fn start(&mut self, effect: Effect) -> Result<(), MachineError> {
        match &effect.kind {
            EffectKind::CallModel(_) => self.start_model(effect),
            EffectKind::Prepare(_) => self.start_prepare(effect),
            EffectKind::Execute(_) => self.start_execute(effect),
            EffectKind::Finalize { outcome } => {
                let outcome = outcome.clone();
                self.finalize(effect.step, &outcome)
            }
        }
    }
}
