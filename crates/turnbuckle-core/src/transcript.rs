//! The conversation as a model reads it: an append-only list whose entries are rendered and counted once.
//!
//! This is the only place where stored messages become request content. Each model call of a turn gives one assistant
//! entry followed by one entry with a result for every call it made; input that entered in between follows. The entries of
//! a call are a function of its settled parts alone, so the list built step by step in the live loop equals the list built
//! from storage, and the request of each step begins with the request of the step before.

use crate::content::{Content, Media};
use crate::ids::{MessageId, ToolName};
use crate::json::Json;
use crate::message::{AssistantMessage, Message, SystemBody};
use crate::model::{Block, RenderCache};
use crate::part::{InputKind, Part, ToolCallPart, ToolCallStatus};
use crate::tool::Retention;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// Something the model reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Item {
    /// From the user, or in the user's place.
    User {
        /// What it says; `text` is taken for it too, as in the other items.
        #[serde(alias = "text")]
        content: Content,
    },
    /// One answer of the model.
    Assistant {
        /// Its blocks.
        blocks: Vec<Block>,
    },
    /// The results of every call of the answer before, in the order of the calls.
    ToolResults {
        /// The results.
        results: Vec<ToolResult>,
    },
    /// From the product, in the middle of the conversation.
    System {
        /// The text.
        text: String,
    },
}

impl Item {
    /// A text from the user.
    pub fn user(text: impl Into<String>) -> Self {
        Item::User { content: Content::Text(text.into()) }
    }

    /// How large it is.
    pub fn size(&self) -> Size {
        let mut size = Size { bytes: 0, frames: 1, media: 0 };
        match self {
            Item::User { content: Content::Text(text) } | Item::System { text } => {
                size.bytes += text.len() as u64;
            }
            Item::User { content: Content::Parts(parts) } => {
                for part in parts {
                    size.bytes += part.as_text().map_or(0, str::len) as u64;
                    size.media += u64::from(part.source().is_some());
                    size.frames += 1;
                }
            }
            Item::Assistant { blocks } => blocks.iter().for_each(|b| size.add_block(b)),
            Item::ToolResults { results } => {
                for result in results {
                    size.bytes += (result.content.len() + result.wire_id.len()) as u64;
                    size.frames += 1;
                }
            }
        }
        size
    }
}

impl Size {
    fn add_block(&mut self, block: &Block) {
        let bytes = match block {
            Block::Text { text, .. } | Block::Thinking { text, .. } => text.len(),
            Block::ToolCall { wire_id, name, arguments, .. } => {
                self.frames += 1;
                wire_id.len() + name.len() + arguments.len()
            }
            Block::Native { native } => native.data.to_string().len(),
        };
        self.bytes += bytes as u64;
    }
}

/// The result of one call as the model reads it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call's id on the wire.
    pub wire_id: Arc<str>,
    /// The tool.
    pub name: ToolName,
    /// The text: a string result as it is, anything else as JSON.
    pub content: String,
    /// Whether it is a failure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

/// Where an entry comes from, so that an overlay can name a range of the stored history.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Source {
    /// The stored message.
    pub message: MessageId,
    /// The model call within it; 0 for messages that are not the assistant's.
    pub iteration: u32,
}

/// One entry of a transcript, with what was once computed from it.
#[derive(Debug)]
pub struct Entry {
    /// What the model reads.
    pub item: Item,
    /// Where it comes from; absent for summaries.
    pub source: Option<Source>,
    /// The bytes it renders to.
    pub rendered: RenderCache,
    tokens: OnceLock<(u64, u32)>,
}

impl Entry {
    /// An entry.
    pub fn new(item: Item, source: Option<Source>) -> Arc<Self> {
        Arc::new(Self { item, source, rendered: RenderCache::default(), tokens: OnceLock::new() })
    }

    /// The entry's tokens by the tokenizer `key`, counted at most once per tokenizer in use.
    pub fn tokens(&self, key: u64, count: impl FnOnce(&Item) -> u32) -> u32 {
        match self.tokens.get() {
            Some((kept, tokens)) if *kept == key => *tokens,
            Some(_) => count(&self.item),
            None => {
                let tokens = count(&self.item);
                let _ = self.tokens.set((key, tokens));
                tokens
            }
        }
    }
}

/// An append-only list of entries, shared between the steps of a turn and the turns of a session. A copy costs nothing, and
/// appending costs the same however long the list is, as long as no other copy is alive.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    entries: Arc<Vec<Arc<Entry>>>,
    size: Size,
}

/// How large content is, without a tokenizer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Bytes of text; no tokenizer makes more tokens of it.
    pub bytes: u64,
    /// Messages, parts, calls and results, around each of which a wire puts some tokens of its own.
    pub frames: u64,
    /// Images and files, of whose tokens bytes say nothing.
    pub media: u64,
}

impl Transcript {
    /// The entries in order.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// The size of all entries, kept while appending.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Appends an entry.
    pub fn push(&mut self, entry: Arc<Entry>) {
        let size = entry.item.size();
        self.size.bytes += size.bytes;
        self.size.frames += size.frames;
        self.size.media += size.media;
        Arc::make_mut(&mut self.entries).push(entry);
    }

    /// The same list with another entry at `index`.
    #[must_use]
    pub fn with_entry(&self, index: usize, entry: Arc<Entry>) -> Self {
        let mut out = Self::default();
        for (i, old) in self.entries.iter().enumerate() {
            out.push(if i == index { entry.clone() } else { old.clone() });
        }
        out
    }

    /// Appends an item without a source.
    pub fn push_item(&mut self, item: Item) {
        self.push(Entry::new(item, None));
    }

    /// Appends all that `message` contributes.
    pub fn push_message(&mut self, message: &Message, rules: &Rules) {
        match message {
            Message::User(m) => {
                let source = Some(Source { message: m.id.clone(), iteration: 0 });
                let content = rules.filled(&m.content);
                self.push(Entry::new(Item::User { content }, source));
            }
            Message::Assistant(m) => {
                for iteration in 0..next_iteration(m) {
                    self.push_iteration(m, iteration, rules);
                }
            }
            Message::System(m) => {
                if let SystemBody::Note { text } = &m.body {
                    let source = Some(Source { message: m.id.clone(), iteration: 0 });
                    self.push(Entry::new(Item::System { text: text.clone() }, source));
                }
            }
        }
    }

    /// Appends what the model call `iteration` of `message` contributes. Call it when all its calls are settled.
    pub fn push_iteration(&mut self, message: &AssistantMessage, iteration: u32, rules: &Rules) {
        let source = || Some(Source { message: message.id.clone(), iteration });
        let mut blocks = Vec::new();
        let mut results = Vec::new();
        let mut inputs = Vec::new();
        for part in message.parts.iter().filter(|p| p.iteration() == iteration) {
            match part {
                Part::Thinking(p) if rules.thinking == ThinkingRule::Keep => {
                    blocks.push(Block::Thinking { text: p.text.clone(), native: p.native.clone() });
                }
                Part::Thinking(_) => {}
                Part::Text(p) => {
                    if !p.text.is_empty() {
                        blocks.push(Block::Text {
                            text: rules.view(&p.text),
                            native: p.native.clone(),
                        });
                    }
                }
                Part::ToolCall(call) => {
                    // A call without its result must never reach a wire: every provider refuses it for ever after.
                    if call.status.is_settled() {
                        blocks.push(call_block(call));
                        results.push(result_of(call, rules));
                    }
                }
                Part::Input(p) => inputs.push((p.kind, rules.filled(&p.content))),
                Part::Native(p) => blocks.push(Block::Native { native: p.native.clone() }),
            }
        }
        // Kept as long as the session is open.
        blocks.shrink_to_fit();
        results.shrink_to_fit();
        let speaks = blocks.iter().any(|b| !matches!(b, Block::Thinking { native: None, .. }));
        if speaks {
            self.push(Entry::new(Item::Assistant { blocks }, source()));
        }
        if !results.is_empty() {
            self.push(Entry::new(Item::ToolResults { results }, source()));
        }
        for (kind, content) in inputs {
            let item = match kind {
                InputKind::Context => Item::System { text: content.text().into_owned() },
                InputKind::Steering
                | InputKind::Nudge
                | InputKind::Correction
                | InputKind::Closing => Item::User { content },
            };
            self.push(Entry::new(item, source()));
        }
    }
}

/// The index after the message's last model call.
pub fn next_iteration(message: &AssistantMessage) -> u32 {
    message.parts.iter().map(|p| p.iteration() + 1).max().unwrap_or(0)
}

/// Whether thinking parts enter the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThinkingRule {
    /// They do: the running turn.
    #[default]
    Keep,
    /// They do not: older turns.
    Drop,
}

/// Rewrites stored text into the model's cheaper view of it.
pub type TextView = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// How stored messages become entries.
#[derive(Clone, Default)]
pub struct Rules {
    /// Whether thinking enters.
    pub thinking: ThinkingRule,
    /// Tools whose results shrink; empty for the running turn.
    pub retention: BTreeMap<ToolName, Retention>,
    /// The model's view of text, such as reference cards as numbered lines.
    pub text_view: Option<TextView>,
    /// The bytes of images and files that are stored aside.
    pub media: Media,
}

impl Rules {
    fn filled(&self, content: &Content) -> Content {
        self.media.fill(content).unwrap_or_else(|| content.clone())
    }

    fn view(&self, text: &str) -> String {
        match &self.text_view {
            Some(view) => view(text),
            None => text.to_owned(),
        }
    }
}

fn call_block(call: &ToolCallPart) -> Block {
    Block::ToolCall {
        wire_id: call.wire_id.to_string(),
        name: call.name.to_string(),
        arguments: call.arguments.clone(),
        native: call.native.clone(),
    }
}

fn result_of(call: &ToolCallPart, rules: &Rules) -> ToolResult {
    let (content, is_error) = result_content(call, rules);
    ToolResult { wire_id: call.wire_id.clone(), name: call.name.clone(), content, is_error }
}

fn result_content(call: &ToolCallPart, rules: &Rules) -> (String, bool) {
    if let Some(error) = &call.error {
        let mut body = json!({"error": {"code": error.code, "message": error.message}});
        if let (Some(output), Some(map)) = (&call.output, body.as_object_mut()) {
            map.insert("output".into(), (**output).clone());
        }
        return (body.to_string(), call.status != ToolCallStatus::Rejected);
    }
    if rules.retention.get(&call.name) == Some(&Retention::Summary) {
        let summary = call.summary.clone().unwrap_or_else(|| short(call));
        let text =
            format!("{summary}\n[The whole result is kept: read it again as call:{}]", call.id);
        return (text, false);
    }
    let seen = call.model_view.as_ref().or(call.output.as_ref());
    let result = seen.map(text_of).unwrap_or_default();
    match &call.amendment {
        None => (result, false),
        Some(amendment) => {
            let note = format!(
                "[A person approved this call and changed these arguments first: {amendment}]\n{result}"
            );
            (note, false)
        }
    }
}

/// A digest is for people: it may tell what a view hides from the model.
fn short(call: &ToolCallPart) -> String {
    let seen = call.model_view.as_ref().or(call.digest.as_ref()).or(call.output.as_ref());
    let text = seen.map(text_of).unwrap_or_default();
    let clipped = crate::json::clip(&text, 300);
    if clipped.len() < text.len() { format!("{clipped}…") } else { text }
}

/// A result as text: strings as they are, anything else as JSON.
pub fn text_of(value: &Json) -> String {
    match &**value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
