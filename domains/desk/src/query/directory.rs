//! Who works here: members and groups.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sqlx::{QueryBuilder, Sqlite};

use super::args::{Named, contains, count, filled, limit};
use super::words::{Role, stored};
use crate::caller::Caller;
use crate::desk::Desk;
use crate::error::Result;
use crate::ids::{GroupId, Kind, MemberId};

/// Which members to list.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ListMembers {
    /// Part of a name, e-mail or job title.
    pub query: Option<String>,
    /// Only members of this role.
    pub role: Option<Role>,
    /// How many at most; 20 unless told, never more than 50.
    pub limit: Option<i64>,
}

/// A member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemberRow {
    /// The member's id.
    pub id: MemberId,
    /// Full name.
    pub name: String,
    /// E-mail address.
    pub email: String,
    /// What they are to the desk.
    pub role: Role,
    /// Job title.
    pub title: String,
    /// Phone number in E.164.
    pub phone: Option<String>,
    /// Time zone.
    pub time_zone: String,
}

/// Members found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemberList {
    /// The page.
    pub items: Vec<MemberRow>,
    /// How many match in all.
    pub total: u64,
    /// What to try when none matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

/// Which groups to list.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ListGroups {
    /// Part of a name or description.
    pub query: Option<String>,
    /// How many at most; 20 unless told, never more than 50.
    pub limit: Option<i64>,
}

/// A group with its members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GroupRow {
    /// The group's id.
    pub id: GroupId,
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Who is in it.
    pub members: Vec<Named>,
}

/// Groups found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GroupList {
    /// The page.
    pub items: Vec<GroupRow>,
    /// How many match in all.
    pub total: u64,
    /// What to try when none matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

#[derive(sqlx::FromRow)]
struct StoredMember {
    id: i64,
    name: String,
    email: String,
    role: String,
    title: String,
    phone: Option<String>,
    time_zone: String,
    total: i64,
}

impl Desk {
    /// Active members by name. Open to every caller.
    ///
    /// # Errors
    /// When a filter is empty or the store fails.
    pub async fn list_members(&self, caller: &Caller, args: &ListMembers) -> Result<MemberList> {
        let _ = caller.member;
        let mut sql = QueryBuilder::<Sqlite>::new(
            "SELECT id, name, email, role, title, phone, time_zone, count(*) OVER () AS total
             FROM members WHERE active = 1",
        );
        if let Some(query) = filled("query", args.query.as_deref())? {
            let pattern = contains(query);
            sql.push(" AND (name LIKE ").push_bind(pattern.clone()).push(" ESCAPE '\\'");
            sql.push(" OR email LIKE ").push_bind(pattern.clone()).push(" ESCAPE '\\'");
            sql.push(" OR title LIKE ").push_bind(pattern).push(" ESCAPE '\\')");
        }
        if let Some(role) = args.role {
            sql.push(" AND role = ").push_bind(role.as_str());
        }
        sql.push(" ORDER BY name, id LIMIT ").push_bind(limit(args.limit, 20, 50));
        let mut tx = self.read().await?;
        let rows: Vec<StoredMember> = sql.build_query_as().fetch_all(&mut *tx).await?;
        let total = count(rows.first().map_or(0, |row| row.total));
        let items = rows
            .into_iter()
            .map(|row| {
                Ok(MemberRow {
                    id: MemberId(row.id),
                    name: row.name,
                    email: row.email,
                    role: stored(&row.role)?,
                    title: row.title,
                    phone: row.phone,
                    time_zone: row.time_zone,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let suggestion = items.is_empty().then(|| {
            "No active member matches; try a part of the name or list without filters. Customers \
             are contacts, not members."
                .to_owned()
        });
        Ok(MemberList { items, total, suggestion })
    }

    /// Groups by name: the open ones, and private ones the caller is in.
    ///
    /// # Errors
    /// When a filter is empty or the store fails.
    pub async fn list_groups(&self, caller: &Caller, args: &ListGroups) -> Result<GroupList> {
        let mut sql = QueryBuilder::<Sqlite>::new(
            "SELECT id, name, description, count(*) OVER () FROM groups
             WHERE (visibility = 'open' OR id IN (SELECT group_id FROM group_members WHERE member_id = ",
        );
        sql.push_bind(caller.member.0).push("))");
        if let Some(query) = filled("query", args.query.as_deref())? {
            let pattern = contains(query);
            sql.push(" AND (name LIKE ").push_bind(pattern.clone()).push(" ESCAPE '\\'");
            sql.push(" OR description LIKE ").push_bind(pattern).push(" ESCAPE '\\')");
        }
        sql.push(" ORDER BY name LIMIT ").push_bind(limit(args.limit, 20, 50));
        let mut tx = self.read().await?;
        let rows: Vec<(i64, String, String, i64)> =
            sql.build_query_as().fetch_all(&mut *tx).await?;
        let total = count(rows.first().map_or(0, |row| row.3));
        let mut items = Vec::with_capacity(rows.len());
        for (id, name, description, _) in rows {
            let members: Vec<(i64, String)> = sqlx::query_as(
                "SELECT m.id, m.name FROM group_members g JOIN members m ON m.id = g.member_id
                 WHERE g.group_id = ? AND m.active = 1 ORDER BY m.name, m.id",
            )
            .bind(id)
            .fetch_all(&mut *tx)
            .await?;
            let members =
                members.into_iter().map(|(id, name)| Named::new(Kind::Member, id, name)).collect();
            items.push(GroupRow { id: GroupId(id), name, description, members });
        }
        let suggestion = items
            .is_empty()
            .then(|| "No group you can see matches; list them without a query.".to_owned());
        Ok(GroupList { items, total, suggestion })
    }
}
