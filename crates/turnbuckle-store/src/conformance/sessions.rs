//! Sessions as a whole.

use super::sample::{
    Owner, Subject, at, card_id, conflict, decision, event, key, message, missing, new_session,
};
use crate::error::{Conflict, StoreError};
use crate::model::{
    Blob, CapturedStatus, CapturedUpdate, CardQuery, Commit, Fork, ForkAt, NewCaptured, NewSession,
    Release, Session, SessionKey, SessionQuery, SessionStatus, TurnStatus,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use turnbuckle_core::ids::{SessionId, TurnId};
use turnbuckle_core::message::{Asks, Message, MessageState};
use turnbuckle_core::outcome::{AbortReason, Outcome};
use turnbuckle_core::part::{Part, TextPart};

fn query() -> SessionQuery {
    SessionQuery { limit: 99, ..SessionQuery::of("acme".into()) }
}

fn names(sessions: &[Session]) -> Vec<&str> {
    sessions.iter().map(|s| s.key.id.as_str()).collect()
}

/// A new session is empty; its id is taken from then on, whoever asks.
pub async fn a_session_id_is_used_once(store: Subject) {
    let key = key("s");
    let created = store.create_session(new_session(&key, at(3))).await.unwrap();
    let expected = Session {
        key: key.clone(),
        user: "ann".into(),
        agent: "main".into(),
        title: Some("Ärger mit der Rechnung".to_owned()),
        model: Some("rehearsal".to_owned()),
        created: at(3),
        updated: at(3),
        version: 0,
        fence: 0,
        lease: None,
        next_seq: 1,
        status: SessionStatus::Idle,
        turn: None,
        pending: 0,
        kept_below: 0,
        forked_from: None,
        parked: None,
    };
    assert_eq!(created, expected);
    assert_eq!(store.session(&key).await.unwrap(), expected);
    let taken = Conflict::SessionExists("s".into());
    assert_eq!(conflict(store.create_session(new_session(&key, at(4))).await), taken);
    let foreign = SessionKey::new("other", "s");
    assert_eq!(conflict(store.create_session(new_session(&foreign, at(4))).await), taken);
    store.delete_session(&key, at(5)).await.unwrap();
    assert_eq!(conflict(store.create_session(new_session(&key, at(6))).await), taken);
}

/// Lists are ordered by the last change a person would notice, and can be narrowed.
pub async fn sessions_are_listed_last_updated_first(store: Subject) {
    for (i, name) in ["a", "b", "c"].into_iter().enumerate() {
        store.create_session(new_session(&key(name), at(i as i64))).await.unwrap();
    }
    let bob = NewSession { user: "bob".into(), title: None, ..new_session(&key("bob"), at(1)) };
    store.create_session(bob).await.unwrap();
    assert_eq!(names(&store.list_sessions(query()).await.unwrap().items), ["c", "bob", "b", "a"]);
    store.set_title(&key("a"), "Straße 100%_", at(50)).await.unwrap();
    assert_eq!(names(&store.list_sessions(query()).await.unwrap().items), ["a", "c", "bob", "b"]);
    let mut owner = Owner::claim(&store, &key("b"), "one", at(60)).await;
    let mut open = owner.open("t");
    open.now = at(60);
    owner.write(open).await;
    let mut step = owner.commit(at(70));
    owner.step(&mut step, "t", 1, 1);
    owner.write(step).await;
    let listed = store.list_sessions(query()).await.unwrap().items;
    assert_eq!(names(&listed), ["b", "a", "c", "bob"]);
    assert_eq!(listed[0].updated, at(60), "a step in the middle does not move it");

    let of = |user: &str| SessionQuery { user: Some(user.into()), ..query() };
    assert_eq!(names(&store.list_sessions(of("bob")).await.unwrap().items), ["bob"]);
    let titled = |text: &str| SessionQuery { title_contains: Some(text.to_owned()), ..query() };
    for (text, expected) in [
        ("ÄRGER", vec!["b", "c"]),
        ("straße", vec!["a"]),
        ("0%_", vec!["a"]),
        ("%", vec!["a"]),
        ("zzz", vec![]),
    ] {
        assert_eq!(
            names(&store.list_sessions(titled(text)).await.unwrap().items),
            expected,
            "{text}"
        );
    }
    missing(store.set_title(&key("none"), "x", at(0)).await);
}

/// While others are updated or created, unchanged sessions are seen exactly once.
pub async fn pages_neither_repeat_nor_skip(store: Subject) {
    for i in 0..23 {
        // Equal times, so that the id must break ties.
        store.create_session(new_session(&key(&format!("s{i:02}")), at(i / 4))).await.unwrap();
    }
    let mut seen = Vec::new();
    let mut page = SessionQuery { limit: 5, ..query() };
    let mut round = 0;
    loop {
        let got = store.list_sessions(page.clone()).await.unwrap();
        seen.extend(got.items.iter().map(|s| s.key.id.to_string()));
        let Some(next) = got.next else { break };
        page.after = Some(next.to_string().parse().unwrap());
        store
            .create_session(new_session(&key(&format!("new-{round}")), at(1_000 + round)))
            .await
            .unwrap();
        store.set_title(&key("s00"), "moved to the top", at(2_000 + round)).await.unwrap();
        round += 1;
    }
    assert_eq!(round, 4);
    let unique: BTreeSet<_> = seen.iter().cloned().collect();
    assert_eq!(unique.len(), seen.len(), "nothing twice: {seen:?}");
    let unchanged: BTreeSet<_> = (1..23).map(|i| format!("s{i:02}")).collect();
    assert_eq!(unique, unchanged);
}

/// A session with everything in it.
async fn full(store: &Subject, key: &SessionKey) -> Owner {
    let mut owner = Owner::of_new(store, key).await;
    owner.turn("t1").await;
    let open = owner.open("t2");
    owner.write(open).await;
    let mut pause = owner.pause("t2", Asks::Decision);
    pause.captured = vec![NewCaptured { turn: "t2".into(), index: 0, action: Arc::default() }];
    pause.blobs = vec![blob("b")];
    owner.write(pause).await;
    store.post(message(key, "t3", "Hi", Some("k"))).await.unwrap();
    owner
}

fn blob(id: &str) -> Blob {
    Blob { id: id.to_owned(), media_type: "text/plain".to_owned(), content: b"large".to_vec() }
}

/// Nothing of a deleted session is left, and late owners find nothing.
pub async fn deleting_takes_everything(store: Subject) {
    let (key, other) = (key("s"), key("other"));
    let mut owner = full(&store, &key).await;
    store.create_session(new_session(&other, at(0))).await.unwrap();
    let late = owner.finish("t2");
    store.delete_session(&key, at(1_000)).await.unwrap();
    missing(store.session(&key).await);
    missing(store.load(&key).await);
    missing(store.events(&key, 0, 9).await);
    missing(store.card(&key.tenant, &card_id("t2")).await);
    missing(store.get_blob(&key, "b", 0..9).await);
    missing(store.delete_session(&key, at(1_000)).await);
    missing(store.commit(late).await);
    missing(store.commit(owner.commit(at(3))).await);
    missing(store.post(message(&key, "t", "Hi", None)).await);
    missing(store.renew(&key, owner.fence, 1, at(1)).await);
    missing(store.release(&key, owner.fence, Release::HandOver).await);
    missing(store.claim(&key, "one", 1, at(1)).await);
    assert_eq!(store.claimable(at(99_000), 9).await.unwrap(), []);
    assert_eq!(store.cards(CardQuery::of("acme".into())).await.unwrap().items, []);
    assert_eq!(names(&store.list_sessions(query()).await.unwrap().items), ["other"]);
}

/// A session somebody works on is not deleted under them.
pub async fn a_held_session_is_not_deleted(store: Subject) {
    let key = key("s");
    let owner = Owner::of_new(&store, &key).await;
    let busy = store.delete_session(&key, at(999)).await;
    assert!(
        matches!(&busy, Err(StoreError::Busy { owner, until }) if owner == "one" && *until == at(1_000)),
        "{busy:?}"
    );
    owner.write(owner.commit(at(2))).await;
    store.release(&key, owner.fence, Release::WhenDrained).await.unwrap();
    store.delete_session(&key, at(3)).await.unwrap();
}

fn fork(from: &SessionKey, at_place: ForkAt, id: &str) -> Fork {
    let id = SessionId::from(id);
    Fork {
        from: from.clone(),
        at: at_place,
        id,
        user: "bob".into(),
        title: None,
        state: None,
        now: at(9),
    }
}

/// A fork goes its own way with what was finished.
pub async fn a_fork_copies_finished_turns(store: Subject) {
    let (key, copy) = (key("s"), key("copy"));
    full(&store, &key).await;
    let before = super::sample::everything(&store, &key).await;
    let row = store.fork_session(fork(&key, ForkAt::End, "copy")).await.unwrap();
    assert_eq!(super::sample::everything(&store, &key).await, before);
    let original = store.load(&key).await.unwrap();
    let loaded = store.load(&copy).await.unwrap();
    assert_eq!(loaded.session, row);
    let expected = Session {
        key: copy.clone(),
        user: "bob".into(),
        created: at(9),
        updated: at(9),
        version: 0,
        fence: 0,
        lease: None,
        next_seq: 1,
        status: SessionStatus::Idle,
        turn: None,
        pending: 0,
        forked_from: Some("s".into()),
        parked: None,
        ..original.session
    };
    assert_eq!(row, expected);
    assert_eq!(loaded.messages, original.messages[..2]);
    assert_eq!((loaded.state, loaded.turn, loaded.inbox), (original.state, None, vec![]));
    let turns = store.turns(&copy).await.unwrap();
    assert_eq!(turns, store.turns(&key).await.unwrap()[..1]);
    assert_eq!(turns[0].status, TurnStatus::Finished);
    assert_eq!(store.journal(&copy, &"t1".into()).await.unwrap().journal, []);
    assert_eq!(store.events(&copy, 0, 9).await.unwrap(), []);
    assert_eq!(store.captured(&copy, None).await.unwrap(), []);

    let mut owner = Owner::claim(&store, &copy, "one", at(10)).await;
    owner.turn("t5").await;
    assert_eq!(store.load(&copy).await.unwrap().messages.len(), 4);
    assert_eq!(store.events(&copy, 0, 9).await.unwrap()[0], event(&copy, "t5", 1));
    assert_eq!(super::sample::everything(&store, &key).await, before);
    store.delete_session(&key, at(5_000)).await.unwrap();
    assert_eq!(store.get_blob(&copy, "b", 0..9).await.unwrap().content, b"large");
}

/// A fork can end before a message or after a turn, and nowhere between by these.
pub async fn a_fork_ends_at_its_place(store: Subject) {
    let key = key("s");
    let mut owner = Owner::of_new(&store, &key).await;
    for turn in ["t1", "t2"] {
        owner.turn(turn).await;
    }
    let open = owner.open("t3");
    owner.write(open).await;
    let all = store.load(&key).await.unwrap().messages;
    let places = [
        (ForkAt::Position(0), 0),
        (ForkAt::Position(2), 2),
        (ForkAt::Position(4), 4),
        (ForkAt::Position(5), 4),
        (ForkAt::Turn("t1".into()), 2),
        (ForkAt::Turn("t2".into()), 4),
        (ForkAt::End, 4),
    ];
    for (i, (place, length)) in places.into_iter().enumerate() {
        let id = format!("copy-{i}");
        let state = Some(format!("state {i}"));
        let title = Some(format!("Copy {i}"));
        let fork = Fork { title: title.clone(), state: state.clone(), ..fork(&key, place, &id) };
        let row = store.fork_session(fork).await.unwrap();
        assert_eq!(row.title, title);
        let loaded = store.load(&row.key).await.unwrap();
        assert_eq!((loaded.messages.as_slice(), loaded.state), (&all[..length], state));
        assert_eq!(store.turns(&row.key).await.unwrap().len(), length / 2);
    }
    for place in [
        ForkAt::Position(1),
        ForkAt::Position(6),
        ForkAt::Turn("t3".into()),
        ForkAt::Turn("none".into()),
    ] {
        let refused = conflict(store.fork_session(fork(&key, place, "never")).await);
        assert!(matches!(refused, Conflict::NoSuchPlace(_)), "{refused:?}");
    }
    missing(store.session(&super::sample::key("never")).await);
    let taken = conflict(store.fork_session(fork(&key, ForkAt::End, "copy-0")).await);
    assert_eq!(taken, Conflict::SessionExists("copy-0".into()));
}

/// A fork can end inside a turn, running or finished, behind a step that is over. The copied turn was stopped there.
pub async fn a_fork_ends_behind_a_step(store: Subject) {
    let key = key("s");
    let mut owner = Owner::of_new(&store, &key).await;
    owner.turn("t1").await;
    let open = owner.open("t2");
    owner.write(open).await;
    let mut running = owner.commit(at(2));
    running.messages.push(stepwise("t2", MessageState::Running));
    owner.step(&mut running, "t2", 1, 1);
    owner.write(running).await;
    let at_step = |steps| ForkAt::Step { turn: "t2".into(), steps };
    let row = store.fork_session(fork(&key, at_step(1), "early")).await.unwrap();
    assert_eq!((row.status, row.turn, row.next_seq), (SessionStatus::Idle, None, 1));
    let refused = conflict(store.fork_session(fork(&key, at_step(2), "never")).await);
    assert!(matches!(refused, Conflict::NoSuchPlace(_)), "{refused:?}");

    let mut finish = owner.finish("t2");
    let outcome = Outcome::Completed;
    finish.messages = vec![stepwise("t2", MessageState::Finished { outcome })];
    owner.write(finish).await;
    owner.turn("t3").await;
    store.fork_session(fork(&key, at_step(1), "late")).await.unwrap();
    store.fork_session(fork(&key, at_step(2), "whole")).await.unwrap();
    let before = super::sample::everything(&store, &key).await;

    let original = store.load(&key).await.unwrap().messages;
    let stopped = Outcome::Aborted { reason: AbortReason::Stopped };
    for copy in ["early", "late"] {
        let copy = super::sample::key(copy);
        let loaded = store.load(&copy).await.unwrap();
        assert_eq!(loaded.messages[..3], original[..3]);
        let [_, _, _, Message::Assistant(cut)] = loaded.messages.as_slice() else {
            panic!("{:?}", loaded.messages)
        };
        assert_eq!(cut.parts.iter().map(Part::iteration).collect::<Vec<_>>(), [0]);
        assert_eq!(cut.state, MessageState::Finished { outcome: stopped.clone() });
        let turns = store.turns(&copy).await.unwrap();
        let last = turns.last().unwrap();
        assert_eq!((turns.len(), last.id.as_str()), (2, "t2"));
        assert_eq!((last.status, &last.outcome), (TurnStatus::Finished, &Some(stopped.clone())));
        assert!(last.ended.is_some());
        // What is said in it comes behind the cut, and is found.
        let mut owner = Owner::claim(&store, &copy, "one", at(10)).await;
        owner.turn("t9").await;
        assert_eq!(store.load(&copy).await.unwrap().messages.len(), 6);
    }
    let whole = store.load(&super::sample::key("whole")).await.unwrap();
    assert_eq!(whole.messages, original[..4]);
    assert_eq!(super::sample::everything(&store, &key).await, before);
    for place in [at_step(0), at_step(3), ForkAt::Step { turn: "none".into(), steps: 1 }] {
        let refused = conflict(store.fork_session(fork(&key, place, "never")).await);
        assert!(matches!(refused, Conflict::NoSuchPlace(_)), "{refused:?}");
    }
    missing(store.session(&super::sample::key("never")).await);
}

/// An answer of two steps, the second of which is all text.
fn stepwise(turn: &str, state: MessageState) -> Message {
    let mut message = super::sample::assistant_message(turn, "I look.", state);
    if let Message::Assistant(answer) = &mut message {
        let more = TextPart { iteration: 1, text: "There it is.".to_owned(), native: None };
        answer.parts.push(Part::Text(more));
    }
    message
}

/// Whatever a stranger guesses, they see and change nothing, and cannot tell it from what does not exist.
pub async fn a_foreign_tenant_sees_nothing(store: Subject) {
    let own = key("s");
    let mut owner = full(&store, &own).await;
    let before = super::sample::everything(&store, &own).await;
    for foreign in [SessionKey::new("other", "s"), SessionKey::new("acme", "none")] {
        let turn = TurnId::from("t1");
        missing(store.session(&foreign).await);
        missing(store.load(&foreign).await);
        missing(store.set_title(&foreign, "mine", at(1)).await);
        missing(store.set_model(&foreign, "mine").await);
        missing(store.delete_session(&foreign, at(9_999)).await);
        missing(store.fork_session(fork(&foreign, ForkAt::End, "theirs")).await);
        missing(store.claim(&foreign, "them", 1_000, at(9_999)).await);
        missing(store.renew(&foreign, owner.fence, 1_000, at(1)).await);
        missing(store.release(&foreign, owner.fence, Release::HandOver).await);
        missing(store.messages(&foreign, 0, 9).await);
        missing(store.events(&foreign, 0, 9).await);
        missing(store.journal(&foreign, &turn).await);
        missing(store.turns(&foreign).await);
        missing(store.inbox(&foreign).await);
        missing(store.captured(&foreign, None).await);
        missing(store.get_blob(&foreign, "b", 0..9).await);
        missing(store.put_blob(&foreign, blob("b")).await);
        missing(store.post(message(&foreign, "t", "Hi", Some("k"))).await);
        missing(store.post(decision(&foreign, "t2", super::sample::approve(), "eve")).await);
        let update = CapturedUpdate {
            key: foreign.clone(),
            turn: "t2".into(),
            index: 0,
            expected: 1,
            status: CapturedStatus::Applied,
            action: None,
            result: None,
        };
        missing(store.update_captured(update).await);
        let seq = owner.seq;
        let mut commit = owner.finish("t2");
        owner.seq = seq;
        owner.n -= 1;
        commit.key = foreign.clone();
        commit.cards.push(super::sample::card(
            "t2",
            Asks::Decision,
            turnbuckle_core::message::CardStatus::Approved,
        ));
        missing(store.commit(commit).await);
        let mut bare = Commit::new(foreign.clone(), owner.fence, at(3));
        bare.state = Some("mine".to_owned());
        missing(store.commit(bare).await);
    }
    let theirs = SessionQuery { tenant: "other".into(), ..query() };
    assert_eq!(store.list_sessions(theirs).await.unwrap().items, []);
    assert_eq!(super::sample::everything(&store, &own).await, before);
    assert_eq!(store.get_blob(&own, "b", 0..9).await.unwrap().content, b"large");
}
