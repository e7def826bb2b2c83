//! JSON Schema cut to what vendors' structured output modes accept. What is cut is still checked after the answer came:
//! the full schema stays with whoever asked.

use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::HashSet;

/// Keywords that only narrow values; leaving them out widens what may come.
const NARROWING: &[&str] = &[
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "contains",
    "minContains",
    "maxContains",
    "$schema",
    "$id",
    "$comment",
    "examples",
    "default",
    "title",
    "deprecated",
    "readOnly",
    "writeOnly",
    "contentEncoding",
    "contentMediaType",
];

/// Keywords whose meaning cannot be left out.
const INEXPRESSIBLE: &[&str] = &[
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "patternProperties",
    "propertyNames",
    "unevaluatedProperties",
    "unevaluatedItems",
    "prefixItems",
];

/// The schema with every object closed and narrowing keywords left out; `None` when it cannot be put so, since an object
/// is open on purpose or a keyword has no counterpart.
pub(crate) fn closed(schema: &Value) -> Option<Value> {
    let Value::Object(map) = schema else { return None };
    if INEXPRESSIBLE.iter().any(|k| map.contains_key(*k)) {
        return None;
    }
    let mut out = Map::new();
    for (name, value) in map {
        let value = match (name.as_str(), value) {
            (narrowing, _) if NARROWING.contains(&narrowing) => continue,
            ("properties" | "$defs" | "definitions", Value::Object(named)) => {
                let named: Option<Map<String, Value>> =
                    named.iter().map(|(k, v)| Some((k.clone(), closed(v)?))).collect();
                Value::Object(named?)
            }
            ("items", inner) => closed(inner)?,
            ("anyOf" | "allOf", Value::Array(items)) => {
                Value::Array(items.iter().map(closed).collect::<Option<_>>()?)
            }
            ("additionalProperties", Value::Bool(false)) => Value::Bool(false),
            ("additionalProperties", _) => return None,
            (_, value) => value.clone(),
        };
        out.insert(name.clone(), value);
    }
    if is_object(&out) {
        out.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    Some(Value::Object(out))
}

fn is_object(map: &Map<String, Value>) -> bool {
    match map.get("type") {
        Some(Value::String(t)) => t == "object",
        Some(Value::Array(ts)) => ts.iter().any(|t| t == "object"),
        _ => map.contains_key("properties"),
    }
}

/// The schema without the keywords a server refuses.
pub(crate) fn without_keywords<'s>(
    schema: &'s Value,
    refused: &[impl AsRef<str>],
) -> Cow<'s, Value> {
    if refused.is_empty() {
        return Cow::Borrowed(schema);
    }
    let mut schema = schema.clone();
    strip(&mut schema, &|k| refused.iter().any(|r| r.as_ref() == k));
    Cow::Owned(schema)
}

fn strip(schema: &mut Value, refused: &dyn Fn(&str) -> bool) {
    match schema {
        Value::Object(map) => {
            map.retain(|k, _| !refused(k));
            for (name, inner) in map.iter_mut() {
                match (name.as_str(), inner) {
                    // Below these the keys are the user's names, not keywords.
                    (
                        "properties" | "$defs" | "definitions" | "patternProperties",
                        Value::Object(named),
                    ) => {
                        named.values_mut().for_each(|s| strip(s, refused));
                    }
                    ("enum" | "const" | "default" | "examples" | "required", _) => {}
                    (_, inner) => strip(inner, refused),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|s| strip(s, refused)),
        _ => {}
    }
}

/// Whether a schema is within the subset that strict modes enforce: closed objects whose properties are all required.
pub(crate) fn is_strict(schema: &Value) -> bool {
    fn holds(schema: &Value) -> bool {
        let Value::Object(map) = schema else { return false };
        if map.contains_key("allOf")
            || map.contains_key("default")
            || INEXPRESSIBLE.iter().any(|k| map.contains_key(*k))
            || (is_object(map) && !has_all_required(map))
        {
            return false;
        }
        map.iter().all(|(name, inner)| match (name.as_str(), inner) {
            ("properties" | "$defs" | "definitions", Value::Object(named)) => {
                named.values().all(holds)
            }
            ("anyOf", Value::Array(items)) => items.iter().all(holds),
            ("items", inner) => holds(inner),
            _ => true,
        })
    }
    schema.get("type") == Some(&Value::String("object".to_owned())) && holds(schema)
}

fn has_all_required(map: &Map<String, Value>) -> bool {
    let required: HashSet<&str> = map
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let all_required = match map.get("properties") {
        Some(Value::Object(named)) => named.keys().all(|k| required.contains(k.as_str())),
        _ => true,
    };
    all_required && map.get("additionalProperties") == Some(&Value::Bool(false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keywords_are_stripped_but_not_properties_of_that_name() {
        let schema = json!({"$schema": "x", "type": "object", "properties": {
            "default": {"type": "string", "default": "a"}}, "items": [{"default": 1}]});
        let expected =
            json!({"type": "object", "properties": {"default": {"type": "string"}}, "items": [{}]});
        assert_eq!(*without_keywords(&schema, &["$schema", "default"]), expected);
    }

    #[test]
    fn closing_keeps_what_matters_and_refuses_what_it_cannot_say() {
        let schema = json!({"$schema": "x", "type": "object", "properties": {
            "n": {"type": "integer", "minimum": 1}, "minimum": {"type": "string"},
            "l": {"type": "array", "items": {"type": "object", "properties": {}}}}, "required": ["n"]});
        let expected = json!({"type": "object", "additionalProperties": false, "properties": {
            "n": {"type": "integer"}, "minimum": {"type": "string"},
            "l": {"type": "array", "items":
                {"type": "object", "properties": {}, "additionalProperties": false}}}, "required": ["n"]});
        assert_eq!(closed(&schema), Some(expected));
        assert_eq!(
            closed(&json!({"type": "object", "additionalProperties": {"type": "string"}})),
            None
        );
        assert_eq!(closed(&json!({"oneOf": []})), None);
    }

    #[test]
    fn only_closed_schemas_with_all_required_are_strict() {
        let closed = json!({"type": "object", "properties": {"a": {"type": "array", "items":
            {"type": "object", "properties": {}, "required": [], "additionalProperties": false}}},
            "required": ["a"], "additionalProperties": false});
        assert!(is_strict(&closed));
        let mut open = closed.clone();
        open["properties"]["a"]["items"]["additionalProperties"] = json!(true);
        assert!(!is_strict(&open));
        let mut optional = closed.clone();
        optional["required"] = json!([]);
        assert!(!is_strict(&optional));
        assert!(!is_strict(&json!({"type": "string"})));
    }
}
