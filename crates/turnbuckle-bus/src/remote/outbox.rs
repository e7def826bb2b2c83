//! What waits to be said to other processes: bounded, and never in the way of who says it.

use super::frame::Frame;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// More than so many frames or bytes do not wait.
const MOST: usize = 32_768;
const HEAVIEST: usize = 8 * 1024 * 1024;
/// So many bytes are said at once.
const BATCH: usize = 512 * 1024;

pub(crate) struct Outbox {
    state: Mutex<State>,
    /// Something waits, or the outbox was closed.
    ready: Notify,
    /// Everything was said.
    said: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Frame>,
    bytes: usize,
    /// A batch was taken and not reported as said.
    at_work: bool,
    closed: bool,
}

impl Outbox {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::default(), ready: Notify::new(), said: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a frame. When there is no room, all that waits is dropped, and the others are told that they missed something.
    pub(crate) fn push(&self, frame: Frame) {
        let weight = frame.weight();
        let mut state = self.lock();
        if state.closed {
            return;
        }
        if let Some(last) = state.waiting.back_mut()
            && last.superseded_by(&frame)
        {
            *last = frame;
            return;
        }
        if state.waiting.len() >= MOST || state.bytes + weight > HEAVIEST {
            state.waiting.clear();
            state.waiting.push_back(Frame::Lost(None));
            state.bytes = 0;
        }
        state.bytes += weight;
        state.waiting.push_back(frame);
        drop(state);
        self.ready.notify_one();
    }

    /// The next batch, when there is one; nothing once the outbox is closed and empty.
    pub(crate) async fn take(&self) -> Option<Vec<Frame>> {
        loop {
            {
                let mut state = self.lock();
                let mut batch = Vec::new();
                let mut bytes = 0;
                while bytes < BATCH
                    && let Some(frame) = state.waiting.pop_front()
                {
                    bytes += frame.weight();
                    batch.push(frame);
                }
                state.bytes = state.bytes.saturating_sub(bytes);
                if !batch.is_empty() {
                    state.at_work = true;
                    return Some(batch);
                }
                if state.closed {
                    self.said.notify_waiters();
                    return None;
                }
            }
            self.ready.notified().await;
        }
    }

    /// The batch was said.
    pub(crate) fn done(&self) {
        self.lock().at_work = false;
        self.said.notify_waiters();
    }

    /// Takes nothing more.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.ready.notify_one();
    }

    /// Waits until everything was said.
    pub(crate) async fn said(&self) {
        loop {
            let said = self.said.notified();
            {
                let state = self.lock();
                if state.waiting.is_empty() && !state.at_work {
                    return;
                }
            }
            said.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notice::{Call, Notice};
    use turnbuckle_core::ids::SessionKey;

    fn committed(id: &str, seq: u64) -> Frame {
        Frame::Notice(SessionKey::new("acme", id), Notice::Committed { seq })
    }

    #[tokio::test]
    async fn too_much_becomes_one_word_that_something_was_lost() {
        let outbox = Outbox::new();
        for i in 0..MOST + 2 {
            outbox.push(Frame::Call(Call::Work { queue: format!("q{i}").into() }));
        }
        let taken = outbox.take().await.unwrap();
        let calls = [MOST, MOST + 1].map(|i| Call::Work { queue: format!("q{i}").into() });
        let [a, b] = calls.map(Frame::Call);
        assert_eq!(taken, [Frame::Lost(None), a, b]);
    }

    #[tokio::test]
    async fn of_commits_the_last_is_enough() {
        let outbox = Outbox::new();
        for seq in 1..9 {
            outbox.push(committed("a", seq));
        }
        outbox.push(committed("b", 1));
        outbox.push(committed("a", 9));
        outbox.close();
        outbox.push(committed("a", 10));
        let taken = outbox.take().await.unwrap();
        assert_eq!(taken, [committed("a", 8), committed("b", 1), committed("a", 9)]);
        outbox.done();
        assert_eq!(outbox.take().await, None);
        outbox.said().await;
    }
}
