//! Watches over the silence of a server.

use crate::alarm::{Alarm, Alarms};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;

/// Which wait was too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expired {
    /// For the first byte.
    FirstByte,
    /// For the next piece.
    Idle,
}

/// Watches one call, and costs nothing per piece: a piece only sets a flag and reads no clock. An alarm rings a few times per
/// limit, and only then it is looked whether a piece came. A limit is therefore never undercut; that for the first byte is
/// kept exactly, that for silence is overrun by a tick or two.
#[derive(Debug)]
pub struct Watch {
    alarm: Alarm,
    tick: Duration,
    idle: Duration,
    /// What is waited for, and until when.
    waits: Waits,
    piece: bool,
}

#[derive(Clone, Copy, Debug)]
enum Waits {
    FirstByte {
        since: Instant,
        until: Instant,
    },
    NextPiece {
        since: Instant,
        until: Instant,
    },
    /// The end, however much comes meanwhile.
    End {
        since: Instant,
        until: Instant,
    },
}

/// Looks per limit.
const TICKS: u32 = 8;

impl Watch {
    /// Begins to wait for the first byte.
    pub fn start(alarms: &Arc<Alarms>, first_byte: Duration, idle: Duration) -> Self {
        let since = Instant::now();
        Self {
            alarm: Alarm::of(alarms),
            tick: first_byte.min(idle) / TICKS,
            idle,
            waits: Waits::FirstByte { since, until: since + first_byte },
            piece: false,
        }
    }

    /// Something came.
    pub fn touch(&mut self) {
        self.piece = true;
    }

    /// From now on allows no more than this, however much comes meanwhile.
    pub fn limit(&mut self, rest: Duration) {
        let since = Instant::now();
        self.waits = Waits::End { since, until: since + rest };
    }

    /// Ready when the wait was too long.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Expired> {
        loop {
            let (since, until) = match self.waits {
                Waits::FirstByte { since, until } | Waits::NextPiece { since, until } => {
                    (since, until.min(since + self.tick))
                }
                Waits::End { since, until } => (since, until),
            };
            if self.alarm.poll_within(cx, since, until).is_pending() {
                return Poll::Pending;
            }
            if let Some(expired) = self.look(Instant::now()) {
                return Poll::Ready(expired);
            }
        }
    }

    /// What the clock says when the alarm has rung.
    fn look(&mut self, now: Instant) -> Option<Expired> {
        match &mut self.waits {
            Waits::End { until, .. } => (now >= *until).then_some(Expired::Idle),
            _ if std::mem::take(&mut self.piece) => {
                self.waits = Waits::NextPiece { since: now, until: now + self.idle };
                None
            }
            Waits::FirstByte { until, .. } if now >= *until => Some(Expired::FirstByte),
            Waits::NextPiece { until, .. } if now >= *until => Some(Expired::Idle),
            Waits::FirstByte { since, .. } | Waits::NextPiece { since, .. } => {
                *since = now;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::task::Waker;

    const FIRST: Duration = Duration::from_secs(60);
    const IDLE: Duration = Duration::from_secs(10);

    async fn expiry(watch: &mut Watch) -> (Expired, Duration) {
        let begin = Instant::now();
        let expired = poll_fn(|cx| watch.poll(cx)).await;
        (expired, begin.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn silence_before_the_first_byte() {
        let mut watch = Watch::start(&Arc::default(), FIRST, IDLE);
        assert_eq!(expiry(&mut watch).await, (Expired::FirstByte, FIRST));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_after_a_piece_is_never_undercut_and_overrun_by_a_tick_at_most() {
        for pieces in 1..20 {
            let mut watch = Watch::start(&Arc::default(), FIRST, IDLE);
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
        let mut watch = Watch::start(&Arc::default(), IDLE, FIRST);
        watch.touch();
        let (expired, after) = expiry(&mut watch).await;
        assert_eq!(expired, Expired::Idle);
        assert!(after >= FIRST, "{after:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn another_task_that_takes_over_is_woken_too() {
        let mut watch = Watch::start(&Arc::default(), IDLE, IDLE);
        // Registered with a waker that goes nowhere, as if the first task had polled and then handed over.
        assert!(watch.poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(expiry(&mut watch).await, (Expired::FirstByte, IDLE));
    }
}
