//! What a provider's server can get wrong, over real HTTP.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::*;
use futures_util::stream::{self, StreamExt};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use turnbuckle_core::error::ModelErrorKind;
use turnbuckle_core::event::{Event, EventKind};
use turnbuckle_core::limits::TurnLimits;
use turnbuckle_core::outcome::{Outcome, TurnError};
use turnbuckle_engine::{Agent, Engine};
use turnbuckle_models::{Endpoint, Model, ProviderConfig};
use turnbuckle_store::{MemoryStore, SessionKey};
use turnbuckle_testkit::chat::{self, ChatAnswer, frame};
use turnbuckle_testkit::{FakeModelServer, Reply};

/// A model of the server, through an endpoint of its own, so that no test is held up by another's breaker.
fn model(server: &FakeModelServer) -> Arc<dyn Model> {
    let config = ProviderConfig { base_url: Some(server.base_url()), ..ProviderConfig::default() };
    Arc::new(Endpoint::new(config.resolve("fake", &|_| None).unwrap()).unwrap()).model("m")
}

struct Wired {
    server: FakeModelServer,
    engine: Engine,
    world: World,
    key: SessionKey,
}

async fn wired(replies: impl IntoIterator<Item = Reply>) -> Wired {
    let server = FakeModelServer::start().await;
    for reply in replies {
        server.enqueue(reply);
    }
    let world = World::default();
    let agents = [agent("main").build().unwrap()];
    let engine = builder(model(&server), &world, agents).store(MemoryStore::new()).build().unwrap();
    let key = engine.create_session("acme", "ada", "main").await.unwrap().key;
    Wired { server, engine, world, key }
}

impl Wired {
    async fn say(&self) -> Vec<Event> {
        let events = say(&self.engine, &self.key, "hello").await;
        check_session(&self.engine, &self.key).await;
        events
    }
}

fn error_of(events: &[Event]) -> TurnError {
    match last_kind(events) {
        EventKind::TurnError { error, .. } => error.clone(),
        other => panic!("{other:?}"),
    }
}

fn well() -> Reply {
    ChatAnswer::new("m").text("All is well.").stream()
}

#[tokio::test]
async fn what_no_repetition_can_mend_is_told_at_once() {
    for (status, kind, code) in [
        (400, ModelErrorKind::BadRequest, "model_error"),
        (401, ModelErrorKind::Auth, "model_auth"),
        (404, ModelErrorKind::NotFound, "model_error"),
    ] {
        let wired = wired([chat::error(status, "their_code", "in their own words")]).await;
        let error = error_of(&wired.say().await);
        assert_eq!(error.code(), code);
        let TurnError::Model(error) = error else { panic!("{error:?}") };
        assert_eq!((error.kind, error.status), (kind, Some(status)));
        assert!(error.message.contains("in their own words"), "{error}");
        assert_eq!(wired.server.requests().len(), 1);
        // The session is as good as before.
        wired.server.enqueue(well());
        wired.say().await;
        assert_eq!(last_message(&**wired.engine.store(), &wired.key).await.text(), "All is well.");
    }
}

#[tokio::test]
async fn what_passes_is_tried_again() {
    for status in [429, 500, 529] {
        let busy = chat::error(status, "busy", "try later").header("retry-after", "0");
        let wired = wired([busy.clone(), busy, well()]).await;
        let events = wired.say().await;
        let message = last_message(&**wired.engine.store(), &wired.key).await;
        assert_eq!(
            (outcome(&message), message.text().as_str()),
            (Outcome::Completed, "All is well.")
        );
        let attempts: Vec<_> = events
            .iter()
            .filter_map(|e| match &e.kind {
                EventKind::ModelRetry { attempt, error, .. } => Some((*attempt, error.status)),
                _ => None,
            })
            .collect();
        assert_eq!(attempts, [(2, Some(status)), (3, Some(status))]);
        let requests = wired.server.requests();
        assert_eq!(requests.len(), 3);
        assert!(requests.iter().all(|r| r.body == requests[0].body));
    }
}

#[tokio::test]
async fn what_does_not_pass_is_an_error_after_the_last_attempt() {
    for (status, code) in [(429, "rate_limited"), (500, "model_error"), (529, "model_error")] {
        let busy = chat::error(status, "busy", "try later").header("retry-after", "0");
        let wired = wired(vec![busy; 3]).await;
        assert_eq!(error_of(&wired.say().await).code(), code);
        assert_eq!(wired.server.requests().len(), 3);
    }
}

#[tokio::test]
async fn an_error_in_the_stream_after_content() {
    let started = ChatAnswer::new("m").text("All is ").frames();
    let error = frame(
        &serde_json::json!({"error": {"message": "Overloaded", "type": "overloaded_error", "code": 529}}),
    );
    let broken = Reply::sse([started[0].clone(), error]);
    let wired = wired([broken, well()]).await;
    let events = wired.say().await;
    let message = last_message(&**wired.engine.store(), &wired.key).await;
    assert_eq!((outcome(&message), said(&message)), (Outcome::Completed, vec!["All is well."]));
    // What was streamed of the first attempt is taken back in the stream, too.
    assert!(events.iter().any(|e| matches!(e.kind, EventKind::PartsDiscarded { keep: 0, .. })));
    assert_eq!(streamed_message(&events), message);
    assert!(events.iter().any(|e| matches!(&e.kind,
        EventKind::ModelRetry { error, .. } if error.kind == ModelErrorKind::Overloaded)));
}

#[tokio::test]
async fn line_ends_comments_unknown_events_and_cuts_within_characters() {
    let answer = ChatAnswer::new("m").text("Grüße, ").text("世界! 🎉");
    let mut frames = vec![": keep-alive\n\n".to_owned()];
    for part in answer.frames() {
        frames.push(part);
        frames.push(": ping\n\n".to_owned());
        frames.push("event: weather\ndata: {\"sunny\": true, \"choices\": []}\n\n".to_owned());
        frames.push("event: ping\ndata: hello\n\n".to_owned());
    }
    let frames: Vec<String> = frames.iter().map(|f| f.replace('\n', "\r\n")).collect();
    for size in [1, 7] {
        let wired = wired([Reply::sse(frames.clone()).in_writes_of(size)]).await;
        wired.say().await;
        let message = last_message(&**wired.engine.store(), &wired.key).await;
        assert_eq!(
            (outcome(&message), said(&message)),
            (Outcome::Completed, vec!["Grüße, 世界! 🎉"])
        );
    }
}

#[tokio::test]
async fn gigantic_single_deltas() {
    let much = "Lörem ipsum. ".repeat(200_000);
    let key = "k".repeat(160_000);
    let arguments = format!(r#"{{"key": "{key}"}}"#);
    let first = ChatAnswer::new("m").text("I look.").call("c", "look_up", &arguments);
    let wired = wired([first.stream(), ChatAnswer::new("m").text(&much).stream()]).await;
    let events = wired.say().await;
    let message = last_message(&**wired.engine.store(), &wired.key).await;
    assert!(
        outcome(&message) == Outcome::Completed && said(&message) == ["I look.", much.as_str()]
    );
    // The tool was given all of it, and its own output repeats it and is capped.
    assert_eq!(wired.world.all(), [format!("look_up {key}")]);
    assert_eq!(the_call(&message).output.as_ref().unwrap()["truncated"], true);
    assert!(streamed_message(&events) == message);
}

/// The stream that is cut: words, and a call whose arguments come in pieces.
fn recorded() -> ChatAnswer {
    ChatAnswer::new("m").text("Ich büche ").text("das.").call_in_pieces(
        "c1",
        "book",
        &["{\"room\":", "\"blau\"}"],
    )
}

/// A server that cuts the first answer to each message at the offset the message names: once, or each time it is asked.
fn cutting(server: &FakeModelServer, always: bool) {
    let whole = recorded().stream();
    let seen: Mutex<BTreeMap<usize, usize>> = Mutex::default();
    server.otherwise(move |request| {
        let messages = request.json()["messages"].clone();
        let messages = messages.as_array().unwrap();
        if messages.last().unwrap()["role"] == "tool" {
            return ChatAnswer::new("m").text("Gebucht.").stream();
        }
        let asked = messages.iter().find(|m| m["role"] == "user").unwrap();
        let offset: usize = asked["content"].as_str().unwrap().parse().unwrap();
        let mut seen = seen.lock().unwrap();
        let times = seen.entry(offset).or_default();
        *times += 1;
        if *times == 1 || always { whole.clone().cut_at(offset) } else { whole.clone() }
    });
}

async fn cut_at(
    server: &FakeModelServer,
    offset: usize,
) -> (Vec<Event>, World, Engine, SessionKey) {
    let world = World::default();
    let limits = TurnLimits { model_attempts: 2, ..TurnLimits::default() };
    let agents = [Agent::builder("main").tool(book()).build().unwrap()];
    let engine = builder(model(server), &world, agents).limits(limits).build().unwrap();
    let key = engine.create_session("acme", "ada", "main").await.unwrap().key;
    let events = say(&engine, &key, offset.to_string().as_str()).await;
    check_session(&engine, &key).await;
    (events, world, engine, key)
}

#[tokio::test]
async fn a_connection_cut_once_at_every_byte() {
    let server = FakeModelServer::start().await;
    cutting(&server, false);
    let length = recorded().stream().body().len();
    let all = stream::iter(0..length).map(|offset| {
        let server = &server;
        async move {
            let (events, world, engine, key) = cut_at(server, offset).await;
            let message = last_message(&**engine.store(), &key).await;
            assert_eq!(outcome(&message), Outcome::Completed, "cut at {offset}");
            assert_eq!(said(&message), ["Ich büche das.", "Gebucht."], "cut at {offset}");
            assert_eq!(the_call(&message).output.as_ref().unwrap()["booked"], "blau");
            assert_eq!(world.count("book"), 1, "cut at {offset}");
            assert_eq!(streamed_message(&events), message);
        }
    });
    all.buffer_unordered(200).collect::<Vec<()>>().await;
}

#[tokio::test]
async fn a_connection_cut_each_time_at_every_byte() {
    let server = FakeModelServer::start().await;
    cutting(&server, true);
    let body = recorded().stream().body();
    let all = stream::iter(0..body.len()).map(|offset| {
        let server = &server;
        async move {
            let (events, world, engine, key) = cut_at(server, offset).await;
            let message = last_message(&**engine.store(), &key).await;
            match last_kind(&events) {
                // Only what lies after the answer's own end may be missing.
                EventKind::TurnCompleted { .. } => {
                    assert_eq!(said(&message), ["Ich büche das.", "Gebucht."], "cut at {offset}");
                    assert_eq!(world.count("book"), 1);
                }
                EventKind::TurnError { error: TurnError::Model(error), .. } => {
                    assert!(error.kind.retryable(), "cut at {offset}: {error:?}");
                    assert_eq!(world.count("book"), 0, "cut at {offset}");
                    assert!("Ich büche das.".starts_with(&message.text()), "cut at {offset}");
                }
                other => panic!("cut at {offset}: {other:?}"),
            }
        }
    });
    all.buffer_unordered(200).collect::<Vec<()>>().await;
}
