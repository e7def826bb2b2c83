//! The calls of a batch: run in parallel within bounds, settled one by one; and what follows when all have their results.

use super::call_model::Steered;
use super::effect::{EffectKind, ExecuteCall, ExecuteMode, SettleCall, StepId};
use super::input::{Directives, ExecuteResult};
use super::state::{About, BatchCall, CallState, FrameEnd, Phase, Turn};
use super::valves::{IterationShape, StreakVerdict, is_empty_result};
use super::{MachineError, Output};
use crate::error::ToolError;
use crate::event::{CallProgress, CallResult, EventKind};
use crate::ids::{CallId, ToolName};
use crate::json::{Json, canonical};
use crate::outcome::ExhaustedReason;
use crate::part::{InputKind, Part};
use crate::tool::{AfterSuccess, Overlap, RunsOn, SideEffect, ToolTraits};
use serde_json::Value;

impl Turn {
    /// Starts what may start, and ends the batch when every call has its result.
    pub(super) fn advance_batch(
        &mut self,
        frame: usize,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        if let Phase::Stopping { .. } = self.phase {
            return self.check_stopped(out);
        }
        let preparing = |c: &BatchCall| matches!(c.state, CallState::Preparing);
        if self.frame(frame)?.batch.iter().any(preparing) {
            return Ok(());
        }
        self.start_queued(frame, out)?;
        self.start_elsewhere(frame, out)?;
        let f = self.frame(frame)?;
        // A nested turn that ended at once may have ended this batch already.
        if f.ended.is_some() || f.batch.is_empty() {
            return Ok(());
        }
        if f.batch.iter().all(|c| matches!(c.state, CallState::Settled { .. })) {
            return self.finish_batch(frame, out);
        }
        self.pause_if_quiet(out)
    }

    /// What ended here may have held up calls of other agents that run beside this one.
    fn start_elsewhere(&mut self, here: usize, out: &mut Output) -> Result<(), MachineError> {
        for frame in (0..self.frames.len()).filter(|f| *f != here) {
            let batch = &self.frame(frame)?.batch;
            let ready = batch.iter().any(|c| matches!(c.state, CallState::Queued { .. }))
                && !batch.iter().any(|c| matches!(c.state, CallState::Preparing));
            if !ready {
                continue;
            }
            self.start_queued(frame, out)?;
            let batch = &self.frame(frame)?.batch;
            let done = batch.iter().all(|c| matches!(c.state, CallState::Settled { .. }));
            if done && !batch.is_empty() {
                self.finish_batch(frame, out)?;
            }
        }
        Ok(())
    }

    /// Whether a call must wait for what runs: for a free place, or because one of them runs alone.
    fn must_wait(&self, frame: usize, traits: &ToolTraits) -> Result<bool, MachineError> {
        let limit = self.spec.limits.tool_concurrency.max(1);
        let exclusive = |t: &ToolTraits| t.overlap == Overlap::Exclusive;
        // Beside its siblings, sub-agents included.
        let batch = &self.frame(frame)?.batch;
        let beside =
            batch.iter().filter(|c| matches!(c.state, CallState::Running | CallState::Nested));
        let siblings: Vec<_> = beside.map(|c| self.traits(frame, &c.tool)).collect();
        if siblings.len() >= limit
            || (exclusive(traits) && !siblings.is_empty())
            || siblings.iter().flatten().any(|t| exclusive(t))
        {
            return Ok(true);
        }
        if matches!(traits.runs_on, RunsOn::Agent(_)) {
            return Ok(false);
        }
        // Beside whatever executes in the turn. Sub-agents do not count here: they wait for their own calls.
        let mut running = 0;
        for pending in self.pending.values() {
            let EffectKind::Execute(run) = &pending.effect else { continue };
            running += 1;
            if self.traits(pending.frame, &run.tool).is_some_and(exclusive) {
                return Ok(true);
            }
        }
        Ok(running >= limit || (exclusive(traits) && running > 0))
    }

    fn start_queued(&mut self, frame: usize, out: &mut Output) -> Result<(), MachineError> {
        let mut index = 0;
        while let Some(entry) = self.frame(frame)?.batch.get(index) {
            index += 1;
            let CallState::Queued { args, mode, reason, warnings } = entry.state.clone() else {
                continue;
            };
            let (call, part, tool) = (entry.call.clone(), entry.part, entry.tool.clone());
            let Some(traits) = self.traits(frame, &tool).cloned() else { continue };
            // Later calls do not overtake one that waits, or one that must run alone might wait for ever.
            if self.must_wait(frame, &traits)? {
                break;
            }
            // Only now, since a sibling before this call may have written.
            if traits.effect == SideEffect::ReadOnly
                && let Some(hit) = self.cache.results.get(&cache_key(&tool, &args))
            {
                let result = Box::new(CallResult { cached: true, ..(**hit).clone() });
                self.emit_completed(frame, part, &call, result, out)?;
                self.set_state(frame, &call, CallState::Settled { success: true })?;
                continue;
            }
            self.emit_status(frame, part, &call, CallProgress::Running, None, None, out)?;
            if let (RunsOn::Agent(agent), ExecuteMode::Real) = (&traits.runs_on, mode) {
                self.set_state(frame, &call, CallState::Nested)?;
                if let Err(why) = self.start_child(frame, &call, agent, &args, out) {
                    self.emit_failed(frame, part, &call, ToolError::failed(why), None, out)?;
                    self.set_state(frame, &call, CallState::Settled { success: false })?;
                }
                continue;
            }
            if traits.effect != SideEffect::ReadOnly {
                self.note_write();
            }
            self.set_state(frame, &call, CallState::Running)?;
            let about = About::Call { part, call: call.clone(), writes: self.cache.writes };
            let effect =
                EffectKind::Execute(ExecuteCall { call, tool, args, mode, reason, warnings });
            self.ask(frame, effect, about, out);
        }
        Ok(())
    }

    pub(super) fn progress(
        &mut self,
        step: StepId,
        data: Json,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let Some(pending) = self.under_way(step)? else { return Ok(()) };
        let About::Call { part, call, .. } = &pending.about else {
            return Err(MachineError::UnknownStep(step));
        };
        let (frame, part, call) = (pending.frame, *part, call.clone());
        let message = self.frame(frame)?.message.clone();
        let path = self.path(frame)?;
        self.emit(&path, EventKind::ToolCallProgress { message, part, call, data }, out)
    }

    /// A call ran elsewhere: what it gave is made its result.
    pub(super) fn settle(
        &mut self,
        frame: usize,
        call: &CallId,
        output: Json,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let entry = self.frame(frame)?.batch.iter().find(|c| c.call == *call);
        let Some((part, tool)) = entry.map(|e| (e.part, e.tool.clone())) else { return Ok(()) };
        let message = self.frame(frame)?.message.clone();
        let parts = &self.messages.message(&message)?.parts;
        let args = parts.get(part as usize).and_then(Part::as_call).and_then(|c| c.args.clone());
        self.set_state(frame, call, CallState::Running)?;
        let about = About::Call { part, call: call.clone(), writes: self.cache.writes };
        let (call, args) = (call.clone(), args.unwrap_or_default());
        self.ask(frame, EffectKind::Settle(SettleCall { call, tool, args, output }), about, out);
        Ok(())
    }

    pub(super) fn executed(
        &mut self,
        step: StepId,
        mut result: ExecuteResult,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let Some(pending) = self.take(step, |e| e.results_of().is_some())? else {
            return Ok(());
        };
        let About::Call { part, call, writes } = pending.about else {
            return Err(MachineError::UnknownStep(step));
        };
        let frame = pending.frame;
        if let EffectKind::Execute(run) = &pending.effect {
            self.note_execution(frame, run, writes, &mut result);
        }
        let success = match result {
            ExecuteResult::Success { result, directives } => {
                self.emit_completed(frame, part, &call, Box::new(result), out)?;
                self.follow(frame, &call, directives, out)?;
                true
            }
            ExecuteResult::Failure { error, output } => {
                self.emit_failed(frame, part, &call, error, output, out)?;
                false
            }
        };
        self.set_state(frame, &call, CallState::Settled { success })?;
        self.advance_batch(frame, out)
    }

    /// What a result means for the calls to come: of the cache, and of calls like this one.
    fn note_execution(
        &mut self,
        frame: usize,
        run: &ExecuteCall,
        writes: u32,
        result: &mut ExecuteResult,
    ) {
        let reads = self.effect_of(frame, &run.tool) == SideEffect::ReadOnly;
        if !reads {
            self.note_write();
        }
        match result {
            ExecuteResult::Success { result, .. } => {
                if let ExecuteMode::Capture { .. } = run.mode {
                    result.captured = true;
                }
                if reads && writes == self.cache.writes {
                    let key = cache_key(&run.tool, &run.args);
                    self.cache.results.insert(key, Box::new(result.clone()));
                }
                // What only writes often has nothing to say.
                if reads && is_empty_result(&result.output) {
                    self.ledger.fruitless(&run.tool, &run.args);
                }
            }
            ExecuteResult::Failure { .. } => self.ledger.fruitless(&run.tool, &run.args),
        }
    }

    /// Tells that references to outputs of before lead nowhere now.
    pub(super) fn context_dropped(
        &mut self,
        cap: u64,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        if let Phase::Ended { .. } = self.phase {
            return Err(MachineError::Ended);
        }
        let path = self.speaker();
        self.emit(&path, EventKind::ContextOverflowed { cap }, out)
    }

    fn follow(
        &mut self,
        frame: usize,
        call: &CallId,
        directives: Directives,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let path = self.path(frame)?;
        if let Some(plan) = directives.plan {
            self.emit(&path, EventKind::PlanUpdated { plan }, out)?;
        }
        if let Some((task, reference)) = directives.task {
            self.emit(&path, EventKind::TaskStarted { call: call.clone(), task, reference }, out)?;
        }
        if let Some(cap) = directives.context_dropped {
            self.emit(&path, EventKind::ContextOverflowed { cap }, out)?;
        }
        let f = self.frame_mut(frame)?;
        f.context.extend(directives.add_context);
        if directives.force_tool.is_some() {
            f.force_tool = directives.force_tool;
        }
        Ok(())
    }

    fn finish_batch(&mut self, frame: usize, out: &mut Output) -> Result<(), MachineError> {
        let f = self.frame_mut(frame)?;
        let batch = std::mem::take(&mut f.batch);
        let text = std::mem::take(&mut f.batch_text);
        let context = std::mem::take(&mut f.context);
        let exhausted = f.exhausted.take();
        let message = f.message.clone();
        let parts = &self.messages.message(&message)?.parts;
        let settled: Vec<_> = batch
            .iter()
            .filter_map(|c| {
                parts.get(c.part as usize).and_then(Part::as_call).map(|p| (&c.tool, p))
            })
            .collect();
        let shape = IterationShape::new(
            settled.iter().map(|(tool, p)| (*tool, p.args.as_ref(), p.error.as_ref())),
            &text,
        );
        let terminal = batch.iter().all(|c| {
            let ends = self
                .traits(frame, &c.tool)
                .is_some_and(|t| t.after_success == AfterSuccess::EndsTurn);
            ends && c.state == CallState::Settled { success: true }
        });
        let (failing, repeating) =
            (self.spec.limits.failure_streak, self.spec.limits.success_streak);
        let verdict = self.frame_mut(frame)?.streaks.observe(shape, failing, repeating);
        for text in context {
            self.insert_input(frame, InputKind::Context, text, out)?;
        }
        if let Some(reason) = exhausted {
            return self.end_frame(frame, FrameEnd::Exhausted(reason), out);
        }
        if verdict == StreakVerdict::Failing {
            let end = FrameEnd::Exhausted(ExhaustedReason::ToolFailureStreak);
            return self.end_frame(frame, end, out);
        }
        let listens = self.insert_steering(frame, out)? == Steered::Yes;
        if !listens && (terminal || verdict == StreakVerdict::Repeating) {
            if verdict == StreakVerdict::Repeating {
                self.drop_repeated(frame, out)?;
            }
            return self.end_frame(frame, FrameEnd::Done, out);
        }
        self.next_call(frame, out)
    }

    pub(super) fn effect_of(&self, frame: usize, tool: &ToolName) -> SideEffect {
        self.traits(frame, tool).map_or(SideEffect::AtMostOnce, |t| t.effect)
    }

    pub(super) fn note_write(&mut self) {
        self.cache.results.clear();
        self.cache.writes += 1;
    }
}

fn cache_key(tool: &ToolName, args: &Value) -> String {
    format!("{tool}\u{0}{}", canonical(args))
}
