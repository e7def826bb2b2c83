//! Deltas of a model call: each becomes an event and part of the message at once.

use super::effect::{CallModel, EffectKind, StepId};
use super::state::{About, BlockPart, Pending, Streaming, Turn};
use super::{MachineError, Output};
use crate::event::EventKind;
use crate::ids::CallId;
use crate::model::{Block, ModelDelta};
use crate::part::Part;
use crate::time::Timestamp;
use crate::usage::Purpose;
use std::sync::Arc;

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
                self.stream(at, pending.frame, call, streaming, delta, out)
            }
            _ => Ok(()),
        };
        self.pending.insert(step, pending);
        done
    }

    /// What has come of a model call under way, by block. A block of which nothing came is an empty text.
    pub fn arrived(&self, step: StepId) -> Vec<Block> {
        let Some(Pending { effect: EffectKind::CallModel(call), about: About::Model(at), .. }) =
            self.pending.get(&step).map(|pending| &**pending)
        else {
            return Vec::new();
        };
        let parts = self.messages.get(&call.message).map(|m| m.parts.as_slice());
        let parts = parts.unwrap_or_default();
        let mut blocks = Vec::new();
        for (index, known) in &at.blocks {
            let block = match parts.get(known.part as usize) {
                Some(Part::Text(part)) => Block::Text { text: part.text.clone(), native: None },
                Some(Part::Thinking(part)) => {
                    Block::Thinking { text: part.text.clone(), native: None }
                }
                Some(Part::ToolCall(part)) => Block::ToolCall {
                    wire_id: part.wire_id.to_string(),
                    name: part.name.to_string(),
                    arguments: part.arguments.clone(),
                    native: None,
                },
                _ => continue,
            };
            blocks.resize(*index as usize, Block::Text { text: String::new(), native: None });
            blocks.push(block);
        }
        blocks
    }

    pub(super) fn stream(
        &mut self,
        at: Timestamp,
        frame: usize,
        call: &CallModel,
        streaming: &mut Streaming,
        delta: ModelDelta<'_>,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        streaming.since = streaming.since.max(at);
        let at = streaming.since;
        let message = call.message.clone();
        let iteration = call.iteration;
        let end = self.messages.message(&message)?.parts.len() as u32;
        let fresh = || BlockPart { part: end, bytes: 0, call: None };
        let kind = match delta {
            ModelDelta::Text { block, text } => {
                let known = streaming.blocks.entry(block as u32).or_insert_with(fresh);
                let (part, offset) = (known.part, known.bytes);
                known.bytes += text.len() as u32;
                EventKind::TextDelta { message, part, offset, iteration, text: text.to_owned() }
            }
            ModelDelta::Thinking { block, text } => {
                let known = streaming.blocks.entry(block as u32).or_insert_with(fresh);
                let (part, offset) = (known.part, known.bytes);
                known.bytes += text.len() as u32;
                EventKind::ThinkingDelta { message, part, offset, iteration, text: text.to_owned() }
            }
            ModelDelta::CallStart { block, wire_id, name } => {
                let (id, ordinal) = self.mint_call(frame)?;
                let wire_id = self.unique_wire_id(&message, wire_id, ordinal)?;
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
                let Some(known) = streaming.blocks.get_mut(&(block as u32)) else { return Ok(()) };
                let (part, offset) = (known.part, known.bytes);
                let Some(call) = known.call.clone() else { return Ok(()) };
                known.bytes += text.len() as u32;
                EventKind::ToolCallArgsDelta { message, part, call, offset, text: text.to_owned() }
            }
        };
        let path = self.path(frame)?;
        self.emit_at(at, &path, kind, out)
    }

    /// The id and the ordinal of the next call of a frame. Ids depend on what the agent itself has asked for and on nothing
    /// that runs beside it, so that they are the same when the turn is rebuilt from its journal.
    fn mint_call(&mut self, frame: usize) -> Result<(CallId, u32), MachineError> {
        let next = self.next_call_of(frame)?;
        let ordinal = *next;
        *next += 1;
        let id = match &self.frame(frame)?.parent {
            Some(parent) => parent.call.nested(ordinal),
            None => self.spec.turn.call(ordinal),
        };
        Ok((id, ordinal))
    }

    /// The ordinal of the next call: the agents of the route count together, each sub-agent for itself.
    pub(super) fn next_call_of(&mut self, frame: usize) -> Result<&mut u32, MachineError> {
        if self.frame(frame)?.parent.is_none() {
            return Ok(&mut self.next_call);
        }
        Ok(&mut self.frame_mut(frame)?.next_call)
    }

    /// Voids what was streamed of an answer. None of the calls in it can have run, since calls run only after a complete
    /// answer; their ids are given again.
    pub(super) fn unstream(
        &mut self,
        frame: usize,
        streaming: &Streaming,
        reason: String,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        if streaming.blocks.is_empty() {
            return Ok(());
        }
        *self.next_call_of(frame)? = streaming.first_call;
        let f = self.frame(frame)?;
        let (path, message) = (f.path.clone(), f.message.clone());
        let discard = EventKind::PartsDiscarded { message, keep: streaming.base, reason };
        self.emit(&path, discard, out)
    }

    /// The provider's id where it can serve, else one of ours: two results for one id would be refused by every provider.
    fn unique_wire_id(
        &mut self,
        message: &crate::ids::MessageId,
        given: &str,
        ordinal: u32,
    ) -> Result<Arc<str>, MachineError> {
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
}
