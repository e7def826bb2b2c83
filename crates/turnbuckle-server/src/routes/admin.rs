//! Usage, keys, the audit log.

use crate::api::Api;
use crate::dto::{
    AuditEntry, AuditQuery, KeyCreated, KeyView, NewKey, Page, PageQuery, UsageQuery, UsageReport,
};
use crate::problem::Answer;
use crate::request::{Body, Caller, Path, Query};
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde_json::json;

/// Tokens and money of a time, with the caller's quotas.
#[utoipa::path(
    get, path = "/v1/usage", tag = "admin", params(UsageQuery),
    responses((status = 200, body = UsageReport)),
)]
pub async fn get_usage(
    State(api): State<Api>,
    caller: Caller,
    Query(query): Query<UsageQuery>,
) -> Answer<Json<UsageReport>> {
    api.usage(&caller.who, query).await.map(Json)
}

/// Make an API key. Its secret is shown this once.
#[utoipa::path(
    post, path = "/v1/keys", tag = "admin", request_body = NewKey,
    responses((status = 201, body = KeyCreated)),
)]
pub async fn create_key(
    State(api): State<Api>,
    caller: Caller,
    Body(new): Body<NewKey>,
) -> Answer<(StatusCode, Json<KeyCreated>)> {
    let created = api.create_key(&caller.who, new).await?;
    let key = &created.key;
    let detail = json!({"name": key.name, "user": key.user, "roles": key.roles});
    api.audit(&caller.who, &caller.request, "key.create", &*key.id, None, detail).await?;
    Ok((StatusCode::CREATED, Json(created)))
}

/// List API keys, without their secrets.
#[utoipa::path(
    get, path = "/v1/keys", tag = "admin", params(PageQuery),
    responses((status = 200, body = Page<KeyView>)),
)]
pub async fn list_keys(
    State(api): State<Api>,
    caller: Caller,
    Query(query): Query<PageQuery>,
) -> Answer<Json<Page<KeyView>>> {
    api.keys(&caller.who, query).await.map(Json)
}

/// Revoke an API key.
#[utoipa::path(
    delete, path = "/v1/keys/{key}", tag = "admin",
    params(("key" = String, Path, description = "The key's id.")),
    responses((status = 204, description = "It works no longer.")),
)]
pub async fn revoke_key(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<StatusCode> {
    api.revoke_key(&caller.who, &id).await?;
    api.audit(&caller.who, &caller.request, "key.revoke", id, None, json!({})).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The audit log, newest first.
#[utoipa::path(
    get, path = "/v1/audit", tag = "admin", params(AuditQuery),
    responses((status = 200, body = Page<AuditEntry>)),
)]
pub async fn list_audit(
    State(api): State<Api>,
    caller: Caller,
    Query(query): Query<AuditQuery>,
) -> Answer<Json<Page<AuditEntry>>> {
    api.audit_log(&caller.who, query).await.map(Json)
}
