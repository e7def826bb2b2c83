//! Gemini. Calls come whole, each in a part of its own.

use crate::harness::Wire;
use crate::scenarios::{Cap, IdStyle, Scenario, Step, UsageStyle};
use serde_json::{Value, json};
use turnbuckle_core::model::Block;
use turnbuckle_core::usage::FinishReason;
use turnbuckle_wire::{Codec, Gemini, GeminiOptions};

pub struct Google;

fn word(finish: &FinishReason) -> &str {
    match finish {
        // This vendor has one word for both.
        FinishReason::Stop | FinishReason::ToolCalls => "STOP",
        FinishReason::Length => "MAX_TOKENS",
        FinishReason::ContentFilter => "SAFETY",
        FinishReason::Refusal | FinishReason::Pause => unreachable!("not on this wire"),
        FinishReason::Other(word) => word,
    }
}

fn usage(s: &Scenario) -> Value {
    let u = s.usage;
    let reasoning = u.reasoning.unwrap_or(0);
    let mut usage = json!({"promptTokenCount": u.prompt(), "candidatesTokenCount": u.output.unwrap() - reasoning,
        "totalTokenCount": u.prompt() + u.output.unwrap()});
    if let Some(read) = u.cache_read {
        usage["cachedContentTokenCount"] = json!(read);
    }
    if u.reasoning.is_some() {
        usage["thoughtsTokenCount"] = json!(reasoning);
    }
    usage
}

/// The parts, each with the step it comes at.
fn parts(s: &Scenario) -> Vec<(usize, Value)> {
    let mut parts: Vec<(usize, Value)> = Vec::new();
    for (at, step) in s.steps.iter().enumerate() {
        match step {
            Step::Text(text) => parts.push((at, json!({"text": text}))),
            Step::Think(text) => parts.push((at, json!({"text": text, "thought": true}))),
            // The signature of thinking comes on the part that follows it; here it has one of its own.
            Step::Sign(signature) => match parts.last_mut() {
                Some((_, last)) if last["thought"] == json!(true) => {
                    last["thoughtSignature"] = json!(signature)
                }
                _ => parts.push((at, json!({"text": "", "thoughtSignature": signature}))),
            },
            Step::Call { slot, id, name } => {
                let mut call = json!({"name": name});
                if s.ids != IdStyle::Never {
                    call["id"] = json!(id);
                }
                let args: String = s
                    .steps
                    .iter()
                    .filter_map(|st| match st {
                        Step::Args { slot: of, piece } if of == slot => Some(piece.as_str()),
                        _ => None,
                    })
                    .collect();
                if !args.is_empty() {
                    call["args"] = serde_json::from_str(&args).unwrap();
                }
                parts.push((at, json!({"functionCall": call})));
            }
            Step::ServerTool => {
                parts.push((at, json!({"executableCode": {"language": "PYTHON", "code": "1+1"}, "thoughtSignature": "s=="})));
                parts.push((
                    at,
                    json!({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}}),
                ));
            }
            _ => {}
        }
    }
    parts
}

impl Wire for Google {
    fn name(&self) -> &'static str {
        "gemini"
    }

    fn codec(&self) -> Box<dyn Codec> {
        Box::new(Gemini::new("google", GeminiOptions::default()))
    }

    fn caps(&self) -> &'static [Cap] {
        use Cap::*;
        &[
            CacheReads,
            NoIndex,
            NoIds,
            Signatures,
            TextBetweenCalls,
            Citations,
            ServerTools,
            SeparateUsage,
            Filters,
            ReasoningTokens,
            EmptyArguments,
        ]
    }

    fn stream(&self, s: &Scenario) -> Vec<String> {
        let chunk = |candidate: Option<Value>, usage: Option<Value>| {
            let mut chunk = json!({"modelVersion": "some-model-2026", "responseId": "r1"});
            if let Some(mut candidate) = candidate {
                candidate["index"] = json!(0);
                chunk["candidates"] = json!([candidate]);
            }
            if let Some(usage) = usage {
                chunk["usageMetadata"] = usage;
            }
            format!("data: {chunk}\n\n")
        };
        let parts = parts(s);
        let mut out = Vec::new();
        for (at, step) in s.steps.iter().enumerate() {
            match step {
                Step::Unknown => out.push("data: {\"weatherReport\":{\"mild\":true}}\n\n".to_owned()),
                Step::Error { overloaded: true } => out.push(format!("data: {}\n\n", json!({"error":
                    {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}))),
                Step::Error { overloaded: false } => out.push(format!("data: {}\n\n", json!({"error":
                    {"code": 429, "message": "Resource has been exhausted", "status": "RESOURCE_EXHAUSTED"}}))),
                Step::Cite(url) => out.push(chunk(
                    Some(json!({"groundingMetadata": {"groundingChunks": [{"web": {"uri": url}}]}})), None)),
                _ => {}
            }
            for (_, part) in parts.iter().filter(|(p, _)| *p == at) {
                let early = (s.usage_style == UsageStyle::Twice)
                    .then(|| json!({"promptTokenCount": 3, "candidatesTokenCount": 1}));
                out.push(chunk(
                    Some(json!({"content": {"parts": [part], "role": "model"}})),
                    early,
                ));
            }
        }
        let last = matches!(s.usage_style, UsageStyle::Last | UsageStyle::Twice).then(|| usage(s));
        if let Some(finish) = &s.finish {
            out.push(chunk(
                Some(json!({"content": {"parts": [{"text": ""}], "role": "model"},
                "finishReason": word(finish)})),
                last,
            ));
        }
        if s.usage_style == UsageStyle::Separate {
            out.push(chunk(None, Some(usage(s))));
        }
        out
    }

    fn whole(&self, s: &Scenario) -> Option<String> {
        let finish = s.finish.as_ref()?;
        if s.fails.is_some() {
            return None;
        }
        let parts: Vec<Value> = parts(s).into_iter().map(|(_, p)| p).collect();
        Some(
            json!({"candidates": [{"content": {"parts": parts, "role": "model"}, "finishReason": word(finish)}],
                "usageMetadata": usage(s), "modelVersion": "some-model-2026", "responseId": "r1"})
            .to_string(),
        )
    }

    fn answer_of(&self, request: &Value) -> Value {
        let contents = request["contents"].as_array().unwrap();
        let mut content = contents.iter().rfind(|m| m["role"] == "model").unwrap().clone();
        for part in content["parts"].as_array_mut().unwrap() {
            // What stands in for a signature the stream did not have is not part of the answer.
            if part["thoughtSignature"] == "skip_thought_signature_validator" {
                part.as_object_mut().unwrap().remove("thoughtSignature");
            }
        }
        json!({"candidates": [{"content": content, "finishReason": "STOP"}]})
    }

    fn returned(&self, block: Block) -> Option<Block> {
        match block {
            // Sources are for the reader; there is no place for them in a request.
            Block::Text { text, native } => {
                let native = native.filter(|n| n.data.get("thoughtSignature").is_some());
                Some(Block::Text { text, native })
            }
            other => Some(other),
        }
    }

    fn terminal(&self, frames: &[String]) -> usize {
        frames.iter().position(|f| f.contains("finishReason")).unwrap()
    }
}
