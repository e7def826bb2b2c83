//! What later arguments can refer to: the same while a turn runs, after a pause and in another process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::*;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use turnbuckle_core::context::Reference;
use turnbuckle_core::error::{ToolError, ToolErrorCode};
use turnbuckle_core::event::{CallResult, Event, EventKind};
use turnbuckle_core::ids::AgentName;
use turnbuckle_core::message::AssistantMessage;
use turnbuckle_core::tool::SideEffect;
use turnbuckle_engine::pipeline::{HookCall, Hooks, Transformed};
use turnbuckle_engine::tool::{Approval, Eventual, FnTool, Resources, ToolContext, ToolContract};
use turnbuckle_engine::{Agent, Agents, Domain, DomainTurn, Engine, TurnInfo, drain};
use turnbuckle_models::scripted::{Scripted, ScriptedModel, calls as calling, text};
use turnbuckle_store::{MemoryStore, SessionKey, Store};

/// A domain that shows models less than tools give: nothing of a secret, and a failure where something is forbidden.
struct Discreet(Agents);

struct DiscreetTurn;

impl Hooks for DiscreetTurn {
    fn transform_tool_result<'a>(
        &'a self,
        call: HookCall<'a>,
        result: CallResult,
    ) -> Eventual<'a, Transformed> {
        Eventual::Ready(match call.args["key"].as_str() {
            Some("secret") => {
                Transformed::Success(CallResult { output: json!("hidden").into(), ..result })
            }
            Some("forbidden") => Transformed::Failure {
                error: ToolError::new(ToolErrorCode::Failed, "it is forbidden"),
                output: None,
            },
            _ => Transformed::Success(result),
        })
    }
}

impl DomainTurn for DiscreetTurn {}

impl Domain for Discreet {
    fn agents(&self) -> &BTreeMap<AgentName, Arc<Agent>> {
        self.0.agents()
    }

    fn resources(&self) -> Resources {
        self.0.resources()
    }

    fn open_turn(&self, _: Option<&Value>, _: &TurnInfo) -> Box<dyn DomainTurn> {
        Box::new(DiscreetTurn)
    }
}

#[derive(Deserialize, JsonSchema)]
struct Late {
    key: String,
    /// How often it lets others go first.
    after: u32,
}

/// Gives its key, after others.
fn late() -> FnTool {
    let contract = ToolContract::new("late").description("Takes its time.");
    FnTool::typed(contract.effect(SideEffect::ReadOnly), async |args: Late, _: ToolContext| {
        for _ in 0..args.after {
            tokio::task::yield_now().await;
        }
        Ok::<_, ToolError>(json!(args.key))
    })
}

/// Remembers something for later turns.
fn remember() -> FnTool {
    let contract = ToolContract::new("remember").description("Remembers.");
    FnTool::typed(contract, async |args: Key, ctx: ToolContext| {
        let seen: Reference = "var:seen".parse().unwrap();
        ctx.context().with(|store| store.set(&seen, json!(args.key))).unwrap();
        Ok::<_, ToolError>(json!("remembered"))
    })
}

#[derive(Deserialize, JsonSchema)]
struct References {
    of: Vec<String>,
}

/// What references lead to.
fn peek() -> FnTool {
    let contract = ToolContract::new("peek").description("Follows references.");
    FnTool::typed(
        contract.effect(SideEffect::ReadOnly),
        async |args: References, ctx: ToolContext| {
            let follow = |of: &String| {
                let reference: Reference = of.parse().unwrap();
                let value =
                    ctx.context().with(|store| store.get(&reference).map(|v| v.into_owned()));
                (of.clone(), value.unwrap_or_default())
            };
            Ok::<_, ToolError>(Value::Object(args.of.iter().map(follow).collect()))
        },
    )
}

/// Gives more than fifty thousand bytes.
fn large() -> FnTool {
    let contract = ToolContract::new("large").description("Gives much.");
    FnTool::typed(contract.effect(SideEffect::ReadOnly), async |args: Key, _: ToolContext| {
        Ok::<_, ToolError>(json!(format!("{} {}", args.key, "x".repeat(50_000))))
    })
}

fn ask_helper() -> FnTool {
    let contract = ToolContract::new("ask_helper").description("Asks the helper.");
    FnTool::elsewhere(
        contract
            .input_schema(json!({
                "type": "object",
                "properties": {"task": {"type": "string"}},
                "required": ["task"],
            }))
            .on_agent("helper"),
    )
}

const PEEK: &str = r#"{"of": ["tool:late[]", "tool:late", "tool:look_up[]", "tool:ask_helper", "tool:pay", "var:seen"]}"#;

/// A payment that a person decides about, or that just happens.
fn engine(store: &Arc<dyn Store>, ids: &Ids, world: &World, approval: Approval) -> Engine {
    let model = ScriptedModel::from_fn("m", |request| -> Scripted {
        let answer = match (user_texts(request)[0].as_str(), answers(request)) {
            ("go", 0) => calling(&[
                ("a", "late", r#"{"key": "first", "after": 9}"#),
                ("b", "look_up", r#"{"key": "secret"}"#),
                ("c", "late", r#"{"key": "second", "after": 0}"#),
                ("d", "look_up", r#"{"key": "forbidden"}"#),
                ("e", "ask_helper", r#"{"task": "help"}"#),
                ("f", "remember", r#"{"key": "this"}"#),
            ]),
            ("go", 1) => calling(&[("g", "pay", r#"{"amount": 1}"#)]),
            ("go", 2) => calling(&[("h", "peek", PEEK)]),
            ("go", 3) => text("Done."),
            ("go", 4) => calling(&[("i", "peek", PEEK)]),
            ("go", _) => text("Gone."),
            ("much", 0) => calling(&[
                ("a", "large", r#"{"key": "1"}"#),
                ("b", "large", r#"{"key": "2"}"#),
                ("c", "large", r#"{"key": "3"}"#),
                ("d", "large", r#"{"key": "4"}"#),
                ("e", "large", r#"{"key": "5"}"#),
                ("f", "large", r#"{"key": "6"}"#),
            ]),
            ("much", 1) => calling(&[("g", "pay", r#"{"amount": 1}"#)]),
            ("much", 2) => {
                calling(&[("h", "peek", r#"{"of": ["tool:large[]", "tool:large[5]"]}"#)])
            }
            ("much", _) => text("Done."),
            ("help", 0) => calling(&[("j", "late", r#"{"key": "helped", "after": 30}"#)]),
            ("help", _) => text("I helped."),
            (other, _) => panic!("{other}"),
        };
        answer.into()
    });
    let tools =
        [late(), remember(), peek(), large(), ask_helper(), look_up(), pay().approval(approval)];
    let main = Agent::builder("main").instructions("You lead.");
    let main = tools.into_iter().fold(main, |main, tool| main.tool(tool)).build().unwrap();
    let helper = Agent::builder("helper").instructions("You help.").tool(late()).build().unwrap();
    let agents = Agents::new([main, helper]).with_resources(Resources::new().with(world.clone()));
    builder(Arc::new(model), world, [])
        .domain(Discreet(agents))
        .shared_store(store.clone())
        .ids(ids.mint())
        .build()
        .unwrap()
}

fn peeked(message: &AssistantMessage) -> Value {
    let call = calls(message).into_iter().find(|call| call.name.as_str() == "peek").unwrap();
    Value::clone(call.output.as_ref().unwrap())
}

/// A session that was told something, by a process that asks before it pays or does not.
struct Told {
    store: Arc<dyn Store>,
    ids: Ids,
    world: World,
    key: SessionKey,
    events: Vec<Event>,
}

impl Told {
    async fn new(words: &str, approval: Approval) -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let (ids, world) = (Ids::default(), World::default());
        let engine = engine(&store, &ids, &world, approval);
        let key = engine.create_session("acme", "ada", "main").await.unwrap().key;
        let events = say(&engine, &key, words).await;
        Self { store, ids, world, key, events }
    }

    fn another_process(&self) -> Engine {
        engine(&self.store, &self.ids, &self.world, Approval::Always)
    }

    /// Has the payment approved in another process.
    async fn approved(words: &str) -> Self {
        let mut told = Self::new(words, Approval::Always).await;
        let engine = told.another_process();
        let card = pending_cards(&*told.store, &told.key).await.remove(0);
        let decided = engine.decide(&told.key, &card, approve(), None).await.unwrap();
        told.events.extend(drain(decided.stream().unwrap()).await);
        check_session(&engine, &told.key).await;
        told
    }

    async fn peeked(&self) -> Value {
        peeked(&last_message(&*self.store, &self.key).await)
    }
}

#[tokio::test]
async fn references_lead_to_the_same_after_a_pause_and_in_another_process() {
    let live = Told::new("go", Approval::Never).await;
    let expected = json!({
        // In the order in which they ended, a nested one last.
        "tool:late[]": ["second", "first", "helped"],
        "tool:late": "helped",
        // As the tools gave it, whatever the domain made of it for the model.
        "tool:look_up[]": [{"key": "secret", "value": 6}, {"key": "forbidden", "value": 9}],
        "tool:ask_helper": "I helped.",
        "tool:pay": {"paid": 1},
        "var:seen": "this",
    });
    assert_eq!(live.peeked().await, expected);
    assert_eq!(Told::approved("go").await.peeked().await, expected);
}

#[tokio::test]
async fn references_lead_to_the_same_when_a_process_has_died() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (ids, world) = (Ids::default(), World::default());
    let dies = engine(&store, &ids, &world, Approval::Never);
    let key = dies.create_session("acme", "ada", "main").await.unwrap().key;
    let mut stream = dies.submit(&key, "go").await.unwrap().stream().unwrap();
    let paid = json!({"paid": 1});
    until(&mut stream, |kind| {
        matches!(kind, EventKind::ToolCallCompleted { result, .. } if *result.output == paid)
    })
    .await;
    stream.abandon();
    drop(dies);
    let next = engine(&store, &ids, &world, Approval::Never);
    next.forfeit().await.unwrap();
    drain(next.work(&key).stream().unwrap()).await;
    check_session(&next, &key).await;
    let live = Told::new("go", Approval::Never).await;
    assert_eq!(peeked(&last_message(&*store, &key).await), live.peeked().await);
}

#[tokio::test]
async fn outputs_are_of_their_turn_and_variables_of_the_session() {
    let told = Told::approved("go").await;
    say(&told.another_process(), &told.key, "and now?").await;
    let expected = json!({
        "tool:late[]": null, "tool:late": null, "tool:look_up[]": null, "tool:ask_helper": null,
        "tool:pay": null, "var:seen": "this",
    });
    assert_eq!(told.peeked().await, expected);
}

#[tokio::test]
async fn what_has_no_room_is_dropped_and_told_the_same_live_and_resumed() {
    let mut seen = Vec::new();
    for told in [Told::new("much", Approval::Never).await, Told::approved("much").await] {
        let full = |event: &&Event| matches!(event.kind, EventKind::ContextOverflowed { .. });
        assert_eq!(told.events.iter().filter(full).count(), 1);
        let peeked = told.peeked().await;
        // The outputs of before went, so there is no list of all; positions count on.
        assert_eq!(peeked["tool:large[]"], json!(null));
        assert!(peeked["tool:large[5]"].as_str().unwrap().starts_with("6 "));
        seen.push(peeked);
    }
    assert_eq!(seen[0], seen[1]);
}
