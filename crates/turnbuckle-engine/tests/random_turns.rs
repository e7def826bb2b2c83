//! Random sessions through the real driver: whatever the model asks for, people decide and processes die of, the same things
//! hold.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;
#[path = "common/story.rs"]
mod story;

use common::*;
use futures_util::StreamExt;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;
use std::sync::Arc;
use story::{Death, Dies, MortalStore};
use turnbuckle_core::event::EventKind;
use turnbuckle_core::machine::Decision;
use turnbuckle_core::model::ModelResponse;
use turnbuckle_core::transcript::Item;
use turnbuckle_engine::{Agent, Engine, Submission, drain};
use turnbuckle_models::ScriptedModel;
use turnbuckle_models::scripted::{calls as calling, text};
use turnbuckle_store::{MemoryStore, SessionKey, Store};

/// A call that a model may make.
fn call() -> impl Strategy<Value = (&'static str, String)> {
    prop_oneof![
        (0..3_u8).prop_map(|k| ("look_up", json!({"key": format!("k{k}")}).to_string())),
        (0..9_u8).prop_map(|k| ("book", json!({"room": format!("r{k}")}).to_string())),
        (0..9_u8).prop_map(|k| ("tag", json!({"key": format!("t{k}")}).to_string())),
        (0..9_u8).prop_map(|k| ("pay", json!({"amount": k}).to_string())),
        (0..9_u8).prop_map(|k| ("fail", json!({"key": format!("f{k}")}).to_string())),
        Just(("dig", "{}".to_owned())),
        Just(("explode", "{}".to_owned())),
        Just(("read_screen", "{}".to_owned())),
        Just(("book", r#"{"room": nul"#.to_owned())),
        Just(("book", "{}".to_owned())),
        Just(("fly", "{}".to_owned())),
        Just(("ask_researcher", r#"{"task": "look around"}"#.to_owned())),
    ]
}

/// One answer of the model: calls with or without words, words alone, or nothing.
fn step() -> impl Strategy<Value = ModelResponse> {
    let words =
        prop_oneof![Just(""), Just("Well. "), Just("I will see what can be done about it. ")];
    let some = (words, vec(call(), 1..5)).prop_map(|(words, called)| {
        let called: Vec<_> = called
            .iter()
            .enumerate()
            .map(|(i, (name, args))| (["a", "b", "c", "d"][i], *name, args.as_str()))
            .collect();
        if words.is_empty() { calling(&called) } else { says_and_calls(words, &called) }
    });
    prop_oneof![
        6 => some,
        1 => Just(text("That is all there is to say about it.")),
        1 => Just(turnbuckle_models::scripted::answer(Vec::new())),
    ]
}

/// What a person does about what waits.
#[derive(Clone, Debug)]
enum Person {
    Approves,
    Amends(u8),
    AmendsWrongly,
    Rejects,
    Stops,
    WritesAgain,
}

fn person() -> impl Strategy<Value = Person> {
    prop_oneof![
        4 => Just(Person::Approves),
        2 => (0..9_u8).prop_map(Person::Amends),
        1 => Just(Person::AmendsWrongly),
        2 => Just(Person::Rejects),
        1 => Just(Person::Stops),
        1 => Just(Person::WritesAgain),
    ]
}

#[derive(Clone, Debug)]
struct Case {
    steps: Vec<ModelResponse>,
    people: Vec<Person>,
    /// Commits after which a process dies, one after the other.
    deaths: Vec<(usize, bool)>,
    /// Whether a message comes while the first turn runs, and whether it may enter it.
    meanwhile: Option<bool>,
    /// After how many events the first stream is stopped.
    stop_after: Option<usize>,
    captured: bool,
}

fn case() -> impl Strategy<Value = Case> {
    (
        vec(step(), 1..7),
        vec(person(), 12),
        vec((0..8_usize, any::<bool>()), 0..3),
        proptest::option::of(any::<bool>()),
        proptest::option::weighted(0.2, 1..40_usize),
        proptest::bool::weighted(0.15),
    )
        .prop_map(|(steps, people, deaths, meanwhile, stop_after, captured)| Case {
            steps,
            people,
            deaths,
            meanwhile,
            stop_after,
            captured,
        })
}

/// A model of the case: the n-th answer of a conversation is the n-th step, then a closing word. Sub-agents look once.
fn model(steps: Vec<ModelResponse>) -> ScriptedModel {
    ScriptedModel::from_fn("m", move |request| {
        let n = answers(request);
        if user_texts(request)[0] == "look around" {
            return match n {
                0 => calling(&[
                    ("x", "look_up", r#"{"key": "around"}"#),
                    ("y", "pay", r#"{"amount": 3}"#),
                ])
                .into(),
                _ => text("I looked around.").into(),
            };
        }
        match steps.get(n) {
            Some(step) => step.clone().into(),
            None => text(&format!("Answer {n}.")).into(),
        }
    })
}

fn agents() -> [Agent; 2] {
    let contract = turnbuckle_engine::tool::ToolContract::new("ask_researcher")
        .description("Hands a task on.")
        .input_schema(json!({"type": "object", "properties": {"task": {"type": "string"}}, "required": ["task"]}))
        .on_agent("researcher");
    let ask = turnbuckle_engine::tool::FnTool::elsewhere(contract);
    [
        agent("main").tool(ask).build().unwrap(),
        Agent::builder("researcher").tool(look_up()).tool(pay()).build().unwrap(),
    ]
}

struct Run {
    case: Case,
    model: Arc<ScriptedModel>,
    store: Arc<dyn Store>,
    world: World,
    ids: Ids,
    deaths: std::vec::IntoIter<(usize, bool)>,
}

impl Run {
    /// The next process, which may be mortal.
    fn process(&mut self) -> (Engine, Option<Arc<MortalStore>>) {
        let mortal = self.deaths.next().map(|(n, before)| {
            let dies = if before { Dies::Before } else { Dies::After };
            MortalStore::new(self.store.clone(), Death::At(n, dies))
        });
        let store: Arc<dyn Store> = match &mortal {
            Some(mortal) => mortal.clone(),
            None => self.store.clone(),
        };
        let builder = builder(self.model.clone(), &self.world, agents());
        (builder.shared_store(store).ids(self.ids.mint()).build().unwrap(), mortal)
    }

    /// Lives through the case, process after process.
    async fn live(&mut self) -> (Engine, SessionKey) {
        let calm = builder(self.model.clone(), &self.world, agents())
            .shared_store(self.store.clone())
            .ids(self.ids.mint())
            .build()
            .unwrap();
        let key = calm.create_session("acme", "ada", "main").await.unwrap().key;
        loop {
            let (engine, mortal) = self.process();
            engine.store().forfeit("one").await.unwrap();
            let Some(mortal) = mortal else {
                self.tell(&engine, &key).await;
                return (calm, key);
            };
            tokio::select! {
                biased;
                () = mortal.death() => {}
                () = self.tell(&engine, &key) => return (calm, key),
            }
        }
    }

    /// The messages and decisions of the case, from wherever the session stands.
    async fn tell(&self, engine: &Engine, key: &SessionKey) {
        let mut first = Submission::new("go");
        first.idempotency_key = Some("first".into());
        if self.case.captured {
            first = first.captured();
        }
        let mut stream = engine.submit(key, first).await.unwrap().stream().unwrap();
        let (mut events, mut rest) = (Vec::new(), None);
        while let Some(event) = stream.next().await {
            events.push(event);
            if let (1, Some(steers)) = (events.len(), self.case.meanwhile) {
                let mut more = Submission::new("and more");
                more.idempotency_key = Some("more".into());
                more = if steers { more.steering() } else { more };
                // The turn may be over already, though its events are not all read.
                rest = engine.submit(key, more).await.unwrap().stream();
            }
            if Some(events.len()) == self.case.stop_after {
                stream.stop();
            }
        }
        check_stream(&events);
        if let Some(rest) = rest {
            check_stream(&drain(rest).await);
        }
        for person in &self.case.people {
            let cards = pending_cards(&*self.store, key).await;
            let Some(card) = cards.first() else { break };
            let asked = self.store.card(&key.tenant, card).await.unwrap().message;
            let turnbuckle_core::message::SystemBody::Approval(asked) = asked.body else {
                panic!()
            };
            let client = asked.asks == turnbuckle_core::message::Asks::ClientResult;
            let decide =
                async |decision: Decision| engine.decide(key, card, decision, None).await.unwrap();
            let posted = match person {
                Person::Stops => engine.stop(key, None).await.unwrap(),
                Person::WritesAgain => engine.submit(key, "something else").await.unwrap(),
                Person::Rejects => decide(Decision::Reject { reason: None }).await,
                _ if client => engine
                    .client_result(key, card, Ok(Arc::new(json!("seen"))), None)
                    .await
                    .unwrap(),
                Person::Approves => decide(approve()).await,
                Person::Amends(n) => decide(amend(json!({"amount": n}))).await,
                Person::AmendsWrongly => decide(amend(json!({"purpose": 7}))).await,
            };
            check_stream(&drain(posted.stream().unwrap()).await);
        }
        if !pending_cards(&*self.store, key).await.is_empty() {
            drain(engine.stop(key, None).await.unwrap().stream().unwrap()).await;
        }
    }
}

/// A stream has no gaps and ends with how its last turn ended.
fn check_stream(events: &[turnbuckle_core::event::Event]) {
    assert!(events.windows(2).all(|w| w[1].seq == w[0].seq + 1 || w[1].epoch > w[0].epoch));
    if let Some(last) = events.last() {
        assert!(last.kind.is_terminal(), "{last:?}");
        assert!(
            !matches!(&last.kind, EventKind::TurnError { error, .. } if error.code() == "internal"),
            "{last:?}"
        );
    }
}

/// Within a conversation each request begins with one that came before it.
fn check_growth(model: &ScriptedModel) {
    let requests = model.requests();
    let mut last: std::collections::BTreeMap<(String, usize), Vec<Item>> = Default::default();
    for request in &requests {
        let items = items(request);
        let subject = (user_texts(request)[0].clone(), 0);
        if subject.0 != "go" {
            continue;
        }
        if let Some(before) = last.get(&subject) {
            let common = before.iter().zip(&items).take_while(|(a, b)| a == b).count();
            // The same request again after a crash, or all of the last one and more. Only what the last turn thought or
            // dropped as restated may differ when a later turn reads it.
            let later_turn = items.iter().skip(common).any(|i| matches!(i, Item::User { .. }));
            assert!(
                common == before.len() || common == items.len() || later_turn,
                "{before:#?}\n{items:#?}"
            );
        }
        last.insert(subject, items);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_streams_stores_and_replays_alike(case in case()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let model = Arc::new(model(case.steps.clone()));
            let deaths = case.deaths.clone().into_iter();
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
            let (world, ids) = (World::default(), Ids::default());
            let mut run = Run { case, model, store, world, ids, deaths };
            let (engine, key) = run.live().await;
            check_session(&engine, &key).await;
            check_requests(&run.model.requests());
            check_growth(&run.model);
            // Nothing is left open, and nothing that acts ran twice under one key.
            let row = run.store.session(&key).await.unwrap();
            assert_eq!((row.pending, row.turn, row.lease), (0, None, None));
            let mut acts: Vec<String> = run.world.all();
            acts.retain(|a| a.starts_with("book") || a.starts_with("pay"));
            let before = acts.len();
            acts.sort();
            acts.dedup();
            assert_eq!(acts.len(), before, "{acts:?}");
        });
    }
}
