//! A small world for the tests of the pipeline.

use super::{Allowances, Executed, PipelineEnv, execute, prepare};
use crate::tool::{
    FnTool, Identity, RegisteredTool, ToolContract, ToolOutput, ToolRun, ToolScope, Toolbox,
};
use serde_json::{Value, json};
use std::sync::Arc;
use turnbuckle_core::error::{ToolError, ToolErrorCode};
use turnbuckle_core::event::CallResult;
use turnbuckle_core::json::Json;
use turnbuckle_core::machine::{
    Directives, ExecuteCall, ExecuteMode, ExecuteResult, PrepareCall, PrepareStage, Verdict,
};
use turnbuckle_core::time::Timestamp;
use turnbuckle_store::{Allowance, Claim, Commit, MemoryStore, NewSession, SessionKey, Store};

/// Any call of the tool by the agent `main` for the local user, in any session.
pub fn always(tool: &str) -> Allowance {
    Allowance {
        id: "card".into(),
        user: "local".into(),
        session: None,
        agent: "main".into(),
        tool: tool.into(),
        args: Vec::new(),
        at: Timestamp::default(),
    }
}

/// A store in which the local tenant's people have allowed this, in the sessions `s` and `other`.
pub async fn allowing(allowances: impl IntoIterator<Item = Allowance>) -> MemoryStore {
    let store = MemoryStore::new();
    let now = Timestamp::default();
    for session in ["s", "other"] {
        let key = SessionKey::new("local", session);
        let (user, agent) = ("local".into(), "main".into());
        let (title, model, state) = (None, None, None);
        let new = NewSession { key, user, agent, title, model, state, now };
        store.create_session(new).await.unwrap();
    }
    let key = SessionKey::new("local", "s");
    let Claim::Held { fence, .. } = store.claim(&key, "test", 1000, now).await.unwrap() else {
        panic!("the session is new")
    };
    let mut commit = Commit::new(key, fence, now);
    commit.allowances = allowances.into_iter().collect();
    store.commit(commit).await.unwrap();
    store
}

pub async fn allowed(allowances: impl IntoIterator<Item = Allowance>) -> Allowances {
    Allowances::Kept(Arc::new(allowing(allowances).await))
}

/// Sends mail; echoes its arguments.
pub fn send() -> FnTool {
    let contract = ToolContract::new("send_mail").description("Sends mail.").input_schema(json!({
        "type": "object",
        "properties": {
            "to": {"type": "string"},
            "body": {"type": "string", "maxLength": 100},
            "inbox": {"type": "string"},
            "options": {"type": "object", "properties": {"urgent": {"type": "boolean"}}},
            "cc": {"type": ["string", "null"]},
        },
        "required": ["to"],
    }));
    FnTool::new(contract, |args, _| ToolRun::ready(Ok(ToolOutput::json(Value::clone(&args)))))
}

pub fn env(tools: impl IntoIterator<Item = FnTool>) -> PipelineEnv {
    let mut toolbox = Toolbox::new();
    for tool in tools {
        toolbox.add(RegisteredTool::new(tool).unwrap()).unwrap();
    }
    PipelineEnv::new(Arc::new(toolbox), Arc::new(ToolScope::new(Identity::local("s", "t", "main"))))
}

pub async fn check(env: &PipelineEnv, tool: &str, args: Value) -> Verdict {
    check_at(env, tool, args, PrepareStage::First).await
}

pub async fn check_at(env: &PipelineEnv, tool: &str, args: Value, stage: PrepareStage) -> Verdict {
    let given: Json = args.clone().into();
    let call = PrepareCall { call: "t-0".into(), tool: tool.into(), args: given.clone(), stage };
    let verdict = prepare(env, &call).await;
    assert_eq!(*given, args, "checking never changes what it is given");
    verdict
}

pub fn approved(amendment: Option<Value>) -> PrepareStage {
    PrepareStage::Approved { amendment: amendment.map(Json::from) }
}

pub fn runs(args: Value) -> Verdict {
    Verdict::Run { args: args.into(), warnings: Vec::new() }
}

/// The code and the text of a refusal.
pub fn refused(verdict: Verdict) -> (ToolErrorCode, String) {
    match verdict {
        Verdict::Refuse { error, .. } => (error.code, error.message),
        other => panic!("{other:?}"),
    }
}

/// Runs a call that was checked with these warnings.
pub async fn warned(env: &PipelineEnv, tool: &str, args: Value, warnings: Vec<String>) -> Executed {
    let call = ExecuteCall { warnings, ..call(tool, args, ExecuteMode::Real) };
    execute(env, &call).await
}

fn call(tool: &str, args: Value, mode: ExecuteMode) -> ExecuteCall {
    ExecuteCall {
        call: "t-0".into(),
        tool: tool.into(),
        args: args.into(),
        mode,
        reason: None,
        warnings: Vec::new(),
    }
}

pub async fn perform(env: &PipelineEnv, tool: &str, args: Value, mode: ExecuteMode) -> Executed {
    execute(env, &call(tool, args, mode)).await
}

pub async fn real(env: &PipelineEnv, tool: &str, args: Value) -> Executed {
    perform(env, tool, args, ExecuteMode::Real).await
}

pub fn success(result: CallResult) -> ExecuteResult {
    ExecuteResult::Success { result, directives: Directives::default() }
}

pub fn failure(code: ToolErrorCode, message: &str) -> ExecuteResult {
    ExecuteResult::Failure { error: ToolError::new(code, message), output: None }
}

/// The result of a success.
pub fn result(executed: Executed) -> CallResult {
    match executed.result {
        ExecuteResult::Success { result, .. } => result,
        other => panic!("{other:?}"),
    }
}

/// The code and the text of a failure.
pub fn failed(executed: Executed) -> (ToolErrorCode, String) {
    match executed.result {
        ExecuteResult::Failure { error, .. } => (error.code, error.message),
        other => panic!("{other:?}"),
    }
}
