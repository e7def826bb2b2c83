//! Tool calls: announced together, parsed strictly, run side by side within bounds, never stale.

use crate::support::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use turnbuckle_core::error::ToolErrorCode;
use turnbuckle_core::event::EventKind;
use turnbuckle_core::machine::*;
use turnbuckle_core::model::Block;
use turnbuckle_core::part::{Native, NativeBlock, Part, ToolCallPart, ToolCallStatus};
use turnbuckle_core::transcript::Item;
use turnbuckle_core::usage::FinishReason;

fn made<W>(sim: &Sim<W>) -> Vec<&ToolCallPart> {
    sim.turn.message().unwrap().calls().collect()
}

fn find(n: u32) -> Block {
    call("find", json!({"n": n}))
}

#[test]
fn every_call_is_announced_before_any_is_checked_or_run() {
    let replies = vec![calls(vec![find(1), find(2), find(3)]), says("Found.")];
    let sim = play(spec(vec![read("find")]), Scripted::new(replies));
    check(&sim);
    let last_start =
        sim.events.iter().rposition(|e| matches!(e.kind, EventKind::ToolCallStarted { .. }));
    let first_status =
        sim.events.iter().position(|e| matches!(e.kind, EventKind::ToolCallStatus { .. }));
    assert!(last_start < first_status);
    let EventKind::AssistantMessageStarted { .. } = &sim.events[1].kind else { panic!() };
}

#[test]
fn results_keep_the_order_of_the_calls_whatever_finishes_first() {
    for seed in 0..20 {
        let replies = vec![calls(vec![find(1), find(2), find(3)]), says("Found.")];
        let world = Scripted::new(replies).execute(|run| gives(run.args["n"].clone()));
        let plan = Plan { order: Order::Random(seed), ..Plan::default() };
        let sim = play_with(spec(vec![read("find")]), world, plan);
        check(&sim);
        let request = sim.requests.all.last().unwrap();
        let Item::ToolResults { results } = &request[1] else { panic!() };
        let contents: Vec<_> = results.iter().map(|r| r.content.as_str()).collect();
        assert_eq!(contents, ["1", "2", "3"]);
    }
}

#[test]
fn calls_run_side_by_side_up_to_the_limit() {
    for (limit, widest) in [(8, 5), (2, 2)] {
        let mut spec = spec(vec![read("find")]);
        spec.limits.tool_concurrency = limit;
        let replies = vec![calls((0..5).map(find).collect()), says("Found.")];
        assert_eq!(play(spec, Scripted::new(replies)).widest, widest);
    }
}

#[test]
fn an_exclusive_tool_runs_alone_and_is_not_overtaken() {
    let batch = vec![find(1), call("solo", json!({})), find(2)];
    let replies = vec![calls(batch), says("Done.")];
    let sim = play(spec(vec![read("find"), exclusive("solo")]), Scripted::new(replies));
    check(&sim);
    assert_eq!((ids(&sim.runs), sim.widest), (vec!["t-0", "t-1", "t-2"], 1));
}

#[test]
fn calls_that_cannot_be_read_are_refused_with_the_reason_and_siblings_still_run() {
    let batch = vec![
        raw_call("a", "find", "{\"n\": 1,}"),
        raw_call("b", "nowhere", "{}"),
        raw_call("c", "elsewhere", "{}"),
        raw_call("d", "find", "[1]"),
        raw_call("e", "functions.find", ""),
        raw_call("f", "multi_tool_use.parallel", "{\"tool_uses\": []}"),
    ];
    let mut spec = spec(vec![read("find")]);
    spec.agents.insert("other".into(), agent(vec![read("elsewhere")]));
    let sim = play(spec, Scripted::new(vec![calls(batch), says("Hm.")]));
    check(&sim);
    let codes: Vec<_> = made(&sim).iter().map(|c| c.error.as_ref().map(|e| e.code)).collect();
    use ToolErrorCode::*;
    assert_eq!(
        codes,
        [
            Some(UnparsedArguments),
            Some(UnknownTool),
            Some(NotAdvertised),
            Some(UnparsedArguments),
            None,
            Some(UnknownTool)
        ]
    );
    assert_eq!(ids(&sim.runs), ["t-4"]);
    let told = &made(&sim)[1].error.as_ref().unwrap().message;
    assert!(told.contains("`nowhere`") && told.contains("find"), "{told}");
    assert_eq!(made(&sim)[0].arguments, "{\"n\": 1,}");
}

/// Some models wrap calls into one of a tool that nobody has.
fn wrapped(name: &str, uses: Value) -> Block {
    raw_call("w", name, &json!({ "tool_uses": uses }).to_string())
}

#[test]
fn calls_that_are_wrapped_into_one_are_unpacked_and_each_has_its_result() {
    let uses = json!([
        {"recipient_name": "functions.find", "parameters": {"n": 1}},
        {"recipient_name": "find", "parameters": {"n": 2}},
        {"recipient_name": "functions.nowhere", "parameters": {}},
        {"recipient_name": "find"},
    ]);
    for name in ["multi_tool_use.parallel", "functions.multi_tool_use.parallel", "parallel"] {
        for seed in 0..4 {
            let batch = vec![text("Both."), wrapped(name, uses.clone()), raw_call("x", "find", "")];
            let world = Scripted::new(vec![calls(batch), says("Found.")])
                .execute(|run| gives(run.args.get("n").cloned().unwrap_or_default()));
            let plan = Plan { order: Order::Random(seed), ..Plan::default() };
            let sim = play_with(spec(vec![read("find")]), world, plan);
            check(&sim);
            let calls: Vec<_> = made(&sim)
                .iter()
                .map(|c| (&*c.wire_id, c.name.as_str(), c.arguments.as_str()))
                .collect();
            assert_eq!(
                calls,
                [
                    ("w", "find", r#"{"n":1}"#),
                    ("call_1", "find", r#"{"n":2}"#),
                    ("call_2", "nowhere", "{}"),
                    ("call_3", "find", ""),
                    ("x", "find", ""),
                ]
            );
            let request = sim.requests.all.last().unwrap();
            let Item::ToolResults { results } = &request[1] else { panic!() };
            let given: Vec<_> = results.iter().map(|r| (&*r.wire_id, r.is_error)).collect();
            let all = ["w", "call_1", "call_2", "call_3", "x"];
            assert_eq!(given, all.map(|id| (id, id == "call_2")));
            assert_eq!((results[0].content.as_str(), results[1].content.as_str()), ("1", "2"));
        }
    }
}

#[test]
fn a_wrapper_that_is_not_sound_is_refused_and_a_tool_of_that_name_is_a_tool() {
    let sound = json!({"recipient_name": "find", "parameters": {"n": 1}});
    for uses in [json!([]), json!({}), json!([sound, {"parameters": {}}]), json!([sound, 7])] {
        let batch = vec![wrapped("multi_tool_use.parallel", uses)];
        let world = Scripted::new(vec![calls(batch), says("Hm.")]);
        let sim = play(spec(vec![read("find")]), world);
        check(&sim);
        assert_eq!(error_codes(sim.turn.message().unwrap()), [ToolErrorCode::UnknownTool]);
        assert!(sim.runs.is_empty());
    }
    let world = Scripted::new(vec![calls(vec![wrapped("parallel", json!([sound]))]), says("Hm.")]);
    let sim = play(spec(vec![read("find"), read("parallel")]), world);
    assert_eq!((made(&sim)[0].name.as_str(), ids(&sim.runs)), ("parallel", vec!["t-0"]));
}

#[test]
fn a_call_cut_by_the_output_limit_never_runs_even_when_nothing_of_its_arguments_came() {
    for (arguments, code) in
        [("{\"n\": ", ToolErrorCode::TruncatedArguments), ("", ToolErrorCode::TruncatedArguments)]
    {
        let blocks = vec![raw_call("", "find", ""), raw_call("", "find", arguments)];
        let cut = Reply::Done(finished(blocks, FinishReason::Length));
        let sim = play(spec(vec![read("find")]), Scripted::new(vec![cut, says("Shorter.")]));
        check(&sim);
        assert_eq!(ids(&sim.runs), ["t-0"]);
        assert_eq!(made(&sim)[1].error.as_ref().unwrap().code, code);
    }
}

#[test]
fn wire_ids_are_unique_in_the_message_whatever_the_provider_sends() {
    let twice = vec![raw_call("x", "find", "{}"), raw_call("x", "find", "{}")];
    let none = vec![find(1), find(2), raw_call("x", "find", "{}")];
    let replies = vec![calls(twice), calls(none), says("Done.")];
    let sim = play(spec(vec![read("find")]), Scripted::new(replies));
    check(&sim);
    let wire: BTreeSet<_> = made(&sim).iter().map(|c| c.wire_id.clone()).collect();
    assert_eq!((wire.len(), &*made(&sim)[0].wire_id), (5, "x"));
}

#[test]
fn a_repeated_read_is_served_from_the_cache_until_something_writes() {
    let read_then = |second: Vec<Block>| vec![calls(vec![find(1)]), calls(second), says("Done.")];
    let save = || call("save", json!({}));
    let batches: [(Vec<Block>, Vec<bool>); 5] = [
        (vec![find(1)], vec![false, true]),
        (vec![find(2)], vec![false, false]),
        (vec![save(), find(1)], vec![false, false, false]),
        (vec![find(1), save()], vec![false, true, false]),
        (vec![call("broken", json!({})), find(1)], vec![false, false, false]),
    ];
    for (second, cached) in batches {
        let tools = vec![read("find"), write("save"), put("broken")];
        let world = Scripted::new(read_then(second.clone()))
            .execute(|run| if run.tool == "broken" { breaks("No.") } else { gives(fine()) });
        let sim = play(spec(tools), world);
        check(&sim);
        let got: Vec<_> = made(&sim).iter().map(|c| c.cached).collect();
        assert_eq!(got, cached, "{second:?}");
    }
}

#[test]
fn failures_are_not_cached_and_keys_do_not_matter_in_their_order() {
    let ask = |text: &str| calls(vec![raw_call("", "find", text)]);
    let replies = vec![ask("{\"a\":1,\"b\":2}"), ask("{\"b\":2,\"a\":1}"), says("Done.")];
    let world = Scripted::new(replies).execute(|_| breaks("No."));
    assert_eq!(play(spec(vec![read("find")]), world).runs.len(), 2);
    let replies = vec![ask("{\"a\":1,\"b\":2}"), ask("{\"b\":2,\"a\":1}"), says("Done.")];
    assert_eq!(play(spec(vec![read("find")]), Scripted::new(replies)).runs.len(), 1);
}

#[test]
fn captured_writes_drop_the_cache_too() {
    let replies = vec![
        calls(vec![find(1)]),
        calls(vec![call("pay", json!({}))]),
        calls(vec![find(1)]),
        says("Done."),
    ];
    let mut spec = spec(vec![read("find"), write("pay")]);
    spec.mode = RunMode::Capture;
    let world = Scripted::new(replies).check(|c| if c.tool == "pay" { ask(c) } else { run(c) });
    let sim = play(spec, world);
    assert_eq!(ids(&sim.runs), ["t-0", "t-1", "t-2"]);
}

#[test]
fn a_result_of_the_front_end_drops_the_cache() {
    let replies = vec![
        calls(vec![find(1)]),
        calls(vec![call("ui", json!({}))]),
        calls(vec![find(1)]),
        says("Done."),
    ];
    let world =
        Scripted::new(replies).check(|c| if c.tool == "ui" { at_front_end(c) } else { run(c) });
    let sim = play(spec(vec![read("find"), client("ui")]), world);
    check(&sim);
    assert_eq!(ids(&sim.runs), ["t-0", "t-2"]);
}

#[test]
fn results_of_every_kind_survive_their_way_through_json() {
    for output in [json!(null), json!(1.1e300), json!(0.1), json!(u64::MAX), json!({"a": null})] {
        let world = Scripted::new(vec![calls(vec![find(1)]), says("Done.")]);
        let given = output.clone();
        let sim = play(spec(vec![read("find")]), world.execute(move |_| gives(given.clone())));
        check(&sim);
        assert_eq!(made(&sim)[0].output, Some(json_of(output)));
    }
}

fn json_of(value: Value) -> turnbuckle_core::json::Json {
    json(value)
}

#[test]
fn directives_of_a_result_reach_the_loop() {
    let directives = Directives {
        force_tool: Some("save".into()),
        add_context: vec!["The customer is on hold.".into()],
        plan: Some(json(json!(["call back"]))),
        task: Some(("export".into(), "e-1".into())),
        context_dropped: Some(256),
    };
    let replies = vec![calls(vec![find(1)]), says("Done.")];
    let world = Scripted::new(replies).execute(move |_| gives_with(fine(), directives.clone()));
    let sim = play(spec(vec![read("find"), put("save")]), world);
    check(&sim);
    let EffectKind::CallModel(second) = &sim.model_calls[1].kind else { panic!() };
    assert_eq!(second.force_tool.as_ref().unwrap(), &"save");
    let last = sim.requests.all[1].last().unwrap();
    assert_eq!(*last, Item::System { text: "The customer is on hold.".into() });
    let told = |kind: &EventKind| {
        matches!(
            kind,
            EventKind::PlanUpdated { .. }
                | EventKind::TaskStarted { .. }
                | EventKind::ContextOverflowed { cap: 256 }
        )
    };
    assert_eq!(sim.events.iter().filter(|e| told(&e.kind)).count(), 3);
}

#[test]
fn what_was_assumed_of_the_arguments_is_with_the_call_when_it_runs_even_after_a_crash() {
    let warning = "took the nearest name";
    for tick in 0..20 {
        let told = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let seen = told.clone();
        let world = Scripted::new(vec![calls(vec![find(1)]), says("Found.")])
            .check(move |check| {
                let args = check.args.clone();
                Verdict::Run { args, warnings: vec![warning.to_owned()] }
            })
            .execute(move |run| {
                seen.borrow_mut().push(run.warnings.clone());
                gives(fine())
            });
        let plan = Plan { crashes: [tick].into(), ..Plan::default() };
        let sim = play_with(spec(vec![read("find")]), world, plan);
        check(&sim);
        let told = told.borrow();
        assert!(!told.is_empty() && told.iter().all(|w| w[..] == [warning]), "{told:?}");
    }
}

#[test]
fn reports_of_a_running_tool_are_part_of_the_call() {
    let mut world = Scripted::new(vec![calls(vec![find(1)]), says("Done.")]);
    world.progress = vec![json!({"done": 1}), json!({"done": 2})];
    let sim = play(spec(vec![read("find")]), world);
    check(&sim);
    let reports: Vec<_> = made(&sim)[0].progress.iter().map(|p| (*p.data).clone()).collect();
    assert_eq!(reports, [json!({"done": 1}), json!({"done": 2})]);
}

/// Streams what `told` says and then completes the answer with these blocks.
fn streamed(told: &[turnbuckle_core::model::ModelDelta<'_>], blocks: Vec<Block>) -> Vec<Part> {
    let mut turn = Turn::new(spec(vec![read("find")])).unwrap();
    let mut out = Output::default();
    let at = turnbuckle_core::time::Timestamp::from_millis(START);
    turn.handle(at, Input::Begin, &mut out).unwrap();
    for delta in told {
        turn.delta(at, 0, *delta, &mut out).unwrap();
    }
    let done = Input::ModelDone { step: 0, answer: Box::new(answer(blocks)) };
    turn.handle(at, done, &mut out).unwrap();
    let events: Vec<_> = out.events.iter().map(|e| (e.at, e.kind.clone())).collect();
    let mut fold = turnbuckle_core::fold::TurnFold::default();
    for (at, kind) in &events {
        fold.apply(*at, kind).unwrap();
    }
    assert_same(&fold, turn.messages(), "streamed is not stored");
    turn.message().unwrap().parts.clone()
}

#[test]
fn the_message_says_what_the_complete_answer_says_whatever_was_streamed() {
    use turnbuckle_core::model::ModelDelta::*;
    let signed = Block::Thinking {
        text: String::new(),
        native: Some(Native::from(NativeBlock {
            wire: "w".into(),
            provider: "p".into(),
            model: "m".into(),
            data: json(json!("sig")),
        })),
    };
    let answer = vec![signed, text("I look."), raw_call("w1", "find", "{\"n\": 1}")];
    let whole = streamed(&[], answer.clone());
    let start = CallStart { block: 2, wire_id: "w1", name: "find" };
    let ways: [Vec<_>; 6] = [
        vec![Text { block: 1, text: "I lo" }, Text { block: 1, text: "ok." }, start],
        vec![Text { block: 1, text: "Something else" }],
        vec![Text { block: 1, text: "I look." }, start, CallArguments { block: 2, text: "{\"n\"" }],
        // What began differently is void.
        vec![CallStart { block: 1, wire_id: "w1", name: "find" }],
        vec![Text { block: 1, text: "I look." }, start, CallArguments { block: 2, text: "{\"x" }],
        vec![Text { block: 1, text: "I look." }, Text { block: 7, text: "More." }],
    ];
    for told in ways {
        assert_same(&streamed(&told, answer.clone()), &whole, "the message differs");
    }
    let kinds: Vec<_> = whole.iter().map(|p| matches!(p, Part::Thinking(_))).collect();
    assert_eq!(kinds, [true, false, false]);
    assert_eq!(whole[2].as_call().unwrap().arguments, "{\"n\": 1}");
    assert_eq!(whole[2].as_call().unwrap().status, ToolCallStatus::Running);
}

#[test]
fn a_clock_that_goes_backwards_does_not_turn_events_around() {
    let replies = vec![calls(vec![text("I look for it."), find(1)]), says("Found.")];
    let plan = Plan { clock_jumps: true, ..Plan::default() };
    let sim = play_with(spec(vec![read("find")]), Scripted::new(replies), plan);
    check(&sim);
    assert!(sim.events.iter().zip(sim.events.iter().skip(1)).all(|(a, b)| a.at <= b.at));
}

#[test]
fn inputs_that_fit_no_step_are_refused_without_a_trace() {
    let world = Scripted::new(vec![calls(vec![find(1)])]).check(ask).act(|_| Act::Wait);
    let mut sim = play(spec(vec![read("find")]), world);
    let executed = |step| Input::Executed { step, result: Box::new(gives(fine())), captured: None };
    assert_eq!(sim.refused(executed(99)), MachineError::UnknownStep(99));
    assert_eq!(sim.refused(Input::Begin), MachineError::Spec("the turn has already begun".into()));
    let late = |n| matches!(n, MachineError::NotWaiting { .. });
    let decide = |call: &str| Input::Decide { call: call.into(), decision: approve(), by: None };
    assert!(late(sim.refused(decide("t-9"))));
    let result = Ok(json(fine()));
    assert!(late(sim.refused(Input::ClientResult { call: "t-0".into(), result })));

    let mut turn = Turn::new(spec(vec![])).unwrap();
    let at = turnbuckle_core::time::Timestamp::from_millis(START);
    turn.handle(at, Input::Begin, &mut Output::default()).unwrap();
    let before = turn.clone();
    let wrong = turn.handle(at, executed(0), &mut Output::default());
    assert_eq!(wrong, Err(MachineError::UnknownStep(0)));
    assert_same(&turn, &before, "a refused input changed the turn");
}
