//! When calls may be sent: not before the provider said, and no faster than its limit allows.
//!
//! A provider that refuses a call with a rate limit refuses the next one, too. So a refusal holds back every call to the
//! endpoint until the moment the provider named. From then on calls leave in the order in which they came, spread over time
//! as the limit was met: so many calls had been accepted in the time until calls are welcome again. The rate is lowered by
//! every further refusal, tried a little higher after a good while without one, and forgotten once nobody had to wait.
//!
//! What was in flight at the first refusal cannot be called back. A limit that is known beforehand and configured
//! ([`ProviderConfig::requests_per_minute`](crate::ProviderConfig::requests_per_minute)) is never exceeded at all.
//!
//! As long as nothing is held back, [`Pace::enter`] is one atomic load.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};
use turnbuckle_core::retry::MAX_RETRY_AFTER_MS;

/// The longest time for which calls wait. Under a longer hold they fail at once, so that a fallback is taken or a person
/// is told.
pub const LONGEST_HOLD: Duration = Duration::from_millis(MAX_RETRY_AFTER_MS);
/// The hold after a refusal that does not say when to come back.
pub const UNSAID_HOLD: Duration = Duration::from_secs(1);
/// A stated reset that is no further away than this is waited for. Providers whose limit fills up again bit by bit state
/// when it will be full, which is much later than the next call is welcome.
const NEAR_RESET: Duration = Duration::from_secs(5);
/// For how long a limit that nobody met again is remembered.
const MEMORY: Duration = Duration::from_secs(60);
/// After so long without a refusal the rate is raised by a quarter, since it may have been taken for too low.
const CALM: Duration = Duration::from_secs(60);
/// Once raised without harm, it is raised again after this time.
const CALM_WHILE_RISING: Duration = Duration::from_secs(15);
/// A rate that was raised too far is left alone for this time after it was lowered again.
const CALM_AFTER_HARM: Duration = Duration::from_secs(600);
/// A pause in the traffic after which what was accepted before says nothing about the rate.
const PAUSE: Duration = Duration::from_secs(10);

/// The lowest bit of [`Pace::word`].
const HELD: u64 = 1;

/// The pace of one endpoint.
#[derive(Debug)]
pub struct Pace {
    /// The epoch, and in the lowest bit whether calls have to look at `state`.
    word: AtomicU64,
    /// Who waits stands in line here; the semaphore is fair, and whoever gives up leaves it.
    line: Semaphore,
    state: Mutex<State>,
}

/// Leave to send a call, and the epoch in which it was given: refusals of calls that left before the last change of pace
/// say nothing new.
#[derive(Clone, Copy, Debug)]
pub struct Leave {
    epoch: u64,
}

/// A limit as the headers of an answer state it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stated {
    /// Calls the provider allows.
    pub limit: u64,
    /// Calls that are left of them.
    pub remaining: u64,
    /// Until the whole limit is there again.
    pub reset: Duration,
}

#[derive(Debug)]
struct State {
    epoch: u64,
    /// Nothing is sent before.
    hold_until: Option<Instant>,
    /// When the next call is due, were calls spread evenly.
    next: Option<Instant>,
    allowance: Option<Allowance>,
    spread: Option<Spread>,
    tally: Tally,
    random: u64,
}

/// The configured limit: one call per interval, and as many at once as fit into the slack.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    interval: Duration,
    slack: Duration,
}

/// A limit that was met: so many calls in so much time.
#[derive(Debug)]
struct Spread {
    calls: u32,
    window: Duration,
    /// The interval is never shorter, since that was too fast before.
    floor: Duration,
    raise_at: Instant,
    raised: bool,
    forget_at: Instant,
}

/// Calls accepted lately.
#[derive(Debug, Default)]
struct Tally {
    calls: u32,
    since: Option<Instant>,
    last: Option<Instant>,
}

enum Claim {
    Granted,
    NotBefore(Instant),
    TooLong(Duration),
}

impl Pace {
    /// The pace of an endpoint about whose limits nothing else is known than the configured one.
    pub fn new(per_minute: Option<NonZeroU32>) -> Self {
        use std::hash::{BuildHasher, RandomState};
        let state = State {
            epoch: 0,
            hold_until: None,
            next: None,
            allowance: per_minute.map(Allowance::new),
            spread: None,
            tally: Tally::default(),
            // A fresh `RandomState` is keyed at random; the generator must not begin at zero.
            random: RandomState::new().hash_one("pace") | 1,
        };
        let word = AtomicU64::new(state.word());
        Self { word, line: Semaphore::new(1), state: Mutex::new(state) }
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let out = change(&mut state);
        self.word.store(state.word(), Ordering::Release);
        out
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a call may be sent, behind all who came before. Dropping the future gives the place up.
    ///
    /// # Errors
    /// How long calls are still held back, when that is longer than [`LONGEST_HOLD`].
    pub async fn enter(&self) -> Result<Leave, Duration> {
        let word = self.word.load(Ordering::Acquire);
        if word & HELD == 0 {
            return Ok(Leave { epoch: word >> 1 });
        }
        // Never closed.
        let _first_in_line = self.line.acquire().await;
        loop {
            let now = Instant::now();
            let (claim, epoch) = self.change(|state| (state.claim(now), state.epoch));
            match claim {
                Claim::Granted => return Ok(Leave { epoch }),
                Claim::TooLong(rest) => return Err(rest),
                Claim::NotBefore(moment) => sleep_until(moment).await,
            }
        }
    }

    /// How long calls are held back now because the provider said so.
    pub fn held(&self) -> Option<Duration> {
        if self.word.load(Ordering::Acquire) & HELD == 0 {
            return None;
        }
        let until = self.lock().hold_until?;
        until.checked_duration_since(Instant::now()).filter(|rest| !rest.is_zero())
    }

    /// The provider took the call; `stated` is what its answer says of the limit.
    pub fn accepted(&self, leave: Leave, stated: Option<Stated>) {
        let now = Instant::now();
        self.change(|state| state.accepted(leave, stated, now));
    }

    /// The provider refused the call, and asks to come back after a while.
    pub fn refused(&self, leave: Leave, retry_after: Option<Duration>) {
        let now = Instant::now();
        self.change(|state| state.refused(leave, retry_after.unwrap_or(UNSAID_HOLD), now));
    }
}

impl State {
    fn word(&self) -> u64 {
        let held = self.hold_until.is_some() || self.spread.is_some() || self.allowance.is_some();
        self.epoch << 1 | u64::from(held)
    }

    fn claim(&mut self, now: Instant) -> Claim {
        if let Some(until) = self.hold_until {
            if let Some(rest) = until.checked_duration_since(now).filter(|r| !r.is_zero()) {
                let too_long = rest > LONGEST_HOLD;
                return if too_long { Claim::TooLong(rest) } else { Claim::NotBefore(until) };
            }
            self.hold_until = None;
        }
        self.spread.take_if(|spread| now >= spread.forget_at);
        let least = self.allowance.map_or(Duration::ZERO, |a| a.interval);
        let (interval, slack) = match (&mut self.spread, self.allowance) {
            (None, None) => return Claim::Granted,
            (None, Some(allowance)) => (allowance.interval, allowance.slack),
            (Some(spread), _) => {
                spread.raise(now);
                (spread.interval().max(least), Duration::ZERO)
            }
        };
        let due = self.next.and_then(|next| next.checked_sub(slack));
        if let Some(due) = due.filter(|due| now < *due) {
            if let Some(spread) = &mut self.spread {
                spread.forget_at = spread.forget_at.max(due + MEMORY);
            }
            return Claim::NotBefore(due);
        }
        let step = match self.spread {
            // Never sooner than the limit allows, and never in step with other processes.
            Some(_) => interval + interval / 50 + self.up_to(interval / 10),
            None => interval,
        };
        self.next = Some(self.next.map_or(now, |next| next.max(now)) + step);
        Claim::Granted
    }

    fn accepted(&mut self, leave: Leave, stated: Option<Stated>, now: Instant) {
        if leave.epoch == self.epoch {
            self.tally.add(now);
        } else if let (true, Some(spread)) = (leave.epoch + 1 == self.epoch, &mut self.spread) {
            // It left together with the call that was refused, so the limit was that much higher.
            spread.calls = spread.calls.saturating_add(1);
        }
        if let Some(stated) = stated.filter(|s| s.is_near()) {
            self.near_limit(stated, now);
        }
    }

    /// Little is left of a limit: what is left comes back bit by bit until the reset.
    fn near_limit(&mut self, stated: Stated, now: Instant) {
        let used = u32::try_from(stated.limit - stated.remaining).unwrap_or(u32::MAX);
        let interval = stated.reset / used.max(1);
        let spread = self.spread.get_or_insert_with(|| Spread {
            calls: used,
            window: stated.reset,
            floor: Duration::ZERO,
            raise_at: now + CALM,
            raised: false,
            forget_at: now + MEMORY,
        });
        spread.floor = spread.floor.max(interval);
        spread.forget_at = spread.forget_at.max(now + MEMORY);
        if stated.remaining == 0 {
            let soonest = now + interval;
            self.next = Some(self.next.map_or(soonest, |next| next.max(soonest)));
            if stated.reset <= NEAR_RESET {
                let reset = now + stated.reset;
                self.hold_until = Some(self.hold_until.map_or(reset, |until| until.max(reset)));
            }
        }
    }

    fn refused(&mut self, leave: Leave, asked: Duration, now: Instant) {
        // Callers that were refused together, in whichever process, must not come back together.
        let until = now + asked + self.up_to((asked / 10).max(Duration::from_millis(20)));
        let until = self.hold_until.map_or(until, |known| known.max(until));
        self.hold_until = Some(until);
        if leave.epoch != self.epoch || asked > LONGEST_HOLD {
            return;
        }
        self.epoch += 1;
        let (calls, elapsed) = self.tally.restart(now, until);
        let before = self.spread.take();
        let floor = before.as_ref().map_or(Duration::ZERO, |s| s.interval() * 5 / 4);
        let calm = if before.is_some_and(|s| s.raised) { CALM_AFTER_HARM } else { CALM };
        self.spread = Some(Spread {
            calls,
            window: elapsed + asked,
            floor,
            raise_at: until + calm.max(asked * 4),
            raised: false,
            forget_at: until + MEMORY.max(asked * 2),
        });
        self.next = Some(until);
    }

    /// A random part of a duration.
    fn up_to(&mut self, most: Duration) -> Duration {
        // xorshift64: good enough to fall out of step.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        most.mul_f64((self.random >> 11) as f64 / (1_u64 << 53) as f64)
    }
}

impl Allowance {
    /// A tenth of the limit may be used at once; the rest is spread, so that no minute ever holds more than the limit.
    fn new(per_minute: NonZeroU32) -> Self {
        let burst = (per_minute.get() / 10).max(1);
        let interval = Duration::from_secs(60) / (per_minute.get() - burst + 1);
        Self { interval, slack: interval * (burst - 1) }
    }
}

impl Stated {
    /// Whether a tenth or less of the limit is left, and a reset is stated that can be true.
    fn is_near(&self) -> bool {
        self.remaining < self.limit
            && self.remaining.saturating_mul(10) <= self.limit
            && !self.reset.is_zero()
            && self.reset <= LONGEST_HOLD
    }
}

impl Spread {
    fn interval(&self) -> Duration {
        (self.window / self.calls.max(1)).max(self.floor)
    }

    fn raise(&mut self, now: Instant) {
        if now >= self.raise_at {
            self.window = self.window * 4 / 5;
            self.floor = self.floor * 4 / 5;
            self.raise_at = now + CALM_WHILE_RISING;
            self.raised = true;
        }
    }
}

impl Tally {
    fn add(&mut self, now: Instant) {
        let paused = self.last.is_none_or(|last| now.saturating_duration_since(last) > PAUSE);
        let since = match self.since {
            Some(since) if !paused => since,
            _ => {
                self.calls = 0;
                now
            }
        };
        self.since = Some(since);
        self.last = Some(self.last.map_or(now, |last| last.max(now)));
        self.calls = self.calls.saturating_add(1);
        let span = now.saturating_duration_since(since);
        if span > MEMORY {
            // Older calls count less and less.
            self.since = Some(since + span / 2);
            self.calls = self.calls.div_ceil(2);
        }
    }

    /// What was accepted and in which time; counts anew from `from` on.
    fn restart(&mut self, now: Instant, from: Instant) -> (u32, Duration) {
        let elapsed = self.since.map_or(Duration::ZERO, |s| now.saturating_duration_since(s));
        let calls =
            std::mem::replace(self, Tally { calls: 0, since: Some(from), last: Some(from) });
        (calls.calls, elapsed)
    }
}
