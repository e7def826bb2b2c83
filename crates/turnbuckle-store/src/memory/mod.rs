//! A store that lives as long as the process: for tests, evals and throw-away sessions.
//!
//! One mutex guards everything; it is held for the length of one operation and never over an await.
//!
//! | module | holds |
//! |---|---|
//! | `held` | one session and what a commit does to it |
//! | `lease` | claim, renew, release, park |
//! | `inbox` | posted inputs and the cards they answer |
//! | `sessions` | create, list, delete, fork, export, import |
//! | `jobs` | jobs, schedules, background tasks |
//! | `aside` | captured actions, blobs, usage, allowances |

mod aside;
mod held;
mod inbox;
mod jobs;
mod lease;
mod sessions;

use crate::error::StoreError;
use crate::model::{
    Allowance, Blob, BlobPart, Captured, CapturedIn, CapturedQuery, CapturedUpdate, Card,
    CardQuery, Claim, Commit, Committed, Export, Fork, ImportedUsage, InboxItem, KeptAllowance,
    KeptUsage, Loaded, MeteredCall, NewSession, Page, Post, Receipt, Release, Released, Session,
    SessionKey, SessionQuery, TurnLog, TurnRecord, UsageGroup, UsageQuery, View,
};
use crate::store::{Store, StoreFuture};
use futures_util::future::{FutureExt, lazy};
use held::Held;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use turnbuckle_core::event::Event;
use turnbuckle_core::ids::{MessageId, SessionId, TenantId, TurnId, UserId};
use turnbuckle_core::message::Message;
use turnbuckle_core::time::Timestamp;

const NO_SESSION: StoreError = StoreError::NotFound { what: "session" };

/// A [`Store`] in memory. Clones share it.
#[derive(Clone, Default)]
pub struct MemoryStore {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    sessions: BTreeMap<SessionId, Box<Held>>,
    deleted: BTreeSet<SessionId>,
    /// The session of every card.
    cards: BTreeMap<MessageId, SessionId>,
    usage: Vec<MeteredCall>,
    /// What people allowed for good, in the order in which they did.
    allowances: Vec<(TenantId, Allowance)>,
    work: jobs::Work,
}

impl Inner {
    fn get(&self, key: &SessionKey) -> Result<&Held, StoreError> {
        let held = self.sessions.get(&key.id).map(|held| &**held);
        held.filter(|held| held.row.key.tenant == key.tenant).ok_or(NO_SESSION)
    }

    fn get_mut(&mut self, key: &SessionKey) -> Result<&mut Held, StoreError> {
        let held = self.sessions.get_mut(&key.id).map(|held| &mut **held);
        held.filter(|held| held.row.key.tenant == key.tenant).ok_or(NO_SESSION)
    }

    /// The session, for whoever shows the fence in force.
    fn owned(&mut self, key: &SessionKey, fence: u64) -> Result<&mut Held, StoreError> {
        let held = self.get_mut(key)?;
        if held.row.fence != fence || held.row.lease.is_none() {
            return Err(StoreError::Fenced { held: fence, current: held.row.fence });
        }
        Ok(held)
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

impl Store for MemoryStore {
    fn create_session(&self, new: NewSession) -> StoreFuture<'_, Session> {
        self.with(move |inner| Ok(inner.create(new, None)?.row.clone()))
    }

    fn session<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Session> {
        self.with(move |inner| Ok(inner.get(key)?.row.clone()))
    }

    fn load<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Loaded> {
        self.with(move |inner| inner.get(key)?.load())
    }

    fn view<'a>(&'a self, key: &'a SessionKey, messages: u32) -> StoreFuture<'a, View> {
        self.with(move |inner| Ok(inner.get(key)?.view(messages)))
    }

    fn list_sessions(&self, query: SessionQuery) -> StoreFuture<'_, Page<Session>> {
        self.with(move |inner| Ok(inner.list(&query)))
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

    fn set_model<'a>(&'a self, key: &'a SessionKey, model: &'a str) -> StoreFuture<'a, ()> {
        self.with(move |inner| {
            inner.get_mut(key)?.row.model = Some(model.to_owned());
            Ok(())
        })
    }

    fn delete_session<'a>(&'a self, key: &'a SessionKey, now: Timestamp) -> StoreFuture<'a, ()> {
        self.with(move |inner| inner.delete(key, now))
    }

    fn fork_session(&self, fork: Fork) -> StoreFuture<'_, Session> {
        self.with(move |inner| inner.fork(fork))
    }

    fn claim<'a>(
        &'a self,
        key: &'a SessionKey,
        owner: &'a str,
        lease_ms: u64,
        now: Timestamp,
    ) -> StoreFuture<'a, Claim> {
        self.with(move |inner| inner.claim(key, owner, lease_ms, now))
    }

    fn renew<'a>(
        &'a self,
        key: &'a SessionKey,
        fence: u64,
        lease_ms: u64,
        now: Timestamp,
    ) -> StoreFuture<'a, ()> {
        self.with(move |inner| inner.renew(key, fence, lease_ms, now))
    }

    fn release<'a>(
        &'a self,
        key: &'a SessionKey,
        fence: u64,
        when: Release,
    ) -> StoreFuture<'a, Released> {
        self.with(move |inner| inner.release(key, fence, when))
    }

    fn park<'a>(
        &'a self,
        key: &'a SessionKey,
        fence: u64,
        reason: &'a str,
        now: Timestamp,
    ) -> StoreFuture<'a, ()> {
        self.with(move |inner| inner.park(key, fence, reason, now))
    }

    fn unpark<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, ()> {
        self.with(move |inner| {
            inner.get_mut(key)?.row.parked = None;
            Ok(())
        })
    }

    fn parked<'a>(
        &'a self,
        after: Option<&'a SessionId>,
        limit: u32,
    ) -> StoreFuture<'a, Vec<Session>> {
        self.with(move |inner| Ok(inner.parked(after, limit)))
    }

    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed> {
        self.with(move |inner| inner.commit(commit))
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
            Ok(inner.get(key)?.events.after(after_seq).take(limit as usize).collect())
        })
    }

    fn journal<'a>(&'a self, key: &'a SessionKey, turn: &'a TurnId) -> StoreFuture<'a, TurnLog> {
        self.with(move |inner| {
            let log = inner.get(key)?.turns.iter().find(|log| log.turn.id == *turn);
            log.ok_or(StoreError::NotFound { what: "turn" })?.read()
        })
    }

    fn turns<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Vec<TurnRecord>> {
        self.with(move |inner| {
            Ok(inner.get(key)?.turns.iter().map(|log| log.turn.clone()).collect())
        })
    }

    fn cards(&self, query: CardQuery) -> StoreFuture<'_, Page<Card>> {
        self.with(move |inner| Ok(inner.list_cards(&query)))
    }

    fn card<'a>(&'a self, tenant: &'a TenantId, card: &'a MessageId) -> StoreFuture<'a, Card> {
        self.with(move |inner| inner.card(tenant, card))
    }

    fn expired_cards(&self, now: Timestamp, limit: u32) -> StoreFuture<'_, Vec<Card>> {
        self.with(move |inner| Ok(inner.expired(now, limit)))
    }

    fn post(&self, post: Post) -> StoreFuture<'_, Receipt> {
        self.with(move |inner| inner.post(post))
    }

    fn inbox<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Vec<InboxItem>> {
        self.with(move |inner| Ok(inner.get(key)?.waiting()))
    }

    fn claimable(&self, now: Timestamp, limit: u32) -> StoreFuture<'_, Vec<SessionKey>> {
        self.with(move |inner| Ok(inner.claimable(now, limit)))
    }

    fn forfeit<'a>(&'a self, owner: &'a str) -> StoreFuture<'a, u64> {
        self.with(move |inner| Ok(inner.forfeit(owner)))
    }

    fn captured<'a>(
        &'a self,
        key: &'a SessionKey,
        turn: Option<&'a TurnId>,
    ) -> StoreFuture<'a, Vec<Captured>> {
        self.with(move |inner| Ok(inner.get(key)?.captured(turn)))
    }

    fn list_captured(&self, query: CapturedQuery) -> StoreFuture<'_, Page<CapturedIn>> {
        self.with(move |inner| Ok(inner.list_captured(&query)))
    }

    fn update_captured(&self, update: CapturedUpdate) -> StoreFuture<'_, Captured> {
        self.with(move |inner| inner.update_captured(update))
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
        self.with(move |inner| inner.get_blob(key, id, range))
    }

    fn usage(&self, query: UsageQuery) -> StoreFuture<'_, Vec<UsageGroup>> {
        self.with(move |inner| Ok(inner.usage(&query)))
    }

    fn every_usage(&self, after: u64, limit: u32) -> StoreFuture<'_, Vec<KeptUsage>> {
        self.with(move |inner| Ok(inner.every_usage(after, limit)))
    }

    fn meter(&self, calls: Vec<MeteredCall>) -> StoreFuture<'_, ()> {
        self.with(move |inner| {
            inner.usage.extend(calls);
            Ok(())
        })
    }

    fn tenants<'a>(
        &'a self,
        after: Option<&'a TenantId>,
        limit: u32,
    ) -> StoreFuture<'a, Vec<TenantId>> {
        self.with(move |inner| Ok(inner.tenants(after, limit)))
    }

    fn export_session<'a>(&'a self, key: &'a SessionKey) -> StoreFuture<'a, Export> {
        self.with(move |inner| {
            let mut export = inner.get(key)?.export()?;
            export.tasks = inner.work.of_session(&key.id);
            Ok(export)
        })
    }

    fn import_session(&self, export: Export, usage: ImportedUsage) -> StoreFuture<'_, Session> {
        self.with(move |inner| inner.import(export, usage))
    }

    fn allowances<'a>(
        &'a self,
        tenant: &'a TenantId,
        user: &'a UserId,
        session: Option<&'a SessionId>,
    ) -> StoreFuture<'a, Vec<Allowance>> {
        self.with(move |inner| Ok(inner.allowances(tenant, user, session)))
    }

    fn take_back<'a>(
        &'a self,
        tenant: &'a TenantId,
        user: &'a UserId,
        allowance: &'a MessageId,
    ) -> StoreFuture<'a, ()> {
        self.with(move |inner| inner.take_back(tenant, user, allowance))
    }

    fn every_allowance(&self, after: u64, limit: u32) -> StoreFuture<'_, Vec<KeptAllowance>> {
        self.with(move |inner| Ok(inner.every_allowance(after, limit)))
    }

    fn allow<'a>(&'a self, tenant: &'a TenantId, allowance: &'a Allowance) -> StoreFuture<'a, ()> {
        self.with(move |inner| inner.allow_outside(tenant, allowance))
    }
}
