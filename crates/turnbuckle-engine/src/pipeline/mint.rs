//! The predicted output of an action that is queued for review.

use crate::tool::eventual::guarded;
use crate::tool::{Tool, ToolOutput};
use serde_json::{Map, Value};

/// The mark on every predicted output, so that the model knows that nothing has happened yet.
const MARK: &str = "_captured";

/// The tool's prediction, or the placeholder when it has none or panics. Always marked.
pub(super) fn mint(tool: &dyn Tool, args: &Value, local_index: u32) -> ToolOutput {
    let predicted = guarded(|| tool.capture_mint(args, local_index)).ok().flatten();
    let mut output = match predicted {
        Some(Value::Object(map)) => map,
        Some(other) => Map::from_iter([("result".to_owned(), other)]),
        None => Map::from_iter([("status".to_owned(), Value::from("queued_for_approval"))]),
    };
    output.insert(MARK.to_owned(), Value::Bool(true));
    ToolOutput::json(Value::Object(output))
}
