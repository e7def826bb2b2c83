//! Sessions whose work broke off are tried again, ever later.

use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;
use turnbuckle_store::SessionKey;

/// How long a session waits after it broke off for the first time.
const FIRST: Duration = Duration::from_millis(500);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(60);

/// The sessions that broke off, and when each may be tried again.
#[derive(Debug, Default)]
pub(super) struct Backoffs {
    sessions: BTreeMap<SessionKey, Backoff>,
    store: Seen,
}

/// How the store was found last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Seen {
    #[default]
    Answering,
    Failing,
}

#[derive(Debug)]
struct Backoff {
    times: u32,
    until: Instant,
}

impl Backoffs {
    /// Whether a session may be tried now.
    pub(super) fn may_try(&self, session: &SessionKey, now: Instant) -> bool {
        self.sessions.get(session).is_none_or(|backoff| backoff.until <= now)
    }

    /// Its work came to an end.
    pub(super) fn done(&mut self, session: &SessionKey) {
        self.sessions.remove(session);
    }

    /// Its work broke off.
    pub(super) fn broke_off(&mut self, session: SessionKey, now: Instant) {
        let times = self.sessions.get(&session).map_or(0, |backoff| backoff.times);
        let wait = FIRST.saturating_mul(2_u32.saturating_pow(times)).min(LONGEST);
        let backoff = Backoff { times: times.saturating_add(1), until: now + wait };
        self.sessions.insert(session, backoff);
    }

    /// The store could not be asked for work.
    pub(super) fn store_fails(&mut self) {
        self.store = Seen::Failing;
    }

    /// The store was asked for work. When it had been away, that is why the sessions broke off, and nobody waits any longer.
    pub(super) fn store_answers(&mut self) {
        if std::mem::take(&mut self.store) == Seen::Failing {
            self.sessions.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> SessionKey {
        SessionKey::new("acme", "s_1")
    }

    /// How long a session waits that broke off just now.
    fn wait(all: &Backoffs, now: Instant) -> Duration {
        let times = (0..=120).map(|n| FIRST * n);
        times.into_iter().find(|wait| all.may_try(&session(), now + *wait)).unwrap()
    }

    #[test]
    fn every_time_it_waits_longer_until_it_is_done() {
        let (mut all, now) = (Backoffs::default(), Instant::now());
        assert!(all.may_try(&session(), now));
        let mut waits = Vec::new();
        for _ in 0..9 {
            all.broke_off(session(), now);
            waits.push(wait(&all, now).as_millis());
        }
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
        all.done(&session());
        all.broke_off(session(), now);
        assert_eq!(wait(&all, now), FIRST);
    }

    #[test]
    fn a_store_that_was_away_is_why_and_all_are_tried_at_once_when_it_returns() {
        let (mut all, now) = (Backoffs::default(), Instant::now());
        all.broke_off(session(), now);
        all.store_answers();
        assert!(!all.may_try(&session(), now), "the store was there all the time");
        all.store_fails();
        all.broke_off(session(), now);
        assert!(!all.may_try(&session(), now));
        all.store_answers();
        assert!(all.may_try(&session(), now));
        all.broke_off(session(), now);
        assert_eq!(wait(&all, now), FIRST);
    }
}
