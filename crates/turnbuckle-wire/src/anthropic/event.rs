//! The events of the Messages API, borrowed from the bytes.

use crate::lenient::{Count, Maybe, Text};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;
use turnbuckle_core::usage::Usage;

/// Frames are kept small, since they are moved several times while they are read.
#[derive(Default, Deserialize)]
pub(super) struct Event<'a> {
    #[serde(default, borrow, rename = "type")]
    pub kind: Text<'a>,
    #[serde(default)]
    pub index: Count,
    #[serde(default, borrow)]
    pub delta: Option<Delta<'a>>,
    #[serde(default, borrow)]
    pub content_block: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub message: Option<&'a RawValue>,
    #[serde(default)]
    pub usage: Maybe<RawUsage>,
    #[serde(default, borrow)]
    pub error: Option<&'a RawValue>,
}

/// What is new. The piece is `text`, `thinking`, `partial_json` or `signature`, as the type says; there is only one.
#[derive(Default)]
pub(super) struct Delta<'a> {
    pub kind: Text<'a>,
    pub piece: Text<'a>,
    pub rare: Option<Box<RareInDelta<'a>>>,
}

#[derive(Default)]
pub(super) struct RareInDelta<'a> {
    pub citation: Option<&'a RawValue>,
    pub stop_reason: Text<'a>,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum DeltaKey {
    Type,
    #[serde(alias = "thinking", alias = "partial_json", alias = "signature")]
    Text,
    Citation,
    StopReason,
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
                DeltaKey::Type => delta.kind = map.next_value()?,
                DeltaKey::Text => {
                    let piece = map.next_value::<Text<'de>>()?;
                    if piece.filled().is_some() {
                        delta.piece = piece;
                    }
                }
                DeltaKey::Citation => {
                    delta.rare.get_or_insert_default().citation = map.next_value()?;
                }
                DeltaKey::StopReason => {
                    delta.rare.get_or_insert_default().stop_reason = map.next_value()?;
                }
                DeltaKey::Other => {
                    map.next_value::<IgnoredAny>()?;
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

/// The message that opens a stream, and a whole answer.
#[derive(Default, Deserialize)]
pub(super) struct Message<'a> {
    #[serde(default, borrow)]
    pub id: Text<'a>,
    #[serde(default, borrow)]
    pub model: Text<'a>,
    #[serde(default, borrow)]
    pub content: Option<Vec<&'a RawValue>>,
    #[serde(default, borrow)]
    pub stop_reason: Text<'a>,
    #[serde(default)]
    pub usage: Maybe<RawUsage>,
}

/// A content block as it begins, or whole.
#[derive(Default, Deserialize)]
pub(super) struct Start<'a> {
    #[serde(default, borrow, rename = "type")]
    pub kind: Text<'a>,
    #[serde(default, borrow)]
    pub text: Text<'a>,
    #[serde(default, borrow)]
    pub thinking: Text<'a>,
    #[serde(default, borrow)]
    pub signature: Text<'a>,
    #[serde(default, borrow)]
    pub id: Text<'a>,
    #[serde(default, borrow)]
    pub name: Text<'a>,
    #[serde(default, borrow)]
    pub input: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub caller: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub citations: Option<&'a RawValue>,
}

/// Token counts. The vendor's input excludes what the cache gave and took.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub(super) struct RawUsage {
    #[serde(default)]
    input_tokens: Count,
    #[serde(default)]
    cache_creation_input_tokens: Count,
    #[serde(default)]
    cache_read_input_tokens: Count,
    #[serde(default)]
    output_tokens: Count,
    #[serde(default)]
    output_tokens_details: Maybe<OutputDetails>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
struct OutputDetails {
    #[serde(default)]
    thinking_tokens: Count,
    #[serde(default)]
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
            self.output_tokens_details = newer.output_tokens_details.clone();
        }
    }

    pub fn usage(&self) -> Usage {
        let details = self.output_tokens_details.0.as_deref().copied().unwrap_or_default();
        Usage {
            input: self.input_tokens.0,
            cache_read: self.cache_read_input_tokens.0,
            cache_write: self.cache_creation_input_tokens.0,
            output: self.output_tokens.0,
            reasoning: details.thinking_tokens.0.or(details.reasoning_tokens.0),
        }
    }
}
