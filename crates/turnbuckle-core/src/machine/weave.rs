//! How the deltas of answers that stream beside each other are woven together: recorded as they come, and followed when a
//! turn is rebuilt from its journal, so that a replay tells everything in the order of then.
//!
//! Deltas are no entries of the journal. An answer's entry holds its own deltas, and for each run of them (those that nothing
//! else came between) where the run stood: after how many entries, and where among the runs between the same two entries.
//! An answer that nothing came between needs no such note.

use super::input::{Input, ModelAnswer, Recorded, Woven};
use super::spec::TurnSpec;
use super::state::Turn;
use super::{MachineError, Output, StepId};
use crate::model::{Block, ModelDelta};
use crate::time::Timestamp;
use std::collections::BTreeMap;

/// Records the runs of one answer's deltas. A driver keeps one for each model call under way.
#[derive(Clone, Debug, Default)]
pub struct Weave {
    runs: Vec<Woven>,
    /// The number of the event that continues the run.
    next: u64,
}

impl Weave {
    /// A delta is about to be told: the answer's `chunk`-th, after `entries` entries of the journal, as the turn's event
    /// number `place` (from any number on, as long as it rises with every event).
    pub fn begin(&mut self, chunk: usize, entries: u32, place: u64) {
        if self.runs.is_empty() || place != self.next {
            self.runs.push(Woven(chunk as u32, entries, place));
        }
    }

    /// It was told; the turn's next event gets the number `place`.
    pub fn end(&mut self, place: u64) {
        self.next = place;
    }

    /// What must be recorded with the answer, whose entry follows `entries` others and whose next event gets the number
    /// `place`: nothing, when all its deltas stand right before it.
    pub fn finish(&self, entries: u32, place: u64) -> Vec<Woven> {
        match self.runs.as_slice() {
            [Woven(_, before, _)] if *before == entries && place == self.next => Vec::new(),
            runs => runs.to_vec(),
        }
    }
}

/// A run of an answer's deltas in a journal.
struct Run<'a> {
    entries: u32,
    place: u64,
    step: StepId,
    answer: &'a ModelAnswer,
    from: usize,
    to: usize,
}

/// Rebuilds a turn from its journal, entry by entry. Events and effects come as they did at the time, deltas included; effects
/// whose outcome is not in the journal are the ones to take up after [`Input::Recover`].
pub struct Replay<'a> {
    turn: Turn,
    entries: std::slice::Iter<'a, Recorded>,
    /// In the order in which they are due, the last first.
    runs: Vec<Run<'a>>,
    /// Bytes told of each block of the answers that are being told.
    told: BTreeMap<(StepId, u32), usize>,
}

impl<'a> Replay<'a> {
    /// Begins with nothing applied.
    ///
    /// # Errors
    /// When the specification is not sound.
    pub fn new(spec: TurnSpec, journal: &'a [Recorded]) -> Result<Self, MachineError> {
        let mut runs: Vec<Run<'a>> = journal.iter().flat_map(runs_of).collect();
        runs.sort_by_key(|run| std::cmp::Reverse((run.entries, run.place)));
        Ok(Self { turn: Turn::new(spec)?, entries: journal.iter(), runs, told: BTreeMap::new() })
    }

    /// The turn so far.
    pub fn turn(&self) -> &Turn {
        &self.turn
    }

    /// The turn so far, for good.
    pub fn into_turn(self) -> Turn {
        self.turn
    }

    /// Applies the next entry and the deltas before it; `None` when there is no more.
    ///
    /// # Errors
    /// When the journal does not fit the specification.
    pub fn step(&mut self, out: &mut Output) -> Result<Option<()>, MachineError> {
        let Some(entry) = self.entries.next() else { return Ok(None) };
        while self.runs.last().is_some_and(|run| run.entries <= entry.n) {
            let Some(run) = self.runs.pop() else { break };
            self.tell(run.step, run.answer, run.from..run.to, out)?;
        }
        for (step, answer) in answers_of(&entry.input).filter(|(_, a)| a.woven.is_empty()) {
            self.tell(step, answer, 0..answer.chunks.len(), out)?;
        }
        self.turn.handle(entry.at, entry.input.clone(), out)?;
        Ok(Some(()))
    }

    fn tell(
        &mut self,
        step: StepId,
        answer: &ModelAnswer,
        chunks: std::ops::Range<usize>,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        for chunk in answer.chunks.get(chunks).unwrap_or_default() {
            let (block, bytes, at) = (chunk.0, chunk.1 as usize, Timestamp::from_millis(chunk.2));
            let told = self.told.entry((step, block)).or_default();
            let from = std::mem::replace(told, *told + bytes);
            let Some(whole) = answer.response.blocks.get(block as usize) else { continue };
            if let Some(delta) = delta(whole, block as usize, from, bytes) {
                self.turn.delta(at, step, delta, out)?;
            }
        }
        Ok(())
    }
}

fn delta(whole: &Block, block: usize, from: usize, bytes: usize) -> Option<ModelDelta<'_>> {
    fn piece(text: &str, from: usize, bytes: usize) -> &str {
        text.get(from..from + bytes).unwrap_or_default()
    }
    match whole {
        Block::Text { text, .. } => {
            Some(ModelDelta::Text { block, text: piece(text, from, bytes) })
        }
        Block::Thinking { text, .. } => {
            Some(ModelDelta::Thinking { block, text: piece(text, from, bytes) })
        }
        Block::ToolCall { wire_id, name, .. } if bytes == 0 => {
            Some(ModelDelta::CallStart { block, wire_id, name })
        }
        Block::ToolCall { arguments, .. } => {
            Some(ModelDelta::CallArguments { block, text: piece(arguments, from, bytes) })
        }
        Block::Native { .. } => None,
    }
}

fn answers_of(input: &Input) -> impl Iterator<Item = (StepId, &ModelAnswer)> {
    let (one, partials) = match input {
        Input::ModelDone { step, answer }
        | Input::ModelFailed { step, partial: Some(answer), .. } => {
            (Some((*step, &**answer)), None)
        }
        Input::Fault { partials, .. } => (None, Some(partials)),
        _ => (None, None),
    };
    let partials = partials.into_iter().flatten().map(|p| (p.step, &*p.answer));
    one.into_iter().chain(partials)
}

fn runs_of(entry: &Recorded) -> impl Iterator<Item = Run<'_>> {
    answers_of(&entry.input).flat_map(|(step, answer)| {
        let ends = answer.woven.iter().skip(1).map(|run| run.0 as usize);
        let ends = ends.chain(std::iter::once(answer.chunks.len()));
        answer.woven.iter().zip(ends).map(move |(run, to)| {
            let Woven(from, entries, place) = *run;
            Run { entries, place, step, answer, from: from as usize, to }
        })
    })
}
