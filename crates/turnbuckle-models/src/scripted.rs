//! Models that answer by script: for tests, and under the rehearsal model.

use crate::catalogue::{Capabilities, InfoSource, ModelInfo, TokenizerFamily, UNKNOWN_REMOTE};
use crate::model::{CallFailure, DeltaSink, Model};
use futures_util::future::BoxFuture;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::task::yield_now;
use turnbuckle_core::error::{ModelError, ModelErrorKind};
use turnbuckle_core::model::{Block, Delivery, ModelDelta, ModelRef, ModelRequest, ModelResponse};
use turnbuckle_core::usage::{FinishReason, Usage};

/// One answer of a script.
#[derive(Clone)]
pub enum Scripted {
    /// Answers.
    Answer(ModelResponse),
    /// Streams what arrived before the failure, then fails.
    Fail(CallFailure),
    /// Streams this much and then never ends: for tests of stopping.
    Hang(ModelResponse),
    /// Waits first, then goes on: for tests that decide when.
    After(Wait, Box<Scripted>),
}

/// Makes a future to wait for.
pub type Wait = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scripted::Answer(response) => f.debug_tuple("Answer").field(response).finish(),
            Scripted::Fail(failure) => f.debug_tuple("Fail").field(failure).finish(),
            Scripted::Hang(response) => f.debug_tuple("Hang").field(response).finish(),
            Scripted::After(_, next) => f.debug_tuple("After").field(next).finish(),
        }
    }
}

impl Scripted {
    /// Waits for what `wait` makes, then goes on with this answer.
    pub fn after<F>(self, wait: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Scripted::After(Arc::new(move || Box::pin(wait())), Box::new(self))
    }
}

impl From<ModelResponse> for Scripted {
    fn from(response: ModelResponse) -> Self {
        Scripted::Answer(response)
    }
}

impl From<ModelError> for Scripted {
    fn from(error: ModelError) -> Self {
        Scripted::Fail(error.into())
    }
}

/// An answer of text alone.
pub fn text(text: &str) -> ModelResponse {
    answer(vec![Block::Text { text: text.to_owned(), native: None }])
}

/// An answer that calls tools: wire id, name and arguments of each.
pub fn calls(calls: &[(&str, &str, &str)]) -> ModelResponse {
    let block = |(id, name, arguments): &(&str, &str, &str)| Block::ToolCall {
        wire_id: (*id).to_owned(),
        name: (*name).to_owned(),
        arguments: (*arguments).to_owned(),
        native: None,
    };
    answer(calls.iter().map(block).collect())
}

/// An answer of these blocks, with the finish reason they imply and a little usage.
pub fn answer(blocks: Vec<Block>) -> ModelResponse {
    let asks = blocks.iter().any(|b| matches!(b, Block::ToolCall { .. }));
    ModelResponse {
        blocks,
        finish: if asks { FinishReason::ToolCalls } else { FinishReason::Stop },
        usage: Usage { input: Some(10), output: Some(5), ..Usage::default() },
        provider: PROVIDER.to_owned(),
        model: String::new(),
        id: None,
    }
}

const PROVIDER: &str = "scripted";

type Next = Box<dyn FnMut(&ModelRequest) -> Scripted + Send>;

/// A model that answers by script and keeps the requests.
pub struct ScriptedModel {
    id: ModelRef,
    info: ModelInfo,
    next: Mutex<Next>,
    requests: Mutex<Vec<ModelRequest>>,
    piece: usize,
}

impl fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedModel").field("id", &self.id).finish_non_exhaustive()
    }
}

impl ScriptedModel {
    /// Gives the answers in order; a call after the last fails and says so.
    pub fn new<S: Into<Scripted>>(name: &str, answers: impl IntoIterator<Item = S>) -> Self {
        let mut answers: VecDeque<Scripted> = answers.into_iter().map(Into::into).collect();
        let all = answers.len();
        Self::from_fn(name, move |_| {
            answers.pop_front().unwrap_or_else(|| {
                ModelError::new(
                    ModelErrorKind::Config,
                    format!("the script has no more than {all} answers"),
                )
                .into()
            })
        })
    }

    /// Answers as `next` decides from the request.
    pub fn from_fn(
        name: &str,
        next: impl FnMut(&ModelRequest) -> Scripted + Send + 'static,
    ) -> Self {
        let (context_window, max_output_tokens) = UNKNOWN_REMOTE;
        Self {
            id: ModelRef::new(PROVIDER, name),
            info: ModelInfo {
                context_window,
                max_output_tokens,
                prices: None,
                capabilities: Capabilities::default(),
                tokenizer: TokenizerFamily::Unknown,
                source: InfoSource::Defaults,
            },
            next: Mutex::new(Box::new(next)),
            requests: Mutex::default(),
            piece: 12,
        }
    }

    /// Goes by another provider's name.
    pub fn with_provider(mut self, provider: &str) -> Self {
        self.id = ModelRef::new(provider, self.id.model.clone());
        self
    }

    /// Has this window and output limit, in tokens.
    pub fn with_window(mut self, context_window: u32, max_output_tokens: u32) -> Self {
        self.info.context_window = context_window;
        self.info.max_output_tokens = max_output_tokens;
        self
    }

    /// Has this info.
    pub fn with_info(mut self, info: ModelInfo) -> Self {
        self.info = info;
        self
    }

    /// Streams in deltas of this many characters (12 unless told).
    pub fn in_pieces_of(mut self, characters: usize) -> Self {
        self.piece = characters.max(1);
        self
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<ModelRequest> {
        locked(&self.requests).clone()
    }

    async fn play(
        &self,
        request: &ModelRequest,
        sink: &mut dyn DeltaSink,
    ) -> Result<ModelResponse, CallFailure> {
        let mut scripted = {
            locked(&self.requests).push(request.clone());
            let mut next = locked(&self.next);
            next(request)
        };
        while let Scripted::After(wait, then) = scripted {
            wait().await;
            scripted = *then;
        }
        let sign = |mut response: ModelResponse| {
            if response.provider == PROVIDER {
                response.provider = self.id.provider.to_string();
            }
            if response.model.is_empty() {
                response.model = request.model.to_string();
            }
            response
        };
        match scripted {
            Scripted::Answer(response) => {
                self.stream(request, &response, sink).await;
                Ok(sign(response))
            }
            Scripted::Fail(failure) => {
                if let Some(partial) = &failure.partial {
                    self.stream(request, partial, sink).await;
                }
                Err(failure)
            }
            Scripted::Hang(response) => {
                self.stream(request, &response, sink).await;
                std::future::pending().await
            }
            // Unwrapped above.
            Scripted::After(..) => {
                Err(ModelError::new(ModelErrorKind::Config, "nothing is scripted").into())
            }
        }
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        response: &ModelResponse,
        sink: &mut dyn DeltaSink,
    ) {
        if request.delivery == Delivery::Whole {
            return;
        }
        for delta in deltas(response, |text| pieces_of(text, self.piece)) {
            sink.delta(delta);
            yield_now().await;
        }
    }
}

impl Model for ScriptedModel {
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
        Box::pin(async move { self.play(request, sink).await })
    }
}

fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The deltas a codec would report for an answer, its texts cut by `cut`.
pub(crate) fn deltas<'a>(
    response: &'a ModelResponse,
    cut: impl Fn(&'a str) -> Vec<&'a str>,
) -> Vec<ModelDelta<'a>> {
    let mut deltas = Vec::new();
    for (block, content) in response.blocks.iter().enumerate() {
        match content {
            Block::Text { text, .. } => {
                deltas.extend(cut(text).into_iter().map(|text| ModelDelta::Text { block, text }));
            }
            Block::Thinking { text, .. } => {
                deltas
                    .extend(cut(text).into_iter().map(|text| ModelDelta::Thinking { block, text }));
            }
            Block::ToolCall { wire_id, name, arguments, .. } => {
                deltas.push(ModelDelta::CallStart { block, wire_id, name });
                deltas.extend(
                    cut(arguments)
                        .into_iter()
                        .map(|text| ModelDelta::CallArguments { block, text }),
                );
            }
            Block::Native { .. } => {}
        }
    }
    deltas
}

fn pieces_of(mut text: &str, characters: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    while !text.is_empty() {
        let end = text.char_indices().nth(characters).map_or(text.len(), |(at, _)| at);
        let (piece, rest) = text.split_at_checked(end).unwrap_or((text, ""));
        pieces.push(piece);
        text = rest;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnbuckle_core::transcript::Transcript;

    async fn run(model: &ScriptedModel) -> (Vec<String>, Result<ModelResponse, CallFailure>) {
        let mut seen = Vec::new();
        let request = ModelRequest::new("m", Transcript::default());
        let result = model
            .call(&request, &mut |delta: ModelDelta<'_>| seen.push(format!("{delta:?}")))
            .await;
        (seen, result)
    }

    #[tokio::test]
    async fn answers_in_order_and_says_when_the_script_is_over() {
        let model = ScriptedModel::new("m", [text("one"), calls(&[("c1", "look", "{}")])]);
        assert_eq!(run(&model).await.1.unwrap().blocks, text("one").blocks);
        assert_eq!(run(&model).await.1.unwrap().finish, FinishReason::ToolCalls);
        let error = run(&model).await.1.unwrap_err().error;
        assert_eq!(
            (error.kind, error.message.as_str()),
            (ModelErrorKind::Config, "the script has no more than 2 answers")
        );
        assert_eq!(model.requests().len(), 3);
    }

    #[tokio::test]
    async fn streams_what_it_answers_piece_by_piece() {
        let model = ScriptedModel::new("m", [text("añb")]).in_pieces_of(2);
        let (seen, result) = run(&model).await;
        assert_eq!(seen, [r#"Text { block: 0, text: "añ" }"#, r#"Text { block: 0, text: "b" }"#,]);
        let response = result.unwrap();
        assert_eq!((response.provider.as_str(), response.model.as_str()), ("scripted", "m"));
    }
}
