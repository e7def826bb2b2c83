//! Each wire through its endpoint: where it calls, how it shows its key, and that its answers come through.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::ask;
use serde_json::{Value, json};
use std::sync::Arc;
use turnbuckle_core::usage::FinishReason;
use turnbuckle_models::{Endpoint, ProviderConfig};
use turnbuckle_testkit::chat::{ChatAnswer, frame};
use turnbuckle_testkit::{FakeModelServer, Reply, event, fixtures};

struct Wire {
    name: &'static str,
    path: &'static str,
    key_header: (&'static str, &'static str),
    answer: Reply,
    models: (&'static str, Value),
}

fn wires() -> Vec<Wire> {
    let listed = |id: &str| json!({"data": [{"id": id}]});
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": null, "usage": {"input_tokens": 10, "output_tokens": 1}});
    let response = |status: &str, output: Value| {
        json!({"id": "resp_1", "object": "response", "status": status, "model": "m", "output": output,
            "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}})
    };
    let said = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "Hi", "annotations": []}]});
    let begun = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "in_progress", "content": []});
    let gemini = json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "Hi"}]},
        "finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5},
        "modelVersion": "m"});
    vec![
        Wire {
            name: "openai-chat",
            path: "/v1/chat/completions",
            key_header: ("authorization", "Bearer k"),
            answer: ChatAnswer::new("m").text("Hi").stream(),
            models: ("/v1/models", listed("m")),
        },
        Wire {
            name: "openai-responses",
            path: "/v1/responses",
            key_header: ("authorization", "Bearer k"),
            answer: Reply::sse([
                event(
                    "response.created",
                    &json!({"type": "response.created", "sequence_number": 0,
                    "response": response("in_progress", json!([]))}),
                ),
                event(
                    "response.output_item.added",
                    &json!({"type": "response.output_item.added",
                    "sequence_number": 1, "output_index": 0, "item": begun}),
                ),
                event(
                    "response.output_text.delta",
                    &json!({"type": "response.output_text.delta",
                    "sequence_number": 2, "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": "Hi"}),
                ),
                event(
                    "response.output_item.done",
                    &json!({"type": "response.output_item.done",
                    "sequence_number": 3, "output_index": 0, "item": said}),
                ),
                event(
                    "response.completed",
                    &json!({"type": "response.completed", "sequence_number": 4,
                    "response": response("completed", json!([said]))}),
                ),
            ]),
            models: ("/v1/models", listed("m")),
        },
        Wire {
            name: "anthropic",
            path: "/v1/messages",
            key_header: ("x-api-key", "k"),
            answer: Reply::sse([
                event("message_start", &json!({"type": "message_start", "message": message})),
                event(
                    "content_block_start",
                    &json!({"type": "content_block_start", "index": 0,
                    "content_block": {"type": "text", "text": ""}}),
                ),
                event(
                    "content_block_delta",
                    &json!({"type": "content_block_delta", "index": 0,
                    "delta": {"type": "text_delta", "text": "Hi"}}),
                ),
                event("content_block_stop", &json!({"type": "content_block_stop", "index": 0})),
                event(
                    "message_delta",
                    &json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
                    "usage": {"output_tokens": 5}}),
                ),
                event("message_stop", &json!({"type": "message_stop"})),
            ]),
            models: ("/v1/models", listed("m")),
        },
        Wire {
            name: "gemini",
            path: "/v1beta/models/m:streamGenerateContent?alt=sse",
            key_header: ("x-goog-api-key", "k"),
            answer: Reply::sse([frame(&gemini)]),
            models: ("/v1beta/models", json!({"models": [{"name": "models/m"}]})),
        },
    ]
}

#[tokio::test]
async fn each_wire_calls_its_path_with_its_key_and_is_understood() {
    let server = FakeModelServer::start().await;
    for (index, wire) in wires().into_iter().enumerate() {
        let root = server.base_url().trim_end_matches("/v1").to_owned();
        let config = ProviderConfig {
            wire: Some(wire.name.to_owned()),
            base_url: Some(if wire.name.starts_with("openai") { server.base_url() } else { root }),
            api_key_env: Some("KEY".to_owned()),
            ..ProviderConfig::default()
        };
        let endpoint = Arc::new(
            Endpoint::new(config.resolve("fake", &|_| Some("k".into())).unwrap()).unwrap(),
        );
        server.enqueue(wire.answer);
        let outcome = ask(&*endpoint.model("m")).await;
        let response =
            outcome.result.unwrap_or_else(|failure| panic!("{}: {failure:?}", wire.name));
        assert_eq!(outcome.text, "Hi", "{}", wire.name);
        assert_eq!(response.finish, FinishReason::Stop, "{}", wire.name);
        assert_eq!(
            (response.usage.prompt(), response.usage.output),
            (10, Some(5)),
            "{}",
            wire.name
        );
        server.enqueue(Reply::json(200, &wire.models.1));
        assert_eq!(endpoint.list_models().await.unwrap(), ["m"], "{}", wire.name);
        let requests = server.requests();
        let (call, list) = (&requests[index * 2], &requests[index * 2 + 1]);
        assert_eq!(call.path, wire.path);
        assert_eq!(call.header(wire.key_header.0), wire.key_header.1);
        assert_eq!(list.path, wire.models.0);
    }
}

#[tokio::test]
async fn options_are_laid_over_the_profile() {
    let server = FakeModelServer::start().await;
    let with = |options: Value| ProviderConfig {
        base_url: Some(server.base_url()),
        options: options.as_object().unwrap().clone(),
        ..ProviderConfig::default()
    };
    let resolved = with(json!({"path": "/elsewhere"})).resolve("fake", &|_| None).unwrap();
    server.enqueue(ChatAnswer::new("m").text("Hi").stream());
    let model = Arc::new(Endpoint::new(resolved).unwrap()).model("m");
    assert_eq!(ask(&*model).await.result.unwrap().blocks, [fixtures::text_block("Hi")]);
    assert_eq!(server.requests()[0].path, "/v1/elsewhere");
    let resolved = with(json!({"no_such_option": 1})).resolve("fake", &|_| None).unwrap();
    let error = Endpoint::new(resolved).unwrap_err().to_string();
    assert!(error.contains("no_such_option"), "{error}");
}
