//! What a client has been shown of a turn, and what is new to it.
//!
//! The protocols of others can only add: a part is opened, grows and is closed. Here is decided what is added, so that every
//! part is opened before it grows and closed once, whatever the turn does. What cannot be said by adding is put to the protocol,
//! which knows how to mend it, see [`Sink::broken`].
//!
//! | module | holds |
//! |---|---|
//! | `change` | what is told to a protocol, and what it may answer |
//! | `items` | what has been shown of a message |
//! | this one | what has been shown of a turn, and what is new |

mod change;
mod items;

pub(crate) use change::{BrokenAt, Change, Mend, Overlap, Prose, ProseId, Scope, Sink, Unheard};

use super::track::Check;
use items::{Item, ShownMessage, adopt};
use std::collections::BTreeMap;
use turnbuckle_core::fold::TurnFold;
use turnbuckle_core::ids::{CallId, MessageId};
use turnbuckle_core::message::{AssistantMessage, CardStatus, MessageState, SystemBody};
use turnbuckle_core::part::{InputKind, Part, ToolCallPart};
use turnbuckle_core::usage::{IterationUsage, Purpose};

/// What has been shown.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    overlap: Overlap,
    messages: BTreeMap<MessageId, ShownMessage>,
    cards: BTreeMap<MessageId, CardStatus>,
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

/// The parts that clients see. What nobody sees takes no place among them, so that it can come and go without a word.
pub(crate) fn visible(message: &AssistantMessage) -> impl Iterator<Item = &Part> {
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
