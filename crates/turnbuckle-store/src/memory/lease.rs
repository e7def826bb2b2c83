//! Who owns a session: claim, renew, release, park, and what waits for an owner.

use super::Inner;
use crate::error::StoreError;
use crate::model::{Claim, Lease, Parked, Release, Released, Session, SessionKey, SessionStatus};
use turnbuckle_core::ids::SessionId;
use turnbuckle_core::time::Timestamp;

impl Inner {
    pub(super) fn claim(
        &mut self,
        key: &SessionKey,
        owner: &str,
        lease_ms: u64,
        now: Timestamp,
    ) -> Result<Claim, StoreError> {
        let row = &mut self.get_mut(key)?.row;
        if let Some(Lease { owner, until }) = row.lease.clone()
            && until > now
        {
            return Ok(Claim::Busy { owner, until });
        }
        row.fence += 1;
        row.lease = Some(lease(owner, lease_ms, now));
        Ok(Claim::Held { fence: row.fence, session: Box::new(row.clone()) })
    }

    pub(super) fn renew(
        &mut self,
        key: &SessionKey,
        fence: u64,
        lease_ms: u64,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let row = &mut self.owned(key, fence)?.row;
        row.lease = row.lease.take().map(|held| lease(&held.owner, lease_ms, now));
        Ok(())
    }

    pub(super) fn release(
        &mut self,
        key: &SessionKey,
        fence: u64,
        when: Release,
    ) -> Result<Released, StoreError> {
        let held = self.owned(key, fence)?;
        let unseen = match when {
            Release::WhenDrained => held.row.pending,
            Release::Keeping { below } => held.waiting_from(below),
            Release::HandOver => 0,
        };
        if unseen > 0 {
            return Ok(Released::StillPending(unseen));
        }
        let row = &mut held.row;
        if let Release::Keeping { below } = when {
            row.kept_below = below;
        }
        give_back(row);
        Ok(Released::Released)
    }

    pub(super) fn park(
        &mut self,
        key: &SessionKey,
        fence: u64,
        reason: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let row = &mut self.owned(key, fence)?.row;
        give_back(row);
        row.parked = Some(Parked { reason: reason.to_owned(), at: now });
        Ok(())
    }

    pub(super) fn parked(&self, after: Option<&SessionId>, limit: u32) -> Vec<Session> {
        let rows = self.sessions.values().map(|held| &held.row);
        rows.filter(|row| row.parked.is_some() && after.is_none_or(|after| row.key.id > *after))
            .take(limit as usize)
            .cloned()
            .collect()
    }

    pub(super) fn claimable(&self, now: Timestamp, limit: u32) -> Vec<SessionKey> {
        let wanting = self.sessions.values().filter(|held| {
            let row = &held.row;
            let waits = row.pending > 0
                && (row.status != SessionStatus::Paused || held.next_input() > row.kept_below);
            row.parked.is_none() && (waits || row.status == SessionStatus::Running)
        });
        let mut free: Vec<_> = wanting
            .map(|held| &held.row)
            .map(|row| (row.lease.as_ref().map(|lease| lease.until), &row.key))
            .filter(|(until, _)| until.is_none_or(|until| until <= now))
            .collect();
        free.sort();
        free.into_iter().take(limit as usize).map(|(_, key)| key.clone()).collect()
    }

    pub(super) fn forfeit(&mut self, owner: &str) -> u64 {
        let rows = self.sessions.values_mut().map(|held| &mut held.row);
        let mut count = 0;
        for row in rows.filter(|row| row.lease.as_ref().is_some_and(|lease| lease.owner == owner)) {
            give_back(row);
            count += 1;
        }
        count
    }
}

pub(super) fn give_back(row: &mut Session) {
    row.fence += 1;
    row.lease = None;
}

fn lease(owner: &str, lease_ms: u64, now: Timestamp) -> Lease {
    Lease { owner: owner.to_owned(), until: now.plus(i64::try_from(lease_ms).unwrap_or(i64::MAX)) }
}
