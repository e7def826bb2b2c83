//! Schedules.

use crate::error::StoreError;
use crate::model::{
    Advance, Advanced, NewSchedule, Page, Schedule, ScheduleKey, ScheduleQuery, ScheduleState, page,
};
use crate::sql::{SCHEDULE, int, name, schedule, text};
use crate::sqlite::fail::failed;
use crate::sqlite::jobs::insert;
use crate::sqlite::link::{Link, Script};
use crate::work::{new_schedule, place, waits_for};
use turnbuckle_core::time::Timestamp;

const NO_SCHEDULE: StoreError = StoreError::NotFound { what: "schedule" };

pub(super) async fn put(link: &mut Link, new: NewSchedule) -> Result<Schedule, StoreError> {
    let new = new_schedule(new);
    let mut script = Script::new(
        "INSERT INTO schedules (tenant, id, cron, queue, payload, max_attempts, missed, state, next, created, updated) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10) ON CONFLICT (tenant, id) DO UPDATE SET \
         cron = excluded.cron, queue = excluded.queue, payload = excluded.payload, max_attempts = excluded.max_attempts, \
         missed = excluded.missed, state = excluded.state, next = excluded.next, updated = excluded.updated, \
         revision = revision + 1 RETURNING ",
    );
    script
        .add(SCHEDULE)
        .bind(new.key.tenant.as_str())?
        .bind(new.key.id.as_str())?
        .bind(text(&new.cron)?)?
        .bind(new.queue.as_str())?
        .bind(text(&new.payload)?)?
        .bind(i64::from(new.max_attempts))?
        .bind(text(&new.missed)?)?
        .bind(name(&new.state)?)?
        .bind(new.next.map(Timestamp::as_millis))?
        .bind(new.created.as_millis())?;
    let rows = link.run(script).await.map_err(failed)?;
    schedule(rows.first().ok_or(NO_SCHEDULE)?, 0)
}

pub(super) async fn read(link: &mut Link, key: &ScheduleKey) -> Result<Schedule, StoreError> {
    let mut script = Script::new("SELECT ");
    script.add(SCHEDULE).add(" FROM schedules WHERE tenant = ? AND id = ?");
    script.bind(key.tenant.as_str())?.bind(key.id.as_str())?;
    let rows = link.run(script).await.map_err(failed)?;
    schedule(rows.first().ok_or(NO_SCHEDULE)?, 0)
}

pub(super) async fn list(
    link: &mut Link,
    query: ScheduleQuery,
) -> Result<Page<Schedule>, StoreError> {
    let mut script = Script::new("SELECT ");
    script
        .add(SCHEDULE)
        .add(" FROM schedules WHERE tenant = ?1 AND (?2 IS NULL OR id > ?2) ORDER BY id LIMIT ?3")
        .bind(query.tenant.as_str())?
        .bind(query.after.as_ref().map(|after| after.id.as_str()))?
        .bind(i64::from(query.limit) + 1)?;
    let rows = link.run(script).await.map_err(failed)?;
    let all = rows.iter().map(|row| schedule(row, 0)).collect::<Result<Vec<_>, _>>()?;
    Ok(page(all, query.limit, place))
}

pub(super) async fn set_state(
    link: &mut Link,
    key: &ScheduleKey,
    state: ScheduleState,
    now: Timestamp,
) -> Result<Schedule, StoreError> {
    link.begin().await?;
    let result = change(link, key, state, now).await;
    link.finish(result).await
}

async fn change(
    link: &mut Link,
    key: &ScheduleKey,
    state: ScheduleState,
    now: Timestamp,
) -> Result<Schedule, StoreError> {
    let mut script = Script::new("SELECT ");
    script.add(SCHEDULE).add(" FROM schedules WHERE tenant = ? AND id = ?");
    script.bind(key.tenant.as_str())?.bind(key.id.as_str())?;
    let rows = link.step(script).await.map_err(failed)?;
    let known = schedule(rows.first().ok_or(NO_SCHEDULE)?, 0)?;
    if known.state == state {
        return Ok(known);
    }
    let mut script = Script::new(
        "UPDATE schedules SET state = ?, next = ?, updated = ?, revision = revision + 1 \
         WHERE tenant = ? AND id = ? RETURNING ",
    );
    script
        .add(SCHEDULE)
        .bind(name(&state)?)?
        .bind(waits_for(&known.cron, state, now).map(Timestamp::as_millis))?
        .bind(now.as_millis())?
        .bind(key.tenant.as_str())?
        .bind(key.id.as_str())?;
    let rows = link.step(script).await.map_err(failed)?;
    schedule(rows.first().ok_or(NO_SCHEDULE)?, 0)
}

pub(super) async fn delete(link: &mut Link, key: &ScheduleKey) -> Result<(), StoreError> {
    let mut script = Script::new("DELETE FROM schedules WHERE tenant = ? AND id = ? RETURNING 1");
    script.bind(key.tenant.as_str())?.bind(key.id.as_str())?;
    let rows = link.run(script).await.map_err(failed)?;
    rows.first().map(drop).ok_or(NO_SCHEDULE)
}

pub(super) async fn due(
    link: &mut Link,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<Schedule>, StoreError> {
    let mut script = Script::new("SELECT ");
    script
        .add(SCHEDULE)
        .add(" FROM schedules WHERE next <= ? ORDER BY next, tenant, id LIMIT ?")
        .bind(now.as_millis())?
        .bind(i64::from(limit))?;
    let rows = link.run(script).await.map_err(failed)?;
    rows.iter().map(|row| schedule(row, 0)).collect()
}

pub(super) async fn advance(link: &mut Link, advance: Advance) -> Result<Advanced, StoreError> {
    link.begin().await?;
    let result = move_on(link, advance).await;
    link.finish(result).await
}

async fn move_on(link: &mut Link, advance: Advance) -> Result<Advanced, StoreError> {
    let mut script = Script::new(
        "UPDATE schedules SET next = ?, last = coalesce(?, last) \
         WHERE tenant = ? AND id = ? AND revision = ? AND next = ? RETURNING 1",
    );
    script
        .bind(advance.next.map(Timestamp::as_millis))?
        .bind(advance.last().map(Timestamp::as_millis))?
        .bind(advance.key.tenant.as_str())?
        .bind(advance.key.id.as_str())?
        .bind(int(advance.revision))?
        .bind(advance.due.as_millis())?;
    if link.step(script).await.map_err(failed)?.is_empty() {
        let mut script = Script::new("SELECT 1 FROM schedules WHERE tenant = ? AND id = ?");
        script.bind(advance.key.tenant.as_str())?.bind(advance.key.id.as_str())?;
        let known = link.step(script).await.map_err(failed)?;
        return known.first().map(|_| Advanced::Elsewhere).ok_or(NO_SCHEDULE);
    }
    let mut made = 0;
    for new in &advance.jobs {
        let mut script = Script::default();
        insert(&mut script, new)?;
        made += u32::from(!link.step(script).await.map_err(failed)?.is_empty());
    }
    Ok(Advanced::Made(made))
}
