//! Sessions: what is kept between turns beside the messages, and the owner that works through a session's inbox.

mod aside;
mod capture;
mod owner;
mod recall;
mod replay;
mod state;

pub(crate) use capture::Apply;
pub use capture::{ApplyReport, CapturedAction, Review};
pub(crate) use owner::{Owner, OwnerParts, StoredTurn, TurnOptions};
pub(crate) use recall::{Told, cap, kept_from_cache};
pub use replay::{Inheritance, Replayed};
pub(crate) use replay::{inheritance, replay, stored};
pub(crate) use state::{Overlay, SessionState};

use turnbuckle_core::fold::TurnFold;
use turnbuckle_core::ids::MessageId;
use turnbuckle_core::machine::{Decision, Input};
use turnbuckle_core::message::{ApprovalCard, SystemBody, SystemMessage};
use turnbuckle_store::{InboxItem, Posted};

/// An answer to a card as an input of the machine; `None` for a card the turn does not have. One that was posted when the
/// card's time was up is the clock's decision, whatever it says.
pub(crate) fn as_input(item: InboxItem, turn: &TurnFold) -> Option<Input> {
    let card = body_of(&turn.cards, item.input.card()?)?;
    let call = card.call.clone();
    if card.expires_at.is_some_and(|until| until <= item.at) {
        return Some(Input::Decide { call, decision: Decision::Expire, by: None });
    }
    match item.input {
        Posted::Decision { decision, by, .. } => Some(Input::Decide { call, decision, by }),
        Posted::ClientResult { result, .. } => Some(Input::ClientResult { call, result }),
        Posted::Message { .. } | Posted::Stop { .. } => None,
    }
}

fn body_of<'a>(cards: &'a [SystemMessage], id: &MessageId) -> Option<&'a ApprovalCard> {
    let card = cards.iter().find(|c| c.id == *id)?;
    match &card.body {
        SystemBody::Approval(card) => Some(card),
        SystemBody::Note { .. } => None,
    }
}
