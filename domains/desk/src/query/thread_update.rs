//! Changing a thread: its status, who takes care of it, its tags. All of a call happens or none.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sqlx::SqliteConnection;

use super::threads::{self, is_nobody};
use super::words::ThreadStatus;
use super::{ThreadRow, resolve};
use crate::caller::{Caller, Right};
use crate::db::idempotency;
use crate::desk::Desk;
use crate::error::{DeskError, Result};
use crate::ids::Kind;

/// What to change about a thread; at least one change must be named.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateThread {
    /// The thread: id or unique subject.
    pub thread: String,
    /// The new status.
    #[serde(default)]
    pub status: Option<ThreadStatus>,
    /// A member (id, e-mail, name), `me`, or `unassign`.
    #[serde(default)]
    pub assignee: Option<String>,
    /// Tags to put on: ids or names of existing tags.
    #[serde(default)]
    pub add_tags: Option<Vec<String>>,
    /// Tags to take off.
    #[serde(default)]
    pub remove_tags: Option<Vec<String>>,
}

/// One thing that became different.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// What: `status`, `assignee` or `tag`.
    pub field: String,
    /// What it was.
    pub from: Option<String>,
    /// What it is.
    pub to: Option<String>,
}

/// The thread after the call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadUpdate {
    /// The thread as it is now.
    pub thread: ThreadRow,
    /// What became different; empty when everything was so already.
    pub changes: Vec<Change>,
}

const ACTION: &str = "update_thread";

/// Whether a member may act in an inbox.
pub(crate) async fn may_access(
    conn: &mut SqliteConnection,
    member: i64,
    inbox: i64,
    level: &'static str,
) -> Result<bool> {
    // Whoever may write may read.
    let found: i64 = sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM inbox_access
           WHERE member_id = ?1 AND inbox_id = ?2 AND (level = ?3 OR ?3 = 'read'))",
    )
    .bind(member)
    .bind(inbox)
    .bind(level)
    .fetch_one(conn)
    .await?;
    Ok(found != 0)
}

/// A thread the caller may change, with its inbox.
pub(crate) async fn writable(
    conn: &mut SqliteConnection,
    caller: &Caller,
    given: &str,
) -> Result<(i64, i64)> {
    let id = resolve::one(conn, caller, Kind::Thread, "thread", given).await?;
    caller.require(Right::WriteMail)?;
    let (inbox, name): (i64, String) = sqlx::query_as(
        "SELECT i.id, i.name FROM threads t JOIN inboxes i ON i.id = t.inbox_id WHERE t.id = ?",
    )
    .bind(id)
    .fetch_one(&mut *conn)
    .await?;
    if !may_access(conn, caller.member.0, inbox, "write").await? {
        return Err(DeskError::forbidden(format!(
            "change threads of the inbox {name}, only read them"
        )));
    }
    Ok((id, inbox))
}

/// Records who did what.
pub(crate) async fn log(
    conn: &mut SqliteConnection,
    caller: &Caller,
    (kind, id): (Kind, i64),
    (action, detail): (&str, &str),
    now: i64,
) -> Result<()> {
    sqlx::query(
        "INSERT INTO activity (kind, target_id, member_id, action, detail, at) VALUES (?, ?, ?, ?, ?, ?)",
    )
    .bind(kind.slug())
    .bind(id)
    .bind(caller.member.0)
    .bind(action)
    .bind(detail)
    .bind(now)
    .execute(conn)
    .await?;
    Ok(())
}

impl Desk {
    /// Changes a thread of an inbox the caller may write.
    ///
    /// # Errors
    /// When nothing is to change, something named does not exist, the assignee may not read the
    /// inbox, or the caller may not write it.
    pub async fn update_thread(
        &self,
        caller: &Caller,
        args: &UpdateThread,
        idempotency_key: Option<&str>,
    ) -> Result<ThreadUpdate> {
        let mut tx = self.write().await?;
        if let Some(done) = idempotency::earlier(&mut tx, caller, ACTION, idempotency_key).await? {
            return Ok(done);
        }
        let (id, inbox) = writable(&mut tx, caller, &args.thread).await?;
        let add = tag_ids(&mut tx, caller, "add_tags", args.add_tags.as_deref()).await?;
        let remove = tag_ids(&mut tx, caller, "remove_tags", args.remove_tags.as_deref()).await?;
        if let Some(both) = add.iter().find(|tag| remove.contains(tag)) {
            let message = format!("tag:{both} is in add_tags as well");
            return Err(DeskError::invalid("remove_tags", message));
        }
        if args.status.is_none() && args.assignee.is_none() && add.is_empty() && remove.is_empty() {
            return Err(DeskError::invalid_of(
                "changes",
                "none was named",
                ["status", "assignee", "add_tags", "remove_tags"],
            ));
        }
        let before = threads::row(&mut tx, caller, id).await?;
        if let Some(status) = args.status {
            sqlx::query("UPDATE threads SET status = ? WHERE id = ?")
                .bind(status.as_str())
                .bind(id)
                .execute(&mut *tx)
                .await?;
        }
        if let Some(given) = &args.assignee {
            let member = assignee(&mut tx, caller, given, inbox).await?;
            sqlx::query("UPDATE threads SET assignee_id = ? WHERE id = ?")
                .bind(member)
                .bind(id)
                .execute(&mut *tx)
                .await?;
        }
        for tag in add {
            sqlx::query("INSERT OR IGNORE INTO thread_tags (thread_id, tag_id) VALUES (?, ?)")
                .bind(id)
                .bind(tag)
                .execute(&mut *tx)
                .await?;
        }
        for tag in remove {
            sqlx::query("DELETE FROM thread_tags WHERE thread_id = ? AND tag_id = ?")
                .bind(id)
                .bind(tag)
                .execute(&mut *tx)
                .await?;
        }
        let now = self.now();
        let thread = threads::row(&mut tx, caller, id).await?;
        let changes = changes(&before, &thread);
        for change in &changes {
            let detail = serde_json::to_string(change)?;
            log(&mut tx, caller, (Kind::Thread, id), (ACTION, &detail), now.as_second()).await?;
        }
        let update = ThreadUpdate { thread, changes };
        idempotency::remember(&mut tx, caller, ACTION, idempotency_key, &update, now).await?;
        tx.commit().await?;
        Ok(update)
    }
}

async fn assignee(
    conn: &mut SqliteConnection,
    caller: &Caller,
    given: &str,
    inbox: i64,
) -> Result<Option<i64>> {
    if is_nobody(given.trim()) || given.trim().eq_ignore_ascii_case("unassign") {
        return Ok(None);
    }
    let member = resolve::one(conn, caller, Kind::Member, "assignee", given).await?;
    if !may_access(conn, member, inbox, "read").await? {
        let message = format!("member:{member} may not read the inbox of this thread");
        return Err(DeskError::invalid("assignee", message));
    }
    Ok(Some(member))
}

async fn tag_ids(
    conn: &mut SqliteConnection,
    caller: &Caller,
    field: &'static str,
    given: Option<&[String]>,
) -> Result<Vec<i64>> {
    let mut ids = Vec::new();
    for tag in given.unwrap_or_default() {
        let id = resolve::one(conn, caller, Kind::Tag, field, tag).await?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    Ok(ids)
}

fn changes(before: &ThreadRow, after: &ThreadRow) -> Vec<Change> {
    let mut changes = Vec::new();
    if before.status != after.status {
        changes.push(Change {
            field: "status".to_owned(),
            from: Some(before.status.as_str().to_owned()),
            to: Some(after.status.as_str().to_owned()),
        });
    }
    if before.assignee != after.assignee {
        let name = |row: &ThreadRow| row.assignee.as_ref().map(|member| member.name.clone());
        changes.push(Change { field: "assignee".to_owned(), from: name(before), to: name(after) });
    }
    let tag = |from: Option<&str>, to: Option<&str>| Change {
        field: "tag".to_owned(),
        from: from.map(str::to_owned),
        to: to.map(str::to_owned),
    };
    for gone in before.tags.iter().filter(|tag| !after.tags.contains(tag)) {
        changes.push(tag(Some(&gone.name), None));
    }
    for new in after.tags.iter().filter(|tag| !before.tags.contains(tag)) {
        changes.push(tag(None, Some(&new.name)));
    }
    changes
}
