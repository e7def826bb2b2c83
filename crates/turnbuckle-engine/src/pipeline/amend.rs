//! What a person changed before approving.

use super::validate::issues;
use crate::tool::schema::known_names;
use crate::tool::toolbox::{Entry, quoted};
use serde_json::{Map, Value};
use turnbuckle_core::context::{BindMode, BindSource, InputBinding};
use turnbuckle_core::error::ToolError;

/// Whether the person may not change the argument either.
fn is_pinned(bindings: &[InputBinding], argument: &str) -> bool {
    bindings.iter().any(|b| {
        b.argument == argument && b.mode == BindMode::Restrict && b.source != BindSource::Model
    })
}

/// The schema of what may be changed, without the arguments that are pinned; `None` when nothing may be.
pub(super) fn editable(entry: &Entry) -> Option<turnbuckle_core::json::Json> {
    let schema = entry.tool().contract().amendment_schema.as_ref()?;
    let fields = schema.get("properties").and_then(Value::as_object)?;
    if !fields.keys().any(|name| is_pinned(&entry.bindings, name)) {
        return Some(schema.clone());
    }
    let mut shown = Value::clone(schema);
    if let Some(fields) = shown.get_mut("properties").and_then(Value::as_object_mut) {
        fields.retain(|name, _| !is_pinned(&entry.bindings, name));
        if fields.is_empty() {
            return None;
        }
    }
    if let Some(required) = shown.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !name.as_str().is_some_and(|name| is_pinned(&entry.bindings, name)));
    }
    Some(shown.into())
}

/// The arguments with the changes laid over them, field by field. Bind and validate run after it, so a change can
/// neither set a pinned argument nor make the call invalid.
pub(super) fn amend(entry: &Entry, args: &Value, amendment: &Value) -> Result<Value, ToolError> {
    let contract = entry.tool().contract();
    let Some(checker) = entry.registered.amendment() else {
        let text = format!(
            "`{}` was approved with changes, but nothing about it can be changed",
            contract.name()
        );
        return Err(ToolError::invalid(text));
    };
    let Value::Object(changes) = amendment else {
        return Err(ToolError::invalid(
            "the changes made on approval are not an object of named values",
        ));
    };
    if let Some(names) = known_names(checker.schema()) {
        let unknown: Vec<&str> =
            changes.keys().map(String::as_str).filter(|n| !names.contains(n)).collect();
        if !unknown.is_empty() {
            let (unknown, names) = (quoted(&unknown), quoted(&names));
            let text = format!(
                "the changes made on approval name {unknown}; what can be changed is {names}"
            );
            return Err(ToolError::invalid(text));
        }
    }
    let wrong = issues(checker, amendment)?;
    if !wrong.is_empty() {
        let text = format!("the changes made on approval do not fit: {}", wrong.join("; "));
        return Err(ToolError::invalid(text));
    }
    let mut merged: Map<String, Value> = args.as_object().cloned().unwrap_or_default();
    merged.extend(changes.iter().map(|(name, value)| (name.clone(), value.clone())));
    Ok(Value::Object(merged))
}
