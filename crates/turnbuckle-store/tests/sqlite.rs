//! The SQLite store keeps the contract, and what only a file can break.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use futures_util::FutureExt;
use std::sync::Arc;
use tempfile::TempDir;
use turnbuckle_core::message::Message;
use turnbuckle_store::conformance::{
    Owner, Subject, at, event, everything, key, message, new_session, user_message,
};
use turnbuckle_store::{Durability, SqliteOptions, SqliteStore, Store, StoreError};

/// Tests need no protection from power loss, and are faster without.
async fn open(dir: &TempDir) -> SqliteStore {
    let options = SqliteOptions::new(dir.path().join("t.db"));
    SqliteStore::with(SqliteOptions { durability: Durability::ProcessCrash, ..options })
        .await
        .unwrap()
}

async fn fresh() -> (Arc<dyn Store>, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (Arc::new(open(&dir).await), dir)
}

turnbuckle_store::store_conformance!(fresh());

#[tokio::test]
async fn a_reopened_file_holds_what_was_committed() {
    let dir = tempfile::tempdir().unwrap();
    let key = key("s");
    let before = {
        let store: Subject = Arc::new(SqliteStore::open(dir.path().join("t.db")).await.unwrap());
        let mut owner = Owner::of_new(&store, &key).await;
        owner.turn("t").await;
        everything(&store, &key).await
    };
    for _ in 0..3 {
        let store: Subject = Arc::new(open(&dir).await);
        assert_eq!(everything(&store, &key).await, before);
    }
}

#[tokio::test]
async fn a_closed_store_opens_again_when_used() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir).await;
    store.create_session(new_session(&key("s"), at(0))).await.unwrap();
    store.close().await.unwrap();
    assert!(!dir.path().join("t.db-wal").exists(), "the log is folded into the file");
    assert_eq!(store.session(&key("s")).await.unwrap().key, key("s"));
}

/// A commit is dropped after every possible number of polls; then the file is opened anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_dropped_half_way_is_there_whole_or_not_at_all() {
    let mut seen = [0, 0];
    for polls in 0..12 {
        let dir = tempfile::tempdir().unwrap();
        let key = key("s");
        let (before, after) = {
            let store: Subject = Arc::new(open(&dir).await);
            let mut owner = Owner::of_new(&store, &key).await;
            let open = owner.open("t");
            owner.write(open).await;
            let before = everything(&store, &key).await;
            let mut finish = owner.finish("t");
            for i in 0..100 {
                finish.messages.push(Message::User(user_message(&format!("x{i}"), "x")));
            }
            let mut commit = store.commit(finish.clone());
            for _ in 0..polls {
                if (&mut commit).now_or_never().is_some() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            drop(commit);
            // The next user of the same connection finds no half-open transaction.
            store.post(message(&key, "next", "Hi", None)).await.unwrap();
            let now = store.load(&key).await.unwrap();
            assert_eq!(now.inbox.len(), 1);
            // What was dropped may be sent again, whether or not it took effect.
            let whole = now.session.version == 2;
            seen[usize::from(whole)] += 1;
            assert_eq!(now.messages.len(), if whole { 102 } else { 1 });
            assert_eq!(store.events(&key, 0, 99).await.unwrap().len(), if whole { 3 } else { 2 });
            store.commit(finish).await.unwrap();
            (before, everything(&store, &key).await)
        };
        assert_ne!(before, after);
        let store: Subject = Arc::new(open(&dir).await);
        assert_eq!(everything(&store, &key).await, after);
    }
    assert!(seen[0] > 0, "no commit was dropped before it took effect");
}

/// An open transaction of a dropped future must not keep other processes from writing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_future_lets_go_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (open(&dir).await, open(&dir).await);
    let key = key("s");
    one.create_session(new_session(&key, at(0))).await.unwrap();
    for polls in 1..8 {
        let mut post = one.post(message(&key, "t", "Hi", None));
        for _ in 0..polls {
            if (&mut post).now_or_never().is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(post);
        two.set_title(&key, &format!("after {polls} polls"), at(1)).await.unwrap();
    }
    let session = two.session(&key).await.unwrap();
    assert_eq!(session.pending, two.inbox(&key).await.unwrap().len() as u64);
}

/// Two processes share a file: one's writes are the other's reads, and fences hold between them.
#[tokio::test]
async fn two_stores_share_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let one: Subject = Arc::new(open(&dir).await);
    let two: Subject = Arc::new(open(&dir).await);
    let key = key("s");
    let mut zombie = Owner::of_new(&one, &key).await;
    let open_turn = zombie.open("t");
    zombie.write(open_turn).await;
    let heir = Owner::claim(&two, &key, "two", at(5_000)).await;
    let mut step = heir.commit(at(5_001));
    step.events.push(event(&key, "t", 3));
    heir.write(step).await;
    let late = zombie.finish("t");
    assert!(matches!(one.commit(late).await, Err(StoreError::Fenced { .. })));
    assert_eq!(one.events(&key, 2, 9).await.unwrap(), [event(&key, "t", 3)]);
}

#[tokio::test]
async fn two_processes_may_make_the_file_at_once() {
    for _ in 0..5 {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = tokio::join!(open(&dir), open(&dir));
        a.create_session(new_session(&key("s"), at(0))).await.unwrap();
        b.session(&key("s")).await.unwrap();
    }
}

#[tokio::test]
async fn what_is_no_database_is_named_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.db");
    std::fs::write(
        &path,
        "this is a letter, not a database, and long enough to be looked at".repeat(20),
    )
    .unwrap();
    let error = SqliteStore::open(&path).await.err().unwrap();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    assert!(!error.retryable());
    let error = SqliteStore::open(dir.path().join("no/such/directory.db")).await.err().unwrap();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    assert!(error.report().contains("unable to open"), "{}", error.report());
}

/// A full disk refuses the commit whole; what is stored can be read, and work goes on when there is room.
#[tokio::test]
async fn a_full_disk_refuses_whole_commits_and_recovers() {
    let dir = tempfile::tempdir().unwrap();
    let key = key("s");
    let shared = open(&dir).await;
    let store: Subject = Arc::new(shared.clone());
    let mut owner = Owner::of_new(&store, &key).await;
    let open_turn = owner.open("t");
    owner.write(open_turn).await;
    let before = everything(&store, &key).await;
    shared.limit_pages(80).await.unwrap();
    let mut large = owner.finish("t");
    large.state = Some("x".repeat(1_000_000));
    let error = store.commit(large.clone()).await.unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert!(!error.retryable());
    assert_eq!(everything(&store, &key).await, before);
    shared.limit_pages(1_000_000).await.unwrap();
    store.commit(large).await.unwrap();
}
