//! The small projections: for people a count and up to three samples, for later turns one sentence
//! that keeps the ids.

use serde_json::{Map, Value, json};

/// Samples shown.
const SAMPLES: usize = 3;

/// Ids that a summary keeps.
const KEPT: usize = 10;

/// The first of the fields that a row has as text, nested ones as `order.number`.
fn text<'a>(row: &'a Value, fields: &[&str]) -> Option<&'a str> {
    fields
        .iter()
        .find_map(|field| field.split('.').try_fold(row, |value, step| value.get(step))?.as_str())
}

fn rows<'a>(output: &'a Value, list: &str) -> Option<&'a Vec<Value>> {
    output.get(list)?.as_array()
}

/// A list for people.
pub(crate) fn list_digest(output: &Value, list: &str, fields: &[&str]) -> Option<Value> {
    let rows = rows(output, list)?;
    let total = output.get("total").cloned().unwrap_or_else(|| json!(rows.len()));
    let samples: Vec<&str> =
        rows.iter().take(SAMPLES).filter_map(|row| text(row, fields)).collect();
    Some(json!({"count": total, "samples": samples}))
}

/// A list for later turns.
pub(crate) fn list_summary(
    output: &Value,
    list: &str,
    noun: &str,
    fields: &[&str],
) -> Option<String> {
    let rows = rows(output, list)?;
    let total = output.get("total").and_then(Value::as_u64).unwrap_or(rows.len() as u64);
    let kept: Vec<String> = rows
        .iter()
        .take(KEPT)
        .filter_map(|row| {
            let id = text(row, &["id"])?;
            Some(text(row, fields).map_or(id.to_owned(), |name| format!("{id} ({name})")))
        })
        .collect();
    if kept.is_empty() {
        return Some(format!("No {noun} matched."));
    }
    Some(format!("{total} {noun} matched; among them {}.", kept.join(", ")))
}

/// Some fields of a record, left out where it has none.
pub(crate) fn pick(record: &Value, fields: &[(&str, &str)]) -> Option<Value> {
    let mut out = Map::new();
    for (name, path) in fields {
        let found = path.split('.').try_fold(record, |value, step| value.get(step));
        if let Some(value) = found.filter(|value| !value.is_null()) {
            out.insert((*name).to_owned(), clipped(value));
        }
    }
    (!out.is_empty()).then_some(Value::Object(out))
}

/// Long texts lose their end.
fn clipped(value: &Value) -> Value {
    const MOST: usize = 240;
    match value.as_str().and_then(|text| Some((text, text.char_indices().nth(MOST)?.0))) {
        Some((text, end)) => json!(format!("{}…", text.get(..end).unwrap_or_default())),
        None => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_see_the_full_count_and_three_samples() {
        let row = |n: u32| json!({"id": format!("thread:{n}"), "subject": format!("S{n}")});
        let output = json!({"threads": (1..=5).map(row).collect::<Vec<_>>(), "total": 41});
        assert_eq!(
            list_digest(&output, "threads", &["subject"]),
            Some(json!({"count": 41, "samples": ["S1", "S2", "S3"]}))
        );
        assert_eq!(
            list_summary(&output, "threads", "threads", &["subject"]).unwrap(),
            "41 threads matched; among them thread:1 (S1), thread:2 (S2), thread:3 (S3), thread:4 (S4), \
             thread:5 (S5)."
        );
        assert_eq!(
            list_summary(&json!({"threads": [], "total": 0}), "threads", "threads", &[]).unwrap(),
            "No threads matched."
        );
        assert_eq!(list_digest(&json!({"truncated": true}), "threads", &[]), None);
    }

    #[test]
    fn cards_show_what_is_there_cut_to_size() {
        let args = json!({"body": "é".repeat(300), "to": null, "mode": "send"});
        let digest = pick(&args, &[("text", "body"), ("to", "to"), ("mode", "mode")]).unwrap();
        assert_eq!(digest, json!({"text": format!("{}…", "é".repeat(240)), "mode": "send"}));
    }
}
