//! Turns and the commits that carry them on.

use crate::model::Allowance;
use crate::model::Blob;
use crate::model::NewCaptured;
use crate::model::SessionKey;
use crate::model::SessionStatus;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use turnbuckle_core::ids::TurnId;
use turnbuckle_core::machine::Recorded;
use turnbuckle_core::message::Message;
use turnbuckle_core::message::SystemMessage;
use turnbuckle_core::outcome::Outcome;
use turnbuckle_core::pack::Packed;
use turnbuckle_core::time::Timestamp;

/// Where a turn stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnStatus {
    /// It runs, or did when its owner died.
    Running,
    /// It waits for people.
    Paused,
    /// It has its outcome.
    Finished,
}

/// The row of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnRecord {
    /// The turn.
    pub id: TurnId,
    /// What the engine needs to build its machine again; opaque to the store.
    pub spec: String,
    /// Where it stands.
    pub status: TurnStatus,
    /// How it ended; for a paused turn [`Outcome::Paused`] or nothing, as committed.
    pub outcome: Option<Outcome>,
    /// When it was opened.
    pub started: Timestamp,
    /// When it finished.
    pub ended: Option<Timestamp>,
    /// Inputs with lower numbers were in the inbox when it last paused; 0 if it never did. It is the order of the store, since
    /// the clocks of those who post and of the turn's owner may differ.
    #[serde(default)]
    pub queued_below: u64,
}

/// A turn with everything that was told to its machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnLog {
    /// The turn.
    pub turn: TurnRecord,
    /// Its journal, from entry 0, without gaps.
    pub journal: Vec<Recorded>,
}

/// Everything that changes in one step, written as one transaction. Begin with [`Commit::new`] and fill in what there is.
#[derive(Clone, Debug, PartialEq)]
pub struct Commit {
    /// The session.
    pub key: SessionKey,
    /// The fence of the caller's claim.
    pub fence: u64,
    /// Now.
    pub now: Timestamp,
    /// A turn that begins. No other may be open. Journal entries of this commit belong to it.
    pub open_turn: Option<OpenTurn>,
    /// Entries of the open turn, continuing where its journal ends (0 for a new turn).
    pub journal: Vec<Recorded>,
    /// Events, continuing at the session's `next_seq`.
    pub events: Packed,
    /// Messages in order: a known id is replaced in place, a new one is appended.
    pub messages: Vec<Message>,
    /// Cards. Each is also a message of the session, appended after `messages` (replaced when known), and can be found by id.
    pub cards: Vec<SystemMessage>,
    /// Captured actions that are new, or known ones to replace.
    pub captured: Vec<NewCaptured>,
    /// The new state, when it changed.
    pub state: Option<String>,
    /// Where the open turn stands now. A finished turn is no longer the session's open one.
    pub turn: Option<TurnChange>,
    /// What the session does now, when that changed.
    pub session_status: Option<SessionStatus>,
    /// Numbers of the inputs this commit has dealt with. All must be waiting.
    pub consumed: Vec<u64>,
    /// A title for a session that has none; it never takes the place of one that a person gave.
    pub title: Option<String>,
    /// The model the session keeps from now on, unless somebody chose another meanwhile.
    pub model: Option<KeptModel>,
    /// Large outputs kept aside.
    pub blobs: Vec<Blob>,
    /// What people allowed for good. One that says the same as another of that person changes nothing.
    pub allowances: Vec<Allowance>,
    /// What the model calls among the events are booked to beside the person, such as the id of an API key.
    pub account: Option<Arc<str>>,
    /// Hand the session back with it, as [`Store::release`](crate::Store::release) would
    /// [when drained](crate::Release::WhenDrained): not while an input waits. [`Committed::released`] tells.
    pub release: bool,
}

/// A model to keep in the place of the one that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptModel {
    /// What the session kept when the caller read it.
    pub instead_of: Option<String>,
    /// What it keeps now, if that is still so.
    pub model: String,
}

impl Commit {
    /// A commit that changes nothing yet.
    pub fn new(key: SessionKey, fence: u64, now: Timestamp) -> Self {
        Self {
            key,
            fence,
            now,
            open_turn: None,
            journal: Vec::new(),
            events: Packed::default(),
            messages: Vec::new(),
            cards: Vec::new(),
            captured: Vec::new(),
            state: None,
            turn: None,
            session_status: None,
            consumed: Vec::new(),
            title: None,
            model: None,
            blobs: Vec::new(),
            allowances: Vec::new(),
            account: None,
            release: false,
        }
    }

    /// Whether a session whose fence is this may have been given back by this commit, so that it is no wonder that another
    /// fence is in force.
    pub(crate) const fn gave_back(&self, fence: u64) -> bool {
        self.release && fence > self.fence
    }
}

/// A turn to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenTurn {
    /// Its id, new in the session.
    pub id: TurnId,
    /// What the engine needs to build its machine again; opaque to the store.
    pub spec: String,
}

/// Where the open turn stands after a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnChange {
    /// The open turn.
    pub id: TurnId,
    /// Where it stands.
    pub status: TurnStatus,
    /// How it ended.
    pub outcome: Option<Outcome>,
}

/// What a commit left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The session's version.
    pub version: u64,
    /// The number of the next event.
    pub next_seq: u64,
    /// How many inputs wait; an owner that sees some reads the inbox.
    pub pending: u64,
    /// The caller no longer owns the session.
    pub released: bool,
}
