//! The API over a real socket: an agent with tools, a scripted model, SQLite in a temporary folder, the bus in process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

mod ag_ui;
mod ai_sdk;
mod clients;
mod owners;
mod people;
mod quotas;
mod requests;
mod streams;
mod tenancy;
mod tokens;
mod triggers;
mod turns;
