//! What the machine asks the driver to do.

use crate::error::ModelError;
use crate::event::AgentPath;
use crate::ids::{AgentName, CallId, MessageId, ToolName};
use crate::json::{Json, present};
use crate::outcome::Outcome;
use crate::usage::Purpose;
use serde::{Deserialize, Serialize};

/// The number of an effect within its turn, in the order in which the machine asked.
pub type StepId = u32;

/// A numbered request for I/O. Its outcome comes back as an [`Input`](super::Input) of the same step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// Its number.
    pub step: StepId,
    /// The agent it belongs to.
    pub agent: AgentName,
    /// The agent's path, for events and traces.
    pub path: AgentPath,
    /// What to do.
    pub kind: EffectKind,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "snake_case")]
pub enum EffectKind {
    /// Call the model.
    CallModel(CallModel),
    /// Check a call: transform, bind, validate, ask policy. Reads at most, so it needs no record before it runs.
    Prepare(PrepareCall),
    /// Execute a call that passed.
    Execute(ExecuteCall),
    /// Make a result of what a call gave that ran elsewhere.
    Settle(SettleCall),
    /// Run the domain's end-of-turn hooks; the turn ends after it.
    Finalize {
        /// How the turn is about to end.
        outcome: Outcome,
    },
}

impl EffectKind {
    /// Whether all that led here must be stored before the effect may run: it costs money or acts on the world.
    pub fn needs_commit(&self) -> bool {
        match self {
            EffectKind::CallModel(_) | EffectKind::Execute(_) => true,
            EffectKind::Prepare(_) | EffectKind::Settle(_) | EffectKind::Finalize { .. } => false,
        }
    }

    /// The call and its tool, when a result comes of the effect.
    pub fn results_of(&self) -> Option<(&CallId, &ToolName)> {
        match self {
            EffectKind::Execute(run) => Some((&run.call, &run.tool)),
            EffectKind::Settle(settle) => Some((&settle.call, &settle.tool)),
            EffectKind::CallModel(_) | EffectKind::Prepare(_) | EffectKind::Finalize { .. } => None,
        }
    }
}

/// A model call to make.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallModel {
    /// The message whose parts the request continues.
    pub message: MessageId,
    /// The model call's index in the message.
    pub iteration: u32,
    /// Why it is made.
    pub purpose: Purpose,
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// What went wrong in the attempt before; the driver derives the delay from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<ModelError>,
    /// Model calls the agent has made before this one.
    pub calls_made: u32,
    /// Tool calls the agent has made so far.
    pub tool_calls_made: u32,
    /// How often the agent was told so far to go on after an answer that was none yet.
    #[serde(default)]
    pub nudges: u32,
    /// A tool the domain forces next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force_tool: Option<ToolName>,
    /// The user text of a sub-agent's turn; absent for the outermost one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
}

/// A call to check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrepareCall {
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: ToolName,
    /// The arguments: as parsed on the first check, as last shown when a decision or a restart checks again.
    pub args: Json,
    /// Why it is checked.
    pub stage: PrepareStage,
}

/// Why a call is checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrepareStage {
    /// The model just asked for it.
    First,
    /// A person approved it, with the arguments they changed if any.
    Approved {
        /// The changed arguments.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        amendment: Option<Json>,
    },
}

/// A call to execute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecuteCall {
    /// The call; its [`idempotency_key`](CallId::idempotency_key) is the key to give the tool.
    pub call: CallId,
    /// The tool.
    pub tool: ToolName,
    /// The arguments that run.
    pub args: Json,
    /// Really, or predicted.
    pub mode: ExecuteMode,
    /// What the person who approved it said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What was assumed or corrected in the arguments, for the model to read beside the result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Whether a call acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecuteMode {
    /// It acts.
    Real,
    /// Its output is predicted and the action is queued for review.
    Capture {
        /// Counts captured actions over the whole run, for ids such as `temp_0`.
        local_index: u32,
    },
    /// It was handed out before the process ended and may have acted: only the tool's own probe may tell.
    Recover,
}

/// A call that ran in the caller's front end or as a nested turn. What it gave is bounded, shown and kept like what a tool of the
/// server gives, and the hooks see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SettleCall {
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: ToolName,
    /// The arguments it ran with.
    pub args: Json,
    /// What it gave.
    pub output: Json,
}
