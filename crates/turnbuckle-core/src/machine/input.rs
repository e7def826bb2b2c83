//! What the driver tells the machine. Everything but deltas goes to the journal, in the order of application:
//! feeding a turn's journal to a new machine gives the same turn again.

use super::effect::StepId;
use crate::allowance::Remember;
use crate::error::{ModelError, ToolError};
use crate::event::CallResult;
use crate::ids::{CallId, ToolName, UserId};
use crate::json::{Json, present};
use crate::message::UserMessage;
use crate::model::ModelResponse;
use crate::time::Timestamp;
use crate::usage::Purpose;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One entry of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// Its number in the turn, from 0.
    pub n: u32,
    /// When it came.
    pub at: Timestamp,
    /// What came.
    pub input: Input,
}

/// What came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "input", rename_all = "snake_case")]
pub enum Input {
    /// The turn begins.
    Begin,
    /// A model call answered.
    ModelDone {
        /// The step.
        step: StepId,
        /// The answer.
        answer: Box<ModelAnswer>,
    },
    /// A model call failed.
    ModelFailed {
        /// The step.
        step: StepId,
        /// Why.
        error: ModelError,
        /// What had arrived; must hold whatever was told as deltas.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partial: Option<Box<ModelAnswer>>,
    },
    /// A model call was made of which only the cost counts: nobody waits for its answer any more, its process ended, or a tool
    /// made it on its own. A summary or a title that came to nothing counts as one of the turn's model calls, too, even when
    /// it cost nothing.
    Metered {
        /// The step it was made for.
        step: StepId,
        /// Why it was made.
        purpose: Purpose,
        /// The epoch of the turn in which it was made.
        epoch: u32,
        /// What is known of it.
        answer: Box<ModelAnswer>,
    },
    /// The history was made to fit the window before a model call; the call itself follows under the same step.
    Compacted {
        /// The step of the model call.
        step: StepId,
        /// What was done.
        report: Box<CompactionReport>,
    },
    /// A call was checked.
    Prepared {
        /// The step.
        step: StepId,
        /// What came of it.
        verdict: Box<Verdict>,
    },
    /// A tool reported while running.
    Progress {
        /// The step.
        step: StepId,
        /// What it says.
        data: Json,
    },
    /// A call was executed, or what it gave elsewhere was made its result.
    Executed {
        /// The step.
        step: StepId,
        /// What came of it.
        result: Box<ExecuteResult>,
        /// What the context store keeps of it, when hooks made something else of the result: later arguments refer to what the
        /// tool gave.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        captured: Option<Json>,
    },
    /// Outputs of the turn were dropped from the context store, since it would have grown over its cap. Follows the input with
    /// which that happened.
    ContextDropped {
        /// The cap, in bytes.
        cap: u64,
    },
    /// A person (or the clock) decided about a card.
    Decide {
        /// The call.
        call: CallId,
        /// The decision.
        decision: Decision,
        /// Who; absent for the clock.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<UserId>,
    },
    /// The caller's front end ran a tool.
    ClientResult {
        /// The call.
        call: CallId,
        /// The result or the failure.
        result: Result<Json, ToolError>,
    },
    /// A person writes while the turn runs; it enters at the next step boundary.
    Steer {
        /// The message.
        message: Box<UserMessage>,
    },
    /// Stop.
    Cancel {
        /// Whether a new message takes the turn's place.
        superseded: Superseded,
    },
    /// The process ended and another takes the turn up again.
    Recover,
    /// The turn goes on with another model than the session kept, since that is not configured any more.
    ModelReplaced {
        /// The model that is gone, as `provider:model`.
        from: String,
        /// The one that answers.
        to: String,
        /// Why, in the words of the configuration.
        reason: String,
    },
    /// The end-of-turn hooks ran.
    Finalized {
        /// The step.
        step: StepId,
        /// What they changed.
        changes: Box<FinalChanges>,
    },
    /// The driver cannot go on, for instance because of a defect: everything open is settled and the turn ends.
    Fault {
        /// Why.
        error: crate::outcome::TurnError,
        /// What had arrived of the answers under way. What was told of one that is missing here is taken back.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        partials: Vec<Partial>,
    },
}

/// What had arrived of an answer when its turn ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Partial {
    /// The step of the model call.
    pub step: StepId,
    /// The answer so far; must hold whatever was told as deltas.
    pub answer: Box<ModelAnswer>,
}

/// Whether a cancellation comes from a newer message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Superseded {
    /// A person or the host stopped the turn.
    No,
    /// A new message arrived while a decision was pending.
    ByMessage,
}

/// A model's answer with the way it was streamed, so that replay gives the same events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelAnswer {
    /// The answer. For a failed call: what had arrived.
    pub response: ModelResponse,
    /// How it was cut into deltas.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chunks: Vec<Chunk>,
    /// Where its deltas stood among what came beside it; see [`Weave`](super::Weave).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub woven: Vec<Woven>,
    /// Whether usage is an estimate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// Cost in millionths of a US dollar, where prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    /// What the agent's hooks make of the answer.
    #[serde(default, skip_serializing_if = "AnswerDirectives::is_empty")]
    pub directives: AnswerDirectives,
}

impl ModelAnswer {
    /// An answer that was not streamed, without a cost.
    pub fn new(response: ModelResponse) -> Self {
        Self {
            response,
            chunks: Vec::new(),
            woven: Vec::new(),
            estimated: false,
            cost_micros: None,
            directives: AnswerDirectives::default(),
        }
    }
}

/// What an agent's hooks make of a model's answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AnswerDirectives {
    /// Whether the model had tools when it gave the answer. Calls of tools that were withheld never run.
    #[serde(skip_serializing_if = "Tools::are_offered")]
    pub tools: Tools,
    /// Text to put to the model instead of ending, when the answer has no calls that may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nudge: Option<String>,
    /// Whether the agent's loop ends here, calls or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopHere>,
    /// The answer makes the turn fail, such as a structured output that does not validate after its repair.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail: Option<crate::outcome::TurnError>,
}

impl AnswerDirectives {
    /// Whether nothing is asked.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What a model call offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tools {
    /// The agent's tools.
    #[default]
    Offered,
    /// None of them.
    Withheld,
}

impl Tools {
    fn are_offered(&self) -> bool {
        *self == Self::Offered
    }
}

/// The agent's loop ends with this answer; calls it asks for are not run.
///
/// Written as `true`: a unit would be written as `null` and read back as nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "bool", try_from = "bool")]
pub struct StopHere;

impl From<StopHere> for bool {
    fn from(_: StopHere) -> Self {
        true
    }
}

impl TryFrom<bool> for StopHere {
    type Error = &'static str;
    fn try_from(stops: bool) -> Result<Self, Self::Error> {
        if stops { Ok(StopHere) } else { Err("`stop` is either true or absent") }
    }
}

/// One delta as it became an event: how many bytes of which block, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk(
    /// The block's index.
    pub u32,
    /// Bytes of it.
    pub u32,
    /// When, in milliseconds since the epoch.
    pub i64,
);

/// Where a run of deltas stood that nothing else came between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Woven(
    /// The first chunk of the run.
    pub u32,
    /// After how many entries of the journal.
    pub u32,
    /// Orders it among the runs between the same two entries.
    pub u64,
);

/// What was done to make the history fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompactionReport {
    /// What was done, for people.
    pub note: String,
    /// Tokens before.
    pub before: u64,
    /// Tokens after.
    pub after: u64,
    /// The summary call, when one was made; it is metered like any other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_call: Option<Box<ModelAnswer>>,
}

/// What came of checking a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// It may run.
    Run {
        /// The arguments that run.
        args: Json,
        /// What was assumed or corrected in them, for the model to read beside the result.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<String>,
    },
    /// A person must be asked first.
    Ask {
        /// The arguments that would run.
        args: Json,
        /// What the card shows.
        question: Box<Question>,
        /// What was assumed or corrected in them. Checked again after the approval, they may be others.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<String>,
    },
    /// It runs in the caller's front end.
    Client {
        /// The arguments that run.
        args: Json,
        /// The tool's name for people.
        title: String,
        /// When the wait ends.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_at: Option<Timestamp>,
    },
    /// It must not run.
    Refuse {
        /// Why, for the model.
        error: ToolError,
        /// The arguments, as far as they were understood.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        args: Option<Json>,
    },
}

/// What an approval card shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The tool's name for people.
    pub title: String,
    /// The small projection of the arguments.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub digest: Option<Json>,
    /// Why a person is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// JSON Schema of the fields that may be changed.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub editable: Option<Json>,
    /// When the question expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// What came of executing a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "executed", rename_all = "snake_case")]
pub enum ExecuteResult {
    /// It succeeded.
    Success {
        /// The result with its projections.
        #[serde(flatten)]
        result: CallResult,
        /// Requests of the domain to the loop.
        #[serde(default, skip_serializing_if = "Directives::is_empty")]
        directives: Directives,
    },
    /// It failed.
    Failure {
        /// Why, for the model.
        error: ToolError,
        /// What it gave all the same.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        output: Option<Json>,
    },
}

/// What a tool's result or the domain's hooks ask of the loop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Directives {
    /// The tool the model must call next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_tool: Option<ToolName>,
    /// Context to add after the results.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub add_context: Vec<String>,
    /// The plan, when it changed.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub plan: Option<Json>,
    /// A background task that was started: its kind and its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<(String, String)>,
    /// As [`Input::ContextDropped`], in journals of versions before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_dropped: Option<u64>,
}

impl Directives {
    /// Whether nothing is asked.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A decision about a card.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Decision {
    /// Do it.
    Approve {
        /// The arguments the person changed.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        amendment: Option<Json>,
        /// What they said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Whether it holds for further calls of the tool.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remember: Option<Remember>,
    },
    /// Do not.
    Reject {
        /// What they said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Nobody decided in time.
    Expire,
}

impl Decision {
    /// Do it, as it stands, this once.
    pub const fn approve() -> Self {
        Self::Approve { amendment: None, reason: None, remember: None }
    }
}

/// What the end-of-turn hooks changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FinalChanges {
    /// New texts by part index.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<(u32, String)>,
    /// Display snapshots for links.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub link_snapshots: BTreeMap<String, Json>,
    /// A title for a session that has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<NewTitle>,
}

/// A session's title, and the model call that made it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewTitle {
    /// The title.
    pub title: String,
    /// The call, when one was made; it is metered like any other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Box<ModelAnswer>>,
}
