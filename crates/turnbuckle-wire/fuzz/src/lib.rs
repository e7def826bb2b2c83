//! What must hold for a decoder whatever it is fed: it never panics, it ends with an answer or an error, its deltas add up to
//! its blocks, it does not matter how the bytes are cut, and it never holds much more than it was given.

use std::collections::BTreeMap;
use turnbuckle_core::error::ModelError;
use turnbuckle_core::model::{Block, ModelDelta, ModelResponse};
use turnbuckle_wire::Codec;

/// Bytes held at most for each byte fed: a JSON tree is that much larger than its text.
const HELD_PER_BYTE: u64 = 256;
/// Bytes held at most besides.
const HELD: u64 = 256 * 1024;

/// Checks one input. Its first byte says in what pieces the others are fed the second time.
pub fn check(codec: &dyn Codec, input: &[u8]) {
    let Some((step, bytes)) = input.split_first() else { return };
    let mut whole = None;
    let memory = allocation_counter::measure(|| whole = Some(run(codec, bytes, usize::MAX)));
    let most = HELD_PER_BYTE * bytes.len() as u64 + HELD;
    assert!(memory.bytes_max <= most, "{} bytes held for {}", memory.bytes_max, bytes.len());
    let pieces = run(codec, bytes, usize::from(*step).max(1));
    assert_eq!(whole, Some(pieces), "it matters how the bytes are cut");
}

/// How it ended, and what had come by then.
type Outcome = (Result<ModelResponse, ModelError>, ModelResponse);

fn run(codec: &dyn Codec, bytes: &[u8], step: usize) -> Outcome {
    let mut decoder = codec.decoder("model");
    let mut told: BTreeMap<usize, String> = BTreeMap::new();
    let mut sink = |delta: ModelDelta<'_>| match delta {
        ModelDelta::Text { block, text }
        | ModelDelta::Thinking { block, text }
        | ModelDelta::CallArguments { block, text } => {
            assert!(!text.is_empty(), "an empty delta");
            told.entry(block).or_default().push_str(text);
        }
        ModelDelta::CallStart { block, .. } => {
            assert!(told.insert(block, String::new()).is_none(), "a call begins twice");
        }
    };
    let mut fed = Ok(());
    for piece in bytes.chunks(step.min(bytes.len()).max(1)) {
        fed = decoder.feed(piece, &mut sink);
        if fed.is_err() {
            break;
        }
    }
    let result = fed.and_then(|()| decoder.finish(&mut sink));
    let partial = decoder.partial();
    let blocks = result.as_ref().map_or(&partial.blocks, |answer| &answer.blocks);
    for (block, text) in &told {
        let held = match blocks.get(*block) {
            Some(Block::Text { text, .. } | Block::Thinking { text, .. }) => text,
            Some(Block::ToolCall { arguments, .. }) => arguments,
            other => panic!("deltas of block {block}, which is {other:?}"),
        };
        assert_eq!(text, held, "deltas and block {block} differ");
    }
    let empty = |b: &Block| matches!(b, Block::Text { text, .. } if text.is_empty());
    assert!(!blocks.iter().any(empty), "an empty text");
    (result, partial)
}
