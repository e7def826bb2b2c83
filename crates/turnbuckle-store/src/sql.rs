//! Rows read into the store's types, and values written as text: the same for every store that speaks SQL.

use crate::error::StoreError;
use crate::model::{
    Captured, Card, InboxItem, Job, JobKey, KeptUsage, Lease, MeteredCall, Parked, Schedule,
    ScheduleKey, Session, SessionKey, Task, TaskKey, Tick, TurnRecord, UsageSum,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::error::Error;
use std::sync::Arc;
use turnbuckle_core::machine::Recorded;
use turnbuckle_core::time::Timestamp;

/// The columns [`session`] reads, in its order; `person` is the name of the column with the user.
macro_rules! session_columns {
    ($person:literal) => {
        concat!(
            "id, tenant, ",
            $person,
            ", agent, title, model, created, updated, version, fence, owner, lease_until, next_seq, status, turn, \
             pending, forked_from, kept_below, parked, parked_at"
        )
    };
}
pub(crate) use session_columns;

/// How many columns [`session`] reads.
pub(crate) const SESSION_COLUMNS: usize = 20;

/// The columns [`turn`] reads, in its order.
pub(crate) const TURN: &str = "id, spec, status, outcome, started, ended, queued_below";

/// The columns [`card`] reads, in its order; from `cards c JOIN messages m`.
pub(crate) const CARD: &str = "c.tenant, c.session, m.body, \
     (SELECT n FROM inbox i WHERE i.session = c.session AND i.card = c.id)";

/// The columns [`action`] reads, in its order; from `captured c`.
pub(crate) const ACTION: &str = "c.turn, c.number, c.revision, c.action, c.status, c.result";

/// A row's columns, by their place.
pub(crate) trait Cells {
    fn text(&self, column: usize) -> Result<&str, StoreError>;
    fn maybe_text(&self, column: usize) -> Result<Option<&str>, StoreError>;
    fn int(&self, column: usize) -> Result<i64, StoreError>;
    fn maybe_int(&self, column: usize) -> Result<Option<i64>, StoreError>;
    /// Text that is opaque to the store and may hold any character.
    fn opaque(&self, column: usize) -> Result<String, StoreError>;
}

/// What is stored cannot be read.
pub(crate) fn corrupt(
    what: impl Into<String>,
    cause: impl Error + Send + Sync + 'static,
) -> StoreError {
    StoreError::Corrupt { what: what.into(), cause: Arc::new(cause) }
}

/// A column that counts.
pub(crate) fn number(row: &impl Cells, column: usize) -> Result<u64, StoreError> {
    u64::try_from(row.int(column)?).map_err(|e| corrupt("number", e))
}

/// A column with a time.
pub(crate) fn time(row: &impl Cells, column: usize) -> Result<Timestamp, StoreError> {
    Ok(Timestamp::from_millis(row.int(column)?))
}

/// A column with an identifier.
pub(crate) fn id<T: for<'a> From<&'a str>>(
    row: &impl Cells,
    column: usize,
) -> Result<T, StoreError> {
    Ok(T::from(row.text(column)?))
}

/// A column with an identifier or nothing.
pub(crate) fn maybe_id<T: for<'a> From<&'a str>>(
    row: &impl Cells,
    column: usize,
) -> Result<Option<T>, StoreError> {
    Ok(row.maybe_text(column)?.map(|text| T::from(text)))
}

/// A column with JSON.
pub(crate) fn json<T: DeserializeOwned>(
    row: &impl Cells,
    column: usize,
    what: &str,
) -> Result<T, StoreError> {
    serde_json::from_str(row.text(column)?).map_err(|e| corrupt(what, e))
}

/// A column with JSON or nothing.
pub(crate) fn maybe_json<T: DeserializeOwned>(
    row: &impl Cells,
    column: usize,
    what: &str,
) -> Result<Option<T>, StoreError> {
    let text = row.maybe_text(column)?;
    text.map(|text| serde_json::from_str(text).map_err(|e| corrupt(what, e))).transpose()
}

/// A column with the plain name of an enum's variant.
pub(crate) fn named<T: DeserializeOwned>(row: &impl Cells, column: usize) -> Result<T, StoreError> {
    variant(row.text(column)?)
}

/// An enum's variant by its plain name.
pub(crate) fn variant<T: DeserializeOwned>(name: &str) -> Result<T, StoreError> {
    use serde::de::IntoDeserializer;
    use serde::de::value::{Error, StrDeserializer};
    let plain: StrDeserializer<'_, Error> = name.into_deserializer();
    T::deserialize(plain).map_err(|e| corrupt("status", e))
}

/// A value as JSON text.
pub(crate) fn text<T: Serialize + ?Sized>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|e| StoreError::Other { cause: Arc::new(e) })
}

/// The plain name of an enum's variant.
pub(crate) fn name<T: Serialize>(value: &T) -> Result<String, StoreError> {
    Ok(text(value)?.trim_matches('"').to_owned())
}

/// A count as SQL keeps it.
pub(crate) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// From [`session_columns`].
pub(crate) fn session(row: &impl Cells, from: usize) -> Result<Session, StoreError> {
    let until = time(row, from + 11)?;
    let owner = row.maybe_text(from + 10)?;
    let parked = match row.maybe_text(from + 18)? {
        Some(reason) => Some(Parked { reason: reason.to_owned(), at: time(row, from + 19)? }),
        None => None,
    };
    Ok(Session {
        key: SessionKey { id: id(row, from)?, tenant: id(row, from + 1)? },
        user: id(row, from + 2)?,
        agent: id(row, from + 3)?,
        title: maybe_id(row, from + 4)?,
        model: maybe_id(row, from + 5)?,
        created: time(row, from + 6)?,
        updated: time(row, from + 7)?,
        version: number(row, from + 8)?,
        fence: number(row, from + 9)?,
        lease: owner.map(|owner| Lease { owner: owner.to_owned(), until }),
        next_seq: number(row, from + 12)?,
        status: named(row, from + 13)?,
        turn: maybe_id(row, from + 14)?,
        pending: number(row, from + 15)?,
        forked_from: maybe_id(row, from + 16)?,
        kept_below: number(row, from + 17)?,
        parked,
    })
}

/// From [`TURN`].
pub(crate) fn turn(row: &impl Cells, from: usize) -> Result<TurnRecord, StoreError> {
    Ok(TurnRecord {
        id: id(row, from)?,
        spec: row.opaque(from + 1)?,
        status: named(row, from + 2)?,
        outcome: maybe_json(row, from + 3, "outcome")?,
        started: time(row, from + 4)?,
        ended: row.maybe_int(from + 5)?.map(Timestamp::from_millis),
        queued_below: number(row, from + 6)?,
    })
}

/// From [`CARD`].
pub(crate) fn card(row: &impl Cells) -> Result<Card, StoreError> {
    Ok(Card {
        session: SessionKey { tenant: id(row, 0)?, id: id(row, 1)? },
        message: json(row, 2, "card")?,
        answered_by: row.maybe_int(3)?.map(i64::unsigned_abs),
    })
}

/// From the columns `n, at, input`.
pub(crate) fn item(row: &impl Cells, from: usize) -> Result<InboxItem, StoreError> {
    Ok(InboxItem {
        n: number(row, from)?,
        at: time(row, from + 1)?,
        input: json(row, from + 2, "input")?,
    })
}

/// From [`ACTION`].
pub(crate) fn action(row: &impl Cells, from: usize) -> Result<Captured, StoreError> {
    Ok(Captured {
        turn: id(row, from)?,
        index: u32::try_from(number(row, from + 1)?).unwrap_or(u32::MAX),
        revision: number(row, from + 2)?,
        action: json(row, from + 3, "captured action")?,
        status: named(row, from + 4)?,
        result: maybe_json(row, from + 5, "result of a captured action")?,
    })
}

/// Adds the journal entries of one step.
pub(crate) fn entries(
    row: &impl Cells,
    column: usize,
    journal: &mut Vec<Recorded>,
) -> Result<(), StoreError> {
    add_entries(row.text(column)?, journal)
}

/// Adds the journal entries of one step, from its text.
pub(crate) fn add_entries(step: &str, journal: &mut Vec<Recorded>) -> Result<(), StoreError> {
    let step: Vec<Recorded> = serde_json::from_str(step).map_err(|e| corrupt("journal", e))?;
    for entry in step {
        if entry.n as usize != journal.len() {
            let gap = format!("entry {} follows {} others", entry.n, journal.len());
            return Err(corrupt("journal", std::io::Error::other(gap)));
        }
        journal.push(entry);
    }
    Ok(())
}

/// Why a journal cannot be read, if that is so. The rest of the session can be, and must stay of use.
pub(crate) fn unreadable(read: Result<(), StoreError>) -> Result<Option<Arc<str>>, StoreError> {
    match read {
        Ok(()) => Ok(None),
        Err(error @ StoreError::Corrupt { .. }) => Ok(Some(error.report().into())),
        Err(other) => Err(other),
    }
}

/// From the columns `ordinal, tenant, PERSON, account, session, turn, agent, model, at, input, cache_read, cache_write, output,
/// reasoning, cost_micros`.
pub(crate) fn usage(row: &impl Cells) -> Result<KeptUsage, StoreError> {
    let call = MeteredCall {
        tenant: id(row, 1)?,
        user: id(row, 2)?,
        account: row.maybe_text(3)?.map(Into::into),
        session: id(row, 4)?,
        turn: id(row, 5)?,
        agent: id(row, 6)?,
        model: row.text(7)?.to_owned(),
        at: time(row, 8)?,
        sum: UsageSum {
            calls: 1,
            input: number(row, 9)?,
            cache_read: number(row, 10)?,
            cache_write: number(row, 11)?,
            output: number(row, 12)?,
            reasoning: number(row, 13)?,
            cost_micros: number(row, 14)?,
        },
    };
    Ok(KeptUsage { n: number(row, 0)?, call })
}

/// The columns [`job`] reads, in its order.
pub(crate) const JOB: &str = "tenant, id, queue, key, payload, status, due, wake, attempts, max_attempts, fence, owner, error, \
     result, created, ended, schedule, tick";

/// The columns [`schedule`] reads, in its order.
pub(crate) const SCHEDULE: &str = "tenant, id, cron, queue, payload, max_attempts, missed, state, next, last, revision, \
     created, updated";

/// The columns [`task`] reads, in its order; from `tasks t`.
pub(crate) const TASK: &str = "t.tenant, t.kind, t.reference, t.session, t.turn, t.call, t.status, t.detail, t.started, \
     t.ended, t.notified";

fn small(row: &impl Cells, column: usize) -> Result<u32, StoreError> {
    Ok(u32::try_from(number(row, column)?).unwrap_or(u32::MAX))
}

/// From [`JOB`].
pub(crate) fn job(row: &impl Cells, from: usize) -> Result<Job, StoreError> {
    let lease = match (row.maybe_text(from + 11)?, row.maybe_int(from + 7)?) {
        (Some(owner), Some(until)) => {
            Some(Lease { owner: owner.to_owned(), until: Timestamp::from_millis(until) })
        }
        _ => None,
    };
    let tick = match (maybe_id(row, from + 16)?, row.maybe_int(from + 17)?) {
        (Some(schedule), Some(at)) => Some(Tick { schedule, at: Timestamp::from_millis(at) }),
        _ => None,
    };
    Ok(Job {
        key: JobKey { tenant: id(row, from)?, id: id(row, from + 1)? },
        queue: row.text(from + 2)?.to_owned(),
        idempotency_key: maybe_id(row, from + 3)?,
        payload: json(row, from + 4, "payload of a job")?,
        status: named(row, from + 5)?,
        due: time(row, from + 6)?,
        attempts: small(row, from + 8)?,
        max_attempts: small(row, from + 9)?,
        fence: number(row, from + 10)?,
        lease,
        error: maybe_id(row, from + 12)?,
        result: maybe_json(row, from + 13, "result of a job")?,
        created: time(row, from + 14)?,
        ended: row.maybe_int(from + 15)?.map(Timestamp::from_millis),
        tick,
    })
}

/// From [`SCHEDULE`].
pub(crate) fn schedule(row: &impl Cells, from: usize) -> Result<Schedule, StoreError> {
    Ok(Schedule {
        key: ScheduleKey { tenant: id(row, from)?, id: id(row, from + 1)? },
        cron: json(row, from + 2, "cron expression")?,
        queue: row.text(from + 3)?.to_owned(),
        payload: json(row, from + 4, "payload of a schedule")?,
        max_attempts: small(row, from + 5)?,
        missed: json(row, from + 6, "rule for missed moments")?,
        state: named(row, from + 7)?,
        next: row.maybe_int(from + 8)?.map(Timestamp::from_millis),
        last: row.maybe_int(from + 9)?.map(Timestamp::from_millis),
        revision: number(row, from + 10)?,
        created: time(row, from + 11)?,
        updated: time(row, from + 12)?,
    })
}

/// From [`TASK`].
pub(crate) fn task(row: &impl Cells, from: usize) -> Result<Task, StoreError> {
    Ok(Task {
        key: TaskKey {
            tenant: id(row, from)?,
            kind: row.text(from + 1)?.to_owned(),
            reference: row.text(from + 2)?.to_owned(),
        },
        session: id(row, from + 3)?,
        turn: id(row, from + 4)?,
        call: id(row, from + 5)?,
        status: named(row, from + 6)?,
        detail: json(row, from + 7, "detail of a task")?,
        started: time(row, from + 8)?,
        ended: row.maybe_int(from + 9)?.map(Timestamp::from_millis),
        notified: row.maybe_int(from + 10)?.map(Timestamp::from_millis),
    })
}
