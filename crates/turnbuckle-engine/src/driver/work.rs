//! What is under way in a turn.

use super::deltas::{DeltaBuffer, Piece};
use crate::pipeline::Executed;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use tokio::time::{Instant, Sleep};
use turnbuckle_core::ids::{CallId, ToolName};
use turnbuckle_core::json::Json;
use turnbuckle_core::machine::{CallModel, Chunk, Effect, StepId, Verdict};
use turnbuckle_core::model::{Block, ModelRequest, ModelResponse};
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
    /// What arrived, should the answer never be complete.
    pub(crate) blocks: Vec<Block>,
    /// The request, to be counted should the provider report nothing.
    pub(crate) request: Arc<ModelRequest>,
    pub(crate) meter: Arc<TokenMeter>,
    /// The request's tokens, where they had to be counted.
    pub(crate) counted: Option<PromptCount>,
    pub(crate) due: Option<Instant>,
}

/// A summary of the history being written before a model call.
pub(crate) struct CompactionWork {
    pub(crate) effect: Effect,
    pub(crate) future: BoxFuture<'static, super::request::Fitted>,
}

/// A captured execution, as it is stored for review.
#[derive(Clone, Debug)]
pub(crate) struct CapturedCall {
    pub(crate) call: CallId,
    pub(crate) tool: ToolName,
    pub(crate) args: Json,
    pub(crate) index: u32,
}

/// Everything under way.
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) models: Vec<ModelWork>,
    pub(crate) compactions: Vec<CompactionWork>,
    pub(crate) prepares: FuturesUnordered<BoxFuture<'static, (StepId, Verdict)>>,
    pub(crate) executes: FuturesUnordered<BoxFuture<'static, (StepId, Executed)>>,
    /// Steps by call, for progress reports.
    pub(crate) running: BTreeMap<CallId, StepId>,
    pub(crate) captures: BTreeMap<StepId, CapturedCall>,
    pub(crate) timer: Option<Pin<Box<Sleep>>>,
    pub(crate) armed: Option<Instant>,
    pub(crate) pieces: Vec<Piece>,
    /// An execution that ended, to be told after the reports it made.
    pub(crate) early: Option<(StepId, Executed)>,
}

/// What ended a wait.
pub(crate) enum Happened {
    /// A model call ended; the index in [`Work::models`].
    Model(usize, Result<ModelResponse, CallFailure>),
    /// The history was made to fit; the index in [`Work::compactions`].
    Compacted(usize, super::request::Fitted),
    /// A call was checked.
    Prepared(StepId, Verdict),
    /// A call was executed.
    Executed(StepId, Executed),
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
}
