//! A door that tests open.

use std::fmt;
use tokio::sync::watch;

/// Holds tasks back until it is opened, once and for all. Clones are the same gate.
#[derive(Clone)]
pub struct Gate(watch::Sender<bool>);

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    /// Lets everyone pass from now on.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    /// Passes when the gate is open.
    pub async fn wait(&self) {
        let mut changes = self.0.subscribe();
        // The sender lives in `self`, so the channel cannot close while we wait.
        let _ = changes.wait_for(|open| *open).await;
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gate").field(&*self.0.borrow()).finish()
    }
}
