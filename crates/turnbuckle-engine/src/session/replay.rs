//! A stored turn again, from its journal alone.

use super::owner::StoredTurn;
use crate::driver::DriveError;
use std::collections::BTreeMap;
use std::sync::Arc;
use turnbuckle_core::event::{Event, EventKind};
use turnbuckle_core::fold::TurnFold;
use turnbuckle_core::ids::MessageId;
use turnbuckle_core::machine::{Output, Turn};
use turnbuckle_store::{SessionKey, StoreError, TurnLog};

/// What a replay gave.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The events, numbered from 1 as if the session began with this turn.
    pub events: Vec<Event>,
    /// The messages.
    pub messages: TurnFold,
}

impl Replayed {
    /// Whether these events are the stored ones, apart from where their numbers begin. The first difference otherwise.
    ///
    /// Agents that ran beside each other are compared each for itself: how their streams were woven together is not kept.
    /// Deltas of an answer that broke off with its process are left out: some were stored with what ended beside it, and all
    /// are void since the message was resumed.
    ///
    /// # Errors
    /// A sentence about the first difference.
    pub fn compare(&self, stored: &[Event]) -> Result<(), String> {
        let (mut mine, theirs) = (by_agent(&self.events), by_agent(stored));
        for (agent, theirs) in &theirs {
            let mine = mine.remove(agent).unwrap_or_default();
            for (index, (mine, theirs)) in mine.iter().zip(theirs).enumerate() {
                if (mine.at, &mine.kind) != (theirs.at, &theirs.kind) {
                    return Err(format!(
                        "event {index} of {agent} differs: stored {}, replayed {}",
                        short(&theirs.kind),
                        short(&mine.kind)
                    ));
                }
            }
            if mine.len() != theirs.len() {
                let (stored, replayed) = (theirs.len(), mine.len());
                return Err(format!(
                    "{stored} events of {agent} are stored, {replayed} were replayed"
                ));
            }
        }
        match mine.keys().next() {
            None => Ok(()),
            Some(agent) => Err(format!("no events of {agent} are stored, but some were replayed")),
        }
    }
}

fn by_agent(events: &[Event]) -> BTreeMap<&str, Vec<&Event>> {
    let mut all: BTreeMap<&str, Vec<&Event>> = BTreeMap::new();
    for event in events {
        let mine = all.entry(&event.agent).or_default();
        if let EventKind::AssistantMessageResumed { message, parts } = &event.kind {
            while mine
                .last()
                .is_some_and(|e| e.epoch < event.epoch && streams_beyond(&e.kind, message, *parts))
            {
                mine.pop();
            }
        }
        mine.push(event);
    }
    all
}

/// Whether an event is a piece of an answer, beyond the parts that a message was resumed with.
fn streams_beyond(kind: &EventKind, resumed: &MessageId, parts: u32) -> bool {
    match kind {
        EventKind::TextDelta { message, part, .. }
        | EventKind::ThinkingDelta { message, part, .. }
        | EventKind::ToolCallStarted { message, part, .. }
        | EventKind::ToolCallArgsDelta { message, part, .. } => {
            message == resumed && *part >= parts
        }
        _ => false,
    }
}

fn short(kind: &EventKind) -> String {
    let text = serde_json::to_string(kind).unwrap_or_default();
    turnbuckle_core::json::clip(&text, 300).to_owned()
}

pub(crate) fn replay(key: &SessionKey, log: &TurnLog) -> Result<Replayed, ReplayError> {
    let stored: StoredTurn = serde_json::from_str(&log.turn.spec)
        .map_err(|e| StoreError::Corrupt { what: "turn".into(), cause: Arc::new(e) })?;
    let mut turn = Turn::new(stored.spec)?;
    let mut events = Vec::new();
    for entry in &log.journal {
        let mut out = Output::default();
        turn.replay_entry(entry, &mut out)?;
        for emitted in out.events {
            events.push(Event {
                seq: events.len() as u64 + 1,
                epoch: turn.epoch(),
                at: emitted.at,
                session: key.id.clone(),
                turn: log.turn.id.clone(),
                agent: emitted.path,
                kind: emitted.kind,
            });
        }
    }
    Ok(Replayed { events, messages: turn.messages().clone() })
}

/// Why a turn cannot be replayed.
pub(crate) type ReplayError = DriveError;
