//! Short forms of what the tests say: specifications, answers, results.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use turnbuckle_core::error::{ModelError, ModelErrorKind, ToolError};
use turnbuckle_core::event::CallResult;
use turnbuckle_core::ids::{SessionId, TurnId};
use turnbuckle_core::limits::{AgentLimits, TurnLimits};
use turnbuckle_core::machine::*;
use turnbuckle_core::message::UserMessage;
use turnbuckle_core::model::{Block, ModelRef, ModelResponse};
use turnbuckle_core::time::Timestamp;
use turnbuckle_core::tool::{AfterSuccess, Counts, Overlap, RunsOn, SideEffect, ToolTraits};
use turnbuckle_core::usage::{FinishReason, Usage};

pub const START: i64 = 1_700_000_000_000;

pub fn user(id: &str, text: &str) -> UserMessage {
    UserMessage {
        id: id.into(),
        turn: "t".into(),
        at: Timestamp::from_millis(START),
        content: text.into(),
        author: Some("ada".into()),
        origin: Default::default(),
        surroundings: Default::default(),
        client_id: None,
    }
}

pub fn agent(tools: Vec<ToolTraits>) -> Box<AgentSpec> {
    Box::new(AgentSpec {
        limits: AgentLimits::default(),
        tools,
        withheld: Vec::new(),
        policy: DataPolicy::default(),
    })
}

/// A turn of the agent `main` with these tools.
pub fn spec(tools: Vec<ToolTraits>) -> TurnSpec {
    TurnSpec {
        session: SessionId::from("s"),
        turn: TurnId::from("t"),
        user: user("t-u", "Please."),
        mode: RunMode::Interactive,
        limits: TurnLimits::default(),
        agents: BTreeMap::from([("main".into(), agent(tools))]),
        routes: Routes::single("main"),
        first_capture: 0,
    }
}

pub fn read(name: &str) -> ToolTraits {
    ToolTraits { effect: SideEffect::ReadOnly, ..ToolTraits::new(name) }
}

pub fn write(name: &str) -> ToolTraits {
    ToolTraits::new(name)
}

pub fn put(name: &str) -> ToolTraits {
    ToolTraits { effect: SideEffect::Idempotent, ..ToolTraits::new(name) }
}

pub fn exclusive(name: &str) -> ToolTraits {
    ToolTraits { overlap: Overlap::Exclusive, ..ToolTraits::new(name) }
}

pub fn client(name: &str) -> ToolTraits {
    ToolTraits { runs_on: RunsOn::Client, ..ToolTraits::new(name) }
}

pub fn sub(name: &str, agent: &str) -> ToolTraits {
    ToolTraits { runs_on: RunsOn::Agent(agent.into()), ..ToolTraits::new(name) }
}

pub fn ends(name: &str) -> ToolTraits {
    ToolTraits { after_success: AfterSuccess::EndsTurn, ..ToolTraits::new(name) }
}

pub fn free(name: &str) -> ToolTraits {
    ToolTraits { counts: Counts::Free, ..read(name) }
}

pub fn text(text: &str) -> Block {
    Block::Text { text: text.into(), native: None }
}

pub fn thinking(text: &str) -> Block {
    Block::Thinking { text: text.into(), native: None }
}

/// A call without an id from the provider.
pub fn call(name: &str, args: Value) -> Block {
    raw_call("", name, &args.to_string())
}

pub fn raw_call(wire_id: &str, name: &str, arguments: &str) -> Block {
    Block::ToolCall {
        wire_id: wire_id.into(),
        name: name.into(),
        arguments: arguments.into(),
        native: None,
    }
}

/// A complete answer of 10 tokens in and 5 out; it stopped for its calls if it has any.
pub fn answer(blocks: Vec<Block>) -> ModelAnswer {
    let calls = blocks.iter().any(|b| matches!(b, Block::ToolCall { .. }));
    let finish = if calls { FinishReason::ToolCalls } else { FinishReason::Stop };
    let empty = ModelResponse::empty(&ModelRef::new("p", "m"), finish);
    let usage = Usage { input: Some(10), output: Some(5), ..Usage::default() };
    ModelAnswer::new(ModelResponse { blocks, usage, ..empty })
}

pub fn finished(blocks: Vec<Block>, finish: FinishReason) -> ModelAnswer {
    let mut answer = answer(blocks);
    answer.response.finish = finish;
    answer
}

/// What a model call comes to.
#[derive(Clone, Debug)]
pub enum Reply {
    Done(ModelAnswer),
    Fail { error: ModelError, partial: Option<ModelAnswer> },
}

pub fn says(words: &str) -> Reply {
    Reply::Done(answer(vec![text(words)]))
}

pub fn calls(blocks: Vec<Block>) -> Reply {
    Reply::Done(answer(blocks))
}

pub fn fails(kind: ModelErrorKind) -> Reply {
    Reply::Fail { error: ModelError::new(kind, "no luck"), partial: None }
}

/// The failed call had sent this much; nothing of it was metered.
pub fn breaks_after(kind: ModelErrorKind, blocks: Vec<Block>) -> Reply {
    let mut partial = answer(blocks);
    partial.response.usage = Usage::default();
    Reply::Fail { error: ModelError::new(kind, "no luck"), partial: Some(partial) }
}

pub fn gives(output: Value) -> ExecuteResult {
    gives_with(output, Directives::default())
}

pub fn gives_with(output: Value, directives: Directives) -> ExecuteResult {
    let result = CallResult { output: Arc::new(output), ..CallResult::default() };
    ExecuteResult::Success { result, directives }
}

pub fn breaks(message: &str) -> ExecuteResult {
    ExecuteResult::Failure { error: ToolError::failed(message), output: None }
}

pub fn run(check: &PrepareCall) -> Verdict {
    Verdict::Run { args: check.args.clone(), warnings: Vec::new() }
}

pub fn ask(check: &PrepareCall) -> Verdict {
    let question = Question { title: format!("Do {}?", check.tool), ..Question::default() };
    let (args, question) = (check.args.clone(), Box::new(question));
    Verdict::Ask { args, question, warnings: Vec::new() }
}

pub fn at_front_end(check: &PrepareCall) -> Verdict {
    let title = check.tool.to_string();
    Verdict::Client { args: check.args.clone(), title, expires_at: None }
}

pub fn approve() -> Decision {
    Decision::approve()
}

pub fn reject(reason: &str) -> Decision {
    Decision::Reject { reason: Some(reason.into()) }
}

/// The output of `read` and the like when a test does not care.
pub fn fine() -> Value {
    json!({"ok": true})
}
