//! What model calls cost, whatever becomes of them: answered, broken off, stopped, left for another process.

use super::work::ModelWork;
use super::{DriveError, Driver};
use crate::tool::ToolUsage;
use crate::trace::{self, Chat, TraceContent};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::{Instrument, Span};
use turnbuckle_core::error::ModelError;
use turnbuckle_core::ids::{AgentName, SessionId, TurnId};
use turnbuckle_core::machine::{Input, MachineError, ModelAnswer, StepId};
use turnbuckle_core::model::{Block, ModelRequest, ModelResponse};
use turnbuckle_core::usage::{FinishReason, Purpose};
use turnbuckle_models::tokens::PromptCount;
use turnbuckle_models::{Model, NoDeltas, TokenMeter};

/// What is needed to say what a call cost.
#[derive(Clone, Copy)]
pub(crate) struct Bill<'a> {
    pub(crate) model: &'a dyn Model,
    pub(crate) meter: &'a TokenMeter,
    pub(crate) request: &'a ModelRequest,
    /// The request's tokens, where they had to be counted.
    pub(crate) counted: Option<PromptCount>,
}

impl Bill<'_> {
    /// An answer of which nothing came.
    pub(crate) fn nothing(&self) -> ModelResponse {
        ModelResponse::empty(self.model.id(), FinishReason::Other("incomplete".into()))
    }

    /// The answer with its cost. What the provider did not report is estimated.
    pub(crate) fn of(&self, mut response: ModelResponse) -> ModelAnswer {
        let estimated = response.usage.is_empty();
        if estimated {
            let counter = self.meter.counter();
            let answer: u32 = response
                .blocks
                .iter()
                .map(|block| match block {
                    Block::Text { text, .. } | Block::Thinking { text, .. } => {
                        counter.count_text(text)
                    }
                    Block::ToolCall { name, arguments, .. } => {
                        counter.count_text(name).saturating_add(counter.count_text(arguments))
                    }
                    Block::Native { .. } => 0,
                })
                .sum();
            let prompt = self.counted.unwrap_or_else(|| self.meter.count(self.request));
            response.usage.input = Some(u64::from(prompt.tokens));
            response.usage.output = Some(u64::from(answer));
        } else if let Some(counted) = self.counted {
            self.meter.observe(counted, &response.usage);
        }
        ModelAnswer {
            cost_micros: self.model.info().cost_micros(&response.usage),
            estimated,
            ..ModelAnswer::new(response)
        }
    }
}

impl ModelWork {
    pub(crate) fn bill(&self) -> Bill<'_> {
        let Self { model, meter, request, counted, .. } = self;
        Bill { model: &**model, meter, request, counted: *counted }
    }
}

/// Model calls beside the steps of a turn, such as for a summary. Whoever drops one under way finds it here.
#[derive(Clone)]
pub(crate) struct Beside(Arc<Calls>);

struct Calls {
    model: Arc<dyn Model>,
    meter: Arc<TokenMeter>,
    open: Mutex<Option<Arc<ModelRequest>>>,
    /// See [`Beside::hold`].
    held: Mutex<Option<ModelAnswer>>,
    forgone: Mutex<Vec<ModelAnswer>>,
    about: About,
}

/// What the calls are for.
#[derive(Clone)]
pub(crate) struct About {
    pub(crate) session: SessionId,
    pub(crate) turn: TurnId,
    pub(crate) agent: AgentName,
    pub(crate) step: StepId,
    pub(crate) purpose: Purpose,
    pub(crate) content: TraceContent,
    /// The span of a nested agent.
    pub(crate) within: Option<Span>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Beside {
    pub(crate) fn new(model: Arc<dyn Model>, meter: Arc<TokenMeter>, about: About) -> Self {
        let (open, held, forgone) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self(Arc::new(Calls { model, meter, open, held, forgone, about }))
    }

    pub(crate) fn model(&self) -> &dyn Model {
        &*self.0.model
    }

    /// Calls the model.
    pub(crate) async fn call(&self, request: ModelRequest) -> Result<ModelAnswer, ModelError> {
        let request = Arc::new(request);
        *lock(&self.0.open) = Some(request.clone());
        let About { session, turn, agent, step, purpose, content, within } = &self.0.about;
        let (step, purpose, attempt) = (*step, *purpose, 1);
        let about = Chat { session, turn, agent, step, purpose, attempt };
        let span = trace::within(within.as_ref(), || {
            trace::chat(about, self.0.model.id(), &request, *content)
        });
        let mut deltas = NoDeltas;
        let call = self.0.model.call(&request, &mut deltas);
        let result = call.instrument(span.clone()).await;
        trace::chat_ended(&span, &result, *content);
        lock(&self.0.open).take();
        match result {
            Ok(response) => Ok(self.bill(&request).of(response)),
            Err(failure) => {
                let bill = self.bill(&request);
                // Nothing that came costs nothing, but it was a call.
                self.forgo(match failure.partial {
                    Some(partial) => bill.of(partial),
                    None => ModelAnswer::new(bill.nothing()),
                });
                Err(failure.error)
            }
        }
    }

    /// An answer that is of no use.
    pub(crate) fn forgo(&self, answer: ModelAnswer) {
        lock(&self.0.forgone).push(answer);
    }

    /// Keeps an answer of use for whoever meters what it was for. Should nobody come to that, such as when the turn is stopped
    /// first, it is metered with those of no use.
    pub(crate) fn hold(&self, answer: ModelAnswer) {
        let before = lock(&self.0.held).replace(answer);
        before.into_iter().for_each(|answer| self.forgo(answer));
    }

    /// The answer that was held, once.
    pub(crate) fn claim(&self) -> Option<ModelAnswer> {
        lock(&self.0.held).take()
    }

    fn bill<'a>(&'a self, request: &'a ModelRequest) -> Bill<'a> {
        Bill { model: &*self.0.model, meter: &self.0.meter, request, counted: None }
    }

    /// The calls that were of no use, once: those that failed, the one that nobody claimed, and the one that is under way.
    fn take(&self) -> Vec<ModelAnswer> {
        let mut forgone = std::mem::take(&mut *lock(&self.0.forgone));
        forgone.extend(self.claim());
        if let Some(request) = lock(&self.0.open).take() {
            let bill = self.bill(&request);
            forgone.push(bill.of(bill.nothing()));
        }
        forgone
    }
}

impl Driver {
    pub(super) fn beside(
        &self,
        model: Arc<dyn Model>,
        agent: &AgentName,
        step: StepId,
        purpose: Purpose,
        within: Option<Span>,
    ) -> Beside {
        let about = About {
            session: self.session.clone(),
            turn: self.id.clone(),
            agent: agent.clone(),
            step,
            purpose,
            content: self.assembler.trace_content,
            within,
        };
        let meter = self.assembler.meter(&model);
        Beside::new(self.assembler.callable(&self.runtime.info, model), meter, about)
    }

    /// Meters what came of no use beside a step.
    pub(super) fn forgo_beside(
        &mut self,
        step: StepId,
        purpose: Purpose,
        beside: &Beside,
    ) -> Result<(), MachineError> {
        let epoch = self.turn.epoch();
        for mut answer in beside.take() {
            answer.response.blocks.clear();
            let answer = Box::new(answer);
            self.feed(Input::Metered { step, purpose, epoch, answer })?;
        }
        Ok(())
    }

    /// Meters the model calls that a tool made on its own.
    pub(super) fn meter_tool(
        &mut self,
        step: StepId,
        calls: Vec<ToolUsage>,
    ) -> Result<(), MachineError> {
        let epoch = self.turn.epoch();
        for ToolUsage { model, usage, cost_micros } in calls {
            let empty = ModelResponse::empty(&model, FinishReason::Stop);
            let response = ModelResponse { usage, ..empty };
            let answer = Box::new(ModelAnswer { cost_micros, ..ModelAnswer::new(response) });
            self.feed(Input::Metered { step, purpose: Purpose::Tool, epoch, answer })?;
        }
        Ok(())
    }

    /// Leaves the turn for another process: the model calls under way are dropped and metered.
    pub(super) async fn leave(&mut self) -> DriveError {
        let left = async {
            let epoch = self.turn.epoch();
            for work in std::mem::take(&mut self.work.models) {
                if !work.buffer.has_begun() {
                    continue;
                }
                work.buffer.take_all(&mut self.work.pieces);
                let pieces = std::mem::take(&mut self.work.pieces);
                let mut response = self.partial_of(&work).unwrap_or_else(|| work.bill().nothing());
                pieces.iter().for_each(|piece| piece.add_to(&mut response.blocks));
                let mut answer = self.metered(&work, response);
                // Whoever goes on makes the call again; of this one only the cost counts.
                answer.response.blocks.clear();
                let (step, purpose) = (work.effect.step, work.call.purpose);
                let answer = Box::new(answer);
                self.feed(Input::Metered { step, purpose, epoch, answer })?;
            }
            for work in std::mem::take(&mut self.work.compactions) {
                self.forgo_beside(work.effect.step, Purpose::Summary, &work.beside)?;
            }
            if let Some(work) = self.work.title.take()
                && let Some(beside) = &work.beside
            {
                self.forgo_beside(work.step, Purpose::Title, beside)?;
            }
            if self.out.events.is_empty() && self.must_store == super::Store::Later {
                return Ok(());
            }
            self.take_events();
            self.store(None).await?;
            self.publish();
            Ok::<(), DriveError>(())
        };
        match left.await {
            Ok(()) => DriveError::Parked,
            Err(e) => e,
        }
    }
}
