//! What routes read from a request, refused with the field that is wrong.

use crate::api::Api;
use crate::auth::principal::Principal;
use crate::problem::{Code, FieldError, Problem};
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Request};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderName};
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::Arc;

/// The header of an idempotency key.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The header with which an event stream is taken up again.
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// The header of a request's id.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A request's id, for the log and for support.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(pub Arc<str>);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Who sent the request. Set for every route behind authentication.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Who.
    pub who: Arc<Principal>,
    /// Which request.
    pub request: RequestId,
}

impl FromRequestParts<Api> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| {
            Problem::new(Code::Unauthenticated, "This route is not behind authentication.")
        })
    }
}

/// A JSON body.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned> FromRequest<Api> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            return Err(Problem::new(
                Code::UnsupportedMediaType,
                "Send the body as `content-type: application/json`.",
            ));
        }
        let bytes = Bytes::from_request(request, api).await.map_err(unread)?;
        parse(&bytes).map(Self)
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()) else { return false };
    let kind = value.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

fn unread(rejection: BytesRejection) -> Problem {
    match rejection {
        BytesRejection::FailedToBufferBody(e)
            if e.status() == http::StatusCode::PAYLOAD_TOO_LARGE =>
        {
            Problem::new(Code::TooLarge, "The body is larger than this route takes.")
        }
        _ => Problem::new(Code::MalformedBody, "The body could not be read to its end."),
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let field = error.path().to_string();
        let cause = error.into_inner();
        match cause.classify() {
            serde_json::error::Category::Data => {
                // The place in the text is of no use to whoever made it with a library.
                let text = cause.to_string();
                let message = text.split(" at line ").next().unwrap_or_default().to_owned();
                let field = match field.as_str() {
                    "." => message.split('`').nth(1).unwrap_or("body").to_owned(),
                    _ => field,
                };
                Problem {
                    detail: format!("{field}: {message}"),
                    errors: vec![FieldError { field, message }],
                    ..Problem::new(Code::InvalidRequest, "")
                }
            }
            _ => Problem::new(Code::MalformedBody, format!("The body is not JSON: {cause}.")),
        }
    })?;
    reader.end().map_err(|e| {
        Problem::new(Code::MalformedBody, format!("Something follows the JSON: {e}."))
    })?;
    Ok(value)
}

/// A query.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<Api> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        axum::extract::Query::try_from_uri(&parts.uri)
            .map(|axum::extract::Query(query)| Self(query))
            .map_err(|e| Problem::new(Code::MalformedQuery, e.body_text()))
    }
}

/// Parts of the path.
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<Api> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        match axum::extract::Path::from_request_parts(parts, api).await {
            Ok(axum::extract::Path(path)) => Ok(Self(path)),
            // Whatever an id looks like, it names nothing.
            Err(_) => Err(Problem::not_found()),
        }
    }
}

/// The idempotency key of a request.
pub struct Idempotency(pub Option<String>);

impl FromRequestParts<Api> for Idempotency {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        let wrong = || {
            Problem::new(
                Code::MalformedHeader,
                "Idempotency-Key must be 1 to 128 visible ASCII characters.",
            )
        };
        let mut values = parts.headers.get_all(IDEMPOTENCY_KEY).iter();
        let Some(value) = values.next() else { return Ok(Self(None)) };
        let key = value.to_str().map_err(|_| wrong())?;
        let sound = (1..=128).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic());
        if !sound || values.next().is_some() {
            return Err(wrong());
        }
        Ok(Self(Some(key.to_owned())))
    }
}

/// In which form a route shall answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// JSON.
    Json,
    /// An event stream.
    Stream,
}

impl Form {
    /// What is accepted, the route's own form when either or anything is.
    ///
    /// # Errors
    /// `not_acceptable`.
    pub fn of(headers: &HeaderMap, usual: Self) -> Result<Self, Problem> {
        let all = headers.get_all(ACCEPT);
        let accepted: Vec<&str> = all
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .map(|item| item.split(';').next().unwrap_or_default().trim())
            .filter(|item| !item.is_empty())
            .collect();
        let has = |kinds: [&str; 2]| {
            accepted.iter().any(|item| kinds.iter().any(|kind| item.eq_ignore_ascii_case(kind)))
        };
        let any = accepted.is_empty() || has(["*/*", "*/*"]);
        let (json, stream) =
            (has(["application/json", "application/*"]), has(["text/event-stream", "text/*"]));
        match (json, stream) {
            (true, true) => Ok(usual),
            (true, false) => Ok(Self::Json),
            (false, true) => Ok(Self::Stream),
            (false, false) if any => Ok(usual),
            (false, false) => Err(Problem::new(
                Code::NotAcceptable,
                "This route answers as application/json or text/event-stream.",
            )),
        }
    }
}

/// How many items a page shall have.
///
/// # Errors
/// When the wish is out of range.
pub fn limit(wish: Option<u32>, usual: u32, most: u32) -> Result<u32, Problem> {
    match wish {
        None => Ok(usual),
        Some(n) if (1..=most).contains(&n) => Ok(n),
        Some(_) => Err(Problem::field("limit", format!("must be between 1 and {most}"))),
    }
}

/// A text of a request, trimmed of nothing, within its limit.
///
/// # Errors
/// When it is empty, too long, or holds control characters.
pub fn text(field: &'static str, value: &str, most: usize) -> Result<(), Problem> {
    if value.trim().is_empty() {
        return Err(Problem::field(field, "must not be empty"));
    }
    if value.chars().count() > most {
        return Err(Problem::field(field, format!("must have at most {most} characters")));
    }
    if value.chars().any(char::is_control) {
        return Err(Problem::field(field, "must not hold control characters"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dto::NewTurn;

    #[test]
    fn a_wrong_field_is_named() {
        let wrong = |text: &str| parse::<NewTurn>(text.as_bytes()).unwrap_err();
        let named = |text: &str| {
            let problem = wrong(text);
            assert_eq!(problem.code, Code::InvalidRequest, "{problem:?}");
            problem.errors.into_iter().map(|e| e.field).collect::<Vec<_>>().join(",")
        };
        assert_eq!(named(r#"{"content": "x", "mode": "auto"}"#), "mode");
        assert_eq!(named(r#"{"content": "x", "modus": 1}"#), "modus");
        assert_eq!(named(r#"{"content": 5}"#), "content");
        assert_eq!(named("{}"), "content");
        assert_eq!(named("[]").len(), 4);
        for text in ["", "{", "{} {}", "nonsense"] {
            let problem = parse::<serde_json::Value>(text.as_bytes()).unwrap_err();
            assert_eq!(problem.code, Code::MalformedBody, "{text}");
        }
    }

    #[test]
    fn the_form_is_what_is_accepted() {
        let form = |accept: &str| {
            let mut headers = HeaderMap::new();
            if !accept.is_empty() {
                headers.insert(ACCEPT, accept.parse().unwrap());
            }
            Form::of(&headers, Form::Json).ok()
        };
        assert_eq!(form(""), Some(Form::Json));
        assert_eq!(form("*/*"), Some(Form::Json));
        assert_eq!(form("text/event-stream"), Some(Form::Stream));
        assert_eq!(form("application/json, text/event-stream"), Some(Form::Json));
        assert_eq!(form("text/html"), None);
        assert_eq!(form("text/event-stream;q=0.9"), Some(Form::Stream));
    }
}
