//! JSON schemas in the form that providers accept, and their compiled counterparts.
//!
//! Schemas of Rust types have their references inlined, save those of recursive types. Objects are closed, so that an
//! argument the tool does not know is refused instead of ignored. What only Rust readers need is removed: titles, widths
//! of numbers, the name of the dialect.

use jsonschema::{PatternOptions, Validator};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use turnbuckle_core::json::Json;

/// The schema of a tool without arguments.
pub fn empty() -> Json {
    json!({"type": "object", "properties": {}, "additionalProperties": false}).into()
}

/// The schema of a type as arguments.
pub fn input_of<A: JsonSchema>() -> Json {
    let settings = SchemaSettings::draft2020_12().for_deserialize();
    let mut schema = normalise_input(generate::<A>(settings));
    if let Value::Object(root) = &mut schema {
        // The description of the type is for Rust readers; the tool has its own for the model.
        root.remove("description");
    }
    schema.into()
}

/// The schema of a type as an output. Objects stay open: an output may grow.
pub fn output_of<T: JsonSchema>() -> Json {
    let mut schema = generate::<T>(SchemaSettings::draft2020_12().for_serialize());
    tidy(&mut schema, Closing::Leave);
    schema.into()
}

/// The schema of a type as a person's changes: any of its fields may be left out.
pub fn amendment_of<A: JsonSchema>() -> Json {
    let mut schema = Json::unwrap_or_clone(input_of::<A>());
    if let Value::Object(root) = &mut schema {
        root.remove("required");
    }
    schema.into()
}

fn generate<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let settings = settings.with(|s| {
        s.inline_subschemas = true;
        s.meta_schema = None;
    });
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// A schema of arguments in the form that providers accept.
pub fn normalise_input(mut schema: Value) -> Value {
    if let Value::Object(root) = &mut schema {
        root.remove("$schema");
        if !root.contains_key("type") {
            root.insert("type".to_owned(), Value::from("object"));
        }
        if !root.contains_key("properties") && !composes(root) {
            root.insert("properties".to_owned(), Value::Object(Map::new()));
        }
    }
    tidy(&mut schema, Closing::Close);
    schema
}

/// Whether objects without a word on additional properties are closed.
#[derive(Clone, Copy, PartialEq)]
enum Closing {
    Close,
    Leave,
}

const COMPOSING: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Whether a schema's properties are spread over several places, none of which may be closed alone.
fn composes(schema: &Map<String, Value>) -> bool {
    COMPOSING.iter().any(|key| schema.contains_key(*key)) || schema.contains_key("$ref")
}

fn tidy(schema: &mut Value, closing: Closing) {
    let Value::Object(map) = schema else { return };
    if map.get("title").is_some_and(Value::is_string) {
        map.remove("title");
    }
    if map.get("format").and_then(Value::as_str).is_some_and(is_number_width) {
        map.remove("format");
    }
    let spread = map.contains_key("properties") && composes(map);
    if closing == Closing::Close
        && map.contains_key("properties")
        && !spread
        && !map.contains_key("additionalProperties")
        && !map.contains_key("patternProperties")
    {
        map.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    for (key, value) in map.iter_mut() {
        match key.as_str() {
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                if let Value::Object(named) = value {
                    named.values_mut().for_each(|s| tidy(s, closing));
                }
            }
            "allOf" | "anyOf" | "oneOf" | "prefixItems" => {
                let inner = if key == "allOf" || (spread && key != "prefixItems") {
                    Closing::Leave
                } else {
                    closing
                };
                if let Value::Array(several) = value {
                    several.iter_mut().for_each(|s| tidy(s, inner));
                }
            }
            "items" | "additionalProperties" | "contains" | "propertyNames" => tidy(value, closing),
            "not" | "if" | "then" | "else" => tidy(value, Closing::Leave),
            _ => {}
        }
    }
}

fn is_number_width(format: &str) -> bool {
    let digits = format.trim_start_matches("uint").trim_start_matches("int");
    matches!(format, "float" | "double")
        || digits.is_empty()
        || digits.bytes().all(|b| b.is_ascii_digit())
}

/// The names an object may have at the top, from all branches of its schema; `None` when any name will do.
pub(crate) fn known_names(schema: &Value) -> Option<Vec<&str>> {
    fn gather<'a>(root: &'a Value, schema: &'a Value, depth: u8, names: &mut Vec<&'a str>) -> bool {
        let Value::Object(map) = schema else { return schema == &Value::Bool(false) };
        let open = match map.get("additionalProperties") {
            Some(Value::Bool(allowed)) => *allowed,
            Some(_) => true,
            None => false,
        };
        if open || map.contains_key("patternProperties") || depth == 0 {
            return false;
        }
        if let Some(Value::Object(properties)) = map.get("properties") {
            names.extend(properties.keys().map(String::as_str));
        }
        let reference = match map.get("$ref").and_then(Value::as_str) {
            Some(target) => match target.strip_prefix('#').and_then(|p| root.pointer(p)) {
                Some(target) => Some(target),
                None => return false,
            },
            None => None,
        };
        let branches =
            COMPOSING.iter().filter_map(|key| map.get(*key)).filter_map(Value::as_array).flatten();
        branches.chain(reference).all(|branch| gather(root, branch, depth - 1, names))
    }
    let mut names = Vec::new();
    let closed = gather(schema, schema, 8, &mut names);
    names.sort_unstable();
    names.dedup();
    closed.then_some(names)
}

/// Compiles a schema. Patterns run in linear time; those that need more get an engine with a bounded one.
/// References to other documents are not followed.
///
/// # Errors
/// When it is not a schema; the text says where.
pub fn compile(schema: &Value) -> Result<Validator, String> {
    let options = || jsonschema::options().offline();
    let linear = options().with_pattern_options(PatternOptions::regex()).build(schema);
    linear
        .or_else(|_| {
            let bounded = PatternOptions::fancy_regex().backtrack_limit(100_000);
            options().with_pattern_options(bounded).build(schema)
        })
        .map_err(|e| format!("{e} (at `{}`)", e.instance_path()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::{Deserialize, Serialize};
    use std::collections::BTreeMap;

    #[derive(Serialize, Deserialize, JsonSchema)]
    #[allow(dead_code)]
    struct Search {
        /// Words to find.
        query: String,
        limit: Option<u32>,
        #[serde(default)]
        filter: Filter,
        sort: Sort,
        labels: BTreeMap<String, String>,
    }

    #[derive(Serialize, Deserialize, JsonSchema, Default)]
    #[allow(dead_code)]
    struct Filter {
        title: Option<String>,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    #[allow(dead_code)]
    enum Sort {
        Newest,
        Oldest,
    }

    #[test]
    fn a_rust_type_becomes_what_providers_accept() {
        let expected = json!({
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "Words to find."},
                "limit": {"type": ["integer", "null"], "minimum": 0},
                "filter": {
                    "type": "object",
                    "properties": {"title": {"type": ["string", "null"]}},
                    "additionalProperties": false,
                    "default": {"title": null},
                },
                "sort": {"type": "string", "enum": ["Newest", "Oldest"]},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            },
            "required": ["query", "sort", "labels"],
            "additionalProperties": false,
        });
        assert_eq!(*input_of::<Search>(), expected);
        assert_eq!(amendment_of::<Search>().get("required"), None);
    }

    #[test]
    fn branches_of_a_tagged_enum_are_closed_each_for_itself() {
        #[derive(Deserialize, JsonSchema)]
        #[serde(tag = "by", rename_all = "snake_case")]
        #[allow(dead_code)]
        enum Find {
            Id { id: String },
            Name { name: String },
        }
        let schema = input_of::<Find>();
        assert_eq!(schema.get("type"), Some(&json!("object")));
        assert_eq!(known_names(&schema), Some(vec!["by", "id", "name"]));
        let compiled = compile(&schema).unwrap();
        assert!(compiled.is_valid(&json!({"by": "id", "id": "7"})));
        assert!(!compiled.is_valid(&json!({"by": "id", "id": "7", "name": "x"})));
    }

    #[test]
    fn flattened_parts_are_not_closed_against_each_other() {
        #[derive(Deserialize, JsonSchema)]
        #[allow(dead_code)]
        struct Page {
            limit: u32,
            #[serde(flatten)]
            which: Which,
        }
        #[derive(Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        #[allow(dead_code)]
        enum Which {
            Id(String),
            Name(String),
        }
        let schema = input_of::<Page>();
        assert!(compile(&schema).unwrap().is_valid(&json!({"limit": 1, "id": "7"})));
        assert_eq!(known_names(&schema), Some(vec!["id", "limit", "name"]));
    }

    #[test]
    fn foreign_schemas_are_closed_unless_they_say_otherwise() {
        let closed = normalise_input(json!({
            "$schema": "http://json-schema.org/draft-07/schema#", "title": "Args",
            "properties": {"title": {"type": "string", "title": "Title"}, "n": {"type": "number", "format": "double"}},
        }));
        let expected = json!({
            "type": "object", "additionalProperties": false,
            "properties": {"title": {"type": "string"}, "n": {"type": "number"}},
        });
        assert_eq!(closed, expected);
        let open = json!({"type": "object", "properties": {}, "additionalProperties": true});
        assert_eq!(normalise_input(open.clone()), open);
        assert_eq!(known_names(&open), None);
        assert_eq!(normalise_input(json!({})), *empty());
    }

    #[test]
    fn recursive_types_keep_a_reference_that_compiles() {
        #[derive(Deserialize, JsonSchema)]
        #[allow(dead_code)]
        struct Node {
            name: String,
            children: Vec<Node>,
        }
        let schema = input_of::<Node>();
        let compiled = compile(&schema).unwrap();
        assert!(
            compiled.is_valid(&json!({"name": "a", "children": [{"name": "b", "children": []}]}))
        );
        assert!(
            !compiled.is_valid(&json!({"name": "a", "children": [{"name": 1, "children": []}]}))
        );
        assert_eq!(known_names(&schema), Some(vec!["children", "name"]));
    }

    #[test]
    fn patterns_cannot_take_forever() {
        let evil = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}});
        assert!(
            !compile(&evil).unwrap().is_valid(&json!({"a": format!("{}!", "a".repeat(50_000))}))
        );
        let lookahead = json!({"properties": {"a": {"pattern": "^(?!x)(a+)+$"}}});
        assert!(
            !compile(&lookahead)
                .unwrap()
                .is_valid(&json!({"a": format!("{}!", "a".repeat(5_000))}))
        );
    }

    #[test]
    fn a_broken_schema_says_where() {
        let error = compile(&json!({"type": "object", "properties": {"a": {"type": "strin"}}}))
            .unwrap_err();
        assert!(error.contains("/properties/a/type"), "{error}");
        assert!(compile(&json!({"$ref": "https://example.com/x.json"})).is_err());
    }
}
