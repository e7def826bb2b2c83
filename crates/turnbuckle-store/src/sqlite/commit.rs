//! The commit: one trip to the connection's thread when all goes well, and one statement when a step is all there is. Those that
//! come at once share a transaction; see `group`.
//!
//! Every commit passes the view `step_in` (see the migration), which refuses a step that does not fit the session's row. The
//! script ends there and is taken back; only then is the row read, to say what was wrong.

use crate::check::{Checked, Expects, Standing, check};
use crate::error::{Conflict, StoreError};
use crate::model::{
    Allowance, Blob, Commit, Committed, NewCaptured, SessionKey, TurnStatus, metered, metered_calls,
};
use crate::sql::{id, int, maybe_id, maybe_json, name, number, text};
use crate::sqlite::fail::{failed, refused};
use crate::sqlite::link::{Link, Script};
use crate::sqlite::rows::get;
use crate::sqlite::sessions::NO_SESSION;
use crate::sqlite::tasks;
use crate::words;
use crate::work::started;
use sqlx::sqlite::SqliteRow;
use turnbuckle_core::event::Event;
use turnbuckle_core::message::{Message, SystemBody, SystemMessage};
use turnbuckle_core::time::Timestamp;

/// Bytes of one piece of a blob.
pub(super) const PIECE: usize = 256 * 1024;

/// More rows than this are not a step but a copy; their text is not worth a place in the cache.
const USUAL_ROWS: usize = 4;

/// A commit in a transaction of its own.
pub(super) async fn alone(link: &mut Link, commit: &Commit) -> Result<Committed, StoreError> {
    let checked = check(commit)?;
    let (journal, events) = texts(commit)?;
    let script = if bare(commit) {
        let mut script = Script::default();
        step(&mut script, commit, &checked, journal.clone(), events.clone())?;
        script
    } else {
        let mut script = Script::transaction();
        write(&mut script, commit, &checked, journal.clone(), events.clone())?;
        script.end();
        script
    };
    match link.run(script).await {
        Ok(rows) => match rows.first() {
            Some(row) => committed(row),
            None => Err(NO_SESSION),
        },
        Err(error) if refused(&error) => {
            link.begin().await?;
            let why = why(link, commit, &checked, journal, events, error).await;
            link.finish(why).await
        }
        Err(error) => Err(failed(error)),
    }
}

/// A commit within an open transaction that others share. `None` when it does not fit, and nothing of it was written then.
///
/// # Errors
/// When the transaction is lost.
pub(super) async fn beside(
    link: &mut Link,
    commit: &Commit,
) -> Result<Option<Committed>, StoreError> {
    let Ok(script) = apart(commit) else { return Ok(None) };
    match link.step(script).await {
        Ok(rows) => rows.first().map(committed).transpose(),
        Err(_told_when_it_is_tried_alone) => {
            let back = Script::new("ROLLBACK TO one; RELEASE one;");
            link.step(back).await.map(|_| None).map_err(failed)
        }
    }
}

/// A commit that can be taken back without those before it.
fn apart(commit: &Commit) -> Result<Script, StoreError> {
    let checked = check(commit)?;
    let (journal, events) = texts(commit)?;
    let mut script = Script::new("SAVEPOINT one;");
    write(&mut script, commit, &checked, journal, events)?;
    script.add("RELEASE one;");
    Ok(script)
}

type Texts = (Option<String>, Option<String>);

/// Journal and events as they are stored.
fn texts(commit: &Commit) -> Result<Texts, StoreError> {
    let journal = if commit.journal.is_empty() { None } else { Some(text(&commit.journal)?) };
    let events = if commit.events.is_empty() { None } else { Some(text(&commit.events)?) };
    Ok((journal, events))
}

/// From a column with the JSON array of version, next event and inputs that wait.
fn committed(row: &SqliteRow) -> Result<Committed, StoreError> {
    let (version, next_seq, pending) = maybe_json(row, 0, "session")?.ok_or(NO_SESSION)?;
    Ok(Committed { version, next_seq, pending })
}

/// Whether a step is all there is.
fn bare(commit: &Commit) -> bool {
    metered_calls(&commit.events).next().is_none()
        && started(&commit.events).next().is_none()
        && commit.open_turn.is_none()
        && commit.turn.is_none()
        && commit.consumed.is_empty()
        && commit.messages.is_empty()
        && commit.cards.is_empty()
        && commit.captured.is_empty()
        && commit.blobs.is_empty()
        && commit.allowances.is_empty()
        && commit.state.is_none()
        && commit.session_status.is_none()
        && commit.title.is_none()
        && commit.model.is_none()
}

/// All of a commit, within a transaction.
fn write(
    script: &mut Script,
    commit: &Commit,
    checked: &Checked<'_>,
    journal: Option<String>,
    events: Option<String>,
) -> Result<(), StoreError> {
    let session = commit.key.id.as_str();
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
    step(script, commit, checked, journal, events)?;
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
    row(script, commit)?;
    for message in &commit.messages {
        put_message(script, &commit.key, message)?;
    }
    for card in &commit.cards {
        put_card(script, commit, card)?;
    }
    for action in &commit.captured {
        put_captured(script, &commit.key, commit.now, action)?;
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
        put_blob(script, session, blob)?;
    }
    meter(script, session, &commit.events, commit.account.as_deref())?;
    tasks::start(script, &commit.key, &commit.events)?;
    for allowance in &commit.allowances {
        put_allowance(script, commit.key.tenant.as_str(), allowance)?;
    }
    let rows = commit.messages.len()
        + commit.cards.len()
        + commit.captured.len()
        + commit.blobs.len()
        + commit.allowances.len();
    if rows > USUAL_ROWS || !commit.blobs.is_empty() {
        script.uncached();
    }
    Ok(())
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
    if commit.open_turn.is_some() || commit.turn.is_some() {
        script.add(", parked = NULL, parked_at = NULL");
    }
    if let Some(status) = &commit.session_status {
        script.add(", status = ?").bind(name(status)?)?;
    }
    if let Some(kept) = &commit.model {
        script
            .add(", model = CASE WHEN model IS ? THEN ? ELSE model END")
            .bind(kept.instead_of.as_deref())?
            .bind(kept.model.as_str())?;
    }
    if let Some(title) = &commit.title {
        script
            .add(", title_folded = CASE WHEN title IS NULL THEN ? ELSE title_folded END, title = coalesce(title, ?)")
            .bind(title.to_lowercase())?
            .bind(title.as_str())?;
    }
    if commit.turn.as_ref().is_some_and(|change| change.status == TurnStatus::Finished) {
        script.add(", turn = NULL");
    }
    script.add(" WHERE id = ?;").bind(commit.key.id.as_str())?;
    Ok(())
}

pub(super) fn put_message(
    script: &mut Script,
    key: &SessionKey,
    message: &Message,
) -> Result<(), StoreError> {
    let role = match message {
        Message::User(_) => "user",
        Message::Assistant(_) => "assistant",
        Message::System(_) => "system",
    };
    let (session, id) = (key.id.as_str(), message.id().as_str());
    script
        .add(
            "INSERT INTO messages (session, position, id, turn, role, body) VALUES \
             (?, (SELECT coalesce(max(position) + 1, 0) FROM messages WHERE session = ?), ?, ?, ?, ?) \
             ON CONFLICT (session, id) DO UPDATE SET turn = excluded.turn, role = excluded.role, body = excluded.body;",
        )
        .bind(session)?
        .bind(session)?
        .bind(id)?
        .bind(message.turn().as_str())?
        .bind(role)?
        .bind(text(message)?)?;
    let mut words = words::of_message(message);
    if !words.is_empty() {
        words.insert(words::of_tenant(key.tenant.as_str()));
        let words: Vec<String> = words.into_iter().collect();
        script
            .add(
                "INSERT OR REPLACE INTO message_words (rowid, words) \
                 SELECT ordinal, ? FROM messages WHERE session = ? AND id = ?;",
            )
            .bind(words.join(" "))?
            .bind(session)?
            .bind(id)?;
    }
    Ok(())
}

fn put_card(script: &mut Script, commit: &Commit, card: &SystemMessage) -> Result<(), StoreError> {
    put_message(script, &commit.key, &Message::System(card.clone()))?;
    index_card(script, &commit.key, card)
}

/// Makes a card to be found by its id.
pub(super) fn index_card(
    script: &mut Script,
    key: &SessionKey,
    card: &SystemMessage,
) -> Result<(), StoreError> {
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
        .bind(key.id.as_str())?
        .bind(key.tenant.as_str())?
        .bind(card.turn.as_str())?
        .bind(body.call.as_str())?
        .bind(name(&body.asks)?)?
        .bind(name(&body.status)?)?
        .bind(card.at.as_millis())?
        .bind(body.expires_at.map(|at| at.as_millis()))?;
    Ok(())
}

fn put_captured(
    script: &mut Script,
    key: &SessionKey,
    now: Timestamp,
    new: &NewCaptured,
) -> Result<(), StoreError> {
    script
        .add(
            "INSERT INTO captured (session, tenant, at, turn, number, action, status) \
             VALUES (?, ?, ?, ?, ?, ?, 'pending') \
             ON CONFLICT (session, turn, number) DO UPDATE SET action = excluded.action, revision = revision + 1;",
        )
        .bind(key.id.as_str())?
        .bind(key.tenant.as_str())?
        .bind(now.as_millis())?
        .bind(new.turn.as_str())?
        .bind(i64::from(new.index))?
        .bind(text(&new.action)?)?;
    Ok(())
}

/// Records what the model calls among events cost.
pub(super) fn meter(
    script: &mut Script,
    session: &str,
    events: &[Event],
    account: Option<&str>,
) -> Result<(), StoreError> {
    for (event, call) in metered_calls(events) {
        let (model, sum) = metered(call);
        script
            .add(
                "INSERT INTO usage (tenant, user, session, turn, agent, model, at, \
                 input, cache_read, cache_write, output, reasoning, cost_micros, account) \
                 SELECT tenant, user, id, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM sessions WHERE id = ?;",
            )
            .bind(event.turn.as_str())?
            .bind(call.agent.as_str())?
            .bind(model)?
            .bind(event.at.as_millis())?
            .bind(int(sum.input))?
            .bind(int(sum.cache_read))?
            .bind(int(sum.cache_write))?
            .bind(int(sum.output))?
            .bind(int(sum.reasoning))?
            .bind(int(sum.cost_micros))?
            .bind(account.map(str::to_owned))?
            .bind(session)?;
    }
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

pub(super) fn put_allowance(
    script: &mut Script,
    tenant: &str,
    allowance: &Allowance,
) -> Result<(), StoreError> {
    script
        .add(
            "INSERT INTO allowances (tenant, user, id, session, agent, tool, args, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?) \
             ON CONFLICT DO NOTHING;",
        )
        .bind(tenant)?
        .bind(allowance.user.as_str())?
        .bind(allowance.id.as_str())?
        .bind(allowance.session.as_ref().map(|s| s.as_str()))?
        .bind(allowance.agent.as_str())?
        .bind(allowance.tool.as_str())?
        .bind(text(&allowance.args)?)?
        .bind(allowance.at.as_millis())?;
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
