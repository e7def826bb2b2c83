//! What both stores share: variables, the turn's outputs and what the host provides, under one budget of bytes.

use super::outputs::{Captured, Outputs};
use super::path::walk;
use super::reference::{RefKind, Reference};
use super::size::{MAX_DEPTH, depth, json_len};
use super::store::{
    Ambient, ContextError, DEFAULT_CAP, DropCause, Dropped, RestoreError, SnapshotScope,
};
use super::write::{WriteError, nest, write};
use crate::ids::{CallId, ToolName};
use crate::json::Json;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Newest snapshot version this program reads, and the one it writes.
pub(super) const VERSION: u32 = 1;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "State", try_from = "State")]
pub(super) struct Scratch {
    vars: BTreeMap<String, Json>,
    /// Serialized bytes of the variables, kept up to date by each write.
    var_bytes: usize,
    outputs: Outputs,
    ambient: Ambient,
    cap: usize,
    /// The last drop that nobody has asked for yet.
    dropped: Option<Dropped>,
}

/// The stored form.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct State {
    version: u32,
    vars: BTreeMap<String, Json>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    calls: Vec<Captured>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    dropped: BTreeMap<ToolName, usize>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            vars: BTreeMap::new(),
            var_bytes: 0,
            outputs: Outputs::default(),
            ambient: Ambient::default(),
            cap: DEFAULT_CAP,
            dropped: None,
        }
    }
}

impl Scratch {
    pub fn set_cap(&mut self, bytes: usize) {
        self.cap = bytes;
    }

    pub fn vars(&self) -> &BTreeMap<String, Json> {
        &self.vars
    }

    pub fn set_ambient(&mut self, ambient: Ambient) {
        self.ambient = ambient;
    }

    pub fn begin_turn(&mut self) {
        self.outputs.clear();
        self.dropped = None;
    }

    pub fn drop_outputs(&mut self) {
        self.outputs.drop_all();
    }

    pub fn take_dropped(&mut self) -> Option<Dropped> {
        self.dropped.take()
    }

    pub fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    pub fn get(&self, reference: &Reference) -> Option<Cow<'_, Value>> {
        let (root, path) = (reference.root(), reference.path());
        let value: &Value = match reference.kind() {
            RefKind::Tool(calls) => return self.outputs.tool(root, calls, path),
            RefKind::Var => self.vars.get(root)?,
            RefKind::Call => self.outputs.call(root)?,
            RefKind::Sys => self.ambient.sys.get(root)?,
            RefKind::Field => self.ambient.subject.as_deref()?.get(root)?,
        };
        walk(value, path)
    }

    pub fn set(
        &mut self,
        reference: &Reference,
        value: Value,
    ) -> Result<Option<Dropped>, ContextError> {
        if reference.kind() != RefKind::Var {
            return Err(ContextError::ReadOnly(reference.clone()));
        }
        let segments = reference.path().segments();
        if segments.len() + depth(&value) > MAX_DEPTH {
            return Err(ContextError::TooDeep(reference.to_string()));
        }
        let refused =
            |problem: WriteError| ContextError::Path { reference: reference.clone(), problem };
        let cap = self.cap;
        let fits = |var_bytes: usize, growth: isize| {
            let bytes = var_bytes.saturating_add_signed(growth);
            if growth <= 0 || bytes <= cap {
                return Ok(bytes);
            }
            Err(ContextError::TooLarge { reference: reference.clone(), bytes, cap })
        };

        let Some(slot) = self.vars.get_mut(reference.root()) else {
            let built = nest(segments, value).map_err(refused)?;
            let growth = entry_bytes(reference.root(), &built).cast_signed();
            self.var_bytes = fits(self.var_bytes, growth)?;
            self.vars.insert(reference.root().to_owned(), Arc::new(built));
            return Ok(self.make_room());
        };
        let keys = segments.iter().filter_map(|s| s.key()).map(|key| json_len(&*key) + 4);
        let most = (json_len(&value) + keys.sum::<usize>()).cast_signed();
        if fits(self.var_bytes, most).is_ok() {
            let growth = write(Arc::make_mut(slot), segments, value).map_err(refused)?;
            self.var_bytes = self.var_bytes.saturating_add_signed(growth);
        } else {
            // Near the limit only the write itself tells the size, so it is tried on a copy.
            let mut copy = Value::clone(slot);
            let growth = write(&mut copy, segments, value).map_err(refused)?;
            self.var_bytes = fits(self.var_bytes, growth)?;
            *slot = Arc::new(copy);
        }
        Ok(self.make_room())
    }

    pub fn capture(&mut self, call: &CallId, tool: &ToolName, output: Json) -> Option<Dropped> {
        let too_deep = depth(&output) > MAX_DEPTH;
        let captured = Captured { call: call.clone(), tool: tool.clone(), output };
        let bytes = captured.bytes();
        if !too_deep && self.var_bytes + self.outputs.bytes() + bytes <= self.cap {
            self.outputs.put(captured, bytes);
            return None;
        }
        // The newest output stays when it fits alone: what comes next most likely asks for it.
        let cause = if too_deep {
            DropCause::Depth
        } else {
            DropCause::Size { bytes: self.var_bytes + self.outputs.bytes() + bytes, cap: self.cap }
        };
        let mut outputs = self.outputs.len();
        self.outputs.drop_all();
        if !too_deep && self.var_bytes + bytes <= self.cap {
            self.outputs.put(captured, bytes);
        } else {
            self.outputs.skip(tool);
            outputs += 1;
        }
        self.dropped = Some(Dropped { outputs, cause });
        self.dropped.clone()
    }

    /// Drops the outputs when a variable has taken their room.
    fn make_room(&mut self) -> Option<Dropped> {
        let bytes = self.var_bytes + self.outputs.bytes();
        let outputs = self.outputs.len();
        if bytes <= self.cap || outputs == 0 {
            return None;
        }
        self.outputs.drop_all();
        self.dropped = Some(Dropped { outputs, cause: DropCause::Size { bytes, cap: self.cap } });
        self.dropped.clone()
    }

    pub fn snapshot(&self, scope: SnapshotScope) -> Value {
        let mut state = State::from(self.clone());
        if scope == SnapshotScope::Vars {
            state.calls.clear();
            state.dropped.clear();
        }
        // String keys and JSON values always serialize.
        serde_json::to_value(state).unwrap_or_default()
    }

    /// Takes over a snapshot, or changes nothing.
    pub fn restore(&mut self, snapshot: &Value) -> Result<(), RestoreError> {
        let state =
            State::deserialize(snapshot).map_err(|e| RestoreError::Malformed(e.to_string()))?;
        let restored = Self::try_from(state)?;
        let Self { vars, var_bytes, outputs, .. } = restored;
        (self.vars, self.var_bytes, self.outputs) = (vars, var_bytes, outputs);
        Ok(())
    }
}

/// Bytes of a variable in the object that holds them all.
fn entry_bytes(name: &str, value: &Value) -> usize {
    json_len(name) + json_len(value) + 2
}

impl From<Scratch> for State {
    fn from(scratch: Scratch) -> Self {
        let (calls, dropped) = scratch.outputs.state();
        Self { version: VERSION, vars: scratch.vars, calls, dropped }
    }
}

impl TryFrom<State> for Scratch {
    type Error = RestoreError;

    fn try_from(state: State) -> Result<Self, RestoreError> {
        if state.version > VERSION {
            return Err(RestoreError::Version(state.version));
        }
        let var_bytes = state.vars.iter().map(|(name, value)| entry_bytes(name, value)).sum();
        let outputs = Outputs::restored(state.calls, state.dropped);
        Ok(Self { vars: state.vars, var_bytes, outputs, ..Self::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Path, Segment};
    use super::*;
    use proptest::prelude::*;

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "\\PC{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(key(), inner, 0..4)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    fn key() -> impl Strategy<Value = String> {
        prop_oneof![
            "[abc]",
            Just("first".to_owned()),
            Just("0".to_owned()),
            Just("\"\n".to_owned())
        ]
    }

    fn segment() -> impl Strategy<Value = Segment> {
        prop_oneof![
            6 => key().prop_map(|k| Segment::Key(k.into())),
            1 => (0usize..3).prop_map(Segment::Number),
            1 => (-3i64..3).prop_map(Segment::Index),
            1 => any::<i64>().prop_map(Segment::Index),
            1 => Just(Segment::First),
            1 => Just(Segment::Last),
            1 => Just(Segment::Each),
        ]
    }

    fn var() -> impl Strategy<Value = Reference> {
        ("[xy]", prop::collection::vec(segment(), 0..4)).prop_map(|(root, segments)| {
            Reference::new(RefKind::Var, root, Path::new(segments).unwrap()).unwrap()
        })
    }

    proptest! {
        #[test]
        fn the_walker_never_panics(value in json(), segments in prop::collection::vec(segment(), 0..6)) {
            let path = Path::new(segments).unwrap();
            let gathers = path.segments().contains(&Segment::Each);
            if let Some(found) = walk(&value, &path) {
                prop_assert!(gathers || matches!(found, Cow::Borrowed(_)));
            }
        }

        #[test]
        fn what_is_set_is_got_and_the_size_stays_true(
            writes in prop::collection::vec((var(), json()), 1..12),
            cap in prop_oneof![Just(DEFAULT_CAP), 10usize..120],
        ) {
            let mut scratch = Scratch::default();
            scratch.set_cap(cap);
            for (reference, value) in writes {
                let before = scratch.vars.clone();
                match scratch.set(&reference, value.clone()) {
                    Ok(dropped) => {
                        prop_assert_eq!(dropped, None);
                        let got = scratch.get(&reference).map(Cow::into_owned);
                        prop_assert_eq!(got, Some(value));
                    }
                    Err(_) => prop_assert_eq!(&scratch.vars, &before),
                }
                let measured: usize = scratch.vars.iter().map(|(k, v)| entry_bytes(k, v)).sum();
                prop_assert_eq!(scratch.var_bytes, measured);
                prop_assert!(measured <= cap);
            }
        }

        #[test]
        fn variables_and_outputs_never_exceed_the_cap(
            captures in prop::collection::vec((0u8..6, "[pq]", json()), 0..20),
            cap in 20usize..200,
        ) {
            let mut scratch = Scratch::default();
            scratch.set_cap(cap);
            for (call, tool, output) in captures {
                let (call, tool) = (CallId::from(call.to_string()), ToolName::from(tool));
                let dropped = scratch.capture(&call, &tool, Arc::new(output.clone()));
                let kept = scratch.outputs.call(call.as_str());
                prop_assert!(kept == Some(&output) || (dropped.is_some() && kept.is_none()));
                let (calls, _) = scratch.outputs.state();
                let measured: usize = calls.iter().map(Captured::bytes).sum();
                prop_assert_eq!(scratch.outputs.bytes(), measured);
                prop_assert!(measured <= cap);
            }
        }

        #[test]
        fn restoring_anything_is_safe(snapshot in json()) {
            let mut scratch = Scratch::default();
            let _ = scratch.set(&Reference::var("kept").unwrap(), Value::from(1));
            if scratch.restore(&snapshot).is_err() {
                prop_assert_eq!(scratch.vars.len(), 1);
            }
        }
    }
}
