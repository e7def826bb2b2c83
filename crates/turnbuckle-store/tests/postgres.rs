//! The Postgres store keeps the contract, between several processes, and over what happens to a database.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::Schema;
use futures_util::FutureExt;
use std::sync::Arc;
use std::time::Duration;
use turnbuckle_core::message::{Asks, Message};
use turnbuckle_store::conformance::{
    Owner, Subject, at, event, everything, key, message, new_session, user_message,
};
use turnbuckle_store::{
    Claim, Commit, PostgresOptions, PostgresStore, Release, Released, SessionKey, Store, StoreError,
};

async fn fresh() -> Option<(Arc<dyn Store>, Schema)> {
    let schema = Schema::new().await?;
    Some((Arc::new(schema.open().await), schema))
}

turnbuckle_store::store_conformance!(fresh());

async fn fresh_jobs() -> Option<(PostgresStore, Schema)> {
    let schema = Schema::new().await?;
    Some((schema.open().await, schema))
}

mod jobs {
    turnbuckle_store::jobs_conformance!(super::fresh_jobs());
}

/// Two processes share a database: one's writes are the other's reads, and fences hold between them.
#[tokio::test]
async fn a_zombie_is_fenced_off_by_another_process() {
    let Some(schema) = Schema::new().await else { return };
    let (one, two): (Subject, Subject) =
        (Arc::new(schema.open().await), Arc::new(schema.open().await));
    let key = key("s");
    let mut zombie = Owner::of_new(&one, &key).await;
    let open_turn = zombie.open("t");
    zombie.write(open_turn).await;
    let heir = Owner::claim(&two, &key, "two", at(5_000)).await;
    let mut step = heir.commit(at(5_001));
    step.events.push(&event(&key, "t", 3));
    heir.write(step).await;
    let before = everything(&two, &key).await;
    let mut bare = zombie.commit(at(5_002));
    zombie.step(&mut bare, "t", 1, 1);
    let late = zombie.finish("t");
    for commit in [bare, late] {
        let refused = one.commit(commit).await;
        assert!(matches!(refused, Err(StoreError::Fenced { .. })), "{refused:?}");
    }
    assert_eq!(everything(&two, &key).await, before);
}

/// Of many who claim at the same moment, in two processes, one gets the session; the others learn who.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_claimers_one_wins() {
    let Some(schema) = Schema::new().await else { return };
    let stores = [schema.open().await, schema.open().await];
    for round in 0..20 {
        let key = key(&format!("s{round}"));
        stores[0].create_session(new_session(&key, at(0))).await.unwrap();
        let tasks: Vec<_> = (0..8)
            .map(|i| {
                let (store, key) = (stores[i % 2].clone(), key.clone());
                tokio::spawn(async move {
                    store.claim(&key, &format!("owner-{i}"), 1_000, at(1)).await.unwrap()
                })
            })
            .collect();
        let mut owners = Vec::new();
        let mut busy = Vec::new();
        for task in tasks {
            match task.await.unwrap() {
                Claim::Held { session, .. } => owners.push(session.lease.unwrap().owner),
                Claim::Busy { owner, .. } => busy.push(owner),
            }
        }
        assert_eq!(owners.len(), 1);
        assert_eq!(busy, vec![owners[0].clone(); 7]);
    }
}

/// Many post, while owners in two processes come and go and leave inputs behind a pause: every input is consumed once, and
/// nobody has to look for work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_wake_up_is_lost_under_load() {
    const POSTERS: usize = 12;
    const EACH: usize = 25;
    let Some(schema) = Schema::new().await else { return };
    let stores = [schema.open().await, schema.open().await];
    let key = key("s");
    stores[0].create_session(new_session(&key, at(0))).await.unwrap();
    let posters: Vec<_> = (0..POSTERS)
        .map(|poster| {
            let (store, key): (Subject, _) = (Arc::new(stores[poster % 2].clone()), key.clone());
            tokio::spawn(async move {
                for i in 0..EACH {
                    let turn = format!("t-{poster}-{i}");
                    store.post(message(&key, &turn, "Hi", None)).await.unwrap();
                    serve(&store, &key, &format!("owner-{poster}")).await;
                }
            })
        })
        .collect();
    for poster in posters {
        poster.await.unwrap();
    }
    let session = stores[0].session(&key).await.unwrap();
    assert_eq!((session.pending, session.lease), (0, None));
    assert_eq!(stores[1].claimable(at(9_999), 9).await.unwrap(), []);
    let events = stores[1].events(&key, 0, u32::MAX).await.unwrap();
    assert_eq!(events.len(), POSTERS * EACH, "one event for each input");
}

/// Consumes what waits until the release succeeds, which now and then asks for less than an empty inbox.
async fn serve(store: &Subject, key: &SessionKey, name: &str) {
    let Claim::Held { fence, session } = store.claim(key, name, 60_000, at(1)).await.unwrap()
    else {
        return;
    };
    let mut seq = session.next_seq;
    loop {
        let mut commit = Commit::new(key.clone(), fence, at(1));
        let mut below = 0;
        for item in store.inbox(key).await.unwrap() {
            below = item.n + 1;
            commit.consumed.push(item.n);
            commit.events.push(&event(key, "t", seq));
            seq += 1;
        }
        store.commit(commit).await.unwrap();
        let when = if seq % 2 == 0 { Release::Keeping { below } } else { Release::WhenDrained };
        match store.release(key, fence, when).await.unwrap() {
            Released::Released => return,
            Released::StillPending(count) => assert!(count > 0),
        }
    }
}

#[tokio::test]
async fn several_processes_may_make_the_tables_at_once() {
    let Some(schema) = Schema::new().await else { return };
    let (a, b, c) = tokio::join!(schema.open(), schema.open(), schema.open());
    a.create_session(new_session(&key("s"), at(0))).await.unwrap();
    b.session(&key("s")).await.unwrap();
    c.session(&key("s")).await.unwrap();
}

/// A commit is dropped after every possible number of polls; it is there whole or not at all, and may be sent again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_dropped_half_way_is_there_whole_or_not_at_all() {
    let Some(schema) = Schema::new().await else { return };
    let store: Subject = Arc::new(schema.open().await);
    let mut seen = [0, 0];
    for polls in 0..12 {
        let key = key(&format!("s{polls}"));
        let mut owner = Owner::of_new(&store, &key).await;
        let open = owner.open(&format!("t{polls}"));
        owner.write(open).await;
        let mut finish = owner.pause(&format!("t{polls}"), Asks::Decision);
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
        store.post(message(&key, "next", "Hi", None)).await.unwrap();
        let now = store.load(&key).await.unwrap();
        let whole = now.session.version == 2;
        seen[usize::from(whole)] += 1;
        assert_eq!(now.messages.len(), if whole { 103 } else { 1 });
        store.commit(finish).await.unwrap();
        assert_eq!(store.load(&key).await.unwrap().messages.len(), 103);
    }
    assert!(seen[0] > 0, "no commit was dropped before it took effect");
}

/// The database ends every connection, as it does when it restarts: whoever may repeat their request notices nothing.
#[tokio::test]
async fn lost_connections_are_replaced() {
    let Some(schema) = Schema::new().await else { return };
    let options = schema.options();
    let url = format!("{}?application_name={}", options.url, schema.name);
    let store = PostgresStore::with(PostgresOptions { url, ..options }).await.unwrap();
    let subject: Subject = Arc::new(store.clone());
    let key = key("s");
    let mut owner = Owner::of_new(&subject, &key).await;
    let end_all = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{}'",
        schema.name
    );
    for turn in ["t1", "t2"] {
        // Several connections are open and idle.
        let (a, b, c) = tokio::join!(store.session(&key), store.session(&key), store.session(&key));
        for session in [a, b, c] {
            session.unwrap();
        }
        schema.run(&end_all).await;
        let open = owner.open(turn);
        owner.write(open).await;
        schema.run(&end_all).await;
        let finish = owner.finish(turn);
        owner.write(finish).await;
        schema.run(&end_all).await;
        assert_eq!(store.session(&key).await.unwrap().turn, None);
        schema.run(&end_all).await;
        store.post(message(&key, turn, "Hi", Some(turn))).await.unwrap();
    }
    assert_eq!(store.load(&key).await.unwrap().messages.len(), 4);
    store.close().await;
    assert_eq!(store.inbox(&key).await.unwrap().len(), 2, "it opens again when it is used");
}

/// Right after much was stored the planner takes a look at one session for expensive, and would compile it for longer than it
/// takes a hundred times over.
#[tokio::test]
async fn statements_are_never_compiled() {
    let Some(schema) = Schema::new().await else { return };
    let store = schema.open().await;
    schema
        .run(
            "CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF current_setting('jit') <> 'off' THEN RAISE EXCEPTION 'it may be compiled'; END IF; \
             RETURN NEW; END $$",
        )
        .await;
    schema
        .run("CREATE TRIGGER watch BEFORE INSERT ON sessions FOR EACH ROW EXECUTE FUNCTION watch()")
        .await;
    store.create_session(new_session(&key("s"), at(0))).await.unwrap();
}

/// What cannot be reached is named as such, and may be tried again.
#[tokio::test]
async fn a_database_that_is_not_there_is_unavailable() {
    let error = PostgresStore::open("postgres://u@127.0.0.1:1/db").await.err().unwrap();
    assert!(matches!(error, StoreError::Unavailable { .. }) && error.retryable(), "{error:?}");
    let error = PostgresStore::open("no address at all").await.err().unwrap();
    assert!(!error.retryable(), "{error:?}");
    let options = PostgresOptions::new("postgres://u:secret@127.0.0.1:1/db");
    assert!(!format!("{options:?}").contains("secret"));
}

/// A server that takes connections and never answers does not hold anyone up for ever.
#[tokio::test]
async fn a_database_that_does_not_answer_is_unavailable() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://u@{}/db", silent.local_addr().unwrap());
    let patience = Duration::from_millis(100);
    let options = PostgresOptions { patience, ..PostgresOptions::new(url) };
    let error = PostgresStore::with(options).await.err().unwrap();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
}

/// Postgres cannot hold a NUL character in text; nothing is known by such a name, and a title goes without.
#[tokio::test]
async fn names_with_a_nul_name_nothing() {
    let Some(schema) = Schema::new().await else { return };
    let store = schema.open().await;
    let odd = SessionKey::new("acme", "s\0");
    assert!(matches!(store.session(&odd).await, Err(StoreError::NotFound { .. })));
    let key = key("s");
    store.create_session(new_session(&key, at(0))).await.unwrap();
    store.set_title(&key, "a\0b", at(1)).await.unwrap();
    assert_eq!(store.session(&key).await.unwrap().title.as_deref(), Some("ab"));
}

/// A journal that cannot be read must not take the whole session with it.
#[tokio::test]
async fn a_session_whose_journal_is_damaged_loads_and_says_so() {
    let Some(schema) = Schema::new().await else { return };
    let store: Subject = Arc::new(schema.open().await);
    let key = key("s");
    let mut owner = Owner::of_new(&store, &key).await;
    let open_turn = owner.open("t");
    owner.write(open_turn).await;
    schema.run("UPDATE steps SET journal = '[{\"n\":0,\"at\":\"then\"}]'").await;
    let loaded = store.load(&key).await.unwrap();
    let why = loaded.unreadable.unwrap();
    assert!(why.starts_with("stored journal cannot be read: "), "{why}");
    assert_eq!(loaded.turn.unwrap().journal.len(), 0);
    let finish = owner.finish("t");
    owner.write(finish).await;
    assert_eq!(store.load(&key).await.unwrap().unreadable, None);
}
