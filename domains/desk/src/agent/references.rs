//! References to records in an answer: inline links `desk://thread/12`, and fenced blocks that become
//! cards. The model writes ids only:
//!
//! ````text
//! ```desk:thread-list
//! {"ids": ["thread:12", "thread:15"]}
//! ```
//! ````
//!
//! After the turn [`enrich`] puts snapshots of what was seen beside the ids, and mends ids that were
//! written with too many prefixes, but only those of records that were seen. On later turns
//! [`text_view`] shows the model numbered lines instead. That view reads the same from the text as it
//! was streamed and as it was enriched, so that prompts keep their prefix.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use turnbuckle::core::json::Json;

use super::snapshots::Seen;
use crate::ids::{Kind, Reference};

/// The blocks whose body lists ids.
const LISTS: [&str; 5] = ["record-card", "record-list", "thread-list", "task-list", "draft-list"];

/// The blocks that hold their own content.
const CONTENT: [&str; 2] = ["plan-steps", "table"];

const FENCE: &str = "```";
const LINK: &str = "desk://";

/// A piece of a text.
#[derive(Debug, PartialEq)]
enum Piece<'a> {
    Text(&'a str),
    Block { whole: &'a str, kind: &'a str, body: Value },
}

/// The text cut at its complete, well-formed reference blocks. Everything else, malformed blocks included, is text.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut out = Vec::new();
    let (mut rest, mut plain) = (text, text);
    while let Some(at) = rest.find(FENCE) {
        let (before, from) = rest.split_at(at);
        let starts_line = before.is_empty() && rest.len() == text.len() || before.ends_with('\n');
        let Some((whole, kind, body)) = block(from).filter(|_| starts_line) else {
            rest = from.get(FENCE.len()..).unwrap_or_default();
            continue;
        };
        let head = plain.get(..plain.len() - from.len()).unwrap_or_default();
        if !head.is_empty() {
            out.push(Piece::Text(head));
        }
        out.push(Piece::Block { whole, kind, body });
        rest = from.get(whole.len()..).unwrap_or_default();
        plain = rest;
    }
    if !plain.is_empty() {
        out.push(Piece::Text(plain));
    }
    out
}

/// The block that a text begins with.
fn block(from: &str) -> Option<(&str, &str, Value)> {
    let (head, _) = from.split_once('\n')?;
    let kind = head.strip_prefix(FENCE)?.trim().strip_prefix("desk:")?;
    if !LISTS.contains(&kind) && !CONTENT.contains(&kind) {
        return None;
    }
    let inner = from.get(head.len() + 1..)?;
    let end = inner.lines().scan(0, |at, line| {
        let here = *at;
        *at += line.len() + 1;
        Some((here, line))
    });
    let (end, line) = end.into_iter().find(|(_, line)| line.trim_end() == FENCE)?;
    let body = serde_json::from_str(inner.get(..end)?).ok().filter(Value::is_object)?;
    let whole = from.get(..head.len() + 1 + end + line.len())?;
    Some((whole, kind, body))
}

/// The ids of a block in their canonical form where they have one.
fn ids(kind: &str, body: &Value) -> Vec<String> {
    let given: Vec<&Value> = match (body.get("ids"), body.get("id")) {
        (Some(Value::Array(ids)), _) => ids.iter().collect(),
        (_, Some(id)) => vec![id],
        _ => Vec::new(),
    };
    let implied = match kind {
        "thread-list" => Some(Kind::Thread),
        "task-list" => Some(Kind::Task),
        "draft-list" => Some(Kind::Draft),
        _ => None,
    };
    let written = |id: &Value| match id {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let written = given.into_iter().filter_map(written);
    written.map(|id| canonical(&id, implied).unwrap_or(id)).collect()
}

/// The id as the desk writes it.
fn canonical(text: &str, implied: Option<Kind>) -> Option<String> {
    match Reference::parse(text)? {
        Reference::Number { kind, id } => Some(format!("{}:{id}", kind.or(implied)?.slug())),
        Reference::Name { .. } => None,
    }
}

/// An answer with what its references show.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Enriched {
    /// The text, when it changed.
    pub text: Option<String>,
    /// Snapshots by link.
    pub links: BTreeMap<String, Json>,
}

/// Puts snapshots beside the references of an answer.
pub fn enrich(text: &str, seen: &Seen) -> Enriched {
    if !text.contains("desk:") {
        return Enriched::default();
    }
    let mut out = String::with_capacity(text.len());
    let mut links = BTreeMap::new();
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) => enrich_links(text, seen, &mut out, &mut links),
            Piece::Block { whole, kind, body } if LISTS.contains(&kind) => {
                enrich_block(whole, kind, &body, seen, &mut out);
            }
            Piece::Block { whole, .. } => out.push_str(whole),
        }
    }
    Enriched { text: (out != text).then_some(out), links }
}

fn enrich_block(whole: &str, kind: &str, body: &Value, seen: &Seen, out: &mut String) {
    let ids = ids(kind, body);
    if ids.is_empty() {
        return out.push_str(whole);
    }
    // What was never seen gets a card that says no more than its id.
    let cards: Vec<Value> = ids
        .iter()
        .map(|id| match seen.get(id) {
            Some(snapshot) => (**snapshot).clone(),
            None => json!({"id": id, "missing": true}),
        })
        .collect();
    let mut body = body.as_object().cloned().unwrap_or_default();
    body.remove("id");
    body.insert("ids".into(), json!(ids));
    body.insert("snapshots".into(), Value::Array(cards));
    let body = Value::Object(body);
    out.push_str(&format!("{FENCE}desk:{kind}\n{body}\n{FENCE}"));
}

/// A link of the desk at the beginning of a text: all of it, and the id it means.
fn link(from: &str) -> Option<(&str, Option<String>)> {
    let tail = from.strip_prefix(LINK)?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | ':' | '_' | '-');
    let length = tail.find(|c: char| !allowed(c)).unwrap_or(tail.len());
    let tail = tail.get(..length)?.trim_end_matches([':', '/', '-']);
    let whole = from.get(..LINK.len() + tail.len())?;
    // Prefixes may be repeated, as in desk://thread/desk://thread/12 or desk://thread/thread:12.
    let flat = tail.replace("desk://", "").replace('/', ":");
    let flat: Vec<&str> =
        flat.split(':').filter(|word| !word.is_empty() && *word != "record").collect();
    Some((whole, canonical(&flat.join(":"), None)))
}

/// How a record is linked.
fn link_to(id: &str) -> Option<String> {
    let (kind, number) = id.split_once(':')?;
    match Kind::from_word(kind)? {
        Kind::Thread | Kind::Task | Kind::Article | Kind::Member => {
            Some(format!("{LINK}{kind}/{number}"))
        }
        _ => Some(format!("{LINK}record/{id}")),
    }
}

fn enrich_links(text: &str, seen: &Seen, out: &mut String, links: &mut BTreeMap<String, Json>) {
    let mut rest = text;
    while let Some(at) = rest.find(LINK) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let (whole, id) = link(from).unwrap_or((LINK, None));
        let known = id.and_then(|id| Some((seen.get(&id)?, link_to(&id)?)));
        match known {
            Some((snapshot, link)) => {
                out.push_str(&link);
                links.insert(link, snapshot.clone());
            }
            None => out.push_str(whole),
        }
        rest = from.get(whole.len()..).unwrap_or_default();
    }
    out.push_str(rest);
}

/// The model's view of an answer: ids on numbered lines instead of blocks, `(thread:12)` instead of a link's address.
pub fn text_view(text: &str) -> String {
    if !text.contains("desk:") {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) => view_links(text, &mut out),
            Piece::Block { kind, body, .. } => view_block(kind, &body, &mut out),
        }
    }
    out
}

fn view_block(kind: &str, body: &Value, out: &mut String) {
    out.push_str(&format!("[{kind} shown to the reader]"));
    let lines: Vec<String> = match kind {
        "plan-steps" => rows(body, "steps").iter().map(plan_line).collect(),
        "table" => rows(body, "rows").iter().map(table_line).collect(),
        _ => ids(kind, body),
    };
    for (index, line) in lines.iter().enumerate() {
        out.push_str(&format!("\n{}. {line}", index + 1));
    }
}

fn rows<'a>(body: &'a Value, field: &str) -> &'a [Value] {
    body.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn plan_line(step: &Value) -> String {
    let text = |field: &str| step.get(field).and_then(Value::as_str);
    let label = text("label").or(step.as_str()).unwrap_or_default();
    text("status").map_or(label.to_owned(), |status| format!("{label} ({status})"))
}

fn table_line(row: &Value) -> String {
    let cell = |cell: &Value| match cell.get("text").unwrap_or(cell) {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    row.as_array().into_iter().flatten().map(cell).collect::<Vec<_>>().join(" | ")
}

/// `[Where is it?](desk://thread/12)` reads `Where is it? (thread:12)`.
fn view_links(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.find(LINK) {
        let (before, from) = rest.split_at(at);
        let (whole, id) = link(from).unwrap_or((LINK, None));
        let after = from.get(whole.len()..).unwrap_or_default();
        let label = before.strip_suffix("](").and_then(|head| head.rsplit_once('['));
        match (id, label, after.strip_prefix(')')) {
            (Some(id), Some((head, label)), Some(after)) => {
                out.push_str(&format!("{head}{label} ({id})"));
                rest = after;
            }
            (Some(id), _, _) => {
                out.push_str(&format!("{before}{id}"));
                rest = after;
            }
            (None, _, _) => {
                out.push_str(before);
                out.push_str(whole);
                rest = after;
            }
        }
    }
    out.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seen() -> Seen {
        let mut seen = Seen::default();
        seen.mine(&json!([
            {"id": "thread:12", "subject": "Late"}, {"id": "order:7", "number": "BR-7"},
        ]));
        seen
    }

    #[test]
    fn links_get_snapshots_and_are_mended_when_they_were_seen() {
        let text = "See [Late](desk://thread/thread:12), desk://thread/desk://thread/12, \
                    [BR-7](desk://record/order:7), [who](desk://thread/thread:99).";
        let enriched = enrich(text, &seen());
        assert_eq!(
            enriched.text.as_deref(),
            Some(
                "See [Late](desk://thread/12), desk://thread/12, [BR-7](desk://record/order:7), \
                 [who](desk://thread/thread:99)."
            )
        );
        let links: Vec<&str> = enriched.links.keys().map(String::as_str).collect();
        assert_eq!(links, ["desk://record/order:7", "desk://thread/12"]);
        assert_eq!(enriched.links["desk://thread/12"]["name"], "Late");
    }

    #[test]
    fn blocks_get_snapshots_and_strangers_a_fallback() {
        let text = "Two:\n```desk:thread-list\n{\"ids\": [\"thread:thread:12\", 99]}\n```\nDone.";
        let expected = "Two:\n```desk:thread-list\n{\"ids\":[\"thread:12\",\"thread:99\"],\"snapshots\":[\
                        {\"id\":\"thread:12\",\"kind\":\"thread\",\"name\":\"Late\"},\
                        {\"id\":\"thread:99\",\"missing\":true}]}\n```\nDone.";
        assert_eq!(enrich(text, &seen()).text.as_deref(), Some(expected));
        assert_eq!(enrich(expected, &seen()).text, None, "enriching twice changes nothing");
    }

    #[test]
    fn what_is_malformed_stays_as_it_is() {
        for text in [
            "```desk:thread-list\n{\"ids\": [\"thread:12\"]}",
            "```desk:thread-list\nnot json\n```",
            "```desk:unheard-of\n{\"ids\": [\"thread:12\"]}\n```",
            "```rust\nlet x = 1;\n```",
            "text ```desk:thread-list\n{\"ids\": [\"thread:12\"]}\n```",
            "desk:// and desk:///",
        ] {
            assert_eq!(enrich(text, &seen()), Enriched::default(), "{text}");
        }
    }

    #[test]
    fn the_model_reads_numbered_lines() {
        let text = "See [Late](desk://thread/12).\n```desk:thread-list\n{\"ids\": [12, \"thread:15\"]}\n```\n\
                    ```desk:plan-steps\n{\"steps\": [{\"label\": \"Ask\", \"status\": \"running\"}]}\n```\n\
                    ```desk:table\n{\"rows\": [[{\"text\": \"a\"}, \"b\", 3]]}\n```";
        assert_eq!(
            text_view(text),
            "See Late (thread:12).\n[thread-list shown to the reader]\n1. thread:12\n2. thread:15\n\
             [plan-steps shown to the reader]\n1. Ask (running)\n[table shown to the reader]\n1. a | b | 3"
        );
    }

    proptest! {
        #[test]
        fn the_view_is_the_same_before_and_after_enriching(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "desk://thread/12", "desk://thread/thread:12", "[x](desk://record/order:7)",
                    "[y](desk://thread/99)", "```desk:thread-list\n{\"ids\":[\"12\",\"thread:3\"]}\n```",
                    "```desk:record-card\n{\"id\":\"order:order:7\"}\n```", "```", "desk:", "é", "\n", " ", "(", ")",
                    "[", "]", "desk://", "text",
                ]),
                0..24,
            )
        ) {
            let text = parts.concat();
            let enriched = enrich(&text, &seen()).text.unwrap_or_else(|| text.clone());
            prop_assert_eq!(text_view(&enriched), text_view(&text));
            prop_assert_eq!(pieces(&text).iter().map(|piece| match piece {
                Piece::Text(text) => *text,
                Piece::Block { whole, .. } => *whole,
            }).collect::<String>(), text);
        }
    }
}
