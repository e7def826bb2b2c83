//! The fold of a chat answer.
//!
//! The terminal document says `done`. Calls come whole, each a call of its own whatever stands in its index.

use super::chunk::{Call, Chunk, Message, usage};
use crate::answer::{Answer, Origin, Sink};
use crate::errors;
use crate::fold::Fold;
use crate::lenient::{self, Count, Skip, Text};
use crate::lines::LineSplitter;
use crate::sse::Frame;
use serde_json::json;
use serde_json::value::RawValue;
use turnbuckle_core::error::ModelError;
use turnbuckle_core::model::Block;
use turnbuckle_core::usage::{FinishReason, Usage};

#[derive(Debug)]
pub(super) struct State {
    answer: Answer,
    prompt: Count,
    output: Count,
    spare: Vec<u8>,
}

impl State {
    pub fn new(origin: Origin) -> Self {
        Self {
            answer: Answer::new(origin),
            prompt: Count::default(),
            output: Count::default(),
            spare: Vec::new(),
        }
    }
}

impl Fold for State {
    type Splitter = LineSplitter;
    const NO_ANSWER: &'static str = "the answer is no message";
    const NO_END: &'static str = "the answer ended without `done`";

    fn frame(&mut self, frame: &Frame<'_>, sink: &mut Sink<'_>) -> Result<(), ModelError> {
        if self.answer.finish.is_some() {
            return Ok(());
        }
        let mut spare = std::mem::take(&mut self.spare);
        spare.clear();
        let data = frame.data;
        let read = if self.answer.model.is_some() {
            lenient::read::<Chunk<'_, Skip>>(data, &mut spare)
                .map(|chunk| self.chunk(&chunk, data, sink))
        } else {
            lenient::read::<Chunk<'_, Text<'_>>>(data, &mut spare).map(|chunk| {
                self.answer.head(None, chunk.model.filled());
                self.chunk(&chunk, data, sink)
            })
        };
        self.spare = spare;
        self.answer.taken(read, data, frame.unterminated)
    }

    fn answer(&self) -> &Answer {
        &self.answer
    }

    fn answer_mut(&mut self) -> &mut Answer {
        &mut self.answer
    }

    fn usage(&self) -> Usage {
        usage(self.prompt, self.output)
    }

    fn decorate(&self, blocks: &mut [Block]) {
        for block in blocks {
            if let Block::Thinking { native, .. } = block {
                *native = Some(self.answer.origin.native(json!({})));
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.answer.finish.is_some()
    }
}

impl State {
    fn chunk<H>(
        &mut self,
        chunk: &Chunk<'_, H>,
        data: &[u8],
        sink: &mut Sink<'_>,
    ) -> Result<(), ModelError> {
        let rare = chunk.rare.as_deref();
        if rare.is_some_and(|rare| rare.error.is_some()) {
            return Err(errors::in_band(data));
        }
        match &chunk.message {
            Some(message) => {
                self.answer.begun = true;
                self.message(message, sink);
            }
            None if chunk.done => {}
            None => return errors::in_unknown_frame(data).map_or(Ok(()), Err),
        }
        if chunk.done {
            if let Some(rare) = rare {
                self.prompt = rare.prompt_eval_count;
                self.output = rare.eval_count;
            }
            self.answer.finish = Some(match rare.map_or("", |rare| rare.done_reason.or_empty()) {
                "" | "stop" => FinishReason::Stop,
                "length" => FinishReason::Length,
                other => FinishReason::Other(other.to_owned()),
            });
        }
        Ok(())
    }

    #[inline]
    fn message(&mut self, message: &Message<'_>, sink: &mut Sink<'_>) {
        let rare = message.rare.as_deref();
        if let Some(text) = rare.and_then(|rare| rare.thinking.filled()) {
            let at = match self.answer.blocks.last() {
                Some(Block::Thinking { .. }) => self.answer.blocks.len() - 1,
                _ => self.answer.open(Block::Thinking { text: String::new(), native: None }),
            };
            self.answer.append_thinking(at, text, sink);
        }
        if let Some(text) = message.content.filled() {
            let at = match self.answer.blocks.last() {
                Some(Block::Text { .. }) => self.answer.blocks.len() - 1,
                _ => self.answer.open(Block::Text { text: String::new(), native: None }),
            };
            self.answer.append_text(at, text, sink);
        }
        for call in rare.iter().flat_map(|rare| &rare.tool_calls) {
            self.call(call, sink);
        }
    }

    fn call(&mut self, call: &Call<'_>, sink: &mut Sink<'_>) {
        let Some(function) = &call.function.0 else { return };
        let at = self.answer.open(Block::ToolCall {
            wire_id: call.id.or_empty().to_owned(),
            name: function.name.or_empty().to_owned(),
            arguments: String::new(),
            native: None,
        });
        self.answer.announce(at, sink);
        let given = function.arguments.map(RawValue::get).unwrap_or_default();
        // Objects on this wire; imitations write them as text, as Chat Completions does.
        let text = serde_json::from_str::<String>(given);
        let arguments = match &text {
            Ok(text) => text.as_str(),
            Err(_) if given == "null" => "",
            Err(_) => given,
        };
        self.answer.append_arguments(at, arguments, sink);
    }
}
