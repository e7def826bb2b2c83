//! Waiting until something happens, in one task and without channels.

use super::Driver;
use super::deltas::{BATCH_EARLY, BATCH_TIME};
use super::work::Happened;
use futures_util::StreamExt;
use std::future::poll_fn;
use std::task::{Context, Poll};
use tokio::time::Instant;

impl Driver {
    pub(crate) async fn wait(&mut self) -> Happened {
        poll_fn(|cx| self.poll_work(cx)).await
    }

    /// What tools and checks have come to without a wait, unless somebody wants to be heard first.
    pub(super) async fn at_once(&mut self) -> Option<Happened> {
        if self.control.is_called() {
            return None;
        }
        poll_fn(|cx| {
            Poll::Ready(match self.poll_tools(cx) {
                Poll::Ready(happened) => Some(happened),
                Poll::Pending => None,
            })
        })
        .await
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
        if self.control.is_parked() && self.work.executes.is_empty() && self.work.early.is_none() {
            return Poll::Ready(Happened::Park);
        }
        // Before what streams: an answer that never pauses must not keep the lease from being renewed.
        if let Some(writer) = &mut self.writer
            && writer.poll_renew(cx).is_ready()
        {
            return Poll::Ready(Happened::Renew);
        }
        let mut next: Option<Instant> = None;
        for (index, call) in self.work.models.iter_mut().enumerate() {
            // A call whose answer is left alone for the moment has nothing to do.
            if !call.buffer.is_held()
                && let Poll::Ready(result) = call.future.as_mut().poll(cx)
            {
                return Poll::Ready(Happened::Model(index, Box::new(result)));
            }
            let before = self.work.pieces.len();
            let waiting = call.buffer.take_due(&mut self.work.pieces);
            if self.work.pieces.len() > before {
                return Poll::Ready(Happened::Deltas(index));
            }
            next = match (next, waiting) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
        for (index, work) in self.work.compactions.iter_mut().enumerate() {
            if let Poll::Ready(fitted) = work.future.as_mut().poll(cx) {
                return Poll::Ready(Happened::Compacted(index, Box::new(fitted)));
            }
        }
        if let Some(work) = &mut self.work.title
            && let Poll::Ready(title) = work.future.as_mut().poll(cx)
        {
            return Poll::Ready(Happened::Titled(title.map(Box::new)));
        }
        if let Poll::Ready(happened) = self.poll_tools(cx) {
            return Poll::Ready(happened);
        }
        self.poll_flush(next, cx)
    }

    /// Checks and executions of calls.
    fn poll_tools(&mut self, cx: &mut Context<'_>) -> Poll<Happened> {
        if let Some(early) = self.work.early.take() {
            let (step, executed) = *early;
            return Poll::Ready(Happened::Executed(step, Box::new(executed)));
        }
        // Most polls are for a piece of an answer; asking an empty set means touching memory of its own.
        if !self.work.prepares.is_empty()
            && let Poll::Ready(Some((step, verdict))) = self.work.prepares.poll_next_unpin(cx)
        {
            return Poll::Ready(Happened::Prepared(step, Box::new(verdict)));
        }
        let executed = if self.work.executes.is_empty() {
            Poll::Pending
        } else {
            self.work.executes.poll_next_unpin(cx)
        };
        // Reports a tool made before it ended come before its end.
        let reports = self.control.take_reports();
        if let Poll::Ready(Some((step, executed))) = executed {
            if !reports.is_empty() {
                self.work.early = Some(Box::new((step, executed)));
                return Poll::Ready(Happened::Reports(reports));
            }
            return Poll::Ready(Happened::Executed(step, Box::new(executed)));
        }
        if !reports.is_empty() {
            return Poll::Ready(Happened::Reports(reports));
        }
        Poll::Pending
    }

    /// Sees to it that the next batch goes out in time.
    fn poll_flush(&mut self, since: Option<Instant>, cx: &mut Context<'_>) -> Poll<Happened> {
        let Some(since) = since else { return Poll::Pending };
        let (from, until) = (since + BATCH_EARLY, since + BATCH_TIME);
        if self.work.alarm.poll_within(cx, from, until).is_ready() {
            // Look again: what was not due is due now.
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}
