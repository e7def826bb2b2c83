//! Watches over the silence of a server.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// Which wait was too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expired {
    /// For the first byte.
    FirstByte,
    /// For the next piece.
    Idle,
}

/// One timer for a whole call. Each piece only notes the time; the timer is set anew when it fires too early, so a stream
/// of thousands of pieces touches the runtime's timers once or twice.
pub struct Watch {
    sleep: Pin<Box<Sleep>>,
    first_byte: Duration,
    idle: Duration,
    since: Instant,
    started: bool,
}

impl Watch {
    /// Begins to wait for the first byte.
    pub fn start(first_byte: Duration, idle: Duration) -> Self {
        let since = Instant::now();
        Self {
            sleep: Box::pin(tokio::time::sleep_until(since + first_byte)),
            first_byte,
            idle,
            since,
            started: false,
        }
    }

    /// Something came.
    pub fn touch(&mut self) {
        self.since = Instant::now();
        if !self.started {
            self.started = true;
            let due = self.since + self.idle;
            if self.sleep.deadline() > due {
                self.sleep.as_mut().reset(due);
            }
        }
    }

    /// From now on allows no more than this, however much comes meanwhile.
    pub fn limit(&mut self, rest: Duration) {
        self.since = Instant::now();
        self.started = true;
        self.idle = rest;
        self.sleep.as_mut().reset(self.since + rest);
    }

    /// Ready when the wait was too long.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Expired> {
        loop {
            if self.sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            let (limit, expired) = if self.started {
                (self.idle, Expired::Idle)
            } else {
                (self.first_byte, Expired::FirstByte)
            };
            let due = self.since + limit;
            if due <= Instant::now() {
                return Poll::Ready(expired);
            }
            self.sleep.as_mut().reset(due);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    const FIRST: Duration = Duration::from_secs(60);
    const IDLE: Duration = Duration::from_secs(10);

    async fn expiry(watch: &mut Watch) -> (Expired, Duration) {
        let begin = Instant::now();
        let expired = poll_fn(|cx| watch.poll(cx)).await;
        (expired, begin.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn silence_before_the_first_byte() {
        let mut watch = Watch::start(FIRST, IDLE);
        assert_eq!(expiry(&mut watch).await, (Expired::FirstByte, FIRST));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_after_a_piece_is_measured_from_that_piece() {
        let mut watch = Watch::start(FIRST, IDLE);
        tokio::time::advance(Duration::from_secs(3)).await;
        watch.touch();
        for _ in 0..20 {
            tokio::time::advance(Duration::from_secs(9)).await;
            assert!(poll_fn(|cx| Poll::Ready(watch.poll(cx))).await.is_pending());
            watch.touch();
        }
        assert_eq!(expiry(&mut watch).await, (Expired::Idle, IDLE));
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_first_limit_does_not_shorten_the_idle_one() {
        let mut watch = Watch::start(IDLE, FIRST);
        watch.touch();
        assert_eq!(expiry(&mut watch).await, (Expired::Idle, FIRST));
    }
}
