//! Captured actions.

use crate::api::Api;
use crate::dto::{CapturedQuery, CapturedView, NewReviews, Page, ReviewReports};
use crate::problem::Answer;
use crate::request::{Body, Caller, Path, Query};
use axum::Json;
use axum::extract::State;
use serde_json::json;
use turnbuckle_core::ids::SessionId;

/// List captured actions.
#[utoipa::path(
    get, path = "/v1/captured", tag = "captured", params(CapturedQuery),
    responses((status = 200, body = Page<CapturedView>)),
)]
pub async fn list_captured(
    State(api): State<Api>,
    caller: Caller,
    Query(query): Query<CapturedQuery>,
) -> Answer<Json<Page<CapturedView>>> {
    api.captured(&caller.who, query).await.map(Json)
}

/// Review captured actions of a turn, and apply those that are approved.
#[utoipa::path(
    post, path = "/v1/captured/{session}/{turn}", tag = "captured", request_body = NewReviews,
    params(
        ("session" = String, Path, description = "The session."),
        ("turn" = String, Path, description = "The turn."),
    ),
    responses((status = 200, body = ReviewReports)),
)]
pub async fn review_captured(
    State(api): State<Api>,
    caller: Caller,
    Path((id, turn)): Path<(String, String)>,
    Body(new): Body<NewReviews>,
) -> Answer<Json<ReviewReports>> {
    let detail = json!({"actions": new.actions});
    let reports = api.review(&caller.who, &id, &turn, new).await?;
    let (who, request, session) = (&caller.who, &caller.request, SessionId::from(id));
    api.audit(who, request, "captured.review", turn, Some(&session), detail).await?;
    Ok(Json(reports))
}
