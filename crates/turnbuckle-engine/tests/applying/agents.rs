//! Who applies a captured action: the agent that wanted it.

use crate::common::*;
use crate::{apply, yes};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use turnbuckle_core::context::InputBinding;
use turnbuckle_core::error::ToolError;
use turnbuckle_core::ids::TurnId;
use turnbuckle_core::model::ModelResponse;
use turnbuckle_engine::tool::{Approval, FnTool, ToolContext, ToolContract};
use turnbuckle_engine::{Agent, EngineBuilder, Submission};
use turnbuckle_models::scripted::{ScriptedModel, calls as calling, text};
use turnbuckle_store::{CapturedStatus, CapturedUpdate, SessionKey};

#[derive(Deserialize, JsonSchema)]
struct Change {
    /// The order.
    order_id: Option<String>,
    /// What to write on it.
    note: String,
}

#[derive(Deserialize, JsonSchema)]
struct NoteChange {
    #[expect(dead_code, reason = "its schema is all that is read")]
    note: Option<String>,
}

/// Notes something on the order that it is wired to.
pub fn update_order() -> FnTool {
    let contract = ToolContract::new("update_order").description("Changes an order.");
    let contract = contract.approval(Approval::Always);
    let tool = FnTool::typed(contract, async |args: Change, ctx: ToolContext| {
        let (order, agent) = (args.order_id.unwrap_or_default(), ctx.agent());
        ctx.resource::<World>()?.note(format!("{agent} notes {} on {order}", args.note));
        Ok::<_, ToolError>(json!("noted"))
    });
    tool.amendable::<NoteChange>()
}

pub fn note(id: &str, note: &str) -> (String, String, String) {
    (id.to_owned(), "update_order".to_owned(), json!({"note": note}).to_string())
}

pub fn calls(all: &[(String, String, String)]) -> ModelResponse {
    let all: Vec<_> = all.iter().map(|(a, b, c)| (a.as_str(), b.as_str(), c.as_str())).collect();
    calling(&all)
}

/// An agent whose tools are these, a session with it, and the turn that its run was.
pub async fn run(
    agent: Agent,
    script: Vec<ModelResponse>,
    change: impl FnOnce(EngineBuilder) -> EngineBuilder,
) -> (Bench, SessionKey, TurnId) {
    let bench = Bench::of(ScriptedModel::new("m", script), [agent], change);
    let key = bench.session().await;
    bench.say(&key, Submission::new("go").captured()).await;
    let turn = bench.message(&key).await.turn;
    (bench, key, turn)
}

pub fn main_with(tools: impl IntoIterator<Item = FnTool>) -> Agent {
    let main = Agent::builder("main").instructions("You help.");
    tools.into_iter().fold(main, |main, tool| main.tool(tool)).build().unwrap()
}

pub const APPLIED: CapturedStatus = CapturedStatus::Applied;

pub fn noted() -> (CapturedStatus, Value) {
    (APPLIED, json!("noted"))
}

/// An agent `main` that may ask an agent `aide`; both update orders, each of its own shop.
fn two_agents(approval: Approval) -> [Agent; 2] {
    let ask = ToolContract::new("ask_aide").description("Asks the aide.");
    let ask = ask.input::<Key>().on_agent("aide").approval(approval);
    let shop = |name: &str| InputBinding::constant("order_id", json!(name)).restrict();
    let main = Agent::builder("main").instructions("You help.").tool(FnTool::elsewhere(ask));
    let aide = Agent::builder("aide").instructions("You are an aide.");
    [
        main.tool(update_order()).bind("update_order", shop("north")).build().unwrap(),
        aide.tool(update_order()).bind("update_order", shop("south")).build().unwrap(),
    ]
}

#[tokio::test]
async fn an_action_is_done_by_the_agent_that_wanted_it() {
    let script = [
        calls(&[note("a", "one")]),
        calling(&[("b", "ask_aide", r#"{"key": "help"}"#)]),
        calls(&[note("c", "two")]),
        text("The aide is done."),
        text("Queued."),
    ];
    let model = ScriptedModel::new("m", script);
    let bench = Bench::of(model, two_agents(Approval::Never), |b| b);
    let key = bench.session().await;
    bench.say(&key, Submission::new("go").captured()).await;
    let turn = bench.message(&key).await.turn;
    let both = [(0, yes()), (1, yes())];
    let done = apply(&bench.engine, &key, &turn, &both).await.unwrap();
    assert_eq!(done, [noted(), noted()]);
    assert_eq!(bench.world.all(), ["main notes one on north", "aide notes two on south"]);
}

#[tokio::test]
async fn an_action_of_an_agent_that_is_gone_is_not_done_by_another() {
    let (bench, key, turn) =
        run(main_with([update_order()]), vec![calls(&[note("a", "one")]), text("Queued.")], |b| b)
            .await;
    let wanted_by = async |agent: Option<&str>| {
        let stored = bench.engine.captured(&key, Some(&turn)).await.unwrap().remove(0);
        let mut action = Value::clone(&stored.action);
        let fields = action.as_object_mut().unwrap();
        match agent {
            Some(agent) => fields.insert("agent".into(), json!(agent)),
            None => fields.remove("agent"),
        };
        let update = CapturedUpdate {
            key: key.clone(),
            turn: turn.clone(),
            index: 0,
            expected: stored.revision,
            status: CapturedStatus::Pending,
            action: Some(action.into()),
            result: None,
        };
        bench.store.update_captured(update).await.unwrap();
    };
    wanted_by(Some("aide")).await;
    let done = apply(&bench.engine, &key, &turn, &[(0, yes())]).await.unwrap();
    let why = "the agent `aide` does not have the tool `update_order` any more";
    assert_eq!(done, [(CapturedStatus::Failed, json!(why))]);
    assert_eq!(bench.world.all(), [] as [String; 0]);
    // Those of versions that did not store it are done by whoever has the tool.
    wanted_by(None).await;
    let done = apply(&bench.engine, &key, &turn, &[(0, yes())]).await.unwrap();
    assert_eq!(done, [noted()]);
}

#[tokio::test]
async fn a_task_for_another_agent_cannot_be_applied_and_says_what_to_do_instead() {
    let script = [calling(&[("a", "ask_aide", r#"{"key": "help"}"#)]), text("Queued.")];
    let model = ScriptedModel::new("m", script);
    let bench = Bench::of(model, two_agents(Approval::Always), |b| b);
    let key = bench.session().await;
    bench.say(&key, Submission::new("go").captured()).await;
    let turn = bench.message(&key).await.turn;
    let done = apply(&bench.engine, &key, &turn, &[(0, yes())]).await.unwrap();
    let why = "`ask_aide` is a task for the agent `aide`, and agents only work while somebody talks to them: \
               ask for it in a session with a person there, who approves it as it comes";
    assert_eq!(done, [(CapturedStatus::Failed, json!(why))]);
}
