//! The chunks of the UI message stream. Clients die of a kind of chunk they do not know, so each profile has its own; what
//! neither has goes as `data-*`, which both take.

use serde::Serialize;
use serde_json::{Value, json};
use turnbuckle_core::ids::{CallId, MessageId, ToolName};
use turnbuckle_core::json::Json;

/// A chunk.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub(super) enum Chunk {
    Start {
        message_id: MessageId,
        message_metadata: Value,
    },
    StartStep,
    FinishStep,
    /// Takes back all of the open step. Not in v6.
    ResetStep,
    Finish {
        finish_reason: Reason,
        message_metadata: Value,
    },
    Abort {
        reason: &'static str,
    },
    Error {
        error_text: String,
    },
    TextStart {
        id: String,
    },
    TextDelta {
        id: String,
        delta: String,
    },
    TextEnd {
        id: String,
    },
    ReasoningStart {
        id: String,
    },
    ReasoningDelta {
        id: String,
        delta: String,
    },
    ReasoningEnd {
        id: String,
    },
    ToolInputStart {
        tool_call_id: CallId,
        tool_name: ToolName,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        dynamic: bool,
    },
    ToolInputDelta {
        tool_call_id: CallId,
        input_text_delta: String,
    },
    ToolInputAvailable {
        tool_call_id: CallId,
        tool_name: ToolName,
        input: Json,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        dynamic: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<String>,
    },
    ToolInputError {
        tool_call_id: CallId,
        tool_name: ToolName,
        input: String,
        error_text: String,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        dynamic: bool,
    },
    ToolApprovalRequest {
        approval_id: MessageId,
        tool_call_id: CallId,
        approval_descriptor: Value,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Not in v6.
    ToolApprovalResponse {
        approval_id: MessageId,
        approved: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    ToolOutputAvailable {
        tool_call_id: CallId,
        output: Json,
    },
    ToolOutputError {
        tool_call_id: CallId,
        error_text: String,
    },
    ToolOutputDenied {
        tool_call_id: CallId,
    },
    /// Not in v6.
    SteeringMessage {
        id: String,
        parts: Vec<Value>,
    },
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reason {
    Stop,
    Length,
    ToolCalls,
    /// Not in v6.
    Interrupted,
    Other,
}

/// What the protocol has no word for. It is not kept in the client's message.
pub(super) fn aside(name: &str, data: &Value) -> Value {
    json!({"type": format!("data-{name}"), "data": data, "transient": true})
}

/// The line behind the last chunk.
pub(super) const DONE: &str = "[DONE]";
