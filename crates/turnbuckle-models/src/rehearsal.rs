//! The rehearsal model: a story instead of a vendor, so that everything can be seen and tested without a key.
//!
//! It is no model and never pretends to be one: its provider is `rehearsal` wherever a model is named. Everything around
//! it (engine, tools, approvals, storage) is the real thing.

use crate::catalogue::{Capabilities, InfoSource, ModelInfo, Prices, TokenizerFamily};
use crate::model::{CallFailure, DeltaSink, Model};
use crate::scripted::deltas;
use futures_util::future::BoxFuture;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use turnbuckle_core::model::{Delivery, ModelRef, ModelRequest, ModelResponse};

/// The provider's name of every rehearsal model.
pub const REHEARSAL: &str = "rehearsal";

/// Decides the answer to a request. Pure: the same request gets the same answer, so that stories replay.
pub trait Story: Send + Sync {
    /// The story's name; it stands where the model's name would.
    fn name(&self) -> &str;

    /// The answer. Provider, model and missing usage are filled in by the rehearsal model.
    fn answer(&self, request: &ModelRequest) -> ModelResponse;
}

/// A story that is a function.
pub struct FnStory<F> {
    name: String,
    answer: F,
}

impl<F: Fn(&ModelRequest) -> ModelResponse + Send + Sync> FnStory<F> {
    /// Names a function.
    pub fn new(name: &str, answer: F) -> Self {
        Self { name: name.to_owned(), answer }
    }
}

impl<F: Fn(&ModelRequest) -> ModelResponse + Send + Sync> Story for FnStory<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn answer(&self, request: &ModelRequest) -> ModelResponse {
        (self.answer)(request)
    }
}

/// Plays a [`Story`], word by word.
pub struct RehearsalModel {
    id: ModelRef,
    info: ModelInfo,
    story: Arc<dyn Story>,
    pace: Duration,
}

impl fmt::Debug for RehearsalModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RehearsalModel")
            .field("id", &self.id)
            .field("pace", &self.pace)
            .finish_non_exhaustive()
    }
}

impl RehearsalModel {
    /// Plays `story` at a pleasant pace.
    pub fn new(story: Arc<dyn Story>) -> Self {
        Self {
            id: ModelRef::new(REHEARSAL, story.name()),
            info: ModelInfo {
                context_window: 128_000,
                max_output_tokens: 16_384,
                prices: Some(Prices::default()),
                capabilities: Capabilities { reasoning: true, ..Capabilities::default() },
                tokenizer: TokenizerFamily::Unknown,
                source: InfoSource::Config,
            },
            story,
            pace: Duration::from_millis(15),
        }
    }

    /// Waits this long after each word; zero for tests.
    pub fn with_pace(mut self, pace: Duration) -> Self {
        self.pace = pace;
        self
    }
}

impl Model for RehearsalModel {
    fn id(&self) -> &ModelRef {
        &self.id
    }

    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn call<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a mut (dyn DeltaSink + 'a),
    ) -> BoxFuture<'a, Result<ModelResponse, CallFailure>> {
        Box::pin(async move {
            let mut response = self.story.answer(request);
            response.provider = REHEARSAL.to_owned();
            response.model = self.id.model.to_string();
            if request.delivery == Delivery::Stream {
                let mut next = Instant::now();
                for delta in deltas(&response, words) {
                    sink.delta(delta);
                    if self.pace.is_zero() {
                        tokio::task::yield_now().await;
                    } else {
                        next += self.pace;
                        sleep_until(next).await;
                    }
                }
            }
            Ok(response)
        })
    }
}

/// Each word with the white space after it.
fn words(text: &str) -> Vec<&str> {
    text.split_inclusive(char::is_whitespace).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{calls, text};
    use turnbuckle_core::model::ModelDelta;
    use turnbuckle_core::transcript::{Item, Transcript};

    fn story() -> Arc<dyn Story> {
        Arc::new(FnStory::new("first-look", |request: &ModelRequest| {
            match request.transcript.entries().last() {
                Some(entry) if matches!(entry.item, Item::ToolResults { .. }) => {
                    text("Two open threads.")
                }
                _ => calls(&[("r1", "list_threads", r#"{"open": true}"#)]),
            }
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn plays_word_by_word_under_its_own_label() {
        let model = RehearsalModel::new(story()).with_pace(Duration::from_millis(20));
        let mut transcript = Transcript::default();
        transcript.push_item(Item::ToolResults { results: Vec::new() });
        let request = ModelRequest::new("ignored", transcript);
        let mut seen = Vec::new();
        let begin = Instant::now();
        let response = model
            .call(&request, &mut |delta: ModelDelta<'_>| {
                if let ModelDelta::Text { text, .. } = delta {
                    seen.push(text.to_owned());
                }
            })
            .await
            .unwrap();
        assert_eq!(seen, ["Two ", "open ", "threads."]);
        assert_eq!(begin.elapsed(), Duration::from_millis(60));
        assert_eq!(
            (response.provider.as_str(), response.model.as_str()),
            ("rehearsal", "first-look")
        );
        assert_eq!(model.id().to_string(), "rehearsal:first-look");
    }
}
