//! What waits for one listener: bounded, and never in the way of who tells it.

use crate::notice::{Call, Heard, Notice};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// How much may wait for one listener before it lags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// At most so many items.
    pub items: usize,
    /// At most about so many bytes; a single item may be larger.
    pub bytes: usize,
}

impl Default for Limits {
    /// 1,024 items and 1 MiB.
    fn default() -> Self {
        Self { items: 1024, bytes: 1024 * 1024 }
    }
}

/// What can wait in a mailbox.
pub(crate) trait Letter {
    /// About how many bytes it takes.
    fn weight(&self) -> usize;

    /// Whether the next one makes it superfluous.
    fn superseded_by(&self, next: &Self) -> bool;
}

impl Letter for Notice {
    fn weight(&self) -> usize {
        match self {
            Notice::Events(live) => live.weight(),
            Notice::Committed { .. } | Notice::Titled | Notice::Deleted => 16,
        }
    }

    fn superseded_by(&self, next: &Self) -> bool {
        match (self, next) {
            (Notice::Committed { seq: old }, Notice::Committed { seq: new }) => old <= new,
            (old, new) => matches!((old, new), (Notice::Titled, Notice::Titled)),
        }
    }
}

impl Letter for Call {
    fn weight(&self) -> usize {
        let session = match self {
            Call::Inbox { session } | Call::Recall { session } | Call::Stop { session, .. } => {
                session
            }
            Call::Work { queue } => return 32 + queue.len(),
        };
        64 + session.tenant.as_str().len() + session.id.as_str().len()
    }

    fn superseded_by(&self, next: &Self) -> bool {
        self == next
    }
}

pub(crate) struct Mailbox<T> {
    limits: Limits,
    state: Mutex<State<T>>,
}

struct State<T> {
    waiting: VecDeque<T>,
    bytes: usize,
    lagged: bool,
    closed: bool,
    waker: Option<Waker>,
}

impl<T: Letter> Mailbox<T> {
    pub(crate) fn new(limits: Limits) -> Self {
        let waiting = VecDeque::new();
        let state = State { waiting, bytes: 0, lagged: false, closed: false, waker: None };
        Self { limits, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an item. When there is no room, all that waits is dropped: who lags reads the store, and what is told afterwards
    /// is worth more than what was told before.
    pub(crate) fn put(&self, item: T) {
        let weight = item.weight();
        let mut state = self.state();
        if state.closed {
            return;
        }
        if let Some(last) = state.waiting.back_mut()
            && last.superseded_by(&item)
        {
            *last = item;
            return;
        }
        let full = state.waiting.len() >= self.limits.items
            || (!state.waiting.is_empty() && state.bytes + weight > self.limits.bytes);
        if full {
            state.waiting = VecDeque::new();
            state.bytes = 0;
            state.lagged = true;
        }
        state.bytes += weight;
        state.waiting.push_back(item);
        wake(state);
    }

    /// Tells the listener that it may have missed something before what it hears next. What waits stays.
    #[cfg(feature = "remote")]
    pub(crate) fn lag(&self) {
        let mut state = self.state();
        state.lagged = true;
        wake(state);
    }

    /// Ends the stream after what waits.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        wake(state);
    }

    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<Heard<T>>> {
        let mut state = self.state();
        if std::mem::take(&mut state.lagged) {
            return Poll::Ready(Some(Heard::Lagged));
        }
        match state.waiting.pop_front() {
            Some(item) => {
                state.bytes = state.bytes.saturating_sub(item.weight());
                Poll::Ready(Some(Heard::Told(item)))
            }
            None if state.closed => Poll::Ready(None),
            None => {
                match &mut state.waker {
                    Some(known) => known.clone_from(cx.waker()),
                    none => *none = Some(cx.waker().clone()),
                }
                Poll::Pending
            }
        }
    }
}

/// Wakes the listener once the lock is free.
fn wake<T>(mut state: MutexGuard<'_, State<T>>) {
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}
