//! Making conversations fit: what summaries are made of and what they cost, examples, and servers that take less than is known
//! of their model.

use super::common::*;
use super::is_summary;
use turnbuckle_core::event::{Event, EventKind};
use turnbuckle_core::outcome::TurnError;
use turnbuckle_core::usage::Purpose;
use turnbuckle_engine::{Agent, drain};
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
fn cramped(
    answer: &'static str,
    summary: impl Fn(usize) -> String + Send + 'static,
) -> ScriptedModel {
    let mut summaries = 0;
    let model = ScriptedModel::from_fn("m", move |request| {
        if is_summary(request) {
            summaries += 1;
            return text(&summary(summaries)).into();
        }
        text(answer).into()
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
    let long: &'static str = Box::leak("nothing ".repeat(2_000).into_boxed_str());
    let bench = Bench::of(cramped(long, |n| format!("SUMMARY {n}")), [listener()], |b| b);
    let key = bench.session().await;
    assert!(completed(&bench.say(&key, "one").await));
    // The answer of the model is its own, and so it can neither be shortened nor, being among the newest, be summarised.
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
