//! What goes wrong in a store, by what the caller can do about it.

use crate::model::{CardAnswer, JobStatus};
use std::error::Error;
use std::sync::Arc;
use turnbuckle_core::ids::{JobId, MessageId, SessionId, TurnId};
use turnbuckle_core::time::Timestamp;

/// The failure underneath, as the backend told it.
pub type Cause = Arc<dyn Error + Send + Sync>;

/// A store operation that did not succeed.
///
/// Unless a variant says otherwise, nothing was written.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no such thing, or it belongs to another tenant; the two are not told apart.
    #[error("no such {what}")]
    NotFound {
        /// The kind of thing: `session`, `turn`, `card`, `blob`, `captured action`, `allowance`, `job`,
        /// `schedule`, `task`.
        what: &'static str,
    },
    /// Another owner holds the session.
    #[error("the session is held by {owner} until {until}")]
    Busy {
        /// Who.
        owner: String,
        /// Until when, unless they renew.
        until: Timestamp,
    },
    /// The caller no longer owns the session: it was claimed again, or released.
    #[error("the session's fence is {current}, not {held}: another owner has taken it over")]
    Fenced {
        /// The fence the caller showed.
        held: u64,
        /// The one in force.
        current: u64,
    },
    /// The request contradicts what is stored.
    #[error("{what}")]
    Conflict {
        /// In which way.
        what: Conflict,
    },
    /// What is stored cannot be read.
    #[error("stored {what} cannot be read")]
    Corrupt {
        /// Which part of which session.
        what: String,
        /// Why not.
        #[source]
        cause: Cause,
    },
    /// There is no room left on the disk.
    #[error("the store is full")]
    Full {
        /// The backend's own words.
        #[source]
        cause: Cause,
    },
    /// The backend cannot be reached or is too busy. Whether a write took effect is not known; repeating a commit is safe.
    #[error("the store is not available")]
    Unavailable {
        /// The backend's own words.
        #[source]
        cause: Cause,
    },
    /// The backend refused for another reason.
    #[error("the store failed")]
    Other {
        /// The backend's own words.
        #[source]
        cause: Cause,
    },
}

/// How a request contradicts what is stored.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Conflict {
    /// The id is taken, or was and its session is deleted; ids are not used twice.
    #[error("session {0} exists already, or did")]
    SessionExists(SessionId),
    /// A turn is opened while another is not finished, or twice.
    #[error("turn {open} is still open, so {refused} cannot be opened")]
    TurnOpen {
        /// The open turn.
        open: TurnId,
        /// The one refused.
        refused: TurnId,
    },
    /// A commit is about a turn that is not the open one.
    #[error("the session's open turn is {}, not {}", show(open), show(named))]
    NotTheOpenTurn {
        /// The open turn.
        open: Option<TurnId>,
        /// The one the commit is about; absent when it has journal entries and names none.
        named: Option<TurnId>,
    },
    /// Numbers do not continue where the stored ones end: there is a gap or an overlap.
    #[error("the next {what} is {expected}, not {got}")]
    Gap {
        /// `event` or `journal entry`.
        what: &'static str,
        /// The number that comes next.
        expected: u64,
        /// The number that came.
        got: u64,
    },
    /// The card has its decision.
    #[error("card {card} is already decided: {answer}")]
    Decided {
        /// The card.
        card: MessageId,
        /// How.
        answer: CardAnswer,
    },
    /// Nobody decided about the card in time.
    #[error("card {card} could be decided until {at}; ask again for what it was about")]
    Expired {
        /// The card.
        card: MessageId,
        /// When its time was up.
        at: Timestamp,
    },
    /// The card asks for something else than what was posted.
    #[error("card {card} does not ask for this")]
    WrongAnswer {
        /// The card.
        card: MessageId,
    },
    /// The idempotency key stands for another request.
    #[error("the idempotency key {key:?} was used for another request, input {n}")]
    KeyReused {
        /// The key.
        key: String,
        /// The input it stands for.
        n: u64,
    },
    /// A commit consumes inputs that are not there or are consumed already.
    #[error("not every input of {0:?} is waiting to be consumed")]
    NotWaiting(Vec<u64>),
    /// The captured action has changed since it was read.
    #[error("the captured action is at revision {current}, not {expected}")]
    Stale {
        /// The revision in force.
        current: u64,
        /// The one the caller read.
        expected: u64,
    },
    /// Somebody else is applying the captured action.
    #[error("captured action {index} is being applied at this moment")]
    BeingApplied {
        /// Its number.
        index: u32,
        /// When they are held to be gone, unless they go on.
        until: Timestamp,
    },
    /// A job of that id or idempotency key is another one.
    #[error("job {job} was enqueued under the same id or idempotency key, and is another")]
    JobKeyReused {
        /// The job that is there.
        job: JobId,
    },
    /// The job's status does not allow it.
    #[error("job {job} is {}", status_name(*.status))]
    JobStands {
        /// The job.
        job: JobId,
        /// Where it stands.
        status: JobStatus,
    },
    /// A fork names a place the session does not have.
    #[error("the session cannot be forked there: {0}")]
    NoSuchPlace(String),
}

const fn status_name(status: JobStatus) -> &'static str {
    match status {
        JobStatus::Waiting => "waiting",
        JobStatus::Running => "running",
        JobStatus::Done => "done",
        JobStatus::Dead => "a dead letter",
        JobStatus::Cancelled => "called off",
    }
}

fn show(turn: &Option<TurnId>) -> &str {
    turn.as_ref().map_or("none", TurnId::as_str)
}

impl StoreError {
    /// Whether the same request may succeed a little later.
    pub const fn retryable(&self) -> bool {
        use StoreError::*;
        match self {
            Busy { .. } | Unavailable { .. } => true,
            NotFound { .. }
            | Fenced { .. }
            | Conflict { .. }
            | Corrupt { .. }
            | Full { .. }
            | Other { .. } => false,
        }
    }

    /// What the reader can do about it.
    pub const fn hint(&self) -> &'static str {
        use StoreError::*;
        match self {
            NotFound { .. } => "check the id",
            Busy { .. } => "wait until its turn is done, or stop it",
            Fenced { .. } => {
                "stop working on this session; its new owner goes on from what is stored"
            }
            Conflict { .. } => "read the session again and decide anew",
            Corrupt { .. } => {
                "restore the database from a backup, or use the version that wrote it"
            }
            Full { .. } => "free space on the disk that holds the database; nothing stored is lost",
            Unavailable { .. } => {
                "check that the database is there and not locked by another program, and try again"
            }
            Other { .. } => "look at the cause",
        }
    }

    /// The error with its chain of causes and the way out, on one line.
    pub fn report(&self) -> String {
        let mut text = self.to_string();
        let mut next = self.source();
        while let Some(cause) = next {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            next = cause.source();
        }
        text.push_str(" (");
        text.push_str(self.hint());
        text.push(')');
        text
    }
}

impl From<Conflict> for StoreError {
    fn from(what: Conflict) -> Self {
        Self::Conflict { what }
    }
}
