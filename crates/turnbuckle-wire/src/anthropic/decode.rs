//! The fold of a Messages answer.
//!
//! An answer is complete once it has a stop reason; `message_stop` adds nothing to it. Blocks are found by the latest block
//! of their index, or the latest of all where there is no index. Blocks of kinds that mean nothing here (searches the
//! provider ran and the like) are kept whole, their pieces put together, to be sent back as they are.

use super::event::{Delta, Event, Message, RawUsage, Start};
use crate::answer::{Answer, Origin, Sink, set_native};
use crate::errors;
use crate::fold::Fold;
use crate::lenient;
use crate::sse::{Frame, SseSplitter};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use turnbuckle_core::error::ModelError;
use turnbuckle_core::model::Block;
use turnbuckle_core::usage::{FinishReason, Usage};

#[derive(Debug)]
pub(super) struct State {
    answer: Answer,
    open: Vec<Open>,
    usage: RawUsage,
    done: bool,
    spare: Vec<u8>,
}

/// A content block of the wire.
#[derive(Debug)]
struct Open {
    index: Option<u64>,
    kind: Kind,
    /// Our block; none as long as nothing visible came.
    block: Option<usize>,
}

#[derive(Debug)]
enum Kind {
    Text {
        citations: Vec<Value>,
    },
    Thinking {
        signature: String,
    },
    /// Thinking that came encrypted.
    Redacted {
        data: Value,
    },
    Call {
        given: Option<Box<RawValue>>,
        caller: Option<Value>,
    },
    Other {
        data: Map<String, Value>,
        json: String,
    },
}

impl State {
    pub fn new(origin: Origin) -> Self {
        Self {
            answer: Answer::new(origin),
            open: Vec::new(),
            usage: RawUsage::default(),
            done: false,
            spare: Vec::new(),
        }
    }
}

impl Fold for State {
    type Splitter = SseSplitter;
    const NO_ANSWER: &'static str = "the answer is no message";
    const NO_END: &'static str = "the answer ended without a stop reason";

    fn frame(&mut self, frame: &Frame<'_>, sink: &mut Sink<'_>) -> Result<(), ModelError> {
        let data = frame.data.trim_ascii();
        if self.done || data.is_empty() || data == b"[DONE]" {
            return Ok(());
        }
        let mut spare = std::mem::take(&mut self.spare);
        spare.clear();
        let read = lenient::read::<Event<'_>>(data, &mut spare)
            .map(|event| self.event(&event, data, sink));
        self.spare = spare;
        self.answer.taken(read, data, frame.unterminated)
    }

    fn settle(&mut self, sink: &mut Sink<'_>) {
        for at in 0..self.open.len() {
            self.give_input(at, sink);
        }
    }

    fn answer(&self) -> &Answer {
        &self.answer
    }

    fn answer_mut(&mut self) -> &mut Answer {
        &mut self.answer
    }

    fn usage(&self) -> Usage {
        self.usage.usage()
    }

    fn decorate(&self, blocks: &mut [Block]) {
        let origin = &self.answer.origin;
        for open in &self.open {
            let Some(at) = open.block else { continue };
            let data = match &open.kind {
                Kind::Text { citations } if citations.is_empty() => continue,
                Kind::Text { citations } => json!({ "citations": citations }),
                Kind::Thinking { signature } if signature.is_empty() => json!({}),
                Kind::Thinking { signature } => json!({ "signature": signature }),
                Kind::Redacted { data } => data.clone(),
                Kind::Call { caller: None, .. } => continue,
                Kind::Call { caller: Some(caller), .. } => json!({ "caller": caller }),
                Kind::Other { data, json } => {
                    let mut data = data.clone();
                    if let Ok(input) = serde_json::from_str::<Value>(json) {
                        data.insert("input".to_owned(), input);
                    }
                    Value::Object(data)
                }
            };
            set_native(blocks, at, origin.native(data));
        }
    }

    fn is_complete(&self) -> bool {
        self.done
    }
}

impl State {
    fn event(
        &mut self,
        event: &Event<'_>,
        data: &[u8],
        sink: &mut Sink<'_>,
    ) -> Result<(), ModelError> {
        match event.kind.or_empty() {
            "content_block_delta" => {
                if let Some(delta) = &event.delta {
                    self.delta(event.index.0, delta, data, sink);
                }
            }
            "content_block_start" => {
                if let Some(start) = event.content_block {
                    self.start(event.index.0, start, sink);
                }
            }
            "content_block_stop" => {
                if let Some(at) = self.find(event.index.0) {
                    self.give_input(at, sink);
                }
            }
            "message_start" => {
                if let Some(raw) = event.message {
                    self.message(lenient::within(raw), sink)?;
                }
            }
            "message_delta" => {
                if let Some(usage) = &event.usage.0 {
                    self.usage.update(usage);
                }
                self.stop_reason(
                    event
                        .delta
                        .as_ref()
                        .and_then(|d| d.rare.as_deref())
                        .and_then(|r| r.stop_reason.filled()),
                );
            }
            "message_stop" => self.done = self.answer.finish.is_some(),
            "message" => self.message(data, sink)?,
            "error" => return Err(errors::in_band(data)),
            _ if event.error.is_some() => return Err(errors::in_band(data)),
            // Pings, and what later versions of the API will add.
            _ => {}
        }
        Ok(())
    }

    fn message(&mut self, data: &[u8], sink: &mut Sink<'_>) -> Result<(), ModelError> {
        let mut spare = Vec::new();
        let message = lenient::read::<Message<'_>>(data, &mut spare)
            .map_err(|e| errors::unreadable(data, &e))?;
        self.answer.begun = true;
        self.answer.head(message.id.filled(), message.model.filled());
        if let Some(usage) = message.usage.0 {
            self.usage.update(&usage);
        }
        for (index, block) in message.content.unwrap_or_default().into_iter().enumerate() {
            self.start(u64::try_from(index).ok(), block, sink);
            self.give_input(self.open.len().saturating_sub(1), sink);
        }
        self.stop_reason(message.stop_reason.filled());
        Ok(())
    }

    fn stop_reason(&mut self, word: Option<&str>) {
        let Some(word) = word else { return };
        self.answer.finish = Some(match word {
            "end_turn" | "stop_sequence" | "stop" => FinishReason::Stop,
            "tool_use" => FinishReason::ToolCalls,
            "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
            "pause_turn" => FinishReason::Pause,
            "refusal" => FinishReason::Refusal,
            "content_filter" => FinishReason::ContentFilter,
            other => FinishReason::Other(other.to_owned()),
        });
    }

    #[inline]
    fn find(&self, index: Option<u64>) -> Option<usize> {
        match index {
            Some(_) => self.open.iter().rposition(|o| o.index == index),
            None => self.open.len().checked_sub(1),
        }
    }

    fn start(&mut self, index: Option<u64>, raw: &RawValue, sink: &mut Sink<'_>) {
        let mut spare = Vec::new();
        let Ok(start) = lenient::read::<Start<'_>>(lenient::within(raw), &mut spare) else {
            return;
        };
        let whole = || serde_json::from_str::<Value>(raw.get()).unwrap_or_default();
        let mut block = None;
        let kind = match start.kind.or_empty() {
            "text" => {
                let citations = start.citations.and_then(|c| serde_json::from_str(c.get()).ok());
                Kind::Text { citations: citations.unwrap_or_default() }
            }
            "thinking" => Kind::Thinking { signature: start.signature.or_empty().to_owned() },
            "redacted_thinking" => {
                block =
                    Some(self.answer.open(Block::Thinking { text: String::new(), native: None }));
                Kind::Redacted { data: whole() }
            }
            "tool_use" => {
                let at = self.answer.open(Block::ToolCall {
                    wire_id: start.id.or_empty().to_owned(),
                    name: start.name.or_empty().to_owned(),
                    arguments: String::new(),
                    native: None,
                });
                self.answer.announce(at, sink);
                block = Some(at);
                Kind::Call {
                    given: start.input.filter(|i| !is_empty_object(i)).map(ToOwned::to_owned),
                    caller: start.caller.and_then(|c| serde_json::from_str(c.get()).ok()),
                }
            }
            _ => {
                let native = self.answer.origin.native(Value::Null);
                block = Some(self.answer.open(Block::Native { native }));
                let data = match whole() {
                    Value::Object(map) => map,
                    _ => Map::new(),
                };
                Kind::Other { data, json: String::new() }
            }
        };
        self.open.push(Open { index, kind, block });
        let at = self.open.len() - 1;
        match start.kind.or_empty() {
            "text" => self.text(at, start.text.or_empty(), sink),
            "thinking" => {
                self.thinking(at, start.thinking.or_empty(), sink);
                if start.signature.filled().is_some() {
                    self.thinking_block(at);
                }
            }
            _ => {}
        }
    }

    #[inline]
    fn delta(&mut self, index: Option<u64>, delta: &Delta<'_>, data: &[u8], sink: &mut Sink<'_>) {
        let kind = delta.kind.or_empty();
        let Some(at) = self.find(index).or_else(|| self.open_implied(index, kind, sink)) else {
            return;
        };
        match kind {
            "text_delta" => self.text(at, delta.piece.or_empty(), sink),
            "input_json_delta" => self.input(at, delta.piece.or_empty(), sink),
            "thinking_delta" => self.thinking(at, delta.piece.or_empty(), sink),
            "signature_delta" => {
                self.thinking_block(at);
                if let Some(Open { kind: Kind::Thinking { signature }, .. }) = self.open.get_mut(at)
                {
                    signature.push_str(delta.piece.or_empty());
                }
            }
            "citations_delta" => {
                if let (Some(Open { kind: Kind::Text { citations }, .. }), Some(citation)) =
                    (self.open.get_mut(at), delta.rare.as_deref().and_then(|r| r.citation))
                {
                    citations.extend(serde_json::from_str::<Value>(citation.get()));
                }
            }
            _ => self.unknown_delta(at, data),
        }
    }

    /// Opens the block a piece belongs to when its beginning was lost.
    fn open_implied(
        &mut self,
        index: Option<u64>,
        kind: &str,
        sink: &mut Sink<'_>,
    ) -> Option<usize> {
        let (kind, block) = match kind {
            "text_delta" | "citations_delta" => (Kind::Text { citations: Vec::new() }, None),
            "thinking_delta" | "signature_delta" => {
                (Kind::Thinking { signature: String::new() }, None)
            }
            "input_json_delta" => {
                let at = self.answer.open(Block::ToolCall {
                    wire_id: String::new(),
                    name: String::new(),
                    arguments: String::new(),
                    native: None,
                });
                self.answer.announce(at, sink);
                (Kind::Call { given: None, caller: None }, Some(at))
            }
            _ => return None,
        };
        self.open.push(Open { index, kind, block });
        Some(self.open.len() - 1)
    }

    #[inline]
    fn text(&mut self, at: usize, text: &str, sink: &mut Sink<'_>) {
        let Some(open) = self.open.get_mut(at) else { return };
        if text.is_empty() || !matches!(open.kind, Kind::Text { .. }) {
            return;
        }
        let answer = &mut self.answer;
        let block = *open
            .block
            .get_or_insert_with(|| answer.open(Block::Text { text: String::new(), native: None }));
        answer.append_text(block, text, sink);
    }

    fn thinking(&mut self, at: usize, text: &str, sink: &mut Sink<'_>) {
        if text.is_empty() {
            return;
        }
        if let Some(block) = self.thinking_block(at) {
            self.answer.append_thinking(block, text, sink);
        }
    }

    fn thinking_block(&mut self, at: usize) -> Option<usize> {
        let open = self.open.get_mut(at)?;
        if !matches!(open.kind, Kind::Thinking { .. }) {
            return None;
        }
        let answer = &mut self.answer;
        Some(*open.block.get_or_insert_with(|| {
            answer.open(Block::Thinking { text: String::new(), native: None })
        }))
    }

    fn input(&mut self, at: usize, piece: &str, sink: &mut Sink<'_>) {
        match self.open.get_mut(at) {
            Some(Open { kind: Kind::Call { given, .. }, block: Some(block), .. })
                if !piece.is_empty() =>
            {
                // Pieces say all that an input given at the beginning said.
                *given = None;
                self.answer.append_arguments(*block, piece, sink);
            }
            Some(Open { kind: Kind::Other { json, .. }, .. }) => json.push_str(piece),
            _ => {}
        }
    }

    /// Gives out an input that came whole at the beginning of its block.
    fn give_input(&mut self, at: usize, sink: &mut Sink<'_>) {
        if let Some(Open { kind: Kind::Call { given, .. }, block: Some(block), .. }) =
            self.open.get_mut(at)
            && let Some(input) = given.take()
        {
            self.answer.append_arguments(*block, input.get(), sink);
        }
    }

    /// A piece of a kind we do not know: its strings continue the block's strings of the same name.
    fn unknown_delta(&mut self, at: usize, data: &[u8]) {
        let Some(Open { kind: Kind::Other { data: block, .. }, .. }) = self.open.get_mut(at) else {
            return;
        };
        let Ok(event) = serde_json::from_slice::<Value>(data) else { return };
        for (name, value) in event.get("delta").and_then(Value::as_object).into_iter().flatten() {
            match (block.get_mut(name), value) {
                _ if name == "type" => {}
                (Some(Value::String(known)), Value::String(piece)) => known.push_str(piece),
                _ => {
                    block.insert(name.clone(), value.clone());
                }
            }
        }
    }
}

fn is_empty_object(raw: &RawValue) -> bool {
    let mut inner = raw.get().bytes().filter(|b| !b.is_ascii_whitespace());
    matches!((inner.next(), inner.next(), inner.next()), (Some(b'{'), Some(b'}'), None))
        || raw.get() == "null"
}
