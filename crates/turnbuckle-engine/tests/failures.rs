//! Kinds of failure that other systems have been seen to have, through the whole engine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;
mod fitting;

use common::*;
use serde_json::json;
use turnbuckle_core::error::{ModelError, ModelErrorKind};
use turnbuckle_core::event::EventKind;
use turnbuckle_core::limits::TurnLimits;
use turnbuckle_core::machine::Decision;
use turnbuckle_core::message::Message;
use turnbuckle_core::model::ModelRequest;
use turnbuckle_core::outcome::{ExhaustedReason, Outcome, TurnError};
use turnbuckle_core::transcript::Item;
use turnbuckle_core::usage::{FinishReason, Usage};
use turnbuckle_engine::tool::{Approval, FnTool, ToolContext, ToolContract};
use turnbuckle_engine::{Agent, drain};
use turnbuckle_models::scripted::{Scripted, ScriptedModel, calls as calling, text};
use turnbuckle_store::{Post, Posted, SessionKey};

fn is_summary(request: &ModelRequest) -> bool {
    request.system.first().is_some_and(|b| b.text.starts_with("Summarise"))
}

/// Gives 700 words.
fn fill() -> FnTool {
    let contract = ToolContract::new("fill").description("Gives much.");
    FnTool::typed(contract, async |args: Key, _: ToolContext| {
        Ok::<_, String>(format!("{} ", args.key).repeat(700))
    })
}

/// A model with room for some 6,000 tokens that calls `fill` so often, one call after the other.
fn filling(times: usize, summary: impl Fn(usize) -> Scripted + Send + 'static) -> Bench {
    filling_within(TurnLimits::default(), times, summary)
}

fn filling_within(
    limits: TurnLimits,
    times: usize,
    summary: impl Fn(usize) -> Scripted + Send + 'static,
) -> Bench {
    let (mut summaries, mut filled) = (0, 0);
    let model = ScriptedModel::from_fn("m", move |request| {
        if is_summary(request) {
            summaries += 1;
            return summary(summaries);
        }
        filled += 1;
        match filled <= times {
            true => {
                calling(&[("f", "fill", &json!({"key": filled.to_string()}).to_string())]).into()
            }
            false => text("Full.").into(),
        }
    })
    .with_window(6_000, 500);
    let agent = Agent::builder("main").instructions("You fill.").tool(fill()).build().unwrap();
    Bench::of(model, [agent], |b| b.limits(limits))
}

/// The room is measured before every model call, not only at the start of a turn.
#[tokio::test]
async fn a_tool_loop_that_outgrows_the_window_is_made_to_fit_in_the_middle_of_the_turn() {
    let bench = filling(8, |n| text(&format!("SUMMARY {n}")).into());
    let key = bench.session().await;
    let events = bench.say(&key, "fill it").await;
    assert!(matches!(last_kind(&events), EventKind::TurnCompleted { .. }), "{events:?}");
    let compacted = events.iter().filter(|e| matches!(e.kind, EventKind::ContextCompacted { .. }));
    assert!(compacted.count() > 0);
    assert_eq!(bench.message(&key).await.calls().count(), 8);
    assert!(user_texts(&bench.last_request()).iter().any(|t| t.contains("SUMMARY")));
    bench.check(&key).await;
}

/// A summary that does not fit either is tried twice in a turn, the second time much smaller. Then old results give way,
/// before that step and before every later one.
#[tokio::test]
async fn a_summary_that_overflows_is_tried_twice_in_a_turn_and_old_results_give_way() {
    let bench = filling(8, too_long);
    let key = bench.session().await;
    let events = bench.say(&key, "fill it").await;
    assert!(matches!(last_kind(&events), EventKind::TurnCompleted { .. }), "{events:?}");
    assert_eq!(bench.message(&key).await.calls().count(), 8);
    let prompts = summary_prompts(&bench);
    let [large, small] = prompts[..] else { panic!("{prompts:?}") };
    assert!(small * 2 < large, "{prompts:?}");
    assert_eq!(bench.model.requests().len(), 9 + 2);
    let notes: Vec<_> = events
        .iter()
        .filter_map(|e| match &e.kind {
            EventKind::ContextCompacted { note, .. } => Some(note.as_str()),
            _ => None,
        })
        .collect();
    let dropped = "the oldest tool results were left out.";
    assert_eq!(
        notes[0],
        format!("To fit the model's window, a summary could not be made, and {dropped}")
    );
    assert!(notes.len() > 1, "{notes:?}");
    for later in &notes[1..] {
        assert_eq!(*later, format!("To fit the model's window, {dropped}"));
    }
    bench.check(&key).await;
}

fn too_long(_: usize) -> Scripted {
    ModelError::new(ModelErrorKind::ContextOverflow, "too long").into()
}

/// The sizes of what was to be summarised.
fn summary_prompts(bench: &Bench) -> Vec<usize> {
    let requests = bench.model.requests();
    requests.iter().filter(|r| is_summary(r)).map(|r| user_texts(r)[0].len()).collect()
}

/// Summaries are model calls of the turn, those that fail included: it never makes more than one beyond its limit.
#[tokio::test]
async fn summaries_that_fail_spend_the_turns_model_calls() {
    for (most, summaries) in [(8, 2), (7, 1), (6, 0)] {
        let limits = TurnLimits { max_model_calls: most, ..TurnLimits::default() };
        let bench = filling_within(limits, 8, too_long);
        let key = bench.session().await;
        let events = bench.say(&key, "fill it").await;
        let reason = ExhaustedReason::MaxIterations;
        assert_eq!(
            outcome(&bench.message(&key).await),
            Outcome::Exhausted { reason },
            "{events:?}"
        );
        assert_eq!(summary_prompts(&bench).len(), summaries);
        assert_eq!(bench.model.requests().len(), most as usize + 1);
        bench.check(&key).await;
    }
}

/// A request that no measure makes fit ends the turn with a word, and the session takes the next message.
#[tokio::test]
async fn what_the_provider_finds_too_long_is_a_clear_end_and_no_loop() {
    let bench = Bench::script([
        Scripted::from(ModelError::new(ModelErrorKind::ContextOverflow, "maximum context length")),
        text("Short is fine.").into(),
    ]);
    let key = bench.session().await;
    let events = bench.say(&key, "long").await;
    let EventKind::TurnError { error, .. } = last_kind(&events) else { panic!("{events:?}") };
    let TurnError::ContextOverflow { message } = error else { panic!("{error:?}") };
    assert!(message.contains("maximum context length"), "{message}");
    assert_eq!(bench.model.requests().len(), 1);
    bench.say(&key, "short").await;
    assert_eq!(bench.message(&key).await.text(), "Short is fine.");
}

/// What was streamed before a stop was paid for; where the provider did not come to say how much, it is estimated.
#[tokio::test]
async fn an_answer_that_is_stopped_is_billed_as_an_estimate() {
    let bench = Bench::script([Scripted::Hang(text("It is a truth universally acknowledged"))]);
    let key = bench.session().await;
    let mut stream = bench.engine.submit(&key, "go on").await.unwrap().stream().unwrap();
    until(&mut stream, |k| matches!(k, EventKind::TextDelta { .. })).await;
    stream.stop();
    let events = drain(stream).await;
    let message = bench.message(&key).await;
    let [call] = &message.iterations[..] else { panic!("{message:?}") };
    assert!(call.estimated);
    assert_eq!(call.finish, None);
    assert!(call.usage.output.unwrap() > 3 && call.usage.input.unwrap() > 3, "{call:?}");
    let EventKind::TurnAborted { usage, .. } = last_kind(&events) else { panic!("{events:?}") };
    assert_eq!(**usage, call.usage);
    bench.check(&key).await;
}

/// A provider that says nothing of tokens gives an estimate that is marked as one, never nothing.
#[tokio::test]
async fn usage_that_was_not_reported_is_estimated_and_says_so() {
    let mut silent = text("Hello there.");
    silent.usage = Usage::default();
    let bench = Bench::script([silent]);
    let key = bench.session().await;
    bench.say(&key, "hi").await;
    let message = bench.message(&key).await;
    let call = &message.iterations[0];
    assert!(call.estimated && call.usage.output.unwrap() > 0, "{call:?}");
    assert_eq!(call.finish, Some(FinishReason::Stop));
}

/// The person's message is stored before the model is asked, so no failure of the call loses it.
#[tokio::test]
async fn a_message_is_stored_before_the_model_is_asked() {
    let bench = Bench::script([Scripted::Hang(text("Well"))]);
    let key = bench.session().await;
    let mut stream = bench.engine.submit(&key, "remember me").await.unwrap().stream().unwrap();
    until(&mut stream, |k| matches!(k, EventKind::TextDelta { .. })).await;
    let stored = messages(&*bench.store, &key).await;
    let [Message::User(user)] = &stored[..] else { panic!("{stored:?}") };
    assert_eq!(user.content.text(), "remember me");
    stream.abandon();
}

/// An approved action whose turn then fails stays done: its result is stored, and nothing runs it again.
#[tokio::test]
async fn an_approved_action_survives_the_failure_of_the_rest_of_its_turn() {
    let bench = Bench::script([
        Scripted::from(calling(&[("p", "pay", r#"{"amount": 5}"#)])),
        ModelError::new(ModelErrorKind::Auth, "the key was revoked").into(),
        text("It is paid.").into(),
    ]);
    let key = bench.session().await;
    bench.say(&key, "pay").await;
    let card = pending_cards(&*bench.store, &key).await.remove(0);
    let decided = bench.engine.decide(&key, &card, approve(), None).await.unwrap();
    let events = drain(decided.stream().unwrap()).await;
    assert!(matches!(last_kind(&events), EventKind::TurnError { .. }), "{events:?}");
    let message = bench.message(&key).await;
    assert_eq!(the_call(&message).output.as_deref(), Some(&json!({"paid": 5})));
    bench.say(&key, "and?").await;
    let seen = items(&bench.last_request());
    let Item::ToolResults { results } = &seen[2] else { panic!("{seen:#?}") };
    assert_eq!(results[0].content, r#"{"paid":5}"#);
    assert_eq!(bench.world.count("pay"), 1);
    bench.check(&key).await;
}

/// What a person says beside a decision reaches the tool, and only an explicit approval is one.
#[tokio::test]
async fn the_words_of_whoever_approves_reach_the_tool() {
    let contract = ToolContract::new("sign").description("Signs.").approval(Approval::Always);
    let sign = FnTool::without_args(contract, async |ctx: ToolContext| {
        Ok::<_, String>(json!({"because": ctx.approval_reason()}))
    });
    let model = ScriptedModel::new("m", [calling(&[("s", "sign", "{}")]), text("Signed.")]);
    let bench = Bench::of(model, [agent("main").tool(sign).build().unwrap()], |b| b);
    let key = bench.session().await;
    bench.say(&key, "sign").await;
    let card = pending_cards(&*bench.store, &key).await.remove(0);
    for not_approval in [json!(null), json!({}), json!({"decision": "maybe"}), json!("approve")] {
        assert!(serde_json::from_value::<Decision>(not_approval).is_err());
    }
    let decision = json!({"decision": "approve", "reason": "the board agreed"});
    let decision: Decision = serde_json::from_value(decision).unwrap();
    let decided = bench.engine.decide(&key, &card, decision, None).await.unwrap();
    drain(decided.stream().unwrap()).await;
    let message = bench.message(&key).await;
    let expected = json!({"because": "the board agreed"});
    assert_eq!(the_call(&message).output.as_deref(), Some(&expected));
}

async fn post_stop(bench: &Bench, key: &SessionKey, turn: &str) {
    let input = Posted::Stop { turn: Some(turn.into()), by: None };
    let post = Post { key: key.clone(), idempotency_key: None, input, now: NOW };
    bench.store.post(post).await.unwrap();
}

/// A stop names the turn that is meant; one that is meant for another turn stops nothing.
#[tokio::test]
async fn a_stop_stops_the_turn_it_names_and_no_other() {
    let bench = Bench::script([calling(&[("w", "wait", "{}")]), text("Through.")]);
    let key = bench.session().await;
    let mut stream = bench.engine.submit(&key, "wait").await.unwrap().stream().unwrap();
    until(&mut stream, runs).await;
    post_stop(&bench, &key, "t_of_yesterday").await;
    bench.engine.knock(&key);
    bench.world.gate.open();
    let events = drain(stream).await;
    assert!(matches!(last_kind(&events), EventKind::TurnCompleted { .. }), "{events:?}");
    assert_eq!(bench.store.session(&key).await.unwrap().pending, 0);
    assert_eq!(outcome(&bench.message(&key).await), Outcome::Completed);
    bench.check(&key).await;
}
