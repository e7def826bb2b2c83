//! Cards: what a person or the front end is asked.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use turnbuckle_core::allowance::Remember;
use turnbuckle_core::ids::{AgentName, CallId, MessageId, SessionId, ToolName, TurnId, UserId};
use turnbuckle_core::json::{Json, present};
use turnbuckle_core::message::{ApprovalCard, Asks, CardStatus, SystemBody};
use turnbuckle_core::time::Timestamp;
use turnbuckle_store::Card;
use utoipa::{IntoParams, ToSchema};

/// What a card asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AsksFor {
    /// A person's decision.
    Decision,
    /// The result of a tool that runs in the front end.
    ClientResult,
}

impl From<Asks> for AsksFor {
    fn from(asks: Asks) -> Self {
        match asks {
            Asks::Decision => Self::Decision,
            Asks::ClientResult => Self::ClientResult,
        }
    }
}

/// Where a card stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalStatus {
    /// Nobody has decided.
    Pending,
    /// A decision is stored and has not taken effect yet.
    Answered,
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

impl From<CardStatus> for ApprovalStatus {
    fn from(status: CardStatus) -> Self {
        match status {
            CardStatus::Pending => Self::Pending,
            CardStatus::Approved => Self::Approved,
            CardStatus::Rejected => Self::Rejected,
            CardStatus::Expired => Self::Expired,
            CardStatus::Superseded => Self::Superseded,
            CardStatus::Cancelled => Self::Cancelled,
        }
    }
}

/// Who decided, when and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DecidedView {
    /// Who; absent when the clock or the engine decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub by: Option<UserId>,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// The arguments they changed.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub amendment: Option<Json>,
    /// What they said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For which further calls it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remember: Option<Remember>,
}

/// A card.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ApprovalView {
    /// Its id.
    #[schema(value_type = String)]
    pub id: MessageId,
    /// Its session.
    #[schema(value_type = String)]
    pub session: SessionId,
    /// Its turn.
    #[schema(value_type = String)]
    pub turn: TurnId,
    /// The call it is about.
    #[schema(value_type = String)]
    pub call: CallId,
    /// The agent that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub agent: Option<AgentName>,
    /// What it asks for.
    pub asks: AsksFor,
    /// The tool.
    #[schema(value_type = String)]
    pub tool: ToolName,
    /// The tool's name for people.
    pub title: String,
    /// Exactly the arguments that will run.
    #[schema(value_type = Value)]
    pub args: Json,
    /// The small projection of the arguments for people.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub digest: Option<Json>,
    /// Why a person is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// JSON Schema of the fields that may be amended.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub editable: Option<Json>,
    /// Where it stands.
    pub status: ApprovalStatus,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// The decision, once it has taken effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<DecidedView>,
}

impl ApprovalView {
    /// The view of a stored card; `None` for a message that is no card.
    pub fn of(card: Card) -> Option<Self> {
        let SystemBody::Approval(body) = card.message.body else { return None };
        let ApprovalCard {
            call,
            message: _,
            agent,
            asks,
            tool,
            title,
            args,
            digest,
            reason,
            editable,
            status,
            expires_at,
            decided,
        } = *body;
        let status = match (status, card.answered_by) {
            (CardStatus::Pending, Some(_)) => ApprovalStatus::Answered,
            (status, _) => status.into(),
        };
        let decided = decided.map(|d| DecidedView {
            by: d.by,
            at: d.at,
            amendment: d.amendment,
            reason: d.reason,
            remember: d.remember,
        });
        Some(Self {
            id: card.message.id,
            session: card.session.id,
            turn: card.message.turn,
            call,
            agent,
            asks: asks.into(),
            tool,
            title,
            args,
            digest,
            reason,
            editable,
            status,
            at: card.message.at,
            expires_at,
            decided,
        })
    }
}

/// Which cards by where they stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalFilter {
    /// Those nobody has decided.
    #[default]
    Pending,
    /// Those that are settled.
    Decided,
    /// All.
    All,
}

/// Which cards, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ApprovalsQuery {
    /// Where they stand; pending ones by default.
    #[param(inline)]
    pub status: Option<ApprovalFilter>,
    /// Only of this session.
    pub session: Option<String>,
    /// At most so many, 1 to 200; 50 by default.
    pub limit: Option<u32>,
    /// The `next` of the page before.
    pub cursor: Option<String>,
}

/// Yes or no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Do it.
    Approve,
    /// Do not.
    Reject,
}

/// A decision about a card.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewDecision {
    /// Yes or no.
    pub decision: Verdict,
    /// Changed arguments, with `approve` only; the others stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub amendment: Option<serde_json::Map<String, Value>>,
    /// What the person says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For which further calls it holds: `"session"`, `"user"`, or `{"for": ..., "args": [tests]}`. With `approve` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remember: Option<Remember>,
}

/// An answer to a card was stored and will take effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Answered {
    /// The card.
    #[schema(value_type = String)]
    pub approval: MessageId,
    /// Its session.
    #[schema(value_type = String)]
    pub session: SessionId,
    /// Its turn.
    #[schema(value_type = String)]
    pub turn: TurnId,
    /// Where to open the events.
    pub after: String,
}

/// The result of a tool that ran in the front end: `output` or `error`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NewToolResult {
    /// What it gave.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub output: Option<Json>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolFailure>,
}

/// Why a tool failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolFailure {
    /// What went wrong, for the model.
    pub message: String,
}
