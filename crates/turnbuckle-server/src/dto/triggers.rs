//! Triggers and their runs; background tasks.

use super::{Mode, PageQuery};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use turnbuckle_core::time::Timestamp;
use turnbuckle_store::{JobStatus, ScheduleState};
use utoipa::{IntoParams, ToSchema};

/// A trigger to make: a turn that begins by the clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTrigger {
    /// What it is called; its sessions have this title.
    pub name: String,
    /// When it is due: five fields of a cron expression, minute to day of the week.
    pub cron: String,
    /// The time zone in which that is meant, such as `Europe/Oslo`; UTC by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// The agent; the default agent, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What is said to it.
    pub content: String,
    /// Whether somebody is there to decide. By default nobody is, and what needs approval is set aside for review.
    #[serde(default = "nobody")]
    pub mode: Mode,
    /// What becomes of moments at which the service was down.
    #[serde(default)]
    pub missed: MissedWish,
    /// How often a run is tried that cannot begin; 3 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// Whether it is at work.
    #[serde(default)]
    pub state: TriggerState,
}

const fn nobody() -> Mode {
    Mode::Capture
}

/// What becomes of moments at which the service was down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MissedWish {
    /// They are passed over.
    #[default]
    Skip,
    /// The last of them is made up for.
    Latest,
}

/// Whether a trigger is at work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TriggerState {
    /// It begins turns.
    #[default]
    Active,
    /// It rests.
    Paused,
}

impl From<TriggerState> for ScheduleState {
    fn from(state: TriggerState) -> Self {
        match state {
            TriggerState::Active => Self::Active,
            TriggerState::Paused => Self::Paused,
        }
    }
}

impl From<ScheduleState> for TriggerState {
    fn from(state: ScheduleState) -> Self {
        match state {
            ScheduleState::Active => Self::Active,
            ScheduleState::Paused => Self::Paused,
        }
    }
}

/// What to change about a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TriggerChange {
    /// Whether it is at work.
    pub state: TriggerState,
}

/// A trigger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TriggerView {
    /// Its id.
    pub id: String,
    /// What it is called.
    pub name: String,
    /// The person it acts for.
    pub user: String,
    /// When it is due.
    pub cron: String,
    /// The time zone in which that is meant.
    pub time_zone: String,
    /// The agent.
    pub agent: String,
    /// What is said to it.
    pub content: String,
    /// Whether somebody is there to decide.
    pub mode: Mode,
    /// Whether it is at work.
    pub state: TriggerState,
    /// When it is due next; absent while it rests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub next: Option<Timestamp>,
    /// The last moment for which it began a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last: Option<Timestamp>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created: Timestamp,
    /// When it was changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated: Timestamp,
}

/// Which triggers, by id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct TriggersQuery {
    /// Only of this person, `*` for everyone's. Without it, the caller's own. Others' are for operators.
    pub user: Option<String>,
    /// At most so many, 1 to 200; 50 by default.
    pub limit: Option<u32>,
    /// The `next` of the page before.
    pub cursor: Option<String>,
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It waits for a worker, or for its next attempt.
    Waiting,
    /// A worker begins its turn.
    Running,
    /// Its turn has begun; the session says what came of it.
    Done,
    /// It could not begin, and is not tried any more until somebody sees to it.
    Dead,
    /// It was called off.
    Cancelled,
}

impl From<JobStatus> for RunState {
    fn from(status: JobStatus) -> Self {
        match status {
            JobStatus::Waiting => Self::Waiting,
            JobStatus::Running => Self::Running,
            JobStatus::Done => Self::Done,
            JobStatus::Dead => Self::Dead,
            JobStatus::Cancelled => Self::Cancelled,
        }
    }
}

impl From<RunState> for JobStatus {
    fn from(state: RunState) -> Self {
        match state {
            RunState::Waiting => Self::Waiting,
            RunState::Running => Self::Running,
            RunState::Done => Self::Done,
            RunState::Dead => Self::Dead,
            RunState::Cancelled => Self::Cancelled,
        }
    }
}

/// A run of a trigger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunView {
    /// Its id.
    pub id: String,
    /// Where it stands.
    pub state: RunState,
    /// When it was due.
    #[schema(value_type = String, format = DateTime)]
    pub due: Timestamp,
    /// How often it was tried.
    pub attempts: u32,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The session of its turn, once that has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Its turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created: Timestamp,
    /// When it was done, given up or called off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended: Option<Timestamp>,
}

/// Which runs, last made first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RunsQuery {
    /// Only those that stand so; `dead` gives the dead letters.
    #[param(inline)]
    pub state: Option<RunState>,
    /// At most so many, 1 to 200; 50 by default.
    pub limit: Option<u32>,
    /// The `next` of the page before.
    pub cursor: Option<String>,
}

/// What to do with a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunChange {
    /// What.
    pub action: RunAction,
}

/// What to do with a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunAction {
    /// Try it again, with all its attempts; for dead letters and those that were called off.
    Retry,
    /// Call it off.
    Cancel,
}

/// Where a background task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// It runs.
    Running,
    /// It succeeded.
    Completed,
    /// It failed.
    Failed,
    /// It was called off.
    Cancelled,
}

impl From<turnbuckle_store::TaskStatus> for TaskState {
    fn from(status: turnbuckle_store::TaskStatus) -> Self {
        use turnbuckle_store::TaskStatus as S;
        match status {
            S::Running => Self::Running,
            S::Completed => Self::Completed,
            S::Failed => Self::Failed,
            S::Cancelled => Self::Cancelled,
        }
    }
}

impl From<TaskState> for turnbuckle_store::TaskStatus {
    fn from(state: TaskState) -> Self {
        match state {
            TaskState::Running => Self::Running,
            TaskState::Completed => Self::Completed,
            TaskState::Failed => Self::Failed,
            TaskState::Cancelled => Self::Cancelled,
        }
    }
}

/// A background task: what a tool started and did not wait for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskView {
    /// Its kind.
    pub kind: String,
    /// Its id among its kind.
    pub reference: String,
    /// The session whose agent started it.
    pub session: String,
    /// The turn.
    pub turn: String,
    /// The call.
    pub call: String,
    /// Where it stands.
    pub state: TaskState,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub detail: Value,
    /// When it was started.
    #[schema(value_type = String, format = DateTime)]
    pub started: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended: Option<Timestamp>,
    /// When the session was told that it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub notified: Option<Timestamp>,
}

/// How a background task ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskEnd {
    /// How: any state but `running`.
    pub state: TaskState,
    /// What came of it, for the agent to read.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub detail: Value,
}

/// Which page of a session's background tasks, last started first.
pub type TasksQuery = PageQuery;
