//! One attempt against a real HTTP server: answers, refusals, breaks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::{ask, config, endpoint, model};
use serde_json::json;
use std::sync::Arc;
use std::task::Poll;
use turnbuckle_core::error::ModelErrorKind::{self, *};
use turnbuckle_core::model::{Block, Delivery, ModelDelta, ModelRequest, ModelResponse};
use turnbuckle_core::usage::{FinishReason, Usage};
use turnbuckle_models::ProviderConfig;
use turnbuckle_testkit::chat::{self, ChatAnswer};
use turnbuckle_testkit::{FakeModelServer, Gate, Reply, fixtures};

fn full_answer() -> ChatAnswer {
    ChatAnswer::new("m-1")
        .id("resp-1")
        .reasoning("Let me ")
        .reasoning("see.")
        .text("Grüße, ")
        .text("世界! 🎉")
        .call_in_pieces("c1", "look_up", &["{\"id\"", ":\"a\"}"])
        .call("c2", "list", "{}")
        .usage(100, 60, 20)
}

fn full_response() -> ModelResponse {
    ModelResponse {
        blocks: vec![
            Block::Thinking { text: "Let me see.".into(), native: None },
            fixtures::text_block("Grüße, 世界! 🎉"),
            fixtures::call_block("c1", "look_up", "{\"id\":\"a\"}"),
            fixtures::call_block("c2", "list", "{}"),
        ],
        finish: FinishReason::ToolCalls,
        usage: Usage {
            input: Some(40),
            cache_read: Some(60),
            output: Some(20),
            ..Usage::default()
        },
        provider: "fake".into(),
        model: "m-1".into(),
        id: Some("resp-1".into()),
    }
}

/// Leaves out what only some servers send beside the content.
fn plain(mut response: ModelResponse) -> ModelResponse {
    for block in &mut response.blocks {
        match block {
            Block::Text { native, .. }
            | Block::Thinking { native, .. }
            | Block::ToolCall { native, .. } => {
                *native = None;
            }
            Block::Native { .. } => {}
        }
    }
    response.usage.cache_write = None;
    response.usage.reasoning = None;
    response
}

#[tokio::test]
async fn streamed_and_whole_answers_are_the_same() {
    let server = FakeModelServer::start().await;
    let model = model(&server);

    server.enqueue(full_answer().stream());
    let streamed = ask(&*model).await;
    assert_eq!(plain(streamed.result.unwrap()), full_response());
    assert_eq!(streamed.text, "Grüße, 世界! 🎉");

    server.enqueue(full_answer().whole());
    let request = ModelRequest { delivery: Delivery::Whole, ..fixtures::ask("m", "Hello?") };
    let whole = model.call(&request, &mut |_: ModelDelta<'_>| {}).await.unwrap();
    assert_eq!(plain(whole), full_response());

    let requests = server.requests();
    assert_eq!(requests[0].path, "/v1/chat/completions");
    assert_eq!(requests[0].header("content-type"), "application/json");
    assert_eq!(requests[0].header("content-length"), requests[0].body.len().to_string());
    assert_eq!(requests[0].json()["stream"], json!(true));
    assert_ne!(requests[1].json()["stream"], json!(true));
    assert_eq!(requests[0].json()["messages"], json!([{"role": "user", "content": "Hello?"}]));
}

#[tokio::test]
async fn writes_of_one_byte_change_nothing() {
    let server = FakeModelServer::start().await;
    server.enqueue(full_answer().stream().in_writes_of(1));
    assert_eq!(plain(ask(&*model(&server)).await.result.unwrap()), full_response());
}

#[tokio::test]
async fn each_refusal_has_its_category_and_the_providers_words() {
    let cases: [(u16, &str, ModelErrorKind); 9] = [
        (400, "invalid_request_error", BadRequest),
        (401, "invalid_api_key", Auth),
        (403, "permission_denied", Auth),
        (404, "model_not_found", NotFound),
        (422, "unprocessable", BadRequest),
        (429, "rate_limit_exceeded", RateLimited),
        (500, "server_error", Server),
        (503, "service_unavailable", Overloaded),
        (529, "overloaded_error", Overloaded),
    ];
    let server = FakeModelServer::start().await;
    for (status, code, kind) in cases {
        // An endpoint each, so that no breaker has a say.
        server.enqueue(
            chat::error(status, code, "in their own words").header("x-request-id", "req-9"),
        );
        let failure = ask(&*model(&server)).await.result.unwrap_err();
        let error = failure.error;
        assert_eq!((error.kind, error.status), (kind, Some(status)), "{error:?}");
        assert!(error.message.contains("in their own words"), "{error:?}");
        assert_eq!(error.request_id.as_deref(), Some("req-9"));
        assert_eq!(failure.partial, None);
    }
    assert_eq!(server.requests().len(), cases.len(), "nothing is repeated inside an attempt");
}

#[tokio::test]
async fn a_rate_limit_says_when_to_come_back_and_what_the_limits_are() {
    let server = FakeModelServer::start().await;
    let limited = || chat::error(429, "rate_limit_exceeded", "slow down");
    server.enqueue(
        limited().header("retry-after", "7").header("x-ratelimit-remaining-requests", "0"),
    );
    server.enqueue(limited().header("retry-after-ms", "1250"));
    server.enqueue(
        limited()
            .header("x-ratelimit-remaining-tokens", "0")
            .header("x-ratelimit-reset-tokens", "1m30s"),
    );
    let model = model(&server);
    let mut waits = Vec::new();
    for _ in 0..3 {
        let error = ask(&*model).await.result.unwrap_err().error;
        assert_eq!(error.kind, RateLimited);
        waits.push(error.retry_after_ms);
        if waits.len() == 1 {
            assert!(
                error.message.contains("x-ratelimit-remaining-requests: 0"),
                "{}",
                error.message
            );
        }
    }
    assert_eq!(waits, [Some(7_000), Some(1_250), Some(90_000)]);
}

#[tokio::test]
async fn an_error_inside_the_stream_keeps_what_arrived() {
    let server = FakeModelServer::start().await;
    let begun = ChatAnswer::new("m").text("Half an ").text("ans").frames();
    let error = chat::frame(
        &json!({"error": {"message": "overloaded", "type": "overloaded_error", "code": 529}}),
    );
    server.enqueue(Reply::sse([begun[0].clone(), begun[1].clone(), error]));
    let outcome = ask(&*model(&server)).await;
    let failure = outcome.result.unwrap_err();
    assert_eq!(failure.error.kind, Overloaded);
    assert!(failure.error.message.contains("overloaded"));
    assert!(!failure.before_content());
    assert_eq!(failure.partial.unwrap().blocks, [fixtures::text_block("Half an ans")]);
    assert_eq!(outcome.text, "Half an ans");
}

/// However a stream is cut, the call is never taken for a success before the model said that it is done, and the partial
/// answer is exactly what the deltas told.
#[tokio::test]
async fn a_cut_at_every_byte_is_a_cut_and_keeps_what_arrived() {
    let server = FakeModelServer::start().await;
    let model = model(&server);
    let whole = full_answer().stream();
    let body = whole.body();
    let finish = full_answer()
        .frames()
        .into_iter()
        .find(|f| f.contains(r#""finish_reason":"tool_calls""#))
        .unwrap();
    let text = std::str::from_utf8(&body).unwrap();
    let done = text.find(&finish).unwrap() + finish.trim_end().len();
    for offset in 0..body.len() {
        for reply in [whole.clone().cut_at(offset), whole.clone().ended_at(offset)] {
            server.enqueue(reply);
            let outcome = ask(&*model).await;
            match outcome.result {
                Ok(response) => {
                    assert!(offset >= done, "cut at {offset} of {done} taken for a success");
                    assert_eq!(plain(response).blocks, full_response().blocks);
                }
                Err(failure) => {
                    // Cut at the very beginning, not even the status line leaves the server.
                    let kind = failure.error.kind;
                    assert!(
                        kind == StreamCut || (offset == 0 && kind == Network),
                        "cut at {offset}: {kind:?}"
                    );
                    let partial = failure.partial.map(|p| text_of(&p)).unwrap_or_default();
                    assert_eq!(partial, outcome.text, "cut at {offset}");
                    assert!("Grüße, 世界! 🎉".starts_with(&outcome.text));
                }
            }
            // A refusal shows the breaker that the server lives.
            server.enqueue(chat::error(400, "invalid_request_error", "no"));
            ask(&*model).await.result.unwrap_err();
        }
    }
}

fn text_of(response: &ModelResponse) -> String {
    let texts = response.blocks.iter().filter_map(|b| match b {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

#[tokio::test]
async fn nobody_listens() {
    let server = FakeModelServer::start().await;
    let gone = config(&server);
    drop(server);
    let error = ask(&*Arc::new(endpoint(&gone)).model("m")).await.result.unwrap_err().error;
    assert_eq!(error.kind, Network);
    assert!(error.message.starts_with("no connection to 127.0.0.1:"), "{}", error.message);
}

#[tokio::test]
async fn a_server_that_is_no_model_is_said_to_be_none() {
    let server = FakeModelServer::start().await;
    server.enqueue(
        Reply::status(200).header("content-type", "text/html").send("<html>Welcome</html>"),
    );
    let failure = ask(&*model(&server)).await.result.unwrap_err();
    assert!(matches!(failure.error.kind, Protocol | StreamCut), "{:?}", failure.error);
    assert_eq!(failure.partial, None);
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let server = FakeModelServer::start().await;
    server.enqueue(
        Reply::status(307).header("location", &format!("{}/elsewhere", server.base_url())),
    );
    assert!(ask(&*model(&server)).await.result.is_err());
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn an_endless_answer_is_stopped_at_the_limit() {
    let server = FakeModelServer::start().await;
    let frames =
        (0..100).map(|_| ChatAnswer::new("m").text(&"x".repeat(1_000)).frames()[0].clone());
    server.enqueue(Reply::sse(frames).hang());
    let small = ProviderConfig { max_response_bytes: Some(20_000), ..config(&server) };
    let failure = ask(&*Arc::new(endpoint(&small)).model("m")).await.result.unwrap_err();
    assert_eq!(failure.error.kind, Protocol);
    assert!(failure.error.message.contains("20000 bytes"), "{}", failure.error.message);
    server.wait_for_abandoned(1).await;
}

/// A driver that polls the call gets control between pieces, even when all of them are there already.
#[tokio::test]
async fn the_call_returns_to_its_driver_between_pieces() {
    let server = FakeModelServer::start().await;
    let gate = Gate::new();
    let mut reply =
        Reply::sse([ChatAnswer::new("m").text("first ").frames()[0].clone()]).gate(&gate);
    for frame in ChatAnswer::new("m").text("second").frames() {
        reply = reply.send(frame);
    }
    server.enqueue(reply);
    let model = model(&server);
    let request = fixtures::ask("m", "Hello?");
    let seen = std::sync::Mutex::new(Vec::new());
    let mut sink = |delta: ModelDelta<'_>| {
        if let ModelDelta::Text { text, .. } = delta {
            seen.lock().unwrap().push(text.to_owned());
        }
    };
    let mut call = model.call(&request, &mut sink);
    let mut at_each_pending = Vec::new();
    let response = std::future::poll_fn(|cx| {
        let polled = call.as_mut().poll(cx);
        if polled.is_pending() {
            let so_far = seen.lock().unwrap().clone();
            if so_far == ["first "] {
                gate.open();
            }
            at_each_pending.push(so_far.len());
        }
        match polled {
            Poll::Ready(result) => Poll::Ready(result),
            Poll::Pending => Poll::Pending,
        }
    })
    .await;
    assert_eq!(text_of(&response.unwrap()), "first second");
    assert!(
        at_each_pending.contains(&1),
        "the driver saw the first piece before the second: {at_each_pending:?}"
    );
}

#[tokio::test]
async fn connections_are_used_again() {
    let server = FakeModelServer::start().await;
    let model = model(&server);
    for _ in 0..3 {
        // With its length known the answer ends with its last event, not with a later empty chunk.
        let reply = ChatAnswer::new("m").text("x").stream();
        let length = reply.body().len().to_string();
        server.enqueue(reply.header("content-length", &length));
        ask(&*model).await.result.unwrap();
    }
    assert_eq!((server.requests().len(), server.connections()), (3, 1));
}

/// A server that answers one request per connection and closes it without saying so.
async fn closing_server() -> (String, tokio::sync::mpsc::UnboundedReceiver<usize>) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let (closed, connections) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut seen = Vec::new();
            while !seen.ends_with(b"}") {
                if stream.read_buf(&mut seen).await.unwrap() == 0 {
                    break;
                }
            }
            let body = ChatAnswer::new("m").text("x").stream().body().to_vec();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all(&[head.as_bytes(), &body].concat()).await.unwrap();
            drop(stream);
            closed.send(seen.windows(5).filter(|w| w == b"POST ").count()).unwrap();
        }
    });
    (base, connections)
}

#[tokio::test]
async fn a_connection_that_was_closed_at_rest_is_replaced_and_nothing_is_sent_twice() {
    let (base, mut connections) = closing_server().await;
    let config = ProviderConfig { base_url: Some(base), ..ProviderConfig::default() };
    let model = Arc::new(endpoint(&config)).model("m");
    for _ in 0..5 {
        assert_eq!(ask(&*model).await.result.map(|r| text_of(&r)), Ok("x".to_owned()));
        assert_eq!(connections.recv().await, Some(1), "one request per connection");
    }
    assert!(connections.try_recv().is_err());
}

#[tokio::test]
async fn models_are_listed_and_a_refused_key_is_the_providers_own_error() {
    let server = FakeModelServer::start().await;
    server.enqueue(Reply::json(200, &json!({"data": [{"id": "a"}, {"id": "models/b"}]})));
    server.enqueue(chat::error(401, "invalid_api_key", "Incorrect API key provided"));
    let endpoint = endpoint(&config(&server));
    assert_eq!(endpoint.list_models().await.unwrap(), ["a", "b"]);
    let error = endpoint.list_models().await.unwrap_err();
    assert_eq!((error.kind, error.status), (Auth, Some(401)));
    assert!(error.message.contains("Incorrect API key provided"));
    assert_eq!(server.requests()[0].path, "/v1/models");
}
