//! The engine: sessions, messages in, events out.

use crate::attachments::{self, Attachment};
use crate::domain::{Domain, DomainTurn, TurnInfo};
use crate::driver::{Control, Conversation, Driver, Outlet, TurnStream};
use crate::pipeline::{Allowances, Policy};
use crate::runtime::{
    Assembler, Choices, ModelSource, Models, RuntimeError, Storage, Titles, WrapModels, WrapTools,
};
use crate::session::{
    Apply, ApplyReport, Inheritance, Owner, OwnerParts, Replayed, Review, SessionState, TurnOptions,
};
use crate::tool::{Clock, ContextHandle};
use crate::trace::{self, TraceContent};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tracing::Instrument;
use turnbuckle_core::content::{Content, ContentError, ContentLimits, ContentPart};
use turnbuckle_core::error::ToolError;
use turnbuckle_core::event::Event;
use turnbuckle_core::ids::{AgentName, MessageId, SessionId, TenantId, TurnId, UserId};
use turnbuckle_core::json::Json;
use turnbuckle_core::limits::TurnLimits;
use turnbuckle_core::machine::{Decision, Input, MachineError, RunMode, Turn};
use turnbuckle_core::message::{Origin, Surroundings, UserMessage};
use turnbuckle_core::model::ModelRef;
use turnbuckle_core::transcript::Transcript;
use turnbuckle_models::Model;
use turnbuckle_store::{
    Delivery, MemoryStore, NewSession, Post, Posted, Receipt, Session, SessionKey, Store,
    StoreError,
};

/// How long a session stays with a process that has fallen silent.
const LEASE: Duration = Duration::from_secs(8);

/// A request the engine cannot fulfil.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The store refused or failed.
    #[error("{}", .0.report())]
    Store(#[from] StoreError),
    /// What a turn runs with cannot be assembled.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The turn's specification is not sound.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A stored turn cannot be run again.
    #[error(transparent)]
    Drive(#[from] crate::driver::DriveError),
    /// The message holds what cannot be taken.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// The engine was built without something it needs.
    #[error("the engine needs {0}")]
    Missing(&'static str),
}

/// Collects what makes an [`Engine`].
pub struct EngineBuilder {
    domain: Option<Arc<dyn Domain>>,
    models: Option<Arc<dyn ModelSource>>,
    store: Option<Arc<dyn Store>>,
    policy: Policy,
    clock: Clock,
    limits: TurnLimits,
    titles: Titles,
    wrap: Option<WrapTools>,
    wrap_models: Option<WrapModels>,
    trace_content: TraceContent,
    name: Option<Arc<str>>,
    lease: Duration,
    content: ContentLimits,
    ids: Ids,
}

/// Mints ids; tests replace it.
type Ids = Arc<dyn Fn() -> String + Send + Sync>;

impl EngineBuilder {
    /// The product's agents.
    #[must_use]
    pub fn domain(mut self, domain: impl Domain + 'static) -> Self {
        self.domain = Some(Arc::new(domain));
        self
    }

    /// As [`domain`](Self::domain), for one that is shared.
    #[must_use]
    pub fn shared_domain(mut self, domain: Arc<dyn Domain>) -> Self {
        self.domain = Some(domain);
        self
    }

    /// A single agent.
    #[must_use]
    pub fn agent(self, agent: crate::Agent) -> Self {
        self.domain(crate::Agents::new([agent]))
    }

    /// The one model.
    #[must_use]
    pub fn model(mut self, model: impl Model + 'static) -> Self {
        self.models = Some(Arc::new(Models::new(Arc::new(model))));
        self
    }

    /// Where models are found by name.
    #[must_use]
    pub fn models(mut self, models: impl ModelSource + 'static) -> Self {
        self.models = Some(Arc::new(models));
        self
    }

    /// Where sessions are kept; in memory otherwise.
    #[must_use]
    pub fn store(mut self, store: impl Store) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// As [`store`](Self::store), for one that is shared.
    #[must_use]
    pub fn shared_store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// The workspace's rules about tool calls.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The clock.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// The limits of a turn.
    #[must_use]
    pub fn limits(mut self, limits: TurnLimits) -> Self {
        self.limits = limits;
        self
    }

    /// How sessions get their titles, where their agent does not say.
    #[must_use]
    pub fn titles(mut self, titles: Titles) -> Self {
        self.titles = titles;
        self
    }

    /// What a message may hold.
    #[must_use]
    pub fn content_limits(mut self, content: ContentLimits) -> Self {
        self.content = content;
        self
    }

    /// Puts something between turns and their models, such as a quota.
    #[must_use]
    pub fn wrap_models(mut self, wrap: WrapModels) -> Self {
        self.wrap_models = Some(wrap);
        self
    }

    /// Whether spans hold what people, models and tools say; they do not otherwise.
    #[must_use]
    pub fn trace_content(mut self, content: TraceContent) -> Self {
        self.trace_content = content;
        self
    }

    /// Replaces what tools do, for evals.
    #[must_use]
    pub fn wrap_tools(mut self, wrap: WrapTools) -> Self {
        self.wrap = Some(wrap);
        self
    }

    /// The name under which this process holds sessions; a fresh one otherwise. A name that stays the same over restarts lets the
    /// process take up at once what an earlier run of it left behind. No two processes that run at once may share a name.
    #[must_use]
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How long a session stays with a process that has fallen silent.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Mints ids; for tests that need the same ones each time.
    #[must_use]
    pub fn ids(mut self, mint: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.ids = Arc::new(mint);
        self
    }

    /// The engine.
    ///
    /// # Errors
    /// When the agents or the model are missing, or a tool's contract is not sound.
    pub fn build(self) -> Result<Engine, EngineError> {
        let domain =
            self.domain.ok_or(EngineError::Missing("an agent: call `agent` or `domain`"))?;
        let models =
            self.models.ok_or(EngineError::Missing("a model: call `model` or `models`"))?;
        let mut assembler =
            Assembler::new(domain, models, self.policy, self.clock, self.limits, self.wrap)?;
        let store = self.store.unwrap_or_else(|| Arc::new(MemoryStore::new()));
        assembler.keep_outputs(store.clone())?;
        assembler.set_titles(self.titles);
        assembler.wrap_models(self.wrap_models);
        assembler.trace_content = self.trace_content;
        let name = self.name.unwrap_or_else(|| (self.ids)().into());
        Ok(Engine(Arc::new(Inner {
            assembler: Arc::new(assembler),
            store,
            name,
            lease: self.lease,
            content: self.content,
            ids: self.ids,
            running: Mutex::default(),
        })))
    }
}

/// Drives turns. Cheap to clone.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    assembler: Arc<Assembler>,
    store: Arc<dyn Store>,
    name: Arc<str>,
    lease: Duration,
    content: ContentLimits,
    ids: Ids,
    running: Mutex<BTreeMap<SessionKey, Weak<Control>>>,
}

/// A message to an agent.
#[derive(Clone, Debug)]
pub struct Submission {
    /// What it says.
    pub content: Content,
    /// Who wrote it.
    pub author: Option<UserId>,
    /// Whether a person wrote it.
    pub origin: Origin,
    /// Where it was written.
    pub surroundings: Surroundings,
    /// The model for this turn.
    pub model: Option<ModelRef>,
    /// Whether a person is there.
    pub mode: RunMode,
    /// Whether it may enter a running turn.
    pub delivery: Delivery,
    /// Submitting twice under one key starts one turn.
    pub idempotency_key: Option<String>,
    /// What the turn's model calls are booked to beside the person, such as the id of an API key.
    pub account: Option<Arc<str>>,
    /// The id under which the front end that sends it knows it.
    pub client_id: Option<String>,
}

impl Submission {
    /// A person's message.
    pub fn new(content: impl Into<Content>) -> Self {
        Self {
            content: content.into(),
            author: None,
            origin: Origin::Person,
            surroundings: Surroundings::default(),
            model: None,
            mode: RunMode::Interactive,
            delivery: Delivery::Queue,
            idempotency_key: None,
            account: None,
            client_id: None,
        }
    }

    /// Without a person: what needs approval is captured for review.
    #[must_use]
    pub fn captured(mut self) -> Self {
        self.mode = RunMode::Capture;
        self
    }

    /// With an image or file, after what it says so far.
    #[must_use]
    pub fn attach(mut self, part: ContentPart) -> Self {
        self.content = self.content.with(part);
        self
    }

    /// The model for this turn.
    #[must_use]
    pub fn model(mut self, model: ModelRef) -> Self {
        self.model = Some(model);
        self
    }

    /// May enter a running turn at its next step.
    #[must_use]
    pub fn steering(mut self) -> Self {
        self.delivery = Delivery::Steer;
        self
    }
}

impl From<&str> for Submission {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

/// What became of something posted to a session.
pub enum Submitted {
    /// The events of what it set in motion, from here on.
    Running(TurnStream),
    /// The session is at work here already; its own stream goes on with it.
    Queued,
}

impl Submitted {
    /// The stream; `None` when another one carries on.
    pub fn stream(self) -> Option<TurnStream> {
        match self {
            Submitted::Running(stream) => Some(stream),
            Submitted::Queued => None,
        }
    }
}

impl Engine {
    /// Begins an engine.
    pub fn builder() -> EngineBuilder {
        EngineBuilder {
            domain: None,
            models: None,
            store: None,
            policy: Policy::default(),
            clock: Clock::system(),
            limits: TurnLimits::default(),
            titles: Titles::default(),
            wrap_models: None,
            trace_content: TraceContent::default(),
            wrap: None,
            name: None,
            lease: LEASE,
            content: ContentLimits::default(),
            ids: Arc::new(|| uuid::Uuid::now_v7().simple().to_string()),
        }
    }

    /// Where sessions are kept.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    /// The domain.
    pub fn domain(&self) -> &Arc<dyn Domain> {
        &self.0.assembler.domain
    }

    /// The one builder of runtimes.
    pub fn assembler(&self) -> &Arc<Assembler> {
        &self.0.assembler
    }

    /// Now, by the engine's clock.
    pub fn now(&self) -> turnbuckle_core::time::Timestamp {
        self.0.assembler.clock.now()
    }

    /// Takes back what an earlier run of this process, by its name, still holds.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn forfeit(&self) -> Result<u64, EngineError> {
        Ok(self.0.store.forfeit(&self.0.name).await?)
    }

    /// Creates a session that talks to `agent`.
    ///
    /// # Errors
    /// When there is no such agent, and those of the store.
    pub async fn create_session(
        &self,
        tenant: impl Into<TenantId>,
        user: impl Into<UserId>,
        agent: impl Into<AgentName>,
    ) -> Result<Session, EngineError> {
        let agent = agent.into();
        if !self.0.assembler.domain.agents().contains_key(&agent) {
            return Err(RuntimeError::NoAgent(agent).into());
        }
        let key = SessionKey::new(tenant.into(), SessionId::from(format!("s_{}", (self.0.ids)())));
        let now = self.0.assembler.clock.now();
        let new = NewSession {
            key,
            user: user.into(),
            agent,
            title: None,
            model: None,
            state: None,
            now,
        };
        Ok(self.0.store.create_session(new).await?)
    }

    /// Sends a message and gives the events that follow.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn submit(
        &self,
        key: &SessionKey,
        submission: impl Into<Submission>,
    ) -> Result<Submitted, EngineError> {
        self.post_message(key, submission.into()).await?;
        Ok(self.work(key))
    }

    /// Sends a message without working on it; whoever owns the session does.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn post_message(
        &self,
        key: &SessionKey,
        mut s: Submission,
    ) -> Result<Receipt, EngineError> {
        let idempotency_key = s.idempotency_key.take();
        let input = self.compose(key, s).await?;
        self.post(key, input, idempotency_key).await
    }

    /// What is posted for a message. What is attached to it is stored already.
    ///
    /// # Errors
    /// When it holds what cannot be taken; those of the store.
    pub async fn compose(&self, key: &SessionKey, s: Submission) -> Result<Posted, EngineError> {
        let content = attachments::keep(&*self.0.store, key, s.content, &self.0.content).await?;
        let turn = TurnId::from(format!("t_{}", (self.0.ids)()));
        let now = self.0.assembler.clock.now();
        let message = UserMessage {
            id: turn.user_message(),
            turn,
            at: now,
            content,
            author: s.author,
            origin: s.origin,
            surroundings: s.surroundings,
            client_id: s.client_id,
        };
        let options = TurnOptions { model: s.model, mode: s.mode, account: s.account };
        Ok(Posted::Message {
            delivery: s.delivery,
            message: Box::new(message),
            options: serde_json::to_value(options).unwrap_or_default().into(),
        })
    }

    /// What was attached to a message of a session, by the id under which the message refers to it.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn attachment(&self, key: &SessionKey, id: &str) -> Result<Attachment, EngineError> {
        Ok(attachments::read(&*self.0.store, key, id).await?)
    }

    async fn post(
        &self,
        key: &SessionKey,
        input: Posted,
        idempotency_key: Option<String>,
    ) -> Result<Receipt, EngineError> {
        let now = self.0.assembler.clock.now();
        let receipt =
            self.0.store.post(Post { key: key.clone(), idempotency_key, input, now }).await?;
        self.knock(key);
        Ok(receipt)
    }

    /// Decides about a card and gives the events that follow.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when it was decided already or its time is up, and the store's other errors.
    pub async fn decide(
        &self,
        key: &SessionKey,
        card: &MessageId,
        decision: Decision,
        by: Option<UserId>,
    ) -> Result<Submitted, EngineError> {
        self.in_time(key, card).await?;
        self.post(key, Posted::Decision { card: card.clone(), decision, by }, None).await?;
        Ok(self.work(key))
    }

    /// Gives the result of a tool that ran in the caller's front end.
    ///
    /// # Errors
    /// As [`Engine::decide`].
    pub async fn client_result(
        &self,
        key: &SessionKey,
        card: &MessageId,
        result: Result<Json, ToolError>,
        by: Option<UserId>,
    ) -> Result<Submitted, EngineError> {
        self.in_time(key, card).await?;
        self.post(key, Posted::ClientResult { card: card.clone(), result, by }, None).await?;
        Ok(self.work(key))
    }

    /// A late answer is refused here, where somebody is told. Whatever gets past is taken for what it is by the session's owner.
    async fn in_time(&self, key: &SessionKey, card: &MessageId) -> Result<(), StoreError> {
        let card = self.0.store.card(&key.tenant, card).await?;
        Ok(card.in_time(self.0.assembler.clock.now())?)
    }

    /// Stops the session's turn, wherever it runs.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn stop(
        &self,
        key: &SessionKey,
        by: Option<UserId>,
    ) -> Result<Submitted, EngineError> {
        self.post(key, Posted::Stop { turn: None, by }, None).await?;
        Ok(self.work(key))
    }

    /// Tells the owner of a session, when it is at work in this process, that something was posted; whether it is.
    pub fn knock(&self, key: &SessionKey) -> bool {
        let running = self.running(key);
        if let Some(control) = &running {
            control.knock();
        }
        running.is_some()
    }

    /// Works through what waits in a session, an unfinished turn of an ended process first.
    pub fn work(&self, key: &SessionKey) -> Submitted {
        let control = {
            let mut running = self.0.running.lock().unwrap_or_else(PoisonError::into_inner);
            if running.get(key).and_then(Weak::upgrade).is_some() {
                return Submitted::Queued;
            }
            let control = Control::new();
            running.insert(key.clone(), Arc::downgrade(&control));
            control
        };
        let outlet = Outlet::default();
        let parts = OwnerParts {
            assembler: self.0.assembler.clone(),
            store: self.0.store.clone(),
            key: key.clone(),
            name: self.0.name.clone(),
            lease: self.0.lease,
            media_limit: self.0.content.max_request_bytes,
            control: control.clone(),
            outlet: outlet.clone(),
        };
        let leave = Leave { engine: self.clone(), key: key.clone() };
        let again = control.clone();
        let drive = Box::pin(async move {
            loop {
                Owner::run(parts.clone()).await;
                // Whoever posted before this line knocked; whoever posts after it finds nobody at work and comes itself.
                leave.step_out();
                if again.is_parked() || !again.take_knock() || !leave.step_in(&again) {
                    break;
                }
            }
        });
        Submitted::Running(TurnStream::new(outlet, control, drive))
    }

    /// Captured actions of a session, or of one turn of it.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn captured(
        &self,
        key: &SessionKey,
        turn: Option<&TurnId>,
    ) -> Result<Vec<turnbuckle_store::Captured>, EngineError> {
        Ok(self.0.store.captured(key, turn).await?)
    }

    /// Applies reviewed actions of a captured run, in order of dependency. Applying twice does nothing. What was done before an
    /// error is stored and stays done.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when somebody else applies the same action at this moment; those of the store; when the
    /// session's agent cannot be assembled.
    pub async fn apply_captured(
        &self,
        key: &SessionKey,
        turn: &TurnId,
        reviews: &BTreeMap<u32, Review>,
        by: UserId,
    ) -> Result<Vec<ApplyReport>, EngineError> {
        let assembler = &self.0.assembler;
        let session = self.0.store.session(key).await?;
        let session_model = session.model.as_deref().and_then(ModelRef::parse);
        let loaded = self.0.store.load(key).await?;
        let state = SessionState::load(loaded.state.as_deref());
        let control = Control::new();
        let info = TurnInfo {
            tenant: key.tenant.clone(),
            user: by,
            session: key.id.clone(),
            turn: turn.clone(),
            agent: session.agent,
            mode: RunMode::Interactive,
            surroundings: state.surroundings(),
            at: assembler.clock.now(),
            account: None,
        };
        let domain_turn: Arc<dyn DomainTurn> =
            Arc::from(assembler.domain.open_turn(state.domain().as_ref(), &info));
        state.begin_turn(domain_turn.ambient());
        let runtime = assembler.assemble(Choices {
            info,
            model: None,
            session_model: session_model.as_ref(),
            storage: Storage::Session,
            context: ContextHandle::shared(state.context()),
            domain_turn,
            cancel: control.cancel_token(),
            progress: control.clone(),
            taints: Arc::default(),
            allowances: Allowances::None,
        })?;
        let apply = Apply {
            store: &*self.0.store,
            key,
            turn,
            runtime: &runtime,
            clock: &assembler.clock,
            owner: format!("{}/{}", self.0.name, (self.0.ids)()),
            lease: self.0.lease,
        };
        apply.run(reviews).await
    }

    /// Runs a stored turn again from its journal, without model or tools.
    ///
    /// # Errors
    /// Those of the store, and when the journal does not fit the stored specification.
    pub async fn replay(&self, key: &SessionKey, turn: &TurnId) -> Result<Replayed, EngineError> {
        let log = self.0.store.journal(key, turn).await?;
        Ok(crate::session::replay(key, &log)?)
    }

    /// What a turn that follows from a stored one takes over from it.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn inheritance(
        &self,
        key: &SessionKey,
        turn: &TurnId,
    ) -> Result<Inheritance, EngineError> {
        let log = self.0.store.journal(key, turn).await?;
        Ok(crate::session::inheritance(&log)?)
    }

    fn running(&self, key: &SessionKey) -> Option<Arc<Control>> {
        self.0
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(key)
            .and_then(Weak::upgrade)
    }

    /// Runs one turn without a session: nothing is stored, and a pause is its end.
    ///
    /// # Errors
    /// When the agent or its model is not there.
    pub fn converse(
        &self,
        agent: impl Into<AgentName>,
        history: Transcript,
        submission: impl Into<Submission>,
    ) -> Result<TurnStream, EngineError> {
        let mut s = submission.into();
        self.0.content.check(&s.content)?;
        if let Content::Parts(parts) = s.content {
            let parts = parts.into_iter().map(attachments::measured).collect();
            s.content = Content::from_parts(parts);
        }
        let assembler = self.0.assembler.clone();
        let turn = TurnId::from(format!("t_{}", (self.0.ids)()));
        let now = assembler.clock.now();
        let info = TurnInfo {
            tenant: "local".into(),
            user: s.author.clone().unwrap_or_else(|| "local".into()),
            session: SessionId::from("none"),
            turn: turn.clone(),
            agent: agent.into(),
            mode: s.mode,
            surroundings: s.surroundings.clone(),
            at: now,
            account: s.account.clone(),
        };
        let control = Control::new();
        let state = SessionState::load(None);
        let domain_turn: Arc<dyn DomainTurn> = Arc::from(assembler.domain.open_turn(None, &info));
        state.begin_turn(domain_turn.ambient());
        let runtime = assembler.assemble(Choices {
            info,
            model: s.model.as_ref(),
            session_model: None,
            storage: Storage::None,
            context: ContextHandle::shared(state.context()),
            domain_turn,
            cancel: control.cancel_token(),
            progress: control.clone(),
            taints: Arc::default(),
            allowances: Allowances::None,
        })?;
        let message = UserMessage {
            id: turn.user_message(),
            turn,
            at: now,
            content: s.content,
            author: s.author,
            origin: s.origin,
            surroundings: s.surroundings,
            client_id: s.client_id,
        };
        let machine = Turn::new(assembler.spec(&runtime, message, 0))?;
        let outlet = Outlet::default();
        let conversation = Conversation::new(history, None);
        let mut driver = Driver::new(
            assembler,
            Arc::new(runtime),
            machine,
            conversation,
            control.clone(),
            outlet.clone(),
            1,
        );
        driver.feed(Input::Begin)?;
        let drive = Box::pin(async move {
            let span = trace::turn(&driver.runtime.info, driver.turn.epoch());
            match driver.run().instrument(span.clone()).await {
                Ok(outcome) => trace::turn_ended(&span, &outcome, &driver.turn.meters().usage),
                Err(e) => tracing::error!("a turn without a session ended with a defect: {e}"),
            }
        });
        Ok(TurnStream::new(outlet, control, drive))
    }
}

/// Forgets a session as running when its owner is done, however it ends.
struct Leave {
    engine: Engine,
    key: SessionKey,
}

impl Leave {
    fn step_out(&self) {
        self.engine.0.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }

    /// Takes the place again, unless somebody else has.
    fn step_in(&self, control: &Arc<Control>) -> bool {
        let mut running = self.engine.0.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.get(&self.key).and_then(Weak::upgrade).is_some() {
            return false;
        }
        running.insert(self.key.clone(), Arc::downgrade(control));
        true
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        // A stream that is dropped while it waits; a successor of ours must not be thrown out.
        let mut running = self.engine.0.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.get(&self.key).is_some_and(|control| control.strong_count() == 0) {
            running.remove(&self.key);
        }
    }
}

/// Reads a stream to its end.
///
/// # Errors
/// Never; the events say how the turn ended.
pub async fn drain(mut stream: TurnStream) -> Vec<Event> {
    use futures_util::StreamExt;
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(event);
    }
    events
}
