//! The one reducer: a turn's events in, its stored messages out.
//!
//! The turn machine changes its own message only through this fold, and so do readers of the stream. What was streamed is
//! therefore what is stored.

use crate::error::ToolErrorCode;
use crate::event::{CallProgress, CallResult, EventKind};
use crate::ids::{CallId, MessageId};
use crate::message::{
    AssistantMessage, CardStatus, MessageState, SystemBody, SystemMessage, UserMessage,
};
use crate::outcome::Outcome;
use crate::part::{Part, ProgressStep, TextPart, ToolCallPart, ToolCallStatus};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::borrow::Borrow;

/// An event that does not fit what came before: one was lost, or they are not of one turn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the event does not fit the message: {0}; read the message anew from the store")]
pub struct FoldError(pub String);

/// The messages of one turn, as far as its events tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TurnFold {
    /// The message that opened the turn.
    pub user: Option<UserMessage>,
    /// The turn's assistant message.
    pub assistant: Option<AssistantMessage>,
    /// Its cards.
    pub cards: Vec<SystemMessage>,
}

impl TurnFold {
    /// Applies one event.
    ///
    /// # Errors
    /// When the event names a message or part that is not there, or leaves a gap.
    pub fn apply(&mut self, at: Timestamp, event: &EventKind) -> Result<(), FoldError> {
        use EventKind as E;
        match event {
            E::TurnStarted { message, .. } => self.user = Some((**message).clone()),
            E::AssistantMessageStarted { message, call: None } => {
                self.assistant = Some((**message).clone());
            }
            E::AssistantMessageStarted { message, call: Some(call) } => {
                let root = self.root()?;
                let parent = find_call(root, call).ok_or_else(|| lost("call", call))?;
                parent.child = Some(message.clone());
            }
            E::TextDelta { message, part, offset, iteration, text } => {
                let parts = &mut self.message(message)?.parts;
                append(parts, *part, *offset, *iteration, text, Part::Text)?;
            }
            E::ThinkingDelta { message, part, offset, iteration, text } => {
                let parts = &mut self.message(message)?.parts;
                append(parts, *part, *offset, *iteration, text, Part::Thinking)?;
            }
            E::PartNative { message, part, native } => match self.part(message, *part)? {
                Part::Text(p) | Part::Thinking(p) => p.native = Some((**native).clone()),
                Part::ToolCall(p) => p.native = Some((**native).clone()),
                Part::Native(p) => p.native = (**native).clone(),
                Part::Input(_) => return Err(lost("native part", part)),
            },
            E::PartAdded { message, part, value } => {
                let parts = &mut self.message(message)?.parts;
                let index = *part as usize;
                if index > parts.len() {
                    return Err(lost("place for part", part));
                }
                parts.insert(index, (**value).clone());
            }
            E::ResultDropped { message, part } => {
                let call = self.call(message, *part)?;
                call.output = None;
                call.model_view = None;
                call.progress.clear();
            }
            E::TextReplaced { message, part, text } => match self.part(message, *part)? {
                Part::Text(p) | Part::Thinking(p) => text.clone_into(&mut p.text),
                _ => return Err(lost("text part", part)),
            },
            E::PartDropped { message, part } => {
                let parts = &mut self.message(message)?.parts;
                let index = *part as usize;
                if index >= parts.len() {
                    return Err(lost("part", part));
                }
                // What the nested turn of a call has used stays on the message that the call is dropped from.
                if let Part::ToolCall(call) = parts.remove(index)
                    && let Some(child) = call.child
                {
                    let message = self.message(message)?;
                    message.iterations.extend(child.into_iterations());
                }
            }
            E::PartsDiscarded { message, keep, .. } => {
                self.message(message)?.parts.truncate(*keep as usize);
            }
            E::ToolCallStarted { message, part, iteration, call, wire_id, name } => {
                let parts = &mut self.message(message)?.parts;
                expect_end(parts, *part)?;
                parts.push(Part::ToolCall(Box::new(ToolCallPart {
                    iteration: *iteration,
                    id: call.clone(),
                    wire_id: wire_id.clone(),
                    name: name.clone(),
                    arguments: String::new(),
                    args: None,
                    status: ToolCallStatus::Running,
                    output: None,
                    model_view: None,
                    summary: None,
                    digest: None,
                    error: None,
                    captured: false,
                    cached: false,
                    amendment: None,
                    progress: Vec::new(),
                    started_at: None,
                    ended_at: None,
                    native: None,
                    child: None,
                })));
            }
            E::ToolCallArgsDelta { message, part, offset, text, .. } => {
                let call = self.call(message, *part)?;
                extend(&mut call.arguments, *offset, text)?;
            }
            E::ToolCallProgress { message, part, data, .. } => {
                let step = ProgressStep { at, data: data.clone() };
                self.call(message, *part)?.progress.push(step);
            }
            E::ToolCallStatus { message, part, status, args, amendment, .. } => {
                let call = self.call(message, *part)?;
                if let Some(args) = args {
                    call.args = Some(args.clone());
                }
                if let Some(amendment) = amendment {
                    call.amendment = Some(amendment.clone());
                }
                call.status = match status {
                    CallProgress::Ready => ToolCallStatus::Running,
                    CallProgress::Running => {
                        call.started_at = Some(at);
                        ToolCallStatus::Running
                    }
                    CallProgress::AwaitingApproval => ToolCallStatus::AwaitingApproval,
                };
            }
            E::ToolCallCompleted { message, part, result, .. } => {
                complete(self.call(message, *part)?, at, result);
            }
            E::ToolCallFailed { message, part, error, output, .. } => {
                let call = self.call(message, *part)?;
                call.status = match error.code {
                    ToolErrorCode::Rejected
                    | ToolErrorCode::Superseded
                    | ToolErrorCode::Expired => ToolCallStatus::Rejected,
                    ToolErrorCode::Cancelled => ToolCallStatus::Cancelled,
                    _ => ToolCallStatus::Error,
                };
                call.error = Some((**error).clone());
                call.output.clone_from(output);
                call.ended_at = Some(at);
            }
            E::ApprovalRequired { card } | E::ClientToolRequired { card } => {
                self.cards.push((**card).clone());
            }
            E::ApprovalDecided { card, status, decided, .. } => {
                let found = self.cards.iter_mut().find(|c| c.id == *card);
                let card = found.ok_or_else(|| lost("card", card))?;
                if let SystemBody::Approval(body) = &mut card.body {
                    body.status = *status;
                    body.decided = Some((**decided).clone());
                }
            }
            E::AssistantMessagePaused { message } => {
                self.message(message)?.state = MessageState::Paused;
            }
            E::AssistantMessageResumed { message, parts } => {
                let message = self.message(message)?;
                message.state = MessageState::Running;
                message.parts.truncate(*parts as usize);
            }
            E::Usage { message, call } => {
                crate::room::push(&mut self.message(message)?.iterations, (**call).clone());
            }
            E::LinkSnapshots { message, snapshots } => {
                self.message(message)?.link_snapshots.clone_from(snapshots);
            }
            E::AssistantMessageFinished { message } => {
                let mine = self.message(&message.id)?;
                mine.state = message.state.clone();
                if mine != &**message {
                    return Err(FoldError(format!(
                        "message {} differs from its final form",
                        message.id
                    )));
                }
            }
            E::AgentStarted { .. }
            | E::RouteSelected { .. }
            | E::ContextCompacted { .. }
            | E::ContextOverflowed { .. }
            | E::PlanUpdated { .. }
            | E::TaskStarted { .. }
            | E::ModelRetry { .. }
            | E::ModelReplaced { .. }
            | E::AgentCompleted { .. }
            | E::TurnCompleted { .. }
            | E::TurnPaused { .. }
            | E::TurnExhausted { .. }
            | E::TurnError { .. }
            | E::TurnAborted { .. }
            | E::SessionTitleUpdated { .. } => {}
        }
        Ok(())
    }

    /// Cards that nobody has decided.
    pub fn pending_cards(&self) -> impl Iterator<Item = &SystemMessage> {
        self.cards.iter().filter(
            |c| matches!(&c.body, SystemBody::Approval(card) if card.status == CardStatus::Pending),
        )
    }

    /// How the turn ended, once it has.
    pub fn outcome(&self) -> Option<&Outcome> {
        match &self.assistant.as_ref()?.state {
            MessageState::Finished { outcome } => Some(outcome),
            MessageState::Running | MessageState::Paused => None,
        }
    }

    /// A message of the turn, nested ones included.
    ///
    /// # Errors
    /// When there is none of that id.
    pub fn message(&mut self, id: &MessageId) -> Result<&mut AssistantMessage, FoldError> {
        let root = self.root()?;
        find_message(root, id).ok_or_else(|| lost("message", id))
    }

    /// A message of the turn for reading, nested ones included.
    pub fn get(&self, id: &MessageId) -> Option<&AssistantMessage> {
        fn find<'a>(message: &'a AssistantMessage, id: &MessageId) -> Option<&'a AssistantMessage> {
            if message.id == *id {
                return Some(message);
            }
            message
                .calls()
                .filter_map(|call| call.child.as_deref())
                .find_map(|child| find(child, id))
        }
        find(self.assistant.as_ref()?, id)
    }

    fn root(&mut self) -> Result<&mut AssistantMessage, FoldError> {
        self.assistant
            .as_mut()
            .ok_or_else(|| FoldError("the turn has no assistant message yet".into()))
    }

    fn part(&mut self, message: &MessageId, part: u32) -> Result<&mut Part, FoldError> {
        self.message(message)?.parts.get_mut(part as usize).ok_or_else(|| lost("part", &part))
    }

    fn call(&mut self, message: &MessageId, part: u32) -> Result<&mut ToolCallPart, FoldError> {
        match self.part(message, part)? {
            Part::ToolCall(call) => Ok(call),
            _ => Err(lost("tool call", &part)),
        }
    }
}

fn lost(what: &str, id: &impl std::fmt::Display) -> FoldError {
    FoldError(format!("there is no {what} {id}"))
}

fn find_message<'a>(
    root: &'a mut AssistantMessage,
    id: &MessageId,
) -> Option<&'a mut AssistantMessage> {
    if root.id == *id {
        return Some(root);
    }
    root.parts.iter_mut().find_map(|part| match part {
        Part::ToolCall(call) => call.child.as_mut().and_then(|child| find_message(child, id)),
        _ => None,
    })
}

/// The tool call of that id, nested ones included.
pub fn find_call<'a>(root: &'a mut AssistantMessage, id: &CallId) -> Option<&'a mut ToolCallPart> {
    root.parts.iter_mut().find_map(|part| match part {
        Part::ToolCall(call) => {
            if call.id == *id {
                Some(&mut **call)
            } else {
                call.child.as_mut().and_then(|child| find_call(child, id))
            }
        }
        _ => None,
    })
}

fn expect_end(parts: &[Part], part: u32) -> Result<(), FoldError> {
    if parts.len() == part as usize {
        Ok(())
    } else {
        Err(FoldError(format!("part {part} follows {} parts", parts.len())))
    }
}

fn append(
    parts: &mut Vec<Part>,
    part: u32,
    offset: u32,
    iteration: u32,
    text: &str,
    make: fn(TextPart) -> Part,
) -> Result<(), FoldError> {
    if offset == 0 && parts.len() == part as usize {
        parts.push(make(TextPart { iteration, text: text.to_owned(), native: None }));
        return Ok(());
    }
    match parts.get_mut(part as usize) {
        Some(Part::Text(p) | Part::Thinking(p)) => extend(&mut p.text, offset, text),
        Some(_) => Err(lost("text part", &part)),
        None => Err(lost("part", &part)),
    }
}

/// Appends `text`, which begins at `offset`; what is already there is skipped, so that a repeated delta does no harm.
fn extend(target: &mut String, offset: u32, text: &str) -> Result<(), FoldError> {
    let offset = offset as usize;
    let known = target
        .len()
        .checked_sub(offset)
        .ok_or_else(|| FoldError(format!("a delta at {offset} follows {} bytes", target.len())))?;
    if let Some(new) = text.get(known..) {
        crate::room::append(target, new);
    } else if known <= text.len() {
        return Err(FoldError(format!("a delta at {offset} overlaps within a character")));
    }
    Ok(())
}

fn complete(call: &mut ToolCallPart, at: Timestamp, result: &CallResult) {
    call.status = ToolCallStatus::Completed;
    call.output = Some(result.output.clone());
    call.model_view.clone_from(&result.model_view);
    call.summary.clone_from(&result.summary);
    call.digest.clone_from(&result.digest);
    call.captured = result.captured;
    call.cached = result.cached;
    call.ended_at = Some(at);
}

/// Folds a turn's events from the start.
///
/// # Errors
/// As [`TurnFold::apply`].
pub fn fold<E: Borrow<crate::event::Event>>(
    events: impl IntoIterator<Item = E>,
) -> Result<TurnFold, FoldError> {
    let mut turn = TurnFold::default();
    for event in events {
        let event = event.borrow();
        turn.apply(event.at, &event.kind)?;
    }
    Ok(turn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::TurnId;
    use crate::message::MESSAGE_SCHEMA;

    const AT: Timestamp = Timestamp::from_millis(7);

    /// A turn whose answer so far is one text.
    fn begun() -> TurnFold {
        let turn = TurnId::from("t");
        let message = AssistantMessage {
            schema: MESSAGE_SCHEMA,
            id: turn.assistant_message(),
            turn,
            agent: "main".into(),
            at: AT,
            state: MessageState::Running,
            parts: vec![Part::Text(TextPart { iteration: 0, text: "It is".into(), native: None })],
            iterations: Vec::new(),
            link_snapshots: Default::default(),
        };
        TurnFold { assistant: Some(message), ..TurnFold::default() }
    }

    fn delta(message: &str, part: u32, offset: u32) -> EventKind {
        let (message, text) = (message.into(), " here".to_owned());
        EventKind::TextDelta { message, part, offset, iteration: 0, text }
    }

    #[test]
    fn a_delta_that_was_lost_is_noticed_and_one_that_comes_twice_changes_nothing() {
        let turn = TurnId::from("t");
        let (own, foreign) = (turn.assistant_message(), TurnId::from("u").assistant_message());
        let call = turn.call(0);
        let arguments = |part| EventKind::ToolCallArgsDelta {
            message: own.clone(),
            part,
            call: call.clone(),
            offset: 0,
            text: "{}".to_owned(),
        };
        for (event, what) in [
            (delta(own.as_str(), 0, 10), "a gap"),
            (delta(own.as_str(), 1, 3), "a part whose beginning was lost"),
            (delta(own.as_str(), 3, 0), "a part behind a lost one"),
            (delta(foreign.as_str(), 0, 5), "another message"),
            (arguments(0), "arguments of a text"),
            (arguments(1), "arguments of a lost call"),
        ] {
            let mut fold = begun();
            let lost = fold.apply(AT, &event).unwrap_err().to_string();
            assert!(lost.contains("read the message anew"), "{what}: {lost}");
            assert_eq!(fold, begun(), "{what}");
        }
        let mut fold = begun();
        for _ in 0..2 {
            fold.apply(AT, &delta(own.as_str(), 0, 5)).unwrap();
        }
        assert_eq!(fold.assistant.unwrap().text(), "It is here");
        assert!(TurnFold::default().apply(AT, &delta(own.as_str(), 0, 0)).is_err());
    }
}
