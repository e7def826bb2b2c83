//! Outputs go into the context store, where later arguments can refer to them.

use crate::tool::ToolContext;
use turnbuckle_core::context::{DEFAULT_CAP, DropCause};
use turnbuckle_core::json::Json;

/// Captures an output. Gives the store's cap in bytes when the outputs of the turn had to be dropped.
pub(super) fn capture(ctx: &ToolContext, output: &Json) -> Option<u64> {
    let dropped =
        ctx.context().with(|store| store.capture(ctx.call(), ctx.tool(), output.clone()))?;
    tracing::warn!(call = %ctx.call(), "{dropped}");
    let cap = match dropped.cause {
        DropCause::Size { cap, .. } => cap,
        DropCause::Depth => DEFAULT_CAP,
    };
    Some(cap as u64)
}
