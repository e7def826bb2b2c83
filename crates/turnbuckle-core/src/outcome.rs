//! How a turn ends.

use crate::error::{ModelError, ModelErrorKind};
use serde::{Deserialize, Serialize};

/// The limit that ended a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ExhaustedReason {
    /// The token budget of the turn.
    TokenBudget,
    /// The cap on model calls of the turn or of the agent.
    MaxIterations,
    /// The cap on approvals.
    MaxApprovals,
    /// The cap on tool calls.
    MaxToolCalls,
    /// The wall-clock budget, waiting for people not counted.
    WallTime,
    /// The money budget.
    Cost,
    /// The same tool failed the same way too often in a row.
    ToolFailureStreak,
    /// The answer was cut by the output limit again and again.
    OutputLimit,
}

/// What made a turn fail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum TurnError {
    /// The model call failed for good.
    Model(Box<ModelError>),
    /// The model gave nothing usable, again and again.
    EmptyResponse,
    /// The structured output did not validate, even after a repair.
    InvalidOutput {
        /// What the validator said.
        message: String,
    },
    /// The context does not fit the model, even after compaction.
    ContextOverflow {
        /// What was tried.
        message: String,
    },
    /// The store failed.
    Store {
        /// The store's own words.
        message: String,
    },
    /// A defect of the engine or of the domain.
    Internal {
        /// What broke.
        message: String,
    },
}

impl TurnError {
    /// The stable code, as it stands in events and HTTP answers.
    pub fn code(&self) -> &'static str {
        match self {
            TurnError::Model(e) => match e.kind {
                ModelErrorKind::RateLimited => "rate_limited",
                ModelErrorKind::QuotaExceeded => "quota_exceeded",
                ModelErrorKind::Auth => "model_auth",
                ModelErrorKind::ContentFilter => "content_filter",
                ModelErrorKind::ContextOverflow => "context_overflow",
                _ => "model_error",
            },
            TurnError::EmptyResponse => "empty_response",
            TurnError::InvalidOutput { .. } => "invalid_output",
            TurnError::ContextOverflow { .. } => "context_overflow",
            TurnError::Store { .. } => "store_error",
            TurnError::Internal { .. } => "internal",
        }
    }
}

impl std::fmt::Display for TurnError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TurnError::Model(e) => write!(f, "{e}"),
            TurnError::EmptyResponse => {
                f.write_str("the model gave no answer, even when asked again")
            }
            TurnError::InvalidOutput { message }
            | TurnError::ContextOverflow { message }
            | TurnError::Store { message }
            | TurnError::Internal { message } => f.write_str(message),
        }
    }
}

/// Why a turn was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum AbortReason {
    /// A person or the host stopped it.
    Stopped,
    /// A new message took its place while a decision was pending.
    Superseded,
}

/// How a turn ended, or that it waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Outcome {
    /// The agent is done.
    Completed,
    /// It waits for people or for the caller's front end.
    Paused,
    /// A limit ended it.
    Exhausted {
        /// Which one.
        reason: ExhaustedReason,
    },
    /// It failed.
    Error {
        /// Why.
        error: TurnError,
    },
    /// It was stopped.
    Aborted {
        /// By what.
        reason: AbortReason,
    },
}
