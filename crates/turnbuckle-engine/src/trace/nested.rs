//! Spans of nested agents. Each lies in that of the agent whose call runs it, the outermost ones in the turn's; what a nested
//! agent does lies in its own.

use super::{invoked, turn_ended};
use crate::domain::TurnInfo;
use std::collections::BTreeMap;
use tracing::Span;
use turnbuckle_core::event::{AgentPath, Event, EventKind};
use turnbuckle_core::message::MessageState;

/// The nested agents at work in a turn, by their paths.
#[derive(Debug, Default)]
pub(crate) struct Nested(BTreeMap<AgentPath, Span>);

impl Nested {
    /// An agent is about to do something. A nested one gets a span, unless it has one.
    pub(crate) fn begin(&mut self, info: &TurnInfo, epoch: u32, path: &AgentPath) {
        // The outermost agents, which are most of all, have that of the turn.
        let Some((outer, own)) = path.rsplit_once('/') else { return };
        if self.0.contains_key(path) {
            return;
        }
        let outer = AgentPath::from(outer);
        self.begin(info, epoch, &outer);
        let (call, agent) = own.split_once(':').unwrap_or(("", own));
        let make = || {
            let span = invoked(info, agent, epoch);
            span.record("call", call);
            span
        };
        let span = within(self.0.get(&outer), make);
        self.0.insert(path.clone(), span);
    }

    /// The span in which an agent's doings lie, other than the current one.
    pub(crate) fn of(&self, path: &AgentPath) -> Option<Span> {
        if self.0.is_empty() { None } else { self.0.get(path).cloned() }
    }

    /// What happened may be the end of one.
    pub(crate) fn note(&mut self, event: &Event) {
        if self.0.is_empty() {
            return;
        }
        match &event.kind {
            EventKind::AssistantMessageFinished { message } => {
                if let MessageState::Finished { outcome } = &message.state
                    && let Some(span) = self.0.remove(&event.agent)
                {
                    turn_ended(&span, outcome, &message.usage());
                }
            }
            // They go on in the next span of the turn.
            EventKind::TurnPaused { .. } => {
                for span in std::mem::take(&mut self.0).into_values() {
                    span.record("outcome", "paused");
                }
            }
            _ => {}
        }
    }
}

/// Makes a span within another, when there is one.
pub(crate) fn within(outer: Option<&Span>, make: impl FnOnce() -> Span) -> Span {
    match outer {
        Some(outer) => outer.in_scope(make),
        None => make(),
    }
}
