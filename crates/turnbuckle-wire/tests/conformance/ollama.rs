//! Ollama. One document per line; calls come whole.

use crate::harness::{B, Wire};
use crate::scenarios::{Cap, IdStyle, IndexStyle, Scenario, Step, UsageStyle};
use serde_json::{Value, json};
use turnbuckle_core::model::Block;
use turnbuckle_core::usage::FinishReason;
use turnbuckle_wire::{Codec, Ollama, OllamaOptions};

pub struct Local;

fn word(finish: &FinishReason) -> &str {
    match finish {
        // This server has one word for both.
        FinishReason::Stop | FinishReason::ToolCalls => "stop",
        FinishReason::Length => "length",
        FinishReason::ContentFilter | FinishReason::Refusal | FinishReason::Pause => {
            unreachable!("not on this wire")
        }
        FinishReason::Other(word) => word,
    }
}

fn line(document: Value) -> String {
    format!("{document}\n")
}

fn usage(s: &Scenario, document: &mut Value) {
    document["prompt_eval_count"] = json!(s.usage.input);
    document["eval_count"] = json!(s.usage.output);
}

fn call(s: &Scenario, slot: usize, id: &str, name: &str) -> Value {
    let pieces = s.steps.iter().filter_map(|step| match step {
        Step::Args { slot: of, piece } if *of == slot => Some(piece.as_str()),
        _ => None,
    });
    let arguments: String = pieces.collect();
    let mut function = json!({"name": name});
    if !arguments.is_empty() {
        function["arguments"] = serde_json::from_str(&arguments).unwrap();
    }
    match s.index {
        IndexStyle::Usual => function["index"] = json!(slot),
        IndexStyle::FromOne => function["index"] = json!(slot + 1),
        IndexStyle::AllZero => function["index"] = json!(0),
        IndexStyle::None => {}
    }
    let mut call = json!({"function": function});
    if s.ids != IdStyle::Never {
        call["id"] = json!(id);
    }
    call
}

impl Wire for Local {
    fn name(&self) -> &'static str {
        "ollama"
    }

    fn codec(&self) -> Box<dyn Codec> {
        Box::new(Ollama::new("ollama", OllamaOptions::default()))
    }

    fn caps(&self) -> &'static [Cap] {
        use Cap::*;
        &[NoIndex, IndexFromOne, SharedIndex, NoIds, TextBetweenCalls, EmptyArguments]
    }

    fn stream(&self, s: &Scenario) -> Vec<String> {
        let mut out = Vec::new();
        let message = |message: Value| {
            let mut document = json!({"model": "some-model-2026", "created_at": "2026-11-27T10:00:00Z",
                "message": {"role": "assistant", "content": ""}, "done": false});
            for (name, value) in message.as_object().unwrap() {
                document["message"][name] = value.clone();
            }
            if s.usage_style == UsageStyle::Twice {
                document["prompt_eval_count"] = json!(3);
                document["eval_count"] = json!(1);
            }
            line(document)
        };
        for step in &s.steps {
            match step {
                Step::Text(text) => out.push(message(json!({"content": text}))),
                Step::Think(text) => out.push(message(json!({"thinking": text}))),
                Step::Call { slot, id, name } => {
                    out.push(message(json!({"tool_calls": [call(s, *slot, id, name)]})));
                }
                Step::Unknown => out.push(line(json!({"weather_report": {"mild": true}}))),
                Step::Error { overloaded: true } => {
                    let told = "server busy, please try again. maximum pending requests exceeded";
                    out.push(line(json!({"error": told})));
                }
                Step::Error { overloaded: false } => {
                    out.push(line(json!({"error": "too many requests"})));
                }
                _ => {}
            }
        }
        if let Some(finish) = &s.finish {
            let mut last = json!({"model": "some-model-2026", "created_at": "2026-11-27T10:00:01Z",
                "message": {"role": "assistant", "content": ""}, "done_reason": word(finish), "done": true,
                "total_duration": 5_191_566_416_u64});
            if s.usage_style != UsageStyle::None {
                usage(s, &mut last);
            }
            out.push(line(last));
        }
        out
    }

    fn whole(&self, s: &Scenario) -> Option<String> {
        let finish = s.finish.as_ref()?;
        if s.fails.is_some() {
            return None;
        }
        let blocks = s.blocks();
        let kind = |b: &B| match b {
            B::Think(_) => 0,
            B::Text(_) => 1,
            B::Call { .. } => 2,
            B::Native => 3,
        };
        // A message has one place for each kind: what lies in another order has no blocking form.
        let kinds: Vec<_> = blocks.iter().map(kind).collect();
        let singular = [0, 1].iter().all(|k| kinds.iter().filter(|x| *x == k).count() <= 1);
        if !singular || !kinds.is_sorted() {
            return None;
        }
        let mut message = json!({"role": "assistant", "content": ""});
        for block in blocks {
            match block {
                B::Think(text) => message["thinking"] = json!(text),
                B::Text(text) => message["content"] = json!(text),
                B::Call { .. } | B::Native => {}
            }
        }
        let calls: Vec<Value> = s
            .steps
            .iter()
            .filter_map(|step| match step {
                Step::Call { slot, id, name } => Some(call(s, *slot, id, name)),
                _ => None,
            })
            .collect();
        if !calls.is_empty() {
            message["tool_calls"] = calls.into();
        }
        let mut body = json!({"model": "some-model-2026", "message": message, "done": true,
            "done_reason": word(finish)});
        usage(s, &mut body);
        Some(body.to_string())
    }

    fn answer_of(&self, request: &Value) -> Value {
        let messages = request["messages"].as_array().unwrap();
        let message = messages.iter().rfind(|m| m["role"] == "assistant").unwrap();
        json!({"message": message, "done": true, "done_reason": "stop"})
    }

    fn returned(&self, block: Block) -> Option<Block> {
        Some(block)
    }

    fn terminal(&self, frames: &[String]) -> usize {
        frames.iter().position(|f| f.contains("\"done\":true")).unwrap()
    }
}
