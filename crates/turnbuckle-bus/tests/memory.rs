//! The bus of a single process keeps the contract.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use futures_util::FutureExt;
use std::sync::Arc;
use turnbuckle_bus::conformance::{Pair, events, key, notice};
use turnbuckle_bus::{Bus, Heard, Limits, MemoryBus, Notice};

async fn fresh() -> Option<Pair> {
    let bus = Arc::new(MemoryBus::new());
    Some(Pair { here: bus.clone(), there: bus })
}

turnbuckle_bus::bus_conformance!(fresh());

/// What waits for a watcher is bounded by bytes as well as by number, and a single large event still goes through.
#[tokio::test]
async fn what_waits_is_bounded() {
    let bus = MemoryBus::with(Limits { items: 100, bytes: 2_000 });
    let key = key("s");
    let mut watch = bus.watch(&key).await;
    let large = events(&key, 1..2, &"x".repeat(10_000));
    bus.publish(&key, large.clone());
    assert_eq!(notice(&mut watch).await, large);
    for seq in 1..=3 {
        bus.publish(&key, events(&key, seq..seq + 1, &"x".repeat(700)));
    }
    let third = events(&key, 3..4, &"x".repeat(700));
    assert_eq!(watch.next().await, Some(Heard::Lagged));
    assert_eq!(watch.next().await, Some(Heard::Told(third)));
    assert_eq!(watch.next().now_or_never(), None);
}

/// Without watchers nobody is wanted, and telling costs nothing but a look.
#[tokio::test]
async fn a_session_nobody_watches_is_not_wanted() {
    let bus = MemoryBus::new();
    let watch = bus.watch(&key("s")).await;
    assert!(bus.wanted(&key("s")) && !bus.wanted(&key("other")));
    drop(watch);
    assert!(!bus.wanted(&key("s")));
    bus.publish(&key("s"), Notice::Deleted);
}

/// A dropped `next` loses nothing.
#[tokio::test]
async fn a_dropped_wait_loses_nothing() {
    let bus = MemoryBus::new();
    let mut watch = bus.watch(&key("s")).await;
    assert_eq!(watch.next().now_or_never(), None);
    bus.publish(&key("s"), Notice::Committed { seq: 1 });
    assert_eq!(watch.next().await, Some(Heard::Told(Notice::Committed { seq: 1 })));
}
