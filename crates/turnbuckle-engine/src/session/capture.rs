//! Applying what a run captured: reviewed one by one or together, in order, with real ids in the place of predicted ones.

use crate::engine::EngineError;
use crate::pipeline;
use crate::runtime::{AgentRuntime, Runtime};
use crate::tool::{Applies, ToolContext};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use turnbuckle_core::ids::{CallId, ToolName, TurnId};
use turnbuckle_core::json::Json;
use turnbuckle_core::machine::{
    ExecuteCall, ExecuteMode, ExecuteResult, PrepareCall, PrepareStage, Verdict,
};
use turnbuckle_store::{Captured, CapturedStatus, CapturedUpdate, SessionKey, Store, StoreError};

/// An action that was captured instead of executed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapturedAction {
    /// The call that asked for it.
    pub call: CallId,
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
    /// The result, or why there is none.
    pub detail: Json,
}

/// Applies reviewed actions of a turn.
pub(crate) struct Apply<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) key: &'a SessionKey,
    pub(crate) turn: &'a TurnId,
    pub(crate) runtime: &'a Runtime,
}

/// A predicted id and what became of the action that predicted it.
enum Known {
    Real(Value),
    Never(&'static str),
}

impl Apply<'_> {
    /// Works through the actions by their number, which is an order of dependency: a later one can name what an earlier one
    /// creates, never the reverse. Those without a review stay as they are; those already settled are left alone.
    pub(crate) async fn run(
        &self,
        reviews: &BTreeMap<u32, Review>,
    ) -> Result<Vec<ApplyReport>, EngineError> {
        let mut known = BTreeMap::new();
        let mut reports = Vec::new();
        for captured in self.store.captured(self.key, Some(self.turn)).await? {
            let action = CapturedAction::deserialize(&*captured.action).map_err(|e| {
                StoreError::Corrupt { what: "captured action".into(), cause: Arc::new(e) }
            })?;
            let report = match (captured.status, reviews.get(&captured.index)) {
                (CapturedStatus::Pending, Some(Review::Reject)) => {
                    let why = text("a person said no");
                    self.settle(&captured, &action, CapturedStatus::Rejected, None, why).await?
                }
                (CapturedStatus::Pending, Some(Review::Approve { amendment, even_if_stale })) => {
                    self.apply(&captured, &action, amendment.as_ref(), *even_if_stale, &known)
                        .await?
                }
                (CapturedStatus::Applying, Some(_)) => {
                    let why =
                        text("an earlier attempt broke off; whether it took effect is not known");
                    self.settle(&captured, &action, CapturedStatus::Failed, None, why).await?
                }
                (status, _) => ApplyReport {
                    index: captured.index,
                    tool: action.tool.clone(),
                    status,
                    detail: captured.result.clone().unwrap_or_default(),
                },
            };
            learn(&action, &report, &mut known);
            reports.push(report);
        }
        Ok(reports)
    }

    async fn apply(
        &self,
        captured: &Captured,
        action: &CapturedAction,
        amendment: Option<&Json>,
        even_if_stale: bool,
        known: &BTreeMap<String, Known>,
    ) -> Result<ApplyReport, EngineError> {
        let args = match substitute(&action.args, known) {
            Ok(args) => Arc::new(args),
            Err(why) => {
                let why = text(&why);
                return self.settle(captured, action, CapturedStatus::Skipped, None, why).await;
            }
        };
        let Some(agent) = self.agent_with(&action.tool) else {
            let why = text(&format!("the tool `{}` is not available any more", action.tool));
            return self.settle(captured, action, CapturedStatus::Failed, None, why).await;
        };
        let stage = PrepareStage::Approved { amendment: amendment.cloned() };
        let check =
            PrepareCall { call: action.call.clone(), tool: action.tool.clone(), args, stage };
        let (args, warnings) = match pipeline::prepare(&agent.env, &check).await {
            Verdict::Run { args, warnings } | Verdict::Ask { args, warnings, .. } => {
                (args, warnings)
            }
            Verdict::Client { .. } => {
                let why = text("a tool of the front end cannot be applied later");
                return self.settle(captured, action, CapturedStatus::Failed, None, why).await;
            }
            Verdict::Refuse { error, .. } => {
                let why = text(&error.message);
                return self.settle(captured, action, CapturedStatus::Failed, None, why).await;
            }
        };
        if !even_if_stale && let Some(why) = stale(agent, action, &args).await {
            let detail = Arc::new(serde_json::json!({"stale": why}));
            return Ok(ApplyReport {
                index: action.index,
                tool: action.tool.clone(),
                status: CapturedStatus::Pending,
                detail,
            });
        }
        // Claimed first, under the revision that was read: of two people who apply at once, one does.
        let claimed = self.update(captured, CapturedStatus::Applying, None, None).await?;
        let run = ExecuteCall {
            call: action.call.clone(),
            tool: action.tool.clone(),
            args: args.clone(),
            mode: ExecuteMode::Real,
            reason: None,
            warnings,
        };
        let executed = pipeline::execute(&agent.env, &run).await;
        let (status, detail) = match executed.result {
            ExecuteResult::Success { result, .. } => (CapturedStatus::Applied, result.output),
            ExecuteResult::Failure { error, .. } => (CapturedStatus::Failed, text(&error.message)),
        };
        let edited = (args != action.args).then_some(args);
        self.settle(&claimed, action, status, edited, detail).await
    }

    async fn settle(
        &self,
        captured: &Captured,
        action: &CapturedAction,
        status: CapturedStatus,
        args: Option<Json>,
        detail: Json,
    ) -> Result<ApplyReport, EngineError> {
        let edited = match args {
            None => None,
            Some(args) => {
                let edited = CapturedAction { args, ..action.clone() };
                serde_json::to_value(edited).ok().map(Arc::new)
            }
        };
        self.update(captured, status, edited, Some(detail.clone())).await?;
        Ok(ApplyReport { index: action.index, tool: action.tool.clone(), status, detail })
    }

    async fn update(
        &self,
        captured: &Captured,
        status: CapturedStatus,
        action: Option<Json>,
        result: Option<Json>,
    ) -> Result<Captured, EngineError> {
        let update = CapturedUpdate {
            key: self.key.clone(),
            turn: captured.turn.clone(),
            index: captured.index,
            expected: captured.revision,
            status,
            action,
            result,
        };
        Ok(self.store.update_captured(update).await?)
    }

    fn agent_with(&self, tool: &ToolName) -> Option<&AgentRuntime> {
        let mut agents = self.runtime.agents.values().map(|agent| &**agent);
        agents.find(|a| a.env.toolbox.get(tool.as_str()).is_some())
    }
}

async fn stale(agent: &AgentRuntime, action: &CapturedAction, args: &Json) -> Option<String> {
    let entry = agent.env.toolbox.get(action.tool.as_str())?;
    let ctx =
        ToolContext::new(agent.env.scope.clone(), action.call.clone(), action.tool.clone(), None);
    let applies =
        crate::tool::eventual::guarded_eventual(|| entry.tool().applies(args, &ctx)).await;
    match applies {
        Ok(Applies::Yes) => None,
        Ok(Applies::Stale(why)) => Some(why),
        Err(panic) => Some(format!("whether it still fits could not be found out: {panic}")),
    }
}

fn text(text: &str) -> Json {
    Arc::new(Value::String(text.to_owned()))
}

/// Learns which real values stand for the predicted ids.
fn learn(action: &CapturedAction, report: &ApplyReport, known: &mut BTreeMap<String, Known>) {
    let mut pairs = Vec::new();
    let real = (report.status == CapturedStatus::Applied).then_some(&*report.detail);
    pair(&action.predicted, real, &mut pairs);
    for (temp, real) in pairs {
        let never = match report.status {
            CapturedStatus::Rejected => "was rejected",
            CapturedStatus::Failed => "failed",
            CapturedStatus::Skipped => "was skipped",
            CapturedStatus::Pending | CapturedStatus::Applying | CapturedStatus::Applied => {
                "has not been applied"
            }
        };
        known.insert(temp, real.map_or(Known::Never(never), Known::Real));
    }
}

/// Walks the predicted and the real output together and collects predicted ids.
fn pair(predicted: &Value, real: Option<&Value>, out: &mut Vec<(String, Option<Value>)>) {
    match predicted {
        Value::String(id) if is_temp(id) => out.push((id.clone(), real.cloned())),
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                pair(item, real.and_then(|r| r.get(i)), out);
            }
        }
        Value::Object(map) => {
            for (key, item) in map {
                pair(item, real.and_then(|r| r.get(key)), out);
            }
        }
        _ => {}
    }
}

/// Whether a string is a predicted id: it ends with `temp_` and a number, such as `temp_0` or `task:temp_0`.
fn is_temp(text: &str) -> bool {
    text.rsplit_once("temp_").is_some_and(|(before, number)| {
        let starts = before.chars().next_back().is_none_or(|c| !c.is_alphanumeric() && c != '_');
        starts && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    })
}

/// Puts real values in the place of predicted ids, wherever they occur.
fn substitute(args: &Value, known: &BTreeMap<String, Known>) -> Result<Value, String> {
    Ok(match args {
        Value::String(text) => match known.get(text) {
            Some(Known::Real(value)) => value.clone(),
            Some(Known::Never(why)) => {
                return Err(format!("it depends on an action that {why} ({text})"));
            }
            None => Value::String(text.clone()),
        },
        Value::Array(items) => {
            Value::Array(items.iter().map(|v| substitute(v, known)).collect::<Result<_, _>>()?)
        }
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(k, v)| substitute(v, known).map(|v| (k.clone(), v)))
                .collect::<Result<_, _>>()?,
        ),
        leaf => leaf.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn predicted_ids_are_told_from_other_text() {
        for id in ["temp_0", "task:temp_12"] {
            assert!(is_temp(id), "{id}");
        }
        for other in ["temp_", "temp_x", "mytemp_1", "attempt_1", "temp_1 is"] {
            assert!(!is_temp(other), "{other}");
        }
    }

    #[test]
    fn real_ids_stand_wherever_the_predicted_ones_stood() {
        let mut pairs = Vec::new();
        let predicted = json!({"task": {"id": "task:temp_0"}, "ok": true});
        let real = json!({"task": {"id": "task:41"}, "ok": true});
        pair(&predicted, Some(&real), &mut pairs);
        let known: BTreeMap<String, Known> =
            pairs.into_iter().map(|(t, r)| (t, Known::Real(r.unwrap()))).collect();
        let args = json!({"links": ["task:temp_0"], "note": "see task:temp_0", "n": 1});
        let got = substitute(&args, &known).unwrap();
        // Prose is the model's; only values that are an id are ids.
        assert_eq!(got, json!({"links": ["task:41"], "note": "see task:temp_0", "n": 1}));
    }

    #[test]
    fn dependents_of_what_never_happened_say_why() {
        let known = BTreeMap::from([("temp_0".to_owned(), Known::Never("was rejected"))]);
        let error = substitute(&json!({"order": "temp_0"}), &known).unwrap_err();
        assert_eq!(error, "it depends on an action that was rejected (temp_0)");
    }
}
