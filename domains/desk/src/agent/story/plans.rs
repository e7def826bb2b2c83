//! Scenes with a plan.

use serde_json::{Value, json};

use super::Call;
use super::scenes::{linked, list, text};
use super::sight::Sight;
use super::words::{mentions, number_after};

/// The step a message speaks of, and where it stands now.
pub(super) fn step(ask: &str) -> Option<(String, &'static str)> {
    let number = number_after(ask, &["step"])?;
    let status = if mentions(ask, &["fail", "impossible"]) {
        "failed"
    } else if mentions(ask, &["done", "complete", "finish", "ready"]) {
        "completed"
    } else if mentions(ask, &["start", "begin", "running", "under"]) {
        "running"
    } else if mentions(ask, &["pending", "again", "reopen"]) {
        "pending"
    } else {
        return None;
    };
    Some((number, status))
}

pub(super) fn update(sight: &Sight) -> Vec<Call> {
    let wanted = step(sight.ask()).filter(|_| !sight.has_made_any("plan_update_step"));
    wanted
        .map(|(step, status)| {
            Call::new("plan_update_step", json!({"step": step, "status": status}))
        })
        .into_iter()
        .collect()
}

/// Makes the plan, then does its first step.
pub(super) fn plan(sight: &Sight) -> Vec<Call> {
    if !sight.has_made_any("plan_create") {
        let steps = json!([
            {"label": "See which tasks are due", "detail": "Open tasks, the nearest deadline first"},
            {"label": "Go through the open mail"},
            {"label": "Prepare answers", "detail": "Each with the article that covers it"},
            {"label": "Set reminders for what is left"},
        ]);
        return vec![Call::new("plan_create", json!({ "steps": steps }))];
    }
    // Where there is nothing to work with, the plan is all.
    if !sight.offers("list_tasks") {
        return Vec::new();
    }
    match sight.gave("list_tasks") {
        None if sight.has_made_any("list_tasks") => Vec::new(),
        None => vec![
            Call::new("plan_update_step", json!({"step": "1", "status": "running"})),
            Call::new("list_tasks", json!({"assignee": "me", "limit": 5})),
        ],
        Some(found) => {
            let total = found.get("total").and_then(Value::as_u64).unwrap_or(0);
            let detail = format!("{total} open");
            let args = json!({"step": "1", "status": "completed", "detail": detail});
            vec![Call::new("plan_update_step", args)]
        }
    }
}

pub(super) fn close(sight: &Sight) -> Option<String> {
    let plan = sight.gave("plan_update_step").or_else(|| sight.gave("plan_create"))?;
    let steps: Vec<Value> = list(plan, "steps")
        .iter()
        .filter_map(|step| {
            let mut shown = json!({"label": text(step, "label")?, "status": text(step, "status")?});
            if let (Some(map), Some(detail)) = (shown.as_object_mut(), text(step, "detail")) {
                map.insert("detail".to_owned(), json!(detail));
            }
            Some(shown)
        })
        .collect();
    let mut out = "Where the plan stands:".to_owned();
    out.push_str(&format!("\n\n```desk:plan-steps\n{}\n```", json!({ "steps": steps })));
    if let Some(found) = sight.gave("list_tasks") {
        let tasks: Vec<String> = list(found, "tasks")
            .iter()
            .take(3)
            .filter_map(|task| Some(linked(text(task, "title")?, text(task, "id")?)))
            .collect();
        if !tasks.is_empty() {
            out.push_str(&format!("\n\nDue first: {}.", tasks.join(", ")));
        }
    }
    Some(out)
}
