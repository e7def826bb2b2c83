//! Runs a decoder and reduces what it gives to what scenarios speak about.

use crate::scenarios::{Cap, Scenario};
use std::collections::BTreeMap;
use turnbuckle_core::error::{ModelError, ModelErrorKind};
use turnbuckle_core::model::{Block, ModelDelta, ModelResponse};
use turnbuckle_core::usage::{FinishReason, Usage};
use turnbuckle_wire::Codec;

/// How one wire tells scenarios.
pub trait Wire {
    fn name(&self) -> &'static str;
    fn codec(&self) -> Box<dyn Codec>;
    fn caps(&self) -> &'static [Cap];
    /// The frames of the streamed answer.
    fn stream(&self, scenario: &Scenario) -> Vec<String>;
    /// The blocking answer, for scenarios that have one.
    fn whole(&self, scenario: &Scenario) -> Option<String>;
    /// The blocking answer made of the last assistant message of a request.
    fn answer_of(&self, request: &serde_json::Value) -> serde_json::Value;
    /// What the wire wants back of a block.
    fn returned(&self, block: Block) -> Option<Block>;
    /// The index of the frame that completes a stream.
    fn terminal(&self, frames: &[String]) -> usize;
}

pub const MODEL: &str = "some-model";

pub struct Run {
    pub result: Result<ModelResponse, ModelError>,
    /// What had arrived just before the end was called.
    pub partial: ModelResponse,
    /// The blocks as the deltas tell them.
    pub streamed: Vec<B>,
}

/// A block as scenarios tell it.
#[derive(Clone, Debug, PartialEq)]
pub enum B {
    Text(String),
    Think(String),
    Call { id: String, name: String, arguments: String },
    Native,
}

impl B {
    /// Whether deltas tell of it.
    pub fn is_told(&self) -> bool {
        match self {
            B::Text(text) | B::Think(text) => !text.is_empty(),
            B::Call { .. } => true,
            B::Native => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub blocks: Vec<B>,
    pub finish: FinishReason,
    pub usage: Usage,
}

pub enum Expect {
    Answer(Seen),
    Failure { kind: ModelErrorKind, blocks: Vec<B> },
}

pub fn simplify(response: &ModelResponse) -> Seen {
    let blocks = response
        .blocks
        .iter()
        .map(|b| match b {
            Block::Text { text, .. } => B::Text(text.clone()),
            Block::Thinking { text, .. } => B::Think(text.clone()),
            Block::ToolCall { wire_id, name, arguments, .. } => {
                B::Call { id: wire_id.clone(), name: name.clone(), arguments: arguments.clone() }
            }
            Block::Native { .. } => B::Native,
        })
        .collect();
    Seen { blocks, finish: response.finish.clone(), usage: response.usage }
}

pub fn run(wire: &dyn Wire, pieces: &[&[u8]]) -> Run {
    let codec = wire.codec();
    let mut decoder = codec.decoder(MODEL);
    let mut told: BTreeMap<usize, B> = BTreeMap::new();
    let mut highest = None;
    let mut sink = |delta: ModelDelta<'_>| {
        let (block, fresh) = match delta {
            ModelDelta::Text { block, text } => {
                assert!(!text.is_empty(), "an empty delta says nothing");
                match told.entry(block).or_insert_with(|| B::Text(String::new())) {
                    B::Text(known) => known.push_str(text),
                    other => panic!("text for {other:?}"),
                }
                (block, false)
            }
            ModelDelta::Thinking { block, text } => {
                assert!(!text.is_empty(), "an empty delta says nothing");
                match told.entry(block).or_insert_with(|| B::Think(String::new())) {
                    B::Think(known) => known.push_str(text),
                    other => panic!("thinking for {other:?}"),
                }
                (block, false)
            }
            ModelDelta::CallStart { block, wire_id, name } => {
                let call =
                    B::Call { id: wire_id.into(), name: name.into(), arguments: String::new() };
                assert_eq!(told.insert(block, call), None, "a call begins twice");
                (block, true)
            }
            ModelDelta::CallArguments { block, text } => {
                match told.get_mut(&block) {
                    Some(B::Call { arguments, .. }) => arguments.push_str(text),
                    other => panic!("arguments for {other:?}"),
                }
                (block, false)
            }
        };
        if fresh || highest.is_none_or(|h| block > h) {
            assert!(
                highest.is_none_or(|h| block > h),
                "block {block} begins after block {highest:?}"
            );
            highest = Some(block);
        }
    };
    let mut fed = Ok(());
    for piece in pieces {
        fed = decoder.feed(piece, &mut sink);
        if fed.is_err() {
            break;
        }
    }
    let before = decoder.partial();
    let result = fed.and_then(|()| decoder.finish(&mut sink));
    // After a failure the end may have brought more: the latest state is what stays.
    let partial = if result.is_err() { decoder.partial() } else { before };
    if result.is_err() {
        assert!(partial.blocks.len() >= told.len(), "streamed blocks are kept");
    }
    let count = result.as_ref().map_or(partial.blocks.len(), |r| r.blocks.len());
    let blocks = result.as_ref().map_or(&partial.blocks, |r| &r.blocks);
    let streamed = (0..count)
        .map(|at| {
            told.get(&at).cloned().unwrap_or_else(|| match &blocks[at] {
                Block::Thinking { .. } => B::Think(String::new()),
                Block::Native { .. } => B::Native,
                // A call that was never announced, since the stream broke off while its name was coming.
                Block::ToolCall { wire_id, name, .. } if result.is_err() => {
                    B::Call { id: wire_id.clone(), name: name.clone(), arguments: String::new() }
                }
                other => panic!("{other:?} was never told"),
            })
        })
        .collect();
    Run { result, partial, streamed }
}

impl Scenario {
    pub fn check(&self, wire: &dyn Wire, run: &Run) {
        let what = format!("{} {}", wire.name(), self.name);
        match (self.expect(), &run.result) {
            (Expect::Answer(expected), Ok(answer)) => {
                assert_eq!(simplify(answer), expected, "{what}");
                assert_eq!(answer.provider, wire.codec().provider(), "{what}");
            }
            (Expect::Answer(_), Err(e)) => panic!("{what}: {e:?}"),
            (Expect::Failure { kind, blocks }, Err(e)) => {
                assert_eq!(e.kind, kind, "{what}: {e:?}");
                assert_eq!(simplify(&run.partial).blocks, blocks, "{what}");
            }
            (Expect::Failure { kind, .. }, Ok(_)) => panic!("{what}: expected {kind:?}"),
        }
    }
}
