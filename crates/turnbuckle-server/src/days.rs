//! Days and months in UTC.

use jiff::tz::TimeZone;
use jiff::{Span, ToSpan, ZonedDateTime};
use turnbuckle_core::time::Timestamp;

/// A day (its beginning) or a moment in RFC 3339.
pub fn moment(text: &str) -> Option<Timestamp> {
    if let Ok(day) = text.parse::<jiff::civil::Date>()
        && text.len() == 10
    {
        let start = day.to_zoned_datetime(TimeZone::UTC).ok()?;
        return Some(stamp(&start));
    }
    let at: jiff::Timestamp = text.parse().ok()?;
    Some(Timestamp::from_millis(at.as_millisecond()))
}

/// The beginning of the day.
pub fn day_of(at: Timestamp) -> Timestamp {
    zoned(at).and_then(|z| z.start_of_day().ok()).as_ref().map_or(at, stamp)
}

/// The beginning of the next day.
pub fn next_day(at: Timestamp) -> Timestamp {
    later(day_of(at), 1.day())
}

/// The beginning of the month.
pub fn month_of(at: Timestamp) -> Timestamp {
    let first = zoned(at).and_then(|z| z.first_of_month().ok()?.start_of_day().ok());
    first.as_ref().map_or(at, stamp)
}

/// The beginning of the next month.
pub fn next_month(at: Timestamp) -> Timestamp {
    later(month_of(at), 1.month())
}

fn later(at: Timestamp, span: Span) -> Timestamp {
    zoned(at).and_then(|z| z.checked_add(span).ok()).as_ref().map_or(at, stamp)
}

fn zoned(at: Timestamp) -> Option<ZonedDateTime> {
    let at = jiff::Timestamp::from_millisecond(at.as_millis()).ok()?;
    Some(at.to_zoned_datetime(TimeZone::UTC))
}

fn stamp(at: &ZonedDateTime) -> Timestamp {
    Timestamp::from_millis(at.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_months_begin_at_midnight_in_utc() {
        let at = moment("2026-12-31T23:59:59.500Z").unwrap();
        let text = [day_of(at), next_day(at), month_of(at), next_month(at)].map(|t| t.to_string());
        let begin = |day: &str| format!("{day}T00:00:00.000Z");
        assert_eq!(text, ["2026-12-31", "2027-01-01", "2026-12-01", "2027-01-01"].map(begin));
    }

    #[test]
    fn a_moment_is_a_day_or_rfc_3339() {
        let text = |t: &str| moment(t).map(|t| t.to_string());
        assert_eq!(text("2026-11-01").as_deref(), Some("2026-11-01T00:00:00.000Z"));
        assert_eq!(text("2026-11-01T02:00:00+02:00").as_deref(), Some("2026-11-01T00:00:00.000Z"));
        for wrong in ["", "yesterday", "2026-13-01", "2026-11-01T00:00:00", "20261101"] {
            assert_eq!(text(wrong), None, "{wrong}");
        }
    }
}
