//! What is under way in a turn.

use super::bill::Beside;
use super::deltas::{DeltaBuffer, Piece};
use crate::pipeline::Executed;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use std::collections::BTreeMap;
use std::future::{poll_fn, ready};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use turnbuckle_core::ids::{AgentName, CallId, ToolName};
use turnbuckle_core::json::Json;
use turnbuckle_core::machine::{
    CallModel, Chunk, Effect, FinalChanges, NewTitle, StepId, Verdict, Weave,
};
use turnbuckle_core::model::{Block, ModelRequest, ModelResponse};
use turnbuckle_models::alarm::{Alarm, Alarms};
use turnbuckle_models::tokens::PromptCount;
use turnbuckle_models::{CallFailure, Model, TokenMeter};

/// A model call under way.
pub(crate) struct ModelWork {
    pub(crate) effect: Effect,
    pub(crate) call: CallModel,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) buffer: DeltaBuffer,
    pub(crate) future: BoxFuture<'static, Result<ModelResponse, CallFailure>>,
    /// What has been told to the machine, for the journal.
    pub(crate) chunks: Vec<Chunk>,
    /// How they are woven together with what came beside them.
    pub(crate) weave: Weave,
    /// What arrived of an answer that nobody reads, such as a route, should it never be complete. Of any other the machine
    /// knows it.
    pub(crate) unread: Vec<Block>,
    /// The request, to be counted should the provider report nothing.
    pub(crate) request: Arc<ModelRequest>,
    pub(crate) meter: Arc<TokenMeter>,
    /// The request's tokens, where they had to be counted.
    pub(crate) counted: Option<PromptCount>,
}

/// A summary of the history being written before a model call.
pub(crate) struct CompactionWork {
    pub(crate) effect: Effect,
    pub(crate) beside: Beside,
    /// Calls it may make.
    pub(crate) tries: u32,
    pub(crate) future: BoxFuture<'static, super::request::Fitted>,
}

/// A captured execution, as it is stored for review.
#[derive(Clone, Debug)]
pub(crate) struct CapturedCall {
    pub(crate) agent: AgentName,
    pub(crate) call: CallId,
    pub(crate) tool: ToolName,
    pub(crate) args: Json,
    pub(crate) index: u32,
}

/// The end of the turn, waiting for the session's title.
pub(crate) struct TitleWork {
    pub(crate) step: StepId,
    pub(crate) changes: FinalChanges,
    /// What can be had without waiting.
    pub(crate) plain: Option<NewTitle>,
    /// The calls of a model that writes it.
    pub(crate) beside: Option<Beside>,
    pub(crate) future: BoxFuture<'static, Option<NewTitle>>,
}

/// Everything under way.
pub(crate) struct Work {
    pub(crate) models: Vec<ModelWork>,
    pub(crate) compactions: Vec<CompactionWork>,
    pub(crate) prepares: FuturesUnordered<BoxFuture<'static, (StepId, Verdict)>>,
    pub(crate) executes: FuturesUnordered<BoxFuture<'static, (StepId, Executed)>>,
    /// Steps by call, for progress reports.
    pub(crate) running: BTreeMap<CallId, StepId>,
    pub(crate) captures: BTreeMap<StepId, CapturedCall>,
    pub(crate) title: Option<TitleWork>,
    /// Rings when text has waited long enough.
    pub(crate) alarm: Alarm,
    pub(crate) pieces: Vec<Piece>,
    /// An execution that ended, to be told after the reports it made.
    pub(crate) early: Option<Box<(StepId, Executed)>>,
}

impl Work {
    /// Nothing under way.
    pub(crate) fn new(alarms: &Arc<Alarms>) -> Self {
        Self {
            // Most turns have one model call under way.
            models: Vec::with_capacity(1),
            compactions: Vec::new(),
            prepares: FuturesUnordered::new(),
            executes: FuturesUnordered::new(),
            running: BTreeMap::new(),
            captures: BTreeMap::new(),
            title: None,
            alarm: Alarm::of(alarms),
            pieces: Vec::new(),
            early: None,
        }
    }

    /// Whether the end of the turn is all that is under way, and no more is wanted than a look at the session's row.
    pub(crate) fn only_looks_up(&self) -> bool {
        self.title.as_ref().is_some_and(|title| title.beside.is_none())
    }

    /// Waits for the store, while what is under way goes on. It may hold a connection that the store needs, or be next in line
    /// for one; left standing, it would keep the very thing from coming that is waited for.
    pub(crate) async fn meanwhile<T>(&mut self, stored: impl Future<Output = T>) -> T {
        let mut stored = pin!(stored);
        poll_fn(|cx| {
            let polled = stored.as_mut().poll(cx);
            if polled.is_pending() {
                self.go_on(cx);
            }
            polled
        })
        .await
    }

    /// Lets everything go on. What ends stays where it is, to be found by the next wait.
    fn go_on(&mut self, cx: &mut Context<'_>) {
        for call in &mut self.models {
            go_on(&mut call.future, cx);
        }
        for work in &mut self.compactions {
            go_on(&mut work.future, cx);
        }
        if let Some(work) = &mut self.title {
            go_on(&mut work.future, cx);
        }
        all_go_on(&mut self.prepares, cx);
        all_go_on(&mut self.executes, cx);
    }
}

fn go_on<T: Send + 'static>(future: &mut BoxFuture<'static, T>, cx: &mut Context<'_>) {
    if let Poll::Ready(value) = future.as_mut().poll(cx) {
        *future = ready(value).boxed();
    }
}

fn all_go_on<T: Send + 'static>(
    futures: &mut FuturesUnordered<BoxFuture<'static, T>>,
    cx: &mut Context<'_>,
) {
    let mut ended = Vec::new();
    while let Poll::Ready(Some(value)) = futures.poll_next_unpin(cx) {
        ended.push(value);
    }
    futures.extend(ended.into_iter().map(|value| ready(value).boxed()));
}

/// What ended a wait.
pub(crate) enum Happened {
    /// A model call ended; the index in [`Work::models`].
    Model(usize, Box<Result<ModelResponse, CallFailure>>),
    /// The history was made to fit; the index in [`Work::compactions`].
    Compacted(usize, Box<super::request::Fitted>),
    /// A call was checked.
    Prepared(StepId, Box<Verdict>),
    /// A call was executed.
    Executed(StepId, Box<Executed>),
    /// The session's title is there, or there is to be none.
    Titled(Option<Box<NewTitle>>),
    /// Deltas of a model call are due: those in [`Work::pieces`].
    Deltas(usize),
    /// Tools reported.
    Reports(Vec<(CallId, Json)>),
    /// Somebody wants the turn stopped.
    Stop,
    /// The inbox has something.
    Inbox,
    /// The lease must be renewed.
    Renew,
    /// The turn is left for another process, and nothing acts on the world.
    Park,
}
