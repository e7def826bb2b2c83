//! The owner of a session: claims it, takes up what an earlier process left, works through the inbox, gives it back.

use super::SessionState;
use crate::domain::TurnInfo;
use crate::driver::{Control, Conversation, DriveError, Driver, Outlet, Writer, write};
use crate::runtime::{Assembler, Choices, Runtime};
use crate::tool::ContextHandle;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use turnbuckle_core::event::{Event, EventKind};
use turnbuckle_core::ids::TurnId;
use turnbuckle_core::machine::{Input, Output, RunMode, Superseded, Turn, TurnSpec};
use turnbuckle_core::message::{Message, UserMessage};
use turnbuckle_core::model::ModelRef;
use turnbuckle_core::outcome::{Outcome, TurnError};
use turnbuckle_core::transcript::{Rules, Transcript};
use turnbuckle_core::usage::Usage;
use turnbuckle_store::{
    Claim, Commit, InboxItem, Loaded, OpenTurn, Posted, Release, Released, SessionKey, Store, StoreError, TurnLog,
    TurnStatus,
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
    pub(crate) control: Arc<Control>,
    pub(crate) outlet: Outlet,
}

/// What the store keeps of a turn beside its journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredTurn {
    pub(crate) spec: TurnSpec,
    /// The model asked for in this turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<ModelRef>,
}

/// Choices for one turn, as they travel with its message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TurnOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<ModelRef>,
    pub(crate) mode: RunMode,
}

/// An owner at work.
pub(crate) struct Owner {
    parts: OwnerParts,
    fence: u64,
    loaded: Loaded,
    state: Arc<SessionState>,
    history: Vec<Message>,
    next_seq: u64,
    /// A turn that waits for people.
    paused: Option<TurnLog>,
}

impl Owner {
    /// Works until nothing waits, then gives the session back. Problems end the work; what is stored stays.
    pub(crate) async fn run(parts: OwnerParts) {
        let session = parts.key.id.clone();
        let outlet = parts.outlet.clone();
        let now = parts.assembler.clock.now();
        let claim = parts.store.claim(&parts.key, &parts.name, parts.lease.as_millis() as u64, now).await;
        let fence = match claim {
            Ok(Claim::Held { fence, .. }) => fence,
            Ok(Claim::Busy { owner, .. }) => {
                tracing::debug!(%session, owner, "somebody else works on the session");
                return;
            }
            Err(e) => return tell_failure(&outlet, &session, None, 0, &DriveError::Store(e), now),
        };
        let (store, key) = (parts.store.clone(), parts.key.clone());
        let name = parts.assembler.clone();
        let mut open = None;
        let mut seq = 0;
        if let Err(e) = Self::work(parts, fence, &mut open, &mut seq).await {
            tracing::error!(%session, "the session is left as it is stored: {e}");
            tell_failure(&outlet, &session, open, seq, &e, name.clock.now());
            // So that another process need not wait for the lease. If this fails too, the lease runs out.
            let _ = store.release(&key, fence, Release::HandOver).await;
        }
    }

    async fn work(
        parts: OwnerParts,
        fence: u64,
        open: &mut Option<TurnId>,
        seq: &mut u64,
    ) -> Result<(), DriveError> {
        let loaded = parts.store.load(&parts.key).await?;
        let state = Arc::new(SessionState::load(loaded.state.as_deref()));
        let active = loaded.turn.as_ref().map(|t| t.turn.id.clone());
        let history =
            loaded.messages.iter().filter(|m| Some(m.turn()) != active.as_ref()).cloned().collect();
        let next_seq = loaded.session.next_seq;
        let mut owner = Self { parts, fence, loaded, state, history, next_seq, paused: None };
        *seq = next_seq;
        if let Some(log) = owner.loaded.turn.take() {
            *open = Some(log.turn.id.clone());
            match log.turn.status {
                TurnStatus::Paused => owner.paused = Some(log),
                TurnStatus::Running => owner.take_up(log).await?,
                TurnStatus::Finished => {}
            }
        }
        loop {
            let items = std::mem::take(&mut owner.loaded.inbox);
            for item in items {
                *seq = owner.next_seq;
                owner.take_item(item, open).await?;
            }
            let now = owner.parts.assembler.clock.now();
            let released =
                owner.parts.store.release(&owner.parts.key, owner.fence, Release::WhenDrained).await?;
            match released {
                Released::Released => return Ok(()),
                Released::StillPending(_) => {
                    let lease = owner.parts.lease.as_millis() as u64;
                    owner.parts.store.renew(&owner.parts.key, owner.fence, lease, now).await?;
                    owner.loaded.inbox = owner.parts.store.inbox(&owner.parts.key).await?;
                }
            }
        }
    }

    async fn take_item(&mut self, item: InboxItem, open: &mut Option<TurnId>) -> Result<(), DriveError> {
        match item.input {
            Posted::Message { message, options, .. } => {
                if let Some(log) = self.paused.take() {
                    // Nothing dangles: what waited for a decision is settled before the new turn begins.
                    self.resume(log, Input::Cancel { superseded: Superseded::ByMessage }, None).await?;
                }
                *open = Some(message.turn.clone());
                let options = TurnOptions::deserialize(&*options).unwrap_or_default();
                self.begin(*message, options, item.n).await
            }
            Posted::Stop { turn, .. } => match self.paused.take() {
                Some(log) if turn.as_ref().is_none_or(|t| *t == log.turn.id) => {
                    self.resume(log, Input::Cancel { superseded: Superseded::No }, Some(item.n)).await
                }
                other => {
                    self.paused = other;
                    self.consume(item.n).await
                }
            },
            answer => match self.paused.take() {
                Some(log) => {
                    let (turn, _) = self.rebuild(&log)?;
                    match super::as_input(answer, turn.messages()) {
                        Some(input) => self.resume(log, input, Some(item.n)).await,
                        None => {
                            self.paused = Some(log);
                            self.consume(item.n).await
                        }
                    }
                }
                None => self.consume(item.n).await,
            },
        }
    }

    /// An input that has nothing to do any more leaves the inbox.
    async fn consume(&mut self, n: u64) -> Result<(), DriveError> {
        let now = self.parts.assembler.clock.now();
        let mut commit = Commit::new(self.parts.key.clone(), self.fence, now);
        commit.consumed = vec![n];
        write(&*self.parts.store, commit).await?;
        Ok(())
    }

    /// Opens a turn with a message.
    async fn begin(&mut self, message: UserMessage, options: TurnOptions, n: u64) -> Result<(), DriveError> {
        self.state.set_surroundings(message.surroundings.clone());
        let info = self.info(&message, options.mode);
        let runtime = self.runtime(info, options.model.as_ref(), Begin::Fresh);
        let assembler = self.parts.assembler.clone();
        let spec = assembler.spec(&runtime, message, self.state.next_capture());
        let stored = StoredTurn { spec: spec.clone(), model: options.model };
        let open = OpenTurn {
            id: spec.turn.clone(),
            spec: serde_json::to_string(&stored).map_err(|e| corrupt("turn", e))?,
        };
        let turn = Turn::new(spec)?;
        let mut driver = self.driver(turn, runtime);
        if let Some(writer) = &mut driver.writer {
            writer.open = Some(open);
            writer.consumed.push(n);
        }
        driver.feed(Input::Begin)?;
        self.drive(driver).await
    }

    /// A turn that was running when its process ended.
    async fn take_up(&mut self, log: TurnLog) -> Result<(), DriveError> {
        let (turn, runtime) = self.rebuild(&log)?;
        let mut driver = self.driver(turn, runtime);
        driver.feed(Input::Recover)?;
        self.drive(driver).await
    }

    /// A turn that waited goes on with an answer.
    async fn resume(&mut self, log: TurnLog, input: Input, n: Option<u64>) -> Result<(), DriveError> {
        let (turn, runtime) = self.rebuild(&log)?;
        let mut driver = self.driver(turn, runtime);
        driver.resumed = true;
        if let Some(writer) = &mut driver.writer {
            writer.consumed.extend(n);
        }
        if let Err(e) = driver.feed(input) {
            tracing::info!(turn = %log.turn.id, "an answer does not fit any more: {e}");
            self.paused = Some(log);
            return match n {
                Some(n) => self.consume(n).await,
                None => Ok(()),
            };
        }
        self.drive(driver).await
    }

    /// The machine of a stored turn, and what it runs with now.
    fn rebuild(&self, log: &TurnLog) -> Result<(Turn, Runtime), DriveError> {
        let stored: StoredTurn = serde_json::from_str(&log.turn.spec).map_err(|e| corrupt("turn", e))?;
        let info = self.info(&stored.spec.user, stored.spec.mode);
        // Journals are read back without their events, which are stored already.
        let turn = Turn::replay(stored.spec, &log.journal, &mut Output::default())?;
        let message = turn.message().cloned();
        let runtime = self.runtime(info, stored.model.as_ref(), Begin::Continued(message.as_ref()));
        Ok((turn, runtime))
    }

    fn info(&self, message: &UserMessage, mode: RunMode) -> TurnInfo {
        let session = &self.loaded.session;
        TurnInfo {
            tenant: session.key.tenant.clone(),
            user: message.author.clone().unwrap_or_else(|| session.user.clone()),
            session: session.key.id.clone(),
            turn: message.turn.clone(),
            agent: session.agent.clone(),
            mode,
            surroundings: self.state.surroundings(),
            at: message.at,
        }
    }

    fn runtime(&self, info: TurnInfo, model: Option<&ModelRef>, begin: Begin<'_>) -> Runtime {
        let assembler = &self.parts.assembler;
        let domain_state = self.state.domain();
        let domain_turn: Arc<dyn crate::domain::DomainTurn> =
            Arc::from(assembler.domain.open_turn(domain_state.as_ref(), &info));
        match begin {
            Begin::Fresh => self.state.begin_turn(domain_turn.ambient()),
            Begin::Continued(message) => self.state.resume_turn(domain_turn.ambient(), message),
        }
        let session_model = self.loaded.session.model.as_deref().and_then(ModelRef::parse);
        let choices = Choices {
            model,
            session_model: session_model.as_ref(),
            context: ContextHandle::shared(self.state.context()),
            domain_turn: domain_turn.clone(),
            cancel: self.parts.control.cancel_token(),
            progress: self.parts.control.clone(),
            taints: Arc::default(),
            allowances: Arc::default(),
            info: info.clone(),
        };
        match assembler.assemble(choices) {
            Ok(runtime) => runtime,
            Err(e) => Runtime::broken(info, domain_turn, &e),
        }
    }

    fn driver(&self, turn: Turn, runtime: Runtime) -> Driver {
        let history = history(&self.history, &runtime.history);
        let mut driver = Driver::new(
            self.parts.assembler.clone(),
            Arc::new(runtime),
            turn,
            Conversation::new(history, self.state.overlay()),
            self.parts.control.clone(),
            self.parts.outlet.clone(),
            self.next_seq,
        );
        let parts = &self.parts;
        driver.writer = Some(Writer::new(
            parts.store.clone(),
            parts.key.clone(),
            self.fence,
            parts.lease,
            self.state.clone(),
        ));
        driver
    }

    async fn drive(&mut self, mut driver: Driver) -> Result<(), DriveError> {
        let outcome = match driver.run().await {
            Err(DriveError::Machine(e)) => {
                // A defect must not leave a turn that fails again each time it is taken up.
                tracing::error!(turn = %driver.id, "the turn is ended because of a defect: {e}");
                let error = TurnError::Internal { message: e.to_string() };
                driver.feed(Input::Fault { error })?;
                driver.run().await
            }
            other => other,
        };
        self.next_seq = driver.next_seq;
        let outcome = outcome?;
        self.parts.control.renew_cancel();
        if outcome == Outcome::Paused {
            self.paused = Some(self.parts.store.journal(&self.parts.key, &driver.id).await?);
        } else {
            self.history.push(Message::User(driver.turn.spec().user.clone()));
            if let Some(message) = driver.turn.message() {
                self.history.push(Message::Assistant(Box::new(message.clone())));
            }
        }
        Ok(())
    }
}

/// How a turn's runtime comes to be.
enum Begin<'a> {
    Fresh,
    Continued(Option<&'a turnbuckle_core::message::AssistantMessage>),
}

/// The conversation before the turn, as models read it.
fn history(messages: &[Message], rules: &Rules) -> Transcript {
    let mut all = Transcript::default();
    for message in messages {
        all.push_message(message, rules);
    }
    all
}

fn corrupt(what: &str, cause: serde_json::Error) -> StoreError {
    StoreError::Corrupt { what: what.to_owned(), cause: Arc::new(cause) }
}

/// The reader is told why the stream ends, even where nothing can be stored.
fn tell_failure(
    outlet: &Outlet,
    session: &turnbuckle_core::ids::SessionId,
    turn: Option<TurnId>,
    seq: u64,
    error: &DriveError,
    at: turnbuckle_core::time::Timestamp,
) {
    let kind = EventKind::TurnError { error: error.as_turn_error(), usage: Usage::default() };
    outlet.push_all([Event {
        seq,
        epoch: 0,
        at,
        session: session.clone(),
        turn: turn.unwrap_or_else(|| TurnId::from("none")),
        agent: "engine".into(),
        kind,
    }]);
}
