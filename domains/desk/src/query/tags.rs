//! The tags threads may carry.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sqlx::{QueryBuilder, Sqlite};

use super::args::{contains, count, filled, limit};
use crate::caller::{Caller, Right};
use crate::desk::Desk;
use crate::error::Result;
use crate::ids::TagId;

/// Which tags to list.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ListTags {
    /// Part of a name or description.
    pub query: Option<String>,
    /// How many at most; 50 unless told, never more than 200.
    pub limit: Option<i64>,
}

/// A tag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagRow {
    /// The tag's id.
    pub id: TagId,
    /// Its name.
    pub name: String,
    /// Its color, as `#rrggbb`.
    pub color: String,
    /// When to use it.
    pub description: String,
    /// How many open threads the caller may read carry it.
    pub open_threads: u64,
}

/// Tags found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagList {
    /// The page, by name.
    pub items: Vec<TagRow>,
    /// How many match in all.
    pub total: u64,
    /// What to try when none matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

impl Desk {
    /// Tags by name, each with how much of the caller's open mail carries it.
    ///
    /// # Errors
    /// When a filter is empty, or without the right to read mail.
    pub async fn list_tags(&self, caller: &Caller, args: &ListTags) -> Result<TagList> {
        caller.require(Right::ReadMail)?;
        let mut sql = QueryBuilder::<Sqlite>::new(
            "SELECT g.id, g.name, g.color, g.description,
               (SELECT count(*) FROM thread_tags x JOIN threads t ON t.id = x.thread_id
                WHERE x.tag_id = g.id AND t.status = 'open' AND t.inbox_id IN
                  (SELECT inbox_id FROM inbox_access WHERE member_id = ",
        );
        sql.push_bind(caller.member.0).push(")), count(*) OVER () FROM tags g WHERE 1 = 1");
        if let Some(query) = filled("query", args.query.as_deref())? {
            let pattern = contains(query);
            sql.push(" AND (g.name LIKE ").push_bind(pattern.clone()).push(" ESCAPE '\\'");
            sql.push(" OR g.description LIKE ").push_bind(pattern).push(" ESCAPE '\\')");
        }
        sql.push(" ORDER BY g.name LIMIT ").push_bind(limit(args.limit, 50, 200));
        let mut tx = self.read().await?;
        let rows: Vec<(i64, String, String, String, i64, i64)> =
            sql.build_query_as().fetch_all(&mut *tx).await?;
        let total = count(rows.first().map_or(0, |row| row.5));
        let items: Vec<_> = rows
            .into_iter()
            .map(|(id, name, color, description, open, _)| TagRow {
                id: TagId(id),
                name,
                color,
                description,
                open_threads: count(open),
            })
            .collect();
        let suggestion = items
            .is_empty()
            .then(|| "No tag matches; list them without a query to see all.".to_owned());
        Ok(TagList { items, total, suggestion })
    }
}
