//! Tools a person decides about. The call is tried before anybody is asked: a call that would fail is
//! refused, and the card shows what would really happen, such as the address a reply goes to.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use turnbuckle::core::error::ToolError;
use turnbuckle::tool::{Applies, FnTool, Tool, ToolContext, Validated};

use super::forgive;
use crate::agent::members::{acting, told};
use crate::caller::Caller;
use crate::desk::Desk;
use crate::error::DeskError;

/// Tries a call and gives the arguments that its outcome settles.
pub(super) trait Trial: DeserializeOwned + Send + 'static {
    /// What the attempt settles: arguments in the form that is shown and runs.
    fn attempt(
        &self,
        desk: &Desk,
        caller: &Caller,
    ) -> impl Future<Output = Result<Vec<(&'static str, Value)>, DeskError>> + Send;
}

/// A tool whose calls are tried before a person is asked and again before a captured one runs.
pub(super) fn tried<A: Trial>(tool: FnTool) -> FnTool {
    let schema = tool.contract().input_schema.clone();
    tool.validate_async(move |args, ctx| {
        let schema = Arc::clone(&schema);
        async move { validate::<A>(&schema, args, &ctx).await }
    })
    .applies(|args, ctx| async move {
        match attempt::<A>(&args, &ctx).await {
            Ok(_) => Applies::Yes,
            Err(error) => Applies::Stale(error.message),
        }
    })
}

async fn validate<A: Trial>(
    schema: &Value,
    args: Value,
    ctx: &ToolContext,
) -> Result<Validated, ToolError> {
    let forgiven = forgive::canonical(schema, &args);
    let changed = forgiven.is_some();
    let args = forgiven.unwrap_or(args);
    let unchanged = |args: Value| match changed {
        true => Validated::canonical(args),
        false => Validated::unchanged(),
    };
    // What only a captured action before this one will create cannot be tried yet.
    if is_predicted(&args) {
        return Ok(unchanged(args));
    }
    let Some(settled) = attempt::<A>(&args, ctx).await? else {
        return Ok(unchanged(args));
    };
    let mut map: Map<String, Value> = args.as_object().cloned().unwrap_or_default();
    let before = map.clone();
    map.extend(settled.into_iter().map(|(name, value)| (name.to_owned(), value)));
    Ok(if map == before { unchanged(args) } else { Validated::canonical(Value::Object(map)) })
}

/// `None` when the arguments do not even fit the type; the schema says why, in better words.
async fn attempt<A: Trial>(
    args: &Value,
    ctx: &ToolContext,
) -> Result<Option<Vec<(&'static str, Value)>>, ToolError> {
    let Ok(typed) = A::deserialize(args) else { return Ok(None) };
    let (desk, caller) = acting(ctx).await?;
    typed.attempt(desk, &caller).await.map(Some).map_err(told)
}

/// Whether a value somewhere is an id that was predicted and does not exist yet, such as `thread:temp_0`.
fn is_predicted(value: &Value) -> bool {
    match value {
        Value::String(text) => {
            let id = text.rsplit_once(':').map_or(text.as_str(), |(_, id)| id);
            id.strip_prefix("temp_")
                .is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
        }
        Value::Array(items) => items.iter().any(is_predicted),
        Value::Object(map) => map.values().any(is_predicted),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn predicted_ids_are_told_from_text() {
        for yes in [json!("temp_0"), json!({"thread": "thread:temp_12"}), json!(["task:temp_3"])] {
            assert!(is_predicted(&yes), "{yes}");
        }
        for no in [json!("thread:12"), json!("temp_"), json!({"body": "see temp_1 for more"})] {
            assert!(!is_predicted(&no), "{no}");
        }
    }
}
