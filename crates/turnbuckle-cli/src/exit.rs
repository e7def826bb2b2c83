//! Exit codes: how the last turn ended.

use crate::term::words::model_failure;
use std::process::ExitCode;
use turnbuckle::core::event::EventKind;
use turnbuckle::core::outcome::{Outcome, TurnError};

/// What is said about exit codes in the help texts.
pub const HELP: &str = "\
Exit codes:
  0  completed
  1  failed, or the command could not be carried out
  2  wrong usage of the command line
  3  paused: somebody must approve or reject first (`turnbuckle chat --session ID` asks)
  4  a limit ended the turn (tokens, model calls, time, money)
  5  stopped
  130  interrupted twice; what was done is stored";

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Well.
    Completed,
    /// Not.
    Failed,
    /// The turn waits for people.
    Paused,
    /// A limit ended the turn.
    Exhausted,
    /// The turn was stopped.
    Aborted,
    /// The person would not wait.
    Interrupted,
}

impl Exit {
    /// From the event that ends a stream.
    pub fn of_event(event: &EventKind) -> Option<Self> {
        Some(match event {
            EventKind::TurnCompleted { .. } => Exit::Completed,
            EventKind::TurnPaused { .. } => Exit::Paused,
            EventKind::TurnExhausted { .. } => Exit::Exhausted,
            EventKind::TurnError { .. } => Exit::Failed,
            EventKind::TurnAborted { .. } => Exit::Aborted,
            _ => return None,
        })
    }

    /// The number the shell sees.
    pub const fn code(self) -> u8 {
        match self {
            Exit::Completed => 0,
            Exit::Failed => 1,
            Exit::Paused => 3,
            Exit::Exhausted => 4,
            Exit::Aborted => 5,
            Exit::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

/// An outcome in a word.
pub fn outcome_word(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Completed => "completed".to_owned(),
        Outcome::Paused => "paused".to_owned(),
        Outcome::Exhausted { reason } => format!("ended at a limit: {}", exhausted_word(*reason)),
        Outcome::Error { error } => format!("failed: {}", turn_failure(error)),
        Outcome::Aborted { .. } => "stopped".to_owned(),
    }
}

/// What made a turn fail, with how long the provider asks to wait.
pub fn turn_failure(error: &TurnError) -> String {
    match error {
        TurnError::Model(error) => model_failure(error),
        other => other.to_string(),
    }
}

/// A limit in words, with what raises it.
pub fn exhausted_word(reason: turnbuckle::core::outcome::ExhaustedReason) -> &'static str {
    use turnbuckle::core::outcome::ExhaustedReason::*;
    match reason {
        TokenBudget => "the token budget is used up (raise limits.max_tokens)",
        MaxIterations => {
            "too many model calls (the agent's own max_iterations caps its calls, limits.max_model_calls those of the turn)"
        }
        MaxApprovals => "too many approvals (raise limits.max_approvals)",
        MaxToolCalls => "too many tool calls (raise limits.max_tool_calls)",
        WallTime => "it took too long (raise limits.max_wall_ms)",
        Cost => "it cost too much (raise limits.max_cost_micros)",
        ToolFailureStreak => {
            "the same tool failed the same way again and again (see limits.failure_streak)"
        }
        OutputLimit => "the answer was cut by the model's output limit again and again",
    }
}
