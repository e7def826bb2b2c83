//! What arguments and results of several queries share: limits, dates, money, names.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::caller::Caller;
use crate::error::{DeskError, Result};
use crate::ids::Kind;

/// An id with the name it goes by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// The id, such as `member:4`.
    pub id: String,
    /// The name.
    pub name: String,
}

impl Named {
    pub(crate) fn new(kind: Kind, id: i64, name: impl Into<String>) -> Self {
        Self { id: format!("{}:{id}", kind.slug()), name: name.into() }
    }

    pub(crate) fn maybe(kind: Kind, id: Option<i64>, name: Option<String>) -> Option<Self> {
        Some(Self::new(kind, id?, name?))
    }
}

/// A limit between 1 and its largest value, whatever was asked.
pub(crate) fn limit(asked: Option<i64>, usual: i64, largest: i64) -> i64 {
    asked.unwrap_or(usual).clamp(1, largest)
}

/// How many rows to pass over; never negative.
pub(crate) fn offset(asked: Option<i64>) -> i64 {
    asked.unwrap_or(0).max(0)
}

/// A count, which the database gives as a signed number.
pub(crate) fn count(rows: i64) -> u64 {
    u64::try_from(rows).unwrap_or(0)
}

/// A text filter that was named must hold something; an empty one would widen the search.
pub(crate) fn filled<'a>(field: &'static str, text: Option<&'a str>) -> Result<Option<&'a str>> {
    match text.map(str::trim) {
        Some("") => Err(DeskError::invalid(field, "is empty; leave it out or give it a value")),
        other => Ok(other),
    }
}

/// A text that must be there and fit.
pub(crate) fn text<'a>(field: &'static str, text: &'a str, most_chars: usize) -> Result<&'a str> {
    let text = text.trim();
    let chars = text.chars().count();
    if chars == 0 {
        return Err(DeskError::invalid(field, "is empty"));
    }
    if chars > most_chars {
        let message = format!("has {chars} characters; at most {most_chars} fit");
        return Err(DeskError::invalid(field, message));
    }
    Ok(text)
}

/// The beginning of a text on one line, for lists.
pub(crate) fn excerpt(text: &str, most_chars: usize) -> String {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    cut(&flat, most_chars).map_or(flat.clone(), |head| format!("{head}…"))
}

/// The first characters of a text when it has more than these.
pub(crate) fn cut(text: &str, most_chars: usize) -> Option<&str> {
    let (end, _) = text.char_indices().nth(most_chars)?;
    text.get(..end)
}

/// A moment as the caller's wall shows it, with its offset.
pub(crate) fn stamp(seconds: i64, zone: &TimeZone) -> String {
    Timestamp::from_second(seconds).map_or_else(
        |_| String::new(),
        |moment| {
            moment.to_zoned_datetime(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
        },
    )
}

/// A pattern for `LIKE ... ESCAPE '\'` that finds the text anywhere.
pub(crate) fn contains(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() + 2);
    pattern.push('%');
    for character in text.chars() {
        if matches!(character, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('%');
    pattern
}

/// Most words a text search takes.
const MOST_TERMS: usize = 12;

/// The terms of a text search, each quoted for FTS5. Punctuation on its own holds nothing to find.
pub(crate) fn terms(field: &'static str, query: &str) -> Result<Vec<String>> {
    let terms: Vec<_> = query
        .split_whitespace()
        .filter(|word| word.chars().any(char::is_alphanumeric))
        .map(|word| format!("\"{}\"", word.replace('"', " ")))
        .collect();
    if terms.is_empty() {
        return Err(DeskError::invalid(field, "has no word to search for"));
    }
    if terms.len() > MOST_TERMS {
        let message = format!("has {} words; search for at most {MOST_TERMS}", terms.len());
        return Err(DeskError::invalid(field, message));
    }
    Ok(terms)
}

/// A span of time, from its first second up to but not including its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) from: Option<i64>,
    pub(crate) until: Option<i64>,
}

/// One end of a range: the argument's name and its value.
pub(crate) type End<'a> = (&'static str, Option<&'a str>);

/// Reads a date range. A date means its midnight in the caller's zone: `after` includes that day,
/// `before` ends with the day before it.
pub(crate) fn range(after: End<'_>, before: End<'_>, caller: &Caller) -> Result<Range> {
    let from = moment(after, &caller.zone)?;
    let until = moment(before, &caller.zone)?;
    if let (Some(from), Some(until)) = (from, until)
        && from >= until
    {
        let message = format!("must lie later than {}, or nothing can be found", after.0);
        return Err(DeskError::invalid(before.0, message));
    }
    Ok(Range { from, until })
}

/// As [`range`], for things that cannot lie in the future.
pub(crate) fn past_range(
    after: End<'_>,
    before: End<'_>,
    caller: &Caller,
    now: Timestamp,
) -> Result<Range> {
    let range = range(after, before, caller)?;
    if range.from.is_some_and(|from| from > now.as_second()) {
        let today = stamp(now.as_second(), &caller.zone);
        let message = format!("lies in the future (now is {today}), so nothing can be found");
        return Err(DeskError::invalid(after.0, message));
    }
    Ok(range)
}

fn moment((field, text): End<'_>, zone: &TimeZone) -> Result<Option<i64>> {
    let Some(text) = filled(field, text)? else { return Ok(None) };
    let refused = || {
        DeskError::invalid_of(
            field,
            format!("{text:?} is no date of the calendar"),
            ["a date such as 2026-11-20", "a time such as 2026-11-20T15:00:00+01:00"],
        )
    };
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(Some(moment.as_second()));
    }
    let civil = if text.len() == 10 {
        text.parse::<Date>().map_err(|_| refused())?.to_datetime(jiff::civil::Time::midnight())
    } else if text.len() >= 16 {
        text.parse::<DateTime>().map_err(|_| refused())?
    } else {
        return Err(refused());
    };
    let zoned = civil.to_zoned_datetime(zone.clone()).map_err(|_| refused())?;
    Ok(Some(zoned.timestamp().as_second()))
}

/// An amount of money in cents, written as `12.5`, `"12.50"` or `12`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amount {
    /// The amount in cents.
    pub cents: i64,
}

impl Amount {
    /// Reads a plain decimal number with at most two places.
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || whole.len() > 12 || !digits(whole) || !digits(fraction) {
            return None;
        }
        // Places beyond cents are taken only when they are zeros.
        let (cents, beyond) = fraction.split_at_checked(2).unwrap_or((fraction, ""));
        if beyond.bytes().any(|byte| byte != b'0') {
            return None;
        }
        let cents: i64 = if cents.is_empty() { 0 } else { format!("{cents:0<2}").parse().ok()? };
        let whole: i64 = whole.parse().ok()?;
        Some(Self { cents: whole.checked_mul(100)?.checked_add(cents)? })
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.cents / 100, self.cents % 100)
    }
}

impl Serialize for Amount {
    fn serialize<S: serde::Serializer>(
        &self,
        serializer: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(serde_json::Number),
            Text(String),
        }
        let text = match Written::deserialize(deserializer)? {
            Written::Number(number) => number.to_string(),
            Written::Text(text) => text,
        };
        Self::parse(&text).ok_or_else(|| {
            de::Error::custom(format!("{text:?} is no amount; write a plain number such as 12.50"))
        })
    }
}

impl JsonSchema for Amount {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Amount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "An amount of money, at most two decimal places, without currency.",
            "anyOf": [
                { "type": "number", "minimum": 0 },
                { "type": "string", "pattern": "^[0-9]{1,12}(\\.[0-9]{1,2})?$" },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact() {
        let cents = |text: &str| Amount::parse(text).map(|amount| amount.cents);
        assert_eq!(cents("12"), Some(1_200));
        assert_eq!(cents("12.5"), Some(1_250));
        assert_eq!(cents("0.05"), Some(5));
        assert_eq!(cents("12.500"), Some(1_250));
        for bad in ["", "-1", "1e3", "12.345", "1,50", ".5", "€5", "9999999999999"] {
            assert_eq!(cents(bad), None, "{bad}");
        }
        assert_eq!(Amount { cents: 1_205 }.to_string(), "12.05");
        let read: Vec<Amount> = serde_json::from_str(r#"[19.99, "19.99", 7]"#).unwrap();
        assert_eq!(read.iter().map(|amount| amount.cents).collect::<Vec<_>>(), [1_999, 1_999, 700]);
    }

    #[test]
    fn limits_clamp() {
        assert_eq!(limit(None, 10, 25), 10);
        assert_eq!(limit(Some(1_000), 10, 25), 25);
        assert_eq!(limit(Some(-3), 10, 25), 1);
        assert_eq!(offset(Some(-3)), 0);
    }

    #[test]
    fn patterns_take_wildcards_literally() {
        assert_eq!(contains("50%_\\"), r"%50\%\_\\%");
    }
}
