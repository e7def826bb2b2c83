//! Several agents: routes, supervisors, sub-agents, and what is kept of their work.

use crate::support::*;
use serde_json::json;
use turnbuckle_core::error::{ModelErrorKind, ToolErrorCode};
use turnbuckle_core::event::EventKind;
use turnbuckle_core::machine::*;
use turnbuckle_core::message::MessageState;
use turnbuckle_core::model::Block;
use turnbuckle_core::outcome::{AbortReason, ExhaustedReason, Outcome};
use turnbuckle_core::part::{Part, ToolCallPart, ToolCallStatus};
use turnbuckle_core::usage::Purpose;

fn find(n: u32) -> Block {
    call("find", json!({"n": n}))
}

fn delegate(task: &str) -> Block {
    call("helper", json!({"task": task}))
}

/// `main` may ask `helper`, which may ask `deep`.
fn family() -> TurnSpec {
    let mut spec = spec(vec![sub("helper", "helper"), read("find"), write("pay")]);
    let tools = vec![sub("deep", "deep"), read("find"), write("pay"), exclusive("solo")];
    spec.agents.insert("helper".into(), agent(tools));
    spec.agents.insert("deep".into(), agent(vec![write("pay")]));
    spec
}

/// `writer` works after `main`; `boss` may choose.
fn house(supervisor: bool) -> TurnSpec {
    let mut spec = spec(vec![read("find"), write("pay")]);
    spec.agents.insert("writer".into(), agent(vec![read("find")]));
    spec.agents.insert("boss".into(), agent(vec![]));
    spec.routes.routes.insert("pair".into(), vec!["main".into(), "writer".into()]);
    spec.routes.supervisor = supervisor.then(|| "boss".into());
    spec
}

fn selected<W>(sim: &Sim<W>) -> Option<(String, Option<String>)> {
    sim.events.iter().find_map(|e| match &e.kind {
        EventKind::RouteSelected { route, reasoning } => Some((route.clone(), reasoning.clone())),
        _ => None,
    })
}

fn calls_of<W>(sim: &Sim<W>) -> Vec<&ToolCallPart> {
    sim.turn.message().unwrap().calls().collect()
}

fn agents<W>(sim: &Sim<W>) -> Vec<String> {
    let started = sim.events.iter().filter_map(|e| match &e.kind {
        EventKind::AgentStarted { name } => Some(name.to_string()),
        _ => None,
    });
    started.collect()
}

#[test]
fn a_supervisor_chooses_the_route_and_its_answer_is_not_part_of_the_message() {
    let choice = "```json\n{\"route\": \"pair\", \"reasoning\": \"needs a letter\"}\n```";
    let world = Scripted::new(vec![says("Facts.")])
        .also("boss", vec![says(choice)])
        .also("writer", vec![says("A letter with facts.")]);
    let sim = play(house(true), world);
    check(&sim);
    assert_eq!(selected(&sim), Some(("pair".into(), Some("needs a letter".into()))));
    assert_eq!(agents(&sim), ["main", "writer"]);
    let message = sim.turn.message().unwrap();
    assert!(!message.text().contains("route"));
    let purposes: Vec<_> =
        message.iterations.iter().map(|i| (i.iteration, i.purpose, i.agent.as_str())).collect();
    assert_eq!(
        purposes,
        [(0, Purpose::Route, "boss"), (1, Purpose::Step, "main"), (2, Purpose::Step, "writer")]
    );
}

#[test]
fn an_answer_outside_the_routes_is_asked_once_more_and_then_the_default_runs() {
    let odd = || says("{\"route\": \"moon\"}");
    let good = says("{\"route\": \"pair\"}");
    for (boss, route, calls_made) in
        [(vec![odd(), good], "pair", 4), (vec![odd(), says("the moon!")], "default", 3)]
    {
        let world = Scripted::new(vec![says("Facts.")])
            .also("boss", boss)
            .also("writer", vec![says("A letter.")]);
        let sim = play(house(true), world);
        check(&sim);
        assert_eq!(
            (selected(&sim).unwrap().0.as_str(), sim.model_calls.len()),
            (route, calls_made)
        );
        assert_eq!(sim.turn.outcome(), Some(Outcome::Completed));
    }
}

#[test]
fn a_supervisor_that_fails_leaves_the_default_route() {
    let world =
        Scripted::new(vec![says("Facts.")]).also("boss", vec![fails(ModelErrorKind::BadRequest)]);
    let sim = play(house(true), world);
    check(&sim);
    assert_eq!((selected(&sim).unwrap().0.as_str(), sim.model_calls.len()), ("default", 2));
}

#[test]
fn without_a_supervisor_the_default_route_runs_and_the_last_agent_speaks() {
    let mut spec = house(false);
    spec.routes.default = "pair".into();
    let world = Scripted::new(vec![calls(vec![find(1)]), says("Facts.")])
        .also("writer", vec![says("A letter.")]);
    let sim = play(spec, world);
    check(&sim);
    assert_eq!((selected(&sim), agents(&sim)), (None, vec!["main".into(), "writer".into()]));
    assert_eq!(&*sim.events.last().unwrap().agent, "writer");
}

#[test]
fn a_pause_inside_a_route_resumes_the_remaining_agents() {
    let mut spec = house(false);
    spec.routes.default = "pair".into();
    let world = Scripted::new(vec![calls(vec![call("pay", json!({}))]), says("Paid.")])
        .also("writer", vec![says("A receipt.")])
        .check(ask)
        .act(|_| Act::Wait);
    let mut sim = play(spec, world);
    assert_eq!(agents(&sim), ["main"]);
    sim.give(Input::Decide { call: "t-0".into(), decision: approve(), by: None });
    check(&sim);
    assert_eq!(agents(&sim), ["main", "writer"]);
    assert_eq!(sim.turn.message().unwrap().text(), "Paid.\n\nA receipt.");
}

#[test]
fn the_cap_of_the_turn_counts_model_calls_and_stops_the_second_agent() {
    let mut spec = house(false);
    spec.routes.default = "pair".into();
    spec.limits.max_model_calls = 1;
    let sim = play(spec, Scripted::new(vec![says("Facts.")]));
    check(&sim);
    let reason = ExhaustedReason::MaxIterations;
    assert_eq!(sim.turn.outcome(), Some(Outcome::Exhausted { reason }));
    assert_eq!(sim.model_calls.len(), 1);
}

#[test]
fn text_of_an_earlier_agent_that_is_said_again_goes_without_disturbing_the_policy() {
    let mut spec = house(false);
    spec.routes.default = "pair".into();
    spec.agents.get_mut("writer").unwrap().policy.calls = KeepTools::Except(["find".into()].into());
    let long = "The order was shipped on Monday.";
    let world = Scripted::new(vec![says(long)])
        .also("writer", vec![calls(vec![find(1)]), says(&format!("{long} Kind regards."))]);
    let sim = play(spec, world);
    check(&sim);
    let message = sim.turn.message().unwrap();
    assert_eq!(message.text(), format!("{long} Kind regards."));
    assert_eq!(message.calls().count(), 0);
}

#[test]
fn a_sub_agent_is_a_nested_turn_whose_answer_is_the_result() {
    let world = Scripted::new(vec![calls(vec![delegate("look")]), says("It says: found.")])
        .also("helper", vec![calls(vec![find(1)]), says("Found.")]);
    let sim = play(family(), world);
    check(&sim);
    let call = calls_of(&sim)[0];
    assert_eq!(
        (call.status, call.output.clone()),
        (ToolCallStatus::Completed, Some(json(json!("Found."))))
    );
    let child = call.child.as_ref().unwrap();
    assert_eq!(child.state, MessageState::Finished { outcome: Outcome::Completed });
    assert_eq!(child.calls().map(|c| c.id.as_str()).collect::<Vec<_>>(), ["t-0.0"]);
    assert_eq!(sim.turn.message().unwrap().usage(), sim.turn.meters().usage);
    assert_eq!((sim.turn.meters().model_calls, sim.turn.meters().tool_calls), (4, 2));
    let EffectKind::CallModel(first) = &sim.model_calls[1].kind else { panic!() };
    assert_eq!((first.task.as_deref(), first.message.as_str()), (Some("look"), "t-0-a"));
    assert!(sim.events.iter().any(|e| &*e.agent == "main/t-0:helper"));
}

#[test]
fn what_a_sub_agent_answers_is_made_a_result_like_any_other() {
    let replies = || vec![calls(vec![delegate("look"), find(1)]), says("So it is.")];
    for hides in [false, true] {
        let world = Scripted::new(replies()).also("helper", vec![says("All of it.")]);
        let world = world.settle(move |settle| {
            assert_eq!((settle.tool.as_str(), &*settle.output), ("helper", &json!("All of it.")));
            if hides { breaks("it is forbidden") } else { gives(json!("A part.")) }
        });
        let sim = play(family(), world);
        check(&sim);
        let call = calls_of(&sim)[0];
        let expected = match hides {
            false => (ToolCallStatus::Completed, Some(json(json!("A part.")))),
            true => (ToolCallStatus::Error, None),
        };
        assert_eq!((call.status, call.output.clone()), expected);
        assert_eq!(call.child.as_ref().unwrap().text(), "All of it.");
    }
}

#[test]
fn sub_agents_run_side_by_side_and_their_calls_keep_their_ids_in_any_order() {
    let mut ids_seen = std::collections::BTreeSet::new();
    for seed in 0..25 {
        let world = Scripted::new(vec![calls(vec![delegate("a"), delegate("b")]), says("Both.")])
            .also("helper", vec![calls(vec![find(1), find(2)]), says("Found.")]);
        let plan = Plan { order: Order::Random(seed), ..Plan::default() };
        let sim = play_with(family(), world, plan);
        check(&sim);
        let nested: Vec<Vec<String>> = calls_of(&sim)
            .iter()
            .map(|c| c.child.as_ref().unwrap().calls().map(|c| c.id.to_string()).collect())
            .collect();
        ids_seen.insert(nested);
    }
    let expected = vec![vec!["t-0.0", "t-0.1"], vec!["t-1.0", "t-1.1"]];
    assert_eq!(ids_seen.len(), 1);
    assert_eq!(ids_seen.pop_first().unwrap(), expected);
}

#[test]
fn calls_of_one_agent_that_wait_for_a_place_go_on_when_another_agent_frees_it() {
    let mut spec = family();
    spec.limits.tool_concurrency = 1;
    let batch = || calls(vec![find(1), find(2), call("solo", json!({}))]);
    for seed in 0..25 {
        let world = Scripted::new(vec![calls(vec![delegate("a"), find(3)]), says("Both.")])
            .also("helper", vec![batch(), says("Found.")]);
        let mut wide = spec.clone();
        wide.limits.tool_concurrency = 1 + seed as usize % 3;
        let plan = Plan { order: Order::Random(seed), ..Plan::default() };
        let sim = play_with(wide, world, plan);
        check(&sim);
        assert_eq!(sim.turn.outcome(), Some(Outcome::Completed));
    }
}

#[test]
fn an_approval_deep_inside_pauses_the_whole_tree_and_goes_on_in_place() {
    let world = Scripted::new(vec![calls(vec![delegate("pay"), find(1)]), says("All done.")])
        .also("helper", vec![calls(vec![call("deep", json!({"task": "pay"}))]), says("Done.")])
        .also("deep", vec![calls(vec![call("pay", json!({}))]), says("Paid.")])
        .check(|c| if c.tool == "pay" { ask(c) } else { run(c) })
        .act(|_| Act::Wait);
    let mut sim = play(family(), world);
    check(&sim);
    assert_eq!(sim.turn.outcome(), Some(Outcome::Paused));
    let card = sim.cards().remove(0);
    assert_eq!((card.call.as_str(), card.message.as_str()), ("t-0.0.0", "t-0.0-a"));
    let asked = sim.events.iter().find(|e| matches!(e.kind, EventKind::ApprovalRequired { .. }));
    assert_eq!(&*asked.unwrap().agent, "main/t-0:helper/t-0.0:deep");
    sim.give(Input::Decide { call: card.call, decision: approve(), by: None });
    check(&sim);
    assert_eq!(sim.turn.outcome(), Some(Outcome::Completed));
    assert_eq!(ids(&sim.runs), ["t-1", "t-0.0.0"]);
}

#[test]
fn stopping_the_parent_stops_the_sub_agents() {
    let plan = Plan {
        interject: Some(Box::new(|e| {
            let inside = e.path.contains('/') && matches!(e.kind, EffectKind::Execute(_));
            inside.then_some(Input::Cancel { superseded: Superseded::No })
        })),
        ..Plan::default()
    };
    let world = Scripted::new(vec![calls(vec![delegate("look")])])
        .also("helper", vec![calls(vec![text("I look."), find(1)])]);
    let sim = play_with(family(), world, plan);
    check(&sim);
    let outcome = Outcome::Aborted { reason: AbortReason::Stopped };
    let call = calls_of(&sim)[0];
    assert_eq!(call.status, ToolCallStatus::Cancelled);
    let child = call.child.as_ref().unwrap();
    assert_eq!(child.state, MessageState::Finished { outcome });
    assert_eq!(child.text(), "I look.");
}

#[test]
fn a_sub_agent_that_fails_or_runs_out_is_a_failed_call_for_its_parent() {
    let fatal = vec![fails(ModelErrorKind::Auth)];
    let streak = (1..=3).map(|n| calls(vec![find(n)])).collect();
    for replies in [fatal, streak] {
        let world = Scripted::new(vec![calls(vec![delegate("look")]), says("It failed.")])
            .also("helper", replies)
            .execute(|_| breaks("The index is gone."));
        let sim = play(family(), world);
        check(&sim);
        assert_eq!(sim.turn.outcome(), Some(Outcome::Completed));
        assert_eq!(calls_of(&sim)[0].error.as_ref().unwrap().code, ToolErrorCode::Failed);
    }
}

#[test]
fn a_sub_agent_that_fails_leaves_those_beside_it_alone() {
    let batch = vec![delegate("look"), call("deep", json!({"task": "dig"}))];
    let mut spec = family();
    spec.agents.get_mut("main").unwrap().tools.push(sub("deep", "deep"));
    let world = Scripted::new(vec![calls(batch), says("Half of it.")])
        .also("helper", vec![fails(ModelErrorKind::Auth)])
        .also("deep", vec![calls(vec![call("pay", json!({"n": 1}))]), says("Dug.")]);
    let sim = play(spec, world);
    check(&sim);
    assert_eq!(sim.turn.outcome(), Some(Outcome::Completed));
    let [failed, dug] = &calls_of(&sim)[..] else { panic!() };
    assert_eq!(failed.error.as_ref().unwrap().code, ToolErrorCode::Failed);
    assert_eq!(dug.output, Some(json(json!("Dug."))));
}

#[test]
fn a_sub_agent_at_its_own_cap_still_gives_its_closing_answer() {
    let mut spec = family();
    spec.agents.get_mut("helper").unwrap().limits.max_iterations = 1;
    let world = Scripted::new(vec![calls(vec![delegate("look")]), says("Partly.")])
        .also("helper", vec![calls(vec![find(1)]), says("So far one.")]);
    let sim = play(spec, world);
    check(&sim);
    assert_eq!(calls_of(&sim)[0].output, Some(json(json!("So far one."))));
}

#[test]
fn the_budget_of_the_turn_holds_inside_sub_agents_and_the_parent_has_the_last_word() {
    let mut spec = family();
    spec.limits.max_model_calls = 2;
    let world = Scripted::new(vec![calls(vec![delegate("look")]), says("No time.")])
        .also("helper", vec![calls(vec![find(1)])]);
    let sim = play(spec, world);
    check(&sim);
    let reason = ExhaustedReason::MaxIterations;
    assert_eq!(sim.turn.outcome(), Some(Outcome::Exhausted { reason }));
    assert_eq!(sim.model_calls.len(), 3);
    let EffectKind::CallModel(last) = &sim.model_calls[2].kind else { panic!() };
    assert_eq!(
        (last.purpose, sim.turn.message().unwrap().text()),
        (Purpose::Closing, "No time.".into())
    );
}

#[test]
fn agents_that_call_themselves_stop_at_a_depth() {
    let mut spec = spec(vec![sub("main", "main")]);
    spec.limits.max_identical_calls = 100;
    let down = || calls(vec![call("main", json!({"task": "again"}))]);
    let sim = play(spec, Scripted::new(vec![down(), says("Enough.")]));
    check(&sim);
    assert_eq!(sim.turn.outcome(), Some(Outcome::Completed));
    let mut depth = 0;
    let mut message = sim.turn.message();
    while let Some(m) = message {
        depth += 1;
        message = m.calls().next().and_then(|c| c.child.as_deref());
    }
    assert_eq!(depth, 8);
}

#[test]
fn data_policies_keep_only_what_they_allow() {
    let mut spec = family();
    spec.agents.get_mut("helper").unwrap().policy = DataPolicy {
        text: Keep::No,
        calls: KeepTools::Except(["pay".into()].into()),
        results: KeepTools::Except(["find".into()].into()),
    };
    let batch = vec![text("I look."), find(1), call("pay", json!({}))];
    let world = Scripted::new(vec![calls(vec![delegate("look")]), says("Found.")])
        .also("helper", vec![calls(batch), says("Found it.")]);
    let sim = play(spec, world);
    check(&sim);
    let child = calls_of(&sim)[0].child.clone().unwrap();
    let kept: Vec<_> = child
        .parts
        .iter()
        .map(|p| p.as_call().map(|c| (c.name.to_string(), c.output.clone())))
        .collect();
    assert_eq!(kept, [Some(("find".into(), None))]);
    assert_eq!(calls_of(&sim)[0].output, Some(json(json!("Found it."))));
}

#[test]
fn a_nested_turn_that_is_not_kept_is_paid_for_all_the_same() {
    let mut spec = family();
    let policy = &mut spec.agents.get_mut("main").unwrap().policy;
    policy.calls = KeepTools::Only([].into());
    let world = Scripted::new(vec![calls(vec![delegate("look")]), says("Found.")])
        .also("helper", vec![calls(vec![find(1)]), says("Found it.")]);
    let sim = play(spec, world);
    check(&sim);
    let message = sim.turn.message().unwrap();
    assert_eq!(message.calls().count(), 0);
    let agents: Vec<_> = message.iterations.iter().map(|i| i.agent.to_string()).collect();
    assert_eq!(agents, ["main", "main", "helper", "helper"]);
}

#[test]
fn data_policies_hold_for_a_stopped_agent_too() {
    let mut spec = spec(vec![read("find")]);
    spec.agents.get_mut("main").unwrap().policy.text = Keep::No;
    let plan = Plan { cancel_at: Some(2), ..Plan::default() };
    let world = Scripted::new(vec![calls(vec![text("Secret."), find(1)])]);
    let sim = play_with(spec, world, plan);
    check(&sim);
    let parts = &sim.turn.message().unwrap().parts;
    assert!(parts.iter().all(|p| matches!(p, Part::ToolCall(_))), "{parts:?}");
}

#[test]
fn a_specification_that_names_what_it_does_not_define_is_refused() {
    let mut no_default = house(false);
    no_default.routes.default = "moon".into();
    let mut no_agent = house(false);
    no_agent.routes.routes.insert("odd".into(), vec!["nobody".into()]);
    let mut empty = house(false);
    empty.routes.routes.insert("odd".into(), vec![]);
    let mut no_boss = house(true);
    no_boss.agents.remove("boss");
    for spec in [no_default, no_agent, empty, no_boss] {
        assert!(matches!(Turn::new(spec), Err(MachineError::Spec(_))));
    }
}
