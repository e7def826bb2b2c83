//! Changing threads and sending mail. Nothing leaves without a person's word.

use schemars::JsonSchema;
use serde_json::{Value, json};
use turnbuckle::core::error::ToolError;
use turnbuckle::tool;
use turnbuckle::tool::{FnTool, ToolContext};

use super::approved::{Trial, tried};
use super::digest::pick;
use super::forgive::forgiving;
use crate::agent::members::{acting, told};
use crate::caller::Caller;
use crate::desk::Desk;
use crate::error::DeskError;
use crate::query::{
    ReplyMode, ReplyToThread, SentReply, StartConversation, ThreadUpdate, UpdateThread,
};

/// What became of a mail, for people.
const SENT: &[(&str, &str)] =
    &[("mode", "mode"), ("to", "to"), ("cc", "cc"), ("subject", "subject"), ("text", "body")];

pub(crate) fn update_thread() -> FnTool {
    forgiving(update())
        .digest(|output| pick(output, &[("subject", "thread.subject"), ("changes", "changes")]))
        .digest_args(|args| {
            pick(
                args,
                &[
                    ("thread", "thread"),
                    ("status", "status"),
                    ("assignee", "assignee"),
                    ("add_tags", "add_tags"),
                    ("remove_tags", "remove_tags"),
                ],
            )
        })
}

/// Changes a thread: its status, who takes care of it, its tags. Gives what became different. It can be undone by
/// another call and needs no approval.
#[tool(name = "update_thread", effect = "idempotent")]
async fn update(args: UpdateThread, ctx: ToolContext) -> Result<ThreadUpdate, ToolError> {
    let (desk, caller) = acting(&ctx).await?;
    desk.update_thread(&caller, &args, Some(ctx.idempotency_key())).await.map_err(told)
}

pub(crate) fn reply_to_thread() -> FnTool {
    tried::<ReplyToThread>(reply())
        .digest_args(|args| {
            pick(
                args,
                &[("mode", "mode"), ("thread", "thread"), ("to", "to"), ("cc", "cc"), ("text", "body")],
            )
        })
        .digest(|output| pick(output, SENT))
        .capture_mint(|args, index| {
            let given = |name: &str| args.get(name).cloned().unwrap_or_default();
            let mut minted = json!({
                "mode": args.get("mode").and_then(Value::as_str).unwrap_or("send"),
                "thread": given("thread"), "to": given("to"), "cc": given("cc"), "body": given("body"),
            });
            mint_mail(&mut minted, index);
            Some(minted)
        })
}

/// The predicted id of the message or the draft, where the real result has it.
fn mint_mail(minted: &mut Value, index: u32) {
    let kind =
        if minted.get("mode").is_some_and(|mode| mode == "draft") { "draft" } else { "message" };
    if let Some(map) = minted.as_object_mut() {
        map.insert(kind.to_owned(), json!(format!("{kind}:temp_{index}")));
    }
}

/// What a person may change about a reply before it leaves.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its schema is read")]
struct ReplyAmendment {
    /// The text, plain.
    body: String,
    /// Recipients: addresses or contacts.
    to: Vec<String>,
    /// Recipients in copy.
    cc: Vec<String>,
    /// Send it or keep it as a draft.
    mode: ReplyMode,
}

/// Answers a mail thread, or keeps the answer as a draft. A person approves it first and may change it. Write
/// a complete plain text with greeting and closing, and nothing that no source supports.
#[tool(
    name = "reply_to_thread",
    effect = "idempotent",
    approval = "always",
    amendable = ReplyAmendment,
    usage_notes = "Without `to` it goes to whoever wrote in last. Name no recipient the user did not name."
)]
async fn reply(args: ReplyToThread, ctx: ToolContext) -> Result<SentReply, ToolError> {
    let (desk, caller) = acting(&ctx).await?;
    desk.reply_to_thread(&caller, &args, Some(ctx.idempotency_key())).await.map_err(told)
}

impl Trial for ReplyToThread {
    async fn attempt(
        &self,
        desk: &Desk,
        caller: &Caller,
    ) -> Result<Vec<(&'static str, Value)>, DeskError> {
        let mail = desk.try_reply_to_thread(caller, self).await?;
        let mut settled = vec![("to", json!(mail.to)), ("mode", json!(mail.mode))];
        settled.extend(mail.thread.map(|thread| ("thread", json!(thread))));
        if self.cc.is_some() {
            settled.push(("cc", json!(mail.cc)));
        }
        Ok(settled)
    }
}

pub(crate) fn start_conversation() -> FnTool {
    tried::<StartConversation>(start())
        .digest_args(|args| {
            pick(
                args,
                &[
                    ("mode", "mode"),
                    ("from", "inbox"),
                    ("to", "to"),
                    ("cc", "cc"),
                    ("subject", "subject"),
                    ("text", "body"),
                ],
            )
        })
        .digest(|output| pick(output, SENT))
        .capture_mint(|args, index| {
            let given = |name: &str| args.get(name).cloned().unwrap_or_default();
            let mode = args.get("mode").and_then(Value::as_str).unwrap_or("send");
            let mut minted = json!({
                "mode": mode, "to": given("to"), "cc": given("cc"), "subject": given("subject"),
                "body": given("body"),
            });
            if let Some(map) = minted.as_object_mut()
                && mode == "send"
            {
                map.insert("thread".to_owned(), json!(format!("thread:temp_{index}")));
            }
            mint_mail(&mut minted, index);
            Some(minted)
        })
}

/// What a person may change about a new conversation before it leaves.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its schema is read")]
struct ConversationAmendment {
    /// Recipients: addresses or contacts.
    to: Vec<String>,
    /// Recipients in copy.
    cc: Vec<String>,
    /// The subject.
    subject: String,
    /// The text, plain.
    body: String,
    /// Send it or keep it as a draft.
    mode: ReplyMode,
}

/// Begins a new mail thread from an inbox of the desk. A person approves it first and may change it. Look for an
/// existing thread with the same people first.
#[tool(
    name = "start_conversation",
    effect = "idempotent",
    approval = "always",
    amendable = ConversationAmendment
)]
async fn start(args: StartConversation, ctx: ToolContext) -> Result<SentReply, ToolError> {
    let (desk, caller) = acting(&ctx).await?;
    desk.start_conversation(&caller, &args, Some(ctx.idempotency_key())).await.map_err(told)
}

impl Trial for StartConversation {
    async fn attempt(
        &self,
        desk: &Desk,
        caller: &Caller,
    ) -> Result<Vec<(&'static str, Value)>, DeskError> {
        let mail = desk.try_start_conversation(caller, self).await?;
        let mut settled =
            vec![("inbox", json!(mail.from)), ("to", json!(mail.to)), ("mode", json!(mail.mode))];
        if self.cc.is_some() {
            settled.push(("cc", json!(mail.cc)));
        }
        Ok(settled)
    }
}
