//! What a turn streams. Folding a turn's events (see [`crate::fold`]) gives exactly the stored message.

use crate::error::ToolError;
use crate::ids::{AgentName, CallId, MessageId, SessionId, ToolName, TurnId};
use crate::json::{Json, present};
use crate::limits::TurnLimits;
use crate::message::{AssistantMessage, Decided, SystemMessage, UserMessage};
use crate::outcome::{AbortReason, ExhaustedReason, TurnError};
use crate::part::{Native, Part};
use crate::time::Timestamp;
use crate::usage::{IterationUsage, Usage};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Which agent an event is about: agents from the outermost inwards, nested ones with the call that runs them,
/// such as `main` or `main/t-3:researcher`.
pub type AgentPath = Arc<str>;

/// One event of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Event {
    /// Its number in the session: gapless, from 1.
    pub seq: u64,
    /// How often the turn has been taken up again after a crash. Events of an older epoch that were not committed are void.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub epoch: u32,
    /// When.
    pub at: Timestamp,
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// The agent.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub agent: AgentPath,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// What happened, tagged by `type` on the wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum EventKind {
    /// A turn began.
    TurnStarted {
        /// The message that opened it.
        message: Box<UserMessage>,
        /// Its limits.
        limits: Box<TurnLimits>,
    },
    /// An agent began its loop.
    AgentStarted {
        /// The agent.
        name: AgentName,
    },
    /// The route was chosen.
    RouteSelected {
        /// The route.
        route: String,
        /// Why, in the supervisor's words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reasoning: Option<String>,
    },
    /// An assistant message began; `message` has no parts yet. With `call`, it is the nested message of that call.
    AssistantMessageStarted {
        /// The new message.
        message: Box<AssistantMessage>,
        /// The call that runs the sub-agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<CallId>,
    },
    /// More text of a part. The part begins when `offset` is 0.
    TextDelta {
        /// The message.
        message: MessageId,
        /// The part's index.
        part: u32,
        /// Bytes of the part's text before this delta.
        offset: u32,
        /// The model call.
        iteration: u32,
        /// The text.
        text: String,
    },
    /// More reasoning of a part.
    ThinkingDelta {
        /// The message.
        message: MessageId,
        /// The part's index.
        part: u32,
        /// Bytes of the part's text before this delta.
        offset: u32,
        /// The model call.
        iteration: u32,
        /// The text.
        text: String,
    },
    /// The provider's own data for a part, such as a signature.
    PartNative {
        /// The message.
        message: MessageId,
        /// The part's index.
        part: u32,
        /// The data.
        native: Box<Native>,
    },
    /// A part that comes whole. It is inserted: later parts move down.
    PartAdded {
        /// The message.
        message: MessageId,
        /// The part's index.
        part: u32,
        /// The part.
        value: Box<Part>,
    },
    /// A text part got another text: the final answer differs from what was streamed, or the domain rewrote it.
    TextReplaced {
        /// The message.
        message: MessageId,
        /// The part's index.
        part: u32,
        /// The text.
        text: String,
    },
    /// A part that only repeats another was removed; later parts move up.
    PartDropped {
        /// The message.
        message: MessageId,
        /// The part's index.
        part: u32,
    },
    /// The agent's data policy forbids to keep a call's result; later readers see that it ran.
    ResultDropped {
        /// The message.
        message: MessageId,
        /// The part's index.
        part: u32,
    },
    /// The parts from `keep` on are void: the model call that made them failed and is made again.
    PartsDiscarded {
        /// The message.
        message: MessageId,
        /// How many parts stay.
        keep: u32,
        /// Why.
        reason: String,
    },
    /// A tool call began to arrive.
    ToolCallStarted {
        /// The message.
        message: MessageId,
        /// The part's index.
        part: u32,
        /// The model call.
        iteration: u32,
        /// The call.
        call: CallId,
        /// Its id on the wire.
        wire_id: Arc<str>,
        /// The tool.
        name: ToolName,
    },
    /// More of a call's arguments.
    ToolCallArgsDelta {
        /// The message.
        message: MessageId,
        /// The part's index.
        part: u32,
        /// The call.
        call: CallId,
        /// Bytes of the arguments before this delta.
        offset: u32,
        /// The text.
        text: String,
    },
    /// A running tool reports.
    ToolCallProgress {
        /// The message.
        message: MessageId,
        /// The part's index.
        part: u32,
        /// The call.
        call: CallId,
        /// What it says.
        #[cfg_attr(feature = "openapi", schema(value_type = crate::json::AnyJson))]
        data: Json,
    },
    /// A call's status or arguments changed.
    ToolCallStatus {
        /// The message.
        message: MessageId,
        /// The part's index.
        part: u32,
        /// The call.
        call: CallId,
        /// Where it stands.
        status: CallProgress,
        /// The arguments that run, once they are known.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::json::AnyJson>))]
        args: Option<Json>,
        /// The arguments a person changed.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::json::AnyJson>))]
        amendment: Option<Json>,
    },
    /// A call succeeded.
    ToolCallCompleted {
        /// The message.
        message: MessageId,
        /// The part's index.
        part: u32,
        /// The call.
        call: CallId,
        /// The result.
        #[serde(flatten)]
        result: Box<CallResult>,
    },
    /// A call failed, was rejected or cancelled.
    ToolCallFailed {
        /// The message.
        message: MessageId,
        /// The part's index.
        part: u32,
        /// The call.
        call: CallId,
        /// Why.
        error: Box<ToolError>,
        /// What it gave all the same.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::json::AnyJson>))]
        output: Option<Json>,
    },
    /// A person is asked; `card` is stored in the same commit.
    ApprovalRequired {
        /// The card.
        card: Box<SystemMessage>,
    },
    /// A card was decided.
    ApprovalDecided {
        /// The card.
        card: MessageId,
        /// The call.
        call: CallId,
        /// Where the card stands now.
        status: crate::message::CardStatus,
        /// By whom and how.
        decided: Box<Decided>,
    },
    /// The caller's front end must run a tool; `card` is stored in the same commit.
    ClientToolRequired {
        /// The card.
        card: Box<SystemMessage>,
    },
    /// The message waits.
    AssistantMessagePaused {
        /// The message.
        message: MessageId,
    },
    /// The message goes on with exactly `parts` parts; anything a reader holds beyond is void.
    AssistantMessageResumed {
        /// The message.
        message: MessageId,
        /// How many parts it has.
        parts: u32,
    },
    /// The middle of the history was summarised for the model; the stored history is whole.
    ContextCompacted {
        /// What was done, for people.
        note: String,
        /// Tokens before.
        before: u64,
        /// Tokens after.
        after: u64,
    },
    /// The context store dropped its turn slice, since it grew over its cap.
    ContextOverflowed {
        /// The cap in bytes.
        cap: u64,
    },
    /// The plan changed.
    PlanUpdated {
        /// The plan.
        #[cfg_attr(feature = "openapi", schema(value_type = crate::json::AnyJson))]
        plan: Json,
    },
    /// A tool started a background task.
    TaskStarted {
        /// The call.
        call: CallId,
        /// The kind of task.
        task: String,
        /// Its id.
        reference: String,
    },
    /// A model call is tried again.
    ModelRetry {
        /// Which attempt comes next, from 2.
        attempt: u32,
        /// After how long, in milliseconds.
        delay_ms: u64,
        /// What went wrong.
        error: Box<crate::error::ModelError>,
    },
    /// The model that the session keeps is not configured any more, so another answers from now on.
    ModelReplaced {
        /// The model that is gone, as `provider:model`.
        from: String,
        /// The one that answers.
        to: String,
        /// Why, in the words of the configuration.
        reason: String,
    },
    /// A model call was metered.
    Usage {
        /// The message it is recorded on.
        message: MessageId,
        /// The call.
        call: Box<IterationUsage>,
    },
    /// Display snapshots for the links of a message.
    LinkSnapshots {
        /// The message.
        message: MessageId,
        /// The snapshots by link.
        #[cfg_attr(feature = "openapi", schema(value_type = std::collections::BTreeMap<String, crate::json::AnyJson>))]
        snapshots: std::collections::BTreeMap<String, Json>,
    },
    /// The message is final. It carries the whole message: the checksum of all that was streamed.
    AssistantMessageFinished {
        /// The message.
        #[cfg_attr(feature = "openapi", schema(value_type = AssistantMessage))]
        message: Arc<AssistantMessage>,
    },
    /// An agent's loop ended.
    AgentCompleted {
        /// The agent.
        name: AgentName,
    },
    /// The turn is done.
    TurnCompleted {
        /// Tokens of the turn.
        usage: Box<Usage>,
    },
    /// The turn waits for people.
    TurnPaused {
        /// The calls that are waited for.
        calls: Vec<CallId>,
    },
    /// A limit ended the turn.
    TurnExhausted {
        /// Which one.
        reason: ExhaustedReason,
        /// Tokens of the turn.
        usage: Box<Usage>,
    },
    /// The turn failed.
    TurnError {
        /// Why.
        error: TurnError,
        /// Tokens of the turn.
        usage: Box<Usage>,
    },
    /// The turn was stopped.
    TurnAborted {
        /// By what.
        reason: AbortReason,
        /// Tokens of the turn.
        usage: Box<Usage>,
    },
    /// The session got a title.
    SessionTitleUpdated {
        /// The title.
        title: String,
    },
}

impl EventKind {
    /// Whether the stream of the turn ends with this event.
    pub fn is_terminal(&self) -> bool {
        matches!(
            self,
            EventKind::TurnCompleted { .. }
                | EventKind::TurnPaused { .. }
                | EventKind::TurnExhausted { .. }
                | EventKind::TurnError { .. }
                | EventKind::TurnAborted { .. }
        )
    }
}

/// The unsettled statuses an event can announce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum CallProgress {
    /// The arguments are known; it is not running yet.
    Ready,
    /// It executes.
    Running,
    /// It waits for a person or the front end.
    AwaitingApproval,
}

/// A successful result with its projections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CallResult {
    /// The stored result.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::json::AnyJson))]
    pub output: Json,
    /// What the model sees instead.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::json::AnyJson>))]
    pub model_view: Option<Json>,
    /// What stays of it on later turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The small projection for people.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::json::AnyJson>))]
    pub digest: Option<Json>,
    /// Whether the action was captured instead of executed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub captured: bool,
    /// Whether it was served from the turn's cache.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Most events are deltas, and whatever is rare and large stands aside in a box.
    #[test]
    fn an_event_is_no_larger_than_its_place_and_what_a_call_begins_with() {
        assert_eq!(size_of::<EventKind>(), 80);
        assert_eq!(size_of::<Event>(), 152);
    }
}
