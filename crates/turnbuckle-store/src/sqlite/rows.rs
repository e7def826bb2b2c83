//! Rows read into the store's types, and values written as text.

use crate::error::StoreError;
use crate::model::{Card, InboxItem, Lease, Session, SessionKey, TurnRecord};
use crate::sqlite::fail::{corrupt, failed};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::sqlite::SqliteRow;
use sqlx::{Decode, Row, Sqlite, Type};
use std::sync::Arc;
use turnbuckle_core::time::Timestamp;

/// The columns [`session`] reads, in its order.
pub(super) const SESSION: &str = "id, tenant, user, agent, title, model, created, updated, version, fence, owner, \
     lease_until, next_seq, status, turn, pending, forked_from";

/// The columns [`turn`] reads, in its order.
pub(super) const TURN: &str = "id, spec, status, outcome, started, ended";

/// The columns [`card`] reads, in its order; from `cards c JOIN messages m`.
pub(super) const CARD: &str = "c.tenant, c.session, m.body, \
     (SELECT n FROM inbox i WHERE i.session = c.session AND i.card = c.id)";

/// A column.
pub(super) fn get<'r, T>(row: &'r SqliteRow, column: usize) -> Result<T, StoreError>
where
    T: Decode<'r, Sqlite> + Type<Sqlite>,
{
    row.try_get(column).map_err(failed)
}

/// A column that counts.
pub(super) fn number(row: &SqliteRow, column: usize) -> Result<u64, StoreError> {
    let value: i64 = get(row, column)?;
    u64::try_from(value).map_err(|e| corrupt("number", e))
}

/// A column with a time.
pub(super) fn time(row: &SqliteRow, column: usize) -> Result<Timestamp, StoreError> {
    Ok(Timestamp::from_millis(get(row, column)?))
}

/// A column with an identifier.
pub(super) fn id<T: From<String>>(row: &SqliteRow, column: usize) -> Result<T, StoreError> {
    Ok(T::from(get(row, column)?))
}

/// A column with an identifier or nothing.
pub(super) fn maybe_id<T: From<String>>(
    row: &SqliteRow,
    column: usize,
) -> Result<Option<T>, StoreError> {
    let text: Option<String> = get(row, column)?;
    Ok(text.map(T::from))
}

/// A column with JSON.
pub(super) fn json<T: DeserializeOwned>(
    row: &SqliteRow,
    column: usize,
    what: &str,
) -> Result<T, StoreError> {
    serde_json::from_str(get(row, column)?).map_err(|e| corrupt(what, e))
}

/// A column with JSON or nothing.
pub(super) fn maybe_json<T: DeserializeOwned>(
    row: &SqliteRow,
    column: usize,
    what: &str,
) -> Result<Option<T>, StoreError> {
    let text: Option<&str> = get(row, column)?;
    text.map(|text| serde_json::from_str(text).map_err(|e| corrupt(what, e))).transpose()
}

/// A column with the plain name of an enum's variant.
pub(super) fn named<T: DeserializeOwned>(row: &SqliteRow, column: usize) -> Result<T, StoreError> {
    use serde::de::IntoDeserializer;
    use serde::de::value::{Error, StrDeserializer};
    let text: &str = get(row, column)?;
    let plain: StrDeserializer<'_, Error> = text.into_deserializer();
    T::deserialize(plain).map_err(|e| corrupt("status", e))
}

/// A value as JSON text.
pub(super) fn text<T: Serialize + ?Sized>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|e| StoreError::Other { cause: Arc::new(e) })
}

/// The plain name of an enum's variant.
pub(super) fn name<T: Serialize>(value: &T) -> Result<String, StoreError> {
    Ok(text(value)?.trim_matches('"').to_owned())
}

/// A count as SQLite keeps it.
pub(super) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn session(row: &SqliteRow, from: usize) -> Result<Session, StoreError> {
    let owner: Option<String> = get(row, from + 10)?;
    let until = time(row, from + 11)?;
    Ok(Session {
        key: SessionKey { id: id(row, from)?, tenant: id(row, from + 1)? },
        user: id(row, from + 2)?,
        agent: id(row, from + 3)?,
        title: get(row, from + 4)?,
        model: get(row, from + 5)?,
        created: time(row, from + 6)?,
        updated: time(row, from + 7)?,
        version: number(row, from + 8)?,
        fence: number(row, from + 9)?,
        lease: owner.map(|owner| Lease { owner, until }),
        next_seq: number(row, from + 12)?,
        status: named(row, from + 13)?,
        turn: maybe_id(row, from + 14)?,
        pending: number(row, from + 15)?,
        forked_from: maybe_id(row, from + 16)?,
    })
}

pub(super) fn turn(row: &SqliteRow, from: usize) -> Result<TurnRecord, StoreError> {
    let ended: Option<i64> = get(row, from + 5)?;
    Ok(TurnRecord {
        id: id(row, from)?,
        spec: get(row, from + 1)?,
        status: named(row, from + 2)?,
        outcome: maybe_json(row, from + 3, "outcome")?,
        started: time(row, from + 4)?,
        ended: ended.map(Timestamp::from_millis),
    })
}

pub(super) fn card(row: &SqliteRow) -> Result<Card, StoreError> {
    let answer: Option<i64> = get(row, 3)?;
    Ok(Card {
        session: SessionKey { tenant: id(row, 0)?, id: id(row, 1)? },
        message: json(row, 2, "card")?,
        answered_by: answer.map(i64::unsigned_abs),
    })
}

/// From the columns `n, at, input`.
pub(super) fn item(row: &SqliteRow, from: usize) -> Result<InboxItem, StoreError> {
    Ok(InboxItem {
        n: number(row, from)?,
        at: time(row, from + 1)?,
        input: json(row, from + 2, "input")?,
    })
}
