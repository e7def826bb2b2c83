//! A stored turn again, from its journal alone.

use super::owner::StoredTurn;
use crate::driver::DriveError;
use std::collections::BTreeMap;
use std::sync::Arc;
use turnbuckle_core::event::{Event, EventKind};
use turnbuckle_core::fold::TurnFold;
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
    /// Deltas of attempts that broke off with their process were streamed but never stored, so they are not in either.
    ///
    /// # Errors
    /// A sentence about the first difference.
    pub fn compare(&self, stored: &[Event]) -> Result<(), String> {
        let (mine, theirs) = (by_agent(&self.events), by_agent(stored));
        for (agent, theirs) in &theirs {
            let mine = mine.get(agent).map(Vec::as_slice).unwrap_or_default();
            for (index, (mine, theirs)) in mine.iter().zip(theirs).enumerate() {
                if (mine.at, &mine.kind) != (theirs.at, &theirs.kind) {
                    return Err(format!(
                        "event {index} of {agent} differs: stored {}, replayed {}",
                        short(&theirs.kind),
                        short(&mine.kind)
                    ));
                }
            }
        }
        if self.events.len() == stored.len() {
            return Ok(());
        }
        Err(format!("{} events are stored, {} were replayed", stored.len(), self.events.len()))
    }
}

fn by_agent(events: &[Event]) -> BTreeMap<&str, Vec<&Event>> {
    let mut all: BTreeMap<&str, Vec<&Event>> = BTreeMap::new();
    for event in events {
        all.entry(&event.agent).or_default().push(event);
    }
    all
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
