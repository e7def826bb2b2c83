//! What a session keeps: its model, its title, what people allowed for good, outputs that were too long to show, turns that
//! cannot be taken up again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::*;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use turnbuckle_core::allowance::{ArgTest, Remember, RememberFor};
use turnbuckle_core::error::{ModelError, ModelErrorKind, ToolErrorCode};
use turnbuckle_core::event::{Event, EventKind};
use turnbuckle_core::machine::{DataPolicy, Decision, Input, KeepTools, Recorded};
use turnbuckle_core::model::{ModelRef, ModelRequest, ModelResponse};
use turnbuckle_core::outcome::{Outcome, TurnError};
use turnbuckle_core::time::Timestamp;
use turnbuckle_core::tool::Retention;
use turnbuckle_core::transcript::Item;
use turnbuckle_core::usage::Purpose;
use turnbuckle_engine::agent::AgentBuilder;
use turnbuckle_engine::runtime::{Models, Titles};
use turnbuckle_engine::tool::{FnTool, ToolContract, ToolOutput};
use turnbuckle_engine::{Agent, Engine, EngineError, READ_OUTPUT, Submission, drain};
use turnbuckle_models::Model;
use turnbuckle_models::scripted::{Scripted, ScriptedModel, Wait, calls as calling, text};
use turnbuckle_store::conformance::{FaultStore, Op};
use turnbuckle_store::{
    Allowance, Claim, Commit, Delivery, MemoryStore, Release, SessionKey, Store, StoreError,
};
use turnbuckle_testkit::Gate;

/// Models by name, each of which says its own name, and pays or waits first when asked to.
fn models(names: &[&str]) -> Models {
    let mut models = names.iter().map(|name| {
        let own = (*name).to_owned();
        let model = ScriptedModel::from_fn(name, move |request| {
            let asked = user_texts(request).pop().unwrap();
            match (asked.as_str(), items(request).last()) {
                ("pay", Some(Item::User { .. })) => paying(5).into(),
                ("wait", Some(Item::User { .. })) => calling(&[("w", "wait", "{}")]).into(),
                _ => text(&format!("{own} speaks.")).into(),
            }
        });
        Arc::new(model) as Arc<dyn Model>
    });
    let default = models.next().unwrap();
    models.fold(Models::new(default), Models::and)
}

fn paying(amount: u64) -> ModelResponse {
    calling(&[("p", "pay", &json!({"amount": amount}).to_string())])
}

fn scripted(name: &str) -> ModelRef {
    ModelRef::new("scripted", name)
}

/// A process whose configuration knows these models, the first by default.
struct Process {
    engine: Engine,
    world: World,
}

fn process(store: &Arc<dyn Store>, ids: &Ids, names: &[&str], agents: Vec<Agent>) -> Process {
    let world = World::default();
    let model: Arc<dyn Model> = Arc::new(ScriptedModel::new("unused", [] as [ModelResponse; 0]));
    let engine = builder(model, &world, agents)
        .models(models(names))
        .shared_store(store.clone())
        .ids(ids.mint())
        .build()
        .unwrap();
    Process { engine, world }
}

fn plain() -> Vec<Agent> {
    vec![agent("main").build().unwrap()]
}

async fn new_session(engine: &Engine) -> SessionKey {
    engine.create_session("acme", "ada", "main").await.unwrap().key
}

async fn kept(store: &Arc<dyn Store>, key: &SessionKey) -> Option<String> {
    store.session(key).await.unwrap().model
}

/// The models that answered in a session's turns, in order.
async fn answered(store: &Arc<dyn Store>, key: &SessionKey) -> Vec<Vec<String>> {
    let all = assistant_messages(&**store, key).await;
    all.iter().map(|m| m.iterations.iter().map(|i| i.model.clone()).collect()).collect()
}

fn replaced(events: &[Event]) -> Vec<(String, String)> {
    let found = events.iter().filter_map(|e| match &e.kind {
        EventKind::ModelReplaced { from, to, .. } => Some((from.clone(), to.clone())),
        _ => None,
    });
    found.collect()
}

#[tokio::test]
async fn a_running_session_keeps_its_model_when_the_default_changes() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let ids = Ids::default();
    let one = process(&store, &ids, &["a", "b"], plain());
    let key = new_session(&one.engine).await;
    assert_eq!(kept(&store, &key).await, None);
    say(&one.engine, &key, "hello").await;
    assert_eq!(kept(&store, &key).await.as_deref(), Some("scripted:a"));

    // After a restart the default is another, and the agent has a model of its own.
    let own = vec![agent("main").model(scripted("c")).build().unwrap()];
    let two = process(&store, &ids, &["b", "a", "c"], own);
    let events = say(&two.engine, &key, "hello again").await;
    assert_eq!(replaced(&events), []);
    // A turn may ask for another one, for itself alone.
    let once = Submission::new("and you?").model(scripted("b"));
    say(&two.engine, &key, once).await;
    say(&two.engine, &key, "and now?").await;
    assert_eq!(answered(&store, &key).await, [["a"], ["a"], ["b"], ["a"]]);
    // A session that begins now has the model of now.
    let fresh = new_session(&two.engine).await;
    say(&two.engine, &fresh, "hello").await;
    assert_eq!(kept(&store, &fresh).await.as_deref(), Some("scripted:c"));
    check_session(&two.engine, &key).await;
}

#[tokio::test]
async fn what_the_first_turn_asks_for_is_what_the_session_keeps() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let one = process(&store, &Ids::default(), &["a", "b"], plain());
    let key = new_session(&one.engine).await;
    say(&one.engine, &key, Submission::new("hello").model(scripted("b"))).await;
    say(&one.engine, &key, "again").await;
    assert_eq!(answered(&store, &key).await, [["b"], ["b"]]);
}

#[tokio::test]
async fn a_chosen_model_answers_from_the_next_turn_on() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let one = process(&store, &Ids::default(), &["a", "b"], plain());
    let key = new_session(&one.engine).await;
    say(&one.engine, &key, "hello").await;
    one.engine.set_model(&key, &scripted("b")).await.unwrap();
    say(&one.engine, &key, "again").await;
    let unknown = one.engine.set_model(&key, &scripted("z")).await.unwrap_err();
    assert!(unknown.to_string().contains("there is no model `scripted:z`"), "{unknown}");
    say(&one.engine, &key, "and again").await;
    assert_eq!(answered(&store, &key).await, [["a"], ["b"], ["b"]]);
}

#[tokio::test]
async fn a_model_chosen_while_messages_wait_answers_the_later_ones() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let one = process(&store, &Ids::default(), &["a", "b"], plain());
    let key = new_session(&one.engine).await;
    let mut stream = one.engine.submit(&key, "wait").await.unwrap().stream().unwrap();
    until(&mut stream, runs).await;
    one.engine.post_message(&key, Submission::new("two")).await.unwrap();
    one.engine.set_model(&key, &scripted("b")).await.unwrap();
    one.world.gate.open();
    drain(stream).await;
    assert_eq!(answered(&store, &key).await, [vec!["a", "a"], vec!["b"]]);
    assert_eq!(kept(&store, &key).await.as_deref(), Some("scripted:b"));
}

#[tokio::test]
async fn a_turn_that_waits_goes_on_with_the_model_it_began_with() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let ids = Ids::default();
    let one = process(&store, &ids, &["a", "b"], plain());
    let key = new_session(&one.engine).await;
    say(&one.engine, &key, "pay").await;
    one.engine.set_model(&key, &scripted("b")).await.unwrap();
    let two = process(&store, &ids, &["b", "a"], plain());
    let card = pending_cards(&*store, &key).await.remove(0);
    let decided = two.engine.decide(&key, &card, approve(), None).await.unwrap();
    let events = drain(decided.stream().unwrap()).await;
    assert_eq!(replaced(&events), []);
    assert_eq!(two.world.count("pay 5"), 1);
    say(&two.engine, &key, "hello").await;
    assert_eq!(answered(&store, &key).await, [vec!["a", "a"], vec!["b"]]);
    check_session(&two.engine, &key).await;
}

#[tokio::test]
async fn a_model_that_is_gone_is_replaced_with_a_word_and_the_session_goes_on() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let ids = Ids::default();
    let one = process(&store, &ids, &["old"], plain());
    let key = new_session(&one.engine).await;
    say(&one.engine, &key, "hello").await;
    let waiting = new_session(&one.engine).await;
    say(&one.engine, &waiting, "pay").await;

    let two = process(&store, &ids, &["new"], plain());
    let events = say(&two.engine, &key, "still there?").await;
    let change = ("scripted:old".to_owned(), "scripted:new".to_owned());
    assert_eq!(replaced(&events), std::slice::from_ref(&change));
    let EventKind::ModelReplaced { reason, .. } =
        &events.iter().find(|e| matches!(e.kind, EventKind::ModelReplaced { .. })).unwrap().kind
    else {
        panic!()
    };
    assert_eq!(reason, "there is no model `scripted:old`; there are scripted:new");
    assert_eq!(kept(&store, &key).await.as_deref(), Some("scripted:new"));
    // It is told once.
    assert_eq!(replaced(&say(&two.engine, &key, "good").await), []);
    assert_eq!(answered(&store, &key).await, [["old"], ["new"], ["new"]]);
    check_session(&two.engine, &key).await;

    // A turn that waited for a person goes on as well.
    let card = pending_cards(&*store, &waiting).await.remove(0);
    let decided = two.engine.decide(&waiting, &card, approve(), None).await.unwrap();
    let events = drain(decided.stream().unwrap()).await;
    assert_eq!(replaced(&events), [change]);
    assert_eq!(two.world.count("pay 5"), 1);
    assert_eq!(answered(&store, &waiting).await, [["old", "new"]]);
    assert_eq!(kept(&store, &waiting).await.as_deref(), Some("scripted:new"));
    check_session(&two.engine, &waiting).await;
}

#[tokio::test]
async fn a_turn_that_asked_for_a_model_that_is_gone_goes_on_and_the_session_keeps_its_own() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let ids = Ids::default();
    let one = process(&store, &ids, &["a", "rare"], plain());
    let key = new_session(&one.engine).await;
    say(&one.engine, &key, "hello").await;
    say(&one.engine, &key, Submission::new("pay").model(scripted("rare"))).await;
    let two = process(&store, &ids, &["b", "a"], plain());
    let card = pending_cards(&*store, &key).await.remove(0);
    let decided = two.engine.decide(&key, &card, approve(), None).await.unwrap();
    let events = drain(decided.stream().unwrap()).await;
    assert_eq!(replaced(&events), [("scripted:rare".to_owned(), "scripted:b".to_owned())]);
    say(&two.engine, &key, "hello").await;
    assert_eq!(answered(&store, &key).await, [vec!["a"], vec!["rare", "b"], vec!["a"]]);
}

/// The titles that a session's events told.
fn titles(events: &[Event]) -> Vec<String> {
    let found = events.iter().filter_map(|e| match &e.kind {
        EventKind::SessionTitleUpdated { title } => Some(title.clone()),
        _ => None,
    });
    found.collect()
}

async fn title(bench: &Bench, key: &SessionKey) -> Option<String> {
    bench.store.session(key).await.unwrap().title
}

#[tokio::test]
async fn the_first_turn_that_completes_names_the_session() {
    let bench = Bench::script([
        Scripted::from(ModelError::new(ModelErrorKind::Auth, "who are you?")),
        text("Here.").into(),
        text("There.").into(),
    ]);
    let key = bench.session().await;
    assert_eq!(
        titles(&bench.say(&key, "# Where is my parcel?\nPlease look.").await),
        [] as [String; 0]
    );
    assert_eq!(title(&bench, &key).await, None);
    // It is named after what was said first, whichever turn completes.
    let events = bench.say(&key, "Try again").await;
    assert_eq!(titles(&events), ["Where is my parcel?"]);
    assert_eq!(title(&bench, &key).await.as_deref(), Some("Where is my parcel?"));
    assert_eq!(titles(&bench.say(&key, "And the other?").await), [] as [String; 0]);
    bench.check(&key).await;
}

#[tokio::test]
async fn a_title_that_a_person_gave_stays() {
    let bench = Bench::script([calling(&[("w", "wait", "{}")]), text("Here.")]);
    let key = bench.session().await;
    let mut stream = bench.engine.submit(&key, "Where is it?").await.unwrap().stream().unwrap();
    until(&mut stream, runs).await;
    // While the first turn runs, so that its owner has read another.
    bench.store.set_title(&key, "My parcel", NOW).await.unwrap();
    bench.world.gate.open();
    assert_eq!(titles(&drain(stream).await), [] as [String; 0]);
    assert_eq!(title(&bench, &key).await.as_deref(), Some("My parcel"));
}

#[tokio::test]
async fn an_approval_in_the_first_turn_does_not_cost_the_title() {
    let bench = Bench::script([paying(5), text("Paid.")]);
    let key = bench.session().await;
    bench.say(&key, "Pay the five").await;
    let card = pending_cards(&*bench.store, &key).await.remove(0);
    let decided = bench.engine.decide(&key, &card, approve(), None).await.unwrap();
    assert_eq!(titles(&drain(decided.stream().unwrap()).await), ["Pay the five"]);
    bench.check(&key).await;
}

/// Answers as the agent, and as the one who writes titles.
fn titled_by_model(written: Scripted) -> ScriptedModel {
    ScriptedModel::from_fn("m", move |request| {
        if request.tools.specs.is_empty() { written.clone() } else { text("Here.").into() }
    })
}

#[tokio::test]
async fn a_model_may_write_the_title_and_is_metered() {
    let model = titled_by_model(text("\"Lost parcel.\"\n").into());
    let bench = Bench::with(model, |b| b.titles(Titles::Model(scripted("m"))));
    let key = bench.session().await;
    let events = bench.say(&key, "Where is my parcel?").await;
    assert_eq!(titles(&events), ["Lost parcel"]);
    assert_eq!(title(&bench, &key).await.as_deref(), Some("Lost parcel"));
    let message = bench.message(&key).await;
    let purposes: Vec<_> = message.iterations.iter().map(|i| i.purpose).collect();
    assert_eq!(purposes, [Purpose::Step, Purpose::Title]);
    assert_eq!(user_texts(&bench.last_request()), ["Where is my parcel?"]);
    bench.check(&key).await;
}

#[tokio::test(start_paused = true)]
async fn a_title_that_no_model_writes_is_made_without_one() {
    let nothing = text(" ").into();
    let failure = ModelError::new(ModelErrorKind::Overloaded, "later");
    for written in [nothing, failure.into(), Scripted::Hang(text("Lo"))] {
        let bench =
            Bench::with(titled_by_model(written), |b| b.titles(Titles::Model(scripted("m"))));
        let key = bench.session().await;
        let events = bench.say(&key, "Where is my parcel?").await;
        assert_eq!(titles(&events), ["Where is my parcel?"]);
        bench.check(&key).await;
    }
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_title() {
    let model = titled_by_model(Scripted::Hang(text("Lo")));
    let agent = agent("main").titles(Titles::Model(scripted("m"))).build().unwrap();
    let bench = Bench::of(model, [agent], |b| b);
    let key = bench.session().await;
    let mut stream = bench.engine.submit(&key, "Where is it?").await.unwrap().stream().unwrap();
    until(&mut stream, |k| matches!(k, EventKind::AgentCompleted { .. })).await;
    stream.stop();
    let events = drain(stream).await;
    assert_eq!(titles(&events), ["Where is it?"]);
    assert!(matches!(last_kind(&events), EventKind::TurnCompleted { .. }), "{events:?}");
}

/// Whether the session has a title is asked while the turn ends. That question may be next in line for the only connection when
/// the lease is to be renewed, and must not keep the renewal waiting for ever.
#[tokio::test(start_paused = true)]
async fn the_question_for_the_title_does_not_hold_up_the_renewal_of_the_lease() {
    let store = FaultStore::with_connections(1, MemoryStore::new());
    let gate = Gate::new();
    let held = gate.clone();
    let wait: Wait = Arc::new(move || {
        let gate = held.clone();
        Box::pin(async move { gate.wait().await })
    });
    let model = ScriptedModel::new("m", [Scripted::After(wait, Box::new(text("Here.").into()))]);
    let kept = store.clone();
    let bench = Bench::with(model, |b| b.store(kept));
    let key = bench.session().await;
    let stream = bench.engine.submit(&key, "Where is it?").await.unwrap().stream().unwrap();
    let turn = tokio::spawn(drain(stream));
    let until = async |op: Op, count: usize| {
        for _ in 0..10_000 {
            if store.calls().iter().filter(|call| **call == op).count() >= count {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("the store was not asked for {op:?}");
    };
    while bench.model.requests().is_empty() {
        tokio::task::yield_now().await;
    }
    let asked = store.calls().iter().filter(|call| **call == Op::Session).count();

    // The question for the title waits for the connection, and then the lease is to be renewed as well.
    let connection = store.connection().await;
    gate.open();
    until(Op::Session, asked + 1).await;
    tokio::time::advance(Duration::from_secs(3600)).await;
    drop(connection);
    until(Op::Renew, 1).await;

    let events = tokio::time::timeout(Duration::from_secs(3600), turn).await.unwrap().unwrap();
    assert_eq!(titles(&events), ["Where is it?"]);
    assert!(matches!(last_kind(&events), EventKind::TurnCompleted { .. }), "{events:?}");
}

#[tokio::test]
async fn no_title_is_made_where_none_is_wanted() {
    let bench = Bench::with(ScriptedModel::new("m", [text("Here.")]), |b| b.titles(Titles::Off));
    let key = bench.session().await;
    assert_eq!(titles(&bench.say(&key, "Where is it?").await), [] as [String; 0]);
    assert_eq!(title(&bench, &key).await, None);
}

fn remembering(remember: Remember) -> Decision {
    Decision::Approve { amendment: None, reason: None, remember: Some(remember) }
}

/// A bench whose model pays whatever amount it is told.
fn till(change: impl FnOnce(AgentBuilder) -> AgentBuilder) -> (Bench, Ids) {
    let model = ScriptedModel::from_fn("m", |request| {
        let asked = user_texts(request).pop().unwrap();
        match (asked.parse(), items(request).last()) {
            (Ok(amount), Some(Item::User { .. })) => paying(amount).into(),
            _ => text("Done.").into(),
        }
    });
    let ids = Ids::default();
    let agent = change(agent("main")).build().unwrap();
    let bench = Bench::of(model, [agent], |b| b.ids(ids.mint()));
    (bench, ids)
}

/// Whether a person is asked before so much is paid.
async fn asks(engine: &Engine, store: &Arc<dyn Store>, key: &SessionKey, amount: u64) -> bool {
    say(engine, key, amount.to_string().as_str()).await;
    let cards = pending_cards(&**store, key).await;
    for card in &cards {
        let reject = Decision::Reject { reason: None };
        drain(engine.decide(key, card, reject, None).await.unwrap().stream().unwrap()).await;
    }
    !cards.is_empty()
}

/// Says "always" to a payment.
async fn always(bench: &Bench, key: &SessionKey, by: &str, remember: Remember) -> Vec<Event> {
    bench.say(key, "1").await;
    let card = pending_cards(&*bench.store, key).await.remove(0);
    let decision = remembering(remember);
    let decided = bench.engine.decide(key, &card, decision, Some(by.into())).await.unwrap();
    drain(decided.stream().unwrap()).await
}

#[tokio::test]
async fn always_in_this_session_holds_there_over_restarts_until_it_is_taken_back() {
    let (bench, ids) = till(|a| a);
    let (key, other) = (bench.session().await, bench.session().await);
    always(&bench, &key, "ada", Remember::of(RememberFor::Session)).await;
    assert_eq!(bench.world.count("pay 1"), 1);

    let again = builder(bench.model.clone(), &bench.world, plain())
        .shared_store(bench.store.clone())
        .ids(ids.mint())
        .build()
        .unwrap();
    assert!(!asks(&again, &bench.store, &key, 2).await);
    assert_eq!(bench.world.count("pay 2"), 1);
    assert!(asks(&again, &bench.store, &other, 3).await);

    let (acme, ada) = ("acme".into(), "ada".into());
    let all = again.allowances(&acme, &ada, Some(&key.id)).await.unwrap();
    let card = bench.store.card(&acme, &all[0].id).await.unwrap();
    assert_eq!(card.session, key);
    let expected = Allowance {
        id: all[0].id.clone(),
        user: "ada".into(),
        session: Some(key.id.clone()),
        agent: "main".into(),
        tool: "pay".into(),
        args: Vec::new(),
        at: NOW,
    };
    assert_eq!(all, [expected]);
    again.take_back(&acme, &ada, &all[0].id).await.unwrap();
    assert!(asks(&again, &bench.store, &key, 4).await);
    let gone = again.take_back(&acme, &ada, &all[0].id).await.unwrap_err();
    assert!(matches!(gone, EngineError::Store(StoreError::NotFound { .. })), "{gone}");
    check_session(&again, &key).await;
}

#[tokio::test]
async fn always_for_a_person_holds_in_all_their_sessions_and_for_nobody_else() {
    let (bench, _) = till(|a| a);
    let key = bench.session().await;
    always(&bench, &key, "ada", Remember::of(RememberFor::User)).await;
    let new = async |tenant: &str, user: &str| {
        bench.engine.create_session(tenant, user, "main").await.unwrap().key
    };
    assert!(!asks(&bench.engine, &bench.store, &new("acme", "ada").await, 2).await);
    assert!(asks(&bench.engine, &bench.store, &new("acme", "bob").await, 3).await);
    let stranger = new("other", "ada").await;
    bench.say(&stranger, "4").await;
    assert_eq!(bench.world.count("pay 4"), 0);
}

#[tokio::test]
async fn what_another_person_decides_is_theirs() {
    let (bench, _) = till(|a| a);
    let key = bench.session().await;
    always(&bench, &key, "bob", Remember::of(RememberFor::Session)).await;
    assert!(asks(&bench.engine, &bench.store, &key, 2).await);
    let mut from_bob = Submission::new("3");
    from_bob.author = Some("bob".into());
    bench.say(&key, from_bob).await;
    assert_eq!(bench.world.count("pay 3"), 1);
}

#[tokio::test]
async fn always_may_be_bounded_by_the_arguments() {
    let (bench, _) = till(|a| a);
    let key = bench.session().await;
    let small: ArgTest = serde_json::from_value(json!({"path": "amount", "below": 100})).unwrap();
    let remember = Remember { scope: RememberFor::Session, args: vec![small] };
    always(&bench, &key, "ada", remember).await;
    assert!(!asks(&bench.engine, &bench.store, &key, 99).await);
    assert!(asks(&bench.engine, &bench.store, &key, 100).await);
}

#[tokio::test]
async fn always_lifts_no_denial_and_acts_in_no_run_without_a_person() {
    let (bench, ids) = till(|a| a);
    let key = bench.session().await;
    always(&bench, &key, "ada", Remember::of(RememberFor::User)).await;
    bench.say(&key, Submission::new("2").captured()).await;
    assert_eq!(bench.world.count("pay 2"), 0);
    assert_eq!(bench.engine.captured(&key, None).await.unwrap().len(), 1);

    let rules =
        json!({"rules": [{"tool": "pay", "decision": "deny", "reason": "the till is closed"}]});
    let strict = builder(bench.model.clone(), &bench.world, plain())
        .shared_store(bench.store.clone())
        .policy(serde_json::from_value(rules).unwrap())
        .ids(ids.mint())
        .build()
        .unwrap();
    say(&strict, &key, "3").await;
    assert_eq!(bench.world.count("pay 3"), 0);
    let message = bench.message(&key).await;
    let error = the_call(&message).error.clone().unwrap();
    assert!(error.message.contains("the till is closed"), "{error}");
}

/// A model that reads back what the last result says is kept, with these arguments besides the reference.
fn reader(pages: Vec<Value>) -> ScriptedModel {
    let mut pages = pages.into_iter();
    let mut reference = None;
    ScriptedModel::from_fn("m", move |request| {
        let last = items(request).pop().unwrap();
        if let Item::ToolResults { results } = &last
            && let Ok(result) = serde_json::from_str::<Value>(&results[0].content)
            && let Some(kept) = result["full_output"].as_str()
        {
            reference = Some(kept.to_owned());
        }
        let Some(reference) = &reference else { return calling(&[("f", "flood", "{}")]).into() };
        match pages.next() {
            Some(mut args) => {
                args["ref"] = args.get("ref").cloned().unwrap_or_else(|| json!(reference));
                calling(&[("r", READ_OUTPUT, &args.to_string())]).into()
            }
            None => text("Read.").into(),
        }
    })
}

/// What the calls of `read_output` in the session's last message gave: their outputs, or their errors' words.
async fn read(bench: &Bench, key: &SessionKey) -> Vec<Result<Value, String>> {
    let message = bench.message(key).await;
    let reads = message.calls().filter(|c| c.name == READ_OUTPUT);
    reads
        .map(|c| match (&c.output, &c.error) {
            (Some(output), None) => Ok(Value::clone(output)),
            (_, error) => Err(error.clone().unwrap().message),
        })
        .collect()
}

#[tokio::test]
async fn fifty_million_bytes_are_read_back_by_page_and_by_text() {
    let whole = 50_000_000 / 6 * 6;
    let bench = Bench::new(reader(vec![
        json!({"limit": 12}),
        json!({"offset": whole - 8, "limit": 16_000}),
        json!({"query": "R W", "offset": whole - 14}),
        json!({"offset": whole}),
        json!({}),
    ]));
    let key = bench.session().await;
    bench.say(&key, "go").await;
    bench.check(&key).await;
    check_prefixes(&bench.model.requests());
    let answers = read(&bench, &key).await;
    let reference = answers[0].as_ref().unwrap()["ref"].clone();
    let head = |offset: usize| json!({"ref": reference, "bytes": whole, "offset": offset});
    let mut first = head(0);
    first["text"] = json!("water water ");
    first["next_offset"] = json!(12);
    assert_eq!(answers[0], Ok(first));
    let mut last = head(whole - 8);
    last["text"] = json!("r water ");
    assert_eq!(answers[1], Ok(last));
    let found = answers[2].as_ref().unwrap();
    let offsets: Vec<_> =
        found["matches"].as_array().unwrap().iter().map(|m| &m["offset"]).collect();
    assert_eq!(offsets, [&json!(whole - 14), &json!(whole - 8)]);
    assert_eq!(found.get("next_offset"), None);
    let error = answers[3].as_ref().unwrap_err();
    assert!(error.contains(&format!("The output has {whole} characters")), "{error}");
    assert_eq!(answers[4].as_ref().unwrap()["next_offset"], json!(8000));
}

#[tokio::test]
async fn what_is_kept_belongs_to_its_session() {
    let bench = Bench::new(reader(vec![]));
    let (tenant, user) = ("acme", "ada");
    let own = bench.session().await;
    bench.say(&own, "go").await;
    let message = bench.message(&own).await;
    let output = the_call(&message).output.clone().unwrap();
    let reference = output["full_output"].as_str().unwrap().to_owned();
    for (tenant, reference) in [
        (tenant, reference.as_str()),
        ("other", &reference),
        (tenant, "output:t_9-9"),
        (tenant, "call:t_9-9"),
    ] {
        let args = json!({"ref": reference}).to_string();
        let model = ScriptedModel::new("m", [calling(&[("r", READ_OUTPUT, &args)]), text("No.")]);
        let engine = builder(Arc::new(model), &bench.world, plain())
            .shared_store(bench.store.clone())
            .ids(uuid_like)
            .build()
            .unwrap();
        let key = engine.create_session(tenant, user, "main").await.unwrap().key;
        say(&engine, &key, "read it").await;
        let message = last_message(&*bench.store, &key).await;
        let error = the_call(&message).error.clone().unwrap();
        assert!(
            error.message.starts_with(&format!("Nothing is kept under `{reference}`")),
            "{error}"
        );
    }
}

/// Ids that no other engine of a test mints.
fn uuid_like() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("x{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

#[tokio::test]
async fn the_tool_is_there_from_the_first_request_wherever_something_may_be_kept() {
    let offered =
        |request: &ModelRequest| request.tools.specs.iter().any(|s| s.name == READ_OUTPUT);
    let bench = Bench::script([text("One."), text("Two.")]);
    let key = bench.session().await;
    bench.say(&key, "one").await;
    assert!(offered(&bench.last_request()));
    // Nothing is stored of a turn without a session.
    let stream = bench.engine.converse("main", Default::default(), "two").unwrap();
    drain(stream).await;
    assert!(!offered(&bench.last_request()));
    // An agent without tools leaves nothing to read.
    let bare = Agent::builder("main").instructions("Talk.").build().unwrap();
    let bench = Bench::of(ScriptedModel::new("m", [text("Hi.")]), [bare], |b| b);
    let key = bench.session().await;
    bench.say(&key, "hi").await;
    assert!(bench.last_request().tools.specs.is_empty());
}

#[tokio::test]
async fn a_result_that_shrank_on_a_later_turn_is_read_back() {
    let list = FnTool::without_args(
        ToolContract::new("list_all").description("Lists.").retention(Retention::Summary),
        async |_| Ok::<_, String>(json!({"all": "x".repeat(5000), "last": "ähre"})),
    );
    let model = ScriptedModel::from_fn("m", move |request| {
        let asked = user_texts(request).pop().unwrap();
        let all = items(request);
        let fresh = matches!(all.last(), Some(Item::User { .. }));
        match (asked.as_str(), fresh) {
            ("list", true) => calling(&[("l", "list_all", "{}")]).into(),
            ("read", true) => {
                let shrunk = all.iter().find_map(|item| match item {
                    Item::ToolResults { results } => Some(results[0].content.clone()),
                    _ => None,
                });
                let shrunk = shrunk.unwrap();
                assert!(shrunk.len() < 1000, "{shrunk}");
                let reference = shrunk.rsplit(' ').next().unwrap().trim_end_matches(']').to_owned();
                let args = json!({"ref": reference, "query": "ÄHRE"}).to_string();
                let exact = json!({"ref": reference, "query": "ähre"}).to_string();
                calling(&[("a", READ_OUTPUT, &args), ("b", READ_OUTPUT, &exact)]).into()
            }
            _ => text("Done.").into(),
        }
    });
    let bench = Bench::of(model, [agent("main").tool(list).build().unwrap()], |b| b);
    let key = bench.session().await;
    bench.say(&key, "list").await;
    bench.say(&key, "read").await;
    let answers = read(&bench, &key).await;
    assert_eq!(answers[0].as_ref().unwrap()["matches"], json!([]));
    let found = &answers[1].as_ref().unwrap()["matches"][0];
    assert!(found["text"].as_str().unwrap().ends_with(r#""last":"ähre"}"#), "{found}");
}

#[tokio::test]
async fn what_was_hidden_from_the_model_stays_hidden_when_it_reads_again() {
    fn secret() -> Value {
        json!({"name": "Ada", "iban": "x".repeat(100_000)})
    }
    let contract = ToolContract::new("flood").description("Finds.").retention(Retention::Summary);
    let find = FnTool::without_args(contract, async |_| {
        let shown = json!({"name": "Ada", "notes": "n".repeat(100_000)});
        Ok::<_, String>(ToolOutput::json(secret()).model_view(shown))
    })
    .digest(|_| Some(json!("an IBAN")));
    let model = ScriptedModel::from_fn("m", move |request| {
        let asked = user_texts(request).pop().unwrap();
        let fresh = matches!(items(request).last(), Some(Item::User { .. }));
        if !fresh {
            return text("Done.").into();
        }
        if asked == "find" {
            return calling(&[("l", "flood", "{}")]).into();
        }
        let reads = ["call:t_2-0", "output:t_2-0", "whole:t_2-0", "call:whole:t_2-0"];
        let args = reads.map(|reference| {
            ("r", READ_OUTPUT, json!({"ref": reference, "query": asked}).to_string())
        });
        let args: Vec<_> =
            args.iter().map(|(id, name, args)| (*id, *name, args.as_str())).collect();
        calling(&args).into()
    });
    let bench = Bench::of(
        model,
        [Agent::builder("main").instructions("Help.").tool(find).build().unwrap()],
        |b| b,
    );
    let key = bench.session().await;
    bench.say(&key, "find").await;
    let whole = bench.store.get_blob(&key, "whole:t_2-0", 0..u64::MAX).await.unwrap();
    assert_eq!(String::from_utf8(whole.content).unwrap(), secret().to_string(), "people have it");
    bench.say(&key, "iban").await;
    let answers = read(&bench, &key).await;
    for answer in &answers[..2] {
        assert_eq!(answer.as_ref().unwrap()["matches"], json!([]));
    }
    for answer in &answers[2..] {
        assert!(answer.is_err(), "{answer:?}");
    }
    // What shrank to a summary is short for what it was shown, too.
    let Some(Item::ToolResults { results }) =
        items(&bench.last_request()).into_iter().find(|i| matches!(i, Item::ToolResults { .. }))
    else {
        panic!("the call of the turn before is told")
    };
    assert!(results[0].content.contains("Ada"), "{}", results[0].content);
    assert!(!results[0].content.contains("IBAN"), "{}", results[0].content);
    bench.say(&key, "notes").await;
    let found = read(&bench, &key).await.swap_remove(0).unwrap();
    assert_eq!(found["matches"][0]["offset"], json!(15), "what it was shown it can read: {found}");
}

#[tokio::test]
async fn what_a_data_policy_forbids_to_keep_is_not_kept_aside_either() {
    let results = KeepTools::Except(["flood".into()].into());
    let agent = agent("main").data_policy(DataPolicy { results, ..DataPolicy::default() });
    let bench = Bench::of(reader(vec![json!({})]), [agent.build().unwrap()], |b| b);
    let key = bench.session().await;
    bench.say(&key, "go").await;
    let error = read(&bench, &key).await.remove(0).unwrap_err();
    assert!(error.starts_with("Nothing is kept under `output:"), "{error}");
    let message = bench.message(&key).await;
    assert_eq!(message.calls().next().unwrap().output, None);
}

/// A store whose journal of the open turn is exchanged, as after a downgrade.
async fn damage(store: &Arc<dyn Store>, key: &SessionKey) {
    let loaded = store.load(key).await.unwrap();
    let log = loaded.turn.unwrap();
    let n = log.journal.len() as u32;
    let now = Timestamp::from_millis(NOW.as_millis() + 60_000);
    let Claim::Held { fence, .. } = store.claim(key, "vandal", 1000, now).await.unwrap() else {
        panic!()
    };
    let mut commit = Commit::new(key.clone(), fence, now);
    // An answer to a step that was never asked for.
    let input = Input::Progress { step: 999, data: json!(1).into() };
    commit.journal.push(Recorded { n, at: now, input });
    store.commit(commit).await.unwrap();
    store.release(key, fence, Release::HandOver).await.unwrap();
}

fn failure(events: &[Event]) -> String {
    match last_kind(events) {
        EventKind::TurnError { error: TurnError::Internal { message }, .. } => message.clone(),
        other => panic!("{other:?}"),
    }
}

/// What holds of a session with a turn that was set aside.
async fn check_set_aside(store: &Arc<dyn Store>, key: &SessionKey) {
    let events = stored_events(&**store, key).await;
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event.seq, index as u64 + 1);
    }
    let turn = &store.turns(key).await.unwrap()[0];
    let mine: Vec<_> = events.iter().filter(|e| e.turn == turn.id).collect();
    let fold = turnbuckle_core::fold::fold(mine.iter().copied()).unwrap();
    let message = fold.assistant.unwrap();
    assert!(message.calls().all(|c| c.status.is_settled()), "{message:?}");
    assert_eq!(assistant_messages(&**store, key).await[0], message);
    assert!(matches!(outcome(&message), Outcome::Error { .. }), "{message:?}");
    assert!(pending_cards(&**store, key).await.is_empty());
}

#[tokio::test]
async fn a_turn_whose_journal_does_not_fit_is_set_aside_when_it_is_taken_up() {
    let (bench, _) = till(|a| a);
    let key = bench.session().await;
    bench.say(&key, "7").await;
    let card = pending_cards(&*bench.store, &key).await.remove(0);
    damage(&bench.store, &key).await;
    let decided = bench.engine.decide(&key, &card, approve(), None).await.unwrap();
    let events = drain(decided.stream().unwrap()).await;
    let message = failure(&events);
    assert!(
        message.starts_with("this turn could not be taken up again, so it was ended as it stood: its journal does not fit"),
        "{message}"
    );
    assert_eq!(bench.world.count("pay"), 0);
    check_set_aside(&bench.store, &key).await;
    assert_eq!(bench.store.session(&key).await.unwrap().pending, 0);
    // The session goes on, and the model is told what became of the call.
    bench.say(&key, "hello").await;
    assert_eq!(bench.message(&key).await.text(), "Done.");
    check_requests(&bench.model.requests());
    let seen = items(&bench.last_request());
    let Item::ToolResults { results } = &seen[2] else { panic!("{seen:#?}") };
    assert!(results[0].content.contains("The turn ended before this was done"), "{results:?}");
}

#[tokio::test]
async fn a_turn_that_was_running_is_set_aside_and_says_what_is_not_known() {
    let bench = Bench::script([calling(&[("w", "wait", "{}")]), text("Well.")]);
    let key = bench.session().await;
    let mut stream = bench.engine.submit(&key, "wait").await.unwrap().stream().unwrap();
    until(&mut stream, runs).await;
    stream.abandon();
    damage(&bench.store, &key).await;
    let events = drain(bench.engine.work(&key).stream().unwrap()).await;
    failure(&events);
    check_set_aside(&bench.store, &key).await;
    let message = bench.message(&key).await;
    let error = the_call(&message).error.clone().unwrap();
    assert_eq!(error.code, ToolErrorCode::OutcomeUnknown);
    // Asking again finds nothing to do.
    assert!(drain(bench.engine.work(&key).stream().unwrap()).await.is_empty());
    bench.say(&key, "and?").await;
    assert_eq!(bench.message(&key).await.text(), "Well.");
}

#[tokio::test]
async fn a_queued_message_waits_for_the_decision_that_was_asked_for_before_anybody_saw_it() {
    for skew in SKEWS {
        let (bench, hand, key) = paused_over_a_queued_message(skew, ["Paid.", "Next."]).await;
        // It waits, is listed as waiting, and calls nobody.
        let session = bench.store.session(&key).await.unwrap();
        assert_eq!((session.pending, session.lease), (1, None));
        let later = Timestamp::from_millis(NOW.as_millis() + 999_999);
        assert_eq!(bench.store.claimable(later, 9).await.unwrap(), []);
        assert!(drain(bench.engine.work(&key).stream().unwrap()).await.is_empty());

        hand.forward(10);
        let card = pending_cards(&*bench.store, &key).await.remove(0);
        let decided = bench.engine.decide(&key, &card, approve(), None).await.unwrap();
        let events = drain(decided.stream().unwrap()).await;
        assert_eq!(shape(&events).iter().filter(|n| *n == "turn-completed").count(), 2);
        assert_eq!(bench.world.count("pay 5"), 1);
        let said: Vec<_> =
            assistant_messages(&*bench.store, &key).await.iter().map(|m| m.text()).collect();
        assert_eq!(said, ["Paid.", "Next."]);
        assert_eq!(bench.store.session(&key).await.unwrap().pending, 0);
        bench.check(&key).await;
    }
}

#[tokio::test]
async fn a_message_written_in_view_of_a_card_takes_its_place_and_what_was_queued_goes_first() {
    for skew in SKEWS {
        let (bench, hand, key) = paused_over_a_queued_message(skew, ["Two.", "Three."]).await;
        hand.forward(skew);
        bench.say(&key, "three").await;
        assert_eq!(bench.world.count("pay"), 0);
        assert_eq!(user_texts(&bench.last_request()), ["one", "two", "three"]);
        bench.check(&key).await;
    }
}

/// By how much the clock moves between what is posted and the card, which must not matter: it may be another machine's.
const SKEWS: [i64; 3] = [10, 0, -5_000];

/// A turn that waits for a decision, and behind it a message that was posted before anybody could see the card.
async fn paused_over_a_queued_message(skew: i64, then: [&str; 2]) -> (Bench, Hand, SessionKey) {
    let hand = Hand::at(NOW);
    let model = ScriptedModel::new(
        "m",
        [
            calling(&[("w", "wait", "{}"), ("p", "pay", r#"{"amount": 5}"#)]),
            text(then[0]),
            text(then[1]),
        ],
    );
    let clock = hand.clock();
    let bench = Bench::with(model, |b| b.clock(clock));
    let key = bench.session().await;
    let mut stream = bench.engine.submit(&key, "one").await.unwrap().stream().unwrap();
    until(&mut stream, runs).await;
    bench.engine.post_message(&key, Submission::new("two")).await.unwrap();
    hand.forward(skew);
    bench.world.gate.open();
    let events = drain(stream).await;
    assert!(matches!(last_kind(&events), EventKind::TurnPaused { .. }), "{events:?}");
    (bench, hand, key)
}

#[tokio::test]
async fn steering_that_meets_a_pause_enters_when_the_turn_goes_on() {
    let hand = Hand::at(NOW);
    let model = ScriptedModel::new(
        "m",
        [calling(&[("w", "wait", "{}"), ("p", "pay", r#"{"amount": 5}"#)]), text("Paid in blue.")],
    );
    let clock = hand.clock();
    let bench = Bench::with(model, |b| b.clock(clock));
    let key = bench.session().await;
    let mut stream = bench.engine.submit(&key, "pay").await.unwrap().stream().unwrap();
    until(&mut stream, runs).await;
    let steering = Submission { delivery: Delivery::Steer, ..Submission::new("in blue") };
    bench.engine.post_message(&key, steering).await.unwrap();
    hand.forward(10);
    bench.world.gate.open();
    drain(stream).await;
    hand.forward(10);
    let card = pending_cards(&*bench.store, &key).await.remove(0);
    let decided = bench.engine.decide(&key, &card, approve(), None).await.unwrap();
    drain(decided.stream().unwrap()).await;
    bench.check(&key).await;
    assert_eq!(bench.store.turns(&key).await.unwrap().len(), 1);
    assert_eq!(user_texts(&bench.last_request()), ["pay", "in blue"]);
    assert_eq!(bench.store.session(&key).await.unwrap().pending, 0);
}
