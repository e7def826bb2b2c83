//! What is known when an action is applied: what its run had found by the time it was captured, and what has come of the actions
//! since.
//!
//! Arguments that are wired to the context are wired to that of the run. Whoever applies comes later, from another page, and after
//! other turns; all they bring is their decision.

use super::CapturedAction;
use super::ids::{Blocked, Ids};
use crate::runtime::Runtime;
use crate::session::Told;
use crate::session::recall::Kept;
use crate::tool::ContextHandle;
use crate::tool::toolbox::Entry;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use turnbuckle_core::context::{BindSource, ContextStore, RefKind, Reference, bind};
use turnbuckle_core::ids::CallId;
use turnbuckle_core::json::{Json, clip};
use turnbuckle_store::CapturedStatus;

/// Bytes of a value in a sentence.
const SHOWN: usize = 100;

/// What is known by now.
pub(super) struct Known<'a> {
    pub(super) ids: Ids,
    told: &'a Told,
    /// What applied actions really gave.
    real: BTreeMap<CallId, Json>,
}

impl<'a> Known<'a> {
    pub(super) fn new(told: &'a Told) -> Self {
        Self { ids: Ids::default(), told, real: BTreeMap::new() }
    }

    /// Learns what came of an action.
    pub(super) fn learn(&mut self, action: &CapturedAction, status: CapturedStatus, result: &Json) {
        self.ids.learn(&action.predicted, status, result);
        if status == CapturedStatus::Applied {
            self.real.insert(action.call.clone(), result.clone());
        }
    }

    /// Brings the context store back to where it was when a call was checked, and marks the turn with what it had read by then.
    /// What was predicted then is real where it has become so; variables are as the session has them now.
    pub(super) fn bring_back(&self, call: &CallId, runtime: &Runtime) {
        let Some(context) = runtime.context() else { return };
        context.with(|store| {
            store.begin_turn();
            self.put_into_vars(store);
            for kept in self.told.before(call) {
                self.as_known(kept).apply(store);
            }
        });
        self.told.before(call).iter().filter_map(Kept::tool).for_each(|tool| runtime.taint(tool));
    }

    fn put_into_vars(&self, store: &mut dyn ContextStore) {
        let changed = |(name, value): (&String, &Json)| {
            let real = self.ids.put_where_known(value);
            (real != **value).then(|| (Reference::var(name), real))
        };
        let changed: Vec<_> = store.vars().iter().filter_map(changed).collect();
        for (name, value) in changed {
            // One that has no room any more keeps its predicted ids, with which nothing runs.
            if let Ok(name) = name
                && let Err(e) = store.set(&name, value)
            {
                tracing::warn!("a variable keeps its predicted ids: {e}");
            }
        }
    }

    fn as_known(&self, kept: &Kept) -> Kept {
        match kept {
            Kept::Output { call, tool, output } => {
                let real = self.real.get(call).cloned();
                let output = real.unwrap_or_else(|| self.ids.put_where_known(output).into());
                Kept::Output { call: call.clone(), tool: tool.clone(), output }
            }
            Kept::NoRoom => Kept::NoRoom,
        }
    }

    /// Looks at what an action's bound arguments would become now, and says when that is not what was captured, and so not what
    /// the person saw. What came of an earlier action in the place of its prediction is meant to be there.
    ///
    /// # Errors
    /// When it is a predicted id that nothing stands for.
    pub(super) fn bound(
        &self,
        entry: &Entry,
        args: &Value,
        amendment: Option<&Json>,
        context: &ContextHandle,
    ) -> Result<Option<String>, Blocked> {
        let Value::Object(captured) = args else { return Ok(None) };
        let mut asked = captured.clone();
        if let Some(Value::Object(changes)) = amendment.map(|changes| &**changes) {
            asked.extend(changes.clone());
        }
        // What has no value is refused by the check that follows, in its own words.
        let Ok(now) = context.with(|store| bind(&asked, &entry.bindings, store)) else {
            return Ok(None);
        };
        let mut moved = None;
        for binding in entry.bindings.iter() {
            let BindSource::Reference(reference) = &binding.source else { continue };
            let value = now.get(&binding.argument);
            if value == asked.get(&binding.argument) {
                continue;
            }
            if let Some(value) = value {
                self.ids.put_into(value)?;
            }
            moved = moved.or_else(|| told_apart(&binding.argument, reference, captured, value));
        }
        Ok(moved)
    }
}

/// How an argument differs from what was captured, where that is for a person to judge.
fn told_apart(
    argument: &str,
    reference: &Reference,
    captured: &Map<String, Value>,
    now: Option<&Value>,
) -> Option<String> {
    let before = short(captured.get(argument)?);
    match reference.kind() {
        RefKind::Tool(_) | RefKind::Call => return None,
        RefKind::Var | RefKind::Sys | RefKind::Field => {}
    }
    let now = now.map_or_else(|| "nothing".to_owned(), short);
    Some(format!(
        "`{argument}` was {before} when this was captured, and `{reference}` is {now} now"
    ))
}

fn short(value: &Value) -> String {
    clip(&value.to_string(), SHOWN).to_owned()
}
