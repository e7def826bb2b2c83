//! The workspace's rules on tool calls.
//!
//! Rules are tried in their order and **the first that matches decides**, so the most specific come first. A rule matches
//! when every condition it has holds; one without conditions matches every call. Where no rule matches, the tool's own
//! [`Approval`](crate::tool::Approval) decides. A condition that cannot be evaluated makes its rule ask a person, whatever
//! the rule says.

use super::env::Taints;
use crate::tool::ToolContext;
use crate::tool::eventual::guarded;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use turnbuckle_core::allowance::ArgTest;
use turnbuckle_core::error::ToolError;

/// What a rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyDecision {
    /// The call runs, even if its tool would ask.
    Allow,
    /// A person is asked.
    Ask,
    /// The call is refused.
    Deny,
}

/// One rule.
///
/// ```
/// use turnbuckle_engine::pipeline::{Policy, Rule};
/// let policy: Policy = serde_json::from_value(serde_json::json!({"rules": [
///     {"tool": "refund_order", "args": [{"path": "amount", "above": 500}], "decision": "deny",
///      "reason": "refunds over 500 are made by finance"},
///     {"tool": "delete_*", "decision": "ask"},
///     {"taint": "untrusted", "tool": "send_*", "decision": "ask"},
/// ]}))?;
/// assert_eq!(policy.rules.len(), 3);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The tool's name; a trailing `*` stands for any ending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The agent's name; a trailing `*` stands for any ending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The user's id; a trailing `*` stands for any ending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// A label that an output of this turn has put on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taint: Option<String>,
    /// Tests of arguments; all must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<ArgTest>,
    /// A test in code.
    #[serde(skip)]
    pub when: Option<Predicate>,
    /// What it says.
    pub decision: PolicyDecision,
    /// Why: on the card, or for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A test in code of a call's arguments.
pub type Predicate = Arc<dyn Fn(&Value, &ToolContext) -> Result<bool, ToolError> + Send + Sync>;

impl Rule {
    /// A rule about every call.
    pub fn any(decision: PolicyDecision) -> Self {
        Self {
            tool: None,
            agent: None,
            user: None,
            taint: None,
            args: Vec::new(),
            when: None,
            decision,
            reason: None,
        }
    }

    /// A rule about a tool; a trailing `*` stands for any ending.
    pub fn tool(tool: impl Into<String>, decision: PolicyDecision) -> Self {
        Self { tool: Some(tool.into()), ..Self::any(decision) }
    }

    /// Only when a test in code holds.
    #[must_use]
    pub fn when(
        mut self,
        test: impl Fn(&Value, &ToolContext) -> Result<bool, ToolError> + Send + Sync + 'static,
    ) -> Self {
        self.when = Some(Arc::new(test));
        self
    }

    /// Why.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    fn matches(&self, ctx: &ToolContext, args: &Value, taints: &Taints) -> Result<bool, String> {
        let named =
            |pattern: &Option<String>, name: &str| pattern.as_ref().is_none_or(|p| like(p, name));
        if !named(&self.tool, ctx.tool().as_str())
            || !named(&self.agent, ctx.agent().as_str())
            || !named(&self.user, ctx.user().as_str())
            || self.taint.as_ref().is_some_and(|label| !taints.has(label))
        {
            return Ok(false);
        }
        for test in &self.args {
            if !test.holds(args)? {
                return Ok(false);
            }
        }
        match &self.when {
            None => Ok(true),
            Some(when) => match guarded(|| when(args, ctx)) {
                Ok(answer) => answer.map_err(|e| e.message),
                Err(panic) => Err(panic.0),
            },
        }
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("tool", &self.tool)
            .field("decision", &self.decision)
            .finish_non_exhaustive()
    }
}

fn like(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => pattern == name,
    }
}

/// The workspace's rules, in order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The rules.
    #[serde(default)]
    pub rules: Vec<Rule>,
}

/// What the rules say of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decided {
    pub decision: PolicyDecision,
    pub reason: Option<String>,
    /// Whether a remembered allowance may answer for the person. It may not where data of a doubtful origin is involved,
    /// nor where a condition failed: neither was foreseen when the person said "always".
    pub rememberable: bool,
}

impl Policy {
    /// Rules in their order.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        Self { rules: rules.into_iter().collect() }
    }

    pub(super) fn decide(
        &self,
        ctx: &ToolContext,
        args: &Value,
        taints: &Taints,
    ) -> Option<Decided> {
        self.rules.iter().find_map(|rule| match rule.matches(ctx, args, taints) {
            Ok(false) => None,
            Ok(true) => Some(Decided {
                decision: rule.decision,
                reason: rule.reason.clone(),
                rememberable: rule.taint.is_none(),
            }),
            Err(problem) => Some(Decided {
                decision: PolicyDecision::Ask,
                reason: Some(format!(
                    "You are asked because a rule could not be evaluated: {problem}"
                )),
                rememberable: false,
            }),
        })
    }
}
