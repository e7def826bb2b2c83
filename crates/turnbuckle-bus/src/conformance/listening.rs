//! Telling and hearing.

use super::sample::{Pair, call, event, events, key, notice};
use crate::live::Live;
use crate::notice::{Call, Heard, Notice};
use std::sync::Arc;
use turnbuckle_core::event::{Event, EventKind};
use turnbuckle_core::ids::SessionKey;

/// One owner's notices come in the order in which it told them.
pub async fn what_is_told_is_heard_in_order(pair: Pair) {
    let key = key("s");
    let mut watch = pair.there.watch(&key).await;
    assert!(pair.there.wanted(&key));
    let mut told = Vec::new();
    for seq in 1..50 {
        told.push(events(&key, seq..seq + 1, "some text"));
        told.push(Notice::Committed { seq });
    }
    told.push(Notice::Deleted);
    for one in &told {
        pair.here.publish(&key, one.clone());
    }
    let mut heard = Vec::new();
    while heard.last() != Some(&Notice::Deleted) {
        heard.push(notice(&mut watch).await);
    }
    assert_eq!(heard, told);
}

/// All who watch a session hear of it, in every process, and nobody else does.
pub async fn every_watcher_hears_and_no_stranger(pair: Pair) {
    let session = key("s");
    let mut watchers = vec![
        pair.here.watch(&session).await,
        pair.there.watch(&session).await,
        pair.there.watch(&session).await,
    ];
    let foreign = SessionKey::new("other", "s");
    let mut strangers = vec![pair.there.watch(&key("s2")).await, pair.there.watch(&foreign).await];
    pair.here.publish(&session, events(&session, 1..4, "text"));
    for watch in &mut watchers {
        assert_eq!(notice(watch).await, events(&session, 1..4, "text"));
    }
    for watch in &mut strangers {
        let own = watch.session().clone();
        pair.here.publish(&own, Notice::Committed { seq: 9 });
        assert_eq!(notice(watch).await, Notice::Committed { seq: 9 });
    }
}

/// What a watcher gets is equal to what was told, rendered alike.
pub async fn events_arrive_whole(pair: Pair) {
    let key = key("s");
    let mut watch = pair.there.watch(&key).await;
    let title =
        EventKind::SessionTitleUpdated { title: "Ärger \u{1F980} \u{0} \"\n\\".to_owned() };
    let live = Live::new([
        event(&key, 1, "'quoted' \u{2028} text"),
        Event { epoch: 0, kind: title, ..event(&key, 2, "") },
    ]);
    let live = Arc::new(live);
    pair.here.publish(&key, Notice::Events(Arc::clone(&live)));
    let Notice::Events(heard) = notice(&mut watch).await else { panic!("events were told") };
    assert_eq!(heard.events(), live.events());
    assert_eq!(heard.lines(), live.lines());
}

/// Nothing is kept for who has gone.
pub async fn who_stopped_watching_is_forgotten(pair: Pair) {
    let key = key("s");
    let first = pair.here.watch(&key).await;
    let mut second = pair.here.watch(&key).await;
    drop(first);
    assert!(pair.here.wanted(&key));
    pair.here.publish(&key, Notice::Committed { seq: 1 });
    assert_eq!(notice(&mut second).await, Notice::Committed { seq: 1 });
    drop(second);
    pair.here.publish(&key, Notice::Committed { seq: 2 });
    let mut third = pair.here.watch(&key).await;
    pair.here.publish(&key, Notice::Committed { seq: 3 });
    assert_eq!(notice(&mut third).await, Notice::Committed { seq: 3 });
}

/// However much is told, a watcher that does not read holds nobody up; it learns that it lagged, and then hears what is new.
pub async fn a_watcher_that_never_reads_lags(pair: Pair) {
    let key = key("s");
    let mut watch = pair.there.watch(&key).await;
    let mut diligent = pair.there.watch(&key).await;
    let last = 20_000;
    for seq in 1..=last {
        pair.here.publish(&key, events(&key, seq..seq + 1, "some text that takes some room"));
    }
    pair.here.publish(&key, Notice::Deleted);
    // Whoever reads sees the end; in between it may have lagged as well.
    while notice(&mut diligent).await != Notice::Deleted {}
    let mut lagged = false;
    let mut heard = 0;
    loop {
        match watch.next().await.unwrap() {
            Heard::Lagged => lagged = true,
            Heard::Told(Notice::Deleted) => break,
            Heard::Told(_) => heard += 1,
        }
    }
    assert!(lagged && heard < last, "lagged: {lagged}, heard {heard}");
    pair.here.publish(&key, Notice::Committed { seq: last });
    assert_eq!(notice(&mut watch).await, Notice::Committed { seq: last });
}

/// Of commits that nobody has looked at yet, the last is enough.
pub async fn commits_are_summed_up(pair: Pair) {
    let key = key("s");
    let mut watch = pair.there.watch(&key).await;
    for seq in 1..=100_000 {
        pair.here.publish(&key, Notice::Committed { seq });
    }
    let mut last = 0;
    while last < 100_000 {
        let Notice::Committed { seq } = notice(&mut watch).await else { panic!("only commits") };
        assert!(seq > last);
        last = seq;
    }
}

/// Wake-ups and stops reach every process.
pub async fn every_worker_hears_every_call(pair: Pair) {
    let mut workers =
        vec![pair.here.attend().await, pair.there.attend().await, pair.there.attend().await];
    let told = [
        Call::Inbox { session: key("s") },
        Call::Stop { session: key("s"), turn: None },
        Call::Stop { session: key("s"), turn: Some("t".into()) },
        Call::Recall { session: key("s") },
        Call::Work { queue: "mail".into() },
    ];
    for one in &told {
        pair.here.call(one.clone());
    }
    for worker in &mut workers {
        for expected in &told {
            assert_eq!(call(worker).await, *expected);
        }
    }
}

/// Nobody waits for a bus that is closed.
pub async fn a_closed_bus_ends_every_stream(pair: Pair) {
    let key = key("s");
    let mut watch = pair.here.watch(&key).await;
    let mut calls = pair.here.attend().await;
    pair.here.close().await;
    while watch.next().await.is_some() {}
    while calls.next().await.is_some() {}
    let mut late = pair.here.watch(&key).await;
    while late.next().await.is_some() {}
    pair.here.publish(&key, Notice::Deleted);
    pair.here.call(Call::Inbox { session: key });
}

/// An event too large for a bus is missed, not cut, and what follows it arrives.
pub async fn large_events_arrive_or_are_missed(pair: Pair) {
    let key = key("s");
    let mut watch = pair.there.watch(&key).await;
    let large = events(&key, 1..2, &"ö\0".repeat(100_000));
    pair.here.publish(&key, large.clone());
    pair.here.publish(&key, Notice::Committed { seq: 1 });
    match watch.next().await.unwrap() {
        Heard::Told(notice) => assert_eq!(notice, large),
        Heard::Lagged => {}
    }
    while notice(&mut watch).await != (Notice::Committed { seq: 1 }) {}
}

/// A bus that works says so.
pub async fn a_bus_at_work_says_so(pair: Pair) {
    pair.here.check().await.unwrap();
    pair.there.check().await.unwrap();
}

/// Many sessions at once, told from both sides: each watcher hears its own, whole and in order.
pub async fn many_sessions_do_not_mix(pair: Pair) {
    const SESSIONS: usize = 40;
    const EACH: u64 = 25;
    let keys: Vec<_> = (0..SESSIONS).map(|i| key(&format!("s{i}"))).collect();
    let mut watches = Vec::new();
    for key in &keys {
        watches.push(pair.there.watch(key).await);
    }
    let teller = |i: usize| if i.is_multiple_of(2) { &pair.here } else { &pair.there };
    for seq in 1..=EACH {
        for (i, key) in keys.iter().enumerate() {
            teller(i).publish(key, events(key, seq..seq + 1, key.id.as_str()));
        }
    }
    for (i, mut watch) in watches.into_iter().enumerate() {
        let key = watch.session().clone();
        teller(i).publish(&key, Notice::Deleted);
        let mut heard = Vec::new();
        while heard.last() != Some(&Notice::Deleted) {
            heard.push(notice(&mut watch).await);
        }
        let text = |seq| events(&key, seq..seq + 1, key.id.as_str());
        let told: Vec<_> = (1..=EACH).map(text).chain([Notice::Deleted]).collect();
        assert_eq!(heard, told);
    }
}
