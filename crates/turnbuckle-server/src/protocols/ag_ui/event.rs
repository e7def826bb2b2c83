//! AG-UI's events and messages as they are written. What is absent is left out: clients refuse a null.

use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use turnbuckle_core::ids::{AgentName, CallId, MessageId, ToolName};
use turnbuckle_core::json::Json;

/// An event.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
pub(super) enum AgEvent {
    RunStarted {
        thread_id: Arc<str>,
        run_id: Arc<str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        protocol_version: Option<&'static str>,
    },
    RunFinished {
        thread_id: Arc<str>,
        run_id: Arc<str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        outcome: Option<Ending>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        usage: Vec<Tokens>,
    },
    RunError {
        message: String,
        code: String,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        usage: Vec<Tokens>,
    },
    TextMessageStart {
        message_id: String,
        role: Role,
        #[serde(flatten)]
        by: By,
    },
    TextMessageContent {
        message_id: String,
        delta: String,
        #[serde(flatten)]
        by: By,
    },
    TextMessageEnd {
        message_id: String,
        #[serde(flatten)]
        by: By,
    },
    ReasoningStart {
        message_id: String,
        #[serde(flatten)]
        by: By,
    },
    ReasoningMessageStart {
        message_id: String,
        role: Role,
        #[serde(flatten)]
        by: By,
    },
    ReasoningMessageContent {
        message_id: String,
        delta: String,
        #[serde(flatten)]
        by: By,
    },
    ReasoningMessageEnd {
        message_id: String,
        #[serde(flatten)]
        by: By,
    },
    ReasoningEnd {
        message_id: String,
        #[serde(flatten)]
        by: By,
    },
    ToolCallStart {
        tool_call_id: CallId,
        tool_call_name: ToolName,
        parent_message_id: String,
        #[serde(flatten)]
        by: By,
    },
    ToolCallArgs {
        tool_call_id: CallId,
        delta: String,
        #[serde(flatten)]
        by: By,
    },
    ToolCallEnd {
        tool_call_id: CallId,
        #[serde(flatten)]
        by: By,
    },
    ToolCallResult {
        message_id: String,
        tool_call_id: CallId,
        content: String,
        role: Role,
        #[serde(flatten)]
        by: By,
    },
    SubagentStarted {
        subagent_run_id: CallId,
        name: AgentName,
        parent_tool_call_id: CallId,
        parent_message_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_subagent_run_id: Option<CallId>,
    },
    SubagentFinished {
        subagent_run_id: CallId,
        #[serde(skip_serializing_if = "Option::is_none")]
        outcome: Option<Suspended>,
    },
    StateSnapshot {
        snapshot: Value,
    },
    MessagesSnapshot {
        messages: Vec<Value>,
    },
    Custom {
        name: &'static str,
        value: Value,
    },
}

/// Which nested agent an event is about; absent for the outermost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct By {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) subagent_run_id: Option<CallId>,
}

/// Whose a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Role {
    Assistant,
    User,
    Reasoning,
    Tool,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub(super) enum Ending {
    Success {
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pending_tool_call_ids: Vec<CallId>,
    },
    Interrupt {
        interrupts: Vec<Interrupt>,
    },
    Cancelled,
}

/// How a nested agent's run ended before its work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub(super) enum Suspended {
    Suspended {
        #[serde(skip_serializing_if = "Vec::is_empty")]
        interrupt_ids: Vec<MessageId>,
    },
}

/// A question to a person.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Interrupt {
    pub(super) id: MessageId,
    pub(super) reason: &'static str,
    pub(super) message: String,
    pub(super) tool_call_id: CallId,
    pub(super) response_schema: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<turnbuckle_core::time::Timestamp>,
    pub(super) metadata: Value,
    #[serde(flatten)]
    pub(super) by: By,
}

/// Tokens of a model in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tokens {
    pub(super) provider: String,
    pub(super) model: String,
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) total_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cached_input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache_write_input_tokens: Option<u64>,
}

/// A value as text: a string as it is, anything else as JSON.
pub(super) fn as_text(value: &Json) -> String {
    match &**value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
