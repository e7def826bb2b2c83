//! A small world for the tests of the pipeline.

use super::{Executed, PipelineEnv, execute, prepare};
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
    Verdict::Run { args: args.into() }
}

/// The code and the text of a refusal.
pub fn refused(verdict: Verdict) -> (ToolErrorCode, String) {
    match verdict {
        Verdict::Refuse { error, .. } => (error.code, error.message),
        other => panic!("{other:?}"),
    }
}

pub async fn perform(env: &PipelineEnv, tool: &str, args: Value, mode: ExecuteMode) -> Executed {
    let call = ExecuteCall {
        call: "t-0".into(),
        tool: tool.into(),
        args: args.into(),
        mode,
        reason: None,
    };
    execute(env, &call).await
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
