//! Where a reader begins, and where turns begin.

use super::follow::{Follow, Mark, Place, last_valid};
use turnbuckle_core::event::Event;
use turnbuckle_core::ids::TurnId;
use turnbuckle_store::{Session, SessionKey, Store, StoreError, TurnRecord};

/// Stored events read at once in search of the last one a reader rightly has.
const STRETCH: u64 = 256;

/// A reader that has everything up to `place`. What it had of events that were never stored is taken back from it.
///
/// # Errors
/// Those of the store.
pub async fn begin(
    store: &dyn Store,
    key: &SessionKey,
    session: &Session,
    place: Place,
) -> Result<Follow, StoreError> {
    let committed = session.next_seq.saturating_sub(1);
    let sure = match &place.mark {
        None => committed,
        Some(mark) => valid_before(store, key, mark, committed.min(place.seq)).await?,
    };
    Ok(Follow::new(place, sure))
}

/// The last stored event up to `seq` that a reader with this mark rightly has.
async fn valid_before(
    store: &dyn Store,
    key: &SessionKey,
    mark: &Mark,
    mut seq: u64,
) -> Result<u64, StoreError> {
    while seq > 0 {
        let from = seq.saturating_sub(STRETCH);
        let events = store.events(key, from, (seq - from) as u32).await?;
        if let Some(valid) = last_valid(mark, &events) {
            return Ok(valid);
        }
        seq = from;
    }
    Ok(0)
}

/// The number of a turn's first event; `None` when the turn has no stored event.
///
/// # Errors
/// Those of the store.
pub async fn first_of(
    store: &dyn Store,
    key: &SessionKey,
    session: &Session,
    turn: &TurnId,
) -> Result<Option<u64>, StoreError> {
    let turns: Vec<TurnRecord> = store.turns(key).await?;
    let Some(wanted) = turns.iter().position(|t| t.id == *turn) else { return Ok(None) };
    let place = |event: &Event| turns.iter().position(|t| t.id == event.turn);
    // Turns follow each other, so the numbers of their events are divided at one point.
    let (mut low, mut high) = (1, session.next_seq);
    while low < high {
        let middle = low + (high - low) / 2;
        let found = store.events(key, middle - 1, 1).await?;
        match found.first().map(place) {
            Some(Some(place)) if place < wanted => low = middle + 1,
            _ => high = middle,
        }
    }
    let first = store.events(key, low - 1, 1).await?;
    Ok(first.first().filter(|event| event.turn == *turn).map(|event| event.seq))
}
