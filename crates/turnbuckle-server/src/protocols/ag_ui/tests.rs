//! Golden turns as AG-UI: every part is opened before it grows and closed once, and a client has in the end what is stored.

use super::Version;
use super::messages;
use super::run::{Names, Run, Since};
use super::write::Page;
use crate::live::{Dialect, Frames};
use crate::protocols::testing::{Golden, golden, play, read, with_deaths, without_its_turn};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use turnbuckle_core::event::Event;

fn run(golden: &Golden, version: Version, since: Since) -> Run {
    let page = Page {
        session: golden.events[0].session.clone(),
        version,
        history: vec![json!({"id": "before", "role": "user", "content": "Earlier"})],
        given: BTreeSet::new(),
        agents: Vec::new(),
        usage: Vec::new(),
    };
    let names = Names { thread: "thread".into(), run: "run".into() };
    Run::new(names, golden.events[0].turn.clone(), page, since, json!({"mine": 1}))
}

fn write(golden: &Golden, events: &[Event]) -> Vec<Value> {
    play(&mut run(golden, Version::One, Since::Beginning), events)
}

fn id<'a>(event: &'a Value, name: &str) -> &'a str {
    event[name].as_str().unwrap_or_else(|| panic!("{event} has no {name}"))
}

/// What clients insist on.
fn sound(name: &str, events: &[Value]) {
    let mut open: BTreeMap<(&str, String), String> = BTreeMap::new();
    let owner = |event: &Value| event["subagentRunId"].to_string();
    let mut agents: BTreeSet<String> = BTreeSet::new();
    for (i, event) in events.iter().enumerate() {
        let at = || format!("{name}, event {i}: {event}");
        let kind = id(event, "type");
        assert_eq!(kind == "RUN_STARTED", i == 0, "{}", at());
        assert_eq!(
            kind == "RUN_FINISHED" || kind == "RUN_ERROR",
            i + 1 == events.len(),
            "{}",
            at()
        );
        assert!(!event.to_string().contains(":null"), "a null: {}", at());
        let opened = match kind {
            "TEXT_MESSAGE_START" => Some(("text", "messageId")),
            "REASONING_START" => Some(("span", "messageId")),
            "REASONING_MESSAGE_START" => Some(("reasoning", "messageId")),
            "TOOL_CALL_START" => Some(("call", "toolCallId")),
            _ => None,
        };
        let grown = match kind {
            "TEXT_MESSAGE_CONTENT" | "TEXT_MESSAGE_END" => Some(("text", "messageId")),
            "REASONING_END" => Some(("span", "messageId")),
            "REASONING_MESSAGE_CONTENT" | "REASONING_MESSAGE_END" => {
                Some(("reasoning", "messageId"))
            }
            "TOOL_CALL_ARGS" | "TOOL_CALL_END" => Some(("call", "toolCallId")),
            _ => None,
        };
        if let Some((what, field)) = opened {
            let known = open.insert((what, id(event, field).to_owned()), owner(event));
            assert_eq!(known, None, "opened again: {}", at());
        }
        if let Some((what, field)) = grown {
            let key = (what, id(event, field).to_owned());
            assert_eq!(open.get(&key), Some(&owner(event)), "not open: {}", at());
            if kind.ends_with("_END") {
                open.remove(&key);
            } else {
                assert!(!id(event, "delta").is_empty(), "{}", at());
            }
        }
        match kind {
            "SUBAGENT_STARTED" => {
                assert!(agents.insert(id(event, "subagentRunId").to_owned()), "{}", at());
            }
            "SUBAGENT_FINISHED" => {
                assert!(agents.remove(id(event, "subagentRunId")), "{}", at());
            }
            _ => {
                if let Some(agent) = event["subagentRunId"].as_str() {
                    assert!(agents.contains(agent), "not begun: {}", at());
                }
            }
        }
        if kind == "RUN_FINISHED" {
            assert!(open.is_empty() && agents.is_empty(), "{open:?} {agents:?}: {}", at());
        }
    }
}

/// What a client has of messages after these events, by id.
fn folded(events: &[Value]) -> BTreeMap<String, Value> {
    let mut messages: BTreeMap<String, Value> = BTreeMap::new();
    let mut calls: BTreeMap<String, String> = BTreeMap::new();
    let grow = |message: &mut Value, name: &str, more: &str| {
        let text = message[name].as_str().unwrap_or_default();
        message[name] = json!(format!("{text}{more}"));
    };
    for event in events {
        match id(event, "type") {
            "TEXT_MESSAGE_START" | "REASONING_MESSAGE_START" => {
                let role = &event["role"];
                messages
                    .entry(id(event, "messageId").to_owned())
                    .or_insert_with(|| json!({"role": role}));
            }
            "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT" => {
                let message = messages.get_mut(id(event, "messageId")).unwrap();
                grow(message, "content", id(event, "delta"));
            }
            "TOOL_CALL_START" => {
                let parent = id(event, "parentMessageId").to_owned();
                let message =
                    messages.entry(parent.clone()).or_insert_with(|| json!({"role": "assistant"}));
                message[id(event, "toolCallId")] = json!("");
                calls.insert(id(event, "toolCallId").to_owned(), parent);
            }
            "TOOL_CALL_ARGS" => {
                let call = id(event, "toolCallId");
                let message = messages.get_mut(&calls[call]).unwrap();
                grow(message, call, id(event, "delta"));
            }
            "TOOL_CALL_RESULT" => {
                let content = &event["content"];
                let known = messages.insert(
                    id(event, "messageId").to_owned(),
                    json!({"role": "tool", "content": content}),
                );
                assert_eq!(known, None, "a result twice: {event}");
            }
            "MESSAGES_SNAPSHOT" => {
                let all = event["messages"].as_array().unwrap();
                messages = all
                    .iter()
                    .map(|message| (id(message, "id").to_owned(), plain(message)))
                    .collect();
                for message in all {
                    for call in message["toolCalls"].as_array().into_iter().flatten() {
                        calls.insert(id(call, "id").to_owned(), id(message, "id").to_owned());
                    }
                }
            }
            _ => {}
        }
    }
    messages
}

/// A message in the form in which they are compared.
fn plain(message: &Value) -> Value {
    let mut plain = json!({"role": message["role"]});
    if let Some(content) = message.get("content") {
        plain["content"] = content.clone();
    }
    for call in message["toolCalls"].as_array().into_iter().flatten() {
        plain[id(call, "id")] = call["function"]["arguments"].clone();
    }
    plain
}

/// Messages without the arguments of calls: a stream shows them as the model wrote them, a snapshot as they run.
fn without_arguments(mut messages: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    for message in messages.values_mut() {
        for (name, value) in message.as_object_mut().unwrap() {
            if name != "role" && name != "content" {
                *value = json!("");
            }
        }
    }
    messages
}

/// The messages of the turn as they are stored.
fn stored(golden: &Golden) -> BTreeMap<String, Value> {
    let mut all = Vec::new();
    let message = golden.stored.assistant.as_ref().unwrap();
    messages::of_assistant(&golden.events[0].session, message, None, &mut all);
    all.iter().map(|message| (id(message, "id").to_owned(), plain(message))).collect()
}

fn of_the_turn(golden: &Golden, mut messages: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    let question = golden.stored.user.as_ref().map(messages::user_id);
    messages.retain(|id, _| id != "before" && Some(id) != question.as_ref());
    without_arguments(messages)
}

#[test]
fn every_golden_turn_is_sound_and_gives_what_is_stored() {
    for golden in golden() {
        if golden.stored.assistant.is_none() {
            continue;
        }
        let written = write(&golden, &golden.events);
        sound(&golden.name, &written);
        let expected = without_arguments(stored(&golden));
        assert_eq!(of_the_turn(&golden, folded(&written)), expected, "{}", golden.name);
    }
}

#[test]
fn what_owners_said_before_they_died_is_not_there_in_the_end() {
    for golden in golden() {
        if golden.stored.assistant.is_none() {
            continue;
        }
        let written = write(&golden, &with_deaths(&golden.events));
        sound(&golden.name, &written);
        let expected = without_arguments(stored(&golden));
        assert_eq!(of_the_turn(&golden, folded(&written)), expected, "{}", golden.name);
    }
}

#[test]
fn a_client_that_goes_at_any_event_is_left_with_a_sound_run() {
    for golden in golden() {
        for end in 0..golden.events.len() {
            let mut run = run(&golden, Version::One, Since::Beginning);
            let mut frames = crate::live::Frames::default();
            run.begin(&mut frames);
            for event in &golden.events[..end] {
                let told = crate::live::Told::stored(event);
                run.event(crate::live::Place::stored(event.seq), &told, &mut frames);
            }
            run.bye("a test ends it", &mut frames);
            let written = read(&mut frames);
            let name = format!("{} up to {end}", golden.name);
            sound(&name, &written);
            assert_eq!(written.last().unwrap()["code"], "stream_ended");
        }
    }
}

#[tokio::test]
async fn a_run_whose_turn_never_comes_does_not_end_in_silence() {
    let golden = &golden()[0];
    for version in [Version::One, Version::Before] {
        let events = without_its_turn(Box::new(run(golden, version, Since::Beginning))).await;
        sound("a turn that never comes", &events);
        assert_eq!(events.last().unwrap()["code"], "turn_gone");
    }
}

#[test]
fn older_clients_are_told_nothing_they_do_not_know() {
    for golden in golden() {
        let mut older = run(&golden, Version::Before, Since::Beginning);
        for event in play(&mut older, &golden.events) {
            assert!(event.get("protocolVersion").is_none(), "{event}");
            assert_ne!(event["outcome"]["type"], "cancelled");
            assert!(event["outcome"].get("pendingToolCallIds").is_none(), "{event}");
        }
    }
}

#[test]
fn a_run_after_a_decision_tells_only_what_came_of_it() {
    let golden = golden();
    let paused = |golden: &&Golden| {
        golden
            .events
            .iter()
            .any(|e| matches!(e.kind, turnbuckle_core::event::EventKind::ApprovalDecided { .. }))
    };
    let mut seen = 0;
    for golden in golden.iter().filter(paused) {
        let decided = golden.events.iter().find_map(|event| match &event.kind {
            turnbuckle_core::event::EventKind::ApprovalDecided { card, .. } => {
                Some((card.clone(), event.seq))
            }
            _ => None,
        });
        let (card, seq) = decided.unwrap();
        let before: Vec<Event> = golden.events.iter().filter(|e| e.seq < seq).cloned().collect();
        let began: Vec<Value> = write(golden, &before)
            .into_iter()
            .filter(|event| event["type"] == "TOOL_CALL_START")
            .collect();
        let mut run = run(golden, Version::One, Since::Decision([card].into()));
        let written = play(&mut run, &golden.events);
        sound(&golden.name, &written);
        for event in &began {
            assert!(!written.contains(event), "{}: {event} is told again", golden.name);
        }
        seen += 1;
    }
    assert!(seen > 3, "{seen}");
}

#[test]
fn golden_turns_are_written_as_ever() {
    for golden in golden() {
        // Parallel calls, a pause with a decision, a nested agent, text that was replaced.
        if !["turn-004", "turn-110", "turn-135", "turn-094", "turn-003"].contains(&&*golden.name) {
            continue;
        }
        let lines: Vec<String> =
            write(&golden, &golden.events).iter().map(Value::to_string).collect();
        insta::assert_snapshot!(format!("ag_ui_{}", golden.name), lines.join("\n"));
    }
}

#[test]
fn a_title_that_somebody_gives_is_told_while_the_run_goes_on() {
    let golden = &golden()[0];
    let (mut run, mut frames) = (run(golden, Version::One, Since::Beginning), Frames::default());
    run.begin(&mut frames);
    read(&mut frames);
    run.title("Late parcels", &mut frames);
    let value = json!({"title": "Late parcels"});
    let custom = json!({"type": "CUSTOM", "name": "session-title-updated", "value": value});
    assert_eq!(read(&mut frames), [custom]);
    run.deleted(&mut frames);
    read(&mut frames);
    run.title("Later parcels", &mut frames);
    assert!(frames.is_empty());
}
