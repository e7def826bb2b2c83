//! The one place that assembles what a turn runs with: agents, models, tools, prompts. Chat, captured runs, evals and workflow
//! nodes all come through here, so that what passes in one holds in the others.

mod assemble;
mod models;
mod titles;

pub use models::{ModelSource, Models, Replaced};
pub use titles::Titles;

use crate::agent::Agent;
use crate::domain::{Domain, DomainTurn, TurnInfo};
use crate::kept;
use crate::pipeline::{Allowances, PipelineEnv, Policy, Taints};
use crate::tool::eventual::Panic;
use crate::tool::toolbox::Offer;
use crate::tool::{
    Clock, ContextHandle, FnTool, RegisteredTool, Resources, Tool, ToolScope, Toolbox,
};
use crate::trace::TraceContent;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;
use turnbuckle_core::ids::{AgentName, ToolName};
use turnbuckle_core::limits::TurnLimits;
use turnbuckle_core::machine::Routes;
use turnbuckle_core::model::{ModelRef, SystemBlock, ToolSet};
use turnbuckle_core::tool::ToolSpec;
use turnbuckle_core::transcript::Rules;
use turnbuckle_models::alarm::Alarms;
use turnbuckle_models::{Model, TokenMeter};
use turnbuckle_store::Store;

/// Replaces what tools do, for evals. The wrapped tool keeps its contract.
pub type WrapTools = Arc<dyn Fn(Arc<dyn Tool>) -> Arc<dyn Tool> + Send + Sync>;

/// Puts something between a turn and its models, such as a quota: every call of a turn goes through what it returns.
pub type WrapModels = Arc<dyn Fn(&TurnInfo, Arc<dyn Model>) -> Arc<dyn Model> + Send + Sync>;

/// A runtime that cannot be assembled.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// No agent of that name.
    #[error("there is no agent `{0}`")]
    NoAgent(AgentName),
    /// A model cannot be had.
    #[error(transparent)]
    Model(#[from] turnbuckle_core::error::ModelError),
    /// The domain's routes and agents do not fit together.
    #[error(transparent)]
    Spec(turnbuckle_core::machine::MachineError),
    /// A tool's contract is not sound.
    #[error(transparent)]
    Tool(#[from] crate::tool::ToolboxError),
    /// The product's own code for it, such as a domain or a section of a prompt, failed.
    #[error("the product's own code failed when the turn was prepared: {0}")]
    Panicked(String),
}

impl From<Panic> for RuntimeError {
    fn from(panic: Panic) -> Self {
        Self::Panicked(panic.0)
    }
}

/// What does not change between turns.
pub struct Assembler {
    pub(crate) domain: Arc<dyn Domain>,
    pub(crate) models: Arc<dyn ModelSource>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) clock: Clock,
    pub(crate) limits: TurnLimits,
    titles: Titles,
    resources: Resources,
    wrap: Option<WrapTools>,
    wrap_models: Option<WrapModels>,
    pub(crate) trace_content: TraceContent,
    tools: BTreeMap<AgentName, OwnTools>,
    /// Reads back what the store keeps; absent where nothing is stored.
    reader: Option<Arc<RegisteredTool>>,
    /// Tools of pages and the like, registered when a turn first had them.
    extra: Mutex<Vec<Arc<RegisteredTool>>>,
    sets: Mutex<Vec<Arc<ToolSet>>>,
    meters: Mutex<BTreeMap<String, Arc<TokenMeter>>>,
    pub(crate) alarms: Arc<Alarms>,
}

/// How many tool sets are kept with their rendered bytes.
const KEPT_SETS: usize = 64;
/// How many tools that are not an agent's own are kept with their compiled schemas.
const KEPT_TOOLS: usize = 1024;

/// An agent's own tools, as it has them when nothing of the turn changes that.
struct OwnTools {
    registered: Vec<Arc<RegisteredTool>>,
    bare: Ready,
    /// With the tool that reads kept outputs, for sessions; absent for agents without tools.
    reading: Option<Ready>,
}

/// Tools with what the model is offered of them.
struct Ready {
    toolbox: Arc<Toolbox>,
    set: Arc<ToolSet>,
}

impl Ready {
    fn new(toolbox: Toolbox) -> Self {
        let specs = toolbox.entries().iter().map(|entry| entry.spec.clone()).collect();
        Self { toolbox: Arc::new(toolbox), set: Arc::new(ToolSet::new(specs)) }
    }
}

impl OwnTools {
    fn ready(&self, storage: Storage) -> &Ready {
        match storage {
            Storage::Session => self.reading.as_ref().unwrap_or(&self.bare),
            Storage::None => &self.bare,
        }
    }
}

/// Whether what a turn does is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// In its session; agents can read back outputs that were too long to show.
    Session,
    /// It is not.
    None,
}

/// What is chosen for one turn.
pub struct Choices<'a> {
    /// Who, where, when.
    pub info: TurnInfo,
    /// The model asked for in this turn.
    pub model: Option<&'a ModelRef>,
    /// The model the session keeps.
    pub session_model: Option<&'a ModelRef>,
    /// Whether the turn is stored.
    pub storage: Storage,
    /// The context store.
    pub context: ContextHandle,
    /// The domain's part.
    pub domain_turn: Arc<dyn DomainTurn>,
    /// Fires when the turn is stopped.
    pub cancel: CancellationToken,
    /// Where tools report.
    pub progress: Arc<dyn crate::tool::ProgressSink>,
    /// Where data of the turn came from.
    pub taints: Arc<Taints>,
    /// What people said to be always allowed.
    pub allowances: Allowances,
}

/// What one agent runs with in one turn.
pub struct AgentRuntime {
    /// The agent.
    pub agent: Arc<Agent>,
    /// The model.
    pub model: Arc<dyn Model>,
    /// The system prompt.
    pub system: Vec<SystemBlock>,
    /// The tools on offer.
    pub offered: Arc<ToolSet>,
    /// What its calls run with.
    pub env: PipelineEnv,
}

/// What a turn runs with.
pub struct Runtime {
    /// Who, where, when.
    pub info: TurnInfo,
    /// Every agent that may run.
    pub agents: BTreeMap<AgentName, Box<AgentRuntime>>,
    /// Which of them run for a message.
    pub routes: Routes,
    /// The domain's part.
    pub domain_turn: Arc<dyn DomainTurn>,
    /// The model of the agent that the session talks to.
    pub model: Option<ModelRef>,
    /// The model that the session kept, when it is gone and another takes its place.
    pub replaced: Option<Replaced>,
    /// How the session gets its title.
    pub titles: Titles,
    /// How messages of older turns enter the request.
    pub history: Rules,
    /// Why nothing can run; the turn then ends with this error.
    pub broken: Option<String>,
}

impl Runtime {
    /// What the turn's tools and arguments refer to; all its agents share it.
    pub(crate) fn context(&self) -> Option<&ContextHandle> {
        self.agents.values().next().map(|agent| &agent.env.scope.context)
    }

    /// Puts a tool's labels on the turn, for what it gave outside of the pipeline or before the turn was taken up.
    pub(crate) fn taint(&self, tool: &ToolName) {
        for agent in self.agents.values() {
            if let Some(entry) = agent.env.toolbox.get(tool.as_str()) {
                agent.env.taints.add(&entry.tool().contract().taints);
            }
        }
    }

    /// A runtime that could not be assembled. A turn with it says why, so that the person is told.
    pub(crate) fn broken(
        info: TurnInfo,
        domain_turn: Arc<dyn DomainTurn>,
        error: &RuntimeError,
    ) -> Self {
        Self {
            routes: Routes::single(info.agent.clone()),
            info,
            agents: BTreeMap::new(),
            domain_turn,
            model: None,
            replaced: None,
            titles: Titles::Off,
            history: Rules::default(),
            broken: Some(error.to_string()),
        }
    }
}

impl Assembler {
    /// Registers every tool of every agent.
    ///
    /// # Errors
    /// When a tool's contract is not sound.
    pub(crate) fn new(
        domain: Arc<dyn Domain>,
        models: Arc<dyn ModelSource>,
        policy: Policy,
        clock: Clock,
        limits: TurnLimits,
        wrap: Option<WrapTools>,
    ) -> Result<Self, RuntimeError> {
        let mut tools = BTreeMap::new();
        for (name, agent) in domain.agents() {
            let mut registered = Vec::with_capacity(agent.tools.len());
            for tool in &agent.tools {
                registered.push(match &wrap {
                    None => tool.tool.clone(),
                    Some(wrap) => RegisteredTool::shared(wrap(tool.tool.tool().clone()))?,
                });
            }
            let bare = Ready::new(own_toolbox(&registered, agent)?);
            tools.insert(name.clone(), OwnTools { registered, bare, reading: None });
        }
        Ok(Self {
            resources: domain.resources(),
            domain,
            models,
            policy: Arc::new(policy),
            clock,
            limits,
            titles: Titles::default(),
            wrap_models: None,
            trace_content: TraceContent::default(),
            wrap,
            tools,
            reader: None,
            extra: Mutex::default(),
            sets: Mutex::default(),
            meters: Mutex::default(),
            alarms: Arc::default(),
        })
    }

    /// Lets agents read back what the store keeps of outputs that were too long to show.
    ///
    /// # Errors
    /// Never: the tool's contract is sound, and an agent's own tool of that name stays.
    pub(crate) fn keep_outputs(&mut self, store: Arc<dyn Store>) -> Result<(), RuntimeError> {
        let reader = RegisteredTool::new(kept::read_output(store))?;
        for own in self.tools.values_mut() {
            let mut toolbox = Toolbox::clone(&own.bare.toolbox);
            if !own.registered.is_empty() && add_reader(&mut toolbox, &reader)? {
                own.reading = Some(Ready::new(toolbox));
            }
        }
        self.reader = Some(reader);
        Ok(())
    }

    pub(crate) fn wrap_models(&mut self, wrap: Option<WrapModels>) {
        self.wrap_models = wrap;
    }

    /// A model as a turn may call it.
    pub(crate) fn callable(&self, info: &TurnInfo, model: Arc<dyn Model>) -> Arc<dyn Model> {
        match &self.wrap_models {
            None => model,
            Some(wrap) => wrap(info, model),
        }
    }

    pub(crate) fn set_titles(&mut self, titles: Titles) {
        self.titles = titles;
    }

    /// The tools of an agent in a turn: its own, and those that exist only here and now.
    fn toolbox(
        &self,
        name: &AgentName,
        choices: &Choices<'_>,
    ) -> Result<Arc<Toolbox>, RuntimeError> {
        let info = &choices.info;
        let own = self.tools.get(name).ok_or_else(|| RuntimeError::NoAgent(name.clone()))?;
        let extra = self.domain.extra_tools(name, info);
        let offers = own.registered.iter().map(|tool| {
            let offer = self.domain.offers(&**tool.tool(), name, info);
            (tool, offer)
        });
        let withheld: Vec<_> = offers.filter(|(_, offer)| *offer != Offer::Offered).collect();
        let offered = &info.surroundings.tools;
        if extra.is_empty() && withheld.is_empty() && offered.is_empty() {
            return Ok(own.ready(choices.storage).toolbox.clone());
        }
        let mut toolbox = Toolbox::clone(&own.ready(choices.storage).toolbox);
        for (tool, offer) in withheld {
            toolbox.set_offer(tool.tool().contract().name().as_str(), offer);
        }
        // An agent without tools of its own has some all the same in this turn.
        if let (Storage::Session, Some(reader)) = (choices.storage, &self.reader) {
            add_reader(&mut toolbox, reader)?;
        }
        for tool in extra {
            toolbox.add(self.registered(tool)?)?;
        }
        for tool in offered {
            // What an agent has by this name stays its own, offered or not.
            if toolbox.get(tool.name.as_str()).is_none() {
                toolbox.add(RegisteredTool::shared(Arc::new(FnTool::offered(tool)))?)?;
            }
        }
        Ok(Arc::new(toolbox))
    }

    /// A tool that is not an agent's own. Its schemas are compiled once for as long as the domain hands out the same one.
    fn registered(&self, tool: Arc<dyn Tool>) -> Result<Arc<RegisteredTool>, RuntimeError> {
        if let Some(wrap) = &self.wrap {
            return Ok(RegisteredTool::shared(wrap(tool))?);
        }
        let mut kept = self.extra.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept.iter().find(|known| Arc::ptr_eq(known.tool(), &tool)) {
            return Ok(known.clone());
        }
        let registered = RegisteredTool::shared(tool)?;
        if kept.len() >= KEPT_TOOLS {
            kept.remove(0);
        }
        kept.push(registered.clone());
        Ok(registered)
    }

    /// What the model is offered. The same tools render to the same bytes, so sets are shared between turns.
    fn offered(&self, name: &AgentName, toolbox: &Arc<Toolbox>, scope: &ToolScope) -> Arc<ToolSet> {
        let own = self.tools.get(name).into_iter();
        let mut ready = own.flat_map(|own| std::iter::once(&own.bare).chain(&own.reading));
        if let Some(ready) = ready.find(|ready| Arc::ptr_eq(&ready.toolbox, toolbox))
            && toolbox.offered(scope).count() == ready.set.specs.len()
        {
            return ready.set.clone();
        }
        self.shared_set(toolbox.offered(scope).map(|entry| entry.spec.clone()).collect())
    }

    /// What counts a model's tokens, corrected by what its provider reports.
    pub(crate) fn meter(&self, model: &Arc<dyn Model>) -> Arc<TokenMeter> {
        let mut meters = self.meters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(meter) = meters.get(&*model.id().model) {
            return meter.clone();
        }
        let meter = Arc::new(TokenMeter::new(&model.id().model, model.info().tokenizer));
        meters.insert(model.id().model.to_string(), meter.clone());
        meter
    }

    fn shared_set(&self, specs: Vec<ToolSpec>) -> Arc<ToolSet> {
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(set) = sets.iter().find(|set| same(&set.specs, &specs)) {
            return set.clone();
        }
        let set = Arc::new(ToolSet::new(specs));
        if sets.len() >= KEPT_SETS {
            sets.remove(0);
        }
        sets.push(set.clone());
        set
    }
}

fn own_toolbox(registered: &[Arc<RegisteredTool>], agent: &Agent) -> Result<Toolbox, RuntimeError> {
    let mut toolbox = Toolbox::new();
    for (tool, bound) in registered.iter().zip(&agent.tools) {
        toolbox.add_bound(tool.clone(), &bound.bindings)?;
    }
    Ok(toolbox)
}

/// Adds the tool that reads kept outputs, unless there is one of that name.
fn add_reader(toolbox: &mut Toolbox, reader: &Arc<RegisteredTool>) -> Result<bool, RuntimeError> {
    let is_missing = toolbox.get(kept::READ_OUTPUT).is_none();
    if is_missing {
        toolbox.add(reader.clone())?;
    }
    Ok(is_missing)
}

/// Whether two lists offer the same. Schemas are mostly one and the same allocation, which tells it without reading them.
fn same(a: &[ToolSpec], b: &[ToolSpec]) -> bool {
    let alike = |(a, b): (&ToolSpec, &ToolSpec)| {
        a.name == b.name
            && a.description == b.description
            && (Arc::ptr_eq(&a.input_schema, &b.input_schema) || a.input_schema == b.input_schema)
    };
    a.len() == b.len() && a.iter().zip(b).all(alike)
}
