//! Tasks.

use schemars::JsonSchema;
use serde_json::{Value, json};
use turnbuckle::core::error::ToolError;
use turnbuckle::tool;
use turnbuckle::tool::{FnTool, ToolContext};

use super::approved::{Trial, tried};
use super::digest::{list_digest, list_summary, pick};
use super::forgive::forgiving;
use crate::agent::members::{acting, told};
use crate::caller::Caller;
use crate::desk::Desk;
use crate::error::DeskError;
use crate::query::{CompleteTask, CompletedTask, CreateTask, ListTasks, Priority, Task, TaskList};

const FACTS: &[(&str, &str)] = &[
    ("title", "title"),
    ("deadline", "deadline"),
    ("priority", "priority"),
    ("assignees", "assignees"),
    ("links", "links"),
    ("description", "description"),
];

pub(crate) fn list_tasks() -> FnTool {
    forgiving(list())
        .digest(|output| list_digest(output, "tasks", &["title"]))
        .summary(|output| list_summary(output, "tasks", "tasks", &["title"]))
}

/// Lists tasks the user may see, nearest deadline first: by words, priority, assignee, state and due date.
#[tool(name = "list_tasks", effect = "read_only", retention = "summary")]
async fn list(args: ListTasks, ctx: ToolContext) -> Result<TaskList, ToolError> {
    let (desk, caller) = acting(&ctx).await?;
    desk.list_tasks(&caller, &args).await.map_err(told)
}

pub(crate) fn create_task() -> FnTool {
    tried::<CreateTask>(create())
        .digest_args(|args| pick(args, FACTS))
        .digest(|output| pick(output, FACTS))
        .capture_mint(|args, index| {
            let mut minted = args.as_object().cloned().unwrap_or_default();
            minted.insert("id".to_owned(), json!(format!("task:temp_{index}")));
            Some(Value::Object(minted))
        })
}

/// What a person may change about a task before it is created.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its schema is read")]
struct TaskAmendment {
    /// What to do.
    title: String,
    /// More about it.
    description: String,
    /// By when, in words or as a date.
    deadline: String,
    /// How pressing it is.
    priority: Priority,
    /// Who is to do it.
    assignees: Vec<String>,
}

/// Creates a task, with a deadline in the user's words such as `tomorrow at 15:00` or `end of month`. A person approves
/// it first and may change it. Look for a task that says the same first.
#[tool(
    name = "create_task",
    effect = "idempotent",
    approval = "always",
    amendable = TaskAmendment,
    usage_notes = "Give the deadline as the user said it; it is read in their time zone. Link what the task is about."
)]
async fn create(args: CreateTask, ctx: ToolContext) -> Result<Task, ToolError> {
    let (desk, caller) = acting(&ctx).await?;
    desk.create_task(&caller, &args, Some(ctx.idempotency_key())).await.map_err(told)
}

impl Trial for CreateTask {
    async fn attempt(
        &self,
        desk: &Desk,
        caller: &Caller,
    ) -> Result<Vec<(&'static str, Value)>, DeskError> {
        let task = desk.try_create_task(caller, self).await?;
        // The person decides about a date, not about words that depend on when they are read.
        Ok(task.deadline.map(|deadline| ("deadline", json!(deadline))).into_iter().collect())
    }
}

pub(crate) fn complete_task() -> FnTool {
    forgiving(complete())
        .digest(|output| pick(output, &[("title", "task.title"), ("outcome", "outcome")]))
        .digest_args(|args| pick(args, &[("task", "task")]))
}

/// Marks a task as done.
#[tool(name = "complete_task", effect = "idempotent")]
async fn complete(args: CompleteTask, ctx: ToolContext) -> Result<CompletedTask, ToolError> {
    let (desk, caller) = acting(&ctx).await?;
    desk.complete_task(&caller, &args, Some(ctx.idempotency_key())).await.map_err(told)
}
