//! Ending a turn that cannot be taken up again, such as one whose journal cannot be read or does not fit any more.
//!
//! It must not fail each time somebody tries. What is stored of it stays, what it had open is settled with what is known of
//! it, the person is told, and the session goes on with the next message.

use super::owner::Owner;
use crate::driver::{ATTEMPTS, DriveError, patient, write};
use std::collections::BTreeMap;
use std::sync::Arc;
use turnbuckle_core::error::{ToolError, ToolErrorCode};
use turnbuckle_core::event::{AgentPath, Event, EventKind};
use turnbuckle_core::fold::TurnFold;
use turnbuckle_core::ids::{MessageId, TurnId};
use turnbuckle_core::message::{
    AssistantMessage, CardStatus, Decided, Message, MessageState, SystemBody,
};
use turnbuckle_core::outcome::{Outcome, TurnError};
use turnbuckle_core::part::ToolCallPart;
use turnbuckle_core::time::Timestamp;
use turnbuckle_store::{Commit, SessionStatus, StoreError, TurnChange, TurnStatus};

/// Events read at once.
const PAGE: u32 = 1000;

impl Owner {
    /// Ends a stored turn as it stands; `n` is the input that was to go on with it.
    pub(super) async fn set_aside(
        &mut self,
        turn: &TurnId,
        why: &str,
        n: Option<u64>,
    ) -> Result<(), DriveError> {
        tracing::error!(%turn, "the turn is set aside: {why}");
        let events = self.events_of(turn).await?;
        let now = self.parts.assembler.clock.now();
        let message = format!(
            "this turn could not be taken up again, so it was ended as it stood: {why}. \
             What it did before stays done; write a message to go on."
        );
        let mut ending = Ending::of(&events, now);
        let told = ending.end(TurnError::Internal { message });
        let epoch = events.iter().map(|e| e.epoch).max().unwrap_or(0);
        let mut commit = Commit::new(self.parts.key.clone(), self.fence, now);
        let mut events = Vec::new();
        for (agent, kind) in told {
            events.push(Event {
                seq: self.next_seq,
                epoch,
                at: now,
                session: self.parts.key.id.clone(),
                turn: turn.clone(),
                agent,
                kind,
            });
            self.next_seq += 1;
        }
        let TurnFold { user, assistant, cards } = ending.fold;
        commit.messages.extend(assistant.clone().map(|m| Message::Assistant(Box::new(m))));
        commit.cards = cards;
        commit.turn = Some(TurnChange {
            id: turn.clone(),
            status: TurnStatus::Finished,
            outcome: Some(Outcome::Error { error: ending.error }),
        });
        commit.session_status = Some(SessionStatus::Idle);
        commit.consumed.extend(n);
        commit.events.extend(events.iter().cloned());
        write(&*self.parts.store, commit).await?;
        self.parts.outlet.push_all(events);
        self.history.extend(user.map(Message::User));
        self.history.extend(assistant.map(|m| Message::Assistant(Box::new(m))));
        (self.paused, self.at) = (None, None);
        Ok(())
    }

    async fn events_of(&self, turn: &TurnId) -> Result<Vec<Event>, StoreError> {
        let parts = &self.parts;
        let (mut found, mut after) = (Vec::new(), 0);
        loop {
            let page = patient(ATTEMPTS, || parts.store.events(&parts.key, after, PAGE)).await?;
            let Some(last) = page.last() else { return Ok(found) };
            after = last.seq;
            found.extend(page.into_iter().filter(|event| event.turn == *turn));
        }
    }
}

/// What is stored of a turn, on its way to an end.
struct Ending {
    fold: TurnFold,
    paths: BTreeMap<MessageId, AgentPath>,
    at: Timestamp,
    told: Vec<(AgentPath, EventKind)>,
    error: TurnError,
}

impl Ending {
    /// As far as the stored events fit each other.
    fn of(events: &[Event], at: Timestamp) -> Self {
        let mut fold = TurnFold::default();
        let mut paths = BTreeMap::new();
        for event in events {
            if let EventKind::AssistantMessageStarted { message, .. } = &event.kind {
                paths.insert(message.id.clone(), event.agent.clone());
            }
            if let Err(e) = fold.apply(event.at, &event.kind) {
                tracing::error!(turn = %event.turn, "its stored events end early: {e}");
                break;
            }
        }
        let error = TurnError::Internal { message: String::new() };
        Self { fold, paths, at, told: Vec::new(), error }
    }

    /// Settles all that is open and gives the events that say so.
    fn end(&mut self, error: TurnError) -> Vec<(AgentPath, EventKind)> {
        self.error = error;
        let pending: Vec<_> = self
            .fold
            .pending_cards()
            .filter_map(|card| match &card.body {
                SystemBody::Approval(body) => {
                    Some((body.message.clone(), card.id.clone(), body.call.clone()))
                }
                SystemBody::Note { .. } => None,
            })
            .collect();
        if let Some(message) = self.fold.assistant.clone() {
            let parts = message.parts.len() as u32;
            self.tell(
                &message.id,
                EventKind::AssistantMessageResumed { message: message.id.clone(), parts },
            );
        }
        for (message, card, call) in pending {
            let decided = Box::new(Decided::alone(self.at));
            let status = CardStatus::Cancelled;
            self.tell(&message, EventKind::ApprovalDecided { card, call, status, decided });
        }
        let usage = match self.fold.assistant.clone() {
            Some(message) => {
                self.settle(&message);
                self.fold.assistant.as_ref().map(AssistantMessage::usage).unwrap_or_default()
            }
            None => Default::default(),
        };
        let root = self.fold.assistant.as_ref().map(|m| m.id.clone());
        let path = root.map_or_else(|| "engine".into(), |id| self.path(&id));
        let usage = Box::new(usage);
        self.told.push((path, EventKind::TurnError { error: self.error.clone(), usage }));
        std::mem::take(&mut self.told)
    }

    /// Ends a message: its open calls, innermost first, and then itself.
    fn settle(&mut self, message: &AssistantMessage) {
        for (part, call) in message.parts.iter().enumerate() {
            let Some(call) = call.as_call() else { continue };
            if let Some(child) = &call.child
                && !matches!(child.state, MessageState::Finished { .. })
            {
                self.settle(child);
            }
            if !call.status.is_settled() {
                self.tell(
                    &message.id,
                    EventKind::ToolCallFailed {
                        message: message.id.clone(),
                        part: part as u32,
                        call: call.id.clone(),
                        error: unfinished(call).into(),
                        output: None,
                    },
                );
            }
        }
        let Some(settled) = self.fold.get(&message.id) else { return };
        let mut settled = settled.clone();
        let outcome = Outcome::Error { error: self.error.clone() };
        settled.state = MessageState::Finished { outcome };
        let message = Arc::new(settled);
        self.tell(&message.id.clone(), EventKind::AssistantMessageFinished { message });
    }

    fn tell(&mut self, message: &MessageId, kind: EventKind) {
        match self.fold.apply(self.at, &kind) {
            Ok(()) => self.told.push((self.path(message), kind)),
            Err(e) => tracing::error!("a turn that is set aside keeps something open: {e}"),
        }
    }

    fn path(&self, message: &MessageId) -> AgentPath {
        self.paths.get(message).cloned().unwrap_or_else(|| "engine".into())
    }
}

/// What is known of a call that was open.
fn unfinished(call: &ToolCallPart) -> ToolError {
    if call.started_at.is_some() && call.child.is_none() {
        let why = "The turn broke off while this ran; whether it took effect is not known.";
        ToolError::new(ToolErrorCode::OutcomeUnknown, why)
    } else {
        ToolError::new(ToolErrorCode::Cancelled, "The turn ended before this was done.")
    }
}
