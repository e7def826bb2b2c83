//! Captured outputs in call order.

use super::path::{Path, gather, walk};
use super::reference::Calls;
use super::size::json_len;
use crate::ids::{CallId, ToolName};
use crate::json::Json;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// One captured call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Captured {
    pub call: CallId,
    pub tool: ToolName,
    pub output: Json,
}

impl Captured {
    /// Bytes it counts for.
    pub fn bytes(&self) -> usize {
        self.call.as_str().len() + self.tool.as_str().len() + json_len(&*self.output)
    }
}

/// The outputs of a turn's or a run's calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Outputs {
    /// Each with the bytes it counts for.
    calls: Vec<(Captured, usize)>,
    bytes: usize,
    /// How many calls of a tool came before the first one kept, so that positions keep their meaning.
    dropped: BTreeMap<ToolName, usize>,
}

impl Outputs {
    pub fn restored(calls: Vec<Captured>, dropped: BTreeMap<ToolName, usize>) -> Self {
        let calls: Vec<_> =
            calls.into_iter().map(|c| (c.bytes(), c)).map(|(b, c)| (c, b)).collect();
        let bytes = calls.iter().map(|(_, bytes)| bytes).sum();
        Self { calls, bytes, dropped }
    }

    /// The outputs and the counts of dropped calls, for a snapshot.
    pub fn state(&self) -> (Vec<Captured>, BTreeMap<ToolName, usize>) {
        (self.calls.iter().map(|(captured, _)| captured.clone()).collect(), self.dropped.clone())
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Adds an output that counts for `bytes`, in the place of an earlier one of the same call.
    pub fn put(&mut self, captured: Captured, bytes: usize) {
        match self.calls.iter_mut().find(|(kept, _)| kept.call == captured.call) {
            Some(slot) => {
                self.bytes = self.bytes - slot.1 + bytes;
                *slot = (captured, bytes);
            }
            None => {
                self.bytes += bytes;
                self.calls.push((captured, bytes));
            }
        }
    }

    /// Notes a call whose output cannot be kept.
    pub fn skip(&mut self, tool: &ToolName) {
        *self.dropped.entry(tool.clone()).or_default() += 1;
    }

    /// Drops every output and remembers how many there were.
    pub fn drop_all(&mut self) {
        for (captured, _) in std::mem::take(&mut self.calls) {
            self.skip(&captured.tool);
        }
        self.bytes = 0;
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether a call of the tool was captured, kept or not.
    pub fn knows_tool(&self, tool: &str) -> bool {
        self.dropped.contains_key(tool) || self.calls.iter().any(|(c, _)| c.tool == *tool)
    }

    pub fn call(&self, call: &str) -> Option<&Value> {
        self.calls.iter().find(|(c, _)| c.call == *call).map(|(c, _)| &*c.output)
    }

    pub fn tool(&self, tool: &str, calls: Calls, path: &Path) -> Option<Cow<'_, Value>> {
        let mut outputs =
            self.calls.iter().filter(|(c, _)| c.tool == *tool).map(|(c, _)| &*c.output);
        let dropped = self.dropped.get(tool).copied().unwrap_or(0);
        let output = match calls {
            Calls::Latest => outputs.next_back()?,
            Calls::At(index) if index < 0 => {
                outputs.nth_back(usize::try_from(-(index + 1)).ok()?)?
            }
            Calls::At(index) => outputs.nth(usize::try_from(index).ok()?.checked_sub(dropped)?)?,
            Calls::All => {
                let mut outputs = outputs.peekable();
                if dropped > 0 {
                    return None;
                }
                outputs.peek()?;
                return Some(Cow::Owned(gather(outputs, path.segments())));
            }
        };
        walk(output, path)
    }
}
