//! The events of the Messages API, borrowed from the bytes.

use crate::lenient::{Count, Maybe, Text};
use serde::Deserialize;
use serde_json::value::RawValue;
use turnbuckle_core::usage::Usage;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Event<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Text<'a>,
    pub index: Count,
    #[serde(borrow)]
    pub delta: Option<Delta<'a>>,
    #[serde(borrow)]
    pub content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    pub message: Option<&'a RawValue>,
    pub usage: Maybe<RawUsage>,
    #[serde(borrow)]
    pub error: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Text<'a>,
    #[serde(borrow)]
    pub text: Text<'a>,
    #[serde(borrow)]
    pub thinking: Text<'a>,
    #[serde(borrow)]
    pub partial_json: Text<'a>,
    #[serde(borrow)]
    pub signature: Text<'a>,
    #[serde(borrow)]
    pub citation: Option<&'a RawValue>,
    #[serde(borrow)]
    pub stop_reason: Text<'a>,
}

/// The message that opens a stream, and a whole answer.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub id: Text<'a>,
    #[serde(borrow)]
    pub model: Text<'a>,
    #[serde(borrow)]
    pub content: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    pub stop_reason: Text<'a>,
    pub usage: Maybe<RawUsage>,
}

/// A content block as it begins, or whole.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Start<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Text<'a>,
    #[serde(borrow)]
    pub text: Text<'a>,
    #[serde(borrow)]
    pub thinking: Text<'a>,
    #[serde(borrow)]
    pub signature: Text<'a>,
    #[serde(borrow)]
    pub id: Text<'a>,
    #[serde(borrow)]
    pub name: Text<'a>,
    #[serde(borrow)]
    pub input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub caller: Option<&'a RawValue>,
    #[serde(borrow)]
    pub citations: Option<&'a RawValue>,
}

/// Token counts. The vendor's input excludes what the cache gave and took.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(super) struct RawUsage {
    input_tokens: Count,
    cache_creation_input_tokens: Count,
    cache_read_input_tokens: Count,
    output_tokens: Count,
    output_tokens_details: Maybe<OutputDetails>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
struct OutputDetails {
    thinking_tokens: Count,
    reasoning_tokens: Count,
}

impl RawUsage {
    /// Takes over what `newer` says; counts are totals so far and never added up. A zero for the prompt takes nothing back:
    /// gateways send it at the end where they mean to say nothing.
    pub fn update(&mut self, newer: &RawUsage) {
        fn prompt(old: &mut Count, new: Count) {
            if new.0.is_some_and(|n| n > 0 || old.0.is_none()) {
                *old = new;
            }
        }
        prompt(&mut self.input_tokens, newer.input_tokens);
        prompt(&mut self.cache_creation_input_tokens, newer.cache_creation_input_tokens);
        prompt(&mut self.cache_read_input_tokens, newer.cache_read_input_tokens);
        if newer.output_tokens.0.is_some() {
            self.output_tokens = newer.output_tokens;
        }
        if newer.output_tokens_details.0.is_some() {
            self.output_tokens_details = newer.output_tokens_details;
        }
    }

    pub fn usage(&self) -> Usage {
        let details = self.output_tokens_details.0.unwrap_or_default();
        Usage {
            input: self.input_tokens.0,
            cache_read: self.cache_read_input_tokens.0,
            cache_write: self.cache_creation_input_tokens.0,
            output: self.output_tokens.0,
            reasoning: details.thinking_tokens.0.or(details.reasoning_tokens.0),
        }
    }
}
