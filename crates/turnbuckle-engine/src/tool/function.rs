//! Tools made of async functions and closures.

use super::context::{ToolContext, ToolScope};
use super::contract::{Approval, ToolContract};
use super::eventual::Eventual;
use super::output::IntoToolOutput;
use super::run::ToolRun;
use super::{Applies, Probe, Tool, Validated};
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use turnbuckle_core::context::InputBinding;
use turnbuckle_core::error::ToolError;
use turnbuckle_core::json::Json;
use turnbuckle_core::message::ClientTool;

type Run = Box<dyn Fn(Json, ToolContext) -> ToolRun + Send + Sync>;
type Validate = Box<
    dyn for<'a> Fn(&'a Value, &'a ToolContext) -> Eventual<'a, Result<Validated, ToolError>>
        + Send
        + Sync,
>;
type Digest = Box<dyn Fn(&Value) -> Option<Value> + Send + Sync>;
type Summary = Box<dyn Fn(&Value) -> Option<String> + Send + Sync>;
type Mint = Box<dyn Fn(&Value, u32) -> Option<Value> + Send + Sync>;
type ShouldUse = Box<dyn Fn(&ToolScope) -> bool + Send + Sync>;
type ProbeFn = Box<dyn Fn(String, Value, ToolContext) -> BoxFuture<'static, Probe> + Send + Sync>;
type AppliesFn = Box<dyn Fn(Value, ToolContext) -> BoxFuture<'static, Applies> + Send + Sync>;

/// A tool made of a function. The `#[tool]` attribute makes one; hooks are attached by its methods.
///
/// ```
/// use turnbuckle_engine::tool::{FnTool, Tool, ToolContext, ToolContract};
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Add { a: i64, b: i64 }
///
/// let contract = ToolContract::new("add").description("Adds two numbers.");
/// let tool = FnTool::typed(contract, async |args: Add, _: ToolContext| Ok::<_, String>(args.a + args.b))
///     .digest(|sum| Some(serde_json::json!(format!("sum {sum}"))));
/// assert_eq!(tool.contract().name(), "add");
/// ```
pub struct FnTool {
    contract: ToolContract,
    run: Run,
    validate: Option<Validate>,
    digest_args: Option<Digest>,
    digest: Option<Digest>,
    summary: Option<Summary>,
    mint: Option<Mint>,
    should_use: Option<ShouldUse>,
    probe: Option<ProbeFn>,
    applies: Option<AppliesFn>,
}

impl FnTool {
    /// A tool that runs `run` on raw arguments.
    pub fn new(
        contract: ToolContract,
        run: impl Fn(Json, ToolContext) -> ToolRun + Send + Sync + 'static,
    ) -> Self {
        Self {
            contract,
            run: Box::new(run),
            validate: None,
            digest_args: None,
            digest: None,
            summary: None,
            mint: None,
            should_use: None,
            probe: None,
            applies: None,
        }
    }

    /// A tool that runs an async function of typed arguments; the input schema is that of the type.
    pub fn typed<A, F, Fut, T, E>(contract: ToolContract, run: F) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: IntoToolOutput,
        E: IntoToolError,
    {
        Self::new(contract.input::<A>(), move |args, ctx| match A::deserialize(&*args) {
            Ok(args) => run_future(run(args, ctx)),
            Err(error) => {
                let text =
                    format!("The arguments do not fit: {error}. Correct them and call again.");
                ToolRun::ready(Err(ToolError::invalid(text)))
            }
        })
    }

    /// A tool that runs an async function and takes no arguments.
    pub fn without_args<F, Fut, T, E>(contract: ToolContract, run: F) -> Self
    where
        F: Fn(ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: IntoToolOutput,
        E: IntoToolError,
    {
        Self::new(contract, move |_, ctx| run_future(run(ctx)))
    }

    /// A tool that does not execute here: the caller's front end or a nested agent runs it, as its contract says.
    pub fn elsewhere(contract: ToolContract) -> Self {
        Self::new(contract, |_, ctx| {
            let text = format!("`{}` is not executed by this process", ctx.tool());
            ToolRun::ready(Err(ToolError::failed(text)))
        })
    }

    /// A tool that a front end offers, and runs.
    pub fn offered(tool: &ClientTool) -> Self {
        let contract = ToolContract::new(tool.name.clone()).description(tool.description.as_str());
        Self::elsewhere(contract.input_schema((*tool.input_schema).clone()).on_client())
    }

    /// Changes the contract.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(ToolContract) -> ToolContract) -> Self {
        self.contract = change(self.contract);
        self
    }

    /// Whether a person is asked first.
    #[must_use]
    pub fn approval(self, approval: Approval) -> Self {
        self.configure(|c| c.approval(approval))
    }

    /// A person is asked when the predicate says so, fails or panics.
    #[must_use]
    pub fn approval_when(
        self,
        ask: impl Fn(&Value, &ToolContext) -> Result<bool, ToolError> + Send + Sync + 'static,
    ) -> Self {
        self.approval(Approval::When(Arc::new(ask)))
    }

    /// What a person may change before approving: a type whose fields are a subset of the arguments.
    #[must_use]
    pub fn amendable<A: JsonSchema>(self) -> Self {
        self.configure(ToolContract::amendable::<A>)
    }

    /// Wires an argument.
    #[must_use]
    pub fn bind(self, binding: InputBinding) -> Self {
        self.configure(|c| c.bind(binding))
    }

    /// Checks and canonicalizes the arguments.
    #[must_use]
    pub fn validate(
        mut self,
        check: impl Fn(&Value, &ToolContext) -> Result<Validated, ToolError> + Send + Sync + 'static,
    ) -> Self {
        self.validate = Some(Box::new(move |args, ctx| Eventual::Ready(check(args, ctx))));
        self
    }

    /// Checks and canonicalizes the arguments, reading what it needs.
    #[must_use]
    pub fn validate_async<Fut>(
        mut self,
        check: impl Fn(Value, ToolContext) -> Fut + Send + Sync + 'static,
    ) -> Self
    where
        Fut: Future<Output = Result<Validated, ToolError>> + Send + 'static,
    {
        self.validate =
            Some(Box::new(move |args, ctx| Eventual::later(check(args.clone(), ctx.clone()))));
        self
    }

    /// The small projection of the arguments for an approval card.
    #[must_use]
    pub fn digest_args(
        mut self,
        digest: impl Fn(&Value) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        self.digest_args = Some(Box::new(digest));
        self
    }

    /// The small projection of the output for people.
    #[must_use]
    pub fn digest(
        mut self,
        digest: impl Fn(&Value) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        self.digest = Some(Box::new(digest));
        self
    }

    /// What stays of the output in requests of later turns.
    #[must_use]
    pub fn summary(
        mut self,
        summary: impl Fn(&Value) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.summary = Some(Box::new(summary));
        self
    }

    /// Predicts the output of a captured action.
    #[must_use]
    pub fn capture_mint(
        mut self,
        mint: impl Fn(&Value, u32) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        self.mint = Some(Box::new(mint));
        self
    }

    /// Whether the tool is switched on for this user.
    #[must_use]
    pub fn should_use(mut self, on: impl Fn(&ToolScope) -> bool + Send + Sync + 'static) -> Self {
        self.should_use = Some(Box::new(on));
        self
    }

    /// Finds out, by key and arguments, whether an execution that was cut off took effect.
    #[must_use]
    pub fn probe<Fut>(
        mut self,
        probe: impl Fn(String, Value, ToolContext) -> Fut + Send + Sync + 'static,
    ) -> Self
    where
        Fut: Future<Output = Probe> + Send + 'static,
    {
        self.probe = Some(Box::new(move |key, args, ctx| Box::pin(probe(key, args, ctx))));
        self
    }

    /// Whether a captured action still fits the world.
    #[must_use]
    pub fn applies<Fut>(
        mut self,
        applies: impl Fn(Value, ToolContext) -> Fut + Send + Sync + 'static,
    ) -> Self
    where
        Fut: Future<Output = Applies> + Send + 'static,
    {
        self.applies = Some(Box::new(move |args, ctx| Box::pin(applies(args, ctx))));
        self
    }
}

fn run_future<T: IntoToolOutput, E: IntoToolError>(
    run: impl Future<Output = Result<T, E>> + Send + 'static,
) -> ToolRun {
    ToolRun::future(async move {
        match run.await {
            Ok(output) => output.into_tool_output(),
            Err(error) => Err(error.into_tool_error()),
        }
    })
}

impl Tool for FnTool {
    fn contract(&self) -> &ToolContract {
        &self.contract
    }

    fn execute(&self, args: Json, ctx: ToolContext) -> ToolRun {
        (self.run)(args, ctx)
    }

    fn validate<'a>(
        &'a self,
        args: &'a Value,
        ctx: &'a ToolContext,
    ) -> Eventual<'a, Result<Validated, ToolError>> {
        match &self.validate {
            Some(validate) => validate(args, ctx),
            None => Eventual::Ready(Ok(Validated::unchanged())),
        }
    }

    fn should_use(&self, scope: &ToolScope) -> bool {
        self.should_use.as_ref().is_none_or(|on| on(scope))
    }

    fn digest_args(&self, args: &Value) -> Option<Value> {
        self.digest_args.as_ref().and_then(|digest| digest(args))
    }

    fn digest(&self, output: &Value) -> Option<Value> {
        self.digest.as_ref().and_then(|digest| digest(output))
    }

    fn summary(&self, output: &Value) -> Option<String> {
        self.summary.as_ref().and_then(|summary| summary(output))
    }

    fn capture_mint(&self, args: &Value, local_index: u32) -> Option<Value> {
        self.mint.as_ref().and_then(|mint| mint(args, local_index))
    }

    fn probe<'a>(
        &'a self,
        key: &'a str,
        args: &'a Value,
        ctx: &'a ToolContext,
    ) -> Eventual<'a, Probe> {
        match &self.probe {
            Some(probe) => Eventual::Later(probe(key.to_owned(), args.clone(), ctx.clone())),
            None => Eventual::Ready(Probe::Unknown),
        }
    }

    fn applies<'a>(&'a self, args: &'a Value, ctx: &'a ToolContext) -> Eventual<'a, Applies> {
        match &self.applies {
            Some(applies) => Eventual::Later(applies(args.clone(), ctx.clone())),
            None => Eventual::Ready(Applies::Yes),
        }
    }
}

impl fmt::Debug for FnTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FnTool").field("contract", &self.contract).finish_non_exhaustive()
    }
}

/// What a tool function may return on failure: anything that can be shown. A [`ToolError`] keeps its code.
pub trait IntoToolError {
    /// The failure as the model reads it.
    fn into_tool_error(self) -> ToolError;
}

impl<E: fmt::Display + 'static> IntoToolError for E {
    fn into_tool_error(self) -> ToolError {
        match (&self as &dyn Any).downcast_ref::<ToolError>() {
            Some(error) => error.clone(),
            // The alternate form shows the causes where the error type knows them.
            None => ToolError::failed(format!("{self:#}")),
        }
    }
}
