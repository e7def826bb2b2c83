//! A real model: SmolLM2-135M under llama.cpp, fetched by `scripts/llama`.
//!
//! It is no clever model, so what it says is not judged. What is: that pieces as they fall from a tokenizer fold to the whole
//! answer, that arguments written under a grammar arrive, and that counts and stop reasons are the engine's own.

use crate::{Peer, skip, spec, tests_folder};
use serde_json::{Value, json};
use std::sync::Arc;
use turnbuckle_core::model::{
    Block, Delivery, ModelDelta, ModelRef, ModelRequest, ModelResponse, ToolChoice, ToolSet,
};
use turnbuckle_core::transcript::{Item, ToolResult, Transcript};
use turnbuckle_core::usage::FinishReason;
use turnbuckle_models::{Model, ProviderConfig, Providers};

fn llama() -> Option<(Peer, Arc<dyn Model>)> {
    let folder = tests_folder();
    let weights = folder.join("../target/llama/SmolLM2-135M-Instruct.Q4_1.gguf");
    if !weights.exists() || !folder.join("llama/node_modules/node-llama-cpp").exists() {
        skip("run `scripts/llama` to test against a real model");
        return None;
    }
    let peer = Peer::start(folder.join("llama/server.mjs"), [weights]);
    let config: ProviderConfig = serde_json::from_value(json!({
        "profile": "llamacpp", "base_url": format!("{}/v1", peer.url),
    }))
    .unwrap();
    let providers = Providers::with_environment([("llama".to_owned(), config)].into(), |_| None);
    let model = providers.model(&ModelRef::new("llama", "smollm2")).unwrap();
    Some((peer, model))
}

fn request(question: &str, most: u32) -> ModelRequest {
    let mut transcript = Transcript::default();
    transcript.push_item(Item::user(question));
    let mut request = ModelRequest::new("smollm2", transcript);
    request.settings.temperature = Some(0.0);
    request.settings.max_output_tokens = Some(most);
    request
}

/// The answer, and the text and the arguments as their pieces came.
async fn ask(model: &dyn Model, request: &ModelRequest) -> (ModelResponse, Vec<String>) {
    let mut pieces = Vec::new();
    let mut sink = |delta: ModelDelta<'_>| match delta {
        ModelDelta::Text { text, .. } => pieces.push(text.to_owned()),
        ModelDelta::CallArguments { text, .. } => pieces.push(text.to_owned()),
        _ => {}
    };
    let response = model.call(request, &mut sink).await.unwrap();
    (response, pieces)
}

fn text(response: &ModelResponse) -> &str {
    match response.blocks.as_slice() {
        [Block::Text { text, .. }] => text,
        other => panic!("one text was expected: {other:?}"),
    }
}

#[tokio::test]
async fn what_a_real_model_streams_is_what_it_says_at_once() {
    let Some((_peer, model)) = llama() else { return };
    let mut request = request("Count from one to ten.", 24);
    let (streamed, pieces) = ask(&*model, &request).await;
    request.delivery = Delivery::Whole;
    let (whole, _) = ask(&*model, &request).await;

    assert!(!text(&streamed).is_empty());
    assert_eq!(text(&streamed), text(&whole));
    assert_eq!(pieces.concat(), text(&streamed));
    assert!(pieces.len() > 5, "it came in pieces of a token or so: {pieces:?}");
    assert_eq!(streamed.finish, FinishReason::Length, "24 tokens hold no count to ten");
    assert_eq!((streamed.usage.output, whole.usage.output), (Some(24), Some(24)));
    assert!(streamed.usage.input > Some(0), "{:?}", streamed.usage);
}

#[tokio::test]
async fn a_real_model_calls_a_tool_and_answers_from_its_result() {
    let Some((_peer, model)) = llama() else { return };
    let mut request = request("What is the weather in Oslo?", 64);
    let spec = spec("weather", "The weather of a city.", "city", "string");
    request.tools = Arc::new(ToolSet::new(vec![spec]));
    request.tool_choice = ToolChoice::Required;
    let mut answers = Vec::new();
    for delivery in [Delivery::Stream, Delivery::Whole] {
        request.delivery = delivery;
        let (asked, pieces) = ask(&*model, &request).await;
        assert_eq!(asked.finish, FinishReason::ToolCalls);
        let [Block::ToolCall { name, arguments, wire_id, .. }] = asked.blocks.as_slice() else {
            panic!("one call was expected: {asked:?}");
        };
        assert_eq!(name, "weather");
        let parsed: Value = serde_json::from_str(arguments).unwrap();
        assert!(parsed["city"].is_string(), "{parsed}");
        if delivery == Delivery::Stream {
            assert_eq!(pieces.concat(), *arguments);
            assert!(pieces.len() > 2, "{pieces:?}");
        }
        let result = ToolResult {
            wire_id: wire_id.as_str().into(),
            name: "weather".into(),
            content: "12 degrees and rain".into(),
            is_error: false,
        };
        let mut next = request.clone();
        next.transcript.push_item(Item::Assistant { blocks: asked.blocks.clone() });
        next.transcript.push_item(Item::ToolResults { results: vec![result] });
        next.tool_choice = ToolChoice::None;
        let (answered, _) = ask(&*model, &next).await;
        answers.push((parsed, text(&answered).to_owned()));
    }
    assert_eq!(answers[0], answers[1]);
}
