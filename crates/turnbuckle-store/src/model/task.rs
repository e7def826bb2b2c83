//! Background tasks: what a tool started and did not wait for.

use crate::model::{Cursor, Receipt, SessionKey};
use serde::{Deserialize, Serialize};
use turnbuckle_core::ids::{CallId, SessionId, TenantId, TurnId};
use turnbuckle_core::json::Json;
use turnbuckle_core::time::Timestamp;

/// A background task as its tenant may name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskKey {
    /// Whose it is.
    pub tenant: TenantId,
    /// The kind of task.
    pub kind: String,
    /// Its id among its kind.
    pub reference: String,
}

impl TaskKey {
    /// Names a task.
    pub fn new(
        tenant: impl Into<TenantId>,
        kind: impl Into<String>,
        reference: impl Into<String>,
    ) -> Self {
        Self { tenant: tenant.into(), kind: kind.into(), reference: reference.into() }
    }
}

/// A background task. Its record is made in the commit that tells that it was started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Its tenant, kind and reference.
    #[serde(flatten)]
    pub key: TaskKey,
    /// The session whose agent started it.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// The call.
    pub call: CallId,
    /// Where it stands.
    pub status: TaskStatus,
    /// What came of it; opaque to the store.
    #[serde(default)]
    pub detail: Json,
    /// When it was started.
    pub started: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// When the session was told that it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notified: Option<Timestamp>,
}

impl Task {
    /// Its session.
    pub fn session_key(&self) -> SessionKey {
        SessionKey { tenant: self.key.tenant.clone(), id: self.session.clone() }
    }
}

/// Where a background task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// It runs.
    Running,
    /// It succeeded.
    Completed,
    /// It failed.
    Failed,
    /// It was called off.
    Cancelled,
}

/// What ending a task gave.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskEnded {
    /// It ended now.
    Now(Task),
    /// It had ended before, as this says.
    Before(Task),
}

impl TaskEnded {
    /// The task.
    pub const fn task(&self) -> &Task {
        match self {
            TaskEnded::Now(task) | TaskEnded::Before(task) => task,
        }
    }
}

/// What telling a session of a task's end gave.
#[derive(Clone, Debug, PartialEq)]
pub enum Notified {
    /// The message is in the session's inbox.
    Posted(Receipt),
    /// The session is at work, or something waits in it: later.
    NotIdle,
    /// It was told before, or the task has not ended.
    NothingToTell,
}

/// Which background tasks to list, last started first.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskQuery {
    /// Whose.
    pub tenant: TenantId,
    /// Only of this session.
    pub session: Option<SessionId>,
    /// Only those that stand so.
    pub status: Option<TaskStatus>,
    /// Go on after this place.
    pub after: Option<Cursor>,
    /// At most so many.
    pub limit: u32,
}

impl TaskQuery {
    /// All tasks of a tenant, 50 at once.
    pub fn of(tenant: TenantId) -> Self {
        Self { tenant, session: None, status: None, after: None, limit: 50 }
    }
}
