//! The frames of Chat Completions, borrowed from the bytes. Streamed chunks and whole answers share one shape.

use crate::lenient::{Arguments, Count, Maybe, Text, skip_map, skip_seq};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use turnbuckle_core::usage::Usage;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub id: Text<'a>,
    #[serde(borrow)]
    pub model: Text<'a>,
    #[serde(borrow)]
    pub choices: FirstChoice<'a>,
    pub usage: Maybe<RawUsage>,
    pub x_groq: Maybe<Groq>,
    #[serde(borrow)]
    pub error: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Groq {
    pub usage: Maybe<RawUsage>,
}

/// The first choice; we never ask for more.
#[derive(Default)]
pub(super) struct FirstChoice<'a> {
    /// Whether there is such a member at all, be it empty.
    pub present: bool,
    pub choice: Option<Choice<'a>>,
}

struct FirstChoiceVisitor;

impl<'de> Visitor<'de> for FirstChoiceVisitor {
    type Value = FirstChoice<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of choices")
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(FirstChoice { present: true, choice: None })
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let choice = seq.next_element()?;
        if choice.is_some() {
            skip_seq(seq)?;
        }
        Ok(FirstChoice { present: true, choice })
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        skip_map(map)?;
        Ok(FirstChoice::default())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for FirstChoice<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FirstChoiceVisitor)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice<'a> {
    pub index: Count,
    #[serde(borrow)]
    pub delta: Option<Delta<'a>>,
    #[serde(borrow)]
    pub message: Option<&'a RawValue>,
    #[serde(borrow)]
    pub finish_reason: Text<'a>,
    pub usage: Maybe<RawUsage>,
    #[serde(borrow)]
    pub error: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub content: Content<'a>,
    #[serde(borrow)]
    pub reasoning: Text<'a>,
    #[serde(borrow)]
    pub reasoning_content: Text<'a>,
    #[serde(borrow)]
    pub reasoning_details: Option<&'a RawValue>,
    #[serde(borrow)]
    pub refusal: Text<'a>,
    #[serde(borrow)]
    pub tool_calls: Option<Vec<CallDelta<'a>>>,
    #[serde(borrow)]
    pub function_call: Option<FunctionDelta<'a>>,
    #[serde(borrow)]
    pub annotations: Option<&'a RawValue>,
    #[serde(borrow)]
    pub images: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct CallDelta<'a> {
    pub index: Count,
    #[serde(borrow)]
    pub id: Text<'a>,
    #[serde(borrow)]
    pub function: Option<FunctionDelta<'a>>,
    #[serde(borrow)]
    pub extra_content: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct FunctionDelta<'a> {
    #[serde(borrow)]
    pub name: Text<'a>,
    #[serde(borrow)]
    pub arguments: Arguments<'a>,
}

/// Text, or a list of parts from servers that think inside the content.
#[derive(Default)]
pub(super) enum Content<'a> {
    #[default]
    None,
    Text(Cow<'a, str>),
    Parts(Vec<Piece<'a>>),
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Piece<'a> {
    #[serde(borrow)]
    pub text: Text<'a>,
    #[serde(borrow)]
    pub thinking: Content<'a>,
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("content")
    }
    #[inline]
    fn visit_borrowed_str<E>(self, v: &'de str) -> Result<Self::Value, E> {
        Ok(Content::Text(Cow::Borrowed(v)))
    }
    fn visit_str<E>(self, v: &str) -> Result<Self::Value, E> {
        Ok(Content::Text(Cow::Owned(v.to_owned())))
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Content::None)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut parts = Vec::new();
        while let Some(part) = seq.next_element()? {
            parts.push(part);
        }
        Ok(Content::Parts(parts))
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        skip_map(map)?;
        Ok(Content::None)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    #[inline]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

/// One piece of `reasoning_details`, as far as pieces are put together.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct DetailDelta<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Text<'a>,
    #[serde(borrow)]
    pub text: Text<'a>,
    #[serde(borrow)]
    pub summary: Text<'a>,
    #[serde(borrow)]
    pub signature: Text<'a>,
    pub index: Count,
}

/// Token counts under all the names in use.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(super) struct RawUsage {
    prompt_tokens: Count,
    completion_tokens: Count,
    total_tokens: Count,
    cached_tokens: Count,
    prompt_cache_hit_tokens: Count,
    reasoning_tokens: Count,
    prompt_tokens_details: Maybe<PromptDetails>,
    completion_tokens_details: Maybe<CompletionDetails>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
struct PromptDetails {
    cached_tokens: Count,
    cache_write_tokens: Count,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
struct CompletionDetails {
    reasoning_tokens: Count,
}

impl RawUsage {
    /// Takes over what `newer` says; counts are totals so far and never added up.
    pub fn update(&mut self, newer: &RawUsage) {
        fn later(old: &mut Count, new: Count) {
            if new.0.is_some() {
                *old = new;
            }
        }
        later(&mut self.prompt_tokens, newer.prompt_tokens);
        later(&mut self.completion_tokens, newer.completion_tokens);
        later(&mut self.total_tokens, newer.total_tokens);
        later(&mut self.cached_tokens, newer.cached_tokens);
        later(&mut self.prompt_cache_hit_tokens, newer.prompt_cache_hit_tokens);
        later(&mut self.reasoning_tokens, newer.reasoning_tokens);
        if newer.prompt_tokens_details.0.is_some() {
            self.prompt_tokens_details = newer.prompt_tokens_details;
        }
        if newer.completion_tokens_details.0.is_some() {
            self.completion_tokens_details = newer.completion_tokens_details;
        }
    }

    /// In our terms. The vendor's prompt count includes what the cache gave and took; some vendors leave reasoning out of
    /// the completion count, which their total gives away.
    pub fn usage(&self) -> Usage {
        let prompt_details = self.prompt_tokens_details.0.unwrap_or_default();
        let cache_read = prompt_details
            .cached_tokens
            .0
            .or(self.prompt_cache_hit_tokens.0)
            .or(self.cached_tokens.0);
        let cache_write = prompt_details.cache_write_tokens.0;
        let reasoning = self
            .completion_tokens_details
            .0
            .and_then(|d| d.reasoning_tokens.0)
            .or(self.reasoning_tokens.0);
        let input = self.prompt_tokens.0.map(|prompt| {
            prompt.saturating_sub(cache_read.unwrap_or(0)).saturating_sub(cache_write.unwrap_or(0))
        });
        let output = match (
            self.completion_tokens.0,
            self.prompt_tokens.0,
            self.total_tokens.0,
            reasoning,
        ) {
            (Some(completion), Some(prompt), Some(total), Some(reasoning))
                if reasoning > 0
                    && Some(total)
                        == prompt
                            .checked_add(completion)
                            .and_then(|s| s.checked_add(reasoning)) =>
            {
                Some(completion.saturating_add(reasoning))
            }
            (completion, ..) => completion,
        };
        Usage { input, cache_read, cache_write, output, reasoning }
    }
}
