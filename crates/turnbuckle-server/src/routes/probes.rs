//! Health and readiness, for whatever watches over the process.

use crate::api::Api;
use crate::metrics::{self, Metrics};
use crate::problem::Problem;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;
use turnbuckle_store::StoreError;

/// How long a part may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// For how long an answer is as good as a new one.
const FRESH: Duration = Duration::from_secs(1);

pub(super) fn router() -> Router<Api> {
    Router::new()
        .route("/healthz", get(health))
        .route("/readyz", get(ready))
        .route("/metrics", get(read_metrics))
}

/// The process is there and not stuck.
async fn health() -> &'static str {
    "ok\n"
}

/// What is counted over all tenants, for the operator of the process only: where everyone is let in, where it is configured
/// so, and on the listener that is meant for it.
async fn read_metrics(State(api): State<Api>) -> Response {
    if !api.auth().is_open() && !api.options().open_metrics {
        return Problem::not_found().into_response();
    }
    rendered(&api).into_response()
}

fn rendered(api: &Api) -> impl IntoResponse {
    api.metrics().set_streams(api.streams().count());
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], api.metrics().render())
}

/// The routes of a listener that only the operator reaches.
pub(crate) fn operators(api: &Api) -> Router {
    Router::new()
        .route("/healthz", get(health))
        .route("/readyz", get(ready))
        .route(
            "/metrics",
            get(|State(api): State<Api>| async move { rendered(&api).into_response() }),
        )
        .with_state(api.clone())
}

/// The routes of a process that serves no API.
pub(crate) fn counts(metrics: Metrics) -> Router {
    let read = move || async move { ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics.render()) };
    Router::new().route("/healthz", get(health)).route("/metrics", get(read))
}

/// Whether requests can be served; if not, what is wrong. In words that give nothing away. However many ask, the parts are asked
/// once a second.
async fn ready(State(api): State<Api>) -> Response {
    let mut known = api.readiness().lock().await;
    let parts = match &*known {
        Some((at, parts)) if at.elapsed() < FRESH => parts.clone(),
        _ => {
            let parts = examine(&api).await;
            *known = Some((Instant::now(), parts.clone()));
            parts
        }
    };
    drop(known);
    let down = api.shutdown().is_cancelled().then_some("the server shuts down");
    let ready = down.is_none() && parts.needed.is_empty();
    let problems: Vec<&str> = down.into_iter().chain(parts.needed).chain(parts.spared).collect();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(json!({"ready": ready, "problems": problems}))).into_response()
}

/// What is wrong with the parts that a server stands on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    /// Those without which nothing can be served.
    needed: Vec<&'static str>,
    /// Without the bus this process goes on alone, with the store as its only link to others.
    spared: Vec<&'static str>,
}

async fn examine(api: &Api) -> Parts {
    let store = async {
        match tokio::time::timeout(PATIENCE, api.store().writable(api.now())).await {
            Ok(Ok(())) => None,
            Ok(Err(e @ StoreError::Full { .. })) => {
                tracing::error!("not ready: {}", e.report());
                Some("the session store is full")
            }
            Ok(Err(e)) => {
                tracing::warn!("not ready: {}", e.report());
                Some("the session store cannot be read and written")
            }
            Err(_) => Some("the session store does not answer in time"),
        }
    };
    let accounts = async {
        match tokio::time::timeout(PATIENCE, api.accounts().check()).await {
            Ok(Ok(())) => None,
            Ok(Err(e)) => {
                tracing::warn!("not ready: {e}");
                Some("the database of keys and usage cannot be read")
            }
            Err(_) => Some("the database of keys and usage does not answer in time"),
        }
    };
    let bus = async {
        match tokio::time::timeout(PATIENCE, api.bus().check()).await {
            Ok(Ok(())) => None,
            Ok(Err(e)) => {
                tracing::warn!("not ready: {e}");
                Some("the event bus cannot reach other processes")
            }
            Err(_) => Some("the event bus does not answer in time"),
        }
    };
    let (store, accounts, bus) = tokio::join!(store, accounts, bus);
    Parts {
        needed: [store, accounts].into_iter().flatten().collect(),
        spared: bus.into_iter().collect(),
    }
}
