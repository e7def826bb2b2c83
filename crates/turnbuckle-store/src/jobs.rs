//! The contract for work that is not a turn: jobs, schedules, background tasks.

use crate::model::{
    Advance, Advanced, Enqueued, Job, JobKey, JobQuery, NewJob, NewSchedule, Notified, Page, Post,
    QueueDepth, Retry, Schedule, ScheduleKey, ScheduleQuery, ScheduleState, TakeJobs, Task,
    TaskEnded, TaskKey, TaskQuery, TaskStatus,
};
use crate::store::StoreFuture;
use turnbuckle_core::ids::TenantId;
use turnbuckle_core::json::Json;
use turnbuckle_core::time::Timestamp;

/// Jobs, schedules and background tasks, beside the sessions and in the same transactions where they meet.
///
/// As with [`Store`](crate::Store), every operation is one transaction, time is an argument, and what belongs to another tenant
/// is not found.
///
/// A job is executed at least once and recorded exactly once: a worker takes it for a while (nobody else sees it meanwhile),
/// does it, and says how it went, showing the job's fence. A worker that comes too late is `Fenced`. A job whose worker died is
/// taken again when its lease has run out; one whose attempts are used up is a dead letter.
///
/// | who | operations |
/// |---|---|
/// | whoever has something to do | `enqueue`, `cancel_job` |
/// | a worker | `take_jobs`, `prolong_job`, `finish_job`, `fail_job` |
/// | the clock | `due_schedules`, `advance`, `due_notifications`, `notify`, `purge_jobs` |
/// | whoever looks after it | `job_tenants`, `import_job`, `jobs`, `job`, `requeue_job`, `delete_job`, `queue_depths`, schedules and tasks |
pub trait Jobs: Send + Sync + 'static {
    /// Adds a job, unless one of its id or idempotency key is there.
    ///
    /// # Errors
    /// [`Conflict::JobKeyReused`](crate::Conflict::JobKeyReused) when that one has another payload.
    fn enqueue(&self, job: NewJob) -> StoreFuture<'_, Enqueued>;

    /// Writes a job that was exported, as it stands, except that one somebody worked on waits: unless one of its id, its
    /// idempotency key or its moment is there.
    ///
    /// # Errors
    /// As [`enqueue`](Jobs::enqueue).
    fn import_job(&self, job: Job) -> StoreFuture<'_, Enqueued>;

    /// Lists the tenants that have jobs or schedules, by id, from behind the one given on.
    ///
    /// # Errors
    /// Only those of the backend.
    fn job_tenants<'a>(
        &'a self,
        after: Option<&'a TenantId>,
        limit: u32,
    ) -> StoreFuture<'a, Vec<TenantId>>;

    /// Takes jobs that are due, the longest due first, and those whose worker's lease has run out. Of the latter, those whose
    /// attempts are used up become dead letters instead. No job is given to two workers.
    ///
    /// # Errors
    /// Only those of the backend.
    fn take_jobs(&self, take: TakeJobs) -> StoreFuture<'_, Vec<Job>>;

    /// Prolongs the lease of a job to `lease_ms` from `now`, as long as nobody else has taken it.
    ///
    /// # Errors
    /// `NotFound`; `Fenced`.
    fn prolong_job<'a>(
        &'a self,
        key: &'a JobKey,
        fence: u64,
        lease_ms: u64,
        now: Timestamp,
    ) -> StoreFuture<'a, ()>;

    /// Says that a job is done. Saying it again changes nothing.
    ///
    /// # Errors
    /// `NotFound`; `Fenced`.
    fn finish_job<'a>(
        &'a self,
        key: &'a JobKey,
        fence: u64,
        result: Option<Json>,
        now: Timestamp,
    ) -> StoreFuture<'a, Job>;

    /// Says that a job failed. It waits for its next attempt, or is a dead letter. Saying it again changes nothing.
    ///
    /// # Errors
    /// `NotFound`; `Fenced`.
    fn fail_job<'a>(
        &'a self,
        key: &'a JobKey,
        fence: u64,
        error: &'a str,
        retry: Retry,
        now: Timestamp,
    ) -> StoreFuture<'a, Job>;

    /// Reads a job.
    ///
    /// # Errors
    /// `NotFound`.
    fn job<'a>(&'a self, key: &'a JobKey) -> StoreFuture<'a, Job>;

    /// Lists jobs, last enqueued first. Dead letters are those with that status.
    ///
    /// # Errors
    /// Only those of the backend.
    fn jobs(&self, query: JobQuery) -> StoreFuture<'_, Page<Job>>;

    /// Lets a dead letter, or a job that was called off, wait anew, with all its attempts.
    ///
    /// # Errors
    /// `NotFound`; [`Conflict::JobStands`](crate::Conflict::JobStands) when it is neither.
    fn requeue_job<'a>(&'a self, key: &'a JobKey, now: Timestamp) -> StoreFuture<'a, Job>;

    /// Calls a job off. Whoever works on it is `Fenced` from then on. Jobs that have ended stay as they are.
    ///
    /// # Errors
    /// `NotFound`.
    fn cancel_job<'a>(&'a self, key: &'a JobKey, now: Timestamp) -> StoreFuture<'a, Job>;

    /// Deletes a job that has ended.
    ///
    /// # Errors
    /// `NotFound`; [`Conflict::JobStands`](crate::Conflict::JobStands) when it has not.
    fn delete_job<'a>(&'a self, key: &'a JobKey) -> StoreFuture<'a, ()>;

    /// Deletes up to `limit` jobs of any tenant that were done or called off before a moment, and says how many. Dead letters
    /// stay.
    ///
    /// # Errors
    /// Only those of the backend.
    fn purge_jobs(&self, before: Timestamp, limit: u32) -> StoreFuture<'_, u64>;

    /// How much there is to do, by queue.
    ///
    /// # Errors
    /// Only those of the backend.
    fn queue_depths(&self, now: Timestamp) -> StoreFuture<'_, Vec<QueueDepth>>;

    /// Makes a schedule, or puts it in the place of the one of its id. It waits for its first moment from now on; what the one
    /// before had missed is forgotten.
    ///
    /// # Errors
    /// Only those of the backend.
    fn put_schedule(&self, new: NewSchedule) -> StoreFuture<'_, Schedule>;

    /// Reads a schedule.
    ///
    /// # Errors
    /// `NotFound`.
    fn schedule<'a>(&'a self, key: &'a ScheduleKey) -> StoreFuture<'a, Schedule>;

    /// Lists schedules by id.
    ///
    /// # Errors
    /// Only those of the backend.
    fn schedules(&self, query: ScheduleQuery) -> StoreFuture<'_, Page<Schedule>>;

    /// Lets a schedule rest or work again; then it waits for its first moment from now on.
    ///
    /// # Errors
    /// `NotFound`.
    fn set_schedule_state<'a>(
        &'a self,
        key: &'a ScheduleKey,
        state: ScheduleState,
        now: Timestamp,
    ) -> StoreFuture<'a, Schedule>;

    /// Deletes a schedule. Its jobs stay.
    ///
    /// # Errors
    /// `NotFound`.
    fn delete_schedule<'a>(&'a self, key: &'a ScheduleKey) -> StoreFuture<'a, ()>;

    /// Lists schedules of every tenant that are due, the longest due first. What to do with each is
    /// [`Schedule::plan`]'s to say.
    ///
    /// # Errors
    /// Only those of the backend.
    fn due_schedules(&self, now: Timestamp, limit: u32) -> StoreFuture<'_, Vec<Schedule>>;

    /// Makes the jobs of a step of a schedule and moves it on, unless another process has. For one moment of a schedule there
    /// is never more than one job, whoever makes it.
    ///
    /// # Errors
    /// `NotFound`.
    fn advance(&self, advance: Advance) -> StoreFuture<'_, Advanced>;

    /// Says that a background task ended, once: what is said later is not heard.
    ///
    /// # Errors
    /// `NotFound`.
    fn end_task<'a>(
        &'a self,
        key: &'a TaskKey,
        status: TaskStatus,
        detail: Json,
        now: Timestamp,
    ) -> StoreFuture<'a, TaskEnded>;

    /// Reads a background task.
    ///
    /// # Errors
    /// `NotFound`.
    fn task<'a>(&'a self, key: &'a TaskKey) -> StoreFuture<'a, Task>;

    /// Lists background tasks, last started first.
    ///
    /// # Errors
    /// Only those of the backend.
    fn tasks(&self, query: TaskQuery) -> StoreFuture<'_, Page<Task>>;

    /// Lists tasks of every tenant that have ended, whose sessions were not told and are idle: no turn is open, nothing waits in
    /// the inbox. The first ended come first, one for each session.
    ///
    /// # Errors
    /// Only those of the backend.
    fn due_notifications(&self, limit: u32) -> StoreFuture<'_, Vec<Task>>;

    /// Tells a session that a task of it ended: posts the message, which starts a turn, if the session is idle at that very
    /// moment and was not told before.
    ///
    /// # Errors
    /// `NotFound` for the task, or when it is of another session than the post; and those of
    /// [`post`](crate::Store::post).
    fn notify<'a>(&'a self, task: &'a TaskKey, post: Post) -> StoreFuture<'a, Notified>;
}
