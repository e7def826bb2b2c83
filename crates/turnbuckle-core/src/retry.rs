//! The one table of retries: which failures are tried again, how often, and after how long.
//!
//! Pure: attempt numbers and the random draw come in. The table bounds itself; callers may stop sooner.

use crate::error::ModelErrorKind;

/// The shortest wait before another attempt, in milliseconds.
pub const MIN_DELAY_MS: u64 = 500;
/// The longest wait the table chooses by itself, in milliseconds.
pub const MAX_DELAY_MS: u64 = 30_000;
/// The longest wait a provider may ask for, in milliseconds. One that asks for more is not waited for: coming back
/// sooner is refused for sure, and a person or a fallback model is served better by the failure.
pub const MAX_RETRY_AFTER_MS: u64 = 120_000;

/// The most attempts a failure of this kind is worth, the first included.
pub const fn max_attempts(kind: ModelErrorKind) -> u32 {
    use ModelErrorKind::*;
    match kind {
        RateLimited | Overloaded => 8,
        Server | Timeout | Network | StreamCut => 5,
        // A server that breaks the protocol seldom mends itself.
        Protocol => 2,
        BadRequest | Auth | NotFound | ContextOverflow | QuotaExceeded | ContentFilter
        | Cancelled | Config => 1,
    }
}

/// How long to wait in milliseconds after the `attempt`-th attempt (from 1) failed; `None` means give up.
///
/// What the provider asks for (`retry_after_ms`) is honoured and never undercut. Without it the wait is drawn by
/// `jitter` (0 to 1) between [`MIN_DELAY_MS`] and a ceiling that doubles from one second to [`MAX_DELAY_MS`]. Jitter
/// spreads a provider's own delay by up to a tenth, so that callers who were refused together do not return together.
pub fn delay_ms(
    kind: ModelErrorKind,
    attempt: u32,
    retry_after_ms: Option<u64>,
    jitter: f64,
) -> Option<u64> {
    if attempt >= max_attempts(kind) {
        return None;
    }
    let jitter = if jitter.is_finite() { jitter.clamp(0.0, 1.0) } else { 0.0 };
    let spread = |width: u64| (width as f64 * jitter) as u64;
    match retry_after_ms {
        Some(asked) if asked > MAX_RETRY_AFTER_MS => None,
        Some(asked) => Some(asked + spread((asked / 10).max(100))),
        None => {
            let doubled =
                (2 * MIN_DELAY_MS).checked_shl(attempt.saturating_sub(1)).unwrap_or(MAX_DELAY_MS);
            let ceiling = if attempt > 16 { MAX_DELAY_MS } else { doubled.min(MAX_DELAY_MS) };
            Some(MIN_DELAY_MS + spread(ceiling - MIN_DELAY_MS))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ModelErrorKind::*;

    #[test]
    fn waits_double_up_to_the_cap() {
        let highest: Vec<_> = (1..8).map(|n| delay_ms(RateLimited, n, None, 1.0)).collect();
        assert_eq!(highest, [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000].map(Some));
        let lowest: Vec<_> = (1..8).map(|n| delay_ms(RateLimited, n, None, 0.0)).collect();
        assert_eq!(lowest, [Some(500); 7]);
    }

    #[test]
    fn every_kind_ends() {
        assert_eq!(delay_ms(RateLimited, 8, None, 0.5), None);
        assert_eq!(delay_ms(Server, 5, Some(1), 0.5), None);
        assert_eq!(delay_ms(Protocol, 2, None, 0.5), None);
        assert_eq!(delay_ms(RateLimited, u32::MAX, None, 0.5), None);
    }

    #[test]
    fn what_cannot_succeed_is_not_repeated() {
        let kinds = [
            BadRequest,
            Auth,
            NotFound,
            ContextOverflow,
            QuotaExceeded,
            ContentFilter,
            Cancelled,
            Config,
        ];
        for kind in kinds {
            assert!(!kind.retryable());
            assert_eq!(delay_ms(kind, 1, Some(1), 0.5), None, "{kind:?}");
        }
        for kind in [RateLimited, Overloaded, Server, Timeout, Network, StreamCut, Protocol] {
            assert!(kind.retryable());
            assert!(delay_ms(kind, 1, None, 0.5).is_some(), "{kind:?}");
        }
    }

    #[test]
    fn the_providers_delay_is_never_undercut() {
        assert_eq!(delay_ms(RateLimited, 1, Some(20_000), 0.0), Some(20_000));
        assert_eq!(delay_ms(RateLimited, 1, Some(20_000), 1.0), Some(22_000));
        assert_eq!(delay_ms(Overloaded, 1, Some(0), 1.0), Some(100));
        assert_eq!(delay_ms(RateLimited, 1, Some(MAX_RETRY_AFTER_MS + 1), 0.0), None);
    }

    #[test]
    fn odd_jitter_is_harmless() {
        assert_eq!(delay_ms(Server, 1, None, f64::NAN), Some(500));
        assert_eq!(delay_ms(Server, 1, None, 7.0), Some(1_000));
    }
}
