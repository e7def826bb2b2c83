//! The route with TLS, HTTP/2 and proxies, held to what the direct one is held to elsewhere.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::{ask, config};
use std::sync::Arc;
use turnbuckle_core::error::ModelErrorKind;
use turnbuckle_models::transport::Route;
use turnbuckle_models::{Endpoint, Model, ProviderConfig};
use turnbuckle_testkit::chat::{self, ChatAnswer};
use turnbuckle_testkit::{FakeModelServer, Gate, Reply, fixtures};

fn model(config: &ProviderConfig) -> Arc<dyn Model> {
    let resolved = config.resolve("fake", &|_| Some("key".into())).unwrap();
    Arc::new(Endpoint::with_route(resolved, Route::Full).unwrap()).model("m")
}

#[tokio::test]
async fn answers_refusals_and_breaks() {
    let server = FakeModelServer::start().await;
    let config = ProviderConfig { api_key_env: Some("KEY".into()), ..config(&server) };
    let model = model(&config);

    server.enqueue(ChatAnswer::new("m").text("Grüße").text(" 🎉").stream().in_writes_of(5));
    let outcome = ask(&*model).await;
    assert_eq!(outcome.text, "Grüße 🎉");
    assert_eq!(outcome.result.unwrap().blocks, [fixtures::text_block("Grüße 🎉")]);
    let request = &server.requests()[0];
    assert_eq!(request.path, "/v1/chat/completions");
    assert_eq!(request.header("authorization"), "Bearer key");
    assert_eq!(request.header("content-length"), request.body.len().to_string());

    server.enqueue(chat::error(429, "rate_limit_exceeded", "slow down").header("retry-after", "2"));
    let error = ask(&*model).await.result.unwrap_err().error;
    assert_eq!((error.kind, error.retry_after_ms), (ModelErrorKind::RateLimited, Some(2_000)));

    let first = ChatAnswer::new("m").text("Half").frames()[0].clone();
    server.enqueue(Reply::sse([first]).cut());
    let failure = ask(&*model).await.result.unwrap_err();
    assert_eq!(failure.error.kind, ModelErrorKind::StreamCut);
    assert_eq!(failure.partial.unwrap().blocks, [fixtures::text_block("Half")]);

    server.enqueue(
        Reply::status(307).header("location", &format!("{}/elsewhere", server.base_url())),
    );
    let before = server.requests().len();
    assert!(ask(&*model).await.result.is_err());
    assert_eq!(server.requests().len(), before + 1, "redirects are not followed");

    server.enqueue(Reply::status(200).head_gate(&Gate::new()));
    let call = tokio::spawn({
        let model = model.clone();
        async move { ask(&*model).await.deltas }
    });
    server.wait_for_requests(before + 2).await;
    call.abort();
    server.wait_for_abandoned(1).await;

    drop(server);
    let error = ask(&*model).await.result.unwrap_err().error;
    assert_eq!(error.kind, ModelErrorKind::Network);
    assert!(error.message.starts_with("no connection to 127.0.0.1:"), "{}", error.message);
}
