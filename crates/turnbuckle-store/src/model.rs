//! What a store takes and gives.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use turnbuckle_core::error::ToolError;
use turnbuckle_core::event::Event;
use turnbuckle_core::ids::{AgentName, MessageId, SessionId, TenantId, TurnId, UserId};
use turnbuckle_core::json::Json;
use turnbuckle_core::machine::{Decision, Recorded};
use turnbuckle_core::message::{CardStatus, Message, SystemMessage, UserMessage};
use turnbuckle_core::outcome::Outcome;
use turnbuckle_core::time::Timestamp;

/// A session as its tenant may name it. An id under another tenant names nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionKey {
    /// Whose it is.
    pub tenant: TenantId,
    /// Its id, unique over all tenants.
    pub id: SessionId,
}

impl SessionKey {
    /// Names a session.
    pub fn new(tenant: impl Into<TenantId>, id: impl Into<SessionId>) -> Self {
        Self { tenant: tenant.into(), id: id.into() }
    }
}

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
    /// The session it was forked from.
    pub forked_from: Option<SessionId>,
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
}

/// A turn with everything that was told to its machine.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnLog {
    /// The turn.
    pub turn: TurnRecord,
    /// Its journal, from entry 0, without gaps.
    pub journal: Vec<Recorded>,
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
    /// The inputs that wait, oldest first.
    pub inbox: Vec<InboxItem>,
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
    pub events: Vec<Event>,
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
    /// The new title.
    pub title: Option<String>,
    /// The model the session keeps from now on.
    pub model: Option<String>,
    /// Large outputs kept aside.
    pub blobs: Vec<Blob>,
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
            events: Vec::new(),
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
        }
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
}

/// How a user message enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// It opens the next turn.
    Queue,
    /// It enters the running turn at its next step boundary.
    Steer,
}

/// What anyone may post to a session, whoever owns it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Posted {
    /// A user message.
    Message {
        /// How it enters.
        delivery: Delivery,
        /// The message.
        message: Box<UserMessage>,
        /// Choices for the turn, such as the model or the run mode; opaque to the store.
        #[serde(default)]
        options: Json,
    },
    /// A decision about a card.
    Decision {
        /// The card.
        card: MessageId,
        /// The decision.
        decision: Decision,
        /// Who decided; absent for the clock.
        by: Option<UserId>,
    },
    /// The result of a tool that ran in the caller's front end.
    ClientResult {
        /// The card that asked for it.
        card: MessageId,
        /// The result or the failure.
        result: Result<Json, ToolError>,
        /// Whose front end.
        by: Option<UserId>,
    },
    /// Stop the turn.
    Stop {
        /// The turn that is meant; absent for whichever runs.
        turn: Option<TurnId>,
        /// Who asks.
        by: Option<UserId>,
    },
}

impl Posted {
    /// The card it answers.
    pub fn card(&self) -> Option<&MessageId> {
        match self {
            Posted::Decision { card, .. } | Posted::ClientResult { card, .. } => Some(card),
            Posted::Message { .. } | Posted::Stop { .. } => None,
        }
    }

    /// Whether both are the same request. What the server mints for a message (its id, turn and time) does not count, since
    /// a client that repeats itself does not choose them.
    pub fn same_request(&self, other: &Posted) -> bool {
        match (self, other) {
            (
                Posted::Message { delivery: d1, message: a, options: o1 },
                Posted::Message { delivery: d2, message: b, options: o2 },
            ) => {
                (d1, o1, &a.text, &a.author, &a.origin, &a.surroundings)
                    == (d2, o2, &b.text, &b.author, &b.origin, &b.surroundings)
            }
            (a, b) => a == b,
        }
    }
}

/// An input to post.
#[derive(Clone, Debug, PartialEq)]
pub struct Post {
    /// The session.
    pub key: SessionKey,
    /// The caller's idempotency key: posting twice under one key adds one input.
    pub idempotency_key: Option<String>,
    /// The input.
    pub input: Posted,
    /// Now.
    pub now: Timestamp,
}

/// An input in a session's inbox.
#[derive(Clone, Debug, PartialEq)]
pub struct InboxItem {
    /// Its number in the session, from 1.
    pub n: u64,
    /// When it was posted.
    pub at: Timestamp,
    /// What was posted.
    pub input: Posted,
}

/// What a post gave.
#[derive(Clone, Debug, PartialEq)]
pub enum Receipt {
    /// The input waits for the session's owner.
    Accepted(InboxItem),
    /// The same key came before; this is the input of then, consumed or not.
    Duplicate(InboxItem),
}

impl Receipt {
    /// The input.
    pub const fn item(&self) -> &InboxItem {
        match self {
            Receipt::Accepted(item) | Receipt::Duplicate(item) => item,
        }
    }
}

/// How a card was answered.
#[derive(Clone, Debug, PartialEq)]
pub enum CardAnswer {
    /// The answer is committed.
    Settled(CardStatus),
    /// The answer waits for the session's owner.
    Posted(Posted),
}

impl fmt::Display for CardAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, by) = match self {
            CardAnswer::Settled(status) => {
                let verb = match status {
                    CardStatus::Pending => "pending",
                    CardStatus::Approved => "approved",
                    CardStatus::Rejected => "rejected",
                    CardStatus::Expired => "expired",
                    CardStatus::Superseded => "superseded by a newer message",
                    CardStatus::Cancelled => "cancelled",
                };
                (verb, None)
            }
            CardAnswer::Posted(Posted::Decision { decision, by, .. }) => {
                let verb = match decision {
                    Decision::Approve { amendment: None, .. } => "approved",
                    Decision::Approve { amendment: Some(_), .. } => "approved with changes",
                    Decision::Reject { .. } => "rejected",
                    Decision::Expire => "expired",
                };
                (verb, by.as_ref())
            }
            CardAnswer::Posted(Posted::ClientResult { by, .. }) => {
                ("answered by the front end", by.as_ref())
            }
            CardAnswer::Posted(Posted::Message { .. } | Posted::Stop { .. }) => ("answered", None),
        };
        f.write_str(verb)?;
        match by {
            Some(user) => write!(f, " by {user}"),
            None => Ok(()),
        }
    }
}

/// A card where it can be found by id.
#[derive(Clone, Debug, PartialEq)]
pub struct Card {
    /// Its session.
    pub session: SessionKey,
    /// The card as last committed.
    pub message: SystemMessage,
    /// The number of the input that answers it, once one is posted.
    pub answered_by: Option<u64>,
}

/// Which cards to list, oldest first.
#[derive(Clone, Debug, PartialEq)]
pub struct CardQuery {
    /// Whose.
    pub tenant: TenantId,
    /// Only of this session.
    pub session: Option<SessionId>,
    /// Only with this status.
    pub status: Option<CardStatus>,
    /// Go on after this place.
    pub after: Option<Cursor>,
    /// At most so many.
    pub limit: u32,
}

/// Which sessions to list, last updated first.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionQuery {
    /// Whose.
    pub tenant: TenantId,
    /// Only of this person.
    pub user: Option<UserId>,
    /// Only with this text in the title, upper and lower case alike.
    pub title_contains: Option<String>,
    /// Go on after this place.
    pub after: Option<Cursor>,
    /// At most so many.
    pub limit: u32,
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Where to go on; absent on the last page.
    pub next: Option<Cursor>,
}

/// Makes a page of one item more than fit, if there are so many.
pub(crate) fn page<T>(mut items: Vec<T>, limit: u32, place: impl Fn(&T) -> Cursor) -> Page<T> {
    let limit = limit as usize;
    let more = items.len() > limit;
    items.truncate(limit);
    let next = if more { items.last().map(place) } else { None };
    Page { items, next }
}

/// A place in a list: the last item seen. Prints as text for a query string and reads back.
///
/// Items that nobody changes are seen exactly once over all pages; one that moves to the top meanwhile is not seen twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Its time.
    pub at: Timestamp,
    /// Its id.
    pub id: String,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.at.as_millis(), self.id)
    }
}

/// Text that is not a [`Cursor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor of this list; begin at the first page")]
pub struct NotACursor;

impl FromStr for Cursor {
    type Err = NotACursor;

    fn from_str(text: &str) -> Result<Self, NotACursor> {
        let (at, id) = text.split_once('.').ok_or(NotACursor)?;
        let at = at.parse().map_err(|_| NotACursor)?;
        Ok(Self { at: Timestamp::from_millis(at), id: id.to_owned() })
    }
}

/// Where to fork. Only finished turns are copied: what still runs or waits stays with the original.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForkAt {
    /// After everything.
    End,
    /// Before the message at this position.
    Position(u32),
    /// After this turn, which must be finished.
    Turn(TurnId),
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

/// Where a captured action stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CapturedStatus {
    /// Nobody has reviewed it.
    Pending,
    /// It is being applied; an owner that dies here leaves the outcome unknown.
    Applying,
    /// It was executed.
    Applied,
    /// It was executed and failed.
    Failed,
    /// A person said no.
    Rejected,
    /// It depends on one that failed or was rejected.
    Skipped,
}

/// A captured action to store.
#[derive(Clone, Debug, PartialEq)]
pub struct NewCaptured {
    /// The turn that captured it.
    pub turn: TurnId,
    /// Its index over the whole run.
    pub index: u32,
    /// The action; opaque to the store.
    pub action: Json,
}

/// An action that was captured instead of executed.
#[derive(Clone, Debug, PartialEq)]
pub struct Captured {
    /// The turn that captured it.
    pub turn: TurnId,
    /// Its index over the whole run.
    pub index: u32,
    /// Rises with every change; an update names the one it read.
    pub revision: u64,
    /// The action; opaque to the store.
    pub action: Json,
    /// Where it stands.
    pub status: CapturedStatus,
    /// What came of it; opaque to the store.
    pub result: Option<Json>,
}

/// A change of one captured action.
#[derive(Clone, Debug, PartialEq)]
pub struct CapturedUpdate {
    /// The session.
    pub key: SessionKey,
    /// The turn that captured it.
    pub turn: TurnId,
    /// Its index.
    pub index: u32,
    /// The revision the caller read.
    pub expected: u64,
    /// Where it stands now.
    pub status: CapturedStatus,
    /// The edited action, when a person changed it.
    pub action: Option<Json>,
    /// What came of it, when that is known.
    pub result: Option<Json>,
}

/// A large output kept aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Its id, unique in the session. Storing another under the same id replaces it.
    pub id: String,
    /// What kind of content it is, such as `application/json`.
    pub media_type: String,
    /// The content.
    pub content: Vec<u8>,
}

/// A range of a blob's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobPart {
    /// What kind of content it is.
    pub media_type: String,
    /// Bytes of the whole content.
    pub size: u64,
    /// Which bytes these are: the range asked for, as far as the content goes.
    pub range: Range<u64>,
    /// The bytes.
    pub content: Vec<u8>,
}
