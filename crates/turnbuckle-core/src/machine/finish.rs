//! The end: of an agent's loop, of a nested turn, of the turn.

use super::effect::EffectKind;
use super::input::{FinalChanges, NewTitle};
use super::spec::{DataPolicy, Keep};
use super::state::{About, CallState, FrameEnd, Phase, Turn};
use super::valves::{normal_text, restated};
use super::{MachineError, Output, StepId};
use crate::error::{ToolError, ToolErrorCode};
use crate::event::{AgentPath, EventKind};
use crate::ids::MessageId;
use crate::message::{AssistantMessage, MessageState};
use crate::outcome::{ExhaustedReason, Outcome};
use crate::part::Part;
use crate::usage::Purpose;
use serde_json::Value;
use std::sync::Arc;

impl Turn {
    /// An agent's loop is over: the route goes on, the parent's call gets its result, or the turn ends.
    pub(super) fn end_frame(
        &mut self,
        frame: usize,
        end: FrameEnd,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let name = self.frame(frame)?.agent.clone();
        let path = self.path(frame)?;
        self.frame_mut(frame)?.ended = Some(end.clone());
        self.drop_restated(frame, out)?;
        let answer = self.last_text(frame)?;
        self.apply_policy(frame, out)?;
        self.emit(&path, EventKind::AgentCompleted { name }, out)?;
        if self.frame(frame)?.parent.is_some() {
            return self.end_child(frame, &end, answer, out);
        }
        match end {
            FrameEnd::Done => {
                let next = self.route_index(frame) + 1;
                if next < self.route.len() {
                    let iteration = self.frame(frame)?.iteration;
                    return self.start_agent_of_route(next, iteration, out);
                }
                self.finalize(Outcome::Completed, out)
            }
            FrameEnd::Exhausted(reason) => self.finalize(Outcome::Exhausted { reason }, out),
            FrameEnd::Failed(error) => self.finalize(Outcome::Error { error }, out),
        }
    }

    fn end_child(
        &mut self,
        frame: usize,
        end: &FrameEnd,
        answer: String,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let outcome = match end {
            FrameEnd::Done => Outcome::Completed,
            FrameEnd::Exhausted(reason) => Outcome::Exhausted { reason: *reason },
            FrameEnd::Failed(error) => Outcome::Error { error: error.clone() },
        };
        self.close_child_message(frame, outcome, out)?;
        let Some(parent) = self.frame(frame)?.parent.clone() else { return Ok(()) };
        let entry = self.frame(parent.frame)?.batch.iter().find(|c| c.call == parent.call);
        let Some(part) = entry.map(|e| e.part) else { return Ok(()) };
        let failure = match end {
            FrameEnd::Done => None,
            // A sub-agent that ran out of steps but still gave its closing answer has an answer.
            FrameEnd::Exhausted(ExhaustedReason::MaxIterations) if !answer.is_empty() => None,
            FrameEnd::Exhausted(reason) => {
                let reason = serde_json::to_value(reason).unwrap_or_default();
                let reason = reason.as_str().unwrap_or("a limit");
                Some(ToolError::new(
                    ToolErrorCode::Failed,
                    format!("The sub-agent ended early: {reason}."),
                ))
            }
            FrameEnd::Failed(error) => {
                Some(ToolError::failed(format!("The sub-agent failed: {error}")))
            }
        };
        let Some(error) = failure else {
            return self.settle(parent.frame, &parent.call, Arc::new(Value::String(answer)), out);
        };
        let output = (!answer.is_empty()).then(|| Arc::new(Value::String(answer)));
        self.emit_failed(parent.frame, part, &parent.call, error, output, out)?;
        self.set_state(parent.frame, &parent.call, CallState::Settled { success: false })?;
        self.advance_batch(parent.frame, out)
    }

    /// A nested message becomes final.
    pub(super) fn close_child_message(
        &mut self,
        frame: usize,
        outcome: Outcome,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let f = self.frame(frame)?;
        if f.parent.is_none() {
            return Ok(());
        }
        let (id, path) = (f.message.clone(), f.path.clone());
        let mut message = self.messages.message(&id)?.clone();
        message.state = MessageState::Finished { outcome };
        self.emit(&path, EventKind::AssistantMessageFinished { message: Arc::new(message) }, out)
    }

    fn message_of(&mut self, frame: usize) -> Result<&mut AssistantMessage, MachineError> {
        let id = self.frame(frame)?.message.clone();
        Ok(self.messages.message(&id)?)
    }

    /// The text of the agent's last answer that has any.
    fn last_text(&mut self, frame: usize) -> Result<String, MachineError> {
        let first = self.frame(frame)?.first_part as usize;
        let parts = &self.message_of(frame)?.parts;
        let mine = parts.get(first..).unwrap_or_default();
        let last = mine.iter().rev().find(|p| p.as_text().is_some()).map(Part::iteration);
        let texts = mine.iter().filter(|p| Some(p.iteration()) == last).filter_map(Part::as_text);
        Ok(texts.collect::<Vec<_>>().join("\n\n"))
    }

    fn drop_restated(&mut self, frame: usize, out: &mut Output) -> Result<(), MachineError> {
        let path = self.path(frame)?;
        let message = self.frame(frame)?.message.clone();
        let texts: Vec<(u32, String)> = self
            .message_of(frame)?
            .parts
            .iter()
            .enumerate()
            .filter_map(|(i, part)| part.as_text().map(|t| (i as u32, t.to_owned())))
            .collect();
        let texts: Vec<(u32, &str)> = texts.iter().map(|(i, t)| (*i, t.as_str())).collect();
        let restated = restated(&texts);
        self.drop_parts(frame, &path, &message, &restated, out)
    }

    /// A loop that repeated itself said the same again and again; it stands once.
    pub(super) fn drop_repeated(
        &mut self,
        frame: usize,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let first = self.frame(frame)?.first_part as usize;
        let (path, message) = (self.path(frame)?, self.frame(frame)?.message.clone());
        let parts = self.message_of(frame)?.parts.iter().enumerate().skip(first);
        let texts: Vec<(u32, String)> =
            parts.filter_map(|(i, p)| p.as_text().map(|t| (i as u32, normal_text(t)))).collect();
        let again = |(at, text): &&(u32, String)| texts.iter().any(|(i, t)| i > at && t == text);
        let repeated: Vec<u32> = texts.iter().filter(again).map(|(i, _)| *i).collect();
        self.drop_parts(frame, &path, &message, &repeated, out)
    }

    fn drop_parts(
        &mut self,
        frame: usize,
        path: &AgentPath,
        message: &MessageId,
        parts: &[u32],
        out: &mut Output,
    ) -> Result<(), MachineError> {
        for part in parts.iter().rev().copied() {
            let f = self.frame_mut(frame)?;
            // Texts of earlier agents of the route may be among them.
            f.first_part -= u32::from(part < f.first_part);
            self.emit(path, EventKind::PartDropped { message: message.clone(), part }, out)?;
        }
        Ok(())
    }

    /// What the agent's policy forbids to store is removed now that the agent is done.
    pub(super) fn apply_policy(
        &mut self,
        frame: usize,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let policy = self.agent(frame)?.policy.clone();
        if policy == DataPolicy::default() {
            return Ok(());
        }
        let path = self.path(frame)?;
        let message = self.frame(frame)?.message.clone();
        let first = self.frame(frame)?.first_part;
        let parts: Vec<(u32, Fate)> = self
            .message_of(frame)?
            .parts
            .iter()
            .enumerate()
            .map(|(i, part)| (i as u32, fate(part, &policy)))
            .filter(|(i, fate)| *i >= first && *fate != Fate::Stays)
            .collect();
        for (part, fate) in parts.into_iter().rev() {
            let message = message.clone();
            let event = match fate {
                Fate::Goes => EventKind::PartDropped { message, part },
                Fate::LosesResult | Fate::Stays => EventKind::ResultDropped { message, part },
            };
            self.emit(&path, event, out)?;
        }
        Ok(())
    }

    /// The loop is over; the domain's end-of-turn hooks run before the terminal event.
    pub(super) fn finalize(
        &mut self,
        outcome: Outcome,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        self.phase = Phase::Finalizing { outcome: outcome.clone() };
        let last = self.frames.iter().rposition(|f| f.parent.is_none());
        match last {
            Some(frame) => {
                self.ask(frame, EffectKind::Finalize { outcome }, About::End, out);
                Ok(())
            }
            None => self.finish(outcome, out),
        }
    }

    pub(super) fn finalized(
        &mut self,
        step: StepId,
        changes: FinalChanges,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let fits = |e: &EffectKind| matches!(e, EffectKind::Finalize { .. });
        let Some(pending) = self.take(step, fits)? else { return Ok(()) };
        let EffectKind::Finalize { outcome } = pending.effect else {
            return Err(MachineError::UnknownStep(step));
        };
        let path = self.path(pending.frame)?;
        let message = self.spec.turn.assistant_message();
        for (part, text) in changes.texts {
            let parts = &self.messages.message(&message)?.parts;
            let known = parts.get(part as usize).and_then(Part::as_text);
            if known.is_some_and(|known| known != text) {
                let event = EventKind::TextReplaced { message: message.clone(), part, text };
                self.emit(&path, event, out)?;
            }
        }
        if !changes.link_snapshots.is_empty() {
            let snapshots = changes.link_snapshots;
            self.emit(&path, EventKind::LinkSnapshots { message, snapshots }, out)?;
        }
        if let Some(NewTitle { title, call }) = changes.title {
            if let Some(answer) = call {
                let iteration = self.frame(pending.frame)?.iteration;
                let finish = Some(answer.response.finish.clone());
                self.meters.model_calls += 1;
                self.meter(pending.frame, iteration, Purpose::Title, &answer, finish, out)?;
            }
            self.emit(&path, EventKind::SessionTitleUpdated { title }, out)?;
        }
        self.finish(outcome, out)
    }

    /// The final events.
    pub(super) fn finish(
        &mut self,
        outcome: Outcome,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        self.meters.active_ms += self.now.since(self.meters.active_since);
        self.phase = Phase::Ended { outcome: outcome.clone() };
        let path = self.speaker();
        if let Some(message) = &self.messages.assistant {
            let mut message = message.clone();
            message.state = MessageState::Finished { outcome: outcome.clone() };
            let event = EventKind::AssistantMessageFinished { message: Arc::new(message) };
            self.emit(&path, event, out)?;
        }
        let usage = Box::new(self.meters.usage);
        let event = match outcome {
            Outcome::Completed | Outcome::Paused => EventKind::TurnCompleted { usage },
            Outcome::Exhausted { reason } => EventKind::TurnExhausted { reason, usage },
            Outcome::Error { error } => EventKind::TurnError { error, usage },
            Outcome::Aborted { reason } => EventKind::TurnAborted { reason, usage },
        };
        self.emit(&path, event, out)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Stays,
    LosesResult,
    Goes,
}

fn fate(part: &Part, policy: &DataPolicy) -> Fate {
    match part {
        Part::Text(_) | Part::Thinking(_) if policy.text == Keep::No => Fate::Goes,
        Part::ToolCall(call) if !policy.calls.keeps(&call.name) => Fate::Goes,
        Part::ToolCall(call) if !policy.results.keeps(&call.name) => Fate::LosesResult,
        _ => Fate::Stays,
    }
}
