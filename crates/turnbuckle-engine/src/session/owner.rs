//! The owner of a session: claims it, takes up what an earlier process left, works through the inbox, gives it back.

use super::SessionState;
use crate::domain::TurnInfo;
use crate::driver::{Control, Conversation, DriveError, Driver, Outlet, Writer, patient, write};
use crate::pipeline::Taints;
use crate::runtime::{Assembler, Choices, Runtime, RuntimeError};
use crate::tool::ContextHandle;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use turnbuckle_core::event::{Event, EventKind};
use turnbuckle_core::ids::TurnId;
use turnbuckle_core::machine::{Input, Output, RunMode, Superseded, Turn, TurnSpec};
use turnbuckle_core::message::{AssistantMessage, Message, UserMessage};
use turnbuckle_core::model::ModelRef;
use turnbuckle_core::outcome::{Outcome, TurnError};
use turnbuckle_core::part::ToolCallStatus;
use turnbuckle_core::transcript::{Rules, Transcript};
use turnbuckle_core::usage::Usage;
use turnbuckle_store::{
    Claim, Commit, InboxItem, Loaded, OpenTurn, Posted, Release, Released, SessionKey, Store,
    StoreError, TurnLog, TurnStatus,
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
}

/// Choices for one turn, as they travel with its message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TurnOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<ModelRef>,
    pub(crate) mode: RunMode,
}

/// How often the store is asked again, for what can wait for another time.
const ATTEMPTS: u32 = 5;

/// An owner at work.
pub(crate) struct Owner {
    parts: OwnerParts,
    fence: u64,
    loaded: Loaded,
    state: Arc<SessionState>,
    history: Vec<Message>,
    next_seq: u64,
    /// A turn that waits for people.
    paused: Option<Paused>,
    /// The turn at work, and how often it was taken up.
    at: Option<(TurnId, u32)>,
}

/// A turn that waits for people.
enum Paused {
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
        let (place, error) = match Self::load(parts.clone(), fence).await {
            Ok(mut owner) => match owner.work().await {
                Ok(()) => return,
                Err(e) => ((owner.at.take(), owner.next_seq), e),
            },
            Err(e) => ((None, 0), DriveError::Store(e)),
        };
        tracing::error!(%session, "the session is left as it is stored: {error}");
        tell_failure(&parts, place.0, place.1, &error);
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
        Ok(Self { parts, fence, loaded, state, history, next_seq, paused: None, at: None })
    }

    async fn work(&mut self) -> Result<(), DriveError> {
        if let Some(log) = self.loaded.turn.take() {
            match log.turn.status {
                TurnStatus::Paused => self.paused = Some(Paused::Log(Box::new(log))),
                TurnStatus::Running => {
                    self.take_up(log).await?;
                    self.read_inbox().await?;
                }
                TurnStatus::Finished => {}
            }
        }
        loop {
            let mut items = std::mem::take(&mut self.loaded.inbox).into_iter();
            if let Some(item) = items.next() {
                self.take_item(item).await?;
                // A running turn takes what concerns it by itself, so what else was there may be gone.
                if items.len() > 0 {
                    self.read_inbox().await?;
                    continue;
                }
            }
            match self.release().await {
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
        patient(ATTEMPTS, || parts.store.release(&parts.key, fence, Release::WhenDrained)).await
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

    async fn take_item(&mut self, item: InboxItem) -> Result<(), DriveError> {
        let paused = self.take_paused().await?;
        match (item.input, paused) {
            (Posted::Message { message, options, .. }, paused) => {
                if let Some(log) = paused {
                    // Nothing dangles: what waited for a decision is settled before the new turn begins.
                    self.resume(log, Input::Cancel { superseded: Superseded::ByMessage }, None)
                        .await?;
                }
                let options = TurnOptions::deserialize(&*options).unwrap_or_default();
                self.begin(*message, options, item.n).await
            }
            (Posted::Stop { turn, .. }, Some(log))
                if turn.as_ref().is_none_or(|t| *t == log.turn.id) =>
            {
                self.resume(log, Input::Cancel { superseded: Superseded::No }, Some(item.n)).await
            }
            (answer @ (Posted::Decision { .. } | Posted::ClientResult { .. }), Some(log)) => {
                let (turn, _) = self.rebuild(&log)?;
                match super::as_input(answer, turn.messages()) {
                    Some(input) => self.resume(log, input, Some(item.n)).await,
                    None => {
                        self.paused = Some(Paused::Log(Box::new(log)));
                        self.consume(item.n).await
                    }
                }
            }
            (_, paused) => {
                self.paused = paused.map(|log| Paused::Log(Box::new(log)));
                self.consume(item.n).await
            }
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
    async fn begin(
        &mut self,
        message: UserMessage,
        options: TurnOptions,
        n: u64,
    ) -> Result<(), DriveError> {
        self.parts.control.next_turn();
        self.state.set_surroundings(message.surroundings.clone());
        let info = self.info(&message, options.mode);
        let mut runtime = self.runtime(info, options.model.as_ref(), Begin::Fresh);
        let assembler = self.parts.assembler.clone();
        let first_capture = self.state.next_capture();
        let mut spec = assembler.spec(&runtime, message.clone(), first_capture);
        let turn = match Turn::new(spec.clone()) {
            Ok(turn) => turn,
            // Whoever wrote the message is told in its turn; else it would stay in the inbox and fail for ever.
            Err(unsound) => {
                let (info, domain_turn) = (runtime.info.clone(), runtime.domain_turn.clone());
                runtime = Runtime::broken(info, domain_turn, &RuntimeError::Spec(unsound));
                spec = assembler.spec(&runtime, message, first_capture);
                Turn::new(spec.clone())?
            }
        };
        let open = spec.turn.clone();
        let stored = StoredTurn { spec, model: options.model };
        let open = OpenTurn {
            id: open,
            spec: serde_json::to_string(&stored).map_err(|e| corrupt("turn", e))?,
        };
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
        self.parts.control.next_turn();
        let (turn, runtime) = self.rebuild(&log)?;
        let mut driver = self.driver(turn, runtime);
        driver.recall_steering(&self.loaded.inbox);
        driver.feed(Input::Recover)?;
        self.drive(driver).await
    }

    /// A turn that waited goes on with an answer.
    async fn resume(
        &mut self,
        log: TurnLog,
        input: Input,
        n: Option<u64>,
    ) -> Result<(), DriveError> {
        self.parts.control.next_turn();
        let (turn, runtime) = self.rebuild(&log)?;
        let mut driver = self.driver(turn, runtime);
        driver.resumed = true;
        if let Some(writer) = &mut driver.writer {
            writer.consumed.extend(n);
        }
        if let Err(e) = driver.feed(input) {
            tracing::info!(turn = %log.turn.id, "an answer does not fit any more: {e}");
            self.paused = Some(Paused::Log(Box::new(log)));
            return match n {
                Some(n) => self.consume(n).await,
                None => Ok(()),
            };
        }
        self.drive(driver).await
    }

    /// The machine of a stored turn, and what it runs with now.
    fn rebuild(&self, log: &TurnLog) -> Result<(Turn, Runtime), DriveError> {
        let stored: StoredTurn =
            serde_json::from_str(&log.turn.spec).map_err(|e| corrupt("turn", e))?;
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
        let taints: Arc<Taints> = Arc::default();
        let choices = Choices {
            model,
            session_model: session_model.as_ref(),
            context: ContextHandle::shared(self.state.context()),
            domain_turn: domain_turn.clone(),
            cancel: self.parts.control.cancel_token(),
            progress: self.parts.control.clone(),
            taints: taints.clone(),
            allowances: Arc::default(),
            info: info.clone(),
        };
        match assembler.assemble(choices) {
            Ok(runtime) => {
                if let Begin::Continued(Some(message)) = begin {
                    taint(&runtime, &taints, message);
                }
                runtime
            }
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
                match driver.feed(Input::Fault { error }) {
                    Ok(()) => driver.run().await,
                    Err(e) => Err(e.into()),
                }
            }
            other => other,
        };
        self.next_seq = driver.next_seq;
        self.at = Some((driver.id.clone(), driver.turn.epoch()));
        let outcome = outcome?;
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

/// What the turn read before it paused still counts for the workspace's rules.
fn taint(runtime: &Runtime, taints: &Taints, message: &AssistantMessage) {
    for call in message.calls() {
        if call.status == ToolCallStatus::Completed {
            let entries =
                runtime.agents.values().filter_map(|a| a.env.toolbox.get(call.name.as_str()));
            entries.for_each(|entry| taints.add(&entry.tool().contract().taints));
        }
        if let Some(child) = &call.child {
            taint(runtime, taints, child);
        }
    }
}

/// How a turn's runtime comes to be.
#[derive(Clone, Copy)]
enum Begin<'a> {
    Fresh,
    Continued(Option<&'a AssistantMessage>),
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
fn tell_failure(parts: &OwnerParts, at: Option<(TurnId, u32)>, seq: u64, error: &DriveError) {
    let kind = EventKind::TurnError { error: error.as_turn_error(), usage: Usage::default() };
    let (turn, epoch) = at.unwrap_or_else(|| (TurnId::from("none"), 0));
    parts.outlet.push_all([Event {
        seq,
        epoch,
        at: parts.assembler.clock.now(),
        session: parts.key.id.clone(),
        turn,
        agent: "engine".into(),
        kind,
    }]);
}
