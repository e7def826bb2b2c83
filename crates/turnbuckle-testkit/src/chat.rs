//! Answers in the shape of OpenAI's Chat Completions, streamed or whole.

use crate::reply::Reply;
use serde_json::{Map, Value, json};

/// An answer in the making. The same one can be streamed or given at once.
#[derive(Clone, Debug)]
pub struct ChatAnswer {
    model: String,
    id: String,
    pieces: Vec<Piece>,
    finish: Option<String>,
    usage: Option<Value>,
}

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Reasoning(String),
    CallStart { index: usize, id: String, name: String },
    CallArguments { index: usize, text: String },
}

impl ChatAnswer {
    /// An empty answer of `model`.
    pub fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            id: "chatcmpl-test".to_owned(),
            pieces: Vec::new(),
            finish: None,
            usage: Some(json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15})),
        }
    }

    /// The answer's id.
    pub fn id(mut self, id: &str) -> Self {
        self.id = id.to_owned();
        self
    }

    /// More text, one delta.
    pub fn text(mut self, text: &str) -> Self {
        self.pieces.push(Piece::Text(text.to_owned()));
        self
    }

    /// More reasoning, one delta.
    pub fn reasoning(mut self, text: &str) -> Self {
        self.pieces.push(Piece::Reasoning(text.to_owned()));
        self
    }

    /// A tool call whose arguments come in one delta.
    pub fn call(self, id: &str, name: &str, arguments: &str) -> Self {
        self.call_in_pieces(id, name, &[arguments])
    }

    /// A tool call whose arguments come in several deltas.
    pub fn call_in_pieces(mut self, id: &str, name: &str, arguments: &[&str]) -> Self {
        let index = self.pieces.iter().filter(|p| matches!(p, Piece::CallStart { .. })).count();
        self.pieces.push(Piece::CallStart { index, id: id.to_owned(), name: name.to_owned() });
        let more =
            arguments.iter().map(|text| Piece::CallArguments { index, text: (*text).to_owned() });
        self.pieces.extend(more);
        self
    }

    /// The tokens used; `cached` of the prompt's came from a cache.
    pub fn usage(mut self, prompt: u64, cached: u64, completion: u64) -> Self {
        self.usage = Some(json!({
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": cached},
        }));
        self
    }

    /// No usage at all.
    pub fn without_usage(mut self) -> Self {
        self.usage = None;
        self
    }

    /// Why it ends; by default `stop`, or `tool_calls` when there are any.
    pub fn finish(mut self, reason: &str) -> Self {
        self.finish = Some(reason.to_owned());
        self
    }

    fn finish_reason(&self) -> &str {
        let calls = self.pieces.iter().any(|p| matches!(p, Piece::CallStart { .. }));
        self.finish.as_deref().unwrap_or(if calls { "tool_calls" } else { "stop" })
    }

    /// The frames of the stream, `[DONE]` included.
    pub fn frames(&self) -> Vec<String> {
        let mut frames: Vec<String> =
            self.pieces.iter().map(|p| self.chunk(p.delta(), Value::Null)).collect();
        frames.push(self.chunk(json!({}), self.finish_reason().into()));
        if let Some(usage) = &self.usage {
            frames.push(frame(&json!({
                "id": self.id, "object": "chat.completion.chunk", "model": self.model, "choices": [], "usage": usage,
            })));
        }
        frames.push("data: [DONE]\n\n".to_owned());
        frames
    }

    fn chunk(&self, delta: Value, finish: Value) -> String {
        frame(&json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "model": self.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        }))
    }

    /// The answer as a stream.
    pub fn stream(&self) -> Reply {
        Reply::sse(self.frames())
    }

    /// The answer's JSON when it is not streamed.
    pub fn body(&self) -> Value {
        let mut text = String::new();
        let mut reasoning = String::new();
        let mut calls: Vec<(String, String, String)> = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(more) => text.push_str(more),
                Piece::Reasoning(more) => reasoning.push_str(more),
                Piece::CallStart { id, name, .. } => {
                    calls.push((id.clone(), name.clone(), String::new()))
                }
                Piece::CallArguments { index, text } => {
                    if let Some(call) = calls.get_mut(*index) {
                        call.2.push_str(text);
                    }
                }
            }
        }
        let mut message = Map::new();
        message.insert("role".into(), "assistant".into());
        message.insert("content".into(), if text.is_empty() { Value::Null } else { text.into() });
        if !reasoning.is_empty() {
            message.insert("reasoning_content".into(), reasoning.into());
        }
        if !calls.is_empty() {
            let calls = calls.into_iter().map(|(id, name, arguments)| {
                json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
            });
            message.insert("tool_calls".into(), calls.collect());
        }
        let mut body = json!({
            "id": self.id,
            "object": "chat.completion",
            "model": self.model,
            "choices": [{"index": 0, "message": message, "finish_reason": self.finish_reason()}],
        });
        if let (Some(usage), Some(body)) = (&self.usage, body.as_object_mut()) {
            body.insert("usage".into(), usage.clone());
        }
        body
    }

    /// The answer at once.
    pub fn whole(&self) -> Reply {
        Reply::json(200, &self.body())
    }
}

impl Piece {
    fn delta(&self) -> Value {
        match self {
            Piece::Text(text) => json!({"content": text}),
            Piece::Reasoning(text) => json!({"reasoning_content": text}),
            Piece::CallStart { index, id, name } => json!({"tool_calls": [{
                "index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""},
            }]}),
            Piece::CallArguments { index, text } => {
                json!({"tool_calls": [{"index": index, "function": {"arguments": text}}]})
            }
        }
    }
}

/// One server-sent event with JSON data.
pub fn frame(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// An error answer as OpenAI-compatible servers give them.
pub fn error(status: u16, kind: &str, message: &str) -> Reply {
    Reply::json(status, &json!({"error": {"message": message, "type": kind, "code": kind}}))
}
