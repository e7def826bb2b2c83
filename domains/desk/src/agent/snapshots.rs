//! What links and cards show of a record: mined from the outputs of a turn's tools by their shape, so
//! that tools written later are understood as well.
//!
//! Anything with an id of the desk and a name to show is a record, at most a few levels deep. A later
//! sighting adds what an earlier one lacked and replaces what changed.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use turnbuckle::core::json::Json;
use turnbuckle::core::message::AssistantMessage;

use crate::ids::{Kind, Reference};

/// How deep outputs are searched.
const DEPTH: usize = 5;

/// Most records kept of a turn.
const MOST: usize = 500;

/// What a kind of record shows beside its name, and where it stands in an output.
fn shown(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Thread => {
            &["status", "last_sender", "last_message_at", "unread", "assignee", "snippet"]
        }
        Kind::Task => &["deadline", "priority", "completed_at", "overdue"],
        Kind::Draft => &["to", "snippet", "updated_at", "thread"],
        Kind::Order => &["status", "total", "currency", "contact", "carrier", "tracking_number"],
        Kind::Article => &["slug", "category", "audience", "snippet"],
        Kind::Member => &["email", "title"],
        Kind::Group => &["description"],
        Kind::Contact | Kind::Company | Kind::Inbox | Kind::Tag => &["detail"],
        Kind::Message | Kind::Note | Kind::Refund => &[],
    }
}

/// The fields that name a record, the best first.
const NAMES: [&str; 4] = ["subject", "title", "name", "number"];

/// Records seen, by id such as `thread:12`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen(BTreeMap<String, Json>);

impl Seen {
    /// What the tools of a message found, sub-agents included.
    pub fn in_message(message: &AssistantMessage) -> Self {
        let mut seen = Self::default();
        seen.add_message(message);
        seen
    }

    fn add_message(&mut self, message: &AssistantMessage) {
        for call in message.calls() {
            if let (Some(output), None) = (&call.output, &call.error) {
                self.mine(output);
            }
            if let Some(child) = &call.child {
                self.add_message(child);
            }
        }
    }

    /// Takes the records out of a tool's output.
    pub fn mine(&mut self, output: &Value) {
        self.walk(output, DEPTH);
    }

    /// The snapshot of a record.
    pub fn get(&self, id: &str) -> Option<&Json> {
        self.0.get(id)
    }

    fn walk(&mut self, value: &Value, depth: usize) {
        if depth == 0 {
            return;
        }
        match value {
            Value::Object(map) => {
                self.take(map);
                map.values().for_each(|value| self.walk(value, depth - 1));
            }
            Value::Array(items) => items.iter().for_each(|value| self.walk(value, depth - 1)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn take(&mut self, map: &Map<String, Value>) {
        let text = |field: &str| map.get(field).and_then(Value::as_str);
        let Some(id) = text("id") else { return };
        let Some(Reference::Number { kind: Some(kind), id: number }) = Reference::parse(id) else {
            return;
        };
        let Some(name) = NAMES.iter().find_map(|field| text(field)) else { return };
        let id = format!("{}:{number}", kind.slug());
        if self.0.len() >= MOST && !self.0.contains_key(&id) {
            return;
        }
        let known = self.0.entry(id.clone()).or_default();
        let mut snapshot = known.as_object().cloned().unwrap_or_default();
        snapshot.insert("kind".into(), kind.slug().into());
        snapshot.insert("id".into(), id.into());
        snapshot.insert("name".into(), name.into());
        for field in shown(kind) {
            if let Some(value) = map.get(*field).filter(|value| !value.is_null()) {
                snapshot.insert((*field).into(), named(value));
            }
        }
        *known = Value::Object(snapshot).into();
    }
}

/// A person or a record within a snapshot is shown by name.
fn named(value: &Value) -> Value {
    value.get("name").cloned().unwrap_or_else(|| value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn records_are_found_by_shape_wherever_they_are() {
        let mut seen = Seen::default();
        seen.mine(&json!({
            "threads": [{
                "id": "thread:7", "subject": "Where is it?", "status": "open",
                "assignee": {"id": "member:2", "name": "Priya Raman"}, "snippet": "Hello",
            }],
            "of_a_tool_written_later": {"hits": [{"id": "order:10", "number": "BR-10", "total": "5.00"}]},
            "nobody": {"id": "thread:8"},
            "workflow": {"id": "node-3", "name": "Step"},
            "count": 3,
        }));
        assert_eq!(
            seen.get("thread:7").map(|s| (**s).clone()),
            Some(json!({
                "kind": "thread", "id": "thread:7", "name": "Where is it?", "status": "open",
                "assignee": "Priya Raman", "snippet": "Hello",
            }))
        );
        assert_eq!(
            seen.get("member:2").map(|s| (**s).clone()),
            Some(json!({"kind": "member", "id": "member:2", "name": "Priya Raman"}))
        );
        assert!(seen.get("order:10").is_some());
        assert_eq!((seen.get("thread:8"), seen.0.len()), (None, 3));
    }

    #[test]
    fn a_later_sighting_adds_and_replaces() {
        let mut seen = Seen::default();
        seen.mine(&json!({"id": "thread:7", "subject": "Old", "status": "open", "snippet": "a"}));
        seen.mine(&json!({"id": "thread:7", "name": "New", "status": "archived"}));
        assert_eq!(
            seen.get("thread:7").map(|s| (**s).clone()),
            Some(json!({
                "kind": "thread", "id": "thread:7", "name": "New", "status": "archived", "snippet": "a",
            }))
        );
    }

    #[test]
    fn what_lies_too_deep_is_left() {
        let mut deep = json!({"id": "thread:1", "name": "Deep"});
        for _ in 0..DEPTH {
            deep = json!({ "in": deep });
        }
        let mut seen = Seen::default();
        seen.mine(&deep);
        assert_eq!(seen, Seen::default());
    }
}
