//! The HTTP API and the worker: sessions that survive anything, streams that resume anywhere.
//!
//! A product embeds it in three steps: an [`Engine`](turnbuckle_engine::Engine) on a store, an [`Api`] and a
//! [`Worker`](worker::Worker) on the engine, and [`router`] merged into its own axum app.
//!
//! | module | holds |
//! |---|---|
//! | [`api`], [`config`] | what every route works with, and how it behaves |
//! | [`service`] | what the API does, apart from HTTP |
//! | [`routes`], [`dto`] | the native routes, and what requests and answers look like |
//! | [`live`] | event streams: from the store, then from the bus, each event once |
//! | [`triggers`] | turns that begin by the clock |
//! | [`worker`] | drives turns and tells the bus |
//! | [`auth`] | who a request is, and what it may do |
//! | [`accounts`], [`quota`], [`rate`], [`streams`] | keys, audit log, usage; how much and how often |
//! | [`protocols`] | other people's protocols over the same functions |
//! | [`metrics`] | what is counted |
//! | [`problem`], [`request`] | what goes wrong, and how requests are read |
//! | [`server`], [`ui`] | the router, and the web UI |
//!
//! `docs/http-api.md` describes the API for its callers.

pub mod accounts;
pub mod api;
pub mod auth;
pub mod config;
pub mod days;
mod digest;
pub mod dto;
mod layers;
pub mod live;
pub mod metrics;
pub mod problem;
pub mod protocols;
pub mod quota;
pub mod rate;
pub mod request;
pub mod routes;
pub mod server;
pub mod service;
pub mod streams;
pub mod triggers;
pub mod ui;
pub mod worker;

pub use api::Api;
pub use server::{describe, document, router};
