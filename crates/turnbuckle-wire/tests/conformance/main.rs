//! One table of what servers do, run against every wire.
//!
//! A scenario is told in neutral steps; each wire renders it into its own frames. A wire skips a scenario only by not
//! declaring a capability the scenario needs, and the skips are listed in full below, so that none happens unnoticed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod anthropic;
mod gemini;
mod harness;
mod ollama;
mod openai_chat;
mod openai_responses;
mod scenarios;

use harness::{B, Expect, Run, Wire, run, simplify};
use proptest::prelude::*;
use scenarios::{Cap, Scenario, table};
use turnbuckle_core::error::ModelErrorKind;
use turnbuckle_core::model::{Block, ModelRequest};
use turnbuckle_core::transcript::{Item, ToolResult, Transcript};
use turnbuckle_wire::decode_whole;

fn wires() -> Vec<Box<dyn Wire>> {
    vec![
        Box::new(openai_chat::Chat),
        Box::new(anthropic::Messages),
        Box::new(openai_responses::Responses),
        Box::new(gemini::Google),
        Box::new(ollama::Local),
    ]
}

fn each(mut check: impl FnMut(&dyn Wire, &Scenario)) {
    for wire in wires() {
        for scenario in table() {
            if scenario.needs.iter().all(|cap| wire.caps().contains(cap)) {
                check(&*wire, &scenario);
            }
        }
    }
}

#[test]
fn every_scenario_gives_the_expected_answer() {
    each(|wire, scenario| {
        let run = run(wire, &[wire.stream(scenario).concat().as_bytes()]);
        scenario.check(wire, &run);
    });
}

#[test]
fn skips_are_these_and_no_others() {
    let mut skipped = Vec::new();
    for wire in wires() {
        for scenario in table() {
            let lacking: Vec<Cap> =
                scenario.needs.iter().copied().filter(|cap| !wire.caps().contains(cap)).collect();
            if !lacking.is_empty() {
                skipped.push(format!("{}: {} ({lacking:?})", wire.name(), scenario.name));
            }
        }
    }
    insta::assert_snapshot!(skipped.join("\n"));
}

#[test]
fn one_byte_at_a_time_gives_the_same() {
    each(|wire, scenario| {
        let bytes = wire.stream(scenario).concat();
        let pieces: Vec<&[u8]> = bytes.as_bytes().chunks(1).collect();
        scenario.check(wire, &run(wire, &pieces));
    });
}

#[test]
fn other_line_ends_and_a_byte_order_mark_give_the_same() {
    each(|wire, scenario| {
        let bytes = wire.stream(scenario).concat();
        for end in ["\r\n", "\r"] {
            let other = format!("\u{feff}{}", bytes.replace('\n', end));
            scenario.check(wire, &run(wire, &[other.as_bytes()]));
        }
    });
}

#[test]
fn a_blocking_answer_folds_to_the_same() {
    each(|wire, scenario| {
        let Some(body) = wire.whole(scenario) else { return };
        let Expect::Answer(expected) = scenario.expect() else { return };
        let run = run(wire, &[body.as_bytes()]);
        let answer =
            run.result.unwrap_or_else(|e| panic!("{} {}: {e}", wire.name(), scenario.name));
        let seen = simplify(&answer);
        assert_eq!(
            without_empty_arguments(seen.blocks),
            without_empty_arguments(expected.blocks.clone()),
            "{} {}",
            wire.name(),
            scenario.name
        );
        assert_eq!(seen.finish, expected.finish, "{} {}", wire.name(), scenario.name);
    });
}

/// A blocking answer has no way to tell no arguments from empty ones.
fn without_empty_arguments(mut blocks: Vec<B>) -> Vec<B> {
    for block in &mut blocks {
        if let B::Call { arguments, .. } = block
            && arguments == "{}"
        {
            arguments.clear();
        }
    }
    blocks
}

#[test]
fn what_goes_back_is_what_came() {
    each(|wire, scenario| {
        let run = run(wire, &[wire.stream(scenario).concat().as_bytes()]);
        let Ok(answer) = run.result else { return };
        let sent_back: Vec<Block> =
            answer.blocks.iter().cloned().filter_map(|b| wire.returned(b)).collect();
        let plain = sent_back.iter().all(|b| match b {
            Block::ToolCall { wire_id, name, arguments, .. } => {
                !wire_id.is_empty()
                    && !name.contains('.')
                    && (arguments.is_empty()
                        || serde_json::from_str::<serde_json::Value>(arguments).is_ok())
            }
            _ => true,
        });
        let speaks = sent_back.iter().any(|b| !matches!(b, Block::Thinking { .. }));
        if !plain || !speaks || wire.whole(scenario).is_none() {
            return;
        }
        let results = answer.blocks.iter().filter_map(|b| match b {
            Block::ToolCall { wire_id, name, .. } => Some(ToolResult {
                wire_id: wire_id.as_str().into(),
                name: name.as_str().into(),
                content: "done".into(),
                is_error: false,
            }),
            _ => None,
        });
        let mut transcript = Transcript::default();
        transcript.push_item(Item::user("Go."));
        transcript.push_item(Item::Assistant { blocks: answer.blocks.clone() });
        transcript.push_item(Item::ToolResults { results: results.collect() });
        transcript.push_item(Item::user("And?"));
        let codec = wire.codec();
        let encoded = codec.encode(&ModelRequest::new(harness::MODEL, transcript)).unwrap();
        let body: serde_json::Value = serde_json::from_slice(&encoded.body).unwrap();
        let again = wire.answer_of(&body).to_string();
        let again = decode_whole(&*codec, harness::MODEL, again.as_bytes()).unwrap();
        let normal = |blocks: Vec<Block>| -> Vec<Block> {
            blocks
                .into_iter()
                .map(|b| match b {
                    Block::ToolCall { wire_id, name, arguments, native } if arguments == "{}" => {
                        Block::ToolCall { wire_id, name, arguments: String::new(), native }
                    }
                    other => other,
                })
                .collect()
        };
        assert_eq!(normal(again.blocks), normal(sent_back), "{} {}", wire.name(), scenario.name);
    });
}

/// Where to cut: everywhere in short streams; in long ones around the frames' ends and at intervals, since the work grows
/// with the square of the length.
fn cuts(frames: &[String]) -> Vec<usize> {
    let length: usize = frames.iter().map(String::len).sum();
    if length > 100_000 {
        return Vec::new();
    }
    let mut near = std::collections::BTreeSet::new();
    let mut end = 0;
    for frame in frames {
        end += frame.len();
        near.extend(end.saturating_sub(4)..end + 8);
    }
    let step = (length / 400).max(1);
    (0..length).filter(|at| length < 1_500 || near.contains(at) || at % step == 0).collect()
}

#[test]
fn a_stream_cut_anywhere_before_its_terminal_event_is_no_success() {
    each(|wire, scenario| {
        let frames = wire.stream(scenario);
        let Expect::Answer(expected) = scenario.expect() else { return };
        let terminal: usize = frames[..=wire.terminal(&frames)].iter().map(String::len).sum();
        let bytes = frames.concat();
        for cut in cuts(&frames) {
            let Run { result, partial, streamed } = run(wire, &[&bytes.as_bytes()[..cut]]);
            let what = format!("{} {} cut at {cut} of {}", wire.name(), scenario.name, bytes.len());
            match result {
                Err(e) => {
                    assert!(matches!(e.kind, ModelErrorKind::StreamCut), "{what}: {e:?}");
                    let got = simplify(&partial).blocks;
                    assert_eq!(got.len(), streamed.len(), "{what}");
                }
                Ok(answer) => {
                    // The last line end and the blank line carry nothing, so that they may be missing.
                    assert!(cut + 2 >= terminal, "{what} passed for a whole answer");
                    assert_eq!(simplify(&answer).blocks, expected.blocks, "{what}");
                }
            }
        }
    });
}

#[test]
fn deltas_add_up_to_the_blocks() {
    each(|wire, scenario| {
        let run = run(wire, &[wire.stream(scenario).concat().as_bytes()]);
        let blocks = match &run.result {
            Ok(answer) => simplify(answer).blocks,
            Err(_) => simplify(&run.partial).blocks,
        };
        let told: Vec<_> = blocks.iter().filter(|b| b.is_told()).cloned().collect();
        let added: Vec<_> = run.streamed.iter().filter(|b| b.is_told()).cloned().collect();
        assert_eq!(added, told, "{} {}", wire.name(), scenario.name);
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn chunking_never_changes_the_result(
        pick in any::<prop::sample::Index>(),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        for wire in wires() {
            let table = table();
            let scenario = pick.get(&table);
            if !scenario.needs.iter().all(|cap| wire.caps().contains(cap)) {
                continue;
            }
            let bytes = wire.stream(scenario).concat().into_bytes();
            let mut at: Vec<usize> = cuts.iter().map(|c| c.index(bytes.len() + 1)).collect();
            at.push(bytes.len());
            at.sort_unstable();
            let mut from = 0;
            let pieces: Vec<&[u8]> = at.iter().map(|to| { let p = &bytes[from..*to]; from = *to; p }).collect();
            let (split, whole) = (run(&*wire, &pieces), run(&*wire, &[&bytes]));
            prop_assert_eq!(split.result, whole.result);
            prop_assert_eq!(split.partial, whole.partial);
            prop_assert_eq!(split.streamed, whole.streamed);
        }
    }

    #[test]
    fn damaged_streams_never_panic_and_always_end(
        pick in any::<prop::sample::Index>(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        for wire in wires() {
            let table = table();
            let scenario = pick.get(&table);
            if !scenario.needs.iter().all(|cap| wire.caps().contains(cap)) {
                continue;
            }
            let mut bytes = wire.stream(scenario).concat().into_bytes();
            for (at, byte) in &damage {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            let _ = run(&*wire, &[&bytes]);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        for wire in wires() {
            let _ = run(&*wire, &[&bytes]);
        }
    }

    #[test]
    fn arbitrary_json_never_panics(json in json_text()) {
        for wire in wires() {
            let _ = run(&*wire, &[format!("data: {json}\n\ndata: {json}\n\n").as_bytes()]);
            let _ = run(&*wire, &[json.as_bytes()]);
            let _ = run(&*wire, &[format!("{json}\n{json}\n").as_bytes()]);
        }
    }
}

/// Documents made of the words that decoders look for, in wrong places.
fn json_text() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "choices",
        "delta",
        "content",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "index",
        "id",
        "usage",
        "finish_reason",
        "error",
        "message",
        "type",
        "text",
        "thinking",
        "reasoning_details",
        "signature",
        "content_block",
        "content_block_start",
        "content_block_delta",
        "input_json_delta",
        "partial_json",
        "message_delta",
        "message_start",
        "candidates",
        "parts",
        "functionCall",
        "args",
        "response",
        "item",
        "output",
        "output_index",
        "response.completed",
        "response.output_item.added",
        "done",
        "done_reason",
    ]);
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        words.clone().prop_map(|w| serde_json::Value::String(w.to_owned())),
    ];
    leaf.prop_recursive(6, 40, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::Array),
            proptest::collection::vec((words.clone(), inner), 0..6).prop_map(|members| {
                serde_json::Value::Object(
                    members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect(),
                )
            }),
        ]
    })
    .prop_map(|v| v.to_string())
}

/// Every document that differs from this one in a single value, which has become of another type.
fn with_a_wrong_type(document: &serde_json::Value) -> Vec<serde_json::Value> {
    use serde_json::{Value, json};
    fn paths(value: &Value, at: String, into: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                for (key, inner) in map {
                    let key = key.replace('~', "~0").replace('/', "~1");
                    paths(inner, format!("{at}/{key}"), into);
                }
            }
            Value::Array(items) => {
                for (i, inner) in items.iter().enumerate() {
                    paths(inner, format!("{at}/{i}"), into);
                }
            }
            _ => {}
        }
        if !at.is_empty() {
            into.push(at);
        }
    }
    let mut found = Vec::new();
    paths(document, String::new(), &mut found);
    let wrong = [json!(null), json!(true), json!(-7), json!("x"), json!([1]), json!({"x": 1})];
    let mut documents = Vec::new();
    for path in found {
        for value in &wrong {
            let mut other = document.clone();
            *other.pointer_mut(&path).unwrap() = value.clone();
            documents.push(other);
        }
    }
    documents
}

/// A gateway that fills a field with something else has said nothing by it; it has not broken the stream.
#[test]
fn a_field_of_the_wrong_type_never_makes_a_frame_unreadable() {
    let mut broken = Vec::new();
    let mut tried = std::collections::HashSet::new();
    each(|wire, scenario| {
        let frames = wire.stream(scenario);
        for (i, frame) in frames.iter().enumerate() {
            let Some((before, rest)) = frame.split_once('{') else { continue };
            let (inner, after) = rest.rsplit_once('}').unwrap();
            let Ok(document) = serde_json::from_str(&format!("{{{inner}}}")) else { continue };
            for other in with_a_wrong_type(&document) {
                // Scenarios share most of their frames.
                if !tried.insert((wire.name(), other.to_string())) {
                    continue;
                }
                let changed = format!("{before}{other}{after}");
                let codec = wire.codec();
                let mut decoder = codec.decoder(harness::MODEL);
                let mut sink = |_: turnbuckle_core::model::ModelDelta<'_>| {};
                if let Err(error) = decoder
                    .feed(frames[..i].concat().as_bytes(), &mut sink)
                    .and_then(|()| decoder.feed(changed.as_bytes(), &mut sink))
                    && error.message.contains("cannot be read")
                {
                    broken.push(format!("{}: {other}: {error}", wire.name()));
                }
            }
        }
    });
    assert!(
        broken.is_empty(),
        "{} frames, such as {:#?}",
        broken.len(),
        &broken[..broken.len().min(40)]
    );
}
