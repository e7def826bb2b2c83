//! Missing arguments from what the user sees and mentions. A mention wins over what is open on the
//! page; where several things could be meant, none is taken and the user has to be asked.
//!
//! A reference is `{"id": "thread:12", "name": "...", "origin": "mention" | "page"}`; `kind` may stand
//! beside a bare number. Without an origin it counts as the page's.

use serde_json::{Map, Value};
use turnbuckle::core::error::ToolError;
use turnbuckle::core::json::Json;

use crate::ids::{Kind, Reference};

/// What somebody refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Referred {
    pub(crate) kind: Kind,
    /// Such as `thread:12`.
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) origin: Origin,
}

/// Where a reference comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The user named it.
    Mention,
    /// It is open on the page.
    Page,
}

/// The references of a message that can be understood, each once.
pub(crate) fn referred(references: &[Json]) -> Vec<Referred> {
    let mut all: Vec<Referred> = Vec::new();
    for reference in references {
        let Some(found) = read(reference) else { continue };
        match all.iter_mut().find(|known| known.id == found.id) {
            Some(known) if found.origin == Origin::Mention => *known = found,
            Some(_) => {}
            None => all.push(found),
        }
    }
    all
}

fn read(reference: &Value) -> Option<Referred> {
    let text = |field: &str| reference.get(field).and_then(Value::as_str);
    let id = match (reference.as_str().or_else(|| text("id")), reference.get("id")) {
        (Some(id), _) => id.to_owned(),
        (None, Some(Value::Number(number))) => number.to_string(),
        _ => return None,
    };
    let (kind, number) = match Reference::parse(&id)? {
        Reference::Number { kind, id } => (kind, id),
        Reference::Name { .. } => return None,
    };
    let kind = kind.or_else(|| Kind::from_word(text("kind")?))?;
    let origin = match text("origin") {
        Some("mention") => Origin::Mention,
        _ => Origin::Page,
    };
    let id = format!("{}:{number}", kind.slug());
    Some(Referred { kind, id, name: text("name").map(str::to_owned), origin })
}

/// The argument of a tool that names a record, and what it may name.
fn target(tool: &str) -> Option<(&'static str, &'static [Kind])> {
    match tool {
        "get_thread" | "update_thread" | "reply_to_thread" => Some(("thread", &[Kind::Thread])),
        "get_order" | "refund_order" => Some(("order", &[Kind::Order])),
        "complete_task" => Some(("task", &[Kind::Task])),
        "get_article" => Some(("article", &[Kind::Article])),
        "list_notes" | "create_note" => {
            Some(("record", &[Kind::Thread, Kind::Order, Kind::Contact, Kind::Company]))
        }
        _ => None,
    }
}

/// The arguments with the missing record filled in; `None` when nothing is missing, or nothing could be meant.
///
/// # Errors
/// When several could be meant.
pub(crate) fn fill(
    tool: &str,
    args: &Value,
    references: &[Referred],
) -> Result<Option<Value>, ToolError> {
    let Some((argument, kinds)) = target(tool) else { return Ok(None) };
    let Some(given) = args.as_object() else { return Ok(None) };
    if !is_missing(given, argument) {
        return Ok(None);
    }
    let of = |origin: Origin| -> Vec<&Referred> {
        references.iter().filter(|r| r.origin == origin && kinds.contains(&r.kind)).collect()
    };
    let mentioned = of(Origin::Mention);
    let meant = if mentioned.is_empty() { of(Origin::Page) } else { mentioned };
    match meant.as_slice() {
        [] => Ok(None),
        [one] => {
            let mut filled = given.clone();
            filled.insert(argument.to_owned(), Value::from(one.id.clone()));
            Ok(Some(Value::Object(filled)))
        }
        several => {
            let named: Vec<String> = several
                .iter()
                .map(|r| r.name.as_ref().map_or(r.id.clone(), |name| format!("{} ({name})", r.id)))
                .collect();
            let text = format!(
                "`{argument}` was left out, and several could be meant: {}. Ask the user which one, or pass its id.",
                named.join(", ")
            );
            Err(ToolError::invalid(text))
        }
    }
}

/// Under none of the names a model gives it.
fn is_missing(given: &Map<String, Value>, argument: &str) -> bool {
    let empty =
        |value: &Value| value.is_null() || value.as_str().is_some_and(|t| t.trim().is_empty());
    given.iter().all(|(name, value)| {
        let name = name.to_lowercase().replace(['_', '-'], "");
        !name.starts_with(argument) || empty(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn references(values: &[Value]) -> Vec<Referred> {
        referred(&values.iter().cloned().map(Json::from).collect::<Vec<_>>())
    }

    fn page(id: &str) -> Value {
        json!({"id": id, "name": format!("Name of {id}"), "origin": "page"})
    }

    fn mention(id: &str) -> Value {
        json!({"id": id, "origin": "mention"})
    }

    #[test]
    fn the_one_thing_that_is_open_is_taken() {
        let open = references(&[page("thread:4"), page("order:10007")]);
        assert_eq!(fill("get_thread", &json!({}), &open), Ok(Some(json!({"thread": "thread:4"}))));
        assert_eq!(
            fill("reply_to_thread", &json!({"body": "x", "thread": " "}), &open),
            Ok(Some(json!({"body": "x", "thread": "thread:4"})))
        );
        assert_eq!(
            fill("get_order", &json!({"order": null}), &open),
            Ok(Some(json!({"order": "order:10007"})))
        );
        for untouched in [json!({"thread": "9"}), json!({"threadId": "9"}), json!("text")] {
            assert_eq!(fill("get_thread", &untouched, &open), Ok(None), "{untouched}");
        }
        assert_eq!(fill("find_threads", &json!({}), &open), Ok(None));
        assert_eq!(fill("complete_task", &json!({}), &open), Ok(None));
    }

    #[test]
    fn a_mention_wins_over_the_page() {
        let all = references(&[page("thread:4"), page("thread:5"), mention("thread:6")]);
        assert_eq!(fill("get_thread", &json!({}), &all), Ok(Some(json!({"thread": "thread:6"}))));
        let again = references(&[page("thread:4"), page("thread:5"), mention("thread:5")]);
        assert_eq!(fill("get_thread", &json!({}), &again), Ok(Some(json!({"thread": "thread:5"}))));
    }

    #[test]
    fn of_several_none_is_taken() {
        let several = references(&[page("thread:4"), page("thread:5")]);
        let error = fill("reply_to_thread", &json!({"body": "x"}), &several).unwrap_err();
        assert_eq!(
            error.message,
            "`thread` was left out, and several could be meant: thread:4 (Name of thread:4), thread:5 (Name of \
             thread:5). Ask the user which one, or pass its id."
        );
        let mixed = references(&[page("thread:4"), page("order:3")]);
        assert!(fill("create_note", &json!({"body": "x"}), &mixed).is_err());
    }

    #[test]
    fn references_are_read_in_any_form_and_nonsense_is_left_out() {
        let read = references(&[
            json!("desk://thread/4"),
            json!({"kind": "orders", "id": 10}),
            json!({"id": "Ana"}),
            json!({"kind": "thread"}),
            json!({"id": 5}),
            json!(null),
        ]);
        let ids: Vec<&str> = read.iter().map(|r| r.id.as_str()).collect();
        assert_eq!(ids, ["thread:4", "order:10"]);
    }
}
