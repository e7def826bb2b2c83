//! Shared by the tests that call the fake server.
#![allow(dead_code, reason = "each test file uses its share")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use turnbuckle_core::model::{ModelDelta, ModelResponse};
use turnbuckle_models::{CallFailure, Endpoint, Model, ProviderConfig};
use turnbuckle_testkit::{FakeModelServer, Reply, fixtures};

/// A configuration that calls the fake server.
pub fn config(server: &FakeModelServer) -> ProviderConfig {
    ProviderConfig { base_url: Some(server.base_url()), ..ProviderConfig::default() }
}

/// An endpoint named `fake`.
pub fn endpoint(config: &ProviderConfig) -> Endpoint {
    Endpoint::new(config.resolve("fake", &|_| None).unwrap()).unwrap()
}

/// A model of the fake server.
pub fn model(server: &FakeModelServer) -> Arc<dyn Model> {
    Arc::new(endpoint(&config(server))).model("m")
}

/// What a call gave: the deltas as text, and the result.
pub struct Outcome {
    pub text: String,
    pub deltas: usize,
    pub result: Result<ModelResponse, CallFailure>,
}

/// Asks a question and gathers everything.
pub async fn ask(model: &dyn Model) -> Outcome {
    ask_as(model, "m").await
}

/// The same by the model's own name.
pub async fn ask_by_name(model: &dyn Model) -> Outcome {
    ask_as(model, &model.id().model).await
}

async fn ask_as(model: &dyn Model, name: &str) -> Outcome {
    let request = fixtures::ask(name, "Hello?");
    let (mut text, mut deltas) = (String::new(), 0);
    let result = model
        .call(&request, &mut |delta: ModelDelta<'_>| {
            deltas += 1;
            if let ModelDelta::Text { text: more, .. } = delta {
                text.push_str(more);
            }
        })
        .await;
    Outcome { text, deltas, result }
}

/// A token endpoint that gives out `token-1`, `token-2` and so on, each for so many seconds.
pub async fn fake_tokens(lasts: u64) -> FakeModelServer {
    let server = FakeModelServer::start().await;
    let given = AtomicU32::new(0);
    server.otherwise(move |_| {
        let n = given.fetch_add(1, Ordering::Relaxed) + 1;
        let body = serde_json::json!({"access_token": format!("token-{n}"), "token_type": "Bearer", "expires_in": lasts});
        Reply::json(200, &body)
    });
    server
}
