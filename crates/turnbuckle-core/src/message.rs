//! What a session stores: user, assistant and system messages.

use crate::allowance::Remember;
use crate::content::Content;
use crate::ids::{AgentName, CallId, MessageId, ToolName, TurnId, UserId};
use crate::json::{Json, present};
use crate::outcome::Outcome;
use crate::part::{Part, ToolCallPart};
use crate::time::Timestamp;
use crate::usage::{IterationUsage, Usage};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The schema number written into assistant messages; raised when their shape changes.
pub const MESSAGE_SCHEMA: u16 = 1;

/// A stored message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// From a person, or posted in a person's place.
    User(UserMessage),
    /// Everything one turn said and did.
    Assistant(Box<AssistantMessage>),
    /// From the product: cards and notes.
    System(SystemMessage),
}

impl Message {
    /// The message's id.
    pub fn id(&self) -> &MessageId {
        match self {
            Message::User(m) => &m.id,
            Message::Assistant(m) => &m.id,
            Message::System(m) => &m.id,
        }
    }

    /// The turn it belongs to.
    pub fn turn(&self) -> &TurnId {
        match self {
            Message::User(m) => &m.turn,
            Message::Assistant(m) => &m.turn,
            Message::System(m) => &m.turn,
        }
    }
}

/// Who really wrote a user message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Origin {
    /// A person in the chat.
    #[default]
    Person,
    /// The end of a background task.
    Task {
        /// The kind of task.
        task: String,
        /// The task's id.
        reference: String,
    },
    /// A message of an outside channel, replayed.
    Channel {
        /// The channel's id of it; replaying twice adds nothing.
        message: String,
    },
    /// A trigger started the run.
    Trigger {
        /// Its kind, such as `schedule`.
        trigger: String,
    },
}

/// Where a message was written, and how its answer will be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Surroundings {
    /// The page of the product.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    /// Where the answer is shown, such as `chat` or `email`; absent for the engine's own. Sections of the prompt may depend on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub surface: Option<Arc<str>>,
    /// IANA name of the writer's time zone, when it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub time_zone: Option<Arc<str>>,
    /// What the message refers to: mentions and what is open on the page.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<crate::json::AnyJson>))]
    pub references: Vec<Json>,
    /// Tools that the front end offers with the message, and runs itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ClientTool>,
}

/// A tool that a front end offers for a turn. Agents have their own besides, which no front end can replace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClientTool {
    /// Its name.
    pub name: ToolName,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its arguments.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::json::AnyJson))]
    pub input_schema: Json,
}

/// A message to the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UserMessage {
    /// Its id.
    pub id: MessageId,
    /// The turn it opened.
    pub turn: TurnId,
    /// When it was accepted.
    pub at: Timestamp,
    /// What it says.
    pub content: Content,
    /// Who wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<UserId>,
    /// Whether a person wrote it.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub origin: Origin,
    /// Where it was written.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub surroundings: Surroundings,
    /// The id under which the front end that sent it knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
}

/// Where an assistant message stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum MessageState {
    /// The turn goes on.
    Running,
    /// It waits for people.
    Paused,
    /// It is done.
    Finished {
        /// How it ended.
        outcome: Outcome,
    },
}

/// One turn of the assistant, over every iteration and every pause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AssistantMessage {
    /// The shape's number, see [`MESSAGE_SCHEMA`].
    pub schema: u16,
    /// Its id.
    pub id: MessageId,
    /// The turn.
    pub turn: TurnId,
    /// The agent that began it.
    pub agent: AgentName,
    /// When it began.
    pub at: Timestamp,
    /// Where it stands.
    pub state: MessageState,
    /// What it said and did, in order.
    pub parts: Vec<Part>,
    /// Every model call.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub iterations: Vec<IterationUsage>,
    /// Display snapshots of what the text links to.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, crate::json::AnyJson>))]
    pub link_snapshots: BTreeMap<String, Json>,
}

impl AssistantMessage {
    /// All text for the reader, parts joined by a blank line.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.parts.iter().filter_map(Part::as_text).collect();
        texts.join("\n\n")
    }

    /// The tool calls, nested ones left out.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCallPart> {
        self.parts.iter().filter_map(Part::as_call)
    }

    /// Every model call, those of nested turns after its own.
    pub(crate) fn into_iterations(self) -> Vec<IterationUsage> {
        let mut all = self.iterations;
        for part in self.parts {
            if let Part::ToolCall(call) = part
                && let Some(child) = call.child
            {
                all.extend(child.into_iterations());
            }
        }
        all
    }

    /// Tokens of all model calls, nested turns included.
    pub fn usage(&self) -> Usage {
        let mut total = Usage::default();
        for call in &self.iterations {
            total.add(&call.usage);
        }
        for child in self.calls().filter_map(|call| call.child.as_ref()) {
            total.add(&child.usage());
        }
        total
    }
}

/// A message of the product.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SystemMessage {
    /// Its id.
    pub id: MessageId,
    /// The turn it belongs to.
    pub turn: TurnId,
    /// When it was made.
    pub at: Timestamp,
    /// What it holds.
    pub body: SystemBody,
}

/// The content of a [`SystemMessage`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SystemBody {
    /// Context that is neither the user's nor the agent's, such as a teammate's reply.
    Note {
        /// The text.
        text: String,
    },
    /// A question to a person.
    Approval(Box<ApprovalCard>),
}

/// What a card asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Asks {
    /// A person's decision.
    #[default]
    Decision,
    /// The result of a tool that runs in the caller's front end.
    ClientResult,
}

/// Where a card stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum CardStatus {
    /// Nobody has decided.
    Pending,
    /// Approved, or answered by the front end.
    Approved,
    /// Rejected.
    Rejected,
    /// Nobody decided in time.
    Expired,
    /// A new message took its place.
    Superseded,
    /// The turn was stopped.
    Cancelled,
}

/// Who decided, when and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Decided {
    /// Who; absent when the clock or the engine decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<UserId>,
    /// When.
    pub at: Timestamp,
    /// The arguments they changed.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::json::AnyJson>))]
    pub amendment: Option<Json>,
    /// What they said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For which further calls it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remember: Option<Remember>,
}

impl Decided {
    /// Decided by the clock or the engine.
    pub const fn alone(at: Timestamp) -> Self {
        Self { by: None, at, amendment: None, reason: None, remember: None }
    }
}

/// A persisted question about one tool call: the same on every replica, after every reload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ApprovalCard {
    /// The call it is about.
    pub call: CallId,
    /// The assistant message that holds the call.
    pub message: MessageId,
    /// The agent that asked for it. Cards of an older version do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// What it asks for.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub asks: Asks,
    /// The tool.
    pub tool: ToolName,
    /// The tool's name for people.
    pub title: String,
    /// Exactly the arguments that will run.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::json::AnyJson))]
    pub args: Json,
    /// The small projection of the arguments for people.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::json::AnyJson>))]
    pub digest: Option<Json>,
    /// Why a person is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// JSON Schema of the fields that may be changed.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::json::AnyJson>))]
    pub editable: Option<Json>,
    /// Where it stands.
    pub status: CardStatus,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<Decided>,
}
