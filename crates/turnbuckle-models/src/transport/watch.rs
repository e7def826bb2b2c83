//! Watches over the silence of a server.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
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

/// One timer for a whole call, made to cost nothing per piece: a piece only sets a flag and reads no clock. The timer
/// ticks a few times per limit; a tick without a piece since the one before is a quiet one, and enough quiet ones in a row
/// are the end. A limit is therefore never undercut, and overrun by one tick at the most.
pub struct Watch {
    sleep: Pin<Box<Sleep>>,
    idle: Duration,
    quiet: u32,
    piece: bool,
    started: bool,
    registered: Option<Waker>,
}

/// Ticks per idle limit.
const TICKS: u32 = 8;

impl Watch {
    /// Begins to wait for the first byte.
    pub fn start(first_byte: Duration, idle: Duration) -> Self {
        Self {
            sleep: Box::pin(tokio::time::sleep(first_byte)),
            idle,
            quiet: 0,
            piece: false,
            started: false,
            registered: None,
        }
    }

    /// Something came.
    pub fn touch(&mut self) {
        self.piece = true;
        if !self.started {
            self.started = true;
            self.tick();
        }
    }

    /// From now on allows no more than this, however much comes meanwhile.
    pub fn limit(&mut self, rest: Duration) {
        self.started = false;
        self.registered = None;
        self.sleep.as_mut().reset(Instant::now() + rest);
    }

    /// Ready when the wait was too long.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Expired> {
        loop {
            let known = self.registered.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
            if known && !self.sleep.is_elapsed() {
                return Poll::Pending;
            }
            if self.sleep.as_mut().poll(cx).is_pending() {
                self.registered = Some(cx.waker().clone());
                return Poll::Pending;
            }
            if !self.started {
                return Poll::Ready(Expired::FirstByte);
            }
            self.quiet = if std::mem::take(&mut self.piece) { 0 } else { self.quiet + 1 };
            if self.quiet >= TICKS {
                return Poll::Ready(Expired::Idle);
            }
            self.tick();
        }
    }

    fn tick(&mut self) {
        self.registered = None;
        self.sleep.as_mut().reset(Instant::now() + self.idle / TICKS);
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
    async fn silence_after_a_piece_is_never_undercut_and_overrun_by_a_tick_at_most() {
        for pieces in 1..20 {
            let mut watch = Watch::start(FIRST, IDLE);
            for _ in 0..pieces {
                assert!(poll_fn(|cx| Poll::Ready(watch.poll(cx))).await.is_pending());
                tokio::time::advance(Duration::from_millis(2_700)).await;
                watch.touch();
            }
            let (expired, after) = expiry(&mut watch).await;
            assert_eq!(expired, Expired::Idle);
            assert!(
                after >= IDLE && after <= IDLE + IDLE / TICKS * 2,
                "{after:?} after {pieces} pieces"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_first_limit_does_not_shorten_the_idle_one() {
        let mut watch = Watch::start(IDLE, FIRST);
        watch.touch();
        let (expired, after) = expiry(&mut watch).await;
        assert_eq!(expired, Expired::Idle);
        assert!(after >= FIRST, "{after:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn another_task_that_takes_over_is_woken_too() {
        let mut watch = Watch::start(IDLE, IDLE);
        // Registered with a waker that goes nowhere, as if the first task had polled and then handed over.
        assert!(watch.poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(expiry(&mut watch).await, (Expired::FirstByte, IDLE));
    }
}
