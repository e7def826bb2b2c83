//! What is kept aside and for whom, what ran elsewhere, and hooks that do not end.

use crate::agent::{AgentHooks, Handled};
use crate::pipeline::testing::*;
use crate::pipeline::{Executed, HookCall, Hooks, PipelineEnv, Transformed, prepare, settle};
use crate::tool::{Eventual, FnTool, SideEffect, ToolContract, ToolOutput, ToolRun};
use serde_json::{Value, json};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use turnbuckle_core::error::{ToolError, ToolErrorCode};
use turnbuckle_core::event::CallResult;
use turnbuckle_core::json::Json;
use turnbuckle_core::machine::{
    Directives, ExecuteMode, ExecuteResult, PrepareCall, PrepareStage, SettleCall, Verdict,
};

/// Gives this, and keeps 200 bytes of it in place.
fn giving(output: ToolOutput) -> FnTool {
    let contract = ToolContract::new("act").output_cap(200);
    FnTool::new(contract, move |_, _| ToolRun::ready(Ok(output.clone())))
}

fn long(letter: &str) -> Value {
    json!(letter.repeat(1000))
}

/// What is kept: under which name, and its first letter.
fn kept(executed: &Executed) -> Vec<(&str, &str)> {
    executed.kept_aside.iter().map(|b| (b.reference.as_str(), b.text.get(..1).unwrap())).collect()
}

fn names(value: &Json) -> Option<&str> {
    value.get("full_output").and_then(Value::as_str)
}

#[tokio::test]
async fn the_model_reads_again_what_it_was_shown_and_people_the_output() {
    let plain = real(&env([giving(ToolOutput::json(long("o")))]), "act", json!({})).await;
    assert_eq!(kept(&plain), [("output:t-0", "o")]);
    assert_eq!(names(&result(plain).output), Some("output:t-0"));

    let both = giving(ToolOutput::json(long("o")).model_view(long("v")));
    let both = real(&env([both]), "act", json!({})).await;
    assert_eq!(kept(&both), [("whole:t-0", "o"), ("output:t-0", "v")]);
    let both = result(both);
    assert_eq!(names(&both.output), Some("whole:t-0"));
    assert_eq!(names(&both.model_view.unwrap()), Some("output:t-0"));

    let short = giving(ToolOutput::json(long("o")).model_view(json!("short")));
    let short = real(&env([short]), "act", json!({})).await;
    assert_eq!(kept(&short), [("whole:t-0", "o")]);
    assert_eq!(result(short).model_view.as_deref(), Some(&json!("short")));

    // Warnings stand beside what is shown; they hide nothing.
    let tool = giving(ToolOutput::json(long("o")));
    let warned = warned(&env([tool]), "act", json!({}), vec!["5 was meant".into()]).await;
    assert_eq!(kept(&warned), [("output:t-0", "o")]);
    assert_eq!(names(&result(warned).model_view.unwrap()), Some("output:t-0"));
}

/// Makes of a result what it was told to.
struct Covers(fn(CallResult) -> Transformed);

impl Hooks for Covers {
    fn transform_tool_result<'a>(
        &'a self,
        _: HookCall<'a>,
        result: CallResult,
    ) -> Eventual<'a, Transformed> {
        Eventual::Ready((self.0)(result))
    }
}

fn covered(tool: FnTool, how: fn(CallResult) -> Transformed) -> PipelineEnv {
    PipelineEnv { hooks: Arc::new(Covers(how)), ..env([tool]) }
}

fn forbidden(output: Option<Json>) -> Transformed {
    Transformed::Failure { error: ToolError::failed("it is forbidden"), output }
}

#[tokio::test]
async fn what_a_hook_hides_the_model_does_not_read_where_it_is_kept() {
    let tool = || giving(ToolOutput::json(long("o")));
    let hidden = covered(tool(), |result| {
        let view = Some(json!("nothing to see").into());
        Transformed::Success(CallResult { model_view: view, ..result })
    });
    let hidden = real(&hidden, "act", json!({})).await;
    assert_eq!(kept(&hidden), [("whole:t-0", "o")]);
    let hidden = result(hidden);
    assert_eq!(names(&hidden.output), Some("whole:t-0"), "people see what there is");
    assert_eq!(hidden.model_view.as_deref(), Some(&json!("nothing to see")));

    // A view was for the model alone.
    let both = giving(ToolOutput::json(long("o")).model_view(long("v")));
    let both = covered(both, |result| {
        let view = Some(json!("nothing to see").into());
        Transformed::Success(CallResult { model_view: view, ..result })
    });
    let both = real(&both, "act", json!({})).await;
    assert_eq!(kept(&both), [("whole:t-0", "o")]);
    assert_eq!(names(&result(both).output), Some("whole:t-0"));
    let view = giving(ToolOutput::json(json!("short")).model_view(long("v")));
    let view = real(&covered(view, |_| forbidden(None)), "act", json!({})).await;
    assert_eq!(kept(&view), []);

    // A marker that is left over names nothing.
    let partly = covered(tool(), |result| {
        let mut output = Value::clone(&result.output);
        output["beginning"] = json!("***");
        Transformed::Success(CallResult { output: output.into(), ..result })
    });
    let partly = real(&partly, "act", json!({})).await;
    assert_eq!(kept(&partly), [("whole:t-0", "o")]);
    let partly = result(partly);
    assert_eq!(
        (names(&partly.output), partly.output["beginning"].as_str()),
        (Some("whole:t-0"), Some("***"))
    );
    let seen = partly.model_view.unwrap();
    assert_eq!((names(&seen), seen["beginning"].as_str()), (None, Some("***")));

    let nothing = real(&covered(tool(), |_| forbidden(None)), "act", json!({})).await;
    assert_eq!(kept(&nothing), [("whole:t-0", "o")]);
    let shown = real(&covered(tool(), |r| forbidden(Some(r.output))), "act", json!({})).await;
    assert_eq!(kept(&shown), [("output:t-0", "o")], "what is shown all the same can be read");

    let same = real(&covered(tool(), Transformed::Success), "act", json!({})).await;
    assert_eq!(kept(&same), [("output:t-0", "o")]);
}

#[tokio::test]
async fn what_ran_elsewhere_is_capped_labelled_and_seen_by_the_hooks() {
    let contract = || ToolContract::new("act").on_client().output_cap(200).taint("untrusted");
    let call = |output: Value| SettleCall {
        call: "t-0".into(),
        tool: "act".into(),
        args: json!({}).into(),
        output: output.into(),
    };
    let plain = env([FnTool::elsewhere(contract())]);
    assert!(!plain.taints.has("untrusted"));
    let settled = settle(&plain, call(long("o"))).await;
    assert_eq!(kept(&settled), [("output:t-0", "o")]);
    assert!(plain.taints.has("untrusted"));
    let captured = plain.scope.context.with(|store| {
        let reference = "call:t-0".parse().unwrap();
        store.get(&reference).map(|found| found.into_owned())
    });
    assert_eq!(captured.as_ref(), Some(&*result(settled).output), "later arguments refer to it");

    let forbids = covered(FnTool::elsewhere(contract()), |_| forbidden(None));
    let (code, text) = failed(settle(&forbids, call(json!(1))).await);
    assert_eq!((code, text.as_str()), (ToolErrorCode::Failed, "it is forbidden"));

    let gone = SettleCall { tool: "gone".into(), ..call(json!(1)) };
    let (code, text) = failed(settle(&plain, gone).await);
    assert_eq!(code, ToolErrorCode::UnknownTool);
    assert_eq!(text, "`gone` ran, but it is gone, and what it gave with it.");
}

/// One of its hooks never ends.
#[derive(Clone, Copy)]
struct Hangs(&'static str);

impl Hangs {
    fn at<'a, T: Send + 'a>(self, hook: &str, value: T) -> Eventual<'a, T> {
        if self.0 == hook { Eventual::later(pending()) } else { Eventual::Ready(value) }
    }
}

impl AgentHooks for Hangs {
    fn preprocess_arguments<'a>(
        &'a self,
        _: HookCall<'a>,
    ) -> Eventual<'a, Result<Option<Value>, ToolError>> {
        self.at("preprocess_arguments", Ok(None))
    }

    fn handle_result<'a>(&'a self, _: HookCall<'a>, result: CallResult) -> Eventual<'a, Handled> {
        self.at("handle_result", result.into())
    }
}

impl Hooks for Hangs {
    fn transform_tool_input<'a>(
        &'a self,
        _: HookCall<'a>,
    ) -> Eventual<'a, Result<Option<Value>, ToolError>> {
        self.at("transform_tool_input", Ok(None))
    }

    fn on_tool_result<'a>(
        &'a self,
        _: HookCall<'a>,
        _: &'a CallResult,
    ) -> Eventual<'a, Directives> {
        self.at("on_tool_result", Directives::default())
    }

    fn transform_tool_result<'a>(
        &'a self,
        _: HookCall<'a>,
        result: CallResult,
    ) -> Eventual<'a, Transformed> {
        self.at("transform_tool_result", Transformed::Success(result))
    }
}

#[tokio::test(start_paused = true)]
async fn code_of_the_product_that_never_ends_is_given_up() {
    let within = async |hook: &'static str| {
        let tool = giving(ToolOutput::json(json!("fine")));
        let mut env = env([tool]);
        (env.agent, env.hooks) = (Arc::new(Hangs(hook)), Arc::new(Hangs(hook)));
        let started = tokio::time::Instant::now();
        let check = PrepareCall {
            call: "t-0".into(),
            tool: "act".into(),
            args: json!({}).into(),
            stage: PrepareStage::First,
        };
        let outcome = match prepare(&env, &check).await {
            Verdict::Refuse { error, .. } => Err(error),
            _ => match real(&env, "act", json!({})).await.result {
                ExecuteResult::Success { result, .. } => Ok(result.output),
                ExecuteResult::Failure { error, output: None } => Err(error),
                other => panic!("{other:?}"),
            },
        };
        assert_eq!(started.elapsed(), Duration::from_secs(30), "{hook}");
        outcome
    };
    for hook in ["preprocess_arguments", "transform_tool_input"] {
        let error = within(hook).await.unwrap_err();
        assert_eq!(error.code, ToolErrorCode::Timeout, "{hook}");
        assert!(error.message.ends_with("check of its input failed: it did not end within 30s"));
    }
    assert_eq!(within("on_tool_result").await.unwrap(), json!("fine").into());
    for hook in ["handle_result", "transform_tool_result"] {
        let error = within(hook).await.unwrap_err();
        assert_eq!(error.code, ToolErrorCode::Timeout, "{hook}");
        let text = "`act` ran, but its result could not be processed: it did not end within 30s.";
        assert!(error.message.starts_with(text), "{}", error.message);
    }
}

#[tokio::test(start_paused = true)]
async fn a_tools_own_checks_that_never_end_are_given_up() {
    let tool = || giving(ToolOutput::json(json!("fine")));
    let validates = env([tool().validate_async(|_, _| pending())]);
    let check = PrepareCall {
        call: "t-0".into(),
        tool: "act".into(),
        args: json!({}).into(),
        stage: PrepareStage::First,
    };
    let (code, text) = refused(prepare(&validates, &check).await);
    assert_eq!(code, ToolErrorCode::InvalidArguments);
    assert!(text.ends_with("its check failed: it did not end within 30s"), "{text}");

    let probes = tool().configure(|c| c.effect(SideEffect::AtMostOnce));
    let probes = env([probes.probe(|_, _, _| pending())]);
    let recovered = perform(&probes, "act", json!({}), ExecuteMode::Recover).await;
    assert_eq!(failed(recovered).0, ToolErrorCode::OutcomeUnknown);
}
