use crate::config::Limits;
use crate::protocols::testing::golden;
use jsonschema::Validator;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use turnbuckle_core::event::Event;
use turnbuckle_core::message::Message;
use turnbuckle_core::part::Part;

fn document() -> Value {
    serde_json::to_value(crate::routes::versioned(&Limits::default()).1).unwrap()
}

fn validator(document: &Value, name: &str) -> Validator {
    let schema = json!({
        "$ref": format!("#/components/schemas/{name}"), "components": document["components"],
    });
    jsonschema::options().should_validate_formats(true).build(&schema).unwrap()
}

fn assert_valid(validator: &Validator, value: &Value) {
    let errors: Vec<String> =
        validator.iter_errors(value).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{value:#}\n{errors:#?}");
}

/// The kinds that a schema tells apart by a field.
fn kinds(document: &Value, name: &str, field: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    collect(&document["components"]["schemas"][name], field, &mut all);
    all
}

fn collect(schema: &Value, field: &str, all: &mut BTreeSet<String>) {
    let names = schema["properties"][field]["enum"].as_array().into_iter().flatten();
    all.extend(names.map(|name| name.as_str().unwrap().to_owned()));
    for list in ["oneOf", "allOf"] {
        for inner in schema[list].as_array().into_iter().flatten() {
            collect(inner, field, all);
        }
    }
}

fn of_field(values: &[Value], field: &str) -> BTreeSet<String> {
    values.iter().map(|value| value[field].as_str().unwrap().to_owned()).collect()
}

fn limits() -> Value {
    serde_json::to_value(turnbuckle_core::limits::TurnLimits::default()).unwrap()
}

fn native() -> Value {
    json!({"wire": "anthropic", "provider": "anthropic", "model": "m", "data": {"signature": "x"}})
}

fn usage() -> Value {
    json!({"input": 1, "cache_read": 2, "cache_write": 3, "output": 4, "reasoning": 2})
}

fn metered(finish: Value) -> Value {
    json!({
        "iteration": 0, "agent": "main", "purpose": "step", "provider": "p", "model": "m",
        "input": 1, "cache_read": 2, "cache_write": 3, "output": 4, "reasoning": 2,
        "estimated": true, "cost_micros": 9, "finish": finish,
    })
}

fn model_error() -> Value {
    json!({
        "kind": "rate_limited", "message": "slow down", "status": 429, "provider_code": "limit",
        "retry_after_ms": 1000, "request_id": "req_1",
    })
}

fn tool_error() -> Value {
    json!({"code": "failed", "message": "It broke."})
}

const AT: &str = "2026-01-02T03:04:05.678Z";

fn user() -> Value {
    json!({
        "id": "t_1-u", "turn": "t_1", "at": AT, "author": "ada", "client_id": "m1",
        "origin": {"kind": "person"},
        "content": [
            {"type": "text", "text": "Look"},
            {"type": "image", "mime": "image/png", "source": {"url": "https://example.com/a.png"},
             "name": "a.png", "detail": "low", "size": {"width": 1, "height": 2}},
            {"type": "file", "mime": "text/plain", "source": {"data": "aGk="}, "name": "a.txt"},
            {"type": "file", "mime": "text/csv", "source": {"blob": {"id": "b_1", "bytes": 2}},
             "name": "a.csv"},
        ],
        "surroundings": {
            "page": "/a", "references": [{"id": 1}, null, "x"],
            "tools": [{"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}],
        },
    })
}

fn decided(remember: Value) -> Value {
    json!({
        "by": "ada", "at": AT, "amendment": {"amount": 3}, "reason": "fine", "remember": remember,
    })
}

fn card(asks: &str) -> Value {
    let tests = json!([
        {"path": "amount", "below": 10.5}, {"path": "to[0]", "equals": "bob"},
        {"path": "a", "one_of": [1, null]}, {"path": "b", "above": 1.0},
        {"path": "c", "contains": "x"}, {"path": "d", "present": false},
    ]);
    json!({
        "id": "t_1-1-card", "turn": "t_1", "at": AT,
        "body": {
            "kind": "approval", "call": "t_1-1", "message": "t_1-a", "agent": "main", "asks": asks,
            "tool": "pay", "title": "Pay", "args": {"amount": 5}, "digest": null,
            "reason": "money", "editable": {"type": "object"}, "status": "approved",
            "expires_at": AT, "decided": decided(json!({"for": "user", "args": tests})),
        },
    })
}

fn call(child: Option<Value>) -> Value {
    let mut call = json!({
        "type": "tool_call", "iteration": 0, "id": "t_1-1", "wire_id": "w", "name": "pay",
        "arguments": "{}", "args": {}, "status": "completed", "output": null, "model_view": "x",
        "summary": "paid", "digest": [1], "error": tool_error(), "captured": true, "cached": true,
        "amendment": {}, "progress": [{"at": AT, "data": 0.5}], "started_at": AT, "ended_at": AT,
        "native": native(),
    });
    if let Some(child) = child {
        call["child"] = child;
    }
    call
}

/// A part of every kind with all that it may have.
fn parts() -> Vec<Value> {
    vec![
        json!({"type": "thinking", "iteration": 0, "text": "Hm", "native": native()}),
        json!({"type": "text", "iteration": 0, "text": "Hello", "native": native()}),
        call(Some(assistant(vec![call(None)], json!({"state": "paused"})))),
        json!({
            "type": "input", "iteration": 0, "kind": "steering", "content": "Faster",
            "message": "t_2-u", "author": "ada", "at": AT,
        }),
        json!({"type": "native", "iteration": 0, "native": native()}),
    ]
}

fn assistant(parts: Vec<Value>, state: Value) -> Value {
    json!({
        "schema": 1, "id": "t_1-a", "turn": "t_1", "agent": "main", "at": AT, "state": state,
        "parts": parts, "iterations": [metered(json!("stop")), metered(json!({"other": "odd"}))],
        "link_snapshots": {"order:1": {"title": "One"}},
    })
}

fn failed(error: Value) -> Value {
    json!({"state": "finished", "outcome": {"status": "error", "error": error}})
}

fn model_failure() -> Value {
    let mut error = model_error();
    error["code"] = json!("model");
    error
}

/// A message of every kind, in every state.
fn messages() -> Vec<Value> {
    let with = |role: &str, mut message: Value| {
        message["role"] = json!(role);
        message
    };
    let mut all = vec![
        with("user", user()),
        with("system", card("decision")),
        with("system", card("client_result")),
        json!({
            "role": "system", "id": "n", "turn": "t_1", "at": AT,
            "body": {"kind": "note", "text": "A colleague wrote."},
        }),
    ];
    for origin in [
        json!({"kind": "task", "task": "report", "reference": "1"}),
        json!({"kind": "channel", "message": "m"}),
        json!({"kind": "trigger", "trigger": "schedule"}),
    ] {
        let mut message = with("user", user());
        message["origin"] = origin;
        all.push(message);
    }
    for state in [
        json!({"state": "running"}),
        json!({"state": "paused"}),
        json!({"state": "finished", "outcome": {"status": "completed"}}),
        json!({"state": "finished", "outcome": {"status": "exhausted", "reason": "wall-time"}}),
        json!({"state": "finished", "outcome": {"status": "aborted", "reason": "stopped"}}),
        failed(model_failure()),
        failed(json!({"code": "empty_response"})),
        failed(json!({"code": "invalid_output", "message": "x"})),
        failed(json!({"code": "context_overflow", "message": "x"})),
        failed(json!({"code": "store", "message": "x"})),
        failed(json!({"code": "internal", "message": "x"})),
    ] {
        all.push(with("assistant", assistant(parts(), state)));
    }
    all
}

/// An event of every kind with all that it may have.
fn events() -> Vec<Value> {
    let message = "t_1-a";
    let call = "t_1-1";
    let finished = json!({"state": "finished", "outcome": {"status": "completed"}});
    let kinds = [
        json!({"type": "turn-started", "message": user(), "limits": limits()}),
        json!({"type": "agent-started", "name": "main"}),
        json!({"type": "route-selected", "route": "a", "reasoning": "since"}),
        json!({
            "type": "assistant-message-started", "call": call,
            "message": assistant(vec![], json!({"state": "running"})),
        }),
        json!({
            "type": "text-delta", "message": message, "part": 0, "offset": 0, "iteration": 0,
            "text": "a",
        }),
        json!({
            "type": "thinking-delta", "message": message, "part": 0, "offset": 0, "iteration": 0,
            "text": "a",
        }),
        json!({"type": "part-native", "message": message, "part": 0, "native": native()}),
        json!({"type": "part-added", "message": message, "part": 0, "value": parts()[2]}),
        json!({"type": "text-replaced", "message": message, "part": 0, "text": "b"}),
        json!({"type": "part-dropped", "message": message, "part": 0}),
        json!({"type": "result-dropped", "message": message, "part": 0}),
        json!({"type": "parts-discarded", "message": message, "keep": 1, "reason": "cut"}),
        json!({
            "type": "tool-call-started", "message": message, "part": 0, "iteration": 0,
            "call": call, "wire_id": "w", "name": "pay",
        }),
        json!({
            "type": "tool-call-args-delta", "message": message, "part": 0, "call": call,
            "offset": 0, "text": "{",
        }),
        json!({
            "type": "tool-call-progress", "message": message, "part": 0, "call": call, "data": 1,
        }),
        json!({
            "type": "tool-call-status", "message": message, "part": 0, "call": call,
            "status": "awaiting_approval", "args": {"a": [null]}, "amendment": null,
        }),
        json!({
            "type": "tool-call-completed", "message": message, "part": 0, "call": call,
            "output": null, "model_view": 1, "summary": "s", "digest": {}, "captured": true,
            "cached": true,
        }),
        json!({
            "type": "tool-call-failed", "message": message, "part": 0, "call": call,
            "error": tool_error(), "output": [],
        }),
        json!({"type": "approval-required", "card": card("decision")}),
        json!({
            "type": "approval-decided", "card": "t_1-1-card", "call": call, "status": "rejected",
            "decided": decided(json!("session")),
        }),
        json!({"type": "client-tool-required", "card": card("client_result")}),
        json!({"type": "assistant-message-paused", "message": message}),
        json!({"type": "assistant-message-resumed", "message": message, "parts": 1}),
        json!({"type": "context-compacted", "note": "n", "before": 2, "after": 1}),
        json!({"type": "context-overflowed", "cap": 1}),
        json!({"type": "plan-updated", "plan": [{"step": "a"}]}),
        json!({"type": "task-started", "call": call, "task": "report", "reference": "1"}),
        json!({"type": "model-retry", "attempt": 2, "delay_ms": 9, "error": model_error()}),
        json!({"type": "model-replaced", "from": "a:b", "to": "a:c", "reason": "gone"}),
        json!({"type": "usage", "message": message, "call": metered(json!("tool_calls"))}),
        json!({"type": "link-snapshots", "message": message, "snapshots": {"a": true}}),
        json!({
            "type": "assistant-message-finished", "message": assistant(parts(), finished),
        }),
        json!({"type": "agent-completed", "name": "main"}),
        json!({"type": "turn-completed", "usage": usage()}),
        json!({"type": "turn-paused", "calls": [call]}),
        json!({"type": "turn-exhausted", "reason": "cost", "usage": usage()}),
        json!({"type": "turn-error", "error": model_failure(), "usage": {}}),
        json!({"type": "turn-aborted", "reason": "superseded", "usage": usage()}),
        json!({"type": "session-title-updated", "title": "Parcels"}),
    ];
    let with_head = |(i, mut event): (usize, Value)| {
        let head = json!({
            "seq": i + 1, "epoch": 1, "at": AT, "session": "s_1", "turn": "t_1", "agent": "main",
        });
        event.as_object_mut().unwrap().extend(head.as_object().unwrap().clone());
        event
    };
    kinds.into_iter().enumerate().map(with_head).collect()
}

/// What is read and written again is what it was, so that nothing in the tables is only their own.
fn assert_real<T: serde::de::DeserializeOwned + serde::Serialize>(value: &Value) {
    let real: T = serde_json::from_value(value.clone()).unwrap_or_else(|e| panic!("{value}: {e}"));
    assert_eq!(serde_json::to_value(&real).unwrap(), *value);
}

#[test]
fn every_event_is_as_the_document_says_and_the_document_knows_every_kind() {
    let document = document();
    let (events, valid) = (events(), validator(&document, "Event"));
    for event in &events {
        assert_real::<Event>(event);
        assert_valid(&valid, event);
    }
    assert_eq!(of_field(&events, "type"), kinds(&document, "EventKind", "type"));
}

#[test]
fn every_message_and_part_is_as_the_document_says_and_the_document_knows_every_kind() {
    let document = document();
    let (messages, valid) = (messages(), validator(&document, "Message"));
    for message in &messages {
        assert_real::<Message>(message);
        assert_valid(&valid, message);
    }
    assert_eq!(of_field(&messages, "role"), kinds(&document, "Message", "role"));
    let (parts, valid) = (parts(), validator(&document, "Part"));
    for part in &parts {
        assert_real::<Part>(part);
        assert_valid(&valid, part);
    }
    assert_eq!(of_field(&parts, "type"), kinds(&document, "Part", "type"));
    let of = |list: &[Value], name: &str| list.iter().map(|m| m[name].clone()).collect::<Vec<_>>();
    let states = of(&messages, "state").into_iter().filter(|state| !state.is_null());
    let states: Vec<Value> = states.collect();
    assert_eq!(of_field(&states, "state"), kinds(&document, "MessageState", "state"));
    let outcomes: Vec<Value> =
        of(&states, "outcome").into_iter().filter(|outcome| !outcome.is_null()).collect();
    // A message that waits is not finished.
    let mut known = kinds(&document, "Outcome", "status");
    known.remove("paused");
    assert_eq!(of_field(&outcomes, "status"), known);
    let errors: Vec<Value> =
        of(&outcomes, "error").into_iter().filter(|error| !error.is_null()).collect();
    assert_eq!(of_field(&errors, "code"), kinds(&document, "TurnError", "code"));
}

#[test]
fn turns_as_they_were_streamed_and_stored_are_as_the_document_says() {
    let document = document();
    let (event, message) = (validator(&document, "Event"), validator(&document, "Message"));
    for golden in golden() {
        for streamed in &golden.events {
            assert_valid(&event, &serde_json::to_value(streamed).unwrap());
        }
        let user = golden.stored.user.clone().map(Message::User);
        let assistant = golden.stored.assistant.clone().map(|m| Message::Assistant(Box::new(m)));
        let cards = golden.stored.cards.iter().cloned().map(Message::System);
        for stored in user.into_iter().chain(assistant).chain(cards) {
            assert_valid(&message, &serde_json::to_value(stored).unwrap());
        }
    }
}

#[test]
fn what_is_wrong_is_not_as_the_document_says() {
    let document = document();
    let valid = validator(&document, "Event");
    for event in events() {
        for gone in ["seq", "type", "turn"] {
            let mut wrong = event.clone();
            wrong.as_object_mut().unwrap().remove(gone);
            assert!(!valid.is_valid(&wrong), "without {gone}: {wrong}");
        }
        let mut wrong = event;
        wrong["type"] = json!("no-such-kind");
        assert!(!valid.is_valid(&wrong), "{wrong}");
    }
    let valid = validator(&document, "Message");
    for message in messages() {
        let mut wrong = message.clone();
        wrong["at"] = json!(5);
        assert!(!valid.is_valid(&wrong), "{wrong}");
        // What may be left out is never null.
        if message["role"] == "user" {
            let mut wrong = message;
            wrong["author"] = json!(null);
            assert!(!valid.is_valid(&wrong), "{wrong}");
        }
    }
}
