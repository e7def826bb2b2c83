//! How often somebody may ask: a bucket of tokens for each caller.

use crate::auth::principal::Principal;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use tokio::time::Instant;
use turnbuckle_core::ids::{TenantId, UserId};

/// Callers that are remembered before those with a full bucket are forgotten.
const REMEMBERED: usize = 10_000;

type Name = (TenantId, UserId, Option<String>);

/// Counts requests by caller.
pub struct Rates {
    per_second: f64,
    burst: f64,
    buckets: Mutex<HashMap<Name, Bucket>>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Rates {
    /// So many per second over some time, and so many in a burst. 0 per second means any number.
    pub fn new(per_second: u32, burst: u32) -> Self {
        let burst = f64::from(burst.max(1));
        Self { per_second: f64::from(per_second), burst, buckets: Mutex::default() }
    }

    /// Takes one request; else, after how many seconds there is one.
    pub fn take(&self, who: &Principal, now: Instant) -> Option<u64> {
        if self.per_second == 0.0 {
            return None;
        }
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= REMEMBERED {
            buckets.retain(|_, bucket| self.filled(bucket, now) < self.burst);
        }
        let name = (who.tenant.clone(), who.user.clone(), who.key.clone());
        let bucket = buckets.entry(name).or_insert(Bucket { tokens: self.burst, at: now });
        bucket.tokens = self.filled(bucket, now);
        bucket.at = now;
        if bucket.tokens >= 1.0 {
            bucket.tokens -= 1.0;
            return None;
        }
        Some(((1.0 - bucket.tokens) / self.per_second).ceil().max(1.0) as u64)
    }

    fn filled(&self, bucket: &Bucket, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(bucket.at).as_secs_f64();
        (bucket.tokens + passed * self.per_second).min(self.burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_burst_is_let_through_and_then_one_at_a_time() {
        let rates = Rates::new(2, 3);
        let (ada, bob) = (Principal::local("t", "ada"), Principal::local("t", "bob"));
        let start = Instant::now();
        let take = |who, ms| rates.take(who, start + Duration::from_millis(ms));
        assert_eq!([take(&ada, 0), take(&ada, 0), take(&ada, 0)], [None; 3]);
        assert_eq!(take(&ada, 0), Some(1));
        assert_eq!(take(&bob, 0), None);
        assert_eq!([take(&ada, 500), take(&ada, 500)], [None, Some(1)]);
        assert_eq!([take(&ada, 60_000), take(&ada, 60_000), take(&ada, 60_000)], [None; 3]);
        assert_eq!(take(&ada, 60_000), Some(1));
        assert_eq!(Rates::new(0, 1).take(&ada, start), None);
    }
}
