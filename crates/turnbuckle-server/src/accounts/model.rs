//! What is written.

use serde_json::Value;
use turnbuckle_core::ids::{SessionId, TenantId, UserId};
use turnbuckle_core::time::Timestamp;

/// An entry for the audit log.
#[derive(Clone, Debug, PartialEq)]
pub struct Audit {
    /// The organisation.
    pub tenant: TenantId,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub user: UserId,
    /// With which API key.
    pub key: Option<String>,
    /// What was done, such as `approval.approve`.
    pub action: String,
    /// To what.
    pub subject: String,
    /// In which session.
    pub session: Option<SessionId>,
    /// More about it.
    pub detail: Value,
    /// The request's id.
    pub request: String,
}
