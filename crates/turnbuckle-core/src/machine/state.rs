//! The state of a turn.

pub(super) use super::frame::{Ask, Attempt, BatchCall, CallState, Frame, FrameEnd, Parent};

use super::effect::{Effect, EffectKind, StepId};
use super::input::{Input, Recorded};
use super::spec::{AgentSpec, TurnSpec};
use super::valves::Ledger;
use super::weave::Replay;
use super::{Emitted, MachineError, Output};
use crate::event::{AgentPath, CallResult, EventKind};
use crate::fold::TurnFold;
use crate::ids::{AgentName, CallId, ToolName};
use crate::message::{AssistantMessage, UserMessage};
use crate::outcome::Outcome;
use crate::room;
use crate::time::Timestamp;
use crate::usage::Usage;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The number of the state's shape. An older state is brought up to it when it is loaded.
pub const TURN_SCHEMA: u16 = 1;

/// Where a turn stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum Phase {
    /// Not begun.
    New,
    /// Effects are under way.
    Running,
    /// It waits for people or the caller's front end.
    Paused,
    /// It was stopped; what runs is being brought to an end.
    Stopping {
        /// How it will end.
        outcome: Outcome,
    },
    /// The end-of-turn hooks run.
    Finalizing {
        /// How it will end.
        outcome: Outcome,
    },
    /// It has ended.
    Ended {
        /// How.
        outcome: Outcome,
    },
}

/// A turn in progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    pub(super) schema: u16,
    pub(super) spec: TurnSpec,
    pub(super) phase: Phase,
    pub(super) messages: TurnFold,
    pub(super) frames: Vec<Frame>,
    pub(super) route: Vec<AgentName>,
    pub(super) next_step: StepId,
    pub(super) next_call: u32,
    pub(super) next_capture: u32,
    pub(super) recorded: u32,
    pub(super) epoch: u32,
    pub(super) pending: BTreeMap<StepId, Box<Pending>>,
    pub(super) meters: Meters,
    pub(super) ledger: Ledger,
    pub(super) cache: ReadCache,
    pub(super) steering: Vec<UserMessage>,
    pub(super) now: Timestamp,
}

/// What the turn has used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Meters {
    /// Tokens of every model call.
    pub usage: Usage,
    /// New work in tokens.
    pub new_work: u64,
    /// Model calls, those for summaries and titles included.
    pub model_calls: u32,
    /// Those of them that were to summarise the history and came to nothing.
    #[serde(default)]
    pub lost_summaries: u32,
    /// Tool calls.
    pub tool_calls: u32,
    /// Approvals asked for.
    pub approvals: u32,
    /// Money in millionths of a US dollar.
    pub cost_micros: u64,
    /// Active milliseconds before the last time the turn was taken up.
    pub active_ms: u64,
    /// When the turn was last taken up.
    pub active_since: Timestamp,
}

/// Results of read-only calls, as long as nothing was written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ReadCache {
    pub(super) results: BTreeMap<String, Box<CallResult>>,
    /// Raised by every write, when it begins and when it ends: a read that overlapped one is not kept.
    pub(super) writes: u32,
}

/// An effect under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Pending {
    pub(super) frame: usize,
    pub(super) effect: EffectKind,
    pub(super) about: About,
}

/// What an effect under way is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum About {
    Model(Streaming),
    Call { part: u32, call: CallId, writes: u32 },
    End,
}

/// A model answer as it streams in: the part of each block that has begun.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Streaming {
    /// Parts of the message before this answer.
    pub(super) base: u32,
    /// The ordinal of the first call of this answer, should it have any.
    pub(super) first_call: u32,
    /// When the last delta came; a clock that goes backwards does not show.
    pub(super) since: Timestamp,
    /// By block.
    pub(super) blocks: BTreeMap<u32, BlockPart>,
    /// Whether this attempt was given up and metered already.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) forgone: bool,
    /// The epochs of attempts that were lost with their processes and are not metered yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) lost: Vec<u32>,
}

/// The part of a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct BlockPart {
    pub(super) part: u32,
    pub(super) bytes: u32,
    pub(super) call: Option<CallId>,
}

impl Turn {
    /// A turn that has not begun; [`Input::Begin`] starts it.
    ///
    /// # Errors
    /// When the specification names agents or routes that it does not define.
    pub fn new(spec: TurnSpec) -> Result<Self, MachineError> {
        super::begin::check(&spec)?;
        Ok(Self {
            schema: TURN_SCHEMA,
            next_capture: spec.first_capture,
            spec,
            phase: Phase::New,
            messages: TurnFold::default(),
            // Most turns have one.
            frames: Vec::with_capacity(1),
            route: Vec::new(),
            next_step: 0,
            next_call: 0,
            recorded: 0,
            epoch: 0,
            pending: BTreeMap::new(),
            meters: Meters::default(),
            ledger: Ledger::default(),
            cache: ReadCache::default(),
            steering: Vec::new(),
            now: Timestamp::default(),
        })
    }

    /// Applies one input. What it changes is in the turn; what it asks for is appended to `out`.
    ///
    /// # Errors
    /// When the input does not fit; the turn is then unchanged, except after [`MachineError::Fold`], which is a defect.
    pub fn handle(
        &mut self,
        at: Timestamp,
        input: Input,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        // A clock that goes backwards must not turn the order of things around.
        let last = self.now;
        self.now = last.max(at);
        let applied = self.apply(last, input, out);
        match applied {
            Ok(()) => self.recorded += 1,
            Err(_) => self.now = last,
        }
        applied
    }

    fn apply(
        &mut self,
        last: Timestamp,
        input: Input,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        match input {
            Input::Begin => self.begin(out)?,
            Input::ModelDone { step, answer } => self.model_done(step, *answer, out)?,
            Input::ModelFailed { step, error, partial } => {
                self.model_failed(step, error, partial.map(|p| *p), out)?;
            }
            Input::Metered { step, purpose, epoch, answer } => {
                self.metered(step, purpose, epoch, &answer, out)?;
            }
            Input::Compacted { step, report } => self.compacted(step, *report, out)?,
            Input::Prepared { step, verdict } => self.prepared(step, *verdict, out)?,
            Input::Progress { step, data } => self.progress(step, data, out)?,
            Input::Executed { step, result, captured: _ } => self.executed(step, *result, out)?,
            Input::ContextDropped { cap } => self.context_dropped(cap, out)?,
            Input::Decide { call, decision, by } => self.decide(&call, decision, by, out)?,
            Input::ClientResult { call, result } => self.client_result(&call, result, out)?,
            Input::Steer { message } => self.steer(*message)?,
            Input::Cancel { superseded } => self.cancel(superseded, out)?,
            Input::Recover => self.recover(last, out)?,
            Input::ModelReplaced { from, to, reason } => {
                self.model_replaced(from, to, reason, out)?;
            }
            Input::Finalized { step, changes } => self.finalized(step, *changes, out)?,
            Input::Fault { error, partials } => self.fault(error, partials, out)?,
        }
        Ok(())
    }

    /// Rebuilds a turn from its whole journal; see [`Replay`].
    ///
    /// # Errors
    /// When the journal does not fit the specification.
    pub fn replay(
        spec: TurnSpec,
        journal: &[Recorded],
        out: &mut Output,
    ) -> Result<Self, MachineError> {
        let mut replay = Replay::new(spec, journal)?;
        while replay.step(out)?.is_some() {}
        Ok(replay.into_turn())
    }

    /// Where the turn stands.
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// The outcome, once the turn has ended or pauses.
    pub fn outcome(&self) -> Option<Outcome> {
        match &self.phase {
            Phase::Ended { outcome } => Some(outcome.clone()),
            Phase::Paused => Some(Outcome::Paused),
            _ => None,
        }
    }

    /// What is fixed for the turn.
    pub fn spec(&self) -> &TurnSpec {
        &self.spec
    }

    /// The messages so far.
    pub fn messages(&self) -> &TurnFold {
        &self.messages
    }

    /// The turn's assistant message, once it has begun.
    pub fn message(&self) -> Option<&AssistantMessage> {
        self.messages.assistant.as_ref()
    }

    /// What has been used.
    pub fn meters(&self) -> &Meters {
        &self.meters
    }

    /// How many inputs have been applied: the number of the next journal entry.
    pub fn recorded(&self) -> u32 {
        self.recorded
    }

    /// How often the turn has been taken up again after a crash.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The number that the next captured action would get.
    pub fn next_capture(&self) -> u32 {
        self.next_capture
    }

    /// Whether a message sent now can still enter this turn.
    pub fn accepts_steering(&self) -> bool {
        matches!(self.phase, Phase::Running)
    }

    /// The effects under way, in order.
    pub fn effects(&self) -> impl Iterator<Item = Effect> + '_ {
        self.pending.iter().filter_map(|(step, pending)| {
            let frame = self.frames.get(pending.frame)?;
            Some(Effect {
                step: *step,
                agent: frame.agent.clone(),
                path: frame.path.clone(),
                kind: pending.effect.clone(),
            })
        })
    }

    /// The call, and its tool, that gets its result from a step under way.
    pub fn results_of(&self, step: StepId) -> Option<(&CallId, &ToolName)> {
        self.pending.get(&step)?.effect.results_of()
    }

    /// The epochs in which a model call under way was made before, by processes that ended over it, as far as those calls are
    /// not metered yet. Tell each as [`Input::Metered`].
    pub fn lost_calls(&self, step: StepId) -> &[u32] {
        match self.pending.get(&step).map(|pending| &pending.about) {
            Some(About::Model(streaming)) => &streaming.lost,
            _ => &[],
        }
    }

    pub(super) fn emit(
        &mut self,
        path: &AgentPath,
        kind: EventKind,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        self.emit_at(self.now, path, kind, out)
    }

    pub(super) fn emit_at(
        &mut self,
        at: Timestamp,
        path: &AgentPath,
        kind: EventKind,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        self.messages.apply(at, &kind)?;
        room::push(&mut out.events, Emitted { at, path: path.clone(), kind });
        Ok(())
    }

    pub(super) fn ask(
        &mut self,
        frame: usize,
        effect: EffectKind,
        about: About,
        out: &mut Output,
    ) -> StepId {
        let step = self.next_step;
        self.next_step += 1;
        if let Some(f) = self.frames.get(frame) {
            out.effects.push(Effect {
                step,
                agent: f.agent.clone(),
                path: f.path.clone(),
                kind: effect.clone(),
            });
        }
        self.pending.insert(step, Box::new(Pending { frame, effect, about }));
        step
    }

    /// The effect under way of that step; `None` when the turn no longer cares.
    pub(super) fn take(
        &mut self,
        step: StepId,
        fits: fn(&EffectKind) -> bool,
    ) -> Result<Option<Pending>, MachineError> {
        match self.under_way(step)? {
            Some(pending) if !fits(&pending.effect) => Err(MachineError::UnknownStep(step)),
            _ => Ok(self.pending.remove(&step).map(|pending| *pending)),
        }
    }

    /// As [`Turn::take`], but it stays under way.
    pub(super) fn under_way(&self, step: StepId) -> Result<Option<&Pending>, MachineError> {
        if matches!(self.phase, Phase::Ended { .. }) {
            return Err(MachineError::Ended);
        }
        if step >= self.next_step {
            return Err(MachineError::UnknownStep(step));
        }
        Ok(self.pending.get(&step).map(|pending| &**pending))
    }

    /// The path of the agent that speaks for the turn: the latest of the route.
    pub(super) fn speaker(&self) -> AgentPath {
        match self.frames.iter().rfind(|f| f.parent.is_none()) {
            Some(frame) => frame.path.clone(),
            None => "engine".into(),
        }
    }

    pub(super) fn frame(&self, index: usize) -> Result<&Frame, MachineError> {
        self.frames.get(index).ok_or_else(|| MachineError::Spec(format!("no frame {index}")))
    }

    pub(super) fn frame_mut(&mut self, index: usize) -> Result<&mut Frame, MachineError> {
        self.frames.get_mut(index).ok_or_else(|| MachineError::Spec(format!("no frame {index}")))
    }

    pub(super) fn agent(&self, frame: usize) -> Result<&AgentSpec, MachineError> {
        let name = &self.frame(frame)?.agent;
        let agent = self.spec.agents.get(name).map(|agent| &**agent);
        agent.ok_or_else(|| MachineError::Spec(format!("agent {name} is not defined")))
    }

    pub(super) fn parts_len(&mut self, frame: usize) -> Result<u32, MachineError> {
        let id = self.frame(frame)?.message.clone();
        Ok(self.messages.message(&id)?.parts.len() as u32)
    }

    pub(super) fn path(&self, frame: usize) -> Result<AgentPath, MachineError> {
        Ok(self.frame(frame)?.path.clone())
    }
}
