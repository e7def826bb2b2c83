//! The pipeline as a specification.

mod aside;
mod checking;
mod executing;
mod permission;
