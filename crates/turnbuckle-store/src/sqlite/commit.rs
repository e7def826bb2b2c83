//! The commit: one statement and one trip to the connection's thread, unless what seldom comes is part of it. Those that come at
//! once share a transaction; see `group`.
//!
//! Every commit passes the view `step_in` or `commit_in` (see the migrations), which refuse a step that does not fit the
//! session's row. Nothing is written then; only then is the row read, to say what was wrong.

use crate::check::{Checked, Expects, Standing, check};
use crate::error::{Conflict, StoreError};
use crate::model::{
    Allowance, Blob, Commit, Committed, NewCaptured, SessionKey, metered, metered_calls,
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
use turnbuckle_core::pack::Whole;
use turnbuckle_core::time::Timestamp;

/// Bytes of one piece of a blob.
pub(super) const PIECE: usize = 256 * 1024;

/// More rows than this are not a step but a copy; their text is not worth a place in the cache.
const USUAL_ROWS: usize = 4;

/// What every statement for a commit answers with: see [`committed`].
const STANDING: &str = " RETURNING (SELECT json_array(version, next_seq, pending, owner IS NULL) \
     FROM sessions WHERE id = session);";

/// A commit in a transaction of its own.
pub(super) async fn alone(link: &mut Link, commit: &Commit) -> Result<Committed, StoreError> {
    let written = Written::new(commit)?;
    let script = if has_more(commit) {
        let mut script = Script::transaction();
        written.add_to(&mut script)?;
        script.end();
        script
    } else {
        written.script()?
    };
    match link.run(script).await {
        Ok(rows) => match rows.first() {
            Some(row) => committed(row),
            None => Err(NO_SESSION),
        },
        Err(error) if refused(&error) => {
            link.begin().await?;
            let why = written.why(link, error).await;
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
    let Ok(written) = Written::new(commit) else { return Ok(None) };
    // A statement that fails takes back what it did, a script does not.
    let more = has_more(commit);
    let script = if more {
        let mut script = Script::new("SAVEPOINT one;");
        written.add_to(&mut script)?;
        script.add("RELEASE one;");
        script
    } else {
        written.script()?
    };
    match link.step(script).await {
        Ok(rows) => rows.first().map(committed).transpose(),
        Err(error) if !refused(&error) => Err(failed(error)),
        Err(_told_when_it_is_tried_alone) if !more => Ok(None),
        Err(_told_when_it_is_tried_alone) => {
            let back = Script::new("ROLLBACK TO one; RELEASE one;");
            link.step(back).await.map(|_| None).map_err(failed)
        }
    }
}

/// From a column with the JSON array of version, next event, inputs that wait, and whether nobody holds the session.
fn committed(row: &SqliteRow) -> Result<Committed, StoreError> {
    let (version, next_seq, pending, free): (_, _, _, u8) =
        maybe_json(row, 0, "session")?.ok_or(NO_SESSION)?;
    Ok(Committed { version, next_seq, pending, released: free == 1 })
}

/// Whether a step is all there is, what its model calls cost included.
fn bare(commit: &Commit) -> bool {
    commit.open_turn.is_none()
        && commit.turn.is_none()
        && commit.consumed.is_empty()
        && commit.messages.is_empty()
        && commit.state.is_none()
        && commit.session_status.is_none()
        && commit.title.is_none()
        && commit.model.is_none()
        && !commit.release
}

/// Whether there is what has no place in a statement of its own.
fn has_more(commit: &Commit) -> bool {
    commit.messages.len() > 1
        || !commit.cards.is_empty()
        || !commit.captured.is_empty()
        || !commit.blobs.is_empty()
        || !commit.allowances.is_empty()
        || started(&commit.events).next().is_some()
}

/// A commit as it is written: checked, and its largest parts as text.
struct Written<'a> {
    commit: &'a Commit,
    checked: Checked<'a>,
    journal: Option<String>,
    events: Option<String>,
}

impl<'a> Written<'a> {
    fn new(commit: &'a Commit) -> Result<Self, StoreError> {
        let checked = check(commit)?;
        let journal = if commit.journal.is_empty() { None } else { Some(text(&commit.journal)?) };
        let events = if commit.events.is_empty() { None } else { Some(text(&commit.events)?) };
        Ok(Self { commit, checked, journal, events })
    }

    /// The statement, for a commit that has nothing more.
    fn script(&self) -> Result<Script, StoreError> {
        let mut script = Script::default();
        self.statement(&mut script)?;
        Ok(script)
    }

    /// All of it, within a transaction.
    fn add_to(&self, script: &mut Script) -> Result<(), StoreError> {
        let commit = self.commit;
        self.statement(script)?;
        for message in commit.messages.iter().skip(1) {
            put_message(script, &commit.key, message)?;
        }
        for card in &commit.cards {
            put_card(script, commit, card)?;
        }
        for action in &commit.captured {
            put_captured(script, &commit.key, commit.now, action)?;
        }
        for blob in &commit.blobs {
            put_blob(script, commit.key.id.as_str(), blob)?;
        }
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

    fn statement(&self, script: &mut Script) -> Result<(), StoreError> {
        if bare(self.commit) {
            script.add(
                "INSERT INTO step_in (session, tenant, fence, expects, turn, \
                 first_seq, added_events, first_n, added_entries, journal, events, usage) \
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            );
            self.bind_step(script)?;
        } else {
            script.add(
                "INSERT INTO commit_in (session, tenant, fence, expects, turn, \
                 first_seq, added_events, first_n, added_entries, journal, events, usage, \
                 consumed, opens, started, changes, touched, status, model_before, model, title, title_folded, \
                 turn_status, outcome, ended, state, message, message_turn, role, body, words, releases) \
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, \
                 ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            );
            self.bind_step(script)?;
            self.bind_rest(script)?;
        }
        script.add(STANDING);
        Ok(())
    }

    /// The step itself, which fails when it does not fit the session's row.
    fn bind_step(&self, script: &mut Script) -> Result<(), StoreError> {
        let Self { commit, checked, journal, events } = self;
        let (expects, turn) = match checked.expects {
            Expects::Any => ("any", None),
            Expects::None => ("none", commit.open_turn.as_ref().map(|open| open.id.as_str())),
            Expects::Some => ("some", None),
            Expects::This(turn) => ("this", Some(turn.as_str())),
        };
        // A new turn's journal begins at 0, whatever the row says of the turn before.
        let first_n = if commit.open_turn.is_some() { None } else { checked.first_n };
        script
            .bind(commit.key.id.as_str())?
            .bind(commit.key.tenant.as_str())?
            .bind(int(commit.fence))?
            .bind(expects)?
            .bind(turn)?
            .bind(checked.first_seq.map(int))?
            .bind(int(commit.events.len() as u64))?
            .bind(first_n)?
            .bind(int(commit.journal.len() as u64))?
            .bind(journal.clone())?
            .bind(events.clone())?
            .bind(usage(commit.events.wholes(), commit.account.as_deref())?)?;
        Ok(())
    }

    fn bind_rest(&self, script: &mut Script) -> Result<(), StoreError> {
        let Self { commit, checked, .. } = self;
        let (open, change, now) = (&commit.open_turn, &commit.turn, commit.now.as_millis());
        let touched = open.is_some() || change.is_some() || commit.title.is_some();
        let changes = touched || commit.session_status.is_some() || commit.model.is_some();
        let consumed = &commit.consumed;
        let outcome = change.as_ref().and_then(|change| change.outcome.as_ref());
        script
            .bind(if consumed.is_empty() { None } else { Some(text(consumed)?) })?
            .bind(open.as_ref().map(|open| open.spec.as_str()))?
            .bind(now)?
            .bind(changes)?
            .bind(touched.then_some(now))?
            .bind(commit.session_status.as_ref().map(name).transpose()?)?
            .bind(commit.model.as_ref().and_then(|kept| kept.instead_of.as_deref()))?
            .bind(commit.model.as_ref().map(|kept| kept.model.as_str()))?
            .bind(commit.title.as_deref())?
            .bind(commit.title.as_ref().map(|title| title.to_lowercase()))?
            .bind(change.as_ref().map(|change| name(&change.status)).transpose()?)?
            .bind(outcome.map(text).transpose()?)?
            .bind(checked.finishes.then_some(now))?
            .bind(commit.state.as_deref())?;
        let message = commit.messages.first();
        script
            .bind(message.map(|m| m.id().as_str()))?
            .bind(message.map(|m| m.turn().as_str()))?
            .bind(message.map(role))?
            .bind(message.map(text).transpose()?)?
            .bind(message.and_then(|m| found_by(commit.key.tenant.as_str(), m)))?
            .bind(commit.release)?;
        Ok(())
    }

    /// What was wrong with a refused commit, or that it is the last one repeated.
    async fn why(&self, link: &mut Link, error: sqlx::Error) -> Result<Committed, StoreError> {
        let Self { commit, checked, .. } = self;
        let mut script = Script::new(
            "SELECT json_array(version, next_seq, pending, owner IS NULL), next_seq, fence, next_n, turn, owner IS NULL \
             FROM sessions WHERE id = ? AND tenant = ?;",
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
        let holds = stored.fence == commit.fence && !get::<bool>(row, 5)?;
        let released = commit.gave_back(stored.fence);
        if (holds || released) && self.is_last(link).await? {
            return Ok(Committed { released, ..committed(row)? });
        }
        if !holds {
            return Err(StoreError::Fenced { held: commit.fence, current: stored.fence });
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

    /// Whether the last step that is stored is this one.
    async fn is_last(&self, link: &mut Link) -> Result<bool, StoreError> {
        let Self { commit, journal, events, .. } = self;
        if journal.is_none() && events.is_none() {
            return Ok(false);
        }
        let mut script = Script::new(
            "SELECT journal IS ? AND events IS ? AND turn IS coalesce(?, turn) FROM steps WHERE session = ? \
             ORDER BY last_seq DESC, ordinal DESC LIMIT 1;",
        );
        let named =
            commit.open_turn.as_ref().map(|t| &t.id).or(commit.turn.as_ref().map(|t| &t.id));
        script
            .bind(journal.clone())?
            .bind(events.clone())?
            .bind(named.map(|id| id.as_str()))?
            .bind(commit.key.id.as_str())?;
        let rows = link.step(script).await.map_err(failed)?;
        rows.first().map_or(Ok(false), |row| get::<bool>(row, 0))
    }
}

/// What the model calls among events cost: a JSON array with an array for each, in the order of `step_in`.
fn usage<'a>(
    events: impl Iterator<Item = Whole<'a>>,
    account: Option<&str>,
) -> Result<Option<String>, StoreError> {
    let calls: Vec<_> = metered_calls(events)
        .map(|(event, call)| {
            let (model, sum) = metered(call);
            let counts = [sum.input, sum.cache_read, sum.cache_write, sum.output, sum.reasoning];
            let [input, read, write, output, reasoning] = counts.map(int);
            let (turn, agent, at) =
                (event.turn.as_str(), call.agent.as_str(), event.at.as_millis());
            let cost = int(sum.cost_micros);
            (turn, agent, model, at, input, read, write, output, reasoning, cost, account)
        })
        .collect();
    if calls.is_empty() { Ok(None) } else { text(&calls).map(Some) }
}

/// Records what the model calls among events cost.
pub(super) fn meter(
    script: &mut Script,
    session: &str,
    events: &[Event],
) -> Result<(), StoreError> {
    let Some(usage) = usage(events.iter().map(Whole::from), None)? else { return Ok(()) };
    script
        .add(
            "INSERT INTO usage (tenant, user, session, turn, agent, model, at, \
             input, cache_read, cache_write, output, reasoning, cost_micros) \
             SELECT s.tenant, s.user, s.id, u.value ->> 0, u.value ->> 1, u.value ->> 2, u.value ->> 3, \
             u.value ->> 4, u.value ->> 5, u.value ->> 6, u.value ->> 7, u.value ->> 8, u.value ->> 9 \
             FROM json_each(?) u, sessions s WHERE s.id = ?;",
        )
        .bind(usage)?
        .bind(session)?;
    Ok(())
}

const fn role(message: &Message) -> &'static str {
    match message {
        Message::User(_) => "user",
        Message::Assistant(_) => "assistant",
        Message::System(_) => "system",
    }
}

/// The words a message is found by, its tenant's own among them.
fn found_by(tenant: &str, message: &Message) -> Option<String> {
    let mut words = words::of_message(message);
    if words.is_empty() {
        return None;
    }
    words.insert(words::of_tenant(tenant));
    Some(words.into_iter().collect::<Vec<_>>().join(" "))
}

pub(super) fn put_message(
    script: &mut Script,
    key: &SessionKey,
    message: &Message,
) -> Result<(), StoreError> {
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
        .bind(role(message))?
        .bind(text(message)?)?;
    if let Some(words) = found_by(key.tenant.as_str(), message) {
        script
            .add(
                "INSERT OR REPLACE INTO message_words (rowid, words) \
                 SELECT ordinal, ? FROM messages WHERE session = ? AND id = ?;",
            )
            .bind(words)?
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
