//! An effect under way: how far its answer has come in.

use super::build::Reply;
use super::sim::dropped;
use super::world::World;
use serde_json::Value;
use turnbuckle_core::error::ModelError;
use turnbuckle_core::ids::AgentName;
use turnbuckle_core::machine::*;
use turnbuckle_core::model::{Block, ModelDelta};
use turnbuckle_core::usage::Usage;

pub struct Open {
    pub effect: Effect,
    /// The deltas that were told.
    pub told: Vec<Chunk>,
    pub weave: Weave,
    reply: Option<Reply>,
    cuts: Vec<(u32, u32)>,
    reports: usize,
    fitted: bool,
}

/// A delta on its way.
pub struct Delta {
    pub block: u32,
    pub bytes: u32,
    kind: Kind,
    text: String,
    name: String,
}

enum Kind {
    Text,
    Thinking,
    Start,
    Arguments,
}

impl Delta {
    pub fn as_delta(&self) -> ModelDelta<'_> {
        let (block, text) = (self.block as usize, self.text.as_str());
        match self.kind {
            Kind::Text => ModelDelta::Text { block, text },
            Kind::Thinking => ModelDelta::Thinking { block, text },
            Kind::Start => ModelDelta::CallStart { block, wire_id: text, name: &self.name },
            Kind::Arguments => ModelDelta::CallArguments { block, text },
        }
    }
}

pub enum Piece {
    Delta(Delta),
    Done(ModelAnswer),
    Failed(ModelError, Option<ModelAnswer>),
}

impl Open {
    pub fn new(effect: Effect) -> Self {
        Self {
            effect,
            told: Vec::new(),
            weave: Weave::default(),
            reply: None,
            cuts: Vec::new(),
            reports: 0,
            fitted: false,
        }
    }

    pub fn as_execution(&self) -> Option<(&AgentName, &ExecuteCall)> {
        match &self.effect.kind {
            EffectKind::Execute(run) => Some((&self.effect.agent, run)),
            _ => None,
        }
    }

    pub fn is_check(&self) -> bool {
        matches!(self.effect.kind, EffectKind::Prepare(_))
    }

    /// What is done to the history before the call, once.
    pub fn compaction(&mut self, world: &impl World, call: &CallModel) -> Option<CompactionReport> {
        let first = !std::mem::replace(&mut self.fitted, true) && call.attempt == 1;
        first.then(|| world.compaction(call)).flatten()
    }

    pub fn next_report(&mut self, world: &impl World, run: &ExecuteCall) -> Option<Value> {
        let reports = if run.mode == ExecuteMode::Real { world.progress(run) } else { Vec::new() };
        let report = reports.get(self.reports).cloned();
        self.reports += 1;
        report
    }

    pub fn next_piece(&mut self, world: &impl World, call: &CallModel, stopping: bool) -> Piece {
        if self.reply.is_none() {
            let reply = world.model(&self.effect, call);
            self.cuts = match &reply {
                Reply::Done(answer) | Reply::Fail { partial: Some(answer), .. } => {
                    world.cuts(self.effect.step, answer)
                }
                Reply::Fail { partial: None, .. } => Vec::new(),
            };
            self.reply = Some(reply);
        }
        let reply = self.reply.clone().unwrap();
        if stopping {
            return Piece::Failed(dropped(), self.arrived());
        }
        if let Some((block, bytes)) = self.cuts.get(self.told.len()).copied()
            && let Reply::Done(answer) | Reply::Fail { partial: Some(answer), .. } = &reply
        {
            return Piece::Delta(self.cut(answer, block, bytes));
        }
        let chunks = self.told.clone();
        match reply {
            Reply::Done(answer) => Piece::Done(ModelAnswer { chunks, ..answer }),
            Reply::Fail { error, partial } => {
                let partial = partial.map(|answer| ModelAnswer { chunks, ..answer });
                Piece::Failed(error, partial)
            }
        }
    }

    fn bytes_told(&self, block: u32) -> usize {
        self.told.iter().filter(|c| c.0 == block).map(|c| c.1 as usize).sum()
    }

    fn cut(&self, answer: &ModelAnswer, block: u32, bytes: u32) -> Delta {
        let from = self.bytes_told(block);
        let to = from + bytes as usize;
        let (kind, text, name) = match &answer.response.blocks[block as usize] {
            Block::Text { text, .. } => (Kind::Text, text[from..to].to_owned(), String::new()),
            Block::Thinking { text, .. } => {
                (Kind::Thinking, text[from..to].to_owned(), String::new())
            }
            Block::ToolCall { wire_id, name, .. } if bytes == 0 => {
                (Kind::Start, wire_id.clone(), name.clone())
            }
            Block::ToolCall { arguments, .. } => {
                (Kind::Arguments, arguments[from..to].to_owned(), String::new())
            }
            Block::Native { .. } => panic!("native blocks are not streamed"),
        };
        Delta { block, bytes, kind, text, name }
    }

    /// What has arrived of an answer that was begun.
    pub fn arrived(&self) -> Option<ModelAnswer> {
        match self.reply.clone()? {
            Reply::Done(answer) | Reply::Fail { partial: Some(answer), .. } => {
                Some(self.so_far(answer))
            }
            Reply::Fail { partial: None, .. } => None,
        }
    }

    /// So much of an answer as has arrived.
    fn so_far(&self, mut answer: ModelAnswer) -> ModelAnswer {
        let begun = self.told.iter().map(|c| c.0 as usize + 1).max().unwrap_or(0);
        answer.response.blocks.truncate(begun);
        for (index, block) in answer.response.blocks.iter_mut().enumerate() {
            let bytes = self.bytes_told(index as u32);
            match block {
                Block::Text { text, .. } | Block::Thinking { text, .. } => text.truncate(bytes),
                Block::ToolCall { arguments, .. } => arguments.truncate(bytes),
                Block::Native { .. } => {}
            }
        }
        answer.response.usage = Usage::default();
        answer.cost_micros = None;
        answer.chunks = self.told.clone();
        answer
    }
}
