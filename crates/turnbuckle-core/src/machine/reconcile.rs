//! A complete answer against what was streamed of it: the message must say exactly what the answer says.

use super::effect::CallModel;
use super::input::ModelAnswer;
use super::state::{BlockPart, Streaming, Turn};
use super::{MachineError, Output};
use crate::event::{AgentPath, EventKind};
use crate::model::{Block, ModelDelta};
use crate::part::{NativePart, Part, TextPart};

impl Turn {
    /// Makes the message say exactly what the complete answer says, whatever was streamed of it.
    pub(super) fn reconcile(
        &mut self,
        frame: usize,
        call: &CallModel,
        mut streaming: Streaming,
        answer: &ModelAnswer,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let path = self.path(frame)?;
        if !self.can_become(call, &streaming, answer)? {
            let reason = "the complete answer differs from what was streamed".to_owned();
            self.unstream(frame, &streaming, reason, out)?;
            streaming.blocks.clear();
        }
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
                        self.stream(self.now, frame, call, &mut streaming, delta, out)?;
                    }
                    self.attach_native(&path, call, at.part, native.as_ref(), out)?;
                }
                (block, None) if streaming.blocks.keys().all(|b| (*b as usize) < index) => {
                    self.append_block(frame, call, &mut streaming, index, block, out)?;
                }
                (block, None) => {
                    self.insert_block(frame, call, &mut streaming, index, block, out)?
                }
                (Block::Native { .. }, Some(_)) => {}
            }
        }
        Ok(())
    }

    /// Whether what was streamed can be completed to the answer: the same blocks, and no call that began otherwise.
    fn can_become(
        &mut self,
        call: &CallModel,
        streaming: &Streaming,
        answer: &ModelAnswer,
    ) -> Result<bool, MachineError> {
        let parts = &self.messages.message(&call.message)?.parts;
        Ok(streaming.blocks.iter().all(|(index, at)| {
            let block = answer.response.blocks.get(*index as usize);
            match (block, parts.get(at.part as usize)) {
                (Some(Block::Text { .. }), Some(Part::Text(_)))
                | (Some(Block::Thinking { .. }), Some(Part::Thinking(_))) => true,
                (Some(Block::ToolCall { name, arguments, .. }), Some(Part::ToolCall(part))) => {
                    part.name == name.as_str() && arguments.starts_with(&part.arguments)
                }
                _ => false,
            }
        }))
    }

    /// A block that was not streamed and comes last, as in an answer that came whole.
    fn append_block(
        &mut self,
        frame: usize,
        call: &CallModel,
        streaming: &mut Streaming,
        index: usize,
        block: &Block,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let native = match block {
            Block::Text { text, native } => {
                let delta = ModelDelta::Text { block: index, text };
                self.stream(self.now, frame, call, streaming, delta, out)?;
                native
            }
            Block::Thinking { text, native } => {
                let delta = ModelDelta::Thinking { block: index, text };
                self.stream(self.now, frame, call, streaming, delta, out)?;
                native
            }
            Block::ToolCall { wire_id, name, arguments, native } => {
                let delta = ModelDelta::CallStart { block: index, wire_id, name };
                self.stream(self.now, frame, call, streaming, delta, out)?;
                if !arguments.is_empty() {
                    let delta = ModelDelta::CallArguments { block: index, text: arguments };
                    self.stream(self.now, frame, call, streaming, delta, out)?;
                }
                native
            }
            Block::Native { .. } => {
                return self.insert_block(frame, call, streaming, index, block, out);
            }
        };
        let part = streaming.blocks.get(&(index as u32)).map(|b| b.part);
        let path = self.path(frame)?;
        match part {
            Some(part) => self.attach_native(&path, call, part, native.as_ref(), out),
            None => Ok(()),
        }
    }

    /// A block that was not streamed and stands before others that were, such as a signature without text.
    fn insert_block(
        &mut self,
        frame: usize,
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
            Block::ToolCall { .. } => {
                return self.append_block(frame, call, streaming, index, block, out);
            }
        };
        let before = streaming.blocks.range(..index as u32).next_back();
        let part = before.map_or(streaming.base, |(_, b)| b.part + 1);
        for later in streaming.blocks.values_mut().filter(|b| b.part >= part) {
            later.part += 1;
        }
        streaming.blocks.insert(index as u32, BlockPart { part, bytes: 0, call: None });
        let added =
            EventKind::PartAdded { message: call.message.clone(), part, value: Box::new(value) };
        let path = self.path(frame)?;
        self.emit(&path, added, out)
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
}
