//! What model calls cost, as metered by the commits that record them.

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use turnbuckle_core::event::EventKind;
use turnbuckle_core::ids::{AgentName, SessionId, TenantId, TurnId, UserId};
use turnbuckle_core::pack::Whole;
use turnbuckle_core::time::Timestamp;
use turnbuckle_core::usage::IterationUsage;

/// Which usage to sum up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageQuery {
    /// Whose.
    pub tenant: TenantId,
    /// Only of this person.
    pub user: Option<UserId>,
    /// Only what was booked to this account; see [`Commit::account`](crate::Commit::account).
    pub account: Option<String>,
    /// From this moment on.
    pub from: Timestamp,
    /// Before this moment.
    pub to: Timestamp,
    /// Into which groups.
    pub by: UsageBy,
}

/// The groups usage is summed up in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageBy {
    /// One group of all, with an empty key.
    Nothing,
    /// The day in UTC, such as `2026-11-28`.
    Day,
    /// The model, such as `openai:gpt-5-mini`.
    Model,
    /// The agent.
    Agent,
    /// The person.
    User,
    /// What it was booked to; an empty key where that is nothing.
    Account,
}

/// The usage of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageGroup {
    /// Which group.
    pub key: String,
    /// Its usage.
    pub sum: UsageSum,
}

/// Tokens and money of model calls. The parts do not overlap, except that `reasoning` is within `output`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

impl UsageSum {
    /// New work: uncached input, cache writes and output; never the re-sent prefix. Quotas count this.
    pub const fn new_work(&self) -> u64 {
        self.input.saturating_add(self.cache_write).saturating_add(self.output)
    }

    /// Adds `other`, field by field.
    pub fn add(&mut self, other: &Self) {
        let sum = |a: &mut u64, b: u64| *a = a.saturating_add(b);
        sum(&mut self.calls, other.calls);
        sum(&mut self.input, other.input);
        sum(&mut self.cache_read, other.cache_read);
        sum(&mut self.cache_write, other.cache_write);
        sum(&mut self.output, other.output);
        sum(&mut self.reasoning, other.reasoning);
        sum(&mut self.cost_micros, other.cost_micros);
    }
}

/// One metered model call. It outlives its session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeteredCall {
    /// Whose.
    pub tenant: TenantId,
    /// The person whose session it was in.
    pub user: UserId,
    /// What it was booked to; see [`Commit::account`](crate::Commit::account).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Arc<str>>,
    /// The session, which may be deleted.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// The agent.
    pub agent: AgentName,
    /// The model, such as `openai:gpt-5-mini`.
    pub model: String,
    /// When.
    pub at: Timestamp,
    /// What it used.
    #[serde(flatten)]
    pub sum: UsageSum,
}

/// A metered model call among those of everyone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptUsage {
    /// Its place among them; it rises.
    pub n: u64,
    /// The call.
    pub call: MeteredCall,
}

/// Whether the usage of an imported session counts with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportedUsage {
    /// Each model call that its events record counts, booked to no account.
    FromEvents,
    /// It is imported by itself, with [`Store::meter`](crate::Store::meter).
    Apart,
}

/// The usage of one call, and its model's name.
pub(crate) fn metered(call: &IterationUsage) -> (String, UsageSum) {
    let usage = &call.usage;
    let sum = UsageSum {
        calls: 1,
        input: usage.input.unwrap_or(0),
        cache_read: usage.cache_read.unwrap_or(0),
        cache_write: usage.cache_write.unwrap_or(0),
        output: usage.output.unwrap_or(0),
        reasoning: usage.reasoning.unwrap_or(0),
        cost_micros: call.cost_micros.unwrap_or(0),
    };
    (format!("{}:{}", call.provider, call.model), sum)
}

/// The model calls that events record.
pub(crate) fn metered_calls<'a>(
    events: impl Iterator<Item = Whole<'a>>,
) -> impl Iterator<Item = (Whole<'a>, &'a IterationUsage)> {
    events.filter_map(|event| match event.kind {
        EventKind::Usage { call, .. } => Some((event, &**call)),
        _ => None,
    })
}
