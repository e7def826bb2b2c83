//! Before a model call: budgets, what is put to the model, the closing call.

use super::effect::EffectKind;
use super::input::CompactionReport;
use super::state::{About, Attempt, FrameEnd, Turn};
use super::{MachineError, Output, StepId};
use crate::content::Content;
use crate::event::EventKind;
use crate::outcome::ExhaustedReason;
use crate::part::{InputKind, InputPart, Part};
use crate::usage::Purpose;

/// What the model is told at the iteration cap.
const CLOSING: &str = "You have reached the limit of steps for this request and have no tools any more. Answer the \
user now with what you have found and done. Say plainly what is still open.";

impl Turn {
    /// The turn's budget that is used up, if one is.
    pub(super) fn spent_budget(&self) -> Option<ExhaustedReason> {
        let (limits, meters) = (&self.spec.limits, &self.meters);
        let active = meters.active_ms + self.now.since(meters.active_since);
        if meters.new_work >= limits.max_tokens {
            Some(ExhaustedReason::TokenBudget)
        } else if limits.max_cost_micros.is_some_and(|max| meters.cost_micros >= max) {
            Some(ExhaustedReason::Cost)
        } else if active >= limits.max_wall_ms {
            Some(ExhaustedReason::WallTime)
        } else {
            None
        }
    }

    /// How many more model calls the turn can afford, such as for summaries; the closing call is not among them.
    pub fn model_calls_left(&self) -> u32 {
        match self.spent_budget() {
            Some(_) => 0,
            None => self.spec.limits.max_model_calls.saturating_sub(self.meters.model_calls),
        }
    }

    /// The next step of an agent: a model call, the closing call, or the end of its loop.
    pub(super) fn next_call(&mut self, frame: usize, out: &mut Output) -> Result<(), MachineError> {
        if let Some(reason) = self.spent_budget() {
            return self.end_frame(frame, FrameEnd::Exhausted(reason), out);
        }
        if !self.capped(frame)? {
            return self.call_model(frame, Attempt::first(Purpose::Step), out);
        }
        let f = self.frame(frame)?;
        // Only one call may go beyond the turn's cap, so a sub-agent at it leaves the last word to its parent.
        let beyond = self.meters.model_calls > self.spec.limits.max_model_calls;
        let nested =
            f.parent.is_some() && self.meters.model_calls >= self.spec.limits.max_model_calls;
        if f.calls_made == 0 || beyond || nested {
            return self.end_frame(frame, FrameEnd::Exhausted(ExhaustedReason::MaxIterations), out);
        }
        self.frame_mut(frame)?.closing = true;
        self.insert_input(frame, InputKind::Closing, CLOSING.to_owned(), out)?;
        self.call_model(frame, Attempt::first(Purpose::Closing), out)
    }

    /// Whether the agent or the turn has made all the model calls it may.
    fn capped(&self, frame: usize) -> Result<bool, MachineError> {
        let cap = self.agent(frame)?.limits.max_iterations;
        Ok(self.frame(frame)?.counted >= cap
            || self.meters.model_calls >= self.spec.limits.max_model_calls)
    }

    /// Whether the next step of the agent can be an ordinary model call.
    pub(super) fn room_for_call(&self, frame: usize) -> Result<bool, MachineError> {
        Ok(self.spent_budget().is_none() && !self.capped(frame)?)
    }

    /// Puts text to the model after the last model call of the frame.
    pub(super) fn insert_input(
        &mut self,
        frame: usize,
        kind: InputKind,
        text: String,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let iteration = self.frame(frame)?.iteration.saturating_sub(1);
        let part = InputPart {
            iteration,
            kind,
            content: Content::Text(text),
            message: None,
            author: None,
            at: self.now,
        };
        self.insert_part(frame, Part::Input(part), out)
    }

    /// People's messages that came while the turn ran enter now, if the model will still read them; else they open the next
    /// turn. Says whether any entered.
    pub(super) fn insert_steering(
        &mut self,
        frame: usize,
        out: &mut Output,
    ) -> Result<Steered, MachineError> {
        let nested = self.frame(frame)?.parent.is_some();
        if nested || self.steering.is_empty() || !self.room_for_call(frame)? {
            return Ok(Steered::No);
        }
        let iteration = self.frame(frame)?.iteration.saturating_sub(1);
        for message in std::mem::take(&mut self.steering) {
            let part = InputPart {
                iteration,
                kind: InputKind::Steering,
                content: message.content,
                message: Some(message.id),
                author: message.author,
                at: self.now,
            };
            self.insert_part(frame, Part::Input(part), out)?;
        }
        Ok(Steered::Yes)
    }

    pub(super) fn insert_part(
        &mut self,
        frame: usize,
        part: Part,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let index = self.parts_len(frame)?;
        let f = self.frame(frame)?;
        let (message, path) = (f.message.clone(), f.path.clone());
        self.emit(&path, EventKind::PartAdded { message, part: index, value: Box::new(part) }, out)
    }

    /// The history was made to fit; the summary call is metered, the model call goes on.
    pub(super) fn compacted(
        &mut self,
        step: StepId,
        report: CompactionReport,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let Some(pending) = self.under_way(step)? else { return Ok(()) };
        if !matches!(pending.effect, EffectKind::CallModel(_)) {
            return Err(MachineError::UnknownStep(step));
        }
        let frame = pending.frame;
        let path = self.path(frame)?;
        // A process that ended before had not come to the call itself.
        if let Some(About::Model(streaming)) = self.pending.get_mut(&step).map(|p| &mut p.about) {
            streaming.lost.clear();
        }
        if let Some(answer) = report.summary_call {
            self.meters.model_calls += 1;
            let iteration = self.frame(frame)?.iteration;
            self.meter(
                frame,
                iteration,
                Purpose::Summary,
                &answer,
                Some(answer.response.finish.clone()),
                out,
            )?;
        }
        let CompactionReport { note, before, after, .. } = report;
        self.emit(&path, EventKind::ContextCompacted { note, before, after }, out)
    }
}

/// Whether a person's message entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Steered {
    Yes,
    No,
}
