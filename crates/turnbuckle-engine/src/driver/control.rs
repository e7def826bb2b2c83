//! How others reach a running driver: stop it, tell it that its inbox has something, report progress.

use crate::tool::ProgressSink;
use futures_util::task::AtomicWaker;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use tokio_util::sync::CancellationToken;
use turnbuckle_core::ids::CallId;
use turnbuckle_core::json::Json;

/// Shared by a driver and whoever may disturb it.
#[derive(Default)]
pub(crate) struct Control {
    stop: AtomicBool,
    park: AtomicBool,
    worked: AtomicBool,
    inbox: AtomicBool,
    reported: AtomicBool,
    waker: AtomicWaker,
    reports: Mutex<Vec<(CallId, Json)>>,
    cancel: Mutex<CancellationToken>,
}

impl Control {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Stops the turn.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Leaves the turn for another process, at the next moment at which nothing acts on the world.
    pub(crate) fn park(&self) {
        self.park.store(true, Ordering::Release);
        self.waker.wake();
    }

    pub(crate) fn is_parked(&self) -> bool {
        self.park.load(Ordering::Acquire)
    }

    /// Given to tools.
    pub(crate) fn cancel_token(&self) -> CancellationToken {
        self.cancel.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A turn begins or goes on. It must not begin cancelled, and a stop that came too late for the turn before must not stop
    /// this one.
    pub(crate) fn next_turn(&self) {
        if self.worked.swap(true, Ordering::AcqRel) {
            self.stop.store(false, Ordering::Release);
        }
        let mut cancel = self.cancel.lock().unwrap_or_else(PoisonError::into_inner);
        if cancel.is_cancelled() {
            *cancel = CancellationToken::new();
        }
    }

    /// The inbox has something.
    pub(crate) fn knock(&self) {
        self.inbox.store(true, Ordering::Release);
        self.waker.wake();
    }

    pub(crate) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    pub(crate) fn take_stop(&self) -> bool {
        self.stop.load(Ordering::Acquire) && self.stop.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn take_knock(&self) -> bool {
        self.inbox.load(Ordering::Acquire) && self.inbox.swap(false, Ordering::AcqRel)
    }

    /// Whether somebody wants to be heard before the turn goes on.
    pub(crate) fn is_called(&self) -> bool {
        [&self.stop, &self.park, &self.inbox].iter().any(|flag| flag.load(Ordering::Acquire))
    }

    pub(crate) fn take_reports(&self) -> Vec<(CallId, Json)> {
        if !self.reported.load(Ordering::Acquire) || !self.reported.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut *self.reports.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ProgressSink for Control {
    fn report(&self, call: &CallId, data: Json) {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).push((call.clone(), data));
        self.reported.store(true, Ordering::Release);
        self.waker.wake();
    }
}
