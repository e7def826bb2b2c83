//! The agent's and the domain's say in a call.

use crate::agent::{AgentHooks, Handled};
use crate::tool::eventual::{Panic, guarded_eventual};
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

/// Runs the agent's hook on the arguments.
pub(super) async fn preprocess(
    hooks: &dyn AgentHooks,
    call: HookCall<'_>,
) -> Result<Option<Value>, ToolError> {
    let processed = guarded_eventual(|| hooks.preprocess_arguments(call)).await;
    processed.unwrap_or_else(|panic| Err(unprepared("the agent's", &panic)))
}

/// Runs the domain's hook on the arguments.
pub(super) async fn transform(
    hooks: &dyn Hooks,
    call: HookCall<'_>,
) -> Result<Option<Value>, ToolError> {
    let transformed = guarded_eventual(|| hooks.transform_tool_input(call)).await;
    transformed.unwrap_or_else(|panic| Err(unprepared("the domain's", &panic)))
}

fn unprepared(whose: &str, panic: &Panic) -> ToolError {
    let text =
        format!("The call could not be prepared, since {whose} check of its input failed: {panic}");
    ToolError::new(ToolErrorCode::Panicked, text)
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

/// Runs the agent's hook on the result; what it asks is added to what the tool and the domain ask.
pub(super) async fn handle(
    hooks: &dyn AgentHooks,
    call: HookCall<'_>,
    result: CallResult,
    directives: &mut Directives,
) -> Transformed {
    match guarded_eventual(|| hooks.handle_result(call, result)).await {
        Ok(Handled { result, directives: more }) => {
            merge(directives, more);
            result
        }
        Err(panic) => unprocessed(call, &panic),
    }
}

/// Runs the domain's hook on the result.
pub(super) async fn reshape(
    hooks: &dyn Hooks,
    call: HookCall<'_>,
    result: CallResult,
) -> Transformed {
    let reshaped = guarded_eventual(|| hooks.transform_tool_result(call, result)).await;
    reshaped.unwrap_or_else(|panic| unprocessed(call, &panic))
}

/// What should be hidden may not be shown.
fn unprocessed(call: HookCall<'_>, panic: &Panic) -> Transformed {
    let tool = call.ctx.tool();
    let text = format!(
        "`{tool}` ran, but its result could not be processed: {panic}. Do not assume that it had no effect."
    );
    Transformed::Failure { error: ToolError::new(ToolErrorCode::Panicked, text), output: None }
}

/// Where only one word can hold, the later one does: the tool's, then the domain's, then the agent's.
fn merge(into: &mut Directives, more: Directives) {
    let Directives { force_tool, add_context, plan, task, context_dropped: _ } = more;
    into.force_tool = force_tool.or(into.force_tool.take());
    into.add_context.extend(add_context);
    into.plan = plan.or(into.plan.take());
    into.task = task.or(into.task.take());
}
