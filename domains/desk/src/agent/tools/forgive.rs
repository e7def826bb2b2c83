//! Arguments as models write them, brought into the form the schema asks for. Only the spelling is
//! forgiven: what an argument means is never changed, and what cannot be told is left for the
//! schema to refuse.

use serde_json::{Map, Value};
use turnbuckle::tool::{FnTool, Tool, Validated};

/// A tool that takes its arguments in the forms a model writes.
pub(crate) fn forgiving(tool: FnTool) -> FnTool {
    let schema = tool.contract().input_schema.clone();
    tool.validate(move |args, _| Ok(validated(&schema, args)))
}

/// The canonical arguments, where they differ.
pub(crate) fn validated(schema: &Value, args: &Value) -> Validated {
    match canonical(schema, args) {
        Some(args) => Validated::canonical(args),
        None => Validated::unchanged(),
    }
}

/// The canonical arguments; `None` when they are canonical already.
pub(crate) fn canonical(schema: &Value, args: &Value) -> Option<Value> {
    let given = args.as_object()?;
    let properties = schema.get("properties").and_then(Value::as_object)?;
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut out = Map::new();
    for (name, value) in given {
        let name = known_name(name, properties, given).unwrap_or(name);
        // Null is how models leave out what is optional.
        if value.is_null() && !required.contains(&name) {
            continue;
        }
        let value = match properties.get(name) {
            Some(property) => fitted(property, value),
            None => value.clone(),
        };
        out.insert(name.to_owned(), value);
    }
    (out != *given).then_some(Value::Object(out))
}

/// The argument a differently spelt name means: `threadId`, `thread_id` and `thread_ids` mean `thread`
/// or `threads`, whichever there is. Never one that is given as well.
fn known_name<'a>(
    name: &str,
    properties: &'a Map<String, Value>,
    given: &Map<String, Value>,
) -> Option<&'a str> {
    if properties.contains_key(name) {
        return None;
    }
    let snake = snake(name);
    let stem = ["_ids", "_id", "_number", "_ref", "_reference"]
        .iter()
        .find_map(|ending| snake.strip_suffix(ending))
        .unwrap_or(&snake);
    let plural = format!("{stem}s");
    let singular = stem.strip_suffix('s').unwrap_or(stem);
    [&*snake, stem, &*plural, singular]
        .into_iter()
        .find_map(|wanted| properties.get_key_value(wanted))
        .map(|(known, _)| known.as_str())
        .filter(|known| !given.contains_key(*known))
}

fn snake(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for letter in name.trim().chars() {
        if letter.is_ascii_uppercase() && !out.is_empty() && !out.ends_with('_') {
            out.push('_');
        }
        out.push(match letter {
            '-' | ' ' | '.' => '_',
            other => other.to_ascii_lowercase(),
        });
    }
    out
}

/// A value in the type and the words its schema has.
fn fitted(schema: &Value, value: &Value) -> Value {
    match value {
        Value::String(text) => from_text(schema, text).unwrap_or_else(|| value.clone()),
        Value::Number(number) => {
            let whole = number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 9e15);
            match whole {
                Some(whole) if takes(schema, "integer") && !number.is_i64() => {
                    Value::from(whole as i64)
                }
                _ if !takes(schema, "integer")
                    && !takes(schema, "number")
                    && takes(schema, "string") =>
                {
                    Value::from(number.to_string())
                }
                _ => single(schema, value),
            }
        }
        Value::Array(items) => match items_of(schema) {
            Some(of) => Value::Array(items.iter().map(|item| fitted(of, item)).collect()),
            // A list of one where one is meant.
            None => match items.as_slice() {
                [one] if !takes(schema, "array") => fitted(schema, one),
                _ => value.clone(),
            },
        },
        Value::Object(map) => {
            // Records are often passed whole where their id is meant.
            let id = map.get("id").filter(|_| !takes(schema, "object"));
            match id {
                Some(id) => fitted(schema, id),
                None => single(schema, value),
            }
        }
        Value::Null | Value::Bool(_) => value.clone(),
    }
}

/// One thing where a list is asked for.
fn single(schema: &Value, value: &Value) -> Value {
    match items_of(schema) {
        Some(of) => Value::Array(vec![fitted(of, value)]),
        None => value.clone(),
    }
}

fn from_text(schema: &Value, text: &str) -> Option<Value> {
    let words = words_of(schema);
    if !words.is_empty() {
        let wanted = snake(&text.trim().to_lowercase());
        return words.into_iter().find(|word| **word == *wanted).map(Value::from);
    }
    if takes(schema, "string") {
        return None;
    }
    let bare = text.trim();
    if takes(schema, "integer") {
        return bare.parse::<i64>().ok().map(Value::from);
    }
    if takes(schema, "boolean") {
        return bare.to_lowercase().parse::<bool>().ok().map(Value::from);
    }
    let of = items_of(schema)?;
    // A list written as JSON, or a row of addresses, or one thing.
    if bare.starts_with('[')
        && let Ok(Value::Array(items)) = serde_json::from_str(bare)
    {
        return Some(Value::Array(items.iter().map(|item| fitted(of, item)).collect()));
    }
    let pieces: Vec<&str> =
        bare.split([',', ';']).map(str::trim).filter(|piece| !piece.is_empty()).collect();
    if pieces.len() > 1 && pieces.iter().all(|piece| piece.contains('@')) {
        return Some(Value::from(pieces));
    }
    (!bare.is_empty()).then(|| Value::Array(vec![fitted(of, &Value::from(bare))]))
}

fn branches(schema: &Value) -> impl Iterator<Item = &Value> {
    ["anyOf", "oneOf"].iter().filter_map(|key| schema.get(*key)?.as_array()).flatten()
}

/// Whether values of a type pass.
fn takes(schema: &Value, kind: &str) -> bool {
    let here = match schema.get("type") {
        Some(Value::String(one)) => one == kind,
        Some(Value::Array(several)) => several.iter().any(|one| one == kind),
        _ => false,
    };
    here || branches(schema).any(|branch| takes(branch, kind))
}

/// The closed list of words a text must be one of; empty when there is none.
fn words_of(schema: &Value) -> Vec<&str> {
    let mut words: Vec<&str> = schema
        .get("enum")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    words.extend(schema.get("const").and_then(Value::as_str));
    words.extend(branches(schema).flat_map(words_of));
    words
}

fn items_of(schema: &Value) -> Option<&Value> {
    schema.get("items").or_else(|| branches(schema).find_map(items_of))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CreateTask, FindThreads, RefundOrder, ReplyToThread};
    use serde_json::json;
    use turnbuckle::tool::schema::input_of;

    fn forgiven<A: schemars::JsonSchema>(args: Value) -> Value {
        let schema = input_of::<A>();
        let first = canonical(&schema, &args).unwrap_or(args);
        assert_eq!(canonical(&schema, &first), None, "canonical arguments stay as they are");
        first
    }

    #[test]
    fn forms_a_model_writes_become_the_ones_that_are_asked_for() {
        assert_eq!(
            forgiven::<FindThreads>(json!({
                "status": "OPEN", "tagIds": "urgent", "limit": "5", "offset": 3.0, "assignee_id": 7,
                "sender": null, "sort-by": "Last Message",
            })),
            json!({
                "status": "open", "tags": ["urgent"], "limit": 5, "offset": 3, "assignee": "7",
                "sort_by": "last_message",
            })
        );
        assert_eq!(
            forgiven::<ReplyToThread>(json!({
                "threadId": {"id": "thread:9", "name": "x"}, "body": "b", "to": "a@x.example, b@x.example",
                "cc": "Ana Silva", "mode": "Draft",
            })),
            json!({
                "thread": "thread:9", "body": "b", "to": ["a@x.example", "b@x.example"],
                "cc": ["Ana Silva"], "mode": "draft",
            })
        );
        assert_eq!(
            forgiven::<CreateTask>(json!({
                "title": ["Call"], "assignee": [7, "me"], "links": "[\"thread:1\"]", "priority": "HIGH",
            })),
            json!({
                "title": "Call", "assignees": ["7", "me"], "links": ["thread:1"], "priority": "high",
            })
        );
        assert_eq!(
            forgiven::<RefundOrder>(
                json!({"order_number": "BR-1", "amount": 12.5, "reason": "late"})
            ),
            json!({"order": "BR-1", "amount": 12.5, "reason": "late"})
        );
    }

    #[test]
    fn what_cannot_be_told_is_left_to_be_refused() {
        for args in [
            json!({"status": "unresolved"}),
            json!({"thread": "t1", "thread_id": "t2"}),
            json!({"limit": "many"}),
            json!({"shared_with_me": true}),
        ] {
            assert_eq!(canonical(&input_of::<FindThreads>(), &args), None, "{args}");
        }
        let both = json!({"thread": "t1", "thread_id": "t2", "body": "x"});
        assert_eq!(canonical(&input_of::<ReplyToThread>(), &both), None);
        let null = json!({"thread": null, "body": "x"});
        assert_eq!(canonical(&input_of::<ReplyToThread>(), &null), None);
    }
}
