//! A support desk: members, contacts, mail threads, tasks, orders and a knowledge base on an
//! embedded database that fills itself on its first start.
//!
//! [`Desk::open`] gives the desk; every query and every write is a method on it and takes the
//! [`Caller`] it runs for, whose rights it enforces. Arguments name things in any way a person
//! would (`query::resolve`); a reference that does not mean exactly one visible thing is an error
//! with candidates, never a guess. A filter narrows or is refused, but is never dropped. A write
//! takes an idempotency key: repeated, it returns its first result and writes nothing. Each write
//! that a person approves first can also be tried, which passes every check and leaves nothing.
//!
//! [`agent`] puts an agent on top: tools over these methods, capabilities by page, prompt and
//! hooks. Nothing of the rest knows it.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), desk::DeskError> {
//! use desk::{Desk, FindThreads, SeedOptions};
//!
//! let desk = Desk::in_memory(SeedOptions::default()).await?;
//! let caller = desk.caller("priya.raman@bramling.example").await?;
//! let mine = FindThreads { assignee: Some("me".into()), ..FindThreads::default() };
//! let page = desk.find_threads(&caller, &mine).await?;
//! assert!(page.total >= page.threads.len() as u64);
//! # Ok(())
//! # }
//! ```

pub mod agent;
pub mod caller;
mod db;
pub mod deadline;
mod desk;
pub mod error;
pub mod ids;
pub mod phone;
pub mod query;
pub mod seed;

pub use caller::{Caller, Right, Rights};
pub use desk::{Clock, Desk, Found};
pub use error::{Candidate, DeskError, Result};
pub use query::*;
pub use seed::SeedOptions;
