//! Whether other processes can be reached.

use crate::error::Cause;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// What goes wrong in speaking and in hearing, if anything does.
pub(crate) struct Health {
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    mouth: Option<Cause>,
    ear: Option<Cause>,
}

impl Health {
    pub(crate) fn new() -> Self {
        let not_yet = || -> Cause { Arc::new(std::io::Error::other("not connected yet")) };
        let state = State { mouth: Some(not_yet()), ear: Some(not_yet()) };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn mouth(&self, trouble: Option<Cause>) {
        self.lock().mouth = trouble;
        self.changed.notify_waiters();
    }

    pub(crate) fn ear(&self, trouble: Option<Cause>) {
        self.lock().ear = trouble;
        self.changed.notify_waiters();
    }

    /// What is wrong now.
    pub(crate) fn state(&self) -> Result<(), Cause> {
        let state = self.lock();
        match state.ear.as_ref().or(state.mouth.as_ref()) {
            Some(cause) => Err(Arc::clone(cause)),
            None => Ok(()),
        }
    }

    /// Waits until nothing is wrong.
    pub(crate) async fn both(&self) {
        loop {
            let changed = self.changed.notified();
            if self.state().is_ok() {
                return;
            }
            changed.await;
        }
    }
}
