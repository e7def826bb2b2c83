//! Calls that a model wrapped into one.
//!
//! Some models know a tool `multi_tool_use.parallel` from their training, offered or not, and put all that they want to call
//! into one call of it. Each call in it becomes one of its own, with its own id and its own result; the wrapper goes. The
//! journal keeps the answer as it came, so that it is unwrapped again when the turn is rebuilt.

use super::input::ModelAnswer;
use super::state::Turn;
use crate::ids::ToolName;
use crate::model::Block;
use serde::Deserialize;
use serde_json::{Map, Value};

/// What models call the wrapper.
const WRAPPERS: [&str; 3] = ["multi_tool_use.parallel", "multi_tool_use_parallel", "parallel"];
/// The namespace they put before names.
const NAMESPACE: &str = "functions.";

#[derive(Deserialize)]
struct Wrapped {
    tool_uses: Vec<Use>,
}

#[derive(Deserialize)]
struct Use {
    recipient_name: String,
    #[serde(default)]
    parameters: Option<Map<String, Value>>,
}

impl Turn {
    /// The answer with every call that was wrapped as one of its own. A wrapper that is not sound stays, to be refused.
    pub(super) fn unwrap_calls(&self, frame: usize, mut answer: ModelAnswer) -> ModelAnswer {
        let wraps = |block: &Block| match block {
            Block::ToolCall { name, .. } => {
                let bare = name.strip_prefix(NAMESPACE).unwrap_or(name);
                WRAPPERS.contains(&bare)
                    && self.traits(frame, &ToolName::from(name.as_str())).is_none()
            }
            _ => false,
        };
        let blocks = &mut answer.response.blocks;
        for index in (0..blocks.len()).rev() {
            let wrapper = blocks.get(index).filter(|block| wraps(block));
            if let Some(calls) = wrapper.and_then(unwrapped) {
                blocks.splice(index..=index, calls);
            }
        }
        answer
    }
}

/// The calls in a wrapper. The first takes over what the provider said of it, such as its id.
fn unwrapped(wrapper: &Block) -> Option<Vec<Block>> {
    let Block::ToolCall { wire_id, arguments, native, .. } = wrapper else { return None };
    let Wrapped { tool_uses } = serde_json::from_str(arguments).ok()?;
    let calls = tool_uses.into_iter().enumerate().map(|(index, used)| {
        let name = used.recipient_name;
        let first = index == 0;
        Block::ToolCall {
            wire_id: if first { wire_id.clone() } else { String::new() },
            name: name.strip_prefix(NAMESPACE).unwrap_or(&name).to_owned(),
            arguments: used.parameters.map(|p| Value::Object(p).to_string()).unwrap_or_default(),
            native: native.clone().filter(|_| first),
        }
    });
    let calls: Vec<Block> = calls.collect();
    (!calls.is_empty()).then_some(calls)
}
