//! Fallback chains: model A, then B when A's provider is overloaded or out.

use crate::catalogue::ModelInfo;
use crate::model::{CallFailure, DeltaSink, Model};
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use turnbuckle_core::error::{ModelError, ModelErrorKind};
use turnbuckle_core::model::{ModelDelta, ModelRef, ModelRequest, ModelResponse};

/// Models asked one after the other until one answers.
///
/// The next is asked only when the one before failed for its provider's reasons and before any content arrived; a bad
/// request, a refused key or a prompt that is too long is the caller's to mend, and would fail or be hidden by the next.
/// A model whose provider holds calls back is not waited for while there is another; when all are held back, the last is.
/// The request's model is replaced by each model's own name. The answer says who gave it.
pub struct FallbackModel {
    chain: Vec<Arc<dyn Model>>,
    id: ModelRef,
    info: ModelInfo,
}

impl FallbackModel {
    /// A chain that begins with `first`. Its window and output limit are the smallest of the chain, so that a prompt that
    /// fits one fits all; everything else is as with the first.
    pub fn new(first: Arc<dyn Model>, others: impl IntoIterator<Item = Arc<dyn Model>>) -> Self {
        let (id, mut info) = (first.id().clone(), first.info().clone());
        let chain: Vec<_> = std::iter::once(first).chain(others).collect();
        for model in &chain {
            info.context_window = info.context_window.min(model.info().context_window);
            info.max_output_tokens = info.max_output_tokens.min(model.info().max_output_tokens);
        }
        Self { chain, id, info }
    }
}

/// Whether a failure is the provider's, so that another may do better.
pub const fn falls_back(kind: ModelErrorKind) -> bool {
    use ModelErrorKind::*;
    match kind {
        RateLimited | QuotaExceeded | Overloaded | Server | Timeout | Network | StreamCut => true,
        BadRequest | Auth | NotFound | ContextOverflow | ContentFilter | Protocol | Cancelled
        | Config => false,
    }
}

impl Model for FallbackModel {
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
            let mut failed: Option<CallFailure> = None;
            let mut models = self.chain.iter().peekable();
            while let Some(model) = models.next() {
                if let (Some(rest), Some(_)) = (model.held(), models.peek()) {
                    failed = Some(joined(failed.take(), held_back(rest), model.id()));
                    continue;
                }
                let mut watching = Watching { sink: &mut *sink, told: false };
                // The first model was asked for by its caller, who may have named a variant of it.
                let result = if failed.is_none() {
                    model.call(request, &mut watching).await
                } else {
                    let own = ModelRequest { model: model.id().model.clone(), ..request.clone() };
                    model.call(&own, &mut watching).await
                };
                let failure = match result {
                    Ok(response) => return Ok(response),
                    Err(failure) => failure,
                };
                let stop =
                    watching.told || !failure.before_content() || !falls_back(failure.error.kind);
                tracing::debug!(model = %model.id(), error = %failure.error, stop, "a model of a fallback chain failed");
                let failure = joined(failed.take(), failure, model.id());
                if stop {
                    return Err(failure);
                }
                failed = Some(failure);
            }
            Err(failed.unwrap_or_else(|| {
                ModelError::new(ModelErrorKind::Config, "the chain is empty").into()
            }))
        })
    }
}

/// Notes whether anything was told.
struct Watching<'a> {
    sink: &'a mut (dyn DeltaSink + 'a),
    told: bool,
}

impl DeltaSink for Watching<'_> {
    fn delta(&mut self, delta: ModelDelta<'_>) {
        self.told = true;
        self.sink.delta(delta);
    }

    fn is_ready(&mut self) -> bool {
        self.sink.is_ready()
    }
}

/// Stands for the failure of a model that was not even asked.
fn held_back(rest: Duration) -> CallFailure {
    let mut error = ModelError::new(
        ModelErrorKind::RateLimited,
        format!("the provider takes no calls for another {:.1} s", rest.as_secs_f64()),
    );
    error.retry_after_ms = Some(rest.as_millis().try_into().unwrap_or(u64::MAX));
    error.into()
}

/// The last failure, with the words of those before it.
fn joined(before: Option<CallFailure>, mut last: CallFailure, model: &ModelRef) -> CallFailure {
    if let Some(before) = before {
        last.error.message =
            format!("{}; then {model}: {}", before.error.message, last.error.message);
        // Whoever waits may as well wait for the sooner of them.
        last.error.retry_after_ms = match (before.error.retry_after_ms, last.error.retry_after_ms) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::NoDeltas;
    use crate::scripted::{Scripted, ScriptedModel, text};
    use turnbuckle_core::transcript::Transcript;

    fn failing(name: &str, kind: ModelErrorKind) -> Arc<ScriptedModel> {
        Arc::new(ScriptedModel::new(
            name,
            [Scripted::Fail(ModelError::new(kind, format!("{name} is out")).into())],
        ))
    }

    fn answering(name: &str) -> Arc<ScriptedModel> {
        Arc::new(ScriptedModel::new(name, [Scripted::Answer(text("from the other"))]))
    }

    async fn ask(chain: &FallbackModel) -> Result<ModelResponse, CallFailure> {
        chain.call(&ModelRequest::new("a", Transcript::default()), &mut NoDeltas).await
    }

    #[tokio::test]
    async fn an_outage_falls_back_and_the_other_model_is_named_in_its_request() {
        let (a, b) = (failing("a", ModelErrorKind::Overloaded), answering("b"));
        let chain = FallbackModel::new(a.clone(), [b.clone() as Arc<dyn Model>]);
        assert_eq!(ask(&chain).await.unwrap().blocks, text("from the other").blocks);
        assert_eq!(&*a.requests()[0].model, "a");
        assert_eq!(&*b.requests()[0].model, "b");
    }

    #[tokio::test]
    async fn a_bad_request_never_falls_back() {
        use ModelErrorKind::*;
        for kind in [
            BadRequest,
            Auth,
            NotFound,
            ContextOverflow,
            ContentFilter,
            Protocol,
            Cancelled,
            Config,
        ] {
            let b = answering("b");
            let chain = FallbackModel::new(failing("a", kind), [b.clone() as Arc<dyn Model>]);
            assert_eq!(ask(&chain).await.unwrap_err().error.kind, kind);
            assert_eq!(b.requests().len(), 0, "{kind:?}");
        }
    }

    #[tokio::test]
    async fn content_that_was_seen_is_not_said_again_by_another() {
        let error = ModelError::new(ModelErrorKind::StreamCut, "cut");
        let failure = CallFailure { error, partial: Some(text("half an ans")) };
        let a = Arc::new(ScriptedModel::new("a", [Scripted::Fail(failure.clone())]));
        let b = answering("b");
        let chain = FallbackModel::new(a, [b.clone() as Arc<dyn Model>]);
        assert_eq!(ask(&chain).await.unwrap_err(), failure);
        assert_eq!(b.requests().len(), 0);
    }

    #[tokio::test]
    async fn when_all_fail_every_word_is_kept() {
        let chain = FallbackModel::new(
            failing("a", ModelErrorKind::Overloaded),
            [failing("b", ModelErrorKind::Server) as Arc<dyn Model>],
        );
        let error = ask(&chain).await.unwrap_err().error;
        assert_eq!(
            (error.kind, error.message.as_str()),
            (ModelErrorKind::Server, "a is out; then scripted:b: b is out")
        );
    }

    #[test]
    fn the_window_is_the_smallest_of_the_chain() {
        let small = ScriptedModel::new("b", [Scripted::Answer(text("x"))]).with_window(1_000, 100);
        let chain = FallbackModel::new(answering("a"), [Arc::new(small) as Arc<dyn Model>]);
        assert_eq!((chain.info().context_window, chain.info().max_output_tokens), (1_000, 100));
    }
}
