//! What the hooks of an agent decide, through the whole engine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod calls;
#[path = "../common/mod.rs"]
mod common;
mod panics;
mod prompt;

use common::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use turnbuckle_core::error::{ModelError, ModelErrorKind, ToolErrorCode};
use turnbuckle_core::event::EventKind;
use turnbuckle_core::ids::{AgentName, ToolName};
use turnbuckle_core::limits::AgentLimits;
use turnbuckle_core::machine::{DataPolicy, FinalChanges, Keep, KeepTools};
use turnbuckle_core::message::AssistantMessage;
use turnbuckle_core::model::{Block, ModelRef, ModelResponse, ToolChoice};
use turnbuckle_core::outcome::{AbortReason, ExhaustedReason, Outcome, TurnError};
use turnbuckle_core::part::{InputKind, Part};
use turnbuckle_core::transcript::Item;
use turnbuckle_engine::agent::{AgentHooks, Flow, NoToolCalls, OnNoToolCalls, SendTools, StepView};
use turnbuckle_engine::pipeline::Hooks;
use turnbuckle_engine::runtime::Models;
use turnbuckle_engine::tool::Resources;
use turnbuckle_engine::{Agent, Agents, Domain, DomainTurn, TurnInfo, drain};
use turnbuckle_models::scripted::{Scripted, ScriptedModel, calls as calling, text};

/// What hooks saw, in order.
#[derive(Clone)]
struct Seen<T>(Arc<Mutex<Vec<T>>>);

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Clone> Seen<T> {
    fn note(&self, what: T) {
        self.0.lock().unwrap().push(what);
    }

    fn all(&self) -> Vec<T> {
        self.0.lock().unwrap().clone()
    }
}

/// An agent with all tools and these hooks, and a model that answers like this.
fn hooked<S: Into<Scripted>>(
    hooks: impl AgentHooks + 'static,
    answers: impl IntoIterator<Item = S>,
) -> Bench {
    limited(AgentLimits::default(), hooks, answers)
}

fn limited<S: Into<Scripted>>(
    limits: AgentLimits,
    hooks: impl AgentHooks + 'static,
    answers: impl IntoIterator<Item = S>,
) -> Bench {
    let agent = agent("main").limits(limits).hooks(hooks).build().unwrap();
    Bench::of(ScriptedModel::new("m", answers), [agent], |b| b)
}

fn looks_up(key: &str) -> ModelResponse {
    calling(&[("l", "look_up", &json!({ "key": key }).to_string())])
}

/// How many tools each request offered.
fn offered(bench: &Bench) -> Vec<bool> {
    bench.model.requests().iter().map(|r| !r.tools.specs.is_empty()).collect()
}

/// Each call with its error, if it failed.
fn made(message: &AssistantMessage) -> Vec<(&str, Option<ToolErrorCode>)> {
    message.calls().map(|c| (c.name.as_str(), c.error.as_ref().map(|e| e.code))).collect()
}

fn put_in(message: &AssistantMessage) -> Vec<(InputKind, String)> {
    let inputs = message.parts.iter().filter_map(|part| match part {
        Part::Input(input) => Some((input.kind, input.content.text().into_owned())),
        _ => None,
    });
    inputs.collect()
}

/// Withholds the tools from the agent's first call.
struct WithheldAtFirst;

impl AgentHooks for WithheldAtFirst {
    fn should_send_tools(&self, step: &StepView<'_>) -> SendTools {
        if step.calls_made == 0 { SendTools::No } else { SendTools::Yes }
    }
}

#[tokio::test]
async fn a_tool_that_was_withheld_from_one_call_does_not_run_and_is_there_in_the_next() {
    let answers = [looks_up("early"), looks_up("late"), text("Found.")];
    let bench = hooked(WithheldAtFirst, answers);
    let key = bench.session().await;
    bench.say(&key, "go").await;
    bench.check(&key).await;
    let message = bench.message(&key).await;
    assert_eq!(outcome(&message), Outcome::Completed);
    assert_eq!(offered(&bench), [false, true, true]);
    assert_eq!(
        made(&message),
        [("look_up", Some(ToolErrorCode::NotAdvertised)), ("look_up", None)]
    );
    assert_eq!(bench.world.all(), ["look_up late"]);
    // The model is told with the result, and once more in words.
    let request = bench.model.requests().swap_remove(1);
    let Item::ToolResults { results } = items(&request).swap_remove(2) else { panic!() };
    assert!(
        results[0].is_error && results[0].content.contains("No tools were offered"),
        "{results:?}"
    );
    let told = put_in(&message);
    assert_eq!(told.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [InputKind::Nudge]);
}

/// What the journal says is what was decided, whatever the hooks would say when the turn is taken up again.
#[tokio::test]
async fn a_refusal_of_withheld_tools_holds_when_another_process_takes_the_turn_up() {
    let answers = [looks_up("early"), calling(&[("p", "pay", r#"{"amount": 5}"#)]), text("Paid.")];
    let bench = hooked(WithheldAtFirst, answers);
    let key = bench.session().await;
    bench.say(&key, "go").await;
    let other = builder(bench.model.clone(), &bench.world, [agent("main").build().unwrap()])
        .shared_store(bench.store.clone())
        .name("two")
        .build()
        .unwrap();
    let card = pending_cards(&*bench.store, &key).await.remove(0);
    drain(other.decide(&key, &card, approve(), None).await.unwrap().stream().unwrap()).await;
    let message = bench.message(&key).await;
    assert_eq!(outcome(&message), Outcome::Completed);
    assert_eq!(made(&message), [("look_up", Some(ToolErrorCode::NotAdvertised)), ("pay", None)]);
    assert_eq!((bench.world.count("look_up"), bench.world.count("pay")), (0, 1));
    check_session(&other, &key).await;
}

/// Withholds the tools, notes why there are no calls, and has its own word.
struct NoCalls {
    tools: SendTools,
    word: OnNoToolCalls,
    seen: Seen<(u32, NoToolCalls)>,
}

impl AgentHooks for NoCalls {
    fn should_send_tools(&self, _: &StepView<'_>) -> SendTools {
        self.tools
    }

    fn on_no_tool_calls(
        &self,
        step: &StepView<'_>,
        reason: NoToolCalls,
        _: &ModelResponse,
    ) -> OnNoToolCalls {
        self.seen.note((step.iteration, reason));
        if step.calls_made == 0 { self.word.clone() } else { OnNoToolCalls::Finish }
    }
}

#[tokio::test]
async fn calls_of_withheld_tools_reach_the_hook_that_decides_about_answers_without_calls() {
    let run = async |word: OnNoToolCalls| {
        let seen = Seen::default();
        let hooks = NoCalls { tools: SendTools::No, word, seen: seen.clone() };
        let said = says_and_calls("I would look.", &[("l", "look_up", r#"{"key": "x"}"#)]);
        let bench = hooked(hooks, [said, text("As far as I know: no.")]);
        let key = bench.session().await;
        bench.say(&key, "go").await;
        bench.check(&key).await;
        let message = bench.message(&key).await;
        assert_eq!(outcome(&message), Outcome::Completed);
        assert_eq!(made(&message), [("look_up", Some(ToolErrorCode::NotAdvertised))]);
        assert_eq!(bench.world.all(), [] as [String; 0]);
        (seen.all(), put_in(&message), bench.model.requests().len())
    };
    use NoToolCalls::{NoneGenerated, ToolsDisabled};
    // The answer stands, although it asked for more.
    assert_eq!(run(OnNoToolCalls::Finish).await, (vec![(0, ToolsDisabled)], vec![], 1));
    let word = "Say it without looking.".to_owned();
    let told = vec![(InputKind::Nudge, word.clone())];
    let seen = vec![(0, ToolsDisabled), (1, NoneGenerated)];
    assert_eq!(run(OnNoToolCalls::Nudge(word)).await, (seen, told, 2));
}

#[tokio::test]
async fn an_answer_without_calls_may_be_asked_for_again() {
    let seen = Seen::default();
    let word = OnNoToolCalls::Nudge("Look it up first.".to_owned());
    let hooks = NoCalls { tools: SendTools::Yes, word, seen: seen.clone() };
    let bench = hooked(hooks, [text("It is so."), looks_up("x"), text("It is so, I looked.")]);
    let key = bench.session().await;
    bench.say(&key, "go").await;
    bench.check(&key).await;
    let message = bench.message(&key).await;
    assert_eq!(put_in(&message), [(InputKind::Nudge, "Look it up first.".to_owned())]);
    use NoToolCalls::NoneGenerated;
    assert_eq!(seen.all(), [(0, NoneGenerated), (2, NoneGenerated)]);
    assert_eq!(bench.world.all(), ["look_up x"]);
}

#[tokio::test]
async fn the_closing_answer_reaches_the_hook_as_one_at_the_limit_and_is_the_last() {
    let seen = Seen::default();
    let word = OnNoToolCalls::Nudge("Go on.".to_owned());
    let hooks = NoCalls { tools: SendTools::Yes, word, seen: seen.clone() };
    let limits = AgentLimits { max_iterations: 1, ..AgentLimits::default() };
    let bench = limited(limits, hooks, [looks_up("x"), text("So far: one.")]);
    let key = bench.session().await;
    bench.say(&key, "go").await;
    bench.check(&key).await;
    let reason = ExhaustedReason::MaxIterations;
    assert_eq!(outcome(&bench.message(&key).await), Outcome::Exhausted { reason });
    assert_eq!(seen.all(), [(1, NoToolCalls::LimitReached)]);
    assert_eq!(offered(&bench), [true, false]);
}

/// Ends the loop at the second answer, by one of its two ways.
struct Ends {
    by: fn(&str) -> bool,
    seen: Seen<(&'static str, u32, u32, u32)>,
}

impl Ends {
    fn flow(&self, by: &'static str, step: &StepView<'_>) -> Flow {
        self.seen.note((by, step.iteration, step.calls_made, step.tool_calls_made));
        if (self.by)(by) && step.calls_made == 1 { Flow::Stop } else { Flow::Continue }
    }
}

impl AgentHooks for Ends {
    fn should_continue(&self, step: &StepView<'_>, _: &ModelResponse) -> Flow {
        self.flow("should_continue", step)
    }

    fn process_tool_calls(&self, step: &StepView<'_>, answer: &ModelResponse) -> Flow {
        assert!(answer.blocks.iter().any(|b| matches!(b, Block::ToolCall { .. })));
        self.flow("process_tool_calls", step)
    }
}

#[tokio::test]
async fn hooks_end_the_loop_and_calls_of_the_last_answer_do_not_run() {
    let script =
        || [looks_up("one"), says_and_calls("That will do.", &[("b", "book", r#"{"room": "5"}"#)])];
    for by in ["should_continue", "process_tool_calls"] {
        let seen = Seen::default();
        let check: fn(&str) -> bool = match by {
            "should_continue" => |by| by == "should_continue",
            _ => |by| by == "process_tool_calls",
        };
        let bench = hooked(Ends { by: check, seen: seen.clone() }, script());
        let key = bench.session().await;
        bench.say(&key, "go").await;
        bench.check(&key).await;
        let message = bench.message(&key).await;
        assert_eq!(
            (outcome(&message), said(&message)),
            (Outcome::Completed, vec!["That will do."])
        );
        assert_eq!(made(&message), [("look_up", None), ("book", Some(ToolErrorCode::Cancelled))]);
        assert_eq!(bench.world.all(), ["look_up one"]);
        let mut expected = vec![
            ("should_continue", 0, 0, 0),
            ("process_tool_calls", 0, 0, 0),
            ("should_continue", 1, 1, 1),
        ];
        if by == "process_tool_calls" {
            expected.push(("process_tool_calls", 1, 1, 1));
        }
        assert_eq!(seen.all(), expected);
    }
}

/// A cheaper model once a call has failed, or from the second step on.
struct Cheaper(When);

type When = fn(&StepView<'_>) -> bool;

impl AgentHooks for Cheaper {
    fn select_model(&self, step: &StepView<'_>) -> Option<ModelRef> {
        (self.0)(step).then(|| ModelRef::new("scripted", "cheap"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_chooses_the_model_of_a_call() {
    let busy = || Scripted::from(ModelError::new(ModelErrorKind::Overloaded, "busy"));
    let cases: [(When, Vec<Scripted>, &[&str]); 3] = [
        (|_| false, vec![looks_up("x").into(), text("Found.").into()], &["dear", "dear"]),
        (|step| step.calls_made > 0, vec![looks_up("x").into()], &["dear", "cheap"]),
        (|step| step.attempt > 1, vec![busy()], &["cheap"]),
    ];
    for (when, script, answered) in cases {
        let dear = Arc::new(ScriptedModel::new("dear", script));
        let cheap = Arc::new(ScriptedModel::new("cheap", [text("Cheaply found.")]));
        let main = agent("main").hooks(Cheaper(when)).build().unwrap();
        let bench = Bench::of(ScriptedModel::new("unused", [text("")]), [main], |b| {
            b.models(Models::new(dear).and(cheap))
        });
        let key = bench.session().await;
        bench.say(&key, "go").await;
        check_session(&bench.engine, &key).await;
        let message = bench.message(&key).await;
        assert_eq!(outcome(&message), Outcome::Completed);
        let models: Vec<_> = message.iterations.iter().map(|i| i.model.as_str()).collect();
        assert_eq!(models, answered);
    }
}

#[tokio::test]
async fn a_model_that_a_hook_chooses_and_nobody_has_is_told() {
    struct Lost;
    impl AgentHooks for Lost {
        fn select_model(&self, _: &StepView<'_>) -> Option<ModelRef> {
            Some(ModelRef::new("scripted", "lost"))
        }
    }
    let bench = hooked(Lost, [text("Never asked.")]);
    let key = bench.session().await;
    let events = bench.say(&key, "go").await;
    let EventKind::TurnError { error: TurnError::Model(error), .. } = last_kind(&events) else {
        panic!("{events:?}")
    };
    assert_eq!(error.kind, ModelErrorKind::Config);
    assert!(error.message.contains("scripted:lost"), "{error}");
}

/// Forces a tool on the first call.
struct Forces(&'static str, SendTools);

impl AgentHooks for Forces {
    fn force_tool(&self, step: &StepView<'_>) -> Option<ToolName> {
        (step.calls_made == 0).then(|| self.0.into())
    }

    fn should_send_tools(&self, _: &StepView<'_>) -> SendTools {
        self.1
    }
}

#[tokio::test]
async fn a_hook_forces_a_tool_that_is_on_offer_and_no_other() {
    let forced = ToolChoice::Tool("look_up".into());
    let cases = [
        (Forces("look_up", SendTools::Yes), forced),
        (Forces("nowhere", SendTools::Yes), ToolChoice::Auto),
        (Forces("look_up", SendTools::No), ToolChoice::Auto),
    ];
    for (hooks, first) in cases {
        let bench = hooked(hooks, [looks_up("x"), text("Found.")]);
        let key = bench.session().await;
        bench.say(&key, "go").await;
        let choices: Vec<_> =
            bench.model.requests().iter().map(|r| r.tool_choice.clone()).collect();
        assert_eq!(choices, [first, ToolChoice::Auto]);
    }
}

#[tokio::test]
async fn a_data_policy_decides_what_of_the_work_is_stored_and_the_turn_itself_knows_all() {
    let policy = DataPolicy {
        text: Keep::No,
        calls: KeepTools::Except(["book".into()].into()),
        results: KeepTools::Except(["look_up".into()].into()),
    };
    let agent = agent("main").data_policy(policy).build().unwrap();
    let called = [
        ("l", "look_up", r#"{"key": "x"}"#),
        ("b", "book", r#"{"room": "5"}"#),
        ("t", "tag", r#"{"key": "x"}"#),
    ];
    let model = ScriptedModel::new("m", [says_and_calls("I look.", &called), text("Booked.")]);
    let bench = Bench::of(model, [agent], |b| b);
    let key = bench.session().await;
    bench.say(&key, "go").await;
    bench.check(&key).await;
    let Item::ToolResults { results } = items(&bench.last_request()).swap_remove(2) else {
        panic!()
    };
    assert_eq!(results.len(), 3);
    let message = bench.message(&key).await;
    assert_eq!(said(&message), [] as [&str; 0]);
    let kept: Vec<_> = message.calls().map(|c| (c.name.as_str(), c.output.as_deref())).collect();
    assert_eq!(kept, [("look_up", None), ("tag", Some(&json!({"tagged": "x"})))]);
}

/// A domain that raises its voice at the end of each turn, and notes how it ended.
struct Loud {
    agents: Agents,
    turn: LoudTurn,
}

#[derive(Clone, Default)]
struct LoudTurn {
    seen: Seen<Outcome>,
    /// What panics: nothing, the rewriting, or the end.
    broken: &'static str,
}

impl Hooks for LoudTurn {}

impl DomainTurn for LoudTurn {
    fn post_process(&self, message: &AssistantMessage) -> FinalChanges {
        assert_ne!(self.broken, "post_process");
        let texts = message.parts.iter().enumerate();
        let texts =
            texts.filter_map(|(at, part)| Some((at as u32, part.as_text()?.to_uppercase())));
        FinalChanges { texts: texts.collect(), ..FinalChanges::default() }
    }

    fn on_turn_end(&self, outcome: &Outcome) {
        self.seen.note(outcome.clone());
        assert_ne!(self.broken, "on_turn_end");
    }
}

impl Domain for Loud {
    fn agents(&self) -> &BTreeMap<AgentName, Arc<Agent>> {
        self.agents.agents()
    }

    fn resources(&self) -> Resources {
        self.agents.resources()
    }

    fn open_turn(&self, _: Option<&Value>, _: &TurnInfo) -> Box<dyn DomainTurn> {
        Box::new(self.turn.clone())
    }
}

/// An agent with all tools in a loud domain.
fn loud<S: Into<Scripted>>(turn: &LoudTurn, answers: impl IntoIterator<Item = S>) -> Bench {
    let (model, world) = (Arc::new(ScriptedModel::new("m", answers)), World::default());
    let limits = AgentLimits { max_iterations: 2, ..AgentLimits::default() };
    let agents = Agents::new([agent("main").limits(limits).build().unwrap()])
        .with_resources(Resources::new().with(world.clone()));
    let engine = builder(model.clone(), &world, [])
        .domain(Loud { agents, turn: turn.clone() })
        .build()
        .unwrap();
    let store = engine.store().clone();
    Bench { engine, model, world, store }
}

#[tokio::test(start_paused = true)]
async fn the_hook_at_the_end_runs_once_however_a_turn_ends_and_never_on_a_pause() {
    let turn = LoudTurn::default();
    let refused = ModelError::new(ModelErrorKind::Auth, "no such key");
    let answers: [Scripted; 8] = [
        calling(&[("p", "pay", r#"{"amount": 5}"#)]).into(),
        text("Paid.").into(),
        refused.clone().into(),
        looks_up("a").into(),
        looks_up("b").into(),
        text("So far.").into(),
        calling(&[("w", "wait", "{}")]).into(),
        text("Not reached.").into(),
    ];
    let bench = loud(&turn, answers);
    let key = bench.session().await;
    bench.say(&key, "pay").await;
    assert_eq!(turn.seen.all(), []);
    let card = pending_cards(&*bench.store, &key).await.remove(0);
    let decided = bench.engine.decide(&key, &card, approve(), None).await.unwrap();
    drain(decided.stream().unwrap()).await;
    assert_eq!(bench.message(&key).await.text(), "PAID.");
    bench.say(&key, "fail").await;
    bench.say(&key, "look").await;
    assert_eq!(bench.message(&key).await.text(), "SO FAR.");
    let mut stream = bench.engine.submit(&key, "wait").await.unwrap().stream().unwrap();
    until(&mut stream, runs).await;
    stream.stop();
    drain(stream).await;
    let error = TurnError::Model(refused.into());
    let expected = [
        Outcome::Completed,
        Outcome::Error { error },
        Outcome::Exhausted { reason: ExhaustedReason::MaxIterations },
        Outcome::Aborted { reason: AbortReason::Stopped },
    ];
    assert_eq!(turn.seen.all(), expected);
    bench.check(&key).await;
}

#[tokio::test]
async fn a_hook_that_panics_at_the_end_ends_nothing_and_spoils_nothing_else() {
    for (broken, said) in [("post_process", "Fine."), ("on_turn_end", "FINE.")] {
        let turn = LoudTurn { broken, ..LoudTurn::default() };
        let bench = loud(&turn, [text("Fine.")]);
        let key = bench.session().await;
        bench.say(&key, "how are you?").await;
        let message = bench.message(&key).await;
        assert_eq!((message.text().as_str(), outcome(&message)), (said, Outcome::Completed));
        assert_eq!(turn.seen.all(), [Outcome::Completed]);
        bench.check(&key).await;
    }
}
