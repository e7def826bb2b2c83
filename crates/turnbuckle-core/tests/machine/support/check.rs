//! What must hold of every run that came to rest.

use super::sim::Sim;
use std::sync::Arc;
use turnbuckle_core::event::{Event, EventKind};
use turnbuckle_core::fold::fold;
use turnbuckle_core::machine::*;
use turnbuckle_core::message::{AssistantMessage, MessageState, SystemBody};
use turnbuckle_core::part::{InputKind, Part, ToolCallPart};
use turnbuckle_core::time::Timestamp;
use turnbuckle_core::usage::Purpose;

/// As `assert_eq`, but shows only where large values part.
#[track_caller]
pub fn assert_same<T: PartialEq + std::fmt::Debug>(left: &T, right: &T, what: &str) {
    if left == right {
        return;
    }
    let (l, r) = (format!("{left:#?}"), format!("{right:#?}"));
    let (l, r): (Vec<_>, Vec<_>) = (l.lines().collect(), r.lines().collect());
    let at = l.iter().zip(&r).take_while(|(a, b)| a == b).count();
    let show = |lines: &[&str]| {
        lines[at.saturating_sub(12).min(lines.len())..(at + 12).min(lines.len())].join("\n")
    };
    panic!("{what}\n--- left, line {at}\n{}\n--- right\n{}", show(&l), show(&r));
}

/// Everything that holds of any run.
pub fn check<W>(sim: &Sim<W>) {
    streamed_is_stored(&sim.events, &sim.turn);
    terminal_events(&sim.events, &sim.turn);
    if let Phase::Ended { .. } = sim.turn.phase() {
        let message = sim.turn.message().unwrap();
        settled(message);
        assert_eq!(sim.turn.messages().pending_cards().count(), 0, "a card dangles");
        assert_eq!(message.usage(), sim.turn.meters().usage, "usage is lost or counted twice");
    }
    replays(sim);
}

/// Folding the events as a client reads them gives the turn's messages.
pub fn streamed_is_stored(events: &[Event], turn: &Turn) {
    let mut read = Vec::new();
    for event in events {
        let text = serde_json::to_string(event).unwrap();
        let back: Event = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
        assert_same(&back, event, "an event changes on its way");
        read.push(back);
    }
    let folded = fold(&read).unwrap();
    assert_same(&folded, turn.messages(), "streamed is not stored");
    assert_eq!(
        serde_json::to_string(&folded).unwrap(),
        serde_json::to_string(turn.messages()).unwrap()
    );
    for (i, event) in events.iter().enumerate() {
        assert_eq!(event.seq, i as u64 + 1);
    }
}

/// One terminal event per stretch, and the final message right before the last one.
fn terminal_events(events: &[Event], turn: &Turn) {
    assert!(matches!(events[0].kind, EventKind::TurnStarted { .. }), "{:?}", events[0]);
    let mut at_rest = false;
    let mut ended = false;
    for (i, event) in events.iter().enumerate() {
        assert!(!ended, "an event after the end: {event:?}");
        if event.kind.is_terminal() {
            assert!(!at_rest, "two terminal events in one stretch");
            at_rest = true;
            let before = &events[i - 1].kind;
            if let EventKind::TurnPaused { calls } = &event.kind {
                assert!(!calls.is_empty(), "a pause that waits for nothing");
                assert!(matches!(before, EventKind::AssistantMessagePaused { .. }), "{before:?}");
            } else {
                ended = true;
                let EventKind::AssistantMessageFinished { message } = before else {
                    panic!("the turn ended without its message: {before:?}")
                };
                assert_eq!(**message, *turn.message().unwrap());
            }
        } else if matches!(event.kind, EventKind::AssistantMessageResumed { .. }) {
            at_rest = false;
        } else {
            assert!(!at_rest, "an event between a pause and its resumption: {event:?}");
        }
    }
    assert!(at_rest, "the stream has no terminal event");
    assert_eq!(ended, matches!(turn.phase(), Phase::Ended { .. }));
}

/// Nothing is left open, however deep.
fn settled(message: &AssistantMessage) {
    assert!(matches!(message.state, MessageState::Finished { .. }), "{:?}", message.state);
    for call in message.calls() {
        assert!(call.status.is_settled(), "{} is {:?}", call.id, call.status);
        assert!(
            call.error.is_some() || call.status == turnbuckle_core::part::ToolCallStatus::Completed
        );
        assert!(call.ended_at.is_some());
        if let Some(child) = &call.child {
            settled(child);
        }
    }
}

/// The journal gives the same turn and the same events in the same order, those of agents beside each other included.
fn replays<W>(sim: &Sim<W>) {
    let mut out = Output::default();
    let text = serde_json::to_string(&sim.journal).unwrap();
    let journal: Vec<Recorded> = serde_json::from_str(&text).unwrap();
    assert_same(&journal, &sim.journal, "the journal changes when it is stored");
    let turn = Turn::replay(sim.turn.spec().clone(), &journal, &mut out).unwrap();
    assert_same(&turn, &sim.turn, "replay gives another turn");
    if turn.epoch() > 0 {
        return;
    }
    let live = sim.events.iter().map(|e| (e.agent.clone(), (e.at, e.kind.clone())));
    let replayed = out.events.into_iter().map(|e| (e.path, (e.at, e.kind)));
    let (live, replayed): (Vec<_>, Vec<_>) = (live.collect(), replayed.collect());
    assert_same(&live, &replayed, "replay gives other events");
}

/// The turn's messages without what a crash may change: times, reports of calls that ran again, and summaries that were
/// written again, since each was paid for.
pub fn timeless(turn: &Turn) -> turnbuckle_core::fold::TurnFold {
    let mut messages = turn.messages().clone();
    if let Some(message) = &mut messages.assistant {
        strip(message);
    }
    for card in &mut messages.cards {
        card.at = Timestamp::default();
        if let SystemBody::Approval(card) = &mut card.body
            && let Some(decided) = &mut card.decided
        {
            decided.at = Timestamp::default();
        }
    }
    messages
}

fn strip(message: &mut AssistantMessage) {
    message.at = Timestamp::default();
    message.iterations.retain(|call| call.purpose != Purpose::Summary);
    for part in &mut message.parts {
        match part {
            Part::Input(part) => part.at = Timestamp::default(),
            Part::ToolCall(call) => strip_call(call),
            Part::Text(_) | Part::Thinking(_) | Part::Native(_) => {}
        }
    }
}

fn strip_call(call: &mut ToolCallPart) {
    call.started_at = None;
    call.ended_at = None;
    call.progress.clear();
    if let Some(child) = &mut call.child {
        strip(child);
    }
}

/// Every error code in the message, nested ones included.
pub fn error_codes(message: &AssistantMessage) -> Vec<turnbuckle_core::error::ToolErrorCode> {
    let mut codes = Vec::new();
    for call in message.calls() {
        codes.extend(call.error.as_ref().map(|e| e.code));
        if let Some(child) = &call.child {
            codes.extend(error_codes(child));
        }
    }
    codes
}

pub fn json(value: serde_json::Value) -> turnbuckle_core::json::Json {
    Arc::new(value)
}

/// What entered the conversation in between, and after which model call.
pub fn inputs<W>(sim: &Sim<W>) -> Vec<(InputKind, u32)> {
    let parts = sim.turn.message().unwrap().parts.iter();
    let inputs = parts.filter_map(|p| match p {
        Part::Input(i) => Some((i.kind, i.iteration)),
        _ => None,
    });
    inputs.collect()
}

/// The texts of the message.
pub fn texts<W>(sim: &Sim<W>) -> Vec<&str> {
    sim.turn.message().unwrap().parts.iter().filter_map(Part::as_text).collect()
}
