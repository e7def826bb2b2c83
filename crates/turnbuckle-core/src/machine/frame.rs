//! One agent's loop, and the batch of calls it works on.

use super::effect::ExecuteMode;
use super::valves::Streaks;
use crate::error::ModelError;
use crate::event::AgentPath;
use crate::ids::{AgentName, CallId, MessageId, ToolName};
use crate::json::Json;
use crate::outcome::{ExhaustedReason, TurnError};
use crate::time::Timestamp;
use crate::usage::Purpose;
use serde::{Deserialize, Serialize};

/// One run of one agent's loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Frame {
    pub(super) agent: AgentName,
    pub(super) path: AgentPath,
    pub(super) message: MessageId,
    /// The frame and the call that run this one; absent for agents of the route.
    pub(super) parent: Option<Parent>,
    pub(super) task: Option<String>,
    /// Parts of the message that were there before this agent began.
    pub(super) first_part: u32,
    /// The index of the next model call in the message.
    pub(super) iteration: u32,
    /// The ordinal of the next tool call of a sub-agent; agents of the route count together, in the turn.
    pub(super) next_call: u32,
    pub(super) calls_made: u32,
    pub(super) counted: u32,
    pub(super) tool_calls: u32,
    pub(super) bad_answers: u32,
    pub(super) nudges: u32,
    pub(super) cut_answers: u32,
    pub(super) streaks: Streaks,
    pub(super) force_tool: Option<ToolName>,
    pub(super) batch: Vec<BatchCall>,
    pub(super) batch_text: String,
    /// The iteration that the batch belongs to.
    pub(super) batch_iteration: u32,
    /// A limit that was hit while the batch ran.
    pub(super) exhausted: Option<ExhaustedReason>,
    pub(super) closing: bool,
    pub(super) context: Vec<String>,
    pub(super) ended: Option<FrameEnd>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Parent {
    pub(super) frame: usize,
    pub(super) call: CallId,
}

/// How an agent's loop ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum FrameEnd {
    Done,
    Exhausted(ExhaustedReason),
    Failed(TurnError),
}

/// One call of the batch under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct BatchCall {
    pub(super) call: CallId,
    pub(super) part: u32,
    pub(super) tool: ToolName,
    pub(super) state: CallState,
}

/// Where a call of the batch stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum CallState {
    Preparing,
    Queued {
        args: Json,
        mode: ExecuteMode,
        reason: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<String>,
    },
    Running,
    /// Waits for a person or the front end.
    Waiting {
        args: Json,
        ask: Ask,
        shown: bool,
        decided: Option<String>,
    },
    /// A nested turn.
    Nested,
    Settled {
        success: bool,
    },
}

/// What a waiting call asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Ask {
    Decision(super::input::Question),
    Client { title: String, expires_at: Option<Timestamp> },
}

impl Frame {
    pub(super) fn new(agent: AgentName, path: AgentPath, message: MessageId) -> Self {
        Self {
            agent,
            path,
            message,
            parent: None,
            task: None,
            first_part: 0,
            iteration: 0,
            next_call: 0,
            calls_made: 0,
            counted: 0,
            tool_calls: 0,
            bad_answers: 0,
            nudges: 0,
            cut_answers: 0,
            streaks: Streaks::default(),
            force_tool: None,
            batch: Vec::new(),
            batch_text: String::new(),
            batch_iteration: 0,
            exhausted: None,
            closing: false,
            context: Vec::new(),
            ended: None,
        }
    }
}

/// What a model call is made for, after what.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) purpose: Purpose,
    pub(super) number: u32,
    pub(super) after: Option<ModelError>,
}

impl Attempt {
    pub(super) fn first(purpose: Purpose) -> Self {
        Self { purpose, number: 1, after: None }
    }
}
