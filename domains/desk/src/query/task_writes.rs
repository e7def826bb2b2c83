//! Creating tasks, with a deadline in words, and completing them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::args::text;
use super::attempt::Attempt;
use super::thread_update::log;
use super::words::Priority;
use super::{Task, resolve};
use crate::caller::{Caller, Right};
use crate::db::idempotency;
use crate::deadline;
use crate::desk::Desk;
use crate::error::{DeskError, Result};
use crate::ids::{Kind, Reference};

/// A task to create.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateTask {
    /// What to do, at most 500 characters.
    pub title: String,
    /// More about it.
    #[serde(default)]
    pub description: Option<String>,
    /// By when, in words or as a date: `tomorrow`, `next friday`, `in 3 days`, `2026-12-01`.
    #[serde(default)]
    pub deadline: Option<String>,
    /// How pressing it is; normal unless told.
    #[serde(default)]
    pub priority: Option<Priority>,
    /// Who is to do it: ids, e-mails, names or `me`.
    #[serde(default)]
    pub assignees: Option<Vec<String>>,
    /// What it is about: ids of threads, orders, contacts or companies, such as `thread:12`.
    #[serde(default)]
    pub links: Option<Vec<String>>,
}

/// A task to complete.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompleteTask {
    /// The task: id or unique title.
    pub task: String,
}

/// Whether the call completed the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompleteOutcome {
    /// It was open and is done now.
    Completed,
    /// It was done before.
    AlreadyCompleted,
}

/// A task after it was completed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompletedTask {
    /// Whether this call did it.
    pub outcome: CompleteOutcome,
    /// The task.
    pub task: Task,
}

/// What a task may be about.
const LINKABLE: [Kind; 4] = [Kind::Thread, Kind::Order, Kind::Contact, Kind::Company];

impl Desk {
    /// Creates a task.
    ///
    /// # Errors
    /// When the deadline cannot be read or is over, something named does not exist, or without the
    /// right to write tasks.
    pub async fn create_task(
        &self,
        caller: &Caller,
        args: &CreateTask,
        idempotency_key: Option<&str>,
    ) -> Result<Task> {
        self.create_task_as(caller, args, Attempt::Keep(idempotency_key)).await
    }

    /// What [`Desk::create_task`] would give, without creating it.
    ///
    /// # Errors
    /// As [`Desk::create_task`].
    pub async fn try_create_task(&self, caller: &Caller, args: &CreateTask) -> Result<Task> {
        self.create_task_as(caller, args, Attempt::Try).await
    }

    async fn create_task_as(
        &self,
        caller: &Caller,
        args: &CreateTask,
        attempt: Attempt<'_>,
    ) -> Result<Task> {
        const ACTION: &str = "create_task";
        caller.require(Right::WriteTasks)?;
        let mut tx = self.write().await?;
        if let Some(done) = attempt.earlier(&mut tx, caller, ACTION).await? {
            return Ok(done);
        }
        let title = text("title", &args.title, 500)?;
        let description = match args.description.as_deref().map(str::trim) {
            None | Some("") => "",
            Some(given) => text("description", given, 10_000)?,
        };
        let now = self.now();
        let deadline = match args.deadline.as_deref() {
            None => None,
            Some(phrase) => {
                let read = deadline::parse(phrase, &now.to_zoned_datetime(caller.zone.clone()));
                Some(read.map_err(|error| {
                    DeskError::invalid_of("deadline", error.to_string(), deadline::EXAMPLES)
                })?)
            }
        };
        let mut assignees = Vec::new();
        for given in args.assignees.as_deref().unwrap_or_default() {
            let member = resolve::one(&mut tx, caller, Kind::Member, "assignees", given).await?;
            assignees.push(member);
        }
        let mut links = Vec::new();
        for given in args.links.as_deref().unwrap_or_default() {
            let kind = Reference::parse(given).and_then(|reference| reference.kind());
            let Some(kind) = kind.filter(|kind| LINKABLE.contains(kind)) else {
                return Err(DeskError::invalid_of(
                    "links",
                    format!("{given:?} does not say what it is the id of"),
                    LINKABLE.map(|kind| format!("{}:ID", kind.slug())),
                ));
            };
            links.push((kind, resolve::one(&mut tx, caller, kind, "links", given).await?));
        }
        let id = sqlx::query(
            "INSERT INTO tasks (title, description, priority, deadline, created_by, created_at)
             VALUES (?, ?, ?, ?, ?, ?)",
        )
        .bind(title)
        .bind(description)
        .bind(args.priority.unwrap_or(Priority::Normal).as_str())
        .bind(deadline.map(|at| at.as_second()))
        .bind(caller.member.0)
        .bind(now.as_second())
        .execute(&mut *tx)
        .await?
        .last_insert_rowid();
        for member in assignees {
            sqlx::query("INSERT OR IGNORE INTO task_assignees (task_id, member_id) VALUES (?, ?)")
                .bind(id)
                .bind(member)
                .execute(&mut *tx)
                .await?;
        }
        for (kind, target) in links {
            sqlx::query(
                "INSERT OR IGNORE INTO task_links (task_id, kind, target_id) VALUES (?, ?, ?)",
            )
            .bind(id)
            .bind(kind.slug())
            .bind(target)
            .execute(&mut *tx)
            .await?;
        }
        log(&mut tx, caller, (Kind::Task, id), (ACTION, "{}"), now.as_second()).await?;
        let task = self.task(&mut tx, caller, id).await?;
        attempt.settle(tx, caller, ACTION, &task, now).await?;
        Ok(task)
    }

    /// Completes a task the caller may see.
    ///
    /// # Errors
    /// When no visible task answers to the reference, or without the right to write tasks.
    pub async fn complete_task(
        &self,
        caller: &Caller,
        args: &CompleteTask,
        idempotency_key: Option<&str>,
    ) -> Result<CompletedTask> {
        const ACTION: &str = "complete_task";
        caller.require(Right::WriteTasks)?;
        let mut tx = self.write().await?;
        if let Some(done) = idempotency::earlier(&mut tx, caller, ACTION, idempotency_key).await? {
            return Ok(done);
        }
        let id = resolve::one(&mut tx, caller, Kind::Task, "task", &args.task).await?;
        let now = self.now();
        let changed = sqlx::query(
            "UPDATE tasks SET completed_at = ?, completed_by = ? WHERE id = ? AND completed_at IS NULL",
        )
        .bind(now.as_second())
        .bind(caller.member.0)
        .bind(id)
        .execute(&mut *tx)
        .await?
        .rows_affected();
        let outcome = match changed {
            0 => CompleteOutcome::AlreadyCompleted,
            _ => {
                log(&mut tx, caller, (Kind::Task, id), (ACTION, "{}"), now.as_second()).await?;
                CompleteOutcome::Completed
            }
        };
        let completed = CompletedTask { outcome, task: self.task(&mut tx, caller, id).await? };
        idempotency::remember(&mut tx, caller, ACTION, idempotency_key, &completed, now).await?;
        tx.commit().await?;
        Ok(completed)
    }
}
