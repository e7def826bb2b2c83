//! What lies beside the conversation: captured actions and large outputs.

use crate::model::SessionKey;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use turnbuckle_core::ids::TurnId;
use turnbuckle_core::json::Json;

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
