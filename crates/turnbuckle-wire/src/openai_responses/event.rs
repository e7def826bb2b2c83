//! The events of the Responses API, borrowed from the bytes.

use crate::lenient::{Arguments, Count, Maybe, Text};
use serde::Deserialize;
use serde_json::value::RawValue;
use turnbuckle_core::usage::Usage;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Event<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Text<'a>,
    #[serde(borrow)]
    pub delta: Text<'a>,
    #[serde(borrow)]
    pub item_id: Text<'a>,
    pub output_index: Count,
    pub content_index: Count,
    pub summary_index: Count,
    #[serde(borrow)]
    pub item: Option<&'a RawValue>,
    #[serde(borrow)]
    pub annotation: Option<&'a RawValue>,
    #[serde(borrow)]
    pub response: Option<&'a RawValue>,
    /// Present when the document is a whole answer.
    #[serde(borrow)]
    pub output: Option<&'a RawValue>,
    #[serde(borrow)]
    pub error: Option<&'a RawValue>,
}

/// An answer, as terminal events hold it or whole.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Response<'a> {
    #[serde(borrow)]
    pub id: Text<'a>,
    #[serde(borrow)]
    pub model: Text<'a>,
    #[serde(borrow)]
    pub status: Text<'a>,
    #[serde(borrow)]
    pub output: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    pub incomplete_details: Maybe<Details<'a>>,
    pub usage: Maybe<RawUsage>,
    #[serde(borrow)]
    pub error: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Details<'a> {
    #[serde(borrow)]
    pub reason: Text<'a>,
}

/// An output item, as far as it is read.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Item<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Text<'a>,
    #[serde(borrow)]
    pub id: Text<'a>,
    #[serde(borrow)]
    pub call_id: Text<'a>,
    #[serde(borrow)]
    pub name: Text<'a>,
    #[serde(borrow)]
    pub arguments: Arguments<'a>,
    #[serde(borrow)]
    pub content: Option<Vec<Part<'a>>>,
    #[serde(borrow)]
    pub summary: Option<Vec<Part<'a>>>,
    #[serde(borrow)]
    pub encrypted_content: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Part<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Text<'a>,
    #[serde(borrow)]
    pub text: Text<'a>,
    #[serde(borrow)]
    pub refusal: Text<'a>,
    #[serde(borrow)]
    pub annotations: Option<&'a RawValue>,
}

/// Token counts. The vendor's input includes what the cache gave, its output includes reasoning.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(super) struct RawUsage {
    input_tokens: Count,
    output_tokens: Count,
    input_tokens_details: Maybe<InputDetails>,
    output_tokens_details: Maybe<OutputDetails>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
struct InputDetails {
    cached_tokens: Count,
    cache_write_tokens: Count,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: Count,
}

impl RawUsage {
    pub fn usage(&self) -> Usage {
        let details = self.input_tokens_details.0.unwrap_or_default();
        let (read, write) = (details.cached_tokens.0, details.cache_write_tokens.0);
        Usage {
            input: self.input_tokens.0.map(|all| {
                all.saturating_sub(read.unwrap_or(0)).saturating_sub(write.unwrap_or(0))
            }),
            cache_read: read,
            cache_write: write,
            output: self.output_tokens.0,
            reasoning: self.output_tokens_details.0.and_then(|d| d.reasoning_tokens.0),
        }
    }
}
