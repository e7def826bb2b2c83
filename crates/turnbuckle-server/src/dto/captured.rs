//! Actions that were captured instead of executed.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use turnbuckle_core::ids::{CallId, SessionId, ToolName, TurnId};
use turnbuckle_core::json::{Json, present};
use turnbuckle_store::CapturedStatus;
use utoipa::{IntoParams, ToSchema};

/// Where a captured action stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ActionStatus {
    /// Nobody has reviewed it.
    Pending,
    /// It is being applied.
    Applying,
    /// It was executed.
    Applied,
    /// It was executed and failed.
    Failed,
    /// A person said no.
    Rejected,
    /// It depends on one that failed or was rejected.
    Skipped,
}

impl From<CapturedStatus> for ActionStatus {
    fn from(status: CapturedStatus) -> Self {
        match status {
            CapturedStatus::Pending => Self::Pending,
            CapturedStatus::Applying => Self::Applying,
            CapturedStatus::Applied => Self::Applied,
            CapturedStatus::Failed => Self::Failed,
            CapturedStatus::Rejected => Self::Rejected,
            CapturedStatus::Skipped => Self::Skipped,
        }
    }
}

impl From<ActionStatus> for CapturedStatus {
    fn from(status: ActionStatus) -> Self {
        match status {
            ActionStatus::Pending => Self::Pending,
            ActionStatus::Applying => Self::Applying,
            ActionStatus::Applied => Self::Applied,
            ActionStatus::Failed => Self::Failed,
            ActionStatus::Rejected => Self::Rejected,
            ActionStatus::Skipped => Self::Skipped,
        }
    }
}

/// A captured action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CapturedView {
    /// Its session.
    #[schema(value_type = String)]
    pub session: SessionId,
    /// The turn that captured it.
    #[schema(value_type = String)]
    pub turn: TurnId,
    /// Its number in the run.
    pub index: u32,
    /// Where it stands.
    pub status: ActionStatus,
    /// The call that asked for it.
    #[schema(value_type = String)]
    pub call: CallId,
    /// The tool.
    #[schema(value_type = String)]
    pub tool: ToolName,
    /// The tool's name for people.
    pub title: String,
    /// The arguments.
    #[schema(value_type = Value)]
    pub args: Json,
    /// The output that was predicted, with ids such as `temp_0`.
    #[schema(value_type = Value)]
    pub predicted: Json,
    /// The small projection for people.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub digest: Option<Json>,
    /// What came of it.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub result: Option<Json>,
}

/// Which captured actions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CapturedQuery {
    /// Only of this session.
    pub session: Option<String>,
    /// Only of this turn.
    pub turn: Option<String>,
    /// Only those that stand so.
    #[param(inline)]
    pub status: Option<ActionStatus>,
    /// At most so many, 1 to 200; 50 by default.
    pub limit: Option<u32>,
    /// The `next` of the page before.
    pub cursor: Option<String>,
}

/// Reviews of captured actions of one turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewReviews {
    /// The reviews; actions without one stay as they are.
    pub actions: Vec<NewReview>,
}

/// What a person says of one captured action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewReview {
    /// Its number in the run.
    pub index: u32,
    /// Yes or no.
    pub decision: super::Verdict,
    /// Changed arguments, with `approve` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub amendment: Option<serde_json::Map<String, Value>>,
    /// Whether to do it although the world has changed since.
    #[serde(default)]
    pub even_if_stale: bool,
}

/// What became of one captured action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReviewReport {
    /// Its number in the run.
    pub index: u32,
    /// The tool.
    #[schema(value_type = String)]
    pub tool: ToolName,
    /// Where it stands now.
    pub status: ActionStatus,
    /// The result, or why there is none.
    #[schema(value_type = Value)]
    pub detail: Json,
}

/// What became of the captured actions of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReviewReports {
    /// In order of dependency.
    pub reports: Vec<ReviewReport>,
}
