//! Watching a session: committed events from the store, then what happens from the bus, each exactly once.
//!
//! | module | holds |
//! |---|---|
//! | [`follow`] | where a reader stands and which event comes next; decided without I/O |
//! | `dialect` | what the events are written as |
//! | `frame` | how events are written to a stream |
//! | `reader` | a reader at work between store, bus and connection |
//! | `place` | where a reader begins, and where turns begin |

mod dialect;
pub mod follow;
mod frame;
mod place;
mod reader;

pub use dialect::{Dialect, Flow, Native, Told};
pub use follow::Place;
pub use frame::Frames;
pub use place::{begin, first_of};
pub use reader::{Reader, Until, Wishes, outcome_of};
