//! Executes a tool: with a deadline, stopped when the turn is, its panics contained.

use super::env::PipelineLimits;
use crate::tool::eventual::{Contained, Panic, guarded};
use crate::tool::toolbox::Entry;
use crate::tool::{ToolContext, ToolOutput};
use tokio::time::sleep;
use turnbuckle_core::error::{ToolError, ToolErrorCode};
use turnbuckle_core::json::{Json, clip};
use turnbuckle_core::tool::SideEffect;

/// Bytes of a failure's text that the model reads.
const MAX_ERROR: usize = 8 * 1024;

type Outcome = Result<ToolOutput, ToolError>;

/// Runs a tool to its end, its deadline, or the end of the grace period after a stop.
pub(super) async fn run(
    entry: &Entry,
    args: Json,
    ctx: &ToolContext,
    limits: &PipelineLimits,
) -> Outcome {
    let tool = entry.tool();
    let contract = tool.contract();
    let name = contract.name();
    let stop = ctx.cancellation();
    if stop.is_cancelled() {
        let text = format!("`{name}` was not started, since the turn was stopped.");
        return Err(ToolError::new(ToolErrorCode::Cancelled, text));
    }
    // Whatever the tool spawned under this token ends with the call, however it ends.
    let _ended = stop.clone().drop_guard();
    let mut running = match guarded(|| tool.execute(args, ctx.clone())) {
        Ok(run) => Contained::new(run.0),
        Err(panic) => return Err(panicked(entry, &panic)),
    };
    let limit = contract.timeout.unwrap_or(limits.timeout);
    let late = async { sleep(limit).await };
    let outcome = tokio::select! {
        biased;
        outcome = &mut running => outcome,
        () = stop.cancelled() => {
            let text = format!("`{name}` was stopped with the turn.{}", doubt(contract.traits.effect));
            let stopped = Err(ToolError::new(ToolErrorCode::Cancelled, text));
            let over = async { sleep(limits.grace).await };
            tokio::select! {
                biased;
                outcome = &mut running => outcome,
                () = over => Ok(stopped),
            }
        }
        () = late => {
            let doubt = doubt(contract.traits.effect);
            let text = format!("`{name}` did not finish within {limit:?} and was stopped.{doubt}");
            Ok(Err(ToolError::new(ToolErrorCode::Timeout, text)))
        }
    };
    match outcome {
        Ok(Ok(output)) => Ok(output),
        // What was finished counts, even after a stop; what failed then, failed because of it.
        Ok(Err(error)) if stop.is_cancelled() => {
            Err(bounded(ToolError::new(ToolErrorCode::Cancelled, error.message)))
        }
        Ok(Err(error)) => Err(bounded(error)),
        Err(panic) => Err(panicked(entry, &panic)),
    }
}

/// What must be said of a call that was cut off, so that nobody repeats an action blindly.
fn doubt(effect: SideEffect) -> &'static str {
    match effect {
        SideEffect::ReadOnly => "",
        SideEffect::Idempotent | SideEffect::AtMostOnce => {
            " It may have taken effect all the same; check before you repeat it."
        }
    }
}

fn panicked(entry: &Entry, panic: &Panic) -> ToolError {
    let contract = entry.tool().contract();
    let text = format!(
        "`{}` failed unexpectedly: {panic}.{}",
        contract.name(),
        doubt(contract.traits.effect)
    );
    ToolError::new(ToolErrorCode::Panicked, text)
}

fn bounded(mut error: ToolError) -> ToolError {
    let shown = clip(&error.message, MAX_ERROR).len();
    if shown < error.message.len() {
        let whole = error.message.len();
        error.message.truncate(shown);
        error.message.push_str(&format!("… ({whole} bytes in all)"));
    }
    error
}
