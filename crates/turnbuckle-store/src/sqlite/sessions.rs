//! Sessions as a whole: create, list, rename, delete, fork.

use crate::error::{Conflict, StoreError};
use crate::model::{
    Cursor, CutTurn, Fork, ForkAt, NewSession, Page, Session, SessionKey, SessionQuery, page,
};
use crate::sql::{SESSION_COLUMNS, id, json, name, number, session, text, time};
use crate::sqlite::commit::put_message;
use crate::sqlite::fail::{failed, refused};
use crate::sqlite::link::{Link, Script};
use crate::sqlite::rows::{SESSION, get};
use crate::words::{self, Search};
use sqlx::sqlite::SqliteRow;
use turnbuckle_core::ids::{SessionId, TenantId, TurnId};
use turnbuckle_core::time::Timestamp;

pub(super) const NO_SESSION: StoreError = StoreError::NotFound { what: "session" };

pub(super) async fn create(link: &mut Link, new: NewSession) -> Result<Session, StoreError> {
    // With a state it is two statements, and they go together.
    let two = new.state.is_some();
    let mut script = if two { Script::transaction() } else { Script::default() };
    insert(&mut script, &new, None)?;
    if two {
        script.end();
    }
    match link.run(script).await {
        Ok(rows) => session(first(&rows)?, 0),
        Err(error) if refused(&error) => Err(Conflict::SessionExists(new.key.id).into()),
        Err(error) => Err(failed(error)),
    }
}

/// Adds the row and its state; an id that is or was in use breaks a constraint.
fn insert(
    script: &mut Script,
    new: &NewSession,
    forked_from: Option<&SessionId>,
) -> Result<(), StoreError> {
    let folded = new.title.as_ref().map(|t| t.to_lowercase());
    script
        .add(
            "INSERT INTO sessions (id, tenant, user, agent, title, title_folded, model, created, updated, forked_from) \
             VALUES ((SELECT ?1 WHERE NOT EXISTS (SELECT 1 FROM deleted_sessions WHERE id = ?1)), \
             ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9) RETURNING ",
        )
        .add(SESSION)
        .add(";")
        .bind(new.key.id.as_str())?
        .bind(new.key.tenant.as_str())?
        .bind(new.user.as_str())?
        .bind(new.agent.as_str())?
        .bind(new.title.as_deref())?
        .bind(folded)?
        .bind(new.model.as_deref())?
        .bind(new.now.as_millis())?
        .bind(forked_from.map(SessionId::as_str))?;
    if let Some(state) = &new.state {
        script
            .add("INSERT INTO session_states (session, state) VALUES (?1, ?10);")
            .bind(state.as_str())?;
    }
    Ok(())
}

pub(super) fn first(rows: &[SqliteRow]) -> Result<&SqliteRow, StoreError> {
    rows.first().ok_or(NO_SESSION)
}

pub(super) async fn read(link: &mut Link, key: &SessionKey) -> Result<Session, StoreError> {
    let mut script = Script::new("SELECT ");
    script.add(SESSION).add(" FROM sessions WHERE id = ? AND tenant = ?");
    script.bind(key.id.as_str())?.bind(key.tenant.as_str())?;
    session(first(&link.run(script).await.map_err(failed)?)?, 0)
}

pub(super) async fn list(
    link: &mut Link,
    query: SessionQuery,
) -> Result<Page<Session>, StoreError> {
    let mut script = Script::new("SELECT ");
    script.add(SESSION).add(" FROM sessions WHERE tenant = ?").bind(query.tenant.as_str())?;
    if let Some(user) = &query.user {
        script.add(" AND user = ?").bind(user.as_str())?;
    }
    if let Some(agent) = &query.agent {
        script.add(" AND agent = ?").bind(agent.as_str())?;
    }
    if let Some(status) = &query.status {
        script.add(" AND status = ?").bind(name(status)?)?;
    }
    if let Some(text) = &query.title_contains {
        script.add(" AND instr(title_folded, ?) > 0").bind(text.to_lowercase())?;
    }
    if let Some(text) = &query.search {
        let search = Search::of(text);
        script.add(" AND (instr(title_folded, ?) > 0").bind(search.title.as_str())?;
        if !search.words.is_empty() {
            script.add(
                " OR id IN (SELECT m.session FROM message_words w JOIN messages m ON m.ordinal = w.rowid \
                 WHERE w.words MATCH ?)",
            );
            script.bind(match_all(&query.tenant, &search))?;
        }
        script.add(")");
    }
    if let Some(after) = &query.after {
        script.add(" AND (updated, id) < (?, ?)");
        script.bind(after.at.as_millis())?.bind(after.id.as_str())?;
    }
    script.add(" ORDER BY updated DESC, id DESC LIMIT ?").bind(i64::from(query.limit) + 1)?;
    let rows = link.run(script).await.map_err(failed)?;
    let items = rows.iter().map(|row| session(row, 0)).collect::<Result<Vec<_>, _>>()?;
    Ok(page(items, query.limit, |s| Cursor { at: s.updated, id: s.key.id.to_string() }))
}

/// A full-text query for a tenant's messages in which every word begins one. Words have nothing in them that would need quoting.
fn match_all(tenant: &TenantId, search: &Search) -> String {
    let mut query = format!("\"{}\"", words::of_tenant(tenant.as_str()));
    for word in &search.words {
        query.push_str(&format!(" AND \"{word}\"*"));
    }
    query
}

pub(super) async fn tenants(
    link: &mut Link,
    after: Option<&TenantId>,
    limit: u32,
) -> Result<Vec<TenantId>, StoreError> {
    // From one tenant to the next by the index, however many sessions each has.
    let mut script = Script::new(
        "WITH RECURSIVE t (tenant) AS (\
         SELECT min(tenant) FROM sessions WHERE ?1 IS NULL OR tenant > ?1 \
         UNION ALL SELECT (SELECT min(tenant) FROM sessions s WHERE s.tenant > t.tenant) FROM t WHERE t.tenant IS NOT NULL) \
         SELECT tenant FROM t WHERE tenant IS NOT NULL LIMIT ?2",
    );
    script.bind(after.map(TenantId::as_str))?.bind(i64::from(limit))?;
    let rows = link.run(script).await.map_err(failed)?;
    rows.iter().map(|row| id(row, 0)).collect()
}

pub(super) async fn set_title(
    link: &mut Link,
    key: &SessionKey,
    title: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    let mut script = Script::new(
        "UPDATE sessions SET title = ?, title_folded = ?, updated = ? WHERE id = ? AND tenant = ? RETURNING 1",
    );
    script.bind(title)?.bind(title.to_lowercase())?.bind(now.as_millis())?;
    script.bind(key.id.as_str())?.bind(key.tenant.as_str())?;
    first(&link.run(script).await.map_err(failed)?).map(drop)
}

pub(super) async fn set_model(
    link: &mut Link,
    key: &SessionKey,
    model: &str,
) -> Result<(), StoreError> {
    let mut script =
        Script::new("UPDATE sessions SET model = ? WHERE id = ? AND tenant = ? RETURNING 1");
    script.bind(model)?.bind(key.id.as_str())?.bind(key.tenant.as_str())?;
    first(&link.run(script).await.map_err(failed)?).map(drop)
}

pub(super) async fn delete(
    link: &mut Link,
    key: &SessionKey,
    now: Timestamp,
) -> Result<(), StoreError> {
    link.begin().await?;
    let result = delete_free(link, key, now).await;
    link.finish(result).await
}

async fn delete_free(link: &mut Link, key: &SessionKey, now: Timestamp) -> Result<(), StoreError> {
    let mut script =
        Script::new("SELECT owner, lease_until FROM sessions WHERE id = ? AND tenant = ?");
    script.bind(key.id.as_str())?.bind(key.tenant.as_str())?;
    let rows = link.step(script).await.map_err(failed)?;
    let row = first(&rows)?;
    let until = time(row, 1)?;
    if let Some(owner) = get::<Option<String>>(row, 0)?
        && until > now
    {
        return Err(StoreError::Busy { owner, until });
    }
    let mut script = Script::new(
        "INSERT INTO deleted_sessions (id) VALUES (?1);\
         DELETE FROM message_words WHERE rowid IN (SELECT ordinal FROM messages WHERE session = ?1);\
         DELETE FROM sessions WHERE id = ?1;",
    );
    script.bind(key.id.as_str())?;
    link.step(script).await.map(drop).map_err(failed)
}

pub(super) async fn fork(link: &mut Link, fork: Fork) -> Result<Session, StoreError> {
    link.begin().await?;
    let result = copy(link, fork).await;
    link.finish(result).await
}

async fn copy(link: &mut Link, fork: Fork) -> Result<Session, StoreError> {
    let mut script = Script::new("SELECT ");
    script.add(SESSION).add(", (SELECT state FROM session_states WHERE session = id) FROM sessions WHERE id = ? AND tenant = ?");
    script.bind(fork.from.id.as_str())?.bind(fork.from.tenant.as_str())?;
    let rows = link.step(script).await.map_err(failed)?;
    let source = session(first(&rows)?, 0)?;
    let state = match fork.state {
        Some(state) => Some(state),
        None => get(first(&rows)?, SESSION_COLUMNS)?,
    };
    let end = place(link, &fork.from.id, &fork.at).await?;
    let new = NewSession {
        key: SessionKey { tenant: fork.from.tenant, id: fork.id },
        user: fork.user,
        agent: source.agent,
        title: fork.title.or(source.title),
        model: source.model,
        state,
        now: fork.now,
    };
    let mut script = Script::default();
    insert(&mut script, &new, Some(&fork.from.id))?;
    let rows = link.step(script).await.map_err(|error| {
        if refused(&error) {
            Conflict::SessionExists(new.key.id.clone()).into()
        } else {
            failed(error)
        }
    })?;
    let created = session(first(&rows)?, 0)?;
    let mut script = Script::new(
        "INSERT INTO messages (session, position, id, turn, role, body) \
         SELECT ?1, position, id, turn, role, body FROM messages m WHERE session = ?2 AND position < ?3 \
         AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.session = ?2 AND t.id = m.turn AND t.status <> 'finished') \
         ORDER BY position;\
         INSERT INTO turns (session, id, spec, status, outcome, started, ended, since, until) \
         SELECT ?1, id, spec, status, outcome, started, ended, 0, 0 FROM turns WHERE session = ?2 \
         AND id IN (SELECT turn FROM messages WHERE session = ?1) ORDER BY ordinal;\
         INSERT INTO blobs (session, id, media_type, size) SELECT ?1, id, media_type, size FROM blobs WHERE session = ?2;\
         INSERT INTO blob_pieces (session, blob, piece, content) \
         SELECT ?1, blob, piece, content FROM blob_pieces WHERE session = ?2;",
    );
    script.bind(new.key.id.as_str())?.bind(fork.from.id.as_str())?.bind(end)?;
    link.step(script).await.map_err(failed)?;
    find_words(link, &new.key).await?;
    if let ForkAt::Step { turn, steps } = &fork.at {
        copy_cut(link, &fork.from.id, &new, turn, *steps).await?;
    }
    Ok(created)
}

/// Copies a turn up to a step.
async fn copy_cut(
    link: &mut Link,
    from: &SessionId,
    new: &NewSession,
    turn: &TurnId,
    steps: u32,
) -> Result<(), StoreError> {
    let mut script =
        Script::new("SELECT body FROM messages WHERE session = ? AND turn = ? ORDER BY position");
    script.bind(from.as_str())?.bind(turn.as_str())?;
    let rows = link.step(script).await.map_err(failed)?;
    let messages = rows.iter().map(|row| json(row, 0, "message")).collect::<Result<_, _>>()?;
    let cut = CutTurn::new(messages, steps)?;
    let mut script = Script::new(
        "INSERT INTO turns (session, id, spec, status, outcome, started, ended, since, until) \
         SELECT ?1, id, spec, 'finished', ?4, started, coalesce(ended, ?5), 0, 0 FROM turns \
         WHERE session = ?2 AND id = ?3",
    );
    script
        .bind(new.key.id.as_str())?
        .bind(from.as_str())?
        .bind(turn.as_str())?
        .bind(text(&cut.outcome)?)?
        .bind(new.now.as_millis())?;
    link.step(script).await.map_err(failed)?;
    let mut script = Script::default();
    for message in &cut.messages {
        put_message(&mut script, &new.key, message)?;
    }
    link.step(script).await.map(drop).map_err(failed)
}

/// Makes the messages of a new session to be found by their words.
async fn find_words(link: &mut Link, key: &SessionKey) -> Result<(), StoreError> {
    let mut script = Script::new("SELECT ordinal, body FROM messages WHERE session = ?");
    script.bind(key.id.as_str())?;
    let rows = link.step(script).await.map_err(failed)?;
    for row in &rows {
        let mut words = words::of_message(&json(row, 1, "message")?);
        if words.is_empty() {
            continue;
        }
        words.insert(words::of_tenant(key.tenant.as_str()));
        let words: Vec<String> = words.into_iter().collect();
        let mut script = Script::new("INSERT INTO message_words (rowid, words) VALUES (?, ?)");
        script.bind(get::<i64>(row, 0)?)?.bind(words.join(" "))?;
        link.step(script).await.map_err(failed)?;
    }
    Ok(())
}

/// The position before which messages are copied.
async fn place(link: &mut Link, id: &SessionId, at: &ForkAt) -> Result<i64, StoreError> {
    let no = |why: String| StoreError::from(Conflict::NoSuchPlace(why));
    match at {
        ForkAt::End => Ok(i64::MAX),
        ForkAt::Position(position) => {
            let mut script = Script::new(
                "SELECT (SELECT coalesce(max(position) + 1, 0) FROM messages WHERE session = ?1), \
                 (SELECT b.turn FROM messages b JOIN messages a ON a.session = ?1 AND a.position = ?2 - 1 \
                 AND a.turn = b.turn WHERE b.session = ?1 AND b.position = ?2)",
            );
            script.bind(id.as_str())?.bind(i64::from(*position))?;
            let rows = link.step(script).await.map_err(failed)?;
            let row = first(&rows)?;
            let count = number(row, 0)?;
            if u64::from(*position) > count {
                return Err(no(format!("it has {count} messages")));
            }
            match get::<Option<String>>(row, 1)? {
                Some(turn) => Err(no(format!("position {position} is inside turn {turn}"))),
                None => Ok(i64::from(*position)),
            }
        }
        ForkAt::Turn(turn) => {
            let mut script = Script::new(
                "SELECT status = 'finished', (SELECT max(position) + 1 FROM messages WHERE session = ?1 AND turn = ?2) \
                 FROM turns WHERE session = ?1 AND id = ?2",
            );
            script.bind(id.as_str())?.bind(turn.as_str())?;
            let rows = link.step(script).await.map_err(failed)?;
            let row = rows.first().ok_or_else(|| no(format!("it has no turn {turn}")))?;
            if !get::<bool>(row, 0)? {
                return Err(no(format!("turn {turn} is not finished")));
            }
            Ok(get::<Option<i64>>(row, 1)?.unwrap_or(0))
        }
        ForkAt::Step { turn, .. } => {
            let mut script =
                Script::new("SELECT min(position) FROM messages WHERE session = ?1 AND turn = ?2");
            script.bind(id.as_str())?.bind(turn.as_str())?;
            let rows = link.step(script).await.map_err(failed)?;
            let position = get::<Option<i64>>(first(&rows)?, 0)?;
            position.ok_or_else(|| no(format!("it has no turn {turn}")))
        }
    }
}
