//! The plan: a list of steps in `var:plan`, which lives as long as the session.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use turnbuckle::core::context::{ContextStore, Reference};
use turnbuckle::core::error::ToolError;
use turnbuckle::tool;
use turnbuckle::tool::{FnTool, ToolContext, ToolOutput};

use super::digest::{list_digest, pick};
use super::forgive::forgiving;

/// Where the plan is kept.
const PLACE: &str = "var:plan";

/// Most steps of a plan.
const MOST_STEPS: usize = 30;

/// Where a step stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum StepStatus {
    /// Not begun.
    #[default]
    Pending,
    /// Under way.
    Running,
    /// Done.
    Completed,
    /// Given up.
    Failed,
}

/// A step of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Step {
    id: String,
    label: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    status: StepStatus,
}

/// The plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Plan {
    steps: Vec<Step>,
}

/// A step to plan.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewStep {
    /// What is to be done, in a few words.
    label: String,
    /// More about it.
    #[serde(default)]
    detail: Option<String>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreatePlan {
    /// The steps in order, 1 to 30.
    #[schemars(length(min = 1, max = 30))]
    steps: Vec<NewStep>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UpdateStep {
    /// The step's number, from 1.
    step: String,
    /// Where it stands now.
    status: StepStatus,
    /// What came of it, or why it failed.
    #[serde(default)]
    detail: Option<String>,
}

fn place() -> Result<Reference, ToolError> {
    PLACE.parse().map_err(|error| ToolError::failed(format!("the plan has no place: {error}")))
}

fn keep(store: &mut dyn ContextStore, plan: &Plan) -> Result<Value, ToolError> {
    let value = serde_json::to_value(plan)
        .map_err(|error| ToolError::failed(format!("the plan cannot be kept: {error}")))?;
    store.set(&place()?, value.clone()).map_err(|error| ToolError::failed(error.to_string()))?;
    Ok(value)
}

pub(crate) fn plan_create() -> FnTool {
    forgiving(create()).digest(|output| list_digest(output, "steps", &["label"]))
}

/// Makes a plan of 1 to 30 steps that people can follow, in the place of any plan before. Only for work of three steps
/// or more; do the work after it, and keep the steps up to date.
#[tool(name = "plan_create", effect = "idempotent", category = "system")]
async fn create(args: CreatePlan, ctx: ToolContext) -> Result<ToolOutput, ToolError> {
    if args.steps.is_empty() || args.steps.len() > MOST_STEPS {
        let text = format!("steps: has {}; a plan has 1 to {MOST_STEPS}", args.steps.len());
        return Err(ToolError::invalid(text));
    }
    let steps = args.steps.into_iter().enumerate().map(|(index, step)| {
        let label = step.label.trim().to_owned();
        if label.is_empty() {
            return Err(ToolError::invalid(format!("steps: step {} has no label", index + 1)));
        }
        let detail = step.detail.filter(|detail| !detail.trim().is_empty());
        Ok(Step { id: (index + 1).to_string(), label, detail, status: StepStatus::Pending })
    });
    let plan = Plan { steps: steps.collect::<Result<_, _>>()? };
    let value = ctx.context().with(|store| keep(store, &plan))?;
    Ok(ToolOutput::json(value.clone()).plan(value))
}

pub(crate) fn plan_update_step() -> FnTool {
    forgiving(update())
        .digest(|output| pick(output, &[("step", "updated.label"), ("status", "updated.status")]))
}

/// Says where a step of the plan stands: `running` when you begin it, `completed` or `failed` when it is over.
#[tool(name = "plan_update_step", effect = "idempotent", category = "system")]
async fn update(args: UpdateStep, ctx: ToolContext) -> Result<ToolOutput, ToolError> {
    // Read and written in one go, since steps may be updated side by side.
    let (plan, step) = ctx.context().with(|store| {
        let kept = store.get(&place()?).map(std::borrow::Cow::into_owned);
        let plan = kept.and_then(|value| serde_json::from_value::<Plan>(value).ok());
        let Some(mut plan) = plan else {
            return Err(ToolError::failed("There is no plan yet; make one with `plan_create`."));
        };
        let wanted = args.step.trim().trim_start_matches("step").trim();
        let count = plan.steps.len();
        let found = plan.steps.iter_mut().find(|step| step.id == wanted);
        let Some(step) = found else {
            let text = format!("step: there is no step {wanted:?}; the plan has 1 to {count}");
            return Err(ToolError::invalid(text));
        };
        step.status = args.status;
        if let Some(detail) = args.detail.filter(|detail| !detail.trim().is_empty()) {
            step.detail = Some(detail);
        }
        let step = step.clone();
        Ok((keep(store, &plan)?, step))
    })?;
    let mut output = plan.clone();
    if let (Some(map), Ok(step)) = (output.as_object_mut(), serde_json::to_value(&step)) {
        map.insert("updated".to_owned(), step);
    }
    Ok(ToolOutput::json(output).plan(plan))
}
