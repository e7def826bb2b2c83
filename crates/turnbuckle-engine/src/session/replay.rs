//! A stored turn again, from its journal alone.

use super::owner::StoredTurn;
use crate::driver::DriveError;
use std::sync::Arc;
use turnbuckle_core::event::{Event, EventKind};
use turnbuckle_core::fold::TurnFold;
use turnbuckle_core::ids::MessageId;
use turnbuckle_core::machine::{Output, Replay};
use turnbuckle_core::message::Surroundings;
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
    /// Deltas of an answer that broke off with its process are left out: some were stored with what ended beside it, and all
    /// are void since the message was resumed.
    ///
    /// # Errors
    /// A sentence about the first difference.
    pub fn compare(&self, stored: &[Event]) -> Result<(), String> {
        let (mine, theirs) = (valid(&self.events), valid(stored));
        for (index, (mine, theirs)) in mine.iter().zip(&theirs).enumerate() {
            if (mine.at, &mine.agent, &mine.kind) != (theirs.at, &theirs.agent, &theirs.kind) {
                return Err(format!(
                    "event {index} differs: stored {} of {}, replayed {} of {}",
                    short(&theirs.kind),
                    theirs.agent,
                    short(&mine.kind),
                    mine.agent
                ));
            }
        }
        if mine.len() != theirs.len() {
            let (stored, replayed) = (theirs.len(), mine.len());
            return Err(format!("{stored} events are stored, {replayed} were replayed"));
        }
        Ok(())
    }
}

/// The events without those that a resumption made void.
fn valid(events: &[Event]) -> Vec<&Event> {
    let mut kept: Vec<&Event> = Vec::with_capacity(events.len());
    for event in events {
        if let EventKind::AssistantMessageResumed { message, parts } = &event.kind {
            kept.retain(|e| e.epoch >= event.epoch || !streams_beyond(&e.kind, message, *parts));
        }
        kept.push(event);
    }
    kept
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

/// What a turn began with.
pub(crate) fn stored(log: &TurnLog) -> Result<StoredTurn, StoreError> {
    serde_json::from_str(&log.turn.spec)
        .map_err(|e| StoreError::Corrupt { what: "turn".into(), cause: Arc::new(e) })
}

/// What a turn takes over from the one that it follows from, such as the end of a background task from the turn that started it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inheritance {
    /// What its model calls are booked to beside the person.
    pub account: Option<Arc<str>>,
    /// Where it was written and what it refers to. Not the tools of the front end, which nobody may be there to run.
    pub surroundings: Surroundings,
}

pub(crate) fn inheritance(log: &TurnLog) -> Result<Inheritance, StoreError> {
    let StoredTurn { spec, account, .. } = stored(log)?;
    let surroundings = Surroundings { tools: Vec::new(), ..spec.user.surroundings };
    Ok(Inheritance { account, surroundings })
}

pub(crate) fn replay(key: &SessionKey, log: &TurnLog) -> Result<Replayed, ReplayError> {
    let stored = stored(log)?;
    let mut replay = Replay::new(stored.spec, &log.journal)?;
    let mut events = Vec::new();
    let mut out = Output::default();
    while replay.step(&mut out)?.is_some() {
        for emitted in out.events.drain(..) {
            events.push(Event {
                seq: events.len() as u64 + 1,
                epoch: replay.turn().epoch(),
                at: emitted.at,
                session: key.id.clone(),
                turn: log.turn.id.clone(),
                agent: emitted.path,
                kind: emitted.kind,
            });
        }
    }
    Ok(Replayed { events, messages: replay.turn().messages().clone() })
}

/// Why a turn cannot be replayed.
pub(crate) type ReplayError = DriveError;
