//! Events: live, or as pages.

use crate::api::Api;
use crate::dto::{EventPage, EventsQuery};
use crate::live::Until;
use crate::problem::{Answer, Code, Problem};
use crate::request::{Caller, Form, LAST_EVENT_ID, Path, Query};
use crate::service::Watching;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName};

/// Watch a session's events, or read a page of the stored ones with `Accept: application/json`.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/events", tag = "events",
    params(
        ("session" = String, Path, description = "The session."),
        EventsQuery,
        ("Last-Event-ID" = Option<String>, Header, description = "The last `id` of an earlier stream."),
    ),
    responses(
        (status = 200, content(
            (String = "text/event-stream"),
            (EventPage = "application/json"),
        )),
    ),
)]
pub async fn watch_events(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    Query(mut query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Answer<Response> {
    if let Some(last) = headers.get(LAST_EVENT_ID) {
        let wrong = || Problem::new(Code::MalformedHeader, "Last-Event-ID cannot be read.");
        query.after = Some(last.to_str().map_err(|_| wrong())?.to_owned());
    }
    match Form::of(&headers, Form::Stream)? {
        Form::Json => Ok(Json(api.events(&caller.who, &id, query).await?).into_response()),
        Form::Stream => {
            let until = match query.until.as_deref() {
                None => None,
                Some("idle") => Some(Until::Idle),
                Some(turn) => Some(Until::Turn(turn.into())),
            };
            let after = query.after.as_deref();
            Ok(stream(api.watch(&caller.who, &id, after, until).await?))
        }
    }
}

/// An answer that goes on.
pub(super) fn stream(watching: Watching) -> Response {
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-cache, no-transform"),
        // Some proxies would collect it first.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, Body::from_stream(watching.into_stream())).into_response()
}
