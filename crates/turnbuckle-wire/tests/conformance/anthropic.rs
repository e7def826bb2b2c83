//! The Messages API.

use crate::harness::Wire;
use crate::scenarios::{Cap, IdStyle, IndexStyle, Scenario, Step, UsageStyle};
use serde_json::{Value, json};
use turnbuckle_core::model::Block;
use turnbuckle_core::usage::FinishReason;
use turnbuckle_wire::{Anthropic, AnthropicOptions, Codec};

pub struct Messages;

fn event(data: Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap())
}

fn word(finish: &FinishReason) -> &str {
    match finish {
        FinishReason::Stop => "end_turn",
        FinishReason::ToolCalls => "tool_use",
        FinishReason::Length => "max_tokens",
        FinishReason::Refusal => "refusal",
        FinishReason::Pause => "pause_turn",
        FinishReason::ContentFilter => unreachable!("not on this wire"),
        FinishReason::Other(word) => word,
    }
}

fn usage(s: &Scenario) -> Value {
    let u = s.usage;
    let mut usage = json!({"input_tokens": u.input, "output_tokens": u.output});
    if let Some(read) = u.cache_read {
        usage["cache_read_input_tokens"] = json!(read);
    }
    if let Some(write) = u.cache_write {
        usage["cache_creation_input_tokens"] = json!(write);
        usage["cache_creation"] =
            json!({"ephemeral_5m_input_tokens": write, "ephemeral_1h_input_tokens": 0});
    }
    if let Some(reasoning) = u.reasoning {
        usage["output_tokens_details"] = json!({"thinking_tokens": reasoning});
    }
    usage
}

/// A block: how it begins, its pieces (with the position among all pieces) and how it is whole.
struct Told {
    start: Value,
    pieces: Vec<(usize, Value)>,
    whole: Value,
}

fn told(s: &Scenario) -> Vec<(usize, Told)> {
    let mut blocks: Vec<(usize, Told)> = Vec::new();
    let mut slots = std::collections::BTreeMap::new();
    let append = |whole: &mut Value, name: &str, piece: &str| {
        let known = whole[name].as_str().unwrap_or_default().to_owned();
        whole[name] = json!(known + piece);
    };
    for (at, step) in s.steps.iter().enumerate() {
        let last_kind = blocks.last().map(|(_, b)| b.start["type"].as_str().unwrap().to_owned());
        let last_kind = last_kind.as_deref();
        let mut open = |start: Value, whole: Value| {
            blocks.push((at, Told { start, pieces: Vec::new(), whole }));
        };
        match step {
            Step::Text(_) | Step::Refuse(_) if last_kind != Some("text") => {
                let start = json!({"type": "text", "text": ""});
                open(start.clone(), start);
            }
            Step::Think(_) | Step::Sign(_) if last_kind != Some("thinking") => {
                let start = json!({"type": "thinking", "thinking": "", "signature": ""});
                open(start.clone(), start);
            }
            Step::Call { slot, id, name } => {
                let mut start = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
                if s.ids == IdStyle::Never {
                    start.as_object_mut().unwrap().remove("id");
                }
                open(start.clone(), start);
                slots.insert(*slot, blocks.len() - 1);
            }
            Step::ServerTool => {
                let start = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}});
                let mut whole = start.clone();
                whole["input"] = json!({"query": "x"});
                open(start, whole);
                blocks.last_mut().unwrap().1.pieces.extend([
                    (at, json!({"type": "input_json_delta", "partial_json": "{\"query\":"})),
                    (at, json!({"type": "input_json_delta", "partial_json": "\"x\"}"})),
                ]);
                let result = json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1",
                    "content": [{"type": "web_search_result", "url": "https://example.com", "title": "X",
                        "encrypted_content": "abc=="}]});
                blocks
                    .push((at, Told { start: result.clone(), pieces: Vec::new(), whole: result }));
            }
            _ => {}
        }
        match step {
            Step::Text(text) => {
                let block = &mut blocks.last_mut().unwrap().1;
                block.pieces.push((at, json!({"type": "text_delta", "text": text})));
                append(&mut block.whole, "text", text);
            }
            Step::Refuse(text) => {
                let block = &mut blocks.last_mut().unwrap().1;
                block.pieces.push((at, json!({"type": "text_delta", "text": text})));
                append(&mut block.whole, "text", text);
            }
            Step::Think(text) => {
                let block = &mut blocks.last_mut().unwrap().1;
                block.pieces.push((at, json!({"type": "thinking_delta", "thinking": text})));
                append(&mut block.whole, "thinking", text);
            }
            Step::Sign(signature) => {
                let block = &mut blocks.last_mut().unwrap().1;
                block.pieces.push((at, json!({"type": "signature_delta", "signature": signature})));
                append(&mut block.whole, "signature", signature);
            }
            Step::Cite(url) => {
                let citation =
                    json!({"type": "web_search_result_location", "url": url, "cited_text": "x"});
                let block = &mut blocks.last_mut().unwrap().1;
                block.pieces.push((at, json!({"type": "citations_delta", "citation": citation})));
                block.whole["citations"] = json!([citation]);
            }
            Step::Args { slot, piece } => {
                let block = &mut blocks[slots[slot]].1;
                block.pieces.push((at, json!({"type": "input_json_delta", "partial_json": piece})));
                append(&mut block.whole, "json", piece);
            }
            _ => {}
        }
    }
    blocks
}

impl Wire for Messages {
    fn name(&self) -> &'static str {
        "anthropic"
    }

    fn codec(&self) -> Box<dyn Codec> {
        Box::new(Anthropic::new("anthropic", AnthropicOptions::default()))
    }

    fn caps(&self) -> &'static [Cap] {
        use Cap::*;
        &[
            CacheReads,
            NoIndex,
            IndexFromOne,
            SharedIndex,
            NoIds,
            PiecedArguments,
            Interleaving,
            Signatures,
            TextBetweenCalls,
            Refusals,
            Citations,
            ServerTools,
            Pings,
            Pauses,
            CacheWrites,
            TerminalEvent,
            ReasoningTokens,
            EmptyArguments,
        ]
    }

    fn stream(&self, s: &Scenario) -> Vec<String> {
        let mut message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "some-model-2026",
            "content": [], "stop_reason": null, "stop_sequence": null});
        if s.usage_style != UsageStyle::None {
            message["usage"] = usage(s);
            message["usage"]["output_tokens"] = json!(1);
        }
        let mut out = vec![event(json!({"type": "message_start", "message": message}))];
        let blocks = told(s);
        let index = |at: usize| match s.index {
            IndexStyle::Usual => Some(at),
            IndexStyle::FromOne => Some(at + 1),
            IndexStyle::AllZero => Some(0),
            IndexStyle::None => None,
        };
        let indexed = |at: usize, mut data: Value| {
            if let Some(index) = index(at) {
                data["index"] = json!(index);
            }
            event(data)
        };
        for (at, step) in s.steps.iter().enumerate() {
            match step {
                Step::Ping => out.push(event(json!({"type": "ping"}))),
                Step::Unknown => {
                    out.push(event(json!({"type": "weather_report", "content": "mild"})))
                }
                Step::Error { overloaded } => {
                    let (kind, text) = if *overloaded {
                        ("overloaded_error", "Overloaded")
                    } else {
                        ("rate_limit_error", "Rate limit reached")
                    };
                    out.push(event(
                        json!({"type": "error", "error": {"type": kind, "message": text}}),
                    ));
                }
                _ => {}
            }
            for (number, (begun, block)) in blocks.iter().enumerate() {
                if *begun == at {
                    out.push(indexed(
                        number,
                        json!({"type": "content_block_start", "content_block": block.start}),
                    ));
                }
                for (piece_at, piece) in &block.pieces {
                    if *piece_at == at {
                        out.push(indexed(
                            number,
                            json!({"type": "content_block_delta", "delta": piece}),
                        ));
                    }
                }
            }
        }
        for number in 0..blocks.len() {
            out.push(indexed(number, json!({"type": "content_block_stop"})));
        }
        if let Some(finish) = &s.finish {
            let mut last = json!({"type": "message_delta", "delta": {"stop_reason": word(finish), "stop_sequence": null}});
            match s.usage_style {
                UsageStyle::None => {}
                UsageStyle::Twice => last["usage"] = usage(s),
                UsageStyle::Last | UsageStyle::Separate => {
                    last["usage"] = json!({"output_tokens": s.usage.output, "input_tokens": 0});
                    if s.usage.reasoning.is_some() {
                        last["usage"]["output_tokens_details"] =
                            usage(s)["output_tokens_details"].clone();
                    }
                }
            }
            out.push(event(last));
        }
        if s.terminal {
            out.push(event(json!({"type": "message_stop"})));
        }
        out
    }

    fn whole(&self, s: &Scenario) -> Option<String> {
        let finish = s.finish.as_ref()?;
        if s.fails.is_some() {
            return None;
        }
        let mut content = Vec::new();
        for (_, block) in told(s) {
            let mut whole = block.whole;
            if let Some(json) = whole.as_object_mut().unwrap().remove("json") {
                whole["input"] = serde_json::from_str(json.as_str().unwrap()).ok()?;
            }
            content.push(whole);
        }
        Some(
            json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "some-model-2026",
                "content": content, "stop_reason": word(finish), "stop_sequence": null, "usage": usage(s)})
            .to_string(),
        )
    }

    fn answer_of(&self, request: &Value) -> Value {
        let messages = request["messages"].as_array().unwrap();
        let message = messages.iter().rfind(|m| m["role"] == "assistant").unwrap();
        json!({"type": "message", "content": message["content"], "stop_reason": "end_turn"})
    }

    fn returned(&self, block: Block) -> Option<Block> {
        // Thinking without a signature is refused by the API.
        match &block {
            Block::Thinking { native, .. } => {
                native.as_ref().is_some_and(|n| n.data.get("signature").is_some()).then_some(block)
            }
            _ => Some(block),
        }
    }

    fn terminal(&self, frames: &[String]) -> usize {
        frames.iter().position(|f| f.starts_with("event: message_delta")).unwrap()
    }
}
