//! Lists that people and operators look through: sessions by what was said, captured actions, usage.

use super::sample::{Owner, Subject, assistant_message, at, event, key, new_session, user_message};
use crate::memory::MemoryStore;
use crate::model::{
    Captured, CapturedIn, CapturedQuery, CapturedStatus, CapturedUpdate, ImportedUsage, KeptUsage,
    MeteredCall, NewCaptured, NewSession, SessionKey, SessionQuery, SessionStatus, UsageBy,
    UsageGroup, UsageQuery, UsageSum,
};
use serde_json::json;
use std::sync::Arc;
use turnbuckle_core::event::{Event, EventKind};
use turnbuckle_core::ids::TenantId;
use turnbuckle_core::message::{Message, MessageState};
use turnbuckle_core::usage::{IterationUsage, Purpose, Usage};

async fn names(store: &Subject, query: SessionQuery) -> Vec<String> {
    let page = store.list_sessions(query).await.unwrap();
    page.items.into_iter().map(|session| session.key.id.to_string()).collect()
}

fn all() -> SessionQuery {
    SessionQuery::of("acme".into())
}

/// What was said can be found again, by the beginnings of its words, until it is deleted.
pub async fn sessions_are_found_by_what_was_said(store: Subject) {
    let said = [
        ("a", "The REFUND for my parcels, no. 4711", "It is on its way."),
        ("b", "Straße und Ärger", "Refunded on Monday; the invoice is sent."),
        ("c", "退款在哪里?", "'quoted' \"text\" * with signs: a-b_c\u{0}d"),
        ("d", "a", "b"),
    ];
    for (i, (name, asked, answered)) in said.into_iter().enumerate() {
        let (key, title) = (key(name), (name == "d").then(|| "About refunds".to_owned()));
        let new = NewSession { title, ..new_session(&key, at(i as i64)) };
        store.create_session(new).await.unwrap();
        let mut owner = Owner::claim(&store, &key, "one", at(0)).await;
        let mut open = owner.open("t");
        open.now = at(i as i64);
        open.messages = vec![Message::User(user_message("t", asked))];
        owner.write(open).await;
        let mut finish = owner.finish("t");
        finish.now = at(i as i64);
        finish.messages = vec![assistant_message("t", answered, MessageState::Paused)];
        owner.write(finish).await;
    }
    let foreign = SessionKey::new("other", "foreign");
    let mut owner = Owner::of_new(&store, &foreign).await;
    let mut open = owner.open("t");
    open.messages = vec![Message::User(user_message("t", "refund parcels"))];
    owner.write(open).await;

    let cases: [(&str, &[&str]); 16] = [
        ("refund", &["d", "b", "a"]),
        ("ReFuNds", &["d"]),
        ("refund parc", &["a"]),
        ("parc refund", &["a"]),
        ("refund invoice", &["b"]),
        ("way 4711", &[]),
        ("efund", &["d"]),
        ("STRASSE", &[]),
        ("straße", &["b"]),
        ("ärg", &["b"]),
        ("退款", &["c"]),
        ("款 退", &["c"]),
        ("a-b", &["c"]),
        ("text\" OR \"x", &[]),
        ("\u{0}*\"'", &[]),
        ("about ref", &["d"]),
    ];
    for (search, expected) in cases {
        let query = SessionQuery { search: Some(search.to_owned()), ..all() };
        assert_eq!(names(&store, query).await, expected, "{search}");
    }
    let query =
        |after| SessionQuery { search: Some("refund".to_owned()), limit: 2, after, ..all() };
    let first = store.list_sessions(query(None)).await.unwrap();
    assert_eq!(names(&store, query(first.next)).await, ["a"]);

    let mut owner = Owner::claim(&store, &key("a"), "two", at(9_000)).await;
    let mut step = owner.commit(at(9_000));
    step.messages = vec![assistant_message("t", "It was lost.", MessageState::Paused)];
    owner.step(&mut step, "t", 0, 1);
    owner.write(step).await;
    let search = |text: &str| SessionQuery { search: Some(text.to_owned()), ..all() };
    assert_eq!(names(&store, search("lost")).await, ["a"], "a message that changed");
    assert_eq!(names(&store, search("way")).await, [""; 0]);
    store.delete_session(&key("a"), at(99_000)).await.unwrap();
    assert_eq!(names(&store, search("parcels")).await, [""; 0]);
}

/// Lists can be narrowed to an agent and to what sessions do.
pub async fn sessions_are_narrowed_by_agent_and_status(store: Subject) {
    for (name, agent) in [("a", "main"), ("b", "desk"), ("c", "main")] {
        let new = NewSession { agent: agent.into(), ..new_session(&key(name), at(0)) };
        store.create_session(new).await.unwrap();
    }
    let mut owner = Owner::claim(&store, &key("c"), "one", at(0)).await;
    let open = owner.open("t");
    owner.write(open).await;
    let of = |agent: &str| SessionQuery { agent: Some(agent.into()), ..all() };
    assert_eq!(names(&store, of("main")).await, ["c", "a"]);
    let doing = |status| SessionQuery { status: Some(status), ..all() };
    assert_eq!(names(&store, doing(SessionStatus::Running)).await, ["c"]);
    assert_eq!(names(&store, doing(SessionStatus::Idle)).await, ["b", "a"]);
    let both = SessionQuery { status: Some(SessionStatus::Idle), ..of("desk") };
    assert_eq!(names(&store, both).await, ["b"]);
}

/// A reviewer finds what was captured anywhere, page by page.
pub async fn captured_actions_are_listed_over_sessions(store: Subject) {
    let captured =
        |n: u32| NewCaptured { turn: "t".into(), index: n, action: Arc::new(json!({"n": n})) };
    for (i, (name, user)) in [("a", "ann"), ("b", "bob")].into_iter().enumerate() {
        let new = NewSession { user: user.into(), ..new_session(&key(name), at(0)) };
        store.create_session(new).await.unwrap();
        let mut owner = Owner::claim(&store, &key(name), "one", at(0)).await;
        let mut open = owner.open("t");
        open.now = at(i as i64);
        open.captured = vec![captured(1), captured(0)];
        owner.write(open).await;
    }
    let update = CapturedUpdate {
        key: key("a"),
        turn: "t".into(),
        index: 1,
        expected: 1,
        status: CapturedStatus::Rejected,
        action: None,
        result: None,
    };
    store.update_captured(update).await.unwrap();
    let held = |name: &str, index: u32| {
        let rejected = (name, index) == ("a", 1);
        let (revision, status) = match rejected {
            true => (2, CapturedStatus::Rejected),
            false => (1, CapturedStatus::Pending),
        };
        let action = Arc::new(json!({"n": index}));
        CapturedIn {
            session: key(name),
            at: at(i64::from(name == "b")),
            captured: Captured { turn: "t".into(), index, revision, action, status, result: None },
        }
    };
    let expected = [held("a", 0), held("a", 1), held("b", 0), held("b", 1)];
    let all = CapturedQuery::of("acme".into());
    assert_eq!(store.list_captured(all.clone()).await.unwrap().items, expected);
    let mut seen = Vec::new();
    let mut page = CapturedQuery { limit: 1, ..all.clone() };
    loop {
        let got = store.list_captured(page.clone()).await.unwrap();
        seen.extend(got.items);
        let Some(next) = got.next else { break };
        page.after = Some(next.to_string().parse().unwrap());
    }
    assert_eq!(seen, expected);
    for (query, expected) in [
        (CapturedQuery { user: Some("bob".into()), ..all.clone() }, &expected[2..]),
        (CapturedQuery { session: Some("a".into()), ..all.clone() }, &expected[..2]),
        (CapturedQuery { status: Some(CapturedStatus::Rejected), ..all.clone() }, &expected[1..2]),
        (CapturedQuery { turn: Some("none".into()), ..all.clone() }, &[]),
        (CapturedQuery { tenant: "other".into(), ..all.clone() }, &[]),
    ] {
        assert_eq!(store.list_captured(query).await.unwrap().items, expected);
    }
}

/// An event that records a model call.
fn usage_event(key: &SessionKey, seq: u64, ms: i64, model: &str, output: u64) -> Event {
    let usage = Usage {
        input: Some(100),
        cache_read: Some(40),
        cache_write: None,
        output: Some(output),
        reasoning: Some(3),
    };
    let call = Box::new(IterationUsage {
        iteration: 0,
        agent: "main".into(),
        purpose: Purpose::Step,
        provider: "p".to_owned(),
        model: model.to_owned(),
        usage,
        estimated: false,
        cost_micros: (model == "dear").then_some(7),
        finish: None,
    });
    let kind = EventKind::Usage { message: "t-a".into(), call };
    Event { at: at(ms), kind, ..event(key, "t", seq) }
}

/// Every model call counts once: repeated commits, refused ones and deleted sessions change nothing in it.
pub async fn usage_counts_every_call_once(store: Subject) {
    const DAY: i64 = 86_400_000;
    for (name, user) in [("a", "ann"), ("b", "bob")] {
        let key = key(name);
        let new = NewSession { user: user.into(), ..new_session(&key, at(0)) };
        store.create_session(new).await.unwrap();
        let mut owner = Owner::claim(&store, &key, "one", at(0)).await;
        let open = owner.open("t");
        owner.write(open).await;
        for (ms, model, output) in [(0, "cheap", 1), (1, "dear", 2), (DAY, "cheap", 4)] {
            let mut commit = owner.commit(at(ms));
            commit.account = (model == "dear").then(|| "k_1".into());
            commit.events.push(&usage_event(&key, owner.seq, ms, model, output));
            owner.write(commit.clone()).await;
            owner.write(commit.clone()).await;
            commit.fence += 1;
            store.commit(commit).await.unwrap_err();
            owner.seq += 1;
        }
    }
    let sum = |calls: u64, output: u64, dear: u64| UsageSum {
        calls,
        input: 100 * calls,
        cache_read: 40 * calls,
        cache_write: 0,
        output,
        reasoning: 3 * calls,
        cost_micros: 7 * dear,
    };
    let group = |key: &str, sum| UsageGroup { key: key.to_owned(), sum };
    let whole = UsageQuery {
        tenant: "acme".into(),
        user: None,
        account: None,
        from: at(0),
        to: at(2 * DAY),
        by: UsageBy::Nothing,
    };
    let of = |by| UsageQuery { by, ..whole.clone() };
    let cases = [
        (whole.clone(), vec![group("", sum(6, 14, 2))]),
        (of(UsageBy::Model), vec![group("p:cheap", sum(4, 10, 0)), group("p:dear", sum(2, 4, 2))]),
        (of(UsageBy::Agent), vec![group("main", sum(6, 14, 2))]),
        (of(UsageBy::User), vec![group("ann", sum(3, 7, 1)), group("bob", sum(3, 7, 1))]),
        (
            of(UsageBy::Day),
            vec![group("2023-11-14", sum(4, 6, 2)), group("2023-11-15", sum(2, 8, 0))],
        ),
        (
            UsageQuery { user: Some("bob".into()), from: at(1), to: at(DAY), ..whole.clone() },
            vec![group("", sum(1, 2, 1))],
        ),
        (of(UsageBy::Account), vec![group("", sum(4, 10, 0)), group("k_1", sum(2, 4, 2))]),
        (
            UsageQuery { account: Some("k_1".into()), ..whole.clone() },
            vec![group("", sum(2, 4, 2))],
        ),
        (UsageQuery { account: Some("k_2".into()), ..whole.clone() }, vec![]),
        (UsageQuery { tenant: "other".into(), ..of(UsageBy::Model) }, vec![]),
    ];
    for (query, expected) in &cases {
        assert_eq!(store.usage(query.clone()).await.unwrap(), *expected, "{query:?}");
    }
    store.delete_session(&key("a"), at(9_999)).await.unwrap();
    for (query, expected) in &cases {
        assert_eq!(store.usage(query.clone()).await.unwrap(), *expected, "{query:?}");
    }
    let nothing = UsageQuery { from: at(5 * DAY), to: at(6 * DAY), ..whole };
    assert_eq!(nothing.by, UsageBy::Nothing);
    assert_eq!(store.usage(nothing).await.unwrap(), []);
}

/// Whoever looks after a service finds every tenant.
pub async fn tenants_are_listed(store: Subject) {
    let tenants = |names: &[&str]| names.iter().map(|n| TenantId::from(*n)).collect::<Vec<_>>();
    assert_eq!(store.tenants(None, 9).await.unwrap(), tenants(&[]));
    for (i, tenant) in ["b", "a", "c", "a"].into_iter().enumerate() {
        let key = SessionKey::new(tenant, format!("s{i}"));
        store.create_session(new_session(&key, at(0))).await.unwrap();
    }
    assert_eq!(store.tenants(None, 9).await.unwrap(), tenants(&["a", "b", "c"]));
    assert_eq!(store.tenants(None, 2).await.unwrap(), tenants(&["a", "b"]));
    assert_eq!(store.tenants(Some(&"a".into()), 9).await.unwrap(), tenants(&["b", "c"]));
    assert_eq!(store.tenants(Some(&"c".into()), 9).await.unwrap(), tenants(&[]));
}

/// What calls cost can be taken to another store, whether or not their sessions are there still, and counts there the same.
pub async fn usage_is_the_same_elsewhere(store: Subject) {
    let elsewhere: Subject = Arc::new(MemoryStore::new());
    let mut keys = Vec::new();
    for name in ["kept", "deleted"] {
        let key = key(name);
        let mut owner = Owner::of_new(&store, &key).await;
        let open = owner.open("t");
        owner.write(open).await;
        for (ms, account) in [(0, None), (1, Some("k_1")), (2, Some("k_2"))] {
            let mut commit = owner.commit(at(ms));
            commit.account = account.map(Into::into);
            commit.events.push(&usage_event(&key, owner.seq, ms, "dear", 5));
            owner.write(commit).await;
            owner.seq += 1;
        }
        keys.push(key);
    }
    store.delete_session(&keys[1], at(99_000)).await.unwrap();
    let mut all: Vec<KeptUsage> = Vec::new();
    loop {
        let page = store.every_usage(all.last().map_or(0, |last| last.n), 4).await.unwrap();
        if page.is_empty() {
            break;
        }
        all.extend(page);
    }
    assert!(all.windows(2).all(|pair| pair[0].n < pair[1].n), "{all:?}");
    let calls: Vec<MeteredCall> = all.into_iter().map(|kept| kept.call).collect();
    assert_eq!(calls.len(), 6);
    assert_eq!((&calls[4].session, calls[4].account.as_deref()), (&keys[1].id, Some("k_1")));
    let written = serde_json::to_string(&calls).unwrap();
    let read: Vec<MeteredCall> = serde_json::from_str(&written).unwrap();
    assert_eq!(read, calls, "it survives being a file");

    let export = store.export_session(&keys[0]).await.unwrap();
    elsewhere.import_session(export, ImportedUsage::Apart).await.unwrap();
    elsewhere.meter(read).await.unwrap();
    for by in [UsageBy::Nothing, UsageBy::Account, UsageBy::User, UsageBy::Model, UsageBy::Day] {
        let (tenant, from, to) = ("acme".into(), at(0), at(9));
        let query = UsageQuery { tenant, user: None, account: None, from, to, by };
        let here = store.usage(query.clone()).await.unwrap();
        assert_eq!(elsewhere.usage(query).await.unwrap(), here, "{by:?}");
    }
    // And back: told twice, they count twice.
    store.meter(calls.clone()).await.unwrap();
    store.meter(Vec::new()).await.unwrap();
    let again = store.every_usage(0, 99).await.unwrap();
    let again: Vec<MeteredCall> = again.into_iter().map(|kept| kept.call).collect();
    assert_eq!(again, [calls.clone(), calls].concat());
}
