//! Reads a recorded answer in full: what it folds to, what it streamed, and how it failed if it did.

use crate::Codec;
use serde::Serialize;
use turnbuckle_core::error::ModelError;
use turnbuckle_core::model::{ModelDelta, ModelResponse};

/// What a recorded answer amounts to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recording {
    /// The answer, or what arrived of it when `error` is set.
    pub response: ModelResponse,
    /// The deltas in order.
    pub deltas: Vec<Recorded>,
    /// Why it is not a proper end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ModelError>,
}

/// A delta that owns its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Recorded {
    /// More text.
    Text {
        /// The block.
        block: usize,
        /// The text.
        text: String,
    },
    /// More reasoning.
    Thinking {
        /// The block.
        block: usize,
        /// The text.
        text: String,
    },
    /// A tool call begins.
    CallStart {
        /// The block.
        block: usize,
        /// The provider's id.
        wire_id: String,
        /// The name.
        name: String,
    },
    /// More of a tool call's arguments.
    CallArguments {
        /// The block.
        block: usize,
        /// The text.
        text: String,
    },
}

impl From<ModelDelta<'_>> for Recorded {
    fn from(delta: ModelDelta<'_>) -> Self {
        match delta {
            ModelDelta::Text { block, text } => Recorded::Text { block, text: text.to_owned() },
            ModelDelta::Thinking { block, text } => {
                Recorded::Thinking { block, text: text.to_owned() }
            }
            ModelDelta::CallStart { block, wire_id, name } => {
                Recorded::CallStart { block, wire_id: wire_id.to_owned(), name: name.to_owned() }
            }
            ModelDelta::CallArguments { block, text } => {
                Recorded::CallArguments { block, text: text.to_owned() }
            }
        }
    }
}

/// Decodes recorded bytes, an event stream or plain JSON, as an answer of `model`.
pub fn decode_recording(codec: &dyn Codec, model: &str, bytes: &[u8]) -> Recording {
    let mut decoder = codec.decoder(model);
    let mut deltas = Vec::new();
    let mut sink = |delta: ModelDelta<'_>| deltas.push(Recorded::from(delta));
    let result = match decoder.feed(bytes, &mut sink) {
        Ok(()) => decoder.finish(&mut sink),
        Err(error) => Err(error),
    };
    match result {
        Ok(response) => Recording { response, deltas, error: None },
        Err(error) => Recording { response: decoder.partial(), deltas, error: Some(error) },
    }
}
