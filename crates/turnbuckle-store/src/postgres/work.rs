//! Jobs, schedules and background tasks: each operation in the module of its idea.

use super::{PostgresStore, again, jobs, once, schedules, tasks};
use crate::jobs::Jobs;
use crate::model::{
    Advance, Advanced, Enqueued, Job, JobKey, JobQuery, NewJob, NewSchedule, Notified, Page, Post,
    QueueDepth, Retry, Schedule, ScheduleKey, ScheduleQuery, ScheduleState, TakeJobs, Task,
    TaskEnded, TaskKey, TaskQuery, TaskStatus,
};
use crate::store::StoreFuture;
use crate::work::imported_job;
use futures_util::FutureExt;
use turnbuckle_core::ids::TenantId;
use turnbuckle_core::json::Json;
use turnbuckle_core::time::Timestamp;

impl Jobs for PostgresStore {
    fn enqueue(&self, job: NewJob) -> StoreFuture<'_, Enqueued> {
        once!(self, jobs::enqueue(&job))
    }

    fn import_job(&self, job: Job) -> StoreFuture<'_, Enqueued> {
        once!(self, jobs::import(&imported_job(job)))
    }

    fn job_tenants<'a>(
        &'a self,
        after: Option<&'a TenantId>,
        limit: u32,
    ) -> StoreFuture<'a, Vec<TenantId>> {
        again!(self, jobs::tenants(after, limit))
    }

    fn take_jobs(&self, take: TakeJobs) -> StoreFuture<'_, Vec<Job>> {
        once!(self, jobs::take(&take))
    }

    fn prolong_job<'a>(
        &'a self,
        key: &'a JobKey,
        fence: u64,
        lease_ms: u64,
        now: Timestamp,
    ) -> StoreFuture<'a, ()> {
        again!(self, jobs::prolong(key, fence, lease_ms, now))
    }

    fn finish_job<'a>(
        &'a self,
        key: &'a JobKey,
        fence: u64,
        result: Option<Json>,
        now: Timestamp,
    ) -> StoreFuture<'a, Job> {
        again!(self, jobs::finish(key, fence, &result, now))
    }

    fn fail_job<'a>(
        &'a self,
        key: &'a JobKey,
        fence: u64,
        error: &'a str,
        retry: Retry,
        now: Timestamp,
    ) -> StoreFuture<'a, Job> {
        again!(self, jobs::fail(key, fence, error, retry, now))
    }

    fn job<'a>(&'a self, key: &'a JobKey) -> StoreFuture<'a, Job> {
        again!(self, jobs::read(key))
    }

    fn jobs(&self, query: JobQuery) -> StoreFuture<'_, Page<Job>> {
        again!(self, jobs::list(&query))
    }

    fn requeue_job<'a>(&'a self, key: &'a JobKey, now: Timestamp) -> StoreFuture<'a, Job> {
        once!(self, jobs::requeue(key, now))
    }

    fn cancel_job<'a>(&'a self, key: &'a JobKey, now: Timestamp) -> StoreFuture<'a, Job> {
        again!(self, jobs::cancel(key, now))
    }

    fn delete_job<'a>(&'a self, key: &'a JobKey) -> StoreFuture<'a, ()> {
        once!(self, jobs::delete(key))
    }

    fn purge_jobs(&self, before: Timestamp, limit: u32) -> StoreFuture<'_, u64> {
        once!(self, jobs::purge(before, limit))
    }

    fn queue_depths(&self, now: Timestamp) -> StoreFuture<'_, Vec<QueueDepth>> {
        again!(self, jobs::depths(now))
    }

    fn put_schedule(&self, new: NewSchedule) -> StoreFuture<'_, Schedule> {
        once!(self, schedules::put(&new))
    }

    fn schedule<'a>(&'a self, key: &'a ScheduleKey) -> StoreFuture<'a, Schedule> {
        again!(self, schedules::read(key))
    }

    fn schedules(&self, query: ScheduleQuery) -> StoreFuture<'_, Page<Schedule>> {
        again!(self, schedules::list(&query))
    }

    fn set_schedule_state<'a>(
        &'a self,
        key: &'a ScheduleKey,
        state: ScheduleState,
        now: Timestamp,
    ) -> StoreFuture<'a, Schedule> {
        again!(self, schedules::set_state(key, state, now))
    }

    fn delete_schedule<'a>(&'a self, key: &'a ScheduleKey) -> StoreFuture<'a, ()> {
        once!(self, schedules::delete(key))
    }

    fn due_schedules(&self, now: Timestamp, limit: u32) -> StoreFuture<'_, Vec<Schedule>> {
        again!(self, schedules::due(now, limit))
    }

    fn advance(&self, advance: Advance) -> StoreFuture<'_, Advanced> {
        once!(self, schedules::advance(&advance))
    }

    fn end_task<'a>(
        &'a self,
        key: &'a TaskKey,
        status: TaskStatus,
        detail: Json,
        now: Timestamp,
    ) -> StoreFuture<'a, TaskEnded> {
        once!(self, tasks::end(key, status, &detail, now))
    }

    fn task<'a>(&'a self, key: &'a TaskKey) -> StoreFuture<'a, Task> {
        again!(self, tasks::read(key))
    }

    fn tasks(&self, query: TaskQuery) -> StoreFuture<'_, Page<Task>> {
        again!(self, tasks::list(&query))
    }

    fn due_notifications(&self, limit: u32) -> StoreFuture<'_, Vec<Task>> {
        again!(self, tasks::due(limit))
    }

    fn notify<'a>(&'a self, task: &'a TaskKey, post: Post) -> StoreFuture<'a, Notified> {
        once!(self, tasks::notify(task, &post))
    }
}
