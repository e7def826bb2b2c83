//! A limit on calls, as providers enforce them.

use crate::reply::Reply;
use serde_json::json;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// So many calls per window of time; the window begins with the first call in it. What is over the limit is refused until
/// the window ends. Clones share the limit. Time is tokio's, so that a paused clock makes a test instant.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
/// use std::time::Duration;
/// use turnbuckle_testkit::Quota;
/// let quota = Quota::new(1, Duration::from_secs(3));
/// assert!(quota.admit("first").is_ok());
/// assert!(quota.admit("second").is_err());
/// tokio::time::advance(Duration::from_secs(3)).await;
/// assert!(quota.admit("second").is_ok());
/// assert_eq!(quota.arrivals().iter().filter(|a| a.refused).count(), 1);
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Quota {
    allowed: usize,
    window: Duration,
    arrivals: Arc<Mutex<Vec<Arrival>>>,
}

/// A call as the limit saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub at: Instant,
    /// Whose.
    pub who: String,
    /// Whether it was over the limit.
    pub refused: bool,
}

impl Quota {
    /// `allowed` calls in each `window`.
    pub fn new(allowed: usize, window: Duration) -> Self {
        Self { allowed, window, arrivals: Arc::default() }
    }

    /// Counts a call of `who`.
    ///
    /// # Errors
    /// The refusal to send: 429 with `retry-after` in whole seconds, rounded up.
    pub fn admit(&self, who: &str) -> Result<(), Reply> {
        let now = Instant::now();
        let mut arrivals = self.arrivals_mut();
        let begin = window_of(&arrivals, self.window, now);
        let taken = arrivals.iter().filter(|a| a.at >= begin && !a.refused).count();
        let refused = taken >= self.allowed;
        arrivals.push(Arrival { at: now, who: who.to_owned(), refused });
        if !refused {
            return Ok(());
        }
        let seconds = whole_seconds((begin + self.window).saturating_duration_since(now)).as_secs();
        let message =
            json!({"error": {"message": "Too many requests", "type": "rate_limit_error"}});
        Err(Reply::json(429, &message).header("retry-after", &seconds.to_string()))
    }

    /// Until the current window ends, in whole seconds, rounded up.
    pub fn rest(&self) -> Duration {
        let now = Instant::now();
        let begin = window_of(&self.arrivals_mut(), self.window, now);
        whole_seconds((begin + self.window).saturating_duration_since(now))
    }

    /// Every call so far, in order of arrival.
    pub fn arrivals(&self) -> Vec<Arrival> {
        self.arrivals_mut().clone()
    }

    /// The most calls, refused ones included, that any stretch of a window's length saw from `from` on.
    pub fn busiest(&self, from: Instant) -> usize {
        let arrivals = self.arrivals_mut();
        let seen: Vec<Instant> = arrivals.iter().map(|a| a.at).filter(|at| *at >= from).collect();
        let within = |begin: Instant| {
            seen.iter().filter(|at| **at >= begin && **at < begin + self.window).count()
        };
        seen.iter().map(|at| within(*at)).max().unwrap_or(0)
    }

    fn arrivals_mut(&self) -> MutexGuard<'_, Vec<Arrival>> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When the window that holds `now` began.
fn window_of(arrivals: &[Arrival], window: Duration, now: Instant) -> Instant {
    let mut begin = None;
    for arrival in arrivals {
        match begin {
            Some(known) if arrival.at < known + window => {}
            _ => begin = Some(arrival.at),
        }
    }
    begin.filter(|begin| now < *begin + window).unwrap_or(now)
}

fn whole_seconds(rest: Duration) -> Duration {
    Duration::from_secs(rest.as_millis().div_ceil(1_000).max(1).try_into().unwrap_or(u64::MAX))
}
