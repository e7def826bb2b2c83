//! The owner of a session: claims it, takes up what an earlier process left, works through the inbox, gives it back.

mod turn;

use super::SessionState;
use crate::driver::{ATTEMPTS, Control, DriveError, Driver, Outlet, patient, write};
use crate::runtime::Assembler;
use crate::tool::eventual::contained;
use crate::trace;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;
use turnbuckle_core::event::{Event, EventKind};
use turnbuckle_core::ids::TurnId;
use turnbuckle_core::machine::{Input, RunMode, Superseded, TurnSpec};
use turnbuckle_core::message::Message;
use turnbuckle_core::model::ModelRef;
use turnbuckle_core::outcome::Outcome;
use turnbuckle_store::{
    Claim, Commit, InboxItem, Loaded, Posted, Release, Released, SessionKey, Store, StoreError,
    TurnLog, TurnStatus,
};

/// What an owner is made of.
#[derive(Clone)]
pub(crate) struct OwnerParts {
    pub(crate) assembler: Arc<Assembler>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) key: SessionKey,
    /// This process, by name.
    pub(crate) name: Arc<str>,
    pub(crate) lease: Duration,
    /// Bytes of images and files that a request may carry.
    pub(crate) media_limit: u64,
    pub(crate) control: Arc<Control>,
    pub(crate) outlet: Outlet,
}

impl OwnerParts {
    fn lease_ms(&self) -> u64 {
        self.lease.as_millis() as u64
    }
}

/// What the store keeps of a turn beside its journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredTurn {
    pub(crate) spec: TurnSpec,
    /// The model asked for in this turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<ModelRef>,
    /// The model that the session keeps as of this turn; what is chosen while it waits is for the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kept: Option<ModelRef>,
    /// What its model calls are booked to beside the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) account: Option<Arc<str>>,
}

/// Choices for one turn, as they travel with its message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TurnOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<ModelRef>,
    #[serde(skip_serializing_if = "is_interactive")]
    pub(crate) mode: RunMode,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) account: Option<Arc<str>>,
}

fn is_interactive(mode: &RunMode) -> bool {
    *mode == RunMode::Interactive
}

/// An owner at work.
pub(crate) struct Owner {
    pub(super) parts: OwnerParts,
    pub(super) fence: u64,
    loaded: Loaded,
    row: Row,
    state: Arc<SessionState>,
    pub(super) history: Vec<Message>,
    pub(super) next_seq: u64,
    /// A turn that waits for people.
    pub(super) paused: Option<Paused>,
    /// What was queued before that turn paused, and waits with it.
    held: Vec<InboxItem>,
    /// The turn at work, and how often it was taken up.
    pub(super) at: Option<(TurnId, u32)>,
    /// Whether the session was given back with the end of a turn.
    released: bool,
}

/// Whether the session's row may have changed since it was read: others give titles and choose models at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    Fresh,
    Stale,
}

/// A turn that waits for people.
pub(super) enum Paused {
    /// As it was loaded.
    Log(Box<TurnLog>),
    /// As this owner left it; its log is read when it is needed.
    Id(TurnId),
}

impl Owner {
    /// Works until nothing waits, then gives the session back. Problems end the work; what is stored stays.
    pub(crate) async fn run(parts: OwnerParts) {
        let session = parts.key.id.clone();
        let fence = match claim(&parts).await {
            Ok(Some(fence)) => fence,
            Ok(None) => {
                tracing::debug!(%session, "somebody else works on the session");
                return;
            }
            Err(e) => return tell_failure(&parts, None, 0, &DriveError::Store(e)),
        };
        let loaded = Self::load(parts.clone(), fence).await.map(Box::new);
        let (place, error) = match loaded {
            Ok(mut owner) => {
                let worked = contained(owner.work()).await;
                match worked.unwrap_or_else(|panic| Err(DriveError::Panicked(panic.0))) {
                    Ok(()) => return,
                    Err(e) => ((owner.at.take(), owner.next_seq), e),
                }
            }
            Err(e) => ((None, 0), DriveError::Store(e)),
        };
        if matches!(error, DriveError::Store(StoreError::Fenced { .. })) {
            parts.outlet.set_lost();
        }
        if matches!(error, DriveError::Parked) {
            tracing::info!(%session, "the session is left for another process");
        } else {
            tracing::error!(%session, "the session is left as it is stored: {error}");
            tell_failure(&parts, place.0, place.1, &error);
        }
        // So that another process need not wait for the lease. If this fails too, the lease runs out.
        let _ = parts.store.release(&parts.key, fence, Release::HandOver).await;
    }

    async fn load(parts: OwnerParts, fence: u64) -> Result<Self, StoreError> {
        let mut loaded = patient(ATTEMPTS, || parts.store.load(&parts.key)).await?;
        let state = Arc::new(SessionState::load(loaded.state.as_deref()));
        let active = loaded.turn.as_ref().map(|t| t.turn.id.clone());
        let messages = std::mem::take(&mut loaded.messages);
        let history = messages.into_iter().filter(|m| Some(m.turn()) != active.as_ref()).collect();
        let next_seq = loaded.session.next_seq;
        Ok(Self {
            parts,
            fence,
            loaded,
            row: Row::Fresh,
            state,
            history,
            next_seq,
            paused: None,
            held: Vec::new(),
            at: None,
            released: false,
        })
    }

    /// Takes one input after the other. What comes before a turn runs is boxed: this future lasts as long as the turn, and has
    /// room for what that needs.
    async fn work(&mut self) -> Result<(), DriveError> {
        if let Some(log) = self.loaded.turn.take() {
            match (log.turn.status, self.loaded.unreadable.take()) {
                (_, Some(why)) => {
                    Box::pin(self.set_aside(&log.turn.id, &why, None)).await?;
                    self.read_inbox().await?;
                }
                (TurnStatus::Paused, None) => self.paused = Some(Paused::Log(Box::new(log))),
                (TurnStatus::Running, None) => {
                    let driver = Box::pin(self.take_up(log)).await?;
                    self.drive(driver).await?;
                    if !self.released {
                        self.read_inbox().await?;
                    }
                }
                (TurnStatus::Finished, None) => {}
            }
        }
        if self.released {
            return Ok(());
        }
        loop {
            if self.parts.control.is_parked() {
                return Err(DriveError::Parked);
            }
            let waiting = std::mem::take(&mut self.loaded.inbox);
            let several = waiting.len() > 1;
            if let Some(item) = Box::pin(self.next_item(waiting)).await? {
                let message = matches!(item.input, Posted::Message { .. });
                let supersedes = message && self.paused.is_some();
                let driver = Box::pin(self.take_item(item)).await?;
                self.drive(driver).await?;
                if self.released {
                    return Ok(());
                }
                // A running turn takes what concerns it by itself, so what else was there may be gone. What ended a turn that
                // waited is still there.
                if several || supersedes {
                    self.read_inbox().await?;
                    continue;
                }
            }
            match Box::pin(self.release()).await {
                Ok(Released::StillPending(_)) => {
                    let (lease, now) = (self.parts.lease_ms(), self.parts.assembler.clock.now());
                    let (parts, fence) = (&self.parts, self.fence);
                    patient(ATTEMPTS, || parts.store.renew(&parts.key, fence, lease, now)).await?;
                    self.read_inbox().await?;
                }
                Ok(Released::Released) => return Ok(()),
                // All is stored, and the lease runs out by itself.
                Err(e) => {
                    tracing::warn!("a session could not be given back: {}", e.report());
                    return Ok(());
                }
            }
        }
    }

    async fn release(&self) -> Result<Released, StoreError> {
        let (parts, fence) = (&self.parts, self.fence);
        let when = match self.held.last() {
            Some(last) if self.paused.is_some() => Release::Keeping { below: last.n + 1 },
            _ => Release::WhenDrained,
        };
        patient(ATTEMPTS, || parts.store.release(&parts.key, fence, when)).await
    }

    async fn read_inbox(&mut self) -> Result<(), StoreError> {
        let parts = &self.parts;
        self.loaded.inbox = patient(ATTEMPTS, || parts.store.inbox(&parts.key)).await?;
        Ok(())
    }

    /// The turn that waits for people, with its journal.
    async fn take_paused(&mut self) -> Result<Option<TurnLog>, StoreError> {
        match self.paused.take() {
            None => Ok(None),
            Some(Paused::Log(log)) => Ok(Some(*log)),
            Some(Paused::Id(id)) => {
                let parts = &self.parts;
                patient(ATTEMPTS, || parts.store.journal(&parts.key, &id)).await.map(Some)
            }
        }
    }

    /// The input to see to next. While a turn waits for people, a message that was queued before it paused is none: it is for
    /// after the turn. Only a message written in view of the cards takes their place.
    async fn next_item(
        &mut self,
        waiting: Vec<InboxItem>,
    ) -> Result<Option<InboxItem>, DriveError> {
        self.held.clear();
        if waiting.is_empty() {
            return Ok(None);
        }
        let Some(log) = self.take_paused().await? else { return Ok(waiting.into_iter().next()) };
        let below = log.turn.queued_below;
        self.paused = Some(Paused::Log(Box::new(log)));
        let mut next = None;
        for item in waiting {
            let queued = matches!(item.input, Posted::Message { .. });
            if queued && item.n < below {
                self.held.push(item);
            } else {
                next = next.or(Some(item));
            }
        }
        Ok(next)
    }

    /// Sees to an input; gives the turn that is to run now.
    async fn take_item(&mut self, item: InboxItem) -> Result<Option<Box<Driver>>, DriveError> {
        let paused = self.take_paused().await?;
        match (item.input, paused) {
            (Posted::Message { message, options, .. }, paused) => {
                if let Some(log) = paused {
                    // Nothing dangles: what waited for a decision is settled before the new turn begins.
                    let cancel = Input::Cancel { superseded: Superseded::ByMessage };
                    let driver = Box::pin(self.resume(log, cancel, None)).await?;
                    // What was queued before comes first; this message is still in the inbox behind it.
                    if driver.is_some() || !self.held.is_empty() {
                        return Ok(driver);
                    }
                }
                let options = TurnOptions::deserialize(&*options).unwrap_or_default();
                self.open(message, options, item.n).await.map(Some)
            }
            (Posted::Stop { turn, .. }, Some(log))
                if turn.as_ref().is_none_or(|t| *t == log.turn.id) =>
            {
                let cancel = Input::Cancel { superseded: Superseded::No };
                Box::pin(self.resume(log, cancel, Some(item.n))).await
            }
            (input @ (Posted::Decision { .. } | Posted::ClientResult { .. }), Some(log)) => {
                let answer = InboxItem { n: item.n, at: item.at, input };
                let input = match self.input_of(answer, &log) {
                    Ok(input) => input,
                    Err(why) => {
                        Box::pin(self.set_aside(&log.turn.id, &why, Some(item.n))).await?;
                        return Ok(None);
                    }
                };
                match input {
                    Some(input) => Box::pin(self.resume(log, input, Some(item.n))).await,
                    None => {
                        self.paused = Some(Paused::Log(Box::new(log)));
                        Box::pin(self.consume(item.n)).await?;
                        Ok(None)
                    }
                }
            }
            (_, paused) => {
                self.paused = paused.map(|log| Paused::Log(Box::new(log)));
                Box::pin(self.consume(item.n)).await?;
                Ok(None)
            }
        }
    }

    /// What an answer is to the turn that waits; nothing, when it does not wait for it any more.
    ///
    /// # Errors
    /// Why the turn cannot be rebuilt, in words.
    fn input_of(&self, answer: InboxItem, log: &TurnLog) -> Result<Option<Input>, String> {
        self.rebuild(log).map(|(turn, _)| super::as_input(answer, turn.messages()))
    }

    /// An input that has nothing to do any more leaves the inbox.
    async fn consume(&mut self, n: u64) -> Result<(), DriveError> {
        let now = self.parts.assembler.clock.now();
        let mut commit = Commit::new(self.parts.key.clone(), self.fence, now);
        commit.consumed = vec![n];
        write(&*self.parts.store, commit).await?;
        Ok(())
    }

    async fn drive(&mut self, driver: Option<Box<Driver>>) -> Result<(), DriveError> {
        let Some(mut driver) = driver else { return Ok(()) };
        let span = trace::turn(&driver.runtime.info, driver.turn.epoch());
        let outcome = driver.run().instrument(span.clone()).await;
        self.row = Row::Stale;
        self.released = driver.released;
        self.next_seq = driver.next_seq;
        self.at = Some((driver.id.clone(), driver.turn.epoch()));
        let outcome = outcome?;
        trace::turn_ended(&span, &outcome, &driver.turn.meters().usage);
        self.at = None;
        if outcome == Outcome::Paused {
            self.paused = Some(Paused::Id(driver.id.clone()));
        } else {
            self.history.push(Message::User(driver.turn.spec().user.clone()));
            if let Some(message) = driver.turn.message() {
                self.history.push(Message::Assistant(Box::new(message.clone())));
            }
        }
        Ok(())
    }
}

/// Takes the session; `None` when another process has it. A claim of this process that is still in force is a leftover, such
/// as of a claim whose answer was lost: within a process only one owner works on a session.
async fn claim(parts: &OwnerParts) -> Result<Option<u64>, StoreError> {
    let (store, key, lease) = (&*parts.store, &parts.key, parts.lease_ms());
    let now = parts.assembler.clock.now();
    match patient(ATTEMPTS, || store.claim(key, &parts.name, lease, now)).await? {
        Claim::Held { fence, .. } => Ok(Some(fence)),
        Claim::Busy { owner, .. } if *owner == *parts.name => {
            let fence = patient(ATTEMPTS, || store.session(key)).await?.fence;
            match patient(ATTEMPTS, || store.renew(key, fence, lease, now)).await {
                Ok(()) => Ok(Some(fence)),
                Err(StoreError::Fenced { .. }) => Ok(None),
                Err(e) => Err(e),
            }
        }
        Claim::Busy { .. } => Ok(None),
    }
}

/// The reader is told why the stream ends, even where nothing can be stored.
fn tell_failure(parts: &OwnerParts, at: Option<(TurnId, u32)>, seq: u64, error: &DriveError) {
    let kind = EventKind::TurnError { error: error.as_turn_error(), usage: Box::default() };
    let (turn, epoch) = at.unwrap_or_else(|| (TurnId::from("none"), 0));
    parts.outlet.push_all(vec![Event {
        seq,
        epoch,
        at: parts.assembler.clock.now(),
        session: parts.key.id.clone(),
        turn,
        agent: "engine".into(),
        kind,
    }]);
}
