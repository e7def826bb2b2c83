//! Failures by category: what went wrong, verbatim, and whether to try again.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The category of a failed model call. Decides retries and what the reader is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ModelErrorKind {
    /// The provider refused the request as malformed (400, 422).
    BadRequest,
    /// The key is missing, wrong or lacks a right (401, 403).
    Auth,
    /// No such model or endpoint (404).
    NotFound,
    /// The prompt does not fit the model's window.
    ContextOverflow,
    /// Too many requests (429); `retry_after_ms` says when to come back.
    RateLimited,
    /// The account has no credit or quota left.
    QuotaExceeded,
    /// The provider is overloaded (503, 529).
    Overloaded,
    /// The provider failed (other 5xx).
    Server,
    /// No answer in time.
    Timeout,
    /// The connection could not be made or broke before an answer.
    Network,
    /// The stream ended without its terminal event.
    StreamCut,
    /// The provider's content filter stopped the answer.
    ContentFilter,
    /// The answer does not follow the protocol.
    Protocol,
    /// The caller cancelled.
    Cancelled,
    /// The call could not be made as configured.
    Config,
}

impl ModelErrorKind {
    /// Whether the same request may succeed a little later.
    pub const fn retryable(self) -> bool {
        use ModelErrorKind::*;
        match self {
            RateLimited | Overloaded | Server | Timeout | Network | StreamCut | Protocol => true,
            BadRequest | Auth | NotFound | ContextOverflow | QuotaExceeded | ContentFilter
            | Cancelled | Config => false,
        }
    }

    /// What the reader can do about it.
    pub const fn hint(self) -> &'static str {
        use ModelErrorKind::*;
        match self {
            BadRequest => "the provider refused the request; its message says which field",
            Auth => "check the API key of this provider and what it may use",
            NotFound => "check the model name and the base URL",
            ContextOverflow => "shorten the conversation, or choose a model with a larger window",
            RateLimited => "wait as long as the provider says, or raise its limit",
            QuotaExceeded => "add credit or quota at the provider",
            Overloaded | Server => {
                "the provider has trouble; try again, or configure a fallback model"
            }
            Timeout => "the provider was too slow; try again, or raise the timeout",
            Network => "check that the base URL is reachable from this machine",
            StreamCut => "the connection broke while the model was answering; try again",
            ContentFilter => {
                "the provider's content filter stopped the answer; rephrase the request"
            }
            Protocol => {
                "the server does not speak the expected protocol; check the base URL and the profile"
            }
            Cancelled => "the turn was stopped",
            Config => "check the model configuration",
        }
    }
}

/// A failed model call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelError {
    /// The category.
    pub kind: ModelErrorKind,
    /// What happened, in the provider's own words where it said any.
    pub message: String,
    /// HTTP status, when there was an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The provider's own error code or type; written under another name, since `code` tells the errors of a turn apart.
    #[serde(default, rename = "provider_code", skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// How long the provider asks to wait, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The provider's id of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl ModelError {
    /// An error of a category with a message.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            status: None,
            code: None,
            retry_after_ms: None,
            request_id: None,
        }
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(status) = self.status {
            write!(f, "HTTP {status}: ")?;
        }
        write!(f, "{} ({})", self.message, self.kind.hint())
    }
}

/// Why a tool call has no successful result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolErrorCode {
    /// No tool of that name exists.
    UnknownTool,
    /// The tool exists but was not offered in this call.
    NotAdvertised,
    /// The tool is switched off for this user.
    NotEnabled,
    /// The arguments are not JSON.
    UnparsedArguments,
    /// The model's output limit cut the arguments.
    TruncatedArguments,
    /// The arguments do not fit the tool.
    InvalidArguments,
    /// Policy forbids the call.
    Denied,
    /// The tool says it failed.
    Failed,
    /// The tool took too long.
    Timeout,
    /// The tool panicked.
    Panicked,
    /// The turn was stopped.
    Cancelled,
    /// The process ended while the tool ran; whether it took effect is not known.
    OutcomeUnknown,
    /// A person said no.
    Rejected,
    /// A new message took the place of a pending decision.
    Superseded,
    /// Nobody decided in time.
    Expired,
    /// A budget of the turn is used up.
    Budget,
}

/// A failed tool call, worded for the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[error("{message}")]
pub struct ToolError {
    /// The category.
    pub code: ToolErrorCode,
    /// What went wrong and what to do instead.
    pub message: String,
}

impl ToolError {
    /// An error of a category with a message.
    pub fn new(code: ToolErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The tool ran and failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ToolErrorCode::Failed, message)
    }

    /// The arguments do not fit; the message says how to mend them.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ToolErrorCode::InvalidArguments, message)
    }
}
