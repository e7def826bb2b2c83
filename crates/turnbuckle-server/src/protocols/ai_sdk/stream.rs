//! One answer as a UI message stream: from its beginning, or from where it goes on after an approval.

use super::chunk::{Chunk, DONE, Reason, aside};
use super::messages::{self, Ending, descriptor, ending};
use super::{ClientTools, Profile};
use crate::dto::TurnEnd;
use crate::live::{Dialect, Flow, Frames, Place, Told};
use crate::protocols::GONE;
use crate::protocols::shown::{
    BrokenAt, Change, Mend, Overlap, Prose, ProseId, Scope, Shown, Sink,
};
use crate::protocols::track::Track;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use turnbuckle_core::event::EventKind;
use turnbuckle_core::fold::TurnFold;
use turnbuckle_core::ids::{CallId, MessageId, TurnId};
use turnbuckle_core::json::Json;
use turnbuckle_core::message::{ApprovalCard, Asks, CardStatus};
use turnbuckle_core::outcome::{ExhaustedReason, Outcome};
use turnbuckle_core::part::{InputPart, ToolCallPart};

/// Where in its turn a stream begins.
#[derive(Clone, Debug)]
pub(super) enum Since {
    /// At the beginning.
    Beginning,
    /// Where the first of these cards is decided; the client has what was before.
    Decision(BTreeSet<MessageId>),
}

/// An answer being written.
pub(super) struct Stream {
    page: Page,
    since: Since,
    track: Track,
    shown: Shown,
    over: bool,
}

/// Which step of its message the client has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    None,
    /// That of a model call.
    Call,
    /// One for what nested agents ask, within that of a model call.
    Asked,
    /// The same, when that of the model call is over.
    AskedAlone,
}

/// What a stream knows besides the turn.
struct Page {
    profile: Profile,
    /// The tools that the client runs.
    tools: ClientTools,
    /// The calls that the client knows; of others nothing may be said.
    announced: BTreeSet<CallId>,
    /// The open step of what is written.
    step: Step,
    /// The model call in which nested agents asked last. What they ask has a step of its own, one for each model call: clients
    /// look at the last step to see whether all is answered, and in that of the model call the nested agent's own call is not.
    asked_in: Option<u32>,
    /// Whether the stream has begun in the turn's events.
    speaks: bool,
    /// Whether the client is told of answers to cards: it gave those since which it reads.
    tells_answers: bool,
    /// Whether the client shows what is not so, and could not be told.
    wrong: bool,
}

impl Stream {
    pub(super) fn new(profile: Profile, turn: TurnId, since: Since, tools: ClientTools) -> Self {
        let speaks = matches!(since, Since::Beginning);
        let announced = BTreeSet::new();
        let page = Page {
            profile,
            tools,
            announced,
            step: Step::None,
            asked_in: None,
            speaks,
            tells_answers: speaks,
            wrong: false,
        };
        Self { page, since, track: Track::new(turn), shown: Shown::new(Overlap::Free), over: false }
    }

    fn close(&mut self, frames: &mut Frames) {
        let mut writer = Writer { page: &mut self.page, frames };
        self.shown.close(self.track.messages(), &mut writer);
    }

    /// The stream ends with these.
    fn end(&mut self, frames: &mut Frames, last: &[Chunk]) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        self.close(frames);
        Writer { page: &mut self.page, frames }.end_step();
        if self.page.wrong
            && let Some(message) = &self.track.messages().assistant
        {
            let cards = messages::cards(&self.track.messages().cards);
            let whole = messages::of_assistant(message, &cards, &self.page.tools);
            frames.data(&aside("message", &whole).to_string());
        }
        for chunk in last {
            write(frames, chunk);
        }
        frames.data(DONE);
    }

    fn metadata(&self, outcome: &Outcome) -> Value {
        let message = self.track.messages().assistant.as_ref();
        let usage = message.map(|message| message.usage()).unwrap_or_default();
        json!({
            "turn": self.track.turn(),
            "outcome": outcome,
            "usage": {
                "inputTokens": usage.prompt(),
                "outputTokens": usage.output.unwrap_or(0),
            },
        })
    }

    /// What happened besides the message.
    fn tell(&mut self, kind: &EventKind, frames: &mut Frames) {
        let name = match kind {
            EventKind::PlanUpdated { .. } => "plan",
            EventKind::RouteSelected { .. } => "route-selected",
            EventKind::ContextCompacted { .. } => "context-compacted",
            EventKind::ContextOverflowed { .. } => "context-overflowed",
            EventKind::TaskStarted { .. } => "task-started",
            EventKind::ModelRetry { .. } => "model-retry",
            EventKind::ModelReplaced { .. } => "model-replaced",
            EventKind::LinkSnapshots { .. } => "link-snapshots",
            EventKind::SessionTitleUpdated { .. } => "session-title",
            _ => return,
        };
        let mut data = serde_json::to_value(kind).unwrap_or_default();
        if let Value::Object(fields) = &mut data {
            fields.remove("type");
        }
        frames.data(&aside(name, &data).to_string());
    }
}

impl Dialect for Stream {
    fn begin(&mut self, frames: &mut Frames) {
        let turn = self.track.turn();
        let message_metadata = json!({"turn": turn});
        write(frames, &Chunk::Start { message_id: turn.assistant_message(), message_metadata });
    }

    fn event(&mut self, _: Place, told: &Told<'_>, frames: &mut Frames) -> Flow {
        let event = told.event;
        let check = match self.track.take(event) {
            Ok(Some(check)) => check,
            Ok(None) => return Flow::On,
            Err(error) => {
                tracing::error!(turn = %event.turn, "a turn cannot be written as chunks: {error}");
                let error_text = format!("The stream cannot go on: {error}.");
                self.end(frames, &[Chunk::Error { error_text }]);
                return Flow::End;
            }
        };
        if let EventKind::TurnStarted { message, .. } = &event.kind {
            self.page.tools.offer(message);
        }
        if let (Since::Decision(cards), EventKind::ApprovalDecided { card, .. }) =
            (&self.since, &event.kind)
            && cards.contains(card)
            && !self.page.speaks
        {
            self.page.speaks = true;
            // The stream that the client read before ended every step.
            self.page.step = Step::None;
        }
        let mut writer = Writer { page: &mut self.page, frames };
        self.shown.sync(self.track.messages(), check, &mut writer);
        if self.page.speaks {
            self.tell(&event.kind, frames);
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
        let message_metadata = self.metadata(&end.outcome);
        let finish = |finish_reason| Chunk::Finish { finish_reason, message_metadata };
        match &end.outcome {
            // It goes on by itself.
            Outcome::Paused if !end.idle => {}
            Outcome::Paused => self.end(frames, &[finish(Reason::ToolCalls)]),
            Outcome::Completed => self.end(frames, &[finish(Reason::Stop)]),
            Outcome::Exhausted { reason: ExhaustedReason::OutputLimit } => {
                self.end(frames, &[finish(Reason::Length)]);
            }
            Outcome::Exhausted { .. } => self.end(frames, &[finish(Reason::Other)]),
            Outcome::Error { error } => {
                self.end(frames, &[Chunk::Error { error_text: error.to_string() }]);
            }
            Outcome::Aborted { .. } => {
                let reason = match self.page.profile {
                    Profile::V6 => Reason::Other,
                    Profile::V7 => Reason::Interrupted,
                };
                self.end(frames, &[Chunk::Abort { reason: "stopped" }, finish(reason)]);
            }
        }
    }

    fn title(&mut self, title: &str, frames: &mut Frames) {
        if self.page.speaks && !self.over {
            self.tell(&EventKind::SessionTitleUpdated { title: title.to_owned() }, frames);
        }
    }

    fn deleted(&mut self, frames: &mut Frames) {
        let error_text = "The chat was deleted.".to_owned();
        self.end(frames, &[Chunk::Error { error_text }]);
    }

    fn bye(&mut self, why: &'static str, frames: &mut Frames) {
        // An end without `finish` would look like success.
        let error_text = format!("The stream ends before the answer does, since {why}: resume it.");
        self.end(frames, &[Chunk::Error { error_text }]);
    }

    fn done(&mut self, frames: &mut Frames) {
        self.end(frames, &[Chunk::Error { error_text: GONE.to_owned() }]);
    }
}

fn write(frames: &mut Frames, chunk: &Chunk) {
    // Our own types always have JSON.
    frames.data(&serde_json::to_string(chunk).unwrap_or_default());
}

/// Writes chunks.
struct Writer<'a> {
    page: &'a mut Page,
    frames: &'a mut Frames,
}

impl Writer<'_> {
    fn write(&mut self, chunk: &Chunk) {
        if self.page.speaks {
            write(self.frames, chunk);
        }
    }

    /// Whether a call is shown as one of the server's.
    fn dynamic(&self, scope: &Scope<'_>, call: &ToolCallPart) -> bool {
        !self.page.tools.has(&scope.message.agent, &call.name)
    }

    fn announced(&self, call: &ToolCallPart) -> bool {
        self.page.announced.contains(&call.id)
    }

    fn prose(&mut self, id: ProseId, chunk: impl FnOnce(String, Prose) -> Chunk) {
        let ProseId { iteration, nth, kind } = id;
        let name = match kind {
            Prose::Text => format!("text-{iteration}-{nth}"),
            Prose::Thinking => format!("reasoning-{iteration}-{nth}"),
        };
        self.write(&chunk(name, kind));
    }

    /// Begins the step in which a nested agent asks, unless it has begun.
    fn begin_asking(&mut self, scope: &Scope<'_>) {
        let mut outermost = None;
        let mut at = scope;
        while let Some((call, outer)) = at.inside {
            outermost = Some(call.iteration);
            at = outer;
        }
        if outermost.is_none() || self.page.asked_in == outermost {
            return;
        }
        self.page.asked_in = outermost;
        self.page.step = match self.page.step {
            Step::Call | Step::Asked => {
                self.write(&Chunk::FinishStep);
                Step::Asked
            }
            Step::None | Step::AskedAlone => {
                self.end_step();
                Step::AskedAlone
            }
        };
        self.write(&Chunk::StartStep);
    }

    /// Ends a step that no model call ends.
    fn end_step(&mut self) {
        if self.page.step == Step::AskedAlone {
            self.write(&Chunk::FinishStep);
            self.page.step = Step::None;
        }
    }

    fn asked(
        &mut self,
        scope: &Scope<'_>,
        call: &ToolCallPart,
        id: &MessageId,
        card: &ApprovalCard,
    ) {
        // Of a nested agent's calls the client learns when it is asked: for a decision, or for the result of a tool of its own.
        let begins = !self.announced(call);
        if begins {
            self.begin_asking(scope);
            self.page.announced.insert(call.id.clone());
        }
        let title = || Some(format!("{}: {}", scope.message.agent, card.title));
        let dynamic = self.dynamic(scope, call);
        match card.asks {
            Asks::ClientResult => {
                let title = if scope.inside.is_some() { title() } else { None };
                return self.input(call, &card.args, dynamic && !begins, title);
            }
            Asks::Decision if dynamic && begins => self.input(call, &card.args, true, title()),
            Asks::Decision if !dynamic => self.show_input(call, &card.args, begins),
            Asks::Decision => {}
        }
        self.write(&Chunk::ToolApprovalRequest {
            approval_id: id.clone(),
            tool_call_id: call.id.clone(),
            approval_descriptor: descriptor(card),
            reason: match self.page.profile {
                Profile::V6 => None,
                Profile::V7 => card.reason.clone(),
            },
        });
    }

    /// All of a call's input is there. A client runs a tool of its own when it is told so.
    fn input(&mut self, call: &ToolCallPart, input: &Json, dynamic: bool, title: Option<String>) {
        self.write(&Chunk::ToolInputAvailable {
            tool_call_id: call.id.clone(),
            tool_name: call.name.clone(),
            input: input.clone(),
            dynamic,
            title,
        });
    }

    /// Shows the input of a tool that the client must not run yet, unless it is what the client has from the deltas.
    fn show_input(&mut self, call: &ToolCallPart, input: &Json, begins: bool) {
        let told = serde_json::from_str::<Value>(&call.arguments).ok();
        if !begins && told.as_ref() == Some(&**input) {
            return;
        }
        let (tool_call_id, tool_name) = (call.id.clone(), call.name.clone());
        self.write(&Chunk::ToolInputStart { tool_call_id, tool_name, dynamic: false });
        let (tool_call_id, input_text_delta) = (call.id.clone(), input.to_string());
        self.write(&Chunk::ToolInputDelta { tool_call_id, input_text_delta });
    }

    fn decided(&mut self, call: &ToolCallPart, id: &MessageId, card: &ApprovalCard) {
        let tells = self.page.tells_answers && self.page.profile == Profile::V7;
        if !tells || card.asks != Asks::Decision || !self.announced(call) {
            return;
        }
        self.write(&Chunk::ToolApprovalResponse {
            approval_id: id.clone(),
            approved: card.status == CardStatus::Approved,
            reason: card.decided.as_ref().and_then(|decided| decided.reason.clone()),
        });
    }

    fn settled(&mut self, scope: &Scope<'_>, call: &ToolCallPart) {
        if !self.announced(call) {
            return;
        }
        let tool_call_id = call.id.clone();
        match ending(call) {
            Some(Ending::Given(output)) => {
                let output = output.into();
                self.write(&Chunk::ToolOutputAvailable { tool_call_id, output });
            }
            Some(Ending::Denied) => self.write(&Chunk::ToolOutputDenied { tool_call_id }),
            Some(Ending::Failed(error_text)) if call.args.is_none() => {
                let dynamic = self.dynamic(scope, call);
                self.write(&Chunk::ToolInputError {
                    tool_call_id,
                    tool_name: call.name.clone(),
                    input: call.arguments.clone(),
                    error_text,
                    dynamic,
                });
            }
            Some(Ending::Failed(error_text)) => {
                self.write(&Chunk::ToolOutputError { tool_call_id, error_text });
            }
            None => {}
        }
    }

    fn steered(&mut self, input: &InputPart) {
        let text = input.content.outline();
        match (self.page.profile, &input.message) {
            (Profile::V7, Some(id)) => {
                let parts = vec![json!({"type": "text", "text": text})];
                self.write(&Chunk::SteeringMessage { id: id.to_string(), parts });
            }
            _ if self.page.speaks => {
                let chunk = json!({"type": "data-steering", "data": {"text": text}});
                self.frames.data(&chunk.to_string());
            }
            _ => {}
        }
    }
}

impl Sink for Writer<'_> {
    fn change(&mut self, scope: &Scope<'_>, change: Change<'_>) {
        let outermost = scope.inside.is_none();
        match change {
            Change::Asked(call, id, card) => self.asked(scope, call, id, card),
            Change::Decided(call, id, card) => self.decided(call, id, card),
            Change::Settled(call) => self.settled(scope, call),
            // A client would run its tool at once: it is told when its result is asked for, behind any approval.
            Change::Input(call, _) if !self.dynamic(scope, call) => {}
            // What people were asked about runs with other arguments.
            Change::Input(call, input) if !outermost && self.announced(call) => {
                self.input(call, input, true, None);
            }
            // Of what nested agents do, only what people and the client are asked for is shown.
            _ if !outermost => {}
            Change::StepBegan => {
                self.end_step();
                self.write(&Chunk::StartStep);
                self.page.step = Step::Call;
            }
            Change::StepEnded => {
                self.write(&Chunk::FinishStep);
                self.page.step = Step::None;
            }
            Change::Began(id) => self.prose(id, |id, kind| match kind {
                Prose::Text => Chunk::TextStart { id },
                Prose::Thinking => Chunk::ReasoningStart { id },
            }),
            Change::More(id, text) => self.prose(id, |id, kind| match kind {
                Prose::Text => Chunk::TextDelta { id, delta: text.to_owned() },
                Prose::Thinking => Chunk::ReasoningDelta { id, delta: text.to_owned() },
            }),
            Change::Ended(id) => self.prose(id, |id, kind| match kind {
                Prose::Text => Chunk::TextEnd { id },
                Prose::Thinking => Chunk::ReasoningEnd { id },
            }),
            Change::CallBegan(call) => {
                self.page.announced.insert(call.id.clone());
                let dynamic = self.dynamic(scope, call);
                self.write(&Chunk::ToolInputStart {
                    tool_call_id: call.id.clone(),
                    tool_name: call.name.clone(),
                    dynamic,
                });
            }
            Change::ArgsMore(call, text) => self.write(&Chunk::ToolInputDelta {
                tool_call_id: call.id.clone(),
                input_text_delta: text.to_owned(),
            }),
            Change::ArgsEnded(_) => {}
            Change::Input(call, input) => self.input(call, input, true, None),
            Change::Progress(call, data) => {
                if self.page.speaks {
                    let data = json!({"toolCallId": call.id, "data": data});
                    self.frames.data(&aside("tool-progress", &data).to_string());
                }
            }
            Change::Steered(input) => self.steered(input),
        }
    }

    fn broken(&mut self, _: &TurnFold, step: BrokenAt) -> Mend {
        match (self.page.profile, step) {
            (Profile::V7, BrokenAt::OpenStep) if self.page.step != Step::Asked => {
                self.write(&Chunk::ResetStep);
                Mend::RedoStep
            }
            _ => {
                self.page.wrong |= self.page.speaks;
                Mend::Adopt
            }
        }
    }
}
