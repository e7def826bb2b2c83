//! Arguments that are wired to the context are filled in or clamped.

use crate::tool::ToolContext;
use crate::tool::toolbox::Entry;
use serde_json::Value;
use turnbuckle_core::context::{self, BindMode, InputBinding};
use turnbuckle_core::error::ToolError;

/// The arguments with all bindings applied; `None` when there are none.
pub(super) fn bind(
    entry: &Entry,
    args: &Value,
    ctx: &ToolContext,
) -> Result<Option<Value>, ToolError> {
    apply(&entry.bindings, args, ctx)
}

/// The arguments with the restrictions applied once more. A tool's own check may move a value to another name, and
/// must not move it past a restriction.
pub(super) fn restrict(
    entry: &Entry,
    args: &Value,
    ctx: &ToolContext,
) -> Result<Option<Value>, ToolError> {
    if entry.bindings.iter().all(|b| b.mode == BindMode::Fill) {
        return Ok(None);
    }
    let restrictions: Vec<InputBinding> =
        entry.bindings.iter().filter(|b| b.mode == BindMode::Restrict).cloned().collect();
    apply(&restrictions, args, ctx)
}

fn apply(
    bindings: &[InputBinding],
    args: &Value,
    ctx: &ToolContext,
) -> Result<Option<Value>, ToolError> {
    let Value::Object(map) = args else {
        return Err(ToolError::invalid("the arguments are not an object of named values"));
    };
    if bindings.is_empty() {
        return Ok(None);
    }
    let bound = ctx.context().with(|store| context::bind(map, bindings, store))?;
    Ok(Some(Value::Object(bound)))
}
