//! Making conversations fit: what summaries are made of and what they cost, examples, and servers that take less than is known
//! of their model.

use super::common::*;
use super::is_summary;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use turnbuckle_core::error::{ModelError, ModelErrorKind};
use turnbuckle_core::event::{Event, EventKind};
use turnbuckle_core::ids::AgentName;
use turnbuckle_core::machine::Routes;
use turnbuckle_core::model::{Block, ModelRequest, ModelResponse};
use turnbuckle_core::outcome::{Outcome, TurnError};
use turnbuckle_core::part::NativeBlock;
use turnbuckle_core::transcript::Item;
use turnbuckle_core::usage::Purpose;
use turnbuckle_engine::tool::Resources;
use turnbuckle_engine::{Agent, Agents, Domain, drain};
use turnbuckle_models::TokenMeter;
use turnbuckle_models::catalogue::TokenizerFamily;
use turnbuckle_models::scripted::{Scripted, ScriptedModel, text};
use turnbuckle_store::MemoryStore;
use turnbuckle_store::conformance::{FaultStore, Op};
use turnbuckle_testkit::Gate;

fn listener() -> Agent {
    Agent::builder("main").instructions("You listen.").build().unwrap()
}

/// A numbered message of about so many bytes, of which a token has nearly eight.
fn message(n: usize, bytes: usize) -> String {
    format!("Message {n}: {}", "nothing ".repeat(bytes / 8))
}

fn completed(events: &[Event]) -> bool {
    matches!(last_kind(events), EventKind::TurnCompleted { .. })
}

/// What was to be summarised, each time.
fn summarised(bench: &Bench) -> Vec<String> {
    let requests = bench.model.requests();
    requests.iter().filter(|r| is_summary(r)).map(|r| user_texts(r)[0].clone()).collect()
}

/// A model of 3,000 tokens that says `answer` to everything, and summaries as `summary` words the n-th.
fn cramped(answer: &str, summary: impl Fn(usize) -> String + Send + 'static) -> ScriptedModel {
    cramped_by(text(answer), summary)
}

fn cramped_by(
    answer: ModelResponse,
    summary: impl Fn(usize) -> String + Send + 'static,
) -> ScriptedModel {
    let mut summaries = 0;
    let model = ScriptedModel::from_fn("m", move |request| {
        if is_summary(request) {
            summaries += 1;
            return text(&summary(summaries)).into();
        }
        answer.clone().into()
    });
    model.with_window(3_000, 375)
}

/// A summary stands for its range for good, so the one after it is made from all of it, and of everything since.
#[tokio::test]
async fn a_second_summary_is_made_of_the_whole_first_one_and_of_what_followed_from_its_beginning() {
    let words =
        |n: usize| format!("SUMMARY {n} BEGINS {} SUMMARY {n} ENDS", "nothing ".repeat(400));
    let bench = Bench::of(cramped("Noted.", words), [listener()], |b| b);
    let key = bench.session().await;
    let mut said = 0;
    while summarised(&bench).len() < 3 {
        assert!(said < 60, "nothing is summarised");
        let events = bench.say(&key, message(said, 1_400).as_str()).await;
        assert!(completed(&events), "{events:?}");
        said += 1;
    }
    let prompts = summarised(&bench);
    // Each message is in exactly one of them, in its order.
    let mut next = 0;
    for (n, prompt) in prompts.iter().enumerate() {
        for earlier in 1..=n {
            assert_eq!(prompt.contains(&words(earlier)), earlier == n, "{n}: {prompt}");
        }
        while prompt.contains(&format!("Message {next}:")) {
            next += 1;
        }
        assert!(!prompt.contains(&format!("Message {}:", next + 1)), "{n}: {prompt}");
    }
    assert!(said - next <= 5, "{next} of {said}");
    bench.check(&key).await;
}

fn purposes(message: &turnbuckle_core::message::AssistantMessage) -> Vec<Purpose> {
    message.iterations.iter().map(|i| i.purpose).collect()
}

/// A summary may be written and still not be enough. It was paid for, and the next turn begins with it.
#[tokio::test]
async fn a_summary_that_was_not_enough_is_billed_and_kept() {
    // The provider knows the answer by its id, so it can neither be shortened nor, being among the newest, be summarised.
    let native = NativeBlock {
        wire: "w".into(),
        provider: "scripted".into(),
        model: "m".into(),
        data: json!({"id": "msg_1"}).into(),
    };
    let said = Block::Text { text: "nothing ".repeat(2_000), native: Some(native.into()) };
    let answer = ModelResponse { blocks: vec![said], ..text("") };
    let bench = Bench::of(cramped_by(answer, |n| format!("SUMMARY {n}")), [listener()], |b| b);
    let key = bench.session().await;
    assert!(completed(&bench.say(&key, "one").await));
    let model = &bench.model;
    let events = bench.say(&key, "two").await;
    let EventKind::TurnError { error, .. } = last_kind(&events) else { panic!("{events:?}") };
    assert!(matches!(error, TurnError::ContextOverflow { .. }), "{error:?}");
    assert_eq!(summarised(&bench).len(), 1);
    let failed = bench.message(&key).await;
    assert_eq!(purposes(&failed), [Purpose::Summary]);
    assert_eq!(failed.iterations[0].usage.input, Some(10));
    let before = model.requests().len();
    assert!(completed(&bench.say(&key, "three").await));
    let first = &user_texts(&model.requests()[before])[0];
    assert!(first.contains("SUMMARY 1") && !first.contains("User: one"), "{first}");
    bench.check(&key).await;
}

/// A summary may be there while the turn waits for its store, and a stop is heard before it. It was paid for.
#[tokio::test]
async fn a_summary_that_nobody_came_to_use_is_billed_as_it_was_reported() {
    let (gate, asked) = (Gate::new(), Gate::new());
    let (held, asking) = (gate.clone(), asked.clone());
    let model = ScriptedModel::from_fn("m", move |request| {
        if !is_summary(request) {
            return text("Noted.").into();
        }
        let (held, asking) = (held.clone(), asking.clone());
        Scripted::from(text("SUMMARY")).after(move || {
            let held = held.clone();
            asking.open();
            async move { held.wait().await }
        })
    });
    let store = FaultStore::with_connections(1, MemoryStore::new());
    let kept = store.clone();
    let bench = Bench::of(model.with_window(3_000, 375), [listener()], |b| b.store(kept));
    let key = bench.session().await;
    let mut said = 0;
    let (stream, said) = loop {
        let stream = bench.engine.submit(&key, message(said, 1_400).as_str()).await.unwrap();
        let mut stream = stream.stream().unwrap();
        said += 1;
        let drained = async {
            use futures_util::StreamExt;
            while stream.next().await.is_some() {}
        };
        tokio::select! {
            () = drained => {}
            () = asked.wait() => break (stream, said),
        }
        assert!(said < 60, "nothing is summarised");
    };
    let stopper = stream.stopper();
    let turn = tokio::spawn(drain(stream));
    // The driver asks for its inbox and has to wait for the only connection.
    let connection = store.connection().await;
    let inboxes = || store.calls().iter().filter(|call| **call == Op::Inbox).count();
    let before = inboxes();
    bench.engine.knock(&key);
    while inboxes() == before {
        tokio::task::yield_now().await;
    }
    gate.open();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    stopper.stop();
    drop(connection);
    let events = turn.await.unwrap();
    assert!(matches!(last_kind(&events), EventKind::TurnAborted { .. }), "{events:?}");
    let stopped = bench.message(&key).await;
    assert_eq!(purposes(&stopped), [Purpose::Summary]);
    assert_eq!(
        (stopped.iterations[0].usage.input, stopped.iterations[0].estimated),
        (Some(10), false)
    );
    assert_eq!(assistant_messages(&*bench.store, &key).await.len(), said);
    bench.check(&key).await;
}

/// Whoever answers first, each agent reads its own examples.
struct Shop(Agents);

impl Domain for Shop {
    fn agents(&self) -> &BTreeMap<AgentName, Arc<Agent>> {
        self.0.agents()
    }

    fn resources(&self) -> Resources {
        self.0.resources()
    }

    fn routes(&self, _: &AgentName) -> Routes {
        let sales = ["seller", "closer"].map(AgentName::from).to_vec();
        Routes {
            supervisor: Some("boss".into()),
            routes: BTreeMap::from([("sales".to_owned(), sales)]),
            default: "sales".into(),
        }
    }
}

fn example(of: &str) -> Vec<Item> {
    vec![Item::user(format!("An example for the {of}."))]
}

#[tokio::test]
async fn each_agent_of_a_route_has_the_examples_that_are_its_own() {
    let plain = |name: &str| Agent::builder(name).instructions(format!("You are {name}."));
    let agents = [
        plain("main").build().unwrap(),
        plain("boss").build().unwrap(),
        plain("seller").examples(example("seller")).build().unwrap(),
        plain("closer").examples(example("closer")).build().unwrap(),
    ];
    let route = r#"{"route": "sales", "reasoning": "they want to buy"}"#;
    let answers = [route, "A fine car.", "Sign here.", route, "Two cars?", "Sign twice."];
    let model = ScriptedModel::new("m", answers.map(text));
    let bench = Bench::with(model, |b| b.domain(Shop(Agents::new(agents))));
    let key = bench.session().await;
    bench.say(&key, "a car").await;
    bench.say(&key, "another").await;
    let seen: Vec<_> = bench.model.requests().iter().map(user_texts).collect();
    let example = |of: &str| format!("An example for the {of}.");
    let leading: Vec<_> = seen.iter().map(|texts| texts[0].clone()).collect();
    let (seller, closer) = (example("seller"), example("closer"));
    let first = "a car".to_owned();
    let one = [first, seller, closer];
    assert_eq!(leading, [one.clone(), one].concat());
    // They are in no other's.
    let all = seen.iter().flatten().filter(|text| text.starts_with("An example"));
    assert_eq!(all.count(), 4);
    bench.check(&key).await;
}

/// The requests for answers.
fn steps(bench: &Bench) -> Vec<ModelRequest> {
    bench.model.requests().into_iter().filter(|r| !is_summary(r)).collect()
}

/// Nobody said what is in an example, so no summary tells of it, and none takes its place. It takes room all the same.
#[tokio::test]
async fn examples_stay_before_a_summary_and_are_never_part_of_one() {
    let words = format!("An example. {}", "nothing ".repeat(500));
    let examples = vec![Item::user(words.as_str())];
    let agent = Agent::builder("main").instructions("You listen.").examples(examples);
    let model = cramped("Noted.", |n| format!("SUMMARY {n}"));
    let bench = Bench::of(model, [agent.build().unwrap()], |b| b);
    let key = bench.session().await;
    for n in 0..40 {
        let events = bench.say(&key, message(n, 1_000).as_str()).await;
        assert!(completed(&events), "{events:?}");
        if summarised(&bench).len() >= 2 {
            break;
        }
    }
    let prompts = summarised(&bench);
    assert_eq!(prompts.len(), 2);
    assert!(prompts.iter().all(|p| !p.contains("An example")), "{prompts:?}");
    let meter = TokenMeter::new("m", TokenizerFamily::Unknown);
    for request in steps(&bench) {
        assert_eq!(user_texts(&request)[0], words);
        assert!(meter.count(&request).at_most() <= 3_000 - 375);
    }
    assert!(user_texts(&bench.last_request())[1].contains("SUMMARY 2"));
    // Another process goes on from what is stored.
    bench.say(&key, "And?").await;
    let seen = user_texts(&bench.last_request());
    assert_eq!(seen[0], words);
    assert!(seen[1].contains("SUMMARY 2"), "{seen:?}");
    bench.check(&key).await;
}

fn notes(events: &[Event]) -> Vec<String> {
    let notes = events.iter().filter_map(|e| match &e.kind {
        EventKind::ContextCompacted { note, .. } => Some(note.clone()),
        _ => None,
    });
    notes.collect()
}

/// A server with a window of a few thousand bytes under a model of which 128,000 tokens are known.
fn small_server(bytes: usize) -> ScriptedModel {
    let mut summaries = 0;
    ScriptedModel::from_fn("m", move |request| {
        if items(request).iter().map(|item| item.size().bytes).sum::<u64>() > bytes as u64 {
            let message = "the request exceeds the available context size";
            return ModelError::new(ModelErrorKind::ContextOverflow, message).into();
        }
        if is_summary(request) {
            summaries += 1;
            return text(&format!("SUMMARY {summaries}")).into();
        }
        text("Noted.").into()
    })
    .with_window(128_000, 4_000)
}

#[tokio::test]
async fn a_session_outgrows_a_server_that_takes_less_than_is_known_of_its_model_and_goes_on() {
    let bench = Bench::of(small_server(8_000), [listener()], |b| b);
    let key = bench.session().await;
    let mut told = Vec::new();
    for n in 0..30 {
        let events = bench.say(&key, message(n, 700).as_str()).await;
        assert!(completed(&events), "{n}: {events:?}");
        told.extend(notes(&events));
    }
    assert_eq!(summarised(&bench).len(), told.len());
    assert!((2..=10).contains(&told.len()), "{told:?}");
    let note = "The provider found the request too long. To fit the model's window, the older part of the conversation was \
                summarised.";
    assert!(told.iter().all(|t| t == note), "{told:?}");
    bench.check(&key).await;
}

/// It is made shorter once for each call; what is refused even so is the end of the turn, in the provider's words.
#[tokio::test]
async fn what_is_refused_once_more_ends_the_turn() {
    let model = ScriptedModel::from_fn("m", |request| {
        if is_summary(request) {
            return text("SUMMARY").into();
        }
        match user_texts(request).len() {
            1..=8 => text("Noted.").into(),
            _ => ModelError::new(ModelErrorKind::ContextOverflow, "no more than that").into(),
        }
    });
    let never = ScriptedModel::from_fn("m", |request| match is_summary(request) {
        true => text("SUMMARY").into(),
        false => match user_texts(request).last().unwrap().starts_with("Message 8") {
            true => ModelError::new(ModelErrorKind::ContextOverflow, "no more than that").into(),
            false => text("Noted.").into(),
        },
    });
    for (model, ends) in [(model, false), (never, true)] {
        let bench = Bench::of(model, [listener()], |b| b);
        let key = bench.session().await;
        for n in 0..8 {
            bench.say(&key, message(n, 500).as_str()).await;
        }
        let events = bench.say(&key, message(8, 500).as_str()).await;
        assert_eq!(notes(&events).len(), 1);
        assert_eq!(steps(&bench).len(), 10);
        match last_kind(&events) {
            EventKind::TurnError { error: TurnError::ContextOverflow { message }, .. } => {
                assert!(ends && message.contains("no more than that"), "{message}");
            }
            other => assert!(
                !ends && outcome(&bench.message(&key).await) == Outcome::Completed,
                "{other:?}"
            ),
        }
        bench.check(&key).await;
        assert!(completed(&bench.say(&key, "Short.").await));
    }
}

/// It is among the newest, which always stay: so it is shortened, as anything else that is too long by itself.
#[tokio::test]
async fn an_answer_longer_than_the_window_is_in_the_way_of_no_message() {
    let answer = message(0, 60_000);
    let bench = Bench::of(cramped(&answer, |n| format!("SUMMARY {n}")), [listener()], |b| b);
    let key = bench.session().await;
    bench.say(&key, "Tell me all.").await;
    for n in 0..3 {
        let events = bench.say(&key, "And then?").await;
        assert!(completed(&events), "{n}: {events:?}");
        let told = notes(&events);
        assert!(told[0].contains("very long texts were shortened"), "{told:?}");
    }
    let meter = TokenMeter::new("m", TokenizerFamily::Unknown);
    for request in steps(&bench) {
        assert!(meter.count(&request).at_most() <= 3_000 - 375);
    }
    let stored = assistant_messages(&*bench.store, &key).await;
    assert!(stored.iter().all(|message| message.text() == answer), "what is stored stays whole");
    bench.check(&key).await;
}
