//! OpenAI Chat Completions and the many servers that speak it, each with its [`Profile`].
//!
//! One assistant entry becomes one message with its text, its reasoning (in the field and under the conditions of the
//! profile) and its tool calls; each result becomes one `tool` message. Several text blocks of an answer are one `content`,
//! joined without anything between, as the server would have given it in a blocking answer.

mod calls;
mod chunk;
mod decode;
mod encode;
mod profile;

pub use profile::{
    ArgumentsRule, Auth, EmptyContent, LateSystem, MaxTokens, ModelRule, Profile, ReasoningField,
    ReasoningHistory, ReasoningParam, Structured, SystemRole, ToolChoiceForm, ToolIds,
};

use crate::answer::Origin;
use crate::fold::Folding;
use crate::{AnswerHead, Codec, Decoder, EncodedRequest, errors, render};
use turnbuckle_core::error::ModelError;
use turnbuckle_core::model::ModelRequest;

/// The wire's name.
pub const WIRE: &str = "openai-chat";

/// Chat Completions as one provider speaks it.
#[derive(Clone, Debug)]
pub struct OpenAiChat {
    provider: String,
    profile: Profile,
    /// The profile as text: part of the render key.
    fingerprint: String,
}

impl OpenAiChat {
    /// The wire of `provider` with its quirks.
    pub fn new(provider: impl Into<String>, profile: Profile) -> Self {
        let fingerprint = serde_json::to_string(&profile).unwrap_or_default();
        Self { provider: provider.into(), profile, fingerprint }
    }

    /// The profile.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    fn key(&self, model: &str) -> u64 {
        // The lowest bit tells the two renderings of an entry apart.
        render::key(&[WIRE, &self.provider, &self.fingerprint, model]) & !1
    }
}

impl Codec for OpenAiChat {
    fn wire(&self) -> &'static str {
        WIRE
    }

    fn provider(&self) -> &str {
        &self.provider
    }

    fn auth_header(&self, secret: &str) -> (&'static str, String) {
        match self.profile.auth {
            Auth::Bearer => ("authorization", format!("Bearer {secret}")),
            Auth::ApiKey => ("api-key", secret.to_owned()),
        }
    }

    fn render_key(&self, model: &str) -> u64 {
        self.key(model)
    }

    fn encode(&self, request: &ModelRequest) -> Result<EncodedRequest, ModelError> {
        self.encode_request(request)
    }

    fn answers_by_tool(&self, request: &ModelRequest) -> bool {
        request.output.is_some()
            && self.profile.for_model(&request.model).structured_for(request) == Structured::Tool
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
