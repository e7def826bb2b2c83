//! A session at work in this process.

use crate::metrics::{Metrics, Tally};
use futures_util::StreamExt;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;
use turnbuckle_bus::{Bus, Live, Notice};
use turnbuckle_core::event::Event;
use turnbuckle_engine::{Stopper, TurnStream};
use turnbuckle_store::SessionKey;

/// Events told together at the most. So much room is made for each batch, however few there are.
const BATCH: usize = 64;
/// Events kept for those who come later, at the most; beyond, they wait for the next commit.
const KEPT: usize = 16 * 1024;

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
    abandon: CancellationToken,
    told: Mutex<Told>,
    metrics: Metrics,
}

/// What was told and is not stored yet, for those who begin to watch.
#[derive(Default)]
struct Told {
    loose: VecDeque<Arc<[Event]>>,
    events: usize,
    committed: u64,
}

impl Running {
    pub(super) fn new(
        session: SessionKey,
        bus: Arc<dyn Bus>,
        stopper: Stopper,
        metrics: Metrics,
    ) -> Self {
        let abandon = CancellationToken::new();
        Self { session, bus, stopper, abandon, told: Mutex::default(), metrics }
    }

    /// Drives the session's turns to their end.
    pub(super) async fn drive(&self, stream: TurnStream) -> End {
        let mut end = End::Done;
        let mut tally = Tally::new(self.metrics.clone());
        let mut stream = stream.ready_chunks(BATCH);
        loop {
            let chunk = tokio::select! {
                biased;
                () = self.abandon.cancelled() => {
                    stream.into_inner().abandon();
                    return end;
                }
                chunk = stream.next() => chunk,
            };
            let Some(mut events) = chunk else { break };
            // A turn's end is stored before it is told. One that is not is what the owner says of itself, when it cannot go
            // on; it is not of the session.
            let committed = stream.get_ref().committed();
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
        self.tell(Vec::new(), stream.get_ref().committed());
        if stream.get_ref().lost_lease() {
            self.metrics.lost_lease();
        }
        end
    }

    fn tell(&self, events: Vec<Event>, committed: u64) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if !events.is_empty() {
            let events: Arc<[Event]> = events.into();
            if self.bus.wanted(&self.session) {
                self.publish(&events);
            }
            told.keep(events);
        }
        if committed > told.committed {
            told.settle(committed);
            self.bus.publish(&self.session, Notice::Committed { seq: committed });
        }
    }

    /// Tells again what is not stored yet.
    pub(super) fn tell_again(&self) {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        for events in &told.loose {
            self.publish(events);
        }
    }

    fn publish(&self, events: &Arc<[Event]>) {
        let live = Live::new(Arc::clone(events));
        self.bus.publish(&self.session, Notice::Events(Arc::new(live)));
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

impl Told {
    fn keep(&mut self, events: Arc<[Event]>) {
        self.events += events.len();
        self.loose.push_back(events);
        if self.events > KEPT {
            self.loose.clear();
            self.events = 0;
        }
    }

    fn settle(&mut self, committed: u64) {
        self.committed = committed;
        while let Some(first) = self.loose.front()
            && first.last().is_none_or(|event| event.seq <= committed)
        {
            self.events -= first.len();
            self.loose.pop_front();
        }
    }
}
