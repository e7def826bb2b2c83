//! Recording and replaying, and what must never be written or printed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::{ask, config};
use std::sync::Arc;
use turnbuckle_core::error::ModelErrorKind;
use turnbuckle_models::cassette::Player;
use turnbuckle_models::config::HeaderText;
use turnbuckle_models::{Endpoint, ProviderConfig};
use turnbuckle_testkit::chat::{self, ChatAnswer};
use turnbuckle_testkit::{FakeModelServer, Reply};

const KEY: &str = "sk-very-secret-1234";
const HEADER: &str = "org-very-secret-5678";

fn with_secrets(config: ProviderConfig) -> ProviderConfig {
    ProviderConfig {
        api_key_env: Some("FAKE_KEY".into()),
        headers: [("x-organisation".to_owned(), HeaderText(HEADER.to_owned()))].into(),
        ..config
    }
}

fn secret_endpoint(config: &ProviderConfig) -> Endpoint {
    let env = |name: &str| (name == "FAKE_KEY").then(|| format!("{KEY}\n"));
    Endpoint::new(config.resolve("fake", &env).unwrap()).unwrap()
}

#[tokio::test]
async fn what_was_recorded_replays_alike_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.jsonl");
    let server = FakeModelServer::start().await;
    let config = with_secrets(config(&server));
    // An answer cut inside a character, a refusal that quotes the key, and a break in the middle.
    server.enqueue(ChatAnswer::new("m").text("Grüße 🎉").stream().in_writes_of(3));
    server.enqueue(
        chat::error(429, "rate_limit_exceeded", &format!("slow down, {KEY}"))
            .header("retry-after", "3"),
    );
    server.enqueue(ChatAnswer::new("m").text("Half").stream().cut_at(90));

    let recording = Arc::new(secret_endpoint(&config).recorded(&path).unwrap()).model("m");
    let live = [ask(&*recording).await, ask(&*recording).await, ask(&*recording).await];
    drop(server);

    let player = Player::open(&path).unwrap();
    assert_eq!(player.remaining(), 3);
    let replaying = Arc::new(secret_endpoint(&config).replayed(player.clone())).model("m");
    for live in live {
        let again = ask(&*replaying).await;
        assert_eq!(again.result, live.result);
        assert_eq!(again.text, live.text);
    }
    assert_eq!(player.remaining(), 0);
    let error = ask(&*replaying).await.result.unwrap_err().error;
    assert_eq!(error.kind, ModelErrorKind::Config);
    assert!(
        error.message.contains("calls.jsonl") && error.message.contains("record it anew"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn secrets_are_sent_but_never_written_or_printed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.jsonl");
    let server = FakeModelServer::start().await;
    let config = with_secrets(config(&server));
    let echo = format!("your header was {HEADER} and your key {KEY}");
    server.enqueue(ChatAnswer::new("m").text(&echo).stream().header("x-echo", KEY).in_writes_of(7));
    server.enqueue(Reply::status(400).send(format!("rejected: Authorization: Bearer {KEY}")));

    let endpoint = secret_endpoint(&config).recorded(&path).unwrap();
    let mut printed = format!(
        "{endpoint:?} {config:?} {:?}",
        config.resolve("fake", &|_| Some(KEY.into())).unwrap()
    );
    let model = Arc::new(endpoint).model("m");
    ask(&*model).await.result.unwrap();
    let failure = ask(&*model).await.result.unwrap_err();
    printed.push_str(&format!("{failure:?} {failure}"));

    let request = &server.requests()[0];
    assert_eq!(request.header("authorization"), format!("Bearer {KEY}"));
    assert_eq!(request.header("x-organisation"), HEADER);
    let written = std::fs::read_to_string(&path).unwrap();
    assert_eq!(written.lines().count(), 2);
    for seen in [printed, written] {
        assert!(!seen.contains(KEY) && !seen.contains(HEADER), "{seen}");
        assert!(!seen.contains("very-secret"), "{seen}");
    }
}

/// Gateways quote what they were sent wherever they say what is wrong.
#[tokio::test]
async fn a_key_that_is_quoted_back_is_not_passed_on_in_any_error() {
    let server = FakeModelServer::start().await;
    let model = Arc::new(secret_endpoint(&with_secrets(config(&server)))).model("m");
    let quoted = format!("bad key {KEY} of {HEADER}");
    let told =
        format!(r#"{{"error": {{"message": "{quoted}", "type": "{KEY}", "code": "{KEY}"}}}}"#);
    let begun = r#"data: {"id":"c","choices":[{"index":0,"delta":{"content":"Hel"}}]}"#;
    let ended = format!(
        r#"data: {{"id":"c","choices":[{{"index":0,"delta":{{}},"finish_reason":"{KEY}"}}]}}"#
    );
    let answers = [
        Reply::status(400).send(told.clone()),
        Reply::status(200).send(told.clone()),
        Reply::sse([format!("{begun}\n\n"), format!("data: {told}\n\n")]),
        Reply::sse([format!("{begun}\n\n"), format!("data: {{{quoted}\n\n")]),
        Reply::status(200).send(format!("<html>{quoted}</html>")),
        Reply::sse([format!("{begun}\n\n"), format!("{ended}\n\n"), "data: [DONE]\n\n".into()]),
    ];
    for answer in answers {
        server.enqueue(answer);
        let seen = format!("{:?}", ask(&*model).await.result);
        assert!(seen.contains("[secret]"), "{seen}");
        assert!(!seen.contains("very-secret"), "{seen}");
    }
}

#[test]
fn a_cassette_that_is_none_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("broken.jsonl");
    std::fs::write(&path, "\n{\"path\": 1}\n").unwrap();
    let error = Player::open(&path).unwrap_err().to_string();
    assert!(error.contains("line 2") && error.contains("broken.jsonl"), "{error}");
    assert!(Player::open(&folder.path().join("absent")).is_err());
}
