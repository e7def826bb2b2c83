//! Data for the suite.

use crate::bus::Bus;
use crate::hub::{Calls, Watch};
use crate::live::Live;
use crate::notice::{Call, Heard, Notice};
use std::sync::Arc;
use turnbuckle_core::event::{Event, EventKind};
use turnbuckle_core::ids::SessionKey;
use turnbuckle_core::time::Timestamp;

/// The buses of two processes of one service. What is told on either is heard on both.
#[derive(Clone)]
pub struct Pair {
    /// The process of the owner.
    pub here: Arc<dyn Bus>,
    /// The process of the watcher.
    pub there: Arc<dyn Bus>,
}

/// A session of tenant `acme`.
pub fn key(id: &str) -> SessionKey {
    SessionKey::new("acme", id)
}

/// Event `seq` with some text.
pub fn event(session: &SessionKey, seq: u64, text: &str) -> Event {
    let kind = EventKind::TextDelta {
        message: "t-a".into(),
        part: 0,
        offset: 0,
        iteration: 0,
        text: text.to_owned(),
    };
    Event {
        seq,
        epoch: 2,
        at: Timestamp::from_millis(1_700_000_000_123),
        session: session.id.clone(),
        turn: "t".into(),
        agent: "main".into(),
        kind,
    }
}

/// A notice of events.
pub fn events(session: &SessionKey, seqs: std::ops::Range<u64>, text: &str) -> Notice {
    let events: Vec<_> = seqs.map(|seq| event(session, seq, text)).collect();
    Notice::Events(Arc::new(Live::new(events)))
}

/// The next notice. Between processes a listener may be told that it lagged when nothing was lost, so that is passed over.
pub async fn notice(watch: &mut Watch) -> Notice {
    loop {
        match watch.next().await.expect("the bus is open") {
            Heard::Told(notice) => return notice,
            Heard::Lagged => {}
        }
    }
}

/// The next call.
pub async fn call(calls: &mut Calls) -> Call {
    loop {
        match calls.next().await.expect("the bus is open") {
            Heard::Told(call) => return call,
            Heard::Lagged => {}
        }
    }
}
