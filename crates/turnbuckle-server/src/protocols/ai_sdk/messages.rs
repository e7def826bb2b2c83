//! Stored messages as UI messages: the same that a client builds from the stream.

use super::ClientTools;
use crate::protocols::shown::visible;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use turnbuckle_core::content::{Content, ContentPart, Source};
use turnbuckle_core::error::ToolErrorCode;
use turnbuckle_core::ids::{AgentName, CallId, MessageId, SessionId};
use turnbuckle_core::message::{
    ApprovalCard, Asks, AssistantMessage, CardStatus, Message, SystemBody, SystemMessage,
    UserMessage,
};
use turnbuckle_core::part::{Part, ToolCallPart, ToolCallStatus};

/// What was asked about the calls of a conversation.
pub(super) type Cards<'a> = BTreeMap<&'a CallId, Asked<'a>>;

/// What was asked about a call. A tool of the client that also needs approval is asked about both.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked<'a> {
    /// The decision that people were asked for last.
    decision: Option<(&'a MessageId, &'a ApprovalCard)>,
    /// Whether the client was asked for the result.
    result: bool,
}

/// Collects cards.
pub(super) fn cards<'a>(messages: impl IntoIterator<Item = &'a SystemMessage>) -> Cards<'a> {
    let mut cards = Cards::new();
    for message in messages {
        let SystemBody::Approval(card) = &message.body else { continue };
        let asked = cards.entry(&card.call).or_default();
        match card.asks {
            Asks::Decision => asked.decision = Some((&message.id, card)),
            Asks::ClientResult => asked.result = true,
        }
    }
    cards
}

/// Stored messages, in order. Notes are no messages of this protocol.
pub(super) fn all(session: &SessionId, messages: &[Message], tools: &ClientTools) -> Vec<Value> {
    let mut tools = tools.clone();
    let system = messages.iter().filter_map(|message| match message {
        Message::System(message) => Some(message),
        _ => None,
    });
    let cards = cards(system);
    let mut out = Vec::new();
    for message in messages {
        match message {
            Message::User(user) => {
                tools.offer(user);
                out.push(of_user(session, user));
            }
            Message::Assistant(message) => out.push(of_assistant(message, &cards, &tools)),
            Message::System(_) => {}
        }
    }
    out
}

/// A person's message.
pub(super) fn of_user(session: &SessionId, message: &UserMessage) -> Value {
    let id = message.client_id.clone().unwrap_or_else(|| message.id.to_string());
    let parts: Vec<Value> = match &message.content {
        Content::Text(text) => vec![json!({"type": "text", "text": text})],
        Content::Parts(parts) => parts.iter().map(|part| of_part(session, part)).collect(),
    };
    json!({"id": id, "role": "user", "parts": parts})
}

fn of_part(session: &SessionId, part: &ContentPart) -> Value {
    let (mime, name, source) = match part {
        ContentPart::Text { text } => return json!({"type": "text", "text": text}),
        ContentPart::Image(image) => (json!(image.mime), image.name.as_deref(), &image.source),
        ContentPart::File(file) => (json!(file.mime), Some(file.name.as_str()), &file.source),
    };
    let url = match source {
        Source::Data(data) => {
            let (mime, data) = (mime.as_str().unwrap_or_default(), json!(data));
            format!("data:{mime};base64,{}", data.as_str().unwrap_or_default())
        }
        Source::Url(url) => url.to_string(),
        Source::Blob(blob) => format!("/v1/sessions/{session}/blobs/{}", blob.id),
    };
    let mut fields = json!({"type": "file", "mediaType": mime, "url": url});
    if let (Some(name), Value::Object(fields)) = (name, &mut fields) {
        fields.insert("filename".to_owned(), json!(name));
    }
    fields
}

/// A turn as one message. `tools` are those that the client runs.
pub(super) fn of_assistant(
    message: &AssistantMessage,
    cards: &Cards<'_>,
    tools: &ClientTools,
) -> Value {
    let mut parts = Vec::new();
    let mut step = None;
    let mut nested = Vec::new();
    for part in visible(message) {
        let of_a_step = !matches!(part, Part::Input(_));
        if of_a_step && step.replace(part.iteration()) != Some(part.iteration()) {
            end_step(&mut parts, &mut nested);
            parts.push(json!({"type": "step-start"}));
        }
        match part {
            Part::Text(text) => {
                parts.push(json!({"type": "text", "text": text.text, "state": "done"}));
            }
            Part::Thinking(text) => {
                parts.push(json!({"type": "reasoning", "text": text.text, "state": "done"}));
            }
            Part::ToolCall(call) => {
                parts.push(of_call(call, cards, Runs::of(&message.agent, call, tools)));
                asked(call, cards, tools, &mut nested);
            }
            Part::Input(input) => {
                let text = input.content.outline();
                parts.push(json!({"type": "data-steering", "data": {"text": text}}));
            }
            Part::Native(_) => {}
        }
    }
    end_step(&mut parts, &mut nested);
    json!({
        "id": message.id, "role": "assistant", "parts": parts, "metadata": {"turn": message.turn},
    })
}

/// Behind a step comes what nested agents asked in it.
fn end_step(parts: &mut Vec<Value>, nested: &mut Vec<Value>) {
    if !nested.is_empty() {
        parts.push(json!({"type": "step-start"}));
        parts.append(nested);
    }
}

/// Who runs a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runs {
    Client,
    Server,
}

impl Runs {
    fn of(agent: &AgentName, call: &ToolCallPart, tools: &ClientTools) -> Self {
        if tools.has(agent, &call.name) { Runs::Client } else { Runs::Server }
    }
}

/// The calls of nested agents that people were asked to decide or the client to run, as the stream shows them.
fn asked(call: &ToolCallPart, cards: &Cards<'_>, tools: &ClientTools, parts: &mut Vec<Value>) {
    let Some(child) = &call.child else { return };
    for inner in child.calls() {
        match cards.get(&inner.id) {
            Some(Asked { decision: Some(_), .. }) => {
                parts.push(of_call(inner, cards, Runs::of(&child.agent, inner, tools)));
            }
            Some(Asked { result: true, .. }) => parts.push(of_call(inner, cards, Runs::Client)),
            Some(_) | None => {}
        }
        asked(inner, cards, tools, parts);
    }
}

fn of_call(call: &ToolCallPart, cards: &Cards<'_>, runs: Runs) -> Value {
    let mut fields = Map::new();
    let mut set = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    match runs {
        Runs::Client => set("type", json!(format!("tool-{}", call.name))),
        Runs::Server => {
            set("type", json!("dynamic-tool"));
            set("toolName", json!(call.name))
        }
    };
    set("toolCallId", json!(call.id));
    match &call.args {
        Some(args) => set("input", (**args).clone()),
        None => set("rawInput", json!(call.arguments)),
    };
    let asked = cards.get(&call.id).copied().unwrap_or_default();
    let ending = ending(call);
    // To a client that runs a call, its approval is past: the state in which it runs knows of none.
    let card = asked.decision.filter(|_| ending.is_some() || !asked.result);
    let state = match ending {
        None if asked.result => "input-available",
        None if card.is_some_and(|(_, card)| card.status == CardStatus::Pending) => {
            "approval-requested"
        }
        None if card.is_some() => "approval-responded",
        None if call.args.is_some() && runs == Runs::Server => "input-available",
        None => "input-streaming",
        Some(Ending::Given(output)) => {
            set("output", output);
            "output-available"
        }
        Some(Ending::Denied) => "output-denied",
        Some(Ending::Failed(text)) => {
            set("errorText", json!(text));
            "output-error"
        }
    };
    set("state", json!(state));
    if let Some((id, card)) = card {
        let mut approval = Map::new();
        approval.insert("id".to_owned(), json!(id));
        approval.insert("descriptor".to_owned(), descriptor(card));
        if card.status != CardStatus::Pending {
            approval.insert("approved".to_owned(), json!(card.status == CardStatus::Approved));
        }
        if let Some(reason) = card.decided.as_ref().and_then(|decided| decided.reason.as_ref()) {
            approval.insert("reason".to_owned(), json!(reason));
        }
        set("approval", Value::Object(approval));
    }
    Value::Object(fields)
}

/// What came of a call.
pub(super) enum Ending {
    /// It gave this.
    Given(Value),
    /// A person said no.
    Denied,
    /// It failed, or was not run.
    Failed(String),
}

/// What came of a call; `None` while that is open.
pub(super) fn ending(call: &ToolCallPart) -> Option<Ending> {
    if !call.status.is_settled() {
        return None;
    }
    let given = || call.output.as_deref().cloned().unwrap_or_default();
    Some(match (&call.error, call.status) {
        (Some(error), _) if error.code == ToolErrorCode::Rejected => Ending::Denied,
        (Some(error), _) => Ending::Failed(error.message.clone()),
        (None, ToolCallStatus::Completed) => Ending::Given(given()),
        (None, _) => Ending::Failed("The call has no result.".to_owned()),
    })
}

/// What a person is told of a question, and which arguments they may change.
pub(super) fn descriptor(card: &ApprovalCard) -> Value {
    let mut fields = Map::new();
    fields.insert("title".to_owned(), json!(card.title));
    let optional = [
        ("reason", card.reason.as_ref().map(|reason| json!(reason))),
        ("digest", card.digest.as_deref().cloned()),
        ("editable", card.editable.as_deref().cloned()),
        ("agent", card.agent.as_ref().map(|agent| json!(agent))),
        ("expiresAt", card.expires_at.map(|at| json!(at))),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            fields.insert(name.to_owned(), value);
        }
    }
    Value::Object(fields)
}
