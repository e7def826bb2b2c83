//! Pauses, decisions, results of the front end, people's messages.

use super::effect::{EffectKind, PrepareCall, PrepareStage};
use super::input::Decision;
use super::state::{About, Ask, CallState, Phase, Turn};
use super::{MachineError, Output};
use crate::error::{ToolError, ToolErrorCode};
use crate::event::{AgentPath, EventKind};
use crate::ids::{AgentName, CallId, MessageId, ToolName, UserId};
use crate::json::Json;
use crate::message::{
    ApprovalCard, Asks, CardStatus, Decided, SystemBody, SystemMessage, UserMessage,
};
use crate::tool::SideEffect;
use serde_json::json;
use std::sync::Arc;

impl Turn {
    /// Pauses when nothing is under way any more: then every card is shown at once.
    pub(super) fn pause_if_quiet(&mut self, out: &mut Output) -> Result<(), MachineError> {
        if !self.pending.is_empty() || self.phase != Phase::Running {
            return Ok(());
        }
        let mut waiting = Vec::new();
        let mut cards = Vec::new();
        for frame in &mut self.frames {
            for entry in &mut frame.batch {
                let CallState::Waiting { args, ask, shown, .. } = &mut entry.state else {
                    continue;
                };
                waiting.push(entry.call.clone());
                if !std::mem::replace(shown, true) {
                    let place = Place {
                        message: frame.message.clone(),
                        agent: frame.agent.clone(),
                        call: entry.call.clone(),
                        tool: entry.tool.clone(),
                    };
                    cards.push((frame.path.clone(), place, args.clone(), ask.clone()));
                }
            }
        }
        for (path, place, args, ask) in cards {
            let call = place.call.clone();
            let (asks, card) = make_card(place, args, ask);
            let body = SystemBody::Approval(Box::new(card));
            let card = Box::new(SystemMessage {
                id: self.next_card(&call),
                turn: self.spec.turn.clone(),
                at: self.now,
                body,
            });
            let event = match asks {
                Asks::Decision => EventKind::ApprovalRequired { card },
                Asks::ClientResult => EventKind::ClientToolRequired { card },
            };
            self.emit(&path, event, out)?;
        }
        self.meters.active_ms += self.now.since(self.meters.active_since);
        self.phase = Phase::Paused;
        let path = self.speaker();
        let message = self.spec.turn.assistant_message();
        self.emit(&path, EventKind::AssistantMessagePaused { message }, out)?;
        self.emit(&path, EventKind::TurnPaused { calls: waiting }, out)
    }

    /// The cards about a call, in order. A tool of the front end that also needs approval has two.
    pub(super) fn cards_of(&self, call: &CallId) -> impl Iterator<Item = &SystemMessage> {
        self.messages
            .cards
            .iter()
            .filter(move |c| matches!(&c.body, SystemBody::Approval(card) if card.call == *call))
    }

    fn next_card(&self, call: &CallId) -> MessageId {
        match self.cards_of(call).count() {
            0 => call.card(),
            n => MessageId::from(format!("{}-{}", call.card(), n + 1)),
        }
    }

    pub(super) fn unpause(&mut self, out: &mut Output) -> Result<(), MachineError> {
        if self.phase != Phase::Paused {
            return Ok(());
        }
        self.phase = Phase::Running;
        self.meters.active_since = self.now;
        self.emit_resumed(out)
    }

    /// Tells every message that goes on, by the agent that works on it now.
    pub(super) fn emit_resumed(&mut self, out: &mut Output) -> Result<(), MachineError> {
        let mut messages: Vec<(AgentPath, MessageId)> = Vec::new();
        for f in self.frames.iter().rev().filter(|f| f.ended.is_none() || f.parent.is_none()) {
            if messages.iter().all(|(_, known)| *known != f.message) {
                messages.push((f.path.clone(), f.message.clone()));
            }
        }
        for (path, message) in messages.into_iter().rev() {
            let parts = self.messages.message(&message)?.parts.len() as u32;
            self.emit(&path, EventKind::AssistantMessageResumed { message, parts }, out)?;
        }
        Ok(())
    }

    pub(super) fn decide(
        &mut self,
        call: &CallId,
        decision: Decision,
        by: Option<UserId>,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let place = self.waiting(call)?;
        if let (Ask::Client { .. }, Decision::Approve { .. }) = (&place.ask, &decision) {
            return Err(not_waiting(
                call,
                "it waits for the front end's result, not for an approval",
            ));
        }
        self.unpause(out)?;
        let alone = Decided { by, ..Decided::alone(self.now) };
        let (status, decided) = match &decision {
            Decision::Approve { amendment, reason, remember } => {
                let (amendment, reason) = (amendment.clone(), reason.clone());
                let remember = remember.clone();
                (CardStatus::Approved, Decided { amendment, reason, remember, ..alone })
            }
            Decision::Reject { reason } => {
                (CardStatus::Rejected, Decided { reason: reason.clone(), ..alone })
            }
            Decision::Expire => (CardStatus::Expired, alone),
        };
        let (amendment, reason) = (decided.amendment.clone(), decided.reason.clone());
        self.emit_decided(place.frame, call, status, decided, out)?;
        match decision {
            Decision::Approve { .. } => {
                let waiting = CallState::Waiting {
                    args: place.args.clone(),
                    ask: place.ask,
                    shown: true,
                    decided: reason,
                };
                self.set_state(place.frame, call, waiting)?;
                self.note_reason_and_prepare(
                    place.frame,
                    place.part,
                    call,
                    place.args,
                    amendment,
                    out,
                )
            }
            Decision::Reject { .. } => {
                self.ledger.deny(&place.tool, &place.args);
                let why = match &reason {
                    Some(reason) => format!("A person said no: {reason}"),
                    None => "A person said no to this action. Do not try it again.".to_owned(),
                };
                let output = Arc::new(json!({"rejected": true, "reason": reason}));
                self.settle_waiting(&place, ToolErrorCode::Rejected, why, Some(output), out)
            }
            Decision::Expire => {
                let why = "Nobody decided in time, so the action did not run.".to_owned();
                self.settle_waiting(&place, ToolErrorCode::Expired, why, None, out)
            }
        }
    }

    fn note_reason_and_prepare(
        &mut self,
        frame: usize,
        part: u32,
        call: &CallId,
        args: Json,
        amendment: Option<Json>,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let entry = self.frame_mut(frame)?.batch.iter_mut().find(|c| c.call == *call);
        let Some(entry) = entry else { return Err(not_waiting(call, "it is unknown")) };
        let tool = entry.tool.clone();
        let stage = PrepareStage::Approved { amendment };
        let check = PrepareCall { call: call.clone(), tool, args, stage };
        let about = About::Call { part, call: call.clone(), writes: 0 };
        self.ask(frame, EffectKind::Prepare(check), about, out);
        Ok(())
    }

    /// What the person who approved the call said, kept until it runs.
    pub(super) fn decided_reason(&self, frame: usize, call: &CallId) -> Option<String> {
        let entry = self.frames.get(frame)?.batch.iter().find(|c| c.call == *call)?;
        match &entry.state {
            CallState::Waiting { decided, .. } => decided.clone(),
            _ => None,
        }
    }

    fn settle_waiting(
        &mut self,
        place: &WaitingCall,
        code: ToolErrorCode,
        why: String,
        output: Option<Json>,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let error = ToolError::new(code, why);
        self.emit_failed(place.frame, place.part, &place.call, error, output, out)?;
        self.set_state(place.frame, &place.call, CallState::Settled { success: false })?;
        self.advance_batch(place.frame, out)
    }

    pub(super) fn client_result(
        &mut self,
        call: &CallId,
        result: Result<Json, ToolError>,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let place = self.waiting(call)?;
        let Ask::Client { .. } = place.ask else {
            return Err(not_waiting(call, "it waits for a person's decision"));
        };
        self.unpause(out)?;
        let decided = Decided::alone(self.now);
        self.emit_decided(place.frame, call, CardStatus::Approved, decided, out)?;
        if self.effect_of(place.frame, &place.tool) != SideEffect::ReadOnly {
            self.note_write();
        }
        match result {
            Ok(output) => self.settle(place.frame, call, output, out),
            Err(error) => {
                self.emit_failed(place.frame, place.part, call, error, None, out)?;
                self.set_state(place.frame, call, CallState::Settled { success: false })?;
                self.advance_batch(place.frame, out)
            }
        }
    }

    pub(super) fn emit_decided(
        &mut self,
        frame: usize,
        call: &CallId,
        status: CardStatus,
        decided: Decided,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let path = self.path(frame)?;
        let card = self.cards_of(call).last().map_or_else(|| call.card(), |c| c.id.clone());
        let (call, decided) = (call.clone(), Box::new(decided));
        self.emit(&path, EventKind::ApprovalDecided { card, call, status, decided }, out)
    }

    fn waiting(&self, call: &CallId) -> Result<WaitingCall, MachineError> {
        if let Phase::Ended { .. } | Phase::Finalizing { .. } = self.phase {
            return Err(MachineError::Ended);
        }
        for (index, frame) in self.frames.iter().enumerate() {
            let Some(entry) = frame.batch.iter().find(|c| c.call == *call) else { continue };
            let preparing = self.pending.values().any(|p| {
                matches!((&p.effect, &p.about), (EffectKind::Prepare(_), About::Call { call: c, .. }) if c == call)
            });
            return match &entry.state {
                CallState::Waiting { args, ask, shown: true, .. } if !preparing => {
                    Ok(WaitingCall {
                        frame: index,
                        part: entry.part,
                        call: call.clone(),
                        tool: entry.tool.clone(),
                        args: args.clone(),
                        ask: ask.clone(),
                    })
                }
                CallState::Waiting { shown: true, .. } => {
                    Err(not_waiting(call, "it was decided already"))
                }
                CallState::Settled { .. } => Err(not_waiting(call, "it has its result already")),
                CallState::Running if self.cards_of(call).next().is_some() => {
                    Err(not_waiting(call, "it was decided already"))
                }
                _ => Err(not_waiting(call, "nobody was asked about it yet")),
            };
        }
        Err(not_waiting(call, "it has its result already, or is of another turn"))
    }

    pub(super) fn steer(&mut self, message: UserMessage) -> Result<(), MachineError> {
        if !self.accepts_steering() {
            return Err(MachineError::Ended);
        }
        self.steering.push(message);
        Ok(())
    }

    /// Messages that came too late to enter the turn; they open the next one.
    pub fn take_unread_steering(&mut self) -> Vec<UserMessage> {
        std::mem::take(&mut self.steering)
    }
}

struct WaitingCall {
    frame: usize,
    part: u32,
    call: CallId,
    tool: ToolName,
    args: Json,
    ask: Ask,
}

fn not_waiting(call: &CallId, state: &'static str) -> MachineError {
    MachineError::NotWaiting { call: call.to_string(), state }
}

/// What a card is about.
struct Place {
    message: MessageId,
    agent: AgentName,
    call: CallId,
    tool: ToolName,
}

fn make_card(place: Place, args: Json, ask: Ask) -> (Asks, ApprovalCard) {
    let Place { message, agent, call, tool } = place;
    let mut card = ApprovalCard {
        call,
        message,
        agent: Some(agent),
        asks: Asks::Decision,
        title: tool.to_string(),
        tool,
        args,
        digest: None,
        reason: None,
        editable: None,
        status: CardStatus::Pending,
        expires_at: None,
        decided: None,
    };
    match ask {
        Ask::Decision(question) => {
            card.title = question.title;
            card.digest = question.digest;
            card.reason = question.reason;
            card.editable = question.editable;
            card.expires_at = question.expires_at;
        }
        Ask::Client { title, expires_at } => {
            card.asks = Asks::ClientResult;
            card.title = title;
            card.expires_at = expires_at;
        }
    }
    (card.asks, card)
}
