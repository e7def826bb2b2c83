//! What comes from outside the loop: steering, stops, failing stores, hooks.

use crate::support::*;
use serde_json::json;
use turnbuckle_core::event::EventKind;
use turnbuckle_core::machine::*;
use turnbuckle_core::model::Block;
use turnbuckle_core::outcome::{AbortReason, Outcome, TurnError};
use turnbuckle_core::part::{InputKind, ToolCallStatus};
use turnbuckle_core::transcript::Item;
use turnbuckle_core::usage::Purpose;

fn find(n: u32) -> Block {
    call("find", json!({"q": format!("word{n}")}))
}

#[test]
fn steering_enters_at_the_next_step_and_keeps_a_finished_loop_going() {
    let plan = |at| Plan { steer_at: vec![at], ..Plan::default() };
    let replies = vec![calls(vec![find(1)]), says("Found, in a hurry.")];
    let sim = play_with(spec(vec![read("find")]), Scripted::new(replies), plan(2));
    check(&sim);
    assert_eq!(inputs(&sim), [(InputKind::Steering, 0)]);
    let last = sim.requests.all.last().unwrap().last().unwrap();
    assert_eq!(*last, Item::user("And hurry."));

    let replies = vec![says("Hello."), says("Hurrying.")];
    let sim = play_with(spec(vec![]), Scripted::new(replies), plan(1));
    assert_eq!(texts(&sim), ["Hello.", "Hurrying."]);
}

#[test]
fn steering_that_the_model_would_not_read_any_more_is_left_for_the_next_turn() {
    let mut short = spec(vec![read("find")]);
    short.limits.max_tokens = 12;
    let plan = Plan { steer_at: vec![1], ..Plan::default() };
    let mut sim = play_with(short, Scripted::new(vec![calls(vec![find(1)])]), plan);
    check(&sim);
    assert_eq!(inputs(&sim), []);
    let unread: Vec<_> = sim
        .turn
        .take_unread_steering()
        .into_iter()
        .map(|m| m.content.text().into_owned())
        .collect();
    assert_eq!(unread, ["And hurry."]);
}

#[test]
fn a_stop_keeps_the_text_so_far_and_skips_the_rest() {
    let cancel = |step: u32| Plan {
        interject: Some(Box::new(move |e| {
            (e.step == step).then_some(Input::Cancel { superseded: Superseded::No })
        })),
        ..Plan::default()
    };
    let aborted = Some(Outcome::Aborted { reason: AbortReason::Stopped });
    let world = || Scripted::new(vec![calls(vec![text("I look."), find(1), find(2)])]);
    // Step 0 is the model call, 1 and 2 are checks, 3 and 4 executions.
    for (step, status) in [(1, ToolCallStatus::Cancelled), (3, ToolCallStatus::Completed)] {
        let sim = play_with(spec(vec![read("find")]), world(), cancel(step));
        check(&sim);
        assert_eq!((sim.turn.outcome(), sim.model_calls.len()), (aborted.clone(), 1));
        assert_eq!(texts(&sim), ["I look."]);
        let first = sim.turn.message().unwrap().calls().next().unwrap().status;
        assert!(first == status || first == ToolCallStatus::Cancelled, "{first:?}");
    }
}

#[test]
fn a_stop_before_the_start_makes_no_model_call_and_still_ends_with_the_message() {
    let mut sim = Sim::new(spec(vec![]), Scripted::new(vec![]), Plan::default());
    sim.give(Input::Cancel { superseded: Superseded::No });
    check(&sim);
    let aborted = Outcome::Aborted { reason: AbortReason::Stopped };
    assert_eq!((sim.turn.outcome(), sim.model_calls.len()), (Some(aborted), 0));
}

#[test]
fn a_store_that_fails_ends_the_turn_with_everything_settled() {
    let plan = Plan { fault_at: Some(4), ..Plan::default() };
    let world = Scripted::new(vec![calls(vec![find(1), find(2)])]);
    let sim = play_with(spec(vec![read("find")]), world, plan);
    check(&sim);
    let error = TurnError::Store { message: "disk full".into() };
    assert_eq!(sim.turn.outcome(), Some(Outcome::Error { error }));
}

#[test]
fn the_end_of_turn_hook_runs_once_and_may_change_texts_and_links() {
    let mut world = Scripted::new(vec![calls(vec![find(1)]), says("See thread 1.")]);
    world.changes.texts.push((1, "See [thread 1].".into()));
    world.changes.link_snapshots.insert("thread:1".into(), json(json!({"title": "Hi"})));
    let sim = play(spec(vec![read("find")]), world);
    check(&sim);
    let hooks = sim.journal.iter().filter(|r| matches!(r.input, Input::Finalized { .. }));
    assert_eq!((hooks.count(), texts(&sim)), (1, vec!["See [thread 1]."]));
    assert_eq!(sim.turn.message().unwrap().link_snapshots.len(), 1);
}

#[test]
fn the_end_of_a_turn_may_name_the_session_and_the_call_for_it_is_metered() {
    let mut world = Scripted::new(vec![says("On its way.")]);
    let call = Some(Box::new(answer(vec![text("Lost parcel")])));
    world.changes.title = Some(NewTitle { title: "Lost parcel".into(), call });
    let sim = play(spec(vec![]), world);
    check(&sim);
    let titles: Vec<_> = sim
        .events
        .iter()
        .filter_map(|e| match &e.kind {
            EventKind::SessionTitleUpdated { title } => Some(title.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(titles, ["Lost parcel"]);
    let purposes: Vec<_> =
        sim.turn.message().unwrap().iterations.iter().map(|i| i.purpose).collect();
    assert_eq!(purposes, [Purpose::Step, Purpose::Title]);
    assert_eq!((sim.turn.meters().model_calls, sim.turn.meters().new_work), (2, 30));
}

#[test]
fn a_summary_of_the_history_is_metered_and_told() {
    let mut world = Scripted::new(vec![says("Hello.")]);
    world.compaction = Some(CompactionReport {
        note: "The middle was summarised.".into(),
        before: 900,
        after: 100,
        summary_call: Some(Box::new(answer(vec![text("Earlier: …")]))),
    });
    let sim = play(spec(vec![]), world);
    check(&sim);
    let purposes: Vec<_> =
        sim.turn.message().unwrap().iterations.iter().map(|i| i.purpose).collect();
    assert_eq!(purposes, [Purpose::Summary, Purpose::Step]);
    assert_eq!(sim.turn.meters().new_work, 30);
}

#[test]
fn hooks_may_nudge_stop_or_fail_an_answer() {
    let with = |blocks, directives| {
        let mut answer = answer(blocks);
        answer.directives = directives;
        Reply::Done(answer)
    };
    let nudge = AnswerDirectives { nudge: Some("Say more.".into()), ..Default::default() };
    let sim =
        play(spec(vec![]), Scripted::new(vec![with(vec![text("Hm.")], nudge), says("More.")]));
    assert_eq!(inputs(&sim), [(InputKind::Nudge, 0)]);

    let stop = AnswerDirectives { stop: Some(StopHere), ..Default::default() };
    let sim = play(spec(vec![read("find")]), Scripted::new(vec![with(vec![find(1)], stop)]));
    check(&sim);
    assert_eq!((sim.turn.outcome(), sim.runs.len()), (Some(Outcome::Completed), 0));

    let error = TurnError::InvalidOutput { message: "no name".into() };
    let fail = AnswerDirectives { fail: Some(error.clone()), ..Default::default() };
    let sim = play(spec(vec![]), Scripted::new(vec![with(vec![text("{}")], fail)]));
    assert_eq!(sim.turn.outcome(), Some(Outcome::Error { error }));
}
