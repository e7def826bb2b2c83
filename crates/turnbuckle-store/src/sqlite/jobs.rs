//! Jobs.

use crate::error::{Conflict, StoreError};
use crate::model::{
    Cursor, Enqueued, Job, JobKey, JobQuery, JobStatus, NewJob, Page, QueueDepth, Retry, TakeJobs,
    page,
};
use crate::sql::{Cells, JOB, id, int, job, name, number, text};
use crate::sqlite::fail::failed;
use crate::sqlite::link::{Link, Script};
use crate::sqlite::rows::get;
use crate::work::{LOST, known_job, new_job, wakes};
use sqlx::sqlite::SqliteRow;
use turnbuckle_core::ids::TenantId;
use turnbuckle_core::json::Json;
use turnbuckle_core::time::Timestamp;

const NO_JOB: StoreError = StoreError::NotFound { what: "job" };

/// The moment a lease ends.
fn until(now: Timestamp, lease_ms: u64) -> i64 {
    now.plus(int(lease_ms)).as_millis()
}

/// Adds a job unless one of its id, its idempotency key or its moment is there.
pub(super) fn insert(script: &mut Script, new: &NewJob) -> Result<(), StoreError> {
    let tick = new.tick.as_ref();
    script
        .add(
            "INSERT INTO jobs (tenant, id, queue, key, payload, due, wake, max_attempts, created, schedule, tick) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8, ?9, ?10) ON CONFLICT DO NOTHING RETURNING 1, ",
        )
        .add(JOB)
        .add(";")
        .bind(new.key.tenant.as_str())?
        .bind(new.key.id.as_str())?
        .bind(new.queue.as_str())?
        .bind(new.idempotency_key.as_deref())?
        .bind(text(&new.payload)?)?
        .bind(new.due.as_millis())?
        .bind(i64::from(new.max_attempts.max(1)))?
        .bind(new.now.as_millis())?
        .bind(tick.map(|tick| tick.schedule.as_str()))?
        .bind(tick.map(|tick| tick.at.as_millis()))?;
    Ok(())
}

pub(super) async fn enqueue(link: &mut Link, new: NewJob) -> Result<Enqueued, StoreError> {
    import(link, new_job(new)).await
}

/// Adds a job that nobody works on, unless one of its id, its idempotency key or its moment is there.
pub(super) async fn import(link: &mut Link, new: Job) -> Result<Enqueued, StoreError> {
    let tick = new.tick.as_ref();
    let mut script = Script::transaction();
    script
        .add(
            "INSERT INTO jobs (tenant, id, queue, key, payload, due, wake, max_attempts, created, schedule, tick, \
             status, attempts, fence, error, result, ended) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17) \
             ON CONFLICT DO NOTHING RETURNING 1, ",
        )
        .add(JOB)
        .add(";SELECT 0, ")
        .add(JOB)
        .add(" FROM jobs WHERE tenant = ?1 AND (id = ?2 OR (queue = ?3 AND key = ?4) OR (schedule = ?10 AND tick = ?11)) LIMIT 1;")
        .bind(new.key.tenant.as_str())?
        .bind(new.key.id.as_str())?
        .bind(new.queue.as_str())?
        .bind(new.idempotency_key.as_deref())?
        .bind(text(&new.payload)?)?
        .bind(new.due.as_millis())?
        .bind(wakes(&new).map(|at| at.as_millis()))?
        .bind(i64::from(new.max_attempts))?
        .bind(new.created.as_millis())?
        .bind(tick.map(|tick| tick.schedule.as_str()))?
        .bind(tick.map(|tick| tick.at.as_millis()))?
        .bind(name(&new.status)?)?
        .bind(i64::from(new.attempts))?
        .bind(int(new.fence))?
        .bind(new.error.as_deref())?
        .bind(new.result.as_ref().map(text).transpose()?)?
        .bind(new.ended.map(|at| at.as_millis()))?
        .end();
    let rows = link.run(script).await.map_err(failed)?;
    let row = rows.first().ok_or(NO_JOB)?;
    let found = job(row, 1)?;
    match get::<bool>(row, 0)? {
        true => Ok(Enqueued::Added(found)),
        false => known_job(found, &new.queue, &new.payload),
    }
}

pub(super) async fn tenants(
    link: &mut Link,
    after: Option<&TenantId>,
    limit: u32,
) -> Result<Vec<TenantId>, StoreError> {
    let mut script = Script::new(
        "SELECT tenant FROM jobs WHERE ?1 IS NULL OR tenant > ?1 \
         UNION SELECT tenant FROM schedules WHERE ?1 IS NULL OR tenant > ?1 ORDER BY tenant LIMIT ?2",
    );
    script.bind(after.map(TenantId::as_str))?.bind(i64::from(limit))?;
    link.run(script).await.map_err(failed)?.iter().map(|row| id(row, 0)).collect()
}

pub(super) async fn take(link: &mut Link, take: TakeJobs) -> Result<Vec<Job>, StoreError> {
    let mut script = Script::transaction();
    script
        .add(
            "UPDATE jobs SET status = 'dead', error = ?1, ended = ?2, wake = NULL, owner = NULL \
             WHERE wake <= ?2 AND status = 'running' AND attempts >= max_attempts \
             AND queue IN (SELECT value FROM json_each(?3));\
             UPDATE jobs SET status = 'running', attempts = attempts + 1, fence = fence + 1, owner = ?4, wake = ?5 \
             WHERE (tenant, id) IN (SELECT tenant, id FROM jobs WHERE wake <= ?2 \
             AND queue IN (SELECT value FROM json_each(?3)) ORDER BY wake, tenant, id LIMIT ?6) RETURNING ",
        )
        .add(JOB)
        .add(";")
        .bind(LOST)?
        .bind(take.now.as_millis())?
        .bind(text(&take.queues)?)?
        .bind(take.owner.as_str())?
        .bind(until(take.now, take.lease_ms))?
        .bind(i64::from(take.limit))?
        .end();
    let rows = link.run(script).await.map_err(failed)?;
    let mut jobs = rows.iter().map(|row| job(row, 0)).collect::<Result<Vec<_>, _>>()?;
    jobs.sort_by(|a, b| (a.due, &a.key).cmp(&(b.due, &b.key)));
    Ok(jobs)
}

/// Changes a job that runs under a fence. `set` has the arguments from `?4` on.
async fn held(
    link: &mut Link,
    key: &JobKey,
    fence: u64,
    said: &[JobStatus],
    set: impl FnOnce(&mut Script) -> Result<(), StoreError>,
) -> Result<Job, StoreError> {
    let mut script = Script::transaction();
    script
        .bind(key.tenant.as_str())?
        .bind(key.id.as_str())?
        .bind(int(fence))?
        .add("UPDATE jobs SET ");
    set(&mut script)?;
    script
        .add(" WHERE tenant = ?1 AND id = ?2 AND fence = ?3 AND status = 'running' RETURNING 1, ")
        .add(JOB)
        .add(";SELECT 0, ")
        .add(JOB)
        .add(" FROM jobs WHERE tenant = ?1 AND id = ?2;")
        .end();
    let rows = link.run(script).await.map_err(failed)?;
    let row = rows.first().ok_or(NO_JOB)?;
    let job = job(row, 1)?;
    if get::<bool>(row, 0)? || (job.fence == fence && said.contains(&job.status)) {
        return Ok(job);
    }
    Err(StoreError::Fenced { held: fence, current: job.fence })
}

pub(super) async fn prolong(
    link: &mut Link,
    key: &JobKey,
    fence: u64,
    lease_ms: u64,
    now: Timestamp,
) -> Result<(), StoreError> {
    let set = |script: &mut Script| script.add("wake = ?4").bind(until(now, lease_ms)).map(drop);
    held(link, key, fence, &[], set).await.map(drop)
}

pub(super) async fn finish(
    link: &mut Link,
    key: &JobKey,
    fence: u64,
    result: Option<Json>,
    now: Timestamp,
) -> Result<Job, StoreError> {
    let set = |script: &mut Script| {
        script
            .add(
                "status = 'done', wake = NULL, owner = NULL, error = NULL, result = ?4, ended = ?5",
            )
            .bind(result.as_ref().map(text).transpose()?)?
            .bind(now.as_millis())?;
        Ok(())
    };
    held(link, key, fence, &[JobStatus::Done], set).await
}

pub(super) async fn fail(
    link: &mut Link,
    key: &JobKey,
    fence: u64,
    error: &str,
    retry: Retry,
    now: Timestamp,
) -> Result<Job, StoreError> {
    let due = match retry {
        Retry::At(due) => Some(due.as_millis()),
        Retry::Never => None,
    };
    // `?5` is NULL when the job is not tried again whatever its attempts.
    let set = |script: &mut Script| {
        script
            .add(
                "error = ?4, owner = NULL, \
                 status = CASE WHEN ?5 IS NULL OR attempts >= max_attempts THEN 'dead' ELSE 'waiting' END, \
                 due = CASE WHEN ?5 IS NULL OR attempts >= max_attempts THEN due ELSE ?5 END, \
                 wake = CASE WHEN ?5 IS NULL OR attempts >= max_attempts THEN NULL ELSE ?5 END, \
                 ended = CASE WHEN ?5 IS NULL OR attempts >= max_attempts THEN ?6 END",
            )
            .bind(error)?
            .bind(due)?
            .bind(now.as_millis())?;
        Ok(())
    };
    held(link, key, fence, &[JobStatus::Waiting, JobStatus::Dead], set).await
}

pub(super) async fn read(link: &mut Link, key: &JobKey) -> Result<Job, StoreError> {
    let mut script = Script::new("SELECT ");
    script.add(JOB).add(" FROM jobs WHERE tenant = ? AND id = ?");
    script.bind(key.tenant.as_str())?.bind(key.id.as_str())?;
    let rows = link.run(script).await.map_err(failed)?;
    job(rows.first().ok_or(NO_JOB)?, 0)
}

pub(super) async fn list(link: &mut Link, query: JobQuery) -> Result<Page<Job>, StoreError> {
    let mut script = Script::new("SELECT ");
    script.add(JOB).add(" FROM jobs WHERE tenant = ?").bind(query.tenant.as_str())?;
    if let Some(queue) = &query.queue {
        script.add(" AND queue = ?").bind(queue.as_str())?;
    }
    if let Some(status) = &query.status {
        script.add(" AND status = ?").bind(name(status)?)?;
    }
    if let Some(schedule) = &query.schedule {
        script.add(" AND schedule = ?").bind(schedule.as_str())?;
    }
    if let Some(after) = &query.after {
        script.add(" AND (created, id) < (?, ?)");
        script.bind(after.at.as_millis())?.bind(after.id.as_str())?;
    }
    script.add(" ORDER BY created DESC, id DESC LIMIT ?").bind(i64::from(query.limit) + 1)?;
    let rows = link.run(script).await.map_err(failed)?;
    let jobs = rows.iter().map(|row| job(row, 0)).collect::<Result<Vec<_>, _>>()?;
    Ok(page(jobs, query.limit, |j| Cursor { at: j.created, id: j.key.id.to_string() }))
}

/// Changes a job whatever its fence, when its status is one of those; gives it, and whether it was changed.
async fn change(
    link: &mut Link,
    key: &JobKey,
    statement: &str,
    now: Timestamp,
) -> Result<(bool, Job), StoreError> {
    let mut script = Script::transaction();
    script
        .add(statement)
        .add(" RETURNING 1, ")
        .add(JOB)
        .add(";SELECT 0, ")
        .add(JOB)
        .add(" FROM jobs WHERE tenant = ?1 AND id = ?2;")
        .bind(key.tenant.as_str())?
        .bind(key.id.as_str())?
        .bind(now.as_millis())?
        .end();
    let rows = link.run(script).await.map_err(failed)?;
    let row = rows.first().ok_or(NO_JOB)?;
    Ok((get(row, 0)?, job(row, 1)?))
}

pub(super) async fn requeue(
    link: &mut Link,
    key: &JobKey,
    now: Timestamp,
) -> Result<Job, StoreError> {
    let statement = "UPDATE jobs SET status = 'waiting', due = ?3, wake = ?3, attempts = 0, ended = NULL \
         WHERE tenant = ?1 AND id = ?2 AND status IN ('dead', 'cancelled')";
    match change(link, key, statement, now).await? {
        (true, job) => Ok(job),
        (false, job) => Err(Conflict::JobStands { job: job.key.id, status: job.status }.into()),
    }
}

pub(super) async fn cancel(
    link: &mut Link,
    key: &JobKey,
    now: Timestamp,
) -> Result<Job, StoreError> {
    let statement = "UPDATE jobs SET status = 'cancelled', ended = ?3, wake = NULL, owner = NULL, fence = fence + 1 \
         WHERE tenant = ?1 AND id = ?2 AND status IN ('waiting', 'running')";
    change(link, key, statement, now).await.map(|(_, job)| job)
}

pub(super) async fn delete(link: &mut Link, key: &JobKey) -> Result<(), StoreError> {
    let statement = "DELETE FROM jobs WHERE tenant = ?1 AND id = ?2 AND status NOT IN ('waiting', 'running') AND ?3 IS NOT NULL";
    match change(link, key, statement, Timestamp::default()).await? {
        (true, _) => Ok(()),
        (false, job) => Err(Conflict::JobStands { job: job.key.id, status: job.status }.into()),
    }
}

pub(super) async fn purge(
    link: &mut Link,
    before: Timestamp,
    limit: u32,
) -> Result<u64, StoreError> {
    let mut script = Script::new(
        "DELETE FROM jobs WHERE (tenant, id) IN (SELECT tenant, id FROM jobs \
         WHERE status IN ('done', 'cancelled') AND ended < ? LIMIT ?) RETURNING 1",
    );
    script.bind(before.as_millis())?.bind(i64::from(limit))?;
    Ok(link.run(script).await.map_err(failed)?.len() as u64)
}

pub(super) async fn depths(link: &mut Link, now: Timestamp) -> Result<Vec<QueueDepth>, StoreError> {
    let mut script = Script::new(
        "SELECT queue, count(*) FILTER (WHERE status = 'waiting' AND due <= ?1), \
         count(*) FILTER (WHERE status = 'waiting' AND due > ?1), count(*) FILTER (WHERE status = 'running'), \
         count(*) FILTER (WHERE status = 'dead'), min(due) FILTER (WHERE status = 'waiting' AND due <= ?1) \
         FROM jobs WHERE wake IS NOT NULL OR status = 'dead' GROUP BY queue ORDER BY queue",
    );
    script.bind(now.as_millis())?;
    let depth = |row: &SqliteRow| {
        Ok(QueueDepth {
            queue: row.text(0)?.to_owned(),
            ready: number(row, 1)?,
            later: number(row, 2)?,
            running: number(row, 3)?,
            dead: number(row, 4)?,
            oldest: row.maybe_int(5)?.map(Timestamp::from_millis),
        })
    };
    link.run(script).await.map_err(failed)?.iter().map(depth).collect()
}
