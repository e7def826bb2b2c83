//! Shared by the tests that call the fake server.
#![allow(dead_code, reason = "each test file uses its share")]

use std::sync::Arc;
use turnbuckle_core::model::{ModelDelta, ModelResponse};
use turnbuckle_models::{CallFailure, Endpoint, Model, ProviderConfig};
use turnbuckle_testkit::{FakeModelServer, fixtures};

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
    let request = fixtures::ask("m", "Hello?");
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
