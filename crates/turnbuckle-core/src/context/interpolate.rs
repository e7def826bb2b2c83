//! Values of the context in text.

use super::reference::Reference;
use super::store::ContextStore;
use serde_json::Value;

/// Properties that name an object, best first.
const LABELS: [&str; 4] = ["name", "label", "displayName", "value"];

/// Replaces each `{{reference}}` by its value: nothing when there is none, an object by what names it.
/// Braces around anything that is not a reference stay as written. Inserted text is not looked at again.
///
/// ```
/// use serde_json::json;
/// use turnbuckle_core::context::{ContextStore, SessionContext, interpolate};
/// let mut context = SessionContext::new();
/// context.set(&"var:customer".parse()?, json!({"id": 7, "name": "Ada"}))?;
/// let text = "Hello {{ var:customer }}, number {{var:customer.id}}{{var:title}}";
/// assert_eq!(interpolate(text, &context), "Hello Ada, number 7");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn interpolate(template: &str, store: &dyn ContextStore) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        out.push_str(before);
        if let Some((reference, tail)) = placeholder(after) {
            if let Some(value) = store.get(&reference) {
                show(&value, &mut out);
            }
            rest = tail;
        } else {
            // Only one brace is passed over: of three, the inner two may open a placeholder.
            out.push('{');
            rest = rest.get(before.len() + 1..).unwrap_or_default();
        }
    }
    out.push_str(rest);
    out
}

/// The reference before the closing braces, and the text after them.
fn placeholder(text: &str) -> Option<(Reference, &str)> {
    // A quoted name may hold braces itself, so each closing pair is tried until the text before it is a reference.
    // An opening pair ends the search, which keeps it linear over a text full of them.
    let limit = text.find("{{").unwrap_or(text.len());
    let closings = text.get(..limit)?.match_indices("}}").take(4);
    for (end, braces) in closings {
        if let Ok(reference) = text.get(..end)?.trim().parse() {
            return Some((reference, text.get(end + braces.len()..)?));
        }
    }
    None
}

/// Writes a value as a person would read it.
fn show(value: &Value, out: &mut String) {
    match value {
        Value::Null => {}
        Value::String(text) => out.push_str(text),
        Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                show(item, out);
            }
        }
        Value::Object(map) => match LABELS.iter().find_map(|l| map.get(*l).filter(|v| names(v))) {
            Some(label) => show(label, out),
            None => out.push_str(&value.to_string()),
        },
    }
}

/// Whether a value says anything.
fn names(value: &Value) -> bool {
    !value.is_null() && value.as_str() != Some("")
}

#[cfg(test)]
mod tests {
    use super::super::{Ambient, SessionContext};
    use super::*;
    use serde_json::json;

    fn shown(template: &str) -> String {
        let mut store = SessionContext::new();
        for (reference, value) in [
            ("var:text", json!("plain {{var:n}}")),
            ("var:n", json!(1.5)),
            ("var:yes", json!(true)),
            ("var:none", json!(null)),
            ("var:list", json!(["a", {"label": "b"}, 3])),
            ("var:label", json!({"label": "L", "value": "V"})),
            ("var:display", json!({"name": "", "displayName": "D"})),
            ("var:value", json!({"name": null, "value": {"name": "inner"}})),
            ("var:other", json!({"b": 1, "a": "x"})),
            ("var:odd", json!({"a}}b": "odd"})),
        ] {
            store.set(&reference.parse().unwrap(), value).unwrap();
        }
        store.set_ambient(Ambient {
            sys: [("userId".into(), json!("u1").into())].into(),
            subject: Some(json!({"email": "a@example.org"}).into()),
        });
        interpolate(template, &store)
    }

    #[test]
    fn values_as_a_person_reads_them() {
        for (template, expected) in [
            ("", ""),
            ("no braces } {", "no braces } {"),
            ("{{var:text}}", "plain {{var:n}}"),
            ("<{{ var:n }}|{{var:yes}}|{{var:none}}>", "<1.5|true|>"),
            ("{{var:list}}", "a, b, 3"),
            ("{{var:list[1]}}", "b"),
            ("{{var:label}}", "L"),
            ("{{var:display}}", "D"),
            ("{{var:value}}", "inner"),
            ("{{var:other}}", r#"{"a":"x","b":1}"#),
            ("{{var:odd[\"a}}b\"]}}!", "odd!"),
            ("{{sys:userId}} {{email}}", "u1 a@example.org"),
            ("[{{var:gone}}{{tool:x}}{{call:y.z}}{{gone.deep}}]", "[]"),
            ("größe {{var:n}} ü", "größe 1.5 ü"),
        ] {
            assert_eq!(shown(template), expected, "{template}");
        }
    }

    #[test]
    fn what_is_no_reference_stays() {
        for template in
            ["{{", "}}", "{{}}", "{{ }}", "{{#if x}}", "{{vars:x}}", "{{var:n", "{ {var:n} }"]
        {
            assert_eq!(shown(template), template);
        }
        assert_eq!(shown("{{oops {{var:n}}"), "{{oops 1.5");
        assert_eq!(shown("{{{var:n}}}"), "{1.5}");
    }
}
