//! What a turn is given at its start. It is stored once and never changes.

use crate::ids::{AgentName, SessionId, ToolName, TurnId};
use crate::limits::{AgentLimits, TurnLimits};
use crate::message::UserMessage;
use crate::tool::ToolTraits;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Whether a person is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunMode {
    /// A person reads along and decides.
    #[default]
    Interactive,
    /// Nobody is there: calls that need approval are captured for review.
    Capture,
}

/// Everything the machine decides by, fixed for the turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnSpec {
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// The message that opens it.
    pub user: UserMessage,
    /// Whether a person is there.
    #[serde(default)]
    pub mode: RunMode,
    /// The turn's limits.
    #[serde(default)]
    pub limits: TurnLimits,
    /// Every agent that may run, by name. Boxed: a map has room for eleven, and most turns have one.
    pub agents: BTreeMap<AgentName, Box<AgentSpec>>,
    /// Which agents run, in which order.
    pub routes: Routes,
    /// The number of the run's first captured action; runs of several turns go on counting.
    #[serde(default)]
    pub first_capture: u32,
}

/// One agent, as far as the machine decides by it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentSpec {
    /// Its limits.
    #[serde(default)]
    pub limits: AgentLimits,
    /// Its tools.
    #[serde(default)]
    pub tools: Vec<ToolTraits>,
    /// Those of them that are not offered in this turn: the model is told of none that it cannot call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<ToolName>,
    /// What is stored of its work.
    #[serde(default)]
    pub policy: DataPolicy,
}

impl AgentSpec {
    /// The traits of a tool of this agent.
    pub fn tool(&self, name: &ToolName) -> Option<&ToolTraits> {
        self.tools.iter().find(|t| t.name == *name)
    }
}

/// Which agents run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Routes {
    /// The agent that chooses a route; without one the default route runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supervisor: Option<AgentName>,
    /// Ordered agents by route.
    pub routes: BTreeMap<String, Vec<AgentName>>,
    /// The route that runs when nothing else is chosen.
    pub default: String,
}

impl Routes {
    /// One agent on one route.
    pub fn single(agent: impl Into<AgentName>) -> Self {
        let routes = BTreeMap::from([("default".to_owned(), vec![agent.into()])]);
        Self { supervisor: None, routes, default: "default".into() }
    }
}

/// What is stored of an agent's work once it is done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DataPolicy {
    /// Its text.
    pub text: Keep,
    /// Its tool calls.
    pub calls: KeepTools,
    /// The results of its tool calls.
    pub results: KeepTools,
}

/// Kept or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// Stored.
    #[default]
    Yes,
    /// Removed when the agent is done.
    No,
}

/// Kept by tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeepTools {
    /// Those of every tool.
    #[default]
    All,
    /// Those of these tools.
    Only(BTreeSet<ToolName>),
    /// Those of every tool but these.
    Except(BTreeSet<ToolName>),
}

impl KeepTools {
    /// Whether the tool's are kept.
    pub fn keeps(&self, tool: &ToolName) -> bool {
        match self {
            KeepTools::All => true,
            KeepTools::Only(tools) => tools.contains(tool),
            KeepTools::Except(tools) => !tools.contains(tool),
        }
    }
}
