//! Chat Completions as OpenRouter speaks it, which has the most of it.

use crate::harness::Wire;
use crate::scenarios::{Cap, IdStyle, IndexStyle, NameStyle, Scenario, Step, UsageStyle};
use serde_json::{Map, Value, json};
use turnbuckle_core::model::Block;
use turnbuckle_core::usage::FinishReason;
use turnbuckle_wire::{Codec, OpenAiChat, Profile};

pub struct Chat;

fn frame(data: &Value) -> String {
    format!("data: {data}\n\n")
}

fn chunk(choices: Value, usage: Option<Value>) -> String {
    let mut chunk = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_750_000_000,
        "model": "some-model-2026", "system_fingerprint": "fp", "choices": choices});
    if let Some(usage) = usage {
        chunk["usage"] = usage;
    }
    frame(&chunk)
}

fn delta(delta: Value) -> String {
    chunk(
        json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": null}]),
        Some(Value::Null),
    )
}

fn word(finish: &FinishReason) -> &str {
    match finish {
        FinishReason::Stop | FinishReason::Refusal => "stop",
        FinishReason::ToolCalls => "tool_calls",
        FinishReason::Length => "length",
        FinishReason::ContentFilter => "content_filter",
        FinishReason::Pause => unreachable!("not on this wire"),
        FinishReason::Other(word) => word,
    }
}

fn usage(s: &Scenario) -> Value {
    let u = s.usage;
    let prompt = u.prompt();
    let output = u.output.unwrap_or(0);
    let mut usage = json!({"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output});
    if u.cache_read.is_some() || u.cache_write.is_some() {
        let mut details = Map::new();
        details.insert("audio_tokens".into(), json!(0));
        if let Some(read) = u.cache_read {
            details.insert("cached_tokens".into(), json!(read));
        }
        if let Some(write) = u.cache_write {
            details.insert("cache_write_tokens".into(), json!(write));
        }
        usage["prompt_tokens_details"] = details.into();
    }
    if let Some(reasoning) = u.reasoning {
        usage["completion_tokens_details"] = json!({"reasoning_tokens": reasoning});
    }
    usage
}

impl Wire for Chat {
    fn name(&self) -> &'static str {
        "openai-chat"
    }

    fn codec(&self) -> Box<dyn Codec> {
        Box::new(OpenAiChat::new("openrouter", Profile::named("openrouter").unwrap()))
    }

    fn caps(&self) -> &'static [Cap] {
        use Cap::*;
        &[
            CacheReads,
            NoIndex,
            IndexFromOne,
            SharedIndex,
            RepeatedIds,
            NoIds,
            PiecedNames,
            PiecedArguments,
            Interleaving,
            Signatures,
            TextBetweenCalls,
            Refusals,
            Citations,
            SeparateUsage,
            Filters,
            CacheWrites,
            TerminalEvent,
            ReasoningTokens,
            EmptyArguments,
            Pings,
        ]
    }

    fn stream(&self, s: &Scenario) -> Vec<String> {
        let mut out = vec![delta(json!({"role": "assistant", "content": "", "refusal": null}))];
        let mut opened: Vec<(usize, &str, &str)> = Vec::new();
        for (at, step) in s.steps.iter().enumerate() {
            match step {
                Step::Text(text) => out.push(delta(json!({"content": text}))),
                Step::Think(text) => out.push(delta(json!({"content": null, "reasoning": text,
                    "reasoning_details": [{"type": "reasoning.text", "text": text, "index": 0,
                        "format": "anthropic-claude-v1"}]}))),
                Step::Sign(signature) => out.push(delta(json!({"reasoning_details":
                    [{"type": "reasoning.text", "signature": signature, "index": 0,
                        "format": "anthropic-claude-v1"}]}))),
                Step::Refuse(text) => out.push(delta(json!({"refusal": text}))),
                Step::Cite(url) => out.push(delta(json!({"annotations":
                    [{"type": "url_citation", "url_citation": {"url": url}}]}))),
                Step::Call { slot, id, name } => {
                    opened.push((*slot, id, name));
                    let (first, rest) = match s.names {
                        NameStyle::Pieces => name.split_at(3),
                        _ => (*name, ""),
                    };
                    let mut function = json!({ "name": first });
                    if s.names != NameStyle::Pieces && !s.steps.get(at + 1).is_some_and(
                        |next| matches!(next, Step::Args { piece, .. } if piece.ends_with('}')))
                    {
                        function["arguments"] = json!("");
                    }
                    out.push(delta(self.entry(s, *slot, Some(id), function)));
                    if !rest.is_empty() {
                        out.push(delta(self.entry(s, *slot, None, json!({ "name": rest }))));
                    }
                }
                Step::Args { slot, piece } => {
                    let (_, id, name) = *opened.iter().find(|(known, ..)| known == slot).unwrap();
                    let mut function = json!({ "arguments": piece });
                    if s.names == NameStyle::Repeated {
                        function["name"] = json!(name);
                    }
                    let id = (s.ids == IdStyle::Repeated).then_some(id);
                    out.push(delta(self.entry(s, *slot, id, function)));
                }
                Step::Ping => out.push(": OPENROUTER PROCESSING\n\n".to_owned()),
                Step::Unknown => out.push(frame(&json!({"type": "queue_position", "position": 3}))),
                Step::Error { overloaded } => out.push(frame(&if *overloaded {
                    json!({"id": "x", "error": {"code": 529, "message": "Overloaded"},
                        "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]})
                } else {
                    json!({"error": {"message": "Rate limit reached", "type": "tokens", "code": "rate_limit_exceeded"}})
                })),
                Step::ServerTool => unreachable!("not on this wire"),
            }
        }
        let last = (s.usage_style == UsageStyle::Last || s.usage_style == UsageStyle::Twice)
            .then(|| usage(s));
        if let Some(finish) = &s.finish {
            out.push(chunk(
                json!([{"index": 0, "delta": {}, "finish_reason": word(finish)}]),
                last,
            ));
        }
        if matches!(s.usage_style, UsageStyle::Separate | UsageStyle::Twice) {
            out.push(chunk(json!([]), Some(usage(s))));
        }
        if s.terminal {
            out.push("data: [DONE]\n\n".to_owned());
        }
        out
    }

    fn whole(&self, s: &Scenario) -> Option<String> {
        let finish = s.finish.as_ref()?;
        if s.fails.is_some() {
            return None;
        }
        let blocks = s.blocks();
        let kind = |b: &crate::harness::B| match b {
            crate::harness::B::Think(_) => 0,
            crate::harness::B::Text(_) => 1,
            crate::harness::B::Call { .. } => 2,
            crate::harness::B::Native => 3,
        };
        // A blocking message has one place for each kind: what lies in another order has no blocking form.
        let kinds: Vec<_> = blocks.iter().map(kind).collect();
        let singular = [0, 1].iter().all(|k| kinds.iter().filter(|x| *x == k).count() <= 1);
        if !singular || !kinds.is_sorted() {
            return None;
        }
        let mut message = json!({"role": "assistant", "content": null, "refusal": null});
        let mut calls = Vec::new();
        for block in blocks {
            match block {
                crate::harness::B::Text(text) if s.finish == Some(FinishReason::Refusal) => {
                    message["refusal"] = json!(text);
                }
                crate::harness::B::Text(text) => message["content"] = json!(text),
                crate::harness::B::Think(text) => {
                    message["reasoning"] = json!(text);
                    message["reasoning_details"] =
                        json!([{"type": "reasoning.text", "text": text}]);
                }
                crate::harness::B::Call { id, name, arguments } => {
                    let mut call = json!({"type": "function", "function": {"name": name, "arguments": arguments}});
                    if s.ids != IdStyle::Never {
                        call["id"] = json!(id);
                    }
                    calls.push(call);
                }
                crate::harness::B::Native => unreachable!("not on this wire"),
            }
        }
        if !calls.is_empty() {
            message["tool_calls"] = calls.into();
        }
        Some(
            json!({"id": "chatcmpl-1", "object": "chat.completion", "model": "some-model-2026",
                "choices": [{"index": 0, "message": message, "finish_reason": word(finish)}], "usage": usage(s)})
            .to_string(),
        )
    }

    fn answer_of(&self, request: &Value) -> Value {
        let messages = request["messages"].as_array().unwrap();
        let message = messages.iter().rfind(|m| m["role"] == "assistant").unwrap();
        json!({"choices": [{"message": message, "finish_reason": "stop"}]})
    }

    fn returned(&self, block: Block) -> Option<Block> {
        Some(block)
    }

    fn terminal(&self, frames: &[String]) -> usize {
        frames
            .iter()
            .position(|f| {
                f.contains("\"finish_reason\":\"") && !f.contains("\"finish_reason\":null")
            })
            .unwrap()
    }
}

impl Chat {
    fn entry(&self, s: &Scenario, slot: usize, id: Option<&str>, function: Value) -> Value {
        let mut entry = json!({ "function": function });
        match s.index {
            IndexStyle::Usual => entry["index"] = json!(slot),
            IndexStyle::FromOne => entry["index"] = json!(slot + 1),
            IndexStyle::AllZero => entry["index"] = json!(0),
            IndexStyle::None => {}
        }
        if let Some(id) = id
            && s.ids != IdStyle::Never
        {
            entry["id"] = json!(id);
            entry["type"] = json!("function");
        }
        json!({ "tool_calls": [entry] })
    }
}
