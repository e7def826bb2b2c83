//! Who owns a session: claim, renew, release, park, and what waits for an owner.

use super::pool::Lent;
use super::rows::{get, session_row};
use super::sessions::NO_SESSION;
use crate::error::StoreError;
use crate::model::{Claim, Release, Released, Session, SessionKey};
use crate::sql::{Cells, id, int, number, session, time};
use std::sync::Arc;
use turnbuckle_core::ids::SessionId;
use turnbuckle_core::time::Timestamp;

/// The lease of a session nobody holds.
const NO_LEASE: i64 = i64::MIN;

/// A claim is tried so often when the session is given back just when it was found to be taken.
const TRIES: usize = 20;

/// The moment a lease ends.
fn until(now: Timestamp, lease_ms: u64) -> i64 {
    now.plus(int(lease_ms)).as_millis()
}

pub(super) async fn claim(
    lent: &mut Lent<'_>,
    key: &SessionKey,
    owner: &str,
    lease_ms: u64,
    now: Timestamp,
) -> Result<Claim, StoreError> {
    for _ in 0..TRIES {
        let sql = sqlx::query(concat!(
            "UPDATE sessions SET fence = fence + 1, owner = $1, lease_until = $2 \
             WHERE id = $3 AND tenant = $4 AND (owner IS NULL OR lease_until <= $5) RETURNING ",
            session_row!()
        ));
        let sql = sql
            .bind(owner)
            .bind(until(now, lease_ms))
            .bind(key.id.as_str())
            .bind(key.tenant.as_str())
            .bind(now.as_millis());
        if let Some(row) = lent.row(sql).await? {
            let session = Box::new(session(&row, 0)?);
            return Ok(Claim::Held { fence: session.fence, session });
        }
        let sql =
            sqlx::query("SELECT owner, lease_until FROM sessions WHERE id = $1 AND tenant = $2")
                .bind(key.id.as_str())
                .bind(key.tenant.as_str());
        let row = lent.row(sql).await?.ok_or(NO_SESSION)?;
        let until = time(&row, 1)?;
        if let Some(owner) = row.maybe_text(0)?
            && until > now
        {
            return Ok(Claim::Busy { owner: owner.to_owned(), until });
        }
    }
    let cause = std::io::Error::other("the session changes hands all the time");
    Err(StoreError::Unavailable { cause: Arc::new(cause) })
}

pub(super) async fn probe(lent: &mut Lent<'_>, now: Timestamp) -> Result<(), StoreError> {
    let sql = sqlx::query(
        "INSERT INTO probe (id, at) VALUES (0, $1) ON CONFLICT (id) DO UPDATE SET at = excluded.at",
    );
    lent.rows(sql.bind(now.as_millis())).await.map(drop)
}

pub(super) async fn renew(
    lent: &mut Lent<'_>,
    key: &SessionKey,
    fence: u64,
    lease_ms: u64,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = sqlx::query(
        "UPDATE sessions SET lease_until = $1 \
         WHERE id = $2 AND tenant = $3 AND fence = $4 AND owner IS NOT NULL RETURNING 1",
    );
    let sql = sql
        .bind(until(now, lease_ms))
        .bind(key.id.as_str())
        .bind(key.tenant.as_str())
        .bind(int(fence));
    match lent.row(sql).await? {
        Some(_) => Ok(()),
        None => Err(fenced(lent, key, fence).await?),
    }
}

/// Whose fence is in force, for one who shows another.
async fn fenced(
    lent: &mut Lent<'_>,
    key: &SessionKey,
    held: u64,
) -> Result<StoreError, StoreError> {
    let sql = sqlx::query("SELECT fence FROM sessions WHERE id = $1 AND tenant = $2")
        .bind(key.id.as_str())
        .bind(key.tenant.as_str());
    let row = lent.row(sql).await?.ok_or(NO_SESSION)?;
    Ok(StoreError::Fenced { held, current: number(&row, 0)? })
}

pub(super) async fn release(
    lent: &mut Lent<'_>,
    key: &SessionKey,
    fence: u64,
    when: Release,
) -> Result<Released, StoreError> {
    let below = match when {
        Release::WhenDrained => Some(0),
        Release::Keeping { below } => Some(int(below)),
        Release::HandOver => None,
    };
    let sql = sqlx::query("SELECT outcome, r_fence, r_count FROM release_session($1, $2, $3, $4)")
        .bind(key.id.as_str())
        .bind(key.tenant.as_str())
        .bind(int(fence))
        .bind(below);
    let row = lent.row(sql).await?.ok_or(NO_SESSION)?;
    match row.text(0)? {
        "released" => Ok(Released::Released),
        "waiting" => Ok(Released::StillPending(number(&row, 2)?)),
        "fenced" => Err(StoreError::Fenced { held: fence, current: number(&row, 1)? }),
        _ => Err(NO_SESSION),
    }
}

pub(super) async fn park(
    lent: &mut Lent<'_>,
    key: &SessionKey,
    fence: u64,
    reason: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = sqlx::query(
        "UPDATE sessions SET fence = fence + 1, owner = NULL, lease_until = $1, parked = $2, parked_at = $3 \
         WHERE id = $4 AND tenant = $5 AND fence = $6 AND owner IS NOT NULL RETURNING 1",
    );
    let sql = sql
        .bind(NO_LEASE)
        .bind(reason.replace('\0', ""))
        .bind(now.as_millis())
        .bind(key.id.as_str())
        .bind(key.tenant.as_str())
        .bind(int(fence));
    match lent.row(sql).await? {
        Some(_) => Ok(()),
        None => Err(fenced(lent, key, fence).await?),
    }
}

pub(super) async fn unpark(lent: &mut Lent<'_>, key: &SessionKey) -> Result<(), StoreError> {
    let sql = sqlx::query(
        "UPDATE sessions SET parked = NULL, parked_at = NULL WHERE id = $1 AND tenant = $2 RETURNING 1",
    );
    let sql = sql.bind(key.id.as_str()).bind(key.tenant.as_str());
    lent.row(sql).await?.map(drop).ok_or(NO_SESSION)
}

pub(super) async fn parked(
    lent: &mut Lent<'_>,
    after: Option<&SessionId>,
    limit: u32,
) -> Result<Vec<Session>, StoreError> {
    let sql = sqlx::query(concat!(
        "SELECT ",
        session_row!(),
        " FROM sessions WHERE parked IS NOT NULL AND ($1::text IS NULL OR id > $1) ORDER BY id LIMIT $2"
    ));
    let sql = sql.bind(after.map(SessionId::as_str)).bind(i64::from(limit));
    lent.rows(sql).await?.iter().map(|row| session(row, 0)).collect()
}

pub(super) async fn claimable(
    lent: &mut Lent<'_>,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<SessionKey>, StoreError> {
    let sql = sqlx::query(
        "SELECT tenant, id FROM sessions WHERE (pending > 0 OR status = 'running') AND parked IS NULL \
         AND (status <> 'paused' OR next_input > kept_below) AND lease_until <= $1 ORDER BY lease_until, id LIMIT $2",
    );
    let sql = sql.bind(now.as_millis()).bind(i64::from(limit));
    let rows = lent.rows(sql).await?;
    rows.iter().map(|row| Ok(SessionKey { tenant: id(row, 0)?, id: id(row, 1)? })).collect()
}

pub(super) async fn forfeit(lent: &mut Lent<'_>, owner: &str) -> Result<u64, StoreError> {
    let sql = sqlx::query(
        "WITH freed AS (UPDATE sessions SET fence = fence + 1, owner = NULL, lease_until = $1 WHERE owner = $2 RETURNING 1) \
         SELECT count(*) FROM freed",
    );
    let sql = sql.bind(NO_LEASE).bind(owner);
    match lent.row(sql).await? {
        Some(row) => Ok(get::<i64>(&row, 0)?.unsigned_abs()),
        None => Ok(0),
    }
}
