//! Predicted ids, and what stands for them by now.

use serde_json::{Map, Value};
use std::collections::BTreeMap;
use turnbuckle_core::json::Json;
use turnbuckle_store::CapturedStatus;

/// What every predicted id has before its number.
const MARK: &str = "temp_";

/// The predicted ids of a session and what became of the actions that predicted them.
#[derive(Debug, Default)]
pub(super) struct Ids(BTreeMap<String, Known>);

/// What stands for a predicted id.
#[derive(Clone, Debug, PartialEq)]
enum Known {
    Real(Value),
    /// It will never exist.
    Never(&'static str),
    /// It may come to exist, or a person may write the real one.
    NotYet(&'static str),
}

/// Why an action cannot be done with the ids that are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Blocked {
    /// What it depends on will never happen.
    ForGood(String),
    /// It can be done later, or with other arguments.
    ForNow(String),
}

impl Ids {
    /// Learns what stands for the ids that an action predicted, from where the action stands and what came of it.
    pub(super) fn learn(&mut self, predicted: &Value, status: CapturedStatus, result: &Json) {
        let applied = status == CapturedStatus::Applied;
        let mut pairs = Vec::new();
        pair(predicted, applied.then_some(&**result), &mut pairs);
        for (id, real) in pairs {
            let known = match (real, status) {
                (Some(real), _) => Known::Real(real),
                (None, CapturedStatus::Applied) => {
                    Known::NotYet("was applied without giving this id")
                }
                (None, CapturedStatus::Pending) => Known::NotYet("has not been applied yet"),
                (None, CapturedStatus::Applying) => Known::NotYet("is being applied"),
                (None, CapturedStatus::Rejected) => Known::Never("was rejected"),
                (None, CapturedStatus::Failed) => Known::Never("failed"),
                (None, CapturedStatus::Skipped) => Known::Never("was skipped"),
            };
            self.0.insert(id, known);
        }
    }

    /// Puts real values in the place of predicted ids, wherever they occur. A predicted id that nothing stands for is never
    /// left in place: a tool could take it for a real one.
    ///
    /// # Errors
    /// Why there is nothing to put there; that it never will be goes before that it is not there yet.
    pub(super) fn put_into(&self, args: &Value) -> Result<Value, Blocked> {
        let mut blocked = None;
        let args = self.replaced(args, &mut |id| self.value(id, &mut blocked));
        blocked.map_or(Ok(args), Err)
    }

    /// As [`Ids::put_into`], for what is not handed to a tool: predicted ids that nothing stands for yet stay.
    pub(super) fn put_where_known(&self, value: &Value) -> Value {
        self.replaced(value, &mut |id| match self.0.get(id) {
            Some(Known::Real(real)) => real.clone(),
            Some(Known::Never(_) | Known::NotYet(_)) | None => Value::from(id),
        })
    }

    /// Puts what `stands` gives in the place of predicted ids.
    fn replaced(&self, value: &Value, stands: &mut impl FnMut(&str) -> Value) -> Value {
        match value {
            Value::String(text) => self.replaced_text(text, stands),
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.replaced(item, stands)).collect())
            }
            Value::Object(map) => {
                let mut all = Map::new();
                for (name, item) in map {
                    let name = as_text(self.replaced_text(name, stands));
                    all.insert(name, self.replaced(item, stands));
                }
                Value::Object(all)
            }
            leaf => leaf.clone(),
        }
    }

    fn replaced_text(&self, text: &str, stands: &mut impl FnMut(&str) -> Value) -> Value {
        if self.0.contains_key(text) || is_predicted(text) {
            return stands(text);
        }
        let (mut all, mut rest) = (String::new(), text);
        while let Some((before, id, after)) = self.next_in(rest) {
            all.push_str(before);
            all.push_str(&as_text(stands(id)));
            rest = after;
        }
        Value::String(all + rest)
    }

    /// What stands for a predicted id; why nothing does is kept in `blocked`.
    fn value(&self, id: &str, blocked: &mut Option<Blocked>) -> Value {
        match self.0.get(id) {
            Some(known) => known.value(id, blocked),
            None => {
                let why = format!("no action that was captured in this session predicted {id}");
                block(blocked, Blocked::ForNow(why));
                Value::Null
            }
        }
    }

    /// The next predicted id that stands as a word of its own in a longer text, with what is before and after it.
    fn next_in<'t>(&self, text: &'t str) -> Option<(&'t str, &'t str, &'t str)> {
        let ends = text.match_indices(MARK).filter_map(|(at, _)| {
            let tail = text.get(at + MARK.len()..)?;
            let rest = tail.trim_start_matches(|c: char| c.is_ascii_digit());
            (rest.len() < tail.len() && !rest.starts_with(is_of_word))
                .then_some(text.len() - rest.len())
        });
        ends.filter_map(|end| {
            let (head, after) = text.split_at_checked(end)?;
            let ids = self.0.keys().filter(|id| head.ends_with(id.as_str()));
            let start = end - ids.map(String::len).max()?;
            let (before, id) = head.split_at_checked(start)?;
            let apart = !before.ends_with(|c: char| is_of_word(c) || ":/-.#".contains(c));
            apart.then_some((before, id, after))
        })
        .next()
    }
}

impl Known {
    fn value(&self, id: &str, blocked: &mut Option<Blocked>) -> Value {
        match self {
            Known::Real(value) => return value.clone(),
            Known::Never(why) => {
                let why = format!("it depends on an action that {why} ({id})");
                block(blocked, Blocked::ForGood(why));
            }
            Known::NotYet(why) => {
                let why = format!("it depends on an action that {why} ({id})");
                block(blocked, Blocked::ForNow(why));
            }
        }
        Value::Null
    }
}

/// Keeps the first reason, unless a later one is for good.
fn block(blocked: &mut Option<Blocked>, by: Blocked) {
    match (&blocked, &by) {
        (None, _) | (Some(Blocked::ForNow(_)), Blocked::ForGood(_)) => *blocked = Some(by),
        _ => {}
    }
}

fn as_text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Walks the predicted and the real output together and collects predicted ids.
fn pair(predicted: &Value, real: Option<&Value>, out: &mut Vec<(String, Option<Value>)>) {
    match predicted {
        Value::String(id) if is_predicted(id) => out.push((id.clone(), real.cloned())),
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                pair(item, real.and_then(|r| r.get(i)), out);
            }
        }
        Value::Object(map) => {
            for (key, item) in map {
                pair(item, real.and_then(|r| r.get(key)), out);
            }
        }
        _ => {}
    }
}

/// Whether a text is a predicted id: one word that ends with `temp_` and a number, such as `temp_0` or `task:temp_0`.
fn is_predicted(text: &str) -> bool {
    !text.contains(char::is_whitespace)
        && text.rsplit_once(MARK).is_some_and(|(before, number)| {
            let apart = !before.ends_with(is_of_word);
            apart && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::Arc;

    fn learned(predicted: Value, status: CapturedStatus, result: Value) -> Ids {
        let mut ids = Ids::default();
        ids.learn(&predicted, status, &Arc::new(result));
        ids
    }

    #[test]
    fn predicted_ids_are_told_from_other_text() {
        for id in ["temp_0", "task:temp_12"] {
            assert!(is_predicted(id), "{id}");
        }
        for other in ["temp_", "temp_x", "mytemp_1", "attempt_1", "temp_1 is", "see temp_1"] {
            assert!(!is_predicted(other), "{other}");
        }
    }

    #[test]
    fn real_ids_stand_wherever_the_predicted_ones_stood() {
        let predicted = json!({"task": {"id": "task:temp_1"}, "n": "temp_1", "ok": true});
        let real = json!({"task": {"id": "task:41"}, "n": 7, "ok": true});
        let ids = learned(predicted, CapturedStatus::Applied, real);
        let args = json!({
            "links": ["task:temp_1"],
            "note": "See task:temp_1, (task:temp_1) and nr. temp_1.",
            "other": "an attempt_1 of task:temp_10, subtask:temp_1 or task:temp_1b",
            "n": {"temp_1": 1},
        });
        let expected = json!({
            "links": ["task:41"],
            "note": "See task:41, (task:41) and nr. 7.",
            "other": "an attempt_1 of task:temp_10, subtask:temp_1 or task:temp_1b",
            "n": {"7": 1},
        });
        assert_eq!(ids.put_into(&args), Ok(expected));
    }

    #[test]
    fn what_is_only_referred_to_keeps_the_ids_that_nothing_stands_for() {
        let mut ids = learned(json!("temp_0"), CapturedStatus::Applied, json!(7));
        ids.learn(&json!("temp_1"), CapturedStatus::Rejected, &Json::default());
        let value =
            json!({"id": "temp_0", "others": ["temp_1", "temp_2"], "note": "temp_0, temp_1"});
        let expected = json!({"id": 7, "others": ["temp_1", "temp_2"], "note": "7, temp_1"});
        assert_eq!(ids.put_where_known(&value), expected);
    }

    #[test]
    fn what_will_never_be_there_goes_before_what_is_not_there_yet() {
        let mut ids = learned(json!("temp_0"), CapturedStatus::Pending, Value::Null);
        let why = "it depends on an action that has not been applied yet (temp_0)";
        let waits = Err(Blocked::ForNow(why.to_owned()));
        assert_eq!(ids.put_into(&json!({"order": "temp_0"})), waits);
        assert_eq!(ids.put_into(&json!({"body": "About temp_0"})), waits);
        ids.learn(&json!("temp_1"), CapturedStatus::Rejected, &Json::default());
        let why = "it depends on an action that was rejected (temp_1)".to_owned();
        assert_eq!(ids.put_into(&json!(["temp_0", "temp_1"])), Err(Blocked::ForGood(why)));
    }

    #[test]
    fn an_id_that_nothing_stands_for_is_not_left_in_place() {
        let ids = learned(json!({"id": "temp_0"}), CapturedStatus::Applied, json!("done"));
        let why = "it depends on an action that was applied without giving this id (temp_0)";
        assert_eq!(ids.put_into(&json!("temp_0")), Err(Blocked::ForNow(why.to_owned())));
        let why = "no action that was captured in this session predicted order:temp_9";
        assert_eq!(ids.put_into(&json!("order:temp_9")), Err(Blocked::ForNow(why.to_owned())));
    }
}
