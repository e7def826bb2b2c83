//! The provider-neutral request, stream and response of a model call. Codecs turn them into a vendor's bytes and back.

use crate::ids::ToolName;
use crate::json::Json;
use crate::part::Native;
use crate::tool::ToolSpec;
use crate::transcript::Transcript;
use crate::usage::{FinishReason, Usage};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A provider and a model of it, written `provider:model`; the first colon divides.
///
/// ```
/// use turnbuckle_core::model::ModelRef;
/// let model = ModelRef::parse("ollama:qwen3:8b").unwrap();
/// assert_eq!((&*model.provider, &*model.model), ("ollama", "qwen3:8b"));
/// assert!(ModelRef::parse("gpt-5").is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ModelRef {
    /// The configured provider.
    pub provider: Arc<str>,
    /// The provider's name of the model.
    pub model: Arc<str>,
}

impl ModelRef {
    /// From its two halves.
    pub fn new(provider: impl Into<Arc<str>>, model: impl Into<Arc<str>>) -> Self {
        Self { provider: provider.into(), model: model.into() }
    }

    /// From `provider:model`; `None` when either half is missing.
    pub fn parse(text: &str) -> Option<Self> {
        let (provider, model) = text.split_once(':')?;
        (!provider.is_empty() && !model.is_empty()).then(|| Self::new(provider, model))
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.provider, self.model)
    }
}

impl TryFrom<String> for ModelRef {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("`{text}` is not of the form provider:model"))
    }
}

impl From<ModelRef> for String {
    fn from(model: ModelRef) -> String {
        model.to_string()
    }
}

/// A block of the system prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemBlock {
    /// The text.
    pub text: Arc<str>,
    /// Whether the provider's cache should end a segment after it.
    #[serde(default)]
    pub cache: bool,
}

impl SystemBlock {
    /// A block without a cache breakpoint.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self { text: text.into(), cache: false }
    }
}

/// Bytes rendered once for a codec and kept: stable prefixes are never rendered again.
#[derive(Default)]
pub struct RenderCache(OnceLock<(u64, Bytes)>);

impl RenderCache {
    /// The bytes for `key` (a codec with its profile), rendering them when they are not kept yet.
    /// A second key is rendered each time, since a session rarely changes its codec.
    ///
    /// # Errors
    /// Those of `render`.
    pub fn get_or_render<E>(
        &self,
        key: u64,
        render: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        if let Some((kept, bytes)) = self.0.get() {
            return if *kept == key { Ok(bytes.clone()) } else { render() };
        }
        let bytes = render()?;
        let _ = self.0.set((key, bytes.clone()));
        Ok(bytes)
    }
}

impl fmt::Debug for RenderCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RenderCache")
    }
}

/// The tools offered in a call, with the bytes they render to.
#[derive(Debug, Default)]
pub struct ToolSet {
    /// The tools in a stable order, since prompt caches depend on it.
    pub specs: Vec<ToolSpec>,
    /// The rendered bytes.
    pub rendered: RenderCache,
}

impl ToolSet {
    /// A set of tools.
    pub fn new(specs: Vec<ToolSpec>) -> Self {
        Self { specs, rendered: RenderCache::default() }
    }
}

/// Which tools the model may or must call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// As it likes.
    #[default]
    Auto,
    /// None.
    None,
    /// At least one.
    Required,
    /// This one.
    Tool(ToolName),
}

/// How the answer comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// Piece by piece.
    #[default]
    Stream,
    /// At once.
    Whole,
}

/// A schema the answer must satisfy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputSchema {
    /// A short name for it.
    pub name: String,
    /// JSON Schema.
    pub schema: Json,
}

/// Sampling and output settings. `None` leaves the provider's default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelSettings {
    /// Output limit in tokens.
    pub max_output_tokens: Option<u32>,
    /// Sampling temperature.
    pub temperature: Option<f32>,
    /// Nucleus sampling.
    pub top_p: Option<f32>,
    /// Seed for reproducible sampling, where there is such a thing.
    pub seed: Option<u64>,
    /// How hard the model should think, in the provider's own words.
    pub reasoning_effort: Option<String>,
    /// Whether the model may ask for several tools at once.
    pub parallel_tool_calls: Option<bool>,
}

/// One model call.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// The provider's name of the model.
    pub model: Arc<str>,
    /// The system prompt.
    pub system: Vec<SystemBlock>,
    /// The conversation.
    pub transcript: Transcript,
    /// The tools on offer.
    pub tools: Arc<ToolSet>,
    /// Which of them the model may or must call.
    pub tool_choice: ToolChoice,
    /// A schema the answer must satisfy.
    pub output: Option<OutputSchema>,
    /// Sampling and output settings.
    pub settings: ModelSettings,
    /// Groups requests that share a prefix, for providers that route by it.
    pub cache_key: Option<Arc<str>>,
    /// How the answer comes.
    pub delivery: Delivery,
}

impl ModelRequest {
    /// A request without tools.
    pub fn new(model: impl Into<Arc<str>>, transcript: Transcript) -> Self {
        Self {
            model: model.into(),
            system: Vec::new(),
            transcript,
            tools: Arc::default(),
            tool_choice: ToolChoice::default(),
            output: None,
            settings: ModelSettings::default(),
            cache_key: None,
            delivery: Delivery::default(),
        }
    }
}

/// A block of the model's answer, in the order in which the blocks began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Text for the reader. Never empty.
    Text {
        /// The text.
        text: String,
        /// Citations and the like, as received.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<Native>,
    },
    /// Reasoning. May be empty when only a signature came.
    Thinking {
        /// The reasoning the provider shows.
        text: String,
        /// Signature or encrypted content, as received.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<Native>,
    },
    /// A tool call.
    ToolCall {
        /// The provider's id; empty when it sends none.
        wire_id: String,
        /// The name as written.
        name: String,
        /// The arguments as written; empty means none.
        arguments: String,
        /// Signatures and the like, as received.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<Native>,
    },
    /// A block that only the provider understands.
    Native {
        /// The block as received.
        native: Native,
    },
}

/// A piece of a streamed answer. `block` is the index in [`ModelResponse::blocks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelDelta<'a> {
    /// More text.
    Text {
        /// The block.
        block: usize,
        /// The text.
        text: &'a str,
    },
    /// More reasoning.
    Thinking {
        /// The block.
        block: usize,
        /// The text.
        text: &'a str,
    },
    /// A tool call begins; its name is complete.
    CallStart {
        /// The block.
        block: usize,
        /// The provider's id; empty when it sends none.
        wire_id: &'a str,
        /// The name as written.
        name: &'a str,
    },
    /// More of a tool call's arguments.
    CallArguments {
        /// The block.
        block: usize,
        /// The text.
        text: &'a str,
    },
}

/// A complete answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelResponse {
    /// The blocks.
    pub blocks: Vec<Block>,
    /// Why the model stopped.
    pub finish: FinishReason,
    /// The tokens, as reported.
    #[serde(default)]
    pub usage: Usage,
    /// The provider that answered.
    pub provider: String,
    /// The model that answered, by its own account.
    pub model: String,
    /// The provider's id of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

impl ModelResponse {
    /// An answer in which nothing was said.
    pub fn empty(model: &ModelRef, finish: FinishReason) -> Self {
        Self {
            blocks: Vec::new(),
            finish,
            usage: Usage::default(),
            provider: model.provider.to_string(),
            model: model.model.to_string(),
            id: None,
        }
    }
}
