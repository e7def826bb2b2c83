//! Codecs without I/O: a provider-neutral request to a vendor's bytes, a vendor's stream back to blocks.
//!
//! A [`Codec`] is one wire spoken to one provider. It encodes a [`ModelRequest`] into an [`EncodedRequest`], hands out a
//! [`Decoder`] for each answer, and puts failed answers into categories. Transport (sockets, time, retries) belongs to
//! whoever drives it.
//!
//! ```
//! use turnbuckle_core::model::{Delivery, ModelRequest};
//! use turnbuckle_core::transcript::{Item, Transcript};
//! use turnbuckle_wire::{Codec, Decoder, OpenAiChat, Profile};
//!
//! let codec = OpenAiChat::new("deepseek", Profile::named("deepseek").unwrap());
//! let mut transcript = Transcript::default();
//! transcript.push_item(Item::user("Hello"));
//! let request = ModelRequest::new("deepseek-chat", transcript);
//! let encoded = codec.encode(&request).unwrap();
//! assert_eq!(encoded.path, "/chat/completions");
//!
//! let mut decoder = codec.decoder(&request.model);
//! let mut seen = String::new();
//! let mut sink = |delta: turnbuckle_core::model::ModelDelta<'_>| {
//!     if let turnbuckle_core::model::ModelDelta::Text { text, .. } = delta {
//!         seen.push_str(text);
//!     }
//! };
//! decoder.feed(b"data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_re", &mut sink).unwrap();
//! decoder.feed(b"ason\":\"stop\"}]}\n\ndata: [DONE]\n\n", &mut sink).unwrap();
//! let response = decoder.finish(&mut sink).unwrap();
//! assert_eq!(response.blocks.len(), 1);
//! assert_eq!(seen, "Hi");
//! ```
//!
//! # What every codec promises
//! - **A proper end or an error.** [`Decoder::finish`] succeeds only after the wire's terminal event; otherwise it is
//!   [`StreamCut`](turnbuckle_core::error::ModelErrorKind::StreamCut), and [`Decoder::partial`] gives what arrived.
//! - **Chunking never matters.** Bytes may be split anywhere; the result is the same.
//! - **Streamed and blocking answers fold alike.** A plain JSON body may be fed to the same decoder.
//! - **Deltas and blocks agree.** A delta's `block` is the index in the final response; blocks first appear in order; the
//!   concatenated deltas of a block are its text. No text block is empty.
//! - **Names, ids and arguments are verbatim.** Empty arguments stay empty.
//! - **Structured answers** are asked for in the wire's own form; where the provider or the model has none, or it cannot
//!   express the schema, by a forced call of a tool that stands for the answer, and where no tool can be forced, in words.
//!   Either way the answer is text. Whoever asked checks it: a form is a request, not a proof.
//! - **Stable prefixes.** The body's `messages` come last and each transcript entry's bytes are rendered once, so the body
//!   of a longer conversation begins with the bytes of a shorter one.
//!
//! # What goes back to whom
//! A block's [`Native`](turnbuckle_core::part::Native) payload is replayed verbatim, but only over the wire and to the
//! provider it came from, and reasoning payloads only to the model that made them. Anywhere else thinking is dropped, text
//! and tool calls go on without their payload, and native blocks are dropped; when nothing of an answer is left, so is the
//! answer.
//!
//! The same holds for what a person sends: an image or file that the wire, the server or the model cannot take becomes text
//! in its place. A text document reads as its text between tags, anything else as one line that says what it was.

mod answer;
mod answer_tool;
pub mod anthropic;
mod delay;
mod embedding;
mod errors;
mod fold;
pub mod gemini;
mod lenient;
mod lines;
mod media;
pub mod ollama;
pub mod openai_chat;
pub mod openai_responses;
mod recording;
mod render;
mod repeat;
mod scan;
mod schema;
mod sse;

pub use anthropic::{Anthropic, AnthropicOptions};
pub use embedding::{EmbedAnswer, EmbedRequest, EmbedWire, Purpose};
pub use gemini::{Gemini, GeminiOptions};
pub use media::MediaForm;
pub use ollama::{Ollama, OllamaOptions};
pub use openai_chat::{OpenAiChat, Profile};
pub use openai_responses::{OpenAiResponses, ResponsesOptions};
pub use recording::{Recorded, Recording, decode_recording};
pub use sse::{Frame, MAX_EVENT_BYTES, SseSplitter};

use answer_tool::AnswerByTool;
use bytes::Bytes;
use std::fmt;
use turnbuckle_core::error::ModelError;
use turnbuckle_core::model::{ModelDelta, ModelRequest, ModelResponse};

/// A request ready to be sent as `POST base_url + path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedRequest {
    /// Path and query below the provider's base URL, beginning with a slash.
    pub path: String,
    /// Headers, names in lower case. The key's header is not among them: see [`Codec::auth_header`].
    pub headers: Vec<(&'static str, String)>,
    /// The JSON body.
    pub body: Bytes,
}

/// The head of an HTTP answer, as far as codecs read it.
#[derive(Clone, Copy)]
pub struct AnswerHead<'a> {
    /// The HTTP status.
    pub status: u16,
    /// Looks a header up by its lower-case name.
    pub header: &'a dyn Fn(&str) -> Option<&'a str>,
}

impl AnswerHead<'_> {
    /// A head without headers.
    pub fn bare(status: u16) -> AnswerHead<'static> {
        AnswerHead { status, header: &|_| None }
    }
}

impl fmt::Debug for AnswerHead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerHead").field("status", &self.status).finish_non_exhaustive()
    }
}

/// One wire spoken to one provider. Cheap to share; holds no state of any call.
pub trait Codec: Send + Sync + fmt::Debug {
    /// The wire's name: `openai-chat`, `openai-responses`, `anthropic`, `gemini` or `ollama`.
    fn wire(&self) -> &'static str;

    /// The configured provider, as it appears in responses and native blocks.
    fn provider(&self) -> &str;

    /// The header that carries the key.
    fn auth_header(&self, secret: &str) -> (&'static str, String);

    /// The key under which bytes rendered for `model` are kept: equal keys render equal entries to equal bytes.
    fn render_key(&self, model: &str) -> u64;

    /// The request's bytes.
    ///
    /// # Errors
    /// [`Config`](turnbuckle_core::error::ModelErrorKind::Config) when the wire cannot express the request.
    fn encode(&self, request: &ModelRequest) -> Result<EncodedRequest, ModelError>;

    /// Whether the structured answer to this request comes as a call of a tool that stands for it.
    fn answers_by_tool(&self, _request: &ModelRequest) -> bool {
        false
    }

    /// A decoder for one answer of `model` (the name that was asked for).
    fn decoder(&self, model: &str) -> Box<dyn Decoder>;

    /// A decoder for the answer to a request: what was asked for as a call comes back as the text it stands for.
    fn decoder_for(&self, request: &ModelRequest) -> Box<dyn Decoder> {
        let decoder = self.decoder(&request.model);
        if self.answers_by_tool(request) { Box::new(AnswerByTool::new(decoder)) } else { decoder }
    }

    /// Puts an answer with an error status into a category, keeping the provider's own words.
    fn error(&self, head: &AnswerHead<'_>, body: &[u8]) -> ModelError;
}

/// Folds one answer, streamed or whole.
pub trait Decoder: Send {
    /// Takes the next bytes, cut anywhere, and reports what is new to `sink`.
    ///
    /// # Errors
    /// In-band errors by category, and [`Protocol`](turnbuckle_core::error::ModelErrorKind::Protocol) for bytes that do
    /// not follow the wire. After an error only [`partial`](Self::partial) is of use.
    fn feed(
        &mut self,
        bytes: &[u8],
        sink: &mut dyn FnMut(ModelDelta<'_>),
    ) -> Result<(), ModelError>;

    /// Ends the answer after its last byte. Deltas that had to wait for the end are reported first.
    ///
    /// # Errors
    /// [`StreamCut`](turnbuckle_core::error::ModelErrorKind::StreamCut) when the terminal event never came.
    fn finish(&mut self, sink: &mut dyn FnMut(ModelDelta<'_>))
    -> Result<ModelResponse, ModelError>;

    /// What has arrived so far. Its finish reason is `Other("incomplete")` until the provider gave one.
    fn partial(&self) -> ModelResponse;

    /// Whether the terminal event came, so that nothing more need be read.
    fn is_complete(&self) -> bool;
}

/// Decodes a whole answer, streamed or plain JSON, in one go.
///
/// # Errors
/// Those of [`Decoder::feed`] and [`Decoder::finish`].
pub fn decode_whole(
    codec: &dyn Codec,
    model: &str,
    body: &[u8],
) -> Result<ModelResponse, ModelError> {
    let mut decoder = codec.decoder(model);
    let mut sink = |_: ModelDelta<'_>| {};
    decoder.feed(body, &mut sink)?;
    decoder.finish(&mut sink)
}
