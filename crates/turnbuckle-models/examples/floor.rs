//! What one call costs, from the request to the folded answer: run it against the benchmark's mock server.
//!
//! `cargo run --release -p turnbuckle-models --example floor -- http://127.0.0.1:PORT/v1 [MODEL] [CALLS]`
//!
//! Prints CPU and wall time per call on a current-thread runtime, the time to set the endpoint up, and peak memory.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::time::Instant;
use turnbuckle_core::model::{ModelDelta, ModelRequest};
use turnbuckle_core::transcript::{Item, Transcript};
use turnbuckle_models::{Endpoint, Model, ProviderConfig};

fn main() {
    let mut args = std::env::args().skip(1);
    let base_url = args.next().expect("the base URL of a server");
    let model = args.next().unwrap_or_else(|| "text-1".to_owned());
    let calls: u32 = args.next().map_or(5_000, |n| n.parse().expect("a number of calls"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // In a task of its own, as a session runs: waking the future of `block_on` costs a system call each time.
    let work = async move {
        let begin = Instant::now();
        let config = ProviderConfig { base_url: Some(base_url), ..ProviderConfig::default() };
        let endpoint = Endpoint::new(config.resolve("mock", &|_| None).unwrap()).unwrap();
        println!("set up in {:.2} ms", begin.elapsed().as_secs_f64() * 1e3);
        let model = Arc::new(endpoint).model(&model);
        let text = run(&*model, 1).await;
        println!("first answer after {:.2} ms", begin.elapsed().as_secs_f64() * 1e3);
        run(&*model, 200).await;
        let (cpu, wall) = (cpu_ms(), Instant::now());
        let characters = run(&*model, calls).await;
        assert_eq!(characters, text * calls as usize, "every call gives the same text");
        let per = |ms: f64| ms * 1e3 / f64::from(calls);
        println!(
            "{calls} calls: {:.1} us CPU, {:.1} us wall each",
            per(cpu_ms() - cpu),
            per(wall.elapsed().as_secs_f64() * 1e3)
        );
        println!("peak memory {} kB", status("VmHWM"));
    };
    runtime.block_on(async { tokio::spawn(work).await.unwrap() });
}

async fn run(model: &dyn Model, calls: u32) -> usize {
    let mut characters = 0;
    for _ in 0..calls {
        let mut transcript = Transcript::default();
        transcript.push_item(Item::user("Hello"));
        let request = ModelRequest::new(model.id().model.clone(), transcript);
        let mut sink = |delta: ModelDelta<'_>| {
            if let ModelDelta::Text { text, .. } = delta {
                characters += text.len();
            }
        };
        model.call(&request, &mut sink).await.unwrap();
    }
    characters
}

/// CPU time of this process in milliseconds.
fn cpu_ms() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or_default() / 1e6
}

fn status(field: &str) -> String {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with(field)).unwrap_or_default();
    line.split_whitespace().nth(1).unwrap_or("?").to_owned()
}
