//! Where sessions live: their messages, journals, events, cards and inboxes, in memory or on disk.
//!
//! The contract is the trait [`Store`]; its data types are in [`model`]. Two stores keep it, and one suite
//! (`conformance`, behind the feature of that name) holds both to it:
//!
//! | store | for |
//! |---|---|
//! | [`MemoryStore`] | tests, evals, throw-away sessions |
//! | [`SqliteStore`] | one machine: a file in WAL mode, nothing to install |
//!
//! Three rules carry the rest:
//! - **One owner writes.** A session is claimed with a lease and a fence; every commit names the fence and is refused when
//!   another has claimed since. Whoever does not own a session posts to its inbox instead.
//! - **A commit is all or nothing**, and continues events and journal without a gap.
//! - **Time is an argument.** No store reads a clock.

mod check;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod error;
mod inbox;
mod memory;
pub mod model;
mod sqlite;
pub mod store;

pub use error::{Conflict, StoreError};
pub use memory::MemoryStore;
pub use model::*;
pub use sqlite::{Durability, SqliteOptions, SqliteStore};
pub use store::{Store, StoreFuture};
