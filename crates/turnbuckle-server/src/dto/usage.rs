//! Tokens and money.

use serde::{Deserialize, Serialize};
use turnbuckle_core::time::Timestamp;
use utoipa::{IntoParams, ToSchema};

/// By what usage is summed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum UsageBy {
    /// The day, in UTC.
    Day,
    /// The model.
    Model,
    /// The agent.
    Agent,
    /// The person.
    User,
    /// The API key, by its id; empty for what came without one.
    Key,
}

impl From<UsageBy> for turnbuckle_store::UsageBy {
    fn from(by: UsageBy) -> Self {
        match by {
            UsageBy::Day => Self::Day,
            UsageBy::Model => Self::Model,
            UsageBy::Agent => Self::Agent,
            UsageBy::User => Self::User,
            UsageBy::Key => Self::Account,
        }
    }
}

/// Which usage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UsageQuery {
    /// From this day or moment on; the first of this month by default.
    pub from: Option<String>,
    /// Before this day or moment; now by default.
    pub to: Option<String>,
    /// By what to sum up.
    #[param(inline)]
    pub by: Option<UsageBy>,
    /// Only of this person, `*` for everyone's. Without it, the caller's own. Others' are for operators.
    pub user: Option<String>,
}

/// Tokens and money of model calls. The parts do not overlap, except that `reasoning` is within `output`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageSum {
    /// Model calls.
    pub calls: u64,
    /// Prompt tokens neither read from nor written to a cache.
    pub input: u64,
    /// Prompt tokens served from the provider's cache.
    pub cache_read: u64,
    /// Prompt tokens written to the provider's cache.
    pub cache_write: u64,
    /// Tokens generated.
    pub output: u64,
    /// Of these, tokens spent on reasoning.
    pub reasoning: u64,
    /// Cost in millionths of a US dollar, of the calls whose price is known.
    pub cost_micros: u64,
}

impl From<turnbuckle_store::UsageSum> for UsageSum {
    fn from(sum: turnbuckle_store::UsageSum) -> Self {
        Self {
            calls: sum.calls,
            input: sum.input,
            cache_read: sum.cache_read,
            cache_write: sum.cache_write,
            output: sum.output,
            reasoning: sum.reasoning,
            cost_micros: sum.cost_micros,
        }
    }
}

/// The usage of one group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageGroup {
    /// The day, model, agent, person or API key.
    pub key: String,
    /// The usage.
    #[serde(flatten)]
    pub sum: UsageSum,
}

/// Whose quota it is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum QuotaOf {
    /// The tenant's.
    Tenant,
    /// The person's.
    User,
    /// The API key's.
    Key,
}

/// For how long a quota lasts.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum QuotaPer {
    /// A day, in UTC.
    Day,
    /// A month, in UTC.
    Month,
}

/// How much of a quota is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuotaUse {
    /// Used.
    pub used: u64,
    /// The limit; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// A quota and how much of it is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuotaView {
    /// Whose.
    pub of: QuotaOf,
    /// For how long.
    pub per: QuotaPer,
    /// Tokens of new work: uncached input, cache writes and output.
    pub tokens: QuotaUse,
    /// Money in millionths of a US dollar.
    pub cost_micros: QuotaUse,
    /// When it begins anew.
    #[schema(value_type = String, format = DateTime)]
    pub resets_at: Timestamp,
}

/// Tokens and money of a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageReport {
    /// From when on.
    #[schema(value_type = String, format = DateTime)]
    pub from: Timestamp,
    /// Before when.
    #[schema(value_type = String, format = DateTime)]
    pub to: Timestamp,
    /// All of it.
    pub total: UsageSum,
    /// By group, when asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<UsageGroup>,
    /// The caller's quotas.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<QuotaView>,
}
