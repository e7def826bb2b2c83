//! The events of a running turn as a stream. Model, loop and reader are nested in one task: reading is what drives the turn.

use super::control::Control;
use futures_util::Stream;
use futures_util::future::BoxFuture;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use turnbuckle_core::event::Event;

/// Where a driver puts events until its reader takes them.
#[derive(Clone, Default)]
pub(crate) struct Outlet(Arc<Mutex<VecDeque<Event>>>);

impl Outlet {
    pub(crate) fn push_all(&self, events: impl IntoIterator<Item = Event>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(events);
    }

    fn pop(&self) -> Option<Event> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// How a driver's future ended, beside the events.
pub(crate) type DriveFuture = BoxFuture<'static, ()>;

/// The events of one or several turns of a session, in order.
///
/// The turn goes on while the stream is read. Dropping it stops the turn in an orderly way: what was done is stored, what runs
/// is cancelled, and the outcome is `aborted`. To let a turn go on without a reader, use
/// [`detach`](TurnStream::detach).
pub struct TurnStream {
    outlet: Outlet,
    drive: Option<DriveFuture>,
    control: Arc<Control>,
}

impl TurnStream {
    pub(crate) fn new(outlet: Outlet, control: Arc<Control>, drive: DriveFuture) -> Self {
        Self { outlet, drive: Some(drive), control }
    }

    /// Stops the turn. The stream still gives its last events.
    pub fn stop(&self) {
        self.control.stop();
    }

    /// Something that can stop the turn from elsewhere.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.control.clone())
    }

    /// Lets the turn go on in a task of its own; its events are kept by the store.
    pub fn detach(mut self) {
        if let Some(drive) = self.drive.take() {
            tokio::spawn(drive);
        }
    }
}

/// Stops a turn from elsewhere.
#[derive(Clone)]
pub struct Stopper(Arc<Control>);

impl Stopper {
    /// Stops the turn.
    pub fn stop(&self) {
        self.0.stop();
    }
}

impl Stream for TurnStream {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        if let Some(event) = self.outlet.pop() {
            return Poll::Ready(Some(event));
        }
        if let Some(drive) = &mut self.drive
            && drive.as_mut().poll(cx).is_ready()
        {
            self.drive = None;
        }
        match (self.outlet.pop(), &self.drive) {
            (Some(event), _) => Poll::Ready(Some(event)),
            (None, None) => Poll::Ready(None),
            (None, Some(_)) => Poll::Pending,
        }
    }
}

impl Drop for TurnStream {
    fn drop(&mut self) {
        let Some(drive) = self.drive.take() else { return };
        self.control.stop();
        // The reader is gone, but what was done must still be stored.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(drive);
        }
    }
}
