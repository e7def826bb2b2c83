//! What an AG-UI client sends, and what of it counts.

use super::Version;
use crate::dto::{NewClientTool, NewDecision, NewToolResult, NewTurn, ToolFailure, Verdict};
use crate::problem::{Answer, Problem};
use crate::protocols::media::{self, Bytes};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use turnbuckle_core::content::{Content, ContentPart};
use turnbuckle_core::ids::{CallId, MessageId};
use turnbuckle_core::message::ApprovalCard;
use utoipa::ToSchema;

/// A run's input: AG-UI's `RunAgentInput`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunInput {
    /// The client's name for the conversation, or a session's id.
    pub thread_id: String,
    /// The client's name for the run.
    pub run_id: String,
    /// The protocol's version; absent before 1.0.
    #[serde(default)]
    pub protocol_version: Option<String>,
    /// The client's state. It comes back with the plan in it; the agent does not see it.
    #[serde(default)]
    pub state: Option<Value>,
    /// The transcript. What is new in it is taken.
    pub messages: Vec<RunMessage>,
    /// Tools that the client runs.
    #[serde(default)]
    pub tools: Vec<RunTool>,
    /// What the agent shall know of the client's surroundings.
    #[serde(default)]
    pub context: Vec<Value>,
    /// `model` and `page` are for this server.
    #[serde(default)]
    pub forwarded_props: Option<Value>,
    /// Answers to interrupts.
    #[serde(default)]
    pub resume: Option<Vec<Resume>>,
}

/// A message of the transcript.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunMessage {
    /// Its id.
    pub id: String,
    /// Whose it is.
    pub role: String,
    /// What it says.
    #[serde(default)]
    pub content: Option<Value>,
    /// The call whose result it is.
    #[serde(default)]
    pub tool_call_id: Option<String>,
    /// Why the call has no result.
    #[serde(default)]
    pub error: Option<String>,
}

/// A tool that the client runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunTool {
    /// Its name.
    pub name: String,
    /// What it does.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of its arguments.
    #[serde(default)]
    pub parameters: Option<Value>,
}

/// An answer to an interrupt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resume {
    /// Which one.
    pub interrupt_id: String,
    /// Whether it was answered.
    pub status: ResumeStatus,
    /// The answer: `approved`, and perhaps `reason`, `editedArgs`, `remember`.
    #[serde(default)]
    pub payload: Option<Value>,
}

/// Whether an interrupt was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ResumeStatus {
    /// The payload is the answer.
    Resolved,
    /// Nobody wants it any more.
    Cancelled,
}

/// A message that a person wrote last.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fresh<'a> {
    pub(super) id: &'a str,
    message: &'a RunMessage,
    index: usize,
}

impl RunInput {
    /// The dialect the client speaks. A version that nobody knows is a later one.
    pub(super) fn version(&self) -> Version {
        match self.protocol_version.as_deref() {
            None => Version::Before,
            Some(version) if version.starts_with("0.") => Version::Before,
            Some(_) => Version::One,
        }
    }

    /// The messages of people behind everything the agent said or did.
    pub(super) fn fresh(&self) -> Vec<Fresh<'_>> {
        let said = |message: &RunMessage| matches!(&*message.role, "assistant" | "tool");
        let begin = self.messages.iter().rposition(said).map_or(0, |last| last + 1);
        let tail = self.messages.iter().enumerate().skip(begin);
        let theirs = tail.filter(|(_, message)| message.role == "user");
        theirs.map(|(index, message)| Fresh { id: &message.id, message, index }).collect()
    }

    /// A message to submit.
    pub(super) fn turn(&self, fresh: &Fresh<'_>) -> Answer<NewTurn> {
        let content = content(fresh.index, fresh.message.content.as_ref())?;
        let prop = |name: &str| {
            let value = self.forwarded_props.as_ref().and_then(|props| props.get(name));
            value.and_then(Value::as_str).map(str::to_owned)
        };
        let tools = self.tools.iter().map(|tool| NewClientTool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            input_schema: tool.parameters.clone().filter(|schema| !schema.is_null()),
        });
        Ok(NewTurn {
            references: self.context.clone(),
            tools: tools.collect(),
            model: prop("model"),
            page: prop("page"),
            surface: prop("surface"),
            time_zone: prop("timeZone"),
            ..NewTurn::new(content)
        })
    }

    /// The result that the client has for a call.
    pub(super) fn result(&self, call: &CallId) -> Option<NewToolResult> {
        let is = |message: &&RunMessage| {
            message.role == "tool" && message.tool_call_id.as_deref() == Some(call.as_str())
        };
        let message = self.messages.iter().rfind(is)?;
        if let Some(error) = message.error.clone().filter(|error| !error.is_empty()) {
            let error = Some(ToolFailure { message: error });
            return Some(NewToolResult { output: None, error });
        }
        let output = match message.content.clone().unwrap_or(Value::Null) {
            // Clients write whatever they have into a text.
            Value::String(text) => match serde_json::from_str::<Value>(&text) {
                Ok(value @ (Value::Object(_) | Value::Array(_))) => value,
                _ => Value::String(text),
            },
            other => other,
        };
        Some(NewToolResult { output: Some(output.into()), error: None })
    }

    /// The calls whose results the transcript holds.
    pub(super) fn given(&self) -> impl Iterator<Item = CallId> {
        let calls = self.messages.iter().filter(|message| message.role == "tool");
        calls.filter_map(|message| message.tool_call_id.as_deref()).map(CallId::from)
    }
}

impl Resume {
    pub(super) fn card(&self) -> MessageId {
        MessageId::from(self.interrupt_id.as_str())
    }

    /// The decision about a card. Nothing but a plain yes is one.
    pub(super) fn decision(&self, index: usize, card: &ApprovalCard) -> Answer<NewDecision> {
        let field = |name: &str| format!("resume[{index}].payload.{name}");
        let reject = |reason| NewDecision {
            decision: Verdict::Reject,
            amendment: None,
            reason,
            remember: None,
        };
        let payload = match (self.status, &self.payload) {
            (ResumeStatus::Cancelled, _) => return Ok(reject(None)),
            (ResumeStatus::Resolved, Some(Value::Object(payload))) => payload,
            (ResumeStatus::Resolved, _) => {
                let what = "must be an object that says `approved`: true or false";
                return Err(Problem::field(format!("resume[{index}].payload"), what));
            }
        };
        let reason = match payload.get("reason") {
            None | Some(Value::Null) => None,
            Some(Value::String(reason)) => Some(reason.clone()),
            Some(_) => return Err(Problem::field(field("reason"), "must be a text")),
        };
        match payload.get("approved") {
            Some(Value::Bool(false)) => Ok(reject(reason)),
            Some(Value::Bool(true)) => {
                let amendment = match payload.get("editedArgs") {
                    None | Some(Value::Null) => None,
                    Some(Value::Object(edited)) => changes(edited, card),
                    Some(_) => {
                        return Err(Problem::field(field("editedArgs"), "must be an object"));
                    }
                };
                let remember = payload.get("remember").filter(|wish| !wish.is_null()).cloned();
                let remember = remember.map(serde_json::from_value).transpose();
                let remember =
                    remember.map_err(|e| Problem::field(field("remember"), e.to_string()))?;
                Ok(NewDecision { decision: Verdict::Approve, amendment, reason, remember })
            }
            _ => Err(Problem::field(field("approved"), "must be true or false")),
        }
    }
}

/// What was changed of the arguments that a person was shown.
fn changes(edited: &Map<String, Value>, card: &ApprovalCard) -> Option<Map<String, Value>> {
    let differs = |(name, value): &(&String, &Value)| card.args.get(*name) != Some(value);
    let changed: Map<String, Value> =
        edited.iter().filter(differs).map(|(name, value)| (name.clone(), value.clone())).collect();
    (!changed.is_empty()).then_some(changed)
}

fn content(index: usize, content: Option<&Value>) -> Answer<Content> {
    let field = format!("messages[{index}].content");
    match content {
        Some(Value::String(text)) => Ok(Content::Text(text.clone())),
        Some(Value::Array(parts)) => {
            let parts = parts.iter().enumerate();
            let parts = parts.map(|(i, value)| part(&format!("{field}[{i}]"), value));
            Ok(Content::from_parts(parts.collect::<Answer<_>>()?))
        }
        _ => Err(Problem::field(field, "must be a text or a list of parts")),
    }
}

fn part(field: &str, value: &Value) -> Answer<ContentPart> {
    let text =
        |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let wrong = |what: &str| Problem::field(field, what);
    let none = json!(null);
    match value.get("type").and_then(Value::as_str).unwrap_or_default() {
        "text" => {
            let text = text(value, "text").ok_or_else(|| wrong("must have a `text`"))?;
            Ok(ContentPart::Text { text })
        }
        "image" | "document" => {
            let source = value.get("source").unwrap_or(&none);
            let metadata = value.get("metadata").unwrap_or(&none);
            let at = text(source, "value").ok_or_else(|| wrong("must have a `source.value`"))?;
            let bytes = match source.get("type").and_then(Value::as_str) {
                Some("data") => Bytes::Data(&at),
                Some("url") => Bytes::Url(&at),
                _ => return Err(wrong("must have a `source` of the type `data` or `url`")),
            };
            let name = text(metadata, "filename").or_else(|| text(metadata, "name"));
            media::part(field, text(source, "mimeType").as_deref(), name.as_deref(), bytes)
        }
        // Before 1.0.
        "binary" => {
            let (data, url) = (text(value, "data"), text(value, "url"));
            let bytes = match (&data, &url) {
                (Some(data), _) => Bytes::Data(data),
                (None, Some(url)) => Bytes::Url(url),
                (None, None) => return Err(wrong("must have `data` or a `url`")),
            };
            let (mime, name) = (text(value, "mimeType"), text(value, "filename"));
            media::part(field, mime.as_deref(), name.as_deref(), bytes)
        }
        other => {
            Err(wrong(&format!("cannot be of the type `{other}`: send text, images, documents")))
        }
    }
}
