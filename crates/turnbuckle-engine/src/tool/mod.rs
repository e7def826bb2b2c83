//! Tools: what a model can have done, as a contract that the pipeline, the prompt, people and evals rely on.
//!
//! | module | holds |
//! |---|---|
//! | [`contract`] | what is declared: names, schemas, traits, approval, bindings, limits |
//! | [`context`] | what every execution is given: who, where, the clock, the context store, cancellation, resources |
//! | [`output`], [`run`] | what an execution gives: an output with its projections, as a future or a stream |
//! | [`function`] | tools made of async functions and closures |
//! | [`schema`] | JSON schemas of Rust types in the form that providers accept |
//! | [`toolbox`] | the tools of one agent in one turn, with their compiled schemas and effective bindings |
//! | [`wrap`] | replacing what a tool does while keeping its contract, for evals |
//!
//! Most tools are made with the `#[tool]` attribute or [`FnTool`]; [`Tool`] is implemented by hand where the contract
//! is only known at run time, as for tools of other servers.

pub(crate) mod checker;
mod clock;
pub mod context;
pub mod contract;
pub mod eventual;
pub mod function;
pub mod output;
pub mod resources;
pub mod run;
pub mod schema;
pub mod toolbox;
pub mod wrap;

pub use clock::Clock;
pub use context::{
    ContextHandle, Identity, NoProgress, ProgressSink, ToolContext, ToolScope, ToolUsage,
};
pub use contract::{Approval, Category, ToolContract};
pub use eventual::Eventual;
pub use function::{FnTool, IntoToolError};
pub use output::{IntoToolOutput, ToolOutput};
pub use resources::Resources;
pub use run::{ToolEvent, ToolRun};
pub use toolbox::{RegisteredTool, Toolbox, ToolboxError};
pub use wrap::Wrapped;

use serde_json::Value;
use turnbuckle_core::error::ToolError;
use turnbuckle_core::json::Json;
pub use turnbuckle_core::tool::{Retention, SideEffect};

/// A tool.
///
/// The pipeline calls the methods in this order; a panic in any of them is contained.
///
/// | method | when | on a panic |
/// |---|---|---|
/// | [`should_use`](Self::should_use) | before anything is done with a call | the call is refused |
/// | [`validate`](Self::validate) | after bindings, before the schema; again after an approval | the call is refused |
/// | the contract's [`Approval`] | with valid arguments only | a person is asked |
/// | [`digest_args`](Self::digest_args) | for the card | no digest |
/// | [`execute`](Self::execute) | once | a failed result |
/// | [`capture_mint`](Self::capture_mint) | instead of `execute` when actions are captured | the placeholder |
/// | [`digest`](Self::digest), [`summary`](Self::summary) | on success | none |
/// | [`probe`](Self::probe) | after a crash during `execute` | the outcome stays unknown |
/// | [`applies`](Self::applies) | before a captured action runs at last | treated as stale |
pub trait Tool: Send + Sync {
    /// What the tool declares. Always the same.
    fn contract(&self) -> &ToolContract;

    /// Does it. The arguments have passed every check.
    fn execute(&self, args: Json, ctx: ToolContext) -> ToolRun;

    /// Accepts the forms a model writes and gives the canonical one, or says how to mend the call. It may read but
    /// not act. Canonical arguments must pass unchanged, since an approved call is validated again.
    fn validate<'a>(
        &'a self,
        args: &'a Value,
        ctx: &'a ToolContext,
    ) -> Eventual<'a, Result<Validated, ToolError>> {
        let _ = (args, ctx);
        Eventual::Ready(Ok(Validated::unchanged()))
    }

    /// Whether the tool is switched on for this user. Where it is not, the model is not offered it and a call is refused.
    fn should_use(&self, scope: &ToolScope) -> bool {
        let _ = scope;
        true
    }

    /// The small projection of the arguments for an approval card. Pure.
    fn digest_args(&self, args: &Value) -> Option<Value> {
        let _ = args;
        None
    }

    /// The small projection of the output for people. Pure.
    fn digest(&self, output: &Value) -> Option<Value> {
        let _ = output;
        None
    }

    /// What stays of the output in requests of later turns. Pure.
    fn summary(&self, output: &Value) -> Option<String> {
        let _ = output;
        None
    }

    /// Predicts the output of an action that is queued for review instead of executed. Pure. `local_index` counts
    /// captured actions over the whole run, so that ids such as `temp_0` are unique.
    fn capture_mint(&self, args: &Value, local_index: u32) -> Option<Value> {
        let _ = (args, local_index);
        None
    }

    /// Finds out whether an execution that was cut off took effect, by its idempotency key. Only reads.
    fn probe<'a>(
        &'a self,
        key: &'a str,
        args: &'a Value,
        ctx: &'a ToolContext,
    ) -> Eventual<'a, Probe> {
        let _ = (key, args, ctx);
        Eventual::Ready(Probe::Unknown)
    }

    /// Whether a captured action still fits the world, for instance because the record has not changed since. Only reads.
    fn applies<'a>(&'a self, args: &'a Value, ctx: &'a ToolContext) -> Eventual<'a, Applies> {
        let _ = (args, ctx);
        Eventual::Ready(Applies::Yes)
    }
}

/// Arguments that passed a tool's own check.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Validated {
    /// The canonical arguments when they differ from those given.
    pub args: Option<Value>,
    /// What was assumed or corrected. The model reads it next to the result.
    pub warnings: Vec<String>,
}

impl Validated {
    /// The arguments are canonical already.
    pub fn unchanged() -> Self {
        Self::default()
    }

    /// The canonical form of the arguments.
    pub fn canonical(args: Value) -> Self {
        Self { args: Some(args), warnings: Vec::new() }
    }

    /// Adds a warning for the model.
    #[must_use]
    pub fn warn(mut self, warning: impl Into<String>) -> Self {
        self.warnings.push(warning.into());
        self
    }
}

/// What became of an execution that was cut off.
#[derive(Clone, Debug, PartialEq)]
pub enum Probe {
    /// It took effect, with this output.
    Done(Box<ToolOutput>),
    /// It took no effect and may be executed.
    NotDone,
    /// Nobody can tell.
    Unknown,
}

impl Probe {
    /// It took effect, with this output.
    pub fn done(output: ToolOutput) -> Self {
        Self::Done(Box::new(output))
    }
}

/// Whether a captured action still fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applies {
    /// It does.
    Yes,
    /// The world has changed; how, for the person who reviews.
    Stale(String),
}
