//! Validators of tools' schemas, compiled as late as can be.
//!
//! To compile a schema is to check it against the schema of schemas, which costs a process that starts several milliseconds
//! and more memory than all the rest of a short turn. Schemas of Rust types are nearly always made of a few keywords whose
//! values are seen at a glance to be right; those are compiled when a call does not fit at a glance. All others are compiled at
//! once, so that a mistake in them is still found at the start.

use super::schema::compile;
use jsonschema::Validator;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::sync::OnceLock;
use turnbuckle_core::json::Json;

/// Deeper schemas are left to the compiler to judge.
const DEEPEST: u8 = 32;

const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// A schema that has been found to be one, and its validator.
pub(crate) struct Checker {
    schema: Json,
    compiled: OnceLock<Result<Validator, String>>,
}

impl Checker {
    /// Judges a schema.
    ///
    /// # Errors
    /// When it is not a schema; the text says where.
    pub(crate) fn new(schema: &Json) -> Result<Self, String> {
        let checker = Self { schema: schema.clone(), compiled: OnceLock::new() };
        if !is_plain(schema, DEEPEST) {
            checker.validator()?;
        }
        Ok(checker)
    }

    /// The schema.
    pub(crate) fn schema(&self) -> &Value {
        &self.schema
    }

    /// Whether a value fits.
    ///
    /// # Errors
    /// As [`Checker::validator`].
    pub(crate) fn fits(&self, value: &Value) -> Result<bool, String> {
        // Most calls are right, and of most schemas that is seen without compiling them.
        let plain = self.compiled.get().is_none();
        Ok((plain && surely_fits(&self.schema, value)) || self.validator()?.is_valid(value))
    }

    /// The compiled schema.
    ///
    /// # Errors
    /// Those of [`Checker::new`], for a schema that was judged wrongly.
    pub(crate) fn validator(&self) -> Result<&Validator, String> {
        self.compiled.get_or_init(|| compile(&self.schema)).as_ref().map_err(Clone::clone)
    }
}

/// Whether a value fits a schema beyond doubt. Where that takes more than a glance, or the value does not fit, the answer is
/// no, and the compiled schema has the word.
fn surely_fits(schema: &Value, value: &Value) -> bool {
    let Value::Object(keywords) = schema else { return schema == &Value::Bool(true) };
    keywords.iter().all(|(keyword, rule)| keyword_allows(keywords, keyword, rule, value))
}

fn keyword_allows(
    keywords: &Map<String, Value>,
    keyword: &str,
    rule: &Value,
    value: &Value,
) -> bool {
    match (keyword, rule) {
        ("description" | "title" | "default" | "examples" | "deprecated" | "$comment", _) => true,
        ("type", Value::Array(types)) => types.iter().any(|one| is_of_type(one, value)),
        ("type", one) => is_of_type(one, value),
        ("enum", Value::Array(several)) => value.is_string() && several.contains(value),
        ("const", one) => value.is_string() && one == value,
        ("required", Value::Array(names)) => value.as_object().is_some_and(|fields| {
            names.iter().all(|name| name.as_str().is_some_and(|name| fields.contains_key(name)))
        }),
        ("properties", Value::Object(schemas)) => value.as_object().is_some_and(|fields| {
            fields.iter().all(|(name, v)| schemas.get(name).is_none_or(|s| surely_fits(s, v)))
        }),
        ("additionalProperties", rule) => value.as_object().is_some_and(|fields| {
            let known = keywords.get("properties").and_then(Value::as_object);
            let beside = |name: &str| known.is_none_or(|known| !known.contains_key(name));
            fields.iter().filter(|(name, _)| beside(name)).all(|(_, v)| surely_fits(rule, v))
        }),
        ("items", rule) => {
            let items = value.as_array();
            items.is_some_and(|items| items.iter().all(|item| surely_fits(rule, item)))
        }
        ("anyOf", Value::Array(schemas)) => schemas.iter().any(|s| surely_fits(s, value)),
        ("allOf", Value::Array(schemas)) => schemas.iter().all(|s| surely_fits(s, value)),
        ("minimum", least) => {
            matches!((least.as_i64(), value.as_i64()), (Some(least), Some(n)) if n >= least)
        }
        ("maximum", most) => {
            matches!((most.as_i64(), value.as_i64()), (Some(most), Some(n)) if n <= most)
        }
        _ => false,
    }
}

fn is_of_type(name: &Value, value: &Value) -> bool {
    match name.as_str() {
        Some("array") => value.is_array(),
        Some("boolean") => value.is_boolean(),
        // A number with a fraction of zero is an integer too; that is left to the compiled schema.
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("null") => value.is_null(),
        Some("number") => value.is_number(),
        Some("object") => value.is_object(),
        Some("string") => value.is_string(),
        _ => false,
    }
}

/// Whether a schema consists of well-known keywords with values of their kinds alone, and so is one beyond doubt.
fn is_plain(schema: &Value, depth: u8) -> bool {
    let Value::Object(keywords) = schema else { return schema.is_boolean() };
    depth > 0 && keywords.iter().all(|(keyword, value)| is_plain_keyword(keyword, value, depth - 1))
}

fn is_plain_keyword(keyword: &str, value: &Value, depth: u8) -> bool {
    let all = |schemas: &Map<String, Value>| schemas.values().all(|s| is_plain(s, depth));
    match keyword {
        "const" | "default" => true,
        "type" => match value {
            Value::Array(several) => !several.is_empty() && are_distinct(several, is_type),
            one => is_type(one),
        },
        "description" | "title" | "format" | "$comment" => value.is_string(),
        "enum" | "examples" => value.is_array(),
        "properties" => value.as_object().is_some_and(all),
        "additionalProperties" | "items" | "not" | "contains" => is_plain(value, depth),
        "required" => value.as_array().is_some_and(|names| are_distinct(names, Value::is_string)),
        "anyOf" | "oneOf" | "allOf" | "prefixItems" => value.as_array().is_some_and(|schemas| {
            !schemas.is_empty() && schemas.iter().all(|s| is_plain(s, depth))
        }),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => value.is_number(),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            value.is_u64()
        }
        "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" => value.is_boolean(),
        _ => false,
    }
}

fn is_type(value: &Value) -> bool {
    value.as_str().is_some_and(|name| TYPES.contains(&name))
}

fn are_distinct(values: &[Value], each: impl Fn(&Value) -> bool) -> bool {
    let texts: BTreeSet<_> = values.iter().filter_map(Value::as_str).collect();
    texts.len() == values.len() && values.iter().all(each)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn checker(schema: Value) -> Result<Checker, String> {
        Checker::new(&schema.into())
    }

    #[test]
    fn a_plain_schema_is_compiled_when_it_is_needed() {
        let checker = checker(json!({
            "type": "object",
            "properties": {
                "id": {"type": "integer", "minimum": 0},
                "sort": {"enum": ["newest", "oldest"], "description": "The order."},
                "names": {"type": ["array", "null"], "items": {"type": "string", "maxLength": 8}},
            },
            "required": ["id"],
            "additionalProperties": false,
        }))
        .unwrap();
        assert!(checker.fits(&json!({"id": 1, "sort": "newest"})).unwrap());
        assert!(checker.compiled.get().is_none());
        assert!(checker.fits(&json!({"id": 2.0})).unwrap());
        assert!(checker.compiled.get().is_some());
        assert!(checker.fits(&json!({"id": 1, "names": ["a"]})).unwrap());
        for wrong in [json!({"id": -1}), json!({"id": 1, "more": 1}), json!({}), json!([])] {
            assert!(!checker.fits(&wrong).unwrap(), "{wrong}");
        }
    }

    #[test]
    fn any_other_schema_is_compiled_at_once() {
        let recursive = json!({"type": "object", "properties": {"next": {"$ref": "#"}}});
        let pattern = json!({"type": "object", "properties": {"id": {"pattern": "^[a-z]+$"}}});
        for schema in [recursive, pattern] {
            assert!(checker(schema).unwrap().compiled.get().is_some());
        }
        let mut deep = json!({"type": "string"});
        for _ in 0..40 {
            deep = json!({"items": deep});
        }
        assert!(checker(deep).unwrap().compiled.get().is_some());
    }

    #[test]
    fn what_is_no_schema_is_found_at_the_start() {
        for wrong in [
            json!({"type": "strin"}),
            json!({"type": []}),
            json!({"type": ["string", "string"]}),
            json!({"required": ["a", "a"]}),
            json!({"properties": {"a": {"type": "object", "required": "b"}}}),
            json!({"anyOf": []}),
            json!({"minLength": -1}),
            json!({"pattern": "("}),
            json!({"items": {"$ref": "#/$defs/none"}}),
        ] {
            assert!(checker(wrong.clone()).is_err(), "{wrong}");
        }
    }

    /// Keywords with right values and wrong ones.
    fn schemas() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(true)),
            Just(json!({})),
            prop::sample::select(vec![
                json!({"type": "string", "maxLength": 3}),
                json!({"type": ["integer", "null"], "minimum": -1.5}),
                json!({"type": ["null", "null"]}),
                json!({"type": "text"}),
                json!({"enum": [1, "a", null]}),
                json!({"const": {"a": []}, "default": 1, "examples": [1]}),
                json!({"format": "date-time"}),
                json!({"format": 1}),
                json!({"maxItems": 1.0}),
                json!({"maxItems": -1}),
                json!({"required": ["a"]}),
                json!({"required": [1]}),
                json!({"deprecated": true, "uniqueItems": 1}),
                json!({"type": "integer", "minimum": 0, "maximum": 2}),
                json!({"type": ["string", "boolean"]}),
                json!({"enum": ["a", "b"]}),
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
                json!({"properties": {"a": {}}, "additionalProperties": false}),
                json!({"type": "array", "items": {"type": "number"}}),
            ]),
        ];
        leaf.prop_recursive(4, 16, 3, |inner| {
            let several = prop::collection::vec(inner.clone(), 0..3);
            prop_oneof![
                several.clone().prop_map(|s| json!({"anyOf": s})),
                several.clone().prop_map(|s| json!({"allOf": s})),
                several.prop_map(|s| json!({"prefixItems": s})),
                inner.clone().prop_map(|s| json!({"items": s, "not": {"contains": true}})),
                (inner.clone(), inner)
                    .prop_map(|(a, b)| json!({"properties": {"a": a}, "additionalProperties": b})),
            ]
        })
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop::sample::select(vec![
            json!(null),
            json!(true),
            json!(0),
            json!(-2),
            json!(3.5),
            json!(u64::MAX),
            json!("a"),
            json!("abcd"),
        ]);
        leaf.prop_recursive(3, 12, 3, |inner| {
            let fields = prop::collection::btree_map("[abc]", inner.clone(), 0..3);
            prop_oneof![
                prop::collection::vec(inner, 0..3).prop_map(Value::from),
                fields.prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// What fits at a glance fits.
        #[test]
        fn a_glance_never_takes_what_the_schema_refuses(schema in schemas(), value in values()) {
            if is_plain(&schema, DEEPEST) && surely_fits(&schema, &value) {
                prop_assert!(compile(&schema).unwrap().is_valid(&value), "{schema} {value}");
            }
        }

        /// Whatever is put off compiles in the end.
        #[test]
        fn a_plain_schema_always_compiles(schema in schemas()) {
            if is_plain(&schema, DEEPEST) {
                prop_assert!(compile(&schema).is_ok(), "{schema}");
            }
        }
    }
}
