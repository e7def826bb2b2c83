//! The binary as a person or a script uses it: real process, real desk, temporary data folders, nothing beyond loopback.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice
)]

mod chat;
mod commands;
mod db;
mod editing;
mod headless;
mod named;
mod observe;
mod provider;
mod steering;
mod support;
