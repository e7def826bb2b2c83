//! What an AI SDK client sends, and what of it counts.

use crate::dto::{NewClientTool, NewDecision, NewToolResult, NewTurn, ToolFailure, Verdict};
use crate::problem::{Answer, Problem};
use crate::protocols::media::{self, Bytes};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use turnbuckle_core::allowance::Remember;
use turnbuckle_core::content::{Content, ContentPart};
use turnbuckle_core::ids::{CallId, MessageId};
use utoipa::ToSchema;

/// A request of a chat transport. Other fields that the client adds are ignored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatInput {
    /// The client's name for the chat, or a session's id.
    pub id: String,
    /// The transcript. What is new in it is taken.
    #[serde(default)]
    pub messages: Vec<ChatMessage>,
    /// The last message alone, from clients that do not send the transcript.
    #[serde(default)]
    pub message: Option<ChatMessage>,
    /// Why the client sends it.
    #[serde(default)]
    pub trigger: Option<Trigger>,
    /// Changed arguments by approval id or call id, beside the approvals in the transcript.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub amendments: BTreeMap<String, Map<String, Value>>,
    /// For which further calls an approval holds, by approval id or call id.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub remember: BTreeMap<String, Remember>,
    /// Tools that the client runs, by name.
    #[serde(default)]
    pub tools: BTreeMap<String, ChatTool>,
    /// The model for this turn, `provider:model`.
    #[serde(default)]
    pub model: Option<String>,
    /// The page of the product.
    #[serde(default)]
    pub page: Option<String>,
    /// Where the answer will be shown, such as `email`.
    #[serde(default)]
    pub surface: Option<String>,
    /// The IANA name of the time zone it is written in.
    #[serde(default)]
    pub time_zone: Option<String>,
    /// What the message refers to.
    #[serde(default)]
    pub references: Vec<Value>,
}

/// Why a client sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// There is a new message, or an answer to a card.
    SubmitMessage,
    /// The last answer shall be made anew.
    RegenerateMessage,
}

/// A UI message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatMessage {
    /// Its id.
    pub id: String,
    /// Whose it is.
    pub role: String,
    /// What it holds.
    #[serde(default)]
    pub parts: Vec<Value>,
}

/// A tool that the client runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatTool {
    /// What it does.
    #[serde(default)]
    pub description: Option<String>,
    /// JSON Schema of its arguments.
    #[serde(default, alias = "inputSchema")]
    pub parameters: Option<Value>,
}

/// What the transcript says about a call.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Said {
    /// A person decided this card.
    Decided(MessageId, NewDecision),
    /// The client has a result.
    Result(CallId, NewToolResult),
}

impl ChatInput {
    /// The message that matters.
    pub(super) fn last(&self) -> Answer<&ChatMessage> {
        let last = self.message.as_ref().or(self.messages.last());
        last.ok_or_else(|| Problem::field("messages", "must not be empty"))
    }

    /// A message to submit.
    pub(super) fn turn(&self, message: &ChatMessage) -> Answer<NewTurn> {
        let parts = message.parts.iter().enumerate();
        let parts = parts.map(|(i, value)| part(&format!("messages.parts[{i}]"), value));
        let parts: Vec<Option<ContentPart>> = parts.collect::<Answer<_>>()?;
        let content = Content::from_parts(parts.into_iter().flatten().collect());
        let tools = self.tools.iter().map(|(name, tool)| NewClientTool {
            name: name.clone(),
            description: tool.description.clone().unwrap_or_default(),
            input_schema: tool.parameters.clone().filter(|schema| !schema.is_null()),
        });
        Ok(NewTurn {
            page: self.page.clone(),
            surface: self.surface.clone(),
            time_zone: self.time_zone.clone(),
            references: self.references.clone(),
            tools: tools.collect(),
            model: self.model.clone(),
            ..NewTurn::new(content)
        })
    }

    /// What the client says about calls.
    pub(super) fn said(&self, message: &ChatMessage) -> Answer<Vec<Said>> {
        let parts = message.parts.iter().enumerate();
        let said =
            parts.filter_map(|(i, value)| self.about(&format!("messages.parts[{i}]"), value));
        said.collect()
    }

    fn about(&self, field: &str, part: &Value) -> Option<Answer<Said>> {
        let text = |name: &str| part.get(name).and_then(Value::as_str);
        let call = text("toolCallId")?;
        match text("state")? {
            "approval-responded" => Some(self.decision(field, call, part.get("approval")?)),
            "output-available" if text("type") != Some("dynamic-tool") => {
                let output = part.get("output").cloned().unwrap_or_default();
                let result = NewToolResult { output: Some(output.into()), error: None };
                Some(Ok(Said::Result(CallId::from(call), result)))
            }
            "output-error" if text("type") != Some("dynamic-tool") => {
                let message = text("errorText").unwrap_or("The tool failed.").to_owned();
                let error = Some(ToolFailure { message });
                let result = NewToolResult { output: None, error };
                Some(Ok(Said::Result(CallId::from(call), result)))
            }
            _ => None,
        }
    }

    /// A decision. Nothing but a plain yes is one.
    fn decision(&self, field: &str, call: &str, approval: &Value) -> Answer<Said> {
        let text = |name: &str| approval.get(name).and_then(Value::as_str);
        let wrong = |name, what| Problem::field(format!("{field}.approval.{name}"), what);
        let id = text("id").ok_or_else(|| wrong("id", "must be a text"))?;
        let reason = text("reason").map(str::to_owned);
        let new = match approval.get("approved") {
            Some(Value::Bool(true)) => NewDecision {
                decision: Verdict::Approve,
                amendment: self
                    .amendments
                    .get(id)
                    .or_else(|| self.amendments.get(call))
                    .filter(|fields| !fields.is_empty())
                    .cloned(),
                reason,
                remember: self.remember.get(id).or_else(|| self.remember.get(call)).cloned(),
            },
            Some(Value::Bool(false)) => {
                NewDecision { decision: Verdict::Reject, amendment: None, reason, remember: None }
            }
            _ => return Err(wrong("approved", "must be true or false")),
        };
        Ok(Said::Decided(MessageId::from(id), new))
    }
}

/// What a part says; `None` for what is only for the client.
fn part(field: &str, value: &Value) -> Answer<Option<ContentPart>> {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    match text("type").unwrap_or_default() {
        "text" => {
            let text = text("text").ok_or_else(|| Problem::field(field, "must have a `text`"))?;
            Ok(Some(ContentPart::Text { text: text.to_owned() }))
        }
        "file" => {
            let url = text("url").ok_or_else(|| Problem::field(field, "must have a `url`"))?;
            let (mime, name) = (text("mediaType"), text("filename"));
            media::part(field, mime, name, Bytes::Url(url)).map(Some)
        }
        data if data.starts_with("data-") => Ok(None),
        other => Err(Problem::field(field, format!("cannot be of the type `{other}`"))),
    }
}
