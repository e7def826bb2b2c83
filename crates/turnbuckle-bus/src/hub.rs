//! Delivery within one process. A bus between processes has one of these for its own listeners.

use crate::mailbox::{Limits, Mailbox};
use crate::notice::{Call, Heard, Notice};
use futures_util::Stream;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use turnbuckle_core::ids::SessionKey;

/// So many locks share the sessions, so that owners seldom meet.
const SHARDS: usize = 16;

type Watchers = HashMap<SessionKey, Vec<Arc<Mailbox<Notice>>>>;

pub(crate) struct Hub {
    limits: Limits,
    hasher: RandomState,
    shards: [Mutex<Watchers>; SHARDS],
    /// How many watches there are, so that a process without any does not even look.
    count: AtomicUsize,
    workers: Mutex<Vec<Arc<Mailbox<Call>>>>,
    closed: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            hasher: RandomState::new(),
            shards: std::array::from_fn(|_| Mutex::default()),
            count: AtomicUsize::new(0),
            workers: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    fn shard(&self, session: &SessionKey) -> MutexGuard<'_, Watchers> {
        let which = self.hasher.hash_one(session) as usize % SHARDS;
        match self.shards.get(which) {
            Some(shard) => lock(shard),
            None => lock(&self.shards[0]),
        }
    }

    pub(crate) fn watched(&self, session: &SessionKey) -> bool {
        self.count.load(Ordering::Acquire) > 0 && self.shard(session).contains_key(session)
    }

    pub(crate) fn publish(&self, session: &SessionKey, notice: Notice) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        if let Some(mailboxes) = self.shard(session).get(session) {
            for mailbox in mailboxes {
                mailbox.put(notice.clone());
            }
        }
    }

    pub(crate) fn call(&self, call: Call) {
        for mailbox in lock(&self.workers).iter() {
            mailbox.put(call.clone());
        }
    }

    pub(crate) fn watch(self: &Arc<Self>, session: &SessionKey) -> Watch {
        let mailbox = Arc::new(Mailbox::new(self.limits));
        {
            let mut shard = self.shard(session);
            self.count.fetch_add(1, Ordering::AcqRel);
            shard.entry(session.clone()).or_default().push(Arc::clone(&mailbox));
        }
        if self.closed.load(Ordering::Acquire) {
            mailbox.close();
        }
        Watch { mailbox, session: session.clone(), hub: Arc::clone(self) }
    }

    pub(crate) fn attend(self: &Arc<Self>) -> Calls {
        let mailbox = Arc::new(Mailbox::new(self.limits));
        lock(&self.workers).push(Arc::clone(&mailbox));
        if self.closed.load(Ordering::Acquire) {
            mailbox.close();
        }
        Calls { mailbox, hub: Arc::clone(self) }
    }

    /// What is watched here.
    #[cfg(feature = "remote")]
    pub(crate) fn sessions(&self) -> Vec<SessionKey> {
        let keys = |shard: &Mutex<Watchers>| lock(shard).keys().cloned().collect::<Vec<_>>();
        self.shards.iter().flat_map(keys).collect()
    }

    /// Tells those who watch a session that they may have missed something.
    #[cfg(feature = "remote")]
    pub(crate) fn lag(&self, session: &SessionKey) {
        if let Some(mailboxes) = self.shard(session).get(session) {
            mailboxes.iter().for_each(|mailbox| mailbox.lag());
        }
    }

    /// Tells everyone that they may have missed something.
    #[cfg(feature = "remote")]
    pub(crate) fn lag_all(&self) {
        for shard in &self.shards {
            lock(shard).values().flatten().for_each(|mailbox| mailbox.lag());
        }
        lock(&self.workers).iter().for_each(|mailbox| mailbox.lag());
    }

    /// Ends every watch, those to come too.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        for shard in &self.shards {
            lock(shard).values().flatten().for_each(|mailbox| mailbox.close());
        }
        lock(&self.workers).iter().for_each(|mailbox| mailbox.close());
    }

    fn forget(&self, session: &SessionKey, mailbox: &Arc<Mailbox<Notice>>) {
        let mut shard = self.shard(session);
        if let Some(mailboxes) = shard.get_mut(session) {
            mailboxes.retain(|other| !Arc::ptr_eq(other, mailbox));
            if mailboxes.is_empty() {
                shard.remove(session);
            }
            self.count.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// What is heard of one session: a stream that ends when the bus is closed. Dropping it ends the watch.
pub struct Watch {
    mailbox: Arc<Mailbox<Notice>>,
    session: SessionKey,
    hub: Arc<Hub>,
}

impl Watch {
    /// The session.
    pub const fn session(&self) -> &SessionKey {
        &self.session
    }

    /// The next thing heard; nothing once the bus is closed. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Heard<Notice>> {
        std::future::poll_fn(|cx| self.mailbox.poll(cx)).await
    }
}

impl Stream for Watch {
    type Item = Heard<Notice>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.mailbox.poll(cx)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.hub.forget(&self.session, &self.mailbox);
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("session", &self.session).finish_non_exhaustive()
    }
}

/// The calls a worker hears: a stream that ends when the bus is closed.
pub struct Calls {
    mailbox: Arc<Mailbox<Call>>,
    hub: Arc<Hub>,
}

impl Calls {
    /// The next call; nothing once the bus is closed. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Heard<Call>> {
        std::future::poll_fn(|cx| self.mailbox.poll(cx)).await
    }
}

impl Stream for Calls {
    type Item = Heard<Call>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.mailbox.poll(cx)
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        lock(&self.hub.workers).retain(|other| !Arc::ptr_eq(other, &self.mailbox));
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").finish_non_exhaustive()
    }
}
