//! Executes a tool: with a deadline, stopped when the turn is, its panics contained.

use super::env::PipelineLimits;
use crate::tool::eventual::{Panic, guarded};
use crate::tool::toolbox::Entry;
use crate::tool::{ToolContext, ToolOutput};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};
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
        Ok(run) => Contained(Some(run.0)),
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
                // What was finished in time counts, whatever it was stopped for.
                outcome = &mut running => match outcome {
                    Ok(Err(error)) => Ok(Err(ToolError::new(ToolErrorCode::Cancelled, error.message))),
                    other => other,
                },
                () = over => Ok(stopped),
            }
        }
        () = late => {
            let text = format!("`{name}` did not finish within {limit:?} and was stopped.{}", doubt(contract.traits.effect));
            Ok(Err(ToolError::new(ToolErrorCode::Timeout, text)))
        }
    };
    match outcome {
        Ok(Ok(output)) => Ok(output),
        Ok(Err(error)) => Err(bounded(error)),
        Err(panic) => Err(panicked(entry, &panic)),
    }
}

/// A running tool whose panics do not get out, not even when it is dropped.
struct Contained(Option<BoxFuture<'static, Outcome>>);

impl Future for Contained {
    type Output = Result<Outcome, Panic>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Some(run) => AssertUnwindSafe(run).catch_unwind().poll_unpin(cx).map_err(Panic::of),
            None => Poll::Pending,
        }
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        let run = self.0.take();
        if let Err(panic) = guarded(|| drop(run)) {
            tracing::error!("a tool panicked while it was dropped: {panic}");
        }
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
