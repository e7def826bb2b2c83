//! What an engine is made of.

use super::{Engine, EngineError, Ids, Inner};
use crate::domain::Domain;
use crate::pipeline::Policy;
use crate::runtime::{Assembler, ModelSource, Models, Titles, WrapModels, WrapTools};
use crate::tool::Clock;
use crate::trace::TraceContent;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use turnbuckle_core::content::ContentLimits;
use turnbuckle_core::limits::TurnLimits;
use turnbuckle_models::Model;
use turnbuckle_store::{MemoryStore, Store};

/// How long a session stays with a process that has fallen silent.
const LEASE: Duration = Duration::from_secs(8);

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
}
