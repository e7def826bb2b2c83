//! Whole turns against an independent mock of the vendors' APIs, over every wire.
//!
//! The mock is `@copilotkit/aimock` from the npm registry, installed in `tests/peers` by the test run.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use turnbuckle_core::event::EventKind;
use turnbuckle_core::fold::fold;
use turnbuckle_core::model::{Block, Delivery, ModelRef, ModelRequest, ToolSet};
use turnbuckle_core::outcome::Outcome;
use turnbuckle_core::part::Part;
use turnbuckle_core::tool::ToolSpec;
use turnbuckle_core::transcript::{Item, Transcript};
use turnbuckle_core::usage::FinishReason;
use turnbuckle_engine::runtime::Models;
use turnbuckle_engine::{Agent, Engine, drain};
use turnbuckle_macros::tool;
use turnbuckle_models::{Model, NoDeltas, ProviderConfig, Providers};

const QUESTION: &str = "Please compare the orders 17 and 42";
const ANSWER: &str = "Order 17 is paid, and order 42 waits for payment – both are “yours”.";

struct Mock {
    process: Child,
    url: String,
}

impl Drop for Mock {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts the mock with extra flags; `None` when it is not installed, which only a run outside CI may shrug off.
fn mock(flags: &[&str]) -> Option<Mock> {
    let peers = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers");
    let cli = peers.join("node_modules/@copilotkit/aimock/dist/cli.js");
    if !cli.exists() {
        assert!(
            std::env::var_os("CI").is_none(),
            "run `npm ci` in tests/peers; in CI nothing may be skipped"
        );
        eprintln!(
            "SKIPPED: run `npm ci` in tests/peers to test against an independent mock server"
        );
        return None;
    }
    let mut process = Command::new("node")
        .arg(cli)
        .args(["--port", "0", "--fixtures"])
        .arg(peers.join("aimock.json"))
        .args(flags)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("node is installed");
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let url = lines
        .by_ref()
        .map_while(Result::ok)
        .find_map(|line| line.split_once("listening on ").map(|(_, url)| url.trim().to_owned()))
        .expect("the mock says where it listens");
    // Its later output is of no interest, but the pipe must not fill up.
    std::thread::spawn(move || lines.for_each(drop));
    Some(Mock { process, url })
}

/// The wires with the path of their API under the mock's address.
const WIRES: [(&str, &str); 4] =
    [("openai-chat", "/v1"), ("openai-responses", "/v1"), ("anthropic", ""), ("gemini", "")];

fn model(mock: &Mock, wire: &str, path: &str) -> Arc<dyn Model> {
    let config: ProviderConfig = serde_json::from_value(serde_json::json!({
        "wire": wire, "base_url": format!("{}{path}", mock.url),
        "headers": {"authorization": "Bearer test", "x-api-key": "test", "x-goog-api-key": "test"},
    }))
    .unwrap();
    let providers = Providers::with_environment([("peer".to_owned(), config)].into(), |_| None);
    providers.model(&ModelRef::new("peer", "a-model")).unwrap()
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
        if wire == "openai-chat" {
            let usage = message.iterations[0].usage;
            let thought = message.parts.iter().any(|p| match p {
                Part::Thinking(p) => {
                    p.text == "Two orders are named, so both are looked up at once."
                }
                _ => false,
            });
            assert!(thought, "{:?}", message.parts);
            // The mock passes the vendor's cache accounting through where it emits usage at all.
            if usage.cache_read.is_some() {
                assert_eq!((usage.input, usage.cache_read), (Some(40), Some(80)));
            }
        }
    }
}

#[tokio::test]
async fn a_whole_answer_over_every_wire_folds_like_a_streamed_one() {
    let Some(mock) = mock(&[]) else { return };
    for (wire, path) in WIRES {
        let model = model(&mock, wire, path);
        let mut transcript = Transcript::default();
        transcript.push_item(Item::User { text: QUESTION.into() });
        let mut request = ModelRequest::new("a-model", transcript);
        let schema = serde_json::json!({
            "type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"],
            "additionalProperties": false,
        });
        let spec = ToolSpec {
            name: "lookup".into(),
            description: "Looks an order up by its number.".into(),
            input_schema: schema.into(),
        };
        request.tools = Arc::new(ToolSet::new(vec![spec]));
        let streamed = model.call(&request, &mut NoDeltas).await.unwrap();
        request.delivery = Delivery::Whole;
        let whole = model.call(&request, &mut NoDeltas).await.unwrap();
        let calls = |blocks: &[Block]| -> Vec<(String, serde_json::Value)> {
            let calls = blocks.iter().filter_map(|b| match b {
                Block::ToolCall { name, arguments, .. } => {
                    Some((name.clone(), serde_json::from_str(arguments).unwrap()))
                }
                _ => None,
            });
            calls.collect()
        };
        let wanted = [17, 42].map(|id| ("lookup".to_owned(), serde_json::json!({"id": id})));
        assert_eq!(calls(&streamed.blocks), wanted, "{wire}");
        assert_eq!(calls(&whole.blocks), wanted, "{wire}");
        assert_eq!(
            (streamed.finish, whole.finish),
            (FinishReason::ToolCalls, FinishReason::ToolCalls),
            "{wire}"
        );
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
