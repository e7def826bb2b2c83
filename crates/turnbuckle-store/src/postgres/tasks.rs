//! Background tasks.

use super::inbox::repeated;
use super::pool::Lent;
use crate::error::StoreError;
use crate::model::{
    Cursor, InboxItem, Notified, Page, Post, Receipt, Task, TaskEnded, TaskKey, TaskQuery,
    TaskStatus, page,
};
use crate::sql::{Cells, TASK, item, name, number, task, text};
use crate::work::{place_of, started, task_place};
use serde_json::{Value, json};
use sqlx::{Postgres, QueryBuilder};
use turnbuckle_core::json::Json;
use turnbuckle_core::pack::{Packed, Whole};
use turnbuckle_core::time::Timestamp;

const NO_TASK: StoreError = StoreError::NotFound { what: "task" };

/// The columns [`task`] reads, as part of other text.
macro_rules! task_row {
    () => {
        "t.tenant, t.kind, t.reference, t.session, t.turn, t.call, t.status, t.detail, t.started, t.ended, t.notified"
    };
}
pub(super) use task_row;

/// The tasks that events say were started, as `commit_step` takes them.
pub(super) fn rows(events: &Packed) -> Vec<Value> {
    let row = |(event, call, kind, reference): (Whole<'_>, &turnbuckle_core::ids::CallId, _, _)| {
        json!({
            "kind": kind,
            "reference": reference,
            "place": place_of(kind, reference),
            "turn": event.turn.as_str(),
            "call": call.as_str(),
            "started": event.at.as_millis(),
        })
    };
    started(events).map(row).collect()
}

pub(super) async fn end(
    lent: &mut Lent<'_>,
    key: &TaskKey,
    status: TaskStatus,
    detail: &Json,
    now: Timestamp,
) -> Result<TaskEnded, StoreError> {
    if status != TaskStatus::Running {
        let sql = sqlx::query(concat!(
            "UPDATE tasks t SET status = $4, detail = $5, ended = $6 \
             WHERE tenant = $1 AND kind = $2 AND reference = $3 AND ended IS NULL RETURNING ",
            task_row!()
        ));
        let sql = sql
            .bind(key.tenant.as_str())
            .bind(key.kind.as_str())
            .bind(key.reference.as_str())
            .bind(name(&status)?)
            .bind(text(detail)?)
            .bind(now.as_millis());
        if let Some(row) = lent.row(sql).await? {
            return Ok(TaskEnded::Now(task(&row, 0)?));
        }
    }
    read(lent, key).await.map(TaskEnded::Before)
}

pub(super) async fn read(lent: &mut Lent<'_>, key: &TaskKey) -> Result<Task, StoreError> {
    let sql = sqlx::query(concat!(
        "SELECT ",
        task_row!(),
        " FROM tasks t WHERE tenant = $1 AND kind = $2 AND reference = $3"
    ));
    let sql = sql.bind(key.tenant.as_str()).bind(key.kind.as_str()).bind(key.reference.as_str());
    task(&lent.row(sql).await?.ok_or(NO_TASK)?, 0)
}

pub(super) async fn list(lent: &mut Lent<'_>, query: &TaskQuery) -> Result<Page<Task>, StoreError> {
    let mut sql = QueryBuilder::<Postgres>::new("SELECT ");
    sql.push(TASK).push(" FROM tasks t WHERE tenant = ").push_bind(query.tenant.as_str());
    if let Some(session) = &query.session {
        sql.push(" AND session = ").push_bind(session.as_str());
    }
    if let Some(status) = &query.status {
        sql.push(" AND status = ").push_bind(name(status)?);
    }
    if let Some(after) = &query.after {
        sql.push(" AND (started, place) < (").push_bind(after.at.as_millis());
        sql.push(", ").push_bind(after.id.as_str()).push(")");
    }
    sql.push(" ORDER BY started DESC, place DESC LIMIT ").push_bind(i64::from(query.limit) + 1);
    let rows = lent.rows(sql.build()).await?;
    let tasks = rows.iter().map(|row| task(row, 0)).collect::<Result<Vec<_>, _>>()?;
    Ok(page(tasks, query.limit, |task| {
        let (at, id) = task_place(task);
        Cursor { at, id }
    }))
}

pub(super) async fn due(lent: &mut Lent<'_>, limit: u32) -> Result<Vec<Task>, StoreError> {
    let sql = sqlx::query(concat!(
        "SELECT ",
        task_row!(),
        " FROM tasks t JOIN sessions s ON s.id = t.session \
         WHERE t.ended IS NOT NULL AND t.notified IS NULL \
         AND s.turn IS NULL AND s.pending = 0 AND s.parked IS NULL \
         AND NOT EXISTS (SELECT 1 FROM tasks e WHERE e.session = t.session AND e.ended IS NOT NULL \
         AND e.notified IS NULL AND (e.ended, e.kind, e.reference) < (t.ended, t.kind, t.reference)) \
         ORDER BY t.ended, t.tenant, t.kind, t.reference LIMIT $1"
    ));
    lent.rows(sql.bind(i64::from(limit))).await?.iter().map(|row| task(row, 0)).collect()
}

pub(super) async fn notify(
    lent: &mut Lent<'_>,
    key: &TaskKey,
    post: &Post,
) -> Result<Notified, StoreError> {
    if key.tenant != post.key.tenant {
        return Err(NO_TASK);
    }
    let sql = sqlx::query(
        "SELECT outcome, r_n, r_at, r_input FROM notify_task($1, $2, $3, $4, $5, $6, $7)",
    );
    let sql = sql
        .bind(key.tenant.as_str())
        .bind(key.kind.as_str())
        .bind(key.reference.as_str())
        .bind(post.key.id.as_str())
        .bind(post.now.as_millis())
        .bind(post.idempotency_key.as_deref())
        .bind(text(&post.input)?);
    let row = lent.row(sql).await?.ok_or(NO_TASK)?;
    match row.text(0)? {
        "accepted" => {
            let (n, at, input) = (number(&row, 1)?, post.now, post.input.clone());
            Ok(Notified::Posted(Receipt::Accepted(InboxItem { n, at, input })))
        }
        "duplicate" => repeated(post, item(&row, 1)?).map(Notified::Posted),
        "nothing" => Ok(Notified::NothingToTell),
        "busy" => Ok(Notified::NotIdle),
        _ => Err(NO_TASK),
    }
}
