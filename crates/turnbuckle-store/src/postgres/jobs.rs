//! Jobs.

use super::pool::{Lent, Sql};
use super::rows::get;
use crate::error::{Conflict, StoreError};
use crate::model::{
    Cursor, Enqueued, Job, JobKey, JobQuery, JobStatus, NewJob, Page, QueueDepth, Retry, TakeJobs,
    page,
};
use crate::sql::{Cells, JOB, id, int, job, name, number, text};
use crate::work::{LOST, known_job, new_job, wakes};
use sqlx::postgres::PgRow;
use sqlx::{Postgres, QueryBuilder};
use std::sync::Arc;
use turnbuckle_core::ids::TenantId;
use turnbuckle_core::json::Json;
use turnbuckle_core::time::Timestamp;

const NO_JOB: StoreError = StoreError::NotFound { what: "job" };

/// An enqueued job is looked for so often when it is deleted just when it was found to be there.
const TRIES: usize = 4;

/// [`JOB`], as part of other text.
macro_rules! job_row {
    () => {
        "tenant, id, queue, key, payload, status, due, wake, attempts, max_attempts, fence, owner, error, \
         result, created, ended, schedule, tick"
    };
}

/// The moment a lease ends.
fn until(now: Timestamp, lease_ms: u64) -> i64 {
    now.plus(int(lease_ms)).as_millis()
}

pub(super) async fn enqueue(lent: &mut Lent<'_>, new: &NewJob) -> Result<Enqueued, StoreError> {
    let job = new_job(new.clone());
    import(lent, &job).await
}

/// Adds a job that nobody works on, unless one of its id, its idempotency key or its moment is there.
pub(super) async fn import(lent: &mut Lent<'_>, new: &Job) -> Result<Enqueued, StoreError> {
    let tick = new.tick.as_ref();
    for _ in 0..TRIES {
        let sql = sqlx::query(concat!(
            "INSERT INTO jobs (tenant, id, queue, key, payload, due, wake, max_attempts, created, schedule, tick, \
             status, attempts, fence, error, result, ended) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17) \
             ON CONFLICT DO NOTHING RETURNING ",
            job_row!()
        ));
        let sql = sql
            .bind(new.key.tenant.as_str())
            .bind(new.key.id.as_str())
            .bind(new.queue.as_str())
            .bind(new.idempotency_key.as_deref())
            .bind(text(&new.payload)?)
            .bind(new.due.as_millis())
            .bind(wakes(new).map(|at| at.as_millis()))
            .bind(i64::from(new.max_attempts))
            .bind(new.created.as_millis())
            .bind(tick.map(|tick| tick.schedule.as_str()))
            .bind(tick.map(|tick| tick.at.as_millis()))
            .bind(name(&new.status)?)
            .bind(i64::from(new.attempts))
            .bind(int(new.fence))
            .bind(new.error.as_ref().map(|error| error.replace('\0', "")))
            .bind(new.result.as_ref().map(text).transpose()?)
            .bind(new.ended.map(|at| at.as_millis()));
        if let Some(row) = lent.row(sql).await? {
            return Ok(Enqueued::Added(job(&row, 0)?));
        }
        let sql = sqlx::query(concat!(
            "SELECT ",
            job_row!(),
            " FROM jobs WHERE tenant = $1 AND (id = $2 OR (queue = $3 AND key = $4) \
             OR (schedule = $5 AND tick = $6)) LIMIT 1"
        ));
        let sql = sql
            .bind(new.key.tenant.as_str())
            .bind(new.key.id.as_str())
            .bind(new.queue.as_str())
            .bind(new.idempotency_key.as_deref())
            .bind(tick.map(|tick| tick.schedule.as_str()))
            .bind(tick.map(|tick| tick.at.as_millis()));
        if let Some(row) = lent.row(sql).await? {
            return known_job(job(&row, 0)?, &new.queue, &new.payload);
        }
    }
    let cause = std::io::Error::other("the job comes and goes");
    Err(StoreError::Unavailable { cause: Arc::new(cause) })
}

pub(super) async fn tenants(
    lent: &mut Lent<'_>,
    after: Option<&TenantId>,
    limit: u32,
) -> Result<Vec<TenantId>, StoreError> {
    let sql = sqlx::query(
        "SELECT tenant FROM jobs WHERE $1::text IS NULL OR tenant > $1 \
         UNION SELECT tenant FROM schedules WHERE $1 IS NULL OR tenant > $1 ORDER BY tenant LIMIT $2",
    );
    let sql = sql.bind(after.map(TenantId::as_str)).bind(i64::from(limit));
    lent.rows(sql).await?.iter().map(|row| id(row, 0)).collect()
}

pub(super) async fn take(lent: &mut Lent<'_>, take: &TakeJobs) -> Result<Vec<Job>, StoreError> {
    // Whatever another worker looks at at this moment is passed over.
    let sql = sqlx::query(
        "WITH due AS (\
            SELECT tenant, id, status = 'running' AND attempts >= max_attempts AS lost FROM jobs \
            WHERE wake <= $1 AND queue = ANY ($2) ORDER BY wake, tenant, id LIMIT $3 FOR UPDATE SKIP LOCKED\
         ), dead AS (\
            UPDATE jobs j SET status = 'dead', error = $4, ended = $1, wake = NULL, owner = NULL \
            FROM due WHERE due.lost AND j.tenant = due.tenant AND j.id = due.id\
         ) UPDATE jobs j SET status = 'running', attempts = j.attempts + 1, fence = j.fence + 1, owner = $5, wake = $6 \
         FROM due WHERE NOT due.lost AND j.tenant = due.tenant AND j.id = due.id \
         RETURNING j.tenant, j.id, j.queue, j.key, j.payload, j.status, j.due, j.wake, j.attempts, j.max_attempts, j.fence, \
         j.owner, j.error, j.result, j.created, j.ended, j.schedule, j.tick",
    );
    let sql = sql
        .bind(take.now.as_millis())
        .bind(&take.queues)
        .bind(i64::from(take.limit))
        .bind(LOST)
        .bind(take.owner.as_str())
        .bind(until(take.now, take.lease_ms));
    let rows = lent.rows(sql).await?;
    let mut jobs = rows.iter().map(|row| job(row, 0)).collect::<Result<Vec<_>, _>>()?;
    jobs.sort_by(|a, b| (a.due, &a.key).cmp(&(b.due, &b.key)));
    Ok(jobs)
}

/// What a change of a job that runs under a fence gave: the job, or why not.
async fn held(
    lent: &mut Lent<'_>,
    key: &JobKey,
    fence: u64,
    said: &[JobStatus],
    sql: Sql<'_>,
) -> Result<Job, StoreError> {
    if let Some(row) = lent.row(sql).await? {
        return job(&row, 0);
    }
    let job = read(lent, key).await?;
    if job.fence == fence && said.contains(&job.status) {
        return Ok(job);
    }
    Err(StoreError::Fenced { held: fence, current: job.fence })
}

pub(super) async fn prolong(
    lent: &mut Lent<'_>,
    key: &JobKey,
    fence: u64,
    lease_ms: u64,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = sqlx::query(concat!(
        "UPDATE jobs SET wake = $4 WHERE tenant = $1 AND id = $2 AND fence = $3 AND status = 'running' RETURNING ",
        job_row!()
    ));
    let sql = sql
        .bind(key.tenant.as_str())
        .bind(key.id.as_str())
        .bind(int(fence))
        .bind(until(now, lease_ms));
    held(lent, key, fence, &[], sql).await.map(drop)
}

pub(super) async fn finish(
    lent: &mut Lent<'_>,
    key: &JobKey,
    fence: u64,
    result: &Option<Json>,
    now: Timestamp,
) -> Result<Job, StoreError> {
    let sql = sqlx::query(concat!(
        "UPDATE jobs SET status = 'done', wake = NULL, owner = NULL, error = NULL, result = $4, ended = $5 \
         WHERE tenant = $1 AND id = $2 AND fence = $3 AND status = 'running' RETURNING ",
        job_row!()
    ));
    let sql = sql
        .bind(key.tenant.as_str())
        .bind(key.id.as_str())
        .bind(int(fence))
        .bind(result.as_ref().map(text).transpose()?)
        .bind(now.as_millis());
    held(lent, key, fence, &[JobStatus::Done], sql).await
}

pub(super) async fn fail(
    lent: &mut Lent<'_>,
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
    // `$5` is NULL when the job is not tried again whatever its attempts.
    let sql = sqlx::query(concat!(
        "UPDATE jobs SET error = $4, owner = NULL, \
         status = CASE WHEN $5::bigint IS NULL OR attempts >= max_attempts THEN 'dead' ELSE 'waiting' END, \
         due = CASE WHEN $5 IS NULL OR attempts >= max_attempts THEN due ELSE $5 END, \
         wake = CASE WHEN $5 IS NULL OR attempts >= max_attempts THEN NULL ELSE $5 END, \
         ended = CASE WHEN $5 IS NULL OR attempts >= max_attempts THEN $6::bigint END \
         WHERE tenant = $1 AND id = $2 AND fence = $3 AND status = 'running' RETURNING ",
        job_row!()
    ));
    let sql = sql
        .bind(key.tenant.as_str())
        .bind(key.id.as_str())
        .bind(int(fence))
        .bind(error.replace('\0', ""))
        .bind(due)
        .bind(now.as_millis());
    held(lent, key, fence, &[JobStatus::Waiting, JobStatus::Dead], sql).await
}

pub(super) async fn read(lent: &mut Lent<'_>, key: &JobKey) -> Result<Job, StoreError> {
    let sql =
        sqlx::query(concat!("SELECT ", job_row!(), " FROM jobs WHERE tenant = $1 AND id = $2"));
    let row = lent.row(sql.bind(key.tenant.as_str()).bind(key.id.as_str())).await?;
    job(&row.ok_or(NO_JOB)?, 0)
}

pub(super) async fn list(lent: &mut Lent<'_>, query: &JobQuery) -> Result<Page<Job>, StoreError> {
    let mut sql = QueryBuilder::<Postgres>::new("SELECT ");
    sql.push(JOB).push(" FROM jobs WHERE tenant = ").push_bind(query.tenant.as_str());
    if let Some(queue) = &query.queue {
        sql.push(" AND queue = ").push_bind(queue.as_str());
    }
    if let Some(status) = &query.status {
        sql.push(" AND status = ").push_bind(name(status)?);
    }
    if let Some(schedule) = &query.schedule {
        sql.push(" AND schedule = ").push_bind(schedule.as_str());
    }
    if let Some(after) = &query.after {
        sql.push(" AND (created, id) < (").push_bind(after.at.as_millis());
        sql.push(", ").push_bind(after.id.as_str()).push(")");
    }
    sql.push(" ORDER BY created DESC, id DESC LIMIT ").push_bind(i64::from(query.limit) + 1);
    let rows = lent.rows(sql.build()).await?;
    let jobs = rows.iter().map(|row| job(row, 0)).collect::<Result<Vec<_>, _>>()?;
    Ok(page(jobs, query.limit, |j| Cursor { at: j.created, id: j.key.id.to_string() }))
}

pub(super) async fn requeue(
    lent: &mut Lent<'_>,
    key: &JobKey,
    now: Timestamp,
) -> Result<Job, StoreError> {
    let sql = sqlx::query(concat!(
        "UPDATE jobs SET status = 'waiting', due = $3, wake = $3, attempts = 0, ended = NULL \
         WHERE tenant = $1 AND id = $2 AND status IN ('dead', 'cancelled') RETURNING ",
        job_row!()
    ));
    let sql = sql.bind(key.tenant.as_str()).bind(key.id.as_str()).bind(now.as_millis());
    if let Some(row) = lent.row(sql).await? {
        return job(&row, 0);
    }
    Err(stands(read(lent, key).await?))
}

fn stands(job: Job) -> StoreError {
    Conflict::JobStands { job: job.key.id, status: job.status }.into()
}

pub(super) async fn cancel(
    lent: &mut Lent<'_>,
    key: &JobKey,
    now: Timestamp,
) -> Result<Job, StoreError> {
    let sql = sqlx::query(concat!(
        "UPDATE jobs SET status = 'cancelled', ended = $3, wake = NULL, owner = NULL, fence = fence + 1 \
         WHERE tenant = $1 AND id = $2 AND status IN ('waiting', 'running') RETURNING ",
        job_row!()
    ));
    let sql = sql.bind(key.tenant.as_str()).bind(key.id.as_str()).bind(now.as_millis());
    match lent.row(sql).await? {
        Some(row) => job(&row, 0),
        None => read(lent, key).await,
    }
}

pub(super) async fn delete(lent: &mut Lent<'_>, key: &JobKey) -> Result<(), StoreError> {
    let sql = sqlx::query(
        "DELETE FROM jobs WHERE tenant = $1 AND id = $2 AND status NOT IN ('waiting', 'running') RETURNING 1",
    );
    match lent.row(sql.bind(key.tenant.as_str()).bind(key.id.as_str())).await? {
        Some(_) => Ok(()),
        None => Err(stands(read(lent, key).await?)),
    }
}

pub(super) async fn purge(
    lent: &mut Lent<'_>,
    before: Timestamp,
    limit: u32,
) -> Result<u64, StoreError> {
    let sql = sqlx::query(
        "WITH gone AS (DELETE FROM jobs WHERE (tenant, id) IN (SELECT tenant, id FROM jobs \
         WHERE status IN ('done', 'cancelled') AND ended < $1 LIMIT $2) RETURNING 1) SELECT count(*) FROM gone",
    );
    match lent.row(sql.bind(before.as_millis()).bind(i64::from(limit))).await? {
        Some(row) => Ok(get::<i64>(&row, 0)?.unsigned_abs()),
        None => Ok(0),
    }
}

pub(super) async fn depths(
    lent: &mut Lent<'_>,
    now: Timestamp,
) -> Result<Vec<QueueDepth>, StoreError> {
    let sql = sqlx::query(
        "SELECT queue, count(*) FILTER (WHERE status = 'waiting' AND due <= $1), \
         count(*) FILTER (WHERE status = 'waiting' AND due > $1), count(*) FILTER (WHERE status = 'running'), \
         count(*) FILTER (WHERE status = 'dead'), min(due) FILTER (WHERE status = 'waiting' AND due <= $1) \
         FROM jobs WHERE wake IS NOT NULL OR status = 'dead' GROUP BY queue ORDER BY queue",
    );
    let depth = |row: &PgRow| {
        Ok(QueueDepth {
            queue: row.text(0)?.to_owned(),
            ready: number(row, 1)?,
            later: number(row, 2)?,
            running: number(row, 3)?,
            dead: number(row, 4)?,
            oldest: row.maybe_int(5)?.map(Timestamp::from_millis),
        })
    };
    lent.rows(sql.bind(now.as_millis())).await?.iter().map(depth).collect()
}
