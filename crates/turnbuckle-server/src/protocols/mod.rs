//! Other people's protocols over the same functions as the native API: a protocol reads its request, takes from it what is new,
//! calls what [`Api`] does, and writes the session's events in its own words. `docs/protocols.md` describes them for their callers.
//!
//! | module | holds |
//! |---|---|
//! | [`ag_ui`] | AG-UI |
//! | [`ai_sdk`] | the AI SDK's UI message stream |
//! | `threads` | conversations that clients name themselves, and what they send about them |
//! | `track` | a turn as its events tell it, whatever is taken back |
//! | `shown` | what a client has been shown, and what is new to it |
//! | `media` | pictures and documents as they are sent |

pub mod ag_ui;
pub mod ai_sdk;
mod media;
mod shown;
#[cfg(test)]
pub(crate) mod testing;
mod threads;
mod track;

use crate::api::Api;
use crate::auth::principal::Principal;
use crate::config::Limits;
use crate::dto::{StopState, Stopped};
use crate::live::Frames;
use crate::problem::Answer;
use crate::service::Watching;
use axum::Json;
use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use axum::response::{IntoResponse, Response};
use http::HeaderName;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde::Serialize;
use threads::Thread;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// What is said when a stream ends and its turn has not: clients take silence for success.
const GONE: &str = "No answer comes of this message: it was taken back, or became part of another turn. Load the conversation to \
                    see what it says.";

/// The routes of all protocols. They are behind authentication like the native ones, and stand in the same description.
pub(crate) fn router(limits: &Limits) -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(ag_ui::run_ag_ui))
        .routes(routes!(ag_ui::stop_ag_ui))
        .routes(routes!(ai_sdk::chat_ai_sdk))
        .routes(routes!(ai_sdk::get_ai_sdk_chat))
        .routes(routes!(ai_sdk::resume_ai_sdk))
        .routes(routes!(ai_sdk::stop_ai_sdk))
        .layer(DefaultBodyLimit::max(limits.message_body_bytes()))
}

/// The headers of an event stream.
const fn stream_headers() -> [(HeaderName, &'static str); 3] {
    [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-cache, no-transform"),
        // Some proxies would collect it first.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ]
}

/// An answer that goes on.
fn event_stream(watching: Watching) -> Response {
    (stream_headers(), Body::from_stream(watching.into_stream())).into_response()
}

/// An event stream that is whole already.
fn still(events: &[impl Serialize]) -> Response {
    let mut frames = Frames::default();
    for event in events {
        // Our own types always have JSON.
        frames.data(&serde_json::to_string(event).unwrap_or_default());
    }
    (stream_headers(), Body::from(frames.take(0))).into_response()
}

/// Stops whichever turn of a conversation runs or waits. One that there is not has nothing to stop.
async fn stop(api: &Api, who: &Principal, thread: &Thread<'_>) -> Answer<Json<Stopped>> {
    match thread.find(api, who).await? {
        Some(session) => Ok(Json(api.stop(who, session.key.id.as_str(), None).await?)),
        None => Ok(Json(Stopped { turn: None, state: StopState::Ended })),
    }
}
