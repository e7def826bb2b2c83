//! Sessions.

use crate::api::Api;
use crate::auth::access::Want;
use crate::dto::{
    MessagePage, MessagesQuery, NewFork, NewSession, Page, SessionChange, SessionDetail,
    SessionQuery, SessionView, SessionsQuery,
};
use crate::problem::{Answer, Problem};
use crate::request::{Body, Caller, Idempotency, Path, Query};
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION};
use http::{HeaderName, StatusCode};
use serde_json::json;

/// Messages of a session, unless the request says how many.
const MESSAGES: u32 = 200;
/// Bytes of a blob that are read at once.
const BLOB: u64 = 32 * 1024 * 1024;

/// Create a session.
#[utoipa::path(
    post, path = "/v1/sessions", tag = "sessions", request_body = NewSession,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key creates one session.")),
    responses((status = 201, body = SessionView)),
)]
pub async fn create_session(
    State(api): State<Api>,
    caller: Caller,
    Idempotency(key): Idempotency,
    Body(new): Body<NewSession>,
) -> Answer<Response> {
    created(api.create_session(&caller.who, new, key.as_deref()).await?)
}

fn created(session: SessionView) -> Answer<Response> {
    let place = format!("/v1/sessions/{}", session.id);
    Ok((StatusCode::CREATED, [(LOCATION, place)], Json(session)).into_response())
}

/// List and search sessions, last updated first.
#[utoipa::path(
    get, path = "/v1/sessions", tag = "sessions", params(SessionsQuery),
    responses((status = 200, body = Page<SessionView>)),
)]
pub async fn list_sessions(
    State(api): State<Api>,
    caller: Caller,
    Query(query): Query<SessionsQuery>,
) -> Answer<Json<Page<SessionView>>> {
    api.list_sessions(&caller.who, query).await.map(Json)
}

/// A session with its messages, of one moment.
#[utoipa::path(
    get, path = "/v1/sessions/{session}", tag = "sessions",
    params(("session" = String, Path, description = "The session."), SessionQuery),
    responses((status = 200, body = SessionDetail)),
)]
pub async fn get_session(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<SessionQuery>,
) -> Answer<Json<SessionDetail>> {
    let messages = query.messages.unwrap_or(MESSAGES);
    if messages > 1000 {
        return Err(Problem::field("messages", "must be between 0 and 1000"));
    }
    api.session_detail(&caller.who, &id, messages).await.map(Json)
}

/// Change a session's title.
#[utoipa::path(
    patch, path = "/v1/sessions/{session}", tag = "sessions", request_body = SessionChange,
    params(("session" = String, Path, description = "The session.")),
    responses((status = 200, body = SessionView)),
)]
pub async fn change_session(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    Body(change): Body<SessionChange>,
) -> Answer<Json<SessionView>> {
    api.set_title(&caller.who, &id, &change.title).await.map(Json)
}

/// Delete a session and all that belongs to it, stopping what runs.
#[utoipa::path(
    delete, path = "/v1/sessions/{session}", tag = "sessions",
    params(("session" = String, Path, description = "The session.")),
    responses((status = 204, description = "It is gone.")),
)]
pub async fn delete_session(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<StatusCode> {
    let session = api.delete_session(&caller.who, &id).await?;
    let detail = json!({"user": session.user, "title": session.title});
    let (who, request, key) = (&caller.who, &caller.request, &session.key);
    api.audit(who, request, "session.delete", id, Some(&key.id), detail).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Messages of a session before a place, oldest first.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/messages", tag = "sessions",
    params(("session" = String, Path, description = "The session."), MessagesQuery),
    responses((status = 200, body = MessagePage)),
)]
pub async fn list_messages(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<MessagesQuery>,
) -> Answer<Json<MessagePage>> {
    api.messages(&caller.who, &id, query).await.map(Json)
}

/// Copy a session up to a place.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/fork", tag = "sessions", request_body = NewFork,
    params(
        ("session" = String, Path, description = "The session."),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key makes one copy."),
    ),
    responses((status = 201, body = SessionView)),
)]
pub async fn fork_session(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    Idempotency(key): Idempotency,
    Body(new): Body<NewFork>,
) -> Answer<Response> {
    created(api.fork_session(&caller.who, &id, new, key.as_deref()).await?)
}

/// All of a session as one document.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/export", tag = "sessions",
    params(("session" = String, Path, description = "The session.")),
    responses((status = 200, body = serde_json::Value)),
)]
pub async fn export_session(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<Response> {
    let document = api.export_session(&caller.who, &id).await?;
    let who = (&caller.who, &caller.request);
    api.audit(who.0, who.1, "session.export", &*id, None, json!({})).await?;
    let name = "attachment; filename=\"session.json\"";
    Ok(([(CONTENT_DISPOSITION, name)], Json(document)).into_response())
}

/// A large output or an attachment that is kept beside a session.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/blobs/{blob}", tag = "sessions",
    params(
        ("session" = String, Path, description = "The session."),
        ("blob" = String, Path, description = "The blob."),
    ),
    responses((status = 200, body = Vec<u8>, content_type = "application/octet-stream")),
)]
pub async fn get_blob(
    State(api): State<Api>,
    caller: Caller,
    Path((id, blob)): Path<(String, String)>,
) -> Answer<Response> {
    let session = api.session(&caller.who, &id, Want::Read).await?;
    let part = api.store().get_blob(&session.key, &blob, 0..BLOB).await?;
    // Whatever somebody attached must never run as a page of this origin.
    let headers = [
        (CONTENT_TYPE, inert(&part.media_type)),
        (CONTENT_DISPOSITION, "attachment"),
        (CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'"),
        (HeaderName::from_static("x-content-type-options"), "nosniff"),
    ];
    Ok((headers, Bytes::from(part.content)).into_response())
}

/// Kinds of content that a browser shows without running anything; else bytes.
fn inert(kind: &str) -> &'static str {
    match kind {
        "image/png" => "image/png",
        "image/jpeg" => "image/jpeg",
        "image/gif" => "image/gif",
        "image/webp" => "image/webp",
        "application/json" => "application/json",
        "application/pdf" => "application/pdf",
        "text/plain" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
