//! The server as the benchmark loads it: the HTTP API and a worker in one process, over the public crates.
//!
//! `turnbuckle-bench-server --upstream URL --model NAME [--store ADDRESS] [--threads N]` prints its port and serves until it is
//! ended. Without `--store`, sessions are kept in memory; with `--threads 0`, the default, the runtime has one thread.
//! `/stats` tells the process's CPU and memory.

use mockllm::usage::{Usage, status_kb};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpSocket;
use tokio_util::sync::CancellationToken;
use turnbuckle::Engine;
use turnbuckle::core::model::ModelRef;
use turnbuckle::models::{ProviderConfig, Providers};
use turnbuckle::runtime::Models;
use turnbuckle_bench::{Error, agents};
use turnbuckle_bus::{Bus, MemoryBus};
use turnbuckle_server::accounts::SqliteAccounts;
use turnbuckle_server::auth::Authenticator;
use turnbuckle_server::auth::principal::Principal;
use turnbuckle_server::config::ApiOptions;
use turnbuckle_server::dto::ModelInUse;
use turnbuckle_server::metrics::Metrics;
use turnbuckle_server::worker::{Worker, WorkerOptions};
use turnbuckle_server::{Api, server};

/// What it was started with.
#[derive(Default)]
struct Options {
    upstream: String,
    model: String,
    store: Option<String>,
    threads: usize,
}

impl Options {
    fn read() -> Result<Self, Error> {
        let mut options = Self::default();
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let value = args.next().ok_or_else(|| format!("{arg} lacks its value"))?;
            match arg.as_str() {
                "--upstream" => options.upstream = value,
                "--model" => options.model = value,
                "--store" => options.store = Some(value),
                "--threads" => options.threads = value.parse()?,
                _ => return Err(format!("there is no option {arg}").into()),
            }
        }
        Ok(options)
    }
}

async fn engine(options: &Options) -> Result<Engine, Error> {
    let config: ProviderConfig = serde_json::from_value(serde_json::json!({
        "wire": "openai-chat", "base_url": options.upstream, "max_concurrency": 4096,
        "headers": {"authorization": "Bearer test"},
    }))?;
    let providers = Providers::new([("mock".to_owned(), config)].into());
    let model = providers.model(&ModelRef::new("mock", options.model.as_str()))?;
    let store = turnbuckle::store::open(options.store.as_deref().unwrap_or("memory:")).await?;
    let engine = Engine::builder()
        .domain(agents(20, Duration::ZERO)?)
        .models(Models::new(model))
        .shared_store(store.sessions);
    Ok(engine.build()?)
}

/// An API in which one person may do as much as a benchmark wants.
async fn api(engine: &Engine, bus: &Arc<dyn Bus>, metrics: &Metrics) -> Result<Api, Error> {
    // There are no keys: whoever comes is let in.
    let accounts = Arc::new(SqliteAccounts::in_memory().await?);
    let auth = Authenticator::Open(Principal::local("bench", "bench"));
    let model = ModelInUse { id: "mock".into(), rehearsal: false, why: "a benchmark".into() };
    let mut options = ApiOptions::new(model);
    options.default_agent = Some("main".into());
    options.limits.requests_per_second = 0;
    options.limits.streams_per_user = options.limits.streams;
    Ok(Api::new(engine.clone(), bus.clone(), accounts, auth, metrics.clone(), options))
}

async fn serve(options: Options) -> Result<(), Error> {
    let (bus, metrics): (Arc<dyn Bus>, _) = (Arc::new(MemoryBus::new()), Metrics::new());
    let engine = engine(&options).await?;
    let api = api(&engine, &bus, &metrics).await?;
    let _worker = Worker::start(engine, bus, metrics, WorkerOptions::default());
    let stats = axum::Router::new().route("/stats", axum::routing::get(stats));
    let socket = TcpSocket::new_v4()?;
    socket.bind(([127, 0, 0, 1], 0).into())?;
    let listener = socket.listen(4096)?;
    println!("{}", listener.local_addr()?.port());
    let router = stats.merge(turnbuckle_server::router(&api));
    server::serve(listener, router, CancellationToken::new()).await;
    Ok(())
}

async fn stats() -> axum::Json<serde_json::Value> {
    let Usage { user_s, sys_s } = Usage::now();
    let rss = status_kb("VmHWM");
    axum::Json(serde_json::json!({"user_s": user_s, "sys_s": sys_s, "max_rss_kb": rss}))
}

fn main() -> Result<(), Error> {
    let options = Options::read()?;
    let mut builder = match options.threads {
        0 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    if options.threads > 0 {
        builder.worker_threads(options.threads);
    }
    let runtime = builder.enable_all().build()?;
    runtime.block_on(async move { tokio::spawn(serve(options)).await })?
}
