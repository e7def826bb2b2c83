//! The frames of Chat Completions, borrowed from the bytes. Streamed chunks and whole answers share one shape.

use crate::lenient::{Arguments, Count, Maybe, Text, skip_map, skip_seq};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use turnbuckle_core::usage::Usage;

/// A frame. Its head `H` is read until it is known and passed over from then on.
#[derive(Deserialize)]
#[serde(bound(deserialize = "H: Deserialize<'de> + Default, 'de: 'a"))]
pub(super) struct Chunk<'a, H> {
    #[serde(default)]
    pub id: H,
    #[serde(default)]
    pub model: H,
    #[serde(default, borrow)]
    pub choices: FirstChoice<'a>,
    #[serde(default)]
    pub usage: Maybe<RawUsage>,
    #[serde(default)]
    pub x_groq: Maybe<Groq>,
    #[serde(default, borrow)]
    pub error: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
pub(super) struct Groq {
    #[serde(default)]
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

/// What frames are made of is kept small, since it is moved several times while it is read: rare members share a box.
#[derive(Default)]
pub(super) struct Choice<'a> {
    pub index: Option<u64>,
    pub delta: Option<Delta<'a>>,
    pub finish_reason: Text<'a>,
    pub rare: Option<Box<RareInChoice<'a>>>,
}

#[derive(Default)]
pub(super) struct RareInChoice<'a> {
    pub message: Option<&'a RawValue>,
    pub usage: Option<RawUsage>,
    pub error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum ChoiceKey {
    Index,
    Delta,
    Message,
    FinishReason,
    Usage,
    Error,
    #[serde(other)]
    Other,
}

struct ChoiceVisitor;

impl<'de> Visitor<'de> for ChoiceVisitor {
    type Value = Choice<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a choice")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut choice = Choice::default();
        while let Some(key) = map.next_key()? {
            match key {
                ChoiceKey::Index => choice.index = map.next_value::<Count>()?.0,
                ChoiceKey::Delta => choice.delta = map.next_value()?,
                ChoiceKey::FinishReason => choice.finish_reason = map.next_value()?,
                ChoiceKey::Message => {
                    if let Some(message) = map.next_value()? {
                        choice.rare.get_or_insert_default().message = Some(message);
                    }
                }
                ChoiceKey::Usage => {
                    if let Some(usage) = map.next_value::<Maybe<RawUsage>>()?.0 {
                        choice.rare.get_or_insert_default().usage = Some(*usage);
                    }
                }
                ChoiceKey::Error => {
                    if let Some(error) = map.next_value()? {
                        choice.rare.get_or_insert_default().error = Some(error);
                    }
                }
                ChoiceKey::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(choice)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Choice<'a> {
    #[inline]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ChoiceVisitor)
    }
}

/// What is new in a frame, or a whole message.
#[derive(Default)]
pub(super) struct Delta<'a> {
    pub content: Content<'a>,
    pub tool_calls: Vec<CallDelta<'a>>,
    /// From whichever of the two fields in use has any.
    pub reasoning: Text<'a>,
    pub rare: Option<Box<RareInDelta<'a>>>,
}

#[derive(Default)]
pub(super) struct RareInDelta<'a> {
    pub reasoning_details: Option<&'a RawValue>,
    pub refusal: Text<'a>,
    pub function_call: Option<&'a RawValue>,
    pub annotations: Option<&'a RawValue>,
    pub images: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum DeltaKey {
    Content,
    ToolCalls,
    #[serde(alias = "reasoning_content")]
    Reasoning,
    ReasoningDetails,
    Refusal,
    FunctionCall,
    Annotations,
    Images,
    #[serde(other)]
    Other,
}

struct DeltaVisitor;

impl<'de> Visitor<'de> for DeltaVisitor {
    type Value = Delta<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a delta")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut delta = Delta::default();
        while let Some(key) = map.next_key()? {
            match key {
                DeltaKey::Content => delta.content = map.next_value()?,
                DeltaKey::ToolCalls => {
                    delta.tool_calls =
                        map.next_value::<Option<Vec<CallDelta<'de>>>>()?.unwrap_or_default();
                }
                DeltaKey::Reasoning => {
                    let text = map.next_value::<Text<'de>>()?;
                    // Servers that fill both fields say the same in both.
                    if delta.reasoning.filled().is_none() {
                        delta.reasoning = text;
                    }
                }
                DeltaKey::Refusal => {
                    let text = map.next_value::<Text<'de>>()?;
                    if text.filled().is_some() {
                        delta.rare.get_or_insert_default().refusal = text;
                    }
                }
                DeltaKey::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
                rare => {
                    let Some(raw) = map.next_value::<Option<&'de RawValue>>()? else { continue };
                    let place = delta.rare.get_or_insert_default();
                    match rare {
                        DeltaKey::ReasoningDetails => place.reasoning_details = Some(raw),
                        DeltaKey::FunctionCall => place.function_call = Some(raw),
                        DeltaKey::Annotations => place.annotations = Some(raw),
                        _ => place.images = Some(raw),
                    }
                }
            }
        }
        Ok(delta)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Delta<'a> {
    #[inline]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(DeltaVisitor)
    }
}

#[derive(Default, Deserialize)]
pub(super) struct CallDelta<'a> {
    #[serde(default)]
    pub index: Count,
    #[serde(default, borrow)]
    pub id: Text<'a>,
    #[serde(default, borrow)]
    pub function: Option<FunctionDelta<'a>>,
    #[serde(default, borrow)]
    pub extra_content: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
pub(super) struct FunctionDelta<'a> {
    #[serde(default, borrow)]
    pub name: Text<'a>,
    #[serde(default, borrow)]
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
pub(super) struct Piece<'a> {
    #[serde(default, borrow)]
    pub text: Text<'a>,
    #[serde(default, borrow)]
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
pub(super) struct DetailDelta<'a> {
    #[serde(default, borrow, rename = "type")]
    pub kind: Text<'a>,
    #[serde(default, borrow)]
    pub text: Text<'a>,
    #[serde(default, borrow)]
    pub summary: Text<'a>,
    #[serde(default, borrow)]
    pub signature: Text<'a>,
    #[serde(default)]
    pub index: Count,
}

/// Token counts under all the names in use.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub(super) struct RawUsage {
    #[serde(default)]
    prompt_tokens: Count,
    #[serde(default)]
    completion_tokens: Count,
    #[serde(default)]
    total_tokens: Count,
    #[serde(default)]
    cached_tokens: Count,
    #[serde(default)]
    prompt_cache_hit_tokens: Count,
    #[serde(default)]
    reasoning_tokens: Count,
    #[serde(default)]
    prompt_tokens_details: Maybe<PromptDetails>,
    #[serde(default)]
    completion_tokens_details: Maybe<CompletionDetails>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Count,
    #[serde(default)]
    cache_write_tokens: Count,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
struct CompletionDetails {
    #[serde(default)]
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
            self.prompt_tokens_details = newer.prompt_tokens_details.clone();
        }
        if newer.completion_tokens_details.0.is_some() {
            self.completion_tokens_details = newer.completion_tokens_details.clone();
        }
    }

    /// In our terms. The vendor's prompt count includes what the cache gave and took; some vendors leave reasoning out of
    /// the completion count, which their total gives away.
    pub fn usage(&self) -> Usage {
        let prompt_details = self.prompt_tokens_details.0.as_deref().copied().unwrap_or_default();
        let cache_read = prompt_details
            .cached_tokens
            .0
            .or(self.prompt_cache_hit_tokens.0)
            .or(self.cached_tokens.0);
        let cache_write = prompt_details.cache_write_tokens.0;
        let reasoning = self
            .completion_tokens_details
            .0
            .as_deref()
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
