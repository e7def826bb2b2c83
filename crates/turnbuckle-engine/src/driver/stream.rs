//! The events of a running turn as a stream. Model, loop and reader are nested in one task: reading is what drives the turn.

use super::control::Control;
use futures_util::Stream;
use futures_util::future::BoxFuture;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use turnbuckle_core::event::Event;
use turnbuckle_core::pack::Packed;

/// Where a driver puts events until its reader takes them.
#[derive(Clone, Default)]
pub(crate) struct Outlet(Arc<Given>);

#[derive(Default)]
struct Given {
    events: Mutex<Queue>,
    /// Events that are not stored yet, whether they were given or not.
    loose: Mutex<Packed>,
    committed: AtomicU64,
    lost: AtomicBool,
    /// Nobody reads any more.
    unread: AtomicBool,
}

/// Events in the order in which they are taken. What is empty holds no room.
#[derive(Default)]
struct Queue(VecDeque<Event>);

impl Queue {
    fn push_all(&mut self, events: Vec<Event>) {
        if self.0.is_empty() {
            self.0 = events.into();
        } else {
            self.0.extend(events);
        }
    }

    fn pop(&mut self) -> Option<Event> {
        let next = self.0.pop_front()?;
        if self.0.is_empty() {
            self.0 = VecDeque::new();
        }
        Some(next)
    }
}

impl Outlet {
    pub(crate) fn push_all(&self, events: Vec<Event>) {
        if !events.is_empty() && !self.0.unread.load(Ordering::Acquire) {
            self.queue().push_all(events);
        }
    }

    /// The turn goes on without a reader, so nothing is kept for one.
    fn close(&self) {
        self.0.unread.store(true, Ordering::Release);
        *self.queue() = Queue::default();
    }

    /// An event that is to be stored.
    pub(crate) fn keep(&self, event: &Event) {
        self.loose().push(event);
    }

    /// All that is to be stored.
    pub(crate) fn kept(&self) -> Packed {
        self.loose().clone()
    }

    /// Everything up to this number is stored.
    pub(crate) fn set_committed(&self, seq: u64) {
        self.0.committed.fetch_max(seq, Ordering::AcqRel);
        self.loose().drop_through(seq);
    }

    fn loose(&self) -> MutexGuard<'_, Packed> {
        self.0.loose.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another process has taken the session over.
    pub(crate) fn set_lost(&self) {
        self.0.lost.store(true, Ordering::Release);
    }

    fn pop(&self) -> Option<Event> {
        self.queue().pop()
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a driver's future ended, beside the events.
pub(crate) type DriveFuture = BoxFuture<'static, ()>;

/// The events of one or several turns of a session, in order.
///
/// The turn goes on while the stream is read, and only then. In between it may hold the store, so a task that reads it must not
/// wait for the store without reading on: post to the session from another task, or do both at once.
///
/// Dropping the stream stops the turn in an orderly way: what was done is stored, what runs is cancelled, and the outcome is
/// `aborted`. To let a turn go on without a reader, use [`detach`](TurnStream::detach); for a reader who may stand still, such as
/// a connection to a browser, use [`buffered`](TurnStream::buffered).
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

    /// What the stream gave and is not stored yet, for those who come later than it was given.
    pub fn loose(&self) -> Loose {
        Loose(self.outlet.clone())
    }

    /// The number of the last event that is known to be stored; 0 before the first commit. An event that the stream gave and
    /// whose number is higher may yet turn out void, should this process die.
    pub fn committed(&self) -> u64 {
        self.outlet.0.committed.load(Ordering::Acquire)
    }

    /// Whether the work ended because another process has taken the session over: this one had fallen silent for longer than its
    /// lease. What it did since is not stored.
    pub fn lost_lease(&self) -> bool {
        self.outlet.0.lost.load(Ordering::Acquire)
    }

    /// Leaves the turn as it is stored, at once and whatever runs, as if the process had died. Another one goes on with it.
    pub fn abandon(mut self) {
        self.drive = None;
    }

    /// Lets the turn go on in a task of its own; its events are kept by the store.
    pub fn detach(mut self) {
        if let Some(drive) = self.drive.take() {
            self.outlet.close();
            tokio::spawn(drive);
        }
    }
}

/// Events of a [`TurnStream`] that are not stored yet.
#[derive(Clone)]
pub struct Loose(Outlet);

impl Loose {
    /// Those up to the number `seq`, which the stream has given.
    pub fn through(&self, seq: u64) -> Vec<Event> {
        self.0.loose().iter().take_while(|event| event.seq <= seq).collect()
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

    /// Leaves the turn for another process to go on with, as soon as no tool runs; the stream ends then. A model call under way
    /// is dropped and made again.
    pub fn park(&self) {
        self.0.park();
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
        self.outlet.close();
        self.control.stop();
        // The reader is gone, but what was done must still be stored.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(drive);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnbuckle_core::event::EventKind;

    fn event(seq: u64) -> Event {
        let kind = EventKind::TurnAborted {
            reason: turnbuckle_core::outcome::AbortReason::Superseded,
            usage: Box::default(),
        };
        let (session, turn, agent) = ("s".into(), "t".into(), "main".into());
        Event { seq, epoch: 0, at: Default::default(), session, turn, agent, kind }
    }

    #[test]
    fn events_are_taken_in_the_order_in_which_they_were_put_in() {
        let outlet = Outlet::default();
        let (mut put, mut got) = (0..20, Vec::new());
        // One at a time, several, and some while others still lie there.
        for (more, taken) in [(1, 1), (3, 1), (2, 4), (0, 1), (5, 2), (9, 12)] {
            outlet.push_all(put.by_ref().take(more).map(event).collect());
            got.extend((0..taken).filter_map(|_| outlet.pop()).map(|event| event.seq));
        }
        assert_eq!(got, (0..20).collect::<Vec<_>>());
        assert!(outlet.pop().is_none());
    }

    #[test]
    fn nothing_is_kept_for_a_reader_who_is_gone() {
        let outlet = Outlet::default();
        outlet.push_all(vec![event(1)]);
        outlet.close();
        outlet.push_all(vec![event(2)]);
        assert!(outlet.pop().is_none());
    }
}
