//! What goes over each wire, byte for byte, for a table of sessions.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod sessions;

use proptest::prelude::*;
use serde_json::Value;
use sessions::{Session, codecs, signed, table};
use std::sync::Arc;
use turnbuckle_core::error::ModelErrorKind;
use turnbuckle_core::model::{Block, ModelRequest, ToolChoice, ToolSet};
use turnbuckle_core::part::{Native, NativeBlock};
use turnbuckle_core::transcript::{Entry, Item, ToolResult, Transcript};
use turnbuckle_wire::openai_chat::ReasoningHistory;
use turnbuckle_wire::{AnswerHead, Codec, OpenAiChat, Profile};

/// What a provider signed is of use to the model that thought it, and refused or misread by others.
#[test]
fn thinking_goes_back_to_the_model_that_thought_it_and_to_no_other() {
    let mut replayed = Vec::new();
    for (name, codec) in codecs() {
        let body = |model: &str| {
            let mut transcript = Transcript::default();
            transcript.push_item(Item::user("One"));
            let thought = signed(&*codec, "a quiet thought");
            let call = Block::ToolCall {
                wire_id: "call_1".into(),
                name: "lookup".into(),
                arguments: "{}".into(),
                native: None,
            };
            transcript.push_item(Item::Assistant { blocks: vec![thought, call] });
            let (wire_id, name) = ("call_1".into(), "lookup".into());
            let result = ToolResult { wire_id, name, content: "Found.".into(), is_error: false };
            transcript.push_item(Item::ToolResults { results: vec![result] });
            let encoded = codec.encode(&ModelRequest::new(model, transcript)).unwrap();
            String::from_utf8(encoded.body.to_vec()).unwrap()
        };
        let marks = ["a quiet thought", "sig+/==", "enc=="];
        let holds = |body: &str| marks.iter().any(|mark| body.contains(mark));
        assert!(!holds(&body("n")), "{name}: {}", body("n"));
        if holds(&body("m")) {
            replayed.push(name);
        }
    }
    for name in ["anthropic", "responses", "gemini", "ollama", "chat_openrouter", "chat_deepseek"] {
        assert!(replayed.iter().any(|replays| replays == name), "{name} of {replayed:?}");
    }
}

/// The body with a line for each message, so that a difference can be seen.
fn readable(body: &[u8]) -> String {
    let text = std::str::from_utf8(body).unwrap();
    let _: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let mut out = text.to_owned();
    for (from, to) in [
        (",\"messages\":[", ",\n\"messages\":[\n"),
        (",\"input\":[{", ",\n\"input\":[\n{"),
        (",\"contents\":[", ",\n\"contents\":[\n"),
        (",\"tools\":", ",\n\"tools\":"),
        ("},{\"role\"", "},\n{\"role\""),
        ("},{\"type\":\"message\"", "},\n{\"type\":\"message\""),
        ("},{\"type\":\"function_call", "},\n{\"type\":\"function_call"),
    ] {
        out = out.replace(from, to);
    }
    out
}

#[test]
fn requests_are_these_bytes() {
    for (name, codec) in codecs() {
        for Session { title, request } in table(&*codec) {
            let encoded = codec.encode(&request).unwrap();
            let mut head = format!("POST {}\n", encoded.path);
            for (header, value) in &encoded.headers {
                head += &format!("{header}: {value}\n");
            }
            let shown = format!("{head}\n{}", readable(&encoded.body));
            insta::assert_snapshot!(format!("{name}__{title}"), shown);
        }
    }
}

#[test]
fn a_request_encoded_again_is_the_same() {
    for (name, codec) in codecs() {
        for Session { title, request } in table(&*codec) {
            let first = codec.encode(&request).unwrap();
            assert_eq!(codec.encode(&request).unwrap(), first, "{name} {title}");
            // What another codec left in the entries does not leak into this one's bytes.
            let fresh: Vec<Arc<Entry>> = request
                .transcript
                .entries()
                .iter()
                .map(|e| Entry::new(e.item.clone(), None))
                .collect();
            let mut other = request.clone();
            other.transcript = Transcript::default();
            fresh.into_iter().for_each(|e| other.transcript.push(e));
            for (_, foreign) in codecs() {
                foreign.encode(&other).unwrap();
            }
            assert_eq!(codec.encode(&other).unwrap(), first, "{name} {title} after other codecs");
        }
    }
}

#[test]
fn a_tool_that_is_not_on_offer_cannot_be_forced() {
    for (name, codec) in codecs() {
        let mut request = ModelRequest::new("m", Transcript::default());
        request.tools = Arc::new(ToolSet::new(vec![sessions::tool("lookup")]));
        request.tool_choice = ToolChoice::Tool("absent".into());
        let error = codec.encode(&request).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Config, "{name}");
        request.tools = Arc::new(ToolSet::new(vec![sessions::tool("bad name")]));
        request.tool_choice = ToolChoice::Auto;
        let error = codec.encode(&request).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Config, "{name}");
        assert!(error.message.contains("`bad name`"), "{}", error.message);
    }
}

#[test]
fn reasoning_of_the_last_turn_only_is_dropped_from_earlier_ones() {
    let profile = Profile { reasoning_history: ReasoningHistory::LastTurn, ..Profile::default() };
    let codec = OpenAiChat::new("p", profile);
    let thought = |text: &str| Item::Assistant {
        blocks: vec![
            Block::Thinking {
                text: text.into(),
                native: Some(Native::from(NativeBlock {
                    wire: "openai-chat".into(),
                    provider: "p".into(),
                    model: "m".into(),
                    data: serde_json::json!({}).into(),
                })),
            },
            Block::Text { text: "Said.".into(), native: None },
        ],
    };
    let mut transcript = Transcript::default();
    transcript.push_item(Item::user("One"));
    transcript.push_item(thought("early"));
    let before = codec.encode(&ModelRequest::new("m", transcript.clone())).unwrap();
    assert!(String::from_utf8_lossy(&before.body).contains("early"));
    transcript.push_item(Item::user("Two"));
    transcript.push_item(thought("late"));
    for _ in 0..2 {
        let after = codec.encode(&ModelRequest::new("m", transcript.clone())).unwrap();
        let text = String::from_utf8_lossy(&after.body).into_owned();
        assert!(text.contains("late") && !text.contains("early"), "{text}");
    }
}

#[test]
fn every_codec_reads_an_error_alike() {
    for (name, codec) in codecs() {
        let error =
            codec.error(&AnswerHead::bare(529), b"{\"error\":{\"message\":\"Overloaded\"}}");
        assert_eq!(
            (error.kind, error.message.as_str()),
            (ModelErrorKind::Overloaded, "Overloaded"),
            "{name}"
        );
    }
}

fn block() -> impl Strategy<Value = Block> {
    let native = |data: Value| {
        (
            prop::sample::select(vec!["openai-chat", "anthropic", "openai-responses", "gemini"]),
            any::<bool>(),
        )
            .prop_map(move |(wire, own)| {
                Native::from(NativeBlock {
                    wire: wire.into(),
                    provider: if own { "own".into() } else { "other".into() },
                    model: "m".into(),
                    data: data.clone().into(),
                })
            })
    };
    prop_oneof![
        "\\PC{0,12}".prop_map(|text| Block::Text { text, native: None }),
        (
            "\\PC{0,12}",
            prop::option::of(native(serde_json::json!({"signature": "s", "thoughtSignature": "t",
            "encrypted_content": "e"})))
        )
            .prop_map(|(text, native)| Block::Thinking { text, native }),
        native(serde_json::json!({"type": "server_tool_use", "id": "x"}))
            .prop_map(|native| Block::Native { native }),
        ("[a-c.]{0,3}", "[a-z.]{0,6}", "\\PC{0,10}|\\{\"a\":1\\}").prop_map(
            |(wire_id, name, arguments)| {
                Block::ToolCall { wire_id, name, arguments, native: None }
            }
        ),
    ]
}

/// An answer with a result for each of its calls, or input.
fn step() -> impl Strategy<Value = Vec<Item>> {
    prop_oneof![
        "\\PC{0,20}".prop_map(|text| vec![Item::user(text)]),
        Just(vec![sessions::attached()]),
        "\\PC{0,20}".prop_map(|text| vec![Item::System { text }]),
        proptest::collection::vec(block(), 0..5).prop_map(|blocks| {
            let results: Vec<ToolResult> = blocks
                .iter()
                .filter_map(|b| match b {
                    Block::ToolCall { wire_id, name, .. } => Some(ToolResult {
                        wire_id: wire_id.as_str().into(),
                        name: name.as_str().into(),
                        content: "{\"ok\":true}".into(),
                        is_error: false,
                    }),
                    _ => None,
                })
                .collect();
            let mut items = vec![Item::Assistant { blocks }];
            if !results.is_empty() {
                items.push(Item::ToolResults { results });
            }
            items
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_longer_conversation_begins_with_the_bytes_of_a_shorter_one(
        steps in proptest::collection::vec(step(), 1..8),
    ) {
        let items: Vec<Item> = steps.into_iter().flatten().collect();
        for (name, codec) in sessions::codecs_of("own") {
            let mut transcript = Transcript::default();
            let mut shorter: Option<Vec<u8>> = None;
            for item in &items {
                transcript.push_item(item.clone());
                let body = codec.encode(&ModelRequest::new("m", transcript.clone())).unwrap().body;
                let _: Value = serde_json::from_slice(&body).unwrap();
                prop_assert!(body.ends_with(b"]}"), "{name}");
                if let Some(shorter) = &shorter {
                    prop_assert!(body.starts_with(shorter), "{name}: {}\n{}",
                        String::from_utf8_lossy(shorter), String::from_utf8_lossy(&body));
                }
                shorter = Some(body[..body.len() - 2].to_vec());
            }
        }
    }

    #[test]
    fn every_call_has_one_result_of_its_id_and_no_id_comes_twice(
        steps in proptest::collection::vec(step(), 1..8),
    ) {
        let mut transcript = Transcript::default();
        steps.into_iter().flatten().for_each(|item| transcript.push_item(item));
        for (name, codec) in sessions::codecs_of("own") {
            let body = codec.encode(&ModelRequest::new("m", transcript.clone())).unwrap().body;
            let body: Value = serde_json::from_slice(&body).unwrap();
            let (mut calls, mut results) = (Vec::new(), Vec::new());
            collect(&body, &mut calls, &mut results);
            prop_assert_eq!(&calls, &results, "{}", name);
            let mut unique = calls.clone();
            unique.sort();
            unique.dedup();
            prop_assert_eq!(unique.len(), calls.len(), "{}", name);
        }
    }
}

/// The ids of calls and results in the order of the request, whatever the wire calls them.
fn collect(value: &Value, calls: &mut Vec<String>, results: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|i| collect(i, calls, results)),
        Value::Object(map) => {
            let id = |name: &str| map.get(name).and_then(Value::as_str).map(str::to_owned);
            match map.get("type").and_then(Value::as_str) {
                Some("function") => calls.extend(id("id")),
                Some("tool_use") => calls.extend(id("id")),
                Some("function_call") => calls.extend(id("call_id")),
                Some("function_call_output") => results.extend(id("call_id")),
                Some("tool_result") => results.extend(id("tool_use_id")),
                _ => {}
            }
            results.extend(id("tool_call_id"));
            calls.extend(map.get("functionCall").and_then(|c| c["id"].as_str()).map(str::to_owned));
            results.extend(
                map.get("functionResponse").and_then(|c| c["id"].as_str()).map(str::to_owned),
            );
            map.values().for_each(|i| collect(i, calls, results));
        }
        _ => {}
    }
}
