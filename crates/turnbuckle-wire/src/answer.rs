//! What every decoder gathers: the blocks in the order in which they began, and the head of the answer.

use crate::errors;
use turnbuckle_core::error::ModelError;
use turnbuckle_core::model::{Block, ModelDelta, ModelResponse};
use turnbuckle_core::part::{Native, NativeBlock};
use turnbuckle_core::room::append;
use turnbuckle_core::usage::{FinishReason, Usage};

/// The finish reason of an answer that did not end.
pub(crate) const INCOMPLETE: &str = "incomplete";

/// Whoever listens to deltas.
pub(crate) type Sink<'s> = dyn FnMut(ModelDelta<'_>) + 's;

/// Where the answer comes from.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub wire: &'static str,
    pub provider: String,
    /// The model that was asked for: replay compares with it, since answers name dated versions.
    pub model: String,
}

impl Origin {
    pub fn native(&self, data: serde_json::Value) -> Native {
        Native::from(NativeBlock {
            wire: self.wire.to_owned(),
            provider: self.provider.clone(),
            model: self.model.clone(),
            data: data.into(),
        })
    }
}

/// An answer in the making.
#[derive(Debug)]
pub(crate) struct Answer {
    pub origin: Origin,
    pub blocks: Vec<Block>,
    pub finish: Option<FinishReason>,
    pub id: Option<String>,
    pub model: Option<String>,
    /// Whether anything of an answer came, be it without content.
    pub begun: bool,
    /// Whether the stream ended inside a frame.
    pub torn: bool,
}

impl Answer {
    pub fn new(origin: Origin) -> Self {
        Self {
            origin,
            blocks: Vec::new(),
            finish: None,
            id: None,
            model: None,
            begun: false,
            torn: false,
        }
    }

    /// What became of a frame: taken, unreadable, or torn by the end of the stream.
    #[inline]
    pub fn taken(
        &mut self,
        read: Result<Result<(), ModelError>, serde_json::Error>,
        data: &[u8],
        unterminated: bool,
    ) -> Result<(), ModelError> {
        match read {
            Ok(taken) => taken,
            // What breaks off is torn; what is wrong before its end was never right.
            Err(error) if unterminated && (error.is_eof() || b"[DONE]".starts_with(data)) => {
                self.torn = true;
                Ok(())
            }
            Err(error) => Err(errors::unreadable(data, &error)),
        }
    }

    /// Takes the head's fields from a frame; the first id and the latest model count.
    #[inline]
    pub fn head(&mut self, id: Option<&str>, model: Option<&str>) {
        if let Some(id) = id
            && self.id.is_none()
        {
            self.id = Some(id.to_owned());
        }
        if let Some(model) = model
            && self.model.as_deref() != Some(model)
        {
            self.model = Some(model.to_owned());
        }
    }

    /// Whether the answer's id and model are known.
    #[inline]
    pub fn has_head(&self) -> bool {
        self.id.is_some() && self.model.is_some()
    }

    /// Opens a block and gives its index.
    pub fn open(&mut self, block: Block) -> usize {
        self.blocks.push(block);
        self.blocks.len() - 1
    }

    /// Appends to the text block `at`.
    #[inline]
    pub fn append_text(&mut self, at: usize, piece: &str, sink: &mut Sink<'_>) {
        if piece.is_empty() {
            return;
        }
        if let Some(Block::Text { text, .. }) = self.blocks.get_mut(at) {
            append(text, piece);
            sink(ModelDelta::Text { block: at, text: piece });
        }
    }

    /// Appends to the thinking block `at`.
    #[inline]
    pub fn append_thinking(&mut self, at: usize, piece: &str, sink: &mut Sink<'_>) {
        if piece.is_empty() {
            return;
        }
        if let Some(Block::Thinking { text, .. }) = self.blocks.get_mut(at) {
            append(text, piece);
            sink(ModelDelta::Thinking { block: at, text: piece });
        }
    }

    /// Appends to the arguments of the tool call `at`.
    #[inline]
    pub fn append_arguments(&mut self, at: usize, piece: &str, sink: &mut Sink<'_>) {
        if piece.is_empty() {
            return;
        }
        if let Some(Block::ToolCall { arguments, .. }) = self.blocks.get_mut(at) {
            arguments.push_str(piece);
            sink(ModelDelta::CallArguments { block: at, text: piece });
        }
    }

    /// Reports the beginning of the tool call `at`.
    pub fn announce(&self, at: usize, sink: &mut Sink<'_>) {
        if let Some(Block::ToolCall { wire_id, name, .. }) = self.blocks.get(at) {
            sink(ModelDelta::CallStart { block: at, wire_id, name });
        }
    }

    pub fn has_calls(&self) -> bool {
        self.blocks.iter().any(|b| matches!(b, Block::ToolCall { .. }))
    }

    /// The finish reason with one correction for all wires: an answer that asks for tools and stopped in good order
    /// stopped for them, whatever word the server used.
    pub fn finish_reason(&self) -> FinishReason {
        match &self.finish {
            Some(FinishReason::Stop) if self.has_calls() => FinishReason::ToolCalls,
            Some(reason) => reason.clone(),
            None => FinishReason::Other(INCOMPLETE.to_owned()),
        }
    }

    /// The response with what else is known.
    pub fn response(
        &self,
        blocks: Vec<Block>,
        finish: FinishReason,
        usage: Usage,
    ) -> ModelResponse {
        ModelResponse {
            blocks,
            finish,
            usage,
            provider: self.origin.provider.clone(),
            model: self.model.clone().unwrap_or_else(|| self.origin.model.clone()),
            id: self.id.clone(),
        }
    }
}

/// Sets the payload of the block at `at`.
pub(crate) fn set_native(blocks: &mut [Block], at: usize, payload: Native) {
    match blocks.get_mut(at) {
        Some(
            Block::Text { native, .. }
            | Block::Thinking { native, .. }
            | Block::ToolCall { native, .. },
        ) => {
            *native = Some(payload);
        }
        Some(Block::Native { native }) => *native = payload,
        None => {}
    }
}
