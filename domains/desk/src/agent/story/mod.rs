//! A rehearsal of the desk: a script in the place of a model, so that everything can be seen and
//! tried offline. It reads the user's last message and what the tools have given in this turn, and
//! decides the next answer from them alone. Data, approvals and mail are real; the words between are
//! not, and every answer says so.
//!
//! | file | holds |
//! |---|---|
//! | `sight` | what a request shows: the message, the calls made and what came of them |
//! | `words` | reading ids, amounts and deadlines out of a message |
//! | `scenes` | which scene a message asks for |
//! | `lookups`, `actions`, `plans` | the scenes |
//!
//! A scene names its next calls until it needs none, then closes. A call is made at most once, a turn
//! makes a bounded number of them, and a failure ends the scene: a story never loops.

mod actions;
mod lookups;
mod plans;
mod scenes;
mod sight;
mod words;

use serde_json::Value;
use turnbuckle::core::model::{Block, ModelRequest, ModelResponse};
use turnbuckle::models::Story;
use turnbuckle::models::scripted::{answer, text};

use scenes::Scene;
use sight::{Came, Sight};

/// Stands at the beginning of everything the story says.
const LABEL: &str = "_(rehearsal, no real model)_";

/// Most calls of a turn.
const MOST_CALLS: usize = 12;

/// A call a scene wants.
#[derive(Clone, Debug, PartialEq)]
struct Call {
    tool: &'static str,
    args: Value,
}

impl Call {
    fn new(tool: &'static str, args: Value) -> Self {
        Self { tool, args }
    }
}

/// Plays believable scenes over the desk's real tools.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeskStory;

impl DeskStory {
    /// The story.
    pub const fn new() -> Self {
        Self
    }
}

impl Story for DeskStory {
    fn name(&self) -> &str {
        "desk"
    }

    fn answer(&self, request: &ModelRequest) -> ModelResponse {
        let sight = Sight::of(request);
        let scene = Scene::of(&sight);
        if request.output.as_ref().is_some_and(|output| output.name == "route") {
            let choice = serde_json::json!({
                "route": scene.route(),
                "reasoning": format!("Rehearsal: the message asks for {}.", scene.title()),
            });
            return text(&choice.to_string());
        }
        play(&sight, &scene)
    }
}

fn play(sight: &Sight, scene: &Scene) -> ModelResponse {
    let failures: Vec<String> = sight
        .done()
        .iter()
        .filter_map(|done| match &done.came {
            Came::Failed(why) => Some(format!("`{}` did not work: {why}", done.tool)),
            Came::Gave { .. } | Came::Rejected(_) => None,
        })
        .collect();
    if !failures.is_empty() {
        let rest = scene.close(sight).map(|text| format!("\n\n{text}")).unwrap_or_default();
        return say(&format!("{}{rest}", failures.join("\n")));
    }
    let wanted: Vec<Call> =
        scene.next(sight).into_iter().filter(|call| !sight.has_made(call)).collect();
    let (offered, missing): (Vec<_>, Vec<_>) =
        wanted.into_iter().partition(|call| sight.offers(call.tool));
    if !offered.is_empty() && sight.done().len() + offered.len() <= MOST_CALLS {
        return call(sight, scene, &offered);
    }
    let mut closing =
        scene.close(sight).unwrap_or_else(|| "There is nothing to report.".to_owned());
    if !missing.is_empty() && !sight.is_without_tools() {
        let names: Vec<String> = missing.iter().map(|call| format!("`{}`", call.tool)).collect();
        closing.push_str(&format!(
            "\n\nThis went no further, since {} cannot be used here: it belongs to another page, or you lack the right.",
            names.join(" and ")
        ));
    }
    match scene.suggestions(sight) {
        Some(prompts) if missing.is_empty() && sight.offers("suggest_replies") => {
            let calls = [Call::new("suggest_replies", serde_json::json!({ "prompts": prompts }))];
            if sight.has_made_any("suggest_replies") {
                return say(&closing);
            }
            with_calls(sight, Some(closing), &calls)
        }
        _ => say(&closing),
    }
}

fn say(words: &str) -> ModelResponse {
    text(&format!("{LABEL} {words}"))
}

fn call(sight: &Sight, scene: &Scene, calls: &[Call]) -> ModelResponse {
    // Only the first calls of a turn are announced.
    let opening = sight.done().is_empty().then(|| scene.opening().to_owned());
    with_calls(sight, opening, calls)
}

fn with_calls(sight: &Sight, words: Option<String>, calls: &[Call]) -> ModelResponse {
    let words = words.map(|words| Block::Text { text: format!("{LABEL} {words}"), native: None });
    let made = sight.done().len();
    let calls = calls.iter().enumerate().map(|(index, call)| Block::ToolCall {
        wire_id: format!("rehearsal_{}", made + index + 1),
        name: call.tool.to_owned(),
        arguments: call.args.to_string(),
        native: None,
    });
    answer(words.into_iter().chain(calls).collect())
}
