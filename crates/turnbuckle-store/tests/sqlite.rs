//! The SQLite store keeps the contract, and what only a file can break.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use futures_util::FutureExt;
use futures_util::future::join_all;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};
use std::sync::Arc;
use tempfile::TempDir;
use turnbuckle_core::message::Message;
use turnbuckle_store::conformance::{
    Owner, Subject, at, event, everything, key, message, new_session, user_message,
};
use turnbuckle_store::{Commit, Durability, SqliteOptions, SqliteStore, Store, StoreError, Tables};

/// Tests need no protection from power loss, and are faster without.
async fn open(dir: &TempDir) -> SqliteStore {
    let options = SqliteOptions::new(dir.path().join("t.db"));
    SqliteStore::with(SqliteOptions { durability: Durability::ProcessCrash, ..options })
        .await
        .unwrap()
}

async fn fresh() -> Option<(Arc<dyn Store>, TempDir)> {
    let dir = tempfile::tempdir().unwrap();
    Some((Arc::new(open(&dir).await), dir))
}

turnbuckle_store::store_conformance!(fresh());

async fn fresh_jobs() -> Option<(SqliteStore, TempDir)> {
    let dir = tempfile::tempdir().unwrap();
    Some((open(&dir).await, dir))
}

mod jobs {
    turnbuckle_store::jobs_conformance!(super::fresh_jobs());
}

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

/// A step of each of many sessions with an open turn. Every fifth session was taken over by somebody else.
async fn steps(store: &Subject, count: usize) -> Vec<Commit> {
    let mut steps = Vec::new();
    for i in 0..count {
        let key = key(&format!("s{i}"));
        let mut owner = Owner::of_new(store, &key).await;
        let open = owner.open("t");
        owner.write(open).await;
        let mut step = owner.commit(at(2));
        owner.step(&mut step, "t", 1, 3);
        if i % 2 == 0 {
            // More than a mere step.
            step.state = Some("changed".to_owned());
        }
        if i % 5 == 0 {
            Owner::claim(store, &key, "heir", at(99_000)).await;
        }
        steps.push(step);
    }
    steps
}

/// Commits that come at once share a transaction, and one that is refused takes none of the others with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_that_come_at_once_stand_or_fall_each_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let store: Subject = Arc::new(open(&dir).await);
    let steps = steps(&store, 150).await;
    let at_once = async || join_all(steps.iter().map(|step| store.commit(step.clone()))).await;
    let first = at_once().await;
    for (i, (step, stored)) in steps.iter().zip(&first).enumerate() {
        let events = store.events(&step.key, 0, 99).await.unwrap();
        let own: Vec<_> = step.events.iter().collect();
        match stored {
            Err(StoreError::Fenced { .. }) => {
                assert!(i % 5 == 0 && !events.ends_with(&own), "{i}");
            }
            Ok(committed) => {
                assert!(i % 5 != 0 && events.ends_with(&own), "{i}");
                assert_eq!(store.session(&step.key).await.unwrap().next_seq, committed.next_seq);
            }
            Err(error) => panic!("{i}: {error:?}"),
        }
    }
    // Repeated, they change nothing and say the same.
    let again = at_once().await;
    assert_eq!(format!("{again:?}"), format!("{first:?}"));
}

/// Whoever writes for others may be dropped at any moment; theirs is stored all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_commit_takes_none_of_those_beside_it_with_it() {
    for polls in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let store: Subject = Arc::new(open(&dir).await);
        let mut steps = steps(&store, 12).await;
        steps.remove(0);
        let mut commits: Vec<_> = steps.iter().map(|step| store.commit(step.clone())).collect();
        let mut done: Vec<_> = commits.iter_mut().map(|commit| commit.now_or_never()).collect();
        for _ in 0..polls {
            if done[0].is_some() {
                break;
            }
            tokio::task::yield_now().await;
            done[0] = (&mut commits[0]).now_or_never();
        }
        drop(commits.remove(0));
        done.remove(0);
        for (i, (commit, done)) in commits.into_iter().zip(done).enumerate() {
            let stored = match done {
                Some(stored) => stored,
                None => commit.await,
            };
            match stored {
                Ok(_) => {}
                Err(StoreError::Fenced { .. }) => assert!((i + 2) % 5 == 0, "{i}"),
                Err(error) => panic!("{i}: {error:?}"),
            }
        }
        // What was dropped may be sent again, whether or not it took effect.
        store.commit(steps[0].clone()).await.unwrap();
    }
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
    // As of one moment: what was dropped last may only now be written.
    let loaded = two.load(&key).await.unwrap();
    assert_eq!(loaded.session.pending, loaded.inbox.len() as u64);
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
    step.events.push(&event(&key, "t", 3));
    heir.write(step).await;
    let late = zombie.finish("t");
    assert!(matches!(one.commit(late).await, Err(StoreError::Fenced { .. })));
    assert_eq!(one.events(&key, 2, 9).await.unwrap(), [event(&key, "t", 3)]);
}

#[tokio::test]
async fn two_processes_may_make_the_file_at_once() {
    for _ in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let (a, b, ..) = tokio::join!(open(&dir), open(&dir), open(&dir), open(&dir));
        a.create_session(new_session(&key("s"), at(0))).await.unwrap();
        b.session(&key("s")).await.unwrap();
    }
}

/// Looking at a file tells what is in it and makes nothing.
#[tokio::test]
async fn a_look_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let missing = SqliteStore::look(&path).await;
    assert!(matches!(missing, Err(StoreError::Unavailable { .. })), "{missing:?}");
    assert!(!path.exists());
    std::fs::write(&path, "").unwrap();
    assert_eq!(SqliteStore::look(&path).await.unwrap(), Tables::None);
    assert_eq!(std::fs::read(&path).unwrap(), b"");
    let store = SqliteStore::open(&path).await.unwrap();
    assert_eq!(SqliteStore::look(&path).await.unwrap(), Tables::Current, "while it is in use");
    store.close().await.unwrap();
    let before = std::fs::read(&path).unwrap();
    assert_eq!(SqliteStore::look(&path).await.unwrap(), Tables::Current);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    std::fs::write(&path, "no database at all, but long enough to be read as one".repeat(99))
        .unwrap();
    let wrong = SqliteStore::look(&path).await;
    assert!(matches!(wrong, Err(StoreError::Corrupt { .. })), "{wrong:?}");
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

/// A journal that cannot be read must not take the whole session with it.
#[tokio::test]
async fn a_session_whose_journal_is_damaged_loads_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let key = key("s");
    let shared = open(&dir).await;
    let store: Subject = Arc::new(shared.clone());
    let mut owner = Owner::of_new(&store, &key).await;
    let open_turn = owner.open("t");
    owner.write(open_turn).await;
    shared.close().await.unwrap();
    let options = SqliteConnectOptions::new().filename(dir.path().join("t.db"));
    let mut damage = options.connect().await.unwrap();
    sqlx::query("UPDATE steps SET journal = '[{\"n\":0,\"at\":\"then\"}]'")
        .execute(&mut damage)
        .await
        .unwrap();
    damage.close().await.unwrap();

    let loaded = store.load(&key).await.unwrap();
    let why = loaded.unreadable.unwrap();
    assert!(why.starts_with("stored journal cannot be read: "), "{why}");
    let log = loaded.turn.unwrap();
    assert_eq!((log.turn.id.as_str(), log.journal.len()), ("t", 0));
    assert_eq!(loaded.messages.len(), 1);
    let error = store.journal(&key, &"t".into()).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    let finish = owner.finish("t");
    owner.write(finish).await;
    assert_eq!(store.load(&key).await.unwrap().unreadable, None);
}

#[tokio::test]
async fn a_store_is_opened_by_its_address() {
    let dir = tempfile::tempdir().unwrap();
    let address = format!("sqlite:{}", dir.path().join("t.db").display());
    for address in ["memory:", &address] {
        let opened = turnbuckle_store::open(address).await.unwrap();
        opened.sessions.create_session(new_session(&key("s"), at(0))).await.unwrap();
        assert_eq!(opened.jobs.queue_depths(at(0)).await.unwrap(), []);
    }
    for wrong in ["", "t.db", "mysql://u:secret@h/db"] {
        let error = turnbuckle_store::open(wrong).await.err().unwrap();
        assert!(matches!(error, StoreError::Other { .. }), "{error:?}");
        assert!(!error.report().contains("secret"));
    }
}
