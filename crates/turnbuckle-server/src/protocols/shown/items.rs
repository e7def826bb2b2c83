//! What has been shown of a message: its parts, as far as they were told.

use super::change::{Change, Prose, ProseId, Scope, Sink, Unheard};
use super::visible;
use crate::protocols::track::Check;
use std::collections::BTreeMap;
use std::sync::Arc;
use turnbuckle_core::error::ToolError;
use turnbuckle_core::ids::{CallId, MessageId};
use turnbuckle_core::json::Json;
use turnbuckle_core::message::AssistantMessage;
use turnbuckle_core::part::{Part, TextPart, ToolCallPart, ToolCallStatus};

#[derive(Clone, Debug, Default)]
pub(super) struct ShownMessage {
    /// One for each part that clients see, in their order.
    pub(super) items: Vec<Item>,
    /// The model call whose parts are being shown.
    pub(super) step: Option<u32>,
    /// The last model call of which something was shown.
    pub(super) last: Option<u32>,
}

#[derive(Clone, Debug)]
pub(super) enum Item {
    Prose {
        id: ProseId,
        text: String,
        open: bool,
        /// Whether it was closed since its model call was done.
        done: bool,
    },
    Call(ShownCall),
    Input(Option<MessageId>),
}

#[derive(Clone, Debug)]
pub(super) struct ShownCall {
    pub(super) id: CallId,
    pub(super) iteration: u32,
    pub(super) sent: String,
    pub(super) ended: bool,
    pub(super) input: Option<Json>,
    pub(super) progress: usize,
    pub(super) settled: Option<(ToolCallStatus, Option<Json>, Option<ToolError>)>,
}

impl ShownMessage {
    /// The calls with the model calls that made them.
    pub(super) fn calls(&self) -> impl Iterator<Item = (&CallId, u32)> {
        self.items.iter().filter_map(|item| match item {
            Item::Call(call) => Some((&call.id, call.iteration)),
            _ => None,
        })
    }

    /// A part of which nothing was shown before.
    pub(super) fn begin(&mut self, scope: &Scope<'_>, part: &Part, sink: &mut dyn Sink) {
        let iteration = part.iteration();
        let nth = |kind| {
            let same = |item: &&Item| matches!(item, Item::Prose { id, .. } if id.iteration == iteration && id.kind == kind);
            self.items.iter().filter(same).count()
        };
        let prose = |kind| {
            let id = ProseId { iteration, nth: nth(kind), kind };
            Item::Prose { id, text: String::new(), open: false, done: false }
        };
        let item = match part {
            Part::Text(_) => prose(Prose::Text),
            Part::Thinking(_) => prose(Prose::Thinking),
            Part::ToolCall(call) => Item::Call(ShownCall::new(call)),
            Part::Input(input) => {
                sink.change(scope, Change::Steered(input));
                Item::Input(input.message.clone())
            }
            Part::Native(_) => return,
        };
        let of_a_step = !matches!(item, Item::Input(_));
        if of_a_step && self.last != Some(iteration) {
            self.close_prose(scope, sink);
            if self.step.take().is_some() {
                sink.change(scope, Change::StepEnded);
            }
            self.step = Some(iteration);
            self.last = Some(iteration);
            sink.change(scope, Change::StepBegan);
        }
        if let (Item::Call(_), Part::ToolCall(call)) = (&item, part) {
            sink.change(scope, Change::CallBegan(call));
        }
        self.items.push(item);
    }

    pub(super) fn close_prose(&mut self, scope: &Scope<'_>, sink: &mut dyn Sink) {
        for item in &mut self.items {
            if let Item::Prose { id, open, .. } = item
                && std::mem::take(open)
            {
                sink.change(scope, Change::Ended(*id));
            }
        }
    }
}

impl Item {
    pub(super) fn iteration(&self) -> u32 {
        match self {
            Item::Prose { id, .. } => id.iteration,
            Item::Call(call) => call.iteration,
            Item::Input(_) => u32::MAX,
        }
    }

    /// Whether a part is what was shown, or more of it.
    pub(super) fn fits(&self, part: &Part, check: Check) -> bool {
        let goes_on = |shown: &str, text: &str| match check {
            Check::Lengths => shown.len() <= text.len(),
            Check::Contents => text.starts_with(shown),
        };
        match (self, part) {
            (Item::Prose { id, text, .. }, Part::Text(part)) => {
                id.kind == Prose::Text && goes_on(text, &part.text)
            }
            (Item::Prose { id, text, .. }, Part::Thinking(part)) => {
                id.kind == Prose::Thinking && goes_on(text, &part.text)
            }
            (Item::Call(shown), Part::ToolCall(call)) => {
                shown.id == call.id
                    && goes_on(&shown.sent, &call.arguments)
                    && shown.settled.as_ref().is_none_or(|(status, output, error)| {
                        *status == call.status
                            && *error == call.error
                            && (check == Check::Lengths
                                || call.output.is_none()
                                || *output == call.output)
                    })
            }
            (Item::Input(id), Part::Input(input)) => *id == input.message,
            _ => false,
        }
    }

    /// A text grows, or ends.
    pub(super) fn prose(
        &mut self,
        scope: &Scope<'_>,
        part: &TextPart,
        goes_on: bool,
        sink: &mut dyn Sink,
    ) {
        let Item::Prose { id, text, open, done } = self else { return };
        if let Some(more) = part.text.get(text.len()..).filter(|more| !more.is_empty()) {
            if !std::mem::replace(open, true) {
                sink.change(scope, Change::Began(*id));
            }
            sink.change(scope, Change::More(*id, more));
            text.push_str(more);
        }
        if !goes_on && std::mem::take(open) {
            *done = true;
            sink.change(scope, Change::Ended(*id));
        }
    }
}

impl ShownCall {
    pub(super) fn new(call: &ToolCallPart) -> Self {
        Self {
            id: call.id.clone(),
            iteration: call.iteration,
            sent: String::new(),
            ended: false,
            input: None,
            progress: 0,
            settled: None,
        }
    }

    pub(super) fn update(
        &mut self,
        scope: &Scope<'_>,
        call: &ToolCallPart,
        running: bool,
        sink: &mut dyn Sink,
    ) {
        if !self.ended {
            let sent = self.sent.len();
            if let Some(more) = call.arguments.get(sent..).filter(|more| !more.is_empty()) {
                sink.change(scope, Change::ArgsMore(call, more));
                self.sent.push_str(more);
            }
            if !running || call.status != ToolCallStatus::Running || call.args.is_some() {
                self.ended = true;
                sink.change(scope, Change::ArgsEnded(&call.id));
            }
        }
        if let Some(args) = &call.args {
            let same = |known: &Json| Arc::ptr_eq(known, args) || known == args;
            if !self.input.as_ref().is_some_and(same) {
                self.input = Some(args.clone());
                sink.change(scope, Change::Input(call, args));
            }
        }
        for step in call.progress.iter().skip(self.progress) {
            sink.change(scope, Change::Progress(call, &step.data));
        }
        self.progress = self.progress.max(call.progress.len());
    }

    pub(super) fn settle(&mut self, scope: &Scope<'_>, call: &ToolCallPart, sink: &mut dyn Sink) {
        if self.settled.is_none() && call.status.is_settled() {
            self.settled = Some((call.status, call.output.clone(), call.error.clone()));
            sink.change(scope, Change::Settled(call));
        }
    }
}

/// A message of which all counts as shown. Which step is open is known from before.
pub(super) fn adopt(
    message: &AssistantMessage,
    before: &BTreeMap<MessageId, ShownMessage>,
    all: &mut BTreeMap<MessageId, ShownMessage>,
) {
    let mut shown = ShownMessage::default();
    let scope = Scope { message, inside: None };
    for part in visible(message) {
        shown.begin(&scope, part, &mut Unheard);
        match (shown.items.last_mut(), part) {
            (Some(Item::Prose { text, .. }), Part::Text(part) | Part::Thinking(part)) => {
                text.clone_from(&part.text);
            }
            (Some(Item::Call(shown)), Part::ToolCall(call)) => {
                shown.sent.clone_from(&call.arguments);
                shown.ended = true;
                shown.input.clone_from(&call.args);
                shown.progress = call.progress.len();
                if call.status.is_settled() {
                    shown.settled = Some((call.status, call.output.clone(), call.error.clone()));
                }
            }
            _ => {}
        }
        if let Part::ToolCall(call) = part
            && let Some(child) = &call.child
        {
            adopt(child, before, all);
        }
    }
    shown.step = before.get(&message.id).and_then(|known| known.step);
    all.insert(message.id.clone(), shown);
}
