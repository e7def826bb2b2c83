//! The same work in the full store, in sessions with a long history, and in the empty store, by turns: the ratio of the two
//! says whether a step costs more when much is stored.

use crate::fill::{LONG, long};
use crate::steps::Writer;
use crate::turns;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use turnbuckle::core::ids::SessionKey;
use turnbuckle::store::Store;
use turnbuckle_bench::Error;
use turnbuckle_bench::instant::timed;

/// Steps of a batch.
const STEPS: usize = 200;
/// Tool rounds of a turn.
const ROUNDS: usize = 20;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

async fn batch(store: &dyn Store, writer: &mut Writer) -> Result<f64, Error> {
    let start = Instant::now();
    for _ in 0..STEPS {
        writer.step(store).await?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e3 / STEPS as f64)
}

/// A turn's rounds, without the first: that one follows what the turn's beginning left to do.
async fn round(engine: &turnbuckle::Engine, key: &SessionKey) -> Result<(f64, f64), Error> {
    let timing = timed(Instant::now(), turns::turn(engine, key)).await?;
    let rounds = timing.rounds.get(1..).unwrap_or_default();
    let mean = rounds.iter().sum::<Duration>().as_secs_f64() * 1e3 / rounds.len() as f64;
    Ok((mean, timing.beginning.as_secs_f64() * 1e3))
}

pub async fn run(
    empty: &Arc<dyn Store>,
    full: &Arc<dyn Store>,
    pairs: usize,
) -> Result<Value, Error> {
    let mut small = Writer::new(&**empty, "tenant_0000", "s_flat").await?;
    let mut large = Writer::of(&**full, long(0)).await?;
    let (mut of_small, mut of_large) = (Vec::new(), Vec::new());
    for pair in 0..=pairs {
        let (one, other) = (batch(&**empty, &mut small).await?, batch(&**full, &mut large).await?);
        // The first pair warms both up.
        if pair > 0 {
            of_small.push(one);
            of_large.push(other);
        }
    }
    let in_small = turns::engine(empty, ROUNDS, Duration::ZERO)?;
    let in_large = turns::engine(full, ROUNDS, Duration::ZERO)?;
    let (mut of_turns, mut begins) = (Vec::new(), Vec::new());
    for i in 1..LONG {
        let key = in_small.create_session("tenant_0000", "bench", "main").await?.key;
        let (one, _) = round(&in_small, &key).await?;
        let (other, begin) = round(&in_large, &long(i)).await?;
        of_turns.push(other / one);
        begins.push(begin);
    }
    // A disk that others use, too, spoils single pairs, and the medians hardly.
    let (small, large) = (median(of_small), median(of_large));
    Ok(json!({
        "step_ms_empty": small, "step_ms_full": large, "step_ratio": large / small,
        "turn_step_ratio": median(of_turns), "begin_ms_2000_messages": median(begins),
    }))
}
