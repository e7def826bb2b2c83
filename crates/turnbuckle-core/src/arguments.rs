//! A call's arguments as the model wrote them, parsed.
//!
//! Arguments are never guessed at: what does not parse is refused with the text itself, so that the model can see what it
//! wrote. Only a missing object is forgiven, since models write nothing where they mean no arguments.

use crate::error::{ToolError, ToolErrorCode};
use crate::json::clip;
use crate::usage::FinishReason;
use serde_json::error::Category;
use serde_json::{Map, Value};

/// Bytes of a model's text that are quoted back to it.
const QUOTED: usize = 400;

/// Parses the arguments of a finished call; `finish` is why the model stopped.
///
/// ```
/// use turnbuckle_core::arguments::parse_arguments;
/// use turnbuckle_core::usage::FinishReason;
/// assert!(parse_arguments(" ", &FinishReason::ToolCalls).unwrap().is_empty());
/// let error = parse_arguments("{\"a\": 1,}", &FinishReason::ToolCalls).unwrap_err();
/// assert!(error.message.contains("byte 8"), "{error}");
/// ```
///
/// # Errors
/// When the text is not one JSON object, worded for the model: as cut when the output limit stopped it, else as malformed.
pub fn parse_arguments(text: &str, finish: &FinishReason) -> Result<Map<String, Value>, ToolError> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(other) => Err(not_an_object(text, &other)),
        Err(error) if *finish == FinishReason::Length && error.classify() == Category::Eof => {
            Err(ToolError::new(
                ToolErrorCode::TruncatedArguments,
                format!(
                    "Your output limit cut the arguments after {} bytes, so the call was not made. \
                 Call again with shorter arguments, or in several smaller calls.",
                    text.len()
                ),
            ))
        }
        Err(error) => Err(malformed(text, &error)),
    }
}

fn not_an_object(text: &str, value: &Value) -> ToolError {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    ToolError::new(
        ToolErrorCode::UnparsedArguments,
        format!(
            "The arguments must be a JSON object of named values, but are {found}, so the call was not made. \
             You wrote: {}",
            quote(text, 0)
        ),
    )
}

fn malformed(text: &str, error: &serde_json::Error) -> ToolError {
    let at = offset(text, error.line(), error.column());
    let problem = error.to_string();
    // The position is given as an offset into the text instead.
    let problem = problem.rsplit_once(" at line ").map_or(problem.as_str(), |(problem, _)| problem);
    ToolError::new(
        ToolErrorCode::UnparsedArguments,
        format!(
            "The arguments are not valid JSON, so the call was not made: {problem}, at byte {at}. \
             Call again with the whole arguments as one JSON object. You wrote: {}",
            quote(text, at)
        ),
    )
}

/// The offset of the character at a line and column, both from 1.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    (before + column.saturating_sub(1)).min(text.len())
}

/// The text around an offset, marked where it was cut.
fn quote(text: &str, at: usize) -> String {
    if text.len() <= QUOTED {
        return text.to_owned();
    }
    let start = clip(text, at.saturating_sub(QUOTED / 2)).len();
    let tail = text.get(start..).unwrap_or_default();
    let shown = clip(tail, QUOTED);
    let before = if start > 0 { "…" } else { "" };
    let after = if shown.len() < tail.len() { "…" } else { "" };
    format!("{before}{shown}{after} ({} bytes in all)", text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn parse(text: &str) -> Result<Value, ToolError> {
        parse_arguments(text, &FinishReason::ToolCalls).map(Value::Object)
    }

    fn refused(text: &str, finish: &FinishReason) -> ToolErrorCode {
        parse_arguments(text, finish).unwrap_err().code
    }

    #[test]
    fn objects_parse_and_nothing_means_no_arguments() {
        assert_eq!(parse(" {\"a\": {\"b\": [1, null]}}\n"), Ok(json!({"a": {"b": [1, null]}})));
        for text in ["", " \n\t", "{}"] {
            assert_eq!(parse(text), Ok(json!({})), "{text:?}");
        }
        assert_eq!(
            parse_arguments("{\"a\":1}", &FinishReason::Length).map(Value::Object),
            Ok(json!({"a": 1}))
        );
    }

    #[test]
    fn other_values_are_refused_with_the_text() {
        for (text, found) in [
            ("null", "null"),
            ("true", "a boolean"),
            ("3", "a number"),
            ("\"{}\"", "text"),
            ("[{}]", "an array"),
        ] {
            let expected = ToolError::new(
                ToolErrorCode::UnparsedArguments,
                format!(
                    "The arguments must be a JSON object of named values, but are {found}, so the call was not \
                     made. You wrote: {text}"
                ),
            );
            assert_eq!(parse(text), Err(expected));
        }
    }

    #[test]
    fn malformed_text_is_refused_with_the_place() {
        for (text, problem, at) in [
            ("{\"a\": 1,}", "trailing comma", 8),
            ("{'a': 1}", "key must be a string", 1),
            ("{\"a\": 1", "EOF while parsing an object", 6),
            ("{\n\"a\": x}", "expected value", 7),
            ("{\"a\": 1} {\"b\": 2}", "trailing characters", 9),
            ("call it", "expected value", 0),
        ] {
            let error = parse(text).unwrap_err();
            let expected = format!(
                "The arguments are not valid JSON, so the call was not made: {problem}, at byte {at}. Call again with \
                 the whole arguments as one JSON object. You wrote: {text}"
            );
            assert_eq!(error, ToolError::new(ToolErrorCode::UnparsedArguments, expected));
        }
    }

    #[test]
    fn only_a_text_that_ends_early_was_cut_by_the_limit() {
        use ToolErrorCode::*;
        let length = FinishReason::Length;
        assert_eq!(refused("{\"body\": \"Dear", &length), TruncatedArguments);
        assert_eq!(refused("{", &length), TruncatedArguments);
        assert_eq!(refused("{'a'", &length), UnparsedArguments);
        assert_eq!(refused("{\"body\": \"Dear", &FinishReason::ToolCalls), UnparsedArguments);
    }

    #[test]
    fn long_texts_are_quoted_around_the_place() {
        let text = format!("{{\"a\": \"{}\", oops}}", "ä".repeat(10_000));
        let message = parse(&text).unwrap_err().message;
        assert!(message.len() < 900, "{}", message.len());
        assert!(
            message.contains("…ä")
                && message.ends_with(&format!("ä\", oops}} ({} bytes in all)", text.len()))
        );
    }

    proptest! {
        #[test]
        fn any_text_is_an_object_or_refused(text in "\\PC{0,60}|[{}\\[\\]\",:a0 \\\\n-]{0,40}", cut in any::<bool>()) {
            let finish = if cut { FinishReason::Length } else { FinishReason::ToolCalls };
            match parse_arguments(&text, &finish) {
                Ok(map) if !text.trim().is_empty() => {
                    prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), Value::Object(map));
                }
                Ok(map) => prop_assert!(map.is_empty()),
                Err(error) => {
                    let cut = error.code == ToolErrorCode::TruncatedArguments;
                    let says = error.message.contains(if cut { "cut the arguments" } else { "You wrote" });
                    prop_assert!(says, "{}", error);
                }
            }
        }

        #[test]
        fn no_prefix_of_an_object_is_taken_for_the_whole(cut in 1_usize..40) {
            let whole = r#"{"to": "ada@example.com", "n": [1, 2]}"#;
            prop_assume!(cut < whole.len());
            prop_assert_eq!(refused(clip(whole, cut), &FinishReason::Length), ToolErrorCode::TruncatedArguments);
        }
    }
}
