//! Triggers and their runs.

use crate::api::Api;
use crate::dto::{
    NewTrigger, Page, RunChange, RunView, RunsQuery, TriggerChange, TriggerView, TriggersQuery,
};
use crate::problem::Answer;
use crate::request::{Body, Caller, Path, Query};
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde_json::json;

/// Make a trigger: a turn that begins by the clock.
#[utoipa::path(
    post, path = "/v1/triggers", tag = "triggers", request_body = NewTrigger,
    responses((status = 201, body = TriggerView)),
)]
pub async fn create_trigger(
    State(api): State<Api>,
    caller: Caller,
    Body(new): Body<NewTrigger>,
) -> Answer<(StatusCode, Json<TriggerView>)> {
    let made = api.create_trigger(&caller.who, new).await?;
    let detail = json!({"cron": made.cron, "time_zone": made.time_zone, "agent": made.agent});
    let (who, request) = (&caller.who, &caller.request);
    api.audit(who, request, "trigger.create", made.id.as_str(), None, detail).await?;
    Ok((StatusCode::CREATED, Json(made)))
}

/// List triggers, by id.
#[utoipa::path(
    get, path = "/v1/triggers", tag = "triggers", params(TriggersQuery),
    responses((status = 200, body = Page<TriggerView>)),
)]
pub async fn list_triggers(
    State(api): State<Api>,
    caller: Caller,
    Query(query): Query<TriggersQuery>,
) -> Answer<Json<Page<TriggerView>>> {
    api.triggers(&caller.who, query).await.map(Json)
}

/// One trigger.
#[utoipa::path(
    get, path = "/v1/triggers/{trigger}", tag = "triggers",
    params(("trigger" = String, Path, description = "The trigger.")),
    responses((status = 200, body = TriggerView)),
)]
pub async fn get_trigger(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<Json<TriggerView>> {
    api.trigger(&caller.who, &id).await.map(Json)
}

/// Let a trigger rest or work again.
#[utoipa::path(
    patch, path = "/v1/triggers/{trigger}", tag = "triggers", request_body = TriggerChange,
    params(("trigger" = String, Path, description = "The trigger.")),
    responses((status = 200, body = TriggerView)),
)]
pub async fn change_trigger(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    Body(change): Body<TriggerChange>,
) -> Answer<Json<TriggerView>> {
    let changed = api.change_trigger(&caller.who, &id, change.state).await?;
    let (who, request) = (&caller.who, &caller.request);
    let detail = json!({"state": change.state});
    api.audit(who, request, "trigger.change", id, None, detail).await?;
    Ok(Json(changed))
}

/// Delete a trigger. The sessions of its runs stay.
#[utoipa::path(
    delete, path = "/v1/triggers/{trigger}", tag = "triggers",
    params(("trigger" = String, Path, description = "The trigger.")),
    responses((status = 204)),
)]
pub async fn delete_trigger(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<StatusCode> {
    api.delete_trigger(&caller.who, &id).await?;
    api.audit(&caller.who, &caller.request, "trigger.delete", id, None, json!({})).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Begin a turn of a trigger now, whether or not it rests.
#[utoipa::path(
    post, path = "/v1/triggers/{trigger}/run", tag = "triggers",
    params(("trigger" = String, Path, description = "The trigger.")),
    responses((status = 202, body = RunView)),
)]
pub async fn run_trigger(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<(StatusCode, Json<RunView>)> {
    let run = api.run_trigger(&caller.who, &id).await?;
    api.audit(&caller.who, &caller.request, "trigger.run", id, None, json!({})).await?;
    Ok((StatusCode::ACCEPTED, Json(run)))
}

/// List the runs of a trigger, last made first; `state=dead` gives its dead letters.
#[utoipa::path(
    get, path = "/v1/triggers/{trigger}/runs", tag = "triggers",
    params(("trigger" = String, Path, description = "The trigger."), RunsQuery),
    responses((status = 200, body = Page<RunView>)),
)]
pub async fn list_runs(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<RunsQuery>,
) -> Answer<Json<Page<RunView>>> {
    api.runs(&caller.who, &id, query).await.map(Json)
}

/// Try a run again, or call it off.
#[utoipa::path(
    post, path = "/v1/triggers/{trigger}/runs/{run}", tag = "triggers", request_body = RunChange,
    params(
        ("trigger" = String, Path, description = "The trigger."),
        ("run" = String, Path, description = "The run."),
    ),
    responses((status = 200, body = RunView)),
)]
pub async fn change_run(
    State(api): State<Api>,
    caller: Caller,
    Path((id, run)): Path<(String, String)>,
    Body(change): Body<RunChange>,
) -> Answer<Json<RunView>> {
    let changed = api.change_run(&caller.who, &id, &run, change.action).await?;
    let (who, request) = (&caller.who, &caller.request);
    let detail = json!({"run": run, "action": change.action});
    api.audit(who, request, "trigger.run.change", id, None, detail).await?;
    Ok(Json(changed))
}
