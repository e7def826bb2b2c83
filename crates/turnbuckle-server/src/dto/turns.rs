//! Turns: submitting, watching, stopping.

use super::DeliveryWish;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use turnbuckle_core::content::Content;
use turnbuckle_core::event::Event;
use turnbuckle_core::ids::{MessageId, TurnId};
use turnbuckle_core::machine::RunMode;
use turnbuckle_core::outcome::Outcome;
use turnbuckle_core::time::Timestamp;
use turnbuckle_store::TurnStatus;
use utoipa::{IntoParams, ToSchema};

/// Whether a person is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// A person reads along and decides.
    #[default]
    Interactive,
    /// Nobody is: what needs approval is set aside for review.
    Capture,
}

impl From<Mode> for RunMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Interactive => Self::Interactive,
            Mode::Capture => Self::Capture,
        }
    }
}

/// A message to submit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTurn {
    /// What it says: a text, or a list of texts, images and files.
    pub content: Content,
    /// The page of the product it is written on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    /// Where the answer will be shown, such as `email`; `chat` when it is not said. Agents may write otherwise for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surface: Option<String>,
    /// The IANA name of the time zone it is written in, such as `Europe/Vienna`: what the agent tells of times is in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// What it refers to: mentions, and what is open on the page.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<Value>,
    /// Tools that the front end offers for this turn and runs itself. Their results are given like those of other client tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<NewClientTool>,
    /// The id under which the front end knows the message; it comes back with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The model for this turn, `provider:model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether a person is there.
    #[serde(default)]
    pub mode: Mode,
    /// How it enters.
    #[serde(default)]
    pub delivery: DeliveryWish,
}

impl NewTurn {
    /// A message that says this, and nothing special about it.
    pub fn new(content: impl Into<Content>) -> Self {
        Self {
            content: content.into(),
            page: None,
            surface: None,
            time_zone: None,
            references: Vec::new(),
            tools: Vec::new(),
            client_id: None,
            model: None,
            mode: Mode::default(),
            delivery: DeliveryWish::default(),
        }
    }
}

/// A tool that the front end runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewClientTool {
    /// Its name. A tool that the agent has itself by this name stays the agent's.
    pub name: String,
    /// What it does, for the model.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of its arguments; an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub input_schema: Option<Value>,
}

/// A message was stored and will be worked on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Submitted {
    /// The turn it opens, unless it enters a running one.
    #[schema(value_type = String)]
    pub turn: TurnId,
    /// The message.
    #[schema(value_type = String)]
    pub message: MessageId,
    /// Where to open the events.
    pub after: String,
    /// Whether it was submitted before under the same idempotency key.
    pub duplicate: bool,
}

/// Where a turn stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnState {
    /// It is at work.
    Running,
    /// It waits for a person or the front end.
    Paused,
    /// It has its outcome.
    Finished,
}

impl From<TurnStatus> for TurnState {
    fn from(status: TurnStatus) -> Self {
        match status {
            TurnStatus::Running => Self::Running,
            TurnStatus::Paused => Self::Paused,
            TurnStatus::Finished => Self::Finished,
        }
    }
}

/// A turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TurnView {
    /// Its id.
    #[schema(value_type = String)]
    pub id: TurnId,
    /// Where it stands.
    pub status: TurnState,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// When it began.
    #[schema(value_type = String, format = DateTime)]
    pub started: Timestamp,
    /// When it finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended: Option<Timestamp>,
}

/// The turns of a session, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TurnList {
    /// The turns.
    pub items: Vec<TurnView>,
}

/// What becomes of a wish to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopState {
    /// The wish is stored; the turn ends soon.
    Stopping,
    /// There is nothing to stop any more.
    Ended,
}

/// A wish to stop was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stopped {
    /// The turn; absent when the session has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub turn: Option<TurnId>,
    /// What becomes of it.
    pub state: StopState,
}

/// Which events, and until when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventsQuery {
    /// Those behind this place: the last `id` of an earlier stream, `after` of an answer, or a number. A `Last-Event-ID` header
    /// wins.
    pub after: Option<String>,
    /// A turn's id, or `idle`: where the stream ends. Without it, it stays open.
    pub until: Option<String>,
    /// At most so many, for a page; 1 to 1000, 500 by default.
    pub limit: Option<u32>,
}

/// A page of stored events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventPage {
    /// The events.
    pub items: Vec<Event>,
    /// The `after` of the next page; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The data of a `turn-end` frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TurnEnd {
    /// The turn.
    #[schema(value_type = String)]
    pub turn: TurnId,
    /// How it ended, or that it waits.
    pub outcome: Outcome,
    /// The number of its last event.
    pub seq: u64,
    /// Whether nothing is queued behind it.
    pub idle: bool,
}
