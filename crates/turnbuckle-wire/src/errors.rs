//! Puts failures into categories: one table for HTTP answers and for errors inside a stream, over all vendors.
//!
//! The provider's own words, code and request id are kept. Codes win over words, words over the status, because gateways
//! pass foreign errors on under statuses of their own.

use crate::{AnswerHead, delay};
use serde_json::Value;
use turnbuckle_core::error::{ModelError, ModelErrorKind};
use turnbuckle_core::json::clip;

/// The most of a body without a readable error that is quoted.
const QUOTED_BYTES: usize = 600;

/// An error as the provider words it.
#[derive(Debug, Default, PartialEq)]
struct Told {
    message: String,
    codes: Vec<String>,
    status: Option<u16>,
    retry_after_ms: Option<u64>,
    request_id: Option<String>,
}

/// The error of an answer with an error status.
pub(crate) fn from_answer(head: &AnswerHead<'_>, body: &[u8]) -> ModelError {
    let mut told = read_body(body);
    told.status = Some(head.status);
    if told.message.is_empty() {
        told.message = quote(body);
    }
    let mut error = classified(told);
    error.retry_after_ms = delay::of_headers(head).or(error.retry_after_ms);
    for name in
        ["x-request-id", "request-id", "apim-request-id", "x-goog-request-id", "x-amzn-requestid"]
    {
        if let Some(id) = (head.header)(name) {
            error.request_id = Some(id.to_owned());
            break;
        }
    }
    error
}

/// The error of a frame that holds one, inside an answer that began well.
pub(crate) fn in_band(data: &[u8]) -> ModelError {
    let mut told = read_body(data);
    if told.message.is_empty() {
        told.message = quote(data);
    }
    classified(told)
}

/// The error in a frame of unknown shape, when it looks like one.
pub(crate) fn in_unknown_frame(data: &[u8]) -> Option<ModelError> {
    let value: Value = serde_json::from_slice(data).ok()?;
    let has = |name: &str| value.get(name).is_some_and(|v| !v.is_null());
    let looks = has("error")
        || value.get("object").and_then(Value::as_str) == Some("error")
        || value.get("type").and_then(Value::as_str) == Some("error")
        || has("detail")
        || (has("message") && (has("code") || has("status")));
    looks.then(|| in_band(data))
}

/// A frame that cannot be read.
pub(crate) fn unreadable(data: &[u8], error: &serde_json::Error) -> ModelError {
    ModelError::new(
        ModelErrorKind::Protocol,
        format!("a frame of the answer cannot be read ({error}): {}", quote(data)),
    )
}

/// The stream ended before its terminal event.
pub(crate) fn cut(what: &str) -> ModelError {
    ModelError::new(ModelErrorKind::StreamCut, what)
}

fn classified(told: Told) -> ModelError {
    let kind = kind(&told);
    let status = told.status;
    ModelError {
        kind,
        message: told.message,
        status,
        code: told.codes.into_iter().next(),
        retry_after_ms: told.retry_after_ms,
        request_id: told.request_id,
    }
}

fn quote(body: &[u8]) -> String {
    let text =
        String::from_utf8_lossy(body.get(..body.len().min(4 * QUOTED_BYTES)).unwrap_or(body));
    let text = text.trim();
    if text.is_empty() {
        return "the server gave no reason".to_owned();
    }
    let quoted = clip(text, QUOTED_BYTES);
    if quoted.len() < text.len() { format!("{quoted}…") } else { quoted.to_owned() }
}

fn read_body(body: &[u8]) -> Told {
    let Ok(value) = serde_json::from_slice::<Value>(body) else { return Told::default() };
    let value = match &value {
        Value::Array(items) => items.first().unwrap_or(&Value::Null),
        other => other,
    };
    let request_id = value.get("request_id").and_then(Value::as_str).map(str::to_owned);
    let mut told = Told { request_id, ..Told::default() };
    let inner = match value.get("error") {
        Some(Value::Null) | None => value,
        Some(Value::String(text)) => {
            told.message = text.clone();
            value
        }
        Some(inner) => inner,
    };
    if told.message.is_empty() {
        told.message = message_of(inner).or_else(|| message_of(value)).unwrap_or_default();
    }
    // A gateway's own words say nothing; the upstream's are what the reader needs.
    if let Some(raw) = inner.pointer("/metadata/raw").and_then(Value::as_str)
        && !raw.is_empty()
    {
        told.message = format!("{}: {}", told.message, clip(raw, QUOTED_BYTES));
    }
    for name in ["code", "type", "status"] {
        match inner.get(name) {
            Some(Value::String(code)) if !code.is_empty() && code != "error" => {
                told.codes.push(code.clone())
            }
            Some(Value::Number(code)) => {
                told.status = told.status.or(code.as_u64().and_then(|c| u16::try_from(c).ok()));
                told.codes.push(code.to_string());
            }
            _ => {}
        }
    }
    told.status = told.status.filter(|s| (400..600).contains(s)).or_else(|| {
        told.codes.iter().find_map(|c| c.parse().ok().filter(|s| (400..600).contains(s)))
    });
    for detail in inner.get("details").and_then(Value::as_array).into_iter().flatten() {
        let delay = detail.get("retryDelay").and_then(Value::as_str).and_then(delay::of_duration);
        told.retry_after_ms = told.retry_after_ms.or(delay);
        let reason = detail.get("reason").and_then(Value::as_str);
        told.codes.extend(reason.map(str::to_owned));
    }
    if let Some(seconds) = inner.pointer("/metadata/retry_after_seconds").and_then(Value::as_f64) {
        told.retry_after_ms = told.retry_after_ms.or_else(|| delay::of_seconds(seconds));
    }
    told.retry_after_ms = told.retry_after_ms.or_else(|| delay::of_words(&told.message));
    told
}

fn message_of(value: &Value) -> Option<String> {
    for name in ["message", "msg", "detail", "error_description", "errorMessage"] {
        match value.get(name) {
            Some(Value::String(text)) if !text.is_empty() => return Some(text.clone()),
            Some(Value::Array(items)) if !items.is_empty() => {
                let told: Vec<String> = items
                    .iter()
                    .map(|i| match i.get("msg").and_then(Value::as_str) {
                        Some(text) => match i.get("loc") {
                            Some(at) => format!("{text} at {at}"),
                            None => text.to_owned(),
                        },
                        None => i.to_string(),
                    })
                    .collect();
                return Some(told.join("; "));
            }
            Some(inner @ Value::Object(_)) => {
                return message_of(inner).or_else(|| Some(inner.to_string()));
            }
            _ => {}
        }
    }
    None
}

fn kind(told: &Told) -> ModelErrorKind {
    use ModelErrorKind::*;
    let codes: Vec<String> = told.codes.iter().map(|c| c.to_ascii_lowercase()).collect();
    let code = |words: &[&str]| codes.iter().any(|c| words.iter().any(|w| c.contains(w)));
    let message = told.message.to_ascii_lowercase();
    let said = |words: &[&str]| words.iter().any(|w| message.contains(w));
    let client = told.status.is_none_or(|s| s <= 500);

    if code(&["context_length", "exceed_context_size", "context_window", "string_above_max_length"])
        || (told.status != Some(429) && client && said(OVERFLOW_WORDS))
    {
        return ContextOverflow;
    }
    if code(&[
        "insufficient_quota",
        "exceeded_current_quota",
        "billing",
        "insufficient_balance",
        "arrearage",
    ]) || told.status == Some(402)
        || said(&[
            "credit balance is too low",
            "insufficient balance",
            "insufficient credits",
            "billing details",
        ]) && told.retry_after_ms.is_none()
    {
        return QuotaExceeded;
    }
    if code(&[
        "content_filter",
        "content_policy",
        "responsibleaipolicy",
        "data_inspection",
        "safety",
    ]) || said(&["content management policy", "content filtering policy"])
    {
        return ContentFilter;
    }
    if code(&["overloaded", "unavailable", "capacity_exceeded", "insufficient_system_resource"])
        || (told.status != Some(400) && said(&["overloaded", "server busy"]))
    {
        return Overloaded;
    }
    if code(&["rate_limit", "rate_limited", "resource_exhausted", "too_many_requests"]) {
        return RateLimited;
    }
    if code(&[
        "invalid_api_key",
        "api_key_invalid",
        "authentication",
        "permission",
        "unauthenticated",
    ]) {
        return Auth;
    }
    if code(&["model_not_found", "not_found", "deploymentnotfound"]) {
        return NotFound;
    }
    if let Some(status) = told.status {
        return by_status(status);
    }
    if code(&[
        "invalid_request",
        "invalid_argument",
        "invalid_prompt",
        "failed_precondition",
        "bad_request",
    ]) {
        return BadRequest;
    }
    if code(&["timeout", "deadline_exceeded"]) || said(&["timed out"]) {
        return Timeout;
    }
    if said(&["rate limit", "too many requests"]) {
        return RateLimited;
    }
    Server
}

const OVERFLOW_WORDS: &[&str] = &[
    "maximum context length",
    "context length exceeded",
    "context window",
    "exceeds the context",
    "available context size",
    "prompt is too long",
    "input is too long",
    "input token count",
    "prompt contains too many tokens",
    "too large for model with",
    "exceeds maximum allowed length",
    "range of input length",
    "maximum prompt length",
    "reduce the length of the messages",
];

fn by_status(status: u16) -> ModelErrorKind {
    use ModelErrorKind::*;
    match status {
        401 | 403 => Auth,
        402 => QuotaExceeded,
        404 => NotFound,
        408 | 504 | 522 | 524 => Timeout,
        413 => ContextOverflow,
        429 => RateLimited,
        // 498 and 529 are vendors' own words for "no capacity now".
        498 | 503 | 529 => Overloaded,
        409 | 425 | 500..=599 => Server,
        400..=499 => BadRequest,
        _ => Protocol,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ModelErrorKind::*;

    fn answered(status: u16, headers: &[(&str, &str)], body: &str) -> ModelError {
        let header = |name: &str| headers.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
        from_answer(&AnswerHead { status, header: &header }, body.as_bytes())
    }

    #[test]
    fn vendors_errors_fall_into_their_categories() {
        let table: &[(u16, &str, ModelErrorKind)] = &[
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 128000 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
                ContextOverflow,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 212000 tokens > 200000 maximum"}}"#,
                ContextOverflow,
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}"#,
                ContextOverflow,
            ),
            (
                500,
                r#"{"error":{"code":500,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#,
                ContextOverflow,
            ),
            (
                413,
                r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
                ContextOverflow,
            ),
            (
                400,
                r#"{"error":{"message":"Unknown parameter: 'foo'.","type":"invalid_request_error","param":"foo","code":"unknown_parameter"}}"#,
                BadRequest,
            ),
            (
                422,
                r#"{"detail":[{"loc":["body","x"],"msg":"Extra inputs are not permitted"}]}"#,
                BadRequest,
            ),
            (401, r#"{"error":{"message":"Incorrect API key","code":"invalid_api_key"}}"#, Auth),
            (403, "", Auth),
            (
                400,
                r#"{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}"#,
                Auth,
            ),
            (
                404,
                r#"{"error":{"message":"The model `x` does not exist","code":"model_not_found"}}"#,
                NotFound,
            ),
            (404, "404 page not found", NotFound),
            (
                429,
                r#"{"error":{"message":"Rate limit reached. Please try again in 1.2s.","type":"requests","code":"rate_limit_exceeded"}}"#,
                RateLimited,
            ),
            (
                429,
                r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
                QuotaExceeded,
            ),
            (
                402,
                r#"{"error":{"message":"Insufficient Balance","type":"unknown_error"}}"#,
                QuotaExceeded,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API"}}"#,
                QuotaExceeded,
            ),
            (
                429,
                r#"[{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details. Please retry in 34.07s.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}}]"#,
                RateLimited,
            ),
            (
                429,
                r#"{"error":{"type":"engine_overloaded_error","message":"The engine is currently overloaded"}}"#,
                Overloaded,
            ),
            (
                529,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                Overloaded,
            ),
            (
                503,
                r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
                Overloaded,
            ),
            (502, "<html>bad gateway</html>", Server),
            (504, "", Timeout),
            (
                400,
                r#"{"error":{"message":"The response was filtered","code":"content_filter"}}"#,
                ContentFilter,
            ),
            (302, "", Protocol),
        ];
        for (status, body, kind) in table {
            assert_eq!(answered(*status, &[], body).kind, *kind, "{status} {body}");
        }
    }

    #[test]
    fn errors_inside_a_stream_are_told_apart_alike() {
        let table: &[(&str, ModelErrorKind)] = &[
            (r#"{"error":{"message":"slow down","code":429}}"#, RateLimited),
            (r#"{"error":{"message":"Overloaded","type":"overloaded_error"}}"#, Overloaded),
            (r#"{"error":{"message":"Provider returned error","code":529}}"#, Overloaded),
            (r#"{"error":{"message":"boom","type":"server_error","code":null}}"#, Server),
            (r#"{"error":"Rate limit exceeded"}"#, RateLimited),
            (
                r#"{"object":"error","message":"maximum context length is 4096","type":"BadRequestError","code":400}"#,
                ContextOverflow,
            ),
            (r#"{"error":{"message":"no","type":"insufficient_quota"}}"#, QuotaExceeded),
        ];
        for (data, kind) in table {
            assert_eq!(in_unknown_frame(data.as_bytes()).map(|e| e.kind), Some(*kind), "{data}");
        }
        assert_eq!(in_unknown_frame(br#"{"type":"ping"}"#), None);
    }

    #[test]
    fn the_providers_words_code_and_request_id_are_kept() {
        let error = answered(
            429,
            &[("retry-after", "7"), ("x-request-id", "req_1")],
            r#"{"error":{"message":"Slow down.","type":"tokens","code":"rate_limit_exceeded"}}"#,
        );
        let expected = ModelError {
            kind: RateLimited,
            message: "Slow down.".into(),
            status: Some(429),
            code: Some("rate_limit_exceeded".into()),
            retry_after_ms: Some(7000),
            request_id: Some("req_1".into()),
        };
        assert_eq!(error, expected);
        let gateway = answered(
            502,
            &[],
            r#"{"error":{"code":502,"message":"Provider returned error","metadata":{"raw":"upstream: bad tool id"}}}"#,
        );
        assert_eq!(gateway.message, "Provider returned error: upstream: bad tool id");
    }

    #[test]
    fn delays_are_read_from_headers_dates_details_and_words() {
        let delay =
            |headers: &[(&str, &str)], body: &str| answered(429, headers, body).retry_after_ms;
        assert_eq!(delay(&[("retry-after-ms", "120"), ("retry-after", "9")], ""), Some(120));
        assert_eq!(delay(&[("retry-after", "1.5")], ""), Some(1500));
        let dates = [
            ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("retry-after", "Sun, 06 Nov 1994 08:50:37 GMT"),
        ];
        assert_eq!(delay(&dates, ""), Some(60_000));
        assert_eq!(delay(&dates[1..], ""), None);
        assert_eq!(
            delay(&[], r#"{"error":{"message":"Please try again in 6m0.5s. Visit"}}"#),
            Some(360_500)
        );
        assert_eq!(delay(&[], r#"{"error":{"message":"try again in 320ms"}}"#), Some(320));
        assert_eq!(delay(&[], r#"{"error":{"message":"retry after 12 seconds."}}"#), Some(12_000));
        assert_eq!(delay(&[], r#"{"error":{"message":"try again in a while"}}"#), None);
        assert_eq!(delay(&[("retry-after", "-4")], ""), None);
    }
}
