//! The engine: sessions, messages in, events out.

mod builder;
mod converse;
mod submission;
mod work;

pub use builder::EngineBuilder;
pub use submission::{Submission, Submitted};

use crate::attachments::{self, Attachment};
use crate::domain::{Domain, TurnInfo};
use crate::driver::{Control, DriveError, TurnStream};
use crate::pipeline::Allowances;
use crate::runtime::{Assembler, Choices, Runtime, RuntimeError, Storage};
use crate::session::{
    Apply, ApplyReport, Inheritance, Replayed, Review, SessionState, StoredTurn, Told, TurnOptions,
};
use crate::tool::ContextHandle;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use turnbuckle_core::content::{ContentError, ContentLimits};
use turnbuckle_core::error::ToolError;
use turnbuckle_core::event::Event;
use turnbuckle_core::ids::{AgentName, MessageId, SessionId, TenantId, TurnId, UserId};
use turnbuckle_core::json::Json;
use turnbuckle_core::machine::{Decision, MachineError, RunMode};
use turnbuckle_core::message::UserMessage;
use turnbuckle_core::model::ModelRef;
use turnbuckle_store::{NewSession, Post, Posted, Receipt, Session, SessionKey, Store, StoreError};

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
    Drive(#[from] DriveError),
    /// The message holds what cannot be taken.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// The engine was built without something it needs.
    #[error("the engine needs {0}")]
    Missing(&'static str),
}

/// Mints ids; tests replace it.
type Ids = Arc<dyn Fn() -> String + Send + Sync>;

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

impl Engine {
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
        if decision != Decision::Expire {
            self.in_time(key, card).await?;
        }
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
    /// They are done as the run would have done them: for its person, on its page, with what it had found. `by` is who decided,
    /// which is stored with each action; whether they may decide is for the caller to know.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when somebody else applies the same action at this moment; those of the store; when the
    /// session's agent cannot be assembled, or the run cannot be read any more.
    pub async fn apply_captured(
        &self,
        key: &SessionKey,
        turn: &TurnId,
        reviews: &BTreeMap<u32, Review>,
        by: UserId,
    ) -> Result<Vec<ApplyReport>, EngineError> {
        let assembler = &self.0.assembler;
        let loaded = self.0.store.load(key).await?;
        let session = loaded.session;
        let log = self.0.store.journal(key, turn).await?;
        let StoredTurn { spec, account, .. } = crate::session::stored(&log)?;
        let run = &spec.user;
        let session_model = session.model.as_deref().and_then(ModelRef::parse);
        let state = SessionState::load(loaded.state.as_deref());
        let control = Control::new();
        let info = TurnInfo {
            tenant: key.tenant.clone(),
            user: run.author.clone().unwrap_or(session.user),
            session: key.id.clone(),
            turn: turn.clone(),
            agent: session.agent,
            mode: RunMode::Interactive,
            surroundings: run.surroundings.clone(),
            at: run.at,
            account,
        };
        // To say no, nobody needs to know what the run had found.
        let told = match reviews.values().all(|review| *review == Review::Reject) {
            true => Told::default(),
            false => Told::of(spec, &log.journal).map_err(DriveError::from)?,
        };
        let models = (None, session_model.as_ref());
        let runtime = self.assemble(info, models, Storage::Session, &state, &control)?;
        let apply = Apply {
            store: &*self.0.store,
            key,
            turn,
            runtime: &runtime,
            told,
            by,
            clock: &assembler.clock,
            owner: format!("{}/{}", self.0.name, (self.0.ids)()),
            lease: self.0.lease,
        };
        apply.run(reviews).await
    }

    /// What work outside a session's owner runs with. Nothing was allowed for good there, and nothing read before.
    /// `models` are the one asked for and the one that the session keeps.
    fn assemble(
        &self,
        info: TurnInfo,
        models: (Option<&ModelRef>, Option<&ModelRef>),
        storage: Storage,
        state: &SessionState,
        control: &Arc<Control>,
    ) -> Result<Runtime, RuntimeError> {
        let assembler = &self.0.assembler;
        let (domain_turn, ambient) = assembler.open_turn(state.domain().as_ref(), &info)?;
        state.begin_turn(ambient);
        assembler.assemble(Choices {
            info,
            model: models.0,
            session_model: models.1,
            storage,
            context: ContextHandle::shared(state.context()),
            domain_turn,
            cancel: control.cancel_token(),
            progress: control.clone(),
            taints: Arc::default(),
            allowances: Allowances::None,
        })
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
