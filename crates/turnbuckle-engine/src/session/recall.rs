//! What tools found, for later arguments to refer to: the same while a turn runs and when it is taken up again.

use std::collections::BTreeMap;
use turnbuckle_core::context::{ContextStore, DEFAULT_CAP, DropCause, Dropped};
use turnbuckle_core::event::EventKind;
use turnbuckle_core::ids::{CallId, ToolName};
use turnbuckle_core::json::Json;
use turnbuckle_core::machine::{
    EffectKind, Emitted, ExecuteResult, Input, MachineError, Output, Recorded, Replay, Turn,
    TurnSpec,
};
use turnbuckle_core::part::Part;

/// A change of a turn's context store.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kept {
    /// The output of a call.
    Output { call: CallId, tool: ToolName, output: Json },
    /// There was no room for the outputs of before.
    NoRoom,
}

impl Kept {
    /// The tool that an output is of.
    pub(crate) const fn tool(&self) -> Option<&ToolName> {
        match self {
            Self::Output { tool, .. } => Some(tool),
            Self::NoRoom => None,
        }
    }

    pub(crate) fn apply(self, context: &mut dyn ContextStore) {
        match self {
            // What is dropped for it the store tells when it is asked.
            Self::Output { call, tool, output } => {
                let _ = context.capture(&call, &tool, output);
            }
            Self::NoRoom => {
                context.drop_outputs();
                context.take_dropped();
            }
        }
    }
}

/// The outputs that no pipeline saw, since the turn's cache held them.
pub(crate) fn kept_from_cache(turn: &Turn, told: &[Emitted]) -> impl Iterator<Item = Kept> {
    told.iter().filter_map(move |emitted| {
        let EventKind::ToolCallCompleted { message, part, call, result } = &emitted.kind else {
            return None;
        };
        let Part::ToolCall(at) = turn.messages().get(message)?.parts.get(*part as usize)? else {
            return None;
        };
        result.cached.then(|| Kept::Output {
            call: call.clone(),
            tool: at.name.clone(),
            output: result.output.clone(),
        })
    })
}

/// The cap that a store was held to when it dropped outputs, in bytes.
pub(crate) fn cap(dropped: &Dropped) -> u64 {
    match dropped.cause {
        DropCause::Size { cap, .. } => cap as u64,
        DropCause::Depth => DEFAULT_CAP as u64,
    }
}

/// A turn again from its journal, and what its context store was told in it.
///
/// # Errors
/// When the journal does not fit the specification.
pub(crate) fn rebuild(
    spec: TurnSpec,
    journal: &[Recorded],
) -> Result<(Turn, Vec<Kept>), MachineError> {
    again(spec, journal, |_, _, _| ())
}

/// What a turn's context store was told, in order, and how much of it when each of its calls was checked: later outputs were
/// nothing that the arguments of a call could be bound to.
#[derive(Debug, Default)]
pub(crate) struct Told {
    kept: Vec<Kept>,
    checked: BTreeMap<CallId, usize>,
}

impl Told {
    /// From the turn's journal.
    ///
    /// # Errors
    /// When the journal does not fit the specification.
    pub(crate) fn of(spec: TurnSpec, journal: &[Recorded]) -> Result<Self, MachineError> {
        let mut checked = BTreeMap::new();
        let (_, kept) = again(spec, journal, |input, turn, told| {
            checked.extend(checked_call(input, turn).map(|call| (call, told)));
        })?;
        Ok(Self { kept, checked })
    }

    /// What the store had been told when a call was checked.
    pub(crate) fn before(&self, call: &CallId) -> &[Kept] {
        let told = self.checked.get(call).and_then(|told| self.kept.get(..*told));
        told.unwrap_or(&self.kept)
    }
}

/// The call whose check an input ends.
fn checked_call(input: &Input, turn: &Turn) -> Option<CallId> {
    let Input::Prepared { step, .. } = input else { return None };
    match turn.effects().find(|effect| effect.step == *step)?.kind {
        EffectKind::Prepare(check) => Some(check.call),
        _ => None,
    }
}

/// Goes through a journal once more. `see` looks at each input before the machine is told it, with how much the context store
/// had been told by then.
fn again(
    spec: TurnSpec,
    journal: &[Recorded],
    mut see: impl FnMut(&Input, &Turn, usize),
) -> Result<(Turn, Vec<Kept>), MachineError> {
    let mut replay = Replay::new(spec, journal)?;
    let (mut kept, mut out) = (Vec::new(), Output::default());
    for entry in journal {
        see(&entry.input, replay.turn(), kept.len());
        kept.extend(kept_by(&entry.input, replay.turn()));
        replay.step(&mut out)?;
        kept.extend(kept_from_cache(replay.turn(), &out.events));
        // Journals are read back without their events, which are stored already.
        out = Output::default();
    }
    Ok((replay.into_turn(), kept))
}

/// What an input says of the context store by itself.
fn kept_by(input: &Input, turn: &Turn) -> Vec<Kept> {
    let (step, result, captured) = match input {
        Input::Executed { step, result, captured } => (*step, &**result, captured.as_ref()),
        Input::ContextDropped { .. } => return vec![Kept::NoRoom],
        _ => return Vec::new(),
    };
    let Some((call, tool)) = turn.results_of(step) else { return Vec::new() };
    let (output, dropped) = match result {
        ExecuteResult::Success { result, directives } => {
            (Some(captured.unwrap_or(&result.output)), directives.context_dropped.is_some())
        }
        ExecuteResult::Failure { .. } => (captured, false),
    };
    let output = output.map(|output| Kept::Output {
        call: call.clone(),
        tool: tool.clone(),
        output: output.clone(),
    });
    dropped.then_some(Kept::NoRoom).into_iter().chain(output).collect()
}
