//! The tool calls of one answer: announced together and checked, before any of them runs.

use super::effect::{EffectKind, ExecuteMode, PrepareCall, PrepareStage, StepId};
use super::input::{ModelAnswer, Tools, Verdict};
use super::spec::RunMode;
use super::state::{About, Ask, BatchCall, CallState, FrameEnd, Turn};
use super::valves::LedgerVerdict;
use super::{MachineError, Output};
use crate::arguments::parse_arguments;
use crate::error::{ToolError, ToolErrorCode};
use crate::event::{CallProgress, CallResult, EventKind};
use crate::ids::{CallId, ToolName};
use crate::json::Json;
use crate::outcome::ExhaustedReason;
use crate::part::{InputKind, Part};
use crate::tool::{Counts, ToolTraits};
use crate::usage::FinishReason;
use serde_json::Value;
use std::sync::Arc;

/// Where a call stands in its message.
#[derive(Clone, Debug)]
pub(super) struct CallPlace {
    pub(super) part: u32,
    pub(super) call: CallId,
    pub(super) tool: ToolName,
}

/// Arguments that passed, with what was assumed or corrected in them.
struct Checked {
    args: Json,
    warnings: Vec<String>,
}

/// What of an answer bears on its calls.
struct Given<'a> {
    tools: Tools,
    finish: &'a FinishReason,
    /// Only the last call can be cut.
    last: CallId,
}

impl Turn {
    pub(super) fn start_batch(
        &mut self,
        frame: usize,
        iteration: u32,
        calls: Vec<CallPlace>,
        answer: &ModelAnswer,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let counts = calls.iter().any(|place| {
            self.traits(frame, &place.tool).is_none_or(|t| t.counts == Counts::AsIteration)
        });
        let f = self.frame_mut(frame)?;
        f.counted += u32::from(counts);
        f.bad_answers = 0;
        f.cut_answers = 0;
        f.batch_iteration = iteration;
        if let Some(reason) = self.spent_budget() {
            for place in &calls {
                let why = "The call did not run: the budget of this turn is used up.";
                let error = ToolError::new(ToolErrorCode::Budget, why);
                self.emit_failed(frame, place.part, &place.call, error, None, out)?;
            }
            return self.end_frame(frame, FrameEnd::Exhausted(reason), out);
        }
        self.frame_mut(frame)?.batch_text = self.iteration_text(frame, iteration)?;
        let Some(last) = calls.last().map(|place| place.call.clone()) else { return Ok(()) };
        let tools = answer.directives.tools;
        let given = Given { tools, finish: &answer.response.finish, last };
        for place in calls {
            let state = self.announce(frame, &place, &given, out)?;
            let CallPlace { part, call, tool } = place;
            let tool = self.traits(frame, &tool).map_or(tool, |t| t.name.clone());
            self.frame_mut(frame)?.batch.push(BatchCall { call, part, tool, state });
        }
        if let (Tools::Withheld, Some(text)) = (tools, &answer.directives.nudge) {
            self.frame_mut(frame)?.nudges += 1;
            self.insert_input(frame, InputKind::Nudge, text.clone(), out)?;
        }
        self.advance_batch(frame, out)
    }

    /// The traits of the tool that the model means; a namespace some models put before names is forgiven.
    pub(super) fn traits(&self, frame: usize, name: &ToolName) -> Option<&ToolTraits> {
        let agent = self.agent(frame).ok()?;
        agent.tool(name).or_else(|| {
            let bare = name.as_str().strip_prefix("functions.")?;
            agent.tool(&ToolName::from(bare))
        })
    }

    fn announce(
        &mut self,
        frame: usize,
        place: &CallPlace,
        given: &Given<'_>,
        out: &mut Output,
    ) -> Result<CallState, MachineError> {
        let checked = self.parse_call(frame, place, given);
        let failure = match checked {
            Ok((tool, args)) => {
                self.meters.tool_calls += 1;
                self.frame_mut(frame)?.tool_calls += 1;
                let check = PrepareCall {
                    call: place.call.clone(),
                    tool,
                    args: Arc::new(Value::Object(args)),
                    stage: PrepareStage::First,
                };
                let about = About::Call { part: place.part, call: place.call.clone(), writes: 0 };
                self.ask(frame, EffectKind::Prepare(check), about, out);
                return Ok(CallState::Preparing);
            }
            Err(failure) => failure,
        };
        if failure.code == ToolErrorCode::Budget {
            self.frame_mut(frame)?.exhausted = Some(ExhaustedReason::MaxToolCalls);
        }
        self.emit_failed(frame, place.part, &place.call, failure, None, out)?;
        Ok(CallState::Settled { success: false })
    }

    /// Step 1 of the pipeline: the tool must be on offer and the arguments must parse. Nothing is ever run on a guess.
    fn parse_call(
        &mut self,
        frame: usize,
        place: &CallPlace,
        given: &Given<'_>,
    ) -> Result<(ToolName, serde_json::Map<String, Value>), ToolError> {
        if given.tools == Tools::Withheld {
            let name = crate::json::clip(place.tool.as_str(), 100);
            let why =
                format!("No tools were offered to you here, `{name}` included. Answer in text.");
            return Err(ToolError::new(ToolErrorCode::NotAdvertised, why));
        }
        let Some(traits) = self.traits(frame, &place.tool) else {
            return Err(self.unknown_tool(frame, &place.tool));
        };
        let tool = traits.name.clone();
        if self.meters.tool_calls >= self.spec.limits.max_tool_calls {
            let why = "The call did not run: the limit of tool calls of this turn is reached.";
            return Err(ToolError::new(ToolErrorCode::Budget, why));
        }
        let message = self.frame(frame).map(|f| f.message.clone());
        let part = message.ok().and_then(|id| {
            let message = self.messages.message(&id).ok()?;
            message.parts.get(place.part as usize).and_then(Part::as_call)
        });
        let arguments = part.map(|call| call.arguments.as_str()).unwrap_or_default();
        if arguments.trim().is_empty()
            && *given.finish == FinishReason::Length
            && given.last == place.call
        {
            let why = "Your output limit cut the answer before the arguments, so the call was not made. Call again.";
            return Err(ToolError::new(ToolErrorCode::TruncatedArguments, why));
        }
        Ok((tool, parse_arguments(arguments, given.finish)?))
    }

    fn unknown_tool(&self, frame: usize, name: &ToolName) -> ToolError {
        let mut offered: Vec<&str> = Vec::new();
        if let Ok(agent) = self.agent(frame) {
            let tools = agent.tools.iter().filter(|t| !agent.withheld.contains(&t.name));
            offered.extend(tools.map(|t| t.name.as_str()));
        }
        let elsewhere = self.spec.agents.values().any(|a| a.tool(name).is_some());
        let (code, what) = if elsewhere {
            (ToolErrorCode::NotAdvertised, "is not available here")
        } else {
            (ToolErrorCode::UnknownTool, "does not exist")
        };
        let hint = match offered.as_slice() {
            [] => "There are no tools; answer in text.".to_owned(),
            names => format!("Call one of these directly, one call each: {}.", names.join(", ")),
        };
        let name = crate::json::clip(name.as_str(), 100);
        ToolError::new(code, format!("The tool `{name}` {what}. {hint}"))
    }

    pub(super) fn prepared(
        &mut self,
        step: StepId,
        verdict: Verdict,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let Some(pending) = self.take(step, |e| matches!(e, EffectKind::Prepare(_)))? else {
            return Ok(());
        };
        let (EffectKind::Prepare(check), About::Call { part, call, .. }) =
            (pending.effect, pending.about)
        else {
            return Err(MachineError::UnknownStep(step));
        };
        let frame = pending.frame;
        let state = match (verdict, &check.stage) {
            (Verdict::Refuse { error, args }, _) => {
                if let Some(args) = args {
                    self.emit_status(
                        frame,
                        part,
                        &call,
                        CallProgress::Ready,
                        Some(args),
                        None,
                        out,
                    )?;
                }
                self.emit_failed(frame, part, &call, error, None, out)?;
                CallState::Settled { success: false }
            }
            (
                Verdict::Run { args, warnings } | Verdict::Ask { args, warnings, .. },
                PrepareStage::Approved { amendment },
            ) => {
                let amendment = amendment.clone();
                let shown = Some(args.clone());
                self.emit_status(frame, part, &call, CallProgress::Ready, shown, amendment, out)?;
                let reason = self.decided_reason(frame, &call);
                CallState::Queued { args, mode: ExecuteMode::Real, reason, warnings }
            }
            (Verdict::Run { args, warnings }, PrepareStage::First) => {
                let shown = Some(args.clone());
                self.emit_status(frame, part, &call, CallProgress::Ready, shown, None, out)?;
                let args = Checked { args, warnings };
                self.dispatch(frame, part, &call, &check.tool, args, out)?
            }
            (Verdict::Ask { args, question, warnings }, PrepareStage::First) => {
                let args = Checked { args, warnings };
                let ask = Ask::Decision(*question);
                self.wait_for_person(frame, part, &call, &check.tool, args, ask, out)?
            }
            (Verdict::Client { args, title, expires_at }, PrepareStage::Approved { amendment }) => {
                let amendment = amendment.clone();
                let (status, shown) = (CallProgress::AwaitingApproval, Some(args.clone()));
                self.emit_status(frame, part, &call, status, shown, amendment, out)?;
                let ask = Ask::Client { title, expires_at };
                CallState::Waiting { args, ask, shown: false, decided: None }
            }
            (Verdict::Client { args, title, expires_at }, PrepareStage::First) => {
                let args = Checked { args, warnings: Vec::new() };
                let ask = Ask::Client { title, expires_at };
                self.wait_for_person(frame, part, &call, &check.tool, args, ask, out)?
            }
        };
        self.set_state(frame, &call, state)?;
        self.advance_batch(frame, out)
    }

    /// A call that may run, unless it is one too many.
    fn dispatch(
        &mut self,
        frame: usize,
        part: u32,
        call: &CallId,
        tool: &ToolName,
        checked: Checked,
        out: &mut Output,
    ) -> Result<CallState, MachineError> {
        let Checked { args, warnings } = checked;
        match self.ledger.dispatch(tool, &args, self.spec.limits.max_identical_calls) {
            LedgerVerdict::Dispatch => {}
            LedgerVerdict::Identical(count) => {
                let note = format!(
                    "This exact call was already made {count} times in this turn; its answer will not change, so it was \
                     not made again. Use the results above, or change the call."
                );
                return self.answer_with_note(frame, part, call, note, out);
            }
            LedgerVerdict::Fruitless(count) => {
                let note = format!(
                    "Calls like this one found nothing or failed {count} times in this turn, so it was not made again. \
                     Try something different, or tell the user what could not be found."
                );
                return self.answer_with_note(frame, part, call, note, out);
            }
            LedgerVerdict::Denied => {
                let why = "A person already said no to exactly this call. Do not ask again; do something else.";
                let error = ToolError::new(ToolErrorCode::Rejected, why);
                self.emit_failed(frame, part, call, error, None, out)?;
                return Ok(CallState::Settled { success: false });
            }
        }
        Ok(CallState::Queued { args, mode: ExecuteMode::Real, reason: None, warnings })
    }

    fn answer_with_note(
        &mut self,
        frame: usize,
        part: u32,
        call: &CallId,
        note: String,
        out: &mut Output,
    ) -> Result<CallState, MachineError> {
        let result =
            Box::new(CallResult { output: Arc::new(Value::String(note)), ..CallResult::default() });
        self.emit_completed(frame, part, call, result, out)?;
        Ok(CallState::Settled { success: true })
    }

    #[allow(clippy::too_many_arguments)]
    fn wait_for_person(
        &mut self,
        frame: usize,
        part: u32,
        call: &CallId,
        tool: &ToolName,
        checked: Checked,
        ask: Ask,
        out: &mut Output,
    ) -> Result<CallState, MachineError> {
        if self.spec.mode == RunMode::Capture {
            if let Ask::Client { .. } = ask {
                let why = "Nobody is at the screen in this run, so a tool of the front end cannot be used.";
                let error = ToolError::new(ToolErrorCode::NotEnabled, why);
                self.emit_failed(frame, part, call, error, None, out)?;
                return Ok(CallState::Settled { success: false });
            }
            let shown = Some(checked.args.clone());
            self.emit_status(frame, part, call, CallProgress::Ready, shown, None, out)?;
            let state = self.dispatch(frame, part, call, tool, checked, out)?;
            return Ok(match state {
                CallState::Queued { args, reason, warnings, .. } => {
                    let local_index = self.next_capture;
                    self.next_capture += 1;
                    let mode = ExecuteMode::Capture { local_index };
                    CallState::Queued { args, mode, reason, warnings }
                }
                other => other,
            });
        }
        match self.dispatch(frame, part, call, tool, checked, out)? {
            CallState::Queued { args, .. } => {
                if let Ask::Decision(_) = ask {
                    if self.meters.approvals >= self.spec.limits.max_approvals {
                        let why =
                            "The call did not run: this turn has already asked a person too often.";
                        let error = ToolError::new(ToolErrorCode::Budget, why);
                        self.emit_failed(frame, part, call, error, None, out)?;
                        self.frame_mut(frame)?.exhausted = Some(ExhaustedReason::MaxApprovals);
                        return Ok(CallState::Settled { success: false });
                    }
                    self.meters.approvals += 1;
                }
                let waiting = CallProgress::AwaitingApproval;
                self.emit_status(frame, part, call, waiting, Some(args.clone()), None, out)?;
                Ok(CallState::Waiting { args, ask, shown: false, decided: None })
            }
            settled => Ok(settled),
        }
    }

    fn iteration_text(&mut self, frame: usize, iteration: u32) -> Result<String, MachineError> {
        let message = self.frame(frame)?.message.clone();
        let parts = &self.messages.message(&message)?.parts;
        let texts = parts.iter().filter(|p| p.iteration() == iteration).filter_map(Part::as_text);
        Ok(texts.collect::<Vec<_>>().join("\n"))
    }

    pub(super) fn set_state(
        &mut self,
        frame: usize,
        call: &CallId,
        state: CallState,
    ) -> Result<(), MachineError> {
        if let Some(entry) = self.frame_mut(frame)?.batch.iter_mut().find(|c| c.call == *call) {
            entry.state = state;
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn emit_status(
        &mut self,
        frame: usize,
        part: u32,
        call: &CallId,
        status: CallProgress,
        args: Option<Json>,
        amendment: Option<Json>,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let f = self.frame(frame)?;
        let (message, path, call) = (f.message.clone(), f.path.clone(), call.clone());
        let event = EventKind::ToolCallStatus { message, part, call, status, args, amendment };
        self.emit(&path, event, out)
    }

    pub(super) fn emit_completed(
        &mut self,
        frame: usize,
        part: u32,
        call: &CallId,
        result: Box<CallResult>,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let f = self.frame(frame)?;
        let (message, path, call) = (f.message.clone(), f.path.clone(), call.clone());
        self.emit(&path, EventKind::ToolCallCompleted { message, part, call, result }, out)
    }

    pub(super) fn emit_failed(
        &mut self,
        frame: usize,
        part: u32,
        call: &CallId,
        error: ToolError,
        output: Option<Json>,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let f = self.frame(frame)?;
        let (message, path, call) = (f.message.clone(), f.path.clone(), call.clone());
        let error = Box::new(error);
        self.emit(&path, EventKind::ToolCallFailed { message, part, call, error, output }, out)
    }
}
