//! The parts of an assistant message, in the order in which they happened.

use crate::content::Content;
use crate::error::ToolError;
use crate::ids::{CallId, MessageId, ToolName, UserId};
use crate::json::{Json, present};
use crate::message::AssistantMessage;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::ops::Deref;
use std::sync::Arc;

/// A [`NativeBlock`] whose clones share it.
///
/// ```
/// use turnbuckle_core::part::{Native, NativeBlock};
/// let native = Native::from(NativeBlock {
///     wire: "anthropic".to_owned(),
///     provider: "anthropic".to_owned(),
///     model: "claude".to_owned(),
///     data: serde_json::json!({"signature": "c2ln"}).into(),
/// });
/// assert_eq!(native.data["signature"], "c2ln");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Native(Arc<NativeBlock>);

/// A provider's own block, kept verbatim so that it can be replayed to the provider that made it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NativeBlock {
    /// The wire it came over, such as `openai-chat` or `anthropic`.
    pub wire: String,
    /// The provider that made it.
    pub provider: String,
    /// The model that made it.
    pub model: String,
    /// The block as received.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::json::AnyJson))]
    pub data: Json,
}

impl From<NativeBlock> for Native {
    fn from(block: NativeBlock) -> Self {
        Self(Arc::new(block))
    }
}

/// In JSON the two are the same.
#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Native {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        NativeBlock::schema()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Native {
    fn schemas(schemas: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>) {
        <NativeBlock as utoipa::ToSchema>::schemas(schemas);
    }
}

impl Deref for Native {
    type Target = NativeBlock;

    fn deref(&self) -> &NativeBlock {
        &self.0
    }
}

/// One part. Each knows the model call (`iteration`, from 0 in its message) that made it,
/// so that every request can be rebuilt exactly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// The model's reasoning.
    Thinking(TextPart),
    /// Text for the reader.
    Text(TextPart),
    /// A tool call and all that came of it.
    ToolCall(Box<ToolCallPart>),
    /// What entered the conversation in the middle of the turn: a person's steering or the engine's own nudge.
    Input(InputPart),
    /// A provider's block that has no meaning here, such as a server-side search.
    Native(NativePart),
}

impl Part {
    /// The model call that made the part.
    pub fn iteration(&self) -> u32 {
        match self {
            Part::Thinking(p) | Part::Text(p) => p.iteration,
            Part::ToolCall(p) => p.iteration,
            Part::Input(p) => p.iteration,
            Part::Native(p) => p.iteration,
        }
    }

    /// The tool call, if it is one.
    pub fn as_call(&self) -> Option<&ToolCallPart> {
        match self {
            Part::ToolCall(call) => Some(call),
            _ => None,
        }
    }

    /// The text, if it is a text part.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Part::Text(p) => Some(&p.text),
            _ => None,
        }
    }
}

/// Text or thinking.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TextPart {
    /// The model call that made it.
    pub iteration: u32,
    /// The text.
    pub text: String,
    /// Signature, encrypted content or citations, as the provider sent them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<Native>,
}

/// A provider's block kept only for replay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NativePart {
    /// The model call that made it.
    pub iteration: u32,
    /// The block.
    pub native: Native,
}

/// Where an [`InputPart`] came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum InputKind {
    /// A person wrote while the turn ran.
    Steering,
    /// The engine asks for tool calls instead of text.
    Nudge,
    /// The engine says what was wrong with the last answer.
    Correction,
    /// The engine asks for the closing answer.
    Closing,
    /// The domain added context.
    Context,
}

/// What entered the conversation after the model call `iteration`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InputPart {
    /// The model call it follows.
    pub iteration: u32,
    /// Where it came from.
    pub kind: InputKind,
    /// What the model reads.
    pub content: Content,
    /// The person's message, when a person wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
    /// Who wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<UserId>,
    /// When it entered.
    pub at: Timestamp,
}

/// Where a tool call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolCallStatus {
    /// Announced, being checked, or executing.
    Running,
    /// Waits for a person, or for the caller's front end.
    AwaitingApproval,
    /// Has a result.
    Completed,
    /// Failed.
    Error,
    /// A person (or a newer message) said no.
    Rejected,
    /// The turn was stopped first.
    Cancelled,
}

impl ToolCallStatus {
    /// Whether the call has its final result.
    pub const fn is_settled(self) -> bool {
        !matches!(self, ToolCallStatus::Running | ToolCallStatus::AwaitingApproval)
    }
}

/// One report of a running tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProgressStep {
    /// When it came.
    pub at: Timestamp,
    /// What it says.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::json::AnyJson))]
    pub data: Json,
}

/// A tool call: what the model asked, what ran, what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolCallPart {
    /// The model call that made it.
    pub iteration: u32,
    /// Our id, unique over all sessions.
    pub id: CallId,
    /// The id used on the wire; unique within the message.
    pub wire_id: Arc<str>,
    /// The tool's name as the model wrote it.
    pub name: ToolName,
    /// The arguments verbatim as the model wrote them; this is what goes back over the wire.
    pub arguments: String,
    /// The arguments that run: parsed, defaults added, bound and made canonical. Absent until they are known.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::json::AnyJson>))]
    pub args: Option<Json>,
    /// Where it stands.
    pub status: ToolCallStatus,
    /// The stored result.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::json::AnyJson>))]
    pub output: Option<Json>,
    /// What the model sees instead of `output`.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::json::AnyJson>))]
    pub model_view: Option<Json>,
    /// What stays of the result in requests of later turns, when the tool's retention says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The small projection for people.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::json::AnyJson>))]
    pub digest: Option<Json>,
    /// Why it has no successful result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    /// Whether the action was captured instead of executed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub captured: bool,
    /// Whether the result was served from the turn's cache.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
    /// The arguments a person changed before approving.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::json::AnyJson>))]
    pub amendment: Option<Json>,
    /// Reports while it ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub progress: Vec<ProgressStep>,
    /// When it began to execute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Signatures and the like, as the provider sent them with the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<Native>,
    /// The nested turn, when the call runs a sub-agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(no_recursion))]
    pub child: Option<Box<AssistantMessage>>,
}
