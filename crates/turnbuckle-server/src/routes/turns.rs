//! Turns.

use super::events;
use crate::api::Api;
use crate::dto::{NewTurn, StopState, Stopped, Submitted, TurnList};
use crate::live::Until;
use crate::problem::Answer;
use crate::request::{Body, Caller, Form, Idempotency, Path};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};

/// Submit a message. Answers at once; with `Accept: text/event-stream`, with the turn's events.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/turns", tag = "turns", request_body = NewTurn,
    params(
        ("session" = String, Path, description = "The session."),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key submits one message."),
    ),
    responses(
        (status = 202, body = Submitted, description = "It is stored and will be worked on."),
        (status = 200, body = String, content_type = "text/event-stream"),
    ),
)]
pub async fn submit_turn(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    Idempotency(key): Idempotency,
    headers: HeaderMap,
    Body(new): Body<NewTurn>,
) -> Answer<Response> {
    let form = Form::of(&headers, Form::Json)?;
    let submitted = api.submit(&caller.who, &id, new, key).await?;
    match form {
        Form::Json => Ok((StatusCode::ACCEPTED, Json(submitted)).into_response()),
        Form::Stream => {
            let until = Some(Until::Turn(submitted.turn.clone()));
            let after = Some(submitted.after.as_str());
            let mut watching = api.watch(&caller.who, &id, after, until).await?;
            watching.reader().frames().receipt(&submitted);
            Ok(events::stream(watching))
        }
    }
}

/// A session's turns, oldest first.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/turns", tag = "turns",
    params(("session" = String, Path, description = "The session.")),
    responses((status = 200, body = TurnList)),
)]
pub async fn list_turns(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<Json<TurnList>> {
    api.turns(&caller.who, &id).await.map(Json)
}

/// Stop a turn. What it has done stays.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/turns/{turn}/stop", tag = "turns",
    params(
        ("session" = String, Path, description = "The session."),
        ("turn" = String, Path, description = "The turn."),
    ),
    responses(
        (status = 202, body = Stopped, description = "The wish is stored; the turn ends soon."),
        (status = 200, body = Stopped, description = "It has ended."),
    ),
)]
pub async fn stop_turn(
    State(api): State<Api>,
    caller: Caller,
    Path((id, turn)): Path<(String, String)>,
) -> Answer<Response> {
    stop(&api, &caller, &id, Some(&turn)).await
}

/// Stop whichever turn of a session runs or waits.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/stop", tag = "turns",
    params(("session" = String, Path, description = "The session.")),
    responses(
        (status = 202, body = Stopped, description = "The wish is stored; the turn ends soon."),
        (status = 200, body = Stopped, description = "There is nothing to stop."),
    ),
)]
pub async fn stop_session(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<Response> {
    stop(&api, &caller, &id, None).await
}

async fn stop(api: &Api, caller: &Caller, id: &str, turn: Option<&str>) -> Answer<Response> {
    let stopped = api.stop(&caller.who, id, turn).await?;
    let status = match stopped.state {
        StopState::Stopping => StatusCode::ACCEPTED,
        StopState::Ended => StatusCode::OK,
    };
    Ok((status, Json(stopped)).into_response())
}
