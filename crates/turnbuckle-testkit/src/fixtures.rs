//! Requests and their parts, for tests that need one and care for a detail of it.

use serde_json::Value;
use std::sync::Arc;
use turnbuckle_core::ids::ToolName;
use turnbuckle_core::model::{Block, ModelRequest, ToolSet};
use turnbuckle_core::tool::ToolSpec;
use turnbuckle_core::transcript::{Item, ToolResult, Transcript};

/// A user's message.
pub fn user(text: &str) -> Item {
    Item::user(text)
}

/// An answer of text alone.
pub fn said(text: &str) -> Item {
    Item::Assistant { blocks: vec![text_block(text)] }
}

/// An answer that calls tools: wire id, name and arguments of each.
pub fn called(calls: &[(&str, &str, &str)]) -> Item {
    let blocks =
        calls.iter().map(|(id, name, arguments)| call_block(id, name, arguments)).collect();
    Item::Assistant { blocks }
}

/// Successful results: wire id, tool name and content of each.
pub fn results(results: &[(&str, &str, &str)]) -> Item {
    let results = results
        .iter()
        .map(|(id, name, content)| ToolResult {
            wire_id: Arc::from(*id),
            name: ToolName::from(*name),
            content: (*content).to_owned(),
            is_error: false,
        })
        .collect();
    Item::ToolResults { results }
}

/// A block of text.
pub fn text_block(text: &str) -> Block {
    Block::Text { text: text.to_owned(), native: None }
}

/// A tool call.
pub fn call_block(wire_id: &str, name: &str, arguments: &str) -> Block {
    Block::ToolCall {
        wire_id: wire_id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        native: None,
    }
}

/// A transcript of these items.
pub fn transcript(items: impl IntoIterator<Item = Item>) -> Transcript {
    let mut transcript = Transcript::default();
    for item in items {
        transcript.push_item(item);
    }
    transcript
}

/// A request with one user message.
pub fn ask(model: &str, text: &str) -> ModelRequest {
    ModelRequest::new(model, transcript([user(text)]))
}

/// A tool offered to a model.
pub fn tool(name: &str, description: &str, schema: Value) -> ToolSpec {
    ToolSpec {
        name: ToolName::from(name),
        description: description.to_owned(),
        input_schema: Arc::new(schema),
    }
}

/// A set of tools for a request.
pub fn tools(specs: impl IntoIterator<Item = ToolSpec>) -> Arc<ToolSet> {
    Arc::new(ToolSet::new(specs.into_iter().collect()))
}
