//! What a tool gives.

use serde::Serialize;
use serde_json::Value;
use turnbuckle_core::error::ToolError;
use turnbuckle_core::ids::ToolName;
use turnbuckle_core::machine::Directives;

/// An output with its projections and what it asks of the loop.
///
/// ```
/// use serde_json::json;
/// use turnbuckle_engine::tool::ToolOutput;
/// let output = ToolOutput::json(json!({"threads": [{"id": 7}]}))
///     .summary("one thread found: 7")
///     .add_context("The thread is locked by Ada.");
/// assert_eq!(output.directives.add_context, ["The thread is locked by Ada."]);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// The stored output.
    pub output: Value,
    /// What the model sees instead.
    pub model_view: Option<Value>,
    /// What stays of it in requests of later turns.
    pub summary: Option<String>,
    /// The small projection for people; the tool's `digest` makes it otherwise.
    pub digest: Option<Value>,
    /// What it asks of the loop.
    pub directives: Directives,
}

impl ToolOutput {
    /// An output that is JSON already.
    pub fn json(output: Value) -> Self {
        Self { output, ..Self::default() }
    }

    /// An output of any serializable value.
    ///
    /// # Errors
    /// When the value has no JSON form, such as a map whose keys are not strings.
    pub fn of(output: &impl Serialize) -> Result<Self, ToolError> {
        serde_json::to_value(output).map(Self::json).map_err(|e| {
            ToolError::failed(format!("the tool's result could not be written as JSON: {e}"))
        })
    }

    /// What the model sees instead of the stored output.
    #[must_use]
    pub fn model_view(mut self, view: Value) -> Self {
        self.model_view = Some(view);
        self
    }

    /// What stays of the output in requests of later turns.
    #[must_use]
    pub fn summary(mut self, summary: impl Into<String>) -> Self {
        self.summary = Some(summary.into());
        self
    }

    /// The small projection for people.
    #[must_use]
    pub fn digest(mut self, digest: Value) -> Self {
        self.digest = Some(digest);
        self
    }

    /// The tool the model must call next.
    #[must_use]
    pub fn force_tool(mut self, tool: impl Into<ToolName>) -> Self {
        self.directives.force_tool = Some(tool.into());
        self
    }

    /// Context the model reads after the results.
    #[must_use]
    pub fn add_context(mut self, text: impl Into<String>) -> Self {
        self.directives.add_context.push(text.into());
        self
    }

    /// The plan as it is now.
    #[must_use]
    pub fn plan(mut self, plan: Value) -> Self {
        self.directives.plan = Some(plan.into());
        self
    }

    /// A background task that was started.
    #[must_use]
    pub fn task(mut self, kind: impl Into<String>, id: impl Into<String>) -> Self {
        self.directives.task = Some((kind.into(), id.into()));
        self
    }
}

/// What a tool function may return on success: any serializable value, or a [`ToolOutput`].
pub trait IntoToolOutput {
    /// The output.
    ///
    /// # Errors
    /// When the value has no JSON form.
    fn into_tool_output(self) -> Result<ToolOutput, ToolError>;
}

impl<T: Serialize> IntoToolOutput for T {
    fn into_tool_output(self) -> Result<ToolOutput, ToolError> {
        ToolOutput::of(&self)
    }
}

impl IntoToolOutput for ToolOutput {
    fn into_tool_output(self) -> Result<ToolOutput, ToolError> {
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeMap;

    #[test]
    fn anything_serializable_is_an_output() {
        assert_eq!(vec![1, 2].into_tool_output(), Ok(ToolOutput::json(json!([1, 2]))));
        let whole = ToolOutput::json(json!(1)).summary("one");
        assert_eq!(whole.clone().into_tool_output(), Ok(whole));
    }

    #[test]
    fn what_has_no_json_form_is_a_failure_that_says_so() {
        let error = BTreeMap::from([((1, 2), 3)]).into_tool_output().unwrap_err();
        assert_eq!(
            error,
            ToolError::failed(
                "the tool's result could not be written as JSON: key must be a string"
            )
        );
    }
}
