//! How long to wait before a failed job is tried again.

/// Waits that double from `first_ms` to `longest_ms`, spread so that those who failed together do not return together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure, in milliseconds.
    pub first_ms: u64,
    /// At most, in milliseconds.
    pub longest_ms: u64,
}

impl Default for Backoff {
    /// From one second to fifteen minutes.
    fn default() -> Self {
        Self { first_ms: 1_000, longest_ms: 900_000 }
    }
}

impl Backoff {
    /// The wait in milliseconds after the `attempt`-th attempt (from 1) failed: between half and all of the doubled wait, as
    /// `jitter` (0 to 1) says.
    pub fn after(&self, attempt: u32, jitter: f64) -> u64 {
        let jitter = if jitter.is_finite() { jitter.clamp(0.0, 1.0) } else { 0.0 };
        let doublings = attempt.saturating_sub(1).min(63);
        let whole = self.first_ms.saturating_mul(1 << doublings).min(self.longest_ms);
        let half = whole / 2;
        half.saturating_add(((whole - half) as f64 * jitter) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let backoff = Backoff { first_ms: 100, longest_ms: 1_000 };
        let all = |jitter: f64| (0..7).map(|n| backoff.after(n, jitter)).collect::<Vec<_>>();
        assert_eq!(all(1.0), [100, 100, 200, 400, 800, 1_000, 1_000]);
        assert_eq!(all(0.0), [50, 50, 100, 200, 400, 500, 500]);
        assert_eq!(backoff.after(u32::MAX, 1.0), 1_000);
        assert_eq!((backoff.after(1, f64::NAN), backoff.after(1, 9.0)), (50, 100));
    }
}
