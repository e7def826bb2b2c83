//! Answers of the model: complete ones and failures, and what follows from them.

use super::batch::CallPlace;
use super::effect::{CallModel, EffectKind, StepId};
use super::input::{ModelAnswer, StopHere, Tools};
use super::state::{About, Attempt, FrameEnd, Pending, Phase, Streaming, Turn};
use super::{MachineError, Output};
use crate::error::{ModelError, ModelErrorKind, ToolError, ToolErrorCode};
use crate::event::EventKind;
use crate::model::Block;
use crate::outcome::{ExhaustedReason, TurnError};
use crate::part::{InputKind, Part};
use crate::usage::{FinishReason, IterationUsage, Purpose};

const EMPTY: &str = "Your last answer was empty. Answer the user, or call a tool.";
const CUT_THINKING: &str = "Your output limit ended your last answer while you were still thinking, so nothing was said. \
Think less this time: answer the user, or call a tool.";
const CUT: &str = "Your last answer was cut off by the output limit. Go on exactly where it stopped, and be brief.";
const NUDGE: &str = "This task needs tools, and you have not used enough of them yet. Call the tool that fits now \
instead of describing what you would do.";

impl Turn {
    fn take_model_call(
        &mut self,
        step: StepId,
    ) -> Result<Option<(usize, CallModel, Streaming)>, MachineError> {
        let pending = self.take(step, |effect| matches!(effect, EffectKind::CallModel(_)))?;
        let Some(Pending { frame, effect, about }) = pending else { return Ok(None) };
        let (EffectKind::CallModel(call), About::Model(streaming)) = (effect, about) else {
            return Err(MachineError::UnknownStep(step));
        };
        self.now = self.now.max(streaming.since);
        Ok(Some((frame, call, streaming)))
    }

    pub(super) fn model_done(
        &mut self,
        step: StepId,
        answer: ModelAnswer,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let Some((frame, call, streaming)) = self.take_model_call(step)? else { return Ok(()) };
        let finish = answer.response.finish.clone();
        self.meter(frame, call.iteration, call.purpose, &answer, Some(finish.clone()), out)?;
        let f = self.frame_mut(frame)?;
        f.iteration = call.iteration + 1;
        f.calls_made += 1;
        if call.purpose == Purpose::Route {
            if matches!(self.phase, Phase::Stopping { .. }) {
                return self.check_stopped(out);
            }
            return self.route_chosen(frame, Ok(&answer), out);
        }
        let answer = self.unwrap_calls(frame, answer);
        self.reconcile(frame, &call, streaming, &answer, out)?;
        let calls = self.calls_of(frame, call.iteration)?;
        if matches!(self.phase, Phase::Stopping { .. }) {
            let why = self.why_stopped();
            self.drop_calls(frame, &calls, ToolErrorCode::Cancelled, why, out)?;
            return self.check_stopped(out);
        }
        if let Some(error) = answer.directives.fail {
            self.drop_calls(frame, &calls, ToolErrorCode::Cancelled, "the turn failed", out)?;
            return self.end_frame(frame, FrameEnd::Failed(error), out);
        }
        if call.purpose == Purpose::Closing {
            self.drop_calls(frame, &calls, ToolErrorCode::NotAdvertised, "no tools are left", out)?;
            return self.end_frame(frame, FrameEnd::Exhausted(ExhaustedReason::MaxIterations), out);
        }
        if finish == FinishReason::ContentFilter {
            self.drop_calls(
                frame,
                &calls,
                ToolErrorCode::Cancelled,
                "the answer was filtered",
                out,
            )?;
            let message = "the provider's content filter cut the answer";
            let error = Box::new(ModelError::new(ModelErrorKind::ContentFilter, message));
            return self.end_frame(frame, FrameEnd::Failed(TurnError::Model(error)), out);
        }
        if let Some(StopHere) = answer.directives.stop {
            let (code, why) = match answer.directives.tools {
                Tools::Offered => (ToolErrorCode::Cancelled, "the agent ended here"),
                Tools::Withheld => (ToolErrorCode::NotAdvertised, "no tools were offered"),
            };
            self.drop_calls(frame, &calls, code, why, out)?;
            return self.end_frame(frame, FrameEnd::Done, out);
        }
        if calls.is_empty() {
            self.frame_mut(frame)?.counted += 1;
            self.answered_without_calls(frame, &answer, out)
        } else {
            self.start_batch(frame, call.iteration, calls, &answer, out)
        }
    }

    /// Meters a call of which only the cost counts.
    pub(super) fn metered(
        &mut self,
        step: StepId,
        purpose: Purpose,
        epoch: u32,
        answer: &ModelAnswer,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let Some(pending) = self.under_way(step)? else { return Ok(()) };
        let frame = pending.frame;
        let iteration = match &pending.effect {
            EffectKind::CallModel(call) => call.iteration,
            _ => self.frame(frame)?.iteration,
        };
        if let Purpose::Summary | Purpose::Title = purpose {
            // Calls of steps were counted when they were asked for; those beside them are counted as they end.
            self.meters.model_calls += 1;
            self.meters.lost_summaries += u32::from(purpose == Purpose::Summary);
            if answer.response.usage.is_empty() && answer.cost_micros.is_none() {
                return Ok(());
            }
        }
        self.meter(frame, iteration, purpose, answer, None, out)?;
        let now = self.epoch;
        if let Some(pending) = self.pending.get_mut(&step)
            && let (EffectKind::CallModel(call), About::Model(streaming)) =
                (&pending.effect, &mut pending.about)
            && call.purpose == purpose
        {
            if epoch == now {
                streaming.forgone = true;
            } else {
                streaming.lost.retain(|lost| *lost != epoch);
            }
        }
        Ok(())
    }

    fn answered_without_calls(
        &mut self,
        frame: usize,
        answer: &ModelAnswer,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let retries = self.spec.limits.bad_output_retries;
        let response = &answer.response;
        let says_something = response
            .blocks
            .iter()
            .any(|b| matches!(b, Block::Text { text, .. } if !text.trim().is_empty()));
        if response.finish == FinishReason::Pause {
            return self.next_call(frame, out);
        }
        if response.finish == FinishReason::Length {
            let f = self.frame_mut(frame)?;
            f.cut_answers += 1;
            if f.cut_answers > retries {
                let end = FrameEnd::Exhausted(ExhaustedReason::OutputLimit);
                return self.end_frame(frame, end, out);
            }
            let text = if says_something { CUT } else { CUT_THINKING };
            self.insert_input(frame, InputKind::Correction, text.to_owned(), out)?;
            return self.next_call(frame, out);
        }
        if !says_something {
            if response.finish == FinishReason::Refusal {
                let message = "the model declined to answer and gave no reason";
                let error = Box::new(ModelError::new(ModelErrorKind::ContentFilter, message));
                return self.end_frame(frame, FrameEnd::Failed(TurnError::Model(error)), out);
            }
            let f = self.frame_mut(frame)?;
            f.bad_answers += 1;
            if f.bad_answers > retries {
                return self.end_frame(frame, FrameEnd::Failed(TurnError::EmptyResponse), out);
            }
            self.insert_input(frame, InputKind::Correction, EMPTY.to_owned(), out)?;
            return self.next_call(frame, out);
        }
        self.frame_mut(frame)?.bad_answers = 0;
        if let Some(text) = &answer.directives.nudge {
            self.frame_mut(frame)?.nudges += 1;
            self.insert_input(frame, InputKind::Nudge, text.clone(), out)?;
            return self.next_call(frame, out);
        }
        let limits = &self.agent(frame)?.limits;
        let (wanted, cap) = (limits.min_tool_calls, limits.max_iterations);
        let f = self.frame(frame)?;
        if f.tool_calls < wanted && f.counted < cap {
            self.frame_mut(frame)?.nudges += 1;
            self.insert_input(frame, InputKind::Nudge, NUDGE.to_owned(), out)?;
            return self.next_call(frame, out);
        }
        match self.insert_steering(frame, out)? {
            super::call_model::Steered::Yes => self.next_call(frame, out),
            super::call_model::Steered::No => self.end_frame(frame, FrameEnd::Done, out),
        }
    }

    pub(super) fn model_failed(
        &mut self,
        step: StepId,
        error: ModelError,
        partial: Option<ModelAnswer>,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let Some((frame, call, streaming)) = self.take_model_call(step)? else { return Ok(()) };
        if let Some(answer) = partial.as_ref().filter(|a| !a.response.usage.is_empty()) {
            self.meter(frame, call.iteration, call.purpose, answer, None, out)?;
        }
        let stopping = matches!(self.phase, Phase::Stopping { .. });
        let delay = crate::retry::delay_ms(error.kind, call.attempt, error.retry_after_ms, 0.0);
        let worth_it = !stopping && call.attempt < self.spec.limits.model_attempts;
        let spent = self.spent_budget();
        if let (Some(delay_ms), None) = (delay.filter(|_| worth_it), spent) {
            return self.try_again(frame, call, streaming, error, delay_ms, out);
        }
        if call.purpose == Purpose::Route {
            return match stopping {
                true => self.check_stopped(out),
                false => self.route_chosen(frame, Err(&error.to_string()), out),
            };
        }
        if let Some(answer) = &partial {
            self.reconcile(frame, &call, streaming, answer, out)?;
        }
        self.frame_mut(frame)?.iteration = call.iteration + 1;
        let calls = self.calls_of(frame, call.iteration)?;
        let (code, why) = if stopping {
            (ToolErrorCode::Cancelled, self.why_stopped())
        } else {
            (
                ToolErrorCode::TruncatedArguments,
                "the answer broke off before the call was complete; it did not run",
            )
        };
        self.drop_calls(frame, &calls, code, why, out)?;
        if stopping {
            return self.check_stopped(out);
        }
        if call.purpose == Purpose::Closing {
            // The turn is over anyway; a closing word that fails stays unsaid.
            return self.end_frame(frame, FrameEnd::Exhausted(ExhaustedReason::MaxIterations), out);
        }
        if let (Some(reason), true) = (spent, delay.is_some() && worth_it) {
            return self.end_frame(frame, FrameEnd::Exhausted(reason), out);
        }
        let error = match error.kind {
            ModelErrorKind::ContextOverflow => {
                TurnError::ContextOverflow { message: error.to_string() }
            }
            _ => TurnError::Model(error.into()),
        };
        self.end_frame(frame, FrameEnd::Failed(error), out)
    }

    fn try_again(
        &mut self,
        frame: usize,
        call: CallModel,
        streaming: Streaming,
        error: ModelError,
        delay_ms: u64,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let path = self.path(frame)?;
        let reason = format!("the model call failed and is made again: {}", error.message);
        self.unstream(frame, &streaming, reason, out)?;
        let attempt = call.attempt + 1;
        let told = Box::new(error.clone());
        self.emit(&path, EventKind::ModelRetry { attempt, delay_ms, error: told }, out)?;
        self.frame_mut(frame)?.force_tool = call.force_tool;
        let attempt = Attempt { purpose: call.purpose, number: attempt, after: Some(error) };
        self.call_model(frame, attempt, out)
    }

    /// Records what a model call used.
    pub(super) fn meter(
        &mut self,
        frame: usize,
        iteration: u32,
        purpose: Purpose,
        answer: &ModelAnswer,
        finish: Option<FinishReason>,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let f = self.frame(frame)?;
        let (path, message) = (f.path.clone(), f.message.clone());
        let usage = answer.response.usage;
        let call = Box::new(IterationUsage {
            iteration,
            agent: f.agent.clone(),
            purpose,
            provider: answer.response.provider.clone(),
            model: answer.response.model.clone(),
            usage,
            estimated: answer.estimated,
            cost_micros: answer.cost_micros,
            finish,
        });
        self.meters.usage.add(&usage);
        self.meters.new_work = self.meters.new_work.saturating_add(usage.new_work());
        let cost = answer.cost_micros.unwrap_or(0);
        self.meters.cost_micros = self.meters.cost_micros.saturating_add(cost);
        self.emit(&path, EventKind::Usage { message, call }, out)
    }

    pub(super) fn calls_of(
        &mut self,
        frame: usize,
        iteration: u32,
    ) -> Result<Vec<CallPlace>, MachineError> {
        let message = self.frame(frame)?.message.clone();
        let parts = &self.messages.message(&message)?.parts;
        let calls = parts.iter().enumerate().filter_map(|(index, part)| match part {
            Part::ToolCall(call) if call.iteration == iteration => Some(CallPlace {
                part: index as u32,
                call: call.id.clone(),
                tool: call.name.clone(),
            }),
            _ => None,
        });
        Ok(calls.collect())
    }

    /// Settles calls that will never run.
    pub(super) fn drop_calls(
        &mut self,
        frame: usize,
        calls: &[CallPlace],
        code: ToolErrorCode,
        why: &str,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        for place in calls {
            let error = ToolError::new(code, format!("The call did not run: {why}."));
            self.emit_failed(frame, place.part, &place.call, error, None, out)?;
        }
        Ok(())
    }
}
