//! One run: from its beginning, or from where an interrupted turn goes on, to its end.

use super::Version;
use super::event::{AgEvent, By, Ending, Interrupt};
use super::write::{Page, Writer};
use crate::dto::TurnEnd;
use crate::live::{Dialect, Flow, Frames, Place, Told};
use crate::protocols::GONE;
use crate::protocols::shown::{Overlap, Shown, Unheard};
use crate::protocols::track::Track;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use turnbuckle_core::event::EventKind;
use turnbuckle_core::ids::{CallId, MessageId, TurnId};
use turnbuckle_core::json::Json;
use turnbuckle_core::message::{ApprovalCard, Asks, SystemBody, SystemMessage};
use turnbuckle_core::outcome::Outcome;

/// The names a client gave.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) thread: Arc<str>,
    pub(super) run: Arc<str>,
}

/// Where in its turn a run begins.
#[derive(Clone, Debug)]
pub(super) enum Since {
    /// At the turn's beginning; the client has nothing of it.
    Beginning,
    /// At the turn's beginning; the client may have some of it, and is first given the messages before the turn and this one, which
    /// opened it, in place of all it has.
    Anew(Option<Value>),
    /// Where the first of these cards is decided.
    Decision(BTreeSet<MessageId>),
}

/// A run being written.
pub(super) struct Run {
    names: Names,
    page: Page,
    since: Since,
    state: Map<String, Value>,
    track: Track,
    shown: Shown,
    /// Whether the run has begun in the turn's events.
    speaks: bool,
    over: bool,
}

impl Run {
    pub(super) fn new(names: Names, turn: TurnId, page: Page, since: Since, state: Value) -> Self {
        let state = match state {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        let speaks = !matches!(since, Since::Decision(_));
        let (track, shown) = (Track::new(turn), Shown::new(Overlap::Never));
        Self { names, page, since, state, track, shown, speaks, over: false }
    }

    fn writer<'a>(page: &'a mut Page, frames: &'a mut Frames) -> Writer<'a> {
        Writer { page, frames }
    }

    fn write(&mut self, frames: &mut Frames, event: &AgEvent) {
        Self::writer(&mut self.page, frames).write(event);
    }

    /// Everything that is open is closed, as it must be before the end.
    fn close(&mut self, frames: &mut Frames, cards: &[(MessageId, CallId)]) {
        let mut writer = Self::writer(&mut self.page, frames);
        if self.speaks {
            self.shown.close(self.track.messages(), &mut writer);
        }
        writer.suspend(cards);
    }

    fn fail(&mut self, frames: &mut Frames, code: &str, message: String) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        self.close(frames, &[]);
        let (code, usage) = (code.to_owned(), std::mem::take(&mut self.page.usage));
        self.write(frames, &AgEvent::RunError { message, code, usage });
    }

    fn finish(&mut self, frames: &mut Frames, outcome: Ending, result: Option<Value>) {
        self.over = true;
        let usage = std::mem::take(&mut self.page.usage);
        let event = finished(&self.names, self.page.version, outcome, result, usage);
        self.write(frames, &event);
    }

    /// What happened besides the messages.
    fn aside(&mut self, kind: &EventKind, frames: &mut Frames) {
        let name = match kind {
            EventKind::PlanUpdated { plan } => {
                self.state.insert("plan".to_owned(), (**plan).clone());
                let snapshot = Value::Object(self.state.clone());
                return self.write(frames, &AgEvent::StateSnapshot { snapshot });
            }
            EventKind::Usage { call, .. } => return self.page.metered(call),
            EventKind::RouteSelected { .. } => "route-selected",
            EventKind::ContextCompacted { .. } => "context-compacted",
            EventKind::ContextOverflowed { .. } => "context-overflowed",
            EventKind::TaskStarted { .. } => "task-started",
            EventKind::ModelRetry { .. } => "model-retry",
            EventKind::ModelReplaced { .. } => "model-replaced",
            EventKind::LinkSnapshots { .. } => "link-snapshots",
            EventKind::SessionTitleUpdated { .. } => "session-title-updated",
            _ => return,
        };
        let mut value = serde_json::to_value(kind).unwrap_or_default();
        if let Value::Object(fields) = &mut value {
            fields.remove("type");
        }
        self.write(frames, &AgEvent::Custom { name, value });
    }

    fn paused(&mut self, frames: &mut Frames) {
        let outcome = waiting(self.track.messages().pending_cards());
        let decisions: Vec<(MessageId, CallId)> = match &outcome {
            Ending::Interrupt { interrupts } => {
                interrupts.iter().map(|i| (i.id.clone(), i.tool_call_id.clone())).collect()
            }
            _ => Vec::new(),
        };
        let messages = self.page.messages(self.track.messages());
        self.close(frames, &decisions);
        if !self.state.is_empty() {
            let snapshot = Value::Object(self.state.clone());
            self.write(frames, &AgEvent::StateSnapshot { snapshot });
        }
        self.write(frames, &AgEvent::MessagesSnapshot { messages });
        self.finish(frames, outcome, None);
    }
}

impl Dialect for Run {
    fn begin(&mut self, frames: &mut Frames) {
        let event = started(&self.names, self.page.version);
        self.write(frames, &event);
        if let Since::Anew(question) = &mut self.since {
            let mut messages = self.page.history.clone();
            messages.extend(question.take());
            self.write(frames, &AgEvent::MessagesSnapshot { messages });
        }
    }

    fn event(&mut self, _: Place, told: &Told<'_>, frames: &mut Frames) -> Flow {
        let event = told.event;
        let check = match self.track.take(event) {
            Ok(Some(check)) => check,
            Ok(None) => return Flow::On,
            Err(error) => {
                tracing::error!(turn = %event.turn, "a turn cannot be written as AG-UI: {error}");
                self.fail(frames, "internal", format!("The stream cannot go on: {error}."));
                return Flow::End;
            }
        };
        if let (Since::Decision(cards), EventKind::ApprovalDecided { card, .. }) =
            (&self.since, &event.kind)
            && cards.contains(card)
        {
            self.speaks = true;
        }
        if self.speaks {
            let mut writer = Self::writer(&mut self.page, frames);
            self.shown.sync(self.track.messages(), check, &mut writer);
            self.aside(&event.kind, frames);
        } else {
            self.shown.sync(self.track.messages(), check, &mut Unheard);
        }
        Flow::On
    }

    fn stored(&mut self, seq: u64) {
        self.track.stored(seq);
    }

    fn turn_end(&mut self, end: &TurnEnd, frames: &mut Frames) {
        if self.over || end.turn != *self.track.turn() {
            return;
        }
        match &end.outcome {
            // It goes on by itself.
            Outcome::Paused if !end.idle => {}
            Outcome::Paused => self.paused(frames),
            Outcome::Completed => {
                self.close(frames, &[]);
                self.finish(frames, Ending::Success { pending_tool_call_ids: Vec::new() }, None);
            }
            Outcome::Exhausted { reason } => {
                self.close(frames, &[]);
                let result = json!({"exhausted": reason});
                let outcome = Ending::Success { pending_tool_call_ids: Vec::new() };
                self.finish(frames, outcome, Some(result));
            }
            Outcome::Error { error } => self.fail(frames, error.code(), error.to_string()),
            Outcome::Aborted { .. } => match self.page.version {
                Version::One => {
                    self.close(frames, &[]);
                    self.finish(frames, Ending::Cancelled, None);
                }
                // It knows no run that was cancelled.
                Version::Before => self.fail(frames, "abort", "The run was stopped.".to_owned()),
            },
        }
    }

    fn title(&mut self, title: &str, frames: &mut Frames) {
        if self.speaks && !self.over {
            self.aside(&EventKind::SessionTitleUpdated { title: title.to_owned() }, frames);
        }
    }

    fn deleted(&mut self, frames: &mut Frames) {
        self.fail(frames, "not_found", "The thread was deleted.".to_owned());
    }

    fn bye(&mut self, why: &'static str, frames: &mut Frames) {
        let what = format!(
            "The stream ends before the run does, since {why}: send the same input again to see how it goes on."
        );
        self.fail(frames, "stream_ended", what);
    }

    fn done(&mut self, frames: &mut Frames) {
        self.fail(frames, "turn_gone", GONE.to_owned());
    }
}

/// The first event of a run.
pub(super) fn started(names: &Names, version: Version) -> AgEvent {
    AgEvent::RunStarted {
        thread_id: names.thread.clone(),
        run_id: names.run.clone(),
        protocol_version: match version {
            Version::One => Some("1.0"),
            Version::Before => None,
        },
    }
}

/// The last event of a run.
pub(super) fn finished(
    names: &Names,
    version: Version,
    mut outcome: Ending,
    result: Option<Value>,
    usage: Vec<super::event::Tokens>,
) -> AgEvent {
    if let (Version::Before, Ending::Success { pending_tool_call_ids }) = (version, &mut outcome) {
        pending_tool_call_ids.clear();
    }
    AgEvent::RunFinished {
        thread_id: names.thread.clone(),
        run_id: names.run.clone(),
        result,
        outcome: Some(outcome),
        usage,
    }
}

/// How a run ends that waits for what these cards ask: people come first, then the client's own tools.
pub(super) fn waiting<'a>(cards: impl IntoIterator<Item = &'a SystemMessage>) -> Ending {
    let mut interrupts = Vec::new();
    let mut pending_tool_call_ids = Vec::new();
    for message in cards {
        let SystemBody::Approval(card) = &message.body else { continue };
        match card.asks {
            Asks::Decision => interrupts.push(interrupt(&message.id, card)),
            Asks::ClientResult => pending_tool_call_ids.push(card.call.clone()),
        }
    }
    match interrupts.is_empty() {
        true => Ending::Success { pending_tool_call_ids },
        false => Ending::Interrupt { interrupts },
    }
}

/// A card that asks for a decision as an interrupt.
fn interrupt(id: &MessageId, card: &ApprovalCard) -> Interrupt {
    let mut metadata = json!({"tool": card.tool, "title": card.title, "args": card.args});
    let optional: [(&str, Option<Value>); 3] = [
        ("digest", card.digest.as_deref().cloned()),
        ("agent", card.agent.as_ref().map(|agent| json!(agent))),
        ("editable", card.editable.as_deref().cloned()),
    ];
    if let Value::Object(fields) = &mut metadata {
        let there = optional.into_iter().filter_map(|(name, value)| Some((name, value?)));
        fields.extend(there.map(|(name, value)| (name.to_owned(), value)));
    }
    let asks = || format!("{} needs your approval.", card.title);
    Interrupt {
        id: id.clone(),
        reason: "tool_call",
        message: card.reason.clone().unwrap_or_else(asks),
        tool_call_id: card.call.clone(),
        response_schema: response_schema(card.editable.as_ref()),
        expires_at: card.expires_at,
        metadata,
        by: By { subagent_run_id: runs_in(&card.call) },
    }
}

/// The call that runs the agent that made a call, if it is a nested one.
fn runs_in(call: &CallId) -> Option<CallId> {
    call.as_str().rsplit_once('.').map(|(outer, _)| CallId::from(outer))
}

/// The JSON Schema of an answer to an interrupt.
fn response_schema(editable: Option<&Json>) -> Value {
    let mut schema = json!({
        "type": "object",
        "properties": {
            "approved": {"type": "boolean"},
            "reason": {"type": "string"},
        },
        "required": ["approved"],
    });
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    if let (Some(editable), Some(properties)) = (editable, properties) {
        properties.insert("editedArgs".to_owned(), (**editable).clone());
    }
    schema
}
