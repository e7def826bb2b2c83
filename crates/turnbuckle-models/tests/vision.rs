//! Images, and models that are known to see none.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::config;
use serde_json::json;
use std::sync::Arc;
use turnbuckle_core::error::{ModelError, ModelErrorKind};
use turnbuckle_core::model::ModelRequest;
use turnbuckle_core::transcript::{Item, Transcript};
use turnbuckle_models::{Endpoint, NoDeltas};
use turnbuckle_testkit::FakeModelServer;
use turnbuckle_testkit::chat::ChatAnswer;

async fn look(endpoint: &Arc<Endpoint>, model: &str) -> Result<(), ModelError> {
    let parts = json!([{"type": "text", "text": "What is this?"}, {"type": "image", "mime": "image/png",
        "source": {"data": "iVBORw0KGgo="}}]);
    let mut transcript = Transcript::default();
    transcript.push_item(Item::User { content: serde_json::from_value(parts).unwrap() });
    let request = ModelRequest::new(model, transcript);
    endpoint.model(model).call(&request, &mut NoDeltas).await.map(drop).map_err(|f| f.error)
}

#[tokio::test]
async fn a_blind_model_is_not_asked_and_an_unknown_one_is() {
    let server = FakeModelServer::start().await;
    server.otherwise(|_| ChatAnswer::new("m").text("A dot.").stream());
    let mut config = config(&server);
    config.models =
        serde_json::from_value(json!({"mine": {"capabilities": {"images": false}}})).unwrap();
    let endpoint = Arc::new(common::endpoint(&config));
    // By the catalogue, and by the configuration.
    for blind in ["gpt-3.5-turbo", "mine"] {
        assert_eq!(look(&endpoint, blind).await.unwrap_err().kind, ModelErrorKind::Config);
    }
    assert_eq!(server.requests(), []);
    for seeing in ["gpt-4o", "who-knows"] {
        look(&endpoint, seeing).await.unwrap();
    }
    let sent = &server.requests()[1].json()["messages"][0]["content"][1];
    assert_eq!(sent["image_url"]["url"], "data:image/png;base64,iVBORw0KGgo=");
}
