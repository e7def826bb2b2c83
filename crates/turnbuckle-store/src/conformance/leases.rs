//! Who owns a session.

use super::sample::{Owner, Subject, at, everything, key, message, missing, new_session};
use crate::error::StoreError;
use crate::model::{Claim, Lease, Release, Released, SessionKey, SessionStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use turnbuckle_core::message::Asks;

fn fenced<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert!(
        matches!(result, Err(StoreError::Fenced { .. })),
        "expected to be fenced off, not {result:?}"
    );
}

/// One owner at a time, until their lease runs out.
pub async fn a_claim_excludes_others_until_it_runs_out(store: Subject) {
    let key = key("s");
    let first = Owner::of_new(&store, &key).await;
    let busy = Claim::Busy { owner: "one".to_owned(), until: at(1_000) };
    for owner in ["one", "two"] {
        assert_eq!(store.claim(&key, owner, 1_000, at(999)).await.unwrap(), busy);
    }
    let Claim::Held { fence, session } = store.claim(&key, "two", 500, at(1_000)).await.unwrap()
    else {
        panic!("the lease has run out");
    };
    assert!(fence > first.fence);
    assert_eq!(session.fence, fence);
    assert_eq!(session.lease, Some(Lease { owner: "two".to_owned(), until: at(1_500) }));
    assert_eq!(*session, store.session(&key).await.unwrap());
}

/// Whoever lost a session, by takeover or by release, changes nothing in it.
pub async fn a_fenced_owner_writes_nothing(store: Subject) {
    let key = key("s");
    let mut zombie = Owner::of_new(&store, &key).await;
    let open = zombie.open("t");
    zombie.write(open).await;
    let heir = Owner::claim(&store, &key, "two", at(5_000)).await;
    let before = everything(&store, &key).await;
    let late = zombie.finish("t");
    fenced(store.commit(late.clone()).await);
    fenced(store.renew(&key, zombie.fence, 1_000, at(5_001)).await);
    fenced(store.release(&key, zombie.fence, Release::HandOver).await);
    assert_eq!(everything(&store, &key).await, before);

    assert_eq!(
        store.release(&key, heir.fence, Release::HandOver).await.unwrap(),
        Released::Released
    );
    let before = everything(&store, &key).await;
    let mut own = late;
    own.fence = heir.fence;
    fenced(store.commit(own.clone()).await);
    own.fence = store.session(&key).await.unwrap().fence;
    fenced(store.commit(own).await);
    assert_eq!(everything(&store, &key).await, before);
}

/// A renewal counts from its own moment and is refused to others.
pub async fn renewing_needs_the_fence(store: Subject) {
    let key = key("s");
    let owner = Owner::of_new(&store, &key).await;
    store.renew(&key, owner.fence, 1_000, at(900)).await.unwrap();
    let until = store.session(&key).await.unwrap().lease.unwrap().until;
    assert_eq!(until, at(1_900));
    store.renew(&key, owner.fence, 1_000, at(9_000)).await.unwrap();
    fenced(store.renew(&key, owner.fence + 1, 1_000, at(9_000)).await);
    fenced(store.renew(&key, owner.fence - 1, 1_000, at(9_000)).await);
    missing(store.renew(&super::sample::key("none"), 1, 1_000, at(0)).await);
}

/// An owner cannot leave while inputs wait, unless it hands them over.
pub async fn releasing_waits_for_the_inbox(store: Subject) {
    let key = key("s");
    let owner = Owner::of_new(&store, &key).await;
    let n = store.post(message(&key, "t", "Hi", None)).await.unwrap().item().n;
    let leave = store.release(&key, owner.fence, Release::WhenDrained).await.unwrap();
    assert_eq!(leave, Released::StillPending(1));
    let mut commit = owner.commit(at(1));
    commit.consumed.push(n);
    assert_eq!(owner.write(commit).await.pending, 0);
    let leave = store.release(&key, owner.fence, Release::WhenDrained).await.unwrap();
    assert_eq!(leave, Released::Released);
    assert_eq!(store.session(&key).await.unwrap().lease, None);

    let owner = Owner::claim(&store, &key, "two", at(2)).await;
    store.post(message(&key, "t2", "Hi", None)).await.unwrap();
    let leave = store.release(&key, owner.fence, Release::HandOver).await.unwrap();
    assert_eq!(leave, Released::Released);
    assert_eq!(store.claimable(at(2), 9).await.unwrap(), [key]);
}

/// Messages queued behind a paused turn neither keep its owner nor call for another, until somebody decides.
pub async fn what_waits_for_the_end_of_a_pause_wakes_nobody(store: Subject) {
    let key = key("s");
    let mut owner = Owner::of_new(&store, &key).await;
    let open = owner.open("t");
    owner.write(open).await;
    let queued = store.post(message(&key, "t2", "And then?", None)).await.unwrap().item().n;
    let pause = owner.pause("t", Asks::Decision);
    owner.write(pause).await;
    let leave = |below| store.release(&key, owner.fence, Release::Keeping { below });
    assert_eq!(leave(queued).await.unwrap(), Released::StillPending(1));
    assert_eq!(leave(queued + 1).await.unwrap(), Released::Released);
    let session = store.session(&key).await.unwrap();
    assert_eq!((session.pending, session.kept_below), (1, queued + 1));
    assert_eq!(store.claimable(at(9_999), 9).await.unwrap(), []);

    let decided = super::sample::decision(&key, "t", super::sample::approve(), "ann");
    let decided = store.post(decided).await.unwrap().item().n;
    assert_eq!(store.claimable(at(9_999), 9).await.unwrap(), std::slice::from_ref(&key));
    let heir = Owner::claim(&store, &key, "two", at(9_999)).await;
    let mut heir = Owner { n: 2, ..heir };
    let mut finish = heir.finish("t");
    finish.consumed.push(decided);
    heir.write(finish).await;
    // The pause is over, so now the message calls for an owner, should this one die.
    store.release(&key, heir.fence, Release::HandOver).await.unwrap();
    assert_eq!(store.claimable(at(9_999), 9).await.unwrap(), [key]);
}

/// Many post while owners come and go: every input is consumed once, without anyone looking for work in between.
pub async fn no_wake_up_is_lost_between_post_and_release(store: Subject) {
    const POSTERS: usize = 6;
    const EACH: usize = 15;
    let key = key("s");
    store.create_session(new_session(&key, at(0))).await.unwrap();
    let mut posters = Vec::new();
    for poster in 0..POSTERS {
        let (store, key) = (Arc::clone(&store), key.clone());
        posters.push(tokio::spawn(async move {
            for i in 0..EACH {
                let turn = format!("t-{poster}-{i}");
                store.post(message(&key, &turn, "Hi", None)).await.unwrap();
                // Whoever posts tries to see to it; when somebody holds the session, it is theirs to see to.
                serve(&store, &key, &format!("owner-{poster}")).await;
            }
        }));
    }
    for poster in posters {
        poster.await.unwrap();
    }
    let session = store.session(&key).await.unwrap();
    assert_eq!((session.pending, session.lease), (0, None));
    assert_eq!(store.inbox(&key).await.unwrap(), []);
    assert_eq!(store.claimable(at(9_999), 9).await.unwrap(), []);
    let events = store.events(&key, 0, u32::MAX).await.unwrap();
    assert_eq!(events.len(), POSTERS * EACH, "one event for each input");
}

/// Consumes what waits until the release succeeds.
async fn serve(store: &Subject, key: &SessionKey, name: &str) {
    let Claim::Held { fence, session } = store.claim(key, name, 60_000, at(1)).await.unwrap()
    else {
        return;
    };
    let mut seq = session.next_seq;
    loop {
        let mut commit = crate::model::Commit::new(key.clone(), fence, at(1));
        for item in store.inbox(key).await.unwrap() {
            commit.consumed.push(item.n);
            commit.events.push(&super::sample::event(key, "t", seq));
            seq += 1;
        }
        store.commit(commit).await.unwrap();
        match store.release(key, fence, Release::WhenDrained).await.unwrap() {
            Released::Released => return,
            Released::StillPending(count) => assert!(count > 0),
        }
    }
}

/// Work without an owner is found; work with one, and no work, is not.
pub async fn claimable_lists_what_needs_an_owner(store: Subject) {
    let names = ["idle", "posted", "running", "paused", "held"];
    let [idle, posted, running, paused, held] = names.map(key);
    store.create_session(new_session(&idle, at(0))).await.unwrap();
    store.create_session(new_session(&posted, at(0))).await.unwrap();
    store.post(message(&posted, "t", "Hi", None)).await.unwrap();
    for (key, turn) in [(&running, "r"), (&paused, "p"), (&held, "h")] {
        let mut owner = Owner::of_new(&store, key).await;
        let open = owner.open(turn);
        owner.write(open).await;
        if *key == paused {
            let pause = owner.pause(turn, Asks::Decision);
            owner.write(pause).await;
        }
        if *key == held {
            store.renew(key, owner.fence, 60_000, at(0)).await.unwrap();
        }
    }
    store.post(message(&held, "t2", "Hi", None)).await.unwrap();
    let mut found = store.claimable(at(999), 9).await.unwrap();
    assert_eq!(found, std::slice::from_ref(&posted));
    found = store.claimable(at(1_000), 9).await.unwrap();
    found.sort();
    assert_eq!(found, [posted.clone(), running.clone()]);
    assert_eq!(store.claimable(at(1_000), 1).await.unwrap(), [posted]);
    assert_eq!(store.claimable(at(60_000), 9).await.unwrap().len(), 3);

    let heir = Owner::claim(&store, &running, "heir", at(1_000)).await;
    let mut heir = Owner { n: 1, ..heir };
    let finish = heir.finish("r");
    heir.write(finish).await;
    assert_eq!(store.session(&running).await.unwrap().status, SessionStatus::Idle);
    store.release(&running, heir.fence, Release::WhenDrained).await.unwrap();
    assert!(!store.claimable(at(99_000), 9).await.unwrap().contains(&running));
}

/// A restarted process takes back its own leases, and only those.
pub async fn forfeiting_frees_what_an_earlier_run_held(store: Subject) {
    let [a, b, c] = ["a", "b", "c"].map(key);
    let mut mine = Owner::of_new(&store, &a).await;
    let open = mine.open("t");
    mine.write(open).await;
    Owner::of_new(&store, &b).await;
    store.create_session(new_session(&c, at(0))).await.unwrap();
    let other = Owner::claim(&store, &c, "two", at(0)).await;
    assert_eq!(store.forfeit("one").await.unwrap(), 2);
    assert_eq!(store.forfeit("one").await.unwrap(), 0);
    fenced(store.commit(mine.commit(at(1))).await);
    other.write(other.commit(at(1))).await;
    assert_eq!(store.claimable(at(1), 9).await.unwrap(), std::slice::from_ref(&a));
    let next = Owner::claim(&store, &a, "one", at(1)).await;
    assert!(next.fence > mine.fence);
}

/// A flag that tasks raise when they won.
#[derive(Default)]
pub(super) struct Once(AtomicBool);

impl Once {
    /// Raises it; panics when it was up.
    pub(super) fn raise(&self) {
        assert!(!self.0.swap(true, Ordering::SeqCst), "only one may succeed");
    }

    pub(super) fn raised(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
