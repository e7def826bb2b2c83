//! Triggers: turns that begin by the clock, as they stand in the store. A trigger is a schedule, and each of its runs a job.

use crate::digest::digest;
use crate::dto::Mode;
use serde::{Deserialize, Serialize};
use turnbuckle_core::ids::SessionId;
use turnbuckle_core::json::Json;
use turnbuckle_store::JobKey;

/// The queue of the jobs of triggers.
pub const QUEUE: &str = "triggers";

/// What the jobs of a trigger do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The trigger.
    pub trigger: String,
    /// Its name, which becomes the title of the sessions.
    pub name: String,
    /// The person it acts for.
    pub user: String,
    /// The agent.
    pub agent: String,
    /// What is said to it.
    pub content: String,
    /// Whether somebody is there to decide.
    pub mode: Mode,
    /// The id of the API key that made the trigger. Its quotas are asked, and what the runs use counts against them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl Run {
    /// From a payload.
    ///
    /// # Errors
    /// When it is not one of a trigger.
    pub fn read(payload: &Json) -> Result<Self, String> {
        Self::deserialize(&**payload).map_err(|e| format!("the job is not of a trigger: {e}"))
    }

    /// As a payload.
    pub fn payload(&self) -> Json {
        serde_json::to_value(self).unwrap_or_default().into()
    }

    /// The session of a job: always the same, so that a job that is done twice has one.
    pub fn session(&self, job: &JobKey) -> SessionId {
        format!("s_run_{}", digest(&[job.tenant.as_str(), job.id.as_str()])).into()
    }
}
