//! Does a step cost the same however long the session is? A long turn over a long history, against the same turn over none,
//! with a model that answers at once: what is left is the engine's own work.

use futures_util::StreamExt;
use mockllm::usage::Usage;
use std::time::Duration;
use turnbuckle::Engine;
use turnbuckle::core::limits::TurnLimits;
use turnbuckle_bench::instant::Answers;
use turnbuckle_bench::{Error, PROMPT, agents, history};

/// Tool rounds of a turn.
const ROUNDS: usize = 48;
/// Messages of the long history.
const MESSAGES: usize = 2_000;
const TURNS: usize = 30;

/// Microseconds of CPU per step (model call with its tool call) over an empty and over a long history.
pub async fn measure() -> Result<serde_json::Value, Error> {
    let model = Answers::new(ROUNDS, Duration::ZERO, "Done.");
    let domain = agents(60, Duration::ZERO)?;
    let limits = TurnLimits { max_model_calls: 60, ..TurnLimits::default() };
    let engine = Engine::builder().domain(domain).model(model).limits(limits).build()?;
    let (empty, long) = (history(0), history(MESSAGES));
    let mut best = [f64::MAX; 2];
    for round in 0..6 {
        for (which, history) in [&empty, &long].into_iter().enumerate() {
            let before = Usage::now();
            for _ in 0..TURNS {
                let mut stream = engine.converse("main", history.clone(), PROMPT)?;
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
