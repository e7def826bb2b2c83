//! Whether an input may be posted about a card: one rule for every store.

use crate::error::Conflict;
use crate::model::{CardAnswer, Posted};
use turnbuckle_core::ids::MessageId;
use turnbuckle_core::machine::Decision;
use turnbuckle_core::message::{Asks, CardStatus};

/// Checks an answer against its card and the answer posted before, if any.
pub(crate) fn may_answer(
    card: &MessageId,
    asks: Asks,
    status: CardStatus,
    posted: Option<Posted>,
    input: &Posted,
) -> Result<(), Conflict> {
    let decided = |answer| Err(Conflict::Decided { card: card.clone(), answer });
    match (posted, status) {
        (Some(posted), _) => return decided(CardAnswer::Posted(posted)),
        (None, CardStatus::Pending) => {}
        (None, settled) => return decided(CardAnswer::Settled(settled)),
    }
    match (input, asks) {
        (Posted::ClientResult { .. }, Asks::Decision)
        | (Posted::Decision { decision: Decision::Approve { .. }, .. }, Asks::ClientResult) => {
            Err(Conflict::WrongAnswer { card: card.clone() })
        }
        _ => Ok(()),
    }
}
