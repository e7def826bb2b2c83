//! A store that fails on purpose, or has few connections.

use crate::error::StoreError;
use crate::model::{
    Allowance, Blob, BlobPart, Captured, CapturedIn, CapturedQuery, CapturedUpdate, Card,
    CardQuery, Claim, Commit, Committed, Export, Fork, ImportedUsage, InboxItem, KeptAllowance,
    KeptUsage, Loaded, MeteredCall, NewSession, Page, Post, Receipt, Release, Released, Session,
    SessionKey, SessionQuery, TurnLog, TurnRecord, UsageGroup, UsageQuery, View,
};
use crate::store::{Store, StoreFuture};
use futures_util::FutureExt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use turnbuckle_core::event::Event;
use turnbuckle_core::ids::{MessageId, SessionId, TenantId, TurnId, UserId};
use turnbuckle_core::message::Message;
use turnbuckle_core::time::Timestamp;

/// Whether the operation that fails has done its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It failed before anything was written.
    None,
    /// It was written, and only the answer was lost.
    Done,
}

/// Where the disk has no room.
pub fn disk_full() -> StoreError {
    StoreError::Full { cause: Arc::new(io::Error::other("no space left on device")) }
}

/// Where the database cannot be reached.
pub fn gone() -> StoreError {
    StoreError::Unavailable { cause: Arc::new(io::Error::other("connection refused")) }
}

struct Fault {
    first: usize,
    count: usize,
    only: Option<Op>,
    effect: Effect,
    error: StoreError,
}

#[derive(Default)]
struct State {
    calls: Vec<Op>,
    faults: Vec<Fault>,
}

/// Passes every operation on to `inner`, except those that were chosen to fail. Operations count from 0 in the order in which
/// they are first polled. Clones share the count, the faults and the connections.
pub struct FaultStore<S> {
    inner: Arc<S>,
    connections: Arc<Semaphore>,
    state: Arc<Mutex<State>>,
}

impl<S> Clone for FaultStore<S> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            connections: Arc::clone(&self.connections),
            state: Arc::clone(&self.state),
        }
    }
}

impl<S: Store> FaultStore<S> {
    /// A store without faults yet.
    pub fn new(inner: S) -> Self {
        Self::with_connections(Semaphore::MAX_PERMITS, inner)
    }

    /// A store of which only so many operations happen at once, as over a few connections to a database. The others wait in
    /// line, and whoever is next holds the line up until it goes on.
    pub fn with_connections(connections: usize, inner: S) -> Self {
        let connections = Arc::new(Semaphore::new(connections));
        Self { inner: Arc::new(inner), connections, state: Arc::default() }
    }

    /// Takes a connection away until it is given back, waiting in line for it.
    pub async fn connection(&self) -> Option<OwnedSemaphorePermit> {
        // It is never closed.
        Arc::clone(&self.connections).acquire_owned().await.ok()
    }

    /// The store underneath, which never fails on purpose.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Operations `first..first + count`, of any kind, will fail.
    pub fn fail_calls(&self, first: usize, count: usize, effect: Effect, error: StoreError) {
        self.state().faults.push(Fault { first, count, only: None, effect, error });
    }

    /// The `first`-th operation of one kind and the `count - 1` after it, all counted among their kind from 0, will fail.
    pub fn fail(&self, op: Op, first: usize, count: usize, effect: Effect, error: StoreError) {
        self.state().faults.push(Fault { first, count, only: Some(op), effect, error });
    }

    /// No operation will fail any more.
    pub fn heal(&self) {
        self.state().faults.clear();
    }

    /// Every operation so far.
    pub fn calls(&self) -> Vec<Op> {
        self.state().calls.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call and finds its fault.
    fn count(&self, op: Op) -> Option<(Effect, StoreError)> {
        let mut state = self.state();
        let overall = state.calls.len();
        let of_kind = state.calls.iter().filter(|call| **call == op).count();
        state.calls.push(op);
        let fault = state.faults.iter().find(|fault| {
            let n = match fault.only {
                None => overall,
                Some(only) if only == op => of_kind,
                Some(_) => return false,
            };
            n >= fault.first && n - fault.first < fault.count
        })?;
        Some((fault.effect, fault.error.clone()))
    }
}

macro_rules! operations {
    ($($variant:ident $name:ident($($argument:ident: $kind:ty),*) -> $output:ty;)*) => {
        /// An operation of a [`Store`], named as there.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "each is documented at its method")]
        pub enum Op {
            $($variant,)*
        }

        impl<S: Store> Store for FaultStore<S> {
            $(
                fn $name<'a>(&'a self, $($argument: $kind),*) -> StoreFuture<'a, $output> {
                    async move {
                        let fault = self.count(Op::$variant);
                        let _connection = self.connection().await;
                        match fault {
                            None => self.inner.$name($($argument),*).await,
                            Some((Effect::None, error)) => Err(error),
                            Some((Effect::Done, error)) => {
                                self.inner.$name($($argument),*).await?;
                                Err(error)
                            }
                        }
                    }
                    .boxed()
                }
            )*
        }
    };
}

operations! {
    CreateSession create_session(new: NewSession) -> Session;
    Session session(key: &'a SessionKey) -> Session;
    Load load(key: &'a SessionKey) -> Loaded;
    View view(key: &'a SessionKey, messages: u32) -> View;
    ListSessions list_sessions(query: SessionQuery) -> Page<Session>;
    SetTitle set_title(key: &'a SessionKey, title: &'a str, now: Timestamp) -> ();
    SetModel set_model(key: &'a SessionKey, model: &'a str) -> ();
    DeleteSession delete_session(key: &'a SessionKey, now: Timestamp) -> ();
    ForkSession fork_session(fork: Fork) -> Session;
    Claim claim(key: &'a SessionKey, owner: &'a str, lease_ms: u64, now: Timestamp) -> Claim;
    Renew renew(key: &'a SessionKey, fence: u64, lease_ms: u64, now: Timestamp) -> ();
    Release release(key: &'a SessionKey, fence: u64, when: Release) -> Released;
    Park park(key: &'a SessionKey, fence: u64, reason: &'a str, now: Timestamp) -> ();
    Unpark unpark(key: &'a SessionKey) -> ();
    Parked parked(after: Option<&'a SessionId>, limit: u32) -> Vec<Session>;
    Commit commit(commit: Commit) -> Committed;
    Messages messages(key: &'a SessionKey, from: u32, limit: u32) -> Vec<Message>;
    Events events(key: &'a SessionKey, after_seq: u64, limit: u32) -> Vec<Event>;
    Journal journal(key: &'a SessionKey, turn: &'a TurnId) -> TurnLog;
    Turns turns(key: &'a SessionKey) -> Vec<TurnRecord>;
    Cards cards(query: CardQuery) -> Page<Card>;
    Card card(tenant: &'a TenantId, card: &'a MessageId) -> Card;
    ExpiredCards expired_cards(now: Timestamp, limit: u32) -> Vec<Card>;
    Post post(post: Post) -> Receipt;
    Inbox inbox(key: &'a SessionKey) -> Vec<InboxItem>;
    Claimable claimable(now: Timestamp, limit: u32) -> Vec<SessionKey>;
    Forfeit forfeit(owner: &'a str) -> u64;
    Captured captured(key: &'a SessionKey, turn: Option<&'a TurnId>) -> Vec<Captured>;
    ListCaptured list_captured(query: CapturedQuery) -> Page<CapturedIn>;
    UpdateCaptured update_captured(update: CapturedUpdate) -> Captured;
    PutBlob put_blob(key: &'a SessionKey, blob: Blob) -> ();
    GetBlob get_blob(key: &'a SessionKey, id: &'a str, range: Range<u64>) -> BlobPart;
    Allowances allowances(tenant: &'a TenantId, user: &'a UserId, session: Option<&'a SessionId>) -> Vec<Allowance>;
    TakeBack take_back(tenant: &'a TenantId, user: &'a UserId, allowance: &'a MessageId) -> ();
    EveryAllowance every_allowance(after: u64, limit: u32) -> Vec<KeptAllowance>;
    Allow allow(tenant: &'a TenantId, allowance: &'a Allowance) -> ();
    Usage usage(query: UsageQuery) -> Vec<UsageGroup>;
    Tenants tenants(after: Option<&'a TenantId>, limit: u32) -> Vec<TenantId>;
    ExportSession export_session(key: &'a SessionKey) -> Export;
    ImportSession import_session(export: Export, usage: ImportedUsage) -> Session;
    EveryUsage every_usage(after: u64, limit: u32) -> Vec<KeptUsage>;
    Meter meter(calls: Vec<MeteredCall>) -> ();
}
