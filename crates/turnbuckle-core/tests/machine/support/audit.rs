//! What every model call must be given: the transcript built step by step, checked against the stored message.

use std::collections::{BTreeMap, BTreeSet};
use turnbuckle_core::fold::TurnFold;
use turnbuckle_core::ids::MessageId;
use turnbuckle_core::machine::CallModel;
use turnbuckle_core::message::AssistantMessage;
use turnbuckle_core::model::Block;
use turnbuckle_core::part::Part;
use turnbuckle_core::transcript::{Item, Rules, Transcript};
use turnbuckle_core::usage::Purpose;

/// The requests of a turn's model calls.
#[derive(Default)]
pub struct Requests {
    /// What a driver keeps of each message: built once, only appended to.
    live: BTreeMap<MessageId, (Transcript, u32)>,
    last: BTreeMap<MessageId, Vec<Item>>,
    /// Every request in order, without the history before the turn.
    pub all: Vec<Vec<Item>>,
}

pub fn rebuilt(message: &AssistantMessage, iterations: u32) -> Vec<Item> {
    let mut transcript = Transcript::default();
    for iteration in 0..iterations {
        transcript.push_iteration(message, iteration, &Rules::default());
    }
    items(&transcript)
}

fn items(transcript: &Transcript) -> Vec<Item> {
    transcript.entries().iter().map(|e| e.item.clone()).collect()
}

impl Requests {
    /// Parts of the message were removed: its next request begins anew.
    pub fn forget(&mut self, message: &MessageId) {
        self.live.remove(message);
        self.last.remove(message);
    }

    /// The process ended. What was sent before stays known to the provider.
    pub fn lose_memory(&mut self) {
        self.live.clear();
    }

    pub fn check(&mut self, messages: &TurnFold, call: &CallModel) {
        if call.purpose == Purpose::Route {
            return;
        }
        let message = messages.get(&call.message).unwrap();
        let (transcript, next) = self.live.entry(call.message.clone()).or_default();
        while *next < call.iteration {
            transcript.push_iteration(message, *next, &Rules::default());
            *next += 1;
        }
        let request = items(transcript);
        let stored = rebuilt(message, call.iteration);
        assert_eq!(request, stored, "the live transcript differs from the stored one");
        let beyond = message.parts.iter().filter(|p| p.iteration() >= call.iteration).count();
        assert_eq!(beyond, 0, "parts of a model call that has not been made");
        if let Some(last) = self.last.get(&call.message) {
            assert!(request.starts_with(last), "the prefix changed: {last:#?} {request:#?}");
        }
        check_pairs(&request);
        let mut seen = BTreeSet::new();
        for part in message.parts.iter().filter_map(Part::as_call) {
            assert!(part.status.is_settled(), "{} is open at a model call", part.id);
            assert!(seen.insert(part.wire_id.clone()), "wire id {} twice", part.wire_id);
        }
        self.last.insert(call.message.clone(), request.clone());
        self.all.push(request);
    }
}

/// Every call has exactly one result, right after the answer that made it and in its order.
pub fn check_pairs(request: &[Item]) {
    let mut owed: Vec<String> = Vec::new();
    for item in request {
        match item {
            Item::ToolResults { results } => {
                let given: Vec<String> = results.iter().map(|r| r.wire_id.to_string()).collect();
                assert_eq!(given, owed, "results do not answer the calls");
                owed.clear();
            }
            other => {
                assert_eq!(owed, [] as [String; 0], "calls without results");
                if let Item::Assistant { blocks } = other {
                    owed = blocks.iter().filter_map(wire_id).collect();
                }
            }
        }
    }
    assert_eq!(owed, [] as [String; 0], "calls without results");
}

fn wire_id(block: &Block) -> Option<String> {
    match block {
        Block::ToolCall { wire_id, .. } => Some(wire_id.clone()),
        _ => None,
    }
}
