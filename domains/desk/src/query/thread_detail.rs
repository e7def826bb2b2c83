//! One thread with its messages, a page at a time, the newest page first.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sqlx::SqliteConnection;

use super::args::{count, cut, limit, offset, stamp};
use super::words::{MessageDirection, stored};
use super::{ThreadRow, resolve, threads};
use crate::caller::Caller;
use crate::desk::Desk;
use crate::error::Result;
use crate::ids::{Kind, MessageId};

/// The longest body shown whole, in characters.
const MOST_BODY: usize = 4_000;

/// Which thread to read.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetThread {
    /// The thread: id or unique subject.
    pub thread: String,
    /// How many messages at most; 20 unless told, never more than 50.
    #[serde(default)]
    pub limit: Option<i64>,
    /// How many of the newest messages to pass over, to reach older ones.
    #[serde(default)]
    pub offset: Option<i64>,
}

/// One mail of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The message's id.
    pub id: MessageId,
    /// Which way it went.
    pub direction: MessageDirection,
    /// The sender's name.
    pub from_name: String,
    /// The sender's address.
    pub from_address: String,
    /// Its recipients.
    pub to: Vec<String>,
    /// Its recipients in copy.
    pub cc: Vec<String>,
    /// Its text, at most 4,000 characters.
    pub body: String,
    /// Whether the text was longer.
    pub body_cut: bool,
    /// When it was sent.
    pub sent_at: String,
}

/// A thread and a page of its messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadDetail {
    /// The thread.
    pub thread: ThreadRow,
    /// The page, oldest message first.
    pub messages: Vec<Message>,
    /// How many messages the thread has in all.
    pub total_messages: u64,
    /// The offset that shows the messages before these, when there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub older_offset: Option<u64>,
}

#[derive(sqlx::FromRow)]
struct StoredMessage {
    id: i64,
    direction: String,
    from_name: String,
    from_address: String,
    to_addresses: String,
    cc_addresses: String,
    body: String,
    sent_at: i64,
}

impl Desk {
    /// A thread the caller may read.
    ///
    /// # Errors
    /// When no readable thread answers to the reference.
    pub async fn get_thread(&self, caller: &Caller, args: &GetThread) -> Result<ThreadDetail> {
        let mut tx = self.read().await?;
        let id = resolve::one(&mut tx, caller, Kind::Thread, "thread", &args.thread).await?;
        let thread = threads::row(&mut tx, caller, id).await?;
        let (limit, offset) = (limit(args.limit, 20, 50), offset(args.offset));
        let messages = messages(&mut tx, caller, id, limit, offset).await?;
        let total_messages = thread.message_count;
        let reached = count(offset).saturating_add(u64::try_from(messages.len()).unwrap_or(0));
        let more = reached < total_messages && !messages.is_empty();
        Ok(ThreadDetail { thread, messages, total_messages, older_offset: more.then_some(reached) })
    }
}

async fn messages(
    conn: &mut SqliteConnection,
    caller: &Caller,
    thread: i64,
    limit: i64,
    offset: i64,
) -> Result<Vec<Message>> {
    let stored_rows: Vec<StoredMessage> = sqlx::query_as(
        "SELECT id, direction, from_name, from_address, to_addresses, cc_addresses, body, sent_at
         FROM messages WHERE thread_id = ? ORDER BY sent_at DESC, id DESC LIMIT ? OFFSET ?",
    )
    .bind(thread)
    .bind(limit)
    .bind(offset)
    .fetch_all(conn)
    .await?;
    stored_rows
        .into_iter()
        .rev()
        .map(|message| {
            let short = cut(&message.body, MOST_BODY).map(str::to_owned);
            Ok(Message {
                id: MessageId(message.id),
                direction: stored(&message.direction)?,
                from_name: message.from_name,
                from_address: message.from_address,
                to: serde_json::from_str(&message.to_addresses)?,
                cc: serde_json::from_str(&message.cc_addresses)?,
                body_cut: short.is_some(),
                body: short.unwrap_or(message.body),
                sent_at: stamp(message.sent_at, &caller.zone),
            })
        })
        .collect()
}
