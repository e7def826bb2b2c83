//! The Responses API.

use crate::harness::Wire;
use crate::scenarios::{Cap, IndexStyle, Scenario, Step, UsageStyle};
use serde_json::{Value, json};
use turnbuckle_core::model::Block;
use turnbuckle_core::usage::FinishReason;
use turnbuckle_wire::{Codec, OpenAiResponses, ResponsesOptions};

pub struct Responses;

fn event(data: Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap())
}

fn usage(s: &Scenario) -> Value {
    let u = s.usage;
    let mut usage = json!({"input_tokens": u.prompt(), "output_tokens": u.output});
    if let Some(read) = u.cache_read {
        usage["input_tokens_details"] = json!({"cached_tokens": read});
    }
    if let Some(reasoning) = u.reasoning {
        usage["output_tokens_details"] = json!({"reasoning_tokens": reasoning});
    }
    usage
}

struct Told {
    begun: usize,
    item: Value,
    done: Value,
    /// Position among the steps, event name, members.
    pieces: Vec<(usize, &'static str, Value)>,
}

fn told(s: &Scenario) -> Vec<Told> {
    let mut items: Vec<Told> = Vec::new();
    let mut slots = std::collections::BTreeMap::new();
    for (at, step) in s.steps.iter().enumerate() {
        let kind = items.last().map(|i| i.item["type"].as_str().unwrap().to_owned());
        let number = items.len();
        let mut open = |item: Value| {
            items.push(Told { begun: at, done: item.clone(), item, pieces: Vec::new() })
        };
        match step {
            Step::Text(_) | Step::Refuse(_) if kind.as_deref() != Some("message") => {
                open(json!({"type": "message", "id": format!("msg_{number}"), "role": "assistant",
                    "status": "in_progress", "content": [], "phase": "final_answer"}));
            }
            Step::Think(_) | Step::Sign(_) if kind.as_deref() != Some("reasoning") => {
                open(
                    json!({"type": "reasoning", "id": format!("rs_{number}"), "summary": [], "status": null}),
                );
            }
            Step::Call { slot, id, name } => {
                open(
                    json!({"type": "function_call", "id": format!("fc_{number}"), "call_id": id, "name": name,
                    "arguments": "", "status": "in_progress"}),
                );
                slots.insert(*slot, number);
            }
            Step::ServerTool => {
                open(json!({"type": "web_search_call", "id": "ws_1", "status": "completed",
                    "action": {"type": "search", "query": "x"}}));
                open(
                    json!({"type": "mcp_call", "id": "mcp_1", "name": "x", "arguments": "{}", "output": "y",
                    "server_label": "z"}),
                );
            }
            _ => {}
        }
        match step {
            Step::Text(text) if !text.is_empty() => {
                let told = items.last_mut().unwrap();
                let known = told.done["content"][0]["text"].as_str().unwrap_or_default().to_owned();
                told.done["content"] =
                    json!([{"type": "output_text", "text": known + text, "annotations": []}]);
                told.done["status"] = json!("completed");
                told.pieces.push((
                    at,
                    "response.output_text.delta",
                    json!({"content_index": 0, "delta": text, "logprobs": []}),
                ));
            }
            Step::Refuse(text) => {
                let told = items.last_mut().unwrap();
                told.done["content"] = json!([{"type": "refusal", "refusal": text}]);
                told.pieces.push((
                    at,
                    "response.refusal.delta",
                    json!({"content_index": 0, "delta": text}),
                ));
            }
            Step::Think(text) => {
                let told = items.last_mut().unwrap();
                let known = told.done["summary"][0]["text"].as_str().unwrap_or_default().to_owned();
                told.done["summary"] = json!([{"type": "summary_text", "text": known + text}]);
                told.pieces.push((
                    at,
                    "response.reasoning_summary_text.delta",
                    json!({"summary_index": 0, "delta": text}),
                ));
            }
            Step::Sign(signature) => {
                items.last_mut().unwrap().done["encrypted_content"] = json!(signature)
            }
            Step::Cite(url) => {
                let told = items.last_mut().unwrap();
                let annotation =
                    json!({"type": "url_citation", "url": url, "start_index": 0, "end_index": 2});
                told.done["content"][0]["annotations"] = json!([annotation]);
                told.pieces.push((
                    at,
                    "response.output_text.annotation.added",
                    json!({"content_index": 0, "annotation_index": 0, "annotation": annotation}),
                ));
            }
            Step::Args { slot, piece } => {
                let told = &mut items[slots[slot]];
                let known = told.done["arguments"].as_str().unwrap().to_owned();
                told.done["arguments"] = json!(known + piece);
                told.done["status"] = json!("completed");
                told.pieces.push((
                    at,
                    "response.function_call_arguments.delta",
                    json!({"delta": piece}),
                ));
            }
            _ => {}
        }
    }
    items
}

fn response(s: &Scenario, output: Vec<Value>) -> Value {
    let (status, details) = match s.finish.as_ref().unwrap() {
        FinishReason::Length => ("incomplete", json!({"reason": "max_output_tokens"})),
        FinishReason::ContentFilter => ("incomplete", json!({"reason": "content_filter"})),
        FinishReason::Other(word) => ("incomplete", json!({"reason": word})),
        _ => ("completed", Value::Null),
    };
    let mut response = json!({"id": "resp_1", "object": "response", "model": "some-model-2026", "status": status,
        "incomplete_details": details, "error": null, "output": output});
    if s.usage_style != UsageStyle::None {
        response["usage"] = usage(s);
    }
    response
}

impl Wire for Responses {
    fn name(&self) -> &'static str {
        "openai-responses"
    }

    fn codec(&self) -> Box<dyn Codec> {
        Box::new(OpenAiResponses::new("openai", ResponsesOptions::default()))
    }

    fn caps(&self) -> &'static [Cap] {
        use Cap::*;
        &[
            CacheReads,
            NoIndex,
            IndexFromOne,
            SharedIndex,
            PiecedArguments,
            Interleaving,
            Signatures,
            TextBetweenCalls,
            Refusals,
            Citations,
            ServerTools,
            Pings,
            Filters,
            ReasoningTokens,
            EmptyArguments,
        ]
    }

    fn stream(&self, s: &Scenario) -> Vec<String> {
        let mut head = json!({"id": "resp_1", "object": "response", "model": "some-model-2026",
            "status": "in_progress", "output": []});
        if s.usage_style == UsageStyle::Twice {
            head["usage"] = json!({"input_tokens": 3, "output_tokens": 1});
        }
        let mut out = vec![
            event(json!({"type": "response.created", "sequence_number": 0, "response": head})),
            event(json!({"type": "response.in_progress", "sequence_number": 1, "response": head})),
        ];
        let items = told(s);
        let placed = |number: usize, name: &str, mut data: Value| {
            data["type"] = json!(name);
            data["item_id"] = items[number].item["id"].clone();
            match s.index {
                IndexStyle::Usual => data["output_index"] = json!(number),
                IndexStyle::FromOne => data["output_index"] = json!(number + 1),
                IndexStyle::AllZero => data["output_index"] = json!(0),
                IndexStyle::None => {}
            }
            event(data)
        };
        for (at, step) in s.steps.iter().enumerate() {
            match step {
                Step::Ping => out.push(event(json!({"type": "keepalive", "sequence_number": at}))),
                Step::Unknown => out.push(event(json!({"type": "response.weather.added", "weather": "mild"}))),
                Step::Error { overloaded: true } => out.push(event(json!({"type": "response.failed",
                    "response": {"id": "resp_1", "status": "failed",
                        "error": {"code": "server_is_overloaded", "message": "Our servers are overloaded"}}}))),
                Step::Error { overloaded: false } => out.push(event(json!({"type": "error",
                    "code": "rate_limit_exceeded", "message": "Rate limit reached", "param": null}))),
                _ => {}
            }
            for (number, item) in items.iter().enumerate() {
                if item.begun == at {
                    out.push(placed(
                        number,
                        "response.output_item.added",
                        json!({"item": item.item}),
                    ));
                }
                for (piece_at, name, data) in &item.pieces {
                    if *piece_at == at {
                        out.push(placed(number, name, data.clone()));
                    }
                }
                // An item ends before the next step begins another, unless pieces of it are still to come.
                let last = item.pieces.last().map_or(item.begun, |p| p.0);
                let signs = s.steps.iter().enumerate().rposition(|(i, st)| {
                    i >= item.begun
                        && matches!(st, Step::Sign(_))
                        && items
                            .iter()
                            .rfind(|x| x.begun <= i)
                            .is_some_and(|x| std::ptr::eq(x, item))
                });
                if last.max(signs.unwrap_or(0)) == at {
                    out.push(placed(
                        number,
                        "response.output_item.done",
                        json!({"item": item.done}),
                    ));
                }
            }
        }
        if s.finish.is_some() {
            let response = response(s, items.into_iter().map(|i| i.done).collect());
            let name = format!("response.{}", response["status"].as_str().unwrap());
            out.push(event(json!({"type": name, "response": response})));
        }
        out
    }

    fn whole(&self, s: &Scenario) -> Option<String> {
        if s.fails.is_some() || s.finish.is_none() {
            return None;
        }
        Some(response(s, told(s).into_iter().map(|i| i.done).collect()).to_string())
    }

    fn answer_of(&self, request: &Value) -> Value {
        let output: Vec<Value> = request["input"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|i| i["role"] != "user" && i["type"] != "function_call_output")
            .cloned()
            .collect();
        json!({"object": "response", "status": "completed", "output": output})
    }

    fn returned(&self, block: Block) -> Option<Block> {
        // Reasoning that the provider does not keep goes back by its encrypted content alone.
        match &block {
            Block::Thinking { native, .. } => native
                .as_ref()
                .is_some_and(|n| n.data.get("encrypted_content").is_some())
                .then_some(block),
            _ => Some(block),
        }
    }

    fn terminal(&self, frames: &[String]) -> usize {
        frames
            .iter()
            .position(|f| {
                f.starts_with("event: response.completed")
                    || f.starts_with("event: response.incomplete")
            })
            .unwrap()
    }
}
