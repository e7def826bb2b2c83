//! What models read and say, as the conventions write it down. Images and files are named, not copied.

use serde_json::{Value, json};
use turnbuckle_core::content::{Content, ContentPart};
use turnbuckle_core::model::{Block, ModelRequest, ModelResponse};
use turnbuckle_core::transcript::Item;

/// The system prompt.
pub(super) fn system(request: &ModelRequest) -> Value {
    request.system.iter().map(|block| text(&block.text)).collect()
}

/// The conversation.
pub(super) fn input(request: &ModelRequest) -> Value {
    request.transcript.entries().iter().map(|entry| message(&entry.item)).collect()
}

/// The answer.
pub(super) fn output(response: &ModelResponse) -> Value {
    let reason = super::finish(&response.finish);
    json!([{"role": "assistant", "parts": parts(&response.blocks), "finish_reason": reason}])
}

fn message(item: &Item) -> Value {
    match item {
        Item::User { content } => json!({"role": "user", "parts": said(content)}),
        Item::Assistant { blocks } => json!({"role": "assistant", "parts": parts(blocks)}),
        Item::System { text: said } => json!({"role": "system", "parts": [text(said)]}),
        Item::ToolResults { results } => {
            let parts: Vec<Value> = results
                .iter()
                .map(|result| {
                    let id = &*result.wire_id;
                    json!({"type": "tool_call_response", "id": id, "response": result.content})
                })
                .collect();
            json!({"role": "tool", "parts": parts})
        }
    }
}

fn said(content: &Content) -> Vec<Value> {
    match content {
        Content::Text(said) => vec![text(said)],
        Content::Parts(parts) => parts
            .iter()
            .map(|part: &ContentPart| match part.as_text() {
                Some(said) => text(said),
                None => json!({"type": "blob"}),
            })
            .collect(),
    }
}

fn parts(blocks: &[Block]) -> Vec<Value> {
    blocks
        .iter()
        .map(|block| match block {
            Block::Text { text: said, .. } => text(said),
            Block::Thinking { text, .. } => json!({"type": "reasoning", "content": text}),
            Block::ToolCall { wire_id, name, arguments, .. } => {
                let written = || Value::String(arguments.clone());
                let arguments = serde_json::from_str(arguments).unwrap_or_else(|_| written());
                json!({"type": "tool_call", "id": wire_id, "name": name, "arguments": arguments})
            }
            Block::Native { .. } => json!({"type": "native"}),
        })
        .collect()
}

fn text(said: &str) -> Value {
    json!({"type": "text", "content": said})
}
