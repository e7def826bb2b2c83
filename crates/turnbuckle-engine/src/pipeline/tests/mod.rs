//! The pipeline as a specification.

mod checking;
mod executing;
mod permission;
