//! The fold of a Responses answer.
//!
//! The terminal events are `response.completed`, `response.incomplete` and `response.failed`. Items are found by their id,
//! then by their place in the output, and are told twice: piece by piece, and whole at their end and again in the terminal
//! event. What the pieces left out is taken from the whole, so that servers that stream no pieces lose nothing.

use super::event::{Around, Event, Item, Part, RawUsage, Response};
use crate::answer::{Answer, Origin, Sink, set_native};
use crate::errors;
use crate::fold::Fold;
use crate::lenient;
use crate::repeat::Repeat;
use crate::sse::{Frame, SseSplitter};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use turnbuckle_core::error::ModelError;
use turnbuckle_core::model::Block;
use turnbuckle_core::usage::{FinishReason, Usage};

#[derive(Debug)]
pub(super) struct State {
    answer: Answer,
    items: Vec<Open>,
    usage: RawUsage,
    refused: bool,
    spare: Vec<u8>,
    repeat: Repeat,
    /// What a repeated delta says beside its text.
    around: Around,
}

/// An item of the output.
#[derive(Debug)]
struct Open {
    index: Option<u64>,
    id: String,
    call_id: String,
    kind: Kind,
    /// The item as last told, with what is read from elsewhere taken out.
    data: Map<String, Value>,
}

#[derive(Debug)]
enum Kind {
    Message { parts: Vec<TextPart> },
    Reasoning { block: Option<usize>, section: Option<u64> },
    Call { block: usize },
    Other { block: usize },
}

#[derive(Debug)]
struct TextPart {
    index: Option<u64>,
    block: usize,
    refusal: bool,
    annotations: Vec<Value>,
}

impl State {
    pub fn new(origin: Origin) -> Self {
        Self {
            answer: Answer::new(origin),
            items: Vec::new(),
            usage: RawUsage::default(),
            refused: false,
            spare: Vec::new(),
            repeat: Repeat::default(),
            around: Around::default(),
        }
    }
}

impl Fold for State {
    type Splitter = SseSplitter;
    const NO_ANSWER: &'static str = "the answer is no response";
    const NO_END: &'static str = "the answer ended without `response.completed`";

    fn frame(&mut self, frame: &Frame<'_>, sink: &mut Sink<'_>) -> Result<(), ModelError> {
        let data = frame.data.trim_ascii();
        if self.answer.finish.is_some() || data.is_empty() || data == b"[DONE]" {
            return Ok(());
        }
        if !frame.unterminated
            && let Some(text) = self.repeat.text(data)
        {
            let around = std::mem::take(&mut self.around);
            let taken = self.event(&around.event(text), data, sink);
            self.around = around;
            return taken;
        }
        let mut spare = std::mem::take(&mut self.spare);
        spare.clear();
        let read = lenient::read::<Event<'_>>(data, &mut spare).map(|event| {
            if let Some(text) = Around::text(&event)
                && self.repeat.keep(data, text, &[event.sequence_number, event.obfuscation])
            {
                self.around = Around::of(&event);
            }
            self.event(&event, data, sink)
        });
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
        self.usage.usage()
    }

    fn finish_reason(&self) -> FinishReason {
        match self.answer.finish_reason() {
            FinishReason::Stop if self.refused => FinishReason::Refusal,
            reason => reason,
        }
    }

    fn decorate(&self, blocks: &mut [Block]) {
        let origin = &self.answer.origin;
        for item in &self.items {
            match &item.kind {
                Kind::Message { parts } => {
                    let mut head = item.data.clone();
                    head.remove("content");
                    head.remove("type");
                    for part in parts {
                        let mut data = Map::new();
                        data.insert("item".to_owned(), Value::Object(head.clone()));
                        if !part.annotations.is_empty() {
                            data.insert("annotations".to_owned(), json!(part.annotations));
                        }
                        if part.refusal {
                            data.insert("refusal".to_owned(), json!(true));
                        }
                        set_native(blocks, part.block, origin.native(Value::Object(data)));
                    }
                }
                Kind::Call { block } => {
                    let mut data = item.data.clone();
                    for name in ["type", "call_id", "name", "arguments"] {
                        data.remove(name);
                    }
                    if !data.is_empty() {
                        set_native(blocks, *block, origin.native(Value::Object(data)));
                    }
                }
                Kind::Reasoning { block: Some(block), .. } | Kind::Other { block } => {
                    set_native(blocks, *block, origin.native(Value::Object(item.data.clone())));
                }
                Kind::Reasoning { block: None, .. } => {}
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.answer.finish.is_some()
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
            "response.output_text.delta" => self.text(event, false, sink),
            "response.function_call_arguments.delta" => {
                if let Some(Kind::Call { block }) =
                    self.find(event).and_then(|at| self.items.get(at)).map(|i| &i.kind)
                {
                    let block = *block;
                    self.answer.append_arguments(block, event.delta.or_empty(), sink);
                }
            }
            "response.refusal.delta" => self.text(event, true, sink),
            "response.output_item.added" => {
                if let Some(item) = event.item {
                    self.item_added(event.output_index.0, item, sink);
                }
            }
            "response.output_item.done" => {
                if let Some(item) = event.item {
                    self.item_done(event.output_index.0, item, sink);
                }
            }
            "response.output_text.annotation.added" => self.annotation(event),
            "response.created" | "response.in_progress" | "response.queued" => {
                if let Some(response) = event.response {
                    self.head(lenient::within(response))?;
                }
            }
            "response.completed" | "response.incomplete" | "response.done" => {
                if let Some(response) = event.response {
                    self.response(lenient::within(response), sink)?;
                }
                let word = if event.kind.or_empty() == "response.incomplete" {
                    "incomplete"
                } else {
                    "completed"
                };
                self.ended(word, None);
            }
            "response.failed" => {
                let told = event.response.map_or(data, |r| r.get().as_bytes());
                return Err(errors::in_band(told));
            }
            "error" => return Err(errors::in_band(data)),
            kind if kind.starts_with("response.reasoning") && kind.ends_with(".delta") => {
                self.thinking(event, sink);
            }
            _ if event.output.is_some() => self.response(data, sink)?,
            "" | "response.error" if event.error.is_some() => return Err(errors::in_band(data)),
            // Keep-alives, pieces of what the item's end tells whole, and what later versions of the API will add.
            _ => {}
        }
        Ok(())
    }

    fn head(&mut self, data: &[u8]) -> Result<(), ModelError> {
        let mut spare = Vec::new();
        let response = read::<Response<'_>>(data, &mut spare)?;
        self.answer.begun = true;
        self.answer.head(response.id.filled(), response.model.filled());
        if let Some(usage) = response.usage.0 {
            self.usage = *usage;
        }
        Ok(())
    }

    fn response(&mut self, data: &[u8], sink: &mut Sink<'_>) -> Result<(), ModelError> {
        let mut spare = Vec::new();
        let response = read::<Response<'_>>(data, &mut spare)?;
        if response.error.is_some() || response.status.or_empty() == "failed" {
            return Err(errors::in_band(data));
        }
        self.head(data)?;
        for (index, item) in response.output.unwrap_or_default().into_iter().enumerate() {
            self.item_done(u64::try_from(index).ok(), item, sink);
        }
        let reason = response.incomplete_details.0.as_ref().and_then(|d| d.reason.filled());
        match response.status.or_empty() {
            "" | "in_progress" | "queued" => {}
            word => self.ended(word, reason),
        }
        Ok(())
    }

    fn ended(&mut self, word: &str, reason: Option<&str>) {
        if self.answer.finish.is_some() {
            return;
        }
        self.answer.finish = Some(match (word, reason) {
            ("completed", None) => FinishReason::Stop,
            (_, Some("max_output_tokens" | "max_tokens")) => FinishReason::Length,
            (_, Some("content_filter")) => FinishReason::ContentFilter,
            (_, Some(other)) => FinishReason::Other(other.to_owned()),
            (other, None) => FinishReason::Other(other.to_owned()),
        });
    }

    #[inline]
    fn find(&self, event: &Event<'_>) -> Option<usize> {
        self.find_item(event.item_id.filled(), None, event.output_index.0).or_else(|| {
            if event.output_index.0.is_none() { self.items.len().checked_sub(1) } else { None }
        })
    }

    fn find_item(
        &self,
        id: Option<&str>,
        call_id: Option<&str>,
        index: Option<u64>,
    ) -> Option<usize> {
        let by_id = id.and_then(|id| self.items.iter().rposition(|i| i.id == id));
        by_id
            .or_else(|| call_id.and_then(|id| self.items.iter().rposition(|i| i.call_id == id)))
            .or_else(|| index.and_then(|_| self.items.iter().rposition(|i| i.index == index)))
    }

    fn item_added(&mut self, index: Option<u64>, raw: &RawValue, sink: &mut Sink<'_>) {
        let mut spare = Vec::new();
        if let Ok(item) = lenient::read::<Item<'_>>(lenient::within(raw), &mut spare) {
            self.open(index, &item, raw, sink);
        }
    }

    fn open(
        &mut self,
        index: Option<u64>,
        item: &Item<'_>,
        raw: &RawValue,
        sink: &mut Sink<'_>,
    ) -> usize {
        let kind = match item.kind.or_empty() {
            "message" => Kind::Message { parts: Vec::new() },
            "reasoning" => Kind::Reasoning { block: None, section: None },
            "function_call" => {
                let block = self.answer.open(Block::ToolCall {
                    wire_id: item.call_id.or_empty().to_owned(),
                    name: item.name.or_empty().to_owned(),
                    arguments: String::new(),
                    native: None,
                });
                self.answer.announce(block, sink);
                Kind::Call { block }
            }
            _ => {
                let native = self.answer.origin.native(Value::Null);
                Kind::Other { block: self.answer.open(Block::Native { native }) }
            }
        };
        self.items.push(Open {
            index,
            id: item.id.or_empty().to_owned(),
            call_id: item.call_id.or_empty().to_owned(),
            kind,
            data: data_of(raw),
        });
        self.items.len() - 1
    }

    /// Takes an item that is whole, whether or not its pieces came before.
    fn item_done(&mut self, index: Option<u64>, raw: &RawValue, sink: &mut Sink<'_>) {
        let mut spare = Vec::new();
        let Ok(item) = lenient::read::<Item<'_>>(lenient::within(raw), &mut spare) else { return };
        let known = self.find_item(item.id.filled(), item.call_id.filled(), index).filter(|at| {
            // A place in the output may be told wrongly; an item of another kind is another item.
            self.items
                .get(*at)
                .is_some_and(|i| i.data.get("type").and_then(Value::as_str) == item.kind.filled())
        });
        let at = match known {
            Some(at) => at,
            None => self.open(index, &item, raw, sink),
        };
        if let Some(open) = self.items.get_mut(at) {
            open.data = data_of(raw);
        }
        match self.items.get(at).map(|i| &i.kind) {
            Some(Kind::Call { block }) => {
                let block = *block;
                let whole = item.arguments.0.as_deref().unwrap_or_default();
                let missing = match self.answer.blocks.get(block) {
                    Some(Block::ToolCall { arguments, .. }) => {
                        whole.strip_prefix(arguments.as_str())
                    }
                    _ => None,
                };
                self.answer.append_arguments(block, missing.unwrap_or_default(), sink);
            }
            Some(Kind::Message { .. }) => {
                for (number, part) in item.content.iter().flatten().enumerate() {
                    self.part_done(at, u64::try_from(number).ok(), part, sink);
                }
            }
            Some(Kind::Reasoning { .. }) => self.reasoning_done(at, &item, sink),
            Some(Kind::Other { .. }) | None => {}
        }
    }

    fn reasoning_done(&mut self, at: usize, item: &Item<'_>, sink: &mut Sink<'_>) {
        let told = |parts: &Option<Vec<Part<'_>>>| -> String {
            let texts: Vec<&str> = parts.iter().flatten().filter_map(|p| p.text.filled()).collect();
            texts.join("\n\n")
        };
        let mut whole = told(&item.summary);
        if whole.is_empty() {
            whole = told(&item.content);
        }
        if whole.is_empty() && item.encrypted_content.filled().is_none() {
            return;
        }
        let Some(block) = self.thinking_block(at) else { return };
        let missing = match self.answer.blocks.get(block) {
            Some(Block::Thinking { text, .. }) => {
                whole.strip_prefix(text.as_str()).unwrap_or_default()
            }
            _ => "",
        };
        self.answer.append_thinking(block, missing, sink);
    }

    fn part_done(&mut self, at: usize, number: Option<u64>, part: &Part<'_>, sink: &mut Sink<'_>) {
        let refusal = part.kind.or_empty() == "refusal";
        let whole = if refusal { part.refusal.or_empty() } else { part.text.or_empty() };
        if whole.is_empty() {
            return;
        }
        let block = self.text_block(at, number, refusal);
        let missing = match block.and_then(|b| self.answer.blocks.get(b)) {
            Some(Block::Text { text, .. }) => whole.strip_prefix(text.as_str()).unwrap_or_default(),
            _ => "",
        };
        if let Some(block) = block {
            self.answer.append_text(block, missing, sink);
        }
        let annotations =
            part.annotations.and_then(|a| serde_json::from_str::<Vec<Value>>(a.get()).ok());
        if let (Some(annotations), Some(Open { kind: Kind::Message { parts }, .. })) =
            (annotations, self.items.get_mut(at))
            && let Some(known) = parts.iter_mut().find(|p| Some(p.block) == block)
        {
            known.annotations = annotations;
        }
    }

    #[inline]
    fn text(&mut self, event: &Event<'_>, refusal: bool, sink: &mut Sink<'_>) {
        let text = event.delta.or_empty();
        if text.is_empty() {
            return;
        }
        let at = match self.find(event) {
            Some(at)
                if matches!(self.items.get(at), Some(Open { kind: Kind::Message { .. }, .. })) =>
            {
                at
            }
            _ => self.open_implied(event, Kind::Message { parts: Vec::new() }, "message"),
        };
        if let Some(block) = self.text_block(at, event.content_index.0, refusal) {
            self.answer.append_text(block, text, sink);
        }
    }

    /// Opens the item a piece belongs to when its beginning was lost.
    fn open_implied(&mut self, event: &Event<'_>, kind: Kind, name: &str) -> usize {
        let mut data = Map::new();
        data.insert("type".to_owned(), name.into());
        self.items.push(Open {
            index: event.output_index.0,
            id: event.item_id.or_empty().to_owned(),
            call_id: String::new(),
            kind,
            data,
        });
        self.items.len() - 1
    }

    #[inline]
    fn text_block(&mut self, at: usize, index: Option<u64>, refusal: bool) -> Option<usize> {
        let Some(Open { kind: Kind::Message { parts }, .. }) = self.items.get_mut(at) else {
            return None;
        };
        let known = match index {
            Some(_) => parts.iter().rfind(|p| p.index == index && p.refusal == refusal),
            None => parts.last().filter(|p| p.refusal == refusal),
        };
        if let Some(part) = known {
            return Some(part.block);
        }
        let block = self.answer.open(Block::Text { text: String::new(), native: None });
        parts.push(TextPart { index, block, refusal, annotations: Vec::new() });
        self.refused |= refusal;
        Some(block)
    }

    fn annotation(&mut self, event: &Event<'_>) {
        let at = self.find(event);
        if let (Some(annotation), Some(Open { kind: Kind::Message { parts }, .. })) =
            (event.annotation, at.and_then(|at| self.items.get_mut(at)))
            && let (Some(part), Ok(annotation)) =
                (parts.last_mut(), serde_json::from_str(annotation.get()))
        {
            part.annotations.push(annotation);
        }
    }

    fn thinking(&mut self, event: &Event<'_>, sink: &mut Sink<'_>) {
        let text = event.delta.or_empty();
        if text.is_empty() {
            return;
        }
        let at = match self.find(event) {
            Some(at)
                if matches!(
                    self.items.get(at),
                    Some(Open { kind: Kind::Reasoning { .. }, .. })
                ) =>
            {
                at
            }
            _ => self.open_implied(
                event,
                Kind::Reasoning { block: None, section: None },
                "reasoning",
            ),
        };
        let Some(block) = self.thinking_block(at) else { return };
        if let Some(Open { kind: Kind::Reasoning { section, .. }, .. }) = self.items.get_mut(at) {
            let next = event.summary_index.0.or(event.content_index.0);
            let begins = section.is_some() && next.is_some() && *section != next;
            *section = next.or(*section);
            if begins {
                self.answer.append_thinking(block, "\n\n", sink);
            }
        }
        self.answer.append_thinking(block, text, sink);
    }

    fn thinking_block(&mut self, at: usize) -> Option<usize> {
        let Some(Open { kind: Kind::Reasoning { block, .. }, .. }) = self.items.get_mut(at) else {
            return None;
        };
        let answer = &mut self.answer;
        Some(*block.get_or_insert_with(|| {
            answer.open(Block::Thinking { text: String::new(), native: None })
        }))
    }
}

fn read<'a, T: serde::Deserialize<'a>>(
    data: &'a [u8],
    spare: &'a mut Vec<u8>,
) -> Result<T, ModelError> {
    lenient::read(data, spare).map_err(|e| errors::unreadable(data, &e))
}

/// The item's members. Null ones say nothing and are refused on the way back.
fn data_of(raw: &RawValue) -> Map<String, Value> {
    let mut data: Map<String, Value> = serde_json::from_str(raw.get()).unwrap_or_default();
    data.retain(|_, v| !v.is_null());
    data
}
