//! A bus for processes that share a store and nothing else, such as a file of one machine: within the process it is as quick as
//! memory, and what others do is found in the store, once a second.

use crate::hub::Hub;
use crate::mailbox::Limits;
use crate::memory::MemoryBus;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

/// How often everyone is told to look.
const EVERY: Duration = Duration::from_secs(1);

/// A bus that hears nobody else.
pub(crate) fn start(limits: Limits) -> MemoryBus {
    let hub = Arc::new(Hub::new(limits));
    let told = Arc::clone(&hub);
    let mut task = JoinSet::new();
    task.spawn(async move {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            told.lag_all();
        }
    });
    MemoryBus::polled(hub, task)
}
