//! Waiting until something happens, in one task and without channels.

use super::Driver;
use super::work::Happened;
use futures_util::StreamExt;
use std::future::poll_fn;
use std::task::{Context, Poll};
use tokio::time::{Instant, sleep_until};

impl Driver {
    pub(crate) async fn wait(&mut self) -> Happened {
        poll_fn(|cx| self.poll_work(cx)).await
    }

    fn poll_work(&mut self, cx: &mut Context<'_>) -> Poll<Happened> {
        self.control.register(cx.waker());
        if self.control.take_stop() {
            return Poll::Ready(Happened::Stop);
        }
        // Before what has ended meanwhile: a message must not miss the step boundary that it came in time for.
        if self.control.take_knock() {
            return Poll::Ready(Happened::Inbox);
        }
        if let Some((step, executed)) = self.work.early.take() {
            return Poll::Ready(Happened::Executed(step, executed));
        }
        let mut next: Option<Instant> = None;
        for (index, call) in self.work.models.iter_mut().enumerate() {
            let polled = call.future.as_mut().poll(cx);
            if let Poll::Ready(result) = polled {
                return Poll::Ready(Happened::Model(index, result));
            }
            let before = self.work.pieces.len();
            call.due = call.buffer.take_due(&mut self.work.pieces);
            if self.work.pieces.len() > before {
                return Poll::Ready(Happened::Deltas(index));
            }
            next = match (next, call.due) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
        for (index, work) in self.work.compactions.iter_mut().enumerate() {
            if let Poll::Ready(fitted) = work.future.as_mut().poll(cx) {
                return Poll::Ready(Happened::Compacted(index, fitted));
            }
        }
        if let Poll::Ready(Some((step, verdict))) = self.work.prepares.poll_next_unpin(cx) {
            return Poll::Ready(Happened::Prepared(step, verdict));
        }
        let executed = self.work.executes.poll_next_unpin(cx);
        // Reports a tool made before it ended come before its end.
        let reports = self.control.take_reports();
        if let Poll::Ready(Some((step, executed))) = executed {
            if !reports.is_empty() {
                self.work.early = Some((step, executed));
                return Poll::Ready(Happened::Reports(reports));
            }
            return Poll::Ready(Happened::Executed(step, executed));
        }
        if !reports.is_empty() {
            return Poll::Ready(Happened::Reports(reports));
        }
        if let Some(writer) = &mut self.writer
            && writer.poll_renew(cx).is_ready()
        {
            return Poll::Ready(Happened::Renew);
        }
        self.poll_flush(next, cx)
    }

    /// Arms the timer for the next batch that is due. It is moved only when it would come too late, not per delta.
    fn poll_flush(&mut self, next: Option<Instant>, cx: &mut Context<'_>) -> Poll<Happened> {
        let Some(due) = next else { return Poll::Pending };
        let timer = match &mut self.work.timer {
            Some(timer) => {
                if self.work.armed.is_none_or(|armed| armed > due) {
                    timer.as_mut().reset(due);
                    self.work.armed = Some(due);
                }
                timer
            }
            none => {
                self.work.armed = Some(due);
                none.insert(Box::pin(sleep_until(due)))
            }
        };
        if timer.as_mut().poll(cx).is_ready() {
            self.work.armed = None;
            // Look again: what was not due is due now.
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}
