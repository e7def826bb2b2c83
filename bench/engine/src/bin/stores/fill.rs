//! Fills a store: copies of a session in which a turn of the engine really ran, imported under the names of many tenants, and
//! some sessions with a long history.

use crate::place::Place;
use crate::{Extent, turns};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use turnbuckle::core::event::Event;
use turnbuckle::core::ids::{SessionKey, TurnId};
use turnbuckle::core::message::Message;
use turnbuckle::store::{Export, ImportedUsage, MemoryStore, Store, TurnLog};
use turnbuckle_bench::Error;

/// Sessions with a long history.
pub const LONG: usize = 12;
/// Their messages.
const MESSAGES: usize = 2_000;
/// Imports at once.
const AT_ONCE: usize = 16;

/// A session with a long history.
pub fn long(i: usize) -> SessionKey {
    SessionKey::new(format!("tenant_{i:04}"), format!("s_long_{i}"))
}

pub async fn run(place: &Place, extent: &Extent) -> Result<Value, Error> {
    let start = Instant::now();
    let (model, store) = (Arc::new(model().await?), place.to_fill().await?);
    for i in 0..LONG {
        store
            .import_session(named(repeated(&model, MESSAGES)?, long(i)), ImportedUsage::FromEvents)
            .await?;
    }
    let mut tasks = JoinSet::new();
    for first in 0..AT_ONCE {
        let (model, store, sessions, tenants) =
            (model.clone(), store.clone(), extent.sessions, extent.tenants);
        tasks.spawn(async move {
            for i in (first..sessions).step_by(AT_ONCE) {
                let key = SessionKey::new(format!("tenant_{:04}", i % tenants), format!("s_{i}"));
                store
                    .import_session(named(Export::clone(&model), key), ImportedUsage::FromEvents)
                    .await?;
            }
            Ok::<_, Error>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(json!({
        "sessions": extent.sessions, "tenants": extent.tenants, "events_each": model.events.len(),
        "long_sessions": LONG, "seconds": start.elapsed().as_secs_f64(),
    }))
}

/// A session after one turn with one tool round.
async fn model() -> Result<Export, Error> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = turns::engine(&store, 1, Duration::ZERO)?;
    let key = engine.create_session("bench", "bench", "main").await?.key;
    turns::turn(&engine, &key).await?;
    Ok(store.export_session(&key).await?)
}

fn named(mut export: Export, key: SessionKey) -> Export {
    for event in &mut export.events {
        event.session = key.id.clone();
    }
    export.session.key = key;
    export
}

/// Its turn again and again, until there are so many messages.
fn repeated(model: &Export, messages: usize) -> Result<Export, Error> {
    let mut all = model.clone();
    let each = model.events.len() as u64;
    let log = model.turns.first().ok_or("the model session has no turn")?;
    let copies = messages / model.messages.len().max(1);
    for copy in 1..copies {
        let turn = TurnId::from(format!("{}_{copy}", log.turn.id));
        let mut record = log.turn.clone();
        record.id = turn.clone();
        all.turns.push(TurnLog { turn: record, journal: log.journal.clone() });
        all.messages.extend(model.messages.iter().map(|message| of_turn(message, &turn)));
        let shift = each * copy as u64;
        let again =
            |event: &Event| Event { seq: event.seq + shift, turn: turn.clone(), ..event.clone() };
        all.events.extend(model.events.iter().map(again));
    }
    all.session.next_seq = all.events.len() as u64 + 1;
    Ok(all)
}

fn of_turn(message: &Message, turn: &TurnId) -> Message {
    let mut message = message.clone();
    match &mut message {
        Message::User(user) => {
            user.id = turn.user_message();
            user.turn = turn.clone();
        }
        Message::Assistant(assistant) => {
            assistant.id = turn.assistant_message();
            assistant.turn = turn.clone();
        }
        Message::System(_) => {}
    }
    message
}
