//! Shared by the tests of the engine: an agent with tools whose effects are counted outside, models that answer by the
//! request, and the checks that hold for every session.
#![allow(dead_code, reason = "each test file uses its share")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use turnbuckle_core::event::{Event, EventKind};
use turnbuckle_core::fold::TurnFold;
use turnbuckle_core::ids::MessageId;
use turnbuckle_core::machine::Decision;
use turnbuckle_core::message::{AssistantMessage, CardStatus, Message, MessageState, SystemBody};
use turnbuckle_core::model::{Block, ModelRequest, ModelResponse};
use turnbuckle_core::outcome::Outcome;
use turnbuckle_core::part::{Part, ToolCallPart};
use turnbuckle_core::time::Timestamp;
use turnbuckle_core::transcript::Item;
use turnbuckle_engine::agent::AgentBuilder;
use turnbuckle_engine::runtime::Models;
use turnbuckle_engine::tool::{Approval, Clock, FnTool, Resources, ToolContext, ToolContract};
use turnbuckle_engine::{Agent, Agents, Engine, EngineBuilder, Submission, drain};
use turnbuckle_macros::tool;
use turnbuckle_models::Model;
use turnbuckle_models::scripted::{Scripted, ScriptedModel, text};
use turnbuckle_store::{CardQuery, CardStanding, MemoryStore, SessionKey, Store};
use turnbuckle_testkit::Gate;

/// The moment at which the clock of most tests stands.
pub const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// What tools did to the world, told apart by idempotency key.
#[derive(Clone, Default)]
pub struct World {
    log: Arc<Mutex<Vec<String>>>,
    /// Holds back the tool `wait`.
    pub gate: Gate,
}

impl World {
    pub fn note(&self, what: String) {
        self.log.lock().unwrap().push(what);
    }

    pub fn all(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// How often anything beginning with `what` was done.
    pub fn count(&self, what: &str) -> usize {
        self.all().iter().filter(|n| n.starts_with(what)).count()
    }
}

#[derive(Deserialize, JsonSchema)]
pub struct Key {
    /// What to look for.
    pub key: String,
}

/// Looks a thing up.
#[tool(crate = turnbuckle_engine, effect = "read_only")]
pub async fn look_up(args: Key, ctx: ToolContext) -> Result<Value, String> {
    ctx.resource::<World>().map_err(|e| e.to_string())?.note(format!("look_up {}", args.key));
    Ok(json!({"key": args.key, "value": args.key.len()}))
}

#[derive(Deserialize, JsonSchema)]
pub struct Booking {
    /// The room's name.
    pub room: String,
    /// How many nights; one unless told.
    pub nights: Option<u32>,
}

/// Books a room.
#[tool(crate = turnbuckle_engine)]
pub async fn book(args: Booking, ctx: ToolContext) -> Result<Value, String> {
    let world = ctx.resource::<World>().map_err(|e| e.to_string())?;
    world.note(format!("book {} under {}", args.room, ctx.idempotency_key()));
    Ok(json!({"booked": args.room, "nights": args.nights.unwrap_or(1)}))
}

/// Puts a tag on a thing; tagging twice is tagging once.
#[tool(crate = turnbuckle_engine, effect = "idempotent")]
pub async fn tag(args: Key, ctx: ToolContext) -> Result<Value, String> {
    let world = ctx.resource::<World>().map_err(|e| e.to_string())?;
    world.note(format!("tag {} under {}", args.key, ctx.idempotency_key()));
    Ok(json!({"tagged": args.key}))
}

#[derive(Deserialize, JsonSchema)]
pub struct Payment {
    /// In cents.
    pub amount: u64,
    /// What it is for.
    pub purpose: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
pub struct PaymentChange {
    /// In cents.
    pub amount: Option<u64>,
}

/// Pays money.
#[tool(crate = turnbuckle_engine, approval = "always", amendable = PaymentChange)]
pub async fn pay(args: Payment, ctx: ToolContext) -> Result<Value, String> {
    let world = ctx.resource::<World>().map_err(|e| e.to_string())?;
    world.note(format!("pay {} under {}", args.amount, ctx.idempotency_key()));
    Ok(json!({"paid": args.amount}))
}

/// Always fails.
#[tool(crate = turnbuckle_engine, effect = "read_only")]
pub async fn fail(args: Key) -> Result<Value, String> {
    Err(format!("there is no `{}`", args.key))
}

/// Panics.
#[tool(crate = turnbuckle_engine)]
pub async fn explode(ctx: ToolContext) -> Result<Value, String> {
    ctx.resource::<World>().map_err(|e| e.to_string())?.note("explode".into());
    panic!("the wires were crossed")
}

/// Never ends.
#[tool(crate = turnbuckle_engine, timeout_ms = 30000)]
pub async fn hang() -> Result<Value, String> {
    std::future::pending().await
}

/// Waits until it may go on.
#[tool(crate = turnbuckle_engine)]
pub async fn wait(ctx: ToolContext) -> Result<Value, String> {
    let world = ctx.resource::<World>().map_err(|e| e.to_string())?.clone();
    world.note(format!("wait begins under {}", ctx.idempotency_key()));
    world.gate.wait().await;
    world.note("wait ends".into());
    Ok(json!("waited"))
}

/// Reports while it works.
#[tool(crate = turnbuckle_engine, effect = "read_only")]
pub async fn dig(ctx: ToolContext) -> Result<Value, String> {
    for depth in 1..=3 {
        ctx.report(json!({"depth": depth}));
        tokio::task::yield_now().await;
    }
    Ok(json!("gold"))
}

/// Gives fifty million bytes.
#[tool(crate = turnbuckle_engine, effect = "read_only")]
pub async fn flood() -> Result<String, String> {
    Ok("water ".repeat(50_000_000 / 6))
}

/// Says the last word.
#[tool(crate = turnbuckle_engine, effect = "read_only", ends_turn)]
pub async fn farewell() -> Result<Value, String> {
    Ok(json!("bye"))
}

/// A tool of the front end.
pub fn read_screen() -> FnTool {
    FnTool::elsewhere(ToolContract::new("read_screen").description("Reads the screen.").on_client())
}

/// Orders and their lines, for captured runs: a line names the order it belongs to.
pub fn order_tools() -> (FnTool, FnTool) {
    #[derive(Deserialize, JsonSchema)]
    struct Order {
        /// Who orders.
        customer: String,
    }
    #[derive(Deserialize, JsonSchema)]
    struct Line {
        /// The order.
        order: String,
        /// What is ordered.
        item: String,
    }
    let contract = ToolContract::new("create_order").description("Creates an order.");
    let order = FnTool::typed(
        contract.approval(Approval::Always),
        async |args: Order, ctx: ToolContext| {
            let world = ctx.resource::<World>()?;
            world.note(format!("create_order {}", args.customer));
            let number = world.count("create_order");
            Ok::<_, turnbuckle_core::error::ToolError>(json!({"id": format!("order:{number}")}))
        },
    )
    .capture_mint(|_, n| Some(json!({"id": format!("order:temp_{n}")})));
    let contract = ToolContract::new("add_line").description("Adds a line to an order.");
    let line =
        FnTool::typed(contract.approval(Approval::Always), async |args: Line, ctx: ToolContext| {
            ctx.resource::<World>()?.note(format!("add_line {} to {}", args.item, args.order));
            Ok::<_, turnbuckle_core::error::ToolError>(json!({"line": args.item}))
        })
        .capture_mint(|_, n| Some(json!({"line": format!("line:temp_{n}")})));
    (order, line)
}

/// An agent with all of the tools above.
pub fn agent(name: &str) -> AgentBuilder {
    let (order, line) = order_tools();
    Agent::builder(name)
        .instructions("You help.")
        .tool(look_up())
        .tool(book())
        .tool(tag())
        .tool(pay())
        .tool(fail())
        .tool(explode())
        .tool(hang())
        .tool(wait())
        .tool(dig())
        .tool(flood())
        .tool(farewell())
        .tool(read_screen())
        .tool(order)
        .tool(line)
}

/// A model whose n-th answer of the session is the n-th of the script, wherever it is asked: so a process that takes a turn
/// up again gets the answer that got lost.
pub fn by_request(script: Vec<ModelResponse>) -> ScriptedModel {
    ScriptedModel::from_fn("m", move |request| match script.get(answers(request)) {
        Some(answer) => answer.clone().into(),
        None => text("There is nothing more in the script.").into(),
    })
}

/// How many answers of the model a request holds already.
pub fn answers(request: &ModelRequest) -> usize {
    let items = request.transcript.entries().iter();
    items.filter(|e| matches!(e.item, Item::Assistant { .. })).count()
}

/// Text and calls in one answer.
pub fn says_and_calls(said: &str, called: &[(&str, &str, &str)]) -> ModelResponse {
    let mut blocks = text(said).blocks;
    blocks.extend(turnbuckle_models::scripted::calls(called).blocks);
    turnbuckle_models::scripted::answer(blocks)
}

/// An engine with all that a test looks at.
pub struct Bench {
    pub engine: Engine,
    pub model: Arc<ScriptedModel>,
    pub world: World,
    pub store: Arc<dyn Store>,
}

/// Ids that count, shared by the engines of one test.
#[derive(Clone, Default)]
pub struct Ids(Arc<AtomicU64>);

impl Ids {
    pub fn mint(&self) -> impl Fn() -> String + Send + Sync + 'static {
        let ids = self.0.clone();
        move || (ids.fetch_add(1, Ordering::Relaxed) + 1).to_string()
    }
}

/// A clock that tests move.
#[derive(Clone)]
pub struct Hand(Arc<AtomicI64>);

impl Hand {
    pub fn at(start: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(start.as_millis())))
    }

    pub fn forward(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::Relaxed);
    }

    pub fn clock(&self) -> Clock {
        let hand = self.0.clone();
        Clock::new(move || Timestamp::from_millis(hand.load(Ordering::Relaxed)))
    }

    /// A clock that moves by so much each time somebody looks.
    pub fn moving(self, by: i64) -> Clock {
        Clock::new(move || Timestamp::from_millis(self.0.fetch_add(by, Ordering::Relaxed)))
    }
}

/// What an engine of a test is made of.
pub fn builder(
    model: Arc<dyn Model>,
    world: &World,
    agents: impl IntoIterator<Item = Agent>,
) -> EngineBuilder {
    let resources = Resources::new().with(world.clone());
    Engine::builder()
        .domain(Agents::new(agents).with_resources(resources))
        .models(Models::new(model))
        .clock(Clock::fixed(NOW))
        .ids(Ids::default().mint())
        .name("one")
}

impl Bench {
    /// An agent `main` with all tools, a store in memory.
    pub fn new(model: ScriptedModel) -> Self {
        Self::with(model, |b| b)
    }

    pub fn with(model: ScriptedModel, change: impl FnOnce(EngineBuilder) -> EngineBuilder) -> Self {
        Self::of(model, [agent("main").build().unwrap()], change)
    }

    pub fn of(
        model: ScriptedModel,
        agents: impl IntoIterator<Item = Agent>,
        change: impl FnOnce(EngineBuilder) -> EngineBuilder,
    ) -> Self {
        let (model, world, store) = (Arc::new(model), World::default(), MemoryStore::new());
        let store: Arc<dyn Store> = Arc::new(store);
        let builder = builder(model.clone(), &world, agents).shared_store(store.clone());
        let engine = change(builder).build().unwrap();
        let store = engine.store().clone();
        Self { engine, model, world, store }
    }

    /// A script in order.
    pub fn script<S: Into<Scripted>>(answers: impl IntoIterator<Item = S>) -> Self {
        Self::new(ScriptedModel::new("m", answers))
    }

    pub async fn session(&self) -> SessionKey {
        self.engine.create_session("acme", "ada", "main").await.unwrap().key
    }

    pub async fn say(&self, key: &SessionKey, message: impl Into<Submission>) -> Vec<Event> {
        say(&self.engine, key, message).await
    }

    pub async fn message(&self, key: &SessionKey) -> AssistantMessage {
        last_message(&*self.store, key).await
    }

    /// The texts of the last request's items, for comparing.
    pub fn last_request(&self) -> ModelRequest {
        self.model.requests().pop().unwrap()
    }

    pub async fn check(&self, key: &SessionKey) {
        check_session(&self.engine, key).await;
        check_requests(&self.model.requests());
    }
}

pub async fn say(engine: &Engine, key: &SessionKey, message: impl Into<Submission>) -> Vec<Event> {
    drain(engine.submit(key, message).await.unwrap().stream().unwrap()).await
}

pub fn approve() -> Decision {
    Decision::approve()
}

pub fn amend(change: Value) -> Decision {
    Decision::Approve { amendment: Some(Arc::new(change)), reason: None, remember: None }
}

/// The cards that wait in a session, oldest first.
pub async fn pending_cards(store: &dyn Store, key: &SessionKey) -> Vec<MessageId> {
    let query = CardQuery {
        session: Some(key.id.clone()),
        standing: CardStanding::Pending,
        limit: 100,
        ..CardQuery::of("acme".into())
    };
    let cards = store.cards(query).await.unwrap().items;
    cards.into_iter().filter(|c| c.answered_by.is_none()).map(|c| c.message.id).collect()
}

pub async fn messages(store: &dyn Store, key: &SessionKey) -> Vec<Message> {
    store.messages(key, 0, 10_000).await.unwrap()
}

pub async fn assistant_messages(store: &dyn Store, key: &SessionKey) -> Vec<AssistantMessage> {
    let all = messages(store, key).await.into_iter();
    all.filter_map(|m| match m {
        Message::Assistant(m) => Some(*m),
        _ => None,
    })
    .collect()
}

pub async fn last_message(store: &dyn Store, key: &SessionKey) -> AssistantMessage {
    assistant_messages(store, key).await.pop().unwrap()
}

pub async fn stored_events(store: &dyn Store, key: &SessionKey) -> Vec<Event> {
    store.events(key, 0, 1_000_000).await.unwrap()
}

pub fn outcome(message: &AssistantMessage) -> Outcome {
    match &message.state {
        MessageState::Finished { outcome } => outcome.clone(),
        other => panic!("the message is not finished: {other:?}"),
    }
}

pub fn calls(message: &AssistantMessage) -> Vec<&ToolCallPart> {
    message.calls().collect()
}

pub fn the_call(message: &AssistantMessage) -> &ToolCallPart {
    let calls = calls(message);
    assert_eq!(calls.len(), 1, "{message:#?}");
    calls[0]
}

/// The names of events, deltas left out.
pub fn shape(events: &[Event]) -> Vec<String> {
    let names = events
        .iter()
        .map(|e| serde_json::to_value(&e.kind).unwrap()["type"].as_str().unwrap().to_owned());
    names.filter(|n| !n.ends_with("-delta")).collect()
}

pub fn last_kind(events: &[Event]) -> &EventKind {
    &events.last().expect("there are events").kind
}

/// The text a reader who folds the stream sees.
pub fn streamed_message(events: &[Event]) -> AssistantMessage {
    let mut fold = TurnFold::default();
    for event in events {
        fold.apply(event.at, &event.kind).unwrap();
    }
    fold.assistant.unwrap()
}

/// What holds for every stored session whatever happened to it: numbers without gaps, folded events equal the stored
/// messages, the journal replays to the stored events, and nothing of a finished turn is left open.
pub async fn check_session(engine: &Engine, key: &SessionKey) {
    let store = engine.store();
    let events = stored_events(&**store, key).await;
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event.seq, index as u64 + 1, "{event:?}");
    }
    let mut by_id: BTreeMap<MessageId, Message> = BTreeMap::new();
    for message in messages(&**store, key).await {
        let id = message.id().clone();
        assert!(by_id.insert(id.clone(), message).is_none(), "{id} is stored twice");
    }
    for turn in store.turns(key).await.unwrap() {
        let mine: Vec<Event> = events.iter().filter(|e| e.turn == turn.id).cloned().collect();
        let mut fold = TurnFold::default();
        for event in &mine {
            fold.apply(event.at, &event.kind).unwrap();
        }
        assert_eq!(
            by_id.get(&turn.id.user_message()),
            fold.user.clone().map(Message::User).as_ref()
        );
        if turn.status != turnbuckle_store::TurnStatus::Running {
            let stored = by_id.get(&turn.id.assistant_message());
            assert_eq!(
                stored,
                fold.assistant.clone().map(|m| Message::Assistant(Box::new(m))).as_ref()
            );
        }
        for card in &fold.cards {
            assert_eq!(by_id.get(&card.id), Some(&Message::System(card.clone())));
        }
        if turn.status == turnbuckle_store::TurnStatus::Finished {
            assert!(mine.last().unwrap().kind.is_terminal(), "{:?}", mine.last());
            let message = fold.assistant.as_ref().unwrap();
            assert_eq!(Some(outcome(message)), turn.outcome);
            all_settled(message);
            for card in &fold.cards {
                let SystemBody::Approval(card) = &card.body else { continue };
                assert_ne!(card.status, CardStatus::Pending, "{card:?}");
            }
        }
        let replayed = engine.replay(key, &turn.id).await.unwrap();
        replayed.compare(&mine).unwrap();
        assert_eq!(replayed.messages, fold);
    }
}

fn all_settled(message: &AssistantMessage) {
    for call in message.calls() {
        assert!(call.status.is_settled(), "{call:?}");
        if let Some(child) = &call.child {
            all_settled(child);
        }
    }
}

/// Every call in every request has exactly one result, in its order, right after the answer that made it.
pub fn check_requests(requests: &[ModelRequest]) {
    for request in requests {
        let mut open: Vec<String> = Vec::new();
        for entry in request.transcript.entries() {
            match &entry.item {
                Item::Assistant { blocks } => {
                    assert!(open.is_empty(), "calls without results: {open:?}");
                    open = blocks
                        .iter()
                        .filter_map(|b| match b {
                            Block::ToolCall { wire_id, .. } => Some(wire_id.clone()),
                            _ => None,
                        })
                        .collect();
                    let mut ids = open.clone();
                    ids.sort();
                    ids.dedup();
                    assert_eq!(ids.len(), open.len(), "an id names two calls: {open:?}");
                }
                Item::ToolResults { results } => {
                    let given: Vec<_> = results.iter().map(|r| r.wire_id.to_string()).collect();
                    assert_eq!(given, std::mem::take(&mut open));
                }
                Item::User { .. } | Item::System { .. } => {
                    assert!(open.is_empty(), "calls without results: {open:?}");
                }
            }
        }
        assert!(open.is_empty(), "calls without results: {open:?}");
    }
}

pub fn items(request: &ModelRequest) -> Vec<Item> {
    request.transcript.entries().iter().map(|e| e.item.clone()).collect()
}

/// Each request begins with the one before.
pub fn check_prefixes(requests: &[ModelRequest]) {
    for pair in requests.windows(2) {
        let (before, after) = (items(&pair[0]), items(&pair[1]));
        assert!(after.starts_with(&before), "{before:#?} is no prefix of {after:#?}");
        assert_eq!(pair[0].system, pair[1].system);
        assert_eq!(pair[0].tools.specs, pair[1].tools.specs);
    }
}

pub fn user_texts(request: &ModelRequest) -> Vec<String> {
    let texts = items(request).into_iter().filter_map(|i| match i {
        Item::User { content } => Some(content.text().into_owned()),
        _ => None,
    });
    texts.collect()
}

/// The parts' texts, for messages.
pub fn said(message: &AssistantMessage) -> Vec<&str> {
    message.parts.iter().filter_map(Part::as_text).collect()
}

/// Reads a stream up to the first event that `found` wants.
pub async fn until(
    stream: &mut turnbuckle_engine::TurnStream,
    found: impl Fn(&EventKind) -> bool,
) -> Vec<Event> {
    use futures_util::StreamExt;
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        let last = found(&event.kind);
        events.push(event);
        if last {
            return events;
        }
    }
    panic!("the stream ended before: {events:#?}")
}

pub fn runs(kind: &EventKind) -> bool {
    use turnbuckle_core::event::CallProgress;
    matches!(kind, EventKind::ToolCallStatus { status: CallProgress::Running, .. })
}

/// Lets spawned work go on until nobody owns the session.
pub async fn until_idle(store: &dyn Store, key: &SessionKey) {
    for _ in 0..100_000 {
        if store.session(key).await.unwrap().lease.is_none() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the session stays at work");
}
