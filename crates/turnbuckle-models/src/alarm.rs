//! Timers that outlive what they time.
//!
//! Arming a tokio timer that is due before all others makes its runtime write to itself to wake up, and disarming it at the
//! end of a call is work again. A call seldom needs either: it only has to be woken *some* time before its limit, to look.
//! So alarms go back to a shelf still armed, and the next call takes one that rings soon enough as it is.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::runtime;
use tokio::time::{Instant, Sleep, sleep_until};

/// Alarms at rest on the shelf at the most.
const KEPT: usize = 1024;

/// A shelf of alarms.
#[derive(Debug, Default)]
pub struct Alarms(Mutex<Vec<Armed>>);

#[derive(Debug)]
struct Armed {
    sleep: Pin<Box<Sleep>>,
    /// A timer belongs to the runtime that it was made in.
    runtime: runtime::Id,
}

/// One alarm; it goes back to its shelf when it is dropped.
#[derive(Debug)]
pub struct Alarm {
    shelf: Arc<Alarms>,
    armed: Option<Armed>,
    told: Option<Waker>,
}

impl Alarm {
    /// An alarm of a shelf. Nothing is armed before it is polled.
    pub fn of(shelf: &Arc<Alarms>) -> Self {
        Self { shelf: shelf.clone(), armed: None, told: None }
    }

    /// Wakes the task at some moment after `from` and not after `until`, and is ready then.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers.
    pub fn poll_within(&mut self, cx: &mut Context<'_>, from: Instant, until: Instant) -> Poll<()> {
        let armed = match &mut self.armed {
            Some(armed) => armed,
            none => {
                self.told = None;
                none.insert(self.shelf.take(until))
            }
        };
        let sleep = &mut armed.sleep;
        if sleep.deadline() > until || sleep.deadline() <= from {
            sleep.as_mut().reset(until);
            self.told = None;
        } else if self.told.as_ref().is_some_and(|told| told.will_wake(cx.waker()))
            && !sleep.is_elapsed()
        {
            return Poll::Pending;
        }
        if sleep.as_mut().poll(cx).is_pending() {
            self.told = Some(cx.waker().clone());
            return Poll::Pending;
        }
        self.told = None;
        Poll::Ready(())
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let Some(armed) = self.armed.take() else { return };
        let mut shelf = self.shelf.0.lock().unwrap_or_else(PoisonError::into_inner);
        if shelf.len() < KEPT {
            shelf.push(armed);
        }
    }
}

impl Alarms {
    fn take(&self, until: Instant) -> Armed {
        let runtime = runtime::Handle::current().id();
        let mut shelf = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(armed) = shelf.pop() {
            if armed.runtime == runtime {
                return armed;
            }
        }
        drop(shelf);
        Armed { sleep: Box::pin(sleep_until(until)), runtime }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    async fn ring(alarm: &mut Alarm, from: Instant, until: Instant) -> Instant {
        poll_fn(|cx| alarm.poll_within(cx, from, until)).await;
        Instant::now()
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_alarm_rings_at_the_end_of_the_span() {
        let now = Instant::now();
        let mut alarm = Alarm::of(&Arc::default());
        assert_eq!(ring(&mut alarm, now, now + SECOND).await, now + SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn an_alarm_from_the_shelf_rings_when_it_was_armed_for_if_that_is_soon_enough() {
        let shelf = Arc::default();
        let now = Instant::now();
        let mut first = Alarm::of(&shelf);
        assert!(
            poll_fn(|cx| Poll::Ready(first.poll_within(cx, now, now + SECOND))).await.is_pending()
        );
        drop(first);
        let mut second = Alarm::of(&shelf);
        assert_eq!(ring(&mut second, now, now + 5 * SECOND).await, now + SECOND);
        assert_eq!(ring(&mut second, now + 2 * SECOND, now + 5 * SECOND).await, now + 5 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn an_alarm_that_would_ring_too_late_or_has_rung_is_armed_anew() {
        let shelf = Arc::default();
        let now = Instant::now();
        let mut late = Alarm::of(&shelf);
        assert!(
            poll_fn(|cx| Poll::Ready(late.poll_within(cx, now, now + 9 * SECOND)))
                .await
                .is_pending()
        );
        drop(late);
        let mut sooner = Alarm::of(&shelf);
        assert_eq!(ring(&mut sooner, now, now + SECOND).await, now + SECOND);
        drop(sooner);
        let now = Instant::now();
        let mut rung = Alarm::of(&shelf);
        assert_eq!(ring(&mut rung, now + SECOND, now + 2 * SECOND).await, now + 2 * SECOND);
    }

    #[test]
    fn an_alarm_of_a_runtime_that_has_ended_is_not_used_in_another() {
        let shelf: Arc<Alarms> = Arc::default();
        for _ in 0..2 {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .unwrap();
            runtime.block_on(async {
                let now = Instant::now();
                let mut alarm = Alarm::of(&shelf);
                assert_eq!(ring(&mut alarm, now, now + SECOND).await, now + SECOND);
            });
        }
    }
}
