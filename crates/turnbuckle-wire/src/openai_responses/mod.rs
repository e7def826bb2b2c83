//! The OpenAI Responses API, without state kept by the provider.
//!
//! An assistant entry becomes its items in their order: reasoning with its encrypted content, messages, function calls, and
//! the items of the provider's own tools. Each result becomes one `function_call_output`.

mod decode;
mod encode;
mod event;
mod options;

pub use options::{ResponsesOptions, ResponsesRule};

use crate::answer::Origin;
use crate::fold::Folding;
use crate::{AnswerHead, Codec, Decoder, EncodedRequest, errors, render};
use turnbuckle_core::error::ModelError;
use turnbuckle_core::model::ModelRequest;

/// The wire's name.
pub const WIRE: &str = "openai-responses";

/// The Responses API as one provider speaks it.
#[derive(Clone, Debug)]
pub struct OpenAiResponses {
    provider: String,
    options: ResponsesOptions,
    /// The options as text: part of the render key.
    fingerprint: String,
}

impl OpenAiResponses {
    /// The wire of `provider`.
    pub fn new(provider: impl Into<String>, options: ResponsesOptions) -> Self {
        let fingerprint = serde_json::to_string(&options).unwrap_or_default();
        Self { provider: provider.into(), options, fingerprint }
    }

    /// The options.
    pub fn options(&self) -> &ResponsesOptions {
        &self.options
    }

    fn key(&self, model: &str) -> u64 {
        render::key(&[WIRE, &self.provider, &self.fingerprint, model])
    }
}

impl Codec for OpenAiResponses {
    fn wire(&self) -> &'static str {
        WIRE
    }

    fn provider(&self) -> &str {
        &self.provider
    }

    fn auth_header(&self, secret: &str) -> (&'static str, String) {
        if self.options.api_key_header {
            ("api-key", secret.to_owned())
        } else {
            ("authorization", format!("Bearer {secret}"))
        }
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
