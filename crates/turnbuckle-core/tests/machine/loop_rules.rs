//! The loop: when it goes on, when it ends, and what it then says.

use crate::support::*;
use serde_json::json;
use turnbuckle_core::error::{ModelError, ModelErrorKind, ToolErrorCode};
use turnbuckle_core::event::EventKind;
use turnbuckle_core::machine::*;
use turnbuckle_core::model::Block;
use turnbuckle_core::outcome::{AbortReason, ExhaustedReason, Outcome, TurnError};
use turnbuckle_core::part::{InputKind, Part, ToolCallStatus};
use turnbuckle_core::usage::{FinishReason, Purpose, Usage};

fn exhausted(reason: ExhaustedReason) -> Outcome {
    Outcome::Exhausted { reason }
}

fn find(n: u32) -> Block {
    call("find", json!({"q": format!("word{n}")}))
}

#[test]
fn an_answer_without_calls_ends_the_turn() {
    let sim = play(spec(vec![read("find")]), Scripted::new(vec![says("Hello.")]));
    check(&sim);
    assert_eq!(sim.turn.outcome(), Some(Outcome::Completed));
    assert_eq!(texts(&sim), ["Hello."]);
    let kinds: Vec<String> = sim
        .events
        .iter()
        .map(|e| serde_json::to_value(e).unwrap()["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        kinds,
        [
            "turn-started",
            "assistant-message-started",
            "agent-started",
            "text-delta",
            "usage",
            "agent-completed",
            "assistant-message-finished",
            "turn-completed"
        ]
    );
    let EventKind::TurnCompleted { usage } = &sim.events.last().unwrap().kind else { panic!() };
    assert_eq!(**usage, Usage { input: Some(10), output: Some(5), ..Usage::default() });
}

#[test]
fn each_model_call_is_billed_once_with_its_model() {
    let replies = vec![calls(vec![find(1)]), says("Found.")];
    let sim = play(spec(vec![read("find")]), Scripted::new(replies));
    let message = sim.turn.message().unwrap();
    let billed: Vec<_> = message
        .iterations
        .iter()
        .map(|i| (i.iteration, i.purpose, i.model.as_str(), i.finish.clone()))
        .collect();
    assert_eq!(
        billed,
        [
            (0, Purpose::Step, "m", Some(FinishReason::ToolCalls)),
            (1, Purpose::Step, "m", Some(FinishReason::Stop))
        ]
    );
    assert_eq!(message.usage(), sim.turn.meters().usage);
}

#[test]
fn a_minimum_of_calls_nudges_while_there_is_room() {
    let mut wants = spec(vec![read("find")]);
    wants.agents.get_mut("main").unwrap().limits.min_tool_calls = 1;
    let replies = vec![says("I would search."), calls(vec![find(1)]), says("Found.")];
    let sim = play(wants.clone(), Scripted::new(replies));
    assert_eq!(inputs(&sim), [(InputKind::Nudge, 0)]);
    assert_eq!(sim.turn.outcome(), Some(Outcome::Completed));

    wants.agents.get_mut("main").unwrap().limits.max_iterations = 2;
    let sim = play(wants, Scripted::new(vec![says("I would."), says("I still would.")]));
    assert_eq!(inputs(&sim), [(InputKind::Nudge, 0)]);
    assert_eq!(sim.turn.outcome(), Some(Outcome::Completed));
}

#[test]
fn at_the_iteration_cap_the_user_still_gets_an_answer() {
    let mut short = spec(vec![read("find")]);
    short.agents.get_mut("main").unwrap().limits.max_iterations = 2;
    let forced = Directives { force_tool: Some("find".into()), ..Directives::default() };
    let replies = vec![calls(vec![find(1)]), calls(vec![find(2)]), says("So far: nothing.")];
    let world = Scripted::new(replies).execute(move |_| gives_with(fine(), forced.clone()));
    let sim = play(short, world);
    check(&sim);
    assert_eq!(sim.turn.outcome(), Some(exhausted(ExhaustedReason::MaxIterations)));
    assert_eq!(texts(&sim), ["So far: nothing."]);
    assert_eq!(inputs(&sim), [(InputKind::Closing, 1)]);
    let EffectKind::CallModel(last) = &sim.model_calls.last().unwrap().kind else { panic!() };
    assert_eq!((last.purpose, last.force_tool.clone()), (Purpose::Closing, None));
}

#[test]
fn a_closing_call_that_fails_or_asks_for_tools_stays_silent() {
    for (closing, calls_made) in [(fails(ModelErrorKind::BadRequest), 1), (calls(vec![find(9)]), 2)]
    {
        let mut short = spec(vec![read("find")]);
        short.agents.get_mut("main").unwrap().limits.max_iterations = 1;
        let sim = play(short, Scripted::new(vec![calls(vec![find(1)]), closing]));
        check(&sim);
        assert_eq!(sim.turn.outcome(), Some(exhausted(ExhaustedReason::MaxIterations)));
        assert_eq!(sim.model_calls.len(), 2);
        assert_eq!(sim.turn.message().unwrap().calls().count(), calls_made);
        assert_eq!(sim.runs.len(), 1);
        assert!(!sim.events.iter().any(|e| matches!(e.kind, EventKind::TurnError { .. })));
    }
}

#[test]
fn a_turn_stopped_as_it_reaches_its_cap_makes_no_closing_call() {
    let mut short = spec(vec![read("find")]);
    short.agents.get_mut("main").unwrap().limits.max_iterations = 1;
    let plan = Plan {
        interject: Some(Box::new(|effect| {
            let last = matches!(effect.kind, EffectKind::Execute(_));
            last.then_some(Input::Cancel { superseded: Superseded::No })
        })),
        ..Plan::default()
    };
    let sim = play_with(short, Scripted::new(vec![calls(vec![find(1)])]), plan);
    check(&sim);
    let stopped = Outcome::Aborted { reason: AbortReason::Stopped };
    assert_eq!((sim.turn.outcome(), sim.model_calls.len()), (Some(stopped), 1));
    assert_eq!(inputs(&sim), []);
}

/// A summary that came to nothing, metered before the model call it was made for.
fn lost_summary(effect: &Effect) -> Option<Input> {
    let EffectKind::CallModel(_) = effect.kind else { return None };
    let mut answer = answer(vec![]);
    answer.response.usage = Usage::default();
    let (step, purpose, answer) = (effect.step, Purpose::Summary, Box::new(answer));
    Some(Input::Metered { step, purpose, epoch: 0, answer })
}

#[test]
fn summaries_that_come_to_nothing_spend_the_turns_model_calls() {
    let mut tight = spec(vec![read("find")]);
    tight.limits.max_model_calls = 3;
    let plan = Plan {
        interject: Some(Box::new(|e| (e.step == 0).then(|| lost_summary(e)).flatten())),
        ..Plan::default()
    };
    let replies = vec![calls(vec![find(1)]), calls(vec![find(2)]), says("So far: nothing.")];
    let sim = play_with(tight, Scripted::new(replies), plan);
    check(&sim);
    // The lost summary, two steps, and the closing call beyond the cap.
    assert_eq!(sim.turn.outcome(), Some(exhausted(ExhaustedReason::MaxIterations)));
    assert_eq!((sim.model_calls.len(), sim.turn.meters().model_calls), (3, 4));
    // What cost nothing leaves no entry in the bill.
    assert_eq!(sim.turn.message().unwrap().iterations.len(), 3);
}

#[test]
fn calls_of_an_answer_to_which_no_tools_were_offered_never_run() {
    let withheld = |directives: AnswerDirectives| {
        let mut answer = answer(vec![text("Let me look."), find(1), call("nowhere", json!({}))]);
        answer.directives = AnswerDirectives { tools: Tools::Withheld, ..directives };
        Reply::Done(answer)
    };
    let refused = [ToolErrorCode::NotAdvertised; 2];
    let nudge = AnswerDirectives { nudge: Some("Say it.".into()), ..Default::default() };
    for (directives, told) in
        [(AnswerDirectives::default(), vec![]), (nudge, vec![(InputKind::Nudge, 0)])]
    {
        let replies = vec![withheld(directives), says("I do not know.")];
        let sim = play(spec(vec![read("find")]), Scripted::new(replies));
        check(&sim);
        assert_eq!((sim.turn.outcome(), sim.runs.len()), (Some(Outcome::Completed), 0));
        assert_eq!(error_codes(sim.turn.message().unwrap()), refused);
        assert_eq!((inputs(&sim), sim.model_calls.len()), (told, 2));
    }
    let stop = AnswerDirectives { stop: Some(StopHere), ..Default::default() };
    let sim = play(spec(vec![read("find")]), Scripted::new(vec![withheld(stop)]));
    check(&sim);
    assert_eq!((sim.turn.outcome(), texts(&sim)), (Some(Outcome::Completed), vec!["Let me look."]));
    assert_eq!(error_codes(sim.turn.message().unwrap()), refused);

    // A model that does not stop asking gets no further than any other that fails the same way.
    let again = || withheld(AnswerDirectives::default());
    let sim = play(spec(vec![read("find")]), Scripted::new(vec![again(), again(), again()]));
    assert_eq!(sim.turn.outcome(), Some(exhausted(ExhaustedReason::ToolFailureStreak)));
}

#[test]
fn the_token_budget_counts_new_work_and_trips_at_its_exact_value() {
    let answer_of = |new: u64, cached: u64, blocks| {
        let mut answer = answer(blocks);
        answer.response.usage =
            Usage { input: Some(new), cache_read: Some(cached), ..Usage::default() };
        Reply::Done(answer)
    };
    let mut tight = spec(vec![read("find")]);
    tight.limits.max_tokens = 100;
    let replies = vec![answer_of(99, 600_000, vec![find(1)]), answer_of(1, 600_000, vec![find(2)])];
    let sim = play(tight, Scripted::new(replies));
    check(&sim);
    assert_eq!(sim.turn.outcome(), Some(exhausted(ExhaustedReason::TokenBudget)));
    let statuses: Vec<_> = sim.turn.message().unwrap().calls().map(|c| c.status).collect();
    assert_eq!(statuses, [ToolCallStatus::Completed, ToolCallStatus::Error]);
    let codes = error_codes(sim.turn.message().unwrap());
    assert_eq!(codes, [ToolErrorCode::Budget]);
}

#[test]
fn an_answer_that_spends_the_budget_is_still_a_completed_turn() {
    let mut tight = spec(vec![]);
    tight.limits.max_tokens = 1;
    let sim = play(tight, Scripted::new(vec![says("Here you are.")]));
    assert_eq!(sim.turn.outcome(), Some(Outcome::Completed));
}

#[test]
fn a_failed_attempt_that_spends_the_budget_is_not_tried_again() {
    let mut tight = spec(vec![]);
    tight.limits.max_tokens = 10;
    let failed = Reply::Fail {
        error: ModelError::new(ModelErrorKind::StreamCut, "cut"),
        partial: Some(answer(vec![text("Hal")])),
    };
    let sim = play(tight, Scripted::new(vec![failed]));
    check(&sim);
    assert_eq!(sim.turn.outcome(), Some(exhausted(ExhaustedReason::TokenBudget)));
    assert_eq!((sim.model_calls.len(), texts(&sim)), (1, vec!["Hal"]));
}

#[test]
fn tool_calls_beyond_their_cap_do_not_run_and_end_the_turn() {
    let mut tight = spec(vec![read("find")]);
    tight.limits.max_tool_calls = 2;
    let sim = play(tight, Scripted::new(vec![calls(vec![find(1), find(2), find(3)])]));
    check(&sim);
    assert_eq!(sim.turn.outcome(), Some(exhausted(ExhaustedReason::MaxToolCalls)));
    assert_eq!(ids(&sim.runs), ["t-0", "t-1"]);
}

#[test]
fn money_and_time_are_budgets_too() {
    let mut tight = spec(vec![read("find")]);
    tight.limits.max_cost_micros = Some(7);
    let mut dear = answer(vec![find(1)]);
    dear.cost_micros = Some(7);
    let sim = play(tight, Scripted::new(vec![Reply::Done(dear)]));
    assert_eq!(sim.turn.outcome(), Some(exhausted(ExhaustedReason::Cost)));

    let mut slow = spec(vec![read("find")]);
    slow.limits.max_wall_ms = 10;
    let sim = play(slow, Scripted::new(vec![calls(vec![find(1)])]));
    assert_eq!(sim.turn.outcome(), Some(exhausted(ExhaustedReason::WallTime)));
}

#[test]
fn the_same_tool_failing_the_same_way_three_times_ends_the_turn() {
    let replies = (1..=3).map(|n| calls(vec![find(n)])).collect();
    let world = Scripted::new(replies)
        .execute(|run| breaks(&format!("No thread \"{}\" in inbox 7.", run.args["q"])));
    let sim = play(spec(vec![read("find")]), world);
    check(&sim);
    assert_eq!(sim.turn.outcome(), Some(exhausted(ExhaustedReason::ToolFailureStreak)));
    assert_eq!(sim.runs.len(), 3);
}

#[test]
fn a_streak_of_failures_is_the_tools_own_whatever_runs_beside_it() {
    let both = |n| calls(vec![find(n), call("save", json!({"n": n}))]);
    let world = Scripted::new((1..=3).map(both).collect()).execute(|run| match run.tool.as_str() {
        "find" => breaks(&format!("No thread \"{}\" in inbox 7.", run.args["q"])),
        _ => gives(fine()),
    });
    let sim = play(spec(vec![read("find"), put("save")]), world);
    check(&sim);
    assert_eq!(sim.turn.outcome(), Some(exhausted(ExhaustedReason::ToolFailureStreak)));
    assert_eq!((sim.model_calls.len(), sim.runs.len()), (3, 6));

    // A sibling that fails in its own, changing ways is no success of `find`, either.
    let world = Scripted::new((1..=3).map(both).collect()).execute(|run| match run.tool.as_str() {
        "find" => breaks("The index is being built."),
        _ if run.args["n"] == 2 => breaks("The disk is full."),
        _ => breaks("The server is away."),
    });
    let sim = play(spec(vec![read("find"), put("save")]), world);
    assert_eq!(sim.turn.outcome(), Some(exhausted(ExhaustedReason::ToolFailureStreak)));
    assert_eq!(sim.model_calls.len(), 3);
}

#[test]
fn a_success_of_the_tool_or_an_iteration_without_it_breaks_its_streak_of_failures() {
    let save = |n: u32| call("save", json!({"n": n}));
    let broken_by = |between: Block| {
        let mut replies: Vec<_> =
            [find(1), find(2), between, find(3), find(4)].map(|b| calls(vec![b])).into();
        replies.push(says("I give up."));
        replies
    };
    // One thread of two is found each time: the tool gets somewhere.
    let mut half: Vec<_> = (1..=4).map(|n| calls(vec![find(n), find(n + 90)])).collect();
    half.push(says("I have half of them."));
    for (replies, made) in [(broken_by(find(99)), 6), (broken_by(save(1)), 6), (half, 5)] {
        let world = Scripted::new(replies).execute(|run| match run.args["q"].as_str() {
            Some(q) if !q.starts_with("word9") => breaks("No such thread."),
            _ => gives(fine()),
        });
        let sim = play(spec(vec![read("find"), put("save")]), world);
        check(&sim);
        assert_eq!(sim.turn.outcome(), Some(Outcome::Completed));
        assert_eq!(sim.model_calls.len(), made);
    }
}

#[test]
fn failures_of_another_kind_are_no_streak() {
    let mut replies: Vec<_> = (1..=4).map(|n| calls(vec![find(n)])).collect();
    replies.push(says("I give up."));
    let world = Scripted::new(replies).execute(|run| match run.args["q"].as_str().unwrap() {
        "word1" | "word3" => breaks("The index is being built."),
        _ => breaks("The server is away."),
    });
    let sim = play(spec(vec![read("find")]), world);
    assert_eq!(sim.turn.outcome(), Some(Outcome::Completed));
}

#[test]
fn the_same_success_with_the_same_words_finishes_and_they_stand_once() {
    let same = || calls(vec![text("Done."), call("save", json!({"a": 1, "b": 2}))]);
    let turned = calls(vec![text("**Done.**"), raw_call("", "save", "{\"b\":2,\"a\":1}")]);
    let sim = play(spec(vec![put("save")]), Scripted::new(vec![same(), turned, same()]));
    check(&sim);
    assert_eq!(sim.turn.outcome(), Some(Outcome::Completed));
    assert_eq!((sim.model_calls.len(), texts(&sim)), (3, vec!["Done."]));
}

#[test]
fn repeated_successes_without_words_or_with_other_arguments_go_on() {
    let quiet = || calls(vec![call("save", json!({}))]);
    let replies = vec![quiet(), quiet(), quiet(), says("Saved.")];
    let sim = play(spec(vec![put("save")]), Scripted::new(replies));
    assert_eq!((sim.model_calls.len(), sim.runs.len()), (4, 3));

    let mut replies: Vec<_> =
        (1..=4).map(|n| calls(vec![text("Working."), call("save", json!({"n": n}))])).collect();
    replies.push(says("Saved."));
    let sim = play(spec(vec![put("save")]), Scripted::new(replies));
    assert_eq!((sim.model_calls.len(), sim.runs.len()), (5, 4));
}

#[test]
fn the_fourth_identical_call_is_answered_with_a_note_instead() {
    let mut replies = Vec::new();
    for n in 0..4 {
        replies.push(calls(vec![call("find", json!({"q": "x"}))]));
        replies.push(calls(vec![call("save", json!({"n": n}))]));
    }
    replies.push(says("Enough."));
    let sim = play(spec(vec![read("find"), put("save")]), Scripted::new(replies));
    check(&sim);
    assert_eq!(sim.turn.outcome(), Some(Outcome::Completed));
    let finds: Vec<_> = sim.turn.message().unwrap().calls().filter(|c| c.name == "find").collect();
    assert_eq!(finds.iter().filter(|c| c.started_at.is_some()).count(), 3);
    assert_eq!((finds[3].status, finds[3].started_at), (ToolCallStatus::Completed, None));
    let note = finds[3].output.as_ref().unwrap().as_str().unwrap();
    assert!(note.contains("already made 3 times"), "{note}");
}

#[test]
fn identical_calls_of_one_answer_spend_the_repeat_budget_as_well() {
    for tool in [read("get"), put("get")] {
        let batch = (0..5).map(|_| call("get", json!({"id": 7}))).collect();
        let sim = play(spec(vec![tool]), Scripted::new(vec![calls(batch), says("Enough.")]));
        check(&sim);
        assert_eq!(ids(&sim.runs), ["t-0", "t-1", "t-2"]);
        let made: Vec<_> = sim.turn.message().unwrap().calls().collect();
        for noted in &made[3..] {
            assert_eq!((noted.status, noted.started_at), (ToolCallStatus::Completed, None));
            let note = noted.output.as_ref().unwrap().as_str().unwrap();
            assert!(note.contains("already made 3 times"), "{note}");
        }
    }
}

#[test]
fn refused_attempts_do_not_spend_the_budget_of_the_mended_call() {
    let mut replies: Vec<_> =
        (0..2).map(|_| calls(vec![call("find", json!({"q": "STATUS:open"}))])).collect();
    replies.push(calls(vec![call("save", json!({"n": 1}))]));
    replies.push(calls(vec![call("find", json!({"q": "STATUS:open"}))]));
    replies.push(calls(vec![call("find", json!({"q": "status open"}))]));
    replies.push(says("Found."));
    let world = Scripted::new(replies).check(|check| {
        if check.args["q"] == "STATUS:open" {
            let error = turnbuckle_core::error::ToolError::invalid("Write `status open`.");
            return Verdict::Refuse { error, args: None };
        }
        run(check)
    });
    let sim = play(spec(vec![read("find"), put("save")]), world);
    assert_eq!(ids(&sim.runs), ["t-2", "t-4"]);
}

#[test]
fn reworded_searches_that_find_nothing_are_stopped_but_silent_writes_are_not() {
    let words = ["late refund", "Refund, late", "LATE refund!", "refund late?"];
    let mut replies: Vec<_> = Vec::new();
    for word in words {
        replies.push(calls(vec![call("find", json!({"q": word}))]));
    }
    for (from, to) in [("a", "b"), ("b", "a"), ("a", "b"), ("b", "a")] {
        replies.push(calls(vec![call("move", json!({"from": from, "to": to}))]));
    }
    replies.push(says("Moved."));
    let world = Scripted::new(replies).execute(|run| match run.tool.as_str() {
        "find" => gives(json!({"items": []})),
        _ => gives(json!(null)),
    });
    let sim = play(spec(vec![read("find"), write("move")]), world);
    check(&sim);
    assert_eq!(ids(&sim.runs), ["t-0", "t-1", "t-2", "t-4", "t-5", "t-6", "t-7"]);
}

#[test]
fn terminal_tools_end_the_turn_only_when_all_of_an_iteration_succeed() {
    let both = |second: &str| {
        calls(vec![text("Sent."), call("close", json!({})), call(second, json!({"n": 1}))])
    };
    let tools = || spec(vec![ends("close"), ends("archive"), read("find")]);
    let sim = play(tools(), Scripted::new(vec![both("archive")]));
    check(&sim);
    assert_eq!((sim.model_calls.len(), texts(&sim)), (1, vec!["Sent."]));

    let sim = play(tools(), Scripted::new(vec![both("find"), says("And found.")]));
    assert_eq!(sim.model_calls.len(), 2);

    let world = Scripted::new(vec![both("archive"), says("It failed.")])
        .execute(|run| if run.tool == "archive" { breaks("Locked.") } else { gives(fine()) });
    assert_eq!(play(tools(), world).model_calls.len(), 2);
}

#[test]
fn text_that_a_later_one_contains_is_dropped_but_short_echoes_stay() {
    let long = "The order was shipped on Monday.";
    let replies = vec![
        calls(vec![text(long), find(1)]),
        calls(vec![text("Hm."), find(2)]),
        says("Hm. In short: *The order*  was shipped on Monday. Anything else?"),
    ];
    let sim = play(spec(vec![read("find")]), Scripted::new(replies));
    check(&sim);
    assert_eq!(
        texts(&sim),
        ["Hm.", "Hm. In short: *The order*  was shipped on Monday. Anything else?"]
    );
}

#[test]
fn an_empty_answer_is_asked_again_and_fails_in_the_end() {
    let quiet = || Reply::Done(answer(vec![thinking("Hm.")]));
    let sim = play(spec(vec![]), Scripted::new(vec![quiet(), quiet(), says("Hello.")]));
    assert_eq!(inputs(&sim), [(InputKind::Correction, 0), (InputKind::Correction, 1)]);
    assert_eq!(sim.turn.outcome(), Some(Outcome::Completed));

    let sim = play(spec(vec![]), Scripted::new(vec![quiet(), quiet(), quiet()]));
    check(&sim);
    assert_eq!(sim.turn.outcome(), Some(Outcome::Error { error: TurnError::EmptyResponse }));
}

#[test]
fn an_answer_cut_by_its_limit_goes_on_and_ends_when_it_never_stops() {
    let cut = || Reply::Done(finished(vec![text("And then")], FinishReason::Length));
    let sim = play(spec(vec![]), Scripted::new(vec![cut(), says("the end.")]));
    assert_eq!(texts(&sim), ["And then", "the end."]);
    let sim = play(spec(vec![]), Scripted::new(vec![cut(), cut(), cut()]));
    assert_eq!(sim.turn.outcome(), Some(exhausted(ExhaustedReason::OutputLimit)));
}

/// It did not say nothing: it had no room to.
#[test]
fn an_answer_cut_while_the_model_thought_is_told_as_that_and_ends_at_the_limit() {
    let cut = || Reply::Done(finished(vec![thinking("Let me see.")], FinishReason::Length));
    let sim = play(spec(vec![]), Scripted::new(vec![cut(), says("Yes.")]));
    check(&sim);
    let told = sim.turn.message().unwrap().parts.iter().find_map(|part| match part {
        Part::Input(input) => Some(input.content.text().into_owned()),
        _ => None,
    });
    assert!(told.unwrap().contains("while you were still thinking"));
    assert_eq!(sim.turn.outcome(), Some(Outcome::Completed));
    let sim = play(spec(vec![]), Scripted::new(vec![cut(), cut(), cut()]));
    check(&sim);
    assert_eq!(sim.turn.outcome(), Some(exhausted(ExhaustedReason::OutputLimit)));
}

#[test]
fn a_refusal_with_words_is_an_answer_and_without_words_an_error() {
    let refusal = |blocks| Reply::Done(finished(blocks, FinishReason::Refusal));
    let sim = play(spec(vec![]), Scripted::new(vec![refusal(vec![text("I must not.")])]));
    assert_eq!(sim.turn.outcome(), Some(Outcome::Completed));
    let sim = play(spec(vec![]), Scripted::new(vec![refusal(vec![])]));
    let Some(Outcome::Error { error }) = sim.turn.outcome() else { panic!() };
    assert_eq!(error.code(), "content_filter");
}

#[test]
fn a_filtered_answer_runs_none_of_its_calls() {
    let filtered = finished(vec![text("Well"), find(1)], FinishReason::ContentFilter);
    let sim = play(spec(vec![read("find")]), Scripted::new(vec![Reply::Done(filtered)]));
    check(&sim);
    let Some(Outcome::Error { error }) = sim.turn.outcome() else { panic!() };
    assert_eq!((error.code(), sim.runs.len()), ("content_filter", 0));
}

#[test]
fn a_failure_whose_words_mimic_a_budget_is_still_an_error() {
    let error = ModelError::new(ModelErrorKind::BadRequest, "token-budget exhausted");
    let replies = vec![Reply::Fail { error: error.clone(), partial: None }];
    let sim = play(spec(vec![]), Scripted::new(replies));
    check(&sim);
    assert_eq!(sim.turn.outcome(), Some(Outcome::Error { error: TurnError::Model(error.into()) }));
}

#[test]
fn a_failed_model_call_keeps_the_work_done_before_it() {
    let replies = vec![calls(vec![find(1)]), fails(ModelErrorKind::Auth)];
    let sim = play(spec(vec![read("find")]), Scripted::new(replies));
    check(&sim);
    let call = sim.turn.message().unwrap().calls().next().unwrap();
    assert_eq!(call.output, Some(json(fine())));
}

#[test]
fn a_broken_stream_is_made_again_and_what_it_said_is_void() {
    let broken = breaks_after(ModelErrorKind::StreamCut, vec![text("Let m"), find(1)]);
    let attempts = vec![broken, calls(vec![find(2)])];
    let world = Scripted::new(vec![says("Found.")]).attempts(0, attempts);
    let sim = play(spec(vec![read("find")]), world);
    check(&sim);
    assert_eq!((texts(&sim), ids(&sim.runs)), (vec!["Found."], vec!["t-0"]));
    let retries: Vec<_> = sim
        .events
        .iter()
        .filter_map(|e| match &e.kind {
            EventKind::ModelRetry { attempt, .. } => Some(*attempt),
            _ => None,
        })
        .collect();
    assert_eq!((retries, sim.turn.meters().model_calls), (vec![2], 2));
}

#[test]
fn attempts_end_and_the_partial_answer_stays_with_its_calls_settled() {
    let broken = || breaks_after(ModelErrorKind::Server, vec![text("Let me"), find(1)]);
    let world = Scripted::new(vec![]).attempts(0, vec![broken(), broken(), broken()]);
    let sim = play(spec(vec![read("find")]), world);
    check(&sim);
    assert!(matches!(sim.turn.outcome(), Some(Outcome::Error { .. })));
    assert_eq!((texts(&sim), sim.model_calls.len()), (vec!["Let me"], 3));
    let codes = error_codes(sim.turn.message().unwrap());
    assert_eq!(codes, [ToolErrorCode::TruncatedArguments]);
}
