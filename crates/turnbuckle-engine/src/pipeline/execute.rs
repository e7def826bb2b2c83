//! Executes a call that passed, or predicts it, and makes a result of what comes.

use super::cap::{Blob, cap_output, cap_view};
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
use turnbuckle_core::error::{ToolError, ToolErrorCode};
use turnbuckle_core::event::CallResult;
use turnbuckle_core::json::Json;
use turnbuckle_core::machine::{ExecuteCall, ExecuteMode, ExecuteResult};

/// What came of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Executed {
    /// For the machine.
    pub result: ExecuteResult,
    /// What the context store keeps of it, when hooks made something else of the result.
    pub captured: Option<Json>,
    /// The full output, when it was too large for the message.
    pub kept_aside: Option<Blob>,
    /// Model calls that the tool made on its own.
    pub usage: Vec<ToolUsage>,
}

impl Executed {
    fn failure(error: ToolError, usage: Vec<ToolUsage>) -> Self {
        let result = ExecuteResult::Failure { error, output: None };
        Self { result, captured: None, kept_aside: None, usage }
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

/// Settles a call that was handed out before the process ended. Only the tool's own probe can tell what became of it.
async fn recover(
    env: &PipelineEnv,
    entry: &Entry,
    call: &ExecuteCall,
    ctx: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let probed =
        guarded_eventual(|| entry.tool().probe(ctx.idempotency_key(), &call.args, ctx)).await;
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
    let (output, kept_aside) = cap_output(id, output, cap);
    let model_view = match (model_view, warnings.is_empty()) {
        (view, true) => view.map(|view| cap_view(id, view, cap)),
        (view, false) => {
            let view = view.map(|view| cap_view(id, view, cap)).unwrap_or_else(|| output.clone());
            Some(with_warnings(&view, warnings).into())
        }
    };
    capture(call.ctx, &output);
    let captured = output.clone();
    env.taints.add(&call.contract.taints);

    let result =
        CallResult { output, model_view, summary, digest, captured: call.captured, cached: false };
    learn(&*env.hooks, call, &result, &mut directives).await;
    let handled = match handle(&*env.agent, call, result, &mut directives).await {
        Transformed::Success(result) => reshape(&*env.hooks, call, result).await,
        failure => failure,
    };
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

/// The view with what was assumed or corrected in the arguments next to it.
fn with_warnings(view: &Value, warnings: &[String]) -> Value {
    let mut map = match view {
        Value::Object(map) => map.clone(),
        other => Map::from_iter([("result".to_owned(), other.clone())]),
    };
    map.insert("_warnings".to_owned(), json!(warnings));
    Value::Object(map)
}
