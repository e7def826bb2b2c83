//! The caller's own drafts. Drafts of others are nobody's business.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sqlx::{QueryBuilder, Sqlite};

use super::args::{Named, contains, count, excerpt, filled, limit, offset, stamp};
use super::resolve;
use crate::caller::{Caller, Right};
use crate::desk::Desk;
use crate::error::Result;
use crate::ids::{DraftId, Kind};

/// Which drafts to list.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ListDrafts {
    /// Part of a subject, text or recipient.
    pub query: Option<String>,
    /// Only drafts of this thread.
    pub thread: Option<String>,
    /// How many at most; 10 unless told, never more than 25.
    pub limit: Option<i64>,
    /// How many to pass over.
    pub offset: Option<i64>,
}

/// A draft.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DraftRow {
    /// The draft's id.
    pub id: DraftId,
    /// The thread it answers, if it answers one.
    pub thread: Option<Named>,
    /// The inbox it would be sent from.
    pub inbox: Named,
    /// Its subject.
    pub subject: String,
    /// Its recipients.
    pub to: Vec<String>,
    /// Its recipients in copy.
    pub cc: Vec<String>,
    /// How it begins.
    pub snippet: String,
    /// When it was last changed.
    pub updated_at: String,
}

/// Drafts found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DraftList {
    /// The page, newest first.
    pub drafts: Vec<DraftRow>,
    /// How many match in all.
    pub total: u64,
    /// What to try when none matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

#[derive(sqlx::FromRow)]
struct StoredDraft {
    id: i64,
    thread_id: Option<i64>,
    thread_subject: Option<String>,
    inbox_id: i64,
    inbox_name: String,
    subject: String,
    to_addresses: String,
    cc_addresses: String,
    body: String,
    updated_at: i64,
}

impl Desk {
    /// The caller's drafts in inboxes they may still read.
    ///
    /// # Errors
    /// When a filter is empty or unknown, or without the right to read mail.
    pub async fn list_drafts(&self, caller: &Caller, args: &ListDrafts) -> Result<DraftList> {
        caller.require(Right::ReadMail)?;
        let mut tx = self.read().await?;
        let thread = match filled("thread", args.thread.as_deref())? {
            None => None,
            Some(given) => {
                Some(resolve::one(&mut tx, caller, Kind::Thread, "thread", given).await?)
            }
        };
        let pattern = filled("query", args.query.as_deref())?.map(contains);
        let condition = |sql: &mut QueryBuilder<Sqlite>| {
            sql.push(" WHERE d.author_id = ").push_bind(caller.member.0);
            sql.push(" AND d.inbox_id IN (SELECT inbox_id FROM inbox_access WHERE member_id = ");
            sql.push_bind(caller.member.0).push(")");
            if let Some(thread) = thread {
                sql.push(" AND d.thread_id = ").push_bind(thread);
            }
            if let Some(pattern) = &pattern {
                sql.push(" AND (d.subject || ' ' || d.body || ' ' || d.to_addresses) LIKE ");
                sql.push_bind(pattern.clone()).push(" ESCAPE '\\'");
            }
        };
        let mut counting = QueryBuilder::<Sqlite>::new("SELECT count(*) FROM drafts d");
        condition(&mut counting);
        let total: i64 = counting.build_query_scalar().fetch_one(&mut *tx).await?;
        let mut sql = QueryBuilder::<Sqlite>::new(
            "SELECT d.id, d.thread_id, t.subject AS thread_subject, i.id AS inbox_id,
               i.name AS inbox_name, d.subject, d.to_addresses, d.cc_addresses, d.body, d.updated_at
             FROM drafts d JOIN inboxes i ON i.id = d.inbox_id
             LEFT JOIN threads t ON t.id = d.thread_id",
        );
        condition(&mut sql);
        sql.push(" ORDER BY d.updated_at DESC, d.id DESC LIMIT ");
        sql.push_bind(limit(args.limit, 10, 25)).push(" OFFSET ").push_bind(offset(args.offset));
        let rows: Vec<StoredDraft> = sql.build_query_as().fetch_all(&mut *tx).await?;
        let drafts = rows
            .into_iter()
            .map(|draft| {
                Ok(DraftRow {
                    id: DraftId(draft.id),
                    thread: Named::maybe(Kind::Thread, draft.thread_id, draft.thread_subject),
                    inbox: Named::new(Kind::Inbox, draft.inbox_id, draft.inbox_name),
                    subject: draft.subject,
                    to: serde_json::from_str(&draft.to_addresses)?,
                    cc: serde_json::from_str(&draft.cc_addresses)?,
                    snippet: excerpt(&draft.body, 200),
                    updated_at: stamp(draft.updated_at, &caller.zone),
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let suggestion = drafts.is_empty().then(|| {
            "You have no draft that matches; only your own drafts are listed here.".to_owned()
        });
        Ok(DraftList { drafts, total: count(total), suggestion })
    }
}
