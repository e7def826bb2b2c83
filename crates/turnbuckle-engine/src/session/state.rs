//! What a session keeps between turns beside its messages: variables, the domain's state, the page, what was summarised.

use super::recall::Kept;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use turnbuckle_core::context::{Ambient, ContextStore, SessionContext, SnapshotScope};
use turnbuckle_core::message::Surroundings;
use turnbuckle_core::transcript::Source;

/// A summary that stands for the beginning of the history when models read it. The stored history stays whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Overlay {
    /// The last entry it covers.
    pub until: Source,
    /// The summary.
    pub summary: String,
}

/// The stored form.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Stored {
    #[serde(skip_serializing_if = "Value::is_null")]
    vars: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<Value>,
    surroundings: Surroundings,
    #[serde(skip_serializing_if = "Option::is_none")]
    overlay: Option<Overlay>,
    next_capture: u32,
}

/// A session's own state, shared by the owner and the running turn.
pub(crate) struct SessionState {
    context: Arc<Mutex<SessionContext>>,
    inner: Mutex<Stored>,
}

impl SessionState {
    /// From the stored form; what cannot be read is left out, since a session must stay usable.
    pub(crate) fn load(text: Option<&str>) -> Self {
        let mut stored: Stored = match text.map(serde_json::from_str) {
            Some(Ok(stored)) => stored,
            Some(Err(e)) => {
                tracing::error!("a session's state cannot be read and begins anew: {e}");
                Stored::default()
            }
            None => Stored::default(),
        };
        let mut context = SessionContext::new();
        let vars = std::mem::take(&mut stored.vars);
        if !vars.is_null()
            && let Err(e) = context.restore(&vars)
        {
            tracing::error!("a session's variables cannot be read and begin anew: {e}");
        }
        Self { context: Arc::new(Mutex::new(context)), inner: Mutex::new(stored) }
    }

    /// The stored form.
    pub(crate) fn snapshot(&self, domain: Option<Value>) -> String {
        let vars = lock(&self.context).snapshot(SnapshotScope::Vars);
        let mut stored = lock(&self.inner);
        stored.domain = domain;
        let whole = Stored { vars, ..stored.clone() };
        serde_json::to_string(&whole).unwrap_or_else(|_| "{}".to_owned())
    }

    pub(crate) fn context(&self) -> Arc<Mutex<SessionContext>> {
        self.context.clone()
    }

    pub(crate) fn domain(&self) -> Option<Value> {
        lock(&self.inner).domain.clone()
    }

    pub(crate) fn surroundings(&self) -> Surroundings {
        lock(&self.inner).surroundings.clone()
    }

    /// A fresh message brings its own page and references, none included; a continuation keeps the last ones.
    pub(crate) fn set_surroundings(&self, surroundings: Surroundings) {
        lock(&self.inner).surroundings = surroundings;
    }

    pub(crate) fn overlay(&self) -> Option<Overlay> {
        lock(&self.inner).overlay.clone()
    }

    pub(crate) fn set_overlay(&self, overlay: Overlay) {
        lock(&self.inner).overlay = Some(overlay);
    }

    pub(crate) fn next_capture(&self) -> u32 {
        lock(&self.inner).next_capture
    }

    pub(crate) fn set_next_capture(&self, next: u32) {
        lock(&self.inner).next_capture = next;
    }

    /// A new message: tool outputs of the last turn go, variables stay.
    pub(crate) fn begin_turn(&self, ambient: Ambient) {
        let mut context = lock(&self.context);
        context.begin_turn();
        context.set_ambient(ambient);
    }

    /// A turn goes on after a pause or a crash: what its tools found is there again.
    pub(crate) fn resume_turn(&self, ambient: Ambient, kept: Vec<Kept>) {
        self.begin_turn(ambient);
        let mut context = lock(&self.context);
        for kept in kept {
            kept.apply(&mut *context);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
