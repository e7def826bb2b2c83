//! Background tasks.

use crate::api::Api;
use crate::dto::{Page, PageQuery, TaskEnd, TaskView};
use crate::problem::Answer;
use crate::request::{Body, Caller, Path, Query};
use axum::Json;
use axum::extract::State;

/// List the background tasks of a session, last started first.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/tasks", tag = "tasks",
    params(("session" = String, Path, description = "The session."), PageQuery),
    responses((status = 200, body = Page<TaskView>)),
)]
pub async fn list_tasks(
    State(api): State<Api>,
    caller: Caller,
    Path(session): Path<String>,
    Query(query): Query<PageQuery>,
) -> Answer<Json<Page<TaskView>>> {
    api.tasks(&caller.who, &session, query).await.map(Json)
}

/// One background task.
#[utoipa::path(
    get, path = "/v1/tasks/{kind}/{task}", tag = "tasks",
    params(
        ("kind" = String, Path, description = "The kind of task."),
        ("task" = String, Path, description = "The task."),
    ),
    responses((status = 200, body = TaskView)),
)]
pub async fn get_task(
    State(api): State<Api>,
    caller: Caller,
    Path((kind, reference)): Path<(String, String)>,
) -> Answer<Json<TaskView>> {
    api.task(&caller.who, &kind, &reference).await.map(Json)
}

/// Say that a background task ended. What is said later is not heard; the session is told as soon as it is idle.
#[utoipa::path(
    post, path = "/v1/tasks/{kind}/{task}", tag = "tasks", request_body = TaskEnd,
    params(
        ("kind" = String, Path, description = "The kind of task."),
        ("task" = String, Path, description = "The task."),
    ),
    responses((status = 200, body = TaskView)),
)]
pub async fn end_task(
    State(api): State<Api>,
    caller: Caller,
    Path((kind, reference)): Path<(String, String)>,
    Body(end): Body<TaskEnd>,
) -> Answer<Json<TaskView>> {
    api.end_task(&caller.who, &kind, &reference, end).await.map(Json)
}
