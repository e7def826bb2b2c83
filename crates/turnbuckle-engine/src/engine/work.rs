//! Who works on which session in this process.

use super::{Engine, Submitted};
use crate::driver::{Control, Outlet, TurnStream};
use crate::session::{Owner, OwnerParts};
use std::sync::{Arc, PoisonError, Weak};
use turnbuckle_store::SessionKey;

impl Engine {
    /// Tells the owner of a session, when it is at work in this process, that something was posted; whether it is.
    pub fn knock(&self, key: &SessionKey) -> bool {
        let running = self.running(key);
        if let Some(control) = &running {
            control.knock();
        }
        running.is_some()
    }

    /// Works through what waits in a session, an unfinished turn of an ended process first.
    pub fn work(&self, key: &SessionKey) -> Submitted {
        let control = {
            let mut running = self.0.running.lock().unwrap_or_else(PoisonError::into_inner);
            if running.get(key).and_then(Weak::upgrade).is_some() {
                return Submitted::Queued;
            }
            let control = Control::new();
            running.insert(key.clone(), Arc::downgrade(&control));
            control
        };
        let outlet = Outlet::default();
        let parts = OwnerParts {
            assembler: self.0.assembler.clone(),
            store: self.0.store.clone(),
            key: key.clone(),
            name: self.0.name.clone(),
            lease: self.0.lease,
            media_limit: self.0.content.max_request_bytes,
            control: control.clone(),
            outlet: outlet.clone(),
        };
        let leave = Leave { engine: self.clone(), key: key.clone() };
        let again = control.clone();
        let drive = Box::pin(async move {
            loop {
                Owner::run(parts.clone()).await;
                // Whoever posted before this line knocked; whoever posts after it finds nobody at work and comes itself.
                leave.step_out();
                if again.is_parked() || !again.take_knock() || !leave.step_in(&again) {
                    break;
                }
            }
        });
        Submitted::Running(TurnStream::new(outlet, control, drive))
    }

    pub(super) fn running(&self, key: &SessionKey) -> Option<Arc<Control>> {
        self.0
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(key)
            .and_then(Weak::upgrade)
    }
}

/// Forgets a session as running when its owner is done, however it ends.
struct Leave {
    engine: Engine,
    key: SessionKey,
}

impl Leave {
    fn step_out(&self) {
        self.engine.0.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }

    /// Takes the place again, unless somebody else has.
    fn step_in(&self, control: &Arc<Control>) -> bool {
        let mut running = self.engine.0.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.get(&self.key).and_then(Weak::upgrade).is_some() {
            return false;
        }
        running.insert(self.key.clone(), Arc::downgrade(control));
        true
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        // A stream that is dropped while it waits; a successor of ours must not be thrown out.
        let mut running = self.engine.0.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.get(&self.key).is_some_and(|control| control.strong_count() == 0) {
            running.remove(&self.key);
        }
    }
}
