//! The workspace's rules on tool calls, and what people have said to be always allowed.
//!
//! Rules are tried in their order and **the first that matches decides**, so the most specific come first. A rule matches
//! when every condition it has holds; one without conditions matches every call. Where no rule matches, the tool's own
//! [`Approval`](crate::tool::Approval) decides. A condition that cannot be evaluated makes its rule ask a person, whatever
//! the rule says.

use super::env::Taints;
use crate::tool::ToolContext;
use crate::tool::eventual::guarded;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use turnbuckle_core::context::{Path, walk};
use turnbuckle_core::error::ToolError;
use turnbuckle_core::ids::ToolName;
use turnbuckle_core::json::canonical;

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

/// A test of one argument. It does not hold when the argument is not there, unless it tests for that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArgTest {
    /// Where, for instance `amount` or `to[0]`.
    #[serde(serialize_with = "path_to_text", deserialize_with = "path_from_text")]
    pub path: Path,
    /// What.
    #[serde(flatten)]
    pub test: Test,
}

fn path_to_text<S: Serializer>(path: &Path, s: S) -> Result<S::Ok, S::Error> {
    let text = path.to_string();
    s.serialize_str(text.strip_prefix('.').unwrap_or(&text))
}

fn path_from_text<'de, D: Deserializer<'de>>(d: D) -> Result<Path, D::Error> {
    String::deserialize(d)?.parse().map_err(de::Error::custom)
}

/// What is tested.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// It is this value.
    Equals(Value),
    /// It is one of these values.
    OneOf(Vec<Value>),
    /// It is a number above this.
    Above(f64),
    /// It is a number below this.
    Below(f64),
    /// It is text that contains this.
    Contains(String),
    /// Whether it is there at all.
    Present(bool),
}

impl ArgTest {
    /// Whether it holds; an error when the argument is of a kind that cannot be tested so.
    fn holds(&self, args: &Value) -> Result<bool, String> {
        let found = walk(args, &self.path).filter(|v| !v.is_null());
        let Some(value) = found else {
            return Ok(self.test == Test::Present(false));
        };
        let number = || value.as_f64().ok_or_else(|| format!("`{}` is not a number", self.path));
        match &self.test {
            Test::Equals(expected) => Ok(*value == *expected),
            Test::OneOf(all) => Ok(all.contains(&value)),
            Test::Above(bound) => Ok(number()? > *bound),
            Test::Below(bound) => Ok(number()? < *bound),
            Test::Contains(part) => match value.as_str() {
                Some(text) => Ok(text.contains(part.as_str())),
                None => Err(format!("`{}` is not text", self.path)),
            },
            Test::Present(wanted) => Ok(*wanted),
        }
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

/// "Always allow this", said by a person for a session or for themselves; whose it is, is up to who keeps it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Allowance {
    /// The tool.
    pub tool: ToolName,
    /// The exact arguments as canonical JSON; absent for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<String>,
}

impl Allowance {
    /// The tool, whatever its arguments.
    pub fn tool(tool: impl Into<ToolName>) -> Self {
        Self { tool: tool.into(), args: None }
    }

    /// The tool with exactly these arguments.
    pub fn exactly(tool: impl Into<ToolName>, args: &Value) -> Self {
        Self { tool: tool.into(), args: Some(canonical(args)) }
    }
}

/// The allowances in force. They answer questions that a tool or a rule would ask; they never lift a denial.
#[derive(Debug, Default)]
pub struct Allowances(RwLock<BTreeSet<Allowance>>);

impl Allowances {
    /// Allowances that were kept.
    pub fn new(kept: impl IntoIterator<Item = Allowance>) -> Self {
        Self(RwLock::new(kept.into_iter().collect()))
    }

    /// Adds one.
    pub fn remember(&self, allowance: Allowance) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(allowance);
    }

    /// Whether a call is allowed.
    pub fn allows(&self, tool: &ToolName, args: &Value) -> bool {
        let kept = self.0.read().unwrap_or_else(PoisonError::into_inner);
        !kept.is_empty()
            && (kept.contains(&Allowance::tool(tool.clone()))
                || kept.contains(&Allowance::exactly(tool.clone(), args)))
    }
}
