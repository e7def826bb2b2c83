//! What every execution is given. There is one type for all tools, and no globals.

use super::clock::Clock;
use super::resources::Resources;
use std::any::type_name;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;
use turnbuckle_core::context::{ContextStore, SessionContext};
use turnbuckle_core::error::ToolError;
use turnbuckle_core::event::AgentPath;
use turnbuckle_core::ids::{AgentName, CallId, SessionId, TenantId, ToolName, TurnId, UserId};
use turnbuckle_core::json::Json;
use turnbuckle_core::model::ModelRef;
use turnbuckle_core::time::Timestamp;
use turnbuckle_core::usage::Usage;

/// Who acts, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The organisation.
    pub tenant: TenantId,
    /// The person.
    pub user: UserId,
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// The agent.
    pub agent: AgentName,
    /// The agent's path.
    pub path: AgentPath,
}

impl Identity {
    /// The one local user and an agent of its own path.
    pub fn local(
        session: impl Into<SessionId>,
        turn: impl Into<TurnId>,
        agent: impl Into<AgentName>,
    ) -> Self {
        let agent = agent.into();
        Self {
            tenant: "local".into(),
            user: "local".into(),
            session: session.into(),
            turn: turn.into(),
            path: agent.as_str().into(),
            agent,
        }
    }
}

/// What the calls of one agent in one turn have in common. The runtime makes it once; calls share it.
#[derive(Clone)]
pub struct ToolScope {
    /// Who acts, and where.
    pub identity: Identity,
    /// The record, ticket or person the turn is about.
    pub subject: Option<Json>,
    /// The context store.
    pub context: ContextHandle,
    /// The clock.
    pub clock: Clock,
    /// Fires when the turn is stopped.
    pub cancel: CancellationToken,
    /// What the domain hands to its tools.
    pub resources: Resources,
    /// Where reports of running tools go.
    pub progress: Arc<dyn ProgressSink>,
}

impl ToolScope {
    /// A scope with an empty context store, the system clock, and neither resources nor a reader of reports.
    pub fn new(identity: Identity) -> Self {
        Self {
            identity,
            subject: None,
            context: ContextHandle::new(SessionContext::new()),
            clock: Clock::system(),
            cancel: CancellationToken::new(),
            resources: Resources::new(),
            progress: Arc::new(NoProgress),
        }
    }
}

/// Where reports of running tools go. Must not block.
pub trait ProgressSink: Send + Sync {
    /// A tool reports.
    fn report(&self, call: &CallId, data: Json);
}

/// Nobody reads the reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl ProgressSink for NoProgress {
    fn report(&self, _: &CallId, _: Json) {}
}

/// The context store, shared by the calls of a turn. It is only reached in a closure, so that its lock is never held
/// over an await.
#[derive(Clone)]
pub struct ContextHandle(Arc<Mutex<dyn ContextStore>>);

impl ContextHandle {
    /// Shares a store.
    pub fn new(store: impl ContextStore + 'static) -> Self {
        Self(Arc::new(Mutex::new(store)))
    }

    /// Shares a store of which a typed handle is kept, for instance to take snapshots.
    pub fn shared<S: ContextStore + 'static>(store: Arc<Mutex<S>>) -> Self {
        Self(store)
    }

    /// Reads or writes.
    pub fn with<T>(&self, work: impl FnOnce(&mut dyn ContextStore) -> T) -> T {
        work(&mut *lock(&self.0))
    }
}

/// A panic of another holder leaves a value that is still whole: writes to stores happen whole or not at all.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A model call that a tool made on its own account.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolUsage {
    /// The model.
    pub model: ModelRef,
    /// Its tokens.
    pub usage: Usage,
    /// Its cost in millionths of a US dollar, where known.
    pub cost_micros: Option<u64>,
}

/// What one call is given. Cheap to clone; a tool may keep it for as long as it runs.
#[derive(Clone)]
pub struct ToolContext {
    scope: Arc<ToolScope>,
    call: Arc<Call>,
}

struct Call {
    id: CallId,
    tool: ToolName,
    reason: Option<String>,
    cancel: CancellationToken,
    usage: Mutex<Vec<ToolUsage>>,
}

impl ToolContext {
    /// The context of a call.
    pub fn new(
        scope: Arc<ToolScope>,
        call: CallId,
        tool: ToolName,
        reason: Option<String>,
    ) -> Self {
        let cancel = scope.cancel.child_token();
        let call = Call { id: call, tool, reason, cancel, usage: Mutex::default() };
        Self { scope, call: Arc::new(call) }
    }

    /// What the call has in common with the other calls of its agent.
    pub fn scope(&self) -> &ToolScope {
        &self.scope
    }

    /// The organisation.
    pub fn tenant(&self) -> &TenantId {
        &self.scope.identity.tenant
    }

    /// The person for whom the call is made.
    pub fn user(&self) -> &UserId {
        &self.scope.identity.user
    }

    /// The session.
    pub fn session(&self) -> &SessionId {
        &self.scope.identity.session
    }

    /// The turn.
    pub fn turn(&self) -> &TurnId {
        &self.scope.identity.turn
    }

    /// The agent that calls.
    pub fn agent(&self) -> &AgentName {
        &self.scope.identity.agent
    }

    /// The path of the agent that calls.
    pub fn agent_path(&self) -> &AgentPath {
        &self.scope.identity.path
    }

    /// The call.
    pub fn call(&self) -> &CallId {
        &self.call.id
    }

    /// The tool that is called.
    pub fn tool(&self) -> &ToolName {
        &self.call.tool
    }

    /// The key under which an outside system can recognise a repetition of this call.
    pub fn idempotency_key(&self) -> &str {
        self.call.id.idempotency_key()
    }

    /// What the person who approved the call said.
    pub fn approval_reason(&self) -> Option<&str> {
        self.call.reason.as_deref()
    }

    /// The record, ticket or person the turn is about.
    pub fn subject(&self) -> Option<&Json> {
        self.scope.subject.as_ref()
    }

    /// The context store.
    pub fn context(&self) -> &ContextHandle {
        &self.scope.context
    }

    /// The current time. Tools ask here and nowhere else, so that evals can stop the clock.
    pub fn now(&self) -> Timestamp {
        self.scope.clock.now()
    }

    /// Fires when the turn is stopped, when the time is up, and in any case once the call has ended: work that was
    /// spawned under it ends with the call.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.call.cancel
    }

    /// A resource of the domain.
    ///
    /// # Errors
    /// When the runtime was assembled without it.
    pub fn resource<T: Send + Sync + 'static>(&self) -> Result<&T, ToolError> {
        self.scope.resources.get().ok_or_else(|| {
            let name = type_name::<T>();
            ToolError::failed(format!(
                "this runtime has no `{name}`; it must be added to the resources of the domain"
            ))
        })
    }

    /// All resources of the domain.
    pub fn resources(&self) -> &Resources {
        &self.scope.resources
    }

    /// Tells people how far the call is.
    pub fn report(&self, data: impl Into<Json>) {
        self.scope.progress.report(&self.call.id, data.into());
    }

    /// Accounts for a model call that the tool made on its own.
    pub fn meter(&self, usage: ToolUsage) {
        lock(&self.call.usage).push(usage);
    }

    /// What was metered so far.
    pub(crate) fn take_usage(&self) -> Vec<ToolUsage> {
        std::mem::take(&mut lock(&self.call.usage))
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("identity", &self.scope.identity)
            .field("call", &self.call.id)
            .field("tool", &self.call.tool)
            .finish_non_exhaustive()
    }
}
