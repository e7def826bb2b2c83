//! The turn as a state machine without I/O.

pub mod effect;
pub mod input;

pub use effect::*;
pub use input::*;
