//! What decoders hold grows with what they are given, and no faster.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use allocation_counter::{AllocationInfo, measure};
use serde_json::{Value, json};
use turnbuckle_core::model::ModelDelta;
use turnbuckle_wire::{
    Anthropic, AnthropicOptions, Codec, Gemini, GeminiOptions, Ollama, OllamaOptions, OpenAiChat,
    OpenAiResponses, Profile, ResponsesOptions,
};

fn codecs() -> Vec<Box<dyn Codec>> {
    vec![
        Box::new(OpenAiChat::new("p", Profile::default())),
        Box::new(OpenAiResponses::new("p", ResponsesOptions::default())),
        Box::new(Anthropic::new("p", AnthropicOptions::default())),
        Box::new(Gemini::new("p", GeminiOptions::default())),
        Box::new(Ollama::new("p", OllamaOptions::default())),
    ]
}

/// A stream of these frames, and of those that end it.
fn stream(codec: &dyn Codec, frames: impl IntoIterator<Item = Value>) -> Vec<u8> {
    let (begin, end) = match codec.wire() {
        "openai-chat" => (vec![], json!({"choices": [{"delta": {}, "finish_reason": "stop"}]})),
        "openai-responses" => {
            (vec![], json!({"type": "response.completed", "response": {"status": "completed"}}))
        }
        "anthropic" => {
            let end = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}});
            (vec![json!({"type": "message_start", "message": {"id": "a", "model": "m"}})], end)
        }
        "gemini" => (vec![], json!({"candidates": [{"finishReason": "STOP"}]})),
        _ => (vec![], json!({"message": {"content": ""}, "done": true})),
    };
    let all = begin.into_iter().chain(frames).chain([end]);
    let written: String = match codec.wire() {
        "ollama" => all.map(|frame| format!("{frame}\n")).collect(),
        _ => all.map(|frame| format!("data: {frame}\n\n")).collect(),
    };
    written.into_bytes()
}

fn text(codec: &dyn Codec, piece: &str) -> Value {
    match codec.wire() {
        "openai-chat" => {
            json!({"id": "a", "model": "m", "choices": [{"delta": {"content": piece}}]})
        }
        "openai-responses" => json!({"type": "response.output_text.delta", "item_id": "i",
            "output_index": 0, "content_index": 0, "delta": piece}),
        "anthropic" => json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": piece}}),
        "gemini" => json!({"modelVersion": "m", "responseId": "a",
            "candidates": [{"content": {"parts": [{"text": piece}]}}]}),
        _ => json!({"model": "m", "message": {"content": piece}, "done": false}),
    }
}

/// A call whose arguments come in pieces, or at once where the wire knows no pieces.
fn call(codec: &dyn Codec, arguments: &str) -> Vec<Value> {
    let pieces = || arguments.as_bytes().chunks(40).map(|p| std::str::from_utf8(p).unwrap());
    match codec.wire() {
        "openai-chat" => {
            let first = json!({"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}});
            let more = pieces().map(|p| json!({"index": 0, "function": {"arguments": p}}));
            let entries = std::iter::once(first).chain(more);
            entries.map(|e| json!({"choices": [{"delta": {"tool_calls": [e]}}]})).collect()
        }
        "openai-responses" => {
            let item = json!({"type": "function_call", "id": "i", "call_id": "c", "name": "f"});
            let first =
                json!({"type": "response.output_item.added", "output_index": 0, "item": item});
            let more = pieces().map(|p| {
                json!({"type": "response.function_call_arguments.delta", "item_id": "i",
                    "output_index": 0, "delta": p})
            });
            std::iter::once(first).chain(more).collect()
        }
        "anthropic" => {
            let block = json!({"type": "tool_use", "id": "c", "name": "f", "input": {}});
            let first = json!({"type": "content_block_start", "index": 0, "content_block": block});
            let more = pieces().map(|p| {
                json!({"type": "content_block_delta", "index": 0,
                    "delta": {"type": "input_json_delta", "partial_json": p}})
            });
            std::iter::once(first).chain(more).collect()
        }
        "gemini" => {
            let args: Value = serde_json::from_str(arguments).unwrap();
            let part = json!({"functionCall": {"name": "f", "args": args}});
            vec![json!({"candidates": [{"content": {"parts": [part]}}]})]
        }
        _ => {
            let args: Value = serde_json::from_str(arguments).unwrap();
            let call = json!({"function": {"name": "f", "arguments": args}});
            vec![json!({"message": {"tool_calls": [call]}, "done": false})]
        }
    }
}

/// What decoding takes, the answer included.
fn decode(codec: &dyn Codec, bytes: &[u8]) -> AllocationInfo {
    measure(|| {
        let mut decoder = codec.decoder("m");
        let mut sink = |_: ModelDelta<'_>| {};
        for piece in bytes.chunks(16 * 1024) {
            decoder.feed(piece, &mut sink).unwrap();
        }
        decoder.finish(&mut sink).unwrap();
    })
}

#[test]
fn memory_is_linear_in_the_stream_and_small() {
    const DELTAS: usize = 4_000;
    let piece = "some words";
    for codec in codecs() {
        let frames = |n: usize| stream(&*codec, (0..n).map(|_| text(&*codec, piece)));
        let [one, two, four] = [1, 2, 4].map(|n| decode(&*codec, &frames(n * DELTAS)));
        let wire = codec.wire();
        let text = (4 * DELTAS * piece.len()) as u64;
        // A growing string is copied whenever it doubles, so that twice the text and its copy may be held at once.
        assert!(
            four.bytes_max <= 4 * text + 64 * 1024,
            "{wire}: {four:?} for {text} bytes of text"
        );
        let (first, second) =
            (two.bytes_total - one.bytes_total, four.bytes_total - two.bytes_total);
        assert!(second <= first * 2 + first / 4, "{wire}: {first} bytes, then {second}");
        // Lists in a frame take an allocation each; text takes none.
        let calls = four.count_total - two.count_total;
        assert!(calls <= 2 * 2 * DELTAS as u64 + 100, "{wire}: {calls} for {} deltas", 2 * DELTAS);
    }
}

#[test]
fn large_arguments_are_held_about_once() {
    let arguments = json!({"body": "0123456789abcdef".repeat(10_000)}).to_string();
    for codec in codecs() {
        let info = decode(&*codec, &stream(&*codec, call(&*codec, &arguments)));
        let length = arguments.len() as u64;
        // Where they come in one frame, that frame is held too.
        assert!(info.bytes_max <= 4 * length, "{}: {info:?} for {length} bytes", codec.wire());
    }
}
