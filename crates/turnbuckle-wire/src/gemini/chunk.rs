//! The chunks of `generateContent`, borrowed from the bytes. Streamed chunks and whole answers share one shape.

use crate::lenient::{Count, Maybe, Text, skip_seq};
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;
use turnbuckle_core::usage::Usage;

/// A frame. Its head `H` is read until it is known and passed over from then on.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "H: Deserialize<'de> + Default, 'de: 'a"))]
pub(super) struct Chunk<'a, H> {
    #[serde(default, borrow)]
    pub candidates: Option<FirstCandidate<'a>>,
    #[serde(default)]
    pub usage_metadata: Maybe<RawUsage>,
    #[serde(default)]
    pub model_version: H,
    #[serde(default)]
    pub response_id: H,
    #[serde(default, borrow)]
    pub prompt_feedback: Maybe<Feedback<'a>>,
    #[serde(default, borrow)]
    pub error: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Feedback<'a> {
    #[serde(default, borrow)]
    pub block_reason: Text<'a>,
    #[serde(default, borrow)]
    pub block_reason_message: Text<'a>,
}

/// The candidate with index 0, if there is one; we never ask for more. Gathering a list would allocate it per chunk.
pub(super) struct FirstCandidate<'a>(pub Option<Candidate<'a>>);

struct FirstCandidateVisitor;

impl<'de> Visitor<'de> for FirstCandidateVisitor {
    type Value = FirstCandidate<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of candidates")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while let Some(candidate) = seq.next_element::<Candidate<'de>>()? {
            if candidate.index.0.unwrap_or(0) == 0 {
                skip_seq(seq)?;
                return Ok(FirstCandidate(Some(candidate)));
            }
        }
        Ok(FirstCandidate(None))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for FirstCandidate<'a> {
    #[inline]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(FirstCandidateVisitor)
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    #[serde(default)]
    pub index: Count,
    #[serde(default, borrow)]
    pub content: Option<Content<'a>>,
    #[serde(default, borrow)]
    pub finish_reason: Text<'a>,
    #[serde(default, borrow)]
    pub grounding_metadata: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub citation_metadata: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
pub(super) struct Content<'a> {
    #[serde(default, borrow)]
    pub parts: Option<Vec<Part<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Part<'a> {
    #[serde(default, borrow)]
    pub text: Text<'a>,
    #[serde(default)]
    pub thought: Option<bool>,
    #[serde(default, borrow)]
    pub thought_signature: Text<'a>,
    #[serde(default, borrow)]
    pub function_call: Maybe<Call<'a>>,
}

#[derive(Default, Deserialize)]
pub(super) struct Call<'a> {
    #[serde(default, borrow)]
    pub id: Text<'a>,
    #[serde(default, borrow)]
    pub name: Text<'a>,
    #[serde(default, borrow)]
    pub args: Option<&'a RawValue>,
}

/// Token counts. The vendor's prompt includes what the cache gave; thoughts and candidates are counted apart.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawUsage {
    #[serde(default)]
    prompt_token_count: Count,
    #[serde(default)]
    cached_content_token_count: Count,
    #[serde(default)]
    tool_use_prompt_token_count: Count,
    #[serde(default)]
    candidates_token_count: Count,
    #[serde(default)]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lenient;

    #[test]
    fn of_several_candidates_the_one_with_index_0_is_read() {
        for (candidates, first) in [
            (r#"[{"index":1,"finishReason":"a"},{"index":0,"finishReason":"b"}]"#, Some("b")),
            (r#"[{"finishReason":"a"},{"finishReason":"b"},7]"#, Some("a")),
            (r#"[7,{"finishReason":"a"}]"#, Some("a")),
            (r#"[{"index":1,"finishReason":"a"}]"#, None),
            ("[]", None),
        ] {
            let data = format!(r#"{{"candidates":{candidates}}}"#);
            let mut spare = Vec::new();
            let chunk: Chunk<'_, lenient::Skip> =
                lenient::read(data.as_bytes(), &mut spare).unwrap();
            let FirstCandidate(candidate) = chunk.candidates.unwrap();
            let reason = candidate.as_ref().and_then(|c| c.finish_reason.filled());
            assert_eq!(reason, first, "{candidates}");
        }
        for none in [r#"{"candidates":null}"#, r#"{"candidates":{}}"#, "{}"] {
            let mut spare = Vec::new();
            let chunk: Chunk<'_, lenient::Skip> =
                lenient::read(none.as_bytes(), &mut spare).unwrap();
            assert!(chunk.candidates.is_none(), "{none}");
        }
    }
}
