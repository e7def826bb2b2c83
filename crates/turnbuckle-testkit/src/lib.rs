//! What tests of Turnbuckle are made of: a fake model server on loopback, and builders for fixtures.
//!
//! The server speaks real HTTP. A test queues the answers, lets the code under test call, and then compares the whole
//! requests that came in. Time is never waited for: a [`Gate`] in an answer holds it back until the test opens it, and
//! the test awaits what the server sees (a request, a closed connection).
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use turnbuckle_testkit::{FakeModelServer, chat::ChatAnswer};
//! let server = FakeModelServer::start().await;
//! server.enqueue(ChatAnswer::new("m").text("Hello").stream());
//! assert!(server.base_url().starts_with("http://127.0.0.1:"));
//! assert_eq!(server.requests(), []);
//! # }
//! ```

pub mod chat;
pub mod fixtures;
mod gate;
mod quota;
mod relay;
mod reply;
mod server;

pub use gate::Gate;
pub use quota::{Arrival, Quota};
pub use relay::Relay;
pub use reply::{Reply, event};
pub use server::{CapturedRequest, FakeModelServer};
