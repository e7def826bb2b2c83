//! Ollama's own chat API, one JSON document per line.
//!
//! Ollama also speaks Chat Completions. Its own API says more: how long the context may be, and whether the model thinks.
//! Calls come whole and may have no id; there is no choice of tools. A schema for the answer is enforced from the first
//! token on, so it goes along only where no tool could be called; beside tools it is asked for in words.

mod chunk;
mod decode;
mod encode;
mod options;

pub use options::OllamaOptions;

use crate::answer::Origin;
use crate::fold::Folding;
use crate::{AnswerHead, Codec, Decoder, EncodedRequest, errors, render};
use turnbuckle_core::error::ModelError;
use turnbuckle_core::model::ModelRequest;

/// The wire's name.
pub const WIRE: &str = "ollama";

/// The chat API as one server speaks it.
#[derive(Clone, Debug)]
pub struct Ollama {
    provider: String,
    options: OllamaOptions,
    /// The options as text: part of the render key.
    fingerprint: String,
}

impl Ollama {
    /// The wire of `provider`.
    pub fn new(provider: impl Into<String>, options: OllamaOptions) -> Self {
        let fingerprint = serde_json::to_string(&options).unwrap_or_default();
        Self { provider: provider.into(), options, fingerprint }
    }

    /// The options.
    pub fn options(&self) -> &OllamaOptions {
        &self.options
    }

    fn key(&self, model: &str) -> u64 {
        render::key(&[WIRE, &self.provider, &self.fingerprint, model])
    }
}

impl Codec for Ollama {
    fn wire(&self) -> &'static str {
        WIRE
    }

    fn provider(&self) -> &str {
        &self.provider
    }

    fn auth_header(&self, secret: &str) -> (&'static str, String) {
        ("authorization", format!("Bearer {secret}"))
    }

    fn render_key(&self, model: &str) -> u64 {
        self.key(model)
    }

    fn encode(&self, request: &ModelRequest) -> Result<EncodedRequest, ModelError> {
        self.encode_request(request)
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
