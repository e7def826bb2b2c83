//! A session at work in this process.

use crate::metrics::{Metrics, Tally};
use futures_util::StreamExt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use tokio_util::sync::CancellationToken;
use turnbuckle_bus::{Bus, Live, Notice};
use turnbuckle_core::event::Event;
use turnbuckle_engine::{Loose, Stopper, TurnStream};
use turnbuckle_store::SessionKey;

/// Events told together at the most.
const BATCH: usize = 64;

/// How the work on a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Nothing waits any more, or somebody else works on it.
    Done,
    /// The store failed, or there is a defect; what is stored stays.
    BrokeOff,
}

/// A session at work.
pub(super) struct Running {
    session: SessionKey,
    bus: Arc<dyn Bus>,
    stopper: Stopper,
    /// What is not stored yet, for those who begin to watch.
    loose: Loose,
    abandon: CancellationToken,
    told: Mutex<Told>,
    metrics: Metrics,
}

/// What was told of the session.
#[derive(Default)]
struct Told {
    /// The number of the last event.
    last: u64,
    committed: u64,
}

impl Running {
    pub(super) fn new(
        session: SessionKey,
        bus: Arc<dyn Bus>,
        stream: &TurnStream,
        metrics: Metrics,
    ) -> Self {
        let (stopper, loose) = (stream.stopper(), stream.loose());
        let abandon = CancellationToken::new();
        Self { session, bus, stopper, loose, abandon, told: Mutex::default(), metrics }
    }

    /// Drives the session's turns to their end.
    pub(super) async fn drive(&self, mut stream: TurnStream) -> End {
        let mut end = End::Done;
        let mut tally = Tally::new(self.metrics.clone());
        loop {
            let mut events = tokio::select! {
                biased;
                () = self.abandon.cancelled() => {
                    stream.abandon();
                    return end;
                }
                events = together(&mut stream) => events,
            };
            if events.is_empty() {
                break;
            }
            // A turn's end is stored before it is told. One that is not is what the owner says of itself, when it cannot go
            // on; it is not of the session.
            let committed = stream.committed();
            events.retain(|event| {
                let stored = event.seq > 0 && event.seq <= committed;
                let of_owner = event.kind.is_terminal() && !stored;
                if of_owner {
                    end = End::BrokeOff;
                } else {
                    tally.count(event);
                }
                !of_owner
            });
            self.tell(events, committed);
        }
        self.tell(Vec::new(), stream.committed());
        if stream.lost_lease() {
            self.metrics.lost_lease();
        }
        end
    }

    fn tell(&self, events: Vec<Event>, committed: u64) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = events.last() {
            told.last = last.seq;
            if self.bus.wanted(&self.session) {
                self.publish(events);
            }
        }
        if committed > told.committed {
            told.committed = committed;
            self.bus.publish(&self.session, Notice::Committed { seq: committed });
        }
    }

    /// Tells again what is not stored yet.
    pub(super) fn tell_again(&self) {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let mut loose = self.loose.through(told.last).into_iter();
        loop {
            let events: Vec<Event> = loose.by_ref().take(BATCH).collect();
            if events.is_empty() {
                return;
            }
            self.publish(events);
        }
    }

    fn publish(&self, events: Vec<Event>) {
        self.bus.publish(&self.session, Notice::Events(Arc::new(Live::new(events))));
    }

    /// Leaves it for another process as soon as no tool runs.
    pub(super) fn park(&self) {
        self.stopper.park();
    }

    /// Leaves it at once.
    pub(super) fn abandon(&self) {
        self.abandon.cancel();
    }
}

/// What the stream gives next and without a wait; nothing at its end.
async fn together(stream: &mut TurnStream) -> Vec<Event> {
    let mut events = Vec::new();
    poll_fn(|cx| {
        while events.len() < BATCH {
            match stream.poll_next_unpin(cx) {
                Poll::Ready(Some(event)) => {
                    if events.is_empty() {
                        // A turn that streams mostly gives one at a time.
                        events.reserve_exact(1);
                    }
                    events.push(event);
                }
                Poll::Ready(None) => break,
                Poll::Pending if events.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        Poll::Ready(std::mem::take(&mut events))
    })
    .await
}
