//! Buses between processes keep the contract, and what only a network can break. What is not running is skipped aloud; in CI
//! nothing may be.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use turnbuckle_bus::conformance::{Pair, call, events, key, notice};
use turnbuckle_bus::{BusError, BusOptions, Call, Heard, Notice, open};
use turnbuckle_testkit::Relay;

/// The address of a backend, if a test may use it.
struct Backend {
    name: &'static str,
    variable: &'static str,
    default: &'static str,
}

impl Backend {
    fn url(&self) -> String {
        std::env::var(self.variable).unwrap_or_else(|_| self.default.to_owned())
    }

    /// A channel nobody else speaks on.
    fn options(&self) -> BusOptions {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let channel = format!("test_{now}_{}_{count}", std::process::id());
        BusOptions { channel, ..BusOptions::new(self.url()) }
    }

    /// Two processes of one service, when the backend is there.
    async fn pair(&self) -> Option<Pair> {
        let options = self.options();
        let here = open(options.clone()).await.unwrap();
        if let Err(BusError::Unavailable { cause, .. }) = here.check().await {
            let url = self.url();
            assert!(
                std::env::var_os("CI").is_none(),
                "{} is not there at {url} ({cause}); nothing may be skipped in CI",
                self.name
            );
            eprintln!("SKIPPED: {} is not there at {url}; set {}", self.name, self.variable);
            return None;
        }
        let there = open(options).await.unwrap();
        Some(Pair { here, there })
    }
}

const POSTGRES: Backend = Backend {
    name: "Postgres",
    variable: "TURNBUCKLE_TEST_POSTGRES",
    default: "postgres://postgres@127.0.0.1:5432/test",
};
const REDIS: Backend =
    Backend { name: "Redis", variable: "TURNBUCKLE_TEST_REDIS", default: "redis://127.0.0.1:6379" };
const NATS: Backend =
    Backend { name: "NATS", variable: "TURNBUCKLE_TEST_NATS", default: "nats://127.0.0.1:4222" };

mod over_postgres {
    turnbuckle_bus::bus_conformance!(super::POSTGRES.pair());
}

mod over_redis {
    turnbuckle_bus::bus_conformance!(super::REDIS.pair());
}

mod over_nats {
    turnbuckle_bus::bus_conformance!(super::NATS.pair());
}

/// The network between two processes and the backend goes away and comes back: both go on alone, and say so. Whether the one
/// that was there all the while was told that it missed something, when the backend can be tested here.
async fn survives_a_break(backend: Backend) -> Option<bool> {
    backend.pair().await?;
    let relay = Relay::to(&backend.url()).await;
    let options = BusOptions { url: relay.url(), ..backend.options() };
    let here = open(options.clone()).await.unwrap();
    let there = open(BusOptions { url: backend.url(), ..options }).await.unwrap();
    here.check().await.unwrap();
    let key = key("s");
    let mut own = here.watch(&key).await;
    let mut far = there.watch(&key).await;
    // Twice: whoever speaks first says after its first words that others may have missed some.
    for _ in 0..2 {
        here.publish(&key, Notice::Committed { seq: 1 });
        assert_eq!(notice(&mut own).await, Notice::Committed { seq: 1 });
        assert_eq!(notice(&mut far).await, Notice::Committed { seq: 1 });
    }

    relay.cut();
    while here.check().await.is_ok() {
        assert_eq!(own.next().await, Some(Heard::Lagged));
    }
    here.publish(&key, events(&key, 2..3, "said alone"));
    assert_eq!(notice(&mut own).await, events(&key, 2..3, "said alone"));
    there.publish(&key, Notice::Committed { seq: 3 });
    assert_eq!(notice(&mut far).await, Notice::Committed { seq: 3 });

    relay.mend();
    // What it can hear again is said after it has lagged for the last time.
    let mut seq = 4;
    loop {
        match own.next().await.unwrap() {
            Heard::Lagged => {
                seq += 1;
                there.publish(&key, Notice::Committed { seq });
            }
            Heard::Told(Notice::Committed { .. }) => break,
            Heard::Told(other) => panic!("{other:?}"),
        }
    }
    here.publish(&key, Notice::Deleted);
    let mut lagged = false;
    loop {
        match far.next().await.unwrap() {
            Heard::Lagged => lagged = true,
            Heard::Told(Notice::Deleted) => break,
            Heard::Told(_) => {}
        }
    }
    here.check().await.unwrap();
    Some(lagged)
}

const TOLD: &str = "what was said during the break may be lost, so the others are told";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_break_of_postgres_is_survived() {
    assert_ne!(survives_a_break(POSTGRES).await, Some(false), "{TOLD}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_break_of_redis_is_survived() {
    assert_ne!(survives_a_break(REDIS).await, Some(true), "nothing is lost");
}

/// What was said while the network was away is heard once it is back, whoever said it, whole and in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_redis_carries_is_lost_in_a_break() {
    if REDIS.pair().await.is_none() {
        return;
    }
    let relay = Relay::to(&REDIS.url()).await;
    let options = BusOptions { url: relay.url(), ..REDIS.options() };
    let here = open(options.clone()).await.unwrap();
    let there = open(BusOptions { url: REDIS.url(), ..options }).await.unwrap();
    let (a, b) = (key("a"), key("b"));
    let (mut near, mut far) = (here.watch(&a).await, there.watch(&b).await);
    let mut calls = here.attend().await;
    there.publish(&a, Notice::Committed { seq: 1 });
    assert_eq!(notice(&mut near).await, Notice::Committed { seq: 1 });

    relay.cut();
    while here.check().await.is_ok() {
        assert_eq!(near.next().await, Some(Heard::Lagged));
    }
    let said = |key| (2..500).map(move |seq| events(key, seq..seq + 1, "said meanwhile"));
    for (ours, theirs) in said(&b).zip(said(&a)) {
        here.publish(&b, ours);
        there.publish(&a, theirs);
    }
    there.call(Call::Inbox { session: b.clone() });
    there.publish(&a, Notice::Deleted);
    here.publish(&b, Notice::Deleted);
    relay.mend();

    for (watch, key) in [(&mut near, &a), (&mut far, &b)] {
        let mut heard = Vec::new();
        while heard.last() != Some(&Notice::Deleted) {
            heard.push(notice(watch).await);
        }
        assert_eq!(heard, said(key).chain([Notice::Deleted]).collect::<Vec<_>>());
    }
    assert_eq!(call(&mut calls).await, Call::Inbox { session: b });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_break_of_nats_is_survived() {
    assert_ne!(survives_a_break(NATS).await, Some(false), "{TOLD}");
}

/// Without its backend a bus is a bus of one process, and says so.
#[tokio::test]
async fn a_bus_without_its_backend_works_alone() {
    let alone = async |url: &str| {
        let bus = open(BusOptions::new(url)).await.unwrap();
        assert!(matches!(bus.check().await, Err(BusError::Unavailable { .. })), "{url}");
        let mut watch = bus.watch(&key("s")).await;
        bus.publish(&key("s"), Notice::Committed { seq: 1 });
        assert_eq!(notice(&mut watch).await, Notice::Committed { seq: 1 });
        // As long as it lasts, everyone is told so.
        assert_eq!(watch.next().await, Some(Heard::Lagged));
        assert_eq!(watch.next().await, Some(Heard::Lagged));
        bus.close().await;
    };
    tokio::join!(
        alone("postgres://u@127.0.0.1:1/db"),
        alone("redis://127.0.0.1:1"),
        alone("rediss://127.0.0.1:1"),
        alone("nats://127.0.0.1:1"),
    );
}
