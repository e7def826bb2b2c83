//! Sessions as a whole: create, list, rename, delete, fork.

use super::commit::{found_by, line, role};
use super::fail::{failed, refused};
use super::pool::Lent;
use super::rows::{get, session_row};
use crate::error::{Conflict, StoreError};
use crate::model::{
    Cursor, CutTurn, Fork, ForkAt, NewSession, Page, Session, SessionKey, SessionQuery, page,
};
use crate::sql::{Cells, SESSION_COLUMNS, id, json, name, number, session, text, time};
use crate::words::{self, Search};
use sqlx::{Postgres, QueryBuilder};
use turnbuckle_core::ids::{SessionId, TenantId, TurnId};
use turnbuckle_core::time::Timestamp;

pub(super) const NO_SESSION: StoreError = StoreError::NotFound { what: "session" };

pub(super) async fn create(
    lent: &mut Lent<'_>,
    new: &NewSession,
    forked_from: Option<&SessionId>,
) -> Result<Session, StoreError> {
    let title = new.title.as_deref().map(line);
    // An id that is or was in use gives no row, or breaks the primary key.
    let sql = sqlx::query(concat!(
        "WITH s AS (\
            INSERT INTO sessions (id, tenant, person, agent, title, title_folded, model, created, updated, forked_from) \
            SELECT $1, $2, $3, $4, $5, $6, $7, $8, $8, $9 \
            WHERE NOT EXISTS (SELECT 1 FROM deleted_sessions WHERE id = $1) RETURNING *\
         ), t AS (\
            INSERT INTO session_states (session, state) SELECT id, $10 FROM s WHERE $10::bytea IS NOT NULL\
         ) SELECT ",
        session_row!(),
        " FROM s"
    ));
    let sql = sql
        .bind(new.key.id.as_str())
        .bind(new.key.tenant.as_str())
        .bind(new.user.as_str())
        .bind(new.agent.as_str())
        .bind(title.as_deref())
        .bind(title.as_ref().map(|title| title.to_lowercase()))
        .bind(new.model.as_deref())
        .bind(new.now.as_millis())
        .bind(forked_from.map(SessionId::as_str))
        .bind(new.state.as_ref().map(|state| state.as_bytes()));
    let exists = || StoreError::from(Conflict::SessionExists(new.key.id.clone()));
    match lent.try_rows(sql).await {
        Ok(rows) => session(rows.first().ok_or_else(exists)?, 0),
        Err(error) if refused(&error) => Err(exists()),
        Err(error) => Err(failed(error)),
    }
}

pub(super) async fn read(lent: &mut Lent<'_>, key: &SessionKey) -> Result<Session, StoreError> {
    let sql = sqlx::query(concat!(
        "SELECT ",
        session_row!(),
        " FROM sessions WHERE id = $1 AND tenant = $2"
    ));
    let row = lent.row(sql.bind(key.id.as_str()).bind(key.tenant.as_str())).await?;
    session(&row.ok_or(NO_SESSION)?, 0)
}

pub(super) async fn list(
    lent: &mut Lent<'_>,
    query: &SessionQuery,
) -> Result<Page<Session>, StoreError> {
    let start = concat!("SELECT ", session_row!(), " FROM sessions s WHERE tenant = ");
    let mut sql = QueryBuilder::<Postgres>::new(start);
    sql.push_bind(query.tenant.as_str());
    if let Some(user) = &query.user {
        sql.push(" AND person = ").push_bind(user.as_str());
    }
    if let Some(agent) = &query.agent {
        sql.push(" AND agent = ").push_bind(agent.as_str());
    }
    if let Some(status) = &query.status {
        sql.push(" AND status = ").push_bind(name(status)?);
    }
    if let Some(text) = &query.title_contains {
        sql.push(" AND strpos(title_folded, ").push_bind(line(&text.to_lowercase())).push(") > 0");
    }
    if let Some(text) = &query.search {
        let search = Search::of(text);
        sql.push(" AND (strpos(title_folded, ").push_bind(line(&search.title)).push(") > 0");
        if !search.words.is_empty() {
            sql.push(" OR id IN (SELECT m.session FROM messages m WHERE m.words @@ ")
                .push_bind(match_all(&query.tenant, &search))
                .push("::text::tsquery)");
        }
        sql.push(")");
    }
    if let Some(after) = &query.after {
        sql.push(" AND (updated, id) < (").push_bind(after.at.as_millis());
        sql.push(", ").push_bind(after.id.as_str()).push(")");
    }
    sql.push(" ORDER BY updated DESC, id DESC LIMIT ").push_bind(i64::from(query.limit) + 1);
    let rows = lent.rows(sql.build()).await?;
    let items = rows.iter().map(|row| session(row, 0)).collect::<Result<Vec<_>, _>>()?;
    Ok(page(items, query.limit, |s| Cursor { at: s.updated, id: s.key.id.to_string() }))
}

/// A text query for a tenant's messages in which every word begins one. Words have nothing in them that would need quoting.
fn match_all(tenant: &TenantId, search: &Search) -> String {
    let mut query = format!("'{}'", words::of_tenant(tenant.as_str()));
    for word in &search.words {
        query.push_str(&format!(" & '{word}':*"));
    }
    query
}

pub(super) async fn tenants(
    lent: &mut Lent<'_>,
    after: Option<&TenantId>,
    limit: u32,
) -> Result<Vec<TenantId>, StoreError> {
    // From one tenant to the next by the index, however many sessions each has.
    let sql = sqlx::query(
        "WITH RECURSIVE t (tenant) AS (\
         (SELECT tenant FROM sessions WHERE $1::text IS NULL OR tenant > $1 ORDER BY tenant LIMIT 1) \
         UNION ALL SELECT (SELECT s.tenant FROM sessions s WHERE s.tenant > t.tenant ORDER BY s.tenant LIMIT 1) \
         FROM t WHERE t.tenant IS NOT NULL) \
         SELECT tenant FROM t WHERE tenant IS NOT NULL LIMIT $2",
    );
    let sql = sql.bind(after.map(TenantId::as_str)).bind(i64::from(limit));
    lent.rows(sql).await?.iter().map(|row| id(row, 0)).collect()
}

pub(super) async fn set_title(
    lent: &mut Lent<'_>,
    key: &SessionKey,
    title: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = sqlx::query(
        "UPDATE sessions SET title = $1, title_folded = $2, updated = $3 WHERE id = $4 AND tenant = $5 RETURNING 1",
    );
    let title = line(title);
    let sql = sql
        .bind(title.as_str())
        .bind(title.to_lowercase())
        .bind(now.as_millis())
        .bind(key.id.as_str())
        .bind(key.tenant.as_str());
    lent.row(sql).await?.map(drop).ok_or(NO_SESSION)
}

pub(super) async fn set_model(
    lent: &mut Lent<'_>,
    key: &SessionKey,
    model: &str,
) -> Result<(), StoreError> {
    let sql =
        sqlx::query("UPDATE sessions SET model = $1 WHERE id = $2 AND tenant = $3 RETURNING 1");
    let sql = sql.bind(model).bind(key.id.as_str()).bind(key.tenant.as_str());
    lent.row(sql).await?.map(drop).ok_or(NO_SESSION)
}

pub(super) async fn delete(
    lent: &mut Lent<'_>,
    key: &SessionKey,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = sqlx::query("SELECT outcome, r_owner, r_until FROM delete_session($1, $2, $3)");
    let sql = sql.bind(key.id.as_str()).bind(key.tenant.as_str()).bind(now.as_millis());
    let row = lent.row(sql).await?.ok_or(NO_SESSION)?;
    match row.text(0)? {
        "deleted" => Ok(()),
        "busy" => Err(StoreError::Busy { owner: row.text(1)?.to_owned(), until: time(&row, 2)? }),
        _ => Err(NO_SESSION),
    }
}

pub(super) async fn fork(lent: &mut Lent<'_>, fork: &Fork) -> Result<Session, StoreError> {
    lent.begin().await?;
    let result = copy(lent, fork).await;
    lent.finish(result).await
}

async fn copy(lent: &mut Lent<'_>, fork: &Fork) -> Result<Session, StoreError> {
    let sql = sqlx::query(concat!(
        "SELECT ",
        session_row!(),
        ", (SELECT state FROM session_states WHERE session = id) FROM sessions WHERE id = $1 AND tenant = $2"
    ));
    let sql = sql.bind(fork.from.id.as_str()).bind(fork.from.tenant.as_str());
    let row = lent.row(sql).await?.ok_or(NO_SESSION)?;
    let source = session(&row, 0)?;
    let state = match &fork.state {
        Some(state) => Some(state.clone()),
        None => {
            get::<Option<Vec<u8>>>(&row, SESSION_COLUMNS)?.map(super::rows::string).transpose()?
        }
    };
    let end = place(lent, &fork.from.id, &fork.at).await?;
    let new = NewSession {
        key: SessionKey { tenant: fork.from.tenant.clone(), id: fork.id.clone() },
        user: fork.user.clone(),
        agent: source.agent,
        title: fork.title.clone().or(source.title),
        model: source.model,
        state,
        now: fork.now,
    };
    let created = create(lent, &new, Some(&fork.from.id)).await?;
    // What is not finished stays with the original, so positions are counted anew.
    for statement in [
        "INSERT INTO messages (session, position, id, turn, role, body, words) \
         SELECT $1, row_number() OVER (ORDER BY position) - 1, id, turn, role, body, words FROM messages m \
         WHERE session = $2 AND position < $3 \
         AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.session = $2 AND t.id = m.turn AND t.status <> 'finished')",
        "UPDATE sessions SET next_position = (SELECT count(*) FROM messages WHERE session = $1) \
         WHERE id = $1 AND $2 <> $1 AND $3 >= 0",
        "INSERT INTO turns (session, id, spec, status, outcome, started, ended, since, until) \
         SELECT $1, id, spec, status, outcome, started, ended, 0, 0 FROM turns WHERE session = $2 AND $3 >= 0 \
         AND id IN (SELECT turn FROM messages WHERE session = $1) ORDER BY ordinal",
        "INSERT INTO blobs (session, id, media_type, size) \
         SELECT $1, id, media_type, size FROM blobs WHERE session = $2 AND $3 >= 0",
        "INSERT INTO blob_pieces (session, blob, piece, content) \
         SELECT $1, blob, piece, content FROM blob_pieces WHERE session = $2 AND $3 >= 0",
    ] {
        let sql = sqlx::query(statement);
        lent.rows(sql.bind(fork.id.as_str()).bind(fork.from.id.as_str()).bind(end)).await?;
    }
    if let ForkAt::Step { turn, steps } = &fork.at {
        copy_cut(lent, fork, turn, *steps).await?;
    }
    Ok(created)
}

/// Copies a turn up to a step.
async fn copy_cut(
    lent: &mut Lent<'_>,
    fork: &Fork,
    turn: &TurnId,
    steps: u32,
) -> Result<(), StoreError> {
    let sql =
        sqlx::query("SELECT body FROM messages WHERE session = $1 AND turn = $2 ORDER BY position");
    let rows = lent.rows(sql.bind(fork.from.id.as_str()).bind(turn.as_str())).await?;
    let messages = rows.iter().map(|row| json(row, 0, "message")).collect::<Result<_, _>>()?;
    let cut = CutTurn::new(messages, steps)?;
    let sql = sqlx::query(
        "INSERT INTO turns (session, id, spec, status, outcome, started, ended, since, until) \
         SELECT $1, id, spec, 'finished', $4, started, coalesce(ended, $5), 0, 0 FROM turns \
         WHERE session = $2 AND id = $3",
    );
    let sql = sql
        .bind(fork.id.as_str())
        .bind(fork.from.id.as_str())
        .bind(turn.as_str())
        .bind(text(&cut.outcome)?)
        .bind(fork.now.as_millis());
    lent.rows(sql).await?;
    for message in &cut.messages {
        let sql = sqlx::query(
            "WITH place AS (UPDATE sessions SET next_position = next_position + 1 WHERE id = $1 RETURNING next_position - 1 AS at) \
             INSERT INTO messages (session, position, id, turn, role, body, words) \
             SELECT $1, at, $2, $3, $4, $5, array_to_tsvector(string_to_array($6, ' ')) FROM place",
        );
        let sql = sql
            .bind(fork.id.as_str())
            .bind(message.id().as_str())
            .bind(turn.as_str())
            .bind(role(message))
            .bind(text(message)?)
            .bind(found_by(fork.from.tenant.as_str(), message));
        lent.rows(sql).await?;
    }
    Ok(())
}

/// The position before which messages are copied.
async fn place(lent: &mut Lent<'_>, id: &SessionId, at: &ForkAt) -> Result<i64, StoreError> {
    let no = |why: String| StoreError::from(Conflict::NoSuchPlace(why));
    match at {
        ForkAt::End => Ok(i64::MAX),
        ForkAt::Position(position) => {
            let sql = sqlx::query(
                "SELECT (SELECT coalesce(max(position) + 1, 0)::bigint FROM messages WHERE session = $1), \
                 (SELECT b.turn FROM messages b JOIN messages a ON a.session = $1 AND a.position = $2 - 1 \
                 AND a.turn = b.turn WHERE b.session = $1 AND b.position = $2)",
            );
            let row = lent.row(sql.bind(id.as_str()).bind(i64::from(*position))).await?;
            let row = row.ok_or(NO_SESSION)?;
            let count = number(&row, 0)?;
            if u64::from(*position) > count {
                return Err(no(format!("it has {count} messages")));
            }
            match row.maybe_text(1)? {
                Some(turn) => Err(no(format!("position {position} is inside turn {turn}"))),
                None => Ok(i64::from(*position)),
            }
        }
        ForkAt::Turn(turn) => {
            let sql = sqlx::query(
                "SELECT status = 'finished', \
                 (SELECT max(position) + 1 FROM messages WHERE session = $1 AND turn = $2)::bigint \
                 FROM turns WHERE session = $1 AND id = $2",
            );
            let row = lent.row(sql.bind(id.as_str()).bind(turn.as_str())).await?;
            let row = row.ok_or_else(|| no(format!("it has no turn {turn}")))?;
            if !get::<bool>(&row, 0)? {
                return Err(no(format!("turn {turn} is not finished")));
            }
            Ok(row.maybe_int(1)?.unwrap_or(0))
        }
        ForkAt::Step { turn, .. } => {
            let sql = sqlx::query(
                "SELECT min(position)::bigint FROM messages WHERE session = $1 AND turn = $2",
            );
            let row = lent.row(sql.bind(id.as_str()).bind(turn.as_str())).await?;
            let position = row.ok_or(NO_SESSION)?.maybe_int(0)?;
            position.ok_or_else(|| no(format!("it has no turn {turn}")))
        }
    }
}
