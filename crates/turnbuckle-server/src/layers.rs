//! What is done around every request: its id, the log, defects, headers, who it is, how often it comes.

use crate::api::Api;
use crate::auth::origin;
use crate::problem::{Code, Problem};
use crate::request::{Caller, REQUEST_ID, RequestId};
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;
use tracing::Instrument;

/// Gives every request an id, a span, an end in the log and in the counts; a panic becomes a defect of this request only.
pub(crate) async fn observe(State(api): State<Api>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let id = RequestId(format!("r_{}", uuid::Uuid::now_v7().simple()).into());
    request.extensions_mut().insert(id.clone());
    let method = match *request.method() {
        // Whatever else somebody sends must not become a label.
        Method::GET | Method::POST | Method::PATCH | Method::DELETE | Method::HEAD => {
            request.method().as_str().to_owned()
        }
        _ => "other".to_owned(),
    };
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let route = route.unwrap_or_else(|| "none".to_owned());
    let span = tracing::info_span!("request", id = %id, method, route);
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind().instrument(span.clone()).await;
    let mut response = match answer {
        Ok(response) => response,
        // The panic itself is in the log already.
        Err(_) => span.in_scope(|| Problem::internal(&"a handler panicked").into_response()),
    };
    if let Ok(value) = HeaderValue::from_str(&id.0) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    let status = response.status().as_u16();
    api.metrics().answered(&route, &method, status, began.elapsed());
    span.in_scope(|| tracing::debug!(status, "answered"));
    response
}

/// Headers that make a browser careful with every answer.
pub(crate) async fn harden(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(HeaderName::from_static("x-content-type-options"), nosniff);
    headers.insert(
        HeaderName::from_static("referrer-policy"),
        HeaderValue::from_static("no-referrer"),
    );
    headers.entry(http::header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Finds out who a request is.
pub(crate) async fn authenticate(State(api): State<Api>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    match identify(&api, &parts).await {
        Ok(caller) => {
            parts.extensions.insert(caller);
            next.run(Request::from_parts(parts, body)).await
        }
        Err(problem) => problem.into_response(),
    }
}

async fn identify(api: &Api, parts: &Parts) -> Result<Caller, Problem> {
    if api.shutdown().is_cancelled() {
        let detail = "The server shuts down; another one may be there in a moment.";
        return Err(Problem::new(Code::ShuttingDown, detail).retry_after(2));
    }
    if api.auth().is_open() {
        origin::check(&parts.headers, &api.options().cors)?;
    }
    let who = api.auth().principal(&parts.headers, api.now()).await?;
    if let Some(wait) = api.rates().take(&who, tokio::time::Instant::now()) {
        let detail = "Too many requests in a short time; wait a little.";
        return Err(Problem::new(Code::RateLimited, detail).retry_after(wait));
    }
    let id = parts.extensions.get::<RequestId>().cloned();
    let request = id.unwrap_or_else(|| RequestId("none".into()));
    Ok(Caller { who: Arc::new(who), request })
}
