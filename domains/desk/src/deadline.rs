//! Deadlines in words. A phrase is read against a given moment in the reader's zone; what cannot be
//! read for sure is refused with phrasings that would do, never guessed.
//!
//! A deadline without a time of day ends with its day: it falls on the last second of the date.
//! "friday" is the next Friday after today, "this friday" the one of this week (Monday to Sunday),
//! "next friday" the one of the week after.

use jiff::civil::{Date, Time, Weekday};
use jiff::{Span, Timestamp, ToSpan, ZonedDateTime};

/// Phrasings an error offers.
pub const EXAMPLES: [&str; 7] = [
    "tomorrow",
    "friday at 15:00",
    "next monday",
    "in 3 days",
    "end of month",
    "12 march",
    "2027-03-12",
];

/// The farthest a deadline may lie ahead, in years.
const FARTHEST_YEARS: i64 = 10;

/// Why a phrase is no deadline.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeadlineError {
    /// The phrase is none the desk knows.
    #[error("{0:?} is no deadline the desk can read")]
    Unknown(String),
    /// It looks like a date that does not exist.
    #[error("{0:?} is not a day of the calendar")]
    Impossible(String),
    /// Day and month cannot be told apart.
    #[error("{0:?} could be read as day/month or month/day")]
    DayOrMonth(String),
    /// It is over already.
    #[error("{0:?} lies in the past")]
    Past(String),
    /// It lies more than ten years ahead.
    #[error("{0:?} is more than ten years ahead")]
    TooFar(String),
}

type Read<T> = Result<T, DeadlineError>;

/// The moment a phrase means, seen from `now`.
///
/// # Errors
/// When the phrase cannot be read for sure, names no real day, or lies in the past.
pub fn parse(phrase: &str, now: &ZonedDateTime) -> Read<Timestamp> {
    let text = phrase.trim().to_lowercase();
    let shown = || phrase.trim().chars().take(80).collect::<String>();
    if text.is_empty() || text.len() > 120 {
        return Err(DeadlineError::Unknown(shown()));
    }
    let reader = Reader { shown: shown(), now };
    let moment = reader.moment(&text)?;
    if moment < now.timestamp() {
        return Err(DeadlineError::Past(shown()));
    }
    let farthest =
        now.checked_add(FARTHEST_YEARS.years()).map_err(|_| DeadlineError::TooFar(shown()))?;
    if moment > farthest.timestamp() {
        return Err(DeadlineError::TooFar(shown()));
    }
    Ok(moment)
}

struct Reader<'a> {
    shown: String,
    now: &'a ZonedDateTime,
}

impl Reader<'_> {
    fn unknown(&self) -> DeadlineError {
        DeadlineError::Unknown(self.shown.clone())
    }

    fn moment(&self, text: &str) -> Read<Timestamp> {
        // An instant with an offset needs no zone of ours.
        if let Ok(instant) = text.to_uppercase().parse::<Timestamp>() {
            return Ok(instant);
        }
        let cleaned = text.replace([',', '!'], " ").replace("o'clock", "");
        let cleaned = cleaned.trim_end_matches(['.', ' ']);
        let mut words: Vec<&str> = cleaned.split_whitespace().collect();
        while let Some("by" | "on" | "due" | "until" | "before" | "the") = words.first().copied() {
            words.remove(0);
        }
        let owned;
        if let [single] = words.as_slice()
            && let Some((date, time)) = single.split_once('t')
            && date.len() == 10
            && date.starts_with(|c: char| c.is_ascii_digit())
        {
            owned = [date, time];
            words = owned.to_vec();
        }
        if let Some(moment) = self.in_hours(&words)? {
            return Ok(moment);
        }
        let (words, time) = take_time(&words);
        let date =
            if words.is_empty() && time.is_some() { self.now.date() } else { self.date(words)? };
        let time = time.unwrap_or_else(end_of_day);
        date.to_datetime(time)
            .to_zoned_datetime(self.now.time_zone().clone())
            .map(|zoned| zoned.timestamp())
            .map_err(|_| DeadlineError::TooFar(self.shown.clone()))
    }

    fn in_hours(&self, words: &[&str]) -> Read<Option<Timestamp>> {
        let (count, unit) = match words {
            ["in", count, unit] | ["within", count, unit] => (*count, *unit),
            ["in", "half", "an", "hour"] => return self.plus_minutes(30).map(Some),
            _ => return Ok(None),
        };
        let minutes = match unit {
            "minute" | "minutes" | "min" | "mins" => 1,
            "hour" | "hours" | "h" => 60,
            _ => return Ok(None),
        };
        let count = number(count).ok_or_else(|| self.unknown())?;
        self.plus_minutes(count.saturating_mul(minutes)).map(Some)
    }

    fn plus_minutes(&self, minutes: i64) -> Read<Timestamp> {
        Span::new()
            .try_minutes(minutes)
            .and_then(|span| self.now.timestamp().checked_add(span))
            .map_err(|_| DeadlineError::TooFar(self.shown.clone()))
    }

    fn date(&self, words: &[&str]) -> Read<Date> {
        let today = self.now.date();
        match words {
            ["today" | "tonight"] | ["this", "evening" | "afternoon"] => Ok(today),
            ["eod"] | ["end", "of", "day" | "today"] | ["end", "of", "the", "day"] => Ok(today),
            ["tomorrow"] | ["end", "of", "tomorrow"] => self.plus_days(1),
            ["tomorrow", "morning" | "afternoon" | "evening"] => self.plus_days(1),
            ["day", "after", "tomorrow"] | ["overmorrow"] => self.plus_days(2),
            ["eow"] => self.week_day(0, Weekday::Friday),
            ["eom"] => Ok(today.last_of_month()),
            ["eoy"] => Ok(today.last_of_year()),
            ["end", "of", rest @ ..] => self.end_of(rest),
            ["next", "week"] => self.week_day(1, Weekday::Monday),
            ["next", "month"] => self.add(1.month()),
            ["next", "year"] => self.add(1.year()),
            ["next", day] => self.week_day(1, weekday(day).ok_or_else(|| self.unknown())?),
            ["this", day] => self.week_day(0, weekday(day).ok_or_else(|| self.unknown())?),
            ["in" | "within", rest @ ..] => self.in_span(rest),
            [count, unit, "from", "now" | "today"] => self.in_span(&[count, unit]),
            ["a", "week", "from", day] | ["week", "from", day] => {
                self.date(&[day])?.checked_add(1.week()).map_err(|_| self.unknown())
            }
            [day, "week"] if weekday(day).is_some() => self.unsure(),
            [single] => self.single(single),
            rest => self.day_and_month(rest),
        }
    }

    fn unsure<T>(&self) -> Read<T> {
        Err(self.unknown())
    }

    fn add(&self, span: Span) -> Read<Date> {
        self.now.date().checked_add(span).map_err(|_| DeadlineError::TooFar(self.shown.clone()))
    }

    fn plus_days(&self, days: i64) -> Read<Date> {
        let span = Span::new().try_days(days);
        self.add(span.map_err(|_| DeadlineError::TooFar(self.shown.clone()))?)
    }

    /// A weekday of the week that lies `weeks` after this one.
    fn week_day(&self, weeks: i64, day: Weekday) -> Read<Date> {
        let since_monday = i64::from(self.now.date().weekday().to_monday_zero_offset());
        self.plus_days(weeks * 7 + i64::from(day.to_monday_zero_offset()) - since_monday)
    }

    fn end_of(&self, words: &[&str]) -> Read<Date> {
        let today = self.now.date();
        let (period, next) = match words {
            ["next", period] => (*period, true),
            ["this" | "the", period] | [period] => (*period, false),
            _ => return self.unsure(),
        };
        match (period, next) {
            // Work weeks end on Friday; at the weekend only the week to come can be meant.
            ("week", false) => match today.weekday() {
                Weekday::Saturday | Weekday::Sunday => self.week_day(1, Weekday::Friday),
                _ => self.week_day(0, Weekday::Friday),
            },
            ("week", true) => self.week_day(1, Weekday::Friday),
            ("month", false) => Ok(today.last_of_month()),
            ("month", true) => Ok(self.add(1.month())?.last_of_month()),
            ("quarter", next) => {
                let into = i64::from((today.month() - 1) % 3);
                let months = 2 - into + if next { 3 } else { 0 };
                let first = today.first_of_month();
                let last = first.checked_add(months.months()).map_err(|_| self.unknown())?;
                Ok(last.last_of_month())
            }
            ("year", false) => Ok(today.last_of_year()),
            ("year", true) => Ok(self.add(1.year())?.last_of_year()),
            (month, false) => {
                let month = month_of(month).ok_or_else(|| self.unknown())?;
                Ok(self.coming(month, 1)?.last_of_month())
            }
            _ => self.unsure(),
        }
    }

    fn in_span(&self, words: &[&str]) -> Read<Date> {
        let (count, unit) = match words {
            [count, unit] | [count, unit, "time"] => (*count, *unit),
            ["a", "couple", "of", unit] => ("2", *unit),
            _ => return self.unsure(),
        };
        let count = number(count).ok_or_else(|| self.unknown())?;
        let far = |_| DeadlineError::TooFar(self.shown.clone());
        let unit = unit.trim_end_matches('\'');
        match unit {
            "day" | "days" => self.plus_days(count),
            "week" | "weeks" | "weeks'" => self.add(Span::new().try_weeks(count).map_err(far)?),
            "month" | "months" => self.add(Span::new().try_months(count).map_err(far)?),
            "year" | "years" => self.add(Span::new().try_years(count).map_err(far)?),
            "workday" | "workdays" => self.plus_workdays(count),
            _ => self.unsure(),
        }
    }

    fn plus_workdays(&self, count: i64) -> Read<Date> {
        if count > 2_600 {
            return Err(DeadlineError::TooFar(self.shown.clone()));
        }
        let mut date = self.now.date();
        let mut left = count;
        while left > 0 {
            date = date.tomorrow().map_err(|_| DeadlineError::TooFar(self.shown.clone()))?;
            if !matches!(date.weekday(), Weekday::Saturday | Weekday::Sunday) {
                left -= 1;
            }
        }
        Ok(date)
    }

    fn single(&self, word: &str) -> Read<Date> {
        if let Some(day) = weekday(word) {
            let ahead = i64::from(self.now.date().weekday().until(day));
            return self.plus_days(if ahead == 0 { 7 } else { ahead });
        }
        let numeric = |separator| {
            let parts: Vec<&str> = word.split(separator).collect();
            let digits = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            (parts.len() > 1 && parts.iter().all(digits)).then_some(parts)
        };
        if let Some(parts) = numeric('-') {
            let [year, month, day] = parts.as_slice() else { return self.unsure() };
            if year.len() != 4 {
                return self.unsure();
            }
            return self.calendar(year.parse().ok(), month.parse().ok(), day.parse().ok());
        }
        if let Some(parts) = numeric('.') {
            // Dots are only used where the day comes first.
            return match parts.as_slice() {
                [day, month, year] if year.len() == 4 => {
                    self.calendar(year.parse().ok(), month.parse().ok(), day.parse().ok())
                }
                _ => self.unsure(),
            };
        }
        if numeric('/').is_some() {
            return Err(DeadlineError::DayOrMonth(self.shown.clone()));
        }
        self.unsure()
    }

    fn calendar(&self, year: Option<i16>, month: Option<i8>, day: Option<i8>) -> Read<Date> {
        let impossible = || DeadlineError::Impossible(self.shown.clone());
        let (Some(year), Some(month), Some(day)) = (year, month, day) else {
            return Err(impossible());
        };
        Date::new(year, month, day).map_err(|_| impossible())
    }

    fn day_and_month(&self, words: &[&str]) -> Read<Date> {
        let (first, second, year) = match words {
            [day, "of", month] => (*day, *month, None),
            [day, "of", month, year] => (*day, *month, Some(*year)),
            [first, second] => (*first, *second, None),
            [first, second, year] => (*first, *second, Some(*year)),
            // A weekday in front is only accepted when it agrees with the date.
            _ => return self.unsure(),
        };
        if let (Some(named), Some(year)) = (weekday(first), year) {
            let date = self.day_and_month(&[second, year])?;
            return if date.weekday() == named { Ok(date) } else { self.unsure() };
        }
        let (month, day) = match (month_of(first), month_of(second)) {
            (Some(month), None) => (month, second),
            (None, Some(month)) => (month, first),
            _ => return self.unsure(),
        };
        let day =
            ["st", "nd", "rd", "th"].iter().find_map(|end| day.strip_suffix(end)).unwrap_or(day);
        let day: i8 = day.parse().map_err(|_| self.unknown())?;
        match year {
            Some(year) if year.len() == 4 => {
                self.calendar(year.parse().ok(), Some(month), Some(day))
            }
            Some(_) => self.unsure(),
            None => self.coming(month, day),
        }
    }

    /// The next such day that is not over.
    fn coming(&self, month: i8, day: i8) -> Read<Date> {
        let today = self.now.date();
        let this_year = self.calendar(Some(today.year()), Some(month), Some(day));
        match this_year {
            Ok(date) if date >= today => Ok(date),
            _ => self.calendar(Some(today.year().saturating_add(1)), Some(month), Some(day)),
        }
    }
}

fn end_of_day() -> Time {
    Time::constant(23, 59, 59, 0)
}

/// Splits a time of day off the end (or the front) of the words.
fn take_time<'w, 't>(words: &'w [&'t str]) -> (&'w [&'t str], Option<Time>) {
    let split = match words {
        [rest @ .., "at", hour, half @ ("am" | "pm")] => {
            Some((rest, clock(&format!("{hour}{half}"))))
        }
        [rest @ .., hour, half @ ("am" | "pm")] => Some((rest, clock(&format!("{hour}{half}")))),
        [rest @ .., "at", time] => Some((rest, clock(time).or_else(|| bare_hour(time)))),
        ["at", time, rest @ ..] => Some((rest, clock(time).or_else(|| bare_hour(time)))),
        [rest @ .., "morning"] if rest.last() == Some(&"tomorrow") => {
            Some((rest, Some(Time::constant(12, 0, 0, 0))))
        }
        [rest @ .., time] if clock(time).is_some() => Some((rest, clock(time))),
        [time, rest @ ..] if clock(time).is_some() => Some((rest, clock(time))),
        _ => None,
    };
    match split {
        Some((rest, Some(time))) => (rest, Some(time)),
        _ => (words, None),
    }
}

fn bare_hour(word: &str) -> Option<Time> {
    // "at 5" alone could be morning or evening; only hours that are unambiguous are taken.
    let hour: i8 = word.parse().ok()?;
    (hour >= 13).then(|| Time::new(hour, 0, 0, 0).ok()).flatten()
}

fn clock(word: &str) -> Option<Time> {
    match word {
        "noon" | "midday" => return Some(Time::constant(12, 0, 0, 0)),
        "midnight" => return Some(end_of_day()),
        _ => {}
    }
    let (body, half) = match (word.strip_suffix("am"), word.strip_suffix("pm")) {
        (Some(body), _) => (body, Some(0)),
        (_, Some(body)) => (body, Some(12)),
        _ => (word, None),
    };
    let mut parts = body.split(':');
    let hour: i8 = parts.next().filter(|part| part.len() <= 2)?.parse().ok()?;
    let minute = parts.next();
    let second = parts.next();
    if parts.next().is_some() || (half.is_none() && minute.is_none()) || hour < 0 {
        return None;
    }
    let two = |part: Option<&str>| match part {
        None => Some(0i8),
        Some(part) if part.len() == 2 => part.parse().ok(),
        Some(_) => None,
    };
    let hour = match half {
        Some(shift) if (1..=12).contains(&hour) => hour % 12 + shift,
        Some(_) => return None,
        None => hour,
    };
    Time::new(hour, two(minute)?, two(second)?, 0).ok()
}

fn number(word: &str) -> Option<i64> {
    let words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
    if matches!(word, "a" | "an") {
        return Some(1);
    }
    if let Some(position) = words.iter().position(|name| *name == word) {
        return i64::try_from(position + 1).ok();
    }
    word.parse().ok().filter(|count| *count >= 0)
}

fn weekday(word: &str) -> Option<Weekday> {
    Some(match word {
        "monday" | "mon" => Weekday::Monday,
        "tuesday" | "tue" | "tues" => Weekday::Tuesday,
        "wednesday" | "wed" => Weekday::Wednesday,
        "thursday" | "thu" | "thur" | "thurs" => Weekday::Thursday,
        "friday" | "fri" => Weekday::Friday,
        "saturday" | "sat" => Weekday::Saturday,
        "sunday" | "sun" => Weekday::Sunday,
        _ => return None,
    })
}

fn month_of(word: &str) -> Option<i8> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let position = MONTHS.iter().position(|month| {
        word == *month
            || (word.len() == 3 && month.starts_with(word))
            || (word == "sept" && month.starts_with(word))
    })?;
    i8::try_from(position + 1).ok()
}

#[cfg(test)]
#[path = "deadline_tests.rs"]
mod tests;
