//! Inputs posted by anyone, and cards.

use super::leases::Once;
use super::sample::{
    Owner, Subject, approve, at, card, card_id, conflict, decision, everything, key, message,
    missing,
};
use crate::error::{Conflict, StoreError};
use crate::model::{
    Card, CardAnswer, CardQuery, CardStanding, InboxItem, Post, Posted, Receipt, SessionKey,
};
use serde_json::json;
use std::sync::Arc;
use turnbuckle_core::ids::TenantId;
use turnbuckle_core::machine::Decision;
use turnbuckle_core::message::{Asks, CardStatus};

/// Opens a turn and pauses it with a card.
async fn paused(store: &Subject, key: &SessionKey, turn: &str, asks: Asks) -> Owner {
    let mut owner = Owner::of_new(store, key).await;
    let open = owner.open(turn);
    owner.write(open).await;
    let pause = owner.pause(turn, asks);
    owner.write(pause).await;
    owner
}

fn stop(key: &SessionKey) -> Post {
    let input = Posted::Stop { turn: None, by: Some("ann".into()) };
    Post { key: key.clone(), idempotency_key: None, input, now: at(11) }
}

/// Inputs are numbered, wait in order, and are consumed once.
pub async fn posted_inputs_wait_until_consumed(store: Subject) {
    let key = key("s");
    let owner = Owner::of_new(&store, &key).await;
    let posts =
        [message(&key, "t1", "one", None), stop(&key), message(&key, "t2", "two", Some("k"))];
    let mut items = Vec::new();
    for (i, post) in posts.into_iter().enumerate() {
        let item = InboxItem { n: i as u64 + 1, at: post.now, input: post.input.clone() };
        assert_eq!(store.post(post).await.unwrap(), Receipt::Accepted(item.clone()));
        items.push(item);
    }
    assert_eq!(store.inbox(&key).await.unwrap(), items);
    assert_eq!(store.session(&key).await.unwrap().pending, 3);
    let mut commit = owner.commit(at(12));
    commit.consumed = vec![3, 1];
    assert_eq!(owner.write(commit.clone()).await.pending, 1);
    assert_eq!(store.inbox(&key).await.unwrap(), items[1..2]);

    let before = everything(&store, &key).await;
    for consumed in [vec![3, 1], vec![2, 1], vec![2, 2], vec![9]] {
        let mut commit = owner.commit(at(13));
        commit.consumed = consumed.clone();
        commit.state = Some("lost".to_owned());
        assert_eq!(conflict(store.commit(commit).await), Conflict::NotWaiting(consumed));
    }
    assert_eq!(everything(&store, &key).await, before);
    let n = store.post(stop(&key)).await.unwrap().item().n;
    assert_eq!(n, 4, "numbers go on");
    missing(store.post(stop(&super::sample::key("none"))).await);
}

/// A client that repeats its request gets the first receipt, even after it was consumed.
pub async fn one_key_adds_one_input(store: Subject) {
    let key = key("s");
    let owner = Owner::of_new(&store, &key).await;
    let first = store.post(message(&key, "t1", "Hi", Some("k"))).await.unwrap().item().clone();
    let mut again = message(&key, "minted-anew", "Hi", Some("k"));
    again.now = at(99);
    assert_eq!(store.post(again.clone()).await.unwrap(), Receipt::Duplicate(first.clone()));
    assert_eq!(store.session(&key).await.unwrap().pending, 1);
    let mut commit = owner.commit(at(12));
    commit.consumed.push(first.n);
    owner.write(commit).await;
    assert_eq!(store.post(again).await.unwrap(), Receipt::Duplicate(first));
    assert_eq!(store.session(&key).await.unwrap().pending, 0);

    let elsewhere = super::sample::key("s2");
    store.create_session(super::sample::new_session(&elsewhere, at(0))).await.unwrap();
    let other = store.post(message(&elsewhere, "t", "Other", Some("k"))).await.unwrap();
    assert!(matches!(other, Receipt::Accepted(_)), "keys are per session");
}

/// A key that comes with another request is refused.
pub async fn a_key_cannot_stand_for_two_requests(store: Subject) {
    let key = key("s");
    Owner::of_new(&store, &key).await;
    store.post(message(&key, "t1", "Hi", Some("k"))).await.unwrap();
    let reused = Conflict::KeyReused { key: "k".to_owned(), n: 1 };
    assert_eq!(conflict(store.post(message(&key, "t1", "Bye", Some("k"))).await), reused);
    let mut other = stop(&key);
    other.idempotency_key = Some("k".to_owned());
    assert_eq!(conflict(store.post(other).await), reused);
    assert_eq!(store.inbox(&key).await.unwrap().len(), 1);
}

/// Many post under one key at once: one input, and everyone learns of it.
pub async fn a_key_raced_by_many_adds_one_input(store: Subject) {
    let key = key("s");
    Owner::of_new(&store, &key).await;
    let accepted = Arc::new(Once::default());
    let tasks: Vec<_> = (0..8)
        .map(|i| {
            let (store, key, accepted) = (Arc::clone(&store), key.clone(), Arc::clone(&accepted));
            tokio::spawn(async move {
                let receipt =
                    store.post(message(&key, &format!("t{i}"), "Hi", Some("k"))).await.unwrap();
                if matches!(receipt, Receipt::Accepted(_)) {
                    accepted.raise();
                }
                receipt.item().clone()
            })
        })
        .collect();
    let mut items = Vec::new();
    for task in tasks {
        items.push(task.await.unwrap());
    }
    assert!(accepted.raised());
    items.dedup();
    assert_eq!(store.inbox(&key).await.unwrap(), items);
}

/// Two people decide at the same moment: one succeeds, the others learn how it was decided.
pub async fn of_two_decisions_one_wins(store: Subject) {
    let key = key("s");
    paused(&store, &key, "t", Asks::Decision).await;
    let won = Arc::new(Once::default());
    let tasks: Vec<_> = (0..8)
        .map(|i| {
            let (store, key, won) = (Arc::clone(&store), key.clone(), Arc::clone(&won));
            tokio::spawn(async move {
                let mine = if i % 2 == 0 {
                    approve()
                } else {
                    Decision::Reject { reason: Some("no".to_owned()) }
                };
                match store.post(decision(&key, "t", mine, &format!("user-{i}"))).await {
                    Ok(_) => {
                        won.raise();
                        None
                    }
                    Err(StoreError::Conflict {
                        what: Conflict::Decided { answer: CardAnswer::Posted(posted), .. },
                    }) => Some(posted),
                    other => panic!("{other:?}"),
                }
            })
        })
        .collect();
    let mut told = Vec::new();
    for task in tasks {
        told.extend(task.await.unwrap());
    }
    assert!(won.raised());
    let inbox = store.inbox(&key).await.unwrap();
    assert_eq!(inbox.len(), 1);
    assert_eq!(told, vec![inbox[0].input.clone(); 7]);
    assert_eq!(store.session(&key).await.unwrap().pending, 1);
}

/// Once committed, a decision stands, and a late one is told how.
pub async fn a_settled_card_takes_no_decision(store: Subject) {
    let key = key("s");
    let mut owner = paused(&store, &key, "t", Asks::Decision).await;
    let mut settle = owner.finish("t");
    settle.cards.push(card("t", Asks::Decision, CardStatus::Superseded));
    owner.write(settle).await;
    let refused = conflict(store.post(decision(&key, "t", approve(), "bob")).await);
    let answer = CardAnswer::Settled(CardStatus::Superseded);
    assert_eq!(refused, Conflict::Decided { card: card_id("t"), answer });
    assert!(refused.to_string().contains("superseded"), "{refused}");

    let key = super::sample::key("s2");
    let mut owner = paused(&store, &key, "t2", Asks::Decision).await;
    let rejected = decision(&key, "t2", Decision::Reject { reason: None }, "bob");
    let n = store.post(rejected).await.unwrap().item().n;
    let mut settle = owner.finish("t2");
    settle.cards.push(card("t2", Asks::Decision, CardStatus::Rejected));
    settle.consumed.push(n);
    owner.write(settle).await;
    let refused = conflict(store.post(decision(&key, "t2", approve(), "ann")).await).to_string();
    assert!(refused.contains("rejected by bob"), "{refused}");
    missing(store.post(decision(&key, "never", approve(), "ann")).await);
    missing(store.post(decision(&key, "t", approve(), "ann")).await);
}

/// A question to a person takes no client result, and the reverse; what expires or is rejected may be either.
pub async fn an_answer_must_fit_its_card(store: Subject) {
    let (asked, client) = (key("asked"), key("client"));
    paused(&store, &asked, "t1", Asks::Decision).await;
    paused(&store, &client, "t2", Asks::ClientResult).await;
    let result = |key: &SessionKey, turn: &str| {
        let input = Posted::ClientResult {
            card: card_id(turn),
            result: Ok(Arc::new(json!({"ok": 1}))),
            by: None,
        };
        Post { key: key.clone(), idempotency_key: None, input, now: at(20) }
    };
    let wrong = |turn: &str| Conflict::WrongAnswer { card: card_id(turn) };
    assert_eq!(conflict(store.post(result(&asked, "t1")).await), wrong("t1"));
    assert_eq!(conflict(store.post(decision(&client, "t2", approve(), "ann")).await), wrong("t2"));
    store.post(result(&client, "t2")).await.unwrap();
    store.post(decision(&asked, "t1", Decision::Expire, "clock")).await.unwrap();
    let late = conflict(store.post(result(&client, "t2")).await);
    assert!(matches!(late, Conflict::Decided { .. }), "{late:?}");
}

/// Cards can be found by id and listed by tenant, status and session, page by page.
pub async fn cards_are_found_by_tenant_and_status(store: Subject) {
    let keys = ["a", "b", "c"].map(key);
    for (i, key) in keys.iter().enumerate() {
        let mut owner = paused(&store, key, &format!("t{i}"), Asks::Decision).await;
        if i == 2 {
            let mut settle = owner.finish("t2");
            settle.cards.push(card("t2", Asks::Decision, CardStatus::Approved));
            owner.write(settle).await;
        }
    }
    let held = |i: usize, status, answered_by| Card {
        session: keys[i].clone(),
        message: card(&format!("t{i}"), Asks::Decision, status),
        answered_by,
    };
    store.post(decision(&keys[1], "t1", approve(), "ann")).await.unwrap();
    let all = [
        held(0, CardStatus::Pending, None),
        held(1, CardStatus::Pending, Some(1)),
        held(2, CardStatus::Approved, None),
    ];
    let query = CardQuery::of("acme".into());
    assert_eq!(store.cards(query.clone()).await.unwrap().items, all);
    let pending = CardQuery { standing: CardStanding::Pending, ..query.clone() };
    assert_eq!(store.cards(pending).await.unwrap().items, all[..2]);
    let settled = CardQuery { standing: CardStanding::Settled, ..query.clone() };
    assert_eq!(store.cards(settled).await.unwrap().items, all[2..]);
    for (user, expected) in [("ann", &all[..]), ("bob", &[])] {
        let of = CardQuery { user: Some(user.into()), ..query.clone() };
        assert_eq!(store.cards(of).await.unwrap().items, expected);
    }
    let session = CardQuery { session: Some(keys[2].id.clone()), ..query.clone() };
    assert_eq!(store.cards(session).await.unwrap().items, all[2..]);
    let mut page = store.cards(CardQuery { limit: 2, ..query.clone() }).await.unwrap();
    assert_eq!(page.items, all[..2]);
    page = store.cards(CardQuery { after: page.next, ..query.clone() }).await.unwrap();
    assert_eq!((page.items.as_slice(), page.next), (&all[2..], None));
    assert_eq!(store.cards(CardQuery { tenant: "other".into(), ..query }).await.unwrap().items, []);

    let tenant = TenantId::from("acme");
    assert_eq!(store.card(&tenant, &card_id("t1")).await.unwrap(), all[1]);
    missing(store.card(&tenant, &card_id("t9")).await);
    missing(store.card(&"other".into(), &card_id("t1")).await);
}

/// The clock finds what has expired and nobody answered.
pub async fn expired_cards_are_listed_until_answered(store: Subject) {
    let (a, b) = (key("a"), key("b"));
    paused(&store, &a, "t1", Asks::Decision).await;
    paused(&store, &b, "t2", Asks::ClientResult).await;
    assert_eq!(store.expired_cards(at(9_999), 9).await.unwrap(), []);
    let due: Vec<_> = store
        .expired_cards(at(10_000), 9)
        .await
        .unwrap()
        .into_iter()
        .map(|c| c.message.id)
        .collect();
    assert_eq!(due, [card_id("t1"), card_id("t2")]);
    assert_eq!(store.expired_cards(at(10_000), 1).await.unwrap().len(), 1);
    store.post(decision(&a, "t1", Decision::Expire, "clock")).await.unwrap();
    let due: Vec<_> = store
        .expired_cards(at(10_000), 9)
        .await
        .unwrap()
        .into_iter()
        .map(|c| c.message.id)
        .collect();
    assert_eq!(due, [card_id("t2")]);
}
