//! Jobs: work that is done once, some time, by any worker.

use crate::model::{Cursor, Lease};
use serde::{Deserialize, Serialize};
use turnbuckle_core::ids::{JobId, ScheduleId, TenantId};
use turnbuckle_core::json::{Json, present};
use turnbuckle_core::time::Timestamp;

/// A job as its tenant may name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobKey {
    /// Whose it is.
    pub tenant: TenantId,
    /// Its id, unique in the tenant.
    pub id: JobId,
}

impl JobKey {
    /// Names a job.
    pub fn new(tenant: impl Into<TenantId>, id: impl Into<JobId>) -> Self {
        Self { tenant: tenant.into(), id: id.into() }
    }
}

/// A job to do.
#[derive(Clone, Debug, PartialEq)]
pub struct NewJob {
    /// Its tenant and a new id.
    pub key: JobKey,
    /// The queue. Workers take jobs of the queues they know.
    pub queue: String,
    /// The caller's idempotency key: of the jobs that are enqueued under one key in one queue, one is there.
    pub idempotency_key: Option<String>,
    /// What is to be done; opaque to the store.
    pub payload: Json,
    /// Not before this moment.
    pub due: Timestamp,
    /// How often it is tried before it is a dead letter; at least once.
    pub max_attempts: u32,
    /// The schedule it is of, when somebody has it done at a moment of their own choice. For one moment of a schedule there is
    /// one job.
    pub tick: Option<Tick>,
    /// Now.
    pub now: Timestamp,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Its tenant and id.
    #[serde(flatten)]
    pub key: JobKey,
    /// The queue.
    pub queue: String,
    /// The idempotency key it was enqueued under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// What is to be done.
    pub payload: Json,
    /// Where it stands.
    pub status: JobStatus,
    /// When a waiting job is due.
    pub due: Timestamp,
    /// How often it was taken.
    pub attempts: u32,
    /// How often it may be.
    pub max_attempts: u32,
    /// Rises whenever it is taken or taken away. To be shown by who works on it.
    pub fence: u64,
    /// Who works on it, if it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    /// What went wrong last, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What came of it; opaque to the store.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub result: Option<Json>,
    /// When it was enqueued.
    pub created: Timestamp,
    /// When it was done, given up or cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// The schedule that made it, and for which moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick: Option<Tick>,
}

/// A moment of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Tick {
    /// The schedule.
    pub schedule: ScheduleId,
    /// The moment for which it was due.
    pub at: Timestamp,
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// It waits for its moment and a worker.
    Waiting,
    /// Somebody works on it, or did when they died.
    Running,
    /// It is done.
    Done,
    /// It failed for good: a dead letter, until somebody sees to it.
    Dead,
    /// It was called off.
    Cancelled,
}

/// What enqueueing gave.
#[derive(Clone, Debug, PartialEq)]
pub enum Enqueued {
    /// The job is there now.
    Added(Job),
    /// A job of that id or idempotency key came before.
    Known(Job),
}

impl Enqueued {
    /// The job.
    pub const fn job(&self) -> &Job {
        match self {
            Enqueued::Added(job) | Enqueued::Known(job) => job,
        }
    }
}

/// Which jobs a worker takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakeJobs {
    /// Of these queues.
    pub queues: Vec<String>,
    /// The worker's name.
    pub owner: String,
    /// For how long nobody else gets them, in milliseconds.
    pub lease_ms: u64,
    /// At most so many.
    pub limit: u32,
    /// Now.
    pub now: Timestamp,
}

/// What becomes of a job that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// It is tried again from this moment on, unless its attempts are used up.
    At(Timestamp),
    /// It would fail again: it is a dead letter now.
    Never,
}

/// Which jobs to list, last enqueued first.
#[derive(Clone, Debug, PartialEq)]
pub struct JobQuery {
    /// Whose.
    pub tenant: TenantId,
    /// Only of this queue.
    pub queue: Option<String>,
    /// Only those that stand so.
    pub status: Option<JobStatus>,
    /// Only those this schedule made.
    pub schedule: Option<ScheduleId>,
    /// Go on after this place.
    pub after: Option<Cursor>,
    /// At most so many.
    pub limit: u32,
}

impl JobQuery {
    /// All jobs of a tenant, 50 at once.
    pub fn of(tenant: TenantId) -> Self {
        let (queue, status, schedule) = (None, None, None);
        Self { tenant, queue, status, schedule, after: None, limit: 50 }
    }
}

/// How much there is to do in a queue, over all tenants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueDepth {
    /// The queue.
    pub queue: String,
    /// Jobs that are due and wait.
    pub ready: u64,
    /// Jobs that wait for their moment.
    pub later: u64,
    /// Jobs that run.
    pub running: u64,
    /// Dead letters.
    pub dead: u64,
    /// Since when the first ready job has been due.
    pub oldest: Option<Timestamp>,
}
