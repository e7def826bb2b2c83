//! A turn that does not wait for its reader.

use super::stream::{Stopper, TurnStream};
use futures_util::{Stream, StreamExt};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use turnbuckle_core::event::Event;

/// The events of a turn that goes on in a task of its own, see [`TurnStream::buffered`].
///
/// Dropping it stops the turn, as dropping a [`TurnStream`] does.
pub struct BufferedStream {
    events: Receiver<Event>,
    stopper: Stopper,
    /// The number of the last event that was handed out.
    last: u64,
    /// Whether there was no room for an event.
    behind: Arc<AtomicBool>,
}

impl TurnStream {
    /// Lets the turn go on in a task of its own, however slowly its events are read: a reader that stands still, such as a
    /// connection to a slow browser, slows it down no more and never keeps it from being stored. Up to `room` events wait for
    /// the reader, at least one. When there is no room for the next one the reader is let go: the stream gives what waits and
    /// ends, [`fell_behind`](BufferedStream::fell_behind) says so, and the rest is read from the store, beginning behind
    /// [`last`](BufferedStream::last).
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures_util::StreamExt;
    /// # async fn example(stream: turnbuckle_engine::TurnStream) {
    /// let mut events = stream.buffered(256);
    /// while let Some(event) = events.next().await {
    ///     println!("{}", event.seq);
    /// }
    /// if events.fell_behind() {
    ///     println!("read on from the store, behind event {}", events.last());
    /// }
    /// # }
    /// ```
    pub fn buffered(self, room: usize) -> BufferedStream {
        let (sender, events) = channel(room.max(1));
        let stopper = self.stopper();
        let behind = Arc::<AtomicBool>::default();
        tokio::spawn(pass_on(self, sender, behind.clone()));
        BufferedStream { events, stopper, last: 0, behind }
    }
}

async fn pass_on(mut turn: TurnStream, reader: Sender<Event>, behind: Arc<AtomicBool>) {
    while let Some(event) = turn.next().await {
        match reader.try_send(event) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                behind.store(true, Ordering::Release);
                return turn.detach();
            }
            // It was stopped by whoever dropped the other end, and what it did is still to be stored.
            Err(TrySendError::Closed(_)) => break,
        }
    }
}

impl BufferedStream {
    /// Stops the turn. The stream still gives its last events.
    pub fn stop(&self) {
        self.stopper.stop();
    }

    /// The number of the last event that was given; 0 before the first.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Whether the stream ends before its turn does, since its reader is too slow. The turn goes on.
    pub fn fell_behind(&self) -> bool {
        self.behind.load(Ordering::Acquire)
    }
}

impl Stream for BufferedStream {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let event = self.events.poll_recv(cx);
        if let Poll::Ready(Some(event)) = &event {
            self.last = event.seq;
        }
        event
    }
}

impl Drop for BufferedStream {
    fn drop(&mut self) {
        // A turn that has ended or was let go is not to be stopped.
        if !self.events.is_closed() {
            self.stopper.stop();
        }
    }
}
