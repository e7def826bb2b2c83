//! Stopping, failing, and taking a turn up again after a crash.

use super::effect::{Effect, EffectKind, ExecuteMode, StepId};
use super::input::{Partial, Superseded};
use super::state::{About, CallState, FrameEnd, Pending, Phase, Turn};
use super::{MachineError, Output};
use crate::error::{ModelError, ModelErrorKind, ToolError, ToolErrorCode};
use crate::event::EventKind;
use crate::ids::CallId;
use crate::message::{CardStatus, Decided, SystemBody, SystemMessage};
use crate::outcome::{AbortReason, Outcome, TurnError};
use crate::time::Timestamp;
use crate::tool::SideEffect;

impl Turn {
    pub(super) fn cancel(
        &mut self,
        superseded: Superseded,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let (reason, code, card, why) = match superseded {
            Superseded::No => {
                let why = "The turn was stopped before this ran.";
                (AbortReason::Stopped, ToolErrorCode::Cancelled, CardStatus::Cancelled, why)
            }
            Superseded::ByMessage => {
                let why = "The user wrote a new message instead of deciding, so this did not run.";
                (AbortReason::Superseded, ToolErrorCode::Superseded, CardStatus::Superseded, why)
            }
        };
        match self.phase {
            Phase::Ended { .. } | Phase::Finalizing { .. } => return Err(MachineError::Ended),
            Phase::Stopping { .. } => return Ok(()),
            Phase::New => self.open_message(out)?,
            Phase::Running | Phase::Paused => self.unpause(out)?,
        }
        self.phase = Phase::Stopping { outcome: Outcome::Aborted { reason } };
        // Checks have no effect and their answers are not awaited; what runs is brought to an end by the driver.
        self.pending.retain(|_, p| !matches!(p.effect, EffectKind::Prepare(_)));
        for frame in 0..self.frames.len() {
            let open: Vec<_> = self
                .frame(frame)?
                .batch
                .iter()
                .filter(|c| {
                    !matches!(
                        c.state,
                        CallState::Settled { .. } | CallState::Running | CallState::Nested
                    )
                })
                .cloned()
                .collect();
            for entry in open {
                if let CallState::Waiting { shown: true, .. } = entry.state {
                    self.cancel_card(frame, &entry.call, card, out)?;
                }
                let error = ToolError::new(code, why);
                self.emit_failed(frame, entry.part, &entry.call, error, None, out)?;
                self.set_state(frame, &entry.call, CallState::Settled { success: false })?;
            }
        }
        self.check_stopped(out)
    }

    fn cancel_card(
        &mut self,
        frame: usize,
        call: &CallId,
        status: CardStatus,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let open = |c: &SystemMessage| matches!(&c.body, SystemBody::Approval(card) if card.status == CardStatus::Pending);
        if !self.cards_of(call).any(open) {
            return Ok(());
        }
        let decided = Decided::alone(self.now);
        self.emit_decided(frame, call, status, decided, out)
    }

    /// Why calls of a stopped turn do not run.
    pub(super) const fn why_stopped(&self) -> &'static str {
        match &self.phase {
            Phase::Stopping { outcome: Outcome::Error { .. } } => "the turn failed",
            _ => "the turn was stopped",
        }
    }

    /// Ends a stopped turn once nothing is under way any more.
    pub(super) fn check_stopped(&mut self, out: &mut Output) -> Result<(), MachineError> {
        let Phase::Stopping { outcome } = &self.phase else { return Ok(()) };
        let outcome = outcome.clone();
        if !self.pending.is_empty() {
            return Ok(());
        }
        // Innermost first, so that a nested message is final before the call that holds it.
        for frame in (0..self.frames.len()).rev() {
            self.abandon_frame(frame, &outcome, out)?;
        }
        self.finalize(outcome, out)
    }

    /// `last` is when the process that ended was last heard of.
    pub(super) fn recover(
        &mut self,
        last: Timestamp,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        self.epoch += 1;
        match self.phase {
            Phase::New | Phase::Paused | Phase::Ended { .. } => return Ok(()),
            Phase::Running | Phase::Stopping { .. } | Phase::Finalizing { .. } => {}
        }
        // The time nobody worked on the turn is not the turn's.
        self.meters.active_ms += last.since(self.meters.active_since);
        self.meters.active_since = self.now;
        let stopping = matches!(self.phase, Phase::Stopping { .. });
        let steps: Vec<_> = self.pending.keys().copied().collect();
        self.void_streamed(&steps, "the process ended while the model answered", out)?;
        self.emit_resumed(out)?;
        for step in steps {
            let Some(mut pending) = self.pending.remove(&step) else { continue };
            let frame = pending.frame;
            match &mut pending.effect {
                EffectKind::CallModel(_) if stopping => continue,
                EffectKind::CallModel(_) => {
                    let mut streaming = self.new_streaming(frame)?;
                    if let About::Model(before) = &mut pending.about {
                        streaming.lost = std::mem::take(&mut before.lost);
                        // The call was stored before it was made, and so was what is known of one that was given up.
                        if !before.forgone {
                            streaming.lost.push(self.epoch - 1);
                        }
                    }
                    pending.about = About::Model(streaming);
                }
                EffectKind::Execute(run) => {
                    let traits = self.agent(frame)?.tool(&run.tool);
                    let effect = traits.map_or(SideEffect::AtMostOnce, |t| t.effect);
                    let repeatable = effect != SideEffect::AtMostOnce && !stopping;
                    if run.mode == ExecuteMode::Real && !repeatable {
                        run.mode = ExecuteMode::Recover;
                    }
                }
                EffectKind::Prepare(_) | EffectKind::Settle(_) | EffectKind::Finalize { .. } => {}
            }
            let f = self.frame(frame)?;
            out.effects.push(Effect {
                step,
                agent: f.agent.clone(),
                path: f.path.clone(),
                kind: pending.effect.clone(),
            });
            self.pending.insert(step, pending);
        }
        self.check_stopped(out)
    }

    /// Tells who answers now.
    pub(super) fn model_replaced(
        &mut self,
        from: String,
        to: String,
        reason: String,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        if let Phase::Ended { .. } = self.phase {
            return Err(MachineError::Ended);
        }
        let path = self.speaker();
        self.emit(&path, EventKind::ModelReplaced { from, to, reason }, out)
    }

    /// Takes back what was streamed of answers that will never come whole.
    fn void_streamed(
        &mut self,
        steps: &[StepId],
        reason: &str,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        for step in steps {
            let Some(Pending { frame, about: About::Model(streaming), .. }) =
                self.pending.get(step).map(|pending| (**pending).clone())
            else {
                continue;
            };
            self.unstream(frame, &streaming, reason.to_owned(), out)?;
        }
        Ok(())
    }

    /// The driver cannot go on: everything open is settled and the turn ends with the error.
    pub(super) fn fault(
        &mut self,
        error: TurnError,
        partials: Vec<Partial>,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        match self.phase {
            Phase::Ended { .. } => return Err(MachineError::Ended),
            Phase::Finalizing { .. } => {
                self.pending.clear();
                return self.finish(Outcome::Error { error }, out);
            }
            Phase::New => self.open_message(out)?,
            Phase::Running | Phase::Paused | Phase::Stopping { .. } => self.unpause(out)?,
        }
        self.phase = Phase::Stopping { outcome: Outcome::Error { error } };
        // Nothing of an answer that the journal does not hold may stay: a replay could not tell it.
        let told = |step: &StepId| partials.iter().any(|partial| partial.step == *step);
        let untold: Vec<_> = self.pending.keys().copied().filter(|step| !told(step)).collect();
        self.void_streamed(&untold, "the turn ended while the model answered", out)?;
        self.pending.retain(|step, _| told(step));
        for Partial { step, answer } in partials {
            let error = ModelError::new(ModelErrorKind::Cancelled, "the turn ended");
            self.model_failed(step, error, Some(*answer), out)?;
        }
        self.check_stopped(out)
    }

    /// Settles whatever a frame still has open.
    fn abandon_frame(
        &mut self,
        frame: usize,
        outcome: &Outcome,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let open: Vec<_> = self
            .frame(frame)?
            .batch
            .iter()
            .filter(|c| !matches!(c.state, CallState::Settled { .. }))
            .cloned()
            .collect();
        for entry in open {
            let error = match &entry.state {
                CallState::Running => {
                    let why = "The turn ended while this ran; whether it took effect is not known.";
                    ToolError::new(ToolErrorCode::OutcomeUnknown, why)
                }
                _ => {
                    ToolError::new(ToolErrorCode::Cancelled, "The turn ended before this was done.")
                }
            };
            if let CallState::Waiting { shown: true, .. } = entry.state {
                self.cancel_card(frame, &entry.call, CardStatus::Cancelled, out)?;
            }
            self.emit_failed(frame, entry.part, &entry.call, error, None, out)?;
        }
        self.frame_mut(frame)?.batch.clear();
        if self.frame(frame)?.ended.is_none() {
            self.frame_mut(frame)?.ended = Some(FrameEnd::Done);
            self.apply_policy(frame, out)?;
            self.close_child_message(frame, outcome.clone(), out)?;
        }
        Ok(())
    }

    /// Whether a steering message has come already: it waits, or entered the message.
    pub fn knows_message(&self, id: &crate::ids::MessageId) -> bool {
        let entered = |part: &crate::part::Part| match part {
            crate::part::Part::Input(input) => input.message.as_ref() == Some(id),
            _ => false,
        };
        self.steering.iter().any(|m| m.id == *id)
            || self.message().is_some_and(|m| m.parts.iter().any(entered))
    }
}
