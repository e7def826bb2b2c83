//! Whether a valid call may run: what the workspace's rules say, else what the tool declares.

use super::env::PipelineEnv;
use super::policy::{Decided, PolicyDecision};
use crate::tool::eventual::guarded;
use crate::tool::toolbox::Entry;
use crate::tool::{Approval, ToolContext};
use serde_json::Value;
use turnbuckle_core::error::{ToolError, ToolErrorCode};

/// What a call may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Permission {
    /// Run.
    Allow,
    /// Run once a person agrees.
    Ask(Option<String>),
    /// Nothing.
    Deny(ToolError),
}

/// Decides about a call that is checked for the first time.
pub(super) async fn decide(
    env: &PipelineEnv,
    entry: &Entry,
    ctx: &ToolContext,
    args: &Value,
) -> Permission {
    let ruled = env.policy.decide(ctx, args, &env.taints);
    let (reason, open) = match ruled {
        Some(Decided { decision: PolicyDecision::Allow, .. }) => return Permission::Allow,
        Some(Decided { decision: PolicyDecision::Deny, reason, .. }) => return deny(ctx, reason),
        Some(Decided { decision: PolicyDecision::Ask, reason, rememberable }) => {
            (reason, rememberable)
        }
        None => match own_wish(entry, ctx, args) {
            Wish::Run => return Permission::Allow,
            Wish::Ask => (None, true),
            Wish::Unsure(problem) => (Some(problem), false),
        },
    };
    match open && env.allowances.allow(ctx, args).await {
        true => Permission::Allow,
        false => Permission::Ask(reason),
    }
}

/// Decides about a call that a person has approved: only a denial still counts.
pub(super) fn denied(env: &PipelineEnv, _: &Entry, ctx: &ToolContext, args: &Value) -> Permission {
    match env.policy.decide(ctx, args, &env.taints) {
        Some(Decided { decision: PolicyDecision::Deny, reason, .. }) => deny(ctx, reason),
        _ => Permission::Allow,
    }
}

fn deny(ctx: &ToolContext, reason: Option<String>) -> Permission {
    let because = reason.map(|r| format!(": {r}")).unwrap_or_default();
    let text = format!(
        "The workspace's policy forbids this call of `{}`{because}. Do not repeat it; find another way or tell the user.",
        ctx.tool()
    );
    Permission::Deny(ToolError::new(ToolErrorCode::Denied, text))
}

enum Wish {
    Run,
    Ask,
    Unsure(String),
}

/// What the tool itself wants. A predicate that cannot decide is no consent.
fn own_wish(entry: &Entry, ctx: &ToolContext, args: &Value) -> Wish {
    match &entry.tool().contract().approval {
        Approval::Never => Wish::Run,
        Approval::Always => Wish::Ask,
        Approval::When(ask) => match guarded(|| ask(args, ctx)) {
            Ok(Ok(true)) => Wish::Ask,
            Ok(Ok(false)) => Wish::Run,
            Ok(Err(error)) => Wish::Unsure(unsure(&error.message)),
            Err(panic) => Wish::Unsure(unsure(&panic.0)),
        },
    }
}

fn unsure(problem: &str) -> String {
    format!("You are asked because the tool could not decide whether it needs approval: {problem}")
}
