//! The fold of a `generateContent` answer, streamed as events, streamed as a JSON array, or whole.
//!
//! An answer is complete once its candidate has a finish reason. Texts without signatures that follow one another are one
//! block; a part with a signature is a block of its own, since signatures go back on the very part they came with. A
//! signature on a part without text is kept as thinking without text.

use super::chunk::{Call, Candidate, Chunk, FirstCandidate, Part, RawUsage};
use crate::answer::{Answer, Origin, Sink, set_native};
use crate::errors;
use crate::fold::Fold;
use crate::lenient::{self, Skip, Text};
use crate::sse::{Frame, SseSplitter};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use turnbuckle_core::error::{ModelError, ModelErrorKind};
use turnbuckle_core::model::Block;
use turnbuckle_core::usage::{FinishReason, Usage};

#[derive(Debug)]
pub(super) struct State {
    answer: Answer,
    usage: RawUsage,
    /// Whether the last block may take more text.
    open: bool,
    grounding: Option<Value>,
    citations: Vec<Value>,
    spare: Vec<u8>,
}

impl State {
    pub fn new(origin: Origin) -> Self {
        Self {
            answer: Answer::new(origin),
            usage: RawUsage::default(),
            open: false,
            grounding: None,
            citations: Vec::new(),
            spare: Vec::new(),
        }
    }
}

impl Fold for State {
    type Splitter = SseSplitter;
    const NO_ANSWER: &'static str = "the answer has no candidates";
    const NO_END: &'static str = "the answer ended without a finish reason";

    fn frame(&mut self, frame: &Frame<'_>, sink: &mut Sink<'_>) -> Result<(), ModelError> {
        let data = frame.data.trim_ascii();
        if data.is_empty() || data == b"[DONE]" {
            return Ok(());
        }
        if data.starts_with(b"[") {
            let read = serde_json::from_slice::<Vec<&RawValue>>(data).map(|chunks| {
                chunks.into_iter().try_for_each(|c| self.document(c.get().as_bytes(), false, sink))
            });
            return self.answer.taken(read, data, frame.unterminated);
        }
        self.document(data, frame.unterminated, sink)
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
        if self.grounding.is_none() && self.citations.is_empty() {
            return;
        }
        let Some(at) = blocks.iter().rposition(|b| matches!(b, Block::Text { .. })) else { return };
        let mut data = match blocks.get(at) {
            Some(Block::Text { native: Some(native), .. }) => (*native.data).clone(),
            _ => json!({}),
        };
        if let Some(map) = data.as_object_mut() {
            if let Some(grounding) = &self.grounding {
                map.insert("groundingMetadata".to_owned(), grounding.clone());
            }
            if !self.citations.is_empty() {
                map.insert("citationMetadata".to_owned(), json!(self.citations));
            }
        }
        set_native(blocks, at, self.answer.origin.native(data));
    }

    fn is_complete(&self) -> bool {
        // Nothing marks the end of the stream itself: a chunk that only reports usage may still come.
        false
    }
}

impl State {
    fn document(
        &mut self,
        data: &[u8],
        unterminated: bool,
        sink: &mut Sink<'_>,
    ) -> Result<(), ModelError> {
        let mut spare = std::mem::take(&mut self.spare);
        spare.clear();
        let read = if self.answer.has_head() {
            lenient::read::<Chunk<'_, Skip>>(data, &mut spare)
                .map(|chunk| self.chunk(&chunk, data, sink))
        } else {
            lenient::read::<Chunk<'_, Text<'_>>>(data, &mut spare).map(|chunk| {
                self.answer.head(chunk.response_id.filled(), chunk.model_version.filled());
                self.chunk(&chunk, data, sink)
            })
        };
        self.spare = spare;
        self.answer.taken(read, data, unterminated)
    }

    fn chunk<H>(
        &mut self,
        chunk: &Chunk<'_, H>,
        data: &[u8],
        sink: &mut Sink<'_>,
    ) -> Result<(), ModelError> {
        if chunk.error.is_some() {
            return Err(errors::in_band(data));
        }
        if let Some(usage) = &chunk.usage_metadata.0 {
            self.usage.update(usage);
        }
        if let Some(feedback) = &chunk.prompt_feedback.0
            && let Some(reason) = feedback.block_reason.filled()
        {
            let more = feedback.block_reason_message.or_empty();
            let mut error = ModelError::new(
                ModelErrorKind::ContentFilter,
                format!("the prompt was blocked: {reason} {more}").trim_end(),
            );
            error.code = Some(reason.to_owned());
            return Err(error);
        }
        match &chunk.candidates {
            Some(FirstCandidate(candidate)) => {
                if let Some(candidate) = candidate {
                    self.candidate(candidate, data, sink);
                }
                Ok(())
            }
            None => errors::in_unknown_frame(data).map_or(Ok(()), Err),
        }
    }

    fn candidate(&mut self, candidate: &Candidate<'_>, data: &[u8], sink: &mut Sink<'_>) {
        self.answer.begun = true;
        let parts = candidate.content.as_ref().and_then(|c| c.parts.as_deref()).unwrap_or_default();
        for (number, part) in parts.iter().enumerate() {
            self.part(part, number, data, sink);
        }
        if let Some(grounding) = candidate.grounding_metadata {
            self.grounding = serde_json::from_str(grounding.get()).ok();
        }
        if let Some(citations) = candidate.citation_metadata {
            self.citations.extend(serde_json::from_str::<Value>(citations.get()));
        }
        if let Some(word) = candidate.finish_reason.filled() {
            self.answer.finish = match word {
                "FINISH_REASON_UNSPECIFIED" => None,
                "STOP" => Some(FinishReason::Stop),
                "MAX_TOKENS" => Some(FinishReason::Length),
                // Google says STOP; servers that imitate it have a word of their own.
                "FUNCTION_CALL" => Some(FinishReason::ToolCalls),
                "SAFETY"
                | "RECITATION"
                | "BLOCKLIST"
                | "PROHIBITED_CONTENT"
                | "SPII"
                | "LANGUAGE"
                | "IMAGE_SAFETY"
                | "IMAGE_PROHIBITED_CONTENT"
                | "IMAGE_RECITATION" => Some(FinishReason::ContentFilter),
                other => Some(FinishReason::Other(other.to_owned())),
            };
        }
    }

    #[inline]
    fn part(&mut self, part: &Part<'_>, number: usize, data: &[u8], sink: &mut Sink<'_>) {
        let signature = part.thought_signature.filled();
        if let Some(call) = &part.function_call.0 {
            self.call(call, signature, sink);
            return;
        }
        let Some(text) = part.text.0.as_deref() else {
            self.other_part(number, data);
            return;
        };
        let thought = part.thought.unwrap_or(false);
        if text.is_empty() {
            if let Some(signature) = signature {
                self.signature(signature);
            }
            return;
        }
        if thought {
            self.thinking(text, signature, sink)
        } else {
            self.text(text, signature, sink)
        }
    }

    /// A part without text or call: a signature alone, or something of the provider's own.
    fn other_part(&mut self, number: usize, data: &[u8]) {
        let Some(part) = part_of(data, number) else { return };
        let is_signature = |name: &str| name == "thoughtSignature" || name == "thought";
        if part.keys().all(|name| is_signature(name)) {
            if let Some(signature) = part.get("thoughtSignature").and_then(Value::as_str) {
                self.signature(signature);
            }
            return;
        }
        let native = self.answer.origin.native(Value::Object(part));
        self.answer.open(Block::Native { native });
        self.open = false;
    }

    fn signature(&mut self, signature: &str) {
        let native = self.answer.origin.native(json!({ "thoughtSignature": signature }));
        self.answer.open(Block::Thinking { text: String::new(), native: Some(native) });
        self.open = false;
    }

    #[inline]
    fn text(&mut self, text: &str, signature: Option<&str>, sink: &mut Sink<'_>) {
        let last = self.answer.blocks.len().wrapping_sub(1);
        let at = match self.answer.blocks.last() {
            Some(Block::Text { .. }) if self.open && signature.is_none() => last,
            _ => self.answer.open(Block::Text { text: String::new(), native: None }),
        };
        self.answer.append_text(at, text, sink);
        self.open = signature.is_none();
        if let Some(signature) = signature {
            let native = self.answer.origin.native(json!({ "thoughtSignature": signature }));
            set_native(&mut self.answer.blocks, at, native);
        }
    }

    fn thinking(&mut self, text: &str, signature: Option<&str>, sink: &mut Sink<'_>) {
        let last = self.answer.blocks.len().wrapping_sub(1);
        let at = match self.answer.blocks.last() {
            Some(Block::Thinking { .. }) if self.open && signature.is_none() => last,
            _ => {
                let native = self.answer.origin.native(json!({ "thought": true }));
                self.answer.open(Block::Thinking { text: String::new(), native: Some(native) })
            }
        };
        self.answer.append_thinking(at, text, sink);
        self.open = signature.is_none();
        if let Some(signature) = signature {
            let data = json!({ "thought": true, "thoughtSignature": signature });
            let native = self.answer.origin.native(data);
            set_native(&mut self.answer.blocks, at, native);
        }
    }

    fn call(&mut self, call: &Call<'_>, signature: Option<&str>, sink: &mut Sink<'_>) {
        let native = signature.map(|s| self.answer.origin.native(json!({ "thoughtSignature": s })));
        let at = self.answer.open(Block::ToolCall {
            wire_id: call.id.or_empty().to_owned(),
            name: call.name.or_empty().to_owned(),
            arguments: String::new(),
            native,
        });
        self.open = false;
        self.answer.announce(at, sink);
        let args = call.args.map(RawValue::get).filter(|a| *a != "null").unwrap_or_default();
        self.answer.append_arguments(at, args, sink);
    }
}

/// The part as received.
fn part_of(data: &[u8], number: usize) -> Option<Map<String, Value>> {
    let chunk: Value = serde_json::from_slice(data).ok()?;
    let candidates = chunk.get("candidates")?.as_array()?;
    let first = |c: &&Value| c.get("index").and_then(Value::as_u64).unwrap_or(0) == 0;
    let parts = candidates.iter().find(first)?.pointer("/content/parts")?;
    parts.get(number)?.as_object().cloned()
}
