//! Starting the effects the machine asks for.

use super::Driver;
use super::bill::Bill;
use super::deltas::DeltaBuffer;
use super::work::{CapturedCall, ModelWork};
use crate::pipeline;
use crate::tool::eventual::{Panic, guarded};
use crate::trace::{self, Chat, ToolAbout};
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;
use turnbuckle_core::error::{ModelError, ModelErrorKind, ToolError, ToolErrorCode};
use turnbuckle_core::ids::AgentName;
use turnbuckle_core::machine::{
    CallModel, Effect, EffectKind, ExecuteMode, ExecuteResult, FinalChanges, Input, MachineError,
    StepId, Verdict, Weave,
};
use turnbuckle_core::model::ModelRequest;
use turnbuckle_core::outcome::Outcome;
use turnbuckle_models::tokens::PromptCount;

impl Driver {
    pub(super) fn start_model(&mut self, effect: Effect) -> Result<(), MachineError> {
        let EffectKind::CallModel(call) = &effect.kind else { return Ok(()) };
        let call = call.clone();
        match self.build_request(&effect, &call) {
            Ok(built) => match built.compaction {
                Some(work) => {
                    self.work.compactions.push(work);
                    Ok(())
                }
                None => self.send(effect, call, built.model, built.request, built.counted),
            },
            Err(error) => self.feed(Input::ModelFailed { step: effect.step, error, partial: None }),
        }
    }

    /// Sends a request that fits.
    pub(super) fn send(
        &mut self,
        effect: Effect,
        call: CallModel,
        model: Arc<dyn turnbuckle_models::Model>,
        request: ModelRequest,
        counted: Option<PromptCount>,
    ) -> Result<(), MachineError> {
        let meter = self.assembler.meter(&model);
        for epoch in self.turn.lost_calls(effect.step).to_vec() {
            let bill = Bill { model: &*model, meter: &meter, request: &request, counted };
            let answer = Box::new(bill.of(bill.nothing()));
            let (step, purpose) = (effect.step, call.purpose);
            self.feed(Input::Metered { step, purpose, epoch, answer })?;
        }
        let request = Arc::new(request);
        let buffer = DeltaBuffer::default();
        let delay = call.after.as_ref().map(|error| retry_delay(error, call.attempt));
        let content = self.assembler.trace_content;
        let about = Chat {
            session: &self.session,
            turn: &self.id,
            agent: &effect.agent,
            step: effect.step,
            purpose: call.purpose,
            attempt: call.attempt,
        };
        let nested = self.nested.of(&effect.path);
        let span =
            trace::within(nested.as_ref(), || trace::chat(about, model.id(), &request, content));
        let future = {
            let model = self.assembler.callable(&self.runtime.info, model.clone());
            let (request, mut sink) = (request.clone(), buffer.clone());
            Box::pin(async move {
                if let Some(delay) = delay {
                    tokio::time::sleep(delay).await;
                }
                sink.begin();
                let result = model.call(&request, &mut sink).instrument(span.clone()).await;
                trace::chat_ended(&span, &result, content);
                result
            })
        };
        self.work.models.push(ModelWork {
            effect,
            call,
            model,
            buffer,
            future,
            chunks: Vec::new(),
            weave: Weave::default(),
            unread: Vec::new(),
            request,
            meter,
            counted,
        });
        Ok(())
    }

    pub(super) fn start_prepare(&mut self, effect: Effect) -> Result<(), MachineError> {
        let EffectKind::Prepare(check) = effect.kind else { return Ok(()) };
        let step = effect.step;
        let Some(agent) = self.runtime.agents.get(&effect.agent) else {
            let verdict = Verdict::Refuse { error: agent_gone(&effect.agent), args: None };
            return self.feed(Input::Prepared { step, verdict: Box::new(verdict) });
        };
        let env = agent.env.clone();
        self.work
            .prepares
            .push(Box::pin(async move { (step, pipeline::prepare(&env, &check).await) }));
        Ok(())
    }

    pub(super) fn start_execute(&mut self, effect: Effect) -> Result<(), MachineError> {
        let EffectKind::Execute(run) = effect.kind else { return Ok(()) };
        let step = effect.step;
        let Some(agent) = self.runtime.agents.get(&effect.agent) else {
            let mut error = agent_gone(&effect.agent);
            if run.mode == ExecuteMode::Recover {
                error.code = ToolErrorCode::OutcomeUnknown;
                error.message.push_str(" Whether the call took effect before is not known.");
            }
            let result = ExecuteResult::Failure { error, output: None };
            let result = Box::new(result);
            return self.feed(Input::Executed { step, result, captured: None });
        };
        let env = agent.env.clone();
        self.work.running.insert(run.call.clone(), step);
        if let ExecuteMode::Capture { local_index } = run.mode {
            let captured = CapturedCall {
                agent: effect.agent.clone(),
                call: run.call.clone(),
                tool: run.tool.clone(),
                args: run.args.clone(),
                index: local_index,
            };
            self.work.captures.insert(step, captured);
        }
        let content = self.assembler.trace_content;
        let about =
            ToolAbout { session: &self.session, turn: &self.id, agent: &effect.agent, step };
        let nested = self.nested.of(&effect.path);
        let span = trace::within(nested.as_ref(), || trace::tool(about, &run, content));
        self.work.executes.push(Box::pin(async move {
            let executed = pipeline::execute(&env, &run).instrument(span.clone()).await;
            trace::tool_ended(&span, &executed.result, content);
            (step, executed)
        }));
        Ok(())
    }

    pub(super) fn start_settle(&mut self, effect: Effect) -> Result<(), MachineError> {
        let EffectKind::Settle(settle) = effect.kind else { return Ok(()) };
        let step = effect.step;
        let Some(agent) = self.runtime.agents.get(&effect.agent) else {
            // Nobody is left who would hide any of it.
            let error = agent_gone(&effect.agent);
            let result = Box::new(ExecuteResult::Failure { error, output: None });
            return self.feed(Input::Executed { step, result, captured: None });
        };
        let env = agent.env.clone();
        self.work
            .executes
            .push(Box::pin(async move { (step, pipeline::settle(&env, settle).await) }));
        Ok(())
    }

    /// Runs the domain's end-of-turn hooks. They are not ours, so a panic in them ends nothing.
    pub(super) fn finalize(&mut self, step: StepId, outcome: &Outcome) -> Result<(), MachineError> {
        let domain = &self.runtime.domain_turn;
        let message = self.turn.message();
        let complain = |hook: &str, panic: &Panic| {
            tracing::error!(turn = %self.id, %panic, "the domain's `{hook}` panicked at the end of the turn");
        };
        let processed = guarded(|| message.map(|m| domain.post_process(m)).unwrap_or_default());
        let changes = processed.unwrap_or_else(|panic| {
            complain("post_process", &panic);
            FinalChanges::default()
        });
        if let Err(panic) = guarded(|| domain.on_turn_end(outcome)) {
            complain("on_turn_end", &panic);
        }
        self.finalize_with(step, outcome, changes)
    }
}

/// Two turns that were refused together must not return together.
fn retry_delay(error: &ModelError, attempt: u32) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    // A fresh `RandomState` is keyed at random: the draw needs no generator of its own.
    let draw = RandomState::new().hash_one(attempt);
    let jitter = (draw >> 11) as f64 / (1_u64 << 53) as f64;
    let failed = attempt.saturating_sub(1);
    let delay = turnbuckle_core::retry::delay_ms(error.kind, failed, error.retry_after_ms, jitter);
    Duration::from_millis(delay.unwrap_or(turnbuckle_core::retry::MIN_DELAY_MS))
}

/// What a turn was begun with may be gone when it is taken up again.
fn agent_gone(agent: &AgentName) -> ToolError {
    let text = format!("The agent `{agent}` is not available any more, so the call did not run.");
    ToolError::new(ToolErrorCode::NotEnabled, text)
}

/// A step that could not be built as configured.
pub(super) fn config_error(message: impl Into<String>) -> ModelError {
    ModelError::new(ModelErrorKind::Config, message)
}
