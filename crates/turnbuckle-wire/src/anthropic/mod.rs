//! Anthropic's Messages API.
//!
//! One assistant entry becomes one message with its blocks in their order: thinking with its signature first where the
//! model put it first, text with its citations, tool calls, and blocks of the provider's own tools as they came. All results
//! of an answer go into one user message. Text that is nothing but white space is left out, since the API refuses it.

mod decode;
mod encode;
mod event;
mod options;

pub use options::{AnthropicOptions, CacheLife, ClaudeRule, ConversationCache, ThinkingParam};

use crate::answer::Origin;
use crate::answer_tool::Form;
use crate::fold::Folding;
use crate::{AnswerHead, Codec, Decoder, EncodedRequest, errors, render};
use turnbuckle_core::error::ModelError;
use turnbuckle_core::model::ModelRequest;

/// The wire's name.
pub const WIRE: &str = "anthropic";

/// The Messages API as one provider speaks it.
#[derive(Clone, Debug)]
pub struct Anthropic {
    provider: String,
    options: AnthropicOptions,
    /// The options as text: part of the render key.
    fingerprint: String,
}

impl Anthropic {
    /// The wire of `provider`.
    pub fn new(provider: impl Into<String>, options: AnthropicOptions) -> Self {
        let fingerprint = serde_json::to_string(&options).unwrap_or_default();
        Self { provider: provider.into(), options, fingerprint }
    }

    /// The options.
    pub fn options(&self) -> &AnthropicOptions {
        &self.options
    }

    fn key(&self, model: &str) -> u64 {
        render::key(&[WIRE, &self.provider, &self.fingerprint, model])
    }
}

impl Codec for Anthropic {
    fn wire(&self) -> &'static str {
        WIRE
    }

    fn provider(&self) -> &str {
        &self.provider
    }

    fn auth_header(&self, secret: &str) -> (&'static str, String) {
        ("x-api-key", secret.to_owned())
    }

    fn render_key(&self, model: &str) -> u64 {
        self.key(model)
    }

    fn encode(&self, request: &ModelRequest) -> Result<EncodedRequest, ModelError> {
        self.encode_request(request)
    }

    fn answers_by_tool(&self, request: &ModelRequest) -> bool {
        request.output.is_some() && self.options.rule(&request.model).form(request) == Form::Tool
    }

    fn decoder(&self, model: &str) -> Box<dyn Decoder> {
        let origin =
            Origin { wire: WIRE, provider: self.provider.clone(), model: model.to_owned() };
        Box::new(Folding::new(decode::State::new(origin)))
    }

    fn error(&self, head: &AnswerHead<'_>, body: &[u8]) -> ModelError {
        errors::from_answer(head, body)
    }
}
