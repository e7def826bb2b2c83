//! The agent's and the domain's say in a call.

use super::env::PipelineEnv;
use crate::agent::Handled;
use crate::tool::eventual::{Broken, guarded_eventual};
use crate::tool::{Eventual, ToolContext, ToolContract};
use serde_json::Value;
use turnbuckle_core::error::ToolError;
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
/// Each has [`PipelineLimits::hook_timeout`](super::PipelineLimits::hook_timeout) to end in; one that takes longer is dropped.
///
/// | hook | when | on a panic, or when it takes too long |
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
    env: &PipelineEnv,
    call: HookCall<'_>,
) -> Result<Option<Value>, ToolError> {
    let hook = || env.agent.preprocess_arguments(call);
    let processed = guarded_eventual(env.limits.hook_timeout, hook).await;
    processed.unwrap_or_else(|why| Err(unprepared("the agent's", &why)))
}

/// Runs the domain's hook on the arguments.
pub(super) async fn transform(
    env: &PipelineEnv,
    call: HookCall<'_>,
) -> Result<Option<Value>, ToolError> {
    let hook = || env.hooks.transform_tool_input(call);
    let transformed = guarded_eventual(env.limits.hook_timeout, hook).await;
    transformed.unwrap_or_else(|why| Err(unprepared("the domain's", &why)))
}

fn unprepared(whose: &str, why: &Broken) -> ToolError {
    let text =
        format!("The call could not be prepared, since {whose} check of its input failed: {why}");
    ToolError::new(why.code(), text)
}

/// Runs the hook that learns; what it asks is added to what the tool asks.
pub(super) async fn learn(
    env: &PipelineEnv,
    call: HookCall<'_>,
    result: &CallResult,
    directives: &mut Directives,
) {
    let hook = || env.hooks.on_tool_result(call, result);
    match guarded_eventual(env.limits.hook_timeout, hook).await {
        Ok(more) => merge(directives, more),
        Err(why) => {
            tracing::error!(call = %call.ctx.call(), "on_tool_result failed and was ignored: {why}")
        }
    }
}

/// Runs the agent's hook on the result; what it asks is added to what the tool and the domain ask.
pub(super) async fn handle(
    env: &PipelineEnv,
    call: HookCall<'_>,
    result: CallResult,
    directives: &mut Directives,
) -> Transformed {
    let hook = || env.agent.handle_result(call, result);
    match guarded_eventual(env.limits.hook_timeout, hook).await {
        Ok(Handled { result, directives: more }) => {
            merge(directives, more);
            result
        }
        Err(why) => unprocessed(call, &why),
    }
}

/// Runs the domain's hook on the result.
pub(super) async fn reshape(
    env: &PipelineEnv,
    call: HookCall<'_>,
    result: CallResult,
) -> Transformed {
    let hook = || env.hooks.transform_tool_result(call, result);
    let reshaped = guarded_eventual(env.limits.hook_timeout, hook).await;
    reshaped.unwrap_or_else(|why| unprocessed(call, &why))
}

/// What should be hidden may not be shown.
fn unprocessed(call: HookCall<'_>, why: &Broken) -> Transformed {
    let tool = call.ctx.tool();
    let text = format!(
        "`{tool}` ran, but its result could not be processed: {why}. Do not assume that it had no effect."
    );
    Transformed::Failure { error: ToolError::new(why.code(), text), output: None }
}

/// Where only one word can hold, the later one does: the tool's, then the domain's, then the agent's.
fn merge(into: &mut Directives, more: Directives) {
    let Directives { force_tool, add_context, plan, task, context_dropped: _ } = more;
    into.force_tool = force_tool.or(into.force_tool.take());
    into.add_context.extend(add_context);
    into.plan = plan.or(into.plan.take());
    into.task = task.or(into.task.take());
}
