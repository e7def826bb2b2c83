//! Values, times and sums in few words.

use serde_json::Value;
use turnbuckle::core::error::ModelError;
use turnbuckle::core::time::Timestamp;
use turnbuckle::core::usage::Usage;

/// Text on one line of at most `max` characters.
pub fn one_line(text: &str, max: usize) -> String {
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if joined.chars().count() <= max {
        return joined;
    }
    let mut short: String = joined.chars().take(max.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Why a model call failed, with how long the provider asks to wait.
pub fn model_failure(error: &ModelError) -> String {
    let wait = error.retry_after_ms.map(|ms| format!("; it asks to wait {}", elapsed(ms)));
    format!("{error}{}", wait.unwrap_or_default())
}

/// A small value for people: texts as they are, objects as `name: value` pairs.
pub fn brief(value: &Value, max: usize) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Object(map) => {
            let pairs: Vec<String> = map
                .iter()
                .filter(|(_, v)| !is_empty(v))
                .map(|(k, v)| match v {
                    Value::Array(items) => format!("{k}: {}", count(items.len(), "item")),
                    Value::Object(_) => format!("{k}: …"),
                    _ => format!("{k}: {}", plain(v)),
                })
                .collect();
            pairs.join(" · ")
        }
        Value::Array(items) => count(items.len(), "item"),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    one_line(&text, max)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// So many of something.
pub fn count(n: usize, thing: &str) -> String {
    if n == 1 { format!("1 {thing}") } else { format!("{n} {thing}s") }
}

/// A value as text: strings without quotes, anything else as JSON.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Milliseconds in seconds, or in minutes when there are many.
pub fn elapsed(ms: u64) -> String {
    match ms {
        0..10_000 => format!("{:.1} s", ms as f64 / 1000.0),
        10_000..120_000 => format!("{} s", ms / 1000),
        _ => format!("{} min", ms / 60_000),
    }
}

/// A moment in the local time zone, to the minute.
pub fn moment(at: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(at.as_millis()) {
        Ok(at) => at
            .to_zoned_datetime(jiff::tz::TimeZone::system())
            .strftime("%Y-%m-%d %H:%M")
            .to_string(),
        Err(_) => at.to_string(),
    }
}

/// Millionths of a dollar as dollars.
pub fn dollars(micros: u64) -> String {
    let dollars = micros as f64 / 1e6;
    if micros == 0 || micros >= 10_000 {
        format!("${dollars:.2}")
    } else {
        format!("${dollars:.4}")
    }
}

/// Tokens in words; what the provider did not say is left out.
pub fn usage(usage: &Usage) -> String {
    let fields = [
        ("in", usage.input),
        ("from cache", usage.cache_read),
        ("to cache", usage.cache_write),
        ("out", usage.output),
        ("of it reasoning", usage.reasoning),
    ];
    let said: Vec<String> =
        fields.iter().filter_map(|(name, n)| n.map(|n| format!("{n} {name}"))).collect();
    if said.is_empty() { "no tokens reported".to_owned() } else { said.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_in_few_words() {
        assert_eq!(brief(&json!("two\nlines"), 40), "two lines");
        assert_eq!(
            brief(&json!({"a": 1, "b": null, "c": [1, 2], "d": {"x": 1}, "e": [], "f": ""}), 40),
            "a: 1 · c: 2 items · d: …"
        );
        assert_eq!(brief(&json!("ääää"), 3), "ää…");
    }

    #[test]
    fn times_and_money() {
        assert_eq!(elapsed(40), "0.0 s");
        assert_eq!(elapsed(61_000), "61 s");
        assert_eq!(elapsed(600_000), "10 min");
        assert_eq!(dollars(1_234), "$0.0012");
        assert_eq!(dollars(1_230_000), "$1.23");
    }

    #[test]
    fn unreported_tokens_are_not_zeros() {
        let some = Usage { input: Some(3), output: Some(0), ..Usage::default() };
        assert_eq!(usage(&some), "3 in, 0 out");
        assert_eq!(usage(&Usage::default()), "no tokens reported");
    }
}
