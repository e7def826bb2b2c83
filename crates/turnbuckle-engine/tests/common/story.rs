//! A story that touches everything a crash can hit, told so that it can be taken up again from any place; and a store that
//! stops dead.
#![allow(dead_code, reason = "each test file uses its share")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use crate::common::{World, agent, amend, calls, pending_cards, says_and_calls, stored_events};
use futures_util::FutureExt;
use serde_json::json;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::Notify;
use turnbuckle_core::error::ToolErrorCode;
use turnbuckle_core::event::{Event, EventKind};
use turnbuckle_core::ids::{MessageId, SessionId, TenantId, TurnId, UserId};
use turnbuckle_core::message::{AssistantMessage, Message};
use turnbuckle_core::model::ModelResponse;
use turnbuckle_core::part::{Part, ToolCallStatus};
use turnbuckle_core::time::Timestamp;
use turnbuckle_engine::{Agent, Engine, EngineError, Submission, drain};
use turnbuckle_models::scripted::{calls as calling, text};
use turnbuckle_store::{
    Allowance, Blob, BlobPart, Captured, CapturedIn, CapturedQuery, CapturedUpdate, Card,
    CardQuery, Claim, Commit, Committed, Conflict, Export, Fork, ImportedUsage, InboxItem,
    KeptAllowance, KeptUsage, Loaded, MeteredCall, NewSession, Page, Post, Receipt, Release,
    Released, Session, SessionKey, SessionQuery, Store, StoreError, StoreFuture, TurnLog,
    TurnRecord, UsageGroup, UsageQuery, View,
};

/// What the model says in the story: reads, a write, a payment that a person amends, a tag, and a second turn.
pub fn script() -> Vec<ModelResponse> {
    vec![
        says_and_calls(
            "Let me see to it.",
            &[("a", "look_up", r#"{"key": "blue"}"#), ("b", "book", r#"{"room": "blue"}"#)],
        ),
        calling(&[("c", "pay", r#"{"amount": 100}"#), ("d", "look_up", r#"{"key": "price"}"#)]),
        calling(&[("e", "tag", r#"{"key": "paid"}"#)]),
        text("The room is booked and paid."),
        calling(&[("f", "look_up", r#"{"key": "tea"}"#)]),
        text("Tea is at five."),
    ]
}

pub fn agents() -> [Agent; 1] {
    [agent("main").build().unwrap()]
}

/// Tells the story from wherever it is, to its end or to the first trouble. Gives the events of the last stream.
pub async fn tell(
    engine: &Engine,
    key: &SessionKey,
    sight: &dyn Store,
) -> Result<Vec<Event>, EngineError> {
    let mut events = post(engine, key, "Book the blue room and pay for it.", "k1").await?;
    if in_trouble(&events) {
        return Ok(events);
    }
    if let [card] = pending_cards(sight, key).await.as_slice() {
        match engine.decide(key, card, amend(json!({"amount": 80})), Some("bob".into())).await {
            Ok(posted) => events = drain(posted.stream().unwrap()).await,
            Err(EngineError::Store(StoreError::Conflict { what: Conflict::Decided { .. } })) => {}
            Err(e) => return Err(e),
        }
    }
    if in_trouble(&events) {
        return Ok(events);
    }
    // A second message would take the place of what still waits.
    if sight.session(key).await.unwrap().turn.is_none() {
        let more = post(engine, key, "And tea?", "k2").await?;
        if !more.is_empty() {
            events = more;
        }
    }
    Ok(events)
}

fn in_trouble(events: &[Event]) -> bool {
    events.last().is_some_and(|e| matches!(e.kind, EventKind::TurnError { .. }))
}

async fn post(
    engine: &Engine,
    key: &SessionKey,
    words: &str,
    once: &str,
) -> Result<Vec<Event>, EngineError> {
    let mut message = Submission::new(words);
    message.idempotency_key = Some(once.into());
    Ok(drain(engine.submit(key, message).await?.stream().unwrap()).await)
}

/// Whether the story is at its end.
pub async fn told(store: &dyn Store, key: &SessionKey) -> bool {
    let row = store.session(key).await.unwrap();
    row.turn.is_none() && row.pending == 0 && store.turns(key).await.unwrap().len() == 2
}

/// What must be the same however often the process died, calls of unknown outcome set aside: they are given back by name.
pub async fn essence(store: &dyn Store, key: &SessionKey, unknown: &mut Vec<String>) -> String {
    let mut messages = crate::common::messages(store, key).await;
    for message in &mut messages {
        let Message::Assistant(message) = message else { continue };
        // A model call that was lost with its process is made again, and counts twice.
        message.iterations.retain(|call| call.finish.is_some());
        for part in &mut message.parts {
            let Part::ToolCall(call) = part else { continue };
            if call.error.as_ref().is_some_and(|e| e.code == ToolErrorCode::OutcomeUnknown) {
                unknown.push(call.name.to_string());
            }
            // What may have been lost with the process is checked against the world instead.
            if ["book", "pay"].contains(&call.name.as_str()) {
                (call.status, call.error, call.output) = (ToolCallStatus::Completed, None, None);
            }
        }
    }
    let mut text = serde_json::to_string_pretty(&messages).unwrap();
    // Each attempt to post a message mints an id.
    for (n, turn) in store.turns(key).await.unwrap().iter().enumerate() {
        text = text.replace(&format!("\"{}", turn.id), &format!("\"turn{n}"));
    }
    text
}

pub fn assert_same(got: &str, expected: &str, place: &str) {
    for (got, expected) in got.lines().zip(expected.lines()) {
        assert_eq!(got, expected, "{place}");
    }
    assert_eq!(got.lines().count(), expected.lines().count(), "{place}");
}

/// What the world saw must fit what the messages say: nothing that acts ran twice, and what is not known is said.
pub fn check_world(world: &World, message: &AssistantMessage) {
    let all = world.all();
    for (name, what) in [("book", "book blue"), ("pay", "pay 80")] {
        let call = calls(message).into_iter().find(|c| c.name == name).unwrap();
        let times = world.count(what);
        match &call.error {
            None => assert_eq!(times, 1, "{name}: {all:?}"),
            Some(error) => {
                assert_eq!(error.code, ToolErrorCode::OutcomeUnknown, "{error}");
                assert!(times <= 1, "{name}: {all:?}");
            }
        }
    }
    // Repeated or not, a tag goes under one key.
    let mut tags: Vec<_> = all.iter().filter(|n| n.starts_with("tag")).collect();
    tags.dedup();
    assert_eq!(tags.len(), 1, "{all:?}");
}

pub async fn events_of(store: &dyn Store, key: &SessionKey) -> usize {
    stored_events(store, key).await.len()
}

/// When a store stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dies {
    /// Before the commit is written.
    Before,
    /// After it, and before anybody learns of it.
    After,
}

/// When a process dies.
pub enum Death {
    Never,
    /// At the commit with this number.
    At(usize, Dies),
    /// Before the first commit after the world saw something, so that nobody learns of it.
    Seen(World, &'static str),
}

/// A store whose process dies at a commit: that operation and all later ones never return.
pub struct MortalStore {
    inner: Arc<dyn Store>,
    commits: AtomicUsize,
    death: Death,
    dead: AtomicBool,
    told: Notify,
}

impl MortalStore {
    pub fn new(inner: Arc<dyn Store>, death: Death) -> Arc<Self> {
        Arc::new(Self {
            inner,
            commits: AtomicUsize::new(0),
            death,
            dead: AtomicBool::new(false),
            told: Notify::new(),
        })
    }

    /// Waits for the end.
    pub async fn death(&self) {
        self.told.notified().await;
    }

    /// How many commits there were.
    pub fn commits(&self) -> usize {
        self.commits.load(Ordering::SeqCst)
    }

    async fn alive(&self) {
        if self.dead.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    }

    /// Counts a commit, and says whether and when the process dies at it.
    fn fate(&self) -> Option<Dies> {
        let n = self.commits.fetch_add(1, Ordering::SeqCst);
        let dies = match &self.death {
            Death::Never => None,
            Death::At(at, dies) => (*at == n).then_some(*dies),
            Death::Seen(world, what) => (world.count(what) > 0).then_some(Dies::Before),
        };
        self.dead.fetch_or(dies.is_some(), Ordering::SeqCst);
        dies
    }

    async fn die<T>(&self) -> T {
        self.told.notify_one();
        std::future::pending().await
    }
}

macro_rules! pass {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $output:ty;)*) => {
        impl Store for MortalStore {
            fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed> {
                async move {
                    self.alive().await;
                    match self.fate() {
                        Some(Dies::Before) => self.die().await,
                        Some(Dies::After) => {
                            self.inner.commit(commit).await?;
                            self.die().await
                        }
                        None => self.inner.commit(commit).await,
                    }
                }
                .boxed()
            }

            $(
                fn $name<'a>(&'a self, $($argument: $kind),*) -> StoreFuture<'a, $output> {
                    async move {
                        self.alive().await;
                        self.inner.$name($($argument),*).await
                    }
                    .boxed()
                }
            )*
        }
    };
}

pass! {
    create_session(new: NewSession) -> Session;
    session(key: &'a SessionKey) -> Session;
    load(key: &'a SessionKey) -> Loaded;
    view(key: &'a SessionKey, messages: u32) -> View;
    list_sessions(query: SessionQuery) -> Page<Session>;
    set_title(key: &'a SessionKey, title: &'a str, now: Timestamp) -> ();
    delete_session(key: &'a SessionKey, now: Timestamp) -> ();
    fork_session(fork: Fork) -> Session;
    claim(key: &'a SessionKey, owner: &'a str, lease_ms: u64, now: Timestamp) -> Claim;
    renew(key: &'a SessionKey, fence: u64, lease_ms: u64, now: Timestamp) -> ();
    release(key: &'a SessionKey, fence: u64, when: Release) -> Released;
    park(key: &'a SessionKey, fence: u64, reason: &'a str, now: Timestamp) -> ();
    unpark(key: &'a SessionKey) -> ();
    parked(after: Option<&'a SessionId>, limit: u32) -> Vec<Session>;
    messages(key: &'a SessionKey, from: u32, limit: u32) -> Vec<Message>;
    events(key: &'a SessionKey, after_seq: u64, limit: u32) -> Vec<Event>;
    journal(key: &'a SessionKey, turn: &'a TurnId) -> TurnLog;
    turns(key: &'a SessionKey) -> Vec<TurnRecord>;
    cards(query: CardQuery) -> Page<Card>;
    card(tenant: &'a TenantId, card: &'a MessageId) -> Card;
    expired_cards(now: Timestamp, limit: u32) -> Vec<Card>;
    post(post: Post) -> Receipt;
    inbox(key: &'a SessionKey) -> Vec<InboxItem>;
    claimable(now: Timestamp, limit: u32) -> Vec<SessionKey>;
    forfeit(owner: &'a str) -> u64;
    captured(key: &'a SessionKey, turn: Option<&'a TurnId>) -> Vec<Captured>;
    list_captured(query: CapturedQuery) -> Page<CapturedIn>;
    update_captured(update: CapturedUpdate) -> Captured;
    put_blob(key: &'a SessionKey, blob: Blob) -> ();
    get_blob(key: &'a SessionKey, id: &'a str, range: Range<u64>) -> BlobPart;
    usage(query: UsageQuery) -> Vec<UsageGroup>;
    tenants(after: Option<&'a TenantId>, limit: u32) -> Vec<TenantId>;
    export_session(key: &'a SessionKey) -> Export;
    import_session(export: Export, usage: ImportedUsage) -> Session;
    every_usage(after: u64, limit: u32) -> Vec<KeptUsage>;
    meter(calls: Vec<MeteredCall>) -> ();
    set_model(key: &'a SessionKey, model: &'a str) -> ();
    allowances(tenant: &'a TenantId, user: &'a UserId, session: Option<&'a SessionId>) -> Vec<Allowance>;
    take_back(tenant: &'a TenantId, user: &'a UserId, allowance: &'a MessageId) -> ();
    every_allowance(after: u64, limit: u32) -> Vec<KeptAllowance>;
    allow(tenant: &'a TenantId, allowance: &'a Allowance) -> ();
}
