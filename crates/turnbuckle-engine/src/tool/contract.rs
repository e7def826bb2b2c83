//! What a tool declares.

use super::context::ToolContext;
use super::schema;
use schemars::JsonSchema;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use turnbuckle_core::context::InputBinding;
use turnbuckle_core::error::ToolError;
use turnbuckle_core::ids::{AgentName, ToolName};
use turnbuckle_core::json::Json;
use turnbuckle_core::tool::{
    AfterSuccess, Counts, Overlap, Retention, RunsOn, SideEffect, ToolTraits,
};

/// What kind of tool it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Category {
    /// Steers the turn itself. Hidden from people, never mocked.
    Control,
    /// Part of every agent, such as the plan.
    System,
    /// What the agent is there to do.
    #[default]
    Capability,
}

/// Decides over valid arguments whether a person must be asked.
pub type ApprovalPredicate =
    Arc<dyn Fn(&Value, &ToolContext) -> Result<bool, ToolError> + Send + Sync>;

/// Whether a person must be asked before the tool acts. The workspace's policy may decide otherwise.
#[derive(Clone, Default)]
pub enum Approval {
    /// No.
    #[default]
    Never,
    /// Yes.
    Always,
    /// When the predicate says so, fails or panics.
    When(ApprovalPredicate),
}

impl fmt::Debug for Approval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Approval::Never => "Never",
            Approval::Always => "Always",
            Approval::When(_) => "When(..)",
        })
    }
}

/// What a tool declares. Start with [`ToolContract::new`] and add what differs from the defaults.
///
/// ```
/// use turnbuckle_engine::tool::{Approval, ToolContract};
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Refund {
///     /// The order's number.
///     order: String,
/// }
/// let contract = ToolContract::new("refund_order")
///     .description("Refunds an order.")
///     .input::<Refund>()
///     .approval(Approval::Always);
/// assert_eq!(
///     *contract.input_schema,
///     serde_json::json!({
///         "type": "object",
///         "properties": {"order": {"type": "string", "description": "The order's number."}},
///         "required": ["order"],
///         "additionalProperties": false,
///     })
/// );
/// ```
#[derive(Clone, Debug)]
pub struct ToolContract {
    /// What the turn machine decides by, the name included.
    pub traits: ToolTraits,
    /// The name for people.
    pub title: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of the arguments: an object.
    pub input_schema: Json,
    /// JSON Schema of the output.
    pub output_schema: Option<Json>,
    /// JSON Schema of what a person may change before approving; without one nothing may be changed.
    pub amendment_schema: Option<Json>,
    /// Where arguments come from that the model need not or must not give.
    pub bindings: Vec<InputBinding>,
    /// Whether a person is asked first.
    pub approval: Approval,
    /// How long a question to a person, or to the caller's front end, stays open.
    pub expires_after: Option<Duration>,
    /// What kind of tool it is.
    pub category: Category,
    /// How to use it well, for the system prompt.
    pub usage_notes: Option<String>,
    /// When to choose it over others, for the system prompt.
    pub selection_rule: Option<String>,
    /// An output as it could be, for evals.
    pub example_output: Option<Json>,
    /// How long it may run; the runtime's default otherwise.
    pub timeout: Option<Duration>,
    /// How many bytes of output are kept in place; the runtime's default otherwise.
    pub output_cap: Option<usize>,
    /// Labels that its outputs put on the turn, such as `untrusted`; policy rules look at them.
    pub taints: Vec<Arc<str>>,
}

impl ToolContract {
    /// A parallel, at-most-once tool without arguments that needs no approval.
    pub fn new(name: impl Into<ToolName>) -> Self {
        let name = name.into();
        Self {
            title: title_of(name.as_str()),
            traits: ToolTraits::new(name),
            description: String::new(),
            input_schema: schema::empty(),
            output_schema: None,
            amendment_schema: None,
            bindings: Vec::new(),
            approval: Approval::Never,
            expires_after: None,
            category: Category::default(),
            usage_notes: None,
            selection_rule: None,
            example_output: None,
            timeout: None,
            output_cap: None,
            taints: Vec::new(),
        }
    }

    /// The registered name.
    pub fn name(&self) -> &ToolName {
        &self.traits.name
    }

    /// The name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// What it does, for the model.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// The arguments as a Rust type.
    #[must_use]
    pub fn input<A: JsonSchema>(mut self) -> Self {
        self.input_schema = schema::input_of::<A>();
        self
    }

    /// The arguments as a JSON Schema, brought into the form that providers accept.
    #[must_use]
    pub fn input_schema(mut self, schema: Value) -> Self {
        self.input_schema = schema::normalise_input(schema).into();
        self
    }

    /// The output as a Rust type.
    #[must_use]
    pub fn output<T: JsonSchema>(mut self) -> Self {
        self.output_schema = Some(schema::output_of::<T>());
        self
    }

    /// The output as a JSON Schema.
    #[must_use]
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.output_schema = Some(schema.into());
        self
    }

    /// What a person may change before approving, as a Rust type whose fields are a subset of the arguments.
    #[must_use]
    pub fn amendable<A: JsonSchema>(mut self) -> Self {
        self.amendment_schema = Some(schema::amendment_of::<A>());
        self
    }

    /// What a person may change before approving, as a JSON Schema.
    #[must_use]
    pub fn amendment_schema(mut self, schema: Value) -> Self {
        self.amendment_schema = Some(schema::normalise_input(schema).into());
        self
    }

    /// Wires an argument.
    #[must_use]
    pub fn bind(mut self, binding: InputBinding) -> Self {
        self.bindings.push(binding);
        self
    }

    /// Whether a person is asked first.
    #[must_use]
    pub fn approval(mut self, approval: Approval) -> Self {
        self.approval = approval;
        self
    }

    /// How long a question stays open.
    #[must_use]
    pub fn expires_after(mut self, time: Duration) -> Self {
        self.expires_after = Some(time);
        self
    }

    /// What running it does to the world.
    #[must_use]
    pub fn effect(mut self, effect: SideEffect) -> Self {
        self.traits.effect = effect;
        self
    }

    /// It runs alone.
    #[must_use]
    pub fn exclusive(mut self) -> Self {
        self.traits.overlap = Overlap::Exclusive;
        self
    }

    /// The turn may end with it.
    #[must_use]
    pub fn ends_turn(mut self) -> Self {
        self.traits.after_success = AfterSuccess::EndsTurn;
        self
    }

    /// A model call that only makes calls of this kind is not counted as an iteration.
    #[must_use]
    pub fn uncounted(mut self) -> Self {
        self.traits.counts = Counts::Free;
        self
    }

    /// What stays of its results on later turns.
    #[must_use]
    pub fn retention(mut self, retention: Retention) -> Self {
        self.traits.retention = retention;
        self
    }

    /// The caller's front end executes it.
    #[must_use]
    pub fn on_client(mut self) -> Self {
        self.traits.runs_on = RunsOn::Client;
        self
    }

    /// A nested turn of another agent executes it.
    #[must_use]
    pub fn on_agent(mut self, agent: impl Into<AgentName>) -> Self {
        self.traits.runs_on = RunsOn::Agent(agent.into());
        self
    }

    /// What kind of tool it is.
    #[must_use]
    pub fn category(mut self, category: Category) -> Self {
        self.category = category;
        self
    }

    /// How to use it well.
    #[must_use]
    pub fn usage_notes(mut self, notes: impl Into<String>) -> Self {
        self.usage_notes = Some(notes.into());
        self
    }

    /// When to choose it over others.
    #[must_use]
    pub fn selection_rule(mut self, rule: impl Into<String>) -> Self {
        self.selection_rule = Some(rule.into());
        self
    }

    /// An output as it could be.
    #[must_use]
    pub fn example_output(mut self, output: Value) -> Self {
        self.example_output = Some(output.into());
        self
    }

    /// How long it may run.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How many bytes of output are kept in place.
    #[must_use]
    pub fn output_cap(mut self, bytes: usize) -> Self {
        self.output_cap = Some(bytes);
        self
    }

    /// Its outputs put a label on the turn.
    #[must_use]
    pub fn taint(mut self, label: impl Into<Arc<str>>) -> Self {
        self.taints.push(label.into());
        self
    }
}

/// `find_threads` for people: `Find threads`.
fn title_of(name: &str) -> String {
    let words = name.replace(['_', '-', '.'], " ");
    let words = words.trim();
    let mut chars = words.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_made_of_the_name() {
        assert_eq!(ToolContract::new("find_threads").title, "Find threads");
        assert_eq!(ToolContract::new("").title, "");
    }
}
