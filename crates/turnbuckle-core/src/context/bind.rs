//! Arguments wired to the context: filled in for the model, or clamped against it.

use super::reference::Reference;
use super::store::ContextStore;
use crate::error::{ToolError, ToolErrorCode};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Where one argument of a tool comes from.
///
/// ```
/// use serde_json::json;
/// use turnbuckle_core::context::InputBinding;
/// let binding: InputBinding = serde_json::from_value(json!({
///     "argument": "owner", "source": {"reference": "sys:userId"}, "mode": "restrict", "required": true,
/// }))?;
/// assert_eq!(binding, InputBinding::reference("owner", "sys:userId".parse()?).restrict().require());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputBinding {
    /// The argument's name.
    pub argument: String,
    /// What decides its value.
    pub source: BindSource,
    /// Whether the model may override it.
    #[serde(default)]
    pub mode: BindMode,
    /// Whether a call without a value is refused.
    #[serde(default)]
    pub required: bool,
}

/// What decides an argument's value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BindSource {
    /// The model alone.
    Model,
    /// A value set by the workspace.
    Const(Value),
    /// A value of the context.
    Reference(Reference),
}

/// Who wins when both the model and the binding give a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BindMode {
    /// The model: the binding fills in what it omits.
    #[default]
    Fill,
    /// The binding: what the model gives is replaced, or removed when the binding has no value.
    Restrict,
}

impl InputBinding {
    /// Fills `argument` from a reference.
    pub fn reference(argument: impl Into<String>, reference: Reference) -> Self {
        Self::fill(argument.into(), BindSource::Reference(reference))
    }

    /// Fills `argument` with a value of the workspace.
    pub fn constant(argument: impl Into<String>, value: Value) -> Self {
        Self::fill(argument.into(), BindSource::Const(value))
    }

    /// Leaves `argument` to the model, for instance where an author's binding is overridden.
    pub fn model(argument: impl Into<String>) -> Self {
        Self::fill(argument.into(), BindSource::Model)
    }

    fn fill(argument: String, source: BindSource) -> Self {
        Self { argument, source, mode: BindMode::Fill, required: false }
    }

    /// The model cannot override it.
    #[must_use]
    pub fn restrict(mut self) -> Self {
        self.mode = BindMode::Restrict;
        self
    }

    /// A call without a value is refused.
    #[must_use]
    pub fn require(mut self) -> Self {
        self.required = true;
        self
    }

    /// The bound value. Null in the context is as good as nothing there.
    fn value<'a>(&'a self, store: &'a dyn ContextStore) -> Option<Cow<'a, Value>> {
        match &self.source {
            BindSource::Model => None,
            BindSource::Const(value) => Some(Cow::Borrowed(value)),
            BindSource::Reference(reference) => store.get(reference).filter(|v| !v.is_null()),
        }
    }
}

/// A call that lacks a bound value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    /// The argument is not the model's to give, and the context has no value for it.
    #[error(
        "`{argument}` is set from `{reference}`, which has no value in this turn; this call cannot be made now, whatever arguments it is given"
    )]
    Unresolved {
        /// The argument.
        argument: String,
        /// What it is bound to.
        reference: Reference,
    },
    /// The model omitted the argument, and the context has no value to fill in.
    #[error(
        "`{argument}` is missing, and `{reference}` has no value to fill in; call again with `{argument}`"
    )]
    Missing {
        /// The argument.
        argument: String,
        /// What it is bound to.
        reference: Reference,
    },
}

impl From<BindError> for ToolError {
    fn from(error: BindError) -> Self {
        let code = match error {
            BindError::Unresolved { .. } => ToolErrorCode::Denied,
            BindError::Missing { .. } => ToolErrorCode::InvalidArguments,
        };
        Self::new(code, error.to_string())
    }
}

/// The arguments a call runs with: the model's with the bindings applied.
///
/// ```
/// use serde_json::json;
/// use turnbuckle_core::context::{ContextStore, InputBinding, SessionContext, bind};
/// let mut context = SessionContext::new();
/// context.set(&"var:inbox".parse()?, json!("support"))?;
/// let inbox = InputBinding::reference("inbox", "var:inbox".parse()?).restrict();
/// let asked = json!({"inbox": "everyone", "limit": 5});
/// let bound = bind(asked.as_object().unwrap(), &[inbox], &context)?;
/// assert_eq!(serde_json::Value::from(bound), json!({"inbox": "support", "limit": 5}));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// When a required binding has no value.
pub fn bind(
    args: &Map<String, Value>,
    bindings: &[InputBinding],
    store: &dyn ContextStore,
) -> Result<Map<String, Value>, BindError> {
    let mut bound = args.clone();
    for binding in bindings {
        let argument = &binding.argument;
        if binding.mode == BindMode::Fill && bound.contains_key(argument) {
            continue;
        }
        if let Some(value) = binding.value(store) {
            bound.insert(argument.clone(), value.into_owned());
        } else if let BindSource::Reference(reference) = &binding.source {
            bound.remove(argument);
            if binding.required {
                let (argument, reference) = (argument.clone(), reference.clone());
                return Err(match binding.mode {
                    BindMode::Restrict => BindError::Unresolved { argument, reference },
                    BindMode::Fill => BindError::Missing { argument, reference },
                });
            }
        }
    }
    Ok(bound)
}

/// The bindings in force: a tool author's, each replaced by the workspace's for the same argument.
pub fn effective(author: &[InputBinding], workspace: &[InputBinding]) -> Vec<InputBinding> {
    let overridden = |b: &&InputBinding| workspace.iter().any(|w| w.argument == b.argument);
    author.iter().filter(|b| !overridden(b)).chain(workspace).cloned().collect()
}

/// The input schema as the model should see it: it need not give what the workspace sets, and is told so.
/// What is bound to a reference stays as it is, so that a required value that is missing is noticed.
pub fn project_schema(schema: &Value, bindings: &[InputBinding]) -> Value {
    let mut projected = schema.clone();
    for binding in bindings {
        if !matches!(binding.source, BindSource::Const(_)) {
            continue;
        }
        if let Some(required) = projected.get_mut("required").and_then(Value::as_array_mut) {
            required.retain(|name| name.as_str() != Some(&binding.argument));
        }
        let note = match binding.mode {
            BindMode::Restrict => "Set by the workspace; leave it out.",
            BindMode::Fill => "Set by the workspace unless given.",
        };
        if let Some(property) =
            projected.get_mut("properties").and_then(|p| p.get_mut(&binding.argument))
        {
            annotate(property, note);
        }
    }
    projected
}

/// Adds a sentence to a property's description.
fn annotate(property: &mut Value, note: &str) {
    if *property == Value::Bool(true) {
        // The schema that admits everything, in the form that can hold a description.
        *property = Value::Object(Map::new());
    }
    if let Value::Object(property) = property {
        let text = match property.get("description").and_then(Value::as_str) {
            Some(text) if text.ends_with(note) => return,
            Some(text) if !text.trim().is_empty() => format!("{} {note}", text.trim_end()),
            _ => note.to_owned(),
        };
        property.insert("description".to_owned(), Value::from(text));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Ambient, SessionContext};
    use super::*;
    use serde_json::json;

    fn store() -> SessionContext {
        let mut store = SessionContext::new();
        store.set(&"var:inbox".parse().unwrap(), json!("support")).unwrap();
        store.set(&"var:nothing".parse().unwrap(), Value::Null).unwrap();
        store.set_ambient(Ambient {
            sys: [("userId".into(), json!("u1").into())].into(),
            subject: Some(json!({"id": "contact-1"}).into()),
        });
        store
    }

    fn from(argument: &str, reference: &str) -> InputBinding {
        InputBinding::reference(argument, reference.parse().unwrap())
    }

    fn bound(args: Value, binding: InputBinding) -> Result<Value, BindError> {
        let given = args.as_object().unwrap().clone();
        let result = bind(&given, &[binding], &store()).map(Value::from);
        assert_eq!(Value::from(given), args, "the input is never changed");
        result
    }

    #[test]
    fn fill_gives_way_to_the_model() {
        for (args, binding, expected) in [
            (json!({}), from("inbox", "var:inbox"), json!({"inbox": "support"})),
            (json!({"inbox": "sales"}), from("inbox", "var:inbox"), json!({"inbox": "sales"})),
            (json!({"inbox": null}), from("inbox", "var:inbox"), json!({"inbox": null})),
            (json!({"a": 1}), from("inbox", "var:gone"), json!({"a": 1})),
            (json!({}), from("inbox", "var:nothing"), json!({})),
            (json!({}), InputBinding::constant("limit", json!(5)), json!({"limit": 5})),
            (json!({"limit": 9}), InputBinding::constant("limit", json!(5)), json!({"limit": 9})),
            (json!({"x": 1}), InputBinding::model("x").require(), json!({"x": 1})),
            (
                json!({"inbox": "sales"}),
                from("inbox", "var:gone").require(),
                json!({"inbox": "sales"}),
            ),
        ] {
            assert_eq!(bound(args, binding), Ok(expected));
        }
    }

    #[test]
    fn restrict_overrides_the_model() {
        for (args, binding, expected) in [
            (json!({"user": "u2"}), from("user", "sys:userId").restrict(), json!({"user": "u1"})),
            (json!({}), from("contact", "id").restrict(), json!({"contact": "contact-1"})),
            (json!({"user": "u2", "a": 1}), from("user", "sys:gone").restrict(), json!({"a": 1})),
            (json!({"user": "u2"}), from("user", "var:nothing").restrict(), json!({})),
            (json!({"n": 9}), InputBinding::constant("n", json!(5)).restrict(), json!({"n": 5})),
            (
                json!({"n": 9}),
                InputBinding::constant("n", Value::Null).restrict(),
                json!({"n": null}),
            ),
            (json!({"n": 9}), InputBinding::model("n").restrict().require(), json!({"n": 9})),
        ] {
            assert_eq!(bound(args, binding), Ok(expected));
        }
    }

    #[test]
    fn a_required_binding_without_a_value_fails_closed() {
        for reference in ["sys:gone", "var:nothing", "tool:never[]", "tool:never[0].id"] {
            let argument = "user".to_owned();
            let expected =
                BindError::Unresolved { argument, reference: reference.parse().unwrap() };
            let refused =
                bound(json!({"user": "u2"}), from("user", reference).restrict().require());
            assert_eq!(refused, Err(expected.clone()));
            assert_eq!(ToolError::from(expected).code, ToolErrorCode::Denied);
        }
        let missing = bound(json!({}), from("user", "sys:gone").require()).unwrap_err();
        assert_eq!(
            ToolError::from(missing),
            ToolError::invalid(
                "`user` is missing, and `sys:gone` has no value to fill in; call again with `user`"
            )
        );
    }

    #[test]
    fn the_workspace_overrides_the_author_by_argument() {
        let author = [from("a", "var:x").restrict(), from("b", "var:y")];
        let workspace = [InputBinding::model("a"), InputBinding::constant("c", json!(1))];
        assert_eq!(
            effective(&author, &workspace),
            [from("b", "var:y"), InputBinding::model("a"), InputBinding::constant("c", json!(1))]
        );
    }

    #[test]
    fn the_schema_asks_the_model_only_for_what_it_may_give() {
        let schema = json!({
            "type": "object",
            "required": ["inbox", "user", "query", "any"],
            "properties": {
                "inbox": {"type": "string", "description": "Which inbox."},
                "user": {"type": "string"},
                "query": {"type": "string"},
                "limit": {"type": "integer"},
                "any": true,
            },
        });
        let bindings = [
            InputBinding::constant("inbox", json!("support")).restrict(),
            from("user", "sys:userId").restrict().require(),
            InputBinding::constant("limit", json!(5)),
            InputBinding::constant("any", json!(5)).restrict(),
            InputBinding::constant("unknown", json!(5)),
            InputBinding::model("query"),
        ];
        let expected = json!({
            "type": "object",
            "required": ["user", "query"],
            "properties": {
                "inbox": {
                    "type": "string",
                    "description": "Which inbox. Set by the workspace; leave it out.",
                },
                "user": {"type": "string"},
                "query": {"type": "string"},
                "limit": {"type": "integer", "description": "Set by the workspace unless given."},
                "any": {"description": "Set by the workspace; leave it out."},
            },
        });
        let projected = project_schema(&schema, &bindings);
        assert_eq!(projected, expected);
        assert_eq!(project_schema(&projected, &bindings), expected, "twice is once");
        assert_eq!(project_schema(&json!(true), &bindings), json!(true));
    }
}
