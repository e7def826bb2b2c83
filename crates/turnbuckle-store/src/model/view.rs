//! A session as others see it: to show, or to take elsewhere.

use crate::model::{BlobInfo, Captured, InboxItem, Session, Task, TurnLog};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use turnbuckle_core::event::Event;
use turnbuckle_core::ids::MessageId;
use turnbuckle_core::message::{Message, SystemBody};

/// What is needed to show a session and to go on with its events, of one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The row.
    pub session: Session,
    /// The last messages, oldest first; those of a running turn are left out, since its events tell them.
    pub messages: Vec<Message>,
    /// The position of the first of them; without any, the position of the next.
    pub first: u32,
    /// The number of the last event that is told by the messages: the events after it tell the rest.
    pub after_seq: u64,
    /// The inputs that wait, oldest first.
    pub inbox: Vec<InboxItem>,
}

/// All of a session, of one moment, for another store. Blobs are named; their content is read and written one by one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Export {
    /// The row.
    pub session: Session,
    /// The state; opaque to the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Every message, cards included.
    pub messages: Vec<Message>,
    /// Every turn with its journal, oldest first.
    pub turns: Vec<TurnLog>,
    /// Every event.
    pub events: Vec<Event>,
    /// Every captured action.
    pub captured: Vec<Captured>,
    /// Every input, consumed ones too: their idempotency keys are still good.
    pub inbox: Vec<ExportedInput>,
    /// The large outputs kept aside.
    pub blobs: Vec<BlobInfo>,
    /// The background tasks its tools started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<Task>,
}

impl Export {
    /// The cards that are found by their ids. A fork shows copies of cards that stay those of the session it came from; what it
    /// has of its own is in its events.
    pub(crate) fn own_cards(&self) -> BTreeSet<&MessageId> {
        let own: BTreeSet<_> = self.events.iter().map(|event| &event.turn).collect();
        let cards = self.messages.iter().filter_map(|message| match message {
            Message::System(card) if matches!(card.body, SystemBody::Approval(_)) => Some(card),
            _ => None,
        });
        let all = self.session.forked_from.is_none();
        cards.filter(|card| all || own.contains(&card.turn)).map(|card| &card.id).collect()
    }
}

/// An input of an exported session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExportedInput {
    /// The input.
    #[serde(flatten)]
    pub item: InboxItem,
    /// The idempotency key it was posted under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Whether an owner has dealt with it.
    pub consumed: Consumed,
}

/// Whether an owner has dealt with an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consumed {
    /// It waits.
    No,
    /// It does not.
    Yes,
}
