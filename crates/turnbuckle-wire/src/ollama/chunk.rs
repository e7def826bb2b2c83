//! The documents of the chat API, borrowed from the bytes. Streamed pieces and whole answers share one shape.
//!
//! What documents are made of is kept small, since it is moved several times while it is read: rare members share a box.

use crate::lenient::{Count, Maybe, Text};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;
use std::marker::PhantomData;
use turnbuckle_core::usage::Usage;

/// A document. Its model `H` is read until it is known and passed over from then on.
#[derive(Default)]
pub(super) struct Chunk<'a, H> {
    pub model: H,
    /// When the document was made. Nobody asks; where it lies tells documents apart that differ in it alone.
    pub created_at: Option<&'a RawValue>,
    pub message: Option<Message<'a>>,
    pub done: bool,
    pub rare: Option<Box<Rare<'a>>>,
}

#[derive(Default)]
pub(super) struct Rare<'a> {
    pub done_reason: Text<'a>,
    pub prompt_eval_count: Count,
    pub eval_count: Count,
    pub error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum ChunkKey {
    Model,
    CreatedAt,
    Message,
    Done,
    DoneReason,
    PromptEvalCount,
    EvalCount,
    Error,
    #[serde(other)]
    Other,
}

struct ChunkVisitor<H>(PhantomData<H>);

impl<'de, H: Deserialize<'de> + Default> Visitor<'de> for ChunkVisitor<H> {
    type Value = Chunk<'de, H>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a chat answer")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut chunk = Chunk::default();
        while let Some(key) = map.next_key()? {
            match key {
                ChunkKey::Model => chunk.model = map.next_value()?,
                ChunkKey::CreatedAt => chunk.created_at = map.next_value()?,
                ChunkKey::Message => chunk.message = map.next_value()?,
                ChunkKey::Done => {
                    chunk.done = map.next_value::<Option<bool>>()?.unwrap_or(false);
                }
                ChunkKey::DoneReason => {
                    chunk.rare.get_or_insert_default().done_reason = map.next_value()?;
                }
                ChunkKey::PromptEvalCount => {
                    chunk.rare.get_or_insert_default().prompt_eval_count = map.next_value()?;
                }
                ChunkKey::EvalCount => {
                    chunk.rare.get_or_insert_default().eval_count = map.next_value()?;
                }
                ChunkKey::Error => {
                    if let Some(error) = map.next_value()? {
                        chunk.rare.get_or_insert_default().error = Some(error);
                    }
                }
                ChunkKey::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(chunk)
    }
}

impl<'de: 'a, 'a, H: Deserialize<'de> + Default> Deserialize<'de> for Chunk<'a, H> {
    #[inline]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ChunkVisitor(PhantomData))
    }
}

#[derive(Default)]
pub(super) struct Message<'a> {
    pub content: Text<'a>,
    pub rare: Option<Box<RareInMessage<'a>>>,
}

#[derive(Default)]
pub(super) struct RareInMessage<'a> {
    pub thinking: Text<'a>,
    pub tool_calls: Vec<Call<'a>>,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum MessageKey {
    Content,
    /// Servers that imitate this one use the names of Chat Completions.
    #[serde(alias = "reasoning_content", alias = "reasoning")]
    Thinking,
    ToolCalls,
    #[serde(other)]
    Other,
}

struct MessageVisitor;

impl<'de> Visitor<'de> for MessageVisitor {
    type Value = Message<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut message = Message::default();
        while let Some(key) = map.next_key()? {
            match key {
                MessageKey::Content => message.content = map.next_value()?,
                MessageKey::Thinking => {
                    let text = map.next_value::<Text<'de>>()?;
                    if text.filled().is_some() {
                        message.rare.get_or_insert_default().thinking = text;
                    }
                }
                MessageKey::ToolCalls => {
                    if let Some(calls) = map.next_value()? {
                        message.rare.get_or_insert_default().tool_calls = calls;
                    }
                }
                MessageKey::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(message)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Message<'a> {
    #[inline]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MessageVisitor)
    }
}

#[derive(Default, Deserialize)]
pub(super) struct Call<'a> {
    #[serde(default, borrow)]
    pub id: Text<'a>,
    #[serde(default, borrow)]
    pub function: Maybe<Function<'a>>,
}

#[derive(Default, Deserialize)]
pub(super) struct Function<'a> {
    #[serde(default, borrow)]
    pub name: Text<'a>,
    #[serde(default, borrow)]
    pub arguments: Option<&'a RawValue>,
}

/// Token counts, which come with the last document. What the server had cached of the prompt is counted with it or not at
/// all, depending on its version; it does not say.
pub(super) fn usage(prompt: Count, answer: Count) -> Usage {
    Usage { input: prompt.0, output: answer.0, ..Usage::default() }
}
