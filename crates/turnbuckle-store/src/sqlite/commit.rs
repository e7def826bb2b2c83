//! The commit: one trip to the connection's thread when all goes well, and one statement when a step is all there is.
//!
//! Every commit passes the view `step_in` (see the migration), which refuses a step that does not fit the session's row. The
//! script ends there and is taken back; only then is the row read, to say what was wrong.

use crate::check::{Checked, Expects, Standing, check};
use crate::error::{Conflict, StoreError};
use crate::model::{Blob, Commit, Committed, NewCaptured, TurnStatus};
use crate::sqlite::fail::{failed, refused};
use crate::sqlite::link::{Link, Script};
use crate::sqlite::rows::{get, id, int, maybe_id, maybe_json, name, number, text};
use crate::sqlite::sessions::NO_SESSION;
use sqlx::sqlite::SqliteRow;
use turnbuckle_core::message::{Message, SystemBody, SystemMessage};

/// Bytes of one piece of a blob.
pub(super) const PIECE: usize = 256 * 1024;

/// More rows than this are not a step but a copy; their text is not worth a place in the cache.
const USUAL_ROWS: usize = 4;

pub(super) async fn commit(link: &mut Link, commit: Commit) -> Result<Committed, StoreError> {
    let checked = check(&commit)?;
    let journal = if commit.journal.is_empty() { None } else { Some(text(&commit.journal)?) };
    let events = if commit.events.is_empty() { None } else { Some(text(&commit.events)?) };
    let script = write(&commit, &checked, journal.clone(), events.clone())?;
    match link.run(script).await {
        Ok(rows) => match rows.first() {
            Some(row) => committed(row),
            None => Err(NO_SESSION),
        },
        Err(error) if refused(&error) => {
            link.begin().await?;
            let why = why(link, &commit, &checked, journal, events, error).await;
            link.finish(why).await
        }
        Err(error) => Err(failed(error)),
    }
}

/// From a column with the JSON array of version, next event and inputs that wait.
fn committed(row: &SqliteRow) -> Result<Committed, StoreError> {
    let (version, next_seq, pending) = maybe_json(row, 0, "session")?.ok_or(NO_SESSION)?;
    Ok(Committed { version, next_seq, pending })
}

/// Whether a step is all there is.
fn bare(commit: &Commit) -> bool {
    commit.open_turn.is_none()
        && commit.turn.is_none()
        && commit.consumed.is_empty()
        && commit.messages.is_empty()
        && commit.cards.is_empty()
        && commit.captured.is_empty()
        && commit.blobs.is_empty()
        && commit.state.is_none()
        && commit.session_status.is_none()
        && commit.title.is_none()
        && commit.model.is_none()
}

fn write(
    commit: &Commit,
    checked: &Checked<'_>,
    journal: Option<String>,
    events: Option<String>,
) -> Result<Script, StoreError> {
    let session = commit.key.id.as_str();
    if bare(commit) {
        let mut script = Script::default();
        step(&mut script, commit, checked, journal, events)?;
        return Ok(script);
    }
    let mut script = Script::transaction();
    if !commit.consumed.is_empty() {
        let count = int(commit.consumed.len() as u64);
        // `changes()` counts the inputs that the statement before has marked; `pending` refuses NULL.
        script
            .add(
                "UPDATE inbox SET consumed = 1 WHERE session = ? AND consumed = 0 \
                 AND n IN (SELECT value FROM json_each(?));\
                 UPDATE sessions SET pending = CASE WHEN changes() = ? THEN pending - ? END WHERE id = ?;",
            )
            .bind(session)?
            .bind(text(&commit.consumed)?)?
            .bind(count)?
            .bind(count)?
            .bind(session)?;
    }
    step(&mut script, commit, checked, journal, events)?;
    if let Some(open) = &commit.open_turn {
        script
            .add(
                "INSERT INTO turns (session, id, spec, status, started, since) \
                 SELECT id, turn, ?, 'running', ?, next_seq - 1 - ? FROM sessions WHERE id = ?;",
            )
            .bind(open.spec.as_str())?
            .bind(commit.now.as_millis())?
            .bind(int(commit.events.len() as u64))?
            .bind(session)?;
    }
    row(&mut script, commit)?;
    for message in &commit.messages {
        put_message(&mut script, session, message)?;
    }
    for card in &commit.cards {
        put_card(&mut script, commit, card)?;
    }
    for action in &commit.captured {
        put_captured(&mut script, session, action)?;
    }
    if let Some(state) = &commit.state {
        script
            .add(
                "INSERT INTO session_states (session, state) VALUES (?, ?) \
                 ON CONFLICT (session) DO UPDATE SET state = excluded.state;",
            )
            .bind(session)?
            .bind(state.as_str())?;
    }
    if let Some(change) = &commit.turn {
        let outcome = change.outcome.as_ref().map(text).transpose()?;
        script
            .add("UPDATE turns SET status = ?, outcome = ?")
            .bind(name(&change.status)?)?
            .bind(outcome)?;
        if checked.finishes {
            script
                .add(", ended = ?, until = (SELECT next_seq - 1 FROM sessions WHERE id = ?)")
                .bind(commit.now.as_millis())?
                .bind(session)?;
        }
        script.add(" WHERE session = ? AND id = ?;").bind(session)?.bind(change.id.as_str())?;
    }
    for blob in &commit.blobs {
        put_blob(&mut script, session, blob)?;
    }
    let rows =
        commit.messages.len() + commit.cards.len() + commit.captured.len() + commit.blobs.len();
    if rows > USUAL_ROWS || !commit.blobs.is_empty() {
        script.uncached();
    }
    script.end();
    Ok(script)
}

/// The step itself, which fails when it does not fit the session's row.
fn step(
    script: &mut Script,
    commit: &Commit,
    checked: &Checked<'_>,
    journal: Option<String>,
    events: Option<String>,
) -> Result<(), StoreError> {
    let (expects, turn) = match checked.expects {
        Expects::Any => ("any", None),
        Expects::None => ("none", commit.open_turn.as_ref().map(|open| open.id.as_str())),
        Expects::Some => ("some", None),
        Expects::This(turn) => ("this", Some(turn.as_str())),
    };
    // A new turn's journal begins at 0, whatever the row says of the turn before.
    let first_n = if commit.open_turn.is_some() { None } else { checked.first_n };
    script
        .add(
            "INSERT INTO step_in (session, tenant, fence, expects, turn, \
             first_seq, added_events, first_n, added_entries, journal, events) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) \
             RETURNING (SELECT json_array(version, next_seq, pending) FROM sessions WHERE id = session);",
        )
        .bind(commit.key.id.as_str())?
        .bind(commit.key.tenant.as_str())?
        .bind(int(commit.fence))?
        .bind(expects)?
        .bind(turn)?
        .bind(checked.first_seq.map(int))?
        .bind(int(commit.events.len() as u64))?
        .bind(first_n)?
        .bind(int(commit.journal.len() as u64))?
        .bind(journal)?
        .bind(events)?;
    Ok(())
}

/// What else changes in the session's row. These columns are indexed or seldom change, so a mere step leaves them alone.
fn row(script: &mut Script, commit: &Commit) -> Result<(), StoreError> {
    let touched = commit.open_turn.is_some() || commit.turn.is_some() || commit.title.is_some();
    if !touched && commit.session_status.is_none() && commit.model.is_none() {
        return Ok(());
    }
    script.add("UPDATE sessions SET version = version");
    if touched {
        script.add(", updated = ?").bind(commit.now.as_millis())?;
    }
    if let Some(status) = &commit.session_status {
        script.add(", status = ?").bind(name(status)?)?;
    }
    if let Some(model) = &commit.model {
        script.add(", model = ?").bind(model.as_str())?;
    }
    if let Some(title) = &commit.title {
        script
            .add(", title = ?, title_folded = ?")
            .bind(title.as_str())?
            .bind(title.to_lowercase())?;
    }
    if commit.turn.as_ref().is_some_and(|change| change.status == TurnStatus::Finished) {
        script.add(", turn = NULL");
    }
    script.add(" WHERE id = ?;").bind(commit.key.id.as_str())?;
    Ok(())
}

pub(super) fn put_message(
    script: &mut Script,
    session: &str,
    message: &Message,
) -> Result<(), StoreError> {
    let role = match message {
        Message::User(_) => "user",
        Message::Assistant(_) => "assistant",
        Message::System(_) => "system",
    };
    put_body(script, session, message.id().as_str(), message.turn().as_str(), role, text(message)?)
}

fn put_body(
    script: &mut Script,
    session: &str,
    id: &str,
    turn: &str,
    role: &'static str,
    body: String,
) -> Result<(), StoreError> {
    script
        .add(
            "INSERT INTO messages (session, position, id, turn, role, body) VALUES \
             (?, (SELECT coalesce(max(position) + 1, 0) FROM messages WHERE session = ?), ?, ?, ?, ?) \
             ON CONFLICT (session, id) DO UPDATE SET turn = excluded.turn, role = excluded.role, body = excluded.body;",
        )
        .bind(session)?
        .bind(session)?
        .bind(id)?
        .bind(turn)?
        .bind(role)?
        .bind(body)?;
    Ok(())
}

fn put_card(script: &mut Script, commit: &Commit, card: &SystemMessage) -> Result<(), StoreError> {
    let session = commit.key.id.as_str();
    put_message(script, session, &Message::System(card.clone()))?;
    let SystemBody::Approval(body) = &card.body else {
        return Ok(());
    };
    // A card never moves to another session: its `session` column refuses NULL.
    script
        .add(
            "INSERT INTO cards (id, session, tenant, turn, call, asks, status, at, expires_at) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET \
             session = CASE WHEN session = excluded.session THEN session END, \
             status = excluded.status, expires_at = excluded.expires_at;",
        )
        .bind(card.id.as_str())?
        .bind(session)?
        .bind(commit.key.tenant.as_str())?
        .bind(card.turn.as_str())?
        .bind(body.call.as_str())?
        .bind(name(&body.asks)?)?
        .bind(name(&body.status)?)?
        .bind(card.at.as_millis())?
        .bind(body.expires_at.map(|at| at.as_millis()))?;
    Ok(())
}

fn put_captured(script: &mut Script, session: &str, new: &NewCaptured) -> Result<(), StoreError> {
    script
        .add(
            "INSERT INTO captured (session, turn, number, action, status) VALUES (?, ?, ?, ?, 'pending') \
             ON CONFLICT (session, turn, number) DO UPDATE SET action = excluded.action, revision = revision + 1;",
        )
        .bind(session)?
        .bind(new.turn.as_str())?
        .bind(i64::from(new.index))?
        .bind(text(&new.action)?)?;
    Ok(())
}

pub(super) fn put_blob(script: &mut Script, session: &str, blob: &Blob) -> Result<(), StoreError> {
    script
        .add("DELETE FROM blobs WHERE session = ? AND id = ?;")
        .bind(session)?
        .bind(blob.id.as_str())?
        .add("INSERT INTO blobs (session, id, media_type, size) VALUES (?, ?, ?, ?);")
        .bind(session)?
        .bind(blob.id.as_str())?
        .bind(blob.media_type.as_str())?
        .bind(int(blob.content.len() as u64))?;
    for (piece, content) in blob.content.chunks(PIECE).enumerate() {
        script
            .add("INSERT INTO blob_pieces (session, blob, piece, content) VALUES (?, ?, ?, ?);")
            .bind(session)?
            .bind(blob.id.as_str())?
            .bind(int(piece as u64))?
            .bind(content.to_vec())?;
    }
    Ok(())
}

/// What was wrong with a refused commit, or that it is the last one repeated.
async fn why(
    link: &mut Link,
    commit: &Commit,
    checked: &Checked<'_>,
    journal: Option<String>,
    events: Option<String>,
    error: sqlx::Error,
) -> Result<Committed, StoreError> {
    let mut script = Script::new(
        "SELECT json_array(version, next_seq, pending), next_seq, fence, next_n, turn, owner IS NULL FROM sessions WHERE id = ? AND tenant = ?;",
    );
    script.bind(commit.key.id.as_str())?.bind(commit.key.tenant.as_str())?;
    let rows = link.step(script).await.map_err(failed)?;
    let row = rows.first().ok_or(NO_SESSION)?;
    let next_n = u32::try_from(number(row, 3)?).unwrap_or(u32::MAX);
    let stored = Standing {
        fence: number(row, 2)?,
        next_seq: number(row, 1)?,
        next_n,
        turn: maybe_id(row, 4)?,
    };
    if stored.fence != commit.fence || get::<bool>(row, 5)? {
        return Err(StoreError::Fenced { held: commit.fence, current: stored.fence });
    }
    if journal.is_some() || events.is_some() {
        let mut script = Script::new(
            "SELECT journal IS ? AND events IS ? AND turn IS coalesce(?, turn) FROM steps WHERE session = ? ORDER BY last_seq DESC, ordinal DESC LIMIT 1;",
        );
        let named =
            commit.open_turn.as_ref().map(|t| &t.id).or(commit.turn.as_ref().map(|t| &t.id));
        let named = named.map(|id| id.as_str());
        script.bind(journal)?.bind(events)?.bind(named)?.bind(commit.key.id.as_str())?;
        let rows = link.step(script).await.map_err(failed)?;
        if let Some(last) = rows.first()
            && get::<bool>(last, 0)?
        {
            return committed(row);
        }
    }
    checked.against(commit, &stored)?;
    if let Some(open) = &commit.open_turn {
        let mut script = Script::new("SELECT id FROM turns WHERE session = ? AND id = ?;");
        script.bind(commit.key.id.as_str())?.bind(open.id.as_str())?;
        if let Some(row) = link.step(script).await.map_err(failed)?.first() {
            let known = id(row, 0)?;
            return Err(Conflict::TurnOpen { open: known, refused: open.id.clone() }.into());
        }
    }
    if !commit.consumed.is_empty() {
        let mut script = Script::new(
            "SELECT count(*) FROM inbox WHERE session = ? AND consumed = 0 AND n IN (SELECT value FROM json_each(?));",
        );
        script.bind(commit.key.id.as_str())?.bind(text(&commit.consumed)?)?;
        let rows = link.step(script).await.map_err(failed)?;
        let waiting = rows.first().map_or(Ok(0), |row| number(row, 0))?;
        if waiting != commit.consumed.len() as u64 {
            return Err(Conflict::NotWaiting(commit.consumed.clone()).into());
        }
    }
    Err(failed(error))
}
