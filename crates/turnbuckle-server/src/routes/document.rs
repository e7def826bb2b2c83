//! The machine-readable description, and a page to read it.

use crate::api::Api;
use crate::problem::ProblemDocument;
use axum::Router;
use axum::body::Bytes;
use axum::response::Html;
use axum::routing::get;
use http::header::CONTENT_TYPE;
use utoipa::ToSchema;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{
    Components, ContentBuilder, InfoBuilder, OpenApi, OpenApiBuilder, Ref, RefOr, ResponseBuilder,
    SecurityRequirement,
};

/// A router with its description.
pub struct Described {
    /// The router.
    pub router: Router,
    /// The description.
    pub document: OpenApi,
}

const BEARER: &str = "bearer";
const PROBLEM: &str = "application/problem+json";
const PAGE: &str = include_str!("document.html");
const STYLE: &str = include_str!("document.css");
const SCRIPT: &str = include_str!("document.js");

pub(super) fn base() -> OpenApi {
    let info =
        InfoBuilder::new().title("Turnbuckle").version(env!("CARGO_PKG_VERSION")).description(
            Some("Sessions with agents: submitting, watching, deciding. See docs/http-api.md."),
        );
    OpenApiBuilder::new().info(info).build()
}

/// Adds what all routes have in common.
pub(super) fn complete(mut document: OpenApi) -> OpenApi {
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("An API key (`tbk_...`) or a JWT."));
    let components = document.components.get_or_insert_with(Components::new);
    components.add_security_scheme(BEARER, SecurityScheme::Http(scheme.build()));
    let mut schemas = Vec::new();
    super::schemas::add::<ProblemDocument>(&mut schemas);
    components.schemas.extend(schemas);
    components.schemas.extend(super::schemas::schemas());
    document.security = Some(vec![SecurityRequirement::new::<_, [String; 0], String>(BEARER, [])]);
    for item in document.paths.paths.values_mut() {
        let operations: [&mut Option<Operation>; 5] =
            [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            let problem = ContentBuilder::new()
                .schema(Some(Ref::from_schema_name(ProblemDocument::name())))
                .build();
            let response = ResponseBuilder::new()
                .description("The request was not fulfilled; `code` says why.")
                .content(PROBLEM, problem);
            operation.responses.responses.insert("default".to_owned(), RefOr::T(response.build()));
        }
    }
    document
}

pub(super) fn router(document: &OpenApi) -> Router<Api> {
    // Our own description always has JSON.
    let json: Bytes = serde_json::to_vec(document).unwrap_or_default().into();
    Router::new()
        .route(
            "/openapi.json",
            get(move || async move { ([(CONTENT_TYPE, "application/json")], json) }),
        )
        .route("/docs", get(|| async { Html(PAGE) }))
        .route(
            "/docs/style.css",
            get(|| async { ([(CONTENT_TYPE, "text/css; charset=utf-8")], STYLE) }),
        )
        .route(
            "/docs/page.js",
            get(|| async { ([(CONTENT_TYPE, "text/javascript; charset=utf-8")], SCRIPT) }),
        )
}
