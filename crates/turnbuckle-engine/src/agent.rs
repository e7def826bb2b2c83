//! Agents: a prompt, tools, limits and hooks. Most set three fields.

use crate::runtime::Titles;
use crate::tool::{RegisteredTool, Tool, ToolboxError};
use std::collections::BTreeMap;
use std::sync::Arc;
use turnbuckle_core::context::InputBinding;
use turnbuckle_core::ids::{AgentName, ToolName};
use turnbuckle_core::limits::AgentLimits;
use turnbuckle_core::machine::DataPolicy;
use turnbuckle_core::model::{ModelRef, ModelResponse, ModelSettings, OutputSchema};
use turnbuckle_core::prompt::{Prompt, PromptError, Section, Tier};
use turnbuckle_core::transcript::Item;

/// An agent that cannot be built. These are mistakes of its author, found at the start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// A tool's contract is not sound.
    #[error(transparent)]
    Tool(#[from] ToolboxError),
    /// The prompt's sections are not sound.
    #[error(transparent)]
    Prompt(#[from] PromptError),
}

/// An agent.
#[derive(Clone)]
pub struct Agent {
    pub(crate) name: AgentName,
    pub(crate) prompt: Arc<Prompt>,
    pub(crate) tools: Vec<AgentTool>,
    pub(crate) model: Option<ModelRef>,
    pub(crate) titles: Option<Titles>,
    pub(crate) settings: ModelSettings,
    pub(crate) limits: AgentLimits,
    pub(crate) output: Option<OutputSchema>,
    pub(crate) policy: DataPolicy,
    pub(crate) hooks: Arc<dyn AgentHooks>,
    pub(crate) examples: Vec<Item>,
}

/// A tool of an agent with the workspace's bindings.
#[derive(Clone)]
pub(crate) struct AgentTool {
    pub(crate) tool: Arc<RegisteredTool>,
    pub(crate) bindings: Vec<InputBinding>,
}

impl Agent {
    /// Begins an agent.
    ///
    /// ```
    /// use turnbuckle_engine::Agent;
    /// let agent = Agent::builder("main").instructions("You are a helpful assistant.").build().unwrap();
    /// assert_eq!(agent.name().as_str(), "main");
    /// ```
    pub fn builder(name: impl Into<AgentName>) -> AgentBuilder {
        AgentBuilder {
            name: name.into(),
            sections: Vec::new(),
            tools: Vec::new(),
            bindings: BTreeMap::new(),
            model: None,
            titles: None,
            settings: ModelSettings::default(),
            limits: AgentLimits::default(),
            output: None,
            policy: DataPolicy::default(),
            hooks: Arc::new(NoHooks),
            examples: Vec::new(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &AgentName {
        &self.name
    }

    /// Its tools' names, in their stable order.
    pub fn tool_names(&self) -> impl Iterator<Item = &ToolName> {
        self.tools.iter().map(|t| t.tool.tool().contract().name())
    }

    /// Its tools, in their stable order.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<RegisteredTool>> {
        self.tools.iter().map(|t| &t.tool)
    }
}

/// Collects what makes an [`Agent`].
pub struct AgentBuilder {
    name: AgentName,
    sections: Vec<Section>,
    tools: Vec<Arc<dyn Tool>>,
    bindings: BTreeMap<ToolName, Vec<InputBinding>>,
    model: Option<ModelRef>,
    titles: Option<Titles>,
    settings: ModelSettings,
    limits: AgentLimits,
    output: Option<OutputSchema>,
    policy: DataPolicy,
    hooks: Arc<dyn AgentHooks>,
    examples: Vec<Item>,
}

impl AgentBuilder {
    /// Adds instructions that never change between deployments.
    #[must_use]
    pub fn instructions(self, text: impl Into<Arc<str>>) -> Self {
        let name = format!("instructions-{}", self.sections.len());
        self.section(Section::fixed(Tier::Static, name, text))
    }

    /// Adds a section of the prompt. Sections keep their order, which must follow their tiers.
    #[must_use]
    pub fn section(mut self, section: Section) -> Self {
        self.sections.push(section);
        self
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool(self, tool: impl Tool + 'static) -> Self {
        self.shared_tool(Arc::new(tool))
    }

    /// Adds a tool that is shared with other agents.
    #[must_use]
    pub fn shared_tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tools.push(tool);
        self
    }

    /// Binds an argument of a tool for this workspace.
    #[must_use]
    pub fn bind(mut self, tool: impl Into<ToolName>, binding: InputBinding) -> Self {
        self.bindings.entry(tool.into()).or_default().push(binding);
        self
    }

    /// The model this agent uses instead of the engine's default.
    #[must_use]
    pub fn model(mut self, model: ModelRef) -> Self {
        self.model = Some(model);
        self
    }

    /// How sessions with this agent get their titles, instead of the engine's way.
    #[must_use]
    pub fn titles(mut self, titles: Titles) -> Self {
        self.titles = Some(titles);
        self
    }

    /// Sampling and output settings.
    #[must_use]
    pub fn settings(mut self, settings: ModelSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Its limits.
    #[must_use]
    pub fn limits(mut self, limits: AgentLimits) -> Self {
        self.limits = limits;
        self
    }

    /// A schema the final answer must satisfy. It is validated and repaired once; failure is an error.
    #[must_use]
    pub fn output(mut self, output: OutputSchema) -> Self {
        self.output = Some(output);
        self
    }

    /// What is stored of its work.
    #[must_use]
    pub fn data_policy(mut self, policy: DataPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Its hooks.
    #[must_use]
    pub fn hooks(mut self, hooks: impl AgentHooks + 'static) -> Self {
        self.hooks = Arc::new(hooks);
        self
    }

    /// Few-shot examples, put before the conversation.
    #[must_use]
    pub fn examples(mut self, examples: Vec<Item>) -> Self {
        self.examples = examples;
        self
    }

    /// The agent.
    ///
    /// # Errors
    /// When a tool's contract or the order of the sections is not sound.
    pub fn build(self) -> Result<Agent, AgentError> {
        let prompt = Arc::new(Prompt::new(self.sections)?);
        let mut tools = Vec::with_capacity(self.tools.len());
        let mut bindings = self.bindings;
        for tool in self.tools {
            let bound = bindings.remove(tool.contract().name()).unwrap_or_default();
            tools.push(AgentTool { tool: RegisteredTool::shared(tool)?, bindings: bound });
        }
        Ok(Agent {
            name: self.name,
            prompt,
            tools,
            model: self.model,
            titles: self.titles,
            settings: self.settings,
            limits: self.limits,
            output: self.output,
            policy: self.policy,
            hooks: self.hooks,
            examples: self.examples,
        })
    }
}

/// What an agent's hooks see of a step.
#[derive(Clone, Debug)]
pub struct StepView<'a> {
    /// The agent.
    pub agent: &'a AgentName,
    /// The index of the model call in its message.
    pub iteration: u32,
    /// Model calls of the agent before this one.
    pub calls_made: u32,
    /// Tool calls of the agent so far.
    pub tool_calls_made: u32,
    /// How often the agent answered without calling a tool when it should have, as far as its hooks said so.
    pub attempt: u32,
    /// The agent's limits.
    pub limits: &'a AgentLimits,
}

/// What the model is told by default when it calls tools that it was not offered.
const WITHHELD: &str =
    "You had no tools for that answer, so nothing was called. Say in words what you can.";

/// Why an answer has no tool calls that run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoToolCalls {
    /// The model asked for none.
    NoneGenerated,
    /// The agent is at its limit, so tools were withheld.
    LimitReached,
    /// The model asked for some, but tools were withheld from this call; see [`AgentHooks::should_send_tools`].
    ToolsDisabled,
}

/// What to do about an answer without tool calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnNoToolCalls {
    /// The answer stands, and the agent's loop ends with it.
    Finish,
    /// The model is told this and called again.
    Nudge(String),
}

/// Whether the agent's loop goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It does.
    Continue,
    /// It ends with this answer; calls it asks for do not run.
    Stop,
}

/// Whether tools are offered in a model call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendTools {
    /// They are.
    Yes,
    /// They are withheld.
    No,
}

/// An agent's own decisions within the loop. The defaults do the right thing. Hooks are pure: they decide from what they are
/// given, and their decisions are recorded.
pub trait AgentHooks: Send + Sync {
    /// Whether the loop goes on after an answer.
    fn should_continue(&self, step: &StepView<'_>, answer: &ModelResponse) -> Flow {
        let _ = (step, answer);
        Flow::Continue
    }

    /// Whether tools are offered in the next model call. A model that calls one all the same is refused.
    fn should_send_tools(&self, step: &StepView<'_>) -> SendTools {
        let _ = step;
        SendTools::Yes
    }

    /// Another model for the next call, for instance a cheaper one after retries.
    fn select_model(&self, step: &StepView<'_>) -> Option<ModelRef> {
        let _ = step;
        None
    }

    /// A tool the next call must use.
    fn force_tool(&self, step: &StepView<'_>) -> Option<ToolName> {
        let _ = step;
        None
    }

    /// What to do about an answer that runs no tools. By default it stands, unless the model asked for tools that were
    /// withheld: then it is told so and called again.
    fn on_no_tool_calls(
        &self,
        step: &StepView<'_>,
        reason: NoToolCalls,
        answer: &ModelResponse,
    ) -> OnNoToolCalls {
        let _ = (step, answer);
        match reason {
            NoToolCalls::NoneGenerated | NoToolCalls::LimitReached => OnNoToolCalls::Finish,
            NoToolCalls::ToolsDisabled => OnNoToolCalls::Nudge(WITHHELD.to_owned()),
        }
    }

    /// Sees the calls before any of them runs; may end the loop instead. Not asked about calls of tools that were withheld,
    /// since none of them runs.
    fn process_tool_calls(&self, step: &StepView<'_>, answer: &ModelResponse) -> Flow {
        let _ = (step, answer);
        Flow::Continue
    }
}

/// The default hooks.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

impl AgentHooks for NoHooks {}
