//! What is new in a turn as AG-UI events.

use super::Version;
use super::event::{AgEvent, By, Role, Suspended, Tokens};
use super::messages::{self, prose_id, result_id, result_of, steering_id, step_id};
use crate::live::Frames;
use crate::protocols::shown::{BrokenAt, Change, Mend, Prose, ProseId, Scope, Sink};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use turnbuckle_core::fold::TurnFold;
use turnbuckle_core::ids::{CallId, MessageId, SessionId};
use turnbuckle_core::part::{InputPart, ToolCallPart};
use turnbuckle_core::usage::IterationUsage;

/// What a run knows besides the turn.
pub(super) struct Page {
    pub(super) session: SessionId,
    pub(super) version: Version,
    /// The messages of earlier turns.
    pub(super) history: Vec<Value>,
    /// Calls whose results the client gave, and so has.
    pub(super) given: BTreeSet<CallId>,
    /// The nested agents that were begun in this run and have not ended.
    pub(super) agents: Vec<CallId>,
    /// Tokens of this run.
    pub(super) usage: Vec<Tokens>,
}

impl Page {
    /// Every message there is.
    pub(super) fn messages(&self, turn: &TurnFold) -> Vec<Value> {
        let mut all = self.history.clone();
        if let Some(user) = &turn.user {
            all.push(messages::of_user(&self.session, user));
        }
        if let Some(message) = &turn.assistant {
            messages::of_assistant(&self.session, message, None, &mut all);
        }
        all
    }

    /// A model call was metered.
    pub(super) fn metered(&mut self, call: &IterationUsage) {
        let (usage, prompt) = (&call.usage, call.usage.prompt());
        let output = usage.output.unwrap_or(0);
        let known = self.usage.iter_mut();
        let mut known = known.filter(|t| t.provider == call.provider && t.model == call.model);
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        match known.next() {
            Some(tokens) => {
                tokens.input_tokens = tokens.input_tokens.saturating_add(prompt);
                tokens.output_tokens = tokens.output_tokens.saturating_add(output);
                tokens.total_tokens = tokens.input_tokens.saturating_add(tokens.output_tokens);
                tokens.reasoning_tokens = sum(tokens.reasoning_tokens, usage.reasoning);
                tokens.cached_input_tokens = sum(tokens.cached_input_tokens, usage.cache_read);
                tokens.cache_write_input_tokens =
                    sum(tokens.cache_write_input_tokens, usage.cache_write);
            }
            None => self.usage.push(Tokens {
                provider: call.provider.clone(),
                model: call.model.clone(),
                input_tokens: prompt,
                output_tokens: output,
                total_tokens: prompt.saturating_add(output),
                reasoning_tokens: usage.reasoning,
                cached_input_tokens: usage.cache_read,
                cache_write_input_tokens: usage.cache_write,
            }),
        }
    }
}

/// Writes events.
pub(super) struct Writer<'a> {
    pub(super) page: &'a mut Page,
    pub(super) frames: &'a mut Frames,
}

impl Writer<'_> {
    pub(super) fn write(&mut self, event: &AgEvent) {
        // Our own types always have JSON.
        self.frames.data(&serde_json::to_string(event).unwrap_or_default());
    }

    /// Whom an event in this scope is about. Nested agents are begun before anything is said of them.
    fn enter(&mut self, scope: &Scope<'_>) -> By {
        let Some((call, outer)) = scope.inside else { return By::default() };
        let parent = self.enter(outer);
        if !self.page.agents.contains(&call.id) {
            self.page.agents.push(call.id.clone());
            self.write(&AgEvent::SubagentStarted {
                subagent_run_id: call.id.clone(),
                name: scope.message.agent.clone(),
                parent_tool_call_id: call.id.clone(),
                parent_message_id: step_id(&outer.message.id, call.iteration),
                parent_subagent_run_id: parent.subagent_run_id,
            });
        }
        By { subagent_run_id: Some(call.id.clone()) }
    }

    /// Nested agents end with the call that runs them.
    fn leave(&mut self, call: &CallId) {
        let inner = format!("{call}.");
        let ends = |open: &CallId| open == call || open.as_str().starts_with(&inner);
        let (ended, open) = std::mem::take(&mut self.page.agents).into_iter().partition(ends);
        self.page.agents = open;
        let ended: Vec<CallId> = ended;
        for agent in ended.into_iter().rev() {
            self.write(&AgEvent::SubagentFinished { subagent_run_id: agent, outcome: None });
        }
    }

    /// Nested agents that are still at work when the run ends are suspended.
    pub(super) fn suspend(&mut self, cards: &[(MessageId, CallId)]) {
        while let Some(agent) = self.page.agents.pop() {
            let inside = |call: &CallId| call.as_str().starts_with(&format!("{agent}."));
            let waits = cards.iter().filter(|(_, call)| inside(call));
            let interrupt_ids: Vec<MessageId> = waits.map(|(card, _)| card.clone()).collect();
            let outcome = Some(Suspended::Suspended { interrupt_ids });
            self.write(&AgEvent::SubagentFinished { subagent_run_id: agent, outcome });
        }
    }

    fn began(&mut self, scope: &Scope<'_>, id: ProseId) {
        let (by, message_id) = (self.enter(scope), prose_id(&scope.message.id, id));
        match id.kind {
            Prose::Text => {
                self.write(&AgEvent::TextMessageStart { message_id, role: Role::Assistant, by });
            }
            Prose::Thinking => {
                let (again, also) = (message_id.clone(), by.clone());
                self.write(&AgEvent::ReasoningStart { message_id, by });
                let (message_id, role, by) = (again, Role::Reasoning, also);
                self.write(&AgEvent::ReasoningMessageStart { message_id, role, by });
            }
        }
    }

    fn more(&mut self, scope: &Scope<'_>, id: ProseId, text: &str) {
        let (by, message_id) = (self.enter(scope), prose_id(&scope.message.id, id));
        let delta = text.to_owned();
        self.write(&match id.kind {
            Prose::Text => AgEvent::TextMessageContent { message_id, delta, by },
            Prose::Thinking => AgEvent::ReasoningMessageContent { message_id, delta, by },
        });
    }

    fn ended(&mut self, scope: &Scope<'_>, id: ProseId) {
        let (by, message_id) = (self.enter(scope), prose_id(&scope.message.id, id));
        match id.kind {
            Prose::Text => self.write(&AgEvent::TextMessageEnd { message_id, by }),
            Prose::Thinking => {
                let (again, also) = (message_id.clone(), by.clone());
                self.write(&AgEvent::ReasoningMessageEnd { message_id, by });
                self.write(&AgEvent::ReasoningEnd { message_id: again, by: also });
            }
        }
    }

    fn settled(&mut self, scope: &Scope<'_>, call: &ToolCallPart) {
        self.leave(&call.id);
        if self.page.given.contains(&call.id) {
            return;
        }
        let by = self.enter(scope);
        self.write(&AgEvent::ToolCallResult {
            message_id: result_id(&call.id),
            tool_call_id: call.id.clone(),
            content: result_of(call).0,
            role: Role::Tool,
            by,
        });
    }

    fn steered(&mut self, input: &InputPart) {
        let (id, by) = (steering_id(input), By::default());
        let text = input.content.outline().into_owned();
        self.write(&AgEvent::TextMessageStart {
            message_id: id.clone(),
            role: Role::User,
            by: by.clone(),
        });
        if !text.is_empty() {
            let (message_id, by) = (id.clone(), by.clone());
            self.write(&AgEvent::TextMessageContent { message_id, delta: text, by });
        }
        self.write(&AgEvent::TextMessageEnd { message_id: id, by });
    }
}

impl Sink for Writer<'_> {
    fn change(&mut self, scope: &Scope<'_>, change: Change<'_>) {
        match change {
            Change::Began(id) => self.began(scope, id),
            Change::More(id, text) => self.more(scope, id, text),
            Change::Ended(id) => self.ended(scope, id),
            Change::CallBegan(call) => {
                let by = self.enter(scope);
                self.write(&AgEvent::ToolCallStart {
                    tool_call_id: call.id.clone(),
                    tool_call_name: call.name.clone(),
                    parent_message_id: step_id(&scope.message.id, call.iteration),
                    by,
                });
            }
            Change::ArgsMore(call, text) => {
                let (by, delta) = (self.enter(scope), text.to_owned());
                self.write(&AgEvent::ToolCallArgs { tool_call_id: call.id.clone(), delta, by });
            }
            Change::ArgsEnded(call) => {
                let by = self.enter(scope);
                self.write(&AgEvent::ToolCallEnd { tool_call_id: call.clone(), by });
            }
            Change::Progress(call, data) => {
                let value = json!({"toolCallId": call.id, "data": data});
                self.write(&AgEvent::Custom { name: "tool-progress", value });
            }
            Change::Settled(call) => self.settled(scope, call),
            Change::Steered(input) => self.steered(input),
            // A client reads the arguments that run from the messages that are sent with a pause.
            Change::Input(..)
            | Change::StepBegan
            | Change::StepEnded
            | Change::Asked(..)
            | Change::Decided(..) => {}
        }
    }

    fn broken(&mut self, turn: &TurnFold, _: BrokenAt) -> Mend {
        let messages = self.page.messages(turn);
        self.write(&AgEvent::MessagesSnapshot { messages });
        Mend::Adopt
    }
}
