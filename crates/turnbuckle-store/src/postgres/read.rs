//! What a session holds: all of it for its owner, parts of it for everyone else. Each is one statement, and so of one moment.

use super::inbox::joined;
use super::pool::Lent;
use super::rows::{get, session_row, string, texts};
use super::sessions::NO_SESSION;
use crate::error::StoreError;
use crate::model::{InboxItem, Loaded, SessionKey, TurnLog, TurnRecord};
use crate::sql::{Cells, SESSION_COLUMNS, add_entries, corrupt, int, session, turn, unreadable};
use serde::de::DeserializeOwned;
use sqlx::postgres::PgRow;
use turnbuckle_core::event::Event;
use turnbuckle_core::ids::TurnId;
use turnbuckle_core::message::Message;
use turnbuckle_core::time::Timestamp;

/// The journals of the steps of turn `t` of session `s`, as an array in order.
macro_rules! journals {
    () => {
        "(SELECT array_agg(p.journal ORDER BY p.last_seq, p.version) FROM steps p WHERE p.session = s.id \
          AND p.last_seq >= t.since AND p.last_seq <= coalesce(t.until, 9223372036854775807) \
          AND p.turn = t.id AND p.journal IS NOT NULL)"
    };
}

/// The inputs of session `s` that wait, as arrays `ns`, `ats` and `inputs` of `i`.
macro_rules! waiting {
    () => {
        "CROSS JOIN LATERAL (SELECT array_agg(n ORDER BY n) AS ns, array_agg(at ORDER BY n) AS ats, \
         array_agg(input ORDER BY n) AS inputs FROM inbox WHERE session = s.id AND NOT consumed) i"
    };
}
pub(super) use waiting;

pub(super) async fn load(lent: &mut Lent<'_>, key: &SessionKey) -> Result<Loaded, StoreError> {
    let sql = sqlx::query(concat!(
        "SELECT s.*, (SELECT state FROM session_states WHERE session = s.id), \
         (SELECT array_agg(body ORDER BY position) FROM messages WHERE session = s.id), ",
        journals!(),
        ", i.ns, i.ats, i.inputs, t.id, t.spec, t.status, t.outcome, t.started, t.ended, t.queued_below \
         FROM (SELECT ",
        session_row!(),
        " FROM sessions WHERE id = $1 AND tenant = $2) s ",
        "LEFT JOIN turns t ON t.session = s.id AND t.id = s.turn ",
        waiting!()
    ));
    let row = lent.row(sql.bind(key.id.as_str()).bind(key.tenant.as_str())).await?;
    let row = row.ok_or(NO_SESSION)?;
    let at = SESSION_COLUMNS;
    let mut loaded = Loaded {
        session: session(&row, 0)?,
        state: get::<Option<Vec<u8>>>(&row, at)?.map(string).transpose()?,
        messages: each(&texts(&row, at + 1)?, "message")?,
        turn: None,
        unreadable: None,
        inbox: items(&row, at + 3)?,
    };
    if row.maybe_text(at + 6)?.is_some() {
        let turn = turn(&row, at + 6)?;
        let mut journal = Vec::new();
        let read = texts(&row, at + 2)?.iter().try_for_each(|s| add_entries(s, &mut journal));
        loaded.unreadable = unreadable(read)?;
        if loaded.unreadable.is_some() {
            journal.clear();
        }
        loaded.turn = Some(TurnLog { turn, journal });
    }
    Ok(loaded)
}

/// Reads every text as JSON.
pub(super) fn each<T: DeserializeOwned>(
    texts: &[String],
    what: &str,
) -> Result<Vec<T>, StoreError> {
    let read = |text: &String| serde_json::from_str(text).map_err(|e| corrupt(what, e));
    texts.iter().map(read).collect()
}

/// From three columns with arrays of numbers, times and inputs.
pub(super) fn items(row: &PgRow, column: usize) -> Result<Vec<InboxItem>, StoreError> {
    let ns = get::<Option<Vec<i64>>>(row, column)?.unwrap_or_default();
    let ats = get::<Option<Vec<i64>>>(row, column + 1)?.unwrap_or_default();
    let inputs = texts(row, column + 2)?;
    let rows = ns.iter().zip(&ats).zip(&inputs);
    rows.map(|((n, at), input)| {
        Ok(InboxItem {
            n: n.unsigned_abs(),
            at: Timestamp::from_millis(*at),
            input: serde_json::from_str(input).map_err(|e| corrupt("input", e))?,
        })
    })
    .collect()
}

pub(super) async fn messages(
    lent: &mut Lent<'_>,
    key: &SessionKey,
    from: u32,
    limit: u32,
) -> Result<Vec<Message>, StoreError> {
    let sql = sqlx::query(
        "SELECT (SELECT array_agg(m.body ORDER BY m.position) FROM \
         (SELECT body, position FROM messages WHERE session = s.id AND position >= $3 ORDER BY position LIMIT $4) m) \
         FROM sessions s WHERE s.id = $1 AND s.tenant = $2",
    );
    let sql = sql
        .bind(key.id.as_str())
        .bind(key.tenant.as_str())
        .bind(i64::from(from))
        .bind(i64::from(limit));
    let row = lent.row(sql).await?.ok_or(NO_SESSION)?;
    each(&texts(&row, 0)?, "message")
}

pub(super) async fn events(
    lent: &mut Lent<'_>,
    key: &SessionKey,
    after_seq: u64,
    limit: u32,
) -> Result<Vec<Event>, StoreError> {
    // Every step with events has at least one, so `limit` steps are enough.
    let sql = sqlx::query(
        "SELECT (SELECT array_agg(p.events ORDER BY p.last_seq, p.version) FROM \
         (SELECT events, last_seq, version FROM steps WHERE session = s.id AND last_seq > $3 AND events IS NOT NULL \
          ORDER BY last_seq, version LIMIT $4) p) \
         FROM sessions s WHERE s.id = $1 AND s.tenant = $2",
    );
    let sql = sql
        .bind(key.id.as_str())
        .bind(key.tenant.as_str())
        .bind(int(after_seq))
        .bind(i64::from(limit));
    let row = lent.row(sql).await?.ok_or(NO_SESSION)?;
    let limit = limit as usize;
    let mut events: Vec<Event> = Vec::new();
    for step in texts(&row, 0)? {
        if events.len() >= limit {
            break;
        }
        let step: Vec<Event> = serde_json::from_str(&step).map_err(|e| corrupt("events", e))?;
        events.extend(step.into_iter().filter(|event| event.seq > after_seq));
    }
    events.truncate(limit);
    Ok(events)
}

pub(super) async fn journal(
    lent: &mut Lent<'_>,
    key: &SessionKey,
    id: &TurnId,
) -> Result<TurnLog, StoreError> {
    let sql = sqlx::query(concat!(
        "SELECT ",
        journals!(),
        ", t.id, t.spec, t.status, t.outcome, t.started, t.ended, t.queued_below \
         FROM sessions s LEFT JOIN turns t ON t.session = s.id AND t.id = $3 WHERE s.id = $1 AND s.tenant = $2"
    ));
    let sql = sql.bind(key.id.as_str()).bind(key.tenant.as_str()).bind(id.as_str());
    let row = lent.row(sql).await?.ok_or(NO_SESSION)?;
    if row.maybe_text(1)?.is_none() {
        return Err(StoreError::NotFound { what: "turn" });
    }
    let mut journal = Vec::new();
    texts(&row, 0)?.iter().try_for_each(|step| add_entries(step, &mut journal))?;
    Ok(TurnLog { turn: turn(&row, 1)?, journal })
}

pub(super) async fn turns(
    lent: &mut Lent<'_>,
    key: &SessionKey,
) -> Result<Vec<TurnRecord>, StoreError> {
    let sql = sqlx::query(
        "SELECT t.id, t.spec, t.status, t.outcome, t.started, t.ended, t.queued_below \
         FROM sessions s LEFT JOIN turns t ON t.session = s.id WHERE s.id = $1 AND s.tenant = $2 ORDER BY t.ordinal",
    );
    let rows = lent.rows(sql.bind(key.id.as_str()).bind(key.tenant.as_str())).await?;
    joined(&rows, 0)?.map(|row| turn(row, 0)).collect()
}
