//! An agent's own decisions within the loop.

use crate::pipeline::{HookCall, Transformed};
use crate::tool::Eventual;
use serde_json::Value;
use turnbuckle_core::error::ToolError;
use turnbuckle_core::event::CallResult;
use turnbuckle_core::ids::{AgentName, ToolName};
use turnbuckle_core::limits::AgentLimits;
use turnbuckle_core::machine::{Directives, ModelAnswer};
use turnbuckle_core::model::{ModelRef, ModelResponse};
use turnbuckle_core::usage::Usage;

/// What an agent's hooks see of a step.
#[derive(Clone, Debug)]
pub struct StepView<'a> {
    /// The agent.
    pub agent: &'a AgentName,
    /// The index of the model call in its message.
    pub iteration: u32,
    /// Model calls of the agent before this one.
    pub calls_made: u32,
    /// Tool calls of the agent so far.
    pub tool_calls_made: u32,
    /// Which attempt at this call it is, from 1: what came of those before was of no use.
    pub attempt: u32,
    /// How often the agent was told to go on after an answer that was none yet, such as one without the tool calls it needs.
    pub nudges: u32,
    /// The agent's limits.
    pub limits: &'a AgentLimits,
}

/// What the model is told by default when it calls tools that it was not offered.
const WITHHELD: &str =
    "You had no tools for that answer, so nothing was called. Say in words what you can.";

/// Why an answer has no tool calls that run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoToolCalls {
    /// The model asked for none.
    NoneGenerated,
    /// The agent is at its limit, so tools were withheld.
    LimitReached,
    /// The model asked for some, but tools were withheld from this call; see [`AgentHooks::should_send_tools`].
    ToolsDisabled,
}

/// What to do about an answer without tool calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnNoToolCalls {
    /// The answer stands, and the agent's loop ends with it.
    Finish,
    /// The model is told this and called again.
    Nudge(String),
}

/// Whether the agent's loop goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It does.
    Continue,
    /// It ends with this answer; calls it asks for do not run.
    Stop,
}

/// Whether tools are offered in a model call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendTools {
    /// They are.
    Yes,
    /// They are withheld.
    No,
}

/// What an agent made of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Handled {
    /// The result, or a failure in its place.
    pub result: Transformed,
    /// What is asked of the loop: text that the model reads after the results, a tool that it must call next.
    pub directives: Directives,
}

impl From<CallResult> for Handled {
    fn from(result: CallResult) -> Self {
        Self { result: Transformed::Success(result), directives: Directives::default() }
    }
}

/// What a model call counts as, for budgets and for whoever pays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Its tokens.
    pub usage: Usage,
    /// Its price in millionths of a US dollar, where it has one.
    pub cost_micros: Option<u64>,
}

/// An agent's own decisions within the loop. The defaults do the right thing. Hooks are pure: they decide from what they are
/// given, and their decisions are recorded. They are not ours, so a panic in one is contained:
///
/// | hook | when | on a panic |
/// |---|---|---|
/// | [`select_model`](Self::select_model), [`should_send_tools`](Self::should_send_tools), [`force_tool`](Self::force_tool) | before a model call | the turn ends with an error that names the hook |
/// | [`should_continue`](Self::should_continue), [`process_tool_calls`](Self::process_tool_calls), [`on_no_tool_calls`](Self::on_no_tool_calls) | after an answer | the same; no call of the answer runs |
/// | [`on_tools_selected`](Self::on_tools_selected), [`calculate_usage`](Self::calculate_usage) | after an answer | as if it were not written |
/// | [`preprocess_arguments`](Self::preprocess_arguments) | before a call is checked | the call is refused |
/// | [`handle_result`](Self::handle_result) | after a call | the call fails without output |
pub trait AgentHooks: Send + Sync {
    /// Whether the loop goes on after an answer.
    fn should_continue(&self, step: &StepView<'_>, answer: &ModelResponse) -> Flow {
        let _ = (step, answer);
        Flow::Continue
    }

    /// Whether tools are offered in the next model call. A model that calls one all the same is refused.
    fn should_send_tools(&self, step: &StepView<'_>) -> SendTools {
        let _ = step;
        SendTools::Yes
    }

    /// Another model for the next call, for instance a cheaper one after retries.
    fn select_model(&self, step: &StepView<'_>) -> Option<ModelRef> {
        let _ = step;
        None
    }

    /// A tool the next call must use.
    fn force_tool(&self, step: &StepView<'_>) -> Option<ToolName> {
        let _ = step;
        None
    }

    /// What to do about an answer that runs no tools. By default it stands, unless the model asked for tools that were
    /// withheld: then it is told so and called again.
    fn on_no_tool_calls(
        &self,
        step: &StepView<'_>,
        reason: NoToolCalls,
        answer: &ModelResponse,
    ) -> OnNoToolCalls {
        let _ = (step, answer);
        match reason {
            NoToolCalls::NoneGenerated | NoToolCalls::LimitReached => OnNoToolCalls::Finish,
            NoToolCalls::ToolsDisabled => OnNoToolCalls::Nudge(WITHHELD.to_owned()),
        }
    }

    /// Sees the calls before any of them runs; may end the loop instead. Not asked about calls of tools that were withheld,
    /// since none of them runs.
    fn process_tool_calls(&self, step: &StepView<'_>, answer: &ModelResponse) -> Flow {
        let _ = (step, answer);
        Flow::Continue
    }

    /// Is told of an answer whose calls are to run, before the first of them is checked.
    fn on_tools_selected(&self, step: &StepView<'_>, answer: &ModelResponse) {
        let _ = (step, answer);
    }

    /// Changes the arguments of a call of this agent before the domain's
    /// [`transform_tool_input`](crate::pipeline::Hooks::transform_tool_input), bindings and checks, or refuses the call. Gives
    /// the new arguments when they differ. A call may be checked again with the arguments this gave, which must then stay as
    /// they are.
    fn preprocess_arguments<'a>(
        &'a self,
        call: HookCall<'a>,
    ) -> Eventual<'a, Result<Option<Value>, ToolError>> {
        let _ = call;
        Eventual::Ready(Ok(None))
    }

    /// Makes something else of a result of this agent's call, adds what the model reads after the results, or names the tool
    /// that it must call next. On successes only, after the domain's
    /// [`on_tool_result`](crate::pipeline::Hooks::on_tool_result) has learnt from the result as it came, and before its
    /// [`transform_tool_result`](crate::pipeline::Hooks::transform_tool_result), which has the last word about what is seen.
    ///
    /// Messages that were sent stay as they are, since prompt caches depend on it: what is to be added stands after the results.
    fn handle_result<'a>(
        &'a self,
        call: HookCall<'a>,
        result: CallResult,
    ) -> Eventual<'a, Handled> {
        let _ = call;
        Eventual::Ready(result.into())
    }

    /// What a model call of this agent counts as, where that is not what the provider reports at the prices of the catalogue:
    /// a contract with prices of its own, say, or a gateway that reports nothing. Also asked about calls that broke off, with
    /// what had arrived. `answer` has the usage and the price that count otherwise, and says whether they are estimated.
    fn calculate_usage(&self, step: &StepView<'_>, answer: &ModelAnswer) -> Option<Charge> {
        let _ = (step, answer);
        None
    }
}

/// The default hooks.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

impl AgentHooks for NoHooks {}
