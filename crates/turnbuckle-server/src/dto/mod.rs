//! What requests and answers look like. `docs/http-api.md` says in which order they come and what may be relied on.

mod account;
mod approvals;
mod captured;
mod page;
mod sessions;
mod triggers;
mod turns;
mod usage;

pub use account::*;
pub use approvals::*;
pub use captured::*;
pub use page::*;
pub use sessions::*;
pub use triggers::*;
pub use turns::*;
pub use usage::*;
