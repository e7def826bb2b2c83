//! Tools made by the attribute, used as the pipeline uses them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use turnbuckle_core::error::ToolErrorCode;
use turnbuckle_core::machine::{ExecuteCall, ExecuteMode, ExecuteResult};
use turnbuckle_core::machine::{PrepareCall, PrepareStage, Verdict};
use turnbuckle_core::tool::{AfterSuccess, Counts, Overlap, ToolTraits};
use turnbuckle_engine::pipeline::{PipelineEnv, execute, prepare};
use turnbuckle_engine::tool::*;
use turnbuckle_macros::tool;

#[derive(Deserialize, JsonSchema)]
struct Search {
    /// Words to find.
    query: String,
    #[serde(default)]
    limit: Option<u8>,
}

#[derive(Serialize, JsonSchema)]
struct Found {
    threads: Vec<String>,
}

/// Finds threads
/// by words.
#[tool(
    crate = turnbuckle_engine, name = "find_threads", title = "Search the mail", effect = "read_only",
    retention = "summary", timeout_ms = 1500, output_cap = 2000, category = "system", exclusive, ends_turn, uncounted,
    usage_notes = "Search before you answer.", selection_rule = "For mail.", taint = "untrusted", taint = "mail",
    expires_after_ms = 60000, output = Found,
)]
async fn search(ctx: ToolContext, Search { query, limit }: Search) -> Result<Found, String> {
    let thread = format!("{query}/{}/{}", limit.unwrap_or(9), ctx.call());
    Ok(Found { threads: vec![thread] })
}

/// Says who asks.
#[tool(crate = turnbuckle_engine)]
async fn who_am_i(ctx: ToolContext) -> Result<String, String> {
    Ok(ctx.user().to_string())
}

#[tool(crate = turnbuckle_engine, description = "Fails.", approval = "always")]
async fn fail() -> std::io::Result<()> {
    Err(std::io::Error::other("disk full"))
}

async fn call(tool: FnTool, args: Value) -> (Verdict, Option<ExecuteResult>) {
    let name = tool.contract().name().clone();
    let mut toolbox = Toolbox::new();
    toolbox.add(RegisteredTool::new(tool).unwrap()).unwrap();
    let scope = Arc::new(ToolScope::new(Identity::local("s", "t", "main")));
    let env = PipelineEnv::new(Arc::new(toolbox), scope);
    let call = turnbuckle_core::ids::CallId::from("t-0");
    let check = PrepareCall {
        call: call.clone(),
        tool: name.clone(),
        args: args.into(),
        stage: PrepareStage::First,
    };
    let verdict = prepare(&env, &check).await;
    let Verdict::Run { args, warnings } = &verdict else { return (verdict, None) };
    let run = ExecuteCall {
        call,
        tool: name,
        args: args.clone(),
        mode: ExecuteMode::Real,
        reason: None,
        warnings: warnings.clone(),
    };
    let result = execute(&env, &run).await.result;
    (verdict, Some(result))
}

fn output(result: Option<ExecuteResult>) -> Value {
    match result {
        Some(ExecuteResult::Success { result, .. }) => Value::clone(&result.output),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_option_reaches_the_contract() {
    let tool = search();
    let contract = tool.contract();
    let expected = ToolTraits {
        effect: SideEffect::ReadOnly,
        overlap: Overlap::Exclusive,
        after_success: AfterSuccess::EndsTurn,
        retention: Retention::Summary,
        counts: Counts::Free,
        ..ToolTraits::new("find_threads")
    };
    assert_eq!(contract.traits, expected);
    assert_eq!(contract.title, "Search the mail");
    assert_eq!(contract.description, "Finds threads by words.");
    assert_eq!(contract.category, Category::System);
    assert_eq!(contract.timeout, Some(Duration::from_millis(1500)));
    assert_eq!(contract.expires_after, Some(Duration::from_secs(60)));
    assert_eq!(contract.output_cap, Some(2000));
    assert_eq!(contract.usage_notes.as_deref(), Some("Search before you answer."));
    assert_eq!(contract.selection_rule.as_deref(), Some("For mail."));
    assert_eq!(contract.taints, ["untrusted".into(), "mail".into()] as [Arc<str>; 2]);
    let schema = json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Words to find."},
            "limit": {"type": ["integer", "null"], "default": null, "minimum": 0, "maximum": 255},
        },
        "required": ["query"],
        "additionalProperties": false,
    });
    assert_eq!(*contract.input_schema, schema);
    let output = json!({
        "type": "object",
        "properties": {"threads": {"type": "array", "items": {"type": "string"}}},
        "required": ["threads"],
    });
    assert_eq!(contract.output_schema.as_deref(), Some(&output));
}

#[test]
fn without_options_the_function_says_it_all() {
    let tool = who_am_i();
    let contract = tool.contract();
    assert_eq!(contract.traits, ToolTraits::new("who_am_i"));
    assert_eq!(
        (contract.title.as_str(), contract.description.as_str()),
        ("Who am i", "Says who asks.")
    );
    assert_eq!(
        *contract.input_schema,
        json!({"type": "object", "properties": {}, "additionalProperties": false})
    );
}

#[tokio::test]
async fn parameters_arrive_in_the_functions_own_order() {
    let (_, result) = call(search(), json!({"query": "late", "limit": 3})).await;
    assert_eq!(output(result), json!({"threads": ["late/3/t-0"]}));
    let (_, result) = call(who_am_i(), json!({})).await;
    assert_eq!(output(result), json!("local"));
}

#[tokio::test]
async fn hooks_attach_to_the_constructor() {
    let tool = search().approval_when(|args, _| Ok(args["query"] == "all"));
    let (verdict, _) = call(tool, json!({"query": "all"})).await;
    assert!(matches!(verdict, Verdict::Ask { .. }), "{verdict:?}");
}

#[tokio::test]
async fn any_error_that_can_be_shown_is_a_failure() {
    let (_, result) = call(fail().approval(Approval::Never), json!({})).await;
    let Some(ExecuteResult::Failure { error, .. }) = result else { panic!("{result:?}") };
    assert_eq!((error.code, error.message.as_str()), (ToolErrorCode::Failed, "disk full"));
}
