//! A store that lives as long as the process: for tests, evals and throw-away sessions.
//!
//! One mutex guards everything; it is held for the length of one operation and never over an await.

mod held;

use crate::check::check;
use crate::error::{Conflict, StoreError};
use crate::inbox::may_answer;
use crate::model::{
    Blob, BlobPart, Captured, CapturedUpdate, Card, CardQuery, Claim, Commit, Committed, Cursor,
    Fork, InboxItem, Lease, Loaded, NewSession, Page, Post, Receipt, Release, Released, Session,
    SessionKey, SessionQuery, SessionStatus, TurnLog, TurnRecord, page,
};
use crate::store::{Store, StoreFuture};
use futures_util::future::{FutureExt, lazy};
use held::{Held, Posting};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use turnbuckle_core::event::Event;
use turnbuckle_core::ids::{MessageId, SessionId, TenantId, TurnId};
use turnbuckle_core::message::{CardStatus, Message, SystemBody};
use turnbuckle_core::time::Timestamp;

const NO_SESSION: StoreError = StoreError::NotFound { what: "session" };

/// A [`Store`] in memory. Clones share it.
#[derive(Clone, Default)]
pub struct MemoryStore {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    sessions: BTreeMap<SessionId, Held>,
    deleted: BTreeSet<SessionId>,
    /// The session of every card.
    cards: BTreeMap<MessageId, SessionId>,
}

impl Inner {
    fn get(&self, key: &SessionKey) -> Result<&Held, StoreError> {
        self.sessions
            .get(&key.id)
            .filter(|held| held.row.key.tenant == key.tenant)
            .ok_or(NO_SESSION)
    }

    fn get_mut(&mut self, key: &SessionKey) -> Result<&mut Held, StoreError> {
        self.sessions
            .get_mut(&key.id)
            .filter(|held| held.row.key.tenant == key.tenant)
            .ok_or(NO_SESSION)
    }

    /// The session, for whoever shows the fence in force.
    fn owned(&mut self, key: &SessionKey, fence: u64) -> Result<&mut Held, StoreError> {
        let held = self.get_mut(key)?;
        if held.row.fence != fence || held.row.lease.is_none() {
            return Err(StoreError::Fenced { held: fence, current: held.row.fence });
        }
        Ok(held)
    }

    fn create(
        &mut self,
        new: NewSession,
        forked_from: Option<SessionId>,
    ) -> Result<&mut Held, StoreError> {
        let id = new.key.id.clone();
        if self.deleted.contains(&id) || self.sessions.contains_key(&id) {
            return Err(Conflict::SessionExists(id).into());
        }
        let row = Session {
            key: new.key,
            user: new.user,
            agent: new.agent,
            title: new.title,
            model: new.model,
            created: new.now,
            updated: new.now,
            version: 0,
            fence: 0,
            lease: None,
            next_seq: 1,
            status: SessionStatus::Idle,
            turn: None,
            pending: 0,
            forked_from,
        };
        Ok(self.sessions.entry(id).or_insert(Held::new(row, new.state)))
    }

    fn cards(&self) -> impl Iterator<Item = Card> {
        self.cards.iter().filter_map(|(id, session)| self.sessions.get(session)?.card(id))
    }
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn with<'a, T: Send + 'a>(
        &'a self,
        run: impl FnOnce(&mut Inner) -> Result<T, StoreError> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        lazy(move |_| run(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))).boxed()
    }
}

/// Card bodies that wait for an answer.
fn pending(card: &Card) -> bool {
    matches!(&card.message.body, SystemBody::Approval(body) if body.status == CardStatus::Pending)
}

fn take(items: impl Iterator<Item = Session>, query: &SessionQuery) -> Page<Session> {
    let mut items: Vec<Session> = items.collect();
    items.sort_by(|a, b| (b.updated, &b.key.id).cmp(&(a.updated, &a.key.id)));
    items.truncate(query.limit as usize + 1);
    page(items, query.limit, |s| Cursor { at: s.updated, id: s.key.id.to_string() })
}

impl Store for MemoryStore {
    fn create_session(&self, new: NewSession) -> StoreFuture<'_, Session> {
        self.with(move |inner| Ok(inner.create(new, None)?.row.clone()))
    }

    fn session<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Session> {
        self.with(move |inner| Ok(inner.get(key)?.row.clone()))
    }

    fn load<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Loaded> {
        self.with(move |inner| Ok(inner.get(key)?.load()))
    }

    fn list_sessions(&self, query: SessionQuery) -> StoreFuture<'_, Page<Session>> {
        let wanted = query.title_contains.as_ref().map(|text| text.to_lowercase());
        self.with(move |inner| {
            let rows = inner.sessions.values().map(|held| &held.row);
            let rows = rows.filter(|row| row.key.tenant == query.tenant);
            let rows = rows.filter(|row| query.user.as_ref().is_none_or(|user| *user == row.user));
            let rows = rows.filter(|row| {
                let title = row.title.as_ref().map(|t| t.to_lowercase());
                wanted.as_ref().is_none_or(|text| title.is_some_and(|title| title.contains(text)))
            });
            let rows = rows.filter(|row| {
                let place = (row.updated, row.key.id.as_str());
                query.after.as_ref().is_none_or(|after| place < (after.at, after.id.as_str()))
            });
            Ok(take(rows.cloned(), &query))
        })
    }

    fn set_title<'a>(
        &'a self,
        key: &'a SessionKey,
        title: &'a str,
        now: Timestamp,
    ) -> StoreFuture<'a, ()> {
        self.with(move |inner| {
            let row = &mut inner.get_mut(key)?.row;
            row.title = Some(title.to_owned());
            row.updated = now;
            Ok(())
        })
    }

    fn delete_session<'a>(&'a self, key: &'a SessionKey, now: Timestamp) -> StoreFuture<'a, ()> {
        self.with(move |inner| {
            if let Some(Lease { owner, until }) = inner.get(key)?.row.lease.clone()
                && until > now
            {
                return Err(StoreError::Busy { owner, until });
            }
            inner.sessions.remove(&key.id);
            inner.cards.retain(|_, session| *session != key.id);
            inner.deleted.insert(key.id.clone());
            Ok(())
        })
    }

    fn fork_session(&self, fork: Fork) -> StoreFuture<'_, Session> {
        self.with(move |inner| {
            let source = inner.get(&fork.from)?;
            let copy = source.copy(&fork.at)?;
            let new = NewSession {
                key: SessionKey { tenant: fork.from.tenant, id: fork.id },
                user: fork.user,
                agent: source.row.agent.clone(),
                title: fork.title.or_else(|| source.row.title.clone()),
                model: source.row.model.clone(),
                state: fork.state.or_else(|| source.state.clone()),
                now: fork.now,
            };
            let made = inner.create(new, Some(fork.from.id))?;
            made.fill(copy);
            Ok(made.row.clone())
        })
    }

    fn claim<'a>(
        &'a self,
        key: &'a SessionKey,
        owner: &'a str,
        lease_ms: u64,
        now: Timestamp,
    ) -> StoreFuture<'a, Claim> {
        self.with(move |inner| {
            let row = &mut inner.get_mut(key)?.row;
            if let Some(Lease { owner, until }) = row.lease.clone()
                && until > now
            {
                return Ok(Claim::Busy { owner, until });
            }
            row.fence += 1;
            row.lease = Some(lease(owner, lease_ms, now));
            Ok(Claim::Held { fence: row.fence, session: Box::new(row.clone()) })
        })
    }

    fn renew<'a>(
        &'a self,
        key: &'a SessionKey,
        fence: u64,
        lease_ms: u64,
        now: Timestamp,
    ) -> StoreFuture<'a, ()> {
        self.with(move |inner| {
            let row = &mut inner.owned(key, fence)?.row;
            row.lease = row.lease.take().map(|held| lease(&held.owner, lease_ms, now));
            Ok(())
        })
    }

    fn release<'a>(
        &'a self,
        key: &'a SessionKey,
        fence: u64,
        when: Release,
    ) -> StoreFuture<'a, Released> {
        self.with(move |inner| {
            let row = &mut inner.owned(key, fence)?.row;
            if when == Release::WhenDrained && row.pending > 0 {
                return Ok(Released::StillPending(row.pending));
            }
            row.fence += 1;
            row.lease = None;
            Ok(Released::Released)
        })
    }

    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed> {
        self.with(move |inner| {
            let checked = check(&commit)?;
            let elsewhere = commit.cards.iter().any(|card| {
                inner.cards.get(&card.id).is_some_and(|session| *session != commit.key.id)
            });
            let held = inner.owned(&commit.key, commit.fence)?;
            if held.repeats(&commit) {
                return Ok(held.committed());
            }
            checked.against(&commit, &held.standing())?;
            held.check(&commit)?;
            if elsewhere {
                let cause = std::io::Error::other("a card of that id belongs to another session");
                return Err(StoreError::Other { cause: Arc::new(cause) });
            }
            for card in &commit.cards {
                if matches!(card.body, SystemBody::Approval(_)) {
                    inner.cards.insert(card.id.clone(), commit.key.id.clone());
                }
            }
            let held = inner.get_mut(&commit.key)?;
            held.apply(commit);
            Ok(held.committed())
        })
    }

    fn messages<'a>(
        &'a self,
        key: &'a SessionKey,
        from: u32,
        limit: u32,
    ) -> StoreFuture<'a, Vec<Message>> {
        self.with(move |inner| {
            let messages = &inner.get(key)?.messages;
            Ok(messages.iter().skip(from as usize).take(limit as usize).cloned().collect())
        })
    }

    fn events<'a>(
        &'a self,
        key: &'a SessionKey,
        after_seq: u64,
        limit: u32,
    ) -> StoreFuture<'a, Vec<Event>> {
        self.with(move |inner| {
            let skip = usize::try_from(after_seq).unwrap_or(usize::MAX);
            Ok(inner.get(key)?.events.iter().skip(skip).take(limit as usize).cloned().collect())
        })
    }

    fn journal<'a>(&'a self, key: &'a SessionKey, turn: &'a TurnId) -> StoreFuture<'a, TurnLog> {
        self.with(move |inner| {
            let mut turns = inner.get(key)?.turns.iter();
            turns
                .find(|log| log.turn.id == *turn)
                .cloned()
                .ok_or(StoreError::NotFound { what: "turn" })
        })
    }

    fn turns<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Vec<TurnRecord>> {
        self.with(move |inner| {
            Ok(inner.get(key)?.turns.iter().map(|log| log.turn.clone()).collect())
        })
    }

    fn cards(&self, query: CardQuery) -> StoreFuture<'_, Page<Card>> {
        self.with(move |inner| {
            let cards = inner.cards().filter(|card| card.session.tenant == query.tenant);
            let cards =
                cards.filter(|card| query.session.as_ref().is_none_or(|s| *s == card.session.id));
            let cards = cards.filter(|card| match (&card.message.body, query.status) {
                (SystemBody::Approval(body), Some(status)) => body.status == status,
                _ => true,
            });
            let cards = cards.filter(|card| {
                let place = (card.message.at, card.message.id.as_str());
                query.after.as_ref().is_none_or(|after| place > (after.at, after.id.as_str()))
            });
            let mut cards: Vec<Card> = cards.collect();
            cards.sort_by(|a, b| (a.message.at, &a.message.id).cmp(&(b.message.at, &b.message.id)));
            cards.truncate(query.limit as usize + 1);
            Ok(page(cards, query.limit, |c| Cursor {
                at: c.message.at,
                id: c.message.id.to_string(),
            }))
        })
    }

    fn card<'a>(&'a self, tenant: &'a TenantId, card: &'a MessageId) -> StoreFuture<'a, Card> {
        self.with(move |inner| {
            let session = inner.cards.get(card).and_then(|session| inner.sessions.get(session));
            let found = session
                .filter(|held| held.row.key.tenant == *tenant)
                .and_then(|held| held.card(card));
            found.ok_or(StoreError::NotFound { what: "card" })
        })
    }

    fn expired_cards(&self, now: Timestamp, limit: u32) -> StoreFuture<'_, Vec<Card>> {
        self.with(move |inner| {
            let expiry = |card: &Card| match &card.message.body {
                SystemBody::Approval(body) => body.expires_at,
                SystemBody::Note { .. } => None,
            };
            let due = inner.cards().filter(|card| pending(card) && card.answered_by.is_none());
            let mut due: Vec<Card> =
                due.filter(|card| expiry(card).is_some_and(|at| at <= now)).collect();
            due.sort_by(|a, b| (expiry(a), &a.message.id).cmp(&(expiry(b), &b.message.id)));
            due.truncate(limit as usize);
            Ok(due)
        })
    }

    fn post(&self, post: Post) -> StoreFuture<'_, Receipt> {
        self.with(move |inner| {
            let held = inner.get_mut(&post.key)?;
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
                let card = held.card(id).ok_or(StoreError::NotFound { what: "card" })?;
                let SystemBody::Approval(body) = card.message.body else {
                    return Err(StoreError::NotFound { what: "card" });
                };
                may_answer(id, body.asks, body.status, held.answer(id), &post.input)?;
            }
            let n = held.inbox.len() as u64 + 1;
            let item = InboxItem { n, at: post.now, input: post.input };
            held.inbox.push(Posting {
                item: item.clone(),
                key: post.idempotency_key,
                waiting: true,
            });
            held.row.pending += 1;
            Ok(Receipt::Accepted(item))
        })
    }

    fn inbox<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Vec<InboxItem>> {
        self.with(move |inner| Ok(inner.get(key)?.waiting()))
    }

    fn claimable(&self, now: Timestamp, limit: u32) -> StoreFuture<'_, Vec<SessionKey>> {
        self.with(move |inner| {
            let rows = inner.sessions.values().map(|held| &held.row);
            let wanting =
                rows.filter(|row| row.pending > 0 || row.status == SessionStatus::Running);
            let mut free: Vec<_> = wanting
                .map(|row| (row.lease.as_ref().map(|lease| lease.until), &row.key))
                .filter(|(until, _)| until.is_none_or(|until| until <= now))
                .collect();
            free.sort();
            Ok(free.into_iter().take(limit as usize).map(|(_, key)| key.clone()).collect())
        })
    }

    fn forfeit<'a>(&'a self, owner: &'a str) -> StoreFuture<'a, u64> {
        self.with(move |inner| {
            let rows = inner.sessions.values_mut().map(|held| &mut held.row);
            let mut count = 0;
            for row in
                rows.filter(|row| row.lease.as_ref().is_some_and(|lease| lease.owner == owner))
            {
                row.fence += 1;
                row.lease = None;
                count += 1;
            }
            Ok(count)
        })
    }

    fn captured<'a>(
        &'a self,
        key: &'a SessionKey,
        turn: Option<&'a TurnId>,
    ) -> StoreFuture<'a, Vec<Captured>> {
        self.with(move |inner| Ok(inner.get(key)?.captured(turn)))
    }

    fn update_captured(&self, update: CapturedUpdate) -> StoreFuture<'_, Captured> {
        self.with(move |inner| {
            let missing = StoreError::NotFound { what: "captured action" };
            let held = inner.get_mut(&update.key).map_err(|_| missing.clone())?;
            let mut actions = held.captured.iter_mut();
            let found = actions
                .find(|a| a.turn == update.turn && a.index == update.index)
                .ok_or(missing)?;
            if found.revision != update.expected {
                return Err(
                    Conflict::Stale { current: found.revision, expected: update.expected }.into()
                );
            }
            found.revision += 1;
            found.status = update.status;
            if let Some(action) = update.action {
                found.action = action;
            }
            if update.result.is_some() {
                found.result = update.result;
            }
            Ok(found.clone())
        })
    }

    fn put_blob<'a>(&'a self, key: &'a SessionKey, blob: Blob) -> StoreFuture<'a, ()> {
        self.with(move |inner| {
            inner.get_mut(key)?.blobs.insert(blob.id.clone(), Arc::new(blob));
            Ok(())
        })
    }

    fn get_blob<'a>(
        &'a self,
        key: &'a SessionKey,
        id: &'a str,
        range: Range<u64>,
    ) -> StoreFuture<'a, BlobPart> {
        self.with(move |inner| {
            let missing = StoreError::NotFound { what: "blob" };
            let held = inner.get(key).map_err(|_| missing.clone())?;
            let blob = held.blobs.get(id).ok_or(missing)?;
            let size = blob.content.len() as u64;
            let end = range.end.min(size);
            let start = range.start.min(end);
            let bytes = blob.content.get(start as usize..end as usize).unwrap_or_default();
            Ok(BlobPart {
                media_type: blob.media_type.clone(),
                size,
                range: start..end,
                content: bytes.to_vec(),
            })
        })
    }
}

fn lease(owner: &str, lease_ms: u64, now: Timestamp) -> Lease {
    Lease { owner: owner.to_owned(), until: now.plus(i64::try_from(lease_ms).unwrap_or(i64::MAX)) }
}
