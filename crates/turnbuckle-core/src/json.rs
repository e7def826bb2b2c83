//! Small helpers over JSON values.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::fmt::Write;
use std::sync::Arc;

/// A shared JSON value: outputs travel through events, parts and the context store without copies.
pub type Json = Arc<Value>;

/// How a description of the API says [`Json`]: a value of any kind.
#[cfg(feature = "openapi")]
#[derive(Clone, Copy, Debug)]
pub struct AnyJson;

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for AnyJson {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        use utoipa::openapi::schema::{Object, SchemaType};
        let any = Object::builder().schema_type(SchemaType::AnyValue);
        any.description(Some("Any JSON value.")).into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for AnyJson {
    fn name() -> std::borrow::Cow<'static, str> {
        "Json".into()
    }
}

/// For optional values: a `null` that is there is a value, so that what is read back is what was written.
///
/// # Errors
/// Those of the deserializer.
pub fn present<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(d).map(Some)
}

/// Canonical JSON: object keys sorted, no white space. Equal values give equal text.
///
/// ```
/// use turnbuckle_core::json::canonical;
/// let value = serde_json::json!({"b": 1, "a": [true, null]});
/// assert_eq!(canonical(&value), r#"{"a":[true,null],"b":1}"#);
/// ```
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write_canonical(value, &mut out);
    out
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            let mut keys: Vec<_> = map.iter().collect();
            keys.sort_by(|a, b| a.0.cmp(b.0));
            out.push('{');
            for (i, (key, item)) in keys.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                let _ = write!(out, "{}", Value::String(key.clone()));
                out.push(':');
                write_canonical(item, out);
            }
            out.push('}');
        }
        leaf => {
            let _ = write!(out, "{leaf}");
        }
    }
}

/// Cuts `text` to at most `max` bytes on a character boundary.
pub fn clip(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    let mut end = max;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}
