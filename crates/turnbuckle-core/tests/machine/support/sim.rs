//! A driver without tokio: performs effects against a [`World`], commits like the real one, and can lose its memory at any
//! moment. What must hold at every step is checked here while it runs.

use super::audit::Requests;
use super::build::*;
use super::check::assert_same;
use super::open::{Open, Piece};
use super::rng::Rng;
use super::world::{Act, World};
use std::collections::{BTreeMap, BTreeSet};
use turnbuckle_core::error::{ModelError, ModelErrorKind, ToolError, ToolErrorCode};
use turnbuckle_core::event::{Event, EventKind};
use turnbuckle_core::ids::CallId;
use turnbuckle_core::machine::*;
use turnbuckle_core::message::{ApprovalCard, SystemBody};
use turnbuckle_core::part::ToolCallPart;
use turnbuckle_core::time::Timestamp;
use turnbuckle_core::tool::{Counts, SideEffect};
use turnbuckle_core::usage::Purpose;

/// Which of the effects under way gets on next.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// The one asked for first: the same order whatever was lost in between.
    Oldest,
    /// Any.
    Random(u64),
}

type Interject = Box<dyn Fn(&Effect) -> Option<Input>>;

/// What happens to the turn from outside.
pub struct Plan {
    pub order: Order,
    /// The ticks at which the process ends.
    pub crashes: BTreeSet<u32>,
    /// After so many inputs and deltas.
    pub cancel_at: Option<u32>,
    pub steer_at: Vec<u32>,
    pub fault_at: Option<u32>,
    /// An input that follows the start of an effect.
    pub interject: Option<Interject>,
    pub clock_jumps: bool,
    /// Whether the turn is written and read back after every input.
    pub reload: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            order: Order::Oldest,
            crashes: BTreeSet::new(),
            cancel_at: None,
            steer_at: Vec::new(),
            fault_at: None,
            interject: None,
            clock_jumps: false,
            reload: false,
        }
    }
}

pub struct Crashed;

pub struct Sim<W> {
    pub world: W,
    pub plan: Plan,
    pub turn: Turn,
    pub journal: Vec<Recorded>,
    pub events: Vec<Event>,
    /// Calls that began for real or were asked about, in order.
    pub runs: Vec<(CallId, ExecuteMode)>,
    /// Every model call that was begun.
    pub model_calls: Vec<Effect>,
    /// The largest number of calls executing at once.
    pub widest: usize,
    pub requests: Requests,
    pub tick: u32,
    buffer: Vec<Recorded>,
    committed_events: usize,
    open: BTreeMap<StepId, Open>,
    interjections: Vec<Input>,
    ended_calls: Vec<CallId>,
    committed_calls: BTreeSet<CallId>,
    out: Output,
    clock: i64,
    rng: Rng,
    inputs: u32,
    deltas: u32,
}

/// Runs a turn to its end, or to where nobody acts on its cards.
pub fn play<W: World>(spec: TurnSpec, world: W) -> Sim<W> {
    play_with(spec, world, Plan::default())
}

pub fn play_with<W: World>(spec: TurnSpec, world: W, plan: Plan) -> Sim<W> {
    let mut sim = Sim::new(spec, world, plan);
    sim.run();
    sim
}

impl<W: World> Sim<W> {
    pub fn new(spec: TurnSpec, world: W, plan: Plan) -> Self {
        let seed = match plan.order {
            Order::Oldest => 0,
            Order::Random(seed) => seed,
        };
        Self {
            world,
            plan,
            turn: Turn::new(spec).unwrap(),
            journal: Vec::new(),
            events: Vec::new(),
            runs: Vec::new(),
            model_calls: Vec::new(),
            widest: 0,
            requests: Requests::default(),
            tick: 0,
            buffer: Vec::new(),
            committed_events: 0,
            open: BTreeMap::new(),
            interjections: Vec::new(),
            ended_calls: Vec::new(),
            committed_calls: BTreeSet::new(),
            out: Output::default(),
            clock: START,
            rng: Rng::of(seed, "driver"),
            inputs: 0,
            deltas: 0,
        }
    }

    /// Goes on until the turn ends or nobody acts on its cards.
    pub fn run(&mut self) {
        while self.drive().is_err() {
            while self.restart().is_err() {}
        }
    }

    /// Gives an input from outside and goes on.
    pub fn give(&mut self, input: Input) {
        let given = self.input(input);
        if given.is_err() {
            while self.restart().is_err() {}
        }
        self.run();
    }

    /// An input that the machine must refuse without a trace.
    pub fn refused(&mut self, input: Input) -> MachineError {
        let before = self.turn.clone();
        let mut out = Output::default();
        let at = Timestamp::from_millis(self.clock + 1_000_000);
        let error = self.turn.handle(at, input, &mut out).unwrap_err();
        assert_same(&self.turn, &before, "a refused input changed the turn");
        assert!(out.events.is_empty() && out.effects.is_empty());
        error
    }

    fn drive(&mut self) -> Result<(), Crashed> {
        if *self.turn.phase() == Phase::New {
            self.input(Input::Begin)?;
        }
        for _ in 0..20_000 {
            self.take_events();
            let effects = std::mem::take(&mut self.out.effects);
            let rests = self.turn.outcome().is_some();
            if rests || effects.iter().any(|e| e.kind.needs_commit()) {
                self.commit()?;
            }
            for effect in effects {
                self.start(effect)?;
            }
            if matches!(self.turn.phase(), Phase::Ended { .. }) {
                return Ok(());
            }
            if self.interfere()? {
                continue;
            }
            if *self.turn.phase() == Phase::Paused {
                if !self.act()? {
                    return Ok(());
                }
                continue;
            }
            if matches!(self.plan.order, Order::Random(_)) && self.rng.percent(20) && self.act()? {
                continue;
            }
            let step = self.choose().unwrap_or_else(|| panic!("stuck: {:#?}", self.turn));
            self.get_on(step)?;
        }
        panic!("the turn does not end: {:#?}", self.turn);
    }

    fn choose(&mut self) -> Option<StepId> {
        let steps: Vec<StepId> = self.open.keys().copied().collect();
        match self.plan.order {
            Order::Oldest => steps.first().copied(),
            Order::Random(_) if steps.is_empty() => None,
            Order::Random(_) => Some(*self.rng.pick(&steps)),
        }
    }

    /// A moment at which the process may end.
    fn tick(&mut self) -> Result<(), Crashed> {
        self.tick += 1;
        if self.plan.crashes.contains(&self.tick) { Err(Crashed) } else { Ok(()) }
    }

    fn now(&mut self) -> Timestamp {
        self.clock += 3;
        if self.plan.clock_jumps {
            self.clock += self.rng.below(40) as i64 - 22;
        }
        Timestamp::from_millis(self.clock)
    }

    pub fn input(&mut self, input: Input) -> Result<(), Crashed> {
        self.tick()?;
        let at = self.now();
        let known = self.out.effects.len();
        self.buffer.push(Recorded { n: self.turn.recorded(), at, input: input.clone() });
        let again = input == Input::Recover;
        self.turn
            .handle(at, input.clone(), &mut self.out)
            .unwrap_or_else(|e| panic!("{e} after {input:?}"));
        self.inputs += u32::from(!again);
        self.check_budgets(at, if again { self.out.effects.len() } else { known });
        if self.plan.reload {
            let text = serde_json::to_string(&self.turn).unwrap();
            let read: Turn = serde_json::from_str(&text).unwrap();
            assert_same(&read, &self.turn, "a reloaded turn differs");
            self.turn = read;
        }
        self.tick()
    }

    /// No budget is exceeded, but for the one closing call; `from` is where the effects begin that were asked for just now.
    fn check_budgets(&self, at: Timestamp, from: usize) {
        let (meters, limits) = (self.turn.meters(), &self.turn.spec().limits);
        let beyond = u32::from(self.model_calls.iter().chain(&self.out.effects).any(is_closing));
        let most = limits.max_model_calls + beyond;
        assert!(meters.model_calls <= most, "{} model calls", meters.model_calls);
        assert!(meters.approvals <= limits.max_approvals, "{} approvals", meters.approvals);
        assert!(meters.tool_calls <= limits.max_tool_calls, "{} tool calls", meters.tool_calls);
        for effect in &self.out.effects[from..] {
            let EffectKind::CallModel(call) = &effect.kind else { continue };
            assert!(meters.new_work < limits.max_tokens, "a model call over the token budget");
            let money = limits.max_cost_micros.is_none_or(|max| meters.cost_micros < max);
            assert!(money, "a model call over the money budget");
            // The clock may have gone back; the turn's does not.
            let active = meters.active_ms + at.since(meters.active_since);
            assert!(active < limits.max_wall_ms, "a model call after {active} ms");
            self.check_iterations(effect, call);
        }
    }

    /// The agent has iterations left, or this is its closing call and its only one.
    fn check_iterations(&self, effect: &Effect, call: &CallModel) {
        let agent = &self.turn.spec().agents[&effect.agent];
        let message = self.turn.messages().get(&call.message).unwrap();
        let counts = |iteration: &u32| {
            let mut calls = message.calls().filter(|c| c.iteration == *iteration).peekable();
            let free =
                |c: &ToolCallPart| agent.tool(&c.name).is_some_and(|t| t.counts == Counts::Free);
            calls.peek().is_none() || !calls.all(free)
        };
        let first = call.iteration - call.calls_made;
        let counted = (first..call.iteration).filter(counts).count() as u32;
        let cap = agent.limits.max_iterations;
        if call.purpose == Purpose::Step {
            assert!(counted < cap, "iteration {} of {cap} of {}", counted + 1, effect.path);
        }
        let closed = |e: &&Effect| {
            let before =
                matches!(&e.kind, EffectKind::CallModel(c) if c.iteration < call.iteration);
            e.path == effect.path && is_closing(e) && before
        };
        assert_eq!(
            self.model_calls.iter().find(closed),
            None,
            "{} goes on after its end",
            effect.path
        );
    }

    fn take_events(&mut self) {
        let epoch = self.turn.epoch();
        for emitted in self.out.events.drain(..) {
            if let EventKind::PartDropped { message, .. }
            | EventKind::ResultDropped { message, .. } = &emitted.kind
            {
                self.requests.forget(message);
            }
            self.events.push(Event {
                seq: self.events.len() as u64 + 1,
                epoch,
                at: emitted.at,
                session: "s".into(),
                turn: "t".into(),
                agent: emitted.path,
                kind: emitted.kind,
            });
        }
    }

    fn commit(&mut self) -> Result<(), Crashed> {
        self.tick()?;
        self.journal.append(&mut self.buffer);
        self.committed_events = self.events.len();
        self.committed_calls.extend(self.ended_calls.drain(..));
        self.tick()
    }

    /// The process ended; another takes the turn up from what was stored.
    fn restart(&mut self) -> Result<(), Crashed> {
        self.open.clear();
        self.buffer.clear();
        self.interjections.clear();
        self.ended_calls.clear();
        self.requests.lose_memory();
        self.out = Output::default();
        self.events.truncate(self.committed_events);
        let spec = self.turn.spec().clone();
        self.turn = Turn::replay(spec, &self.journal, &mut Output::default()).unwrap();
        self.inputs = self.journal.iter().filter(|r| r.input != Input::Recover).count() as u32;
        for (n, entry) in self.journal.iter().enumerate() {
            assert_eq!(entry.n as usize, n, "the journal has a gap");
        }
        if self.journal.is_empty() || matches!(self.turn.phase(), Phase::Ended { .. }) {
            return Ok(());
        }
        self.input(Input::Recover)
    }

    fn start(&mut self, effect: Effect) -> Result<(), Crashed> {
        match &effect.kind {
            EffectKind::CallModel(call) => {
                self.requests.check(self.turn.messages(), call);
                self.model_calls.push(effect.clone());
            }
            EffectKind::Execute(run) => {
                self.tick()?;
                self.check_execution(&effect, run);
                self.runs.push((run.call.clone(), run.mode));
            }
            EffectKind::Prepare(_) | EffectKind::Settle(_) | EffectKind::Finalize { .. } => {}
        }
        let acts = matches!(effect.kind, EffectKind::Execute(_));
        if let Some(input) = self.plan.interject.as_ref().and_then(|f| f(&effect)) {
            self.interjections.push(input);
        }
        self.open.insert(effect.step, Open::new(effect));
        self.check_overlap();
        if acts { self.tick() } else { Ok(()) }
    }

    fn check_execution(&self, effect: &Effect, run: &ExecuteCall) {
        assert!(!self.committed_calls.contains(&run.call), "{} ran again after its end", run.call);
        let traits = self.turn.spec().agents[&effect.agent].tool(&run.tool).unwrap();
        let before = self.runs.iter().filter(|(call, _)| *call == run.call);
        if traits.effect == SideEffect::AtMostOnce && run.mode == ExecuteMode::Real {
            assert_eq!(before.count(), 0, "{} ran twice", run.call);
        }
    }

    fn check_overlap(&mut self) {
        let running: Vec<_> = self.open.values().filter_map(Open::as_execution).collect();
        self.widest = self.widest.max(running.len());
        assert!(running.len() <= self.turn.spec().limits.tool_concurrency.max(1));
        let alone = running.iter().any(|(agent, run)| {
            let traits = self.turn.spec().agents[*agent].tool(&run.tool).unwrap();
            traits.overlap == turnbuckle_core::tool::Overlap::Exclusive
        });
        assert!(!alone || running.len() == 1, "an exclusive tool has company");
    }

    /// What comes from outside while the turn runs.
    fn interfere(&mut self) -> Result<bool, Crashed> {
        let given = |sim: &Self, kind: fn(&Input) -> bool| {
            sim.journal.iter().chain(&sim.buffer).filter(|r| kind(&r.input)).count()
        };
        let open = !matches!(self.turn.phase(), Phase::Finalizing { .. });
        if let Some(input) = self.interjections.pop() {
            self.input(input)?;
            return Ok(true);
        }
        let passed = self.inputs + self.deltas;
        let due = |at: Option<u32>| at.is_some_and(|at| passed >= at) && open;
        if due(self.plan.fault_at) && given(self, |i| matches!(i, Input::Fault { .. })) == 0 {
            let message = "disk full".into();
            let error = turnbuckle_core::outcome::TurnError::Store { message };
            let partials = self.partials();
            self.input(Input::Fault { error, partials })?;
            self.open.clear();
            return Ok(true);
        }
        if due(self.plan.cancel_at) && given(self, |i| matches!(i, Input::Cancel { .. })) == 0 {
            self.input(Input::Cancel { superseded: Superseded::No })?;
            self.open.retain(|_, open| !open.is_check());
            return Ok(true);
        }
        let steered = given(self, |i| matches!(i, Input::Steer { .. }));
        let wanted = self.plan.steer_at.iter().filter(|at| passed >= **at).count();
        if steered < wanted && self.turn.accepts_steering() {
            let message = Box::new(user(&format!("steer-{steered}"), "And hurry."));
            self.input(Input::Steer { message })?;
            return Ok(true);
        }
        Ok(false)
    }

    /// What has arrived of the answers under way.
    pub fn partials(&self) -> Vec<Partial> {
        let entries = self.turn.recorded();
        let place = (self.events.len() + self.out.events.len()) as u64;
        let partials = self.open.iter().filter_map(|(step, open)| {
            let answer = open.arrived()?;
            let woven = open.weave.finish(entries, place);
            Some(Partial { step: *step, answer: Box::new(ModelAnswer { woven, ..answer }) })
        });
        partials.collect()
    }

    /// The cards that nobody has decided.
    pub fn cards(&self) -> Vec<ApprovalCard> {
        let cards = self.turn.messages().pending_cards().map(|m| match &m.body {
            SystemBody::Approval(card) => (**card).clone(),
            SystemBody::Note { .. } => panic!("a note is no card"),
        });
        cards.collect()
    }

    /// A person or the front end does something about a card. False when nobody does.
    fn act(&mut self) -> Result<bool, Crashed> {
        if !matches!(self.turn.phase(), Phase::Paused | Phase::Running) {
            return Ok(false);
        }
        let mut acts: Vec<_> =
            self.cards().into_iter().map(|card| (self.world.act(&card), card)).collect();
        acts.retain(|(act, _)| !matches!(act, Act::Wait));
        if acts.is_empty() {
            return Ok(false);
        }
        let chosen = match self.plan.order {
            Order::Oldest => 0,
            Order::Random(_) => self.rng.below(acts.len()),
        };
        let (act, card) = acts.swap_remove(chosen);
        let input = match act {
            Act::Decide(decision) => {
                Input::Decide { call: card.call, decision, by: Some("ada".into()) }
            }
            Act::Client(result) => Input::ClientResult { call: card.call, result },
            Act::Wait => return Ok(false),
        };
        self.input(input.clone())?;
        self.refused(input);
        Ok(true)
    }

    /// One small step of an effect under way.
    fn get_on(&mut self, step: StepId) -> Result<(), Crashed> {
        let stopping = matches!(self.turn.phase(), Phase::Stopping { .. });
        let mut open = self.open.remove(&step).unwrap();
        let input = match open.effect.kind.clone() {
            EffectKind::CallModel(call) => {
                if let Some(mut report) = open.compaction(&self.world, &call) {
                    report.summary_call.take_if(|_| self.turn.model_calls_left() == 0);
                    self.open.insert(step, open);
                    return self.input(Input::Compacted { step, report: Box::new(report) });
                }
                let at = self.now();
                let entries = self.turn.recorded();
                let place = (self.events.len() + self.out.events.len()) as u64;
                match open.next_piece(&self.world, &call, stopping) {
                    Piece::Delta(delta) => {
                        open.weave.begin(open.told.len(), entries, place);
                        open.told.push(Chunk(delta.block, delta.bytes, at.as_millis()));
                        let piece = delta.as_delta();
                        self.deltas += 1;
                        self.turn.delta(at, step, piece, &mut self.out).unwrap();
                        open.weave.end((self.events.len() + self.out.events.len()) as u64);
                        self.open.insert(step, open);
                        return Ok(());
                    }
                    Piece::Done(answer) => {
                        let woven = open.weave.finish(entries, place);
                        Input::ModelDone { step, answer: Box::new(ModelAnswer { woven, ..answer }) }
                    }
                    Piece::Failed(error, partial) => {
                        let woven = open.weave.finish(entries, place);
                        let partial = partial.map(|answer| ModelAnswer { woven, ..answer });
                        Input::ModelFailed { step, error, partial: partial.map(Box::new) }
                    }
                }
            }
            EffectKind::Prepare(check) => {
                Input::Prepared { step, verdict: Box::new(self.world.check(&check)) }
            }
            EffectKind::Execute(run) => {
                if let Some(data) = open.next_report(&self.world, &run) {
                    self.open.insert(step, open);
                    return self.input(Input::Progress { step, data: data.into() });
                }
                let result = match run.mode {
                    ExecuteMode::Recover => ExecuteResult::Failure {
                        error: ToolError::new(ToolErrorCode::OutcomeUnknown, "Who knows."),
                        output: None,
                    },
                    _ if stopping && self.rng.percent(50) => ExecuteResult::Failure {
                        error: ToolError::new(ToolErrorCode::Cancelled, "Stopped."),
                        output: None,
                    },
                    _ => self.world.execute(&run),
                };
                self.ended_calls.push(run.call);
                Input::Executed { step, result: Box::new(result), captured: None }
            }
            EffectKind::Settle(settle) => {
                let result = Box::new(self.world.settle(&settle));
                Input::Executed { step, result, captured: None }
            }
            EffectKind::Finalize { .. } => {
                let mut changes = Box::new(self.world.changes());
                if let Some(title) = &mut changes.title {
                    title.call.take_if(|_| self.turn.model_calls_left() == 0);
                }
                Input::Finalized { step, changes }
            }
        };
        self.input(input)
    }
}

fn is_closing(effect: &Effect) -> bool {
    matches!(&effect.kind, EffectKind::CallModel(call) if call.purpose == Purpose::Closing)
}

/// The failure of a model call whose connection was dropped on purpose.
pub fn dropped() -> ModelError {
    ModelError::new(ModelErrorKind::Cancelled, "stopped")
}
