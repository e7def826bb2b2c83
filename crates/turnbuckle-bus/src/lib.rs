//! What processes tell each other while sessions run: events as they are streamed, how far a session is committed, who is
//! needed, and who shall stop.
//!
//! The bus is for speed; the store is the truth. Whatever is told here may be lost, and nothing depends on its arrival:
//! a reader that missed something is told that it [`Lagged`](Heard::Lagged) and reads the store, a worker that missed a call
//! finds the work when it looks for some.
//!
//! The contract is the trait [`Bus`]; one suite (`conformance`, behind the feature of that name) holds every bus to it:
//!
//! | bus | for |
//! |---|---|
//! | [`MemoryBus`] | one process |
//! | polling (with any of the features below) | several processes that share nothing but a store |
//! | Postgres (feature `postgres`) | several processes, with nothing but the database |
//! | NATS (feature `nats`) | several processes with much to tell |
//! | Redis (feature `redis`) | the same; a process that was cut off for a while is told what it missed |
//!
//! [`open`] chooses by address.
//!
//! # Following a session without loss
//! 1. [`Bus::watch`] the session, then read the committed events from the store: nothing falls between the two.
//! 2. [`Notice::Events`] come while they happen and may not be committed yet. Take the one whose `seq` comes next; pass over
//!    those seen already and those of an older `epoch`.
//! 3. [`Notice::Committed`] up to a number that was not reached, or [`Heard::Lagged`]: read on in the store.
//!
//! ```
//! use turnbuckle_bus::{Bus, Heard, MemoryBus, Notice};
//! use turnbuckle_core::ids::SessionKey;
//!
//! # futures_util::FutureExt::now_or_never(async {
//! let bus = MemoryBus::new();
//! let session = SessionKey::new("acme", "s1");
//! let mut watch = bus.watch(&session).await;
//! bus.publish(&session, Notice::Committed { seq: 7 });
//! assert_eq!(watch.next().await, Some(Heard::Told(Notice::Committed { seq: 7 })));
//! # }).unwrap();
//! ```

pub mod bus;
#[cfg(feature = "conformance")]
pub mod conformance;
mod connect;
pub mod error;
mod hub;
mod live;
mod mailbox;
mod memory;
#[cfg(feature = "nats")]
mod nats;
mod notice;
#[cfg(feature = "remote")]
mod poll;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "remote")]
mod remote;

pub use bus::{Bus, BusFuture};
pub use connect::{BusOptions, hide_password, open};
pub use error::BusError;
pub use hub::{Calls, Watch};
pub use live::Live;
pub use mailbox::Limits;
pub use memory::MemoryBus;
pub use notice::{Call, Heard, Notice};
