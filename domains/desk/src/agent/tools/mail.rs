//! Reading mail. What customers write is untrusted, so these results put that label on the turn.

use serde_json::Value;
use turnbuckle::core::error::ToolError;
use turnbuckle::tool;
use turnbuckle::tool::{FnTool, ToolContext};

use super::digest::{list_digest, list_summary, pick};
use super::forgive::forgiving;
use crate::agent::members::{acting, told};
use crate::query::{
    DraftList, FindThreads, GetThread, ListDrafts, ListTags, TagList, ThreadDetail, ThreadList,
};

pub(crate) fn find_threads() -> FnTool {
    forgiving(threads())
        .digest(|output| list_digest(output, "threads", &["subject"]))
        .summary(|output| list_summary(output, "threads", "threads", &["subject"]))
}

/// Finds mail threads by filters; name at least one, and all that are named apply. Gives the page and how many match
/// in all, so it also counts.
#[tool(
    name = "find_threads",
    effect = "read_only",
    retention = "summary",
    taint = "untrusted",
    usage_notes = "Spam and trash are left out unless you ask for that status."
)]
async fn threads(args: FindThreads, ctx: ToolContext) -> Result<ThreadList, ToolError> {
    let (desk, caller) = acting(&ctx).await?;
    desk.find_threads(&caller, &args).await.map_err(told)
}

pub(crate) fn get_thread() -> FnTool {
    forgiving(thread())
        .digest(|output| {
            pick(
                output,
                &[
                    ("subject", "thread.subject"),
                    ("status", "thread.status"),
                    ("messages", "total_messages"),
                    ("last_sender", "thread.last_sender"),
                ],
            )
        })
        .summary(thread_summary)
}

fn thread_summary(output: &Value) -> Option<String> {
    let thread = output.get("thread")?;
    let text = |field: &str| thread.get(field).and_then(Value::as_str);
    let count = output.get("total_messages")?;
    Some(format!(
        "{} ({}), {}, {count} messages, the last from {}: {}",
        text("id")?,
        text("subject")?,
        text("status")?,
        text("last_sender")?,
        text("snippet")?,
    ))
}

/// Reads one mail thread: its state and its messages, the newest page unless told. Read a thread before you answer it
/// or speak about what it says.
#[tool(name = "get_thread", effect = "read_only", retention = "summary", taint = "untrusted")]
async fn thread(args: GetThread, ctx: ToolContext) -> Result<ThreadDetail, ToolError> {
    let (desk, caller) = acting(&ctx).await?;
    desk.get_thread(&caller, &args).await.map_err(told)
}

pub(crate) fn list_drafts() -> FnTool {
    forgiving(drafts())
        .digest(|output| list_digest(output, "drafts", &["subject"]))
        .summary(|output| list_summary(output, "drafts", "drafts", &["subject"]))
}

/// Lists the user's own unsent drafts. Drafts of others cannot be seen.
#[tool(name = "list_drafts", effect = "read_only", retention = "summary")]
async fn drafts(args: ListDrafts, ctx: ToolContext) -> Result<DraftList, ToolError> {
    let (desk, caller) = acting(&ctx).await?;
    desk.list_drafts(&caller, &args).await.map_err(told)
}

pub(crate) fn list_tags() -> FnTool {
    forgiving(tags())
        .digest(|output| list_digest(output, "items", &["name"]))
        .summary(|output| list_summary(output, "items", "tags", &["name"]))
}

/// Lists the tags threads can carry, when to use each, and how many open threads of the user have it.
#[tool(name = "list_tags", effect = "read_only", retention = "summary")]
async fn tags(args: ListTags, ctx: ToolContext) -> Result<TagList, ToolError> {
    let (desk, caller) = acting(&ctx).await?;
    desk.list_tags(&caller, &args).await.map_err(told)
}
