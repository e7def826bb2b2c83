//! The engine: drives turns, runs tools, stops for people.

pub mod pipeline;
pub mod tool;
