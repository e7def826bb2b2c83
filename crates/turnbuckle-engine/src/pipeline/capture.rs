//! Outputs go into the context store, where later arguments can refer to them.

use crate::tool::ToolContext;
use turnbuckle_core::json::Json;

/// Captures an output. Whether others had to be dropped for it the store tells whoever runs the turn.
pub(super) fn capture(ctx: &ToolContext, output: &Json) {
    let dropped = ctx.context().with(|store| store.capture(ctx.call(), ctx.tool(), output.clone()));
    if let Some(dropped) = dropped {
        tracing::warn!(call = %ctx.call(), "{dropped}");
    }
}
