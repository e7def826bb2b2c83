//! A circuit breaker: an endpoint that fails again and again is left alone for a while.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use turnbuckle_core::error::ModelErrorKind;

/// Failures in a row that open the breaker.
pub const TRIP_AFTER: u32 = 5;
/// How long it stays open at first; it doubles each time the probe fails.
pub const FIRST_REST: Duration = Duration::from_secs(10);
/// The longest it stays open.
pub const LONGEST_REST: Duration = Duration::from_secs(120);

/// What a finished call says of its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It answers: an answer, but also any refusal that is about the request.
    Answers,
    /// It fails.
    Fails,
    /// Nothing can be told: the call was given up.
    Unknown,
}

impl Health {
    /// What a failure of this kind says. A rate limit is an answer: the endpoint is well, and says when to come back.
    pub const fn of(kind: ModelErrorKind) -> Self {
        use ModelErrorKind::*;
        match kind {
            Overloaded | Server | Timeout | Network | StreamCut => Health::Fails,
            BadRequest | Auth | NotFound | ContextOverflow | RateLimited | QuotaExceeded
            | ContentFilter | Protocol => Health::Answers,
            Cancelled | Config => Health::Unknown,
        }
    }
}

#[derive(Debug)]
enum State {
    Closed { failures: u32 },
    Open { until: Instant, rest: Duration },
    Probing { rest: Duration },
}

/// One endpoint's breaker. Closed, it lets every call pass; open, none; after its rest one call probes.
#[derive(Debug)]
pub struct Breaker(Mutex<State>);

impl Default for Breaker {
    fn default() -> Self {
        Self(Mutex::new(State::Closed { failures: 0 }))
    }
}

impl Breaker {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a call pass, or says how long the endpoint is still left alone.
    ///
    /// # Errors
    /// The time until the next probe; a moment while a probe is under way.
    pub fn enter(&self, now: Instant) -> Result<Pass<'_>, Duration> {
        let mut state = self.state();
        match *state {
            State::Closed { .. } => {}
            State::Open { until, .. } if now < until => return Err(until - now),
            State::Open { rest, .. } => *state = State::Probing { rest },
            State::Probing { .. } => return Err(Duration::from_secs(1)),
        }
        Ok(Pass { breaker: self, probe: matches!(*state, State::Probing { .. }), told: false })
    }

    fn learn(&self, health: Health, probe: bool, now: Instant) {
        let mut state = self.state();
        let next = match (&*state, health) {
            // Calls that began before the breaker opened have no say while it rests.
            (State::Open { .. }, _) => return,
            (State::Probing { .. }, _) if !probe => return,
            (_, Health::Answers) => State::Closed { failures: 0 },
            (State::Closed { failures }, Health::Fails) if failures + 1 >= TRIP_AFTER => {
                State::Open { until: now + FIRST_REST, rest: FIRST_REST }
            }
            (State::Closed { failures }, Health::Fails) => State::Closed { failures: failures + 1 },
            (State::Closed { .. }, Health::Unknown) => return,
            (State::Probing { rest }, Health::Fails) => {
                let rest = (*rest * 2).min(LONGEST_REST);
                State::Open { until: now + rest, rest }
            }
            // The probe was given up: the next call probes at once.
            (State::Probing { rest }, Health::Unknown) => State::Open { until: now, rest: *rest },
        };
        *state = next;
    }
}

/// Leave to call; says at its end how the call went. Dropped without a word it counts as given up.
#[derive(Debug)]
pub struct Pass<'a> {
    breaker: &'a Breaker,
    probe: bool,
    told: bool,
}

impl Pass<'_> {
    /// How the call went.
    pub fn tell(mut self, health: Health) {
        self.told = true;
        self.breaker.learn(health, self.probe, Instant::now());
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if !self.told && self.probe {
            self.breaker.learn(Health::Unknown, true, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(breaker: &Breaker) {
        breaker.enter(Instant::now()).unwrap().tell(Health::Fails);
    }

    async fn opened() -> Breaker {
        let breaker = Breaker::default();
        for _ in 0..TRIP_AFTER {
            fail(&breaker);
        }
        breaker
    }

    #[tokio::test(start_paused = true)]
    async fn opens_only_after_failures_in_a_row() {
        let breaker = Breaker::default();
        for _ in 0..TRIP_AFTER - 1 {
            fail(&breaker);
        }
        breaker.enter(Instant::now()).unwrap().tell(Health::Answers);
        for _ in 0..TRIP_AFTER - 1 {
            fail(&breaker);
        }
        assert!(breaker.enter(Instant::now()).is_ok());
        fail(&breaker);
        assert_eq!(breaker.enter(Instant::now()).unwrap_err(), FIRST_REST);
    }

    #[tokio::test(start_paused = true)]
    async fn one_call_probes_after_the_rest_and_its_success_closes() {
        let breaker = opened().await;
        tokio::time::advance(FIRST_REST).await;
        let probe = breaker.enter(Instant::now()).unwrap();
        assert!(breaker.enter(Instant::now()).is_err());
        probe.tell(Health::Answers);
        assert!(breaker.enter(Instant::now()).is_ok());
        assert!(breaker.enter(Instant::now()).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_probe_doubles_the_rest_up_to_the_longest() {
        let breaker = opened().await;
        let mut rest = FIRST_REST;
        for _ in 0..6 {
            tokio::time::advance(rest).await;
            breaker.enter(Instant::now()).unwrap().tell(Health::Fails);
            rest = (rest * 2).min(LONGEST_REST);
            assert_eq!(breaker.enter(Instant::now()).unwrap_err(), rest);
        }
        assert_eq!(rest, LONGEST_REST);
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_that_is_given_up_leaves_room_for_the_next() {
        let breaker = opened().await;
        tokio::time::advance(FIRST_REST).await;
        drop(breaker.enter(Instant::now()).unwrap());
        assert!(breaker.enter(Instant::now()).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn late_answers_of_older_calls_do_not_close_it() {
        let breaker = Breaker::default();
        let old = breaker.enter(Instant::now()).unwrap();
        for _ in 0..TRIP_AFTER {
            fail(&breaker);
        }
        old.tell(Health::Answers);
        assert!(breaker.enter(Instant::now()).is_err());
    }

    #[test]
    fn refusals_of_a_request_are_signs_of_life() {
        assert_eq!(Health::of(ModelErrorKind::BadRequest), Health::Answers);
        assert_eq!(Health::of(ModelErrorKind::RateLimited), Health::Answers);
        assert_eq!(Health::of(ModelErrorKind::Overloaded), Health::Fails);
        assert_eq!(Health::of(ModelErrorKind::Cancelled), Health::Unknown);
    }
}
