//! The routes: each reads a request, calls what the API does, and answers. Their description is made from the same code.
//!
//! | module | holds |
//! |---|---|
//! | `account` | who the caller is, what there is to talk to |
//! | `sessions`, `turns`, `events`, `approvals`, `captured` | sessions and what belongs to them |
//! | `triggers`, `tasks` | turns that begin by the clock, and what tools left to run |
//! | `admin` | usage, keys, the audit log |
//! | `probes` | health, readiness |
//! | `document`, `schemas` | the machine-readable description, and a page to read it |

mod account;
mod admin;
mod approvals;
mod captured;
mod document;
mod events;
mod probes;
mod schemas;
mod sessions;
mod tasks;
mod triggers;
mod turns;

pub use document::Described;
pub(crate) use probes::{Parts, counts, operators};

use crate::api::Api;
use crate::config::Limits;
use crate::protocols;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes behind authentication, with their description.
pub(crate) fn versioned(limits: &Limits) -> (Router<Api>, OpenApi) {
    let large = OpenApiRouter::new()
        .routes(routes!(turns::submit_turn, turns::list_turns))
        .layer(DefaultBodyLimit::max(limits.message_body_bytes()));
    let plain = OpenApiRouter::with_openapi(document::base())
        .routes(routes!(account::whoami))
        .routes(routes!(account::info))
        .routes(routes!(account::list_agents))
        .routes(routes!(sessions::create_session, sessions::list_sessions))
        .routes(routes!(sessions::get_session, sessions::change_session, sessions::delete_session))
        .routes(routes!(sessions::list_messages))
        .routes(routes!(sessions::fork_session))
        .routes(routes!(sessions::export_session))
        .routes(routes!(sessions::get_blob))
        .routes(routes!(turns::stop_turn))
        .routes(routes!(turns::stop_session))
        .routes(routes!(events::watch_events))
        .routes(routes!(approvals::list_approvals))
        .routes(routes!(approvals::get_approval, approvals::decide_approval))
        .routes(routes!(approvals::give_tool_result))
        .routes(routes!(captured::list_captured))
        .routes(routes!(captured::review_captured))
        .routes(routes!(triggers::create_trigger, triggers::list_triggers))
        .routes(routes!(triggers::get_trigger, triggers::change_trigger, triggers::delete_trigger))
        .routes(routes!(triggers::run_trigger))
        .routes(routes!(triggers::list_runs))
        .routes(routes!(triggers::change_run))
        .routes(routes!(tasks::list_tasks))
        .routes(routes!(tasks::get_task, tasks::end_task))
        .routes(routes!(admin::get_usage))
        .routes(routes!(admin::create_key, admin::list_keys))
        .routes(routes!(admin::revoke_key))
        .routes(routes!(admin::list_audit))
        .layer(DefaultBodyLimit::max(limits.body_bytes));
    let routes = plain.merge(large).merge(protocols::router(limits));
    let (router, document) = routes.split_for_parts();
    (router, document::complete(document))
}

/// The routes that need no authentication.
pub(crate) fn open(document: &OpenApi) -> Router<Api> {
    probes::router().merge(document::router(document))
}
