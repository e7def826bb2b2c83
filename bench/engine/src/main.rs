//! Peer: Turnbuckle, its engine over the Chat Completions wire.
//!
//! Usage: `turnbuckle-bench [--threads N] [--journal FILE] JOB`, or `turnbuckle-bench --linear`; without `--threads` the current-thread runtime, without
//! `--journal` turns that are not stored.

mod linear;

use futures_util::StreamExt;
use mockllm::job::{First, Job, Meter, Totals};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use turnbuckle::core::event::{Event, EventKind};
use turnbuckle::core::model::ModelRef;
use turnbuckle::core::outcome::Outcome;
use turnbuckle::core::transcript::Transcript;
use turnbuckle::models::{ProviderConfig, Providers};
use turnbuckle::store::{SqliteStore, Store};
use turnbuckle::{Engine, TurnStream};
use turnbuckle_bench::{Error, PROMPT, agents, history};

struct Shared {
    engine: Engine,
    history: Transcript,
    job: Job,
    journaled: bool,
}

impl Shared {
    async fn stream(&self) -> Result<TurnStream, Error> {
        if !self.journaled {
            return Ok(self.engine.converse("main", self.history.clone(), PROMPT)?);
        }
        let session = self.engine.create_session("bench", "bench", "main").await?;
        let submitted = self.engine.submit(&session.key, PROMPT).await?;
        submitted.stream().ok_or_else(|| "the session is busy".into())
    }

    async fn turn(&self, totals: &mut Totals, first: &mut Option<First>) -> Result<(), Error> {
        let started = Instant::now();
        let mut stream = self.stream().await?;
        let mut text = String::new();
        let mut outcome = None;
        while let Some(event) = stream.next().await {
            totals.events += 1;
            self.take(event, &mut text, &mut outcome, totals, first);
        }
        match outcome {
            Some(Outcome::Completed) => {}
            other => return Err(format!("the turn ended as {other:?}").into()),
        }
        totals.text_chars += text.chars().count() as u64;
        totals.last_text = text;
        totals.turn_ms.push(started.elapsed().as_secs_f64() * 1e3);
        Ok(())
    }

    fn take(
        &self,
        event: Event,
        text: &mut String,
        outcome: &mut Option<Outcome>,
        totals: &mut Totals,
        first: &mut Option<First>,
    ) {
        match event.kind {
            EventKind::TextDelta { text: delta, .. } => {
                first.get_or_insert_with(|| self.job.first());
                text.push_str(&delta);
            }
            EventKind::ToolCallCompleted { .. } => totals.tool_calls += 1,
            EventKind::TurnCompleted { .. } => *outcome = Some(Outcome::Completed),
            EventKind::TurnError { error, .. } => *outcome = Some(Outcome::Error { error }),
            EventKind::TurnExhausted { reason, .. } => {
                *outcome = Some(Outcome::Exhausted { reason })
            }
            _ => {}
        }
    }
}

async fn shared(job: Job, journal: Option<PathBuf>) -> Result<Shared, Error> {
    let config: ProviderConfig = serde_json::from_value(serde_json::json!({
        "wire": "openai-chat", "base_url": job.base_url, "max_concurrency": 4096,
        "headers": {"authorization": "Bearer test"},
    }))?;
    let providers = Providers::new([("mock".to_owned(), config)].into());
    let model = providers.model(&ModelRef::new("mock", job.model.as_str()))?;
    let domain = agents(20, job.tool_delay())?;
    let mut builder =
        Engine::builder().domain(domain).models(turnbuckle::runtime::Models::new(model));
    let journaled = journal.is_some();
    if let Some(path) = journal {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).await?);
        builder = builder.shared_store(store);
    }
    let history = history(job.history);
    Ok(Shared { engine: builder.build()?, history, job, journaled })
}

async fn run(job: Job, name: String, journal: Option<PathBuf>) -> Result<serde_json::Value, Error> {
    let shared = Arc::new(shared(job, journal).await?);
    let mut cold = None;
    for i in 0..shared.job.warmup.max(1) {
        let mut first = None;
        shared.turn(&mut Totals::default(), &mut first).await?;
        if i == 0 {
            cold = first;
        }
    }
    let meter = Meter::start(cold);
    let mut totals = Totals::default();
    if shared.job.concurrency <= 1 {
        for _ in 0..shared.job.turns {
            shared.turn(&mut totals, &mut None).await?;
        }
    } else {
        let each = shared.job.turns / shared.job.concurrency;
        let tasks: Vec<_> = (0..shared.job.concurrency)
            .map(|_| {
                let shared = shared.clone();
                tokio::spawn(async move {
                    let mut totals = Totals::default();
                    for _ in 0..each {
                        shared.turn(&mut totals, &mut None).await?;
                    }
                    Ok::<_, Error>(totals)
                })
            })
            .collect();
        for task in tasks {
            totals.merge(task.await??);
        }
    }
    let versions = serde_json::json!({"turnbuckle": env!("CARGO_PKG_VERSION")});
    Ok(meter.report(&name, versions, totals))
}

fn main() -> Result<(), Error> {
    let (mut threads, mut journal, mut job) = (0_usize, None, None);
    let mut linear = false;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--threads" => threads = args.next().ok_or("--threads N")?.parse()?,
            "--linear" => linear = true,
            "--journal" => journal = Some(PathBuf::from(args.next().ok_or("--journal FILE")?)),
            _ => job = Some(serde_json::from_str::<Job>(&arg)?),
        }
    }
    if linear {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let value = runtime.block_on(async { tokio::spawn(linear::measure()).await })??;
        println!("{value}");
        return Ok(());
    }
    let job = job.ok_or("no job given")?;
    let name = format!("turnbuckle-t{threads}");
    let mut builder = match threads {
        0 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    if threads > 0 {
        builder.worker_threads(threads);
    }
    let runtime = builder.enable_all().build()?;
    // A spawned task, as in a server: one polled by `block_on` itself pays for extra polls of the network.
    let value = runtime.block_on(async move { tokio::spawn(run(job, name, journal)).await })??;
    println!("{value}");
    Ok(())
}
