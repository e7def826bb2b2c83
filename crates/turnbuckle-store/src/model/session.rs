//! Sessions: the row, who owns it, what an owner loads, forks.

use crate::error::Conflict;
use crate::model::InboxItem;
use crate::model::TurnLog;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use turnbuckle_core::cut::cut;
use turnbuckle_core::ids::AgentName;
use turnbuckle_core::ids::SessionId;
pub use turnbuckle_core::ids::SessionKey;
use turnbuckle_core::ids::TurnId;
use turnbuckle_core::ids::UserId;
use turnbuckle_core::message::{Message, MessageState};
use turnbuckle_core::outcome::{AbortReason, Outcome};
use turnbuckle_core::time::Timestamp;

/// A session to create.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSession {
    /// Its id and tenant.
    pub key: SessionKey,
    /// The person it belongs to.
    pub user: UserId,
    /// The agent it talks to.
    pub agent: AgentName,
    /// Its title, when it has one from the start.
    pub title: Option<String>,
    /// The model it keeps.
    pub model: Option<String>,
    /// The first state; opaque to the store.
    pub state: Option<String>,
    /// Now.
    pub now: Timestamp,
}

/// The small row of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Its id and tenant.
    #[serde(flatten)]
    pub key: SessionKey,
    /// The person it belongs to.
    pub user: UserId,
    /// The agent it talks to.
    pub agent: AgentName,
    /// Its title.
    pub title: Option<String>,
    /// The model it keeps.
    pub model: Option<String>,
    /// When it was created.
    pub created: Timestamp,
    /// When a turn last began, paused or ended, or the title changed. Lists are ordered by it.
    pub updated: Timestamp,
    /// How many commits it has seen.
    pub version: u64,
    /// The fence in force. It rises with every claim and every release.
    pub fence: u64,
    /// Who holds it, as of their last claim or renewal; the lease may have run out.
    pub lease: Option<Lease>,
    /// The number of its next event; the first is 1.
    pub next_seq: u64,
    /// What it is doing.
    pub status: SessionStatus,
    /// The turn that is not finished.
    pub turn: Option<TurnId>,
    /// How many posted inputs wait to be consumed.
    pub pending: u64,
    /// Inputs below this number were there when the owner left for a pause; they are for after it. See
    /// [`Release::Keeping`].
    #[serde(default)]
    pub kept_below: u64,
    /// The session it was forked from.
    pub forked_from: Option<SessionId>,
    /// Why no worker takes it up by itself, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked: Option<Parked>,
}

/// Why a session is set aside, for somebody to look at it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parked {
    /// What went wrong, for people.
    pub reason: String,
    /// When.
    pub at: Timestamp,
}

/// The right to work on a session for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The name of the process that holds it.
    pub owner: String,
    /// When it runs out unless renewed.
    pub until: Timestamp,
}

/// What a session is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// No turn is open.
    Idle,
    /// A turn runs, or did when its owner died.
    Running,
    /// A turn waits for people.
    Paused,
}

/// What a claim gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The caller owns the session now.
    Held {
        /// To be shown with every commit, renewal and release.
        fence: u64,
        /// The row as claimed.
        session: Box<Session>,
    },
    /// Somebody else does.
    Busy {
        /// Who.
        owner: String,
        /// Until when, unless they renew.
        until: Timestamp,
    },
}

/// When a release takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// Only when no input waits, so that none is overlooked.
    WhenDrained,
    /// Only when no input numbered `below` or more waits: a turn is paused, and the earlier ones are messages that were queued
    /// behind it. While the pause lasts they make the session neither [`claimable`](crate::Store::claimable) nor unfinished.
    Keeping {
        /// The first number that is not kept.
        below: u64,
    },
    /// At once: the process ends, and what waits is for the next owner.
    HandOver,
}

/// What a release gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The caller no longer owns the session.
    Released,
    /// Inputs wait; the caller still owns the session and must see to them first.
    StillPending(u64),
}

/// All an owner needs to go on with a session, of one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The row.
    pub session: Session,
    /// The state last committed; opaque to the store.
    pub state: Option<String>,
    /// Every message, cards included; the index is the position.
    pub messages: Vec<Message>,
    /// The turn that is not finished.
    pub turn: Option<TurnLog>,
    /// Why the journal of that turn cannot be read; none of it is in `turn` then. All else can be, so that whoever owns the
    /// session can set the turn aside.
    pub unreadable: Option<Arc<str>>,
    /// The inputs that wait, oldest first.
    pub inbox: Vec<InboxItem>,
}

/// Where to fork. What still runs or waits stays with the original; a turn that is cut short is one that was stopped there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForkAt {
    /// After everything.
    End,
    /// Before the message at this position.
    Position(u32),
    /// After this turn, which must be finished.
    Turn(TurnId),
    /// Inside a turn: after the first steps of it, each of which is a model call with the tools that it asked for.
    Step {
        /// The turn, which may still run.
        turn: TurnId,
        /// How many, from 1. The last of them must be over.
        steps: u32,
    },
}

/// The turn that a fork ends inside of.
pub(crate) struct CutTurn {
    /// Its messages as they are copied.
    pub(crate) messages: Vec<Message>,
    /// How it ended there.
    pub(crate) outcome: Outcome,
}

impl CutTurn {
    /// Of the turn's messages.
    pub(crate) fn new(messages: Vec<Message>, steps: u32) -> Result<Self, Conflict> {
        let messages = cut(messages, steps).map_err(|no| Conflict::NoSuchPlace(no.0))?;
        let outcome = messages.iter().find_map(|message| match message {
            Message::Assistant(answer) => match &answer.state {
                MessageState::Finished { outcome } => Some(outcome.clone()),
                MessageState::Running | MessageState::Paused => None,
            },
            Message::User(_) | Message::System(_) => None,
        });
        let stopped = Outcome::Aborted { reason: AbortReason::Stopped };
        Ok(Self { messages, outcome: outcome.unwrap_or(stopped) })
    }
}

/// A copy of a session up to a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fork {
    /// The original.
    pub from: SessionKey,
    /// Where.
    pub at: ForkAt,
    /// The id of the copy.
    pub id: SessionId,
    /// The person the copy belongs to.
    pub user: UserId,
    /// The title of the copy; absent for the original's.
    pub title: Option<String>,
    /// The state of the copy; absent for the original's of now.
    pub state: Option<String>,
    /// Now.
    pub now: Timestamp,
}
