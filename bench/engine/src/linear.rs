//! Does a step cost the same however long the session is? A long turn over a long history, against the same turn over none,
//! with a model that answers at once: what is left is the engine's own work.

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use mockllm::job::history_text;
use mockllm::usage::Usage;
use turnbuckle::core::limits::{AgentLimits, TurnLimits};
use turnbuckle::core::model::{Block, ModelRef, ModelRequest, ModelResponse};
use turnbuckle::core::transcript::{Item, Transcript};
use turnbuckle::core::usage::FinishReason;
use turnbuckle::models::catalogue::{Capabilities, InfoSource, TokenizerFamily};
use turnbuckle::models::{CallFailure, DeltaSink, Model, ModelInfo};
use turnbuckle::{Agent, Engine};

/// Tool rounds of a turn.
const ROUNDS: usize = 48;
/// Messages of the long history.
const MESSAGES: usize = 2_000;
const TURNS: usize = 30;

/// Asks for a tool [`ROUNDS`] times, then answers.
struct Instant {
    id: ModelRef,
    info: ModelInfo,
}

impl Model for Instant {
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
        let results = |e: &&std::sync::Arc<turnbuckle::core::transcript::Entry>| {
            matches!(e.item, Item::ToolResults { .. })
        };
        // Only the turn's own entries are looked at, so that the model's cost is the same in both runs.
        let recent = request.transcript.entries().iter().rev().take(2 * ROUNDS + 2);
        let round = recent.filter(results).count();
        let block = if round < ROUNDS {
            Block::ToolCall {
                wire_id: format!("call_{round}"),
                name: "lookup".into(),
                arguments: format!("{{\"id\":{round}}}"),
                native: None,
            }
        } else {
            Block::Text { text: "Done.".into(), native: None }
        };
        let finish = if round < ROUNDS { FinishReason::ToolCalls } else { FinishReason::Stop };
        let usage = turnbuckle::core::usage::Usage {
            input: Some(10),
            output: Some(10),
            ..turnbuckle::core::usage::Usage::default()
        };
        let response = ModelResponse {
            blocks: vec![block],
            finish,
            usage,
            provider: "bench".into(),
            model: "instant".into(),
            id: None,
        };
        Box::pin(std::future::ready(Ok(response)))
    }
}

fn history(messages: usize) -> Transcript {
    let mut history = Transcript::default();
    for i in 0..messages {
        let text = history_text(i);
        history.push_item(match i % 2 {
            0 => Item::User { text },
            _ => Item::Assistant { blocks: vec![Block::Text { text, native: None }] },
        });
    }
    history
}

/// Microseconds of CPU per step (model call with its tool call) over an empty and over a long history.
pub async fn measure() -> Result<serde_json::Value, crate::Error> {
    let info = ModelInfo {
        context_window: 10_000_000,
        max_output_tokens: 1_000,
        prices: None,
        capabilities: Capabilities::default(),
        tokenizer: TokenizerFamily::Unknown,
        source: InfoSource::Config,
    };
    let model = Instant { id: ModelRef::new("bench", "instant"), info };
    let agent = Agent::builder("main")
        .instructions(crate::SYSTEM)
        .tool(crate::lookup())
        .limits(AgentLimits { max_iterations: 60, ..AgentLimits::default() })
        .build()?;
    let limits = TurnLimits { max_model_calls: 60, ..TurnLimits::default() };
    let resources =
        turnbuckle::tool::Resources::new().with(crate::Delay(std::time::Duration::ZERO));
    let domain = turnbuckle::Agents::new([agent]).with_resources(resources);
    let engine = Engine::builder().domain(domain).model(model).limits(limits).build()?;
    let (empty, long) = (history(0), history(MESSAGES));
    let mut best = [f64::MAX; 2];
    for round in 0..6 {
        for (which, history) in [&empty, &long].into_iter().enumerate() {
            let before = Usage::now();
            for _ in 0..TURNS {
                let mut stream = engine.converse("main", history.clone(), crate::PROMPT)?;
                while stream.next().await.is_some() {}
            }
            let used = Usage::now().since(before);
            let steps = (TURNS * (ROUNDS + 1)) as f64;
            if let Some(best) = best.get_mut(which).filter(|_| round > 0) {
                *best = best.min((used.user_s + used.sys_s) * 1e6 / steps);
            }
        }
    }
    let [empty, long] = best;
    Ok(serde_json::json!({"step_us_empty": empty, "step_us_long": long, "ratio": long / empty}))
}
