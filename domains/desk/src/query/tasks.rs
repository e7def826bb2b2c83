//! Tasks the caller may see: those they created or are assigned to, and all with the right to
//! manage tasks. What a task links to is shown only as far as the caller may see it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};

use super::args::{Named, contains, count, filled, limit, offset, range, stamp};
use super::resolve;
use super::threads::is_nobody;
use super::words::{Priority, stored};
use crate::caller::{Caller, Right};
use crate::desk::Desk;
use crate::error::Result;
use crate::ids::{Kind, TaskId};

/// Which tasks by whether they are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Not done.
    #[default]
    Open,
    /// Done.
    Completed,
    /// Both.
    All,
}

/// Which tasks to list.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ListTasks {
    /// Part of a title or description.
    pub search: Option<String>,
    /// Only this priority.
    pub priority: Option<Priority>,
    /// A member (id, e-mail, name), `me`, or `unassigned`.
    pub assignee: Option<String>,
    /// Open ones unless told.
    pub state: TaskState,
    /// Deadline on or after this date or time; tasks without a deadline are left out.
    pub due_after: Option<String>,
    /// Deadline before this date (that day not included) or time.
    pub due_before: Option<String>,
    /// How many at most; 10 unless told, never more than 25.
    pub limit: Option<i64>,
    /// How many to pass over.
    pub offset: Option<i64>,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The task's id.
    pub id: TaskId,
    /// What to do.
    pub title: String,
    /// More about it.
    pub description: String,
    /// How pressing it is.
    pub priority: Priority,
    /// By when.
    pub deadline: Option<String>,
    /// Whether it is open and its deadline has passed.
    pub overdue: bool,
    /// Who is to do it.
    pub assignees: Vec<Named>,
    /// What it is about.
    pub links: Vec<Named>,
    /// Who created it.
    pub created_by: Named,
    /// When it was created.
    pub created_at: String,
    /// When it was done.
    pub completed_at: Option<String>,
}

/// Tasks found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskList {
    /// The page, nearest deadline first, then those without one.
    pub tasks: Vec<Task>,
    /// How many match in all.
    pub total: u64,
    /// The offset of the next page, when there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// What to try when none matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

#[derive(sqlx::FromRow)]
struct StoredTask {
    id: i64,
    title: String,
    description: String,
    priority: String,
    deadline: Option<i64>,
    created_by: i64,
    creator: String,
    created_at: i64,
    completed_at: Option<i64>,
}

impl Desk {
    /// Tasks the caller may see.
    ///
    /// # Errors
    /// When a filter is empty, unknown or impossible.
    pub async fn list_tasks(&self, caller: &Caller, args: &ListTasks) -> Result<TaskList> {
        let mut tx = self.read().await?;
        let search = filled("search", args.search.as_deref())?.map(contains);
        let assignee = match filled("assignee", args.assignee.as_deref())? {
            None => None,
            Some(word) if is_nobody(word) => Some(None),
            Some(given) => {
                Some(Some(resolve::one(&mut tx, caller, Kind::Member, "assignee", given).await?))
            }
        };
        let after = ("due_after", args.due_after.as_deref());
        let due = range(after, ("due_before", args.due_before.as_deref()), caller)?;
        let condition = |sql: &mut QueryBuilder<Sqlite>| {
            push_visible(sql, caller);
            match args.state {
                TaskState::Open => sql.push(" AND k.completed_at IS NULL"),
                TaskState::Completed => sql.push(" AND k.completed_at IS NOT NULL"),
                TaskState::All => sql,
            };
            if let Some(pattern) = &search {
                sql.push(" AND (k.title LIKE ").push_bind(pattern.clone());
                sql.push(" ESCAPE '\\' OR k.description LIKE ").push_bind(pattern.clone());
                sql.push(" ESCAPE '\\')");
            }
            if let Some(priority) = args.priority {
                sql.push(" AND k.priority = ").push_bind(priority.as_str());
            }
            match assignee {
                None => {}
                Some(None) => {
                    sql.push(" AND k.id NOT IN (SELECT task_id FROM task_assignees)");
                }
                Some(Some(member)) => {
                    sql.push(" AND k.id IN (SELECT task_id FROM task_assignees WHERE member_id = ");
                    sql.push_bind(member).push(")");
                }
            }
            if let Some(from) = due.from {
                sql.push(" AND k.deadline >= ").push_bind(from);
            }
            if let Some(until) = due.until {
                sql.push(" AND k.deadline < ").push_bind(until);
            }
        };
        let mut counting = QueryBuilder::<Sqlite>::new("SELECT count(*) FROM tasks k WHERE ");
        condition(&mut counting);
        let total: i64 = counting.build_query_scalar().fetch_one(&mut *tx).await?;
        let offset = offset(args.offset);
        let mut paging = QueryBuilder::<Sqlite>::new("SELECT k.id FROM tasks k WHERE ");
        condition(&mut paging);
        paging.push(" ORDER BY k.deadline IS NULL, k.deadline, k.id LIMIT ");
        paging.push_bind(limit(args.limit, 10, 25)).push(" OFFSET ").push_bind(offset);
        let ids: Vec<i64> = paging.build_query_scalar().fetch_all(&mut *tx).await?;
        let mut tasks = Vec::with_capacity(ids.len());
        for id in &ids {
            tasks.push(self.task(&mut tx, caller, *id).await?);
        }
        let seen = offset.saturating_add(i64::try_from(ids.len()).unwrap_or(0));
        let suggestion = tasks.is_empty().then(|| {
            let state = match args.state {
                TaskState::Open => {
                    "; completed tasks were left out, set state to all to include them"
                }
                TaskState::Completed | TaskState::All => "",
            };
            format!("No task you can see matches all of these filters{state}.")
        });
        Ok(TaskList {
            next_offset: (seen < total && !tasks.is_empty()).then(|| count(seen)),
            total: count(total),
            tasks,
            suggestion,
        })
    }

    /// One task already known to be visible to the caller.
    pub(crate) async fn task(
        &self,
        conn: &mut SqliteConnection,
        caller: &Caller,
        id: i64,
    ) -> Result<Task> {
        let task: StoredTask = sqlx::query_as(
            "SELECT k.id, k.title, k.description, k.priority, k.deadline, k.created_by,
               m.name AS creator, k.created_at, k.completed_at
             FROM tasks k JOIN members m ON m.id = k.created_by WHERE k.id = ?",
        )
        .bind(id)
        .fetch_one(&mut *conn)
        .await?;
        let assignees: Vec<(i64, String)> = sqlx::query_as(
            "SELECT m.id, m.name FROM task_assignees a JOIN members m ON m.id = a.member_id
             WHERE a.task_id = ? ORDER BY m.name, m.id",
        )
        .bind(id)
        .fetch_all(&mut *conn)
        .await?;
        let links = links(conn, caller, id).await?;
        let zone = &caller.zone;
        let late = task.deadline.is_some_and(|deadline| deadline < self.now().as_second());
        Ok(Task {
            id: TaskId(task.id),
            title: task.title,
            description: task.description,
            priority: stored(&task.priority)?,
            deadline: task.deadline.map(|at| stamp(at, zone)),
            overdue: late && task.completed_at.is_none(),
            assignees: assignees
                .into_iter()
                .map(|(id, name)| Named::new(Kind::Member, id, name))
                .collect(),
            links,
            created_by: Named::new(Kind::Member, task.created_by, task.creator),
            created_at: stamp(task.created_at, zone),
            completed_at: task.completed_at.map(|at| stamp(at, zone)),
        })
    }
}

fn push_visible(sql: &mut QueryBuilder<Sqlite>, caller: &Caller) {
    if caller.rights.has(Right::ManageTasks) {
        sql.push("1 = 1");
        return;
    }
    sql.push("(k.created_by = ").push_bind(caller.member.0);
    sql.push(" OR k.id IN (SELECT task_id FROM task_assignees WHERE member_id = ");
    sql.push_bind(caller.member.0).push("))");
}

async fn links(conn: &mut SqliteConnection, caller: &Caller, task: i64) -> Result<Vec<Named>> {
    let rows: Vec<(String, i64, Option<String>)> = sqlx::query_as(
        "SELECT l.kind, l.target_id, CASE l.kind
           WHEN 'thread' THEN (SELECT subject FROM threads t WHERE t.id = l.target_id AND ?2 = 1
             AND t.inbox_id IN (SELECT inbox_id FROM inbox_access WHERE member_id = ?3))
           WHEN 'order' THEN (SELECT number FROM orders WHERE id = l.target_id AND ?4 = 1)
           WHEN 'contact' THEN (SELECT name FROM contacts WHERE id = l.target_id)
           ELSE (SELECT name FROM companies WHERE id = l.target_id) END
         FROM task_links l WHERE l.task_id = ?1 ORDER BY l.kind, l.target_id",
    )
    .bind(task)
    .bind(i64::from(caller.rights.has(Right::ReadMail)))
    .bind(caller.member.0)
    .bind(i64::from(caller.rights.has(Right::ReadOrders)))
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .filter_map(|(kind, id, name)| Some(Named::new(Kind::from_word(&kind)?, id, name?)))
        .collect())
}
