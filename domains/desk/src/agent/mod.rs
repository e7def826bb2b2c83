//! The agent of the desk: what it can do, on which page, in whose name, and how it says so.
//!
//! | module | holds |
//! |---|---|
//! | [`domain`](DeskDomain) | the domain: one agent, or a pipeline of four behind a supervisor |
//! | [`capability`] | what an agent can do on which page, checked at the start |
//! | `capabilities` | the desk's own: mail on its page, everything else everywhere |
//! | `tools` | the tools, over the methods of [`Desk`](crate::Desk) |
//! | `members` | who a session's user is, and what prompts say about people |
//! | `prompt` | the sections of the system prompt |
//! | `turn` | hooks of one turn: missing arguments from the page and from mentions, snapshots at the end |
//! | [`snapshots`], [`references`] | what links and cards in an answer show |
//! | [`story`](DeskStory) | a rehearsal that plays believable scenes over the real tools |
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use desk::agent::{AGENT, DEFAULT_USER, DeskDomain, DeskStory};
//! use desk::{Desk, SeedOptions};
//! use std::{sync::Arc, time::Duration};
//! use turnbuckle::models::RehearsalModel;
//! use turnbuckle::{Engine, drain};
//!
//! let desk = Desk::in_memory(SeedOptions::default()).await?;
//! let model = RehearsalModel::new(Arc::new(DeskStory::new())).with_pace(Duration::ZERO);
//! let engine = Engine::builder().domain(DeskDomain::new(desk).await?).model(model).build()?;
//!
//! let session = engine.create_session("bramling", DEFAULT_USER, AGENT).await?;
//! let events = engine.submit(&session.key, "Who works in billing?").await?;
//! assert!(!drain(events.stream().unwrap()).await.is_empty());
//! # Ok(())
//! # }
//! ```

mod capabilities;
pub mod capability;
mod domain;
mod members;
mod prefill;
mod prompt;
pub mod references;
pub mod snapshots;
mod story;
mod tools;
mod turn;

pub use domain::{DeskAgentError, DeskDomain};
pub use members::Users;
pub use story::DeskStory;

/// The agent a session talks to.
pub const AGENT: &str = "desk";

/// The member whom a local session belongs to when nobody is named: the head of support.
pub const DEFAULT_USER: &str = "priya.raman@bramling.example";

/// The page of the mail.
pub const MAIL_PAGE: &str = "mail";

/// The pages of the product.
pub const PAGES: [&str; 6] = [MAIL_PAGE, "tasks", "orders", "contacts", "knowledge", "settings"];
