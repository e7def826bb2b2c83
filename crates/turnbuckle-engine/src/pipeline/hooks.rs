//! The domain's say in a call.

use crate::tool::eventual::guarded_eventual;
use crate::tool::{Eventual, ToolContext, ToolContract};
use serde_json::Value;
use turnbuckle_core::error::{ToolError, ToolErrorCode};
use turnbuckle_core::event::CallResult;
use turnbuckle_core::json::Json;
use turnbuckle_core::machine::Directives;

/// The call a hook is about.
#[derive(Clone, Copy)]
pub struct HookCall<'a> {
    /// What the tool is given.
    pub ctx: &'a ToolContext,
    /// What the tool declares.
    pub contract: &'a ToolContract,
    /// The arguments.
    pub args: &'a Json,
    /// Whether the output is a prediction.
    pub captured: bool,
}

/// What a hook made of a result.
#[derive(Clone, Debug, PartialEq)]
pub enum Transformed {
    /// It is a success.
    Success(CallResult),
    /// It is a failure after all.
    Failure {
        /// Why, for the model.
        error: ToolError,
        /// What to show all the same.
        output: Option<Json>,
    },
}

/// A domain's hooks. Each does nothing unless written.
///
/// | hook | when | on a panic |
/// |---|---|---|
/// | [`transform_tool_input`](Self::transform_tool_input) | before bindings | the call is refused |
/// | [`on_tool_result`](Self::on_tool_result) | on success | nothing is asked of the loop |
/// | [`transform_tool_result`](Self::transform_tool_result) | on success, last | the call fails without output, since what should be hidden may not be shown |
pub trait Hooks: Send + Sync {
    /// Adds defaults from the domain's context. Gives the new arguments when they differ. A call may be checked again
    /// with the arguments this gave, which must then stay as they are.
    fn transform_tool_input<'a>(
        &'a self,
        call: HookCall<'a>,
    ) -> Eventual<'a, Result<Option<Value>, ToolError>> {
        let _ = call;
        Eventual::Ready(Ok(None))
    }

    /// Learns from a result.
    fn on_tool_result<'a>(
        &'a self,
        call: HookCall<'a>,
        result: &'a CallResult,
    ) -> Eventual<'a, Directives> {
        let _ = (call, result);
        Eventual::Ready(Directives::default())
    }

    /// Decides what the model sees and what is stored.
    fn transform_tool_result<'a>(
        &'a self,
        call: HookCall<'a>,
        result: CallResult,
    ) -> Eventual<'a, Transformed> {
        let _ = call;
        Eventual::Ready(Transformed::Success(result))
    }
}

/// No domain.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

impl Hooks for NoHooks {}

/// Runs the hook on the arguments.
pub(super) async fn transform(
    hooks: &dyn Hooks,
    call: HookCall<'_>,
) -> Result<Option<Value>, ToolError> {
    guarded_eventual(|| hooks.transform_tool_input(call)).await.unwrap_or_else(|panic| {
        let text = format!(
            "The call could not be prepared, since the domain's check of its input failed: {panic}"
        );
        Err(ToolError::new(ToolErrorCode::Panicked, text))
    })
}

/// Runs the hook that learns; what it asks is added to what the tool asks.
pub(super) async fn learn(
    hooks: &dyn Hooks,
    call: HookCall<'_>,
    result: &CallResult,
    directives: &mut Directives,
) {
    match guarded_eventual(|| hooks.on_tool_result(call, result)).await {
        Ok(more) => merge(directives, more),
        Err(panic) => {
            tracing::error!(call = %call.ctx.call(), "on_tool_result failed and was ignored: {panic}")
        }
    }
}

/// Runs the hook on the result.
pub(super) async fn reshape(
    hooks: &dyn Hooks,
    call: HookCall<'_>,
    result: CallResult,
) -> Transformed {
    guarded_eventual(|| hooks.transform_tool_result(call, result)).await.unwrap_or_else(|panic| {
        let tool = call.ctx.tool();
        let text = format!("`{tool}` ran, but its result could not be processed: {panic}. Do not assume that it had no effect.");
        Transformed::Failure { error: ToolError::new(ToolErrorCode::Panicked, text), output: None }
    })
}

/// The domain's word wins where only one can hold.
fn merge(into: &mut Directives, more: Directives) {
    let Directives { force_tool, add_context, plan, task, context_dropped: _ } = more;
    into.force_tool = force_tool.or(into.force_tool.take());
    into.add_context.extend(add_context);
    into.plan = plan.or(into.plan.take());
    into.task = task.or(into.task.take());
}
