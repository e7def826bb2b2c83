//! The current date and time as a section.

use super::section::{Section, Tier};
use crate::time::Timestamp;
use jiff::tz::TimeZone;

/// A turn section that tells the date and the time in the reader's time zone; in UTC when there is no zone of that name.
pub fn clock_section() -> Section {
    Section::computed(Tier::Turn, "clock", |input| {
        Some(format!("It is now {}.", spelled(input.now, &input.time_zone)))
    })
}

/// Weekday, date, minute, zone and offset.
fn spelled(at: Timestamp, zone: &str) -> String {
    let zone = TimeZone::get(zone).unwrap_or(TimeZone::UTC);
    let at = jiff::Timestamp::from_millisecond(at.as_millis())
        .unwrap_or_default()
        .to_zoned_datetime(zone);
    let moment = at.strftime("%A, %-d %B %Y, %H:%M");
    match at.time_zone().iana_name() {
        Some(name) if name != "UTC" => format!("{moment} ({name}, UTC{})", at.strftime("%:z")),
        _ => format!("{moment} (UTC)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speaks_the_time_of_the_zone() {
        // 2026-03-29T00:59:59Z, a second before clocks in Europe go forward.
        let before = 1_774_745_999_000;
        for (ms, zone, expected) in [
            (before, "UTC", "Sunday, 29 March 2026, 00:59 (UTC)"),
            (before, "Europe/Berlin", "Sunday, 29 March 2026, 01:59 (Europe/Berlin, UTC+01:00)"),
            (
                before + 1000,
                "Europe/Berlin",
                "Sunday, 29 March 2026, 03:00 (Europe/Berlin, UTC+02:00)",
            ),
            (
                before,
                "America/New_York",
                "Saturday, 28 March 2026, 20:59 (America/New_York, UTC-04:00)",
            ),
            (before, "Asia/Kolkata", "Sunday, 29 March 2026, 06:29 (Asia/Kolkata, UTC+05:30)"),
            (before, "Europe/Nowhere", "Sunday, 29 March 2026, 00:59 (UTC)"),
            (before, "", "Sunday, 29 March 2026, 00:59 (UTC)"),
            (before, "../../etc/passwd", "Sunday, 29 March 2026, 00:59 (UTC)"),
            (-1, "UTC", "Wednesday, 31 December 1969, 23:59 (UTC)"),
            (i64::MAX, "UTC", "Thursday, 1 January 1970, 00:00 (UTC)"),
        ] {
            assert_eq!(spelled(Timestamp::from_millis(ms), zone), expected, "{zone}");
        }
    }
}
