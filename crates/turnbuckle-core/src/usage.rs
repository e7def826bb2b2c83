//! What model calls cost.

use crate::ids::AgentName;
use serde::{Deserialize, Serialize};

/// Tokens of one model call, normalised from the vendor's own accounting. `None` means the vendor did not say.
///
/// The parts do not overlap, except that `reasoning` is included in `output`: the whole prompt is
/// `input + cache_read + cache_write`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Usage {
    /// Prompt tokens neither read from nor written to a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// Prompt tokens served from the provider's cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// Prompt tokens written to the provider's cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// Tokens generated, reasoning included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// The part of `output` spent on reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
}

impl Usage {
    /// New work: uncached input, cache writes and output; never the re-sent prefix. Budgets count this.
    pub fn new_work(&self) -> u64 {
        [self.input, self.cache_write, self.output]
            .into_iter()
            .flatten()
            .fold(0, u64::saturating_add)
    }

    /// The whole prompt.
    pub fn prompt(&self) -> u64 {
        [self.input, self.cache_read, self.cache_write]
            .into_iter()
            .flatten()
            .fold(0, u64::saturating_add)
    }

    /// Whether the vendor reported anything.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds `other`, field by field.
    pub fn add(&mut self, other: &Usage) {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        self.input = sum(self.input, other.input);
        self.cache_read = sum(self.cache_read, other.cache_read);
        self.cache_write = sum(self.cache_write, other.cache_write);
        self.output = sum(self.output, other.output);
        self.reasoning = sum(self.reasoning, other.reasoning);
    }
}

/// Why the model was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// A step of an agent's loop.
    Step,
    /// The last call at the iteration cap, tools withheld.
    Closing,
    /// The supervisor choosing a route.
    Route,
    /// Summarising the middle of a long history.
    Summary,
    /// One repair of a structured output that did not validate.
    Repair,
    /// Giving the session a title.
    Title,
    /// A tool's own.
    Tool,
}

/// Why the model stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// It was done.
    Stop,
    /// It asks for tools.
    ToolCalls,
    /// The output limit cut it.
    Length,
    /// The provider's filter cut it.
    ContentFilter,
    /// It declined.
    Refusal,
    /// A long server-side run paused and wants the same request again.
    Pause,
    /// The provider said something else, verbatim.
    Other(String),
}

/// One model call as recorded on the message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IterationUsage {
    /// The model call's index in its message, from 0.
    pub iteration: u32,
    /// The agent that called.
    pub agent: AgentName,
    /// Why it called.
    pub purpose: Purpose,
    /// The provider that answered.
    pub provider: String,
    /// The model that answered.
    pub model: String,
    /// The tokens.
    #[serde(flatten)]
    pub usage: Usage,
    /// Whether the tokens are our estimate, since the vendor reported none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// Cost in millionths of a US dollar, where prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    /// Why it stopped; absent when the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<FinishReason>,
}
