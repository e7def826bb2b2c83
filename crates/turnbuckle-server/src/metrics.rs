//! What is counted, for Prometheus. Names and labels are bounded: no tenant, user or session stands in a label.

use crate::live::outcome_of;
use crate::triggers::QUEUE;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use turnbuckle_core::event::{AgentPath, CallProgress, Event, EventKind};
use turnbuckle_core::ids::CallId;
use turnbuckle_core::outcome::Outcome;
use turnbuckle_core::time::Timestamp;
use turnbuckle_core::usage::Purpose;
use turnbuckle_store::QueueDepth;

/// The media type of what [`Metrics::render`] gives.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Bounds of durations, in seconds.
const SECONDS: [f64; 14] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    route: String,
    method: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Route {
    route: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    outcome: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
enum End {
    Completed,
    Paused,
    Exhausted,
    Error,
    Aborted,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Step {
    kind: StepKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
enum StepKind {
    Model,
    Tool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Tokens {
    model: String,
    kind: TokenKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
enum TokenKind {
    Input,
    CacheRead,
    CacheWrite,
    Output,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Queue {
    queue: String,
    state: JobState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
enum JobState {
    Ready,
    Later,
    Running,
    Dead,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModelName {
    model: String,
}

/// All that is counted. Cheap to clone.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Registry,
    requests: Family<Answered, Counter>,
    request_time: Family<Route, Histogram>,
    streams: Gauge,
    turns: Family<Ended, Counter>,
    turn_time: Family<Ended, Histogram>,
    first_token: Histogram,
    step_time: Family<Step, Histogram>,
    calls: Family<ModelName, Counter>,
    tokens: Family<Tokens, Counter>,
    cost: Family<ModelName, Counter>,
    running: Gauge,
    waiting: Gauge,
    broke_off: Counter,
    lease_losses: Counter,
    jobs: Family<Queue, Gauge>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

fn seconds() -> Histogram {
    Histogram::new(SECONDS)
}

impl Metrics {
    /// Nothing counted yet.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("turnbuckle");
        let inner = Inner {
            requests: Family::default(),
            request_time: Family::new_with_constructor(seconds),
            streams: Gauge::default(),
            turns: Family::default(),
            turn_time: Family::new_with_constructor(seconds),
            first_token: seconds(),
            step_time: Family::new_with_constructor(seconds),
            calls: Family::default(),
            tokens: Family::default(),
            cost: Family::default(),
            running: Gauge::default(),
            waiting: Gauge::default(),
            broke_off: Counter::default(),
            lease_losses: Counter::default(),
            jobs: Family::default(),
            registry: Registry::default(),
        };
        let r = &mut registry;
        r.register("http_requests", "Requests answered", inner.requests.clone());
        let about = "Time until a request was answered, or its stream began";
        r.register_with_unit("http_request", about, Unit::Seconds, inner.request_time.clone());
        r.register("streams", "Event streams that are open", inner.streams.clone());
        r.register("turns", "Turns that ended or paused, by outcome", inner.turns.clone());
        let about = "Time from the beginning of a turn, or from its going on, to its end or pause";
        r.register_with_unit("turn", about, Unit::Seconds, inner.turn_time.clone());
        let about = "Time from the beginning of a turn to the first piece of an answer";
        r.register_with_unit("first_token", about, Unit::Seconds, inner.first_token.clone());
        let about = "Time a model call or a tool call took";
        r.register_with_unit("step", about, Unit::Seconds, inner.step_time.clone());
        r.register("model_calls", "Model calls metered", inner.calls.clone());
        r.register(
            "tokens",
            "Tokens of model calls; the kinds do not overlap",
            inner.tokens.clone(),
        );
        let about = "Cost of model calls in millionths of a US dollar, where prices are known";
        r.register("cost_micros", about, inner.cost.clone());
        r.register("sessions_running", "Sessions at work in this process", inner.running.clone());
        let about = "Sessions that want an owner and have none, when last looked, up to 1000";
        r.register("sessions_waiting", about, inner.waiting.clone());
        let about = "Sessions whose work broke off: the store failed, or another owner took over";
        r.register("sessions_broke_off", about, inner.broke_off.clone());
        let about = "Sessions that another process took over while this one worked on them, since it had fallen silent";
        r.register("lease_losses", about, inner.lease_losses.clone());
        let about = "Jobs by queue and by where they stand, when last looked";
        r.register("jobs", about, inner.jobs.clone());
        Self(Arc::new(Inner { registry, ..inner }))
    }

    /// As Prometheus reads it.
    pub fn render(&self) -> String {
        let mut out = String::new();
        // Writing into a string does not fail.
        let _ = text::encode(&mut out, &self.0.registry);
        out
    }

    pub(crate) fn answered(&self, route: &str, method: &str, status: u16, took: Duration) {
        let labels = Answered { route: route.to_owned(), method: method.to_owned(), status };
        self.0.requests.get_or_create(&labels).inc();
        let route = Route { route: route.to_owned() };
        self.0.request_time.get_or_create(&route).observe(took.as_secs_f64());
    }

    pub(crate) fn set_streams(&self, streams: usize) {
        self.0.streams.set(i64::try_from(streams).unwrap_or(i64::MAX));
    }

    pub(crate) fn set_running(&self, sessions: usize) {
        self.0.running.set(i64::try_from(sessions).unwrap_or(i64::MAX));
    }

    pub(crate) fn set_waiting(&self, sessions: usize) {
        self.0.waiting.set(i64::try_from(sessions).unwrap_or(i64::MAX));
    }

    pub(crate) fn set_jobs(&self, depths: &[QueueDepth]) {
        // A queue in which nothing is left is not among them. Each is set once: whoever reads in between must not find it empty.
        let empty = QueueDepth {
            queue: QUEUE.to_owned(),
            ready: 0,
            later: 0,
            running: 0,
            dead: 0,
            oldest: None,
        };
        let missing = depths.iter().all(|depth| depth.queue != QUEUE).then_some(&empty);
        for depth in missing.into_iter().chain(depths) {
            for (state, count) in [
                (JobState::Ready, depth.ready),
                (JobState::Later, depth.later),
                (JobState::Running, depth.running),
                (JobState::Dead, depth.dead),
            ] {
                let queue = Queue { queue: depth.queue.clone(), state };
                let count = i64::try_from(count).unwrap_or(i64::MAX);
                self.0.jobs.get_or_create(&queue).set(count);
            }
        }
    }

    pub(crate) fn lost_lease(&self) {
        self.0.lease_losses.inc();
    }

    pub(crate) fn broke_off(&self) {
        self.0.broke_off.inc();
    }
}

/// Follows the events of one session at work and counts what they tell.
pub(crate) struct Tally {
    metrics: Metrics,
    began: Option<Timestamp>,
    first: bool,
    /// By agent: since when a model is asked. Sub-agents ask beside each other.
    asked: BTreeMap<AgentPath, Timestamp>,
    tools: BTreeMap<CallId, Timestamp>,
}

impl Tally {
    pub(crate) fn new(metrics: Metrics) -> Self {
        Self { metrics, began: None, first: false, asked: BTreeMap::new(), tools: BTreeMap::new() }
    }

    pub(crate) fn count(&mut self, event: &Event) {
        let m = &self.metrics.0;
        let at = event.at;
        match &event.kind {
            EventKind::TurnStarted { .. } => {
                *self = Self { began: Some(at), ..Self::new(self.metrics.clone()) };
            }
            EventKind::AgentStarted { .. } => {
                self.asked.insert(event.agent.clone(), at);
            }
            EventKind::ModelRetry { delay_ms, .. } => {
                let again = at.plus(i64::try_from(*delay_ms).unwrap_or(0));
                self.asked.insert(event.agent.clone(), again);
            }
            EventKind::AssistantMessageResumed { .. } => {
                self.began.get_or_insert(at);
                self.first = true;
                self.asked.insert(event.agent.clone(), at);
            }
            EventKind::TextDelta { .. }
            | EventKind::ThinkingDelta { .. }
            | EventKind::ToolCallStarted { .. }
                if !self.first =>
            {
                self.first = true;
                if let Some(began) = self.began {
                    m.first_token.observe(passed(began, at));
                }
            }
            EventKind::ToolCallStatus { call, status: CallProgress::Running, .. } => {
                self.tools.insert(call.clone(), at);
            }
            EventKind::ToolCallCompleted { call, .. } | EventKind::ToolCallFailed { call, .. } => {
                let began = self.tools.remove(call);
                if self.tools.is_empty() {
                    // An empty map keeps room for eleven.
                    self.tools = BTreeMap::new();
                }
                if let Some(began) = began {
                    let step = Step { kind: StepKind::Tool };
                    m.step_time.get_or_create(&step).observe(passed(began, at));
                }
                self.asked.insert(event.agent.clone(), at);
            }
            EventKind::Usage { call, .. } => {
                let model = format!("{}:{}", call.provider, call.model);
                let name = ModelName { model: model.clone() };
                m.calls.get_or_create(&name).inc();
                m.cost.get_or_create(&name).inc_by(call.cost_micros.unwrap_or(0));
                let usage = &call.usage;
                for (kind, count) in [
                    (TokenKind::Input, usage.input),
                    (TokenKind::CacheRead, usage.cache_read),
                    (TokenKind::CacheWrite, usage.cache_write),
                    (TokenKind::Output, usage.output),
                ] {
                    let tokens = Tokens { model: model.clone(), kind };
                    m.tokens.get_or_create(&tokens).inc_by(count.unwrap_or(0));
                }
                // A summary comes before the call itself, and a tool's own calls are in the tool's time.
                let next = (call.purpose == Purpose::Summary).then_some(at);
                if call.purpose != Purpose::Tool
                    && let Some(began) = self.asked.remove(&event.agent)
                {
                    self.asked.extend(next.map(|at| (event.agent.clone(), at)));
                    let step = Step { kind: StepKind::Model };
                    m.step_time.get_or_create(&step).observe(passed(began, at));
                }
            }
            kind => {
                if let Some(outcome) = outcome_of(kind) {
                    let ended = Ended { outcome: end(&outcome) };
                    m.turns.get_or_create(&ended).inc();
                    if let Some(began) = self.began.take() {
                        m.turn_time.get_or_create(&ended).observe(passed(began, at));
                    }
                }
            }
        }
    }
}

fn passed(from: Timestamp, to: Timestamp) -> f64 {
    to.since(from) as f64 / 1000.0
}

fn end(outcome: &Outcome) -> End {
    match outcome {
        Outcome::Completed => End::Completed,
        Outcome::Paused => End::Paused,
        Outcome::Exhausted { .. } => End::Exhausted,
        Outcome::Error { .. } => End::Error,
        Outcome::Aborted { .. } => End::Aborted,
    }
}
