//! Who the caller is, what there is to talk to, keys, and the audit log.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use turnbuckle_core::time::Timestamp;
use utoipa::{IntoParams, ToSchema};

/// What a caller may do, see `docs/http-api.md`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Talks to agents in sessions of their own.
    User,
    /// Decides cards of the whole tenant.
    Approver,
    /// Looks after the sessions of the whole tenant.
    Operator,
    /// Does all of these, and sees to keys and the audit log.
    Admin,
}

/// How a request showed who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuthKind {
    /// Not at all: none is configured, and the server listens on loopback only.
    None,
    /// With an API key.
    Key,
    /// With a JWT.
    Jwt,
}

/// Who the request is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhoAmI {
    /// The organisation.
    pub tenant: String,
    /// The person.
    pub user: String,
    /// What they may do.
    pub roles: BTreeSet<Role>,
    /// How that is known.
    pub auth: AuthKind,
    /// The id of the API key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// What the server is and how it is set up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Info {
    /// The version.
    pub version: String,
    /// The model that answers by default.
    pub model: ModelInUse,
    /// The agent a session talks to when the request names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_agent: Option<String>,
    /// Whether turns run in this process.
    pub worker: bool,
    /// What a request may hold.
    pub limits: RequestLimits,
}

/// The model that answers by default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModelInUse {
    /// Its name, `provider:model`.
    pub id: String,
    /// Whether a script plays instead of a model. It must be shown.
    pub rehearsal: bool,
    /// Why this one, in words.
    pub why: String,
}

/// What a request may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RequestLimits {
    /// Bytes of a request's body, messages apart.
    pub body_bytes: u64,
    /// Bytes of a message's text.
    pub text_bytes: u64,
    /// Parts of a message.
    pub parts: u64,
    /// Bytes of one image.
    pub image_bytes: u64,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Bytes of all images and files of a message.
    pub total_bytes: u64,
    /// References of a message.
    pub references: u64,
    /// Bytes of one reference.
    pub reference_bytes: u64,
    /// Event streams of one user at once.
    pub streams_per_user: u64,
}

/// An agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentView {
    /// Its name.
    pub name: String,
    /// Its tools, in their stable order.
    pub tools: Vec<ToolView>,
}

/// A tool of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolView {
    /// Its name.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// What it does.
    pub description: String,
    /// What running it does to the world.
    pub effect: ToolEffect,
    /// Whether a person is asked.
    pub approval: ToolApproval,
    /// Where it executes.
    pub runs_on: ToolPlace,
    /// JSON Schema of its arguments.
    pub input_schema: Value,
}

/// What running a tool does to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolEffect {
    /// Reads only.
    ReadOnly,
    /// Writes; a repetition changes nothing more.
    Idempotent,
    /// Writes; never repeated.
    AtMostOnce,
}

/// Whether a person is asked before a tool runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolApproval {
    /// Never.
    Never,
    /// Always.
    Always,
    /// Depends on the arguments.
    Depends,
}

/// Where a tool executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolPlace {
    /// In the server.
    Server,
    /// In the caller's front end.
    Client,
    /// As a nested turn of another agent.
    Agent,
}

/// All agents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentList {
    /// The agents, by name.
    pub items: Vec<AgentView>,
}

/// An API key to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewKey {
    /// What it is for.
    pub name: String,
    /// The person it acts for.
    pub user: String,
    /// What it may do.
    pub roles: BTreeSet<Role>,
    /// When it stops working; never, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
}

/// An API key, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyView {
    /// Its id.
    pub id: String,
    /// What it is for.
    pub name: String,
    /// The person it acts for.
    pub user: String,
    /// What it may do.
    pub roles: BTreeSet<Role>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created: Timestamp,
    /// When it stops working.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub revoked_at: Option<Timestamp>,
}

/// An API key as it is shown once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyCreated {
    /// What to send as `Authorization: Bearer`. It cannot be shown again.
    pub secret: String,
    /// The key.
    #[serde(flatten)]
    pub key: KeyView,
}

/// An entry of the audit log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// Its number in the tenant.
    pub n: u64,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// Who.
    pub user: String,
    /// With which API key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What was done, such as `approval.approve` or `session.delete`.
    pub action: String,
    /// To what: the id of a card, session, turn or key.
    pub subject: String,
    /// The session it happened in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// More about it, such as the changed fields of an amendment.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub detail: Value,
    /// The request's id.
    pub request: String,
}

/// Which part of the audit log, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AuditQuery {
    /// Only of this session.
    pub session: Option<String>,
    /// At most so many, 1 to 200; 50 by default.
    pub limit: Option<u32>,
    /// The `next` of the page before.
    pub cursor: Option<String>,
}
