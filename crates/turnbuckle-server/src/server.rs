//! Putting it together: the router, and a server on a listener.

use crate::api::Api;
use crate::config::Limits;
use crate::layers;
use crate::metrics::Metrics;
use crate::problem::{Code, Problem};
use crate::routes::{self, Described};
use crate::ui;
use axum::Router;
use axum::extract::Request;
use axum::middleware::{from_fn, from_fn_with_state};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tower_http::cors::{AllowOrigin, CorsLayer};
use utoipa::openapi::OpenApi;

/// Connections at once.
const CONNECTIONS: usize = 20_000;
/// How long a client may take to send a request's head.
const HEADERS: Duration = Duration::from_secs(30);
/// How long requests under way may take when the server ends.
const LINGER: Duration = Duration::from_secs(5);

/// The router with its description. It can be merged into another axum app.
pub fn describe(api: &Api) -> Described {
    let (versioned, document) = routes::versioned(&api.options().limits);
    let authenticate = from_fn_with_state(api.clone(), layers::authenticate);
    let authenticated = versioned.route_layer(authenticate);
    let mut router = authenticated
        .merge(routes::open(&document))
        .fallback(fallback)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn(layers::harden));
    // Where no other site may call, there is nothing to say about it with each answer.
    let origins = &api.options().cors;
    if !origins.is_empty() {
        router = router.layer(cors(origins));
    }
    let router =
        router.layer(from_fn_with_state(api.clone(), layers::observe)).with_state(api.clone());
    Described { router, document }
}

/// The description alone. It is the same whatever is configured.
pub fn document() -> OpenApi {
    routes::versioned(&Limits::default()).1
}

/// Health, readiness and metrics, for a listener that only the operator reaches.
pub fn operators(api: &Api) -> Router {
    routes::operators(api)
}

/// Health and metrics of a process that drives turns and serves no API.
pub fn counts(metrics: Metrics) -> Router {
    routes::counts(metrics)
}

/// The router alone.
pub fn router(api: &Api) -> Router {
    describe(api).router
}

fn cors(origins: &[String]) -> CorsLayer {
    let origins: Vec<HeaderValue> = origins.iter().filter_map(|o| o.parse().ok()).collect();
    CorsLayer::new()
        .allow_origin(AllowOrigin::list(origins))
        .allow_methods([Method::GET, Method::POST, Method::PATCH, Method::DELETE])
        .allow_headers([
            ACCEPT,
            AUTHORIZATION,
            CONTENT_TYPE,
            crate::request::IDEMPOTENCY_KEY,
            crate::request::LAST_EVENT_ID,
        ])
        .expose_headers([crate::request::REQUEST_ID, http::header::RETRY_AFTER])
        .max_age(Duration::from_secs(600))
}

async fn fallback(request: Request) -> axum::response::Response {
    use axum::response::IntoResponse;
    let path = request.uri().path();
    let page = matches!(*request.method(), Method::GET | Method::HEAD) && !path.starts_with("/v1/");
    if page { ui::serve(path) } else { Problem::not_found().into_response() }
}

async fn wrong_method() -> Problem {
    Problem::new(Code::MethodNotAllowed, "The route is there, but not with this method.")
}

/// Serves until `stop` fires; then lets requests under way come to their end, for a while. Streams end by themselves when the
/// API's own [`shutdown`](Api::shutdown) fires.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADERS);
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let Some((socket, place)) = accepted else { continue };
        let service = TowerToHyperService::new(router.clone());
        let connection = http.serve_connection(TokioIo::new(socket), service);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // Whoever broke the connection knows.
            let _ = connection.await;
            drop(place);
        });
    }
    drop(listener);
    if tokio::time::timeout(LINGER, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests were still under way after {LINGER:?}");
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((socket, _)) => {
            // Events are small and must not wait for more.
            let _ = socket.set_nodelay(true);
            Some((socket, place))
        }
        Err(e) => {
            // Out of file descriptors, perhaps: that passes.
            tracing::warn!("a connection cannot be accepted: {e}");
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}
