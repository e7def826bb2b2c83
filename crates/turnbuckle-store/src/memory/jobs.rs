//! Jobs, schedules and background tasks in memory.

use super::{Inner, MemoryStore};
use crate::error::{Conflict, StoreError};
use crate::jobs::Jobs;
use crate::model::{
    Advance, Advanced, Cursor, Enqueued, Job, JobKey, JobQuery, JobStatus, Lease, NewJob,
    NewSchedule, Notified, Page, Post, QueueDepth, Retry, Schedule, ScheduleKey, ScheduleQuery,
    ScheduleState, TakeJobs, Task, TaskEnded, TaskKey, TaskQuery, TaskStatus, page,
};
use crate::store::StoreFuture;
use crate::work::{
    LOST, imported_job, known_job, new_job, new_schedule, place, started, task_place, waits_for,
};
use std::collections::{BTreeMap, BTreeSet};
use turnbuckle_core::ids::{SessionId, SessionKey, TenantId};
use turnbuckle_core::json::Json;
use turnbuckle_core::pack::Packed;
use turnbuckle_core::time::Timestamp;

const NO_JOB: StoreError = StoreError::NotFound { what: "job" };
const NO_SCHEDULE: StoreError = StoreError::NotFound { what: "schedule" };
const NO_TASK: StoreError = StoreError::NotFound { what: "task" };

/// What is kept beside the sessions.
#[derive(Default)]
pub(super) struct Work {
    jobs: BTreeMap<JobKey, Job>,
    schedules: BTreeMap<ScheduleKey, Schedule>,
    pub(super) tasks: BTreeMap<TaskKey, Task>,
}

impl Work {
    fn enqueue(&mut self, new: NewJob) -> Result<Enqueued, StoreError> {
        self.add(new_job(new))
    }

    fn add(&mut self, new: Job) -> Result<Enqueued, StoreError> {
        let same = |job: &&Job| {
            job.key == new.key
                || (job.key.tenant == new.key.tenant
                    && job.queue == new.queue
                    && job.idempotency_key.is_some()
                    && job.idempotency_key == new.idempotency_key)
                || (job.key.tenant == new.key.tenant && new.tick.is_some() && job.tick == new.tick)
        };
        if let Some(known) = self.jobs.values().find(same) {
            return known_job(known.clone(), &new.queue, &new.payload);
        }
        let job = new;
        self.jobs.insert(job.key.clone(), job.clone());
        Ok(Enqueued::Added(job))
    }

    fn take(&mut self, take: &TakeJobs) -> Vec<Job> {
        let asked = |job: &&mut Job| take.queues.contains(&job.queue);
        let mut due: Vec<(Timestamp, JobKey)> = Vec::new();
        for job in self.jobs.values_mut().filter(asked) {
            match (job.status, &job.lease) {
                (JobStatus::Waiting, _) if job.due <= take.now => {
                    due.push((job.due, job.key.clone()));
                }
                (JobStatus::Running, Some(lease)) if lease.until <= take.now => {
                    if job.attempts < job.max_attempts {
                        due.push((lease.until, job.key.clone()));
                    } else {
                        job.error = Some(LOST.to_owned());
                        end(job, JobStatus::Dead, take.now);
                    }
                }
                _ => {}
            }
        }
        due.sort();
        let until = take.now.plus(i64::try_from(take.lease_ms).unwrap_or(i64::MAX));
        let mut taken = Vec::new();
        for (_, key) in due.into_iter().take(take.limit as usize) {
            if let Some(job) = self.jobs.get_mut(&key) {
                job.status = JobStatus::Running;
                job.attempts += 1;
                job.fence += 1;
                job.lease = Some(Lease { owner: take.owner.clone(), until });
                taken.push(job.clone());
            }
        }
        taken.sort_by(|a, b| (a.due, &a.key).cmp(&(b.due, &b.key)));
        taken
    }

    fn job(&mut self, key: &JobKey) -> Result<&mut Job, StoreError> {
        self.jobs.get_mut(key).ok_or(NO_JOB)
    }

    /// The job, for whoever works on it; or as it ended, when the one who did says so again.
    fn held(
        &mut self,
        key: &JobKey,
        fence: u64,
        said: &[JobStatus],
    ) -> Result<Held<'_>, StoreError> {
        let job = self.job(key)?;
        if job.fence != fence {
            return Err(StoreError::Fenced { held: fence, current: job.fence });
        }
        match job.status {
            JobStatus::Running => Ok(Held::Running(job)),
            status if said.contains(&status) => Ok(Held::Said(Box::new(job.clone()))),
            _ => Err(StoreError::Fenced { held: fence, current: job.fence }),
        }
    }

    fn advance(&mut self, advance: Advance) -> Result<Advanced, StoreError> {
        let schedule = self.schedules.get_mut(&advance.key).ok_or(NO_SCHEDULE)?;
        if schedule.revision != advance.revision || schedule.next != Some(advance.due) {
            return Ok(Advanced::Elsewhere);
        }
        schedule.next = advance.next;
        schedule.last = advance.last().or(schedule.last);
        let mut made = 0;
        for job in advance.jobs {
            if matches!(self.enqueue(job)?, Enqueued::Added(_)) {
                made += 1;
            }
        }
        Ok(Advanced::Made(made))
    }

    /// The tasks of a session, in the order in which they are listed for export.
    pub(super) fn of_session(&self, session: &SessionId) -> Vec<Task> {
        let own = self.tasks.values().filter(|task| task.session == *session);
        own.cloned().collect()
    }

    /// Records what events say was started.
    pub(super) fn start(&mut self, session: &SessionKey, events: &Packed) {
        for (event, call, kind, reference) in started(events) {
            let key = TaskKey::new(session.tenant.clone(), kind, reference);
            self.tasks.entry(key.clone()).or_insert_with(|| Task {
                key,
                session: session.id.clone(),
                turn: event.turn.clone(),
                call: call.clone(),
                status: TaskStatus::Running,
                detail: Json::default(),
                started: event.at,
                ended: None,
                notified: None,
            });
        }
    }
}

enum Held<'a> {
    Running(&'a mut Job),
    Said(Box<Job>),
}

fn end(job: &mut Job, status: JobStatus, now: Timestamp) {
    job.status = status;
    job.lease = None;
    job.ended = Some(now);
}

impl Inner {
    fn idle(&self, task: &Task) -> bool {
        self.sessions.get(&task.session).is_some_and(|held| {
            let row = &held.row;
            row.turn.is_none() && row.pending == 0 && row.parked.is_none()
        })
    }

    fn due_notifications(&self, limit: u32) -> Vec<Task> {
        let untold = |task: &&Task| task.ended.is_some() && task.notified.is_none();
        let mut due: Vec<&Task> =
            self.work.tasks.values().filter(untold).filter(|task| self.idle(task)).collect();
        due.sort_by_key(|task| (task.ended, task.key.clone()));
        let mut sessions = BTreeSet::new();
        due.retain(|task| sessions.insert(task.session.clone()));
        due.into_iter().take(limit as usize).cloned().collect()
    }

    fn notify(&mut self, key: &TaskKey, post: Post) -> Result<Notified, StoreError> {
        let task = self.work.tasks.get(key).ok_or(NO_TASK)?;
        if task.session_key() != post.key {
            return Err(NO_TASK);
        }
        if task.ended.is_none() || task.notified.is_some() {
            return Ok(Notified::NothingToTell);
        }
        if !self.idle(task) {
            return Ok(Notified::NotIdle);
        }
        let now = post.now;
        let receipt = self.post(post)?;
        if let Some(task) = self.work.tasks.get_mut(key) {
            task.notified = Some(now);
        }
        Ok(Notified::Posted(receipt))
    }
}

impl Jobs for MemoryStore {
    fn enqueue(&self, job: NewJob) -> StoreFuture<'_, Enqueued> {
        self.with(move |inner| inner.work.enqueue(job))
    }

    fn import_job(&self, job: Job) -> StoreFuture<'_, Enqueued> {
        self.with(move |inner| inner.work.add(imported_job(job)))
    }

    fn job_tenants<'a>(
        &'a self,
        after: Option<&'a TenantId>,
        limit: u32,
    ) -> StoreFuture<'a, Vec<TenantId>> {
        self.with(move |inner| {
            let jobs = inner.work.jobs.keys().map(|key| &key.tenant);
            let schedules = inner.work.schedules.keys().map(|key| &key.tenant);
            let all: BTreeSet<&TenantId> = jobs.chain(schedules).collect();
            let later = all.into_iter().filter(|tenant| after.is_none_or(|after| *tenant > after));
            Ok(later.take(limit as usize).cloned().collect())
        })
    }

    fn take_jobs(&self, take: TakeJobs) -> StoreFuture<'_, Vec<Job>> {
        self.with(move |inner| Ok(inner.work.take(&take)))
    }

    fn prolong_job<'a>(
        &'a self,
        key: &'a JobKey,
        fence: u64,
        lease_ms: u64,
        now: Timestamp,
    ) -> StoreFuture<'a, ()> {
        self.with(move |inner| {
            if let Held::Running(job) = inner.work.held(key, fence, &[])?
                && let Some(lease) = &mut job.lease
            {
                lease.until = now.plus(i64::try_from(lease_ms).unwrap_or(i64::MAX));
            }
            Ok(())
        })
    }

    fn finish_job<'a>(
        &'a self,
        key: &'a JobKey,
        fence: u64,
        result: Option<Json>,
        now: Timestamp,
    ) -> StoreFuture<'a, Job> {
        self.with(move |inner| match inner.work.held(key, fence, &[JobStatus::Done])? {
            Held::Said(job) => Ok(*job),
            Held::Running(job) => {
                end(job, JobStatus::Done, now);
                job.result = result;
                job.error = None;
                Ok(job.clone())
            }
        })
    }

    fn fail_job<'a>(
        &'a self,
        key: &'a JobKey,
        fence: u64,
        error: &'a str,
        retry: Retry,
        now: Timestamp,
    ) -> StoreFuture<'a, Job> {
        let said = [JobStatus::Waiting, JobStatus::Dead];
        self.with(move |inner| match inner.work.held(key, fence, &said)? {
            Held::Said(job) => Ok(*job),
            Held::Running(job) => {
                job.error = Some(error.to_owned());
                match retry {
                    Retry::At(due) if job.attempts < job.max_attempts => {
                        job.status = JobStatus::Waiting;
                        job.lease = None;
                        job.due = due;
                    }
                    Retry::At(_) | Retry::Never => end(job, JobStatus::Dead, now),
                }
                Ok(job.clone())
            }
        })
    }

    fn job<'a>(&'a self, key: &'a JobKey) -> StoreFuture<'a, Job> {
        self.with(move |inner| inner.work.job(key).cloned())
    }

    fn jobs(&self, query: JobQuery) -> StoreFuture<'_, Page<Job>> {
        self.with(move |inner| {
            let of = |job: &&Job| {
                let place = (job.created, job.key.id.as_str());
                job.key.tenant == query.tenant
                    && query.queue.as_ref().is_none_or(|queue| *queue == job.queue)
                    && query.status.is_none_or(|status| status == job.status)
                    && query.schedule.as_ref().is_none_or(|schedule| {
                        job.tick.as_ref().is_some_and(|tick| tick.schedule == *schedule)
                    })
                    && query.after.as_ref().is_none_or(|a| place < (a.at, a.id.as_str()))
            };
            let mut jobs: Vec<Job> = inner.work.jobs.values().filter(of).cloned().collect();
            jobs.sort_by(|a, b| (b.created, &b.key.id).cmp(&(a.created, &a.key.id)));
            jobs.truncate(query.limit as usize + 1);
            Ok(page(jobs, query.limit, |j| Cursor { at: j.created, id: j.key.id.to_string() }))
        })
    }

    fn requeue_job<'a>(&'a self, key: &'a JobKey, now: Timestamp) -> StoreFuture<'a, Job> {
        self.with(move |inner| {
            let job = inner.work.job(key)?;
            match job.status {
                JobStatus::Dead | JobStatus::Cancelled => {}
                status => return Err(Conflict::JobStands { job: key.id.clone(), status }.into()),
            }
            job.status = JobStatus::Waiting;
            (job.due, job.attempts, job.ended) = (now, 0, None);
            Ok(job.clone())
        })
    }

    fn cancel_job<'a>(&'a self, key: &'a JobKey, now: Timestamp) -> StoreFuture<'a, Job> {
        self.with(move |inner| {
            let job = inner.work.job(key)?;
            if matches!(job.status, JobStatus::Waiting | JobStatus::Running) {
                job.fence += 1;
                end(job, JobStatus::Cancelled, now);
            }
            Ok(job.clone())
        })
    }

    fn delete_job<'a>(&'a self, key: &'a JobKey) -> StoreFuture<'a, ()> {
        self.with(move |inner| {
            let status = inner.work.job(key)?.status;
            if matches!(status, JobStatus::Waiting | JobStatus::Running) {
                return Err(Conflict::JobStands { job: key.id.clone(), status }.into());
            }
            inner.work.jobs.remove(key);
            Ok(())
        })
    }

    fn purge_jobs(&self, before: Timestamp, limit: u32) -> StoreFuture<'_, u64> {
        self.with(move |inner| {
            let over = |job: &&Job| {
                matches!(job.status, JobStatus::Done | JobStatus::Cancelled)
                    && job.ended.is_some_and(|ended| ended < before)
            };
            let jobs = &mut inner.work.jobs;
            let keys: Vec<JobKey> = jobs
                .values()
                .filter(over)
                .take(limit as usize)
                .map(|job| job.key.clone())
                .collect();
            keys.iter().for_each(|key| drop(jobs.remove(key)));
            Ok(keys.len() as u64)
        })
    }

    fn queue_depths(&self, now: Timestamp) -> StoreFuture<'_, Vec<QueueDepth>> {
        self.with(move |inner| {
            let mut depths: BTreeMap<&str, QueueDepth> = BTreeMap::new();
            for job in inner.work.jobs.values() {
                let depth = depths.entry(&job.queue).or_insert_with(|| QueueDepth {
                    queue: job.queue.clone(),
                    ready: 0,
                    later: 0,
                    running: 0,
                    dead: 0,
                    oldest: None,
                });
                match job.status {
                    JobStatus::Waiting if job.due <= now => {
                        depth.ready += 1;
                        depth.oldest = Some(depth.oldest.unwrap_or(job.due).min(job.due));
                    }
                    JobStatus::Waiting => depth.later += 1,
                    JobStatus::Running => depth.running += 1,
                    JobStatus::Dead => depth.dead += 1,
                    JobStatus::Done | JobStatus::Cancelled => {}
                }
            }
            let some =
                |depth: &QueueDepth| depth.ready + depth.later + depth.running + depth.dead > 0;
            Ok(depths.into_values().filter(some).collect())
        })
    }

    fn put_schedule(&self, new: NewSchedule) -> StoreFuture<'_, Schedule> {
        self.with(move |inner| {
            let schedules = &mut inner.work.schedules;
            let known = schedules.get(&new.key);
            let schedule = Schedule {
                revision: known.map_or(1, |known| known.revision + 1),
                created: known.map_or(new.now, |known| known.created),
                last: known.and_then(|known| known.last),
                ..new_schedule(new)
            };
            schedules.insert(schedule.key.clone(), schedule.clone());
            Ok(schedule)
        })
    }

    fn schedule<'a>(&'a self, key: &'a ScheduleKey) -> StoreFuture<'a, Schedule> {
        self.with(move |inner| inner.work.schedules.get(key).cloned().ok_or(NO_SCHEDULE))
    }

    fn schedules(&self, query: ScheduleQuery) -> StoreFuture<'_, Page<Schedule>> {
        self.with(move |inner| {
            let of = |schedule: &&Schedule| {
                schedule.key.tenant == query.tenant
                    && query.after.as_ref().is_none_or(|a| schedule.key.id.as_str() > a.id.as_str())
            };
            let all = inner.work.schedules.values().filter(of);
            let found: Vec<Schedule> = all.take(query.limit as usize + 1).cloned().collect();
            Ok(page(found, query.limit, place))
        })
    }

    fn set_schedule_state<'a>(
        &'a self,
        key: &'a ScheduleKey,
        state: ScheduleState,
        now: Timestamp,
    ) -> StoreFuture<'a, Schedule> {
        self.with(move |inner| {
            let schedule = inner.work.schedules.get_mut(key).ok_or(NO_SCHEDULE)?;
            if schedule.state != state {
                schedule.state = state;
                schedule.next = waits_for(&schedule.cron, state, now);
                schedule.revision += 1;
                schedule.updated = now;
            }
            Ok(schedule.clone())
        })
    }

    fn delete_schedule<'a>(&'a self, key: &'a ScheduleKey) -> StoreFuture<'a, ()> {
        self.with(move |inner| inner.work.schedules.remove(key).map(drop).ok_or(NO_SCHEDULE))
    }

    fn due_schedules(&self, now: Timestamp, limit: u32) -> StoreFuture<'_, Vec<Schedule>> {
        self.with(move |inner| {
            let due = |schedule: &&Schedule| schedule.next.is_some_and(|next| next <= now);
            let mut all: Vec<Schedule> =
                inner.work.schedules.values().filter(due).cloned().collect();
            all.sort_by_key(|schedule| (schedule.next, schedule.key.clone()));
            all.truncate(limit as usize);
            Ok(all)
        })
    }

    fn advance(&self, advance: Advance) -> StoreFuture<'_, Advanced> {
        self.with(move |inner| inner.work.advance(advance))
    }

    fn end_task<'a>(
        &'a self,
        key: &'a TaskKey,
        status: TaskStatus,
        detail: Json,
        now: Timestamp,
    ) -> StoreFuture<'a, TaskEnded> {
        self.with(move |inner| {
            let task = inner.work.tasks.get_mut(key).ok_or(NO_TASK)?;
            if task.ended.is_some() || status == TaskStatus::Running {
                return Ok(TaskEnded::Before(task.clone()));
            }
            (task.status, task.detail, task.ended) = (status, detail, Some(now));
            Ok(TaskEnded::Now(task.clone()))
        })
    }

    fn task<'a>(&'a self, key: &'a TaskKey) -> StoreFuture<'a, Task> {
        self.with(move |inner| inner.work.tasks.get(key).cloned().ok_or(NO_TASK))
    }

    fn tasks(&self, query: TaskQuery) -> StoreFuture<'_, Page<Task>> {
        self.with(move |inner| {
            let of = |task: &&Task| {
                task.key.tenant == query.tenant
                    && query.session.as_ref().is_none_or(|session| *session == task.session)
                    && query.status.is_none_or(|status| status == task.status)
                    && query.after.as_ref().is_none_or(|a| task_place(task) < (a.at, a.id.clone()))
            };
            let mut tasks: Vec<Task> = inner.work.tasks.values().filter(of).cloned().collect();
            tasks.sort_by_key(|task| std::cmp::Reverse(task_place(task)));
            tasks.truncate(query.limit as usize + 1);
            Ok(page(tasks, query.limit, |task| {
                let (at, id) = task_place(task);
                Cursor { at, id }
            }))
        })
    }

    fn due_notifications(&self, limit: u32) -> StoreFuture<'_, Vec<Task>> {
        self.with(move |inner| Ok(inner.due_notifications(limit)))
    }

    fn notify<'a>(&'a self, task: &'a TaskKey, post: Post) -> StoreFuture<'a, Notified> {
        self.with(move |inner| inner.notify(task, post))
    }
}
