//! What captured actions are applied with: what their run knew, whoever applies them and whatever came after it.

use crate::agents::{APPLIED, calls, main_with, note, noted, run, update_order};
use crate::common::{Bench, Hand, Key, NOW, World, order_tools};
use crate::{apply, yes};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use turnbuckle_core::context::{Ambient, InputBinding};
use turnbuckle_core::error::ToolError;
use turnbuckle_core::ids::AgentName;
use turnbuckle_core::message::Surroundings;
use turnbuckle_core::tool::SideEffect;
use turnbuckle_engine::pipeline::{Hooks, Policy, PolicyDecision, Rule};
use turnbuckle_engine::tool::{Approval, FnTool, Resources, ToolContext, ToolContract};
use turnbuckle_engine::{Agent, Agents, Domain, DomainTurn, Review, Submission, TurnInfo};
use turnbuckle_models::scripted::{ScriptedModel, calls as calling, text};
use turnbuckle_store::CapturedStatus;

/// Finds an order by what is in it.
fn find_order() -> FnTool {
    let contract = ToolContract::new("find_order").description("Finds an order.");
    let contract = contract.effect(SideEffect::ReadOnly).taint("untrusted");
    FnTool::typed(contract, async |args: Key, _: ToolContext| {
        Ok::<_, ToolError>(json!({"id": format!("order:{}", args.key)}))
    })
}

fn pinned(argument: &str, reference: &str) -> InputBinding {
    InputBinding::reference(argument, reference.parse().unwrap()).restrict().require()
}

fn find(id: &str, key: &str) -> (String, String, String) {
    (id.to_owned(), "find_order".to_owned(), json!({"key": key}).to_string())
}

#[tokio::test]
async fn an_argument_is_bound_to_what_the_run_had_found_when_its_action_was_captured() {
    let update = update_order().bind(pinned("order_id", "tool:find_order.id"));
    let script = vec![
        calls(&[find("a", "tea")]),
        calls(&[note("b", "late"), find("c", "cake")]),
        calls(&[note("d", "early")]),
        text("Queued."),
        // A later turn finds another.
        calls(&[find("e", "salt")]),
        text("Found."),
    ];
    let (bench, key, turn) = run(main_with([find_order(), update]), script, |b| b).await;
    bench.say(&key, Submission::new("And salt?")).await;
    // A person may change the note, never the order.
    let amendment = Some(Arc::new(json!({"note": "soon"})));
    let changed = Review::Approve { amendment, even_if_stale: false };
    let done = apply(&bench.engine, &key, &turn, &[(0, yes()), (1, changed)]).await.unwrap();
    assert_eq!(done, [noted(), noted()]);
    assert_eq!(
        bench.world.all(),
        ["main notes late on order:tea", "main notes soon on order:cake"]
    );
}

#[tokio::test]
async fn an_argument_that_is_bound_to_a_prediction_gets_the_real_id() {
    for one_by_one in [false, true] {
        let (order, line) = order_tools();
        let line = line.bind(pinned("order", "tool:create_order.id"));
        let ask = |id, customer| calling(&[(id, "create_order", customer)]);
        let add = |id, line| calling(&[(id, "add_line", line)]);
        let script = vec![
            ask("a", r#"{"customer": "Ada"}"#),
            add("b", r#"{"order": "?", "item": "tea"}"#),
            ask("c", r#"{"customer": "Bob"}"#),
            add("d", r#"{"order": "?", "item": "cake"}"#),
            text("Queued."),
        ];
        let (bench, key, turn) = run(main_with([order, line]), script, |b| b).await;
        let order = [0, 2, 3, 1];
        let steps: Vec<Vec<_>> = match one_by_one {
            true => order.iter().map(|n| vec![(*n, yes())]).collect(),
            false => vec![order.iter().map(|n| (*n, yes())).collect()],
        };
        for step in steps {
            apply(&bench.engine, &key, &turn, &step).await.unwrap();
        }
        let mut done = bench.world.all();
        done.sort();
        let expected = [
            "add_line cake to order:2",
            "add_line tea to order:1",
            "create_order Ada",
            "create_order Bob",
        ];
        assert_eq!(done, expected);
    }
}

#[tokio::test]
async fn a_variable_that_holds_a_predicted_id_gives_the_real_one() {
    let (order, line) = order_tools();
    let line = line.bind(pinned("order", "var:order"));
    let script = vec![
        calling(&[("a", "create_order", r#"{"customer": "Ada"}"#)]),
        calling(&[("b", "keep", r#"{"key": "order:temp_0"}"#)]),
        calling(&[("c", "add_line", r#"{"order": "?", "item": "tea"}"#)]),
        text("Queued."),
    ];
    let (bench, key, turn) = run(main_with([order, line, keep()]), script, |b| b).await;
    let waits = "it depends on an action that has not been applied yet (order:temp_0)";
    let early = apply(&bench.engine, &key, &turn, &[(1, yes())]).await.unwrap();
    assert_eq!(early[1], (CapturedStatus::Pending, json!({"waits": waits})));
    for n in [0, 1] {
        let done = apply(&bench.engine, &key, &turn, &[(n, yes())]).await.unwrap();
        assert_eq!(done[n as usize].0, APPLIED, "{done:?}");
    }
    assert_eq!(bench.world.all(), ["create_order Ada", "add_line tea to order:1"]);
}

/// Keeps something in a variable.
fn keep() -> FnTool {
    let contract = ToolContract::new("keep").description("Keeps an order in mind.");
    FnTool::typed(contract, async |args: Key, ctx: ToolContext| {
        let order = "var:order".parse().unwrap();
        ctx.context().with(|store| store.set(&order, json!(args.key))).unwrap();
        Ok::<_, ToolError>(json!("kept"))
    })
}

#[tokio::test]
async fn a_person_is_told_when_a_bound_argument_would_not_be_the_one_they_saw() {
    let update = update_order().bind(pinned("order_id", "var:order"));
    let script = vec![
        calling(&[("a", "keep", r#"{"key": "order:1"}"#)]),
        calls(&[note("b", "late")]),
        text("Queued."),
        calling(&[("c", "keep", r#"{"key": "order:2"}"#)]),
        text("Kept."),
    ];
    let (bench, key, turn) = run(main_with([keep(), update]), script, |b| b).await;
    bench.say(&key, Submission::new("Another order")).await;
    let told = apply(&bench.engine, &key, &turn, &[(0, yes())]).await.unwrap();
    let why =
        r#"`order_id` was "order:1" when this was captured, and `var:order` is "order:2" now"#;
    assert_eq!(told, [(CapturedStatus::Pending, json!({"stale": why}))]);
    let insist = Review::Approve { amendment: None, even_if_stale: true };
    let done = apply(&bench.engine, &key, &turn, &[(0, insist)]).await.unwrap();
    assert_eq!(done, [noted()]);
    assert_eq!(bench.world.all(), ["main notes late on order:2"]);
}

/// A domain that tells its tools whom a turn is for, and on which page it was asked for.
struct Knowing(Agents);

struct KnowingTurn(TurnInfo);

impl Hooks for KnowingTurn {}

impl DomainTurn for KnowingTurn {
    fn ambient(&self) -> Ambient {
        let page = self.0.surroundings.page.clone();
        let sys = [
            ("userId".to_owned(), Arc::new(json!(self.0.user))),
            ("page".to_owned(), Arc::new(json!(page))),
            ("at".to_owned(), Arc::new(json!(self.0.at))),
        ];
        Ambient { sys: sys.into(), subject: None }
    }
}

impl Domain for Knowing {
    fn agents(&self) -> &BTreeMap<AgentName, Arc<Agent>> {
        self.0.agents()
    }

    fn resources(&self) -> Resources {
        self.0.resources()
    }

    fn open_turn(&self, _: Option<&Value>, info: &TurnInfo) -> Box<dyn DomainTurn> {
        Box::new(KnowingTurn(info.clone()))
    }
}

#[derive(Deserialize, JsonSchema)]
struct Record {
    owner: Option<String>,
    page: Option<String>,
    at: Option<Value>,
}

fn create_record() -> FnTool {
    let contract = ToolContract::new("create_record").description("Creates a record.");
    let contract = contract.approval(Approval::Always);
    let tool = FnTool::typed(contract, async |args: Record, ctx: ToolContext| {
        let (owner, page) = (args.owner.unwrap_or_default(), args.page.unwrap_or_default());
        let said = format!("{} creates one for {owner} on {page} at {:?}", ctx.user(), args.at);
        ctx.resource::<World>()?.note(said);
        Ok::<_, ToolError>(json!("created"))
    });
    tool.bind(pinned("owner", "sys:userId"))
        .bind(pinned("page", "sys:page"))
        .bind(pinned("at", "sys:at"))
}

#[tokio::test]
async fn an_action_is_done_for_the_person_of_its_run_whoever_approves_it() {
    for (author, person) in [(None, "ada"), (Some("cleo"), "cleo")] {
        let (world, hand) = (World::default(), Hand::at(NOW));
        let script =
            [calling(&[("a", "create_record", "{}")]), text("Queued."), text("Something else.")];
        let agents = Agents::new([main_with([create_record()])]);
        let domain = Knowing(agents.with_resources(Resources::new().with(world.clone())));
        let bench = Bench::of(ScriptedModel::new("m", script), [], |b| {
            b.domain(domain).clock(hand.clock())
        });
        let key = bench.session().await;
        let on = |page: &str| Surroundings { page: Some(page.to_owned()), ..Default::default() };
        let nightly = Submission {
            author: author.map(Into::into),
            surroundings: on("orders"),
            ..Submission::new("go").captured()
        };
        bench.say(&key, nightly).await;
        let turn = bench.message(&key).await.turn;
        hand.forward(3_600_000);
        let other = Submission {
            author: Some("dan".into()),
            surroundings: on("people"),
            ..Submission::new("hello")
        };
        bench.say(&key, other).await;
        // As in all tests of this file, Bob approves.
        let done = apply(&bench.engine, &key, &turn, &[(0, yes())]).await.unwrap();
        assert_eq!(done, [(APPLIED, json!("created"))]);
        let at = Some(json!(NOW));
        let expected = format!("{person} creates one for {person} on orders at {at:?}");
        assert_eq!(world.all(), [expected]);
        let stored = bench.engine.captured(&key, Some(&turn)).await.unwrap();
        assert_eq!(stored[0].action["by"], "bob");
    }
}

#[tokio::test]
async fn what_a_run_had_read_still_counts_for_the_rules_when_its_actions_are_applied() {
    let script = vec![
        calls(&[note("a", "before"), find("b", "tea")]),
        calls(&[note("c", "after")]),
        text("Queued."),
    ];
    // What a person writes counts, too: nothing secret goes out once something doubtful came in.
    let secret = |args: &Value, _: &ToolContext| Ok(args["note"] == "secret");
    let rule = Rule::tool("update_order", PolicyDecision::Deny).when(secret);
    let policy = Policy::new([Rule { taint: Some("untrusted".into()), ..rule }]);
    let agent = main_with([find_order(), update_order()]);
    let (bench, key, turn) = run(agent, script, |b| b.policy(policy)).await;
    let amendment = Some(Arc::new(json!({"note": "secret"})));
    let secret = Review::Approve { amendment, even_if_stale: false };
    let both = [(0, secret.clone()), (1, secret)];
    let done = apply(&bench.engine, &key, &turn, &both).await.unwrap();
    assert_eq!(done[0], noted());
    assert_eq!(done[1].0, CapturedStatus::Failed, "{done:?}");
    assert_eq!(bench.world.all(), ["main notes secret on "]);
}
