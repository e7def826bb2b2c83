//! Who a session's user is at the desk, and what prompts say about people and places.
//!
//! Tools look the member up at each call, with the rights held at that moment. What the prompt says
//! comes from a [`Directory`] read at the start, since prompts are built without waiting: it never
//! decides what somebody may do, only what the model is told and offered.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sqlx::SqlitePool;
use turnbuckle::core::error::{ToolError, ToolErrorCode};
use turnbuckle::core::ids::UserId;
use turnbuckle::tool::ToolContext;

use crate::caller::{Caller, Right, Rights};
use crate::desk::Desk;
use crate::error::DeskError;
use crate::ids::{Kind, Reference};

/// Which member a session's user is. A user id that is not listed must be a member's e-mail address
/// or id (`member:4`); names are not taken, since a name proves nothing.
#[derive(Clone, Debug, Default)]
pub struct Users(BTreeMap<UserId, String>);

impl Users {
    /// No user is listed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lists a user: `member` is the e-mail address or the id of who they are.
    #[must_use]
    pub fn with(mut self, user: impl Into<UserId>, member: impl Into<String>) -> Self {
        self.0.insert(user.into(), member.into());
        self
    }

    /// The member's e-mail address or id.
    fn member<'a>(&'a self, user: &'a UserId) -> Option<&'a str> {
        let given = self.0.get(user).map_or(user.as_str(), String::as_str).trim();
        let id = || {
            matches!(
                Reference::parse(given),
                Some(Reference::Number { kind: Some(Kind::Member), .. })
            )
        };
        (given.contains('@') || id()).then_some(given)
    }
}

/// The desk a call works on and the member it works for.
///
/// # Errors
/// When the user is no active member.
pub(crate) async fn acting(ctx: &ToolContext) -> Result<(&Desk, Caller), ToolError> {
    let desk = ctx.resource::<Desk>()?;
    let users = ctx.resource::<Users>()?;
    let nobody = || {
        let text = format!(
            "This session runs for `{}`, who is no member of the desk, so nothing can be read or done here. \
             Tell the user to open a session as a member, by their e-mail address at the desk.",
            ctx.user()
        );
        ToolError::new(ToolErrorCode::Denied, text)
    };
    let member = users.member(ctx.user()).ok_or_else(nobody)?;
    match desk.caller(member).await {
        Ok(caller) => Ok((desk, caller)),
        // A stranger is not shown who the members are.
        Err(DeskError::NotFound { .. } | DeskError::Ambiguous { .. }) => Err(nobody()),
        Err(other) => Err(told(other)),
    }
}

/// A refusal of the desk as the model reads it.
pub(crate) fn told(error: DeskError) -> ToolError {
    let code = match &error {
        DeskError::NotFound { .. } | DeskError::Ambiguous { .. } | DeskError::Invalid { .. } => {
            ToolErrorCode::InvalidArguments
        }
        DeskError::Forbidden { .. } => ToolErrorCode::Denied,
        DeskError::Store(_) => ToolErrorCode::Failed,
    };
    ToolError::new(code, error.to_string())
}

/// A member, as far as prompts speak of them.
#[derive(Clone, Debug)]
pub(crate) struct Person {
    id: String,
    name: String,
    email: String,
    title: String,
    pub(crate) time_zone: String,
    pub(crate) rights: Rights,
    inboxes: Vec<Value>,
}

impl Person {
    /// What the prompt is told about who it acts for.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "id": self.id, "name": self.name, "email": self.email, "title": self.title,
            "time_zone": self.time_zone, "inboxes": self.inboxes,
        })
    }
}

/// People and catalogues, as they were when it was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Directory {
    people: Vec<Person>,
    /// Groups that everybody may know of, with what they are for.
    pub(crate) groups: Vec<(String, String)>,
    /// Tags, with when to use them.
    pub(crate) tags: Vec<(String, String)>,
    /// How many inboxes there are.
    pub(crate) inboxes: usize,
    /// Categories of public articles.
    pub(crate) categories: Vec<String>,
}

impl Directory {
    pub(crate) async fn read(pool: &SqlitePool) -> Result<Self, DeskError> {
        let members: Vec<(i64, String, String, String, String)> = sqlx::query_as(
            "SELECT id, name, email, title, time_zone FROM members WHERE active = 1 ORDER BY id",
        )
        .fetch_all(pool)
        .await?;
        let rights: Vec<(i64, String)> =
            sqlx::query_as("SELECT member_id, right FROM member_rights").fetch_all(pool).await?;
        // A member may hold both levels of an inbox, through two groups.
        let access: Vec<(i64, String, String, i64)> = sqlx::query_as(
            "SELECT a.member_id, i.name, i.address, max(a.level = 'write') FROM inbox_access a
             JOIN inboxes i ON i.id = a.inbox_id GROUP BY a.member_id, i.id ORDER BY i.id",
        )
        .fetch_all(pool)
        .await?;
        let groups = sqlx::query_as(
            "SELECT name, description FROM groups WHERE visibility = 'open' ORDER BY id",
        )
        .fetch_all(pool)
        .await?;
        let tags = sqlx::query_as("SELECT name, description FROM tags ORDER BY name")
            .fetch_all(pool)
            .await?;
        let inboxes: i64 =
            sqlx::query_scalar("SELECT count(*) FROM inboxes").fetch_one(pool).await?;
        let categories = sqlx::query_scalar(
            "SELECT DISTINCT category FROM articles WHERE audience = 'public' ORDER BY category",
        )
        .fetch_all(pool)
        .await?;
        let people = members.into_iter().map(|(id, name, email, title, time_zone)| {
            let held = rights.iter().filter(|(member, _)| *member == id);
            let rights = held.filter_map(|(_, word)| Right::from_word(word)).collect();
            let inboxes = access.iter().filter(|entry| entry.0 == id).map(|entry| {
                let level = if entry.3 == 1 { "write" } else { "read" };
                json!({"name": entry.1, "address": entry.2, "level": level})
            });
            let inboxes = inboxes.collect();
            Person { id: format!("member:{id}"), name, email, title, time_zone, rights, inboxes }
        });
        Ok(Self {
            people: people.collect(),
            groups,
            tags,
            inboxes: usize::try_from(inboxes).unwrap_or(0),
            categories,
        })
    }

    /// How many members there are.
    pub(crate) fn members(&self) -> usize {
        self.people.len()
    }

    /// The member a session's user is, if the directory has them.
    pub(crate) fn person(&self, users: &Users, user: &UserId) -> Option<&Person> {
        let given = users.member(user)?;
        let id = match Reference::parse(given) {
            Some(Reference::Number { id, .. }) => Some(format!("member:{id}")),
            _ => None,
        };
        self.people
            .iter()
            .find(|p| p.email.eq_ignore_ascii_case(given) || id.as_deref() == Some(p.id.as_str()))
    }
}

/// The right without which a tool is of no use to somebody.
pub(crate) fn right_for(tool: &str) -> Option<Right> {
    match tool {
        "find_threads" | "get_thread" | "list_drafts" | "list_tags" => Some(Right::ReadMail),
        "update_thread" | "reply_to_thread" | "start_conversation" => Some(Right::WriteMail),
        "create_task" | "complete_task" => Some(Right::WriteTasks),
        "find_orders" | "get_order" => Some(Right::ReadOrders),
        "refund_order" => Some(Right::RefundOrders),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_a_member_by_address_or_id_but_never_by_name() {
        let users = Users::new().with("local", "priya.raman@bramling.example");
        let member = |user: &str| users.member(&user.into()).map(str::to_owned);
        assert_eq!(member("local").as_deref(), Some("priya.raman@bramling.example"));
        assert_eq!(member("member:4").as_deref(), Some("member:4"));
        assert_eq!(member("a@b.example").as_deref(), Some("a@b.example"));
        for nobody in ["Priya Raman", "Tess", "7", "thread:4", ""] {
            assert_eq!(member(nobody), None, "{nobody}");
        }
    }
}
