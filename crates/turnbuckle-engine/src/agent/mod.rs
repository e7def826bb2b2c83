//! Agents: a prompt, tools, limits and hooks. Most set three fields.

mod hooks;

pub use hooks::{
    AgentHooks, Charge, Flow, Handled, NoHooks, NoToolCalls, OnNoToolCalls, SendTools, StepView,
};

use crate::runtime::Titles;
use crate::tool::{RegisteredTool, Tool, ToolboxError};
use std::collections::BTreeMap;
use std::sync::Arc;
use turnbuckle_core::context::InputBinding;
use turnbuckle_core::ids::{AgentName, ToolName};
use turnbuckle_core::limits::AgentLimits;
use turnbuckle_core::machine::DataPolicy;
use turnbuckle_core::model::{ModelRef, ModelSettings, OutputSchema};
use turnbuckle_core::prompt::{Prompt, PromptError, Section, Tier};
use turnbuckle_core::transcript::{Item, Transcript};

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
    pub(crate) examples: Examples,
}

/// Few-shot examples. As entries they are rendered and counted once for all sessions.
#[derive(Clone, Default)]
pub(crate) struct Examples {
    any: Transcript,
    of_families: Vec<(String, Transcript)>,
}

fn entries(items: Vec<Item>) -> Transcript {
    let mut entries = Transcript::default();
    items.into_iter().for_each(|item| entries.push_item(item));
    entries
}

impl Examples {
    /// Those for a model.
    pub(crate) fn of(&self, model: &str) -> &Transcript {
        if self.of_families.is_empty() {
            return &self.any;
        }
        let name = model.rsplit('/').next().unwrap_or(model).to_lowercase();
        let own = self.of_families.iter().filter(|(family, _)| name.starts_with(family.as_str()));
        own.max_by_key(|(family, _)| family.len()).map_or(&self.any, |(_, examples)| examples)
    }
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
            examples: Examples::default(),
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
    examples: Examples,
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

    /// Few-shot examples, put before the conversation, for models that have none of their own.
    #[must_use]
    pub fn examples(mut self, examples: Vec<Item>) -> Self {
        self.examples.any = entries(examples);
        self
    }

    /// Few-shot examples for a family of models, instead of those for any: for the models whose name, without what stands
    /// before its last slash, begins with `family`, such as `claude` or `gpt-5`. Of several families the longest counts.
    #[must_use]
    pub fn examples_for(mut self, family: impl Into<String>, examples: Vec<Item>) -> Self {
        self.examples.of_families.push((family.into().to_lowercase(), entries(examples)));
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
