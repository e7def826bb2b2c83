//! When schedules are due: cron expressions in the time zone of those who wrote them.

use croner::errors::CronError as Croner;
use croner::parser::CronParser;
use croner::time::{CivilDate, CivilDateTime, CivilTime, CronDateTime, Resolution, Weekday};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, ZonedDateTime};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::cmp::Ordering;
use turnbuckle_core::time::Timestamp;

/// A cron expression in an IANA time zone, checked.
///
/// Five fields (minute, hour, day of the month, month, day of the week), six with seconds before, seven with years behind.
/// What the clock change does is defined. A fixed time that is skipped in spring is due at the first moment after the gap; one
/// that comes twice in autumn is due once, the first time. What is due every hour, minute or second is due whenever the clock
/// shows it, so not in the gap, and twice in the repeated hour.
///
/// ```
/// use turnbuckle_core::time::Timestamp;
/// use turnbuckle_store::Cron;
/// let every_morning = Cron::parse("30 7 * * MON-FRI", "Europe/Berlin").unwrap();
/// let friday: Timestamp = serde_json::from_str(r#""2026-11-27T12:00:00Z""#).unwrap();
/// assert_eq!(every_morning.after(friday).unwrap().to_string(), "2026-11-30T06:30:00.000Z");
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct Cron {
    expression: String,
    zone: String,
    #[serde(skip)]
    parsed: croner::Cron,
    #[serde(skip)]
    tz: TimeZone,
}

/// Why a text is not a [`Cron`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    /// The expression cannot be read, or is never due.
    #[error("{expression:?} is not a cron expression: {why}")]
    Expression {
        /// The expression.
        expression: String,
        /// What is wrong with it.
        why: String,
    },
    /// There is no such time zone.
    #[error("{0:?} is not an IANA time zone such as Europe/Berlin")]
    Zone(String),
}

/// Expressions longer than this are not read.
const LONGEST: usize = 256;

impl Cron {
    /// Reads an expression.
    ///
    /// # Errors
    /// [`CronError`].
    pub fn parse(
        expression: impl Into<String>,
        zone: impl Into<String>,
    ) -> Result<Self, CronError> {
        let (expression, zone) = (expression.into(), zone.into());
        let wrong = |why: String| CronError::Expression { expression: expression.clone(), why };
        if expression.len() > LONGEST {
            return Err(wrong("it is too long".to_owned()));
        }
        let parsed = CronParser::new().parse(&expression).map_err(|e| wrong(e.to_string()))?;
        let tz = TimeZone::get(&zone).map_err(|_| CronError::Zone(zone.clone()))?;
        Ok(Self { expression, zone, parsed, tz })
    }

    /// The expression as it was written.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// The time zone.
    pub fn zone(&self) -> &str {
        &self.zone
    }

    /// The first time it is due after a moment; never, if it is not due in the next some thousand years.
    pub fn after(&self, moment: Timestamp) -> Option<Timestamp> {
        let next = self.parsed.find_next_occurrence(&self.local(moment)?, false);
        next.ok().map(|due| due.timestamp())
    }

    /// The last time it was due, `moment` included.
    pub fn before(&self, moment: Timestamp) -> Option<Timestamp> {
        // Its moments are whole seconds.
        let whole = Timestamp::from_millis(moment.as_millis().div_euclid(1_000) * 1_000);
        let last = self.parsed.find_previous_occurrence(&self.local(whole)?, true);
        last.ok().map(|due| due.timestamp())
    }

    fn local(&self, moment: Timestamp) -> Option<Local> {
        let moment = jiff::Timestamp::from_millisecond(moment.as_millis()).ok()?;
        Some(Local(moment.to_zoned_datetime(self.tz.clone())))
    }
}

impl PartialEq for Cron {
    fn eq(&self, other: &Self) -> bool {
        (&self.expression, &self.zone) == (&other.expression, &other.zone)
    }
}

impl Eq for Cron {}

impl<'de> Deserialize<'de> for Cron {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Written {
            expression: String,
            zone: String,
        }
        let written = Written::deserialize(deserializer)?;
        Self::parse(written.expression, written.zone).map_err(D::Error::custom)
    }
}

/// A moment in a time zone, as the search for the next one needs it.
#[derive(Clone)]
struct Local(ZonedDateTime);

impl Local {
    fn timestamp(&self) -> Timestamp {
        Timestamp::from_millis(self.0.timestamp().as_millisecond())
    }
}

impl CronDateTime for Local {
    fn to_civil(&self) -> CivilDateTime {
        let at = self.0.datetime();
        let part = |value: i8| u32::try_from(value).unwrap_or(0);
        CivilDateTime::new(
            CivilDate::from_parts_unchecked(i32::from(at.year()), part(at.month()), part(at.day())),
            CivilTime::from_parts_unchecked(part(at.hour()), part(at.minute()), part(at.second())),
        )
    }

    fn civil_weekday(&self) -> Weekday {
        let days = u32::try_from(self.0.weekday().to_sunday_zero_offset()).unwrap_or(0);
        Weekday::from_days_from_sunday(days)
    }

    fn resolve_civil(&self, civil: CivilDateTime) -> Result<Resolution<Self>, Croner> {
        let small = |value: u32| i8::try_from(value).map_err(|_| Croner::InvalidDate);
        let year = i16::try_from(civil.year()).map_err(|_| Croner::InvalidDate)?;
        let at = jiff::civil::DateTime::new(
            year,
            small(civil.month())?,
            small(civil.day())?,
            small(civil.hour())?,
            small(civil.minute())?,
            small(civil.second())?,
            0,
        );
        let at = at.map_err(|_| Croner::InvalidDate)?;
        let found = self.0.time_zone().to_ambiguous_zoned_datetime(at);
        let exists = |zoned: Result<ZonedDateTime, jiff::Error>| {
            zoned.map(Local).map_err(|_| Croner::InvalidTime)
        };
        Ok(match found.offset() {
            AmbiguousOffset::Unambiguous { .. } => Resolution::Single(exists(found.unambiguous())?),
            AmbiguousOffset::Fold { .. } => {
                Resolution::Ambiguous(exists(found.clone().earlier())?, exists(found.later())?)
            }
            AmbiguousOffset::Gap { .. } => Resolution::Gap,
        })
    }

    fn checked_add_seconds(&self, seconds: i64) -> Option<Self> {
        self.0.checked_add(SignedDuration::from_secs(seconds)).ok().map(Local)
    }

    fn cmp_instant(&self, other: &Self) -> Ordering {
        self.0.timestamp().cmp(&other.0.timestamp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        serde_json::from_str(&format!("\"{text}\"")).unwrap()
    }

    /// The next times, in UTC.
    fn due(expression: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
        let cron = Cron::parse(expression, zone).unwrap();
        let mut now = at(from);
        (0..count)
            .map(|_| {
                let next = cron.after(now).unwrap();
                assert_eq!(cron.before(next), Some(next), "forth and back");
                assert!(cron.before(Timestamp::from_millis(next.as_millis() - 1)).unwrap() <= now);
                now = next;
                next.to_string().trim_end_matches(":00.000Z").to_owned()
            })
            .collect()
    }

    #[test]
    fn zones_make_the_difference() {
        let from = "2026-11-27T23:00:00Z";
        assert_eq!(due("0 9 * * *", "UTC", from, 1), ["2026-11-28T09:00"]);
        assert_eq!(due("0 9 * * *", "Asia/Tokyo", from, 1), ["2026-11-28T00:00"]);
        assert_eq!(due("0 9 * * *", "America/New_York", from, 1), ["2026-11-28T14:00"]);
        assert_eq!(due("0 9 * * *", "Australia/Lord_Howe", from, 1), ["2026-11-28T22:00"]);
    }

    #[test]
    fn a_time_that_spring_skips_is_due_after_the_gap() {
        // Berlin goes from 02:00 to 03:00 on 2026-03-29, at 01:00 UTC.
        let days = due("30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z", 3);
        assert_eq!(days, ["2026-03-28T01:30", "2026-03-29T01:00", "2026-03-30T00:30"]);
        let hours = due("30 * * * *", "Europe/Berlin", "2026-03-28T23:45:00Z", 3);
        assert_eq!(hours, ["2026-03-29T00:30", "2026-03-29T01:30", "2026-03-29T02:30"]);
    }

    #[test]
    fn a_time_that_autumn_repeats_is_due_once() {
        // Berlin goes from 03:00 back to 02:00 on 2026-10-25, at 01:00 UTC.
        let days = due("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2);
        assert_eq!(days, ["2026-10-25T00:30", "2026-10-26T01:30"]);
        let hours = due("30 * * * *", "Europe/Berlin", "2026-10-24T23:45:00Z", 3);
        assert_eq!(hours, ["2026-10-25T00:30", "2026-10-25T01:30", "2026-10-25T02:30"]);
    }

    #[test]
    fn odd_expressions_are_told_apart() {
        let from = "2026-11-28T12:00:00Z";
        assert_eq!(due("0 0 L * *", "UTC", from, 2), ["2026-11-30T00:00", "2026-12-31T00:00"]);
        assert_eq!(due("0 0 29 2 *", "UTC", from, 1), ["2028-02-29T00:00"]);
        assert_eq!(due("@hourly", "UTC", from, 1), ["2026-11-28T13:00"]);
        for wrong in ["", "* * *", "61 * * * *", "soon", "* * * * * * * *", &"1,".repeat(999)] {
            let error = Cron::parse(wrong, "UTC").unwrap_err();
            assert!(matches!(error, CronError::Expression { .. }), "{error}");
        }
        assert_eq!(Cron::parse("0 0 30 2 *", "UTC").unwrap().after(at(from)), None);
        let error = Cron::parse("* * * * *", "Europe/Atlantis").unwrap_err();
        assert_eq!(error, CronError::Zone("Europe/Atlantis".to_owned()));
    }

    #[test]
    fn it_is_written_as_its_two_parts() {
        let cron = Cron::parse("30 7 * * MON-FRI", "Europe/Berlin").unwrap();
        let written = serde_json::to_string(&cron).unwrap();
        assert_eq!(written, r#"{"expression":"30 7 * * MON-FRI","zone":"Europe/Berlin"}"#);
        assert_eq!(serde_json::from_str::<Cron>(&written).unwrap(), cron);
        assert!(serde_json::from_str::<Cron>(r#"{"expression":"x","zone":"UTC"}"#).is_err());
    }
}
