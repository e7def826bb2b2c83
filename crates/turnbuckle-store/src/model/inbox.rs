//! Inputs posted to a session, and the cards they answer.

use crate::error::Conflict;
use crate::model::SessionKey;
use serde::{Deserialize, Serialize};
use std::fmt;
use turnbuckle_core::error::ToolError;
use turnbuckle_core::ids::MessageId;
use turnbuckle_core::ids::TurnId;
use turnbuckle_core::ids::UserId;
use turnbuckle_core::json::Json;
use turnbuckle_core::machine::Decision;
use turnbuckle_core::message::CardStatus;
use turnbuckle_core::message::SystemBody;
use turnbuckle_core::message::SystemMessage;
use turnbuckle_core::message::UserMessage;
use turnbuckle_core::time::Timestamp;

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
                (d1, o1, &a.content, &a.author, &a.origin, &a.surroundings)
                    == (d2, o2, &b.content, &b.author, &b.origin, &b.surroundings)
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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

impl Card {
    /// Whether it can still be decided. One that has its answer is left to the store, which says what that was.
    ///
    /// # Errors
    /// [`Conflict::Expired`].
    pub fn in_time(&self, now: Timestamp) -> Result<(), Conflict> {
        match &self.message.body {
            SystemBody::Approval(body) => match body.expires_at {
                Some(at) if at <= now && self.answered_by.is_none() => {
                    Err(Conflict::Expired { card: self.message.id.clone(), at })
                }
                _ => Ok(()),
            },
            SystemBody::Note { .. } => Ok(()),
        }
    }
}
