//! Applying what a run captured: reviewed one by one or together, in order, with real ids in the place of predicted ones.
//!
//! An action is claimed before it runs: the claim, with the arguments that run and a lease, is stored under the revision that was
//! read, so of any number who apply at once one does. The lease is renewed while the tool runs. When it runs out, whoever held it
//! is gone, and the next one who applies the action settles it as a turn that is taken up settles a call that was cut off.

mod ids;
mod known;

use crate::driver::{ATTEMPTS, COMMIT_ATTEMPTS, patient};
use crate::engine::EngineError;
use crate::pipeline::{self, Executed};
use crate::runtime::{AgentRuntime, Runtime};
use crate::session::Told;
use crate::tool::toolbox::Entry;
use crate::tool::{Applies, Clock, ToolContext};
use ids::{Blocked, Ids};
use known::Known;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use turnbuckle_core::ids::{AgentName, CallId, ToolName, TurnId, UserId};
use turnbuckle_core::json::Json;
use turnbuckle_core::machine::{
    ExecuteCall, ExecuteMode, ExecuteResult, PrepareCall, PrepareStage, Verdict,
};
use turnbuckle_core::tool::{RunsOn, SideEffect};
use turnbuckle_store::{
    Captured, CapturedStatus, CapturedUpdate, Conflict, Lease, SessionKey, Store, StoreError,
};

/// An action that was captured instead of executed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapturedAction {
    /// The call that asked for it.
    pub call: CallId,
    /// The agent that asked; absent in what versions stored that did not tell agents apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// The tool.
    pub tool: ToolName,
    /// The arguments.
    pub args: Json,
    /// Its number in the run.
    pub index: u32,
    /// The output that was predicted, with ids such as `temp_0`.
    pub predicted: Json,
    /// The small projection for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Json>,
    /// Who decided about it. It is done for the person of its run all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<UserId>,
    /// Who applies it, while it is being applied. Nobody else touches it until the lease runs out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
}

/// What a person says of one captured action.
#[derive(Clone, Debug, PartialEq)]
pub enum Review {
    /// Do it.
    Approve {
        /// Changed arguments.
        amendment: Option<Json>,
        /// Whether to do it although the world has changed since.
        even_if_stale: bool,
    },
    /// Do not.
    Reject,
}

/// What became of one captured action.
#[derive(Clone, Debug, PartialEq)]
pub struct ApplyReport {
    /// Its number in the run.
    pub index: u32,
    /// The tool.
    pub tool: ToolName,
    /// Where it stands now.
    pub status: CapturedStatus,
    /// The result, or why there is none. Of an action that stays pending: `stale` says what has changed since, `waits` what it
    /// waits for.
    pub detail: Json,
}

/// Applies reviewed actions of a turn.
pub(crate) struct Apply<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) key: &'a SessionKey,
    pub(crate) turn: &'a TurnId,
    /// That of the run: for its person, on its page, at its time.
    pub(crate) runtime: &'a Runtime,
    /// What the run's context store was told.
    pub(crate) told: Told,
    /// Who decided.
    pub(crate) by: UserId,
    pub(crate) clock: &'a Clock,
    /// Whoever applies, by a name that nobody else ever has.
    pub(crate) owner: String,
    pub(crate) lease: Duration,
}

/// A captured action as it is stored, and as it is read.
struct Held {
    row: Captured,
    action: CapturedAction,
}

impl Held {
    fn read(row: Captured) -> Result<Self, StoreError> {
        let action = CapturedAction::deserialize(&*row.action).map_err(|e| {
            StoreError::Corrupt { what: "captured action".into(), cause: Arc::new(e) }
        })?;
        Ok(Self { row, action })
    }

    fn report(&self, status: CapturedStatus, detail: Json) -> ApplyReport {
        let (index, tool) = (self.row.index, self.action.tool.clone());
        ApplyReport { index, tool, status, detail }
    }

    /// It stays as it is, and says why.
    fn left(&self, why: Value) -> ApplyReport {
        self.report(self.row.status, Arc::new(why))
    }

    /// The lease of somebody who applies it.
    fn lease(&self) -> Option<&Lease> {
        let applying = self.row.status == CapturedStatus::Applying;
        self.action.lease.as_ref().filter(|_| applying)
    }
}

/// Why an action is not done.
enum Not {
    /// It stays as it is.
    Now(Value),
    /// That is settled.
    Ever(CapturedStatus, String),
}

impl From<Blocked> for Not {
    fn from(blocked: Blocked) -> Self {
        match blocked {
            Blocked::ForGood(why) => Self::Ever(CapturedStatus::Skipped, why),
            Blocked::ForNow(why) => Self::Now(serde_json::json!({"waits": why})),
        }
    }
}

impl Apply<'_> {
    /// Works through the actions by their number, which is an order of dependency: a later one can name what an earlier one
    /// creates, never the reverse. Those without a review stay as they are; those already settled are left alone. Actions of
    /// earlier turns are read for their ids, which count over the whole session.
    pub(crate) async fn run(
        &self,
        reviews: &BTreeMap<u32, Review>,
    ) -> Result<Vec<ApplyReport>, EngineError> {
        let rows = self.store.captured(self.key, None).await?;
        let all = rows.into_iter().map(Held::read).collect::<Result<Vec<_>, _>>()?;
        let review =
            |held: &Held| reviews.get(&held.row.index).filter(|_| held.row.turn == *self.turn);
        // Told before anything is done, so that a second click does nothing at all.
        for held in all.iter().filter(|held| review(held).is_some()) {
            self.nobody_applies(held)?;
        }
        let (mut known, mut reports) = (Known::new(&self.told), Vec::new());
        for held in all {
            let report = match review(&held) {
                Some(review) => self.review(&held, review, &known).await?,
                None => held.report(held.row.status, held.row.result.clone().unwrap_or_default()),
            };
            known.learn(&held.action, report.status, &report.detail);
            if held.row.turn == *self.turn {
                reports.push(report);
            }
        }
        Ok(reports)
    }

    fn nobody_applies(&self, held: &Held) -> Result<(), StoreError> {
        match held.lease() {
            Some(lease) if lease.until > self.clock.now() => {
                let (index, until) = (held.row.index, lease.until);
                Err(Conflict::BeingApplied { index, until }.into())
            }
            _ => Ok(()),
        }
    }

    async fn review(
        &self,
        held: &Held,
        review: &Review,
        known: &Known<'_>,
    ) -> Result<ApplyReport, EngineError> {
        match (held.row.status, review) {
            (CapturedStatus::Pending, Review::Reject) => {
                self.settle(held, CapturedStatus::Rejected, text("a person said no")).await
            }
            (CapturedStatus::Pending, Review::Approve { amendment, even_if_stale }) => {
                match self.check(held, amendment.as_ref(), *even_if_stale, known).await {
                    Ok((agent, args, warnings)) => {
                        let claimed = self.claim(held, args).await?;
                        self.carry_out(agent, claimed, ExecuteMode::Real, warnings).await
                    }
                    Err(Not::Now(why)) => Ok(held.left(why)),
                    Err(Not::Ever(status, why)) => self.settle(held, status, text(&why)).await,
                }
            }
            (CapturedStatus::Applying, review) => self.take_up(held, review, known).await,
            (status, _) => Ok(held.report(status, held.row.result.clone().unwrap_or_default())),
        }
    }

    /// Who does an action, with which arguments, and what was assumed in them.
    async fn check(
        &self,
        held: &Held,
        amendment: Option<&Json>,
        even_if_stale: bool,
        known: &Known<'_>,
    ) -> Result<(&AgentRuntime, Json, Vec<String>), Not> {
        let (args, amendment) = with_real_ids(&held.action.args, amendment, &known.ids)?;
        let action = &held.action;
        let failed = |why: String| Not::Ever(CapturedStatus::Failed, why);
        let (agent, entry) = self.doer(action).map_err(failed)?;
        known.bring_back(&action.call, self.runtime);
        let context = &agent.env.scope.context;
        let moved = known.bound(entry, &args, amendment.as_ref(), context)?;
        let stage = PrepareStage::Approved { amendment };
        let check =
            PrepareCall { call: action.call.clone(), tool: action.tool.clone(), args, stage };
        let (args, warnings) = match pipeline::prepare(&agent.env, &check).await {
            Verdict::Run { args, warnings } | Verdict::Ask { args, warnings, .. } => {
                (args, warnings)
            }
            Verdict::Client { .. } => {
                return Err(failed("a tool of the front end cannot be applied later".to_owned()));
            }
            Verdict::Refuse { error, .. } => return Err(failed(error.message)),
        };
        if even_if_stale {
            return Ok((agent, args, warnings));
        }
        let stale = match moved {
            Some(moved) => Some(moved),
            None => stale(agent, action, &args).await,
        };
        match stale {
            Some(why) => Err(Not::Now(serde_json::json!({"stale": why}))),
            None => Ok((agent, args, warnings)),
        }
    }

    /// An attempt that broke off. It may have taken effect, so only a tool that says that repeating does no harm is run again,
    /// under the same key; of any other, at most its own probe can tell.
    async fn take_up(
        &self,
        held: &Held,
        review: &Review,
        known: &Known<'_>,
    ) -> Result<ApplyReport, EngineError> {
        self.nobody_applies(held)?;
        let unknown = "an earlier attempt broke off; whether it took effect is not known";
        // Without a lease it is of a version that did not store the arguments that ran.
        let (Ok((agent, entry)), Review::Approve { .. }, Some(_)) =
            (self.doer(&held.action), review, &held.action.lease)
        else {
            return self.settle(held, CapturedStatus::Failed, text(unknown)).await;
        };
        let mode = match entry.tool().contract().traits.effect {
            SideEffect::ReadOnly | SideEffect::Idempotent => ExecuteMode::Real,
            SideEffect::AtMostOnce => ExecuteMode::Recover,
        };
        known.bring_back(&held.action.call, self.runtime);
        let claimed = self.claim(held, held.action.args.clone()).await?;
        self.carry_out(agent, claimed, mode, Vec::new()).await
    }

    /// Executes a claimed action and stores what came of it. The tool is dropped when the claim is lost.
    async fn carry_out(
        &self,
        agent: &AgentRuntime,
        mut claimed: Held,
        mode: ExecuteMode,
        warnings: Vec<String>,
    ) -> Result<ApplyReport, EngineError> {
        let run = ExecuteCall {
            call: claimed.action.call.clone(),
            tool: claimed.action.tool.clone(),
            args: claimed.action.args.clone(),
            mode,
            reason: None,
            warnings,
        };
        let mut executing = pin!(pipeline::execute(&agent.env, &run));
        let executed = loop {
            match tokio::time::timeout(self.lease / 3, &mut executing).await {
                Ok(executed) => break executed,
                Err(_still_running) => claimed = self.renew(claimed).await?,
            }
        };
        let Executed { result, kept_aside, captured: _, usage: _ } = executed;
        for blob in kept_aside {
            let kept =
                patient(COMMIT_ATTEMPTS, || self.store.put_blob(self.key, blob.clone().into()));
            if let Err(e) = kept.await {
                // What the action did is worth more than the rest of what it said.
                tracing::error!(call = %run.call, "its full output is lost: {}", e.report());
            }
        }
        let (status, detail) = match result {
            ExecuteResult::Success { result, .. } => (CapturedStatus::Applied, result.output),
            ExecuteResult::Failure { error, .. } => (CapturedStatus::Failed, text(&error.message)),
        };
        self.settle(&claimed, status, detail).await
    }

    /// Claimed under the revision that was read: of two people who apply at once, one does.
    async fn claim(&self, held: &Held, args: Json) -> Result<Held, EngineError> {
        let action = CapturedAction {
            args,
            by: Some(self.by.clone()),
            lease: Some(self.a_lease()),
            ..held.action.clone()
        };
        let row = self.write(held, CapturedStatus::Applying, &action, None, ATTEMPTS).await?;
        Ok(Held { row, action })
    }

    async fn renew(&self, claimed: Held) -> Result<Held, EngineError> {
        let action = CapturedAction { lease: Some(self.a_lease()), ..claimed.action.clone() };
        match self.write(&claimed, CapturedStatus::Applying, &action, None, 1).await {
            Ok(row) => Ok(Held { row, action }),
            // The lease has two thirds left, and nobody can claim the action while nothing can be stored.
            Err(StoreError::Unavailable { .. } | StoreError::Full { .. }) => Ok(claimed),
            Err(e) => Err(e.into()),
        }
    }

    fn a_lease(&self) -> Lease {
        let ms = i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX);
        Lease { owner: self.owner.clone(), until: self.clock.now().plus(ms) }
    }

    async fn settle(
        &self,
        held: &Held,
        status: CapturedStatus,
        detail: Json,
    ) -> Result<ApplyReport, EngineError> {
        let by = Some(self.by.clone());
        let action = CapturedAction { by, lease: None, ..held.action.clone() };
        self.write(held, status, &action, Some(&detail), COMMIT_ATTEMPTS).await?;
        Ok(held.report(status, detail))
    }

    /// Stores where an action stands now, unless somebody else has changed it since it was read. A write whose answer was lost
    /// is known again by what it left.
    async fn write(
        &self,
        held: &Held,
        status: CapturedStatus,
        action: &CapturedAction,
        result: Option<&Json>,
        attempts: u32,
    ) -> Result<Captured, StoreError> {
        let whole =
            serde_json::to_value(action).map_err(|e| StoreError::Other { cause: Arc::new(e) })?;
        let mut update = CapturedUpdate {
            key: self.key.clone(),
            turn: held.row.turn.clone(),
            index: held.row.index,
            expected: held.row.revision,
            status,
            action: Some(Arc::new(whole)),
            result: result.cloned(),
        };
        loop {
            let written = patient(attempts, || self.store.update_captured(update.clone())).await;
            let Err(StoreError::Conflict { what: Conflict::Stale { current, expected } }) = written
            else {
                return written;
            };
            let rows = self.store.captured(self.key, Some(&held.row.turn)).await?;
            let found = rows.into_iter().find(|row| row.index == held.row.index);
            let found = Held::read(found.ok_or(StoreError::NotFound { what: "captured action" })?)?;
            if found.row.status == status && found.action == *action {
                return Ok(found.row);
            }
            match found.lease() {
                // A renewal of ours whose answer was lost.
                Some(lease) if lease.owner == self.owner && found.row.revision > expected => {
                    update.expected = found.row.revision;
                }
                Some(lease) => {
                    let (index, until) = (held.row.index, lease.until);
                    return Err(Conflict::BeingApplied { index, until }.into());
                }
                None => return Err(Conflict::Stale { current, expected }.into()),
            }
        }
    }

    /// The agent that wanted an action, with its tool for it. Another may have a tool of that name under other bindings and
    /// rules, so only where the agent was not stored does the first do that has one.
    ///
    /// # Errors
    /// Why nobody can do it, in words.
    fn doer(&self, action: &CapturedAction) -> Result<(&AgentRuntime, &Entry), String> {
        let tool = &action.tool;
        let mut able = self.runtime.agents.iter().filter_map(|(name, agent)| {
            let wanted = action.agent.as_ref().is_none_or(|wanted| wanted == name);
            Some((&**agent, agent.env.toolbox.get(tool.as_str()).filter(|_| wanted)?))
        });
        let Some((agent, entry)) = able.next() else {
            return Err(match &action.agent {
                Some(agent) => {
                    format!("the agent `{agent}` does not have the tool `{tool}` any more")
                }
                None => format!("the tool `{tool}` is not available any more"),
            });
        };
        match &entry.tool().contract().traits.runs_on {
            RunsOn::Agent(sub) => Err(format!(
                "`{tool}` is a task for the agent `{sub}`, and agents only work while somebody talks to them: ask for it in a \
                 session with a person there, who approves it as it comes"
            )),
            RunsOn::Server | RunsOn::Client => Ok((agent, entry)),
        }
    }
}

/// Arguments and changes with real ids. What a change replaces may name anything.
fn with_real_ids(
    args: &Json,
    amendment: Option<&Json>,
    ids: &Ids,
) -> Result<(Json, Option<Json>), Blocked> {
    let changes = amendment.map(|changes| ids.put_into(changes)).transpose()?;
    let mut args = Value::clone(args);
    if let (Value::Object(args), Some(Value::Object(changes))) = (&mut args, &changes) {
        args.retain(|name, _| !changes.contains_key(name));
    }
    Ok((ids.put_into(&args)?.into(), changes.map(Into::into)))
}

async fn stale(agent: &AgentRuntime, action: &CapturedAction, args: &Json) -> Option<String> {
    let entry = agent.env.toolbox.get(action.tool.as_str())?;
    let ctx =
        ToolContext::new(agent.env.scope.clone(), action.call.clone(), action.tool.clone(), None);
    let limit = agent.env.limits.hook_timeout;
    let applies =
        crate::tool::eventual::guarded_eventual(limit, || entry.tool().applies(args, &ctx)).await;
    match applies {
        Ok(Applies::Yes) => None,
        Ok(Applies::Stale(why)) => Some(why),
        Err(why) => Some(format!("whether it still fits could not be found out: {why}")),
    }
}

fn text(text: &str) -> Json {
    Arc::new(Value::String(text.to_owned()))
}
