//! The one error of the desk. Every `Display` is a sentence the model can act on, and none names
//! anything the caller may not see: a hidden thing and an absent thing read the same.

use std::fmt;

use serde::Serialize;

/// Something a reference could have meant, offered instead of a guess.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Candidate {
    /// The id to pass to mean exactly this one, such as `member:4`.
    pub id: String,
    /// What it is called.
    pub name: String,
    /// What tells it apart from others of the same name: an e-mail, a number, a domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.detail {
            Some(detail) => write!(f, "{} ({}, {})", self.id, self.name, detail),
            None => write!(f, "{} ({})", self.id, self.name),
        }
    }
}

/// The largest number of candidates or allowed values an error lists.
pub const MAX_CANDIDATES: usize = 10;

/// Why a call on the desk did not happen. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum DeskError {
    /// Nothing the caller may see answers to the reference.
    #[error(
        "no {kind} answers to {given:?} among those you can see{}",
        listed("; did you mean", candidates)
    )]
    NotFound {
        /// The kind looked for, such as `member`.
        kind: &'static str,
        /// The reference as given.
        given: String,
        /// Visible things that come near it, at most [`MAX_CANDIDATES`].
        candidates: Vec<Candidate>,
    },
    /// Several visible things answer to the reference.
    #[error(
        "{given:?} could mean more than one {kind}; pass one of these ids{}",
        listed(":", candidates)
    )]
    Ambiguous {
        /// The kind looked for.
        kind: &'static str,
        /// The reference as given.
        given: String,
        /// What it could mean, at most [`MAX_CANDIDATES`].
        candidates: Vec<Candidate>,
    },
    /// An argument cannot be used as it is.
    #[error("{field}: {message}{}", allowed_values(allowed))]
    Invalid {
        /// The argument at fault.
        field: &'static str,
        /// What is wrong with it.
        message: String,
        /// Values or phrasings that would do; empty when there is no such list.
        allowed: Vec<String>,
    },
    /// The caller's rights do not cover the action.
    #[error("you may not {action}; ask an administrator of the desk if you should be able to")]
    Forbidden {
        /// What was refused, as a verb phrase.
        action: String,
    },
    /// The database failed. The call may be repeated with the same idempotency key.
    #[error("the desk's database failed and nothing was changed; repeat the call: {0}")]
    Store(#[from] sqlx::Error),
}

/// A result of the desk.
pub type Result<T> = std::result::Result<T, DeskError>;

impl DeskError {
    /// An [`DeskError::Invalid`] without a list of allowed values.
    pub fn invalid(field: &'static str, message: impl Into<String>) -> Self {
        Self::Invalid { field, message: message.into(), allowed: Vec::new() }
    }

    /// An [`DeskError::Invalid`] that says what would do.
    pub fn invalid_of(
        field: &'static str,
        message: impl Into<String>,
        allowed: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let allowed = allowed.into_iter().map(Into::into).collect();
        Self::Invalid { field, message: message.into(), allowed }
    }

    /// A [`DeskError::Forbidden`].
    pub fn forbidden(action: impl Into<String>) -> Self {
        Self::Forbidden { action: action.into() }
    }

    /// A stable word for the category.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "not_found",
            Self::Ambiguous { .. } => "ambiguous",
            Self::Invalid { .. } => "invalid",
            Self::Forbidden { .. } => "forbidden",
            Self::Store(_) => "store",
        }
    }

    /// Whether the same call may succeed later without any change.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Store(_))
    }

    /// The candidates to choose from, if the error has any.
    pub fn candidates(&self) -> &[Candidate] {
        match self {
            Self::NotFound { candidates, .. } | Self::Ambiguous { candidates, .. } => candidates,
            Self::Invalid { .. } | Self::Forbidden { .. } | Self::Store(_) => &[],
        }
    }
}

impl From<serde_json::Error> for DeskError {
    fn from(error: serde_json::Error) -> Self {
        Self::Store(sqlx::Error::Decode(Box::new(error)))
    }
}

fn listed(lead: &str, candidates: &[Candidate]) -> String {
    if candidates.is_empty() {
        return String::new();
    }
    let names: Vec<_> = candidates.iter().map(ToString::to_string).collect();
    format!("{lead} {}", names.join(", "))
}

fn allowed_values(allowed: &[String]) -> String {
    if allowed.is_empty() { String::new() } else { format!("; use one of: {}", allowed.join(", ")) }
}
