//! What a request shows of the turn.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use turnbuckle::core::model::{Block, ModelRequest};
use turnbuckle::core::transcript::{Entry, Item};

use super::Call;
use super::words::{order_number, thread_id};

/// A call of this turn and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Done {
    pub(super) tool: String,
    args: Value,
    pub(super) came: Came,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Came {
    /// A result.
    Gave { value: Value, changed: Option<Value> },
    /// A person said no, or nobody said yes.
    Rejected(String),
    /// It failed.
    Failed(String),
}

/// A request as the story sees it.
#[derive(Debug)]
pub(super) struct Sight {
    ask: String,
    done: Vec<Done>,
    offered: Vec<String>,
    before: String,
    system: String,
}

impl Sight {
    pub(super) fn of(request: &ModelRequest) -> Self {
        let entries = request.transcript.entries();
        let asked = entries
            .iter()
            .rposition(|entry| is_from_a_person(entry))
            .or_else(|| entries.iter().rposition(|entry| matches!(entry.item, Item::User { .. })));
        let ask = match asked.and_then(|at| entries.get(at)).map(|entry| &entry.item) {
            Some(Item::User { content }) => content.text().into_owned(),
            _ => String::new(),
        };
        let turn = asked.and_then(|at| entries.get(at + 1..)).unwrap_or_default();
        let before = asked.and_then(|at| entries.get(..at)).unwrap_or_default();
        Self {
            ask,
            done: calls(turn),
            offered: request.tools.specs.iter().map(|spec| spec.name.to_string()).collect(),
            before: said(before),
            system: request.system.iter().map(|block| &*block.text).collect::<Vec<_>>().join("\n"),
        }
    }

    /// The user's message.
    pub(super) fn ask(&self) -> &str {
        &self.ask
    }

    /// The calls of this turn so far.
    pub(super) fn done(&self) -> &[Done] {
        &self.done
    }

    pub(super) fn offers(&self, tool: &str) -> bool {
        self.offered.iter().any(|name| name == tool)
    }

    /// Whether nothing but an answer is asked for.
    pub(super) fn is_without_tools(&self) -> bool {
        self.offered.is_empty()
    }

    pub(super) fn has_made(&self, call: &Call) -> bool {
        self.done.iter().any(|done| done.tool == call.tool && done.args == call.args)
    }

    pub(super) fn has_made_any(&self, tool: &str) -> bool {
        self.done.iter().any(|done| done.tool == tool)
    }

    /// What the latest call of a tool came to.
    pub(super) fn came(&self, tool: &str) -> Option<&Came> {
        self.done.iter().rev().find(|done| done.tool == tool).map(|done| &done.came)
    }

    /// The latest result of a tool.
    pub(super) fn gave(&self, tool: &str) -> Option<&Value> {
        match self.came(tool)? {
            Came::Gave { value, .. } => Some(value),
            Came::Rejected(_) | Came::Failed(_) => None,
        }
    }

    /// The thread that is meant: named in the message, open or mentioned, or spoken of last.
    pub(super) fn thread(&self) -> Option<String> {
        thread_id(&self.ask).or_else(|| self.open("thread")).or_else(|| {
            self.before.rfind("thread:").and_then(|at| thread_id(self.before.get(at..)?))
        })
    }

    /// The order that is meant: named in the message, or spoken of last.
    pub(super) fn order(&self) -> Option<String> {
        let open = || self.open("order");
        let earlier =
            || self.before.rfind("BR-").and_then(|at| order_number(self.before.get(at..)?));
        order_number(&self.ask).or_else(open).or_else(earlier)
    }

    /// The one record of a kind that the prompt lists as mentioned or open.
    fn open(&self, kind: &str) -> Option<String> {
        let (_, list) = self.system.split_once("The user refers to the following.")?;
        let lines = list.lines().filter_map(|line| line.strip_prefix("- "));
        let mut found = lines.filter_map(|line| {
            let id = line.split([' ', ',']).next()?;
            id.strip_prefix(kind)?.starts_with(':').then(|| id.to_owned())
        });
        let first = found.next()?;
        found.next().is_none().then_some(first)
    }

    /// Whom the agent acts for, as the prompt says.
    pub(super) fn caller(&self) -> Option<&str> {
        let (_, rest) = self.system.split_once("You act for ")?;
        rest.split_once(" (").map(|(name, _)| name)
    }
}

/// Not what the engine put in the user's place, such as a nudge.
fn is_from_a_person(entry: &Entry) -> bool {
    let person =
        entry.source.as_ref().is_some_and(|source| source.message.as_str().ends_with("-u"));
    person && matches!(entry.item, Item::User { .. })
}

/// The assistant's texts, and short results of older turns.
fn said(entries: &[std::sync::Arc<Entry>]) -> String {
    let mut out = String::new();
    for entry in entries {
        match &entry.item {
            Item::Assistant { blocks } => {
                for block in blocks {
                    if let Block::Text { text, .. } = block {
                        out.push_str(text);
                        out.push('\n');
                    }
                }
            }
            Item::User { content } => {
                out.push_str(&content.text());
                out.push('\n');
            }
            Item::ToolResults { .. } | Item::System { .. } => {}
        }
    }
    out
}

fn calls(entries: &[std::sync::Arc<Entry>]) -> Vec<Done> {
    let mut results = BTreeMap::new();
    for entry in entries {
        if let Item::ToolResults { results: all } = &entry.item {
            results.extend(all.iter().map(|result| (result.wire_id.to_string(), result)));
        }
    }
    let blocks = entries.iter().filter_map(|entry| match &entry.item {
        Item::Assistant { blocks } => Some(blocks),
        _ => None,
    });
    let calls = blocks.flatten().filter_map(|block| match block {
        Block::ToolCall { wire_id, name, arguments, .. } => Some((wire_id, name, arguments)),
        _ => None,
    });
    calls
        .map(|(wire_id, name, arguments)| {
            let came = match results.get(wire_id.as_str()) {
                Some(result) => read(&result.content, result.is_error),
                None => Came::Failed("it has no result".to_owned()),
            };
            let args = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
            Done { tool: name.clone(), args, came }
        })
        .collect()
}

/// A result as the model reads it: JSON, an error, or a note on what a person changed before the JSON.
fn read(content: &str, is_error: bool) -> Came {
    const CHANGED: &str = "[A person approved this call and changed these arguments first: ";
    let (changed, body) =
        match content.strip_prefix(CHANGED).and_then(|rest| rest.split_once("]\n")) {
            Some((changed, body)) => (serde_json::from_str(changed).ok(), body),
            None => (None, content),
        };
    let value: Value = match serde_json::from_str(body) {
        Ok(value) => value,
        Err(_) if is_error => return Came::Failed(body.to_owned()),
        Err(_) => return Came::Gave { value: Value::from(body), changed },
    };
    let Some(error) = value.get("error").filter(|error| error.is_object()) else {
        return if is_error {
            Came::Failed(body.to_owned())
        } else {
            Came::Gave { value, changed }
        };
    };
    let text = |field: &str| error.get(field).and_then(Value::as_str).unwrap_or_default();
    match text("code") {
        "rejected" | "expired" | "superseded" => Came::Rejected(text("message").to_owned()),
        _ => Came::Failed(text("message").to_owned()),
    }
}
