//! Finding threads. A search names at least one filter, every filter named narrows it, and one that
//! cannot be applied refuses the search: a count can never be of more than was asked for.

use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};

use super::args::{
    Named, Range, contains, count, excerpt, filled, limit, offset, past_range, stamp, terms,
};
use super::resolve;
use super::words::{Direction, ThreadStatus, stored};
use crate::caller::{Caller, Right};
use crate::desk::Desk;
use crate::error::{DeskError, Result};
use crate::ids::{Kind, ThreadId};

/// What threads are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ThreadSort {
    /// When the newest message came.
    #[default]
    LastMessage,
    /// When the thread began.
    Created,
    /// The subject's alphabet.
    Subject,
}

/// Which threads to find; at least one filter must be named, and all named ones apply.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FindThreads {
    /// Words that must all occur in the thread's subjects, bodies or sender names.
    pub query: Option<String>,
    /// Part of an e-mail address or name of someone who wrote in.
    pub sender: Option<String>,
    /// Only this status; without it, spam and trash are left out.
    pub status: Option<ThreadStatus>,
    /// A member (id, e-mail, name), `me`, or `unassigned`.
    pub assignee: Option<String>,
    /// The contact the thread is with: id, e-mail or name.
    pub contact: Option<String>,
    /// Tags the thread must all carry: ids or names.
    pub tags: Option<Vec<String>>,
    /// The inbox: id, name or address.
    pub inbox: Option<String>,
    /// Newest message on or after this date (2026-11-20) or time.
    pub after: Option<String>,
    /// Newest message before this date (that day not included) or time.
    pub before: Option<String>,
    /// How many at most; 10 unless told, never more than 25.
    pub limit: Option<i64>,
    /// How many to pass over, for the pages after the first.
    pub offset: Option<i64>,
    /// What to sort by; the newest message unless told.
    pub sort_by: Option<ThreadSort>,
    /// Which end first; newest first unless told (subjects: a to z).
    pub sort_direction: Option<Direction>,
}

/// A thread in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadRow {
    /// The thread's id.
    pub id: ThreadId,
    /// Its subject.
    pub subject: String,
    /// Where it stands.
    pub status: ThreadStatus,
    /// The inbox it came to.
    pub inbox: Named,
    /// Who takes care of it.
    pub assignee: Option<Named>,
    /// The contact it is with.
    pub contact: Option<Named>,
    /// The order it is about, when the caller may read orders.
    pub order: Option<Named>,
    /// Its tags by name.
    pub tags: Vec<Named>,
    /// Whether its newest message is unread.
    pub unread: bool,
    /// How many messages it has.
    pub message_count: u64,
    /// Who wrote the newest message.
    pub last_sender: String,
    /// How the newest message begins.
    pub snippet: String,
    /// When it began.
    pub created_at: String,
    /// When the newest message came.
    pub last_message_at: String,
}

/// Threads found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadList {
    /// The page.
    pub threads: Vec<ThreadRow>,
    /// How many match in all.
    pub total: u64,
    /// The offset of the next page, when there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// What to try when none matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

/// The arguments after everything in them was looked up.
struct Filter<'a> {
    caller: &'a Caller,
    terms: Vec<String>,
    sender: Option<String>,
    status: Option<ThreadStatus>,
    assignee: Option<Assignee>,
    contact: Option<i64>,
    tags: Vec<i64>,
    inbox: Option<i64>,
    range: Range,
}

enum Assignee {
    Nobody,
    Member(i64),
}

impl Desk {
    /// Threads of the inboxes the caller may read.
    ///
    /// # Errors
    /// Without any filter, with a filter that is empty or unknown, or without the right to read mail.
    pub async fn find_threads(&self, caller: &Caller, args: &FindThreads) -> Result<ThreadList> {
        caller.require(Right::ReadMail)?;
        if !names_a_filter(args) {
            return Err(DeskError::invalid_of(
                "filters",
                "none was named, and all threads of the desk are no answer to anything",
                [
                    "query", "sender", "status", "assignee", "contact", "tags", "inbox", "after",
                    "before",
                ],
            ));
        }
        let mut tx = self.read().await?;
        let filter = self.thread_filter(&mut tx, caller, args).await?;

        let mut counting = QueryBuilder::<Sqlite>::new("SELECT count(*) FROM threads t WHERE ");
        filter.push(&mut counting);
        let total: i64 = counting.build_query_scalar().fetch_one(&mut *tx).await?;

        let (limit, offset) = (limit(args.limit, 10, 25), offset(args.offset));
        let mut paging = QueryBuilder::<Sqlite>::new("SELECT t.id FROM threads t WHERE ");
        filter.push(&mut paging);
        let sort = args.sort_by.unwrap_or_default();
        let (column, usual) = match sort {
            ThreadSort::LastMessage => ("t.last_message_at", Direction::Desc),
            ThreadSort::Created => ("t.created_at", Direction::Desc),
            ThreadSort::Subject => ("t.subject", Direction::Asc),
        };
        let direction = args.sort_direction.unwrap_or(usual).as_str();
        paging.push(format_args!(" ORDER BY {column} {direction}, t.id {direction} LIMIT "));
        paging.push_bind(limit).push(" OFFSET ").push_bind(offset);
        let ids: Vec<i64> = paging.build_query_scalar().fetch_all(&mut *tx).await?;

        let threads = rows(&mut tx, caller, &ids).await?;
        let seen = offset.saturating_add(i64::try_from(ids.len()).unwrap_or(0));
        Ok(ThreadList {
            suggestion: suggestion(args, total, threads.is_empty()),
            next_offset: (seen < total && !threads.is_empty()).then(|| count(seen)),
            total: count(total),
            threads,
        })
    }

    async fn thread_filter<'a>(
        &self,
        conn: &mut SqliteConnection,
        caller: &'a Caller,
        args: &FindThreads,
    ) -> Result<Filter<'a>> {
        let terms = match filled("query", args.query.as_deref())? {
            Some(query) => terms("query", query)?,
            None => Vec::new(),
        };
        let sender = filled("sender", args.sender.as_deref())?.map(contains);
        let assignee = match filled("assignee", args.assignee.as_deref())? {
            None => None,
            Some(word) if is_nobody(word) => Some(Assignee::Nobody),
            Some(given) => Some(Assignee::Member(
                resolve::one(conn, caller, Kind::Member, "assignee", given).await?,
            )),
        };
        let contact = match filled("contact", args.contact.as_deref())? {
            None => None,
            Some(given) => Some(resolve::one(conn, caller, Kind::Contact, "contact", given).await?),
        };
        let inbox = match filled("inbox", args.inbox.as_deref())? {
            None => None,
            Some(given) => Some(resolve::one(conn, caller, Kind::Inbox, "inbox", given).await?),
        };
        let mut tags = Vec::new();
        if let Some(named) = &args.tags {
            if named.is_empty() {
                return Err(DeskError::invalid("tags", "is empty; leave it out or name a tag"));
            }
            for given in named {
                tags.push(resolve::one(conn, caller, Kind::Tag, "tags", given).await?);
            }
        }
        let (after, before) =
            (("after", args.after.as_deref()), ("before", args.before.as_deref()));
        let range = past_range(after, before, caller, self.now())?;
        Ok(Filter {
            caller,
            terms,
            sender,
            status: args.status,
            assignee,
            contact,
            tags,
            inbox,
            range,
        })
    }
}

/// Whether a word asks for threads nobody is assigned to.
pub(crate) fn is_nobody(word: &str) -> bool {
    matches!(word.to_ascii_lowercase().as_str(), "unassigned" | "nobody" | "none")
}

fn names_a_filter(args: &FindThreads) -> bool {
    // Spelled out in full, so that a new argument must be judged here.
    let FindThreads {
        query,
        sender,
        status,
        assignee,
        contact,
        tags,
        inbox,
        after,
        before,
        limit: _,
        offset: _,
        sort_by: _,
        sort_direction: _,
    } = args;
    let texts = [query, sender, assignee, contact, inbox, after, before];
    texts.iter().any(|text| text.is_some()) || status.is_some() || tags.is_some()
}

impl Filter<'_> {
    fn push(&self, sql: &mut QueryBuilder<Sqlite>) {
        sql.push("t.inbox_id IN (SELECT inbox_id FROM inbox_access WHERE member_id = ");
        sql.push_bind(self.caller.member.0).push(")");
        match self.status {
            Some(status) => sql.push(" AND t.status = ").push_bind(status.as_str()),
            None => sql.push(" AND t.status IN ('open', 'archived')"),
        };
        match self.assignee {
            None => {}
            Some(Assignee::Nobody) => {
                sql.push(" AND t.assignee_id IS NULL");
            }
            Some(Assignee::Member(member)) => {
                sql.push(" AND t.assignee_id = ").push_bind(member);
            }
        }
        for (column, value) in [
            ("t.contact_id = ", self.contact),
            ("t.inbox_id = ", self.inbox),
            ("t.last_message_at >= ", self.range.from),
            ("t.last_message_at < ", self.range.until),
        ] {
            if let Some(value) = value {
                sql.push(" AND ").push(column).push_bind(value);
            }
        }
        for tag in &self.tags {
            sql.push(" AND t.id IN (SELECT thread_id FROM thread_tags WHERE tag_id = ");
            sql.push_bind(*tag).push(")");
        }
        if let Some(pattern) = &self.sender {
            sql.push(
                " AND t.id IN (SELECT thread_id FROM messages WHERE direction = 'inbound'
                   AND (from_address LIKE ",
            );
            sql.push_bind(pattern.clone()).push(" ESCAPE '\\' OR from_name LIKE ");
            sql.push_bind(pattern.clone()).push(" ESCAPE '\\'))");
        }
        for term in &self.terms {
            // One word per sub-select: words may sit in different messages of a thread.
            sql.push(
                " AND t.id IN (SELECT m.thread_id FROM messages_text JOIN messages m
                   ON m.id = messages_text.rowid WHERE messages_text MATCH ",
            );
            sql.push_bind(format!("{term}*")).push(")");
        }
    }
}

fn suggestion(args: &FindThreads, total: i64, empty: bool) -> Option<String> {
    if !empty {
        return None;
    }
    if total > 0 {
        return Some(format!(
            "{total} threads match, but the offset lies beyond the last of them."
        ));
    }
    let mut hints = vec!["No thread you can read matches all of these filters"];
    if args.query.is_some() {
        hints.push("try fewer or other words in query");
    }
    if args.status.is_none() {
        hints.push("spam and trash were left out; name a status to look there");
    } else {
        hints.push("try without the status");
    }
    if args.after.is_some() || args.before.is_some() {
        hints.push("try a longer span of time");
    }
    Some(format!("{}.", hints.join("; ")))
}

#[derive(sqlx::FromRow)]
struct StoredThread {
    id: i64,
    subject: String,
    status: String,
    unread: i64,
    message_count: i64,
    created_at: i64,
    last_message_at: i64,
    inbox_id: i64,
    inbox_name: String,
    assignee_id: Option<i64>,
    assignee_name: Option<String>,
    contact_id: Option<i64>,
    contact_name: Option<String>,
    order_id: Option<i64>,
    order_number: Option<String>,
    last_sender: Option<String>,
    last_body: Option<String>,
}

const ROW: &str = "SELECT t.id, t.subject, t.status, t.unread, t.message_count, t.created_at, \
t.last_message_at, i.id AS inbox_id, i.name AS inbox_name, a.id AS assignee_id, \
a.name AS assignee_name, c.id AS contact_id, c.name AS contact_name, o.id AS order_id, \
o.number AS order_number, m.from_name AS last_sender, substr(m.body, 1, 400) AS last_body \
FROM threads t JOIN inboxes i ON i.id = t.inbox_id \
LEFT JOIN members a ON a.id = t.assignee_id \
LEFT JOIN contacts c ON c.id = t.contact_id \
LEFT JOIN orders o ON o.id = t.order_id \
LEFT JOIN messages m ON m.id = (SELECT id FROM messages WHERE thread_id = t.id \
ORDER BY sent_at DESC, id DESC LIMIT 1) WHERE t.id = ";

/// The rows of threads already known to be visible to the caller, in the order of the ids.
pub(crate) async fn rows(
    conn: &mut SqliteConnection,
    caller: &Caller,
    ids: &[i64],
) -> Result<Vec<ThreadRow>> {
    let mut rows = Vec::with_capacity(ids.len());
    for id in ids {
        rows.push(row(conn, caller, *id).await?);
    }
    Ok(rows)
}

/// One thread already known to be visible to the caller.
pub(crate) async fn row(
    conn: &mut SqliteConnection,
    caller: &Caller,
    id: i64,
) -> Result<ThreadRow> {
    let mut sql = QueryBuilder::<Sqlite>::new(ROW);
    sql.push_bind(id);
    let stored: StoredThread = sql.build_query_as().fetch_one(&mut *conn).await?;
    let tags: Vec<(i64, String)> = sqlx::query_as(
        "SELECT g.id, g.name FROM thread_tags x JOIN tags g ON g.id = x.tag_id
         WHERE x.thread_id = ? ORDER BY g.name",
    )
    .bind(id)
    .fetch_all(&mut *conn)
    .await?;
    to_row(stored, tags, caller, &caller.zone)
}

fn to_row(
    thread: StoredThread,
    tags: Vec<(i64, String)>,
    caller: &Caller,
    zone: &TimeZone,
) -> Result<ThreadRow> {
    let order = Named::maybe(Kind::Order, thread.order_id, thread.order_number);
    Ok(ThreadRow {
        id: ThreadId(thread.id),
        subject: thread.subject,
        status: stored(&thread.status)?,
        inbox: Named::new(Kind::Inbox, thread.inbox_id, thread.inbox_name),
        assignee: Named::maybe(Kind::Member, thread.assignee_id, thread.assignee_name),
        contact: Named::maybe(Kind::Contact, thread.contact_id, thread.contact_name),
        order: order.filter(|_| caller.rights.has(Right::ReadOrders)),
        tags: tags.into_iter().map(|(id, name)| Named::new(Kind::Tag, id, name)).collect(),
        unread: thread.unread != 0,
        message_count: count(thread.message_count),
        last_sender: thread.last_sender.unwrap_or_default(),
        snippet: excerpt(&thread.last_body.unwrap_or_default(), 160),
        created_at: stamp(thread.created_at, zone),
        last_message_at: stamp(thread.last_message_at, zone),
    })
}
