//! Vectors of a provider's model.

use super::{EmbedOptions, Embedded, Embedder, Purpose, check, normalize};
use crate::endpoint::Endpoint;
use futures_util::future::BoxFuture;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use turnbuckle_core::error::{ModelError, ModelErrorKind};
use turnbuckle_core::model::ModelRef;
use turnbuckle_core::retry;
use turnbuckle_wire::{EmbedAnswer, EmbedRequest, EmbedWire};

/// An embedding model of an endpoint.
pub(crate) struct RemoteEmbedder {
    pub(crate) id: ModelRef,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) wire: EmbedWire,
    pub(crate) options: EmbedOptions,
}

/// Bytes per token at the least, so that no request is over the limit: one character of many scripts is a token.
const BYTES_PER_TOKEN: usize = 3;

impl RemoteEmbedder {
    async fn all(&self, texts: &[String], purpose: Purpose) -> Result<Embedded, ModelError> {
        check(texts)?;
        let mut out = Embedded { vectors: Vec::with_capacity(texts.len()), tokens: Some(0) };
        // The last of these is the next to be asked for.
        let mut open = self.batches(texts);
        open.reverse();
        while let Some(batch) = open.pop() {
            let some = texts.get(batch.clone()).unwrap_or_default();
            let answer = match self.insist(some, purpose).await {
                Ok(answer) => answer,
                Err(error) if batch.len() > 1 && too_many(&error) => {
                    let middle = batch.start + batch.len() / 2;
                    open.push(middle..batch.end);
                    open.push(batch.start..middle);
                    continue;
                }
                Err(mut error) => {
                    if texts.len() > 1 {
                        let (first, last) = (batch.start, batch.end.saturating_sub(1));
                        error.message = format!("texts {first} to {last}: {}", error.message);
                    }
                    return Err(error);
                }
            };
            out.tokens = out.tokens.zip(answer.tokens).map(|(a, b)| a + b);
            out.vectors.extend(answer.vectors);
        }
        let length = out.vectors.first().map_or(0, Vec::len);
        if out.vectors.iter().any(|v| v.len() != length) {
            return Err(wrong("the provider's vectors differ in length from request to request"));
        }
        if self.options.dimensions.is_some_and(|d| d as usize != length && length > 0) {
            return Err(wrong("the provider's vectors are not as long as was asked for"));
        }
        out.vectors.iter_mut().for_each(|v| normalize(v));
        Ok(out)
    }

    /// The texts in runs that stay within the limits of a request.
    fn batches(&self, texts: &[String]) -> Vec<Range<usize>> {
        let most_texts = self.options.max_texts.unwrap_or(self.wire.most_texts()).max(1);
        let most_tokens = self.options.max_tokens.unwrap_or(self.wire.most_tokens());
        let mut batches = Vec::new();
        let (mut start, mut tokens) = (0, 0);
        for (at, text) in texts.iter().enumerate() {
            let more = text.len() / BYTES_PER_TOKEN + 1;
            if at > start && (at - start >= most_texts || tokens + more > most_tokens) {
                batches.push(start..at);
                (start, tokens) = (at, 0);
            }
            tokens += more;
        }
        if start < texts.len() {
            batches.push(start..texts.len());
        }
        batches
    }

    /// One request, again as long as the table says so.
    async fn insist(&self, texts: &[String], purpose: Purpose) -> Result<EmbedAnswer, ModelError> {
        let model = &self.id.model;
        let dimensions = self.options.dimensions;
        let request = EmbedRequest { model, texts, purpose, dimensions };
        let encoded = self.wire.encode(&request, self.options.path.as_deref());
        let mut attempt = 1;
        loop {
            let answered = self.endpoint.exchange(encoded.clone(), model).await;
            let error = match answered.and_then(|body| self.wire.decode(texts.len(), &body)) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let jitter = crate::endpoint::jitter();
            match retry::delay_ms(error.kind, attempt, error.retry_after_ms, jitter) {
                Some(delay) => tokio::time::sleep(Duration::from_millis(delay)).await,
                None => return Err(error),
            }
            attempt += 1;
        }
    }
}

/// Whether fewer texts at once may do.
fn too_many(error: &ModelError) -> bool {
    let message = error.message.to_ascii_lowercase();
    let said = |words: &[&str]| words.iter().any(|word| message.contains(word));
    match error.kind {
        ModelErrorKind::ContextOverflow => true,
        ModelErrorKind::BadRequest => said(&[
            "batch",
            "too many inputs",
            "too long",
            "max_tokens_per_request",
            "tokens per request",
        ]),
        _ => false,
    }
}

fn wrong(message: &str) -> ModelError {
    ModelError::new(ModelErrorKind::Protocol, message)
}

impl Embedder for RemoteEmbedder {
    fn id(&self) -> &ModelRef {
        &self.id
    }

    fn dimensions(&self) -> Option<u32> {
        self.options.dimensions
    }

    fn embed<'a>(
        &'a self,
        texts: &'a [String],
        purpose: Purpose,
    ) -> BoxFuture<'a, Result<Embedded, ModelError>> {
        Box::pin(self.all(texts, purpose))
    }
}
