//! The fold of a Chat Completions answer.
//!
//! An answer is complete once it has a finish reason: servers differ in whether and when `[DONE]` follows, and everything
//! of the answer precedes the finish reason. `[DONE]` alone completes nothing, since gateways send it after an upstream
//! broke off. Usage may come with the finish reason, after it, twice or never; the last word counts.

use super::calls::{Calls, Shape};
use super::chunk::{
    CallDelta, Choice, Chunk, Content, Delta, DetailDelta, FunctionDelta, Piece, RareInDelta,
    RawUsage,
};
use crate::answer::{Answer, Origin, Sink, set_native};
use crate::errors;
use crate::fold::Fold;
use crate::lenient::{self, Arguments, Count, Maybe, Skip, Text};
use crate::repeat::Repeat;
use crate::sse::{Frame, SseSplitter};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use turnbuckle_core::error::{ModelError, ModelErrorKind};
use turnbuckle_core::model::Block;
use turnbuckle_core::usage::{FinishReason, Usage};

#[derive(Debug)]
pub(super) struct State {
    answer: Answer,
    calls: Calls,
    usage: RawUsage,
    details: Vec<Map<String, Value>>,
    /// The thinking block that `details` belong to.
    details_block: Option<usize>,
    refusals: Vec<usize>,
    annotations: Vec<Value>,
    done: bool,
    spare: Vec<u8>,
    repeat: Repeat,
    /// What the text of a repeated frame is.
    repeated: Said,
}

/// What a frame says that says nothing else.
#[derive(Clone, Copy, Debug)]
enum Said {
    Text,
    /// More arguments of the call with this index.
    Arguments(Count),
}

impl State {
    pub fn new(origin: Origin) -> Self {
        Self {
            answer: Answer::new(origin),
            calls: Calls::default(),
            usage: RawUsage::default(),
            details: Vec::new(),
            details_block: None,
            refusals: Vec::new(),
            annotations: Vec::new(),
            done: false,
            spare: Vec::new(),
            repeat: Repeat::default(),
            repeated: Said::Text,
        }
    }
}

impl Fold for State {
    type Splitter = SseSplitter;
    const NO_ANSWER: &'static str = "the answer has no choices";
    const NO_END: &'static str = "the answer ended without a finish reason";

    fn frame(&mut self, frame: &Frame<'_>, sink: &mut Sink<'_>) -> Result<(), ModelError> {
        let data = frame.data.trim_ascii();
        if self.done || data.is_empty() {
            return Ok(());
        }
        if data == b"[DONE]" {
            self.done = true;
            return Ok(());
        }
        if frame.event == b"error" {
            return Err(errors::in_band(data));
        }
        // What a gateway adds of its own, such as a ping with a word in it. Events of this wire have no names.
        let named = !frame.event.is_empty() && frame.event != b"message";
        if named && !matches!(data.first(), Some(b'{' | b'[')) {
            return Ok(());
        }
        if !frame.unterminated
            && let Some(text) = self.repeat.text(data)
        {
            self.again(text, sink);
            return Ok(());
        }
        let mut spare = std::mem::take(&mut self.spare);
        spare.clear();
        let read = if self.answer.has_head() {
            lenient::read::<Chunk<'_, Skip>>(data, &mut spare).map(|chunk| {
                if let Some((said, text)) = said_alone(&chunk)
                    && self.repeat.keep(data, text, &[])
                {
                    self.repeated = said;
                }
                self.chunk(&chunk, data, sink)
            })
        } else {
            lenient::read::<Chunk<'_, Text<'_>>>(data, &mut spare).map(|chunk| {
                self.answer.head(chunk.id.filled(), chunk.model.filled());
                self.chunk(&chunk, data, sink)
            })
        };
        self.spare = spare;
        self.answer.taken(read, data, frame.unterminated)
    }

    fn settle(&mut self, sink: &mut Sink<'_>) {
        self.calls.settle(&self.answer, sink);
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

    fn finish_reason(&self) -> FinishReason {
        match self.answer.finish_reason() {
            FinishReason::Stop if !self.refusals.is_empty() => FinishReason::Refusal,
            reason => reason,
        }
    }

    fn decorate(&self, blocks: &mut [Block]) {
        let origin = &self.answer.origin;
        for (at, block) in blocks.iter_mut().enumerate() {
            if let Block::Thinking { native, .. } = block {
                let data = if self.details_block == Some(at) {
                    json!({ "reasoning_details": self.details })
                } else {
                    json!({})
                };
                *native = Some(origin.native(data));
            }
        }
        for (at, extra) in self.calls.extras() {
            set_native(blocks, at, origin.native(json!({ "extra_content": extra })));
        }
        for at in &self.refusals {
            set_native(blocks, *at, origin.native(json!({ "refusal": true })));
        }
        if !self.annotations.is_empty() {
            let cited = blocks.iter().enumerate().position(|(at, b)| {
                matches!(b, Block::Text { .. }) && !self.refusals.contains(&at)
            });
            if let Some(at) = cited {
                set_native(blocks, at, origin.native(json!({ "annotations": self.annotations })));
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.done
    }
}

/// The text or the arguments of a frame that says nothing else.
fn said_alone<'a, H>(chunk: &'a Chunk<'_, H>) -> Option<(Said, &'a str)> {
    let Chunk { id: _, model: _, choices, usage: Maybe(None), x_groq: Maybe(None), error: None } =
        chunk
    else {
        return None;
    };
    let Choice { index: None | Some(0), delta: Some(delta), finish_reason, rare: None } =
        choices.choice.as_ref()?
    else {
        return None;
    };
    let Delta { content, tool_calls, reasoning, rare: None } = delta else { return None };
    if reasoning.filled().is_some() || finish_reason.filled().is_some() {
        return None;
    }
    match (content, tool_calls.as_slice()) {
        (Content::Text(text), []) => Some((Said::Text, text)),
        (
            Content::None,
            [CallDelta { index, id, function: Some(function), extra_content: None }],
        ) if id.filled().is_none() && function.name.filled().is_none() => {
            Some((Said::Arguments(*index), function.arguments.0.as_deref()?))
        }
        _ => None,
    }
}

impl State {
    /// Takes the text of a frame that is otherwise the one before.
    #[inline]
    fn again(&mut self, text: Cow<'_, str>, sink: &mut Sink<'_>) {
        match self.repeated {
            Said::Text => self.text(&text, sink),
            Said::Arguments(index) => {
                let arguments = Arguments(Some(text));
                let function = Some(FunctionDelta { name: Text(None), arguments });
                let call = CallDelta { index, id: Text(None), function, extra_content: None };
                self.calls.begin_frame();
                self.calls.piece(&call, Shape::Piece, &mut self.answer, sink);
            }
        }
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
        if let Some(usage) =
            chunk.usage.0.as_ref().or(chunk.x_groq.0.as_ref().and_then(|g| g.usage.0.as_ref()))
        {
            self.usage.update(usage);
        }
        if let Some(choice) = &chunk.choices.choice {
            return self.choice(choice, sink);
        }
        if chunk.choices.present {
            return Ok(());
        }
        errors::in_unknown_frame(data).map_or(Ok(()), Err)
    }

    fn choice(&mut self, choice: &Choice<'_>, sink: &mut Sink<'_>) -> Result<(), ModelError> {
        self.answer.begun = true;
        let rare = choice.rare.as_deref();
        if let Some(error) = rare.and_then(|r| r.error) {
            return Err(errors::in_band(error.get().as_bytes()));
        }
        if let Some(usage) = rare.and_then(|r| r.usage.as_ref()) {
            self.usage.update(usage);
        }
        if choice.index.unwrap_or(0) != 0 {
            return Ok(());
        }
        match (&choice.delta, rare.and_then(|r| r.message)) {
            (Some(delta), _) => self.delta(delta, Shape::Piece, sink),
            // Some servers repeat the whole message beside or after the deltas.
            (None, Some(message)) if self.answer.blocks.is_empty() => {
                let mut spare = Vec::new();
                let data = lenient::within(message);
                let message = lenient::read::<Delta<'_>>(data, &mut spare)
                    .map_err(|e| errors::unreadable(data, &e))?;
                self.delta(&message, Shape::Whole, sink);
            }
            _ => {}
        }
        if let Some(reason) = choice.finish_reason.filled() {
            self.answer.finish = Some(finish_reason(reason)?);
        }
        Ok(())
    }

    #[inline]
    fn delta(&mut self, delta: &Delta<'_>, shape: Shape, sink: &mut Sink<'_>) {
        let rare = delta.rare.as_deref();
        if let Some(text) = delta.reasoning.filled() {
            self.thinking(text, sink);
        }
        if let Some(details) = rare.and_then(|r| r.reasoning_details) {
            self.reasoning_details(details, delta.reasoning.filled().is_some(), sink);
        }
        match &delta.content {
            Content::Text(text) => self.text(text, sink),
            Content::None => {}
            Content::Parts(parts) => self.parts(parts, sink),
        }
        if !delta.tool_calls.is_empty() {
            self.calls.begin_frame();
            for call in &delta.tool_calls {
                self.calls.piece(call, shape, &mut self.answer, sink);
            }
        }
        if let Some(rare) = rare {
            self.rare(rare, shape, sink);
        }
    }

    #[cold]
    fn rare(&mut self, rare: &RareInDelta<'_>, shape: Shape, sink: &mut Sink<'_>) {
        if let Some(text) = rare.refusal.filled() {
            self.refusal(text, sink);
        }
        if let Some(function) = rare.function_call.and_then(|f| serde_json::from_str(f.get()).ok())
        {
            self.calls.begin_frame();
            let call = CallDelta {
                index: Count(None),
                id: Text(None),
                function: Some(function),
                extra_content: None,
            };
            self.calls.piece(&call, shape, &mut self.answer, sink);
        }
        if let Some(Ok(Value::Array(items))) =
            rare.annotations.map(|a| serde_json::from_str(a.get()))
        {
            self.annotations.extend(items);
        }
        if let Some(Ok(Value::Array(images))) = rare.images.map(|i| serde_json::from_str(i.get()))
            && !images.is_empty()
        {
            self.calls.settle(&self.answer, sink);
            let native = self.answer.origin.native(json!({ "images": images }));
            self.answer.open(Block::Native { native });
        }
    }

    #[inline]
    fn text(&mut self, text: &str, sink: &mut Sink<'_>) {
        if text.is_empty() {
            return;
        }
        let last = self.answer.blocks.len().wrapping_sub(1);
        let at = match self.answer.blocks.last() {
            Some(Block::Text { .. }) if self.refusals.last() != Some(&last) => last,
            _ => self.open_text(sink),
        };
        self.answer.append_text(at, text, sink);
    }

    fn open_text(&mut self, sink: &mut Sink<'_>) -> usize {
        self.calls.settle(&self.answer, sink);
        self.answer.open(Block::Text { text: String::new(), native: None })
    }

    fn refusal(&mut self, text: &str, sink: &mut Sink<'_>) {
        let at = match self.refusals.last() {
            Some(at) if *at + 1 == self.answer.blocks.len() => *at,
            _ => {
                let at = self.open_text(sink);
                self.refusals.push(at);
                at
            }
        };
        self.answer.append_text(at, text, sink);
    }

    fn thinking(&mut self, text: &str, sink: &mut Sink<'_>) {
        let at = self.thinking_block(sink);
        self.answer.append_thinking(at, text, sink);
    }

    fn thinking_block(&mut self, sink: &mut Sink<'_>) -> usize {
        if let Some(Block::Thinking { .. }) = self.answer.blocks.last() {
            return self.answer.blocks.len() - 1;
        }
        self.calls.settle(&self.answer, sink);
        self.answer.open(Block::Thinking { text: String::new(), native: None })
    }

    fn parts(&mut self, parts: &[Piece<'_>], sink: &mut Sink<'_>) {
        for part in parts {
            match &part.thinking {
                Content::None => {}
                Content::Text(text) if text.is_empty() => {}
                Content::Text(text) => self.thinking(text, sink),
                Content::Parts(thoughts) => {
                    for text in thoughts.iter().filter_map(|t| t.text.filled()) {
                        self.thinking(text, sink);
                    }
                }
            }
            if let Some(text) = part.text.filled() {
                self.text(text, sink);
            }
        }
    }

    fn reasoning_details(&mut self, raw: &RawValue, already_shown: bool, sink: &mut Sink<'_>) {
        let Ok(pieces) = serde_json::from_str::<Vec<DetailDelta<'_>>>(raw.get()) else { return };
        let mut whole: Option<Vec<Map<String, Value>>> = None;
        for (i, piece) in pieces.iter().enumerate() {
            let at = self.thinking_block(sink);
            self.details_block.get_or_insert(at);
            if !already_shown && let Some(text) = piece.text.filled().or(piece.summary.filled()) {
                self.answer.append_thinking(at, text, sink);
            }
            if self.continues_detail(piece) {
                continue;
            }
            let items =
                whole.get_or_insert_with(|| serde_json::from_str(raw.get()).unwrap_or_default());
            if let Some(item) = items.get_mut(i) {
                self.details.push(std::mem::take(item));
            }
        }
    }

    /// Joins a piece of text or summary to the detail it continues. Encrypted details come whole.
    fn continues_detail(&mut self, piece: &DetailDelta<'_>) -> bool {
        let kind = piece.kind.or_empty();
        if !matches!(kind, "reasoning.text" | "reasoning.summary") {
            return false;
        }
        let Some(open) = self.details.last_mut() else { return false };
        let same_index =
            piece.index.0.is_none() || open.get("index").and_then(Value::as_u64) == piece.index.0;
        if open.get("type").and_then(Value::as_str) != Some(kind) || !same_index {
            return false;
        }
        for (name, text) in [("text", &piece.text), ("summary", &piece.summary)] {
            let Some(text) = text.filled() else { continue };
            match open.get_mut(name) {
                Some(Value::String(known)) => known.push_str(text),
                _ => {
                    open.insert(name.to_owned(), text.into());
                }
            }
        }
        if let Some(signature) = piece.signature.filled() {
            open.insert("signature".to_owned(), signature.into());
        }
        true
    }
}

fn finish_reason(word: &str) -> Result<FinishReason, ModelError> {
    Ok(match word.to_ascii_lowercase().as_str() {
        "stop" | "eos" | "end_turn" | "stop_sequence" => FinishReason::Stop,
        "tool_calls" | "function_call" | "tool_use" => FinishReason::ToolCalls,
        "length" | "max_tokens" | "model_length" => FinishReason::Length,
        "content_filter" | "sensitive" => FinishReason::ContentFilter,
        "refusal" => FinishReason::Refusal,
        "error" | "network_error" => {
            return Err(ModelError::new(
                ModelErrorKind::Server,
                format!("the provider broke the answer off with finish reason `{word}`"),
            ));
        }
        "insufficient_system_resource" => {
            return Err(ModelError::new(
                ModelErrorKind::Overloaded,
                "the provider broke the answer off for lack of resources",
            ));
        }
        _ => FinishReason::Other(word.to_owned()),
    })
}
