//! Writing mail: answers to a thread and new conversations, sent or kept as a draft. Sending writes
//! the message and its outbox row in one transaction.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sqlx::SqliteConnection;

use super::args::{stamp, text};
use super::attempt::Attempt;
use super::recipients::addresses;
use super::thread_update::{log, may_access, writable};
use super::words::ThreadStatus;
use super::{resolve, threads};
use crate::caller::{Caller, Right};
use crate::desk::Desk;
use crate::error::{DeskError, Result};
use crate::ids::{DraftId, Kind, MessageId, ThreadId};

/// The longest mail, in characters.
const MOST_BODY: usize = 20_000;

/// Whether a mail leaves or waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplyMode {
    /// It goes out.
    #[default]
    Send,
    /// It is kept as the caller's draft.
    Draft,
}

/// An answer to a thread.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplyToThread {
    /// The thread: id or unique subject.
    pub thread: String,
    /// The text, plain.
    pub body: String,
    /// Recipients: addresses or contacts; whoever wrote in last unless told.
    #[serde(default)]
    pub to: Option<Vec<String>>,
    /// Recipients in copy.
    #[serde(default)]
    pub cc: Option<Vec<String>>,
    /// Send it or keep it as a draft; sends unless told.
    #[serde(default)]
    pub mode: ReplyMode,
}

/// A mail that begins a thread.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartConversation {
    /// The inbox it is sent from: id, name or address.
    pub inbox: String,
    /// Recipients: addresses or contacts.
    pub to: Vec<String>,
    /// Recipients in copy.
    #[serde(default)]
    pub cc: Option<Vec<String>>,
    /// The subject.
    pub subject: String,
    /// The text, plain.
    pub body: String,
    /// Send it or keep it as a draft; sends unless told.
    #[serde(default)]
    pub mode: ReplyMode,
}

/// What became of the mail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentReply {
    /// Whether it was sent or kept.
    pub mode: ReplyMode,
    /// The thread it belongs to; a draft of a new conversation has none yet.
    pub thread: Option<ThreadId>,
    /// The message, when it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
    /// The draft, when it was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft: Option<DraftId>,
    /// The address it is sent from.
    pub from: String,
    /// Its recipients.
    pub to: Vec<String>,
    /// Its recipients in copy.
    pub cc: Vec<String>,
    /// Its subject.
    pub subject: String,
    /// Its text.
    pub body: String,
    /// When it was sent or kept.
    pub at: String,
}

/// A mail ready to be written.
struct Mail<'a> {
    thread: Option<i64>,
    inbox: i64,
    from: String,
    to: Vec<String>,
    cc: Vec<String>,
    subject: String,
    body: &'a str,
}

impl Desk {
    /// Answers a thread of an inbox the caller may write.
    ///
    /// # Errors
    /// When a recipient cannot be used, there is none, the thread is spam or trash, or the caller
    /// may not write the inbox.
    pub async fn reply_to_thread(
        &self,
        caller: &Caller,
        args: &ReplyToThread,
        idempotency_key: Option<&str>,
    ) -> Result<SentReply> {
        self.mail(caller, Asked::Reply(args), Attempt::Keep(idempotency_key)).await
    }

    /// What [`Desk::reply_to_thread`] would give, without writing anything.
    ///
    /// # Errors
    /// As [`Desk::reply_to_thread`].
    pub async fn try_reply_to_thread(
        &self,
        caller: &Caller,
        args: &ReplyToThread,
    ) -> Result<SentReply> {
        self.mail(caller, Asked::Reply(args), Attempt::Try).await
    }

    /// Begins a thread with a mail from an inbox the caller may write.
    ///
    /// # Errors
    /// When a recipient cannot be used, there is none, or the caller may not write the inbox.
    pub async fn start_conversation(
        &self,
        caller: &Caller,
        args: &StartConversation,
        idempotency_key: Option<&str>,
    ) -> Result<SentReply> {
        self.mail(caller, Asked::Conversation(args), Attempt::Keep(idempotency_key)).await
    }

    /// What [`Desk::start_conversation`] would give, without writing anything.
    ///
    /// # Errors
    /// As [`Desk::start_conversation`].
    pub async fn try_start_conversation(
        &self,
        caller: &Caller,
        args: &StartConversation,
    ) -> Result<SentReply> {
        self.mail(caller, Asked::Conversation(args), Attempt::Try).await
    }

    async fn mail(
        &self,
        caller: &Caller,
        asked: Asked<'_>,
        attempt: Attempt<'_>,
    ) -> Result<SentReply> {
        let action = asked.action();
        let mut tx = self.write().await?;
        if let Some(done) = attempt.earlier(&mut tx, caller, action).await? {
            return Ok(done);
        }
        let mail = match asked {
            Asked::Reply(args) => reply(&mut tx, caller, args).await?,
            Asked::Conversation(args) => opening(&mut tx, caller, args).await?,
        };
        let now = self.now();
        let sent = deliver(&mut tx, caller, mail, asked.mode(), action, now).await?;
        attempt.settle(tx, caller, action, &sent, now).await?;
        Ok(sent)
    }
}

/// Either kind of mail.
#[derive(Clone, Copy)]
enum Asked<'a> {
    Reply(&'a ReplyToThread),
    Conversation(&'a StartConversation),
}

impl Asked<'_> {
    /// Its name in the log and among the attempts.
    const fn action(self) -> &'static str {
        match self {
            Asked::Reply(_) => "reply_to_thread",
            Asked::Conversation(_) => "start_conversation",
        }
    }

    const fn mode(self) -> ReplyMode {
        match self {
            Asked::Reply(args) => args.mode,
            Asked::Conversation(args) => args.mode,
        }
    }
}

async fn reply<'a>(
    conn: &mut SqliteConnection,
    caller: &Caller,
    args: &'a ReplyToThread,
) -> Result<Mail<'a>> {
    let (id, inbox) = writable(conn, caller, &args.thread).await?;
    let body = text("body", &args.body, MOST_BODY)?;
    let thread = threads::row(conn, caller, id).await?;
    if matches!(thread.status, ThreadStatus::Spam | ThreadStatus::Trash) {
        let message = format!(
            "{} is in {}; set its status to open before answering",
            thread.id,
            thread.status.as_str()
        );
        return Err(DeskError::invalid("thread", message));
    }
    let to = match args.to.as_deref() {
        Some(entries) => addresses(conn, caller, "to", entries).await?,
        None => last_sender(conn, id).await?.into_iter().collect(),
    };
    let cc = addresses(conn, caller, "cc", args.cc.as_deref().unwrap_or_default()).await?;
    let subject = match thread.subject.get(..3) {
        Some(start) if start.eq_ignore_ascii_case("re:") => thread.subject.clone(),
        _ => format!("Re: {}", thread.subject),
    };
    let from = inbox_address(conn, inbox).await?;
    Ok(Mail { thread: Some(id), inbox, from, to, cc, subject, body })
}

async fn opening<'a>(
    conn: &mut SqliteConnection,
    caller: &Caller,
    args: &'a StartConversation,
) -> Result<Mail<'a>> {
    let inbox = resolve::one(conn, caller, Kind::Inbox, "inbox", &args.inbox).await?;
    caller.require(Right::WriteMail)?;
    let from = inbox_address(conn, inbox).await?;
    if !may_access(conn, caller.member.0, inbox, "write").await? {
        return Err(DeskError::forbidden(format!("send from {from}, only read its mail")));
    }
    let subject = text("subject", &args.subject, 300)?.to_owned();
    if subject.contains(['\n', '\r']) {
        return Err(DeskError::invalid("subject", "must be one line"));
    }
    let body = text("body", &args.body, MOST_BODY)?;
    let to = addresses(conn, caller, "to", &args.to).await?;
    let cc = addresses(conn, caller, "cc", args.cc.as_deref().unwrap_or_default()).await?;
    Ok(Mail { thread: None, inbox, from, to, cc, subject, body })
}

async fn inbox_address(conn: &mut SqliteConnection, inbox: i64) -> Result<String> {
    Ok(sqlx::query_scalar("SELECT address FROM inboxes WHERE id = ?")
        .bind(inbox)
        .fetch_one(conn)
        .await?)
}

/// Whoever wrote in last; where only the desk wrote so far, whoever it wrote to last.
async fn last_sender(conn: &mut SqliteConnection, thread: i64) -> Result<Vec<String>> {
    let sender: Option<String> = sqlx::query_scalar(
        "SELECT from_address FROM messages WHERE thread_id = ? AND direction = 'inbound'
         ORDER BY sent_at DESC, id DESC LIMIT 1",
    )
    .bind(thread)
    .fetch_optional(&mut *conn)
    .await?;
    if let Some(sender) = sender {
        return Ok(vec![sender]);
    }
    let to: Option<String> = sqlx::query_scalar(
        "SELECT to_addresses FROM messages WHERE thread_id = ? ORDER BY sent_at DESC, id DESC LIMIT 1",
    )
    .bind(thread)
    .fetch_optional(conn)
    .await?;
    to.map_or(Ok(Vec::new()), |to| Ok(serde_json::from_str(&to)?))
}

async fn new_thread(
    conn: &mut SqliteConnection,
    caller: &Caller,
    mail: &Mail<'_>,
    now: Timestamp,
) -> Result<i64> {
    let contact: Option<i64> = match mail.to.first() {
        Some(address) => {
            sqlx::query_scalar("SELECT id FROM contacts WHERE email = ?")
                .bind(address)
                .fetch_optional(&mut *conn)
                .await?
        }
        None => None,
    };
    let id = sqlx::query(
        "INSERT INTO threads (subject, inbox_id, status, assignee_id, contact_id, unread,
           message_count, created_at, last_message_at) VALUES (?, ?, 'open', ?, ?, 0, 0, ?, ?)",
    )
    .bind(&mail.subject)
    .bind(mail.inbox)
    .bind(caller.member.0)
    .bind(contact)
    .bind(now.as_second())
    .bind(now.as_second())
    .execute(conn)
    .await?
    .last_insert_rowid();
    Ok(id)
}

async fn deliver(
    conn: &mut SqliteConnection,
    caller: &Caller,
    mut mail: Mail<'_>,
    mode: ReplyMode,
    action: &'static str,
    now: Timestamp,
) -> Result<SentReply> {
    mail.cc.retain(|address| !mail.to.contains(address));
    let seconds = now.as_second();
    let (message, draft) = match mode {
        ReplyMode::Draft => (None, Some(DraftId(keep(conn, caller, &mail, seconds).await?))),
        ReplyMode::Send => {
            if mail.to.is_empty() {
                let message = "is empty; a mail needs a recipient to be sent";
                return Err(DeskError::invalid("to", message));
            }
            let thread = match mail.thread {
                Some(thread) => thread,
                None => new_thread(conn, caller, &mail, now).await?,
            };
            mail.thread = Some(thread);
            let message = send(conn, caller, &mail, thread, seconds).await?;
            let detail = serde_json::json!({ "message": MessageId(message), "to": mail.to });
            let change = (action, detail.to_string());
            log(conn, caller, (Kind::Thread, thread), (change.0, &change.1), seconds).await?;
            (Some(MessageId(message)), None)
        }
    };
    Ok(SentReply {
        mode,
        thread: mail.thread.map(ThreadId),
        message,
        draft,
        from: mail.from,
        to: mail.to,
        cc: mail.cc,
        subject: mail.subject,
        body: mail.body.to_owned(),
        at: stamp(seconds, &caller.zone),
    })
}

async fn keep(
    conn: &mut SqliteConnection,
    caller: &Caller,
    mail: &Mail<'_>,
    now: i64,
) -> Result<i64> {
    let id = sqlx::query(
        "INSERT INTO drafts (thread_id, inbox_id, author_id, subject, to_addresses, cc_addresses,
           body, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(mail.thread)
    .bind(mail.inbox)
    .bind(caller.member.0)
    .bind(&mail.subject)
    .bind(serde_json::to_string(&mail.to)?)
    .bind(serde_json::to_string(&mail.cc)?)
    .bind(mail.body)
    .bind(now)
    .execute(conn)
    .await?
    .last_insert_rowid();
    Ok(id)
}

async fn send(
    conn: &mut SqliteConnection,
    caller: &Caller,
    mail: &Mail<'_>,
    thread: i64,
    now: i64,
) -> Result<i64> {
    let name: String = sqlx::query_scalar("SELECT name FROM members WHERE id = ?")
        .bind(caller.member.0)
        .fetch_one(&mut *conn)
        .await?;
    let (to, cc) = (serde_json::to_string(&mail.to)?, serde_json::to_string(&mail.cc)?);
    let message = sqlx::query(
        "INSERT INTO messages (thread_id, direction, member_id, from_name, from_address,
           to_addresses, cc_addresses, subject, body, sent_at)
         VALUES (?, 'outbound', ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(thread)
    .bind(caller.member.0)
    .bind(name)
    .bind(&mail.from)
    .bind(&to)
    .bind(&cc)
    .bind(&mail.subject)
    .bind(mail.body)
    .bind(now)
    .execute(&mut *conn)
    .await?
    .last_insert_rowid();
    sqlx::query(
        "INSERT INTO outbox (message_id, from_address, to_addresses, cc_addresses, subject, body,
           state, queued_at) VALUES (?, ?, ?, ?, ?, ?, 'queued', ?)",
    )
    .bind(message)
    .bind(&mail.from)
    .bind(&to)
    .bind(&cc)
    .bind(&mail.subject)
    .bind(mail.body)
    .bind(now)
    .execute(&mut *conn)
    .await?;
    sqlx::query(
        "UPDATE threads SET message_count = message_count + 1, unread = 0,
           last_message_at = max(last_message_at, ?) WHERE id = ?",
    )
    .bind(now)
    .bind(thread)
    .execute(conn)
    .await?;
    Ok(message)
}
