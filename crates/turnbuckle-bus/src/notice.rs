//! What is told.

use crate::live::Live;
use std::sync::Arc;
use turnbuckle_core::ids::{SessionKey, TurnId};

/// What is told to those who watch a session, mostly by its owner.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Notice {
    /// Events as they happened, in order; they may not be committed yet, and never be if the owner dies now.
    Events(Arc<Live>),
    /// All events up to this number are in the store.
    Committed {
        /// The number of the last committed event.
        seq: u64,
    },
    /// Somebody gave the session a title outside any turn; the store has it.
    Titled,
    /// The session was deleted.
    Deleted,
}

/// What workers are told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Call {
    /// Inputs wait in a session's inbox. Its owner reads it; when it has none, somebody shall claim it.
    Inbox {
        /// The session.
        session: SessionKey,
    },
    /// Stop a turn now, wherever it runs. The wish itself is an input of the inbox; this only makes it quick.
    Stop {
        /// The session.
        session: SessionKey,
        /// The turn that is meant; absent for whichever runs.
        turn: Option<TurnId>,
    },
    /// Somebody begins to watch a session whose turn is at work. Its owner tells again what is not committed yet; those who
    /// have it already pass over it.
    Recall {
        /// The session.
        session: SessionKey,
    },
    /// There is work in a queue.
    Work {
        /// The queue.
        queue: Arc<str>,
    },
}

/// What a listener hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard<T> {
    /// What somebody told.
    Told(T),
    /// Something may have been missed: look at the store.
    Lagged,
}
