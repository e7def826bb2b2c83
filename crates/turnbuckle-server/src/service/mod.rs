//! What the API does, apart from HTTP: the native routes and the protocols of others stand on the same functions.
//!
//! | module | holds |
//! |---|---|
//! | `sessions` | creating, listing, reading, copying, deleting |
//! | `turns` | submitting and stopping |
//! | `approvals` | cards and results of the front end |
//! | `captured` | captured actions |
//! | `triggers`, `tasks` | turns that begin by the clock, and what tools left to run |
//! | `watch` | event streams |
//! | `admin` | usage, keys, the audit log, exports |

mod admin;
mod approvals;
mod captured;
mod sessions;
mod tasks;
mod triggers;
mod turns;
mod watch;

pub use watch::Watching;
