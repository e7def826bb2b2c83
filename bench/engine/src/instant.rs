//! A model that answers at once, or after a fixed time, and sees how long the engine takes from one answer to the next call.

use futures_util::future::BoxFuture;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};
use turnbuckle::core::model::{Block, ModelRef, ModelRequest, ModelResponse};
use turnbuckle::core::transcript::{Entry, Item};
use turnbuckle::core::usage::{FinishReason, Usage};
use turnbuckle::models::catalogue::{Capabilities, InfoSource, TokenizerFamily};
use turnbuckle::models::{CallFailure, DeltaSink, Model, ModelInfo};

tokio::task_local! {
    static TURN: RefCell<Timing>;
}

/// How long the engine took in a turn: all that is not the model's own time.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Since when the engine has the word. Where a moment was planned, it is that one, however late it came.
    since: Instant,
    /// From the turn's planned beginning to the first call of the model.
    pub beginning: Duration,
    /// From each answer that asks for a tool to the next call: the answer and the tool's result are stored meanwhile.
    pub rounds: Vec<Duration>,
    /// From the last answer to the end of the turn.
    pub end: Duration,
}

/// Runs a turn that was to begin at `planned`, in the task that polls it.
///
/// # Errors
/// The turn's own.
pub async fn timed<E>(
    planned: Instant,
    turn: impl Future<Output = Result<(), E>>,
) -> Result<Timing, E> {
    let timing = Timing {
        since: planned,
        beginning: Duration::ZERO,
        rounds: Vec::new(),
        end: Duration::ZERO,
    };
    TURN.scope(RefCell::new(timing), async move {
        turn.await?;
        Ok(TURN.with(|timing| {
            let timing = timing.borrow();
            Timing { end: timing.since.elapsed(), ..timing.clone() }
        }))
    })
    .await
}

/// Asks for a tool `rounds` times in a turn, then answers with a text.
pub struct Answers {
    id: ModelRef,
    info: ModelInfo,
    rounds: usize,
    delay: Duration,
    text: String,
}

impl Answers {
    /// Each answer comes `delay` after its call.
    pub fn new(rounds: usize, delay: Duration, text: impl Into<String>) -> Self {
        let info = ModelInfo {
            context_window: 10_000_000,
            max_output_tokens: 1_000,
            prices: None,
            capabilities: Capabilities::default(),
            tokenizer: TokenizerFamily::Unknown,
            source: InfoSource::Config,
        };
        let id = ModelRef::new("bench", "instant");
        Self { id, info, rounds, delay, text: text.into() }
    }

    fn answer(&self, round: usize) -> ModelResponse {
        let (block, finish) = if round < self.rounds {
            let call = Block::ToolCall {
                wire_id: format!("call_{round}"),
                name: "lookup".into(),
                arguments: format!("{{\"id\":{round}}}"),
                native: None,
            };
            (call, FinishReason::ToolCalls)
        } else {
            (Block::Text { text: self.text.clone(), native: None }, FinishReason::Stop)
        };
        ModelResponse {
            blocks: vec![block],
            finish,
            usage: Usage { input: Some(10), output: Some(10), ..Usage::default() },
            provider: "bench".into(),
            model: "instant".into(),
            id: None,
        }
    }
}

/// The tool rounds since the last message of a person, of whom the turn begins with one.
fn done(entries: &[Arc<Entry>]) -> usize {
    let own = entries.iter().rev().take_while(|e| !matches!(e.item, Item::User { .. }));
    own.filter(|e| matches!(e.item, Item::ToolResults { .. })).count()
}

impl Model for Answers {
    fn id(&self) -> &ModelRef {
        &self.id
    }

    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn call<'a>(
        &'a self,
        request: &'a ModelRequest,
        _: &'a mut (dyn DeltaSink + 'a),
    ) -> BoxFuture<'a, Result<ModelResponse, CallFailure>> {
        let round = done(request.transcript.entries());
        Box::pin(async move {
            let ready = Instant::now() + self.delay;
            // Outside of a timed turn there is nothing to note.
            let _untimed = TURN.try_with(|timing| {
                let mut timing = timing.borrow_mut();
                let took = timing.since.elapsed();
                match round {
                    0 => timing.beginning = took,
                    _ => timing.rounds.push(took),
                }
                timing.since = ready;
            });
            if !self.delay.is_zero() {
                tokio::time::sleep_until(ready.into()).await;
            }
            Ok(self.answer(round))
        })
    }
}
