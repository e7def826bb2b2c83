//! Processes that die, stores that fail, owners that wake up too late.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;
#[path = "common/story.rs"]
mod story;

use common::*;
use serde_json::json;
use std::sync::Arc;
use story::{Death, Dies, MortalStore, assert_same, check_world, essence, script, tell, told};
use turnbuckle_core::error::ToolErrorCode;
use turnbuckle_core::event::EventKind;
use turnbuckle_core::message::{ClientTool, Surroundings};
use turnbuckle_core::model::ModelRequest;
use turnbuckle_core::outcome::{Outcome, TurnError};
use turnbuckle_core::prompt::{Section, Tier};
use turnbuckle_engine::{Agent, Engine, EngineError, Submission, drain};
use turnbuckle_models::scripted::{Scripted, ScriptedModel, calls as calling, text};
use turnbuckle_store::conformance::{Effect, FaultStore, Op, disk_full, gone};
use turnbuckle_store::{MemoryStore, SessionKey, SqliteStore, Store, StoreError};
use turnbuckle_testkit::Gate;

/// A process of the story: always of the same name, as one that is started again.
fn process(store: Arc<dyn Store>, world: &World, ids: &Ids) -> Engine {
    builder(Arc::new(by_request(script())), world, story::agents())
        .shared_store(store)
        .ids(ids.mint())
        .build()
        .unwrap()
}

/// The story without any trouble.
async fn undisturbed() -> String {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (world, ids) = (World::default(), Ids::default());
    let engine = process(store.clone(), &world, &ids);
    let key = engine.create_session("acme", "ada", "main").await.unwrap().key;
    tell(&engine, &key, &*store).await.unwrap();
    assert!(told(&*store, &key).await);
    check_session(&engine, &key).await;
    let all = assistant_messages(&*store, &key).await;
    assert_eq!(all[0].text(), "Let me see to it.\n\nThe room is booked and paid.");
    check_world(&world, &all[0]);
    let mut unknown = Vec::new();
    let essence = essence(&*store, &key, &mut unknown).await;
    assert_eq!(unknown, [] as [String; 0]);
    essence
}

/// Runs the story until its process dies; says whether it came to that.
async fn dies(
    death: Death,
    store: &Arc<dyn Store>,
    world: &World,
    ids: &Ids,
    key: &SessionKey,
) -> bool {
    let mortal = MortalStore::new(store.clone(), death);
    let engine = process(mortal.clone(), world, ids);
    let telling = tell(&engine, key, &**store);
    tokio::select! {
        biased;
        () = mortal.death() => true,
        told = telling => {
            told.unwrap();
            false
        }
    }
}

/// Lets the story's process die, and another one tell it to its end. Gives the calls whose outcome is not known; none when
/// the first one did not die.
async fn taken_up(
    death: impl FnOnce(&World) -> Death,
    expected: &str,
    place: &str,
) -> Option<Vec<String>> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sessions.db");
    let (world, ids) = (World::default(), Ids::default());
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).await.unwrap());
    let first = process(store.clone(), &world, &ids);
    let key = first.create_session("acme", "ada", "main").await.unwrap().key;
    if !dies(death(&world), &store, &world, &ids, &key).await {
        assert!(told(&*store, &key).await);
        return None;
    }
    // Another process opens the file, takes back what its name still holds, and goes on.
    let again: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).await.unwrap());
    let next = process(again.clone(), &world, &ids);
    next.forfeit().await.unwrap();
    tell(&next, &key, &*again).await.unwrap();
    assert!(told(&*again, &key).await, "{place}");
    check_session(&next, &key).await;
    let mut unknown = Vec::new();
    let got = essence(&*again, &key, &mut unknown).await;
    assert_same(&got, expected, place);
    check_world(&world, &assistant_messages(&*again, &key).await[0]);
    Some(unknown)
}

#[tokio::test]
async fn a_process_that_dies_at_any_commit_loses_and_repeats_nothing() {
    let expected = undisturbed().await;
    for dies in [Dies::Before, Dies::After] {
        let mut n = 0;
        while taken_up(|_| Death::At(n, dies), &expected, &format!("{dies:?} {n}")).await.is_some()
        {
            n += 1;
        }
        assert!(n > 8, "the story has only {n} commits");
    }
}

#[tokio::test]
async fn a_call_that_is_cut_off_between_its_start_and_its_end_is_told_as_such() {
    let expected = undisturbed().await;
    for (name, what) in [("book", "book blue"), ("pay", "pay 80")] {
        let unknown = taken_up(|world| Death::Seen(world.clone(), what), &expected, name).await;
        assert_eq!(unknown, Some(vec![name.to_owned()]));
    }
}

/// The page and the tools of a turn are its own from its first moment, not those of the turn before.
#[tokio::test]
async fn a_turn_goes_on_where_it_was_asked_however_early_its_process_died() {
    let on = |page: &str, text: &str| {
        let tool = ClientTool {
            name: format!("read_{page}").as_str().into(),
            description: "Reads the page.".into(),
            input_schema: json!({"type": "object", "properties": {}}).into(),
        };
        let surroundings = Surroundings {
            page: Some(page.into()),
            references: vec![json!({"on": page}).into()],
            tools: vec![tool],
            ..Surroundings::default()
        };
        Submission { surroundings, ..Submission::new(text) }
    };
    let main = || {
        [Agent::builder("main")
            .section(Section::computed(Tier::Turn, "page", |input| {
                input.surroundings.page.as_ref().map(|page| format!("page: {page}"))
            }))
            .tool(look_up())
            .build()
            .unwrap()]
    };
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (world, ids) = (World::default(), Ids::default());
    let answers: [Scripted; 2] = [text("Orders.").into(), Scripted::Hang(text("Mail"))];
    let model = Arc::new(ScriptedModel::new("m", answers).in_pieces_of(2));
    let process = |model: Arc<ScriptedModel>| {
        builder(model, &world, main()).shared_store(store.clone()).ids(ids.mint()).build().unwrap()
    };
    let first = process(model.clone());
    let key = first.create_session("acme", "ada", "main").await.unwrap().key;
    say(&first, &key, on("orders", "what is here?")).await;
    let mut stream = first.submit(&key, on("mail", "and here?")).await.unwrap().stream().unwrap();
    until(&mut stream, |kind| matches!(kind, EventKind::TextDelta { .. })).await;
    stream.abandon();

    let again = Arc::new(ScriptedModel::new("m", [text("Mail.")]));
    let next = process(again.clone());
    next.forfeit().await.unwrap();
    drain(next.work(&key).stream().unwrap()).await;
    check_session(&next, &key).await;
    let (before, after) = (model.requests().pop().unwrap(), again.requests().pop().unwrap());
    let names = |r: &ModelRequest| -> Vec<String> {
        r.tools.specs.iter().map(|s| s.name.to_string()).collect()
    };
    assert!(names(&before).contains(&"read_mail".to_owned()));
    assert_eq!(names(&after), names(&before));
    assert!(format!("{:?}", before.system).contains("page: mail"));
    assert_eq!(after.system, before.system);
}

/// What a turn of these tool rounds commits.
async fn commits(rounds: &[(&str, &str)]) -> usize {
    let call = |(tool, args): &(&str, &str)| calling(&[("a", *tool, *args)]);
    let script = rounds.iter().map(call).chain([text("Done.")]).collect();
    let store = MortalStore::new(Arc::new(MemoryStore::new()), Death::Never);
    let engine = builder(Arc::new(by_request(script)), &World::default(), story::agents())
        .shared_store(store.clone())
        .build()
        .unwrap();
    let key = engine.create_session("acme", "ada", "main").await.unwrap().key;
    let turn = engine.submit(&key, "Go on.").await.unwrap();
    let events = drain(turn.stream().unwrap()).await;
    assert!(matches!(events.last().unwrap().kind, EventKind::TurnCompleted { .. }));
    store.commits()
}

#[tokio::test]
async fn a_read_shares_a_commit_with_what_it_follows_from_and_what_acts_is_stored_before_and_after()
{
    let (read, tag) = (("look_up", r#"{"key": "blue"}"#), ("tag", r#"{"key": "paid"}"#));
    let plain = commits(&[]).await;
    assert_eq!(commits(&[read]).await, plain + 1);
    assert_eq!(commits(&[read, read]).await, plain + 2);
    assert_eq!(commits(&[tag]).await, plain + 2);
}

#[tokio::test]
async fn a_process_that_dies_again_and_again_comes_to_the_end() {
    let expected = undisturbed().await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (world, ids) = (World::default(), Ids::default());
    let first = process(store.clone(), &world, &ids);
    let key = first.create_session("acme", "ada", "main").await.unwrap().key;
    let mut deaths = 0;
    // Each process lives for two commits and dies before the third.
    while dies(Death::At(2, Dies::Before), &store, &world, &ids, &key).await {
        deaths += 1;
        assert!(deaths < 50);
        store.forfeit("one").await.unwrap();
    }
    assert!(told(&*store, &key).await);
    check_session(&first, &key).await;
    let got = essence(&*store, &key, &mut Vec::new()).await;
    assert_same(&got, &expected, "again and again");
    assert!(deaths > 3);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_once_anywhere_loses_and_repeats_nothing() {
    let expected = undisturbed().await;
    for error in [gone(), disk_full()] {
        for effect in [Effect::None, Effect::Done] {
            let mut n = 0;
            loop {
                let inner = MemoryStore::new();
                let sight: Arc<dyn Store> = Arc::new(inner.clone());
                let (world, ids) = (World::default(), Ids::default());
                let calm = process(sight.clone(), &world, &ids);
                let key = calm.create_session("acme", "ada", "main").await.unwrap().key;
                let faulty = FaultStore::new(inner);
                faulty.fail_calls(n, 1, effect, error.clone());
                let engine = process(Arc::new(faulty.clone()), &world, &ids);
                let telling = tell(&engine, &key, &*sight).await;
                let Some(op) = faulty.calls().get(n).copied() else { break };
                let place = format!("{error} {effect:?} {n} {op:?}");
                // The person is told, by the call or in the stream, unless all went well in the end.
                match telling {
                    Err(EngineError::Store(_)) => {
                        assert!(matches!(op, Op::Card | Op::Post), "{place}")
                    }
                    Err(other) => panic!("{place}: {other}"),
                    Ok(_) if told(&*sight, &key).await => {}
                    Ok(events) => {
                        let EventKind::TurnError { error: TurnError::Store { message }, .. } =
                            last_kind(&events)
                        else {
                            panic!("{place}: {events:?}")
                        };
                        assert!(
                            message.contains("full") && message.contains("free space"),
                            "{place}: {message}"
                        );
                    }
                }
                faulty.heal();
                // The same process, told to go on, or another one after it.
                let next = if n % 2 == 0 { engine } else { process(sight.clone(), &world, &ids) };
                next.forfeit().await.unwrap();
                for _ in 0..2 {
                    tell(&next, &key, &*sight).await.unwrap();
                }
                assert!(told(&*sight, &key).await, "{place}");
                check_session(&next, &key).await;
                assert_same(&essence(&*sight, &key, &mut Vec::new()).await, &expected, &place);
                check_world(&world, &assistant_messages(&*sight, &key).await[0]);
                assert!(sight.session(&key).await.unwrap().lease.is_none(), "{place}");
                n += 1;
            }
            assert!(n > 15, "the story has only {n} operations");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_for_a_moment_is_waited_for() {
    let inner = MemoryStore::new();
    let sight: Arc<dyn Store> = Arc::new(inner.clone());
    let faulty = FaultStore::new(inner);
    faulty.fail(Op::Commit, 1, 5, Effect::None, gone());
    faulty.fail(Op::Load, 0, 2, Effect::None, gone());
    faulty.fail(Op::Release, 0, 2, Effect::Done, gone());
    let (world, ids) = (World::default(), Ids::default());
    let engine = process(Arc::new(faulty.clone()), &world, &ids);
    let key = engine.create_session("acme", "ada", "main").await.unwrap().key;
    tell(&engine, &key, &*sight).await.unwrap();
    assert!(told(&*sight, &key).await);
    check_session(&engine, &key).await;
    assert_eq!(world.count("book"), 1);
}

/// Two processes and a clock that is moved by hand.
struct Two {
    store: Arc<dyn Store>,
    world: World,
    hand: Hand,
    one: Engine,
    two: Engine,
    key: SessionKey,
}

impl Two {
    async fn new(model: ScriptedModel) -> Self {
        let (world, ids, hand) = (World::default(), Ids::default(), Hand::at(NOW));
        let (model, store) = (Arc::new(model), Arc::new(MemoryStore::new()) as Arc<dyn Store>);
        let engine = |name: &str| {
            builder(model.clone(), &world, story::agents())
                .shared_store(store.clone())
                .clock(hand.clock())
                .ids(ids.mint())
                .name(name)
                .build()
                .unwrap()
        };
        let (one, two) = (engine("one"), engine("two"));
        let key = one.create_session("acme", "ada", "main").await.unwrap().key;
        Self { store, world, hand, one, two, key }
    }
}

fn is_fenced_off(events: &[turnbuckle_core::event::Event]) {
    let EventKind::TurnError { error: TurnError::Store { message }, .. } = last_kind(events) else {
        panic!("{events:?}")
    };
    assert!(message.contains("another owner has taken it over"), "{message}");
}

#[tokio::test]
async fn an_owner_that_sleeps_past_its_lease_writes_nothing_more() {
    let gate = Gate::new();
    let mut first = Some(gate.clone());
    let model = ScriptedModel::from_fn("m", move |_| match first.take() {
        Some(gate) => Scripted::from(text("I am late.")).after(move || {
            let gate = gate.clone();
            async move { gate.wait().await }
        }),
        None => text("I took over.").into(),
    });
    let both = Two::new(model).await;
    let mut asleep = both.one.submit(&both.key, "hello").await.unwrap().stream().unwrap();
    until(&mut asleep, |k| matches!(k, EventKind::AgentStarted { .. })).await;

    // Not before the lease is over.
    both.hand.forward(7_000);
    assert_eq!(drain(both.two.work(&both.key).stream().unwrap()).await, []);
    both.hand.forward(60_000);
    let events = drain(both.two.work(&both.key).stream().unwrap()).await;
    assert!(matches!(last_kind(&events), EventKind::TurnCompleted { .. }), "{events:?}");
    assert!(events.iter().all(|e| e.epoch == 1));

    gate.open();
    is_fenced_off(&drain(asleep).await);
    check_session(&both.two, &both.key).await;
    assert_eq!(last_message(&*both.store, &both.key).await.text(), "I took over.");
    // Both can be talked to afterwards.
    for engine in [&both.one, &both.two] {
        say(engine, &both.key, "again").await;
    }
    check_session(&both.two, &both.key).await;
    assert_eq!(assistant_messages(&*both.store, &both.key).await.len(), 3);
}

#[tokio::test]
async fn a_tool_that_outlives_the_lease_of_its_owner_is_not_run_again() {
    let script = vec![calling(&[("w", "wait", "{}")]), text("I cannot say whether it was done.")];
    let both = Two::new(by_request(script)).await;
    let mut asleep = both.one.submit(&both.key, "wait").await.unwrap().stream().unwrap();
    until(&mut asleep, runs).await;
    both.hand.forward(60_000);
    let events = drain(both.two.work(&both.key).stream().unwrap()).await;
    assert!(matches!(last_kind(&events), EventKind::TurnCompleted { .. }), "{events:?}");
    both.world.gate.open();
    is_fenced_off(&drain(asleep).await);
    check_session(&both.two, &both.key).await;
    let message = last_message(&*both.store, &both.key).await;
    assert_eq!(the_call(&message).error.as_ref().unwrap().code, ToolErrorCode::OutcomeUnknown);
    assert_eq!(outcome(&message), Outcome::Completed);
    assert_eq!(both.world.count("wait begins"), 1);
}

#[tokio::test]
async fn what_is_posted_while_nobody_is_there_waits_for_the_next_owner() {
    let script = vec![calling(&[("w", "wait", "{}")]), text("First, with care."), text("Second.")];
    let both = Two::new(by_request(script)).await;
    let mut asleep = both.one.submit(&both.key, "first").await.unwrap().stream().unwrap();
    until(&mut asleep, runs).await;
    std::mem::forget(asleep);
    // Its owner is gone; what people write is kept.
    let steering = Submission::new("with care").steering();
    both.two.post_message(&both.key, steering).await.unwrap();
    both.two.post_message(&both.key, Submission::new("second")).await.unwrap();
    both.hand.forward(60_000);
    let claimable = both.store.claimable(both.hand.clock().now(), 10).await.unwrap();
    assert_eq!(claimable, std::slice::from_ref(&both.key));
    let events = drain(both.two.work(&both.key).stream().unwrap()).await;
    assert!(matches!(last_kind(&events), EventKind::TurnCompleted { .. }), "{events:?}");
    check_session(&both.two, &both.key).await;
    let texts: Vec<_> =
        assistant_messages(&*both.store, &both.key).await.iter().map(|m| m.text()).collect();
    assert_eq!(texts, ["First, with care.", "Second."]);
    assert_eq!(both.store.session(&both.key).await.unwrap().pending, 0);
}

#[tokio::test]
async fn a_stop_that_was_posted_while_nobody_was_there_stops_the_turn() {
    let both = Two::new(by_request(vec![calling(&[("w", "wait", "{}")])])).await;
    let mut asleep = both.one.submit(&both.key, "first").await.unwrap().stream().unwrap();
    until(&mut asleep, runs).await;
    std::mem::forget(asleep);
    both.hand.forward(60_000);
    let events = drain(both.two.stop(&both.key, None).await.unwrap().stream().unwrap()).await;
    check_session(&both.two, &both.key).await;
    let row = both.store.session(&both.key).await.unwrap();
    assert_eq!((row.pending, row.turn), (0, None));
    // The model may have been quicker than the stop; either way the turn is over and nothing was said twice.
    let ended = matches!(
        last_kind(&events),
        EventKind::TurnAborted { .. } | EventKind::TurnCompleted { .. }
    );
    assert!(ended, "{events:?}");
}

#[tokio::test]
async fn an_agent_that_is_gone_after_a_crash_ends_the_turn_in_words() {
    let both = Two::new(by_request(script())).await;
    say(&both.one, &both.key, "Book the blue room and pay for it.").await;
    let cards = pending_cards(&*both.store, &both.key).await;
    let other = [turnbuckle_engine::Agent::builder("another").build().unwrap()];
    let later = builder(Arc::new(by_request(script())), &both.world, other)
        .shared_store(both.store.clone())
        .name("three")
        .build()
        .unwrap();
    let decided = later.decide(&both.key, &cards[0], approve(), None).await.unwrap();
    let events = drain(decided.stream().unwrap()).await;
    let EventKind::TurnError { error, .. } = last_kind(&events) else { panic!("{events:?}") };
    assert!(error.to_string().contains("there is no agent `main`"), "{error}");
    check_session(&later, &both.key).await;
    assert_eq!(both.world.count("pay"), 0);
}

#[tokio::test]
async fn a_store_without_the_session_says_so() {
    let engine = process(Arc::new(MemoryStore::new()), &World::default(), &Ids::default());
    let key = SessionKey::new("acme", "s_none");
    let refused = engine.submit(&key, "hello").await;
    assert!(matches!(refused, Err(EngineError::Store(StoreError::NotFound { what: "session" }))));
    let events = drain(engine.work(&key).stream().unwrap()).await;
    let EventKind::TurnError { error, .. } = last_kind(&events) else { panic!("{events:?}") };
    assert!(error.to_string().contains("no such session"), "{error}");
}
