//! What the calls of one agent in one turn are checked and executed with.

use super::allowances::Allowances;
use super::hooks::{Hooks, NoHooks};
use super::policy::Policy;
use crate::agent::AgentHooks;
use crate::tool::{ToolContext, ToolScope, Toolbox};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use turnbuckle_core::ids::{CallId, ToolName};

/// Everything the two entry points need. Cheap to clone.
#[derive(Clone)]
pub struct PipelineEnv {
    /// The agent's tools.
    pub toolbox: Arc<Toolbox>,
    /// What the agent's calls have in common.
    pub scope: Arc<ToolScope>,
    /// The workspace's rules.
    pub policy: Arc<Policy>,
    /// What people said to be always allowed.
    pub allowances: Allowances,
    /// The agent's hooks.
    pub agent: Arc<dyn AgentHooks>,
    /// The domain's hooks.
    pub hooks: Arc<dyn Hooks>,
    /// Where data of this turn came from.
    pub taints: Arc<Taints>,
    /// Bounds.
    pub limits: PipelineLimits,
}

impl PipelineEnv {
    /// Tools in a scope, with no rules, no hooks and the default bounds.
    pub fn new(toolbox: Arc<Toolbox>, scope: Arc<ToolScope>) -> Self {
        Self {
            toolbox,
            scope,
            policy: Arc::default(),
            allowances: Allowances::None,
            agent: Arc::new(crate::agent::NoHooks),
            hooks: Arc::new(NoHooks),
            taints: Arc::default(),
            limits: PipelineLimits::default(),
        }
    }

    pub(super) fn context(
        &self,
        call: &CallId,
        tool: &ToolName,
        reason: Option<String>,
    ) -> ToolContext {
        ToolContext::new(self.scope.clone(), call.clone(), tool.clone(), reason)
    }
}

/// Bounds of a call, where the tool's contract names none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineLimits {
    /// How long a tool may run.
    pub timeout: Duration,
    /// How long a tool may go on after the turn was stopped.
    pub grace: Duration,
    /// How long a tool's own checks, and each hook of the agent or the domain, may take.
    pub hook_timeout: Duration,
    /// Bytes of an output that are kept in place.
    pub output_cap: usize,
    /// Bytes of arguments.
    pub max_args: usize,
    /// Levels of nesting of arguments.
    pub max_depth: usize,
    /// How long a question to a person, or to the caller's front end, stays open; `None` means for ever.
    pub expires_after: Option<Duration>,
}

impl Default for PipelineLimits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(120),
            grace: Duration::from_secs(5),
            hook_timeout: Duration::from_secs(30),
            output_cap: 64 * 1024,
            max_args: 1024 * 1024,
            max_depth: 64,
            expires_after: None,
        }
    }
}

/// Labels that the outputs of this turn's tools have put on it, such as `untrusted`. A turn is never cleaned of one.
#[derive(Debug, Default)]
pub struct Taints(Mutex<BTreeSet<Arc<str>>>);

impl Taints {
    /// Adds labels.
    pub fn add(&self, labels: &[Arc<str>]) {
        if !labels.is_empty() {
            lock(&self.0).extend(labels.iter().cloned());
        }
    }

    /// Whether the turn has a label.
    pub fn has(&self, label: &str) -> bool {
        lock(&self.0).contains(label)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
