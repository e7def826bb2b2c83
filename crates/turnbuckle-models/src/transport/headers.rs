//! What an answer's headers say about limits and identity.

use crate::endpoint::Stated;
use http::{HeaderMap, HeaderName};
use std::time::{Duration, SystemTime};
use turnbuckle_core::error::{ModelError, ModelErrorKind};

const REQUEST_IDS: [&str; 5] =
    ["x-request-id", "request-id", "x-goog-request-id", "apim-request-id", "cf-ray"];
const LIMITS: [&str; 6] = [
    "x-ratelimit-limit-requests",
    "x-ratelimit-remaining-requests",
    "x-ratelimit-reset-requests",
    "x-ratelimit-limit-tokens",
    "x-ratelimit-remaining-tokens",
    "x-ratelimit-reset-tokens",
];
const ANTHROPIC_LIMITS: [&str; 4] = [
    "anthropic-ratelimit-requests-remaining",
    "anthropic-ratelimit-input-tokens-remaining",
    "anthropic-ratelimit-output-tokens-remaining",
    "anthropic-ratelimit-tokens-remaining",
];

/// Adds to an error what the headers know and its body did not say: the request's id, when to come back, and for a rate
/// limit the limits as the provider states them.
pub fn complete_error(error: &mut ModelError, headers: &HeaderMap, now: SystemTime) {
    if error.request_id.is_none() {
        error.request_id =
            REQUEST_IDS.iter().find_map(|name| text(headers, name)).map(str::to_owned);
    }
    if error.retry_after_ms.is_none() {
        error.retry_after_ms = retry_after_ms(headers, now);
    }
    if error.kind == ModelErrorKind::RateLimited {
        if error.retry_after_ms.is_none() {
            error.retry_after_ms = exhausted_reset_ms(headers);
        }
        let stated: Vec<String> = LIMITS
            .iter()
            .chain(&ANTHROPIC_LIMITS)
            .filter_map(|name| Some(format!("{name}: {}", text(headers, name)?)))
            .collect();
        if !stated.is_empty() {
            error.message = format!("{} [{}]", error.message, stated.join(", "));
        }
    }
}

/// How long the provider asks to wait, in milliseconds: `retry-after-ms`, else `retry-after` as seconds or as a date.
pub fn retry_after_ms(headers: &HeaderMap, now: SystemTime) -> Option<u64> {
    if let Some(ms) = text(headers, "retry-after-ms").and_then(|v| v.parse::<f64>().ok()) {
        return positive(ms);
    }
    let value = text(headers, "retry-after")?;
    if let Ok(seconds) = value.parse::<f64>() {
        return positive(seconds * 1000.0);
    }
    let at = httpdate::parse_http_date(value).ok()?;
    Some(at.duration_since(now).map_or(0, |wait| wait.as_millis().try_into().unwrap_or(u64::MAX)))
}

const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining-requests");
const ANTHROPIC_REMAINING: HeaderName =
    HeaderName::from_static("anthropic-ratelimit-requests-remaining");

/// What an answer states of the limit on calls. `now` is asked only where a moment is stated instead of a duration.
pub fn stated_limit(headers: &HeaderMap, now: impl Fn() -> SystemTime) -> Option<Stated> {
    let number = |name: &str| text(headers, name)?.parse::<u64>().ok();
    if headers.contains_key(REMAINING) {
        return Some(Stated {
            limit: number("x-ratelimit-limit-requests")?,
            remaining: number(REMAINING.as_str())?,
            reset: Duration::from_millis(duration_ms(text(
                headers,
                "x-ratelimit-reset-requests",
            )?)?),
        });
    }
    if headers.contains_key(ANTHROPIC_REMAINING) {
        let reset: jiff::Timestamp =
            text(headers, "anthropic-ratelimit-requests-reset")?.parse().ok()?;
        return Some(Stated {
            limit: number("anthropic-ratelimit-requests-limit")?,
            remaining: number(ANTHROPIC_REMAINING.as_str())?,
            reset: SystemTime::try_from(reset).ok()?.duration_since(now()).unwrap_or_default(),
        });
    }
    None
}

/// The reset of whichever limit is used up, as OpenAI-compatible servers state it (`1s`, `6m0s`, `250ms`).
fn exhausted_reset_ms(headers: &HeaderMap) -> Option<u64> {
    let used_up = |what: &str| {
        let left = text(headers, &format!("x-ratelimit-remaining-{what}"))?.parse::<f64>().ok()?;
        if left > 0.0 {
            return None;
        }
        duration_ms(text(headers, &format!("x-ratelimit-reset-{what}"))?)
    };
    ["requests", "tokens"].into_iter().filter_map(used_up).max()
}

/// A duration written as numbers with units (`h`, `m`, `s`, `ms`); bare numbers are seconds.
fn duration_ms(value: &str) -> Option<u64> {
    if let Ok(seconds) = value.parse::<f64>() {
        return positive(seconds * 1000.0);
    }
    let mut total = 0.0;
    let mut rest = value.trim();
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at_checked(digits)?;
        let unit_end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at_checked(unit_end)?;
        let factor = match unit {
            "ms" => 1.0,
            "s" => 1_000.0,
            "m" => 60_000.0,
            "h" => 3_600_000.0,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * factor;
        rest = tail;
    }
    positive(total)
}

fn positive(ms: f64) -> Option<u64> {
    (ms.is_finite() && ms >= 0.0).then(|| ms.ceil() as u64)
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};
    use std::time::Duration;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v)))
            .collect()
    }

    fn wait(pairs: &[(&'static str, &'static str)]) -> Option<u64> {
        let now = httpdate::parse_http_date("Wed, 21 Oct 2026 07:28:00 GMT").unwrap();
        retry_after_ms(&headers(pairs), now)
    }

    #[test]
    fn retry_after_in_every_form() {
        assert_eq!(wait(&[("retry-after", "7")]), Some(7_000));
        assert_eq!(wait(&[("retry-after", " 0.25 ")]), Some(250));
        assert_eq!(wait(&[("retry-after-ms", "1500"), ("retry-after", "9")]), Some(1_500));
        assert_eq!(wait(&[("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT")]), Some(30_000));
        assert_eq!(wait(&[("retry-after", "Wed, 21 Oct 2026 07:27:00 GMT")]), Some(0));
        assert_eq!(wait(&[("retry-after", "soon")]), None);
        assert_eq!(wait(&[("retry-after", "-3")]), None);
        assert_eq!(wait(&[]), None);
    }

    #[test]
    fn a_rate_limit_error_states_the_limits() {
        let mut error = ModelError::new(ModelErrorKind::RateLimited, "too fast");
        let headers = headers(&[
            ("x-request-id", "req-1"),
            ("x-ratelimit-remaining-requests", "0"),
            ("x-ratelimit-reset-requests", "1m0.5s"),
            ("x-ratelimit-remaining-tokens", "40"),
            ("x-ratelimit-reset-tokens", "5h"),
        ]);
        complete_error(&mut error, &headers, SystemTime::UNIX_EPOCH);
        assert_eq!(error.request_id.as_deref(), Some("req-1"));
        assert_eq!(error.retry_after_ms, Some(60_500));
        assert!(error.message.contains("x-ratelimit-remaining-requests: 0"), "{}", error.message);
    }

    #[test]
    fn limits_are_read_as_durations_and_as_moments() {
        let moment: jiff::Timestamp = "2026-11-27T10:00:00Z".parse().unwrap();
        let now = || SystemTime::try_from(moment).unwrap();
        let read = |pairs| stated_limit(&headers(pairs), now);
        let openai = [
            ("x-ratelimit-limit-requests", "500"),
            ("x-ratelimit-remaining-requests", "40"),
            ("x-ratelimit-reset-requests", "55.2s"),
        ];
        let reset = Duration::from_millis(55_200);
        assert_eq!(read(&openai), Some(Stated { limit: 500, remaining: 40, reset }));
        let anthropic = [
            ("anthropic-ratelimit-requests-limit", "50"),
            ("anthropic-ratelimit-requests-remaining", "0"),
            ("anthropic-ratelimit-requests-reset", "2026-11-27T10:01:00Z"),
        ];
        let reset = Duration::from_secs(60);
        assert_eq!(read(&anthropic), Some(Stated { limit: 50, remaining: 0, reset }));
        assert_eq!(read(&openai[1..]), None);
        assert_eq!(read(&[]), None);
    }

    #[test]
    fn what_the_error_knows_already_stays() {
        let mut error = ModelError::new(ModelErrorKind::Overloaded, "busy");
        error.retry_after_ms = Some(1);
        error.request_id = Some("own".into());
        let before = error.clone();
        let all = headers(&[
            ("retry-after", "9"),
            ("x-request-id", "other"),
            ("x-ratelimit-limit-tokens", "1"),
        ]);
        complete_error(&mut error, &all, SystemTime::UNIX_EPOCH + Duration::from_secs(1));
        assert_eq!(error, before);
    }
}
