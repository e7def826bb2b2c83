//! What the hooks of an agent make of a step. They are not ours, so a panic in one is contained; see [`AgentHooks`].

use super::Driver;
use super::start::config_error;
use super::work::ModelWork;
use crate::agent::{AgentHooks, Flow, NoToolCalls, OnNoToolCalls, SendTools, StepView};
use crate::runtime::AgentRuntime;
use crate::tool::eventual::guarded;
use turnbuckle_core::error::ModelError;
use turnbuckle_core::ids::{AgentName, ToolName};
use turnbuckle_core::machine::{AnswerDirectives, CallModel, Effect, ModelAnswer, StopHere, Tools};
use turnbuckle_core::model::{Block, ModelRef, ModelResponse};
use turnbuckle_core::outcome::TurnError;
use turnbuckle_core::usage::Purpose;

/// The hooks of an agent, asked about one model call.
struct Asked<'a> {
    agent: &'a AgentName,
    hooks: &'a dyn AgentHooks,
    step: StepView<'a>,
}

/// A hook that panicked, in words.
struct Failed(String);

impl From<Failed> for ModelError {
    fn from(Failed(why): Failed) -> Self {
        config_error(why)
    }
}

/// What an agent wants of its next model call.
pub(super) struct Wanted {
    /// Another model than the agent's.
    pub(super) model: Option<ModelRef>,
    /// Whether tools are offered.
    pub(super) tools: SendTools,
    /// A tool that it must use.
    pub(super) force_tool: Option<ToolName>,
}

impl<'a> Asked<'a> {
    fn of(agent: &'a AgentRuntime, effect: &'a Effect, call: &CallModel) -> Self {
        Self {
            agent: &effect.agent,
            hooks: &*agent.agent.hooks,
            step: StepView {
                agent: &effect.agent,
                iteration: call.iteration,
                calls_made: call.calls_made,
                tool_calls_made: call.tool_calls_made,
                attempt: call.attempt,
                nudges: call.nudges,
                limits: &agent.agent.limits,
            },
        }
    }

    /// Asks one whose word is needed.
    fn ask<T>(
        &self,
        hook: &str,
        ask: impl FnOnce(&dyn AgentHooks, &StepView<'_>) -> T,
    ) -> Result<T, Failed> {
        guarded(|| ask(self.hooks, &self.step)).map_err(|panic| {
            Failed(format!("the hook `{hook}` of the agent `{}` failed: {panic}", self.agent))
        })
    }

    /// Asks one that can be done without.
    fn tell<T: Default>(
        &self,
        hook: &str,
        ask: impl FnOnce(&dyn AgentHooks, &StepView<'_>) -> T,
    ) -> T {
        self.ask(hook, ask).unwrap_or_else(|Failed(why)| {
            tracing::error!("{why}; it is passed over");
            T::default()
        })
    }
}

/// What an agent wants of its next model call.
///
/// # Errors
/// When a hook panics.
pub(super) fn wanted(
    agent: &AgentRuntime,
    effect: &Effect,
    call: &CallModel,
) -> Result<Wanted, ModelError> {
    let asked = Asked::of(agent, effect, call);
    let model = asked.ask("select_model", |hooks, step| hooks.select_model(step))?;
    let tools = match call.purpose {
        Purpose::Route | Purpose::Closing => SendTools::No,
        _ => asked.ask("should_send_tools", |hooks, step| hooks.should_send_tools(step))?,
    };
    let force_tool = match &call.force_tool {
        Some(tool) => Some(tool.clone()),
        None => asked.ask("force_tool", |hooks, step| hooks.force_tool(step))?,
    };
    Ok(Wanted { model, tools, force_tool })
}

impl Driver {
    /// What the agent's hooks make of an answer to what was offered in the request.
    pub(super) fn directives(&self, work: &ModelWork, answer: &ModelResponse) -> AnswerDirectives {
        self.asked_of(work, answer).unwrap_or_else(|Failed(message)| AnswerDirectives {
            fail: Some(TurnError::Internal { message }),
            ..AnswerDirectives::default()
        })
    }

    fn asked_of(
        &self,
        work: &ModelWork,
        answer: &ModelResponse,
    ) -> Result<AnswerDirectives, Failed> {
        let mut out = AnswerDirectives::default();
        let ModelWork { effect, call, request, .. } = work;
        let Some(agent) = self.runtime.agents.get(&effect.agent) else { return Ok(out) };
        if call.purpose == Purpose::Route {
            return Ok(out);
        }
        let asked = Asked::of(agent, effect, call);
        let calls = answer.blocks.iter().any(|b| matches!(b, Block::ToolCall { .. }));
        let withheld = request.tools.specs.is_empty() && !agent.offered.specs.is_empty();
        if calls && withheld {
            out.tools = Tools::Withheld;
        }
        let reason = match call.purpose {
            Purpose::Closing => Some(NoToolCalls::LimitReached),
            _ if !calls => Some(NoToolCalls::NoneGenerated),
            _ if withheld => Some(NoToolCalls::ToolsDisabled),
            _ => None,
        };
        let mut flow = asked.ask("should_continue", |h, step| h.should_continue(step, answer))?;
        if flow == Flow::Continue && reason.is_none() {
            flow = asked.ask("process_tool_calls", |h, step| h.process_tool_calls(step, answer))?;
        }
        if flow == Flow::Stop {
            out.stop = Some(StopHere);
        } else if reason.is_none() {
            asked.tell("on_tools_selected", |h, step| h.on_tools_selected(step, answer));
        }
        let word = match reason {
            Some(why) => Some(
                asked.ask("on_no_tool_calls", |h, step| h.on_no_tool_calls(step, why, answer))?,
            ),
            None => None,
        };
        match word {
            Some(OnNoToolCalls::Nudge(text)) => out.nudge = Some(text),
            // Without calls, the machine ends the loop on its own where nothing else is to be done first.
            Some(OnNoToolCalls::Finish) if calls => out.stop = Some(StopHere),
            Some(OnNoToolCalls::Finish) | None => {}
        }
        if !calls {
            self.check_output(agent, call, answer, &mut out);
        }
        Ok(out)
    }

    /// An answer with what it cost, as its agent counts it.
    pub(super) fn metered(&self, work: &ModelWork, response: ModelResponse) -> ModelAnswer {
        let ModelWork { effect, call, chunks, .. } = work;
        let mut answer = ModelAnswer { chunks: chunks.clone(), ..work.bill().of(response) };
        if let Some(agent) = self.runtime.agents.get(&effect.agent) {
            let asked = Asked::of(agent, effect, call);
            let charge = asked.tell("calculate_usage", |h, step| h.calculate_usage(step, &answer));
            if let Some(charge) = charge {
                (answer.response.usage, answer.cost_micros) = (charge.usage, charge.cost_micros);
                answer.estimated = false;
            }
        }
        answer
    }
}
