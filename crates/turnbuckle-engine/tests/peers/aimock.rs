//! Whole turns against an independent mock of the vendors' APIs, over every wire.
//!
//! The mock is `@copilotkit/aimock` from the npm registry, installed in `tests/peers` by the test run.

use crate::{Peer, skip, spec, tests_folder};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::sync::Arc;
use turnbuckle_core::error::ModelErrorKind;
use turnbuckle_core::event::EventKind;
use turnbuckle_core::fold::fold;
use turnbuckle_core::model::{Block, Delivery, ModelRef, ModelRequest, ToolSet};
use turnbuckle_core::outcome::Outcome;
use turnbuckle_core::part::Part;
use turnbuckle_core::transcript::{Item, ToolResult, Transcript};
use turnbuckle_core::usage::FinishReason;
use turnbuckle_engine::runtime::Models;
use turnbuckle_engine::{Agent, Engine, drain};
use turnbuckle_macros::tool;
use turnbuckle_models::embed::{Purpose, similarity};
use turnbuckle_models::{EmbedOptions, Model, NoDeltas, ProviderConfig, Providers};

const QUESTION: &str = "Please compare the orders 17 and 42";
const ANSWER: &str = "Order 17 is paid, and order 42 waits for payment – both are “yours”.";

const THOUGHT: &str = "Two orders are named, so both are looked up at once.";

/// Starts the mock with extra flags; `None` when it is not installed, which only a run outside CI may shrug off.
fn mock(flags: &[&str]) -> Option<Peer> {
    let peers = tests_folder().join("peers");
    let cli = peers.join("node_modules/@copilotkit/aimock/dist/cli.js");
    if !cli.exists() {
        skip("run `npm ci` in tests/peers to test against an independent mock server");
        return None;
    }
    let fixtures = peers.join("aimock.json");
    let arguments = ["--port".into(), "0".into(), "--fixtures".into(), fixtures];
    Some(Peer::start(cli, arguments.into_iter().chain(flags.iter().map(Into::into))))
}

/// The wires with the path of their API under the mock's address.
const WIRES: [(&str, &str); 5] = [
    ("openai-chat", "/v1"),
    ("openai-responses", "/v1"),
    ("anthropic", ""),
    ("gemini", ""),
    ("ollama", ""),
];

fn providers(mock: &Peer, wire: &str, path: &str) -> Providers {
    let config: ProviderConfig = serde_json::from_value(serde_json::json!({
        "wire": wire, "base_url": format!("{}{path}", mock.url),
        "headers": {
            "authorization": "Bearer test", "x-api-key": "test", "x-goog-api-key": "test",
            // The mock counts what was asked for each of these by itself.
            "x-test-id": wire,
        },
    }))
    .unwrap();
    Providers::with_environment([("peer".to_owned(), config)].into(), |_| None)
}

fn model(mock: &Peer, wire: &str, path: &str) -> Arc<dyn Model> {
    providers(mock, wire, path).model(&ModelRef::new("peer", "a-model")).unwrap()
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Lookup {
    id: u32,
}

/// Looks an order up by its number.
#[tool(crate = turnbuckle_engine, effect = "read_only")]
async fn lookup(args: Lookup) -> Result<String, String> {
    Ok(format!("order {}", args.id))
}

#[tokio::test]
async fn a_turn_with_two_parallel_calls_over_every_wire() {
    let Some(mock) = mock(&[]) else { return };
    for (wire, path) in WIRES {
        let agent = Agent::builder("main").instructions("Help.").tool(lookup()).build().unwrap();
        let models = Models::new(model(&mock, wire, path));
        let engine = Engine::builder().agent(agent).models(models).build().unwrap();
        let session = engine.create_session("t", "u", "main").await.unwrap();
        let events =
            drain(engine.submit(&session.key, QUESTION).await.unwrap().stream().unwrap()).await;
        let turn = fold(&events).unwrap();
        assert_eq!(turn.outcome(), Some(&Outcome::Completed), "{wire}: {:?}", events.last());
        let message = turn.assistant.unwrap();
        let outputs: Vec<_> = message
            .calls()
            .map(|c| c.output.as_ref().and_then(|o| o.as_str()).unwrap_or(""))
            .collect();
        assert_eq!(outputs, ["order 17", "order 42"], "{wire}");
        assert_eq!(message.text(), ANSWER, "{wire}");
        let thought = message.parts.iter().find_map(|p| match p {
            Part::Thinking(p) => Some(p.text.as_str()),
            _ => None,
        });
        assert_eq!(thought, Some(THOUGHT), "{wire}");
    }
}

/// What a session without an engine came to.
#[derive(Debug, PartialEq)]
struct Asked {
    thought: String,
    calls: Vec<(String, Value)>,
    /// After the calls' results.
    text: String,
    /// Of the first answer: uncached input, what was read from the cache, output.
    usage: (Option<u64>, Option<u64>, Option<u64>),
}

async fn session(model: &dyn Model, delivery: Delivery) -> Asked {
    let mut transcript = Transcript::default();
    transcript.push_item(Item::user(QUESTION));
    let mut request = ModelRequest::new("a-model", transcript);
    request.delivery = delivery;
    let spec = spec("lookup", "Looks an order up by its number.", "id", "integer");
    request.tools = Arc::new(ToolSet::new(vec![spec]));
    let asked = model.call(&request, &mut NoDeltas).await.unwrap();
    assert_eq!(asked.finish, FinishReason::ToolCalls);
    let usage = (asked.usage.input, asked.usage.cache_read, asked.usage.output);
    let thought = asked.blocks.iter().filter_map(|b| match b {
        Block::Thinking { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let thought = thought.collect();
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    for block in &asked.blocks {
        if let Block::ToolCall { wire_id, name, arguments, .. } = block {
            let arguments: Value = serde_json::from_str(arguments).unwrap();
            results.push(ToolResult {
                wire_id: wire_id.as_str().into(),
                name: name.as_str().into(),
                content: format!("order {}", arguments["id"]),
                is_error: false,
            });
            calls.push((name.clone(), arguments));
        }
    }
    request.transcript.push_item(Item::Assistant { blocks: asked.blocks });
    request.transcript.push_item(Item::ToolResults { results });
    let answered = model.call(&request, &mut NoDeltas).await.unwrap();
    assert_eq!(answered.finish, FinishReason::Stop);
    let texts = answered.blocks.iter().filter_map(|b| match b {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    Asked { thought, calls, text: texts.collect(), usage }
}

#[tokio::test]
async fn streaming_and_blocking_sessions_with_tools_are_the_same_over_every_wire() {
    let Some(mock) = mock(&[]) else { return };
    for (wire, path) in WIRES {
        let model = model(&mock, wire, path);
        // The mock counts no tokens for Ollama.
        let usage = match wire {
            "ollama" => (Some(0), None, Some(0)),
            _ => (Some(120), None, Some(30)),
        };
        for delivery in [Delivery::Stream, Delivery::Whole] {
            let asked = session(&*model, delivery).await;
            assert_eq!(asked, expected(usage), "{wire} {delivery:?}");
        }
    }
}

fn expected(usage: (Option<u64>, Option<u64>, Option<u64>)) -> Asked {
    let calls = [17, 42].map(|id| ("lookup".to_owned(), json!({"id": id}))).to_vec();
    Asked { thought: THOUGHT.to_owned(), calls, text: ANSWER.to_owned(), usage }
}

/// The mock tells of a cache only where it speaks as OpenRouter does.
#[tokio::test]
async fn what_was_read_from_a_cache_is_counted_apart_streaming_and_blocking() {
    let Some(mock) = mock(&[]) else { return };
    let model = model(&mock, "openai-chat", "/api/v1");
    for delivery in [Delivery::Stream, Delivery::Whole] {
        let asked = session(&*model, delivery).await;
        assert_eq!(asked, expected((Some(40), Some(80), Some(30))), "{delivery:?}");
    }
}

/// The mock's ways to fail, and as what a turn reports them before it tries again. Without one, nothing is reported.
const CHAOS: [(&str, Option<ModelErrorKind>); 6] = [
    ("a dropped request", Some(ModelErrorKind::Server)),
    ("a malformed answer", Some(ModelErrorKind::Protocol)),
    ("a rate limit", Some(ModelErrorKind::RateLimited)),
    ("a lost connection", Some(ModelErrorKind::Network)),
    ("a late answer", None),
    ("a cut stream", Some(ModelErrorKind::StreamCut)),
];

#[tokio::test]
async fn a_turn_gets_over_every_kind_of_chaos_over_every_wire() {
    let Some(mock) = mock(&[]) else { return };
    let cases = WIRES.iter().flat_map(|wire| CHAOS.iter().map(move |chaos| (wire, chaos)));
    let turns = cases.map(async |((wire, path), (chaos, kind))| {
        let agent = Agent::builder("main").instructions("Help.").tool(lookup()).build().unwrap();
        let models = Models::new(model(&mock, wire, path));
        let engine = Engine::builder().agent(agent).models(models).build().unwrap();
        let session = engine.create_session("t", "u", "main").await.unwrap();
        let question = format!("Compare the two, after {chaos}");
        let submitted = engine.submit(&session.key, question.as_str()).await.unwrap();
        let events = drain(submitted.stream().unwrap()).await;
        let what = format!("{wire} after {chaos}");
        let retries: Vec<ModelErrorKind> = events
            .iter()
            .filter_map(|e| match &e.kind {
                EventKind::ModelRetry { error, .. } => Some(error.kind),
                _ => None,
            })
            .collect();
        assert_eq!(retries, kind.iter().copied().collect::<Vec<_>>(), "{what}");
        let turn = fold(&events).unwrap();
        assert_eq!(turn.outcome(), Some(&Outcome::Completed), "{what}: {:?}", events.last());
        let message = turn.assistant.unwrap();
        assert_eq!(message.calls().count(), 2, "{what}");
        assert_eq!(message.text(), ANSWER, "{what}");
    });
    join_all(turns).await;
}

/// Blocking answers fail alike. A stream has to be there to be cut.
#[tokio::test]
async fn blocking_answers_report_chaos_alike() {
    let Some(mock) = mock(&[]) else { return };
    for (wire, path) in WIRES {
        for (chaos, kind) in CHAOS {
            let Some(kind) = kind.filter(|kind| *kind != ModelErrorKind::StreamCut) else {
                continue;
            };
            let mut transcript = Transcript::default();
            transcript.push_item(Item::user(format!("Compare the two, after {chaos}")));
            let mut request = ModelRequest::new("a-model", transcript);
            request.delivery = Delivery::Whole;
            let model = model(&mock, wire, path);
            let failure = model.call(&request, &mut NoDeltas).await.unwrap_err();
            assert_eq!(failure.error.kind, kind, "{wire} after {chaos}: {}", failure.error);
            let asked = failure.error.retry_after_ms;
            assert_eq!(asked.is_some(), kind == ModelErrorKind::RateLimited, "{wire}: {asked:?}");
        }
    }
}

/// The mock knows Gemini's embeddings one by one only and Ollama's by an answer of long ago; Anthropic has none.
#[tokio::test]
async fn texts_are_embedded() {
    let Some(mock) = mock(&[]) else { return };
    let texts = ["one".to_owned(), "two".to_owned(), "one".to_owned()];
    for wire in ["openai-chat", "openai-responses"] {
        let id = ModelRef::new("peer", "an-embedder");
        let embedder =
            providers(&mock, wire, "/v1").embedder(&id, EmbedOptions::default()).unwrap();
        let vectors = embedder.embed(&texts, Purpose::Document).await.unwrap().vectors;
        assert_eq!(vectors[0], vectors[2], "{wire}");
        assert_ne!(vectors[0], vectors[1], "{wire}");
        assert!((similarity(&vectors[1], &vectors[1]) - 1.0).abs() < 1e-4, "{wire}");
    }
}

#[tokio::test]
async fn a_server_that_is_always_at_its_limit_is_an_error_that_says_so() {
    let Some(mock) = mock(&["--chaos-ratelimit", "1"]) else { return };
    for (wire, path) in WIRES {
        let agent = Agent::builder("main").instructions("Help.").build().unwrap();
        let limits =
            turnbuckle_core::limits::TurnLimits { model_attempts: 1, ..Default::default() };
        let models = Models::new(model(&mock, wire, path));
        let engine = Engine::builder().agent(agent).models(models).limits(limits).build().unwrap();
        let session = engine.create_session("t", "u", "main").await.unwrap();
        let events =
            drain(engine.submit(&session.key, QUESTION).await.unwrap().stream().unwrap()).await;
        let EventKind::TurnError { error, .. } = &events.last().unwrap().kind else {
            panic!("{wire}: {:?}", events.last())
        };
        assert_eq!(error.code(), "rate_limited", "{wire}: {error}");
    }
}
