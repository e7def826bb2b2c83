//! What a client has been shown of a turn, and what is new to it.
//!
//! The protocols of others can only add: a part is opened, grows and is closed. Here is decided what is added, so that every
//! part is opened before it grows and closed once, whatever the turn does. What cannot be said by adding is put to the protocol,
//! which knows how to mend it, see [`Sink::broken`].

use super::track::Check;
use std::collections::BTreeMap;
use std::sync::Arc;
use turnbuckle_core::error::ToolError;
use turnbuckle_core::fold::TurnFold;
use turnbuckle_core::ids::{CallId, MessageId};
use turnbuckle_core::json::Json;
use turnbuckle_core::message::{
    ApprovalCard, AssistantMessage, CardStatus, MessageState, SystemBody,
};
use turnbuckle_core::part::{InputKind, InputPart, Part, TextPart, ToolCallPart, ToolCallStatus};
use turnbuckle_core::usage::{IterationUsage, Purpose};

/// A message with its place among the agents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    /// The message.
    pub(crate) message: &'a AssistantMessage,
    /// The call that runs the agent, and the message that holds the call; absent for the outermost.
    pub(crate) inside: Option<(&'a ToolCallPart, &'a Scope<'a>)>,
}

/// Text for the reader, or the model's reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prose {
    /// Text.
    Text,
    /// Reasoning.
    Thinking,
}

/// Which text or reasoning of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProseId {
    /// The model call that made it.
    pub(crate) iteration: u32,
    /// How many of its kind that call made before.
    pub(crate) nth: usize,
    /// Which kind.
    pub(crate) kind: Prose,
}

/// What is new.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change<'a> {
    /// A model call begins to show.
    StepBegan,
    /// All of it has been shown.
    StepEnded,
    /// A text begins, or goes on after it was closed.
    Began(ProseId),
    /// More of it.
    More(ProseId, &'a str),
    /// It ends.
    Ended(ProseId),
    /// A call begins.
    CallBegan(&'a ToolCallPart),
    /// More of its arguments as the model writes them.
    ArgsMore(&'a ToolCallPart, &'a str),
    /// The model has written them all, or they are taken back.
    ArgsEnded(&'a CallId),
    /// The arguments that run, known now or changed since.
    Input(&'a ToolCallPart, &'a Json),
    /// A running call reports.
    Progress(&'a ToolCallPart, &'a Json),
    /// A card asks about a call.
    Asked(&'a ToolCallPart, &'a MessageId, &'a ApprovalCard),
    /// A card has its answer.
    Decided(&'a ToolCallPart, &'a MessageId, &'a ApprovalCard),
    /// A call has its result.
    Settled(&'a ToolCallPart),
    /// A person wrote in the middle.
    Steered(&'a InputPart),
}

/// How what was shown is brought in line with what is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mend {
    /// The client has been told otherwise, or cannot be told: all that there is counts as shown.
    Adopt,
    /// Nothing of the step that is open counts as shown any more.
    RedoStep,
}

/// A protocol's side.
pub(crate) trait Sink {
    /// Something is new in a message.
    fn change(&mut self, scope: &Scope<'_>, change: Change<'_>);

    /// What was shown is not what is. Nothing is open any more when this is called.
    fn broken(&mut self, turn: &TurnFold, step: BrokenAt) -> Mend;
}

/// Where what was shown differs from what is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BrokenAt {
    /// In the outermost message's open step, and not before.
    OpenStep,
    /// Before, or in a nested message.
    Earlier,
}

/// Whether a text may be open while another part grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overlap {
    /// It is closed when the next part begins, and opened again when it goes on.
    Never,
    /// It is closed when its model call is done.
    Free,
}

/// What has been shown.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    overlap: Overlap,
    messages: BTreeMap<MessageId, ShownMessage>,
    cards: BTreeMap<MessageId, CardStatus>,
}

#[derive(Clone, Debug, Default)]
struct ShownMessage {
    /// One for each part that clients see, in their order.
    items: Vec<Item>,
    /// The model call whose parts are being shown.
    step: Option<u32>,
    /// The last model call of which something was shown.
    last: Option<u32>,
}

#[derive(Clone, Debug)]
enum Item {
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
struct ShownCall {
    id: CallId,
    iteration: u32,
    sent: String,
    ended: bool,
    input: Option<Json>,
    progress: usize,
    settled: Option<(ToolCallStatus, Option<Json>, Option<ToolError>)>,
}

impl Shown {
    /// Nothing yet.
    pub(crate) fn new(overlap: Overlap) -> Self {
        Self { overlap, messages: BTreeMap::new(), cards: BTreeMap::new() }
    }

    /// Tells the sink what is new.
    pub(crate) fn sync(&mut self, turn: &TurnFold, check: Check, sink: &mut dyn Sink) {
        let Some(root) = &turn.assistant else {
            if !self.messages.is_empty() {
                self.mend(turn, None, sink);
            }
            return;
        };
        let scope = Scope { message: root, inside: None };
        if let Some(broken) = self.first_break(&scope, check) {
            self.close_all(turn, sink);
            self.mend(turn, Some(broken), sink);
        }
        self.message(&scope, sink);
        self.cards(turn, sink);
    }

    /// Ends whatever is open.
    pub(crate) fn close(&mut self, turn: &TurnFold, sink: &mut dyn Sink) {
        self.close_all(turn, sink);
        if let Some(root) = &turn.assistant {
            let scope = Scope { message: root, inside: None };
            if let Some(shown) = self.messages.get_mut(&root.id)
                && shown.step.take().is_some()
            {
                sink.change(&scope, Change::StepEnded);
            }
        }
    }

    fn mend(&mut self, turn: &TurnFold, broken: Option<(MessageId, usize)>, sink: &mut dyn Sink) {
        let root = turn.assistant.as_ref().map(|message| &message.id);
        let place = match (&broken, root) {
            (Some((id, index)), Some(root)) if id == root => {
                let shown = self.messages.get(id);
                let step = shown.and_then(|shown| shown.step);
                let open = shown.and_then(|shown| {
                    shown.items.iter().position(|item| Some(item.iteration()) == step)
                });
                match open {
                    Some(begin) if *index >= begin => BrokenAt::OpenStep,
                    _ => BrokenAt::Earlier,
                }
            }
            _ => BrokenAt::Earlier,
        };
        match (sink.broken(turn, place), root.and_then(|root| self.messages.get_mut(root))) {
            (Mend::RedoStep, Some(shown)) if place == BrokenAt::OpenStep => {
                let step = shown.step;
                let gone = |item: &Item| Some(item.iteration()) == step;
                let calls: Vec<CallId> = shown
                    .calls()
                    .filter(|(_, i)| Some(*i) == step)
                    .map(|(id, _)| id.clone())
                    .collect();
                shown.items.retain(|item| !gone(item));
                let of = |id: &MessageId| {
                    calls.iter().any(|call| id.as_str().starts_with(call.as_str()))
                };
                self.messages.retain(|id, _| !of(id));
                self.cards.retain(|id, _| !of(id));
            }
            _ => self.adopt(turn),
        }
    }

    /// All that there is counts as shown.
    fn adopt(&mut self, turn: &TurnFold) {
        let mut messages = BTreeMap::new();
        if let Some(root) = &turn.assistant {
            adopt(root, &self.messages, &mut messages);
        }
        self.messages = messages;
    }

    fn first_break(&self, scope: &Scope<'_>, check: Check) -> Option<(MessageId, usize)> {
        let shown = self.messages.get(&scope.message.id)?;
        let mut parts = visible(scope.message);
        for (index, item) in shown.items.iter().enumerate() {
            let goes_on = |part| item.fits(part, check) && self.may_grow(item, part);
            if !parts.next().is_some_and(goes_on) {
                return Some((scope.message.id.clone(), index));
            }
        }
        for call in scope.message.calls() {
            if let Some(child) = &call.child {
                let inner = Scope { message: child, inside: Some((call, scope)) };
                if let Some(broken) = self.first_break(&inner, check) {
                    return Some(broken);
                }
            }
        }
        None
    }

    /// Whether what is new in a text can be said. A text that is never closed for another is a part of its own, and cannot be
    /// opened again.
    fn may_grow(&self, item: &Item, part: &Part) -> bool {
        match (item, part) {
            (Item::Prose { text, done: true, .. }, Part::Text(part) | Part::Thinking(part)) => {
                self.overlap == Overlap::Never || text.len() == part.text.len()
            }
            _ => true,
        }
    }

    fn close_all(&mut self, turn: &TurnFold, sink: &mut dyn Sink) {
        if let Some(root) = &turn.assistant {
            let scope = Scope { message: root, inside: None };
            self.close_message(&scope, sink);
        }
    }

    fn close_message(&mut self, scope: &Scope<'_>, sink: &mut dyn Sink) {
        if let Some(shown) = self.messages.get_mut(&scope.message.id) {
            shown.close_prose(scope, sink);
            for item in &mut shown.items {
                if let Item::Call(shown) = item
                    && !std::mem::replace(&mut shown.ended, true)
                {
                    sink.change(scope, Change::ArgsEnded(&shown.id));
                }
            }
        }
        for call in scope.message.calls() {
            if let Some(child) = &call.child {
                let inner = Scope { message: child, inside: Some((call, scope)) };
                self.close_message(&inner, sink);
            }
        }
    }

    fn message(&mut self, scope: &Scope<'_>, sink: &mut dyn Sink) {
        let (message, overlap) = (scope.message, self.overlap);
        let shown = self.messages.entry(message.id.clone()).or_default();
        let running = matches!(message.state, MessageState::Running);
        let said = said(message);
        let mut parts = visible(message).enumerate().peekable();
        while let Some((index, part)) = parts.next() {
            if index == shown.items.len() {
                if overlap == Overlap::Never {
                    shown.close_prose(scope, sink);
                }
                shown.begin(scope, part, sink);
            }
            let still = running && said.is_none_or(|said| said < part.iteration());
            match (shown.items.get_mut(index), part) {
                (Some(item @ Item::Prose { .. }), Part::Text(text) | Part::Thinking(text)) => {
                    let may_stay = parts.peek().is_none() || overlap == Overlap::Free;
                    item.prose(scope, text, still && may_stay, sink);
                }
                (Some(Item::Call(shown)), Part::ToolCall(call)) => {
                    shown.update(scope, call, running, sink);
                }
                _ => {}
            }
        }
        if !running && shown.step.take().is_some() {
            sink.change(scope, Change::StepEnded);
        }
        for call in message.calls() {
            if let Some(child) = &call.child {
                let inner = Scope { message: child, inside: Some((call, scope)) };
                self.message(&inner, sink);
            }
        }
        // What came of a call is told after all that its own agent said.
        let Some(shown) = self.messages.get_mut(&message.id) else { return };
        for (item, part) in shown.items.iter_mut().zip(visible(message)) {
            if let (Item::Call(shown), Part::ToolCall(call)) = (item, part) {
                shown.settle(scope, call, sink);
            }
        }
    }

    fn cards(&mut self, turn: &TurnFold, sink: &mut dyn Sink) {
        let Some(root) = &turn.assistant else { return };
        for card in &turn.cards {
            let SystemBody::Approval(body) = &card.body else { continue };
            let known = self.cards.get(&card.id).copied();
            if known == Some(body.status) {
                continue;
            }
            let scope = Scope { message: root, inside: None };
            let found = with_call(&scope, &body.call, &mut |scope, call| {
                if known.is_none() {
                    sink.change(scope, Change::Asked(call, &card.id, body));
                }
                if body.status != CardStatus::Pending {
                    sink.change(scope, Change::Decided(call, &card.id, body));
                }
            });
            if found {
                self.cards.insert(card.id.clone(), body.status);
            }
        }
        if self.cards.len() > turn.cards.len() {
            self.cards.retain(|id, _| turn.cards.iter().any(|card| card.id == *id));
        }
    }
}

impl ShownMessage {
    /// The calls with the model calls that made them.
    fn calls(&self) -> impl Iterator<Item = (&CallId, u32)> {
        self.items.iter().filter_map(|item| match item {
            Item::Call(call) => Some((&call.id, call.iteration)),
            _ => None,
        })
    }

    /// A part of which nothing was shown before.
    fn begin(&mut self, scope: &Scope<'_>, part: &Part, sink: &mut dyn Sink) {
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

    fn close_prose(&mut self, scope: &Scope<'_>, sink: &mut dyn Sink) {
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
    fn iteration(&self) -> u32 {
        match self {
            Item::Prose { id, .. } => id.iteration,
            Item::Call(call) => call.iteration,
            Item::Input(_) => u32::MAX,
        }
    }

    /// Whether a part is what was shown, or more of it.
    fn fits(&self, part: &Part, check: Check) -> bool {
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
    fn prose(&mut self, scope: &Scope<'_>, part: &TextPart, goes_on: bool, sink: &mut dyn Sink) {
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
    fn new(call: &ToolCallPart) -> Self {
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

    fn update(
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

    fn settle(&mut self, scope: &Scope<'_>, call: &ToolCallPart, sink: &mut dyn Sink) {
        if self.settled.is_none() && call.status.is_settled() {
            self.settled = Some((call.status, call.output.clone(), call.error.clone()));
            sink.change(scope, Change::Settled(call));
        }
    }
}

/// A message of which all counts as shown. Which step is open is known from before.
fn adopt(
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

/// The parts that clients see. What nobody sees takes no place among them, so that it can come and go without a word.
fn visible(message: &AssistantMessage) -> impl Iterator<Item = &Part> {
    message.parts.iter().filter(|part| match part {
        Part::Text(text) | Part::Thinking(text) => !text.text.is_empty(),
        Part::ToolCall(_) => true,
        Part::Input(input) => input.kind == InputKind::Steering,
        Part::Native(_) => false,
    })
}

/// The last model call that was answered to its end. One that broke off is metered too, and its parts may go on.
fn said(message: &AssistantMessage) -> Option<u32> {
    let answers = |call: &&IterationUsage| {
        call.finish.is_some() && matches!(call.purpose, Purpose::Step | Purpose::Closing)
    };
    message.iterations.iter().rev().find(answers).map(|call| call.iteration)
}

/// A sink that hears nothing.
pub(crate) struct Unheard;

impl Sink for Unheard {
    fn change(&mut self, _: &Scope<'_>, _: Change<'_>) {}

    fn broken(&mut self, _: &TurnFold, _: BrokenAt) -> Mend {
        Mend::Adopt
    }
}

/// Finds a call with the message that holds it. Whether there is one.
fn with_call(
    scope: &Scope<'_>,
    id: &CallId,
    found: &mut dyn FnMut(&Scope<'_>, &ToolCallPart),
) -> bool {
    for call in scope.message.calls() {
        if call.id == *id {
            found(scope, call);
            return true;
        }
        if let Some(child) = &call.child {
            let inner = Scope { message: child, inside: Some((call, scope)) };
            if with_call(&inner, id, found) {
                return true;
            }
        }
    }
    false
}
