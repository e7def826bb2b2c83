//! Executes a call that passed, or predicts it, and makes a result of what comes.

use super::cap::{Blob, KeptOf, cap_outputs, hide};
use super::capture::capture;
use super::digest::{digest, summary};
use super::env::PipelineEnv;
use super::hooks::{HookCall, Transformed, handle, learn, reshape};
use super::mint::mint;
use super::run::run;
use crate::tool::eventual::guarded_eventual;
use crate::tool::toolbox::Entry;
use crate::tool::{Probe, ToolContext, ToolOutput, ToolUsage};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use turnbuckle_core::error::{ToolError, ToolErrorCode};
use turnbuckle_core::event::CallResult;
use turnbuckle_core::ids::CallId;
use turnbuckle_core::json::Json;
use turnbuckle_core::machine::{ExecuteCall, ExecuteMode, ExecuteResult, SettleCall};

/// What came of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Executed {
    /// For the machine.
    pub result: ExecuteResult,
    /// What the context store keeps of it, when hooks made something else of the result.
    pub captured: Option<Json>,
    /// What was too large for the message, whole.
    pub kept_aside: Vec<Blob>,
    /// Model calls that the tool made on its own.
    pub usage: Vec<ToolUsage>,
}

impl Executed {
    fn failure(error: ToolError, usage: Vec<ToolUsage>) -> Self {
        let result = ExecuteResult::Failure { error, output: None };
        Self { result, captured: None, kept_aside: Vec::new(), usage }
    }
}

/// Executes a call, predicts it, or finds out what became of it, as its mode says.
///
/// Dropping the future stops the tool and whatever it spawned under its cancellation.
pub async fn execute(env: &PipelineEnv, call: &ExecuteCall) -> Executed {
    let entry = match env.toolbox.find(call.tool.as_str(), &env.scope) {
        Ok(entry) => entry,
        Err(error) => return Executed::failure(error, Vec::new()),
    };
    let ctx = env.context(&call.call, &entry.spec.name, call.reason.clone());
    let captured = matches!(call.mode, ExecuteMode::Capture { .. });
    let outcome = match call.mode {
        ExecuteMode::Real => run(entry, call.args.clone(), &ctx, &env.limits).await,
        ExecuteMode::Capture { local_index } => Ok(mint(entry.tool(), &call.args, local_index)),
        ExecuteMode::Recover => recover(env, entry, call, &ctx).await,
    };
    let usage = ctx.take_usage();
    match outcome {
        Ok(output) => {
            let contract = entry.tool().contract();
            let about = HookCall { ctx: &ctx, contract, args: &call.args, captured };
            let warnings = &call.warnings;
            Executed { usage, ..finish(env, entry, about, output, warnings).await }
        }
        Err(error) => Executed::failure(error, usage),
    }
}

/// Makes a result of what a call gave that ran in the caller's front end or as a nested turn: all that follows a success here
/// follows it there. It has run, so a tool that was switched off meanwhile is no obstacle.
pub async fn settle(env: &PipelineEnv, call: SettleCall) -> Executed {
    let Some(entry) = env.toolbox.get(call.tool.as_str()) else {
        let text = format!("`{}` ran, but it is gone, and what it gave with it.", call.tool);
        return Executed::failure(ToolError::new(ToolErrorCode::UnknownTool, text), Vec::new());
    };
    let ctx = env.context(&call.call, &entry.spec.name, None);
    let contract = entry.tool().contract();
    let about = HookCall { ctx: &ctx, contract, args: &call.args, captured: false };
    finish(env, entry, about, ToolOutput::json(Arc::unwrap_or_clone(call.output)), &[]).await
}

/// Settles a call that was handed out before the process ended. Only the tool's own probe can tell what became of it.
async fn recover(
    env: &PipelineEnv,
    entry: &Entry,
    call: &ExecuteCall,
    ctx: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let limit = env.limits.hook_timeout;
    let probe = || entry.tool().probe(ctx.idempotency_key(), &call.args, ctx);
    let probed = guarded_eventual(limit, probe).await;
    match probed {
        Ok(Probe::Done(output)) => Ok(*output),
        Ok(Probe::NotDone) => run(entry, call.args.clone(), ctx, &env.limits).await,
        Ok(Probe::Unknown) | Err(_) => {
            let text = format!(
                "The process ended while `{}` ran, so its outcome is not known: it may or may not have taken effect. \
                 Check before you repeat it, and tell the user.",
                ctx.tool()
            );
            Err(ToolError::new(ToolErrorCode::OutcomeUnknown, text))
        }
    }
}

/// Everything after a success, in order: cap, digest, capture, hooks.
async fn finish(
    env: &PipelineEnv,
    entry: &Entry,
    call: HookCall<'_>,
    given: ToolOutput,
    warnings: &[String],
) -> Executed {
    let ToolOutput { output, model_view, summary: kept, digest: small, mut directives } = given;
    let tool = entry.tool();
    let id = call.ctx.call();
    let cap = call.contract.output_cap.unwrap_or(env.limits.output_cap);

    let digest = digest(tool, small, &output);
    let summary = summary(tool, kept, &output);
    let of = if model_view.is_some() { KeptOf::View } else { KeptOf::Output };
    let (output, view, mut kept_aside) = cap_outputs(id, output, model_view, of, cap);
    let model_view = match warnings.is_empty() {
        true => view,
        false => Some(with_warnings(view.as_ref().unwrap_or(&output), warnings).into()),
    };
    capture(call.ctx, &output);
    let captured = output.clone();
    env.taints.add(&call.contract.taints);

    let result =
        CallResult { output, model_view, summary, digest, captured: call.captured, cached: false };
    let shown = seen(&result).clone();
    learn(env, call, &result, &mut directives).await;
    let mut handled = match handle(env, call, result, &mut directives).await {
        Transformed::Success(result) => reshape(env, call, result).await,
        failure => failure,
    };
    if !kept_aside.is_empty() {
        withhold(&mut handled, &shown, id, of, &mut kept_aside);
    }
    let (result, captured) = match handled {
        Transformed::Success(result) => {
            let captured = (result.output != captured).then_some(captured);
            (ExecuteResult::Success { result, directives }, captured)
        }
        Transformed::Failure { error, output } => {
            (ExecuteResult::Failure { error, output }, Some(captured))
        }
    };
    Executed { result, captured, kept_aside, usage: Vec::new() }
}

/// What the model sees of a result.
fn seen(result: &CallResult) -> &Json {
    result.model_view.as_ref().unwrap_or(&result.output)
}

/// What hooks hid from the model, it may not read where it is kept.
fn withhold(
    handled: &mut Transformed,
    shown: &Json,
    call: &CallId,
    of: KeptOf,
    aside: &mut Vec<Blob>,
) {
    match handled {
        Transformed::Success(result) if seen(result) != shown => hide(result, call, of, aside),
        Transformed::Failure { output, .. } if output.as_ref() != Some(shown) => {
            let given = output.is_some();
            let output_of = output.take().unwrap_or_default();
            let mut result = CallResult { output: output_of, ..CallResult::default() };
            hide(&mut result, call, of, aside);
            *output = given.then(|| seen(&result).clone());
        }
        Transformed::Success(_) | Transformed::Failure { .. } => {}
    }
}

/// The view with what was assumed or corrected in the arguments next to it.
fn with_warnings(view: &Value, warnings: &[String]) -> Value {
    let mut map = match view {
        Value::Object(map) => map.clone(),
        other => Map::from_iter([("result".to_owned(), other.clone())]),
    };
    map.insert("_warnings".to_owned(), json!(warnings));
    Value::Object(map)
}
