//! Inputs posted to a session by anyone, and the cards they answer.

use super::Inner;
use super::held::Posting;
use crate::error::{Conflict, StoreError};
use crate::inbox::may_answer;
use crate::model::{Card, CardQuery, Cursor, InboxItem, Page, Post, Receipt, page};
use turnbuckle_core::ids::{MessageId, TenantId};
use turnbuckle_core::message::{CardStatus, SystemBody};
use turnbuckle_core::room;
use turnbuckle_core::time::Timestamp;

const NO_CARD: StoreError = StoreError::NotFound { what: "card" };

impl Inner {
    pub(super) fn post(&mut self, post: Post) -> Result<Receipt, StoreError> {
        let held = self.get_mut(&post.key)?;
        if let Some(key) = &post.idempotency_key
            && let Some(first) = held.inbox.iter().find(|p| p.key.as_ref() == Some(key))
        {
            return if first.item.input.same_request(&post.input) {
                Ok(Receipt::Duplicate(first.item.clone()))
            } else {
                Err(Conflict::KeyReused { key: key.clone(), n: first.item.n }.into())
            };
        }
        if let Some(id) = post.input.card() {
            let card = held.card(id).ok_or(NO_CARD)?;
            let SystemBody::Approval(body) = card.message.body else {
                return Err(NO_CARD);
            };
            may_answer(id, body.asks, body.status, held.answer(id), &post.input)?;
        }
        let n = held.next_input();
        let item = InboxItem { n, at: post.now, input: post.input };
        let posting = Posting { item: item.clone(), key: post.idempotency_key, waiting: true };
        room::push(&mut held.inbox, posting);
        held.row.pending += 1;
        Ok(Receipt::Accepted(item))
    }

    fn cards(&self) -> impl Iterator<Item = Card> {
        self.cards.iter().filter_map(|(id, session)| self.sessions.get(session)?.card(id))
    }

    pub(super) fn list_cards(&self, query: &CardQuery) -> Page<Card> {
        let of = |card: &Card| {
            let session = self.sessions.get(&card.session.id);
            card.session.tenant == query.tenant
                && query.session.as_ref().is_none_or(|id| *id == card.session.id)
                && query.user.as_ref().is_none_or(|u| session.is_some_and(|s| s.row.user == *u))
                && status(card).is_some_and(|status| query.standing.holds(status))
        };
        let later = |card: &Card| {
            let place = (card.message.at, card.message.id.as_str());
            query.after.as_ref().is_none_or(|after| place > (after.at, after.id.as_str()))
        };
        let mut cards: Vec<Card> = self.cards().filter(|card| of(card) && later(card)).collect();
        cards.sort_by(|a, b| (a.message.at, &a.message.id).cmp(&(b.message.at, &b.message.id)));
        cards.truncate(query.limit as usize + 1);
        page(cards, query.limit, |c| Cursor { at: c.message.at, id: c.message.id.to_string() })
    }

    pub(super) fn card(&self, tenant: &TenantId, card: &MessageId) -> Result<Card, StoreError> {
        let session = self.cards.get(card).and_then(|session| self.sessions.get(session));
        let found =
            session.filter(|held| held.row.key.tenant == *tenant).and_then(|held| held.card(card));
        found.ok_or(NO_CARD)
    }

    pub(super) fn expired(&self, now: Timestamp, limit: u32) -> Vec<Card> {
        let expiry = |card: &Card| match &card.message.body {
            SystemBody::Approval(body) => body.expires_at,
            SystemBody::Note { .. } => None,
        };
        let waits =
            |card: &Card| status(card) == Some(CardStatus::Pending) && card.answered_by.is_none();
        let mut due: Vec<Card> = self
            .cards()
            .filter(|card| waits(card) && expiry(card).is_some_and(|at| at <= now))
            .collect();
        due.sort_by(|a, b| (expiry(a), &a.message.id).cmp(&(expiry(b), &b.message.id)));
        due.truncate(limit as usize);
        due
    }
}

fn status(card: &Card) -> Option<CardStatus> {
    match &card.message.body {
        SystemBody::Approval(body) => Some(body.status),
        SystemBody::Note { .. } => None,
    }
}
