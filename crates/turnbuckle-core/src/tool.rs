//! What the machine and the model must know of a tool. The executable side lives in the engine.

use crate::ids::{AgentName, ToolName};
use crate::json::Json;
use serde::{Deserialize, Serialize};

/// What running a tool does to the world, and so what may be done when its outcome is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SideEffect {
    /// Reads only: results may be cached within the turn and it may be repeated freely.
    ReadOnly,
    /// Writes, but repeating it with the same idempotency key changes nothing more.
    Idempotent,
    /// Writes, and a repetition would act twice: after a crash the outcome is reported as unknown.
    #[default]
    AtMostOnce,
}

/// Whether a call may run beside others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Runs beside its siblings.
    #[default]
    Parallel,
    /// Runs alone.
    Exclusive,
}

/// Where a call executes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunsOn {
    /// In this process.
    #[default]
    Server,
    /// In the caller's front end, which sends the result back.
    Client,
    /// As a nested turn of another agent.
    Agent(AgentName),
}

/// What a successful call means for the loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterSuccess {
    /// The model is called again.
    #[default]
    Continue,
    /// The turn may end here when every call of the iteration agrees.
    EndsTurn,
}

/// What stays of a result in the request on later turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retention {
    /// The whole result.
    #[default]
    Keep,
    /// Its summary only; the model can read the whole again by reference.
    Summary,
}

/// Whether tool errors and calls of this tool count against the agent's iterations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counts {
    /// A model call whose calls are of this kind counts as an iteration.
    #[default]
    AsIteration,
    /// A model call that only calls tools of this kind does not count.
    Free,
}

/// The part of a tool's contract that the machine decides by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolTraits {
    /// The registered name.
    pub name: ToolName,
    /// What running it does to the world.
    #[serde(default)]
    pub effect: SideEffect,
    /// Whether it may run beside others.
    #[serde(default)]
    pub overlap: Overlap,
    /// Where it executes.
    #[serde(default)]
    pub runs_on: RunsOn,
    /// What its success means for the loop.
    #[serde(default)]
    pub after_success: AfterSuccess,
    /// What stays of its results on later turns.
    #[serde(default)]
    pub retention: Retention,
    /// Whether it counts against the agent's iterations.
    #[serde(default)]
    pub counts: Counts,
}

impl ToolTraits {
    /// Traits with every default: a parallel, at-most-once tool that runs here.
    pub fn new(name: impl Into<ToolName>) -> Self {
        Self {
            name: name.into(),
            effect: SideEffect::default(),
            overlap: Overlap::default(),
            runs_on: RunsOn::default(),
            after_success: AfterSuccess::default(),
            retention: Retention::default(),
            counts: Counts::default(),
        }
    }
}

/// A tool as it is offered to a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The registered name.
    pub name: ToolName,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its arguments.
    pub input_schema: Json,
}
