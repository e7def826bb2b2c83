//! A turn up to a step, for a copy of its session that goes another way from there.
//!
//! A step is one model call together with the tools that it asked for, and what nested agents did for these. What came after
//! is left out as if it had never been: nothing runs again, and nothing dangles.

use crate::ids::CallId;
use crate::message::{AssistantMessage, Message, MessageState, SystemBody, SystemMessage};
use crate::outcome::{AbortReason, Outcome};
use crate::part::Part;
use std::collections::BTreeSet;

/// Why a turn cannot be cut there, in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoSuchStep(pub String);

/// Cuts the messages of one turn behind its first `steps` steps. A turn that is cut short is one that was stopped there; one
/// that is taken whole stays as it ended.
///
/// # Errors
/// When the turn has no such step, or the step is not over: its answer still streams, or a call of it is not settled.
pub fn cut(messages: Vec<Message>, steps: u32) -> Result<Vec<Message>, NoSuchStep> {
    let answers = |m: &Message| match m {
        Message::Assistant(answer) => Some((**answer).clone()),
        Message::User(_) | Message::System(_) => None,
    };
    let answer = messages.iter().find_map(answers);
    let answer = answer.ok_or_else(|| NoSuchStep("the turn has no step yet".into()))?;
    let kept = short(answer, steps)?;
    let mut calls = BTreeSet::new();
    collect_calls(&kept, &mut calls);
    let cut = messages.into_iter().filter_map(|message| match message {
        Message::Assistant(_) => Some(Message::Assistant(Box::new(kept.clone()))),
        Message::System(system) if !is_about(&system, &calls) => None,
        other => Some(other),
    });
    Ok(cut.collect())
}

fn short(mut answer: AssistantMessage, steps: u32) -> Result<AssistantMessage, NoSuchStep> {
    let last = answer.parts.iter().map(Part::iteration).max();
    let count = last.map_or(0, |last| last.saturating_add(1));
    if steps == 0 || steps > count {
        return Err(NoSuchStep(format!("turn {} has {count} steps, numbered from 1", answer.turn)));
    }
    let is_whole = steps == count && matches!(answer.state, MessageState::Finished { .. });
    if is_whole {
        return Ok(answer);
    }
    answer.parts.retain(|part| part.iteration() < steps);
    // What was said after the last step belongs to the next one.
    while matches!(answer.parts.last(), Some(Part::Input(_))) {
        answer.parts.pop();
    }
    let mut of_last = answer.parts.iter().filter(|part| part.iteration() + 1 == steps);
    let may_stream = steps == count && !of_last.any(|part| part.as_call().is_some());
    if may_stream || answer.calls().any(|call| !call.status.is_settled()) {
        return Err(NoSuchStep(format!("step {steps} of turn {} is not over", answer.turn)));
    }
    answer.iterations.retain(|call| call.iteration < steps);
    let outcome = Outcome::Aborted { reason: AbortReason::Stopped };
    answer.state = MessageState::Finished { outcome };
    Ok(answer)
}

fn collect_calls(message: &AssistantMessage, into: &mut BTreeSet<CallId>) {
    for call in message.calls() {
        into.insert(call.id.clone());
        if let Some(child) = &call.child {
            collect_calls(child, into);
        }
    }
}

/// Whether a message of the product is about what is kept.
fn is_about(message: &SystemMessage, calls: &BTreeSet<CallId>) -> bool {
    match &message.body {
        SystemBody::Approval(card) => calls.contains(&card.call),
        SystemBody::Note { .. } => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::TurnId;
    use crate::message::{ApprovalCard, Asks, CardStatus, MESSAGE_SCHEMA};
    use crate::part::{TextPart, ToolCallPart, ToolCallStatus};
    use std::sync::Arc;

    fn text(iteration: u32, text: &str) -> Part {
        Part::Text(TextPart { iteration, text: text.to_owned(), native: None })
    }

    fn call(iteration: u32, ordinal: u32, status: ToolCallStatus) -> Part {
        Part::ToolCall(Box::new(ToolCallPart {
            iteration,
            id: TurnId::from("t").call(ordinal),
            wire_id: format!("call_{ordinal}").into(),
            name: "reply".into(),
            arguments: "{}".to_owned(),
            args: None,
            status,
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
        }))
    }

    fn card(ordinal: u32) -> Message {
        let turn = TurnId::from("t");
        let call = turn.call(ordinal);
        Message::System(SystemMessage {
            id: call.card(),
            at: Default::default(),
            body: SystemBody::Approval(Box::new(ApprovalCard {
                call,
                message: turn.assistant_message(),
                agent: None,
                asks: Asks::Decision,
                tool: "reply".into(),
                title: "Reply".to_owned(),
                args: Arc::default(),
                digest: None,
                reason: None,
                editable: None,
                status: CardStatus::Approved,
                expires_at: None,
                decided: None,
            })),
            turn,
        })
    }

    fn turn(parts: Vec<Part>, state: MessageState) -> Vec<Message> {
        let turn = TurnId::from("t");
        let answer = AssistantMessage {
            schema: MESSAGE_SCHEMA,
            id: turn.assistant_message(),
            turn,
            agent: "main".into(),
            at: Default::default(),
            state,
            parts,
            iterations: Vec::new(),
            link_snapshots: Default::default(),
        };
        vec![Message::Assistant(Box::new(answer)), card(0), card(1)]
    }

    /// The parts that are left, by step, how the turn ended, and the cards.
    fn shape(cut: &[Message]) -> (Vec<u32>, Outcome, usize) {
        let Some(Message::Assistant(answer)) = cut.first() else { panic!("no answer: {cut:?}") };
        let MessageState::Finished { outcome } = &answer.state else { panic!("{answer:?}") };
        (answer.parts.iter().map(Part::iteration).collect(), outcome.clone(), cut.len() - 1)
    }

    const STOPPED: Outcome = Outcome::Aborted { reason: AbortReason::Stopped };
    const DONE: ToolCallStatus = ToolCallStatus::Completed;

    fn finished() -> Vec<Message> {
        let parts = vec![text(0, "First."), call(0, 0, DONE), call(1, 1, DONE), text(2, "Done.")];
        turn(parts, MessageState::Finished { outcome: Outcome::Completed })
    }

    #[test]
    fn a_finished_turn_is_cut_behind_each_of_its_steps_with_the_cards_of_what_is_kept() {
        let at = |steps| shape(&cut(finished(), steps).unwrap());
        assert_eq!(at(1), (vec![0, 0], STOPPED, 1));
        assert_eq!(at(2), (vec![0, 0, 1], STOPPED, 2));
        assert_eq!(at(3), (vec![0, 0, 1, 2], Outcome::Completed, 2));
        assert_eq!(cut(finished(), 3).unwrap(), finished());
    }

    #[test]
    fn there_is_no_step_before_the_first_or_behind_the_last() {
        for steps in [0, 4, u32::MAX] {
            let refused = cut(finished(), steps).unwrap_err().to_string();
            assert_eq!(refused, "turn t has 3 steps, numbered from 1");
        }
        assert_eq!(cut(vec![card(0)], 1).unwrap_err().to_string(), "the turn has no step yet");
    }

    #[test]
    fn a_step_that_is_not_over_cannot_be_the_last() {
        let open = |status| vec![call(0, 0, DONE), call(1, 1, DONE), call(1, 2, status)];
        for status in [ToolCallStatus::Running, ToolCallStatus::AwaitingApproval] {
            let messages = || turn(open(status), MessageState::Running);
            assert_eq!(shape(&cut(messages(), 1).unwrap()), (vec![0], STOPPED, 1));
            let refused = cut(messages(), 2).unwrap_err().to_string();
            assert_eq!(refused, "step 2 of turn t is not over");
        }
        let settled = turn(open(ToolCallStatus::Error), MessageState::Running);
        assert_eq!(shape(&cut(settled, 2).unwrap()), (vec![0, 1, 1], STOPPED, 2));
        // More of it may come.
        let streams = turn(vec![call(0, 0, DONE), text(1, "And")], MessageState::Running);
        assert!(cut(streams, 2).is_err());
    }
}
