//! What lies beside the conversation: captured actions, large outputs, what people allowed for good.

use crate::model::SessionKey;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use turnbuckle_core::allowance::ArgTest;
use turnbuckle_core::ids::AgentName;
use turnbuckle_core::ids::MessageId;
use turnbuckle_core::ids::SessionId;
use turnbuckle_core::ids::TenantId;
use turnbuckle_core::ids::ToolName;
use turnbuckle_core::ids::TurnId;
use turnbuckle_core::ids::UserId;
use turnbuckle_core::json::{Json, present};
use turnbuckle_core::time::Timestamp;

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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub result: Option<Json>,
}

/// A captured action where it can be found.
#[derive(Clone, Debug, PartialEq)]
pub struct CapturedIn {
    /// Its session.
    pub session: SessionKey,
    /// When it was captured.
    pub at: Timestamp,
    /// The action.
    pub captured: Captured,
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

/// A large output without its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobInfo {
    /// Its id.
    pub id: String,
    /// What kind of content it is.
    pub media_type: String,
    /// Bytes of the content.
    pub size: u64,
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

/// "Always allow this", said by a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Allowance {
    /// The card beside which it was said.
    pub id: MessageId,
    /// Who said it; it holds for calls on their behalf only.
    pub user: UserId,
    /// The session in which it holds; absent for every session of the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The agent.
    pub agent: AgentName,
    /// The tool.
    pub tool: ToolName,
    /// Tests that a call's arguments must pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<ArgTest>,
    /// When.
    pub at: Timestamp,
}

/// An allowance among those of everyone.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptAllowance {
    /// Its place among them; it rises.
    pub n: u64,
    /// Whose organisation it is.
    pub tenant: TenantId,
    /// The allowance.
    pub allowance: Allowance,
}

impl Allowance {
    /// Whether both allow the same to the same person.
    pub fn says_the_same(&self, other: &Self) -> bool {
        (&self.user, &self.session, &self.agent, &self.tool, &self.args)
            == (&other.user, &other.session, &other.agent, &other.tool, &other.args)
    }
}
