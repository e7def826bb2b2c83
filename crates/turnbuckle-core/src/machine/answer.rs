//! Answers of the model: deltas as they stream, complete answers, failures.

use super::batch::CallPlace;
use super::effect::{CallModel, EffectKind, StepId};
use super::input::{ModelAnswer, StopHere};
use super::state::{About, Attempt, BlockPart, FrameEnd, Phase, Streaming, Turn};
use super::{MachineError, Output};
use crate::error::{ModelError, ModelErrorKind, ToolError, ToolErrorCode};
use crate::event::{AgentPath, EventKind};
use crate::model::{Block, ModelDelta};
use crate::outcome::{ExhaustedReason, TurnError};
use crate::part::{InputKind, NativePart, Part, TextPart};
use crate::time::Timestamp;
use crate::usage::{FinishReason, IterationUsage, Purpose};
use std::sync::Arc;

const EMPTY: &str = "Your last answer was empty. Answer the user, or call a tool.";
const CUT: &str = "Your last answer was cut off by the output limit. Go on exactly where it stopped, and be brief.";
const NUDGE: &str = "This task needs tools, and you have not used enough of them yet. Call the tool that fits now \
instead of describing what you would do.";

impl Turn {
    /// A delta of a model call under way. It becomes an event and part of the message at once; it is not an input of the
    /// journal, since the answer that follows holds all of it.
    ///
    /// # Errors
    /// When the delta does not fit what came before it.
    pub fn delta(
        &mut self,
        at: Timestamp,
        step: StepId,
        delta: ModelDelta<'_>,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let Some(mut pending) = self.pending.remove(&step) else { return Ok(()) };
        let done = match (&pending.effect, &mut pending.about) {
            (EffectKind::CallModel(call), About::Model(streaming))
                if call.purpose != Purpose::Route =>
            {
                let path = self.path(pending.frame)?;
                self.stream(at, &path, call, streaming, delta, out)
            }
            _ => Ok(()),
        };
        self.pending.insert(step, pending);
        done
    }

    fn stream(
        &mut self,
        at: Timestamp,
        path: &AgentPath,
        call: &CallModel,
        streaming: &mut Streaming,
        delta: ModelDelta<'_>,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let message = call.message.clone();
        let iteration = call.iteration;
        let end = self.messages.message(&message)?.parts.len() as u32;
        let fresh = || BlockPart { part: end, bytes: 0, call: None };
        let kind = match delta {
            ModelDelta::Text { block, text } => {
                let at = streaming.blocks.entry(block as u32).or_insert_with(fresh);
                let (part, offset) = (at.part, at.bytes);
                at.bytes += text.len() as u32;
                EventKind::TextDelta { message, part, offset, iteration, text: text.to_owned() }
            }
            ModelDelta::Thinking { block, text } => {
                let at = streaming.blocks.entry(block as u32).or_insert_with(fresh);
                let (part, offset) = (at.part, at.bytes);
                at.bytes += text.len() as u32;
                EventKind::ThinkingDelta { message, part, offset, iteration, text: text.to_owned() }
            }
            ModelDelta::CallStart { block, wire_id, name } => {
                let id = self.spec.turn.call(self.next_call);
                let wire_id = self.unique_wire_id(&message, wire_id)?;
                self.next_call += 1;
                let known = BlockPart { part: end, bytes: 0, call: Some(id.clone()) };
                streaming.blocks.insert(block as u32, known);
                let name = name.into();
                EventKind::ToolCallStarted {
                    message,
                    part: end,
                    iteration,
                    call: id,
                    wire_id,
                    name,
                }
            }
            ModelDelta::CallArguments { block, text } => {
                let Some(at) = streaming.blocks.get_mut(&(block as u32)) else { return Ok(()) };
                let (part, offset) = (at.part, at.bytes);
                let Some(call) = at.call.clone() else { return Ok(()) };
                at.bytes += text.len() as u32;
                EventKind::ToolCallArgsDelta { message, part, call, offset, text: text.to_owned() }
            }
        };
        self.emit_at(at, path, kind, out)
    }

    /// The provider's id where it can serve, else one of ours: two results for one id would be refused by every provider.
    fn unique_wire_id(
        &mut self,
        message: &crate::ids::MessageId,
        given: &str,
    ) -> Result<Arc<str>, MachineError> {
        let ordinal = self.next_call;
        let parts = &self.messages.message(message)?.parts;
        let taken = |id: &str| parts.iter().filter_map(Part::as_call).any(|c| &*c.wire_id == id);
        let mut id = given.to_owned();
        let mut round = 0;
        while id.is_empty() || taken(&id) {
            id = if round == 0 {
                format!("call_{ordinal}")
            } else {
                format!("call_{ordinal}_{round}")
            };
            round += 1;
        }
        Ok(id.into())
    }

    pub(super) fn replay_chunks(
        &mut self,
        step: StepId,
        answer: &ModelAnswer,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let mut done: std::collections::BTreeMap<u32, usize> = std::collections::BTreeMap::new();
        for chunk in &answer.chunks {
            let (block, bytes, at) = (chunk.0, chunk.1 as usize, Timestamp::from_millis(chunk.2));
            let from = *done.get(&block).unwrap_or(&0);
            let index = block as usize;
            let piece = |text: &str| text.get(from..from + bytes).unwrap_or_default().to_owned();
            match answer.response.blocks.get(index) {
                Some(Block::Text { text, .. }) => {
                    let text = piece(text);
                    self.delta(at, step, ModelDelta::Text { block: index, text: &text }, out)?;
                }
                Some(Block::Thinking { text, .. }) => {
                    let text = piece(text);
                    self.delta(at, step, ModelDelta::Thinking { block: index, text: &text }, out)?;
                }
                Some(Block::ToolCall { wire_id, name, .. }) if bytes == 0 => {
                    self.delta(
                        at,
                        step,
                        ModelDelta::CallStart { block: index, wire_id, name },
                        out,
                    )?;
                }
                Some(Block::ToolCall { arguments, .. }) => {
                    let text = piece(arguments);
                    self.delta(
                        at,
                        step,
                        ModelDelta::CallArguments { block: index, text: &text },
                        out,
                    )?;
                }
                Some(Block::Native { .. }) | None => {}
            }
            done.insert(block, from + bytes);
        }
        Ok(())
    }

    pub(super) fn model_done(
        &mut self,
        step: StepId,
        answer: ModelAnswer,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let Some(pending) = self.take(step)? else { return Ok(()) };
        let (EffectKind::CallModel(call), About::Model(streaming)) =
            (pending.effect, pending.about)
        else {
            return Err(MachineError::UnknownStep(step));
        };
        let frame = pending.frame;
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
        self.reconcile(frame, &call, streaming, &answer, out)?;
        let calls = self.calls_of(frame, call.iteration)?;
        if matches!(self.phase, Phase::Stopping { .. }) {
            self.drop_calls(frame, &calls, ToolErrorCode::Cancelled, "the turn was stopped", out)?;
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
            let error = ModelError::new(ModelErrorKind::ContentFilter, message);
            return self.end_frame(frame, FrameEnd::Failed(TurnError::Model(error)), out);
        }
        if let Some(StopHere) = answer.directives.stop {
            self.drop_calls(frame, &calls, ToolErrorCode::Cancelled, "the agent ended here", out)?;
            return self.end_frame(frame, FrameEnd::Done, out);
        }
        if calls.is_empty() {
            self.frame_mut(frame)?.counted += 1;
            self.answered_without_calls(frame, &answer, out)
        } else {
            self.start_batch(frame, call.iteration, calls, &finish, out)
        }
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
        if !says_something {
            if response.finish == FinishReason::Refusal {
                let message = "the model declined to answer and gave no reason";
                let error = ModelError::new(ModelErrorKind::ContentFilter, message);
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
        if response.finish == FinishReason::Length {
            let f = self.frame_mut(frame)?;
            f.cut_answers += 1;
            if f.cut_answers > retries {
                let end = FrameEnd::Exhausted(ExhaustedReason::OutputLimit);
                return self.end_frame(frame, end, out);
            }
            self.insert_input(frame, InputKind::Correction, CUT.to_owned(), out)?;
            return self.next_call(frame, out);
        }
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
        let Some(pending) = self.take(step)? else { return Ok(()) };
        let (EffectKind::CallModel(call), About::Model(streaming)) =
            (pending.effect, pending.about)
        else {
            return Err(MachineError::UnknownStep(step));
        };
        let frame = pending.frame;
        if let Some(answer) = partial.as_ref().filter(|a| !a.response.usage.is_empty()) {
            self.meter(frame, call.iteration, call.purpose, answer, None, out)?;
        }
        let stopping = matches!(self.phase, Phase::Stopping { .. });
        let delay = crate::retry::delay_ms(error.kind, call.attempt, error.retry_after_ms, 0.0);
        if let Some(delay_ms) =
            delay.filter(|_| !stopping && call.attempt < self.spec.limits.model_attempts)
        {
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
            (ToolErrorCode::Cancelled, "the turn was stopped")
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
        let error = match error.kind {
            ModelErrorKind::ContextOverflow => {
                TurnError::ContextOverflow { message: error.to_string() }
            }
            _ => TurnError::Model(error),
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
        if !streaming.blocks.is_empty() {
            // None of the calls in it can have run, since calls run only after a complete answer.
            let reason = format!("the model call failed and is made again: {}", error.message);
            let discard = EventKind::PartsDiscarded {
                message: call.message.clone(),
                keep: streaming.base,
                reason,
            };
            self.emit(&path, discard, out)?;
        }
        let attempt = call.attempt + 1;
        self.emit(&path, EventKind::ModelRetry { attempt, delay_ms, error: error.clone() }, out)?;
        self.frame_mut(frame)?.force_tool = call.force_tool;
        let attempt = Attempt { purpose: call.purpose, number: attempt, after: Some(error) };
        self.call_model(frame, attempt, out)
    }

    /// Makes the message say exactly what the complete answer says, whatever was streamed of it.
    fn reconcile(
        &mut self,
        frame: usize,
        call: &CallModel,
        mut streaming: Streaming,
        answer: &ModelAnswer,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let path = self.path(frame)?;
        for (index, block) in answer.response.blocks.iter().enumerate() {
            let known = streaming.blocks.get(&(index as u32)).cloned();
            match (block, known) {
                (Block::Text { text, native } | Block::Thinking { text, native }, Some(at)) => {
                    self.complete_text(&path, call, &at, text, out)?;
                    self.attach_native(&path, call, at.part, native.as_ref(), out)?;
                }
                (Block::ToolCall { arguments, native, .. }, Some(at)) => {
                    if let Some(rest) = arguments.get(at.bytes as usize..).filter(|r| !r.is_empty())
                    {
                        let delta = ModelDelta::CallArguments { block: index, text: rest };
                        self.stream(self.now, &path, call, &mut streaming, delta, out)?;
                    }
                    self.attach_native(&path, call, at.part, native.as_ref(), out)?;
                }
                (block, None) if streaming.blocks.keys().all(|b| (*b as usize) < index) => {
                    self.append_block(&path, call, &mut streaming, index, block, out)?;
                }
                (block, None) => {
                    self.insert_block(&path, call, &mut streaming, index, block, out)?
                }
                (Block::Native { .. }, Some(_)) => {}
            }
        }
        Ok(())
    }

    /// A block that was not streamed and comes last, as in an answer that came whole.
    fn append_block(
        &mut self,
        path: &AgentPath,
        call: &CallModel,
        streaming: &mut Streaming,
        index: usize,
        block: &Block,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let native = match block {
            Block::Text { text, native } => {
                self.stream(
                    self.now,
                    path,
                    call,
                    streaming,
                    ModelDelta::Text { block: index, text },
                    out,
                )?;
                native
            }
            Block::Thinking { text, native } => {
                let delta = ModelDelta::Thinking { block: index, text };
                self.stream(self.now, path, call, streaming, delta, out)?;
                native
            }
            Block::ToolCall { wire_id, name, arguments, native } => {
                let delta = ModelDelta::CallStart { block: index, wire_id, name };
                self.stream(self.now, path, call, streaming, delta, out)?;
                if !arguments.is_empty() {
                    let delta = ModelDelta::CallArguments { block: index, text: arguments };
                    self.stream(self.now, path, call, streaming, delta, out)?;
                }
                native
            }
            Block::Native { .. } => {
                return self.insert_block(path, call, streaming, index, block, out);
            }
        };
        let part = streaming.blocks.get(&(index as u32)).map(|b| b.part);
        match part {
            Some(part) => self.attach_native(path, call, part, native.as_ref(), out),
            None => Ok(()),
        }
    }

    /// A block that was not streamed and stands before others that were, such as a signature without text.
    fn insert_block(
        &mut self,
        path: &AgentPath,
        call: &CallModel,
        streaming: &mut Streaming,
        index: usize,
        block: &Block,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let iteration = call.iteration;
        let value = match block {
            Block::Text { text, native } => {
                Part::Text(TextPart { iteration, text: text.clone(), native: native.clone() })
            }
            Block::Thinking { text, native } => {
                Part::Thinking(TextPart { iteration, text: text.clone(), native: native.clone() })
            }
            Block::Native { native } => {
                Part::Native(NativePart { iteration, native: native.clone() })
            }
            // Calls always announce themselves in the stream; one that did not is put at the end.
            Block::ToolCall { wire_id, name, arguments, .. } => {
                let delta = ModelDelta::CallStart { block: index, wire_id, name };
                self.stream(self.now, path, call, streaming, delta, out)?;
                let delta = ModelDelta::CallArguments { block: index, text: arguments };
                return self.stream(self.now, path, call, streaming, delta, out);
            }
        };
        let before = streaming.blocks.range(..index as u32).next_back();
        let part = before.map_or(streaming.base, |(_, b)| b.part + 1);
        for (_, later) in streaming.blocks.range_mut(index as u32..) {
            later.part += 1;
        }
        streaming.blocks.insert(index as u32, BlockPart { part, bytes: 0, call: None });
        let added =
            EventKind::PartAdded { message: call.message.clone(), part, value: Box::new(value) };
        self.emit(path, added, out)
    }

    fn complete_text(
        &mut self,
        path: &AgentPath,
        call: &CallModel,
        at: &BlockPart,
        text: &str,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let message = call.message.clone();
        let parts = &self.messages.message(&message)?.parts;
        let streamed = match parts.get(at.part as usize) {
            Some(Part::Text(p) | Part::Thinking(p)) => p.text.as_str(),
            _ => return Ok(()),
        };
        if streamed == text {
            return Ok(());
        }
        self.emit(
            path,
            EventKind::TextReplaced { message, part: at.part, text: text.to_owned() },
            out,
        )
    }

    fn attach_native(
        &mut self,
        path: &AgentPath,
        call: &CallModel,
        part: u32,
        native: Option<&crate::part::Native>,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        match native {
            None => Ok(()),
            Some(native) => {
                let native = Box::new(native.clone());
                let message = call.message.clone();
                self.emit(path, EventKind::PartNative { message, part, native }, out)
            }
        }
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

    fn calls_of(&mut self, frame: usize, iteration: u32) -> Result<Vec<CallPlace>, MachineError> {
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
    fn drop_calls(
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
