//! What the user might want to say next.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use turnbuckle::core::error::ToolError;
use turnbuckle::tool;
use turnbuckle::tool::FnTool;

use super::digest::list_digest;
use super::forgive::forgiving;

/// Most suggestions.
const MOST: usize = 4;

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SuggestReplies {
    /// What the user might say next, in their words, 1 to 4 short sentences.
    #[schemars(length(min = 1, max = 4))]
    prompts: Vec<String>,
}

/// The suggestions as shown.
#[derive(Clone, Debug, Serialize)]
struct Suggested {
    prompts: Vec<String>,
}

pub(crate) fn suggest_replies() -> FnTool {
    forgiving(suggest()).digest(|output| list_digest(output, "prompts", &[]))
}

/// Offers the user up to four things they might want to say next. Call it last, with your answer before it: the turn
/// ends with it.
#[tool(name = "suggest_replies", effect = "idempotent", category = "control", ends_turn)]
async fn suggest(args: SuggestReplies) -> Result<Suggested, ToolError> {
    let mut prompts: Vec<String> = Vec::new();
    for prompt in args.prompts {
        let prompt = prompt.trim().to_owned();
        if !prompt.is_empty() && !prompts.contains(&prompt) {
            prompts.push(prompt);
        }
    }
    if prompts.is_empty() || prompts.len() > MOST {
        let text = format!("prompts: has {}; 1 to {MOST} can be shown", prompts.len());
        return Err(ToolError::invalid(text));
    }
    Ok(Suggested { prompts })
}
