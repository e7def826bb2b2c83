//! Steps within whole turns of the engine: sessions are made, messages posted, leases taken, and a model answers.

use crate::{TURNS, took};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use turnbuckle::Engine;
use turnbuckle::core::event::EventKind;
use turnbuckle::core::ids::SessionKey;
use turnbuckle::core::limits::TurnLimits;
use turnbuckle::store::Store;
use turnbuckle_bench::instant::{Answers, Timing, timed};
use turnbuckle_bench::{Error, PROMPT, agents};

/// An engine on a store, whose model asks for a tool so many times and takes so long for each answer.
pub fn engine(store: &Arc<dyn Store>, rounds: usize, delay: Duration) -> Result<Engine, Error> {
    let calls = u32::try_from(rounds)? + 2;
    let limits = TurnLimits { max_model_calls: calls, ..TurnLimits::default() };
    let text = "The records say that everything is in order, and here is a short summary of them.";
    let engine = Engine::builder()
        .domain(agents(calls, Duration::ZERO)?)
        .model(Answers::new(rounds, delay, text))
        .limits(limits)
        .shared_store(store.clone());
    Ok(engine.build()?)
}

/// A turn from its message to its end.
pub async fn turn(engine: &Engine, key: &SessionKey) -> Result<(), Error> {
    let submitted = engine.submit(key, PROMPT).await?;
    let mut events = submitted.stream().ok_or("the session is at work already")?;
    let mut last = None;
    while let Some(event) = events.next().await {
        last = Some(event.kind);
    }
    match last {
        Some(EventKind::TurnCompleted { .. }) => Ok(()),
        other => Err(format!("the turn ended as {other:?}").into()),
    }
}

async fn fresh(engine: &Engine, i: usize) -> Result<(), Error> {
    let session = engine.create_session(format!("tenant_{i:04}"), "bench", "main").await?;
    turn(engine, &session.key).await
}

async fn all(mut tasks: JoinSet<Result<Timing, Error>>) -> Result<Vec<Timing>, Error> {
    let mut timings = Vec::new();
    while let Some(done) = tasks.join_next().await {
        timings.push(done??);
    }
    Ok(timings)
}

fn rounds_of(timings: &[Timing]) -> Vec<Duration> {
    timings.iter().flat_map(|timing| timing.rounds.iter().copied()).collect()
}

/// The steps of a turn: the calls of its model and of its tool.
const fn steps(rounds: usize) -> usize {
    2 * rounds + 1
}

/// [`TURNS`] at once. Each begins at its own moment, and its model takes so long that all together make `rate` steps a second.
pub async fn paced(store: &Arc<dyn Store>, rate: usize, rounds: usize) -> Result<Value, Error> {
    // A round has two steps.
    let delay = Duration::from_secs_f64(2.0 * TURNS as f64 / rate as f64);
    let engine = engine(store, rounds, delay)?;
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for i in 0..TURNS {
        let engine = engine.clone();
        tasks.spawn(async move {
            let planned = start + delay.mul_f64(i as f64 / TURNS as f64);
            tokio::time::sleep_until(planned.into()).await;
            timed(planned, fresh(&engine, i)).await
        });
    }
    let timings = all(tasks).await?;
    let wall = start.elapsed();
    let mut beginnings: Vec<_> = timings.iter().map(|timing| timing.beginning).collect();
    let mut ends: Vec<_> = timings.iter().map(|timing| timing.end).collect();
    // Of a round with two steps, each has its half.
    let halves = rounds_of(&timings).into_iter().map(|round| round / 2).collect();
    let mut row = took::row(halves, wall);
    if let Some(row) = row.as_object_mut() {
        // While turns begin and end, fewer steps come than in between.
        row.remove("per_second");
        row.insert("begin_ms_p99".to_owned(), json!(took::quantile(&mut beginnings, 0.99)));
        row.insert("end_ms_p99".to_owned(), json!(took::quantile(&mut ends, 0.99)));
    }
    Ok(row)
}

/// [`TURNS`] at once, as fast as they can.
pub async fn ceiling(store: &Arc<dyn Store>) -> Result<Value, Error> {
    const ROUNDS: usize = 5;
    let engine = engine(store, ROUNDS, Duration::ZERO)?;
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for i in 0..TURNS {
        let engine = engine.clone();
        tasks.spawn(async move { timed(Instant::now(), fresh(&engine, i)).await });
    }
    let turns = all(tasks).await?.len();
    let wall = start.elapsed().as_secs_f64();
    Ok(json!({
        "count": turns * steps(ROUNDS),
        "per_second": (turns * steps(ROUNDS)) as f64 / wall,
        "turns_per_second": turns as f64 / wall,
    }))
}
