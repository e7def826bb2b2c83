//! The web UI, as it was built into the binary.

use axum::body::Body;
use axum::response::{Html, IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, StatusCode};
use rust_embed::RustEmbed;

/// What `npm run build` makes in `web/`. Nothing, when that was not run before the binary was built.
#[derive(RustEmbed)]
#[folder = "../../web/dist"]
#[allow_missing = true]
struct Built;

/// Only what is served here may act: no foreign scripts, images, frames or connections, whatever a model or a tool wrote.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; manifest-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const INDEX: &str = "index.html";
const NOT_BUILT: &str = include_str!("not_built.html");

/// A file of the UI; any other path is a place in the UI.
pub(crate) fn serve(path: &str) -> Response {
    let name = path.trim_start_matches('/');
    let found = if name.is_empty() { None } else { Built::get(name).map(|file| (name, file)) };
    let mut response = match found.or_else(|| Built::get(INDEX).map(|file| (INDEX, file))) {
        // A file with an ending that is not there is not a place in the UI.
        Some((INDEX, _)) if name.starts_with("assets/") => StatusCode::NOT_FOUND.into_response(),
        Some((name, file)) => {
            let mut response = Response::new(Body::from(file.data));
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind(name)));
            // Names of assets hold a hash of their content.
            let cache = if name.starts_with("assets/") {
                "public, max-age=31536000, immutable"
            } else {
                "no-cache"
            };
            headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache));
            response
        }
        None => Html(NOT_BUILT).into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(HeaderName::from_static("x-frame-options"), HeaderValue::from_static("DENY"));
    response
}

/// Whether the UI is in this binary.
pub fn is_built() -> bool {
    Built::get(INDEX).is_some()
}

fn kind(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
