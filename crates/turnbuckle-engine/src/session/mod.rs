//! Sessions: what is kept between turns beside the messages, and the owner that works through a session's inbox.

mod aside;
mod capture;
mod owner;
mod replay;
mod state;

pub(crate) use capture::Apply;
pub use capture::{ApplyReport, CapturedAction, Review};
pub(crate) use owner::{Owner, OwnerParts, TurnOptions};
pub use replay::Replayed;
pub(crate) use replay::{account, replay};
pub(crate) use state::{Overlay, SessionState};

use turnbuckle_core::fold::TurnFold;
use turnbuckle_core::ids::MessageId;
use turnbuckle_core::machine::Input;
use turnbuckle_core::message::{SystemBody, SystemMessage};
use turnbuckle_store::Posted;

/// An answer to a card as an input of the machine; `None` for a card the turn does not have.
pub(crate) fn as_input(posted: Posted, turn: &TurnFold) -> Option<Input> {
    match posted {
        Posted::Decision { card, decision, by } => {
            let call = call_of(&turn.cards, &card)?;
            Some(Input::Decide { call, decision, by })
        }
        Posted::ClientResult { card, result, .. } => {
            let call = call_of(&turn.cards, &card)?;
            Some(Input::ClientResult { call, result })
        }
        Posted::Message { .. } | Posted::Stop { .. } => None,
    }
}

fn call_of(cards: &[SystemMessage], id: &MessageId) -> Option<turnbuckle_core::ids::CallId> {
    let card = cards.iter().find(|c| c.id == *id)?;
    match &card.body {
        SystemBody::Approval(card) => Some(card.call.clone()),
        SystemBody::Note { .. } => None,
    }
}
