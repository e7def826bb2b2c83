//! The chunks of `generateContent`, borrowed from the bytes. Streamed chunks and whole answers share one shape.

use crate::lenient::{Count, Maybe, Text};
use serde::Deserialize;
use serde_json::value::RawValue;
use turnbuckle_core::usage::Usage;

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub candidates: Option<Vec<Candidate<'a>>>,
    pub usage_metadata: Maybe<RawUsage>,
    #[serde(borrow)]
    pub model_version: Text<'a>,
    #[serde(borrow)]
    pub response_id: Text<'a>,
    #[serde(borrow)]
    pub prompt_feedback: Maybe<Feedback<'a>>,
    #[serde(borrow)]
    pub error: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Feedback<'a> {
    #[serde(borrow)]
    pub block_reason: Text<'a>,
    #[serde(borrow)]
    pub block_reason_message: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    pub index: Count,
    #[serde(borrow)]
    pub content: Maybe<Content<'a>>,
    #[serde(borrow)]
    pub finish_reason: Text<'a>,
    #[serde(borrow)]
    pub grounding_metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    pub citation_metadata: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Content<'a> {
    #[serde(borrow)]
    pub parts: Option<Vec<Part<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Part<'a> {
    #[serde(borrow)]
    pub text: Text<'a>,
    pub thought: Option<bool>,
    #[serde(borrow)]
    pub thought_signature: Text<'a>,
    #[serde(borrow)]
    pub function_call: Maybe<Call<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Call<'a> {
    #[serde(borrow)]
    pub id: Text<'a>,
    #[serde(borrow)]
    pub name: Text<'a>,
    #[serde(borrow)]
    pub args: Option<&'a RawValue>,
}

/// Token counts. The vendor's prompt includes what the cache gave; thoughts and candidates are counted apart.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawUsage {
    prompt_token_count: Count,
    cached_content_token_count: Count,
    tool_use_prompt_token_count: Count,
    candidates_token_count: Count,
    thoughts_token_count: Count,
}

impl RawUsage {
    /// Takes over what `newer` says; counts are totals so far and never added up.
    pub fn update(&mut self, newer: &RawUsage) {
        fn later(old: &mut Count, new: Count) {
            if new.0.is_some() {
                *old = new;
            }
        }
        later(&mut self.prompt_token_count, newer.prompt_token_count);
        later(&mut self.cached_content_token_count, newer.cached_content_token_count);
        later(&mut self.tool_use_prompt_token_count, newer.tool_use_prompt_token_count);
        later(&mut self.candidates_token_count, newer.candidates_token_count);
        later(&mut self.thoughts_token_count, newer.thoughts_token_count);
    }

    pub fn usage(&self) -> Usage {
        let cached = self.cached_content_token_count.0;
        let thoughts = self.thoughts_token_count.0;
        let output = match (self.candidates_token_count.0, thoughts) {
            (None, None) => None,
            (text, thoughts) => Some(text.unwrap_or(0).saturating_add(thoughts.unwrap_or(0))),
        };
        Usage {
            input: self.prompt_token_count.0.map(|prompt| {
                prompt
                    .saturating_sub(cached.unwrap_or(0))
                    .saturating_add(self.tool_use_prompt_token_count.0.unwrap_or(0))
            }),
            cache_read: cached,
            cache_write: None,
            output,
            reasoning: thoughts,
        }
    }
}
