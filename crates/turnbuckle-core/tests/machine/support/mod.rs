//! A deterministic world around the turn machine.

pub mod audit;
pub mod build;
pub mod check;
pub mod open;
pub mod random;
pub mod rng;
pub mod sim;
pub mod world;

pub use build::*;
pub use check::*;
pub use sim::{Order, Plan, Sim, play, play_with};
pub use world::{Act, Scripted, World, ids};
