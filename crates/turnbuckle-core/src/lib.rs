//! The pure heart of Turnbuckle.
//!
//! Nothing here does I/O, reads a clock or draws a random number: ids and times arrive as inputs.
//! The same code is therefore driven live, headless, in evals and in replay.
//!
//! | module | holds |
//! |---|---|
//! | [`ids`], [`time`] | newtypes for identifiers and timestamps |
//! | [`message`], [`part`] | what a session stores |
//! | [`content`] | what a message says: text, images, files |
//! | [`event`], [`fold`] | what a turn streams, and the one reducer that turns events into the stored message |
//! | [`cut`] | a turn up to a step |
//! | [`pack`] | events in little room, for whoever keeps many |
//! | [`room`] | growing without much room to spare |
//! | [`model`] | the provider-neutral request and response of a model call |
//! | [`tool`] | what the machine must know of a tool |
//! | [`error`], [`outcome`] | failures by category, and how turns end |
//! | [`allowance`] | what people allow for good, and tests of arguments |
//! | [`title`] | titles of sessions |
//! | [`retry`] | which failures are tried again, and when |
//! | [`context`] | the context store: references, path walker, bindings |
//! | [`prompt`] | the system prompt: sections, tiers, cache breakpoints |
//! | [`compaction`] | where to cut a history that does not fit |
//! | [`machine`] | the turn: inputs in, effects and events out |

pub mod allowance;
pub mod arguments;
pub mod compaction;
pub mod content;
pub mod context;
pub mod cut;
pub mod error;
pub mod event;
pub mod fold;
pub mod ids;
pub mod json;
pub mod limits;
pub mod machine;
pub mod message;
pub mod model;
pub mod outcome;
pub mod pack;
pub mod part;
pub mod prompt;
pub mod retry;
pub mod room;
pub mod time;
pub mod title;
pub mod tool;
pub mod transcript;
pub mod usage;
