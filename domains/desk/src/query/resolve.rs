//! From what was written to the one visible thing it means.
//!
//! Taken are a bare number, `slug:number`, and, within what the caller may see, an exact name, an
//! e-mail or another key of the kind; for members also "me" and a first name only one of them has.
//! Several matches are [`DeskError::Ambiguous`], none is [`DeskError::NotFound`] with what comes
//! near. What the caller may not see does not exist here: it is not found, does not make a name
//! ambiguous and is never a candidate.

use sqlx::{AssertSqlSafe, SqliteConnection};

use super::args::contains;
use crate::caller::{Caller, Right};
use crate::error::{Candidate, DeskError, MAX_CANDIDATES, Result};
use crate::ids::{Kind, MemberId, Reference};
use crate::phone::to_e164;

/// One row of a kind's source: `id, name, key1, key2, key3, detail`.
#[derive(sqlx::FromRow)]
struct Row {
    id: i64,
    name: String,
    detail: Option<String>,
}

/// The visible rows of a kind. `?1` is the caller, `?2` whether a right widens the view.
struct Source {
    rows: &'static str,
    /// Few enough that all of them may be offered when nothing comes near.
    small: bool,
}

/// The right without which a kind is closed altogether, and the one that widens it.
fn rights_for(kind: Kind) -> (Option<Right>, Option<Right>) {
    match kind {
        Kind::Thread | Kind::Message | Kind::Draft | Kind::Inbox => (Some(Right::ReadMail), None),
        Kind::Order | Kind::Refund => (Some(Right::ReadOrders), None),
        Kind::Task => (None, Some(Right::ManageTasks)),
        Kind::Article => (None, Some(Right::ReadInternalArticles)),
        Kind::Member | Kind::Group | Kind::Contact | Kind::Company | Kind::Tag | Kind::Note => {
            (None, None)
        }
    }
}

fn source(kind: Kind) -> Option<Source> {
    let (rows, small) = match kind {
        Kind::Member => (
            "SELECT id, name, email AS key1, slug AS key2,
                    substr(name, 1, instr(name || ' ', ' ') - 1) AS key3, email AS detail
             FROM members WHERE active = 1 AND ?1 <> 0 AND ?2 IN (0, 1)",
            true,
        ),
        Kind::Group => (
            "SELECT id, name, slug AS key1, NULL AS key2, NULL AS key3, slug AS detail FROM groups
             WHERE ?2 IN (0, 1) AND (visibility = 'open' OR id IN
                   (SELECT group_id FROM group_members WHERE member_id = ?1))",
            true,
        ),
        Kind::Contact => (
            "SELECT id, name, email AS key1, phone AS key2, NULL AS key3, email AS detail
             FROM contacts WHERE ?1 <> 0 AND ?2 IN (0, 1)",
            false,
        ),
        Kind::Company => (
            "SELECT id, name, domain AS key1, NULL AS key2, NULL AS key3, domain AS detail
             FROM companies WHERE ?1 <> 0 AND ?2 IN (0, 1)",
            false,
        ),
        Kind::Inbox => (
            "SELECT id, name, address AS key1, slug AS key2, NULL AS key3, address AS detail
             FROM inboxes WHERE ?2 IN (0, 1) AND id IN
                  (SELECT inbox_id FROM inbox_access WHERE member_id = ?1)",
            true,
        ),
        Kind::Tag => (
            "SELECT id, name, slug AS key1, NULL AS key2, NULL AS key3, NULL AS detail
             FROM tags WHERE ?1 <> 0 AND ?2 IN (0, 1)",
            true,
        ),
        Kind::Thread => (
            "SELECT id, subject AS name, NULL AS key1, NULL AS key2, NULL AS key3, status AS detail
             FROM threads WHERE ?2 IN (0, 1) AND inbox_id IN
                  (SELECT inbox_id FROM inbox_access WHERE member_id = ?1)",
            false,
        ),
        Kind::Order => (
            "SELECT id, number AS name, tracking_number AS key1, NULL AS key2, NULL AS key3,
                    status AS detail
             FROM orders WHERE ?1 <> 0 AND ?2 IN (0, 1)",
            false,
        ),
        Kind::Task => (
            "SELECT id, title AS name, NULL AS key1, NULL AS key2, NULL AS key3, priority AS detail
             FROM tasks WHERE ?2 = 1 OR created_by = ?1 OR id IN
                  (SELECT task_id FROM task_assignees WHERE member_id = ?1)",
            false,
        ),
        Kind::Article => (
            "SELECT id, title AS name, slug AS key1, NULL AS key2, NULL AS key3, slug AS detail
             FROM articles WHERE ?1 <> 0 AND (?2 = 1 OR audience = 'public')",
            false,
        ),
        Kind::Message | Kind::Draft | Kind::Note | Kind::Refund => return None,
    };
    Some(Source { rows, small })
}

/// The row of `kind` that `given` means to the caller.
pub(crate) async fn one(
    conn: &mut SqliteConnection,
    caller: &Caller,
    kind: Kind,
    field: &'static str,
    given: &str,
) -> Result<i64> {
    let (needed, wider) = rights_for(kind);
    if let Some(right) = needed {
        caller.require(right)?;
    }
    let wide = wider.is_some_and(|right| caller.rights.has(right));
    find(conn, caller.member.0, wide, kind, field, given).await
}

/// An active member, before there is a caller.
pub(crate) async fn any_member(conn: &mut SqliteConnection, given: &str) -> Result<MemberId> {
    // A deactivated member must be told so rather than not be found.
    let inactive: Option<(i64,)> =
        sqlx::query_as("SELECT id FROM members WHERE active = 0 AND (email = ?1 OR slug = ?1)")
            .bind(given.trim())
            .fetch_optional(&mut *conn)
            .await?;
    if let Some((id,)) = inactive {
        return Ok(MemberId(id));
    }
    find(conn, -1, false, Kind::Member, "member", given).await.map(MemberId)
}

async fn find(
    conn: &mut SqliteConnection,
    caller: i64,
    wide: bool,
    kind: Kind,
    field: &'static str,
    given: &str,
) -> Result<i64> {
    let Some(source) = source(kind) else {
        return Err(DeskError::invalid(field, format!("a {} has no name to look up", kind.slug())));
    };
    let Some(reference) = Reference::parse(given) else {
        return Err(DeskError::invalid(field, format!("is empty; name a {}", kind.slug())));
    };
    if let Some(other) = reference.kind().filter(|other| *other != kind) {
        let message =
            format!("{given:?} names a {}, but a {} is meant here", other.slug(), kind.slug());
        return Err(DeskError::invalid(field, message));
    }
    let scope = Scope { caller, wide, source };
    let name = match reference {
        Reference::Number { id, .. } => {
            let rows = scope.select(conn, "id = ?3", id, "").await?;
            return match rows.first() {
                Some(row) => Ok(row.id),
                None => Err(not_found(kind, given, Vec::new())),
            };
        }
        Reference::Name { name, .. } => name,
    };
    if kind == Kind::Member && caller > 0 && name.eq_ignore_ascii_case("me") {
        return Ok(caller);
    }
    let mut keys = vec![("name = ?3 OR key1 = ?3 OR key2 = ?3", name.clone())];
    if kind == Kind::Member {
        keys.push(("key3 = ?3 COLLATE NOCASE", name.clone()));
    }
    if kind == Kind::Contact
        && let Some(number) = to_e164(&name, None)
    {
        keys.push(("key2 = ?3", number));
    }
    for (condition, key) in keys {
        let rows = scope.select(conn, condition, key, "ORDER BY id LIMIT 10").await?;
        match rows.as_slice() {
            [] => {}
            [row] => return Ok(row.id),
            _ => {
                let candidates = candidates(kind, rows);
                return Err(DeskError::Ambiguous {
                    kind: kind.slug(),
                    given: short(given),
                    candidates,
                });
            }
        }
    }
    let near = scope.near(conn, &name).await?;
    Err(not_found(kind, given, candidates(kind, near)))
}

struct Scope {
    caller: i64,
    wide: bool,
    source: Source,
}

impl Scope {
    async fn select<'q, T>(
        &self,
        conn: &mut SqliteConnection,
        condition: &str,
        value: T,
        tail: &str,
    ) -> Result<Vec<Row>>
    where
        T: sqlx::Encode<'q, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite> + Send + 'q,
    {
        // Only constants of this file are put together here; values are bound.
        let sql =
            format!("SELECT id, name, detail FROM ({}) WHERE {condition} {tail}", self.source.rows);
        let rows = sqlx::query_as(AssertSqlSafe(sql))
            .bind(self.caller)
            .bind(i64::from(self.wide))
            .bind(value)
            .fetch_all(conn)
            .await?;
        Ok(rows)
    }

    async fn near(&self, conn: &mut SqliteConnection, name: &str) -> Result<Vec<Row>> {
        const LIKE: &str = "name LIKE ?3 ESCAPE '\\' OR key1 LIKE ?3 ESCAPE '\\'";
        const TAIL: &str = "ORDER BY name, id LIMIT 10";
        let rows = self.select(conn, LIKE, contains(name), TAIL).await?;
        if !rows.is_empty() {
            return Ok(rows);
        }
        let words = name.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 2);
        for word in words.take(3) {
            let rows = self.select(conn, LIKE, contains(word), TAIL).await?;
            if !rows.is_empty() {
                return Ok(rows);
            }
        }
        if self.source.small {
            return self.select(conn, "?3 <> ''", "any", TAIL).await;
        }
        Ok(Vec::new())
    }
}

fn candidates(kind: Kind, rows: Vec<Row>) -> Vec<Candidate> {
    rows.into_iter()
        .take(MAX_CANDIDATES)
        .map(|row| Candidate {
            id: format!("{}:{}", kind.slug(), row.id),
            name: row.name,
            detail: row.detail,
        })
        .collect()
}

fn not_found(kind: Kind, given: &str, candidates: Vec<Candidate>) -> DeskError {
    DeskError::NotFound { kind: kind.slug(), given: short(given), candidates }
}

fn short(given: &str) -> String {
    given.trim().chars().take(100).collect()
}
