//! Telling the machine what happened.

use super::deltas::Piece;
use super::work::{Happened, ModelWork};
use super::{DriveError, Driver, Store};
use turnbuckle_core::error::{ModelError, ModelErrorKind};
use turnbuckle_core::machine::{
    Chunk, EffectKind, Input, MachineError, ModelAnswer, Partial, Superseded, Woven,
};
use turnbuckle_core::model::ModelResponse;
use turnbuckle_core::outcome::TurnError;
use turnbuckle_core::room;
use turnbuckle_core::usage::Purpose;
use turnbuckle_models::CallFailure;

impl Driver {
    pub(super) async fn apply(&mut self, happened: Happened) -> Result<(), DriveError> {
        match happened {
            Happened::Deltas(index) => self.deltas(index)?,
            Happened::Model(index, result) => {
                self.flush(index)?;
                let work = self.work.models.swap_remove(index);
                self.model_ended(work, *result)?;
            }
            Happened::Compacted(index, mut fitted) => {
                let work = self.work.compactions.swap_remove(index);
                if let Ok((_, report)) = &mut fitted.result {
                    report.summary_call = work.beside.claim().map(Box::new);
                }
                self.forgo_beside(work.effect.step, Purpose::Summary, &work.beside)?;
                self.compacted(work.effect, *fitted)?;
            }
            Happened::Prepared(step, verdict) => {
                self.feed(Input::Prepared { step, verdict })?;
            }
            Happened::Executed(step, executed) => self.executed(step, *executed)?,
            Happened::Titled(title) => {
                if let Some(work) = self.work.title.take() {
                    self.titled(work, title.map(|title| *title))?;
                }
            }
            Happened::Reports(reports) => {
                for (call, data) in reports {
                    if let Some(step) = self.work.running.get(&call).copied() {
                        self.feed(Input::Progress { step, data })?;
                    }
                }
            }
            Happened::Stop => self.stop(Superseded::No)?,
            Happened::Park => return Err(Box::pin(self.leave()).await),
            Happened::Inbox => Box::pin(self.read_inbox()).await?,
            Happened::Renew => {
                if let Some(writer) = &mut self.writer {
                    let now = self.assembler.clock.now();
                    Box::pin(self.work.meanwhile(writer.renew(now))).await?;
                }
                // What others posted from another process did not knock here.
                Box::pin(self.read_inbox()).await?;
            }
        }
        Ok(())
    }

    fn deltas(&mut self, index: usize) -> Result<(), DriveError> {
        for piece in std::mem::take(&mut self.work.pieces) {
            self.tell_delta(index, &piece)?;
        }
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
        if work.call.purpose == Purpose::Route {
            piece.add_to(&mut work.unread);
        }
        if journaled {
            let place = self.next_seq + self.out.events.len() as u64;
            work.weave.begin(work.chunks.len(), self.turn.recorded(), place);
            let chunk = Chunk(piece.block as u32, piece.text.len() as u32, at.as_millis());
            room::push(&mut work.chunks, chunk);
        }
        self.turn.delta(at, work.effect.step, piece.as_delta(), &mut self.out)?;
        if journaled {
            work.weave.end(self.next_seq + self.out.events.len() as u64);
        }
        Ok(())
    }

    fn model_ended(
        &mut self,
        work: ModelWork,
        result: Result<ModelResponse, CallFailure>,
    ) -> Result<(), DriveError> {
        if let Err(failure) = &result
            && let Some(shorter) = self.shorten_refused(&work, failure)
        {
            self.work.compactions.push(shorter);
            return Ok(());
        }
        let step = work.effect.step;
        self.must_store = self.must_store.max(Store::BeforeWaiting);
        match result {
            Ok(response) => {
                let directives = self.directives(&work, &response);
                let mut answer = self.metered(&work, response);
                answer.directives = directives;
                answer.woven = self.woven(&work);
                self.feed(Input::ModelDone { step, answer: Box::new(answer) })?;
            }
            Err(CallFailure { error, partial }) => {
                let partial = partial.or_else(|| self.partial_of(&work));
                let partial = partial.map(|response| self.broken_off(&work, response));
                self.feed(Input::ModelFailed { step, error, partial })?;
            }
        }
        Ok(())
    }

    /// An answer that will never be complete. It is billed all the same, so what was not reported of it is estimated.
    fn broken_off(&self, work: &ModelWork, response: ModelResponse) -> Box<ModelAnswer> {
        let silent = response.blocks.is_empty() && response.usage.is_empty();
        let answer = if silent {
            ModelAnswer { chunks: work.chunks.clone(), ..ModelAnswer::new(response) }
        } else {
            self.metered(work, response)
        };
        Box::new(ModelAnswer { woven: self.woven(work), ..answer })
    }

    /// What had arrived of an answer that will never be complete.
    pub(super) fn partial_of(&self, work: &ModelWork) -> Option<ModelResponse> {
        let mut blocks = self.turn.arrived(work.effect.step);
        if blocks.is_empty() {
            blocks.clone_from(&work.unread);
        }
        (!blocks.is_empty()).then(|| ModelResponse { blocks, ..work.bill().nothing() })
    }

    /// What is known of an answer that is waited for no longer. The request was sent, so even nothing of an answer costs.
    fn dropped(&self, work: &ModelWork) -> Option<Box<ModelAnswer>> {
        let arrived = self.partial_of(work);
        if arrived.is_none() && !work.buffer.has_begun() {
            return None;
        }
        let response = arrived.unwrap_or_else(|| work.bill().nothing());
        Some(Box::new(ModelAnswer { woven: self.woven(work), ..self.metered(work, response) }))
    }

    fn woven(&self, work: &ModelWork) -> Vec<Woven> {
        work.weave.finish(self.turn.recorded(), self.next_seq + self.out.events.len() as u64)
    }

    fn executed(
        &mut self,
        step: turnbuckle_core::machine::StepId,
        executed: crate::pipeline::Executed,
    ) -> Result<(), DriveError> {
        // A tool that spent money is no mere reader.
        let again = executed.usage.is_empty()
            && self.turn.effects().any(|e| e.step == step && self.is_repeatable(&e));
        let due = if again { Store::BeforeWaiting } else { Store::Now };
        self.must_store = self.must_store.max(due);
        self.work.running.retain(|_, s| *s != step);
        if self.work.running.is_empty() {
            // An empty map keeps room for eleven.
            self.work.running = Default::default();
        }
        self.meter_tool(step, executed.usage)?;
        let kept_aside = if self.may_keep(step) { executed.kept_aside } else { Vec::new() };
        if let Some(writer) = &mut self.writer {
            if let Some(captured) = self.work.captures.remove(&step) {
                writer.note_captured(&self.id, &captured, &executed.result);
            }
            writer.blobs.extend(kept_aside);
            writer.state_changed = super::commit::Changed::Maybe;
        }
        let (result, captured) = (Box::new(executed.result), executed.captured);
        self.feed(Input::Executed { step, result, captured })?;
        Ok(())
    }

    /// Whether the agent's data policy lets the result of a call stay.
    fn may_keep(&self, step: turnbuckle_core::machine::StepId) -> bool {
        let spec = self.turn.spec();
        let effect = self.turn.effects().find(|effect| effect.step == step);
        let policy = effect.and_then(|e| {
            let (_, tool) = e.kind.results_of()?;
            Some((&spec.agents.get(&e.agent)?.policy, tool.clone()))
        });
        policy.is_none_or(|(policy, tool)| policy.calls.keeps(&tool) && policy.results.keeps(&tool))
    }

    /// Stops the turn: requests are dropped, tools get the cancellation and their grace period.
    pub(super) fn stop(&mut self, superseded: Superseded) -> Result<(), DriveError> {
        self.settle_title()?;
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
            let partial = self.dropped(&work);
            let error = ModelError::new(ModelErrorKind::Cancelled, "the turn was stopped");
            self.feed(Input::ModelFailed { step: work.effect.step, error, partial })?;
        }
        for work in std::mem::take(&mut self.work.compactions) {
            self.forgo_beside(work.effect.step, Purpose::Summary, &work.beside)?;
            let error = ModelError::new(ModelErrorKind::Cancelled, "the turn was stopped");
            self.feed(Input::ModelFailed { step: work.effect.step, error, partial: None })?;
        }
        self.work.prepares.clear();
        Ok(())
    }

    /// Ends the turn, whatever it was at: a turn with a defect must not fail again each time it is taken up. What was shown of
    /// answers under way stays, and is billed.
    pub(crate) fn fault(&mut self, error: TurnError) -> Result<(), MachineError> {
        self.control.cancel_token().cancel();
        self.must_store = Store::Now;
        let partials: Vec<_> = std::mem::take(&mut self.work.models)
            .iter()
            .filter_map(|work| {
                Some(Partial { step: work.effect.step, answer: self.dropped(work)? })
            })
            .collect();
        self.work.compactions.clear();
        self.work.prepares.clear();
        self.feed(Input::Fault { error: error.clone(), partials })
            // Should it be an answer that the machine stumbles over, the turn ends without it.
            .or_else(|_| self.feed(Input::Fault { error, partials: Vec::new() }))
    }

    fn compacted(
        &mut self,
        effect: turnbuckle_core::machine::Effect,
        fitted: super::request::Fitted,
    ) -> Result<(), DriveError> {
        let step = effect.step;
        // A sub-agent's own conversation is not the session's history.
        if fitted.message == self.id.assistant_message() {
            self.note_overlay(fitted.overlay);
        }
        match fitted.result {
            Err(error) => self.feed(Input::ModelFailed { step, error, partial: None })?,
            Ok((transcript, report)) => {
                self.conversation.replace(&fitted.message, transcript);
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
