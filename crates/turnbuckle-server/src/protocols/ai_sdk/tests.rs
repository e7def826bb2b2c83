//! Golden turns as chunks, in both profiles: every part is opened before it grows and closed once, and a client has in the end
//! what is stored.

use super::stream::{Since, Stream};
use super::{ClientTools, Profile, messages};
use crate::live::{Dialect, Frames, Place, Told};
use crate::protocols::testing::{Golden, golden, play, read, with_deaths, without_its_turn};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use turnbuckle_core::event::{Event, EventKind};
use turnbuckle_core::ids::MessageId;

const PROFILES: [Profile; 2] = [Profile::V6, Profile::V7];

/// What version 6 knows, apart from `data-*`.
const KNOWN: [&str; 23] = [
    "start",
    "start-step",
    "finish-step",
    "finish",
    "abort",
    "error",
    "text-start",
    "text-delta",
    "text-end",
    "reasoning-start",
    "reasoning-delta",
    "reasoning-end",
    "tool-input-start",
    "tool-input-delta",
    "tool-input-available",
    "tool-input-error",
    "tool-approval-request",
    "tool-output-available",
    "tool-output-error",
    "tool-output-denied",
    "message-metadata",
    "source-url",
    "file",
];

/// What version 7 knows besides.
const KNOWN_SINCE_7: [&str; 3] = ["reset-step", "tool-approval-response", "steering-message"];

fn stream(golden: &Golden, profile: Profile, since: Since) -> Stream {
    Stream::new(profile, golden.events[0].turn.clone(), since, ClientTools::default())
}

fn write(golden: &Golden, profile: Profile, events: &[Event]) -> Vec<Value> {
    play(&mut stream(golden, profile, Since::Beginning), events)
}

/// The golden turns that came as far as an answer.
fn answered() -> Vec<Golden> {
    golden().into_iter().filter(|golden| golden.stored.assistant.is_some()).collect()
}

fn id<'a>(chunk: &'a Value, name: &str) -> &'a str {
    chunk[name].as_str().unwrap_or_else(|| panic!("{chunk} has no {name}"))
}

fn knows(profile: Profile, kind: &str) -> bool {
    kind.starts_with("data-")
        || KNOWN.contains(&kind)
        || (profile == Profile::V7 && KNOWN_SINCE_7.contains(&kind))
}

/// What clients insist on. `calls` are those that the client has from before.
fn sound(name: &str, profile: Profile, chunks: &[Value], calls: &BTreeSet<String>) {
    let mut open: BTreeSet<(bool, String)> = BTreeSet::new();
    let mut begun: BTreeSet<(bool, String)> = BTreeSet::new();
    // What was begun again after it was taken back, a client has twice until it is given the whole message.
    let given_whole = chunks.iter().any(|chunk| chunk["type"] == "data-message");
    let mut calls = calls.clone();
    let mut step = false;
    let (done, chunks) = chunks.split_last().unwrap();
    assert_eq!(done, "[DONE]", "{name}");
    for (i, chunk) in chunks.iter().enumerate() {
        let at = || format!("{name} {profile:?}, chunk {i}: {chunk}");
        let kind = id(chunk, "type");
        assert!(knows(profile, kind), "fatal: {}", at());
        let null = |(name, value): (&String, &Value)| value.is_null() && name != "output";
        assert!(!chunk.as_object().unwrap().iter().any(null), "{}", at());
        assert_eq!(kind == "start", i == 0, "{}", at());
        let ends = kind == "finish" || kind == "error";
        assert_eq!(ends, i + 1 == chunks.len(), "{}", at());
        match kind {
            "start-step" => assert!(!std::mem::replace(&mut step, true), "{}", at()),
            "finish-step" => {
                assert!(std::mem::take(&mut step), "{}", at());
                assert!(open.is_empty(), "{open:?} {}", at());
            }
            // What was begun in the step may begin anew.
            "reset-step" => {
                assert!(step && open.is_empty(), "{open:?} {}", at());
                begun.clear();
            }
            "text-start" | "reasoning-start" => {
                let key = (kind == "text-start", id(chunk, "id").to_owned());
                assert!(begun.insert(key.clone()) || given_whole, "a second part: {}", at());
                assert!(open.insert(key), "{}", at());
            }
            "text-delta" | "reasoning-delta" => {
                let key = (kind == "text-delta", id(chunk, "id").to_owned());
                assert!(open.contains(&key), "not open: {}", at());
                assert!(!id(chunk, "delta").is_empty(), "{}", at());
            }
            "text-end" | "reasoning-end" => {
                let key = (kind == "text-end", id(chunk, "id").to_owned());
                assert!(open.remove(&key), "not open: {}", at());
            }
            "tool-input-start" | "tool-input-available" | "tool-input-error" => {
                calls.insert(id(chunk, "toolCallId").to_owned());
            }
            // It names its question.
            "tool-approval-response" => {}
            kind if kind.starts_with("tool-") => {
                assert!(calls.contains(id(chunk, "toolCallId")), "unheard of: {}", at());
            }
            _ => {}
        }
        if ends {
            assert!(open.is_empty() && !step, "{open:?} {step}: {}", at());
        }
    }
}

/// The parts that a client has after these chunks.
fn folded(chunks: &[Value]) -> Vec<Value> {
    let mut parts: Vec<Value> = Vec::new();
    // Where the part of a text or a call is.
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for chunk in chunks.iter().filter(|chunk| chunk.is_object()) {
        let kind = id(chunk, "type");
        let place = |name: &str| places.get(id(chunk, name)).copied();
        match kind {
            "start-step" => parts.push(json!({"type": "step-start"})),
            "reset-step" => {
                let keep = parts.iter().rposition(|part| part["type"] == "step-start").unwrap();
                parts.truncate(keep + 1);
                places.retain(|_, place| *place <= keep);
            }
            "text-start" | "reasoning-start" => {
                places.insert(id(chunk, "id").to_owned(), parts.len());
                let kind = kind.trim_end_matches("-start");
                parts.push(json!({"type": kind, "text": "", "state": "streaming"}));
            }
            "text-delta" | "reasoning-delta" => {
                let part = &mut parts[place("id").unwrap()];
                part["text"] = json!(format!("{}{}", id(part, "text"), id(chunk, "delta")));
            }
            "text-end" | "reasoning-end" => parts[place("id").unwrap()]["state"] = json!("done"),
            "data-steering" => parts.push(json!({"type": "data-steering", "data": chunk["data"]})),
            "data-message" => parts = chunk["data"]["parts"].as_array().unwrap().clone(),
            "tool-approval-response" => {}
            kind if kind.starts_with("tool-") => {
                let call = id(chunk, "toolCallId");
                let known = place("toolCallId").unwrap_or_else(|| {
                    let name = id(chunk, "toolName");
                    parts.push(match chunk["dynamic"] == true {
                        true => json!({
                            "type": "dynamic-tool", "toolName": name, "toolCallId": call, "rawInput": "",
                        }),
                        false => json!({
                            "type": format!("tool-{name}"), "toolCallId": call, "rawInput": "",
                        }),
                    });
                    parts.len() - 1
                });
                places.insert(call.to_owned(), known);
                grow_call(&mut parts[known], kind, chunk);
            }
            _ => {}
        }
    }
    parts
}

fn grow_call(part: &mut Value, kind: &str, chunk: &Value) {
    let (state, field) = match kind {
        "tool-input-start" => ("input-streaming", None),
        "tool-input-delta" => {
            let text = format!("{}{}", id(part, "rawInput"), id(chunk, "inputTextDelta"));
            part["rawInput"] = json!(text);
            return;
        }
        "tool-input-available" => ("input-available", Some("input")),
        "tool-input-error" => {
            part["rawInput"] = chunk["input"].clone();
            ("output-error", Some("errorText"))
        }
        "tool-approval-request" => ("approval-requested", None),
        "tool-output-available" => ("output-available", Some("output")),
        "tool-output-error" => ("output-error", Some("errorText")),
        "tool-output-denied" => ("output-denied", None),
        other => panic!("{other}"),
    };
    part["state"] = json!(state);
    if let Some(field) = field {
        part[field] = chunk[field].clone();
    }
    if part.get("input").is_some() {
        part.as_object_mut().unwrap().remove("rawInput");
    }
}

/// The turn's parts as they are stored.
fn stored(golden: &Golden) -> Vec<Value> {
    let message = golden.stored.assistant.as_ref().unwrap();
    let cards = messages::cards(&golden.stored.cards);
    let whole = messages::of_assistant(message, &cards, &ClientTools::default());
    whole["parts"].as_array().unwrap().clone()
}

/// Parts in the form in which they are compared: an answer to a card is the client's own, what a person wrote in the middle has
/// a chunk of its own in version 7, and version 6 is not told of answers that others gave.
fn compared(parts: Vec<Value>) -> Vec<Value> {
    let mut parts = parts;
    parts.retain(|part| part["type"] != "data-steering");
    // A nested agent's call is shown when it is asked about, whatever came since its agent was called.
    let nested = |part: &Value| part["toolCallId"].as_str().is_some_and(|id| id.contains('.'));
    let (mut asked, mut parts): (Vec<Value>, Vec<Value>) = parts.into_iter().partition(nested);
    asked.sort_by_key(|part| part["toolCallId"].to_string());
    // A step that was taken back whole leaves its beginning.
    let begins = |part: &Value| part["type"] == "step-start";
    let next: Vec<Value> = parts.iter().skip(1).cloned().chain([json!(null)]).collect();
    let mut next = next.iter();
    parts.retain(|part| {
        let next = next.next().unwrap();
        !begins(part) || !(begins(next) || next.is_null())
    });
    parts.extend(asked);
    for part in &mut parts {
        part.as_object_mut().unwrap().remove("approval");
        if part["state"] == "approval-responded" {
            part["state"] = json!("approval-requested");
        }
    }
    parts
}

#[test]
fn every_golden_turn_is_sound_and_gives_what_is_stored() {
    for golden in answered() {
        for profile in PROFILES {
            let chunks = write(&golden, profile, &golden.events);
            sound(&golden.name, profile, &chunks, &BTreeSet::new());
            let (ours, expected) = (compared(folded(&chunks)), compared(stored(&golden)));
            assert_eq!(ours, expected, "{} {profile:?}", golden.name);
        }
    }
}

#[test]
fn what_owners_said_before_they_died_is_not_there_in_the_end() {
    for golden in answered() {
        for profile in PROFILES {
            let chunks = write(&golden, profile, &with_deaths(&golden.events));
            sound(&golden.name, profile, &chunks, &BTreeSet::new());
            let (ours, expected) = (compared(folded(&chunks)), compared(stored(&golden)));
            assert_eq!(ours, expected, "{} {profile:?}", golden.name);
        }
    }
}

#[test]
fn a_client_that_goes_at_any_event_is_told_to_come_again() {
    for golden in golden() {
        for profile in PROFILES {
            for end in 0..golden.events.len() {
                let mut stream = stream(&golden, profile, Since::Beginning);
                let mut frames = Frames::default();
                stream.begin(&mut frames);
                for event in &golden.events[..end] {
                    stream.event(Place::stored(event.seq), &Told::stored(event), &mut frames);
                }
                stream.bye("a test ends it", &mut frames);
                let chunks = read(&mut frames);
                let name = format!("{} up to {end}", golden.name);
                sound(&name, profile, &chunks, &BTreeSet::new());
                assert_eq!(chunks[chunks.len() - 2]["type"], "error", "{name}");
            }
        }
    }
}

#[tokio::test]
async fn a_stream_whose_turn_never_comes_does_not_end_in_silence() {
    let golden = &golden()[0];
    for profile in PROFILES {
        let chunks = without_its_turn(Box::new(stream(golden, profile, Since::Beginning))).await;
        sound("a turn that never comes", profile, &chunks, &BTreeSet::new());
        assert_eq!(chunks[chunks.len() - 2]["type"], "error");
    }
}

#[test]
fn a_text_that_streams_is_one_part_though_a_call_of_the_model_was_repeated() {
    let mut seen = 0;
    for golden in answered() {
        let repeated = |event: &Event| matches!(event.kind, EventKind::ModelRetry { .. });
        if !golden.events.iter().any(repeated) {
            continue;
        }
        for profile in PROFILES {
            let chunks = write(&golden, profile, &golden.events);
            let texts =
                |chunks: &[Value]| chunks.iter().filter(|chunk| chunk["type"] == "text").count();
            let (ours, expected) = (folded(&chunks), stored(&golden));
            assert_eq!(texts(&ours), texts(&expected), "{} {profile:?}", golden.name);
        }
        seen += 1;
    }
    assert!(seen > 0, "no golden turn has a model call that was repeated");
}

#[test]
fn a_stream_after_a_decision_tells_only_what_came_of_it() {
    let mut seen = 0;
    for golden in golden() {
        let decided = golden.events.iter().find_map(|event| match &event.kind {
            EventKind::ApprovalDecided { card, .. } => Some((card.clone(), event.seq)),
            _ => None,
        });
        let Some((card, seq)) = decided else { continue };
        let before: Vec<Event> = golden.events.iter().filter(|e| e.seq < seq).cloned().collect();
        for profile in PROFILES {
            let begins = |chunk: &Value| chunk["type"] == "tool-input-start";
            let earlier: Vec<Value> =
                write(&golden, profile, &before).into_iter().filter(begins).collect();
            let calls = earlier.iter().map(|chunk| id(chunk, "toolCallId").to_owned()).collect();
            let since = Since::Decision(BTreeSet::from([card.clone()]));
            let chunks = play(&mut stream(&golden, profile, since), &golden.events);
            sound(&golden.name, profile, &chunks, &with_nested(&golden, calls));
            for chunk in &earlier {
                assert!(!chunks.contains(chunk), "{}: {chunk} is told again", golden.name);
            }
            let told = chunks.iter().any(|chunk| chunk["type"] == "tool-approval-response");
            assert!(!told, "{}: the client gave the answer itself", golden.name);
        }
        seen += 1;
    }
    assert!(seen > 3, "{seen}");
}

/// Calls with those of nested agents that cards asked about: a client has them from the question.
fn with_nested(golden: &Golden, mut calls: BTreeSet<String>) -> BTreeSet<String> {
    let cards = messages::cards(&golden.stored.cards);
    calls.extend(cards.keys().map(|call| call.to_string()));
    calls
}

#[test]
fn a_turn_that_waits_ends_with_calls_and_its_metadata() {
    let golden = golden();
    let waits = golden
        .iter()
        .find(|golden| {
            golden.events.iter().any(|e| matches!(e.kind, EventKind::ApprovalRequired { .. }))
        })
        .unwrap();
    let asks = |event: &Event| matches!(event.kind, EventKind::ApprovalRequired { .. });
    let pauses = |event: &Event| matches!(event.kind, EventKind::TurnPaused { .. });
    let question = waits.events.iter().position(asks).unwrap();
    let pause = question + waits.events[question..].iter().position(pauses).unwrap();
    for profile in PROFILES {
        let chunks = write(waits, profile, &waits.events[..=pause]);
        let finish = &chunks[chunks.len() - 2];
        assert_eq!(finish["finishReason"], "tool-calls", "{finish}");
        assert_eq!(finish["messageMetadata"]["outcome"], json!({"status": "paused"}));
        let asked: Vec<MessageId> = chunks
            .iter()
            .filter(|chunk| chunk["type"] == "tool-approval-request")
            .map(|chunk| id(chunk, "approvalId").into())
            .collect();
        assert!(!asked.is_empty());
    }
}

#[test]
fn golden_turns_are_written_as_ever() {
    for golden in golden() {
        // Parallel calls, a pause with a decision, a nested agent, text that was replaced.
        if !["turn-003", "turn-004", "turn-094", "turn-110", "turn-135"].contains(&&*golden.name) {
            continue;
        }
        for (profile, name) in PROFILES.into_iter().zip(["v6", "v7"]) {
            let chunks = write(&golden, profile, &golden.events);
            let lines: Vec<String> = chunks.iter().map(Value::to_string).collect();
            insta::assert_snapshot!(format!("ai_sdk_{name}_{}", golden.name), lines.join("\n"));
        }
    }
}

#[test]
fn a_title_that_somebody_gives_is_told_while_the_answer_goes_on() {
    let golden = &answered()[0];
    let mut stream = stream(golden, Profile::V6, Since::Beginning);
    let mut frames = Frames::default();
    stream.begin(&mut frames);
    read(&mut frames);
    stream.title("Late parcels", &mut frames);
    let data = json!({"title": "Late parcels"});
    let chunk = json!({"type": "data-session-title", "data": data, "transient": true});
    assert_eq!(read(&mut frames), [chunk]);
    stream.deleted(&mut frames);
    read(&mut frames);
    stream.title("Later parcels", &mut frames);
    assert!(frames.is_empty());
}
