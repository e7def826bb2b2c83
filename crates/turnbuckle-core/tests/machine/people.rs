//! People in the loop: cards, decisions, front ends; and acting without people.

use crate::support::*;
use serde_json::json;
use turnbuckle_core::allowance::{Remember, RememberFor};
use turnbuckle_core::error::{ToolError, ToolErrorCode};
use turnbuckle_core::event::EventKind;
use turnbuckle_core::machine::*;
use turnbuckle_core::message::{Asks, CardStatus, Decided, SystemBody};
use turnbuckle_core::model::Block;
use turnbuckle_core::outcome::{AbortReason, ExhaustedReason, Outcome};
use turnbuckle_core::part::{InputKind, Part, ToolCallStatus};
use turnbuckle_core::time::Timestamp;

fn pay(n: u32) -> Block {
    call("pay", json!({"n": n}))
}

fn find(n: u32) -> Block {
    call("find", json!({"n": n}))
}

fn tools() -> TurnSpec {
    spec(vec![read("find"), write("pay"), client("ui")])
}

/// `pay` asks, `ui` runs at the front end.
fn rules(check: &PrepareCall) -> Verdict {
    match check.tool.as_str() {
        "pay" => ask(check),
        "ui" => at_front_end(check),
        _ => run(check),
    }
}

fn statuses<W>(sim: &Sim<W>) -> Vec<ToolCallStatus> {
    sim.turn.message().unwrap().calls().map(|c| c.status).collect()
}

fn cards<W>(sim: &Sim<W>) -> Vec<(String, CardStatus)> {
    let cards = sim.turn.messages().cards.iter().map(|m| match &m.body {
        SystemBody::Approval(card) => (m.id.to_string(), card.status),
        SystemBody::Note { .. } => panic!("a note"),
    });
    cards.collect()
}

fn decide(call: &str, decision: Decision) -> Input {
    Input::Decide { call: call.into(), decision, by: Some("ada".into()) }
}

#[test]
fn a_pause_shows_every_card_after_the_siblings_that_need_none_have_run() {
    let world = Scripted::new(vec![calls(vec![pay(1), find(1), pay(2)])]).check(rules);
    let sim = play(tools(), world.act(|_| Act::Wait));
    check(&sim);
    assert_eq!(sim.turn.outcome(), Some(Outcome::Paused));
    use ToolCallStatus::*;
    assert_eq!(statuses(&sim), [AwaitingApproval, Completed, AwaitingApproval]);
    let pending = CardStatus::Pending;
    assert_eq!(cards(&sim), [("t-0-card".into(), pending), ("t-2-card".into(), pending)]);
    let EventKind::TurnPaused { calls } = &sim.events.last().unwrap().kind else { panic!() };
    assert_eq!(calls, &["t-0", "t-2"].map(turnbuckle_core::ids::CallId::from));
    let hooks = sim.journal.iter().filter(|r| matches!(r.input, Input::Finalized { .. }));
    assert_eq!(hooks.count(), 0);
}

#[test]
fn a_card_shows_exactly_what_will_run() {
    let question = Question {
        title: "Pay?".into(),
        digest: Some(json(json!("1 EUR"))),
        reason: Some("over the limit".into()),
        editable: Some(json(json!({"type": "object"}))),
        expires_at: Some(Timestamp::from_millis(START + 5)),
    };
    let canonical = json(json!({"n": 1, "currency": "EUR"}));
    let (asked, args) = (question.clone(), canonical.clone());
    let world = Scripted::new(vec![calls(vec![pay(1)])])
        .check(move |_| Verdict::Ask {
            args: args.clone(),
            question: Box::new(asked.clone()),
            warnings: Vec::new(),
        })
        .act(|_| Act::Wait);
    let sim = play(tools(), world);
    let card = sim.cards().remove(0);
    assert_eq!((card.args, card.digest), (canonical, question.digest));
    assert_eq!((card.title, card.reason), (question.title, question.reason));
    assert_eq!((card.editable, card.expires_at), (question.editable, question.expires_at));
    assert_eq!(
        (card.call.as_str(), card.message.as_str(), card.asks, card.agent),
        ("t-0", "t-a", Asks::Decision, Some("main".into()))
    );
}

#[test]
fn approving_executes_in_place_without_a_model_call_and_the_loop_gives_a_closing_word() {
    let replies = vec![calls(vec![text("I pay."), pay(1)]), says("Paid.")];
    let world = Scripted::new(replies).check(rules).act(|_| Act::Wait);
    let mut sim = play(tools(), world);
    assert_eq!(sim.model_calls.len(), 1);
    sim.give(decide("t-0", approve()));
    check(&sim);
    assert_eq!(sim.turn.outcome(), Some(Outcome::Completed));
    let message = sim.turn.message().unwrap();
    assert_eq!(message.parts.len(), 3);
    assert_eq!(message.parts[1].as_call().unwrap().status, ToolCallStatus::Completed);
    assert_eq!(cards(&sim), [("t-0-card".into(), CardStatus::Approved)]);
    assert_eq!((sim.model_calls.len(), ids(&sim.runs)), (2, vec!["t-0"]));
}

#[test]
fn each_card_is_decided_on_its_own_in_any_order_and_the_model_waits_for_all() {
    let replies = vec![calls(vec![pay(1), pay(2)]), says("One of two.")];
    let world = Scripted::new(replies).check(rules).act(|_| Act::Wait);
    let mut sim = play(tools(), world);
    sim.give(decide("t-1", approve()));
    assert_eq!((sim.turn.outcome(), sim.model_calls.len()), (Some(Outcome::Paused), 1));
    assert_eq!(sim.cards().len(), 1);
    sim.give(decide("t-0", reject("too dear")));
    check(&sim);
    assert_eq!(statuses(&sim), [ToolCallStatus::Rejected, ToolCallStatus::Completed]);
    let call = sim.turn.message().unwrap().calls().next().unwrap().clone();
    assert_eq!(call.output, Some(json(json!({"rejected": true, "reason": "too dear"}))));
    assert_eq!(sim.model_calls.len(), 2);
}

#[test]
fn deciding_twice_executes_once_and_the_second_gets_a_conflict() {
    let replies = vec![calls(vec![pay(1), pay(2)]), says("Paid.")];
    let world = Scripted::new(replies).check(rules).act(|_| Act::Wait);
    let mut sim = play(tools(), world);
    sim.give(decide("t-0", approve()));
    let conflict = sim.refused(decide("t-0", approve()));
    let state = "it has its result already";
    assert_eq!(conflict, MachineError::NotWaiting { call: "t-0".into(), state });
    sim.give(decide("t-1", Decision::Expire));
    assert_eq!(sim.refused(decide("t-1", approve())), MachineError::Ended);
    assert_eq!(ids(&sim.runs), ["t-0"]);
    let expired = sim.turn.message().unwrap().calls().nth(1).unwrap().error.clone();
    assert_eq!(expired.unwrap().code, ToolErrorCode::Expired);
}

#[test]
fn an_amendment_is_checked_again_and_what_runs_is_what_was_checked() {
    let amendment = json(json!({"n": 5}));
    let replies = vec![calls(vec![pay(9)]), says("Paid 5.")];
    let world = Scripted::new(replies)
        .check(|check| match &check.stage {
            PrepareStage::First => ask(check),
            PrepareStage::Approved { amendment } => {
                Verdict::Run { args: amendment.clone().unwrap(), warnings: Vec::new() }
            }
        })
        .act(|_| Act::Wait);
    let mut sim = play(tools(), world);
    let reason = Some("five is enough".to_owned());
    let remember = Some(Remember::of(RememberFor::User));
    let decision = Decision::Approve {
        amendment: Some(amendment.clone()),
        reason: reason.clone(),
        remember: remember.clone(),
    };
    let given = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let seen = given.clone();
    sim.world = std::mem::replace(&mut sim.world, Scripted::new(vec![])).execute(move |run| {
        seen.borrow_mut().push((run.args.clone(), run.reason.clone()));
        gives(fine())
    });
    sim.give(decide("t-0", decision));
    check(&sim);
    assert_eq!(*given.borrow(), [(amendment.clone(), reason.clone())]);
    let call = sim.turn.message().unwrap().calls().next().unwrap();
    assert_eq!((&call.args, &call.amendment), (&Some(amendment.clone()), &Some(amendment.clone())));
    let SystemBody::Approval(card) = &sim.turn.messages().cards[0].body else { panic!() };
    let at = card.decided.as_ref().unwrap().at;
    let by = Some("ada".into());
    let decided = Decided { by, at, amendment: Some(amendment), reason, remember };
    assert_eq!(card.decided, Some(decided));
}

#[test]
fn a_failed_check_after_the_approval_goes_to_the_model_and_the_turn_goes_on() {
    let replies = vec![calls(vec![pay(1)]), says("It is closed.")];
    let world = Scripted::new(replies).check(|check| match check.stage {
        PrepareStage::First => ask(check),
        PrepareStage::Approved { .. } => {
            Verdict::Refuse { error: ToolError::invalid("The account is closed."), args: None }
        }
    });
    let sim = play(tools(), world);
    check(&sim);
    assert_eq!((sim.turn.outcome(), sim.runs.len()), (Some(Outcome::Completed), 0));
    assert_eq!(statuses(&sim), [ToolCallStatus::Error]);
}

#[test]
fn a_broken_call_is_never_shown_and_its_siblings_are() {
    let world = Scripted::new(vec![calls(vec![raw_call("", "pay", "{"), pay(1)])]);
    let sim = play(tools(), world.check(rules).act(|_| Act::Wait));
    check(&sim);
    assert_eq!(statuses(&sim), [ToolCallStatus::Error, ToolCallStatus::AwaitingApproval]);
    assert_eq!(sim.cards().len(), 1);
}

#[test]
fn a_denied_call_is_not_asked_about_again() {
    let replies = vec![calls(vec![pay(1)]), calls(vec![pay(1)]), says("As you wish.")];
    let world = Scripted::new(replies).check(rules).act(|_| Act::Decide(reject("no")));
    let sim = play(tools(), world);
    check(&sim);
    assert_eq!(statuses(&sim), [ToolCallStatus::Rejected, ToolCallStatus::Rejected]);
    assert_eq!(cards(&sim).len(), 1);
}

#[test]
fn approvals_beyond_the_cap_are_not_asked_and_end_the_turn() {
    let mut tight = tools();
    tight.limits.max_approvals = 1;
    let world = Scripted::new(vec![calls(vec![pay(1), pay(2)])]).check(rules);
    let sim = play(tight, world);
    check(&sim);
    let outcome = Outcome::Exhausted { reason: ExhaustedReason::MaxApprovals };
    assert_eq!((sim.turn.outcome(), cards(&sim).len()), (Some(outcome), 1));
}

#[test]
fn a_new_message_settles_what_waits_as_superseded() {
    let world = Scripted::new(vec![calls(vec![pay(1), call("ui", json!({}))])]).check(rules);
    let mut sim = play(tools(), world.act(|_| Act::Wait));
    assert!(!sim.turn.accepts_steering());
    sim.give(Input::Cancel { superseded: Superseded::ByMessage });
    check(&sim);
    let outcome = Outcome::Aborted { reason: AbortReason::Superseded };
    assert_eq!(sim.turn.outcome(), Some(outcome));
    assert_eq!(statuses(&sim), [ToolCallStatus::Rejected; 2]);
    assert!(cards(&sim).iter().all(|(_, status)| *status == CardStatus::Superseded));
    assert_eq!(error_codes(sim.turn.message().unwrap()), [ToolErrorCode::Superseded; 2]);
}

#[test]
fn waiting_for_people_costs_no_time() {
    let mut spec = tools();
    spec.limits.max_wall_ms = 1_000;
    let world = Scripted::new(vec![calls(vec![pay(1)]), says("Paid.")]).check(rules);
    let mut sim = play(spec, world.act(|_| Act::Wait));
    let later = Timestamp::from_millis(START + 86_400_000);
    let mut out = Output::default();
    sim.turn.handle(later, decide("t-0", approve()), &mut out).unwrap();
    let step = out.effects[0].step;
    let args = json(json!({"n": 1}));
    let verdict = Box::new(Verdict::Run { args, warnings: Vec::new() });
    sim.turn.handle(later, Input::Prepared { step, verdict }, &mut out).unwrap();
    let result = Box::new(gives(fine()));
    sim.turn
        .handle(later, Input::Executed { step: step + 1, result, captured: None }, &mut out)
        .unwrap();
    assert!(matches!(out.effects.last().unwrap().kind, EffectKind::CallModel(_)));
}

#[test]
fn a_client_tool_pauses_and_takes_its_result_from_the_caller() {
    let replies = vec![calls(vec![call("ui", json!({})), find(1)]), says("Seen.")];
    let mut sim = play(tools(), Scripted::new(replies).check(rules).act(|_| Act::Wait));
    assert_eq!(sim.cards()[0].asks, Asks::ClientResult);
    let kinds = |sim: &Sim<_>| {
        let of = |e: &&turnbuckle_core::event::Event| {
            matches!(e.kind, EventKind::ClientToolRequired { .. })
        };
        sim.events.iter().filter(of).count()
    };
    assert_eq!(kinds(&sim), 1);
    let refused = sim.refused(decide("t-0", approve()));
    assert!(matches!(refused, MachineError::NotWaiting { .. }));
    let output = json(json!({"picked": 3}));
    sim.give(Input::ClientResult { call: "t-0".into(), result: Ok(output.clone()) });
    check(&sim);
    assert_eq!(sim.turn.message().unwrap().calls().next().unwrap().output, Some(output));
    assert_eq!(sim.turn.meters().approvals, 0);
}

#[test]
fn what_a_front_end_gives_is_made_a_result_like_any_other() {
    let replies = || vec![calls(vec![call("ui", json!({"at": 1}))]), says("Seen.")];
    let given = || Input::ClientResult { call: "t-0".into(), result: Ok(json(json!("all"))) };
    let world = Scripted::new(replies()).check(rules).act(|_| Act::Wait).settle(|settle| {
        assert_eq!((*settle.args).clone(), json!({"at": 1}));
        let context = Directives { add_context: vec!["Mind it.".into()], ..Directives::default() };
        gives_with(json!(["shown", *settle.output]), context)
    });
    let mut sim = play(tools(), world);
    sim.give(given());
    check(&sim);
    let message = sim.turn.message().unwrap();
    assert_eq!(message.calls().next().unwrap().output, Some(json(json!(["shown", "all"]))));
    let noted =
        message.parts.iter().any(|p| matches!(p, Part::Input(i) if i.kind == InputKind::Context));
    assert!(noted);

    let world = Scripted::new(replies()).check(rules).act(|_| Act::Wait);
    let mut sim = play(tools(), world.settle(|_| breaks("it is forbidden")));
    sim.give(given());
    check(&sim);
    let call = sim.turn.message().unwrap().calls().next().unwrap();
    assert_eq!((call.status, &call.output), (ToolCallStatus::Error, &None));

    // Until the result is made of it, the card is decided all the same.
    let mut sim = play(tools(), Scripted::new(replies()).check(rules).act(|_| Act::Wait));
    let (now, mut out) = (Timestamp::from_millis(START), Output::default());
    sim.turn.handle(now, given(), &mut out).unwrap();
    let again = sim.turn.handle(now, given(), &mut out);
    assert!(matches!(again, Err(MachineError::NotWaiting { state: "it was decided already", .. })));
}

#[test]
fn a_client_tool_that_also_needs_approval_has_a_card_for_each() {
    let world = Scripted::new(vec![calls(vec![call("ui", json!({}))]), says("Seen.")])
        .check(|check| match check.stage {
            PrepareStage::First => ask(check),
            PrepareStage::Approved { .. } => at_front_end(check),
        })
        .act(|_| Act::Wait);
    let mut sim = play(tools(), world);
    sim.give(decide("t-0", approve()));
    assert_eq!(sim.turn.outcome(), Some(Outcome::Paused));
    sim.give(Input::ClientResult { call: "t-0".into(), result: Ok(json(fine())) });
    check(&sim);
    let approved = CardStatus::Approved;
    assert_eq!(cards(&sim), [("t-0-card".into(), approved), ("t-0-card-2".into(), approved)]);
}

fn captured(replies: Vec<Reply>) -> Sim<Scripted> {
    let mut spec = tools();
    spec.mode = RunMode::Capture;
    spec.first_capture = 4;
    spec.agents.insert("helper".into(), agent(vec![write("pay")]));
    spec.agents.get_mut("main").unwrap().tools.push(sub("helper", "helper"));
    let world = Scripted::new(replies)
        .also("helper", vec![calls(vec![pay(7)]), says("Queued.")])
        .check(rules)
        .execute(|run| match run.mode {
            ExecuteMode::Capture { local_index } => gives(json!(format!("temp_{local_index}"))),
            _ => gives(fine()),
        });
    play(spec, world)
}

#[test]
fn in_capture_mode_actions_are_predicted_and_counted_over_all_agents() {
    let batch = vec![pay(1), find(1), call("helper", json!({"task": "pay"})), pay(2)];
    let sim = captured(vec![calls(batch), says("Queued three.")]);
    check(&sim);
    assert_eq!(sim.turn.outcome(), Some(Outcome::Completed));
    assert!(cards(&sim).is_empty());
    let modes: Vec<_> = sim.runs.iter().map(|(call, mode)| (call.as_str(), *mode)).collect();
    let capture = |local_index| ExecuteMode::Capture { local_index };
    assert_eq!(
        modes,
        [
            ("t-0", capture(4)),
            ("t-1", ExecuteMode::Real),
            ("t-3", capture(5)),
            ("t-2.0", capture(6))
        ]
    );
    assert_eq!(sim.turn.next_capture(), 7);
    let first = sim.turn.message().unwrap().calls().next().unwrap();
    assert_eq!((first.captured, first.output.clone()), (true, Some(json(json!("temp_4")))));
}

#[test]
fn in_capture_mode_broken_calls_are_failures_and_front_ends_are_not_there() {
    let batch = vec![raw_call("", "pay", "nope"), call("ui", json!({}))];
    let sim = captured(vec![calls(batch), says("Hm.")]);
    check(&sim);
    use ToolErrorCode::*;
    assert_eq!(error_codes(sim.turn.message().unwrap()), [UnparsedArguments, NotEnabled]);
    assert!(
        sim.turn.message().unwrap().parts.iter().filter_map(Part::as_call).all(|c| !c.captured)
    );
    assert_eq!(sim.turn.next_capture(), 4);
}
