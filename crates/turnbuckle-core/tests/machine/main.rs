//! The turn machine, by its rules: examples of each, and what holds of every turn.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice
)]

mod agents;
mod calls;
mod golden;
mod loop_rules;
mod outside;
mod people;
mod properties;
mod recovery;
mod support;
