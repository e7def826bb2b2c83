//! The bus of a single process.

use crate::bus::{Bus, BusFuture};
use crate::error::BusError;
use crate::hub::{Calls, Hub, Watch};
use crate::mailbox::Limits;
use crate::notice::{Call, Notice};
use futures_util::FutureExt;
use futures_util::future::ready;
use std::sync::Arc;
use turnbuckle_core::ids::SessionKey;

/// A [`Bus`] within one process. Clones share it.
#[derive(Clone)]
pub struct MemoryBus {
    hub: Arc<Hub>,
    /// What tells everyone to look into the store now and then. It ends with the bus.
    #[cfg(feature = "remote")]
    _polling: Option<Arc<tokio::task::JoinSet<()>>>,
}

impl MemoryBus {
    /// A bus with the usual limits.
    pub fn new() -> Self {
        Self::with(Limits::default())
    }

    /// A bus whose listeners lag when more than this waits for them.
    pub fn with(limits: Limits) -> Self {
        Self {
            hub: Arc::new(Hub::new(limits)),
            #[cfg(feature = "remote")]
            _polling: None,
        }
    }

    #[cfg(feature = "remote")]
    pub(crate) fn polled(hub: Arc<Hub>, polling: tokio::task::JoinSet<()>) -> Self {
        Self { hub, _polling: Some(Arc::new(polling)) }
    }
}

impl Default for MemoryBus {
    fn default() -> Self {
        Self::new()
    }
}

impl Bus for MemoryBus {
    fn wanted(&self, session: &SessionKey) -> bool {
        self.hub.watched(session)
    }

    fn publish(&self, session: &SessionKey, notice: Notice) {
        self.hub.publish(session, notice);
    }

    fn call(&self, call: Call) {
        self.hub.call(call);
    }

    fn watch<'a>(&'a self, session: &'a SessionKey) -> BusFuture<'a, Watch> {
        ready(self.hub.watch(session)).boxed()
    }

    fn attend(&self) -> BusFuture<'_, Calls> {
        ready(self.hub.attend()).boxed()
    }

    fn check(&self) -> BusFuture<'_, Result<(), BusError>> {
        ready(Ok(())).boxed()
    }

    fn close(&self) -> BusFuture<'_, ()> {
        self.hub.close();
        ready(()).boxed()
    }
}
