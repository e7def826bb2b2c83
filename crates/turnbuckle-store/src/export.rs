//! Whether an exported session is whole: one rule for every store.

use crate::error::StoreError;
use crate::model::{Consumed, Export, SessionStatus, Task, TurnStatus};
use std::collections::BTreeSet;
use std::sync::Arc;
use turnbuckle_core::ids::TurnId;

/// The events' numbers between which a turn's steps lie, both included; as with a turn whose steps were committed here.
pub(crate) fn span(export: &Export, turn: &TurnId) -> (u64, Option<u64>) {
    let mut own = export.events.iter().filter(|event| event.turn == *turn).map(|event| event.seq);
    let last_seq = export.session.next_seq.saturating_sub(1);
    let open = export.session.turn.as_ref() == Some(turn);
    match (own.next(), open) {
        (Some(first), true) => (first.saturating_sub(1), None),
        (Some(first), false) => (first.saturating_sub(1), Some(own.next_back().unwrap_or(first))),
        (None, true) => (last_seq, None),
        (None, false) => (0, Some(0)),
    }
}

/// Checks that the parts of an export fit each other, so that it is written as commits would have written it.
pub(crate) fn coherent(export: &Export) -> Result<(), StoreError> {
    match flaw(export) {
        None => Ok(()),
        Some(why) => {
            let why = format!("session {} cannot be imported: {why}", export.session.key.id);
            Err(StoreError::Other { cause: Arc::new(std::io::Error::other(why)) })
        }
    }
}

pub(crate) fn flaw(export: &Export) -> Option<String> {
    let session = &export.session;
    let follows = |numbers: &mut dyn Iterator<Item = u64>, first: u64| {
        numbers.zip(first..).find(|(got, expected)| got != expected)
    };
    // A fork begins without events, so what counts is that they end where the row says and have no gaps.
    let first = export.events.first().map_or(session.next_seq, |event| event.seq);
    if let Some((got, expected)) = follows(&mut export.events.iter().map(|e| e.seq), first) {
        return Some(format!("event {got} stands where event {expected} should"));
    }
    if first.checked_add(export.events.len() as u64) != Some(session.next_seq) || first != 1 {
        return Some(format!("its events do not lead from 1 to {}", session.next_seq));
    }
    if let Some(event) = export.events.iter().find(|event| event.session != session.key.id) {
        return Some(format!("event {} is another session's", event.seq));
    }
    let mut turns = BTreeSet::new();
    for log in &export.turns {
        let id = &log.turn.id;
        if !turns.insert(id) {
            return Some(format!("turn {id} is there twice"));
        }
        let open = session.turn.as_ref() == Some(id);
        if open == (log.turn.status == TurnStatus::Finished) {
            return Some(format!("turn {id} is finished and open, or neither"));
        }
        let mut entries = log.journal.iter().map(|entry| u64::from(entry.n));
        if let Some((got, expected)) = follows(&mut entries, 0) {
            return Some(format!("entry {got} of turn {id} stands where {expected} should"));
        }
    }
    if let Some(open) = session.turn.as_ref().filter(|open| !turns.contains(open)) {
        return Some(format!("its open turn {open} is missing"));
    }
    if session.turn.is_none() && session.status != SessionStatus::Idle {
        return Some("it is at work without an open turn".to_owned());
    }
    let ids: BTreeSet<_> = export.messages.iter().map(|message| message.id()).collect();
    if ids.len() != export.messages.len() {
        return Some("a message is there twice".to_owned());
    }
    if let Some((got, expected)) = follows(&mut export.inbox.iter().map(|i| i.item.n), 1) {
        return Some(format!("input {got} stands where {expected} should"));
    }
    let foreign = |task: &&Task| task.session_key() != session.key;
    if let Some(task) = export.tasks.iter().find(foreign) {
        return Some(format!("task {} is another session's", task.key.reference));
    }
    let waiting = export.inbox.iter().filter(|input| input.consumed == Consumed::No).count();
    if waiting as u64 != session.pending {
        return Some(format!("{waiting} inputs wait, not {}", session.pending));
    }
    None
}
