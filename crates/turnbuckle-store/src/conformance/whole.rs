//! Sessions set aside, shown, and taken elsewhere.

use super::sample::{
    Owner, Subject, at, card_id, conflict, everything, key, message, missing, new_session,
};
use crate::error::{Conflict, StoreError};
use crate::memory::MemoryStore;
use crate::model::{
    Blob, Export, Fork, ForkAt, ImportedUsage, NewCaptured, Parked, Post, Posted, Receipt, Release,
    Released, Session, SessionKey, SessionStatus, View,
};
use std::sync::Arc;
use turnbuckle_core::message::Asks;

/// A session whose turn cannot be gone on with is left alone, until somebody sees to it.
pub async fn a_parked_session_waits_for_somebody(store: Subject) {
    let (key, other) = (key("s"), key("other"));
    for key in [&key, &other] {
        let mut owner = Owner::of_new(&store, key).await;
        let open = owner.open("t");
        owner.write(open).await;
        let reason = "its journal is of a newer version: 'x' \u{1F980}";
        let before = everything(&store, key).await;
        let wrong = store.park(key, owner.fence + 1, reason, at(7)).await;
        assert!(matches!(wrong, Err(StoreError::Fenced { .. })), "{wrong:?}");
        assert_eq!(everything(&store, key).await, before);
        store.park(key, owner.fence, reason, at(7)).await.unwrap();
        let session = store.session(key).await.unwrap();
        assert_eq!(session.parked, Some(Parked { reason: reason.to_owned(), at: at(7) }));
        assert_eq!((&session.lease, session.status), (&None, SessionStatus::Running));
        assert!(session.fence > owner.fence, "the one who gave it up cannot write");
    }
    store.post(message(&key, "t2", "Hello?", None)).await.unwrap();
    assert_eq!(store.claimable(at(99_000), 9).await.unwrap(), []);
    let parked = async |after: Option<&SessionKey>, limit| {
        let found = store.parked(after.map(|key| &key.id), limit).await.unwrap();
        found.into_iter().map(|session| session.key).collect::<Vec<_>>()
    };
    assert_eq!(parked(None, 9).await, [other.clone(), key.clone()]);
    assert_eq!(parked(None, 1).await, std::slice::from_ref(&other));
    assert_eq!(parked(Some(&other), 9).await, std::slice::from_ref(&key));

    // An operator lets workers try again.
    store.unpark(&other).await.unwrap();
    store.unpark(&other).await.unwrap();
    assert_eq!(store.claimable(at(8), 9).await.unwrap(), std::slice::from_ref(&other));
    // Whoever can do better claims it and says where the turn stands.
    let mut heir = Owner { n: 1, ..Owner::claim(&store, &key, "newer", at(8)).await };
    assert!(store.session(&key).await.unwrap().parked.is_some());
    let finish = heir.finish("t");
    heir.write(finish).await;
    assert_eq!(store.session(&key).await.unwrap().parked, None);
    store.release(&key, heir.fence, Release::HandOver).await.unwrap();
    assert_eq!(store.claimable(at(9), 9).await.unwrap().len(), 2);
    assert_eq!(parked(None, 9).await, []);
    missing(store.unpark(&super::sample::key("none")).await);
    missing(store.unpark(&SessionKey::new("other", "s")).await);
    missing(store.park(&SessionKey::new("other", "s"), 1, "x", at(1)).await);
}

/// A fork shows copies of cards that stay those of the session it came from, wherever both are taken and in whatever order.
pub async fn a_fork_and_what_it_came_from_are_taken_along(store: Subject) {
    let from: Subject = Arc::new(MemoryStore::new());
    let (original, copy) = (key("s"), key("copy"));
    let mut owner = Owner::of_new(&from, &original).await;
    let finish = owner.approved("t1").await;
    owner.write(finish).await;
    let fork = Fork {
        from: original.clone(),
        at: ForkAt::End,
        id: copy.id.clone(),
        user: "ada".into(),
        title: None,
        state: None,
        now: at(5),
    };
    from.fork_session(fork).await.unwrap();
    let mut owner = Owner::claim(&from, &copy, "two", at(6)).await;
    let open = owner.open("t2");
    owner.write(open).await;
    let pause = owner.pause("t2", Asks::Decision);
    owner.write(pause).await;
    for key in [&copy, &original] {
        let export = from.export_session(key).await.unwrap();
        store.import_session(export, ImportedUsage::Apart).await.unwrap();
        assert_eq!(store.load(key).await.unwrap().messages, from.load(key).await.unwrap().messages);
    }
    for (turn, owner) in [("t1", &original), ("t2", &copy)] {
        let found = store.card(&owner.tenant, &card_id(turn)).await.unwrap();
        assert_eq!(found.session, *owner, "{turn}");
    }
}

/// Whoever opens a session sees its last messages and knows where to go on.
pub async fn a_view_shows_what_a_reader_needs(store: Subject) {
    let key = key("s");
    store.create_session(new_session(&key, at(0))).await.unwrap();
    let session = store.session(&key).await.unwrap();
    let empty = View { session, messages: vec![], first: 0, after_seq: 0, inbox: vec![] };
    assert_eq!(store.view(&key, 9).await.unwrap(), empty);

    let mut owner = Owner::claim(&store, &key, "one", at(0)).await;
    owner.turn("t1").await;
    owner.turn("t2").await;
    let waiting = store.post(message(&key, "t4", "Next", None)).await.unwrap().item().clone();
    let open = owner.open("t3");
    owner.write(open).await;
    let mut step = owner.commit(at(2));
    owner.step(&mut step, "t3", 1, 4);
    owner.write(step).await;
    let all = store.load(&key).await.unwrap().messages;
    let mut expected = View {
        session: store.session(&key).await.unwrap(),
        messages: all[..4].to_vec(),
        first: 0,
        after_seq: 6,
        inbox: vec![waiting],
    };
    assert_eq!(store.view(&key, 9).await.unwrap(), expected, "the events tell what runs");
    (expected.messages, expected.first) = (all[1..4].to_vec(), 1);
    assert_eq!(store.view(&key, 3).await.unwrap(), expected);
    (expected.messages, expected.first) = (vec![], 4);
    assert_eq!(store.view(&key, 0).await.unwrap(), expected);

    let pause = owner.pause("t3", Asks::Decision);
    owner.write(pause).await;
    let all = store.load(&key).await.unwrap().messages;
    let view = store.view(&key, 3).await.unwrap();
    assert_eq!((view.messages.as_slice(), view.first), (&all[4..], 4), "a paused turn is shown");
    assert_eq!(view.after_seq, store.session(&key).await.unwrap().next_seq - 1);
    missing(store.view(&SessionKey::new("other", "s"), 9).await);
}

/// A session in the middle of everything.
async fn busy(store: &Subject, key: &SessionKey) -> Owner {
    let mut owner = Owner::of_new(store, key).await;
    owner.turn("t1").await;
    let first = store.post(message(key, "t2", "Hi", Some("k1"))).await.unwrap().item().n;
    let mut open = owner.open("t2");
    open.consumed = vec![first];
    owner.write(open).await;
    let mut step = owner.commit(at(2));
    owner.step(&mut step, "t2", 3, 70);
    step.captured = vec![NewCaptured { turn: "t2".into(), index: 0, action: Arc::default() }];
    step.state = Some("state \u{0}".to_owned());
    owner.write(step).await;
    let pause = owner.pause("t2", Asks::Decision);
    owner.write(pause).await;
    store.post(message(key, "t3", "And this", Some("k2"))).await.unwrap();
    let blob = Blob {
        id: "b".to_owned(),
        media_type: "text/plain".to_owned(),
        content: b"large".to_vec(),
    };
    store.put_blob(key, blob).await.unwrap();
    owner
}

/// A session can be taken to another store, from this one and to this one, and goes on there as if it had always been there.
pub async fn an_exported_session_is_the_same_elsewhere(store: Subject) {
    let elsewhere = || -> Subject { Arc::new(MemoryStore::new()) };
    for (id, from, to) in
        [("out", Arc::clone(&store), elsewhere()), ("in", elsewhere(), Arc::clone(&store))]
    {
        let key = key(id);
        let owner = busy(&from, &key).await;
        let export = from.export_session(&key).await.unwrap();
        assert_eq!(export.session, Session { lease: None, ..from.session(&key).await.unwrap() });
        assert_eq!((export.events.len(), export.turns.len(), export.inbox.len()), (76, 2, 2));
        assert_eq!(export.blobs.iter().map(|b| b.size).collect::<Vec<_>>(), [5]);
        let written = serde_json::to_string(&export).unwrap();
        let read: Export = serde_json::from_str(&written).unwrap();
        assert_eq!(read, export, "it survives being a file");

        let row = to.import_session(read, ImportedUsage::FromEvents).await.unwrap();
        assert_eq!(row, export.session);
        let again = to.export_session(&key).await.unwrap();
        assert_eq!(Export { blobs: export.blobs.clone(), ..again }, export);
        assert_eq!(to.load(&key).await.unwrap().turn, from.load(&key).await.unwrap().turn);
        for (after, limit) in [(0, 10), (63, 5), (64, 5), (70, 99)] {
            let events = to.events(&key, after, limit).await.unwrap();
            assert_eq!(events, from.events(&key, after, limit).await.unwrap());
        }
        for turn in ["t1", "t2"] {
            let log = to.journal(&key, &turn.into()).await.unwrap();
            assert_eq!(log, from.journal(&key, &turn.into()).await.unwrap());
        }
        assert_eq!(to.card(&key.tenant, &card_id("t2")).await.unwrap().session, key);
        let duplicate = to.post(message(&key, "t2", "Hi", Some("k1"))).await.unwrap();
        assert!(matches!(duplicate, Receipt::Duplicate(_)), "{duplicate:?}");

        let mut heir = Owner::claim(&to, &key, "heir", at(5_000)).await;
        assert!(heir.fence > owner.fence, "no owner of before can write");
        heir.n = owner.n;
        let mut finish = heir.finish("t2");
        finish.consumed = vec![2];
        heir.write(finish).await;
        heir.turn("t3").await;
        assert_eq!(to.load(&key).await.unwrap().messages.len(), 7);
        let input = Posted::Stop { turn: None, by: None };
        let post = Post { key: key.clone(), idempotency_key: None, input, now: at(1) };
        assert_eq!(to.post(post).await.unwrap().item().n, 3);
        assert_eq!(
            to.release(&key, heir.fence, Release::HandOver).await.unwrap(),
            Released::Released
        );
        let taken = conflict(to.import_session(export, ImportedUsage::FromEvents).await);
        assert_eq!(taken, Conflict::SessionExists(key.id.clone()));
        // The next one has cards of the same ids.
        from.delete_session(&key, at(99_000)).await.unwrap();
    }
    missing(store.export_session(&SessionKey::new("other", "in")).await);
}

/// An export that was tampered with is refused whole.
pub async fn an_incoherent_export_is_refused(store: Subject) {
    let elsewhere: Subject = Arc::new(MemoryStore::new());
    let key = key("s");
    busy(&elsewhere, &key).await;
    let good = elsewhere.export_session(&key).await.unwrap();
    let broken: [fn(&mut Export); 12] = [
        |e| drop(e.events.remove(3)),
        |e| drop(e.events.pop()),
        |e| e.events[0].session = "other".into(),
        |e| e.session.next_seq += 1,
        |e| drop(e.turns.pop()),
        |e| e.session.turn = None,
        |e| e.turns[0].turn.id = e.turns[1].turn.id.clone(),
        |e| drop(e.turns[1].journal.remove(0)),
        |e| e.messages.push(e.messages[0].clone()),
        |e| drop(e.inbox.remove(0)),
        |e| e.session.pending = 9,
        |e| e.turns[0].turn.status = crate::model::TurnStatus::Paused,
    ];
    for change in broken {
        let mut export = good.clone();
        change(&mut export);
        let refused = store.import_session(export, ImportedUsage::FromEvents).await;
        assert!(matches!(refused, Err(StoreError::Other { .. })), "{refused:?}");
        missing(store.session(&key).await);
    }
    store.import_session(good, ImportedUsage::FromEvents).await.unwrap();
}
