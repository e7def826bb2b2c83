//! How long a provider asks to wait, in milliseconds, wherever it says so.

use crate::AnswerHead;

/// The delay that headers ask for. A date counts from the answer's own date, since there is no clock here.
pub(crate) fn of_headers(head: &AnswerHead<'_>) -> Option<u64> {
    if let Some(ms) = (head.header)("retry-after-ms").and_then(|v| v.trim().parse::<f64>().ok()) {
        return of_seconds(ms / 1000.0);
    }
    let value = (head.header)("retry-after")?.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return of_seconds(seconds);
    }
    let until = http_date(value)?;
    let now = http_date((head.header)("date")?)?;
    u64::try_from((until - now).max(0)).ok()
}

/// An HTTP date in milliseconds.
fn http_date(text: &str) -> Option<i64> {
    let zoned = jiff::fmt::rfc2822::parse(text.trim()).ok()?;
    Some(zoned.timestamp().as_millisecond())
}

/// Seconds, rounded up to milliseconds.
pub(crate) fn of_seconds(seconds: f64) -> Option<u64> {
    (seconds >= 0.0 && seconds.is_finite()).then(|| (seconds * 1000.0).ceil() as u64)
}

/// The delay in sentences such as "try again in 1m2.5s" or "retry in 340ms".
pub(crate) fn of_words(message: &str) -> Option<u64> {
    let lower = message.to_ascii_lowercase();
    let after = ["try again in ", "retry in ", "retry after "]
        .iter()
        .find_map(|words| lower.split_once(words).map(|(_, after)| after))?;
    let token = after.split_whitespace().next()?;
    let token = token.trim_end_matches(['.', ',', ';', ')']);
    if let Ok(number) = token.parse::<f64>() {
        let unit = after.split_whitespace().nth(1).unwrap_or("seconds");
        return match unit.trim_end_matches(['.', ',', ';', ')']) {
            "ms" | "millisecond" | "milliseconds" => of_seconds(number / 1000.0),
            "minute" | "minutes" => of_seconds(number * 60.0),
            u if u.starts_with('s') => of_seconds(number),
            _ => None,
        };
    }
    of_duration(token)
}

/// `1h2m3.5s`, `320ms` and the like.
pub(crate) fn of_duration(text: &str) -> Option<u64> {
    let mut total = 0.0;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at_checked(end)?;
        let number: f64 = number.parse().ok()?;
        let units = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at_checked(units)?;
        total += number
            * match unit {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 0.001,
                _ => return None,
            };
        rest = next;
    }
    of_seconds(total)
}
