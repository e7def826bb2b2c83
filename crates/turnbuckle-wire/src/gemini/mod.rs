//! Google Gemini's `generateContent`.
//!
//! An assistant entry becomes one `model` content with its parts in their order, each signature on the part it came with;
//! all results of an answer go into one `user` content. The first call of an answer that another model made carries the
//! signature the vendor documents for that case, where the model insists on one.

mod chunk;
mod decode;
mod encode;
mod options;

pub use options::{GeminiAuth, GeminiOptions, GeminiRule, GeminiThinking};

use crate::answer::Origin;
use crate::answer_tool::Form;
use crate::fold::Folding;
use crate::{AnswerHead, Codec, Decoder, EncodedRequest, errors, render};
use turnbuckle_core::error::ModelError;
use turnbuckle_core::model::ModelRequest;

/// The wire's name.
pub const WIRE: &str = "gemini";

/// Gemini as one provider speaks it.
#[derive(Clone, Debug)]
pub struct Gemini {
    provider: String,
    options: GeminiOptions,
    /// The options as text: part of the render key.
    fingerprint: String,
}

impl Gemini {
    /// The wire of `provider`.
    pub fn new(provider: impl Into<String>, options: GeminiOptions) -> Self {
        let fingerprint = serde_json::to_string(&options).unwrap_or_default();
        Self { provider: provider.into(), options, fingerprint }
    }

    /// The options.
    pub fn options(&self) -> &GeminiOptions {
        &self.options
    }

    fn key(&self, model: &str) -> u64 {
        render::key(&[WIRE, &self.provider, &self.fingerprint, model])
    }
}

impl Codec for Gemini {
    fn wire(&self) -> &'static str {
        WIRE
    }

    fn provider(&self) -> &str {
        &self.provider
    }

    fn auth_header(&self, secret: &str) -> (&'static str, String) {
        match self.options.auth {
            GeminiAuth::ApiKey => ("x-goog-api-key", secret.to_owned()),
            GeminiAuth::Bearer => ("authorization", format!("Bearer {secret}")),
        }
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
