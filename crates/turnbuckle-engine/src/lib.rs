//! The engine: drives turns, runs tools, stops for people.
//!
//! | module | holds |
//! |---|---|
//! | [`engine`] | [`Engine`]: sessions, messages in, events out |
//! | [`agent`], [`domain`] | what a product plugs in |
//! | [`tool`] | the contract of a tool |
//! | [`pipeline`] | a tool call, step by step |
//! | [`runtime`] | the one place that assembles what a turn runs with |
//! | [`driver`] | drives one turn of the pure machine |
//! | `session` | the owner of a session, and what a session keeps |

pub mod agent;
pub mod domain;
pub mod driver;
pub mod engine;
pub mod pipeline;
pub mod runtime;
mod session;
pub mod tool;

pub use agent::{Agent, AgentHooks};
pub use domain::{Agents, Domain, DomainTurn, TurnInfo};
pub use driver::{Stopper, TurnStream};
pub use engine::{Engine, EngineBuilder, EngineError, Submission, Submitted, drain};
pub use session::{ApplyReport, CapturedAction, Replayed, Review};
