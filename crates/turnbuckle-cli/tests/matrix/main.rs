//! Sessions that survive anything: real processes of the binary, real signals, real databases.
//!
//! | module | shows |
//! |---|---|
//! | `kill` | owners that die or fall asleep at any point; others take over, nothing is lost and nothing is done twice |
//! | `streams` | readers that come and go, never read, or are very many |
//! | `races` | two wishes at once, each with one defined outcome |
//! | `moved` | a site taken to another database, where it goes on |
//! | `failures` | disk full, the database restarted or away, Redis gone |
//! | `shutdown` | ending in an orderly way, and at once |
//! | `product` | the desk itself on a shared database |
//!
//! Processes run the binary's own `main` with agents that report every call of a tool to the test and wait for its word; a
//! fake model server answers by a script that stands in the user's message. So every moment a test is about is held open until
//! the test has done what it wants. Takeovers are quick since leases are short (`support::LEASE`).
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod failures;
mod kill;
mod moved;
mod product;
mod races;
mod shutdown;
mod streams;
mod support;
