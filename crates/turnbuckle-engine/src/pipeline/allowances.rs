//! What people said to be always allowed. It answers questions that a tool or a rule would ask; it never lifts a denial.

use crate::tool::ToolContext;
use serde_json::Value;
use std::sync::Arc;
use turnbuckle_store::{Allowance, Store};

/// Where it is found.
///
/// It is looked up when a person would be asked and not before: most turns ask nothing, and what is taken back no longer
/// counts at once, in every process.
#[derive(Clone, Default)]
pub enum Allowances {
    /// Nowhere: whoever must be asked is asked. Runs without a person are of this kind, since nobody can answer for them.
    #[default]
    None,
    /// In the store, for the person, the session and the agent that make the call.
    Kept(Arc<dyn Store>),
}

impl Allowances {
    /// Whether a person has allowed a call for good.
    pub(super) async fn allow(&self, ctx: &ToolContext, args: &Value) -> bool {
        let Self::Kept(store) = self else { return false };
        match store.allowances(ctx.tenant(), ctx.user(), Some(ctx.session())).await {
            Ok(all) => all.iter().any(|a| covers(a, ctx, args)),
            Err(e) => {
                tracing::warn!(
                    "a person is asked, since what they allowed cannot be read: {}",
                    e.report()
                );
                false
            }
        }
    }
}

fn covers(allowance: &Allowance, ctx: &ToolContext, args: &Value) -> bool {
    allowance.agent == *ctx.agent()
        && allowance.tool == *ctx.tool()
        // What cannot be tested was not foreseen.
        && allowance.args.iter().all(|test| test.holds(args).unwrap_or(false))
}
