//! Cards and results of the front end.

use super::events;
use crate::api::Api;
use crate::dto::{Answered, ApprovalView, ApprovalsQuery, NewDecision, NewToolResult, Page};
use crate::live::Until;
use crate::problem::Answer;
use crate::request::{Body, Caller, Form, Idempotency, Path, Query};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};

/// List cards, oldest first.
#[utoipa::path(
    get, path = "/v1/approvals", tag = "approvals", params(ApprovalsQuery),
    responses((status = 200, body = Page<ApprovalView>)),
)]
pub async fn list_approvals(
    State(api): State<Api>,
    caller: Caller,
    Query(query): Query<ApprovalsQuery>,
) -> Answer<Json<Page<ApprovalView>>> {
    api.approvals(&caller.who, query).await.map(Json)
}

/// One card.
#[utoipa::path(
    get, path = "/v1/approvals/{approval}", tag = "approvals",
    params(("approval" = String, Path, description = "The card.")),
    responses((status = 200, body = ApprovalView)),
)]
pub async fn get_approval(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<Json<ApprovalView>> {
    api.approval(&caller.who, &id).await.map(Json)
}

/// Approve, amend or reject.
#[utoipa::path(
    post, path = "/v1/approvals/{approval}", tag = "approvals", request_body = NewDecision,
    params(
        ("approval" = String, Path, description = "The card."),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key decides once."),
    ),
    responses(
        (status = 202, body = Answered, description = "It is stored and will take effect."),
        (status = 200, body = String, content_type = "text/event-stream"),
    ),
)]
pub async fn decide_approval(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    Idempotency(key): Idempotency,
    headers: HeaderMap,
    Body(new): Body<NewDecision>,
) -> Answer<Response> {
    let form = Form::of(&headers, Form::Json)?;
    let answered = api.decide_on_record(&caller, &id, new, key).await?;
    answer(&api, &caller, form, answered).await
}

/// Give the result of a tool that ran in the front end.
#[utoipa::path(
    post, path = "/v1/tool-results/{call}", tag = "approvals", request_body = NewToolResult,
    params(
        ("call" = String, Path, description = "The call."),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key answers once."),
    ),
    responses(
        (status = 202, body = Answered, description = "It is stored and will take effect."),
        (status = 200, body = String, content_type = "text/event-stream"),
    ),
)]
pub async fn give_tool_result(
    State(api): State<Api>,
    caller: Caller,
    Path(call): Path<String>,
    Idempotency(key): Idempotency,
    headers: HeaderMap,
    Body(new): Body<NewToolResult>,
) -> Answer<Response> {
    let form = Form::of(&headers, Form::Json)?;
    let answered = api.tool_result(&caller.who, &call, new, key).await?;
    answer(&api, &caller, form, answered).await
}

async fn answer(api: &Api, caller: &Caller, form: Form, answered: Answered) -> Answer<Response> {
    match form {
        Form::Json => Ok((StatusCode::ACCEPTED, Json(answered)).into_response()),
        Form::Stream => {
            let until = Some(Until::Turn(answered.turn.clone()));
            let (session, after) = (answered.session.as_str(), Some(answered.after.as_str()));
            let mut watching = api.watch(&caller.who, session, after, until).await?;
            watching.reader().frames().receipt(&answered);
            Ok(events::stream(watching))
        }
    }
}
