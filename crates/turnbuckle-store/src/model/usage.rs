//! What model calls cost, as metered by the commits that record them.

use turnbuckle_core::event::{Event, EventKind};
use turnbuckle_core::ids::{AgentName, TenantId, UserId};
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Metered {
    pub(crate) tenant: TenantId,
    pub(crate) user: UserId,
    pub(crate) account: Option<std::sync::Arc<str>>,
    pub(crate) agent: AgentName,
    pub(crate) model: String,
    pub(crate) at: Timestamp,
    pub(crate) sum: UsageSum,
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
pub(crate) fn metered_calls(events: &[Event]) -> impl Iterator<Item = (&Event, &IterationUsage)> {
    events.iter().filter_map(|event| match &event.kind {
        EventKind::Usage { call, .. } => Some((event, &**call)),
        _ => None,
    })
}
