//! Sessions.

use serde::{Deserialize, Serialize};
use turnbuckle_core::content::Content;
use turnbuckle_core::ids::{AgentName, SessionId, TurnId, UserId};
use turnbuckle_core::message::Message;
use turnbuckle_core::time::Timestamp;
use turnbuckle_store::{Delivery, SessionStatus};
use utoipa::{IntoParams, ToSchema};

/// A session to create.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NewSession {
    /// The agent it talks to; the default agent, when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Its title; made from the first message, when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The model it keeps, `provider:model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// What a session is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// No turn is open.
    Idle,
    /// A turn is at work.
    Running,
    /// A turn waits for a person or the front end.
    Paused,
}

impl From<SessionStatus> for Status {
    fn from(status: SessionStatus) -> Self {
        match status {
            SessionStatus::Idle => Self::Idle,
            SessionStatus::Running => Self::Running,
            SessionStatus::Paused => Self::Paused,
        }
    }
}

impl From<Status> for SessionStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Idle => Self::Idle,
            Status::Running => Self::Running,
            Status::Paused => Self::Paused,
        }
    }
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionView {
    /// Its id.
    #[schema(value_type = String)]
    pub id: SessionId,
    /// The agent it talks to.
    #[schema(value_type = String)]
    pub agent: AgentName,
    /// The person it belongs to.
    #[schema(value_type = String)]
    pub user: UserId,
    /// Its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The model it keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What it is doing.
    pub status: Status,
    /// The turn that is not finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub turn: Option<TurnId>,
    /// How much was submitted and not taken up.
    pub pending: u64,
    /// The number of the last stored event.
    pub last_seq: u64,
    /// When it was created.
    #[schema(value_type = String, format = DateTime)]
    pub created: Timestamp,
    /// When a turn last began, paused or ended, or the title changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated: Timestamp,
    /// Why its open turn cannot go on by itself, when that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_aside: Option<String>,
    /// The session it was copied from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub forked_from: Option<SessionId>,
}

impl From<turnbuckle_store::Session> for SessionView {
    fn from(s: turnbuckle_store::Session) -> Self {
        Self {
            id: s.key.id,
            agent: s.agent,
            user: s.user,
            title: s.title,
            model: s.model,
            status: s.status.into(),
            turn: s.turn,
            pending: s.pending,
            last_seq: s.next_seq.saturating_sub(1),
            created: s.created,
            updated: s.updated,
            set_aside: s.parked.map(|parked| parked.reason),
            forked_from: s.forked_from,
        }
    }
}

/// Which sessions, last updated first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SessionsQuery {
    /// Only with this text in the title or a message.
    pub q: Option<String>,
    /// Only with this agent.
    pub agent: Option<String>,
    /// Only of this person, `*` for everyone's. Without it, the caller's own. Others' are for operators.
    pub user: Option<String>,
    /// Only those that do this.
    #[param(inline)]
    pub status: Option<Status>,
    /// At most so many, 1 to 200; 50 by default.
    pub limit: Option<u32>,
    /// The `next` of the page before.
    pub cursor: Option<String>,
}

/// How much of a session to give.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SessionQuery {
    /// At most so many messages, the last ones; 0 to 1000, 200 by default.
    pub messages: Option<u32>,
}

/// A session with its messages, of one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionDetail {
    /// The session.
    pub session: SessionView,
    /// Its last messages, oldest first; those of a running turn are left out.
    pub messages: Vec<Message>,
    /// The `cursor` for the messages before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<String>,
    /// Where to open the events: what they tell follows on `messages`.
    pub after: String,
    /// What was submitted and not taken up, oldest first.
    pub queued: Vec<QueuedView>,
}

/// Something submitted that was not taken up yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueuedView {
    /// Its number in the session.
    pub n: u64,
    /// When it was submitted.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// Who submitted it; absent for the clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub by: Option<UserId>,
    /// What it is.
    #[serde(flatten)]
    pub what: QueuedKind,
}

/// What was submitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum QueuedKind {
    /// A message.
    Message {
        /// The turn it will open.
        #[schema(value_type = String)]
        turn: TurnId,
        /// How it enters.
        delivery: DeliveryWish,
        /// What it says.
        content: Content,
    },
    /// A decision about a card.
    Decision {
        /// The card.
        approval: String,
    },
    /// The result of a tool of the front end.
    ToolResult {
        /// The card that asked for it.
        approval: String,
    },
    /// A stop.
    Stop,
}

/// How a message enters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryWish {
    /// It opens the next turn.
    #[default]
    Queue,
    /// It enters the running turn at its next step; without one, it opens a turn.
    Steer,
}

impl From<DeliveryWish> for Delivery {
    fn from(wish: DeliveryWish) -> Self {
        match wish {
            DeliveryWish::Queue => Self::Queue,
            DeliveryWish::Steer => Self::Steer,
        }
    }
}

impl From<Delivery> for DeliveryWish {
    fn from(delivery: Delivery) -> Self {
        match delivery {
            Delivery::Queue => Self::Queue,
            Delivery::Steer => Self::Steer,
        }
    }
}

/// A change of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionChange {
    /// The title.
    pub title: String,
}

/// Which messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct MessagesQuery {
    /// At most so many, 1 to 1000; 200 by default.
    pub limit: Option<u32>,
    /// Those before this place: `earlier` of the session, or `next` of the page before. Without it, the last ones.
    pub cursor: Option<String>,
}

/// Messages, oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MessagePage {
    /// The messages.
    pub items: Vec<Message>,
    /// The `cursor` of the messages before these; absent at the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A copy of a session to make.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NewFork {
    /// After this turn, which must be finished unless `steps` is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// Inside that turn, after so many of its steps, from 1: a step is a model call (`iteration` of the message's parts, from 0)
    /// with the tools that it asked for. The copied turn counts as stopped there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// Before the message at this position, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<u32>,
    /// Its title; the original's, when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}
