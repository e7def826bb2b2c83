//! What a session holds: all of it for its owner, parts of it for everyone else.

use crate::error::StoreError;
use crate::model::{Loaded, SessionKey, TurnLog, TurnRecord};
use crate::sql::{TURN, entries, int, item, json, session, turn, unreadable};
use crate::sqlite::fail::failed;
use crate::sqlite::inbox::found;
use crate::sqlite::link::{Link, Script};
use crate::sqlite::rows::{SESSION, get};
use crate::sqlite::sessions::NO_SESSION;
use turnbuckle_core::event::Event;
use turnbuckle_core::ids::TurnId;
use turnbuckle_core::message::Message;

/// The steps of one turn, to follow `SELECT columns`; `?1` is the session, `t` the turn.
const STEPS_OF_TURN: &str = "FROM turns t JOIN steps s ON s.session = ?1 AND s.last_seq >= t.since \
     AND s.last_seq <= coalesce(t.until, 9223372036854775807) AND s.turn = t.id AND s.journal IS NOT NULL ";

pub(super) async fn load(link: &mut Link, key: &SessionKey) -> Result<Loaded, StoreError> {
    let mut script = Script::snapshot();
    script
        .add("SELECT 0, ")
        .add(SESSION)
        .add(" FROM sessions WHERE id = ?1 AND tenant = ?2;")
        .add("SELECT 1, state FROM session_states WHERE session = ?1;")
        .add("SELECT 2, body FROM messages WHERE session = ?1 ORDER BY position;")
        .add("SELECT 3, ")
        .add(TURN)
        .add(" FROM turns WHERE session = ?1 AND id = (SELECT turn FROM sessions WHERE id = ?1);")
        .add("SELECT 4, s.journal ")
        .add(STEPS_OF_TURN)
        .add("WHERE t.session = ?1 AND t.id = (SELECT turn FROM sessions WHERE id = ?1) ORDER BY s.last_seq, s.ordinal;")
        .add("SELECT 5, n, at, input FROM inbox WHERE session = ?1 AND consumed = 0 ORDER BY n;")
        .bind(key.id.as_str())?
        .bind(key.tenant.as_str())?
        .end();
    let rows = link.run(script).await.map_err(failed)?;
    let (first, rest) = rows.split_first().ok_or(NO_SESSION)?;
    if get::<i64>(first, 0)? != 0 {
        return Err(NO_SESSION);
    }
    let mut loaded = Loaded {
        session: session(first, 1)?,
        state: None,
        messages: Vec::with_capacity(rest.len()),
        turn: None,
        unreadable: None,
        inbox: Vec::new(),
    };
    let mut open = None;
    let mut journal = Vec::new();
    for row in rest {
        match get::<i64>(row, 0)? {
            1 => loaded.state = get(row, 1)?,
            2 => loaded.messages.push(json(row, 1, "message")?),
            3 => open = Some(turn(row, 1)?),
            4 if loaded.unreadable.is_some() => {}
            4 => loaded.unreadable = unreadable(entries(row, 1, &mut journal))?,
            _ => loaded.inbox.push(item(row, 1)?),
        }
    }
    if loaded.unreadable.is_some() {
        journal.clear();
    }
    loaded.turn = open.map(|turn| TurnLog { turn, journal });
    Ok(loaded)
}

pub(super) async fn messages(
    link: &mut Link,
    key: &SessionKey,
    from: u32,
    limit: u32,
) -> Result<Vec<Message>, StoreError> {
    let mut script = Script::snapshot();
    script
        .add(
            "SELECT 0 FROM sessions WHERE id = ?1 AND tenant = ?2;\
             SELECT 1, body FROM messages WHERE session = ?1 AND position >= ?3 ORDER BY position LIMIT ?4;",
        )
        .bind(key.id.as_str())?
        .bind(key.tenant.as_str())?
        .bind(i64::from(from))?
        .bind(i64::from(limit))?
        .end();
    let rows = link.run(script).await.map_err(failed)?;
    found(&rows)?.map(|row| json(row, 1, "message")).collect()
}

pub(super) async fn events(
    link: &mut Link,
    key: &SessionKey,
    after_seq: u64,
    limit: u32,
) -> Result<Vec<Event>, StoreError> {
    // Every step with events has at least one, so `limit` steps are enough.
    let mut script = Script::snapshot();
    script
        .add(
            "SELECT 0 FROM sessions WHERE id = ?1 AND tenant = ?2;\
             SELECT 1, events FROM steps WHERE session = ?1 AND last_seq > ?3 AND events IS NOT NULL \
             ORDER BY last_seq, ordinal LIMIT ?4;",
        )
        .bind(key.id.as_str())?
        .bind(key.tenant.as_str())?
        .bind(int(after_seq))?
        .bind(i64::from(limit))?
        .end();
    let rows = link.run(script).await.map_err(failed)?;
    let limit = limit as usize;
    let mut events: Vec<Event> = Vec::new();
    for row in found(&rows)? {
        if events.len() >= limit {
            break;
        }
        let step: Vec<Event> = json(row, 1, "events")?;
        events.extend(step.into_iter().filter(|event| event.seq > after_seq));
    }
    events.truncate(limit);
    Ok(events)
}

pub(super) async fn journal(
    link: &mut Link,
    key: &SessionKey,
    id: &TurnId,
) -> Result<TurnLog, StoreError> {
    let mut script = Script::snapshot();
    script
        .add("SELECT 0 FROM sessions WHERE id = ?1 AND tenant = ?2;SELECT 1, ")
        .add(TURN)
        .add(" FROM turns WHERE session = ?1 AND id = ?3;SELECT 2, s.journal ")
        .add(STEPS_OF_TURN)
        .add("WHERE t.session = ?1 AND t.id = ?3 ORDER BY s.last_seq, s.ordinal;")
        .bind(key.id.as_str())?
        .bind(key.tenant.as_str())?
        .bind(id.as_str())?
        .end();
    let rows = link.run(script).await.map_err(failed)?;
    let mut rows = found(&rows)?;
    let record = turn(rows.next().ok_or(StoreError::NotFound { what: "turn" })?, 1)?;
    let mut journal = Vec::new();
    for row in rows {
        entries(row, 1, &mut journal)?;
    }
    Ok(TurnLog { turn: record, journal })
}

pub(super) async fn turns(
    link: &mut Link,
    key: &SessionKey,
) -> Result<Vec<TurnRecord>, StoreError> {
    let mut script = Script::snapshot();
    script
        .add("SELECT 0 FROM sessions WHERE id = ?1 AND tenant = ?2;SELECT ")
        .add(TURN)
        .add(" FROM turns WHERE session = ?1 ORDER BY ordinal;")
        .bind(key.id.as_str())?
        .bind(key.tenant.as_str())?
        .end();
    let rows = link.run(script).await.map_err(failed)?;
    found(&rows)?.map(|row| turn(row, 0)).collect()
}
