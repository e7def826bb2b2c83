//! What links and cards show of a record: mined from the outputs of a session's tools by their shape,
//! so that tools written later are understood as well.
//!
//! Anything with an id of the desk and a name to show is a record, at most a few levels deep. A later
//! sighting adds what an earlier one lacked and replaces what changed. What was seen last is carried
//! from turn to turn, since the model can name on any turn what it was shown on an earlier one.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use turnbuckle::core::json::Json;
use turnbuckle::core::message::AssistantMessage;

use crate::ids::{Kind, Reference};

/// How deep outputs are searched.
const DEPTH: usize = 5;

/// Most records known within a turn.
const MOST: usize = 500;

/// Most records that a turn leaves to the next: they are part of the session's state, which is written whole.
const CARRIED: usize = 200;

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
pub struct Seen {
    records: BTreeMap<String, Sighting>,
    /// How many outputs were mined; the age of a sighting is told by it.
    outputs: usize,
}

/// A record as it was seen last.
#[derive(Clone, Debug, Default, PartialEq)]
struct Sighting {
    output: usize,
    snapshot: Json,
}

impl Seen {
    /// What earlier turns left; nothing of what cannot be read.
    pub fn carried(state: Option<&Value>) -> Self {
        let snapshots = state.and_then(|state| state.get("seen")).and_then(Value::as_array);
        let mut seen = Self::default();
        for snapshot in snapshots.into_iter().flatten() {
            let Some(id) = snapshot.get("id").and_then(Value::as_str) else { continue };
            seen.outputs += 1;
            let sighting = Sighting { output: seen.outputs, snapshot: snapshot.clone().into() };
            seen.records.insert(id.to_owned(), sighting);
        }
        seen
    }

    /// What to leave to later turns: the records seen last, in the order in which they were seen.
    pub fn to_carry(&self) -> Option<Value> {
        let mut sightings: Vec<(usize, &String, &Json)> =
            self.records.iter().map(|(id, one)| (one.output, id, &one.snapshot)).collect();
        sightings.sort_by_key(|(output, id, _)| (*output, *id));
        let older = sightings.len().saturating_sub(CARRIED);
        let snapshots: Vec<Value> = sightings
            .into_iter()
            .skip(older)
            .map(|(_, _, snapshot)| (**snapshot).clone())
            .collect();
        (!snapshots.is_empty()).then(|| json!({"seen": snapshots}))
    }

    /// Adds what the tools of a message found, sub-agents included.
    pub fn add_message(&mut self, message: &AssistantMessage) {
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
        self.outputs += 1;
        self.walk(output, DEPTH);
    }

    /// The snapshot of a record.
    pub fn get(&self, id: &str) -> Option<&Json> {
        self.records.get(id).map(|one| &one.snapshot)
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
        if !self.records.contains_key(&id) && !self.make_room() {
            return;
        }
        let known = self.records.entry(id.clone()).or_default();
        known.output = self.outputs;
        let mut snapshot = known.snapshot.as_object().cloned().unwrap_or_default();
        snapshot.insert("kind".into(), kind.slug().into());
        snapshot.insert("id".into(), id.into());
        snapshot.insert("name".into(), name.into());
        for field in shown(kind) {
            if let Some(value) = map.get(*field).filter(|value| !value.is_null()) {
                snapshot.insert((*field).into(), named(value));
            }
        }
        known.snapshot = Value::Object(snapshot).into();
    }

    /// Makes room for another record, if it can: what was seen longest ago goes, but of one output the first stay.
    fn make_room(&mut self) -> bool {
        if self.records.len() < MOST {
            return true;
        }
        let oldest = self.records.iter().min_by_key(|(_, one)| one.output);
        let older = oldest.filter(|(_, one)| one.output < self.outputs);
        match older.map(|(id, _)| id.clone()) {
            Some(id) => self.records.remove(&id).is_some(),
            None => false,
        }
    }
}

/// A person or a record within a snapshot is shown by name.
fn named(value: &Value) -> Value {
    value.get("name").cloned().unwrap_or_else(|| value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!((seen.get("thread:8"), seen.records.len()), (None, 3));
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
        assert_eq!(seen.to_carry(), None);
    }

    fn threads(ids: std::ops::Range<usize>) -> Value {
        ids.map(|id| json!({"id": format!("thread:{id}"), "subject": format!("No. {id}")}))
            .collect()
    }

    #[test]
    fn what_was_seen_last_is_carried_and_carrying_it_changes_nothing() {
        let mut seen = Seen::default();
        seen.mine(&threads(0..10));
        seen.mine(&threads(10..CARRIED));
        seen.mine(&threads(0..1));
        seen.mine(&threads(CARRIED..CARRIED + 4));
        let state = seen.to_carry();
        let later = Seen::carried(state.as_ref());
        assert_eq!(later.records.len(), CARRIED);
        let known = ["thread:0", "thread:1", "thread:4", "thread:5"].map(|id| later.get(id));
        assert_eq!(known.map(|snapshot| snapshot.is_some()), [true, false, false, true]);
        assert_eq!(later.get("thread:0"), seen.get("thread:0"));
        assert_eq!(later.to_carry(), state);
    }

    #[test]
    fn a_state_that_is_something_else_carries_nothing() {
        for state in [json!(null), json!([1]), json!({"seen": 3}), json!({"seen": [1, {"id": 2}]})]
        {
            assert_eq!(Seen::carried(Some(&state)), Seen::default(), "{state}");
        }
        assert_eq!(Seen::carried(None), Seen::default());
    }

    #[test]
    fn what_is_new_takes_the_place_of_what_was_seen_longest_ago() {
        let mut seen = Seen::default();
        seen.mine(&threads(0..2));
        seen.mine(&threads(2..MOST));
        seen.mine(&threads(MOST..MOST + 1));
        seen.mine(&threads(1000..1000 + MOST + 1));
        assert_eq!(seen.records.len(), MOST);
        let known = ["thread:1", "thread:500", "thread:1000", "thread:1499", "thread:1500"];
        let known = known.map(|id| seen.get(id).is_some());
        assert_eq!(known, [false, false, true, true, false]);
    }
}
