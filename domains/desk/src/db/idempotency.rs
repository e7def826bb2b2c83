//! Keys that make a write repeatable. The first result is stored in the write's own transaction,
//! so that either both are there or neither; a repeat by the same member gets that result and
//! writes nothing.

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::SqliteConnection;

use crate::caller::Caller;
use crate::error::{DeskError, Result};

const FIELD: &str = "idempotency_key";

/// The stored result of an earlier write under the same key.
pub(crate) async fn earlier<T: DeserializeOwned>(
    conn: &mut SqliteConnection,
    caller: &Caller,
    action: &'static str,
    key: Option<&str>,
) -> Result<Option<T>> {
    let Some(key) = key else { return Ok(None) };
    if key.is_empty() || key.len() > 200 {
        return Err(DeskError::invalid(FIELD, "must have 1 to 200 bytes"));
    }
    let row: Option<(String, String)> =
        sqlx::query_as("SELECT action, result FROM idempotency WHERE member_id = ? AND key = ?")
            .bind(caller.member.0)
            .bind(key)
            .fetch_optional(conn)
            .await?;
    match row {
        None => Ok(None),
        Some((stored, result)) if stored == action => Ok(Some(serde_json::from_str(&result)?)),
        Some((stored, _)) => Err(DeskError::invalid(
            FIELD,
            format!("{key:?} was used for {stored} already; a key belongs to one call"),
        )),
    }
}

/// Stores the result under the key, if there is one.
pub(crate) async fn remember<T: Serialize>(
    conn: &mut SqliteConnection,
    caller: &Caller,
    action: &'static str,
    key: Option<&str>,
    result: &T,
    now: Timestamp,
) -> Result<()> {
    let Some(key) = key else { return Ok(()) };
    sqlx::query(
        "INSERT INTO idempotency (member_id, key, action, result, created_at) VALUES (?, ?, ?, ?, ?)",
    )
    .bind(caller.member.0)
    .bind(key)
    .bind(action)
    .bind(serde_json::to_string(result)?)
    .bind(now.as_second())
    .execute(conn)
    .await?;
    Ok(())
}
