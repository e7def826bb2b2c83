//! The one trait through which models are called.
//!
//! A call is a single future in the caller's task: no task is spawned and no channel is crossed. While it runs, the
//! deltas go into the caller's [`DeltaSink`] synchronously, and the future returns `Pending` after each read of the
//! network that brought something, so that a driver which polls it can hand on what the sink holds before more is
//! read. A sink that wants nothing more for the moment is asked again when the future is polled again, and until then
//! nothing is read. Dropping the future drops the HTTP request.

use crate::catalogue::ModelInfo;
use futures_util::future::BoxFuture;
use std::fmt;
use std::time::Duration;
use turnbuckle_core::error::ModelError;
use turnbuckle_core::model::{ModelDelta, ModelRef, ModelRequest, ModelResponse};

/// A model that can be called.
pub trait Model: Send + Sync {
    /// Its name, `provider:model`.
    fn id(&self) -> &ModelRef;

    /// Window, output limit, prices, capabilities and tokenizer.
    fn info(&self) -> &ModelInfo;

    /// How long calls are held back at the moment because the provider said so; a call would wait for it.
    fn held(&self) -> Option<Duration> {
        None
    }

    /// One attempt; nothing is repeated inside. The request's `model` is sent as it is. Deltas go to `sink` as they
    /// arrive; for a call with [`Delivery::Whole`](turnbuckle_core::model::Delivery::Whole) there may be none.
    ///
    /// # Errors
    /// A [`CallFailure`] with the category and, when content had arrived, that content.
    fn call<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a mut (dyn DeltaSink + 'a),
    ) -> BoxFuture<'a, Result<ModelResponse, CallFailure>>;
}

/// Takes the pieces of a streamed answer, in order, in the task that polls the call.
pub trait DeltaSink: Send {
    /// A piece arrived.
    fn delta(&mut self, delta: ModelDelta<'_>);

    /// Whether more is to be read from the network now. While it is not, the call is pending, and nothing that arrives
    /// wakes its task: whoever says no must see to it that the call is polled again.
    fn is_ready(&mut self) -> bool {
        true
    }
}

impl<F: FnMut(ModelDelta<'_>) + Send> DeltaSink for F {
    fn delta(&mut self, delta: ModelDelta<'_>) {
        self(delta);
    }
}

/// A sink that takes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDeltas;

impl DeltaSink for NoDeltas {
    fn delta(&mut self, _: ModelDelta<'_>) {}
}

/// A failed call, with what had arrived by then.
#[derive(Clone, Debug, PartialEq)]
pub struct CallFailure {
    /// What went wrong.
    pub error: ModelError,
    /// The content that arrived before, when any did; its finish reason says nothing.
    pub partial: Option<ModelResponse>,
}

impl CallFailure {
    /// Whether nothing of an answer had arrived, so that another attempt repeats nothing the reader saw.
    pub fn before_content(&self) -> bool {
        self.partial.as_ref().is_none_or(|p| p.blocks.is_empty())
    }
}

impl From<ModelError> for CallFailure {
    fn from(error: ModelError) -> Self {
        Self { error, partial: None }
    }
}

impl fmt::Display for CallFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for CallFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}
