//! The agent of the desk on the real engine: its tools, people in the loop, pages and rights, cards
//! and links, the pipeline, and the scenes of the rehearsal.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod approvals;
mod capture;
mod pages;
mod pipeline;
mod references;
mod rig;
mod scenes;
mod tools;
