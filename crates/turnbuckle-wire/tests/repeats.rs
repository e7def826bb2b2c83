//! Events that repeat the one before but for a text and noise are not parsed; what they tell must be what parsing tells.
#![allow(clippy::indexing_slicing)]

use proptest::prelude::*;
use turnbuckle_core::error::ModelErrorKind;
use turnbuckle_core::model::{ModelDelta, ModelResponse};
use turnbuckle_wire::{Codec, OpenAiResponses, ResponsesOptions};

/// What a stream told and came to.
type Read = (Vec<String>, Result<ModelResponse, ModelErrorKind>);

fn decode(codec: &dyn Codec, events: &[String]) -> Read {
    let mut told = Vec::new();
    let mut sink = |delta: ModelDelta<'_>| told.push(format!("{delta:?}"));
    let mut decoder = codec.decoder("m");
    let fed = events
        .iter()
        .try_for_each(|event| decoder.feed(format!("data: {event}\n\n").as_bytes(), &mut sink));
    let end = fed.and_then(|()| decoder.finish(&mut sink)).map_err(|error| error.kind);
    (told, end)
}

/// The same events, with white space of another width in each, so that none repeats another.
fn each_its_own(events: &[String]) -> Vec<String> {
    let wider =
        |(at, event): (usize, &String)| event.replacen('{', &format!("{{{}", " ".repeat(at)), 1);
    events.iter().enumerate().map(wider).collect()
}

/// The content of a string as it stands in the stream, seldom a sound one.
fn content() -> impl Strategy<Value = String> {
    prop_oneof![
        12 => "[ a-z0-9\u{e9}\u{1f389}]{0,6}",
        2 => Just(r#"a\n\"b\\"#.to_owned()),
        1 => Just(r#"","item_id":"b"#.to_owned()),
        1 => Just(r#"","delta":"twice"#.to_owned()),
    ]
}

fn number() -> impl Strategy<Value = String> {
    prop_oneof![20 => "[1-9][0-9]{0,3}|0", 1 => "01|-1|1\\.5|null|\"x\"|1,\"output_index\":1"]
}

fn event() -> impl Strategy<Value = String> {
    let kind = prop_oneof![
        8 => Just("output_text"),
        3 => Just("reasoning_summary_text"),
        2 => Just("refusal"),
        2 => Just("function_call_arguments"),
        1 => Just("audio"),
    ];
    let place = prop_oneof![
        6 => Just(r#""item_id":"a","output_index":0,"content_index":0"#),
        2 => Just(r#""item_id":"b","output_index":1,"content_index":0"#),
        1 => Just(r#""output_index":0,"content_index":1"#),
        1 => Just(r#""item_id":"c","output_index":2,"summary_index":1"#),
    ];
    let delta = (kind, place, number(), content(), content()).prop_map(
        |(kind, place, number, text, pad)| {
            format!(
                r#"{{"type":"response.{kind}.delta","sequence_number":{number},{place},"delta":"{text}","obfuscation":"{pad}"}}"#
            )
        },
    );
    let added = (0..4u8, number()).prop_map(|(item, number)| {
        let (id, kind) = [
            ("a", "message"),
            ("b", "message"),
            ("c", "reasoning"),
            ("b", "function_call"),
        ][usize::from(item)];
        format!(
            r#"{{"type":"response.output_item.added","sequence_number":{number},"output_index":{item},"item":{{"id":"{id}","type":"{kind}","name":"f","call_id":"i"}}}}"#
        )
    });
    prop_oneof![12 => delta, 1 => added]
}

proptest! {
    #[test]
    fn deltas_of_responses(mut events in proptest::collection::vec(event(), 0..24)) {
        let end = r#"{"type":"response.completed","response":{"id":"r","status":"completed"}}"#;
        events.push(end.to_owned());
        let codec = OpenAiResponses::new("p", ResponsesOptions::default());
        prop_assert_eq!(decode(&codec, &events), decode(&codec, &each_its_own(&events)));
    }
}
