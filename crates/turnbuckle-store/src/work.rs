//! What every store does alike with jobs, schedules and background tasks.

use crate::cron::Cron;
use crate::error::{Conflict, StoreError};
use crate::model::{
    Cursor, Enqueued, Job, JobStatus, NewJob, NewSchedule, Schedule, ScheduleState, Task,
};
use turnbuckle_core::event::EventKind;
use turnbuckle_core::ids::CallId;
use turnbuckle_core::json::Json;
use turnbuckle_core::pack::{Packed, Whole};
use turnbuckle_core::time::Timestamp;

/// Why a job whose worker never came back is a dead letter.
pub(crate) const LOST: &str = "every worker that took it was lost before it said how it went";

/// A new job as it waits.
pub(crate) fn new_job(new: NewJob) -> Job {
    Job {
        key: new.key,
        queue: new.queue,
        idempotency_key: new.idempotency_key,
        payload: new.payload,
        status: JobStatus::Waiting,
        due: new.due,
        attempts: 0,
        max_attempts: new.max_attempts.max(1),
        fence: 0,
        lease: None,
        error: None,
        result: None,
        created: new.now,
        ended: None,
        tick: new.tick,
    }
}

/// An exported job as it is written: nobody works on it here.
pub(crate) fn imported_job(job: Job) -> Job {
    let status = match job.status {
        JobStatus::Running => JobStatus::Waiting,
        status => status,
    };
    Job { status, lease: None, max_attempts: job.max_attempts.max(1), ..job }
}

/// When somebody has to look at a job that nobody works on.
pub(crate) fn wakes(job: &Job) -> Option<Timestamp> {
    match job.status {
        JobStatus::Waiting | JobStatus::Running => Some(job.due),
        JobStatus::Done | JobStatus::Dead | JobStatus::Cancelled => None,
    }
}

/// What enqueueing gives when a job of that id or key is there.
pub(crate) fn known_job(known: Job, queue: &str, payload: &Json) -> Result<Enqueued, StoreError> {
    if known.queue == queue && known.payload == *payload {
        Ok(Enqueued::Known(known))
    } else {
        Err(Conflict::JobKeyReused { job: known.key.id }.into())
    }
}

/// The moment a schedule waits for.
pub(crate) fn waits_for(cron: &Cron, state: ScheduleState, now: Timestamp) -> Option<Timestamp> {
    match state {
        ScheduleState::Active => cron.after(now),
        ScheduleState::Paused => None,
    }
}

/// A schedule as it is made first.
pub(crate) fn new_schedule(new: NewSchedule) -> Schedule {
    Schedule {
        next: waits_for(&new.cron, new.state, new.now),
        key: new.key,
        cron: new.cron,
        queue: new.queue,
        payload: new.payload,
        max_attempts: new.max_attempts.max(1),
        missed: new.missed,
        state: new.state,
        last: None,
        revision: 1,
        created: new.now,
        updated: new.now,
    }
}

/// The place of a schedule in a list by id.
pub(crate) fn place(schedule: &Schedule) -> Cursor {
    Cursor { at: Timestamp::default(), id: schedule.key.id.to_string() }
}

/// The place of a task among those of its tenant.
pub(crate) fn task_place(task: &Task) -> (Timestamp, String) {
    (task.started, place_of(&task.key.kind, &task.key.reference))
}

/// What orders tasks that were started at the same moment.
pub(crate) fn place_of(kind: &str, reference: &str) -> String {
    // The length keeps kinds and references apart that may hold anything.
    format!("{}.{kind}{reference}", kind.len())
}

/// The background tasks that events say were started: the event, the call, the kind, the reference.
pub(crate) fn started(events: &Packed) -> impl Iterator<Item = (Whole<'_>, &CallId, &str, &str)> {
    events.wholes().filter_map(|event| match event.kind {
        EventKind::TaskStarted { call, task, reference } => {
            Some((event, call, task.as_str(), reference.as_str()))
        }
        _ => None,
    })
}
