//! The turn as a state machine without I/O.
//!
//! [`Turn::handle`] takes what came ([`Input`]) and gives what to do next ([`Effect`]) and what to tell (events). All state is
//! in the [`Turn`], which can be serialised at any moment; feeding the journal of a turn to a new machine gives it again.
//!
//! | module | decides |
//! |---|---|
//! | [`spec`] | what is fixed for the turn |
//! | [`effect`], [`input`] | the vocabulary |
//! | `state`, `frame` | the turn and its meters, agents' loops and their batches |
//! | `begin` | the start, routes, agents one after the other, sub-agents |
//! | `call_model` | budgets before a model call, the closing call |
//! | `stream`, `reconcile` | streamed deltas, and the complete answer against them |
//! | `answer` | what follows from complete and failed answers |
//! | `unwrap` | calls that a model wrapped into one |
//! | `batch` | announcing and checking tool calls |
//! | `run` | running them in bounds, settling them, ending the batch |
//! | `people` | pauses, decisions, client results, steering |
//! | `stop` | cancelling, faults, recovery after a crash |
//! | `valves` | identical calls, fruitless calls, streaks, restated text |
//! | [`weave`] | the order of deltas that stream beside each other, and rebuilding from the journal |
//! | `finish` | data policy, end-of-turn changes, the final events |

mod answer;
mod batch;
mod begin;
mod call_model;
pub mod effect;
mod finish;
mod frame;
pub mod input;
mod people;
mod reconcile;
mod run;
pub mod spec;
mod state;
mod stop;
mod stream;
mod unwrap;
mod valves;
pub mod weave;

pub use effect::*;
pub use input::*;
pub use spec::*;
pub use state::{Phase, TURN_SCHEMA, Turn};
pub use weave::{Replay, Weave};

use crate::event::{AgentPath, EventKind};
use crate::time::Timestamp;

/// An event as the machine makes it; the driver adds session, turn and seq.
#[derive(Clone, Debug, PartialEq)]
pub struct Emitted {
    /// When.
    pub at: Timestamp,
    /// The agent.
    pub path: AgentPath,
    /// What happened.
    pub kind: EventKind,
}

/// What the machine wants after an input.
#[derive(Debug, Default)]
pub struct Output {
    /// What to tell, in order.
    pub events: Vec<Emitted>,
    /// What to do.
    pub effects: Vec<Effect>,
}

/// An input that does not fit the turn's state. The turn is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// The turn has ended.
    #[error("the turn has already ended")]
    Ended,
    /// The call is not waiting for a decision or a result.
    #[error("call {call} is not waiting for this: {state}")]
    NotWaiting {
        /// The call.
        call: String,
        /// What is the case instead.
        state: &'static str,
    },
    /// The input is of another step than any that was asked for.
    #[error("step {0} was never asked for")]
    UnknownStep(StepId),
    /// An event did not fit the message: a defect of the engine.
    #[error(transparent)]
    Fold(#[from] crate::fold::FoldError),
    /// The turn's specification is not sound.
    #[error("{0}")]
    Spec(String),
}
