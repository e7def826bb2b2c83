//! Captured actions: what a run without a person would have done, reviewed and applied.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod agents;
#[path = "../common/mod.rs"]
mod common;
mod context;

use common::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use turnbuckle_core::event::EventKind;
use turnbuckle_core::ids::TurnId;
use turnbuckle_core::tool::SideEffect;
use turnbuckle_engine::tool::{Applies, Approval, FnTool};
use turnbuckle_engine::{Agent, ApplyReport, Engine, EngineError, Review, Submission};
use turnbuckle_models::scripted::{Scripted, ScriptedModel, calls as calling, text};
use turnbuckle_store::conformance::{Effect, FaultStore, Op, gone};
use turnbuckle_store::{
    Captured, CapturedStatus, Conflict, MemoryStore, SessionKey, Store, StoreError,
};

fn yes() -> Review {
    Review::Approve { amendment: None, even_if_stale: false }
}

fn reports(all: &[ApplyReport]) -> Vec<(u32, CapturedStatus)> {
    all.iter().map(|r| (r.index, r.status)).collect()
}

fn predicted(all: &[Captured]) -> Vec<serde_json::Value> {
    all.iter().map(|c| c.action["args"].clone()).collect()
}

/// A run that orders tea for Ada and cake for Bob, without a person.
async fn captured_run() -> (Bench, turnbuckle_store::SessionKey) {
    let bench = Bench::script([
        calling(&[
            ("a", "create_order", r#"{"customer": "Ada"}"#),
            ("b", "look_up", r#"{"key": "tea"}"#),
        ]),
        calling(&[
            ("c", "add_line", r#"{"order": "order:temp_0", "item": "tea"}"#),
            ("d", "create_order", r#"{"customer": "Bob"}"#),
        ]),
        calling(&[("e", "add_line", r#"{"order": "order:temp_2", "item": "cake"}"#)]),
        text("All queued."),
    ]);
    let key = bench.session().await;
    let events = bench.say(&key, Submission::new("order").captured()).await;
    assert!(matches!(last_kind(&events), EventKind::TurnCompleted { .. }), "{events:?}");
    (bench, key)
}

#[tokio::test]
async fn a_captured_run_acts_only_when_it_is_applied() {
    let (bench, key) = captured_run().await;
    bench.check(&key).await;
    // Reads are real, actions are not.
    assert_eq!(bench.world.all(), ["look_up tea"]);
    let message = bench.message(&key).await;
    let marks: Vec<_> = message.calls().map(|c| c.captured).collect();
    assert_eq!(marks, [true, false, true, true, true]);
    assert_eq!(calls(&message)[0].output.as_ref().unwrap()["id"], "order:temp_0");

    let turn = &message.turn;
    let all = bench.engine.captured(&key, Some(turn)).await.unwrap();
    assert_eq!(
        predicted(&all),
        [
            json!({"customer": "Ada"}),
            json!({"order": "order:temp_0", "item": "tea"}),
            json!({"customer": "Bob"}),
            json!({"order": "order:temp_2", "item": "cake"}),
        ]
    );
    assert!(all.iter().all(|c| c.status == CapturedStatus::Pending));

    let reviews = BTreeMap::from([(0, yes()), (1, yes()), (2, Review::Reject), (3, yes())]);
    let done = bench.engine.apply_captured(&key, turn, &reviews, "bob".into()).await.unwrap();
    use CapturedStatus::{Applied, Rejected, Skipped};
    assert_eq!(reports(&done), [(0, Applied), (1, Applied), (2, Rejected), (3, Skipped)]);
    assert_eq!(
        done[3].detail,
        json!("it depends on an action that was rejected (order:temp_2)").into()
    );
    // The line names the order that was really created.
    assert_eq!(bench.world.all()[1..], ["create_order Ada", "add_line tea to order:1"]);

    // A second time changes nothing.
    let again = bench.engine.apply_captured(&key, turn, &reviews, "bob".into()).await.unwrap();
    assert_eq!(reports(&again), reports(&done));
    assert_eq!(bench.world.all().len(), 3);
    let stored = bench.engine.captured(&key, Some(turn)).await.unwrap();
    assert_eq!(
        stored.iter().map(|c| c.status).collect::<Vec<_>>(),
        [Applied, Applied, Rejected, Skipped]
    );
}

#[tokio::test]
async fn captured_actions_are_reviewed_one_by_one_in_their_order() {
    let (bench, key) = captured_run().await;
    let turn = bench.message(&key).await.turn;
    // A line before its order: it has to wait.
    let early = BTreeMap::from([(1, yes())]);
    let done = bench.engine.apply_captured(&key, &turn, &early, "bob".into()).await.unwrap();
    assert_eq!(done[0].status, CapturedStatus::Pending);
    assert_eq!(bench.world.count("add_line"), 0);
    assert_eq!(done[1].status, CapturedStatus::Pending);
    let waits = "it depends on an action that has not been applied yet (order:temp_0)";
    assert_eq!(*done[1].detail, json!({"waits": waits}));
    for index in [0, 2, 3, 1] {
        let one = BTreeMap::from([(index, yes())]);
        bench.engine.apply_captured(&key, &turn, &one, "bob".into()).await.unwrap();
    }
    assert_eq!(
        bench.world.all()[1..],
        [
            "create_order Ada",
            "create_order Bob",
            "add_line cake to order:2",
            "add_line tea to order:1"
        ]
    );
}

#[tokio::test]
async fn captured_numbers_go_on_over_the_turns_of_a_session() {
    let order = |id: &str| calling(&[(id, "create_order", r#"{"customer": "Ada"}"#)]);
    let bench = Bench::script([order("a"), text("One."), order("b"), text("Two.")]);
    let key = bench.session().await;
    bench.say(&key, Submission::new("order").captured()).await;
    bench.say(&key, Submission::new("order more").captured()).await;
    bench.check(&key).await;
    let all = bench.engine.captured(&key, None).await.unwrap();
    assert_eq!(all.iter().map(|c| c.index).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(all[1].action["predicted"]["id"], "order:temp_1");
}

/// What a second click and another process see.
async fn apply(
    engine: &Engine,
    key: &SessionKey,
    turn: &TurnId,
    reviews: &[(u32, Review)],
) -> Result<Vec<(CapturedStatus, Value)>, EngineError> {
    let reviews = reviews.iter().cloned().collect();
    let done = engine.apply_captured(key, turn, &reviews, "bob".into()).await?;
    Ok(done.into_iter().map(|r| (r.status, Value::clone(&r.detail))).collect())
}

fn being_applied<T: std::fmt::Debug>(result: Result<T, EngineError>) {
    assert!(
        matches!(
            &result,
            Err(EngineError::Store(StoreError::Conflict {
                what: Conflict::BeingApplied { index: 0, .. }
            }))
        ),
        "{result:?}"
    );
}

/// Two processes over one store, and a run that wants to `wait`, whose effect is as given.
struct Site {
    one: Engine,
    two: Engine,
    world: World,
    hand: Hand,
    key: SessionKey,
    turn: TurnId,
}

impl Site {
    async fn new(effect: SideEffect, store: Arc<dyn Store>) -> Self {
        let (world, hand, ids) = (World::default(), Hand::at(NOW), Ids::default());
        let slow = || wait().approval(Approval::Always).configure(|c| c.effect(effect));
        let main = || Agent::builder("main").instructions("You help.").tool(slow());
        let engine = |name: &str| {
            let script = [calling(&[("w", "wait", "{}")]), text("Queued.")];
            let model = Arc::new(ScriptedModel::new("m", script));
            let builder = builder(model, &world, [main().build().unwrap()]);
            builder
                .shared_store(store.clone())
                .clock(hand.clock())
                .ids(ids.mint())
                .name(name)
                .build()
                .unwrap()
        };
        let (one, two) = (engine("one"), engine("two"));
        let key = one.create_session("acme", "ada", "main").await.unwrap().key;
        say(&one, &key, Submission::new("go").captured()).await;
        let turn = last_message(&*store, &key).await.turn;
        Self { one, two, world, hand, key, turn }
    }

    async fn apply(&self, engine: &Engine) -> Result<Vec<(CapturedStatus, Value)>, EngineError> {
        apply(engine, &self.key, &self.turn, &[(0, yes())]).await
    }

    /// Begins to apply in a task, and comes back when the tool runs.
    async fn begin(&self) -> tokio::task::JoinHandle<Vec<(CapturedStatus, Value)>> {
        let (engine, key, turn) = (self.one.clone(), self.key.clone(), self.turn.clone());
        let task =
            tokio::spawn(async move { apply(&engine, &key, &turn, &[(0, yes())]).await.unwrap() });
        while self.world.count("wait begins") == 0 {
            tokio::task::yield_now().await;
        }
        task
    }
}

#[tokio::test]
async fn a_second_click_while_an_action_is_applied_does_nothing() {
    let site = Site::new(SideEffect::AtMostOnce, Arc::new(MemoryStore::new())).await;
    let first = site.begin().await;
    being_applied(site.apply(&site.one).await);
    being_applied(site.apply(&site.two).await);
    let no = apply(&site.two, &site.key, &site.turn, &[(0, Review::Reject)]).await;
    being_applied(no);
    // Who says nothing of it sees where it stands.
    let seen = apply(&site.two, &site.key, &site.turn, &[]).await.unwrap();
    assert_eq!(seen, [(CapturedStatus::Applying, Value::Null)]);
    site.world.gate.open();
    let done = [(CapturedStatus::Applied, json!("waited"))];
    assert_eq!(first.await.unwrap(), done);
    assert_eq!(site.apply(&site.two).await.unwrap(), done);
    assert_eq!((site.world.count("wait begins"), site.world.count("wait ends")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_action_that_takes_long_keeps_its_claim() {
    let site = Site::new(SideEffect::AtMostOnce, Arc::new(MemoryStore::new())).await;
    let first = site.begin().await;
    for _ in 0..5 {
        site.hand.forward(10_000);
        tokio::time::sleep(std::time::Duration::from_secs(10)).await;
        being_applied(site.apply(&site.two).await);
    }
    site.world.gate.open();
    assert_eq!(first.await.unwrap(), [(CapturedStatus::Applied, json!("waited"))]);
    assert_eq!(site.world.count("wait begins"), 1);
}

#[tokio::test]
async fn an_action_whose_process_died_is_settled_as_unknown_or_done_again_under_its_key() {
    for (effect, status, runs) in [
        (SideEffect::AtMostOnce, CapturedStatus::Failed, 1),
        (SideEffect::Idempotent, CapturedStatus::Applied, 2),
    ] {
        let site = Site::new(effect, Arc::new(MemoryStore::new())).await;
        let first = site.begin().await;
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        // Nobody can know yet that it is gone.
        being_applied(site.apply(&site.two).await);
        site.hand.forward(3_600_000);
        site.world.gate.open();
        let done = site.apply(&site.two).await.unwrap();
        assert_eq!(done[0].0, status, "{done:?}");
        if status == CapturedStatus::Failed {
            let why = done[0].1.as_str().unwrap();
            assert!(why.contains("not known"), "{why}");
        }
        assert_eq!(site.apply(&site.one).await.unwrap(), done);
        let all = site.world.all();
        let begun: Vec<_> = all.iter().filter(|what| what.starts_with("wait begins")).collect();
        assert_eq!(begun.len(), runs);
        assert!(begun.iter().all(|what| *what == begun[0]), "{begun:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_action_did_is_stored_although_the_store_fails_behind_it() {
    for effect in [Effect::None, Effect::Done] {
        let store = Arc::new(FaultStore::new(MemoryStore::new()));
        let site = Site::new(SideEffect::AtMostOnce, store.clone()).await;
        site.world.gate.open();
        // The first is the claim.
        store.fail(Op::UpdateCaptured, 1, 3, effect, gone());
        let done = [(CapturedStatus::Applied, json!("waited"))];
        assert_eq!(site.apply(&site.one).await.unwrap(), done);
        store.heal();
        assert_eq!(site.apply(&site.two).await.unwrap(), done);
        assert_eq!(site.world.count("wait begins"), 1);
    }
}

#[tokio::test]
async fn an_action_names_what_an_earlier_turn_created() {
    #[derive(schemars::JsonSchema)]
    struct Other {
        /// The order.
        #[expect(dead_code, reason = "its schema is all that is read")]
        order: Option<String>,
    }
    let (order, line) = order_tools();
    let main = Agent::builder("main").instructions("You help.").tool(order);
    let main = main.tool(line.amendable::<Other>()).build().unwrap();
    let script = [
        calling(&[("a", "create_order", r#"{"customer": "Ada"}"#)]),
        text("One."),
        calling(&[
            ("b", "add_line", r#"{"order": "order:temp_0", "item": "tea"}"#),
            ("c", "add_line", r#"{"order": "order:temp_7", "item": "cake"}"#),
        ]),
        text("Two."),
    ];
    let bench = Bench::of(ScriptedModel::new("m", script), [main], |b| b);
    let key = bench.session().await;
    bench.say(&key, Submission::new("order").captured()).await;
    let first = bench.message(&key).await.turn;
    bench.say(&key, Submission::new("tea and cake").captured()).await;
    let second = bench.message(&key).await.turn;
    let lines = [(1, yes()), (2, yes())];
    use CapturedStatus::{Applied, Pending};
    let early = apply(&bench.engine, &key, &second, &lines).await.unwrap();
    let waits = |why: &str| (Pending, json!({"waits": why}));
    let unknown = waits("no action that was captured in this session predicted order:temp_7");
    let not_yet = "it depends on an action that has not been applied yet (order:temp_0)";
    assert_eq!(early, [waits(not_yet), unknown.clone()]);
    assert_eq!(bench.world.count("add_line"), 0);

    apply(&bench.engine, &key, &first, &[(0, yes())]).await.unwrap();
    let late = apply(&bench.engine, &key, &second, &lines).await.unwrap();
    assert_eq!(late, [(Applied, json!({"line": "tea"})), unknown]);
    // A person may write what the model got wrong; ids in that are replaced, too.
    let amendment = Some(Arc::new(json!({"order": "order:temp_0"})));
    let mended = Review::Approve { amendment, even_if_stale: false };
    let mended = apply(&bench.engine, &key, &second, &[(2, mended)]).await.unwrap();
    assert_eq!(mended[1].0, Applied, "{mended:?}");
    let done = ["create_order Ada", "add_line tea to order:1", "add_line cake to order:1"];
    assert_eq!(bench.world.all(), done);
}

#[tokio::test]
async fn a_stale_action_is_told_of_and_done_only_when_a_person_insists() {
    let changed = Arc::new(AtomicBool::new(true));
    let (order, line) = order_tools();
    let of_order = changed.clone();
    let order: FnTool =
        order.applies(move |_, _| {
            let changed = of_order.load(Ordering::Relaxed);
            async move {
                if changed { Applies::Stale("Ada has moved".to_owned()) } else { Applies::Yes }
            }
        });
    let script: [Scripted; 3] = [
        calling(&[("a", "create_order", r#"{"customer": "Ada"}"#)]).into(),
        calling(&[("b", "add_line", r#"{"order": "order:temp_0", "item": "tea"}"#)]).into(),
        text("Queued.").into(),
    ];
    let main = Agent::builder("main").instructions("You help.").tool(order).tool(line);
    let model = ScriptedModel::new("m", script);
    let bench = Bench::of(model, [main.build().unwrap()], |b| b);
    let key = bench.session().await;
    bench.say(&key, Submission::new("order").captured()).await;
    let turn = bench.message(&key).await.turn;
    let told = apply(&bench.engine, &key, &turn, &[(0, yes()), (1, yes())]).await.unwrap();
    use CapturedStatus::{Applied, Pending};
    let waits = "it depends on an action that has not been applied yet (order:temp_0)";
    assert_eq!(
        told,
        [(Pending, json!({"stale": "Ada has moved"})), (Pending, json!({"waits": waits}))]
    );
    assert_eq!(bench.world.all(), [] as [String; 0]);
    let insist = Review::Approve { amendment: None, even_if_stale: true };
    let done = apply(&bench.engine, &key, &turn, &[(0, insist), (1, yes())]).await.unwrap();
    assert_eq!(done.iter().map(|d| d.0).collect::<Vec<_>>(), [Applied, Applied]);
    assert_eq!(bench.world.all(), ["create_order Ada", "add_line tea to order:1"]);
}
