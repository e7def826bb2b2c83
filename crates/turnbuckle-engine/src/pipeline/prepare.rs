//! Checks a call: transform, bind, validate, permission. It reads at most.

use super::amend::{amend, editable};
use super::bind::bind;
use super::digest::digest_args;
use super::env::PipelineEnv;
use super::hooks::{HookCall, preprocess, transform};
use super::permission::{Permission, decide, denied};
use super::validate::{check_bounds, validate};
use crate::tool::ToolContext;
use crate::tool::toolbox::Entry;
use std::time::Duration;
use turnbuckle_core::error::ToolError;
use turnbuckle_core::json::Json;
use turnbuckle_core::machine::{PrepareCall, PrepareStage, Question, Verdict};
use turnbuckle_core::time::Timestamp;
use turnbuckle_core::tool::RunsOn;

/// Checks a call and says whether it may run, a person must be asked, or it must not run.
///
/// A person is only asked about a call that would run as shown. After an approval the call is checked again, since the
/// arguments may have been changed and the world may have moved on; the person is not asked again.
pub async fn prepare(env: &PipelineEnv, call: &PrepareCall) -> Verdict {
    let entry = match env.toolbox.find(call.tool.as_str(), &env.scope) {
        Ok(entry) => entry,
        Err(error) => return Verdict::Refuse { error, args: None },
    };
    let ctx = env.context(&call.call, &entry.spec.name, None);
    let mut args = call.args.clone();
    match check(env, entry, &ctx, &call.stage, &mut args).await {
        Ok(warnings) => verdict(env, entry, &ctx, &call.stage, args, warnings).await,
        Err(error) => Verdict::Refuse { error, args: Some(args) },
    }
}

/// Brings the arguments into the form that runs and gives warnings; `args` is as far as it came when it fails.
async fn check(
    env: &PipelineEnv,
    entry: &Entry,
    ctx: &ToolContext,
    stage: &PrepareStage,
    args: &mut Json,
) -> Result<Vec<String>, ToolError> {
    check_bounds(args, &env.limits)?;
    match stage {
        PrepareStage::First => {
            let contract = entry.tool().contract();
            let call = HookCall { ctx, contract, args, captured: false };
            if let Some(changed) = preprocess(env, call).await? {
                *args = changed.into();
            }
            let call = HookCall { ctx, contract, args, captured: false };
            if let Some(changed) = transform(env, call).await? {
                *args = changed.into();
            }
        }
        PrepareStage::Approved { amendment: Some(amendment) } => {
            check_bounds(amendment, &env.limits)?;
            *args = amend(entry, args, amendment)?.into();
        }
        PrepareStage::Approved { amendment: None } => {}
    }
    if let Some(bound) = bind(entry, args, ctx)? {
        *args = bound.into();
    }
    let validated = validate(entry, args, ctx, &env.limits).await?;
    if let Some(canonical) = validated.args {
        *args = canonical.into();
    }
    Ok(validated.warnings)
}

async fn verdict(
    env: &PipelineEnv,
    entry: &Entry,
    ctx: &ToolContext,
    stage: &PrepareStage,
    args: Json,
    warnings: Vec<String>,
) -> Verdict {
    let permission = match stage {
        PrepareStage::First => decide(env, entry, ctx, &args).await,
        PrepareStage::Approved { .. } => denied(env, entry, ctx, &args),
    };
    let contract = entry.tool().contract();
    let expires_at = || expiry(ctx, contract.expires_after.or(env.limits.expires_after));
    match permission {
        Permission::Deny(error) => Verdict::Refuse { error, args: Some(args) },
        Permission::Ask(reason) => {
            let question = Question {
                title: contract.title.clone(),
                digest: digest_args(entry.tool(), &args),
                reason: with_notes(reason, &warnings),
                editable: editable(entry),
                expires_at: expires_at(),
            };
            Verdict::Ask { args, question: Box::new(question), warnings }
        }
        Permission::Allow => match contract.traits.runs_on {
            RunsOn::Client => {
                Verdict::Client { args, title: contract.title.clone(), expires_at: expires_at() }
            }
            RunsOn::Server | RunsOn::Agent(_) => Verdict::Run { args, warnings },
        },
    }
}

fn expiry(ctx: &ToolContext, after: Option<Duration>) -> Option<Timestamp> {
    after.map(|after| ctx.now().plus(i64::try_from(after.as_millis()).unwrap_or(i64::MAX)))
}

/// The person who decides should know what was assumed.
fn with_notes(reason: Option<String>, warnings: &[String]) -> Option<String> {
    let parts: Vec<&str> = reason.iter().chain(warnings).map(String::as_str).collect();
    (!parts.is_empty()).then(|| parts.join("\n"))
}
