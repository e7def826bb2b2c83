//! Background tasks.

use crate::error::StoreError;
use crate::model::{
    Cursor, Notified, Page, Post, SessionKey, Task, TaskEnded, TaskKey, TaskQuery, TaskStatus, page,
};
use crate::sql::{TASK, name, task, text};
use crate::sqlite::fail::failed;
use crate::sqlite::inbox::post_once;
use crate::sqlite::link::{Link, Script};
use crate::sqlite::rows::get;
use crate::work::{place_of, started, task_place};
use turnbuckle_core::json::Json;
use turnbuckle_core::pack::Packed;
use turnbuckle_core::time::Timestamp;

const NO_TASK: StoreError = StoreError::NotFound { what: "task" };

/// Records the tasks that events say were started.
pub(super) fn start(
    script: &mut Script,
    key: &SessionKey,
    events: &Packed,
) -> Result<(), StoreError> {
    for (event, call, kind, reference) in started(events) {
        script
            .add(
                "INSERT INTO tasks (tenant, kind, reference, place, session, turn, call, status, started) \
                 VALUES (?, ?, ?, ?, ?, ?, ?, 'running', ?) ON CONFLICT DO NOTHING;",
            )
            .bind(key.tenant.as_str())?
            .bind(kind)?
            .bind(reference)?
            .bind(place_of(kind, reference))?
            .bind(key.id.as_str())?
            .bind(event.turn.as_str())?
            .bind(call.as_str())?
            .bind(event.at.as_millis())?;
    }
    Ok(())
}

/// Writes a task of an imported session.
pub(super) fn put(script: &mut Script, task: &Task) -> Result<(), StoreError> {
    script
        .add(
            "INSERT INTO tasks (tenant, kind, reference, place, session, turn, call, status, detail, started, ended, notified) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING;",
        )
        .bind(task.key.tenant.as_str())?
        .bind(task.key.kind.as_str())?
        .bind(task.key.reference.as_str())?
        .bind(task_place(task).1)?
        .bind(task.session.as_str())?
        .bind(task.turn.as_str())?
        .bind(task.call.as_str())?
        .bind(name(&task.status)?)?
        .bind(text(&task.detail)?)?
        .bind(task.started.as_millis())?
        .bind(task.ended.map(Timestamp::as_millis))?
        .bind(task.notified.map(Timestamp::as_millis))?;
    Ok(())
}

pub(super) async fn end(
    link: &mut Link,
    key: &TaskKey,
    status: TaskStatus,
    detail: Json,
    now: Timestamp,
) -> Result<TaskEnded, StoreError> {
    let mut script = Script::transaction();
    script
        .add(
            "UPDATE tasks AS t SET status = ?4, detail = ?5, ended = ?6 \
             WHERE tenant = ?1 AND kind = ?2 AND reference = ?3 AND ended IS NULL AND ?4 <> 'running';\
             SELECT changes(), ",
        )
        .add(TASK)
        .add(" FROM tasks t WHERE tenant = ?1 AND kind = ?2 AND reference = ?3;")
        .bind(key.tenant.as_str())?
        .bind(key.kind.as_str())?
        .bind(key.reference.as_str())?
        .bind(name(&status)?)?
        .bind(text(&detail)?)?
        .bind(now.as_millis())?
        .end();
    let rows = link.run(script).await.map_err(failed)?;
    let row = rows.first().ok_or(NO_TASK)?;
    let task = task(row, 1)?;
    if get::<bool>(row, 0)? { Ok(TaskEnded::Now(task)) } else { Ok(TaskEnded::Before(task)) }
}

pub(super) async fn read(link: &mut Link, key: &TaskKey) -> Result<Task, StoreError> {
    let mut script = Script::new("SELECT ");
    script
        .add(TASK)
        .add(" FROM tasks t WHERE tenant = ? AND kind = ? AND reference = ?")
        .bind(key.tenant.as_str())?
        .bind(key.kind.as_str())?
        .bind(key.reference.as_str())?;
    let rows = link.run(script).await.map_err(failed)?;
    task(rows.first().ok_or(NO_TASK)?, 0)
}

pub(super) async fn list(link: &mut Link, query: TaskQuery) -> Result<Page<Task>, StoreError> {
    let mut script = Script::new("SELECT ");
    script.add(TASK).add(" FROM tasks t WHERE tenant = ?").bind(query.tenant.as_str())?;
    if let Some(session) = &query.session {
        script.add(" AND session = ?").bind(session.as_str())?;
    }
    if let Some(status) = &query.status {
        script.add(" AND status = ?").bind(name(status)?)?;
    }
    if let Some(after) = &query.after {
        script.add(" AND (started, place) < (?, ?)");
        script.bind(after.at.as_millis())?.bind(after.id.as_str())?;
    }
    script.add(" ORDER BY started DESC, place DESC LIMIT ?").bind(i64::from(query.limit) + 1)?;
    let rows = link.run(script).await.map_err(failed)?;
    let tasks = rows.iter().map(|row| task(row, 0)).collect::<Result<Vec<_>, _>>()?;
    Ok(page(tasks, query.limit, |task| {
        let (at, id) = task_place(task);
        Cursor { at, id }
    }))
}

pub(super) async fn due(link: &mut Link, limit: u32) -> Result<Vec<Task>, StoreError> {
    let mut script = Script::new("SELECT ");
    script
        .add(TASK)
        .add(
            " FROM tasks t JOIN sessions s ON s.id = t.session \
             WHERE t.ended IS NOT NULL AND t.notified IS NULL \
             AND s.turn IS NULL AND s.pending = 0 AND s.parked IS NULL \
             AND NOT EXISTS (SELECT 1 FROM tasks e WHERE e.session = t.session AND e.ended IS NOT NULL \
             AND e.notified IS NULL AND (e.ended, e.kind, e.reference) < (t.ended, t.kind, t.reference)) \
             ORDER BY t.ended, t.tenant, t.kind, t.reference LIMIT ?",
        )
        .bind(i64::from(limit))?;
    let rows = link.run(script).await.map_err(failed)?;
    rows.iter().map(|row| task(row, 0)).collect()
}

pub(super) async fn notify(
    link: &mut Link,
    key: &TaskKey,
    post: Post,
) -> Result<Notified, StoreError> {
    link.begin().await?;
    let result = notify_idle(link, key, post).await;
    link.finish(result).await
}

async fn notify_idle(link: &mut Link, key: &TaskKey, post: Post) -> Result<Notified, StoreError> {
    let mut script = Script::new(
        "SELECT t.ended IS NULL OR t.notified IS NOT NULL, s.turn IS NULL AND s.pending = 0 AND s.parked IS NULL \
         FROM tasks t JOIN sessions s ON s.id = t.session \
         WHERE t.tenant = ? AND t.kind = ? AND t.reference = ? AND s.id = ? AND s.tenant = ?",
    );
    script
        .bind(key.tenant.as_str())?
        .bind(key.kind.as_str())?
        .bind(key.reference.as_str())?
        .bind(post.key.id.as_str())?
        .bind(post.key.tenant.as_str())?;
    let rows = link.step(script).await.map_err(failed)?;
    let row = rows.first().ok_or(NO_TASK)?;
    if get::<bool>(row, 0)? {
        return Ok(Notified::NothingToTell);
    }
    if !get::<bool>(row, 1)? {
        return Ok(Notified::NotIdle);
    }
    let now = post.now;
    let receipt = post_once(link, post).await?;
    let mut script = Script::new(
        "UPDATE tasks SET notified = ? WHERE tenant = ? AND kind = ? AND reference = ?",
    );
    script
        .bind(now.as_millis())?
        .bind(key.tenant.as_str())?
        .bind(key.kind.as_str())?
        .bind(key.reference.as_str())?;
    link.step(script).await.map_err(failed)?;
    Ok(Notified::Posted(receipt))
}
