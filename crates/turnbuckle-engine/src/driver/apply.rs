//! Telling the machine what happened.

use super::deltas::Piece;
use super::work::{Happened, ModelWork};
use super::{DriveError, Driver, Store};
use turnbuckle_core::error::{ModelError, ModelErrorKind};
use turnbuckle_core::machine::{Chunk, EffectKind, Input, ModelAnswer, Superseded};
use turnbuckle_core::model::{Block, ModelResponse};
use turnbuckle_core::usage::{FinishReason, Usage};
use turnbuckle_models::CallFailure;

impl Driver {
    pub(super) async fn apply(&mut self, happened: Happened) -> Result<(), DriveError> {
        match happened {
            Happened::Deltas(index) => self.deltas(index)?,
            Happened::Model(index, result) => {
                self.flush(index)?;
                let work = self.work.models.swap_remove(index);
                self.model_ended(work, result)?;
            }
            Happened::Compacted(index, fitted) => {
                let work = self.work.compactions.swap_remove(index);
                self.compacted(work.effect, fitted)?;
            }
            Happened::Prepared(step, verdict) => {
                self.feed(Input::Prepared { step, verdict: Box::new(verdict) })?;
            }
            Happened::Executed(step, executed) => self.executed(step, executed)?,
            Happened::Reports(reports) => {
                for (call, data) in reports {
                    if let Some(step) = self.work.running.get(&call).copied() {
                        self.feed(Input::Progress { step, data })?;
                    }
                }
            }
            Happened::Stop => self.stop(Superseded::No)?,
            Happened::Inbox => self.read_inbox().await?,
            Happened::Renew => {
                if let Some(writer) = &mut self.writer {
                    writer.renew(self.assembler.clock.now()).await?;
                }
                // What others posted from another process did not knock here.
                self.read_inbox().await?;
            }
        }
        Ok(())
    }

    fn deltas(&mut self, index: usize) -> Result<(), DriveError> {
        let mut pieces = std::mem::take(&mut self.work.pieces);
        for piece in pieces.drain(..) {
            self.tell_delta(index, &piece)?;
        }
        self.work.pieces = pieces;
        self.publish_deltas();
        Ok(())
    }

    /// The last batch is never held back.
    fn flush(&mut self, index: usize) -> Result<(), DriveError> {
        if let Some(work) = self.work.models.get(index) {
            work.buffer.take_all(&mut self.work.pieces);
        }
        self.deltas(index)
    }

    fn tell_delta(&mut self, index: usize, piece: &Piece) -> Result<(), DriveError> {
        let at = self.now();
        let journaled = self.writer.is_some();
        let Some(work) = self.work.models.get_mut(index) else { return Ok(()) };
        piece.add_to(&mut work.blocks);
        if journaled {
            work.chunks.push(Chunk(piece.block as u32, piece.text.len() as u32, at.as_millis()));
        }
        self.turn.delta(at, work.effect.step, piece.as_delta(), &mut self.out)?;
        Ok(())
    }

    fn model_ended(
        &mut self,
        work: ModelWork,
        result: Result<ModelResponse, CallFailure>,
    ) -> Result<(), DriveError> {
        let step = work.effect.step;
        self.must_store = Store::Now;
        match result {
            Ok(response) => {
                let directives = self.directives(&work.effect, &work.call, &response);
                let mut answer = metered(&work, response);
                answer.directives = directives;
                self.feed(Input::ModelDone { step, answer: Box::new(answer) })?;
            }
            Err(CallFailure { error, partial }) => {
                let partial = partial.or_else(|| partial_of(&work));
                let partial = partial.map(|response| Box::new(unmetered(&work, response)));
                self.feed(Input::ModelFailed { step, error, partial })?;
            }
        }
        Ok(())
    }

    fn executed(
        &mut self,
        step: turnbuckle_core::machine::StepId,
        executed: crate::pipeline::Executed,
    ) -> Result<(), DriveError> {
        self.must_store = Store::Now;
        self.work.running.retain(|_, s| *s != step);
        if let Some(writer) = &mut self.writer {
            if let Some(captured) = self.work.captures.remove(&step) {
                writer.note_captured(&self.id, &captured, &executed.result);
            }
            writer.blobs.extend(executed.kept_aside);
            writer.state_changed = super::commit::Changed::Maybe;
        }
        self.feed(Input::Executed { step, result: Box::new(executed.result) })?;
        Ok(())
    }

    /// Stops the turn: requests are dropped, tools get the cancellation and their grace period.
    pub(super) fn stop(&mut self, superseded: Superseded) -> Result<(), DriveError> {
        if !matches!(
            self.turn.phase(),
            turnbuckle_core::machine::Phase::Running | turnbuckle_core::machine::Phase::Paused
        ) {
            return Ok(());
        }
        self.control.cancel_token().cancel();
        for index in 0..self.work.models.len() {
            self.flush(index)?;
        }
        self.feed(Input::Cancel { superseded })?;
        self.must_store = Store::Now;
        for work in std::mem::take(&mut self.work.models) {
            let partial = partial_of(&work).map(|response| Box::new(unmetered(&work, response)));
            let error = ModelError::new(ModelErrorKind::Cancelled, "the turn was stopped");
            self.feed(Input::ModelFailed { step: work.effect.step, error, partial })?;
        }
        for work in std::mem::take(&mut self.work.compactions) {
            let error = ModelError::new(ModelErrorKind::Cancelled, "the turn was stopped");
            self.feed(Input::ModelFailed { step: work.effect.step, error, partial: None })?;
        }
        self.work.prepares.clear();
        Ok(())
    }

    fn compacted(
        &mut self,
        effect: turnbuckle_core::machine::Effect,
        fitted: super::request::Fitted,
    ) -> Result<(), DriveError> {
        let step = effect.step;
        match fitted.result {
            Err(error) => self.feed(Input::ModelFailed { step, error, partial: None })?,
            Ok((transcript, report, overlay)) => {
                self.conversation.replace(&fitted.message, transcript);
                // A sub-agent's own conversation is not the session's history.
                if fitted.message == self.id.assistant_message() {
                    self.note_overlay(overlay);
                }
                self.feed(Input::Compacted { step, report: Box::new(report) })?;
                self.must_store = Store::Now;
                if let EffectKind::CallModel(_) = &effect.kind {
                    self.start_model(effect)?;
                }
            }
        }
        Ok(())
    }
}

/// What had arrived of an answer that will never be complete.
fn partial_of(work: &ModelWork) -> Option<ModelResponse> {
    if work.blocks.is_empty() {
        return None;
    }
    let id = work.model.id();
    Some(ModelResponse {
        blocks: work.blocks.clone(),
        finish: FinishReason::Other("incomplete".into()),
        usage: Usage::default(),
        provider: id.provider.to_string(),
        model: id.model.to_string(),
        id: None,
    })
}

fn unmetered(work: &ModelWork, response: ModelResponse) -> ModelAnswer {
    ModelAnswer {
        response,
        chunks: work.chunks.clone(),
        estimated: false,
        cost_micros: None,
        directives: turnbuckle_core::machine::AnswerDirectives::default(),
    }
}

fn metered(work: &ModelWork, mut response: ModelResponse) -> ModelAnswer {
    let estimated = response.usage.is_empty();
    if estimated {
        let counter = work.meter.counter();
        let answer: u32 = response
            .blocks
            .iter()
            .map(|block| match block {
                Block::Text { text, .. } | Block::Thinking { text, .. } => counter.count_text(text),
                Block::ToolCall { name, arguments, .. } => {
                    counter.count_text(name).saturating_add(counter.count_text(arguments))
                }
                Block::Native { .. } => 0,
            })
            .sum();
        let prompt = work.counted.unwrap_or_else(|| work.meter.count(&work.request));
        response.usage.input = Some(u64::from(prompt.tokens));
        response.usage.output = Some(u64::from(answer));
    } else if let Some(counted) = work.counted {
        work.meter.observe(counted, &response.usage);
    }
    let cost_micros = work.model.info().cost_micros(&response.usage);
    ModelAnswer { cost_micros, estimated, ..unmetered(work, response) }
}
