//! Which sessions other processes watch, as far as they have said.
//!
//! Everyone says again and again what they watch, so that nobody has to say what they watch no more, and a process that is
//! new, or could not hear for a while, knows after a while.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use turnbuckle_core::ids::SessionKey;

/// What is watched is said so often.
pub(crate) const SAY: Duration = Duration::from_secs(20);
/// What was not said for so long is watched no more.
const FORGET: Duration = Duration::from_secs(50);

pub(crate) struct Interest(Mutex<State>);

struct State {
    watched: HashMap<SessionKey, Instant>,
    /// Since when everything that is said is heard; nothing while it is not.
    hears_since: Option<Instant>,
}

impl Interest {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State { watched: HashMap::new(), hears_since: None }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything is heard from now on, or nothing.
    pub(crate) fn hears(&self, since: Option<Instant>) {
        self.lock().hears_since = since;
    }

    /// Somebody watches a session.
    pub(crate) fn heard(&self, session: SessionKey, now: Instant) {
        self.lock().watched.insert(session, now);
    }

    /// Whether somebody may be watching a session.
    pub(crate) fn may_be(&self, session: &SessionKey, now: Instant) -> bool {
        let state = self.lock();
        let knows_all = |since: Instant| now.duration_since(since) >= FORGET;
        let fresh = |said: &Instant| now.duration_since(*said) < FORGET;
        !state.hears_since.is_some_and(knows_all) || state.watched.get(session).is_some_and(fresh)
    }

    /// Forgets what was not said for long.
    pub(crate) fn sweep(&self, now: Instant) {
        self.lock().watched.retain(|_, said| now.duration_since(*said) < FORGET);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_again_is_forgotten() {
        let (interest, start) = (Interest::new(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let (a, b) = (SessionKey::new("acme", "a"), SessionKey::new("acme", "b"));
        assert!(interest.may_be(&a, at(0)), "nobody was heard yet");
        interest.hears(Some(at(0)));
        assert!(interest.may_be(&a, at(49)), "not everybody has spoken yet");
        interest.heard(a.clone(), at(45));
        assert!(interest.may_be(&a, at(94)) && !interest.may_be(&b, at(94)));
        assert!(!interest.may_be(&a, at(95)));
        interest.sweep(at(95));
        assert!(interest.lock().watched.is_empty());
        interest.hears(None);
        assert!(interest.may_be(&b, at(99)), "whatever is said now is not heard");
    }
}
