//! The context of a workflow run.

use super::outputs::{Captured, Outputs};
use super::reference::{RefKind, Reference};
use super::scratch::Scratch;
use super::size::{MAX_DEPTH, depth};
use super::store::{Ambient, ContextError, ContextStore, Dropped};
use crate::ids::{CallId, ToolName};
use crate::json::Json;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Run variables, the outputs of finished nodes, and the outputs of the turn an agent node is in.
///
/// A node is referred to like a tool: `tool:<node>` and `call:<execution>`. Node outputs live as long as the run and
/// do not count towards the cap. Where a tool the turn has called has a node's name, the tool is meant.
///
/// ```
/// use serde_json::json;
/// use turnbuckle_core::context::{ContextStore, WorkflowContext};
/// let mut run = WorkflowContext::new();
/// run.record_node(&"run1-0".into(), &"fetch".into(), json!({"rows": [{"id": 1}, {"id": 2}]}).into())?;
/// run.begin_turn();
/// assert_eq!(run.get(&"tool:fetch.rows[*].id".parse()?).as_deref(), Some(&json!([1, 2])));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WorkflowContext {
    scratch: Scratch,
    #[serde(serialize_with = "write_nodes", deserialize_with = "read_nodes")]
    nodes: Outputs,
}

impl WorkflowContext {
    /// An empty context with the default cap.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how many bytes variables and the turn's outputs may take together. Applies from the next write.
    #[must_use]
    pub fn with_cap(mut self, bytes: usize) -> Self {
        self.scratch.set_cap(bytes);
        self
    }

    /// Keeps the output of a finished node for the rest of the run. An execution recorded again replaces its output.
    ///
    /// # Errors
    /// When the output is nested too deep to be stored.
    pub fn record_node(
        &mut self,
        execution: &CallId,
        node: &ToolName,
        output: Json,
    ) -> Result<(), ContextError> {
        if depth(&output) > MAX_DEPTH {
            return Err(ContextError::TooDeep(format!("tool:{node}")));
        }
        let captured = Captured { call: execution.clone(), tool: node.clone(), output };
        // Nothing asks for the size of node outputs.
        self.nodes.put(captured, 0);
        Ok(())
    }
}

impl ContextStore for WorkflowContext {
    fn get(&self, reference: &Reference) -> Option<Cow<'_, Value>> {
        let (root, path) = (reference.root(), reference.path());
        match reference.kind() {
            RefKind::Tool(calls) if !self.scratch.outputs().knows_tool(root) => {
                self.nodes.tool(root, calls, path)
            }
            RefKind::Call => self
                .scratch
                .get(reference)
                .or_else(|| self.nodes.call(root).and_then(|output| super::walk(output, path))),
            RefKind::Var | RefKind::Tool(_) | RefKind::Sys | RefKind::Field => {
                self.scratch.get(reference)
            }
        }
    }

    fn set(
        &mut self,
        reference: &Reference,
        value: Value,
    ) -> Result<Option<Dropped>, ContextError> {
        self.scratch.set(reference, value)
    }

    fn capture(&mut self, call: &CallId, tool: &ToolName, output: Json) -> Option<Dropped> {
        self.scratch.capture(call, tool, output)
    }

    fn drop_outputs(&mut self) {
        self.scratch.drop_outputs();
    }

    fn take_dropped(&mut self) -> Option<Dropped> {
        self.scratch.take_dropped()
    }

    fn begin_turn(&mut self) {
        self.scratch.begin_turn();
    }

    fn set_ambient(&mut self, ambient: Ambient) {
        self.scratch.set_ambient(ambient);
    }

    fn vars(&self) -> &BTreeMap<String, Json> {
        self.scratch.vars()
    }
}

fn write_nodes<S: Serializer>(nodes: &Outputs, s: S) -> Result<S::Ok, S::Error> {
    nodes.state().0.serialize(s)
}

fn read_nodes<'de, D: Deserializer<'de>>(d: D) -> Result<Outputs, D::Error> {
    let mut nodes = Outputs::default();
    Vec::deserialize(d)?.into_iter().for_each(|captured| nodes.put(captured, 0));
    Ok(nodes)
}
