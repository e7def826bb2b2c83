//! Schedules.

use super::pool::Lent;
use super::rows::get;
use crate::error::StoreError;
use crate::model::{
    Advance, Advanced, NewSchedule, Page, Schedule, ScheduleKey, ScheduleQuery, ScheduleState, page,
};
use crate::sql::{int, name, number, schedule, text};
use crate::work::{new_schedule, place, waits_for};
use serde_json::json;
use turnbuckle_core::time::Timestamp;

const NO_SCHEDULE: StoreError = StoreError::NotFound { what: "schedule" };

/// The columns [`schedule`] reads, as part of other text.
macro_rules! schedule_row {
    () => {
        "tenant, id, cron, queue, payload, max_attempts, missed, state, next, last, revision, created, updated"
    };
}

pub(super) async fn put(lent: &mut Lent<'_>, new: &NewSchedule) -> Result<Schedule, StoreError> {
    let new = new_schedule(new.clone());
    let sql = sqlx::query(concat!(
        "INSERT INTO schedules AS s (tenant, id, cron, queue, payload, max_attempts, missed, state, next, created, updated) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10) ON CONFLICT (tenant, id) DO UPDATE SET \
         cron = excluded.cron, queue = excluded.queue, payload = excluded.payload, max_attempts = excluded.max_attempts, \
         missed = excluded.missed, state = excluded.state, next = excluded.next, updated = excluded.updated, \
         revision = s.revision + 1 RETURNING ",
        schedule_row!()
    ));
    let sql = sql
        .bind(new.key.tenant.as_str())
        .bind(new.key.id.as_str())
        .bind(text(&new.cron)?)
        .bind(new.queue.as_str())
        .bind(text(&new.payload)?)
        .bind(i64::from(new.max_attempts))
        .bind(text(&new.missed)?)
        .bind(name(&new.state)?)
        .bind(new.next.map(Timestamp::as_millis))
        .bind(new.created.as_millis());
    schedule(&lent.row(sql).await?.ok_or(NO_SCHEDULE)?, 0)
}

pub(super) async fn read(lent: &mut Lent<'_>, key: &ScheduleKey) -> Result<Schedule, StoreError> {
    let sql = sqlx::query(concat!(
        "SELECT ",
        schedule_row!(),
        " FROM schedules WHERE tenant = $1 AND id = $2"
    ));
    let row = lent.row(sql.bind(key.tenant.as_str()).bind(key.id.as_str())).await?;
    schedule(&row.ok_or(NO_SCHEDULE)?, 0)
}

pub(super) async fn list(
    lent: &mut Lent<'_>,
    query: &ScheduleQuery,
) -> Result<Page<Schedule>, StoreError> {
    let sql = sqlx::query(concat!(
        "SELECT ",
        schedule_row!(),
        " FROM schedules WHERE tenant = $1 AND ($2::text IS NULL OR id > $2) ORDER BY id LIMIT $3"
    ));
    let sql = sql
        .bind(query.tenant.as_str())
        .bind(query.after.as_ref().map(|after| after.id.as_str()))
        .bind(i64::from(query.limit) + 1);
    let rows = lent.rows(sql).await?;
    let all = rows.iter().map(|row| schedule(row, 0)).collect::<Result<Vec<_>, _>>()?;
    Ok(page(all, query.limit, place))
}

pub(super) async fn set_state(
    lent: &mut Lent<'_>,
    key: &ScheduleKey,
    state: ScheduleState,
    now: Timestamp,
) -> Result<Schedule, StoreError> {
    let mut known = read(lent, key).await?;
    while known.state != state {
        let sql = sqlx::query(concat!(
            "UPDATE schedules SET state = $1, next = $2, updated = $3, revision = revision + 1 \
             WHERE tenant = $4 AND id = $5 AND revision = $6 RETURNING ",
            schedule_row!()
        ));
        let sql = sql
            .bind(name(&state)?)
            .bind(waits_for(&known.cron, state, now).map(Timestamp::as_millis))
            .bind(now.as_millis())
            .bind(key.tenant.as_str())
            .bind(key.id.as_str())
            .bind(int(known.revision));
        known = match lent.row(sql).await? {
            Some(row) => return schedule(&row, 0),
            // Somebody changed it meanwhile.
            None => read(lent, key).await?,
        };
    }
    Ok(known)
}

pub(super) async fn delete(lent: &mut Lent<'_>, key: &ScheduleKey) -> Result<(), StoreError> {
    let sql = sqlx::query("DELETE FROM schedules WHERE tenant = $1 AND id = $2 RETURNING 1");
    let row = lent.row(sql.bind(key.tenant.as_str()).bind(key.id.as_str())).await?;
    row.map(drop).ok_or(NO_SCHEDULE)
}

pub(super) async fn due(
    lent: &mut Lent<'_>,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<Schedule>, StoreError> {
    let sql = sqlx::query(concat!(
        "SELECT ",
        schedule_row!(),
        " FROM schedules WHERE next <= $1 ORDER BY next, tenant, id LIMIT $2"
    ));
    let rows = lent.rows(sql.bind(now.as_millis()).bind(i64::from(limit))).await?;
    rows.iter().map(|row| schedule(row, 0)).collect()
}

pub(super) async fn advance(
    lent: &mut Lent<'_>,
    advance: &Advance,
) -> Result<Advanced, StoreError> {
    let mut jobs = Vec::with_capacity(advance.jobs.len());
    for new in &advance.jobs {
        jobs.push(json!({
            "id": new.key.id.as_str(),
            "queue": new.queue,
            "key": new.idempotency_key,
            "payload": text(&new.payload)?,
            "due": new.due.as_millis(),
            "max_attempts": new.max_attempts.max(1),
            "created": new.now.as_millis(),
            "tick": new.tick.as_ref().map(|tick| tick.at.as_millis()),
        }));
    }
    let sql = sqlx::query(
        "WITH s AS (\
            UPDATE schedules SET next = $1, last = coalesce($2, last) \
            WHERE tenant = $3 AND id = $4 AND revision = $5 AND next = $6 RETURNING tenant, id\
         ), j AS (\
            INSERT INTO jobs (tenant, id, queue, key, payload, due, wake, max_attempts, created, schedule, tick) \
            SELECT s.tenant, x.id, x.queue, x.key, x.payload, x.due, x.due, x.max_attempts, x.created, s.id, x.tick \
            FROM s, jsonb_to_recordset($7::text::jsonb) AS x (id text, queue text, key text, payload text, due bigint, \
            max_attempts bigint, created bigint, tick bigint) ON CONFLICT DO NOTHING RETURNING 1\
         ) SELECT EXISTS (SELECT 1 FROM s), (SELECT count(*) FROM j), \
           EXISTS (SELECT 1 FROM schedules WHERE tenant = $3 AND id = $4)",
    );
    let sql = sql
        .bind(advance.next.map(Timestamp::as_millis))
        .bind(advance.last().map(Timestamp::as_millis))
        .bind(advance.key.tenant.as_str())
        .bind(advance.key.id.as_str())
        .bind(int(advance.revision))
        .bind(advance.due.as_millis())
        .bind(text(&jobs)?);
    let row = lent.row(sql).await?.ok_or(NO_SCHEDULE)?;
    match (get::<bool>(&row, 0)?, get::<bool>(&row, 2)?) {
        (true, _) => Ok(Advanced::Made(u32::try_from(number(&row, 1)?).unwrap_or(u32::MAX))),
        (false, true) => Ok(Advanced::Elsewhere),
        (false, false) => Err(NO_SCHEDULE),
    }
}
