//! What the calls of an endpoint share: time, places, the breaker, the connection.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::{ask, config, endpoint, model};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;
use tokio::task::JoinSet;
use turnbuckle_core::error::ModelErrorKind;
use turnbuckle_core::model::ModelDelta;
use turnbuckle_models::endpoint::{FIRST_REST, TRIP_AFTER};
use turnbuckle_models::{
    DeltaSink, FallbackModel, Model, ProviderConfig, ScriptedModel, Timeouts, scripted,
};
use turnbuckle_testkit::chat::{self, ChatAnswer};
use turnbuckle_testkit::{FakeModelServer, Gate, Reply, fixtures};

fn patient() -> Timeouts {
    Timeouts { connect_ms: 5_000, first_byte_ms: 60_000, idle_ms: 20_000 }
}

/// The clock only moves once nothing but a timer is waited for.
#[tokio::test]
async fn silence_before_the_first_byte_is_a_timeout() {
    let server = FakeModelServer::start().await;
    server.enqueue(Reply::status(200).header("content-type", "text/event-stream").hang());
    server.enqueue(Reply::status(200).head_gate(&Gate::new()));
    let config = ProviderConfig { timeouts: patient(), ..config(&server) };
    let model = Arc::new(endpoint(&config)).model("m");
    for sent in 1..=2 {
        let call = tokio::spawn({
            let model = model.clone();
            async move { ask(&*model).await }
        });
        server.wait_for_requests(sent).await;
        tokio::time::pause();
        let failure = call.await.unwrap().result.unwrap_err();
        tokio::time::resume();
        assert_eq!(failure.error.kind, ModelErrorKind::Timeout);
        assert_eq!(failure.error.message, "no answer within 60.0 s");
        assert_eq!(failure.partial, None);
        server.wait_for_abandoned(sent).await;
    }
}

#[tokio::test]
async fn silence_in_the_middle_is_a_timeout_that_keeps_what_arrived() {
    let server = FakeModelServer::start().await;
    let first = ChatAnswer::new("m").text("Half").frames()[0].clone();
    server.enqueue(Reply::sse([first]).hang());
    let config = ProviderConfig { timeouts: patient(), ..config(&server) };
    let model = Arc::new(endpoint(&config)).model("m");
    let arrived = Gate::new();
    let seen = arrived.clone();
    let call = tokio::spawn(async move {
        let request = fixtures::ask("m", "Hello?");
        model.call(&request, &mut |_: ModelDelta<'_>| seen.open()).await
    });
    arrived.wait().await;
    tokio::time::pause();
    let begin = tokio::time::Instant::now();
    let failure = call.await.unwrap().unwrap_err();
    assert!(
        begin.elapsed() <= Duration::from_secs(23),
        "the idle limit counts, not the longer first one"
    );
    assert_eq!(failure.error.kind, ModelErrorKind::Timeout);
    assert_eq!(failure.error.message, "the answer stood still for 20.0 s");
    assert_eq!(failure.partial.unwrap().blocks, [fixtures::text_block("Half")]);
}

/// Wants one piece at a time.
struct Sated {
    told: Arc<Mutex<Vec<String>>>,
    hungry: Arc<AtomicBool>,
}

impl DeltaSink for Sated {
    fn delta(&mut self, delta: ModelDelta<'_>) {
        let ModelDelta::Text { text, .. } = delta else { return };
        self.told.lock().unwrap().push(text.to_owned());
        self.hungry.store(false, Ordering::SeqCst);
    }

    fn is_ready(&mut self) -> bool {
        self.hungry.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn nothing_is_read_while_the_sink_wants_nothing() {
    let server = FakeModelServer::start().await;
    let frames = ChatAnswer::new("m").text("Half").text(" and half.").frames();
    let (first, rest) = frames.split_first().unwrap();
    let gate = Gate::new();
    server.enqueue(Reply::sse([first.clone()]).gate(&gate).send(rest.concat()));
    // A chain passes on what its caller wants.
    let chain = FallbackModel::new(model(&server), []);
    let (told, hungry) = (Arc::<Mutex<Vec<_>>>::default(), Arc::new(AtomicBool::new(true)));
    let mut sink = Sated { told: told.clone(), hungry: hungry.clone() };
    let request = fixtures::ask("m", "Hello?");
    let mut call = chain.call(&request, &mut sink);
    std::future::poll_fn(|cx| {
        assert!(call.as_mut().poll(cx).is_pending());
        if told.lock().unwrap().is_empty() { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    gate.open();
    server.wait_for_finished(1).await;
    for _ in 0..20 {
        assert!(futures_util::poll!(call.as_mut()).is_pending());
        tokio::task::yield_now().await;
    }
    assert_eq!(*told.lock().unwrap(), ["Half"]);
    hungry.store(true, Ordering::SeqCst);
    let answer = call.await.unwrap();
    assert_eq!(answer.blocks, [fixtures::text_block("Half and half.")]);
    assert_eq!(told.lock().unwrap().concat(), "Half and half.");
}

#[tokio::test]
async fn dropping_the_call_drops_the_request() {
    let server = FakeModelServer::start().await;
    let first = ChatAnswer::new("m").text("Half").frames()[0].clone();
    // In the middle of an answer, and before its first byte.
    server.enqueue(Reply::sse([first]).hang());
    server.enqueue(Reply::status(200).head_gate(&Gate::new()));
    let model = model(&server);
    for sent in 1..=2 {
        let call = tokio::spawn({
            let model = model.clone();
            async move { ask(&*model).await.deltas }
        });
        server.wait_for_requests(sent).await;
        call.abort();
        server.wait_for_abandoned(sent).await;
    }
    assert_eq!(server.open(), 0);
}

#[tokio::test]
async fn no_more_calls_at_once_than_allowed_and_all_get_their_turn() {
    let server = FakeModelServer::start().await;
    let gate = Gate::new();
    let held = gate.clone();
    server.otherwise(move |_| ChatAnswer::new("m").text("x").stream().head_gate(&held));
    let config = ProviderConfig { max_concurrency: Some(3), ..config(&server) };
    let endpoint = Arc::new(endpoint(&config));
    let mut calls = JoinSet::new();
    for _ in 0..10 {
        // Different models of an endpoint share its places.
        let model = endpoint.model(&format!("m{}", calls.len()));
        calls.spawn(async move { ask(&*model).await.result.is_ok() });
    }
    server.wait_for_requests(3).await;
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.requests().len(), 3);
    gate.open();
    assert_eq!(calls.join_all().await, [true; 10]);
    assert_eq!(server.most_open(), 3);
    assert_eq!(server.requests().len(), 10);
}

#[tokio::test]
async fn a_place_is_freed_when_its_call_is_dropped() {
    let server = FakeModelServer::start().await;
    server.enqueue(Reply::status(200).hang());
    server.enqueue(ChatAnswer::new("m").text("next").stream());
    let config = ProviderConfig { max_concurrency: Some(1), ..config(&server) };
    let model = Arc::new(endpoint(&config)).model("m");
    let stuck = tokio::spawn({
        let model = model.clone();
        async move { ask(&*model).await.deltas }
    });
    server.wait_for_requests(1).await;
    stuck.abort();
    assert_eq!(ask(&*model).await.text, "next");
}

#[tokio::test]
async fn an_endpoint_that_keeps_failing_is_left_alone_and_tried_again() {
    let server = FakeModelServer::start().await;
    server.otherwise(|_| chat::error(500, "server_error", "down"));
    let model = model(&server);
    for _ in 0..TRIP_AFTER {
        assert_eq!(ask(&*model).await.result.unwrap_err().error.kind, ModelErrorKind::Server);
    }
    let error = ask(&*model).await.result.unwrap_err().error;
    assert_eq!(
        (error.kind, error.code.as_deref()),
        (ModelErrorKind::Overloaded, Some("circuit_open"))
    );
    assert!(error.retry_after_ms.unwrap() <= FIRST_REST.as_millis() as u64);
    assert_eq!(server.requests().len(), TRIP_AFTER as usize, "the open breaker sends nothing");

    server.otherwise(|_| ChatAnswer::new("m").text("back").stream());
    tokio::time::pause();
    tokio::time::advance(FIRST_REST).await;
    tokio::time::resume();
    assert_eq!(ask(&*model).await.text, "back");
    assert_eq!(ask(&*model).await.text, "back");
}

#[tokio::test]
async fn bad_requests_do_not_open_the_breaker() {
    let server = FakeModelServer::start().await;
    server.otherwise(|_| chat::error(400, "invalid_request_error", "no"));
    let model = model(&server);
    for _ in 0..TRIP_AFTER * 3 {
        assert_eq!(ask(&*model).await.result.unwrap_err().error.kind, ModelErrorKind::BadRequest);
    }
}

#[tokio::test]
async fn an_outage_falls_back_over_http_too() {
    let server = FakeModelServer::start().await;
    server.enqueue(chat::error(529, "overloaded_error", "busy"));
    server.enqueue(chat::error(400, "invalid_request_error", "no"));
    let other = Arc::new(ScriptedModel::new("other", [scripted::text("from the other")]));
    let chain = FallbackModel::new(model(&server), [other.clone() as Arc<dyn Model>]);
    assert_eq!(ask(&chain).await.text, "from the other");
    assert_eq!(ask(&chain).await.result.unwrap_err().error.kind, ModelErrorKind::BadRequest);
    assert_eq!(other.requests().len(), 1);
}

#[tokio::test]
async fn a_provider_that_holds_calls_back_is_passed_over_while_there_is_another() {
    let server = FakeModelServer::start().await;
    server.enqueue(chat::error(429, "rate_limit_error", "slow down").header("retry-after", "100"));
    server.enqueue(ChatAnswer::new("m").text("from the first").stream());
    let answers = ["one", "two"].map(scripted::text);
    let other = Arc::new(ScriptedModel::new("other", answers));
    let first = model(&server);
    let chain = FallbackModel::new(first.clone(), [other as Arc<dyn Model>]);
    assert_eq!(ask(&chain).await.text, "one");
    assert_eq!(ask(&chain).await.text, "two");
    assert_eq!(server.requests().len(), 1, "it said itself that it takes no calls");

    // Alone it is waited for.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(110)).await;
    tokio::time::resume();
    assert_eq!(ask(&*first).await.text, "from the first");
}
