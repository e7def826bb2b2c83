//! The terminal.
//!
//! | module | holds |
//! |---|---|
//! | [`screen`] | where everything is printed: permanent text and one line of status |
//! | [`markdown`] | markdown to the terminal, as it streams in |
//! | [`view`] | a turn's events as they come |
//! | [`message`] | stored messages |
//! | [`words`] | values, times and sums in few words |

pub mod markdown;
pub mod message;
pub mod screen;
pub mod view;
pub mod words;

pub use screen::{Screen, Style};
pub use view::View;
