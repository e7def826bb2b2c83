//! Notes on records.

use serde_json::{Value, json};
use turnbuckle::core::error::ToolError;
use turnbuckle::tool;
use turnbuckle::tool::{FnTool, ToolContext};

use super::digest::{list_digest, list_summary, pick};
use super::forgive::forgiving;
use crate::agent::members::{acting, told};
use crate::query::{CreateNote, ListNotes, Note, NoteList};

pub(crate) fn list_notes() -> FnTool {
    forgiving(list())
        .digest(|output| list_digest(output, "items", &["body"]))
        .summary(|output| list_summary(output, "items", "notes", &["record"]))
}

/// Lists the internal notes on a thread, an order, a contact or a company, newest first.
#[tool(name = "list_notes", effect = "read_only", retention = "summary")]
async fn list(args: ListNotes, ctx: ToolContext) -> Result<NoteList, ToolError> {
    let (desk, caller) = acting(&ctx).await?;
    desk.list_notes(&caller, &args).await.map_err(told)
}

pub(crate) fn create_note() -> FnTool {
    forgiving(create())
        .digest(|output| pick(output, &[("record", "record"), ("text", "body")]))
        .digest_args(|args| pick(args, &[("record", "record"), ("text", "body")]))
        .capture_mint(|args, index| {
            let mut minted = args.as_object().cloned().unwrap_or_default();
            minted.insert("id".to_owned(), json!(format!("note:temp_{index}")));
            Some(Value::Object(minted))
        })
}

/// Writes an internal note on a thread, an order, a contact or a company. Customers never see it.
#[tool(name = "create_note", effect = "idempotent")]
async fn create(args: CreateNote, ctx: ToolContext) -> Result<Note, ToolError> {
    let (desk, caller) = acting(&ctx).await?;
    desk.create_note(&caller, &args, Some(ctx.idempotency_key())).await.map_err(told)
}
