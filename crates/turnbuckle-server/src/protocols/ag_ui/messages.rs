//! Stored messages as AG-UI messages.
//!
//! A turn's one message becomes, per model call, an assistant message with its text and its calls, a reasoning message for each
//! piece of reasoning, and a tool message for each result. Their ids follow from the place in the turn, so that what is streamed
//! and what is read back are the same messages.

use super::event::as_text;
use crate::protocols::shown::{Prose, ProseId, visible};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use turnbuckle_core::content::{Content, ContentPart, Source};
use turnbuckle_core::ids::{CallId, MessageId, SessionId};
use turnbuckle_core::message::{AssistantMessage, Message, UserMessage};
use turnbuckle_core::part::{InputPart, Part, ToolCallPart};

/// The assistant message of one model call: it holds the call's first text and all tool calls.
pub(super) fn step_id(message: &MessageId, iteration: u32) -> String {
    format!("{message}.{iteration}")
}

/// The message that holds a text or a piece of reasoning.
pub(super) fn prose_id(message: &MessageId, id: ProseId) -> String {
    let ProseId { iteration, nth, kind } = id;
    match (kind, nth) {
        (Prose::Text, 0) => step_id(message, iteration),
        (Prose::Text, nth) => format!("{message}.{iteration}.{nth}"),
        (Prose::Thinking, nth) => format!("{message}.{iteration}.r{nth}"),
    }
}

/// The message that holds a call's result.
pub(super) fn result_id(call: &CallId) -> String {
    format!("{call}-result")
}

/// A call's result as text, and why it has none.
pub(super) fn result_of(call: &ToolCallPart) -> (String, Option<String>) {
    match (&call.error, &call.output) {
        (Some(error), _) => (error.message.clone(), Some(error.message.clone())),
        (None, Some(output)) => (as_text(output), None),
        (None, None) => (String::new(), None),
    }
}

/// The id under which a client knows a message.
pub(super) fn user_id(message: &UserMessage) -> String {
    message.client_id.clone().unwrap_or_else(|| message.id.to_string())
}

/// Stored messages, in order. Cards and notes are no messages of this protocol.
pub(super) fn all(session: &SessionId, messages: &[Message]) -> Vec<Value> {
    let mut out = Vec::new();
    for message in messages {
        match message {
            Message::User(user) => out.push(of_user(session, user)),
            Message::Assistant(message) => of_assistant(session, message, None, &mut out),
            Message::System(_) => {}
        }
    }
    out
}

/// A person's message.
pub(super) fn of_user(session: &SessionId, message: &UserMessage) -> Value {
    let content = content(session, &message.content);
    json!({"id": user_id(message), "role": "user", "content": content})
}

/// The messages of a turn.
pub(super) fn of_assistant(
    session: &SessionId,
    message: &AssistantMessage,
    inside: Option<&CallId>,
    out: &mut Vec<Value>,
) {
    let mut steps: BTreeMap<u32, usize> = BTreeMap::new();
    let mut counts: BTreeMap<(u32, bool), usize> = BTreeMap::new();
    let tag = |mut fields: Map<String, Value>| {
        if let Some(call) = inside {
            fields.insert("subagentRunId".to_owned(), json!(call));
        }
        Value::Object(fields)
    };
    for part in visible(message) {
        let iteration = part.iteration();
        let mut step = |out: &mut Vec<Value>| {
            *steps.entry(iteration).or_insert_with(|| {
                let id = step_id(&message.id, iteration);
                out.push(tag(fields([("id", json!(id)), ("role", json!("assistant"))])));
                out.len() - 1
            })
        };
        match part {
            Part::Text(text) => {
                let count = counts.entry((iteration, true)).or_default();
                let nth = std::mem::replace(count, *count + 1);
                let index = if nth == 0 {
                    step(out)
                } else {
                    let id = prose_id(&message.id, ProseId { iteration, nth, kind: Prose::Text });
                    out.push(tag(fields([("id", json!(id)), ("role", json!("assistant"))])));
                    out.len() - 1
                };
                if let Some(Value::Object(fields)) = out.get_mut(index) {
                    fields.insert("content".to_owned(), json!(text.text));
                }
            }
            Part::Thinking(text) => {
                let count = counts.entry((iteration, false)).or_default();
                let nth = std::mem::replace(count, *count + 1);
                let id = prose_id(&message.id, ProseId { iteration, nth, kind: Prose::Thinking });
                out.push(tag(fields([
                    ("id", json!(id)),
                    ("role", json!("reasoning")),
                    ("content", json!(text.text)),
                ])));
            }
            Part::ToolCall(call) => {
                let index = step(out);
                if let Some(Value::Object(fields)) = out.get_mut(index) {
                    let calls = fields.entry("toolCalls").or_insert_with(|| json!([]));
                    if let Value::Array(calls) = calls {
                        calls.push(of_call(call));
                    }
                }
                if let Some(child) = &call.child {
                    of_assistant(session, child, Some(&call.id), out);
                }
                if call.status.is_settled() {
                    let (content, error) = result_of(call);
                    let mut result = fields([
                        ("id", json!(result_id(&call.id))),
                        ("role", json!("tool")),
                        ("toolCallId", json!(call.id)),
                        ("content", json!(content)),
                    ]);
                    if let Some(error) = error {
                        result.insert("error".to_owned(), json!(error));
                    }
                    out.push(tag(result));
                }
            }
            Part::Input(input) => out.push(of_steering(session, input)),
            Part::Native(_) => {}
        }
    }
}

/// What a person wrote in the middle of a turn.
fn of_steering(session: &SessionId, input: &InputPart) -> Value {
    let content = content(session, &input.content);
    json!({"id": steering_id(input), "role": "user", "content": content})
}

/// The id of what a person wrote in the middle of a turn.
pub(super) fn steering_id(input: &InputPart) -> String {
    match &input.message {
        Some(id) => id.to_string(),
        None => format!("input-{}", input.at),
    }
}

fn of_call(call: &ToolCallPart) -> Value {
    // What runs is what is shown; until it is known, what the model wrote.
    let arguments = match &call.args {
        Some(args) => args.to_string(),
        None => call.arguments.clone(),
    };
    let function = json!({"name": call.name, "arguments": arguments});
    json!({"id": call.id, "type": "function", "function": function})
}

fn content(session: &SessionId, content: &Content) -> Value {
    match content {
        Content::Text(text) => json!(text),
        Content::Parts(parts) => parts.iter().map(|part| of_part(session, part)).collect(),
    }
}

fn of_part(session: &SessionId, part: &ContentPart) -> Value {
    let (kind, mime, source) = match part {
        ContentPart::Text { text } => return json!({"type": "text", "text": text}),
        ContentPart::Image(image) => ("image", json!(image.mime), &image.source),
        ContentPart::File(file) => ("document", json!(file.mime), &file.source),
    };
    let source = match source {
        Source::Data(data) => json!({"type": "data", "value": data, "mimeType": mime}),
        Source::Url(url) => json!({"type": "url", "value": url, "mimeType": mime}),
        Source::Blob(blob) => {
            let path = format!("/v1/sessions/{session}/blobs/{}", blob.id);
            json!({"type": "url", "value": path, "mimeType": mime})
        }
    };
    json!({"type": kind, "source": source})
}

fn fields<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
