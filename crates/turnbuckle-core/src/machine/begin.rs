//! The start of a turn, routes, agents one after the other, sub-agents.

use super::effect::{CallModel, EffectKind};
use super::input::ModelAnswer;
use super::spec::TurnSpec;
use super::state::{About, Attempt, Frame, Parent, Phase, Streaming, Turn};
use super::{MachineError, Output};
use crate::event::EventKind;
use crate::ids::{AgentName, CallId};
use crate::json::{Json, canonical};
use crate::message::{AssistantMessage, MESSAGE_SCHEMA, MessageState};
use crate::model::Block;
use crate::part::InputKind;
use crate::usage::Purpose;
use serde::Deserialize;
use std::collections::BTreeMap;

/// How deep sub-agents may nest.
const MAX_DEPTH: usize = 8;

pub(super) fn check(spec: &TurnSpec) -> Result<(), MachineError> {
    let wrong = |message: String| Err(MachineError::Spec(message));
    let known = |agent: &AgentName| spec.agents.contains_key(agent);
    if !spec.routes.routes.contains_key(&spec.routes.default) {
        return wrong(format!("the default route `{}` is not defined", spec.routes.default));
    }
    for (route, agents) in &spec.routes.routes {
        if agents.is_empty() {
            return wrong(format!("route `{route}` has no agents"));
        }
        if let Some(agent) = agents.iter().find(|a| !known(a)) {
            return wrong(format!("route `{route}` names the unknown agent `{agent}`"));
        }
    }
    match &spec.routes.supervisor {
        Some(agent) if !known(agent) => wrong(format!("the supervisor `{agent}` is not defined")),
        _ => Ok(()),
    }
}

impl Turn {
    pub(super) fn begin(&mut self, out: &mut Output) -> Result<(), MachineError> {
        if self.phase != Phase::New {
            return Err(MachineError::Spec("the turn has already begun".into()));
        }
        self.open_message(out)?;
        if let Some(supervisor) = self.spec.routes.supervisor.clone() {
            let path = supervisor.as_str().into();
            self.frames.push(Frame::new(supervisor, path, self.spec.turn.assistant_message()));
            self.call_model(0, Attempt::first(Purpose::Route), out)
        } else {
            self.start_route(self.spec.routes.default.clone(), 0, out)
        }
    }

    /// The turn is there: its user message and its own, still empty.
    pub(super) fn open_message(&mut self, out: &mut Output) -> Result<(), MachineError> {
        self.phase = Phase::Running;
        self.meters.active_since = self.now;
        let routes = &self.spec.routes;
        let first = routes.routes.get(&routes.default).and_then(|r| r.first()).cloned();
        let first = first.ok_or_else(|| MachineError::Spec("the default route is empty".into()))?;
        let opener = routes.supervisor.clone().unwrap_or_else(|| first.clone());
        let path = opener.as_str().into();
        let message = Box::new(self.new_message(self.spec.turn.assistant_message(), first));
        let started = EventKind::TurnStarted {
            message: Box::new(self.spec.user.clone()),
            limits: Box::new(self.spec.limits.clone()),
        };
        self.emit(&path, started, out)?;
        self.emit(&path, EventKind::AssistantMessageStarted { message, call: None }, out)
    }

    fn new_message(&self, id: crate::ids::MessageId, agent: AgentName) -> AssistantMessage {
        AssistantMessage {
            schema: MESSAGE_SCHEMA,
            id,
            turn: self.spec.turn.clone(),
            agent,
            at: self.now,
            state: MessageState::Running,
            parts: Vec::new(),
            iterations: Vec::new(),
            link_snapshots: BTreeMap::new(),
        }
    }

    fn start_route(
        &mut self,
        route: String,
        iteration: u32,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        self.route = self.spec.routes.routes.get(&route).cloned().unwrap_or_default();
        self.start_agent_of_route(0, iteration, out)
    }

    /// Starts the `index`-th agent of the route on the turn's message.
    pub(super) fn start_agent_of_route(
        &mut self,
        index: usize,
        iteration: u32,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let agent = self.route.get(index).cloned();
        let agent =
            agent.ok_or_else(|| MachineError::Spec(format!("the route has no agent {index}")))?;
        let mut frame =
            Frame::new(agent.clone(), agent.as_str().into(), self.spec.turn.assistant_message());
        frame.iteration = iteration;
        let number = self.frames.len();
        self.frames.push(frame);
        self.frame_mut(number)?.first_part = self.parts_len(number)?;
        let path = self.path(number)?;
        self.emit(&path, EventKind::AgentStarted { name: agent.clone() }, out)?;
        if index > 0 {
            let note =
                format!("The work so far was done by other agents. Go on from it as `{agent}`.");
            self.insert_input(number, InputKind::Nudge, note, out)?;
        }
        self.next_call(number, out)
    }

    /// Which agent of the route a frame is.
    pub(super) fn route_index(&self, frame: usize) -> usize {
        let routed = self.frames.iter().take(frame + 1).filter(|f| f.parent.is_none());
        let agents = routed.count() - usize::from(self.spec.routes.supervisor.is_some());
        agents.saturating_sub(1)
    }

    /// Starts the nested turn of a call.
    pub(super) fn start_child(
        &mut self,
        parent: usize,
        call: &CallId,
        agent: &AgentName,
        args: &Json,
        out: &mut Output,
    ) -> Result<(), String> {
        if !self.spec.agents.contains_key(agent) {
            return Err(format!("the agent `{agent}` is not available in this turn"));
        }
        let mut depth = 0;
        let mut at = self.frames.get(parent);
        while let Some(frame) = at {
            depth += 1;
            at = frame.parent.as_ref().and_then(|p| self.frames.get(p.frame));
        }
        if depth >= MAX_DEPTH {
            return Err(format!("sub-agents may nest {MAX_DEPTH} deep; do the work here instead"));
        }
        self.open_child(parent, call, agent, args, out).map_err(|e| e.to_string())
    }

    fn open_child(
        &mut self,
        parent: usize,
        call: &CallId,
        agent: &AgentName,
        args: &Json,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let path: crate::event::AgentPath = format!("{}/{call}:{agent}", self.path(parent)?).into();
        let message = call.child_message();
        let mut frame = Frame::new(agent.clone(), path.clone(), message.clone());
        frame.parent = Some(Parent { frame: parent, call: call.clone() });
        frame.task = Some(match args.get("task").and_then(|t| t.as_str()) {
            Some(task) => task.to_owned(),
            None => canonical(args),
        });
        let number = self.frames.len();
        self.frames.push(frame);
        let body = Box::new(self.new_message(message, agent.clone()));
        let started =
            EventKind::AssistantMessageStarted { message: body, call: Some(call.clone()) };
        self.emit(&path, started, out)?;
        self.emit(&path, EventKind::AgentStarted { name: agent.clone() }, out)?;
        self.next_call(number, out)
    }

    /// The supervisor answered: take its route, ask once more, or take the default.
    pub(super) fn route_chosen(
        &mut self,
        frame: usize,
        answer: Result<&ModelAnswer, &str>,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let choice = match answer {
            Ok(answer) => parse_choice(answer),
            Err(why) => Err(why.to_owned()),
        };
        let (route, reasoning) = match choice {
            Ok(choice) if self.spec.routes.routes.contains_key(&choice.route) => {
                (choice.route, choice.reasoning)
            }
            other => {
                let why = match other {
                    Ok(choice) => format!("there is no route `{}`", choice.route),
                    Err(why) => why,
                };
                let room = self.room_for_call(frame)?;
                let f = self.frame_mut(frame)?;
                f.bad_answers += 1;
                if f.bad_answers == 1 && answer.is_ok() && room {
                    return self.call_model(frame, Attempt::first(Purpose::Route), out);
                }
                let note =
                    format!("The default route runs, since the supervisor gave none: {why}.");
                (self.spec.routes.default.clone(), Some(note))
            }
        };
        let path = self.path(frame)?;
        self.emit(&path, EventKind::RouteSelected { route: route.clone(), reasoning }, out)?;
        let iteration = self.frame(frame)?.iteration;
        self.frame_mut(frame)?.ended = Some(super::state::FrameEnd::Done);
        self.start_route(route, iteration, out)
    }

    /// Asks for a model call of this frame.
    pub(super) fn call_model(
        &mut self,
        frame: usize,
        attempt: Attempt,
        out: &mut Output,
    ) -> Result<(), MachineError> {
        let streaming = self.new_streaming(frame)?;
        let f = self.frame_mut(frame)?;
        let forced = f.force_tool.take().filter(|_| attempt.purpose != Purpose::Closing);
        let effect = EffectKind::CallModel(CallModel {
            message: f.message.clone(),
            iteration: f.iteration,
            purpose: attempt.purpose,
            attempt: attempt.number,
            after: attempt.after,
            calls_made: f.calls_made,
            tool_calls_made: f.tool_calls,
            nudges: f.nudges,
            force_tool: forced,
            task: f.task.clone(),
        });
        if attempt.number == 1 {
            self.meters.model_calls += 1;
        }
        self.ask(frame, effect, About::Model(streaming), out);
        Ok(())
    }

    /// An answer of which nothing has come.
    pub(super) fn new_streaming(&mut self, frame: usize) -> Result<Streaming, MachineError> {
        let base = self.parts_len(frame)?;
        let first_call = *self.next_call_of(frame)?;
        Ok(Streaming { base, first_call, since: self.now, ..Streaming::default() })
    }
}

#[derive(Deserialize)]
struct Choice {
    route: String,
    #[serde(default)]
    reasoning: Option<String>,
}

/// The structured answer of a supervisor; a fence around it is forgiven.
fn parse_choice(answer: &ModelAnswer) -> Result<Choice, String> {
    let text: String = answer
        .response
        .blocks
        .iter()
        .filter_map(|block| match block {
            Block::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let body = match (text.find('{'), text.rfind('}')) {
        (Some(start), Some(end)) => text.get(start..=end).unwrap_or_default(),
        _ => "",
    };
    serde_json::from_str(body).map_err(|e| format!("its answer is not the expected JSON: {e}"))
}
