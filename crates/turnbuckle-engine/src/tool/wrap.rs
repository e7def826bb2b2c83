//! Replacing what a tool does while keeping its contract.

use super::context::{ToolContext, ToolScope};
use super::contract::ToolContract;
use super::eventual::Eventual;
use super::run::ToolRun;
use super::{Applies, Probe, Tool, Validated};
use serde_json::Value;
use std::sync::Arc;
use turnbuckle_core::error::ToolError;
use turnbuckle_core::json::Json;

type Execute = Box<dyn Fn(&dyn Tool, Json, ToolContext) -> ToolRun + Send + Sync>;

/// A tool that is checked, shown and asked about as the original, and executes something else.
pub struct Wrapped {
    inner: Arc<dyn Tool>,
    execute: Execute,
}

impl Wrapped {
    /// Wraps a tool. `execute` gets the original, to run it after all.
    pub fn new(
        inner: Arc<dyn Tool>,
        execute: impl Fn(&dyn Tool, Json, ToolContext) -> ToolRun + Send + Sync + 'static,
    ) -> Self {
        Self { inner, execute: Box::new(execute) }
    }
}

impl Tool for Wrapped {
    fn contract(&self) -> &ToolContract {
        self.inner.contract()
    }

    fn execute(&self, args: Json, ctx: ToolContext) -> ToolRun {
        (self.execute)(&*self.inner, args, ctx)
    }

    fn validate<'a>(
        &'a self,
        args: &'a Value,
        ctx: &'a ToolContext,
    ) -> Eventual<'a, Result<Validated, ToolError>> {
        self.inner.validate(args, ctx)
    }

    fn should_use(&self, scope: &ToolScope) -> bool {
        self.inner.should_use(scope)
    }

    fn digest_args(&self, args: &Value) -> Option<Value> {
        self.inner.digest_args(args)
    }

    fn digest(&self, output: &Value) -> Option<Value> {
        self.inner.digest(output)
    }

    fn summary(&self, output: &Value) -> Option<String> {
        self.inner.summary(output)
    }

    fn capture_mint(&self, args: &Value, local_index: u32) -> Option<Value> {
        self.inner.capture_mint(args, local_index)
    }

    fn probe<'a>(
        &'a self,
        key: &'a str,
        args: &'a Value,
        ctx: &'a ToolContext,
    ) -> Eventual<'a, Probe> {
        self.inner.probe(key, args, ctx)
    }

    fn applies<'a>(&'a self, args: &'a Value, ctx: &'a ToolContext) -> Eventual<'a, Applies> {
        self.inner.applies(args, ctx)
    }
}
