//! Embeddings over HTTP: what is sent, in which portions, what comes back, and what is tried again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::{config, endpoint};
use serde_json::{Value, json};
use std::sync::Arc;
use turnbuckle_core::error::ModelErrorKind;
use turnbuckle_core::model::ModelRef;
use turnbuckle_models::embed::{Purpose, similarity};
use turnbuckle_models::{ConfigError, EmbedOptions, Embedded, Embedder, ProviderConfig, Providers};
use turnbuckle_testkit::chat;
use turnbuckle_testkit::{CapturedRequest, FakeModelServer, Reply};

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("text {n}")).collect()
}

fn embedder(server: &FakeModelServer, wire: &str, options: EmbedOptions) -> Arc<dyn Embedder> {
    let base_url = server.base_url();
    let base_url = if wire == "openai-chat" { base_url } else { base_url.replace("/v1", "") };
    let config = ProviderConfig {
        wire: Some(wire.into()),
        base_url: Some(base_url),
        ..ProviderConfig::default()
    };
    Arc::new(endpoint(&config)).embedder("m", options).unwrap()
}

/// The texts of a request, over any of the wires.
fn inputs(request: &CapturedRequest) -> Vec<String> {
    let body = request.json();
    let input = body["input"].as_array().or(body["requests"].as_array()).unwrap().iter();
    let text = |row: &Value| {
        row.as_str().or(row["content"]["parts"][0]["text"].as_str()).unwrap().to_owned()
    };
    input.map(text).collect()
}

/// A vector that tells which text it is of.
fn vector(text: &str) -> [f32; 2] {
    let number: f32 = text.rsplit(' ').next().unwrap().parse().unwrap();
    [number + 1.0, 1.0]
}

fn answer(request: &CapturedRequest) -> Reply {
    let texts = inputs(request);
    let vectors = texts.iter().map(|text| vector(text));
    let body = match request.path.as_str() {
        "/v1/embeddings" => {
            let mut rows: Vec<Value> = vectors
                .enumerate()
                .map(|(index, vector)| json!({"index": index, "embedding": vector}))
                .collect();
            rows.reverse();
            json!({"data": rows, "usage": {"prompt_tokens": texts.len() * 2}})
        }
        "/v1beta/models/m:batchEmbedContents" => {
            json!({"embeddings": vectors.map(|v| json!({"values": v})).collect::<Vec<_>>()})
        }
        _ => json!({"embeddings": vectors.collect::<Vec<_>>(), "prompt_eval_count": texts.len()}),
    };
    Reply::json(200, &body)
}

fn expected(texts: &[String], tokens: Option<u64>) -> Embedded {
    let unit = |text: &String| {
        let [x, y] = vector(text).map(f64::from);
        let length = (x * x + y * y).sqrt();
        vec![(x / length) as f32, (y / length) as f32]
    };
    Embedded { vectors: texts.iter().map(unit).collect(), tokens }
}

#[tokio::test]
async fn many_texts_go_in_portions_and_come_back_in_order() {
    let cases = [
        ("openai-chat", vec![2048, 2048, 4], Some(8_200)),
        ("gemini", [vec![100; 41]].concat(), None),
        ("ollama", [vec![512; 8], vec![4]].concat(), Some(4_100)),
    ];
    for (wire, portions, tokens) in cases {
        let server = FakeModelServer::start().await;
        server.otherwise(answer);
        let texts = texts(4_100);
        let embedder = embedder(&server, wire, EmbedOptions::default());
        let embedded = embedder.embed(&texts, Purpose::Document).await.unwrap();
        assert_eq!(embedded, expected(&texts, tokens), "{wire}");
        let sent: Vec<usize> = server.requests().iter().map(|r| inputs(r).len()).collect();
        assert_eq!(sent, portions, "{wire}");
        assert!(similarity(&embedded.vectors[0], &embedded.vectors[0]) > 0.999);
    }
}

#[tokio::test]
async fn long_texts_go_in_smaller_portions() {
    let server = FakeModelServer::start().await;
    server.otherwise(answer);
    let long: Vec<String> = (0..5).map(|n| format!("{} {n}", "word ".repeat(600))).collect();
    let options = EmbedOptions { max_tokens: Some(2_500), ..EmbedOptions::default() };
    let embedder = embedder(&server, "openai-chat", options);
    embedder.embed(&long, Purpose::Document).await.unwrap();
    let sent: Vec<usize> = server.requests().iter().map(|r| inputs(r).len()).collect();
    assert_eq!(sent, [2, 2, 1]);
    // One that is too long by itself is the provider's to judge.
    let options = EmbedOptions { max_tokens: Some(10), ..EmbedOptions::default() };
    let embedder = self::embedder(&server, "openai-chat", options);
    assert_eq!(embedder.embed(&long[..2], Purpose::Query).await.unwrap().vectors.len(), 2);
}

#[tokio::test]
async fn a_portion_that_is_too_large_is_halved() {
    let server = FakeModelServer::start().await;
    server.otherwise(|request| {
        if inputs(request).len() > 32 {
            return chat::error(
                422,
                "validation",
                "batch size 100 > maximum allowed batch size 32",
            );
        }
        answer(request)
    });
    let texts = texts(100);
    let embedder = embedder(&server, "openai-chat", EmbedOptions::default());
    let embedded = embedder.embed(&texts, Purpose::Document).await.unwrap();
    assert_eq!(embedded, expected(&texts, Some(200)));
    let sent: Vec<usize> = server.requests().iter().map(|r| inputs(r).len()).collect();
    assert_eq!(sent, [100, 50, 25, 25, 50, 25, 25]);
}

#[tokio::test(start_paused = true)]
async fn passing_failures_are_tried_again_by_the_one_table() {
    let server = FakeModelServer::start().await;
    server.enqueue(chat::error(429, "rate_limit_exceeded", "slow down").header("retry-after", "7"));
    server.enqueue(chat::error(500, "server_error", "oops"));
    server.otherwise(answer);
    let texts = texts(3);
    let embedder = embedder(&server, "openai-chat", EmbedOptions::default());
    let begin = tokio::time::Instant::now();
    let embedded = embedder.embed(&texts, Purpose::Document).await.unwrap();
    assert_eq!(embedded, expected(&texts, Some(6)));
    assert_eq!(server.requests().len(), 3);
    assert!(begin.elapsed().as_secs() >= 7, "the provider's delay is kept");

    server.enqueue(chat::error(401, "invalid_api_key", "no"));
    let error = embedder.embed(&texts, Purpose::Document).await.unwrap_err();
    assert_eq!((error.kind, server.requests().len()), (ModelErrorKind::Auth, 4));
    assert_eq!(error.message, "texts 0 to 2: no");
}

#[tokio::test]
async fn vectors_of_another_length_than_asked_for_are_refused() {
    let server = FakeModelServer::start().await;
    server.otherwise(answer);
    let options = EmbedOptions { dimensions: Some(256), ..EmbedOptions::default() };
    let embedder = embedder(&server, "openai-chat", options);
    let error = embedder.embed(&texts(1), Purpose::Document).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Protocol);
    assert_eq!(server.requests()[0].json()["dimensions"], 256);
}

#[tokio::test]
async fn nothing_is_sent_for_nothing() {
    let server = FakeModelServer::start().await;
    let embedder = embedder(&server, "gemini", EmbedOptions::default());
    let nothing = embedder.embed(&[], Purpose::Document).await.unwrap();
    assert_eq!(nothing, Embedded { vectors: Vec::new(), tokens: Some(0) });
    let error = embedder.embed(&["a".into(), String::new()], Purpose::Query).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::BadRequest);
    assert_eq!(server.requests(), []);
}

#[tokio::test]
async fn embedders_are_had_by_name() {
    let server = FakeModelServer::start().await;
    server.otherwise(answer);
    let claude = ProviderConfig {
        wire: Some("anthropic".into()),
        base_url: Some(server.base_url()),
        ..ProviderConfig::default()
    };
    let configs = [("own".to_owned(), config(&server)), ("claude".to_owned(), claude)].into();
    let providers = Providers::with_environment(configs, |_| None);
    let named =
        |name: &str| providers.embedder(&ModelRef::parse(name).unwrap(), EmbedOptions::default());
    let own = named("own:m").unwrap();
    assert_eq!((own.id().to_string().as_str(), own.dimensions()), ("own:m", None));
    assert_eq!(own.embed(&texts(2), Purpose::Query).await.unwrap(), expected(&texts(2), Some(4)));
    let lexical = named("lexical:ngrams").unwrap();
    assert_eq!(lexical.dimensions(), Some(512));
    assert!(matches!(named("claude:m"), Err(ConfigError::NoEmbeddings { .. })));
}
