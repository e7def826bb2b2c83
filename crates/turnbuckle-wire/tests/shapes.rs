//! Shapes of answers that single servers are known for, as they come over the wire.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use serde_json::{Value, json};
use turnbuckle_core::error::ModelErrorKind;
use turnbuckle_core::model::{Block, ModelResponse};
use turnbuckle_core::usage::{FinishReason, Usage};
use turnbuckle_wire::{
    Anthropic, AnthropicOptions, Codec, Gemini, GeminiOptions, OpenAiChat, OpenAiResponses,
    Profile, Recorded, ResponsesOptions, decode_recording, decode_whole,
};

fn chat() -> OpenAiChat {
    OpenAiChat::new("p", Profile::default())
}

fn anthropic() -> Anthropic {
    Anthropic::new("p", AnthropicOptions::default())
}

fn responses() -> OpenAiResponses {
    OpenAiResponses::new("p", ResponsesOptions::default())
}

fn gemini() -> Gemini {
    Gemini::new("p", GeminiOptions::default())
}

fn events(frames: &[Value]) -> String {
    frames.iter().map(|f| format!("data: {f}\n\n")).collect()
}

/// What it is, the deltas, and what they amount to.
type Shape<T> = (&'static str, Vec<Value>, Vec<T>);

/// Deltas of Chat Completions, ended by a finish reason.
fn deltas(deltas: &[Value], finish: &str) -> String {
    let mut frames: Vec<Value> =
        deltas.iter().map(|d| json!({"choices": [{"index": 0, "delta": d}]})).collect();
    frames.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}));
    events(&frames) + "data: [DONE]\n\n"
}

fn decode(codec: &dyn Codec, body: &str) -> ModelResponse {
    decode_whole(codec, "m", body.as_bytes()).unwrap_or_else(|e| panic!("{e:?}\n{body}"))
}

/// Calls as (id, name, arguments).
fn calls(response: &ModelResponse) -> Vec<(&str, &str, &str)> {
    response
        .blocks
        .iter()
        .filter_map(|b| match b {
            Block::ToolCall { wire_id, name, arguments, .. } => {
                Some((wire_id.as_str(), name.as_str(), arguments.as_str()))
            }
            _ => None,
        })
        .collect()
}

fn texts(response: &ModelResponse) -> Vec<(&'static str, &str)> {
    response
        .blocks
        .iter()
        .map(|b| match b {
            Block::Text { text, .. } => ("text", text.as_str()),
            Block::Thinking { text, .. } => ("thinking", text.as_str()),
            Block::ToolCall { name, .. } => ("call", name.as_str()),
            Block::Native { .. } => ("native", ""),
        })
        .collect()
}

#[test]
fn chat_tells_calls_apart_in_every_known_shape() {
    let call = |members: Value| json!({ "tool_calls": [members] });
    let table: Vec<Shape<(&str, &str, &str)>> = vec![
        (
            "an id that comes late",
            vec![
                call(json!({"index": 0, "function": {"name": "f"}})),
                call(json!({"index": 0, "id": "a", "function": {"arguments": "{}"}})),
            ],
            vec![("a", "f", "{}")],
        ),
        (
            "a new id with every piece of one call",
            vec![
                call(json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}})),
                call(json!({"index": 0, "id": "b", "function": {"arguments": "{\"x\":"}})),
                call(json!({"index": 0, "id": "c", "function": {"arguments": "1}"}})),
            ],
            vec![("a", "f", "{\"x\":1}")],
        ),
        (
            "a continuation without index",
            vec![
                call(
                    json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\":"}}),
                ),
                call(json!({"function": {"arguments": "1}"}})),
            ],
            vec![("a", "f", "{\"x\":1}")],
        ),
        (
            "a continuation under an index nobody opened",
            vec![
                call(json!({"id": "a", "function": {"name": "f", "arguments": "{\"x\":"}})),
                call(json!({"index": 0, "function": {"arguments": "1}"}})),
            ],
            vec![("a", "f", "{\"x\":1}")],
        ),
        (
            "two whole calls without ids in one frame, both index 0",
            vec![json!({"tool_calls": [
                {"index": 0, "function": {"name": "f", "arguments": "{}"}},
                {"index": 0, "function": {"name": "f", "arguments": "{}"}}]})],
            vec![("", "f", "{}"), ("", "f", "{}")],
        ),
        (
            "two calls without arguments, ids or index in one frame",
            vec![json!({"tool_calls": [{"function": {"name": "f"}}, {"function": {"name": "f"}}]})],
            vec![("", "f", ""), ("", "f", "")],
        ),
        (
            "arguments as an object",
            vec![call(
                json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": {"x": 1}}}),
            )],
            vec![("a", "f", "{\"x\":1}")],
        ),
        (
            "null in every member that may be missing",
            vec![
                call(
                    json!({"index": 0, "id": "a", "type": null, "function": {"name": "f", "arguments": null}}),
                ),
                call(
                    json!({"index": 0, "id": null, "function": {"name": null, "arguments": "{}"}}),
                ),
                json!({"tool_calls": null, "content": null}),
                call(json!({"index": 0, "function": null})),
            ],
            vec![("a", "f", "{}")],
        ),
        (
            "the index as text and a numeric id",
            vec![
                call(
                    json!({"index": "0", "id": 7, "function": {"name": "f", "arguments": "{\"x\":"}}),
                ),
                call(json!({"index": "0", "function": {"arguments": "1}"}})),
            ],
            vec![("7", "f", "{\"x\":1}")],
        ),
        (
            "the older function_call",
            vec![
                json!({"function_call": {"name": "f", "arguments": ""}}),
                json!({"function_call": {"arguments": "{\"x\":"}}),
                json!({"function_call": {"arguments": "1}"}}),
            ],
            vec![("", "f", "{\"x\":1}")],
        ),
        (
            "a name repeated while a string holds braces",
            vec![
                call(
                    json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\":\"}"}}),
                ),
                call(json!({"index": 0, "function": {"name": "f", "arguments": "{\"}"}})),
            ],
            vec![("a", "f", "{\"x\":\"}{\"}")],
        ),
        (
            "an empty closing piece that repeats the name",
            vec![
                call(json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}})),
                call(json!({"index": 0, "function": {"name": "f", "arguments": ""}})),
            ],
            vec![("a", "f", "{}")],
        ),
        (
            "one id for two calls of different index",
            vec![
                call(
                    json!({"index": 0, "id": "f", "function": {"name": "f", "arguments": "{\"x\":1}"}}),
                ),
                call(
                    json!({"index": 1, "id": "f", "function": {"name": "f", "arguments": "{\"x\":2}"}}),
                ),
            ],
            vec![("f", "f", "{\"x\":1}"), ("f", "f", "{\"x\":2}")],
        ),
        (
            "arguments that no call was opened for",
            vec![call(json!({"index": 0, "function": {"arguments": "{}"}}))],
            vec![("", "", "{}")],
        ),
    ];
    for (name, pieces, expected) in table {
        let response = decode(&chat(), &deltas(&pieces, "tool_calls"));
        assert_eq!(calls(&response), expected, "{name}");
    }
}

#[test]
fn chat_reads_reasoning_wherever_it_is() {
    let table: Vec<Shape<(&str, &str)>> = vec![
        (
            "reasoning_content",
            vec![json!({"reasoning_content": "a"}), json!({"content": "b"})],
            vec![("thinking", "a"), ("text", "b")],
        ),
        (
            "reasoning",
            vec![json!({"reasoning": "a", "content": ""}), json!({"content": "b"})],
            vec![("thinking", "a"), ("text", "b")],
        ),
        (
            "both, saying the same",
            vec![json!({"reasoning": "a", "reasoning_content": "a"})],
            vec![("thinking", "a")],
        ),
        (
            "details alone",
            vec![
                json!({"reasoning_details": [{"type": "reasoning.summary", "summary": "a", "index": 0}]}),
                json!({"reasoning_details": [{"type": "reasoning.summary", "summary": "b", "index": 0}]}),
                json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x", "id": "r1", "index": 1}]}),
            ],
            vec![("thinking", "ab")],
        ),
        (
            "parts of the content",
            vec![
                json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "a"}]}]}),
                json!({"content": [{"type": "text", "text": "b"}]}),
                json!({"content": "c"}),
            ],
            vec![("thinking", "a"), ("text", "bc")],
        ),
    ];
    for (name, pieces, expected) in table {
        let response = decode(&chat(), &deltas(&pieces, "stop"));
        assert_eq!(texts(&response), expected, "{name}");
    }
}

#[test]
fn chat_keeps_details_as_they_came() {
    let body = deltas(
        &[
            json!({"reasoning": "a", "reasoning_details": [{"type": "reasoning.text", "text": "a", "index": 0, "format": "x"}]}),
            json!({"reasoning": "b", "reasoning_details": [{"type": "reasoning.text", "text": "b", "index": 0, "format": "x"}]}),
            json!({"reasoning_details": [{"type": "reasoning.text", "signature": "s", "index": 0}]}),
            json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "e", "id": "call_1", "index": 1}]}),
            json!({"content": "done"}),
        ],
        "stop",
    );
    let response = decode(&chat(), &body);
    let Block::Thinking { text, native: Some(native) } = &response.blocks[0] else {
        panic!("{response:?}")
    };
    assert_eq!(text, "ab");
    assert_eq!(
        *native.data,
        json!({"reasoning_details": [
            {"type": "reasoning.text", "text": "ab", "index": 0, "format": "x", "signature": "s"},
            {"type": "reasoning.encrypted", "data": "e", "id": "call_1", "index": 1}]})
    );
    assert_eq!(
        (native.wire.as_str(), native.provider.as_str(), native.model.as_str()),
        ("openai-chat", "p", "m")
    );
}

#[test]
fn chat_accounts_for_tokens_as_each_vendor_means_it() {
    let usage = |input, cache_read, cache_write, output, reasoning| Usage {
        input,
        cache_read,
        cache_write,
        output,
        reasoning,
    };
    let table: Vec<(&str, Value, Usage)> = vec![
        (
            "plain",
            json!({"prompt_tokens": 10, "completion_tokens": 5}),
            usage(Some(10), None, None, Some(5), None),
        ),
        (
            "cached inside details",
            json!({"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105,
            "prompt_tokens_details": {"cached_tokens": 80, "cache_write_tokens": 15},
            "completion_tokens_details": {"reasoning_tokens": 3}}),
            usage(Some(5), Some(80), Some(15), Some(5), Some(3)),
        ),
        (
            "cache hits beside",
            json!({"prompt_tokens": 100, "completion_tokens": 5,
            "prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36}),
            usage(Some(36), Some(64), None, Some(5), None),
        ),
        (
            "cached beside",
            json!({"prompt_tokens": 100, "completion_tokens": 5, "cached_tokens": 40}),
            usage(Some(60), Some(40), None, Some(5), None),
        ),
        (
            "reasoning left out of completion",
            json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 35,
            "completion_tokens_details": {"reasoning_tokens": 20}}),
            usage(Some(10), None, None, Some(25), Some(20)),
        ),
        (
            "odd types",
            json!({"prompt_tokens": 10.0, "completion_tokens": "5", "prompt_tokens_details": "none",
            "completion_tokens_details": null, "prompt_audio_seconds": {}}),
            usage(Some(10), None, None, Some(5), None),
        ),
        ("not an object", json!("free of charge"), Usage::default()),
    ];
    for (name, told, expected) in table {
        let ended = json!({"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]});
        let separate = events(&[ended.clone(), json!({"choices": [], "usage": told})]);
        let groq = events(&[ended.clone(), json!({"choices": [], "x_groq": {"usage": told}})]);
        let in_choice = events(&[
            json!({"choices": [{"delta": {"content": "x"}, "finish_reason": "stop", "usage": told}]}),
        ]);
        for body in [separate, groq, in_choice] {
            assert_eq!(decode(&chat(), &body).usage, expected, "{name}");
        }
    }
}

#[test]
fn chat_does_not_read_a_message_repeated_beside_its_deltas() {
    let body = events(&[
        json!({"choices": [{"delta": {"content": "a"}, "message": {"content": "a"}}]}),
        json!({"choices": [{"delta": {"content": "b"}, "message": {"content": "ab"}}]}),
        json!({"choices": [{"message": {"content": "ab"}, "finish_reason": "stop"}]}),
    ]);
    assert_eq!(texts(&decode(&chat(), &body)), [("text", "ab")]);
}

#[test]
fn chat_needs_neither_blank_lines_nor_done() {
    let body = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\ndata: {\"choices\":[{\"delta\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}";
    assert_eq!(texts(&decode(&chat(), body)), [("text", "ab")]);
}

#[test]
fn chat_done_without_a_finish_reason_is_a_cut() {
    let body = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n";
    let recording = decode_recording(&chat(), "m", body.as_bytes());
    assert_eq!(recording.error.map(|e| e.kind), Some(ModelErrorKind::StreamCut));
    assert_eq!(recording.deltas, [Recorded::Text { block: 0, text: "a".into() }]);
    assert_eq!(texts(&recording.response), [("text", "a")]);
    assert_eq!(recording.response.finish, FinishReason::Other("incomplete".into()));
}

#[test]
fn chat_finish_reasons_that_are_failures_are_errors() {
    for (word, kind) in [
        ("error", ModelErrorKind::Server),
        ("insufficient_system_resource", ModelErrorKind::Overloaded),
    ] {
        let recording =
            decode_recording(&chat(), "m", deltas(&[json!({"content": "a"})], word).as_bytes());
        assert_eq!(recording.error.map(|e| e.kind), Some(kind), "{word}");
    }
}

#[test]
fn chat_stop_with_calls_means_calls() {
    let call = json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]});
    assert_eq!(decode(&chat(), &deltas(&[call], "stop")).finish, FinishReason::ToolCalls);
}

#[test]
fn chat_refusals_go_back_as_refusals() {
    let response = decode(
        &chat(),
        &deltas(&[json!({"refusal": "I will "}), json!({"refusal": "not."})], "stop"),
    );
    assert_eq!(response.finish, FinishReason::Refusal);
    assert_eq!(texts(&response), [("text", "I will not.")]);
}

#[test]
fn chat_signatures_of_compatible_servers_are_kept_with_the_call() {
    let extra = json!({"google": {"thought_signature": "sig=="}});
    let call = json!({"tool_calls": [{"index": 0, "id": "a", "extra_content": extra, "function": {"name": "f", "arguments": "{}"}}]});
    let response = decode(&chat(), &deltas(&[call], "tool_calls"));
    let Block::ToolCall { native: Some(native), .. } = &response.blocks[0] else {
        panic!("{response:?}")
    };
    assert_eq!(*native.data, json!({ "extra_content": extra }));
}

#[test]
fn a_page_instead_of_an_answer_is_quoted() {
    let codecs: [Box<dyn Codec>; 4] =
        [Box::new(chat()), Box::new(anthropic()), Box::new(responses()), Box::new(gemini())];
    for codec in codecs {
        let error =
            decode_whole(&*codec, "m", b"<html><body>Sign in to the hotel network</body></html>\n")
                .unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Protocol, "{}", codec.wire());
        assert!(error.message.contains("Sign in"), "{}", error.message);
        let error = decode_whole(&*codec, "m", b"{\"hello\":\"world\"}").unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Protocol, "{}", codec.wire());
        let error = decode_whole(&*codec, "m", b"").unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::StreamCut, "{}", codec.wire());
        let error = decode_whole(&*codec, "m", b"data: {\"choices\": nonsense}\n\ndata: x\n\n")
            .unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Protocol, "{}", codec.wire());
    }
}

#[test]
fn anthropic_takes_an_input_given_whole_at_the_beginning() {
    let body = events(&[
        json!({"type": "content_block_start", "index": 0, "content_block":
            {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
    ]);
    assert_eq!(calls(&decode(&anthropic(), &body)), [("a", "f", "{\"x\":1}")]);
    let pieces_too = body.replace(
        "data: {\"index\":0,\"type\":\"content_block_stop\"}",
        "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"x\\\":2}\"}}\n\ndata: {\"type\":\"content_block_stop\",\"index\":0}",
    );
    assert_eq!(calls(&decode(&anthropic(), &pieces_too)), [("a", "f", "{\"x\":2}")]);
}

#[test]
fn anthropic_keeps_redacted_thinking_and_unknown_blocks_whole() {
    let redacted = json!({"type": "redacted_thinking", "data": "enc=="});
    let body = events(&[
        json!({"type": "content_block_start", "index": 0, "content_block": redacted}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "compaction", "content": ""}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "compaction_delta", "content": "so "}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "compaction_delta", "content": "far"}}),
        json!({"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": "ok"}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
    ]);
    let response = decode(&anthropic(), &body);
    assert_eq!(texts(&response), [("thinking", ""), ("native", ""), ("text", "ok")]);
    let Block::Thinking { native: Some(native), .. } = &response.blocks[0] else { panic!() };
    assert_eq!(*native.data, redacted);
    let Block::Native { native } = &response.blocks[1] else { panic!() };
    assert_eq!(*native.data, json!({"type": "compaction", "content": "so far"}));
}

#[test]
fn anthropic_pieces_whose_block_never_began_are_kept() {
    let body = events(&[
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "lost and found"}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
    ]);
    assert_eq!(texts(&decode(&anthropic(), &body)), [("text", "lost and found")]);
}

#[test]
fn responses_without_pieces_are_read_from_their_wholes() {
    let message = json!({"type": "message", "id": "m1", "content": [{"type": "output_text", "text": "Hello"}]});
    let call = json!({"type": "function_call", "id": "f1", "call_id": "a", "name": "f", "arguments": "{}"});
    let output = json!([message, call]);
    let only_terminal = events(&[
        json!({"type": "response.completed", "response": {"status": "completed", "output": output}}),
    ]);
    let only_done = events(&[
        json!({"type": "response.output_item.done", "output_index": 0, "item": message}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": call}),
        json!({"type": "response.completed", "response": {"status": "completed", "output": []}}),
    ]);
    for body in [only_terminal, only_done] {
        let response = decode(&responses(), &body);
        assert_eq!(texts(&response), [("text", "Hello"), ("call", "f")]);
        assert_eq!(calls(&response), [("a", "f", "{}")]);
        assert_eq!(response.finish, FinishReason::ToolCalls);
    }
}

#[test]
fn responses_whose_item_ids_change_are_matched_by_place() {
    let item = |id: &str, text: &str| json!({"type": "message", "id": id, "content": [{"type": "output_text", "text": text}]});
    let body = events(&[
        json!({"type": "response.output_item.added", "output_index": 0, "item": item("one", "")}),
        json!({"type": "response.output_text.delta", "output_index": 0, "item_id": "two", "content_index": 0, "delta": "Hel"}),
        json!({"type": "response.output_text.delta", "output_index": 0, "item_id": "three", "content_index": 0, "delta": "lo"}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item("four", "Hello")}),
        json!({"type": "response.completed", "response": {"status": "completed", "output": [item("five", "Hello")]}}),
    ]);
    assert_eq!(texts(&decode(&responses(), &body)), [("text", "Hello")]);
}

#[test]
fn responses_keep_sections_of_a_summary_apart_and_phases_of_messages() {
    let reasoning = json!({"type": "reasoning", "id": "r1", "encrypted_content": "e",
        "summary": [{"type": "summary_text", "text": "One"}, {"type": "summary_text", "text": "Two"}]});
    let message = json!({"type": "message", "id": "m1", "phase": "commentary", "role": "assistant",
        "content": [{"type": "output_text", "text": "Hi"}]});
    let body = events(&[
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "r1", "summary": []}}),
        json!({"type": "response.reasoning_summary_text.delta", "item_id": "r1", "summary_index": 0, "delta": "One"}),
        json!({"type": "response.reasoning_summary_text.delta", "item_id": "r1", "summary_index": 1, "delta": "Two"}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": reasoning}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": message}),
        json!({"type": "response.completed", "response": {"status": "completed", "output": [reasoning, message]}}),
    ]);
    let response = decode(&responses(), &body);
    assert_eq!(texts(&response), [("thinking", "One\n\nTwo"), ("text", "Hi")]);
    let Block::Thinking { native: Some(native), .. } = &response.blocks[0] else { panic!() };
    assert_eq!(*native.data, reasoning);
    let Block::Text { native: Some(native), .. } = &response.blocks[1] else { panic!() };
    assert_eq!(
        *native.data,
        json!({"item": {"id": "m1", "phase": "commentary", "role": "assistant"}})
    );
}

#[test]
fn gemini_streamed_as_an_array_folds_alike() {
    let chunks = json!([
        {"candidates": [{"content": {"parts": [{"text": "Hel"}]}}]},
        {"candidates": [{"content": {"parts": [{"text": "lo"}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 4, "candidatesTokenCount": 2}},
    ]);
    let response = decode(&gemini(), &serde_json::to_string_pretty(&chunks).unwrap());
    assert_eq!(texts(&response), [("text", "Hello")]);
    assert_eq!((response.usage.input, response.usage.output), (Some(4), Some(2)));
}

#[test]
fn gemini_signatures_stay_on_their_parts() {
    let part = |part: Value| json!({"candidates": [{"content": {"parts": [part]}}]});
    let body = events(&[
        part(json!({"text": "a"})),
        part(json!({"text": "b", "thoughtSignature": "s1"})),
        part(json!({"text": "c"})),
        part(json!({"functionCall": {"name": "f", "args": {"x": 1}}, "thoughtSignature": "s2"})),
        part(json!({"thoughtSignature": "s3"})),
        json!({"candidates": [{"finishReason": "STOP"}]}),
    ]);
    let response = decode(&gemini(), &body);
    let signed: Vec<_> = response
        .blocks
        .iter()
        .map(|b| match b {
            Block::Text { text, native } => (text.as_str(), native.as_ref()),
            Block::Thinking { text, native } => (text.as_str(), native.as_ref()),
            Block::ToolCall { arguments, native, .. } => (arguments.as_str(), native.as_ref()),
            Block::Native { native } => ("", Some(native)),
        })
        .map(|(text, native)| (text, native.and_then(|n| n.data["thoughtSignature"].as_str())))
        .collect();
    assert_eq!(
        signed,
        [("a", None), ("b", Some("s1")), ("c", None), ("{\"x\":1}", Some("s2")), ("", Some("s3"))]
    );
    assert_eq!(response.finish, FinishReason::ToolCalls);
}

#[test]
fn gemini_blocked_prompts_are_content_filter_errors() {
    let body = events(&[json!({"promptFeedback": {"blockReason": "SAFETY"}})]);
    let error = decode_whole(&gemini(), "m", body.as_bytes()).unwrap_err();
    assert_eq!(
        (error.kind, error.code.as_deref()),
        (ModelErrorKind::ContentFilter, Some("SAFETY"))
    );
    assert_eq!(error.message, "the prompt was blocked: SAFETY");
}

#[test]
fn gemini_counts_thoughts_with_the_output_and_takes_the_cache_out_of_the_prompt() {
    let body = events(&[
        json!({"candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 100, "cachedContentTokenCount": 60, "toolUsePromptTokenCount": 5,
            "candidatesTokenCount": 7, "thoughtsTokenCount": 3}}),
    ]);
    let expected = Usage {
        input: Some(45),
        cache_read: Some(60),
        cache_write: None,
        output: Some(10),
        reasoning: Some(3),
    };
    assert_eq!(decode(&gemini(), &body).usage, expected);
}
