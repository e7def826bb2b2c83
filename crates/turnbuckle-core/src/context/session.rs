//! The context of a session.

use super::reference::Reference;
use super::scratch::Scratch;
use super::store::{Ambient, ContextError, ContextStore, Dropped, RestoreError, SnapshotScope};
use crate::ids::{CallId, ToolName};
use crate::json::Json;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Variables that live as long as the session, and the outputs of the current turn.
///
/// Serialized, it holds both; cap and [`Ambient`] are the host's to set again.
///
/// ```
/// use serde_json::json;
/// use turnbuckle_core::context::{ContextStore, SessionContext, SnapshotScope};
/// let mut context = SessionContext::new();
/// context.set(&"var:cart.total".parse()?, json!(12))?;
/// assert!(context.capture(&"t1-0".into(), &"search".into(), json!({"hits": [7]}).into()).is_none());
/// assert_eq!(context.get(&"tool:search.hits.first".parse()?).as_deref(), Some(&json!(7)));
///
/// let mut later = SessionContext::new();
/// later.restore(&context.snapshot(SnapshotScope::Vars))?;
/// assert_eq!(later.get(&"var:cart".parse()?).as_deref(), Some(&json!({"total": 12})));
/// assert_eq!(later.get(&"tool:search".parse()?), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionContext(Scratch);

impl SessionContext {
    /// An empty context with the default cap.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how many bytes variables and outputs may take together. Applies from the next write.
    #[must_use]
    pub fn with_cap(mut self, bytes: usize) -> Self {
        self.0.set_cap(bytes);
        self
    }

    /// What is to be stored.
    pub fn snapshot(&self, scope: SnapshotScope) -> Value {
        self.0.snapshot(scope)
    }

    /// Takes over variables and outputs from a snapshot.
    ///
    /// # Errors
    /// When it is not a snapshot this program can read. Then nothing changes, and the session can go on without it.
    pub fn restore(&mut self, snapshot: &Value) -> Result<(), RestoreError> {
        self.0.restore(snapshot)
    }
}

impl ContextStore for SessionContext {
    fn get(&self, reference: &Reference) -> Option<Cow<'_, Value>> {
        self.0.get(reference)
    }

    fn set(
        &mut self,
        reference: &Reference,
        value: Value,
    ) -> Result<Option<Dropped>, ContextError> {
        self.0.set(reference, value)
    }

    fn capture(&mut self, call: &CallId, tool: &ToolName, output: Json) -> Option<Dropped> {
        self.0.capture(call, tool, output)
    }

    fn drop_outputs(&mut self) {
        self.0.drop_outputs();
    }

    fn take_dropped(&mut self) -> Option<Dropped> {
        self.0.take_dropped()
    }

    fn begin_turn(&mut self) {
        self.0.begin_turn();
    }

    fn set_ambient(&mut self, ambient: Ambient) {
        self.0.set_ambient(ambient);
    }

    fn vars(&self) -> &BTreeMap<String, Json> {
        self.0.vars()
    }
}
