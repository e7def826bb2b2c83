//! Whether a call fits its tool: bounds, the tool's own check, then the schema.

use super::bind::restrict;
use super::cap::fits;
use super::env::PipelineLimits;
use crate::tool::checker::Checker;
use crate::tool::eventual::guarded_eventual;
use crate::tool::toolbox::{Entry, nearest, quoted};
use crate::tool::{ToolContext, Validated};
use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;
use turnbuckle_core::error::ToolError;
use turnbuckle_core::json::clip;

/// Problems told at once.
const SHOWN: usize = 3;

/// Refuses arguments that no check should have to look at.
pub(super) fn check_bounds(args: &Value, limits: &PipelineLimits) -> Result<(), ToolError> {
    if deeper_than(args, limits.max_depth) {
        let text = format!(
            "The arguments are nested deeper than {} levels. Flatten them and call again.",
            limits.max_depth
        );
        return Err(ToolError::invalid(text));
    }
    if !fits(args, limits.max_args) {
        let text = format!(
            "The arguments are larger than {} bytes. Call again with less, or in parts.",
            limits.max_args
        );
        return Err(ToolError::invalid(text));
    }
    Ok(())
}

fn deeper_than(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(|v| deeper_than(v, levels - 1)),
        Value::Object(map) => levels == 0 || map.values().any(|v| deeper_than(v, levels - 1)),
        _ => false,
    }
}

/// Checks bound arguments and gives their canonical form where it differs.
pub(super) async fn validate(
    entry: &Entry,
    args: &Value,
    ctx: &ToolContext,
    limits: &PipelineLimits,
) -> Result<Validated, ToolError> {
    let name = &entry.spec.name;
    let checked = guarded_eventual(limits.hook_timeout, || entry.tool().validate(args, ctx)).await;
    let mut validated = checked.map_err(|why| {
        ToolError::invalid(format!(
            "The arguments of `{name}` could not be checked, since its check failed: {why}"
        ))
    })??;
    if let Some(canonical) = &validated.args
        && let Some(clamped) = restrict(entry, canonical, ctx)?
    {
        validated.args = Some(clamped);
    }
    check_schema(entry, validated.args.as_ref().unwrap_or(args))?;
    Ok(validated)
}

/// Checks arguments against the tool's schema, and what a schema cannot say: that null is no value for what is required.
fn check_schema(entry: &Entry, args: &Value) -> Result<(), ToolError> {
    let registered = &entry.registered;
    let Value::Object(map) = args else {
        return Err(ToolError::invalid(
            "The arguments are not an object of named values. Correct them and call again.",
        ));
    };
    let mut wrong = Vec::new();
    if let Some(known) = registered.known() {
        for name in map.keys().filter(|name| !known.contains(name)) {
            let hint = nearest(name, known.iter().map(String::as_str));
            let hint = hint.map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default();
            wrong.push(format!("there is no argument `{}`{hint}", clip(name, 100)));
        }
        if !wrong.is_empty() {
            wrong.truncate(SHOWN);
            let names: Vec<&str> = known.iter().map(String::as_str).collect();
            wrong.push(format!("the arguments are {}", quoted(&names)));
        }
    }
    let unknown = !wrong.is_empty();
    for name in registered.required() {
        match map.get(name) {
            None => wrong.push(format!("`{name}` is required")),
            Some(Value::Null) if !registered.takes_null(name) => {
                wrong.push(format!("`{name}` is required and must not be null"));
            }
            Some(_) => {}
        }
    }
    let checker = registered.input();
    if !checker.fits(args).map_err(no_schema)? {
        let rest = issues_where(checker, args, |error| match error.kind() {
            // Told above, in better words.
            ValidationErrorKind::AdditionalProperties { .. } => {
                !(unknown && error.instance_path().as_str().is_empty())
            }
            ValidationErrorKind::Required { .. } => !error.instance_path().as_str().is_empty(),
            ValidationErrorKind::Type { .. } => !required_null(entry, error),
            _ => true,
        })?;
        wrong.extend(rest);
        if wrong.is_empty() {
            wrong.push("they do not match the schema".to_owned());
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let text = format!(
        "The arguments do not fit `{}`: {}. Correct them and call again.",
        entry.spec.name,
        wrong.join("; ")
    );
    Err(ToolError::invalid(text))
}

/// Whether the error is about a null that is refused anyway.
fn required_null(entry: &Entry, error: &ValidationError<'_>) -> bool {
    let path = error.instance_path().as_str().strip_prefix('/');
    error.instance().is_null()
        && path.is_some_and(|name| entry.registered.required().iter().any(|r| r == name))
}

/// What is wrong with a value, in words, at most a few.
pub(super) fn issues(checker: &Checker, value: &Value) -> Result<Vec<String>, ToolError> {
    issues_where(checker, value, |_| true)
}

fn issues_where(
    checker: &Checker,
    value: &Value,
    told: impl Fn(&ValidationError<'_>) -> bool,
) -> Result<Vec<String>, ToolError> {
    let validator = checker.validator().map_err(no_schema)?;
    let errors = validator.iter_errors(value).filter(|e| told(e)).take(SHOWN);
    Ok(errors.map(|e| describe(checker.schema(), &e)).collect())
}

fn no_schema(problem: String) -> ToolError {
    ToolError::failed(format!("The tool cannot be used, since its schema is not one: {problem}"))
}

fn describe(schema: &Value, error: &ValidationError<'_>) -> String {
    let path = error.instance_path().as_str().trim_start_matches('/').replace('/', ".");
    let place = if path.is_empty() { String::new() } else { format!("`{path}`: ") };
    if let ValidationErrorKind::AdditionalProperties { unexpected } = error.kind() {
        let names: Vec<&str> = unexpected.iter().map(String::as_str).collect();
        let parent = error.schema_path().as_str().rsplit_once('/').map_or("", |(parent, _)| parent);
        let known =
            schema.pointer(parent).and_then(|s| s.get("properties")).and_then(Value::as_object);
        let known = known.map(|k| quoted(&k.keys().map(String::as_str).collect::<Vec<_>>()));
        let known = known.map(|known| format!("; its fields are {known}")).unwrap_or_default();
        return format!("{place}there is no {}{known}", quoted(&names));
    }
    let text = error.to_string();
    let shown = clip(&text, 300);
    let cut = if shown.len() < text.len() { "…" } else { "" };
    format!("{place}{shown}{cut}")
}
