//! The events of the Responses API, borrowed from the bytes.

use crate::lenient::{Arguments, Count, Maybe, Text};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use turnbuckle_core::usage::Usage;

#[derive(Default, Deserialize)]
pub(super) struct Event<'a> {
    #[serde(default, borrow, rename = "type")]
    pub kind: Text<'a>,
    #[serde(default, borrow)]
    pub delta: Text<'a>,
    #[serde(default, borrow)]
    pub item_id: Text<'a>,
    #[serde(default)]
    pub output_index: Count,
    #[serde(default)]
    pub content_index: Count,
    #[serde(default)]
    pub summary_index: Count,
    #[serde(default, borrow)]
    pub item: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub annotation: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub response: Option<&'a RawValue>,
    /// Present when the document is a whole answer.
    #[serde(default, borrow)]
    pub output: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub error: Option<&'a RawValue>,
    /// What nobody reads, but differs from event to event.
    #[serde(default, borrow)]
    pub sequence_number: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub obfuscation: Option<&'a RawValue>,
}

/// What a delta says beside its text.
#[derive(Debug, Default)]
pub(super) struct Around {
    kind: String,
    item_id: Option<String>,
    output_index: Count,
    content_index: Count,
    summary_index: Count,
}

impl Around {
    /// The text of an event that is a delta and nothing else.
    pub fn text<'a>(event: &'a Event<'_>) -> Option<&'a str> {
        let Event {
            item: None, annotation: None, response: None, output: None, error: None, ..
        } = event
        else {
            return None;
        };
        event.delta.filled().filter(|_| event.kind.or_empty().ends_with(".delta"))
    }

    /// What stands around the text.
    pub fn of(event: &Event<'_>) -> Self {
        Self {
            kind: event.kind.or_empty().to_owned(),
            item_id: event.item_id.0.as_deref().map(str::to_owned),
            output_index: event.output_index,
            content_index: event.content_index,
            summary_index: event.summary_index,
        }
    }

    /// The event with another text.
    pub fn event<'a>(&'a self, text: Cow<'a, str>) -> Event<'a> {
        Event {
            kind: Text(Some(Cow::Borrowed(&self.kind))),
            delta: Text(Some(text)),
            item_id: Text(self.item_id.as_deref().map(Cow::Borrowed)),
            output_index: self.output_index,
            content_index: self.content_index,
            summary_index: self.summary_index,
            ..Event::default()
        }
    }
}

/// An answer, as terminal events hold it or whole.
#[derive(Default, Deserialize)]
pub(super) struct Response<'a> {
    #[serde(default, borrow)]
    pub id: Text<'a>,
    #[serde(default, borrow)]
    pub model: Text<'a>,
    #[serde(default, borrow)]
    pub status: Text<'a>,
    #[serde(default, borrow)]
    pub output: Option<Vec<&'a RawValue>>,
    #[serde(default, borrow)]
    pub incomplete_details: Maybe<Details<'a>>,
    #[serde(default)]
    pub usage: Maybe<RawUsage>,
    #[serde(default, borrow)]
    pub error: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
pub(super) struct Details<'a> {
    #[serde(default, borrow)]
    pub reason: Text<'a>,
}

/// An output item, as far as it is read.
#[derive(Default, Deserialize)]
pub(super) struct Item<'a> {
    #[serde(default, borrow, rename = "type")]
    pub kind: Text<'a>,
    #[serde(default, borrow)]
    pub id: Text<'a>,
    #[serde(default, borrow)]
    pub call_id: Text<'a>,
    #[serde(default, borrow)]
    pub name: Text<'a>,
    #[serde(default, borrow)]
    pub arguments: Arguments<'a>,
    #[serde(default, borrow)]
    pub content: Option<Vec<Part<'a>>>,
    #[serde(default, borrow)]
    pub summary: Option<Vec<Part<'a>>>,
    #[serde(default, borrow)]
    pub encrypted_content: Text<'a>,
}

#[derive(Default, Deserialize)]
pub(super) struct Part<'a> {
    #[serde(default, borrow, rename = "type")]
    pub kind: Text<'a>,
    #[serde(default, borrow)]
    pub text: Text<'a>,
    #[serde(default, borrow)]
    pub refusal: Text<'a>,
    #[serde(default, borrow)]
    pub annotations: Option<&'a RawValue>,
}

/// Token counts. The vendor's input includes what the cache gave, its output includes reasoning.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub(super) struct RawUsage {
    #[serde(default)]
    input_tokens: Count,
    #[serde(default)]
    output_tokens: Count,
    #[serde(default)]
    input_tokens_details: Maybe<InputDetails>,
    #[serde(default)]
    output_tokens_details: Maybe<OutputDetails>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
struct InputDetails {
    #[serde(default)]
    cached_tokens: Count,
    #[serde(default)]
    cache_write_tokens: Count,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
struct OutputDetails {
    #[serde(default)]
    reasoning_tokens: Count,
}

impl RawUsage {
    pub fn usage(&self) -> Usage {
        let details = self.input_tokens_details.0.as_deref().copied().unwrap_or_default();
        let (read, write) = (details.cached_tokens.0, details.cache_write_tokens.0);
        Usage {
            input: self.input_tokens.0.map(|all| {
                all.saturating_sub(read.unwrap_or(0)).saturating_sub(write.unwrap_or(0))
            }),
            cache_read: read,
            cache_write: write,
            output: self.output_tokens.0,
            reasoning: self.output_tokens_details.0.as_deref().and_then(|d| d.reasoning_tokens.0),
        }
    }
}
