//! Who owns a session: claim, renew, release, and what waits for an owner.

use crate::error::StoreError;
use crate::model::{Claim, Release, Released, Session, SessionKey};
use crate::sql::{id, int, number, session, time};
use crate::sqlite::fail::failed;
use crate::sqlite::link::{Link, Script};
use crate::sqlite::rows::{SESSION, get};
use crate::sqlite::sessions::{NO_SESSION, first};
use turnbuckle_core::ids::SessionId;
use turnbuckle_core::time::Timestamp;

/// The lease of a session nobody holds.
const NO_LEASE: i64 = i64::MIN;

/// No input from number `?5` on waits.
const UNSEEN: &str =
    " AND NOT EXISTS (SELECT 1 FROM inbox WHERE session = ?2 AND consumed = 0 AND n >= ?5)";

/// The moment a lease ends.
fn until(now: Timestamp, lease_ms: u64) -> i64 {
    now.plus(int(lease_ms)).as_millis()
}

pub(super) async fn claim(
    link: &mut Link,
    key: &SessionKey,
    owner: &str,
    lease_ms: u64,
    now: Timestamp,
) -> Result<Claim, StoreError> {
    let take = |script: &mut Script| -> Result<(), StoreError> {
        script
            .add(
                "UPDATE sessions SET fence = fence + 1, owner = ?1, lease_until = ?2 \
                 WHERE id = ?3 AND tenant = ?4 AND (owner IS NULL OR lease_until <= ?5) RETURNING 1, ",
            )
            .add(SESSION)
            .bind(owner)?
            .bind(until(now, lease_ms))?
            .bind(key.id.as_str())?
            .bind(key.tenant.as_str())?
            .bind(now.as_millis())?;
        Ok(())
    };
    let mut script = Script::default();
    take(&mut script)?;
    let mut rows = link.run(script).await.map_err(failed)?;
    if rows.is_empty() {
        // Again, and who has it if not the caller, as of one moment.
        let mut script = Script::transaction();
        take(&mut script)?;
        script.add(";SELECT 0, owner, lease_until FROM sessions WHERE id = ?3 AND tenant = ?4;");
        script.end();
        rows = link.run(script).await.map_err(failed)?;
    }
    let row = rows.first().ok_or(NO_SESSION)?;
    if get::<bool>(row, 0)? {
        let session = Box::new(session(row, 1)?);
        Ok(Claim::Held { fence: session.fence, session })
    } else {
        Ok(Claim::Busy { owner: get(row, 1)?, until: time(row, 2)? })
    }
}

pub(super) async fn probe(link: &mut Link, now: Timestamp) -> Result<(), StoreError> {
    let mut script = Script::default();
    script
        .add("INSERT INTO probe (id, at) VALUES (0, ?1) ON CONFLICT (id) DO UPDATE SET at = excluded.at")
        .bind(now.as_millis())?;
    link.run(script).await.map(drop).map_err(failed)
}

pub(super) async fn renew(
    link: &mut Link,
    key: &SessionKey,
    fence: u64,
    lease_ms: u64,
    now: Timestamp,
) -> Result<(), StoreError> {
    let mut script = Script::transaction();
    script
        .add(
            "UPDATE sessions SET lease_until = ?1 \
             WHERE id = ?2 AND tenant = ?3 AND fence = ?4 AND owner IS NOT NULL RETURNING 1, fence;\
             SELECT 0, fence FROM sessions WHERE id = ?2 AND tenant = ?3;",
        )
        .bind(until(now, lease_ms))?
        .bind(key.id.as_str())?
        .bind(key.tenant.as_str())?
        .bind(int(fence))?
        .end();
    let rows = link.run(script).await.map_err(failed)?;
    let row = rows.first().ok_or(NO_SESSION)?;
    if get::<bool>(row, 0)? {
        Ok(())
    } else {
        Err(StoreError::Fenced { held: fence, current: number(row, 1)? })
    }
}

pub(super) async fn release(
    link: &mut Link,
    key: &SessionKey,
    fence: u64,
    when: Release,
) -> Result<Released, StoreError> {
    let mut script = Script::transaction();
    script.add("UPDATE sessions SET fence = fence + 1, owner = NULL, lease_until = ?1");
    if let Release::Keeping { .. } = when {
        script.add(", kept_below = ?5");
    }
    script.add(" WHERE id = ?2 AND tenant = ?3 AND fence = ?4 AND owner IS NOT NULL");
    match when {
        Release::WhenDrained => script.add(" AND pending = 0"),
        Release::Keeping { .. } => script.add(UNSEEN),
        Release::HandOver => &mut script,
    };
    script
        .add(
            " RETURNING 1, fence, pending, 0;\
             SELECT 0, fence, pending, owner IS NULL FROM sessions WHERE id = ?2 AND tenant = ?3;",
        )
        .bind(NO_LEASE)?
        .bind(key.id.as_str())?
        .bind(key.tenant.as_str())?
        .bind(int(fence))?;
    if let Release::Keeping { below } = when {
        script.bind(int(below))?;
    }
    script.end();
    let rows = link.run(script).await.map_err(failed)?;
    let row = rows.first().ok_or(NO_SESSION)?;
    let current = number(row, 1)?;
    if get::<bool>(row, 0)? {
        Ok(Released::Released)
    } else if current == fence && !get::<bool>(row, 3)? {
        Ok(Released::StillPending(number(row, 2)?))
    } else {
        Err(StoreError::Fenced { held: fence, current })
    }
}

pub(super) async fn park(
    link: &mut Link,
    key: &SessionKey,
    fence: u64,
    reason: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    let mut script = Script::transaction();
    script
        .add(
            "UPDATE sessions SET fence = fence + 1, owner = NULL, lease_until = ?1, parked = ?2, parked_at = ?3 \
             WHERE id = ?4 AND tenant = ?5 AND fence = ?6 AND owner IS NOT NULL RETURNING 1, fence;\
             SELECT 0, fence FROM sessions WHERE id = ?4 AND tenant = ?5;",
        )
        .bind(NO_LEASE)?
        .bind(reason)?
        .bind(now.as_millis())?
        .bind(key.id.as_str())?
        .bind(key.tenant.as_str())?
        .bind(int(fence))?
        .end();
    let rows = link.run(script).await.map_err(failed)?;
    let row = rows.first().ok_or(NO_SESSION)?;
    if get::<bool>(row, 0)? {
        Ok(())
    } else {
        Err(StoreError::Fenced { held: fence, current: number(row, 1)? })
    }
}

pub(super) async fn unpark(link: &mut Link, key: &SessionKey) -> Result<(), StoreError> {
    let mut script = Script::new(
        "UPDATE sessions SET parked = NULL, parked_at = NULL WHERE id = ? AND tenant = ? RETURNING 1",
    );
    script.bind(key.id.as_str())?.bind(key.tenant.as_str())?;
    first(&link.run(script).await.map_err(failed)?).map(drop)
}

pub(super) async fn parked(
    link: &mut Link,
    after: Option<&SessionId>,
    limit: u32,
) -> Result<Vec<Session>, StoreError> {
    let mut script = Script::new("SELECT ");
    script
        .add(SESSION)
        .add(" FROM sessions WHERE parked IS NOT NULL AND (?1 IS NULL OR id > ?1) ORDER BY id LIMIT ?2")
        .bind(after.map(SessionId::as_str))?
        .bind(i64::from(limit))?;
    let rows = link.run(script).await.map_err(failed)?;
    rows.iter().map(|row| session(row, 0)).collect()
}

pub(super) async fn claimable(
    link: &mut Link,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<SessionKey>, StoreError> {
    let mut script = Script::new(
        "SELECT tenant, id FROM sessions WHERE (pending > 0 OR status = 'running') AND parked IS NULL \
         AND (status <> 'paused' OR next_input > kept_below) AND lease_until <= ? ORDER BY lease_until LIMIT ?",
    );
    script.bind(now.as_millis())?.bind(i64::from(limit))?;
    let rows = link.run(script).await.map_err(failed)?;
    rows.iter().map(|row| Ok(SessionKey { tenant: id(row, 0)?, id: id(row, 1)? })).collect()
}

pub(super) async fn forfeit(link: &mut Link, owner: &str) -> Result<u64, StoreError> {
    let mut script = Script::new(
        "UPDATE sessions SET fence = fence + 1, owner = NULL, lease_until = ? WHERE owner = ? RETURNING 1",
    );
    script.bind(NO_LEASE)?.bind(owner)?;
    Ok(link.run(script).await.map_err(failed)?.len() as u64)
}
