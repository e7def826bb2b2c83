//! The process may end at any moment; another takes the turn up from its journal.

use crate::support::*;
use serde_json::json;
use turnbuckle_core::error::ToolErrorCode;
use turnbuckle_core::event::EventKind;
use turnbuckle_core::machine::*;
use turnbuckle_core::model::{Block, ModelDelta};
use turnbuckle_core::outcome::{AbortReason, Outcome, TurnError};
use turnbuckle_core::part::{Part, ToolCallStatus};
use turnbuckle_core::time::Timestamp;

fn go(name: &str, n: u32) -> Block {
    call(name, json!({"n": n}))
}

fn tools() -> TurnSpec {
    let own = vec![read("find"), put("save"), write("pay"), client("ui"), exclusive("solo")];
    let mut spec = spec(own.clone().into_iter().chain([sub("helper", "helper")]).collect());
    spec.agents.insert("helper".into(), agent(own));
    spec.agents.insert("writer".into(), agent(vec![]));
    spec.agents.insert("boss".into(), agent(vec![]));
    spec.routes.routes.insert("pair".into(), vec!["main".into(), "writer".into()]);
    spec
}

fn rules(check: &PrepareCall) -> Verdict {
    match check.tool.as_str() {
        "pay" => ask(check),
        "ui" => at_front_end(check),
        _ => run(check),
    }
}

type Story = (&'static str, TurnSpec, fn() -> Scripted);

/// Small turns that between them use every part of the machine.
fn stories() -> Vec<Story> {
    let mut routed = tools();
    routed.routes.supervisor = Some("boss".into());
    let mut capped = tools();
    capped.agents.get_mut("main").unwrap().limits.max_iterations = 1;
    vec![
        ("reads", tools(), || {
            let replies = vec![calls(vec![text("I look."), go("find", 1), go("find", 2)])];
            Scripted::new(replies.into_iter().chain([says("Found.")]).collect()).check(rules)
        }),
        ("writes", tools(), || {
            let batch = vec![go("save", 1), go("solo", 2), go("find", 3), go("solo", 4)];
            Scripted::new(vec![calls(batch), says("Saved.")]).check(rules)
        }),
        ("approvals", tools(), || {
            let batch = vec![go("pay", 1), go("find", 1), go("pay", 2), go("ui", 3)];
            Scripted::new(vec![calls(batch), says("Paid.")]).check(rules)
        }),
        ("retries", tools(), || {
            let cut = breaks_after(
                turnbuckle_core::error::ModelErrorKind::StreamCut,
                vec![text("I l"), go("find", 1)],
            );
            Scripted::new(vec![says("Found.")])
                .attempts(0, vec![cut, calls(vec![text("I look."), go("find", 1)])])
                .check(rules)
        }),
        ("sub-agents", tools(), || {
            let both = vec![go("helper", 1), go("helper", 2)];
            Scripted::new(vec![calls(both), says("Both.")])
                .also("helper", vec![calls(vec![go("find", 1), go("pay", 2)]), says("One.")])
                .check(rules)
        }),
        ("routes", routed, || {
            Scripted::new(vec![calls(vec![go("pay", 1)]), says("Paid.")])
                .also("boss", vec![says("{\"route\": \"moon\"}"), says("{\"route\": \"pair\"}")])
                .also("writer", vec![says("A receipt.")])
                .check(rules)
        }),
        ("closing", capped, || {
            Scripted::new(vec![calls(vec![go("save", 1)]), says("So far.")]).check(rules)
        }),
    ]
}

#[test]
fn a_crash_at_any_step_of_a_small_turn_changes_nothing_but_unknown_outcomes() {
    for (name, spec, world) in stories() {
        let calm = play(spec.clone(), world());
        check(&calm);
        for tick in 1..=calm.tick {
            let plan = Plan { crashes: [tick].into(), ..Plan::default() };
            let sim = play_with(spec.clone(), world(), plan);
            check(&sim);
            let codes = error_codes(sim.turn.message().unwrap());
            if codes.is_empty() {
                let what = format!("{name} after a crash at {tick}");
                assert_same(&timeless(&sim.turn), &timeless(&calm.turn), &what);
            } else {
                assert_eq!(codes, [ToolErrorCode::OutcomeUnknown], "{name} at {tick}");
                assert_eq!(sim.turn.outcome(), Some(Outcome::Completed));
            }
        }
    }
}

#[test]
fn two_crashes_in_a_row_are_survived_anywhere() {
    for (_, spec, world) in stories() {
        let ticks = play(spec.clone(), world()).tick;
        for tick in 1..=ticks {
            let plan = Plan { crashes: [tick, tick + 1, tick + 5].into(), ..Plan::default() };
            check(&play_with(spec.clone(), world(), plan));
        }
    }
}

/// Runs one call of this tool and ends the process while it executes.
fn crashed_in(tool: &str) -> Sim<Scripted> {
    let world = || Scripted::new(vec![calls(vec![go(tool, 1)]), says("Done.")]);
    let calm = play(tools(), world());
    let crash = (1..=calm.tick).find_map(|tick| {
        let plan = Plan { crashes: [tick].into(), ..Plan::default() };
        let sim = play_with(tools(), world(), plan);
        (sim.runs.len() == 2).then_some(sim)
    });
    crash.expect("the call runs at some tick")
}

#[test]
fn repeatable_calls_are_made_again_with_the_same_key_and_others_only_probed() {
    for (tool, mode) in
        [("find", ExecuteMode::Real), ("save", ExecuteMode::Real), ("solo", ExecuteMode::Recover)]
    {
        let sim = crashed_in(tool);
        check(&sim);
        let id = turnbuckle_core::ids::CallId::from("t-0");
        assert_eq!(sim.runs, [(id.clone(), ExecuteMode::Real), (id, mode)]);
    }
}

#[test]
fn an_unknown_outcome_is_told_to_the_model_and_the_turn_goes_on() {
    let sim = crashed_in("solo");
    let call = sim.turn.message().unwrap().calls().next().unwrap();
    assert_eq!(call.status, ToolCallStatus::Error);
    assert_eq!(call.error.as_ref().unwrap().code, ToolErrorCode::OutcomeUnknown);
    assert_eq!(sim.turn.outcome(), Some(Outcome::Completed));
}

#[test]
fn a_crash_while_stopping_still_stops_and_repeats_nothing() {
    let plan = |crash: u32| Plan { cancel_at: Some(4), crashes: [crash].into(), ..Plan::default() };
    let world = || Scripted::new(vec![calls(vec![go("find", 1), go("save", 2)])]);
    let calm = play_with(tools(), world(), plan(u32::MAX));
    for tick in 1..=calm.tick {
        let sim = play_with(tools(), world(), plan(tick));
        check(&sim);
        let outcome = Outcome::Aborted { reason: AbortReason::Stopped };
        assert_eq!(sim.turn.outcome(), Some(outcome));
    }
}

#[test]
fn a_turn_stored_in_the_middle_of_an_answer_voids_it_when_taken_up() {
    let at = Timestamp::from_millis(START);
    let mut turn = Turn::new(tools()).unwrap();
    let mut out = Output::default();
    turn.handle(at, Input::Begin, &mut out).unwrap();
    turn.delta(at, 0, ModelDelta::Text { block: 0, text: "I lo" }, &mut out).unwrap();
    let start = ModelDelta::CallStart { block: 1, wire_id: "", name: "find" };
    turn.delta(at, 0, start, &mut out).unwrap();
    let stored = serde_json::to_string(&turn).unwrap();
    let mut turn: Turn = serde_json::from_str(&stored).unwrap();
    turn.handle(at, Input::Recover, &mut out).unwrap();
    assert_eq!((turn.message().unwrap().parts.len(), turn.epoch()), (0, 1));
    let done = Box::new(answer(vec![text("I look."), go("find", 1)]));
    turn.handle(at, Input::ModelDone { step: 0, answer: done }, &mut out).unwrap();
    let message = turn.message().unwrap();
    assert_eq!(message.parts.len(), 2);
    assert_eq!(message.calls().next().unwrap().id, "t-0");
    let mut fold = turnbuckle_core::fold::TurnFold::default();
    for event in &out.events {
        fold.apply(event.at, &event.kind).unwrap();
    }
    assert_same(&fold, turn.messages(), "streamed is not stored");
}

#[test]
fn what_was_shown_of_answers_under_way_stays_when_the_turn_breaks_and_what_is_not_known_of_them_goes()
 {
    let at = Timestamp::from_millis(START);
    let hello = ModelDelta::Text { block: 0, text: "I lo" };
    let error = || TurnError::Internal { message: "a defect".into() };
    let told = |partials: Vec<Partial>| {
        let mut turn = Turn::new(tools()).unwrap();
        let mut out = Output::default();
        turn.handle(at, Input::Begin, &mut out).unwrap();
        turn.delta(at, 0, hello, &mut out).unwrap();
        let fault = Input::Fault { error: error(), partials };
        turn.handle(at, fault.clone(), &mut out).unwrap();
        let journal =
            [Input::Begin, fault].into_iter().zip(0..).map(|(input, n)| Recorded { n, at, input });
        let journal: Vec<_> = journal.collect();
        let again = Turn::replay(tools(), &journal, &mut Output::default()).unwrap();
        assert_same(&again, &turn, "replay gives another turn");
        let Phase::Finalizing { outcome } = turn.phase() else { panic!("{:?}", turn.phase()) };
        assert_eq!(*outcome, Outcome::Error { error: error() });
        let texts = turn.message().unwrap().parts.iter().filter_map(Part::as_text);
        (texts.map(str::to_owned).collect::<Vec<_>>(), turn.meters().usage.output)
    };
    let mut arrived = answer(vec![text("I lo")]);
    arrived.chunks = vec![Chunk(0, 4, at.as_millis())];
    arrived.response.usage.output = Some(2);
    let partial = Partial { step: 0, answer: Box::new(arrived) };
    assert_eq!(told(vec![partial]), (vec!["I lo".to_owned()], Some(2)));
    assert_eq!(told(Vec::new()), (Vec::new(), None));
}

#[test]
fn the_time_nobody_worked_is_not_the_turns() {
    let mut spec = tools();
    spec.limits.max_wall_ms = 1_000;
    let mut turn = Turn::new(spec).unwrap();
    let mut out = Output::default();
    turn.handle(Timestamp::from_millis(START), Input::Begin, &mut out).unwrap();
    let later = Timestamp::from_millis(START + 3_600_000);
    turn.handle(later, Input::Recover, &mut out).unwrap();
    let done = Box::new(answer(vec![go("find", 1)]));
    turn.handle(later, Input::ModelDone { step: 0, answer: done }, &mut out).unwrap();
    assert!(matches!(out.effects.last().unwrap().kind, EffectKind::Prepare(_)));
}

#[test]
fn an_ended_turn_takes_nothing_more() {
    let mut sim = play(tools(), Scripted::new(vec![calls(vec![go("find", 1)]), says("Found.")]));
    let late = [
        Input::Executed { step: 2, result: Box::new(gives(fine())), captured: None },
        Input::Progress { step: 2, data: json(json!(1)) },
        Input::Cancel { superseded: Superseded::No },
        Input::Steer { message: Box::new(user("u2", "Wait.")) },
        Input::Decide { call: "t-0".into(), decision: approve(), by: None },
    ];
    for input in late {
        assert_eq!(sim.refused(input), MachineError::Ended);
    }
}

#[test]
fn resumption_tells_readers_how_many_parts_are_valid() {
    let world = || Scripted::new(vec![calls(vec![text("I look."), go("find", 1)]), says("Found.")]);
    let calm = play(tools(), world());
    for tick in 1..=calm.tick {
        let plan = Plan { crashes: [tick].into(), ..Plan::default() };
        let sim = play_with(tools(), world(), plan);
        let resumed = sim.events.iter().filter_map(|e| match &e.kind {
            EventKind::AssistantMessageResumed { parts, .. } => Some((e.epoch, *parts)),
            _ => None,
        });
        let resumed: Vec<_> = resumed.collect();
        assert!(resumed.is_empty() || resumed == [(1, 0)] || resumed == [(1, 2)], "{resumed:?}");
    }
}
