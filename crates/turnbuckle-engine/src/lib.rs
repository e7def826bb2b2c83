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
//! | [`trace`] | spans of turns, model calls and tool calls |
//! | `attachments` | images and files of messages |
//! | `kept` | the tool that reads back what was too long to show |
//! | `session` | the owner of a session, and what a session keeps |

pub mod agent;
mod attachments;
pub mod domain;
pub mod driver;
pub mod engine;
mod keeping;
mod kept;
pub mod pipeline;
pub mod runtime;
mod session;
pub mod tool;
pub mod trace;

pub use agent::{Agent, AgentHooks};
pub use attachments::Attachment;
pub use domain::{Agents, Domain, DomainTurn, Reader, TurnInfo};
pub use driver::{BufferedStream, Loose, Stopper, TurnStream};
pub use engine::{Engine, EngineBuilder, EngineError, Submission, Submitted, drain};
pub use kept::READ_OUTPUT;
pub use session::{ApplyReport, CapturedAction, Inheritance, Replayed, Review};
