//! Drives one turn: performs what the machine asks for, tells it what came, stores each step, hands out events.
//!
//! One pass of the loop: store what the machine said where the next effects cost money or act on the world, give it out, start
//! the effects, wait until something happens, tell the machine. What follows without a wait, and may be done again should the
//! process die, goes into one commit with what it followed from.

mod apply;
mod bill;
mod buffered;
mod commit;
mod control;
mod deltas;
mod fit;
mod hooks;
mod request;
mod start;
mod stream;
mod title;
mod wait;
mod work;

pub use buffered::BufferedStream;
pub(crate) use commit::{ATTEMPTS, COMMIT_ATTEMPTS, Writer, patient, write};
pub(crate) use control::Control;
pub use fit::structured;
pub(crate) use request::Conversation;
pub(crate) use stream::Outlet;
pub use stream::{Loose, Stopper, TurnStream};
pub(crate) use title::Untitled;

use crate::runtime::{Assembler, Runtime};
use crate::session::{cap, kept_from_cache};
use crate::tool::eventual::contained;
use crate::trace::Nested;
use std::sync::Arc;
use turnbuckle_core::event::Event;
use turnbuckle_core::ids::{SessionId, TurnId};
use turnbuckle_core::machine::{
    Effect, EffectKind, ExecuteMode, Input, MachineError, Output, Phase, Recorded, Turn,
};
use turnbuckle_core::outcome::{Outcome, TurnError};
use turnbuckle_core::time::Timestamp;
use turnbuckle_core::tool::SideEffect;
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
    /// Code panicked that must not: a defect, ours or of what the product plugged in.
    #[error("the turn cannot go on because of a panic: {0}")]
    Panicked(String),
    /// It was asked to.
    #[error("the turn is left for another process")]
    Parked,
}

impl DriveError {
    /// As a person is told in the stream.
    pub(crate) fn as_turn_error(&self) -> TurnError {
        match self {
            DriveError::Store(e) => TurnError::Store { message: e.report() },
            DriveError::Machine(_) | DriveError::Panicked(_) | DriveError::Parked => {
                TurnError::Internal { message: self.to_string() }
            }
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
    /// Set when the session has no title.
    pub(crate) untitled: Option<Untitled>,
    /// Whether the turn was paused and its rows must say that it runs again.
    pub(crate) resumed: bool,
    /// Whether the session was given back with the last commit.
    pub(crate) released: bool,
    work: Work,
    /// The spans of nested agents.
    nested: Nested,
    out: Output,
    /// Events not yet handed out.
    unpublished: Vec<Event>,
    /// When what happened must be stored.
    must_store: Store,
}

/// When a commit is due.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Store {
    /// With what comes.
    Later,
    /// Before anything is waited for.
    BeforeWaiting,
    /// Before anything else is done.
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
            work: Work::new(&assembler.alarms),
            assembler,
            runtime,
            turn,
            conversation,
            writer: None,
            control,
            outlet,
            next_seq,
            untitled: None,
            resumed: false,
            released: false,
            nested: Nested::default(),
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
        self.tell_dropped()?;
        let told = self.out.events.len();
        self.apply_input(input)?;
        let new = self.out.events.get(told..).unwrap_or_default();
        if let Some(context) = self.runtime.context() {
            for kept in kept_from_cache(&self.turn, new) {
                context.with(|store| kept.apply(store));
            }
        }
        Ok(())
    }

    /// Tells when the context store had no room for more. Not after a pause was told, which is the end of a stream.
    fn tell_dropped(&mut self) -> Result<(), MachineError> {
        if matches!(self.turn.phase(), Phase::New | Phase::Paused | Phase::Ended { .. }) {
            return Ok(());
        }
        let dropped = self.runtime.context().and_then(|c| c.with(|store| store.take_dropped()));
        match dropped {
            Some(dropped) => self.apply_input(Input::ContextDropped { cap: cap(&dropped) }),
            None => Ok(()),
        }
    }

    fn apply_input(&mut self, input: Input) -> Result<(), MachineError> {
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
        let mut faulty = false;
        loop {
            let defect = match contained(self.go_on()).await {
                Ok(Err(DriveError::Machine(e))) if !faulty => e.to_string(),
                Err(panic) if !faulty => panic.0,
                Ok(other) => return other,
                Err(panic) => return Err(DriveError::Panicked(panic.0)),
            };
            tracing::error!(turn = %self.id, "the turn is ended because of a defect: {defect}");
            faulty = true;
            self.fault(TurnError::Internal { message: defect })?;
        }
    }

    async fn go_on(&mut self) -> Result<Outcome, DriveError> {
        loop {
            self.take_events();
            let effects = std::mem::take(&mut self.out.effects);
            let outcome = self.turn.outcome();
            let due = self.must_store == Store::Now
                || outcome.is_some()
                || effects.iter().any(|e| e.kind.needs_commit() && !self.is_repeatable(e));
            if due {
                self.store(outcome.as_ref()).await?;
            }
            self.publish();
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
            let mut happened = None;
            if self.must_store == Store::BeforeWaiting && !self.work.only_looks_up() {
                happened = self.at_once().await;
                if happened.is_none() {
                    self.store(None).await?;
                    self.publish();
                }
            }
            let happened = match happened {
                Some(happened) => happened,
                None => self.wait().await,
            };
            self.apply(happened).await?;
        }
    }

    /// Stores what has come, if the turn is stored at all.
    async fn store(&mut self, outcome: Option<&Outcome>) -> Result<(), DriveError> {
        if self.writer.is_some() {
            // Boxed: a turn holds room for what it is doing, not for all that it may do.
            Box::pin(self.commit(outcome)).await?;
        }
        self.must_store = Store::Later;
        Ok(())
    }

    /// Whether an effect may simply be started again by another process, so that nothing is lost with it.
    fn is_repeatable(&self, effect: &Effect) -> bool {
        let run = match &effect.kind {
            EffectKind::Execute(run) => run,
            // What it is made of is in the journal.
            EffectKind::Settle(_) => return true,
            _ => return false,
        };
        let toolbox = self.runtime.agents.get(&effect.agent).map(|agent| &agent.env.toolbox);
        let entry = toolbox.and_then(|toolbox| toolbox.get(run.tool.as_str()));
        run.mode == ExecuteMode::Real
            && entry.is_some_and(|e| e.tool().contract().traits.effect == SideEffect::ReadOnly)
    }

    /// Hands out what need not wait for the store.
    fn publish(&mut self) {
        if self.must_store == Store::Later {
            self.outlet.push_all(std::mem::take(&mut self.unpublished));
        }
    }

    /// Gives the machine's events their numbers.
    fn take_events(&mut self) {
        if self.out.events.is_empty() {
            return;
        }
        let epoch = self.turn.epoch();
        // The room goes along here and where they are handed out: what was freed a moment ago lies in the processor's caches,
        // what a turn keeps while it waits for its next piece does not.
        let emitted = std::mem::take(&mut self.out.events);
        self.unpublished.reserve_exact(emitted.len());
        let events = emitted.into_iter().map(|emitted| {
            let seq = self.next_seq;
            self.next_seq += 1;
            let event = Event {
                seq,
                epoch,
                at: emitted.at,
                session: self.session.clone(),
                turn: self.id.clone(),
                agent: emitted.path,
                kind: emitted.kind,
            };
            self.nested.note(&event);
            event
        });
        match &mut self.writer {
            None => self.unpublished.extend(events),
            Some(writer) => {
                let noted = events.inspect(|event| {
                    writer.note_event(event);
                    self.outlet.keep(event);
                });
                self.unpublished.extend(noted);
            }
        }
    }

    /// Hands out what has no store to wait for, such as deltas, while effects run.
    pub(crate) fn publish_deltas(&mut self) {
        self.take_events();
        self.publish();
    }

    /// What the machine asked for and was handed out but not started, after a failure.
    pub(crate) fn start(&mut self, effect: Effect) -> Result<(), MachineError> {
        self.nested.begin(&self.runtime.info, self.turn.epoch(), &effect.path);
        match &effect.kind {
            EffectKind::CallModel(_) => self.start_model(effect),
            EffectKind::Prepare(_) => self.start_prepare(effect),
            EffectKind::Execute(_) => self.start_execute(effect),
            EffectKind::Settle(_) => self.start_settle(effect),
            EffectKind::Finalize { outcome } => {
                let outcome = outcome.clone();
                self.finalize(effect.step, &outcome)
            }
        }
    }
}
