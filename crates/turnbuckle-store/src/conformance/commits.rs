//! Commits and what is read back of them.

use super::sample::{
    Owner, Subject, assistant_message, at, card, conflict, entry, event, everything, key, message,
    user_message,
};
use crate::error::Conflict;
use crate::model::{
    Blob, Captured, CapturedStatus, CapturedUpdate, Commit, Committed, KeptModel, Loaded,
    NewCaptured, Release, Released, SessionStatus, TurnChange, TurnLog, TurnRecord, TurnStatus,
};
use serde_json::json;
use std::sync::Arc;
use turnbuckle_core::allowance::{Remember, RememberFor};
use turnbuckle_core::error::{ModelError, ModelErrorKind, ToolError, ToolErrorCode};
use turnbuckle_core::event::{Event, EventKind};
use turnbuckle_core::ids::TurnId;
use turnbuckle_core::machine::{Decision, Input, Recorded, Superseded};
use turnbuckle_core::message::{Asks, CardStatus, Message, MessageState};
use turnbuckle_core::outcome::{AbortReason, ExhaustedReason, Outcome, TurnError};
use turnbuckle_core::usage::Usage;

/// A session with every kind of content is read back as it was committed.
pub async fn everything_committed_is_loaded_again(store: Subject) {
    let key = key("s");
    let mut owner = Owner::of_new(&store, &key).await;
    let waiting =
        store.post(message(&key, "t2", "And my refund?", None)).await.unwrap().item().clone();
    let open = owner.open("t1");
    assert_eq!(
        owner.write(open).await,
        Committed { version: 1, next_seq: 3, pending: 1, released: false }
    );
    let mut pause = owner.pause("t1", Asks::Decision);
    pause.state = Some("{\"var\":{\"cart\":\"\u{0}ü\"}}".to_owned());
    let instead_of = Some("rehearsal".to_owned());
    pause.model = Some(KeptModel { instead_of, model: "other".to_owned() });
    assert_eq!(
        owner.write(pause).await,
        Committed { version: 2, next_seq: 4, pending: 1, released: false }
    );

    let loaded = store.load(&key).await.unwrap();
    let mut session = store.session(&key).await.unwrap();
    assert_eq!(
        session.lease.take().map(|l| (l.owner, l.until)),
        Some(("one".to_owned(), at(1_000)))
    );
    assert_eq!(
        (session.version, session.fence, session.next_seq, session.pending, session.status),
        (2, owner.fence, 4, 1, SessionStatus::Paused)
    );
    assert_eq!(
        (session.title.as_deref(), session.model.as_deref()),
        (Some("Ärger mit der Rechnung"), Some("other"))
    );
    assert_eq!((session.created, session.updated), (at(0), at(2)));
    session.lease = loaded.session.lease.clone();
    let turn = TurnRecord {
        id: "t1".into(),
        spec: r#"{"turn":"t1"}"#.to_owned(),
        status: TurnStatus::Paused,
        outcome: None,
        started: at(1),
        ended: None,
        queued_below: waiting.n + 1,
    };
    let expected = Loaded {
        session,
        state: Some("{\"var\":{\"cart\":\"\u{0}ü\"}}".to_owned()),
        messages: vec![
            Message::User(user_message("t1", "Where is my parcel?")),
            assistant_message("t1", "May I?", MessageState::Paused),
            Message::System(card("t1", Asks::Decision, CardStatus::Pending)),
        ],
        turn: Some(TurnLog { turn, journal: vec![entry(0), entry(1)] }),
        unreadable: None,
        inbox: vec![waiting],
    };
    assert_eq!(loaded, expected);
    assert_eq!(store.messages(&key, 1, 1).await.unwrap(), expected.messages[1..2]);
    assert_eq!(store.messages(&key, 3, 10).await.unwrap(), []);
}

/// Inputs and events with every sort of payload come back equal.
pub async fn every_kind_of_event_and_input_survives(store: Subject) {
    let key = key("s");
    let mut owner = Owner::of_new(&store, &key).await;
    let mut commit = owner.open("t");
    let model = ModelError::new(ModelErrorKind::RateLimited, "slow \"down\"");
    let inputs = [
        Input::Begin,
        Input::ModelFailed { step: 1, error: model.clone(), partial: None },
        Input::Progress {
            step: 2,
            data: Arc::new(json!([1, -2, 3.25, 1e300, null, {"ü": "\u{1F980}\u{2028}"}])),
        },
        Input::Decide {
            call: TurnId::from("t").call(0),
            decision: Decision::Approve {
                amendment: Some(Arc::new(json!({"a": u64::MAX}))),
                reason: None,
                remember: Some(Remember::of(RememberFor::User)),
            },
            by: Some("ann".into()),
        },
        Input::ClientResult {
            call: TurnId::from("t").call(1),
            result: Err(ToolError::new(ToolErrorCode::Failed, "no")),
        },
        Input::Steer { message: Box::new(user_message("t", "faster")) },
        Input::Cancel { superseded: Superseded::ByMessage },
        Input::Recover,
        Input::Fault {
            error: TurnError::Store { message: "full".to_owned() },
            partials: Vec::new(),
        },
    ];
    for input in inputs {
        commit.journal.push(Recorded { n: owner.n, at: at(3), input });
        owner.n += 1;
    }
    let usage = Usage { input: Some(u64::from(u32::MAX) + 1), ..Usage::default() };
    let kinds = [
        EventKind::TextDelta {
            message: "m".into(),
            part: 0,
            offset: 0,
            iteration: 0,
            text: "a\u{0}b".to_owned(),
        },
        EventKind::ModelRetry { attempt: 2, delay_ms: 5, error: model.into() },
        EventKind::ApprovalRequired {
            card: Box::new(card("t", Asks::ClientResult, CardStatus::Pending)),
        },
        EventKind::TurnExhausted { reason: ExhaustedReason::Cost, usage: usage.into() },
        EventKind::TurnAborted { reason: AbortReason::Superseded, usage: Box::default() },
    ];
    for kind in kinds {
        let mut next = event(&key, "t", owner.seq);
        (next.kind, next.epoch) = (kind, 3);
        commit.events.push(&next);
        owner.seq += 1;
    }
    let journal = commit.journal.clone();
    let events: Vec<_> = commit.events.iter().collect();
    owner.write(commit).await;
    assert_eq!(store.load(&key).await.unwrap().turn.unwrap().journal, journal);
    assert_eq!(store.events(&key, 0, 100).await.unwrap(), events);
    let outcomes = [
        Outcome::Paused,
        Outcome::Exhausted { reason: ExhaustedReason::OutputLimit },
        Outcome::Error { error: TurnError::EmptyResponse },
    ];
    for outcome in outcomes {
        let mut commit = owner.commit(at(4));
        let (id, outcome) = (TurnId::from("t"), Some(outcome));
        commit.turn =
            Some(TurnChange { id, status: TurnStatus::Running, outcome: outcome.clone() });
        owner.write(commit).await;
        assert_eq!(store.turns(&key).await.unwrap()[0].outcome, outcome);
    }
}

/// A paused message is replaced where it stands.
pub async fn a_known_message_is_replaced_in_place(store: Subject) {
    let key = key("s");
    let mut owner = Owner::of_new(&store, &key).await;
    let mut finish = owner.approved("t1").await;
    finish.messages.push(Message::User(user_message("t9", "new")));
    owner.write(finish).await;
    let state = MessageState::Finished { outcome: Outcome::Completed };
    let expected = vec![
        Message::User(user_message("t1", "Where is my parcel?")),
        assistant_message("t1", "It is on its way.", state),
        Message::System(card("t1", Asks::Decision, CardStatus::Approved)),
        Message::User(user_message("t9", "new")),
    ];
    assert_eq!(store.load(&key).await.unwrap().messages, expected);
}

/// Whatever the page size, events come gapless and once.
pub async fn events_are_read_without_gaps(store: Subject) {
    let key = key("s");
    let mut owner = Owner::of_new(&store, &key).await;
    let open = owner.open("t");
    owner.write(open).await;
    for events in [5, 0, 1, 7, 0, 2] {
        let mut commit = owner.commit(at(2));
        owner.step(&mut commit, "t", 1, events);
        owner.write(commit).await;
    }
    let all: Vec<_> = (1..owner.seq).map(|seq| event(&key, "t", seq)).collect();
    for limit in [1, 2, 3, 5, 100] {
        let mut seen = Vec::new();
        loop {
            let after = seen.last().map_or(0, |e: &turnbuckle_core::event::Event| e.seq);
            let page = store.events(&key, after, limit).await.unwrap();
            assert!(page.len() <= limit as usize);
            if page.is_empty() {
                break;
            }
            seen.extend(page);
        }
        assert_eq!(seen, all, "pages of {limit}");
    }
}

/// Events and journal entries must continue exactly; a refused commit leaves no trace.
pub async fn a_gap_or_overlap_is_refused_and_nothing_written(store: Subject) {
    let key = key("s");
    let mut owner = Owner::of_new(&store, &key).await;
    let open = owner.open("t");
    owner.write(open).await;
    let before = everything(&store, &key).await;
    let gap = |what, expected, got| Conflict::Gap { what, expected, got };
    let cases: [(&[u64], &[u32], Conflict); 6] = [
        (&[4], &[1], gap("event", 3, 4)),
        (&[2], &[1], gap("event", 3, 2)),
        (&[3, 5], &[1], gap("event", 4, 5)),
        (&[3], &[2], gap("journal entry", 1, 2)),
        (&[3], &[0], gap("journal entry", 1, 0)),
        (&[3], &[1, 1], gap("journal entry", 2, 1)),
    ];
    for (seqs, entries, expected) in cases {
        let mut commit = owner.commit(at(2));
        commit.events = seqs.iter().map(|seq| event(&key, "t", *seq)).collect();
        commit.journal = entries.iter().map(|n| entry(*n)).collect();
        commit.messages.push(Message::User(user_message("lost", "lost")));
        commit.state = Some("lost".to_owned());
        assert_eq!(conflict(store.commit(commit).await), expected);
        assert_eq!(everything(&store, &key).await, before);
    }
}

/// One turn at a time, and only the open one gets entries or an end.
pub async fn a_commit_about_another_turn_is_refused(store: Subject) {
    let key = key("s");
    let mut owner = Owner::of_new(&store, &key).await;
    let mut homeless = owner.commit(at(1));
    homeless.journal.push(entry(0));
    let none = Conflict::NotTheOpenTurn { open: None, named: None };
    assert_eq!(conflict(store.commit(homeless).await), none);

    let open = owner.open("t1");
    owner.write(open).await;
    let before = everything(&store, &key).await;
    let second = owner.open("t2");
    owner.seq -= 2;
    let open = Conflict::TurnOpen { open: "t1".into(), refused: "t2".into() };
    assert_eq!(conflict(store.commit(second).await), open);
    let other = owner.finish("t2");
    owner.seq -= 1;
    let other = conflict(store.commit(other).await);
    assert_eq!(
        other,
        Conflict::NotTheOpenTurn { open: Some("t1".into()), named: Some("t2".into()) }
    );
    assert_eq!(everything(&store, &key).await, before);

    owner.n = 1;
    let finish = owner.finish("t1");
    owner.write(finish).await;
    assert_eq!(store.session(&key).await.unwrap().turn, None);
    let again = owner.open("t1");
    let again = conflict(store.commit(again).await);
    assert_eq!(again, Conflict::TurnOpen { open: "t1".into(), refused: "t1".into() });
}

/// The same commit, but that its first event was at another moment.
fn with_another_first_event(mut commit: Commit) -> Commit {
    let changed = commit.events.iter().enumerate().map(|(n, event)| {
        let at = if n == 0 { at(77) } else { event.at };
        Event { at, ..event }
    });
    commit.events = changed.collect();
    commit
}

/// A commit whose answer was lost may be sent again.
pub async fn a_repeated_commit_gives_the_same_answer(store: Subject) {
    let key = key("s");
    let mut owner = Owner::of_new(&store, &key).await;
    let n = store.post(message(&key, "t", "Hi", None)).await.unwrap().item().n;
    let mut open = owner.open("t");
    open.consumed.push(n);
    let finish = owner.finish("t");
    for commit in [open, finish] {
        let first = owner.write(commit.clone()).await;
        let after = everything(&store, &key).await;
        assert_eq!(owner.write(commit.clone()).await, first);
        assert_eq!(everything(&store, &key).await, after);
        let changed = with_another_first_event(commit);
        assert!(matches!(store.commit(changed).await, Err(crate::StoreError::Conflict { .. })));
    }
}

/// A commit may give the session back with it, and does when no input waits.
pub async fn a_commit_gives_the_session_back_when_no_input_waits(store: Subject) {
    let key = key("s");
    let mut owner = Owner::of_new(&store, &key).await;
    let open = owner.open("t1");
    owner.write(open).await;
    let n = store.post(message(&key, "t2", "Hi", None)).await.unwrap().item().n;
    let mut finish = owner.finish("t1");
    finish.release = true;
    let kept = owner.write(finish).await;
    assert_eq!((kept.pending, kept.released), (1, false));
    assert_eq!(store.session(&key).await.unwrap().fence, owner.fence);

    let mut open = owner.open("t2");
    open.consumed.push(n);
    owner.write(open).await;
    // With a card, so that it is no plain commit.
    let mut pause = owner.pause("t2", Asks::Decision);
    pause.release = true;
    let given = owner.write(pause.clone()).await;
    assert_eq!((given.pending, given.released), (0, true));
    let session = store.session(&key).await.unwrap();
    assert_eq!((session.lease, session.fence), (None, owner.fence + 1));
    assert!(matches!(
        store.commit(owner.commit(at(3))).await,
        Err(crate::StoreError::Fenced { .. })
    ));

    // Whoever does not know whether it was stored may say it again, even when somebody else has come since.
    let after = everything(&store, &key).await;
    assert_eq!(owner.write(pause.clone()).await, given);
    assert_eq!(everything(&store, &key).await, after);
    let mut heir = Owner::claim(&store, &key, "two", at(3)).await;
    assert!(owner.write(pause.clone()).await.released);
    let another = with_another_first_event(pause);
    assert!(matches!(store.commit(another).await, Err(crate::StoreError::Fenced { .. })));

    heir.n = 2;
    let mut finish = heir.finish("t2");
    finish.release = true;
    assert!(heir.write(finish).await.released);
}

/// Each turn keeps its own journal, readable after it has ended.
pub async fn journals_are_kept_per_turn(store: Subject) {
    let key = key("s");
    let mut owner = Owner::of_new(&store, &key).await;
    for turn in ["t1", "t2", "t3"] {
        let open = owner.open(turn);
        owner.write(open).await;
        let mut quiet = owner.commit(at(2));
        owner.step(&mut quiet, turn, 3, 0);
        owner.write(quiet).await;
        let finish = owner.finish(turn);
        owner.write(finish).await;
    }
    for turn in ["t1", "t2", "t3"] {
        let log = store.journal(&key, &turn.into()).await.unwrap();
        let record = TurnRecord {
            id: turn.into(),
            spec: format!(r#"{{"turn":"{turn}"}}"#),
            status: TurnStatus::Finished,
            outcome: Some(Outcome::Completed),
            started: at(1),
            ended: Some(at(2)),
            queued_below: 0,
        };
        assert_eq!(log, TurnLog { turn: record, journal: (0..5).map(entry).collect() });
    }
    let ids: Vec<_> = store.turns(&key).await.unwrap().into_iter().map(|t| t.id).collect();
    assert_eq!(ids, ["t1", "t2", "t3"].map(TurnId::from));
    assert_eq!(store.load(&key).await.unwrap().turn, None);
    super::sample::missing(store.journal(&key, &"t4".into()).await);
}

/// An action is changed by one reviewer at a time.
pub async fn captured_actions_change_under_compare_and_set(store: Subject) {
    let key = key("s");
    let mut owner = Owner::of_new(&store, &key).await;
    let mut open = owner.open("t");
    let new = |index, args: i64| NewCaptured {
        turn: "t".into(),
        index,
        action: Arc::new(json!({"args": args})),
    };
    open.captured = vec![new(1, 1), new(0, 0)];
    owner.write(open).await;
    let mut again = owner.commit(at(2));
    again.captured = vec![new(1, 11)];
    owner.write(again).await;
    let held = |index, revision, args: i64| Captured {
        turn: "t".into(),
        index,
        revision,
        action: Arc::new(json!({"args": args})),
        status: CapturedStatus::Pending,
        result: None,
    };
    let turn = TurnId::from("t");
    let all = vec![held(0, 1, 0), held(1, 2, 11)];
    assert_eq!(store.captured(&key, None).await.unwrap(), all);
    assert_eq!(store.captured(&key, Some(&turn)).await.unwrap(), all);
    assert_eq!(store.captured(&key, Some(&"other".into())).await.unwrap(), []);

    let update = CapturedUpdate {
        key: key.clone(),
        turn,
        index: 1,
        expected: 2,
        status: CapturedStatus::Applied,
        action: Some(Arc::new(json!({"args": "edited"}))),
        result: Some(Arc::new(json!({"id": 5}))),
    };
    let applied = store.update_captured(update.clone()).await.unwrap();
    let expected = Captured {
        revision: 3,
        action: Arc::new(json!({"args": "edited"})),
        status: CapturedStatus::Applied,
        result: Some(Arc::new(json!({"id": 5}))),
        ..held(1, 2, 11)
    };
    assert_eq!(applied, expected);
    assert_eq!(
        conflict(store.update_captured(update.clone()).await),
        Conflict::Stale { current: 3, expected: 2 }
    );
    assert_eq!(store.captured(&key, None).await.unwrap(), vec![held(0, 1, 0), expected]);
    super::sample::missing(store.update_captured(CapturedUpdate { index: 9, ..update }).await);
}

/// Any range of a large output can be read, whichever way it was stored.
pub async fn blobs_are_read_by_range(store: Subject) {
    let key = key("s");
    let owner = Owner::of_new(&store, &key).await;
    let content: Vec<u8> = (0..700_001_u32).map(|i| (i % 251) as u8).collect();
    let blob =
        Blob { id: "b1".to_owned(), media_type: "text/plain".to_owned(), content: content.clone() };
    let mut commit = owner.commit(at(1));
    commit.blobs = vec![blob.clone()];
    owner.write(commit).await;
    store
        .put_blob(&key, Blob { id: "b2".to_owned(), content: Vec::new(), ..blob.clone() })
        .await
        .unwrap();
    let size = content.len() as u64;
    let mib = 262_144;
    for range in [
        0..10,
        5..5,
        mib - 1..mib + 1,
        mib..2 * mib,
        1..size,
        size - 1..size + 9,
        size + 5..size + 9,
        0..u64::MAX,
    ] {
        let part = store.get_blob(&key, "b1", range.clone()).await.unwrap();
        let (start, end) = (range.start.min(size), range.end.min(size));
        assert_eq!((part.size, part.range), (size, start..end));
        assert!(part.content == content[start as usize..end as usize], "range {range:?}");
    }
    assert_eq!(store.get_blob(&key, "b2", 0..9).await.unwrap().size, 0);
    store.put_blob(&key, Blob { content: b"new".to_vec(), ..blob }).await.unwrap();
    assert_eq!(store.get_blob(&key, "b1", 0..9).await.unwrap().content, b"new");
    super::sample::missing(store.get_blob(&key, "b3", 0..1).await);
}

/// Two thousand messages load in order, and steps over them work as on an empty session.
pub async fn a_long_session_loads_whole(store: Subject) {
    let key = key("s");
    let mut owner = Owner::of_new(&store, &key).await;
    for turn in 0..10 {
        let name = format!("t{turn}");
        let open = owner.open(&name);
        owner.write(open).await;
        let mut finish = owner.finish(&name);
        for i in 0..198 {
            finish.messages.push(Message::User(user_message(&format!("{name}-{i}"), "x")));
        }
        owner.write(finish).await;
    }
    let loaded = store.load(&key).await.unwrap();
    assert_eq!(loaded.messages.len(), 2_000);
    assert_eq!(loaded.messages[1_999].turn().as_str(), "t9-197");
    assert_eq!(store.messages(&key, 1_234, 3).await.unwrap(), loaded.messages[1_234..1_237]);
    let open = owner.open("last");
    owner.write(open).await;
    assert_eq!(store.load(&key).await.unwrap().messages.len(), 2_001);
    let released = store.release(&key, owner.fence, Release::WhenDrained).await.unwrap();
    assert_eq!(released, Released::Released);
}
