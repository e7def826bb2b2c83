//! Where sessions live: their messages, journals, events, cards and inboxes, in memory or on disk.
//!
//! The contract is the trait [`Store`]; its data types are in [`model`]. Three stores keep it, and one suite
//! (`conformance`, behind the feature of that name) holds all to it:
//!
//! | store | for |
//! |---|---|
//! | [`MemoryStore`] | tests, evals, throw-away sessions |
//! | [`SqliteStore`] | one machine: a file in WAL mode, nothing to install |
//! | `PostgresStore` (feature `postgres`) | several processes on several machines |
//!
//! They keep jobs, schedules and background tasks as well: the trait [`Jobs`].
//!
//! Three rules carry the rest:
//! - **One owner writes.** A session is claimed with a lease and a fence; every commit names the fence and is refused when
//!   another has claimed since. Whoever does not own a session posts to its inbox instead.
//! - **A commit is all or nothing**, and continues events and journal without a gap.
//! - **Time is an argument.** No store reads a clock.

pub mod archive;
mod backoff;
mod check;
#[cfg(feature = "conformance")]
pub mod conformance;
mod cron;
pub mod error;
mod export;
mod inbox;
pub mod jobs;
mod memory;
pub mod model;
mod open;
#[cfg(feature = "postgres")]
mod postgres;
mod sql;
mod sqlite;
pub mod store;
mod words;
mod work;

pub use backoff::Backoff;
pub use cron::{Cron, CronError};
pub use error::{Conflict, StoreError};
pub use jobs::Jobs;
pub use memory::MemoryStore;
pub use model::*;
pub use open::{Opened, Tables, open};
#[cfg(feature = "postgres")]
pub use postgres::{PostgresOptions, PostgresStore, migrate_postgres};
pub use sqlite::{Durability, Patience, SqliteOptions, SqliteStore, migrate};
pub use store::{Store, StoreFuture};
