//! Execute, predict, cap, digest, capture, hooks.

use crate::agent::{AgentHooks, Handled};
use crate::pipeline::testing::*;
use crate::pipeline::{Blob, HookCall, Hooks, PipelineEnv, Transformed};
use crate::tool::{
    Eventual, FnTool, Probe, ProgressSink, SideEffect, ToolContext, ToolContract, ToolEvent,
    ToolOutput, ToolRun, ToolScope, ToolUsage,
};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use turnbuckle_core::context::SessionContext;
use turnbuckle_core::error::{ToolError, ToolErrorCode};
use turnbuckle_core::event::CallResult;
use turnbuckle_core::ids::CallId;
use turnbuckle_core::json::Json;
use turnbuckle_core::machine::{Directives, ExecuteMode, ExecuteResult};
use turnbuckle_core::model::ModelRef;
use turnbuckle_core::usage::Usage;

fn tool(run: impl Fn(Json, ToolContext) -> ToolRun + Send + Sync + 'static) -> FnTool {
    FnTool::new(ToolContract::new("act"), run)
}

fn giving(output: Value) -> FnTool {
    tool(move |_, _| ToolRun::ready(Ok(ToolOutput::json(output.clone()))))
}

fn doing<F: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static>(
    run: impl Fn(ToolContext) -> F + Send + Sync + 'static,
) -> FnTool {
    tool(move |_, ctx| ToolRun::future(run(ctx)))
}

fn output(value: Value) -> CallResult {
    CallResult { output: value.into(), ..CallResult::default() }
}

#[tokio::test]
async fn a_success_is_stored_projected_and_captured_into_the_context() {
    let env = env([giving(json!({"id": 7, "rows": [1, 2]}))
        .digest(|o| Some(json!({"rows": o["rows"].as_array()?.len()})))
        .summary(|o| Some(format!("record {}", o["id"])))]);
    let expected = CallResult {
        digest: Some(json!({"rows": 2}).into()),
        summary: Some("record 7".into()),
        ..output(json!({"id": 7, "rows": [1, 2]}))
    };
    assert_eq!(real(&env, "act", json!({})).await.result, success(expected));
    for reference in ["tool:act.rows[1]", "call:t-0.rows.last"] {
        let found =
            env.scope.context.with(|c| c.get(&reference.parse().unwrap()).map(|v| v.into_owned()));
        assert_eq!(found, Some(json!(2)), "{reference}");
    }
}

#[tokio::test]
async fn what_the_execution_gives_wins_over_what_the_tool_would_make() {
    let given = ToolOutput::json(json!(1))
        .digest(json!("given"))
        .summary("given")
        .model_view(json!("seen"))
        .force_tool("next")
        .plan(json!([]))
        .task("report", "r1");
    let made = given.clone();
    let env =
        env([tool(move |_, _| ToolRun::ready(Ok(made.clone()))).digest(|_| Some(json!("made")))]);
    let result = CallResult {
        digest: Some(json!("given").into()),
        summary: Some("given".into()),
        model_view: Some(json!("seen").into()),
        ..output(json!(1))
    };
    let expected = ExecuteResult::Success { result, directives: given.directives };
    assert_eq!(real(&env, "act", json!({})).await.result, expected);
}

#[tokio::test]
async fn a_tools_failure_is_the_models_to_read() {
    let env = env([doing(|_| async { Err(ToolError::failed("no such order")) })]);
    assert_eq!(
        real(&env, "act", json!({})).await.result,
        failure(ToolErrorCode::Failed, "no such order")
    );
    let env = super::super::testing::env([doing(|_| async {
        Err(ToolError::failed("ä".repeat(10_000)))
    })]);
    let (_, text) = failed(real(&env, "act", json!({})).await);
    assert!(text.ends_with("ä… (20000 bytes in all)") && text.len() < 8300, "{}", text.len());
}

struct DropBomb;

impl Drop for DropBomb {
    fn drop(&mut self) {
        panic!("in drop");
    }
}

#[tokio::test(start_paused = true)]
async fn no_panic_gets_out() {
    let at_once = tool(|_, _| panic!("at once"));
    let later = doing(|_| async {
        tokio::task::yield_now().await;
        panic!("later {}", 1)
    });
    for (tool, says) in [(at_once, "at once"), (later, "later 1")] {
        let text = format!(
            "`act` failed unexpectedly: {says}. It may have taken effect all the same; check before you repeat it."
        );
        let result = real(&env([tool]), "act", json!({})).await.result;
        assert_eq!(result, failure(ToolErrorCode::Panicked, &text));
    }
    let hanging = doing(|_| async {
        let _bomb = DropBomb;
        std::future::pending().await
    });
    assert_eq!(failed(real(&env([hanging]), "act", json!({})).await).0, ToolErrorCode::Timeout);
    let projections = giving(json!(1)).digest(|_| panic!("digest")).summary(|_| panic!("summary"));
    assert_eq!(real(&env([projections]), "act", json!({})).await.result, success(output(json!(1))));
}

#[tokio::test(start_paused = true)]
async fn a_hanging_tool_is_stopped_when_its_time_is_up() {
    let stopped = Arc::new(Mutex::new(None::<CancellationToken>));
    let seen = stopped.clone();
    let hang = doing(move |ctx| {
        *seen.lock().unwrap() = Some(ctx.cancellation().clone());
        std::future::pending()
    });
    let env =
        env([hang.configure(|c| c.timeout(Duration::from_secs(2)).effect(SideEffect::ReadOnly))]);
    let started = tokio::time::Instant::now();
    let result = real(&env, "act", json!({})).await.result;
    assert_eq!(
        result,
        failure(ToolErrorCode::Timeout, "`act` did not finish within 2s and was stopped.")
    );
    assert_eq!(started.elapsed(), Duration::from_secs(2));
    assert!(
        stopped.lock().unwrap().as_ref().unwrap().is_cancelled(),
        "what it spawned is told to end"
    );
    assert!(!env.scope.cancel.is_cancelled());
}

fn stopped_env(tool: FnTool) -> (PipelineEnv, CancellationToken) {
    let env = env([tool]);
    let cancel = env.scope.cancel.clone();
    (env, cancel)
}

#[tokio::test(start_paused = true)]
async fn after_a_stop_nothing_starts_and_what_runs_has_a_grace_period() {
    let started = Arc::new(AtomicU32::new(0));
    let count = started.clone();
    let (env, cancel) = stopped_env(doing(move |ctx| {
        count.fetch_add(1, Ordering::Relaxed);
        async move {
            ctx.cancellation().cancelled().await;
            tokio::time::sleep(Duration::from_secs(3)).await;
            Ok(ToolOutput::json(json!("finished")))
        }
    }));
    let (executed, ()) = tokio::join!(real(&env, "act", json!({})), async { cancel.cancel() });
    assert_eq!(result(executed), output(json!("finished")), "work that was finished counts");
    let executed = real(&env, "act", json!({})).await.result;
    assert_eq!(
        executed,
        failure(ToolErrorCode::Cancelled, "`act` was not started, since the turn was stopped.")
    );
    assert_eq!(started.load(Ordering::Relaxed), 1);

    let (env, cancel) = stopped_env(doing(|_| std::future::pending()));
    let began = tokio::time::Instant::now();
    let (executed, ()) = tokio::join!(real(&env, "act", json!({})), async { cancel.cancel() });
    let text = "`act` was stopped with the turn. It may have taken effect all the same; check before you repeat it.";
    assert_eq!(executed.result, failure(ToolErrorCode::Cancelled, text));
    assert_eq!(began.elapsed(), Duration::from_secs(5));

    let (env, cancel) = stopped_env(doing(|ctx| async move {
        ctx.cancellation().cancelled().await;
        Err(ToolError::failed("gave up"))
    }));
    let (executed, ()) = tokio::join!(real(&env, "act", json!({})), async { cancel.cancel() });
    assert_eq!(executed.result, failure(ToolErrorCode::Cancelled, "gave up"));
}

#[tokio::test]
async fn dropping_the_execution_stops_what_the_tool_spawned() {
    let token = Arc::new(Mutex::new(None::<CancellationToken>));
    let seen = token.clone();
    let env = env([doing(move |ctx| {
        *seen.lock().unwrap() = Some(ctx.cancellation().clone());
        std::future::pending()
    })]);
    let mut running = Box::pin(real(&env, "act", json!({})));
    assert!(futures_util::FutureExt::now_or_never(&mut running).is_none());
    drop(running);
    assert!(token.lock().unwrap().as_ref().unwrap().is_cancelled());
}

#[tokio::test]
async fn a_huge_output_is_cut_with_a_marker_and_kept_whole_aside() {
    const SIZE: usize = 50_000_000;
    let env = env([doing(|_| async { Ok(ToolOutput::json("x".repeat(SIZE).into())) })]);
    let executed = real(&env, "act", json!({})).await;
    let [kept] = executed.kept_aside.as_slice() else { panic!("one output is kept") };
    assert_eq!(
        (kept.text.len(), kept.media_type, kept.reference.as_str()),
        (SIZE, "text/plain", "output:t-0")
    );
    let marker = json!({
        "truncated": true,
        "bytes": SIZE,
        "full_output": "output:t-0",
        "beginning": "x".repeat(32 * 1024),
    });
    assert_eq!(result(executed), output(marker));

    let rows: Value = (0..1000).collect();
    let env = super::super::testing::env([giving(rows.clone())
        .configure(|c| c.output_cap(200))
        .digest(|rows| Some(json!(rows.as_array()?.len())))]);
    let executed = real(&env, "act", json!({})).await;
    let whole = Blob {
        call: "t-0".into(),
        reference: "output:t-0".into(),
        media_type: "application/json",
        text: rows.to_string(),
    };
    assert_eq!(executed.kept_aside, [whole]);
    let result = result(executed);
    assert_eq!(result.digest.as_deref(), Some(&json!(1000)), "the digest is of the whole output");
    assert_eq!(result.output["bytes"], json!(rows.to_string().len()));
}

#[tokio::test]
async fn overflowing_the_context_is_reported() {
    let mut env = env([giving(json!("x".repeat(2000)))]);
    let context = crate::tool::ContextHandle::new(SessionContext::new().with_cap(1000));
    env.scope = Arc::new(ToolScope { context, ..ToolScope::clone(&env.scope) });
    let ExecuteResult::Success { .. } = real(&env, "act", json!({})).await.result else {
        panic!("the call succeeds all the same");
    };
    let dropped = env.scope.context.with(|store| store.take_dropped());
    assert_eq!(dropped.map(|dropped| dropped.outputs), Some(1));
}

#[tokio::test]
async fn a_captured_action_is_predicted_marked_and_not_executed() {
    let never = || doing(|_| async { panic!("must not run") });
    let mode = ExecuteMode::Capture { local_index: 4 };
    let captured = |value: Value| success(CallResult { captured: true, ..output(value) });
    for (tool, expected) in [
        (never(), json!({"status": "queued_for_approval", "_captured": true})),
        (
            never()
                .capture_mint(|args, n| Some(json!({"id": format!("temp_{n}"), "to": args["to"]}))),
            json!({"id": "temp_4", "to": "a", "_captured": true}),
        ),
        (never().capture_mint(|_, n| Some(json!(n))), json!({"result": 4, "_captured": true})),
        (
            never().capture_mint(|_, _| Some(json!({"_captured": false}))),
            json!({"_captured": true}),
        ),
        (
            never().capture_mint(|_, _| panic!("mint")),
            json!({"status": "queued_for_approval", "_captured": true}),
        ),
    ] {
        let env = env([tool]);
        assert_eq!(
            perform(&env, "act", json!({"to": "a"}), mode).await.result,
            captured(expected.clone())
        );
        let kept =
            env.scope.context.with(|c| c.get(&"tool:act".parse().unwrap()).map(|v| v.into_owned()));
        assert_eq!(kept, Some(expected), "later arguments can refer to it");
    }
}

#[tokio::test]
async fn after_a_crash_only_the_tools_own_probe_can_tell() {
    let probed = |probe: fn(String) -> Probe| {
        giving(json!("ran again")).probe(move |key, _, _| async move { probe(key) })
    };
    for (tool, expected) in [
        (probed(|key| Probe::done(ToolOutput::json(json!(key)))), Some(json!("t-0"))),
        (probed(|_| Probe::NotDone), Some(json!("ran again"))),
        (probed(|_| Probe::Unknown), None),
        (probed(|_| panic!("probe")), None),
        (giving(json!("ran again")), None),
    ] {
        let executed = perform(&env([tool]), "act", json!({}), ExecuteMode::Recover).await;
        match expected {
            Some(value) => assert_eq!(result(executed), output(value)),
            None => assert_eq!(failed(executed).0, ToolErrorCode::OutcomeUnknown),
        }
    }
}

#[derive(Default)]
struct Seen(Mutex<Vec<(String, Value)>>);

impl ProgressSink for Seen {
    fn report(&self, call: &CallId, data: Json) {
        self.0.lock().unwrap().push((call.to_string(), Value::clone(&data)));
    }
}

#[tokio::test]
async fn a_tool_may_run_as_a_stream_and_meter_its_own_model_calls() {
    let spent =
        ToolUsage { model: ModelRef::new("p", "m"), usage: Usage::default(), cost_micros: Some(7) };
    let metered = spent.clone();
    let streaming = tool(move |_, ctx| {
        ctx.meter(metered.clone());
        let events = [
            ToolEvent::progress(json!("half")),
            ToolEvent::done(Ok(ToolOutput::json(json!("done")))),
            ToolEvent::progress(json!("never read")),
        ];
        ToolRun::stream(ctx, futures_util::stream::iter(events))
    });
    let mut env = env([streaming]);
    let seen = Arc::new(Seen::default());
    env.scope = Arc::new(ToolScope { progress: seen.clone(), ..ToolScope::clone(&env.scope) });
    let executed = real(&env, "act", json!({})).await;
    assert_eq!(executed.usage, [spent]);
    assert_eq!(result(executed), output(json!("done")));
    assert_eq!(*seen.0.lock().unwrap(), [("t-0".to_owned(), json!("half"))]);

    let endless = tool(|_, ctx| ToolRun::stream(ctx, futures_util::stream::empty()));
    let (code, _) = failed(real(&super::super::testing::env([endless]), "act", json!({})).await);
    assert_eq!(code, ToolErrorCode::Failed);
}

/// Does to a result what the output asks for.
struct Domain;

impl Hooks for Domain {
    fn on_tool_result<'a>(
        &'a self,
        _: HookCall<'a>,
        result: &'a CallResult,
    ) -> Eventual<'a, Directives> {
        assert_ne!(*result.output, json!("panic on"));
        Eventual::Ready(Directives {
            add_context: vec![result.output.to_string()],
            ..Directives::default()
        })
    }

    fn transform_tool_result<'a>(
        &'a self,
        _: HookCall<'a>,
        result: CallResult,
    ) -> Eventual<'a, Transformed> {
        Eventual::later(async move {
            match result.output.as_str() {
                Some("flip") => Transformed::Failure {
                    error: ToolError::failed("nothing was found"),
                    output: Some(json!([]).into()),
                },
                Some("panic transform") => panic!("boom"),
                _ => Transformed::Success(CallResult {
                    model_view: Some(json!("seen").into()),
                    ..result
                }),
            }
        })
    }
}

#[tokio::test]
async fn the_domain_learns_from_successes_and_decides_what_is_seen() {
    let run = async |value: &str| {
        let mut env = env([giving(json!(value))]);
        env.hooks = Arc::new(Domain);
        real(&env, "act", json!({})).await.result
    };
    let seen =
        |value: &str| CallResult { model_view: Some(json!("seen").into()), ..output(json!(value)) };
    let learnt = Directives { add_context: vec!["\"ok\"".into()], ..Directives::default() };
    assert_eq!(run("ok").await, ExecuteResult::Success { result: seen("ok"), directives: learnt });
    assert_eq!(
        run("panic on").await,
        success(seen("panic on")),
        "a hook that fails to learn changes nothing"
    );
    let flipped = ExecuteResult::Failure {
        error: ToolError::failed("nothing was found"),
        output: Some(json!([]).into()),
    };
    assert_eq!(run("flip").await, flipped);
    let text = "`act` ran, but its result could not be processed: boom. Do not assume that it had no effect.";
    assert_eq!(run("panic transform").await, failure(ToolErrorCode::Panicked, text));
}

/// Says what it saw, and forces a tool.
struct Agent;

impl AgentHooks for Agent {
    fn handle_result<'a>(&'a self, _: HookCall<'a>, result: CallResult) -> Eventual<'a, Handled> {
        let directives = Directives {
            add_context: vec!["the agent".into()],
            force_tool: Some("act".into()),
            ..Directives::default()
        };
        let result = match result.output.as_str() {
            Some("fail") => Transformed::Failure { error: ToolError::failed("no"), output: None },
            _ => Transformed::Success(CallResult { output: json!("the agent's").into(), ..result }),
        };
        Eventual::Ready(Handled { result, directives })
    }
}

#[tokio::test]
async fn the_domain_learns_from_what_came_and_has_the_last_word_about_what_the_agent_made_of_it() {
    let run = async |value: &str| {
        let mut env = env([giving(json!(value))]);
        (env.agent, env.hooks) = (Arc::new(Agent), Arc::new(Domain));
        real(&env, "act", json!({})).await
    };
    let executed = run("ok").await;
    let ExecuteResult::Success { result, directives } = executed.result else { panic!() };
    assert_eq!(*result.output, json!("the agent's"));
    assert_eq!(result.model_view.as_deref(), Some(&json!("seen")));
    assert_eq!(directives.add_context, ["\"ok\"", "the agent"]);
    assert_eq!(directives.force_tool, Some("act".into()));
    assert_eq!(executed.captured.as_deref(), Some(&json!("ok")), "references lead to what came");
    let failed = run("fail").await;
    assert_eq!(failed.result, failure(ToolErrorCode::Failed, "no"));
}

#[tokio::test]
async fn hooks_see_no_failures() {
    struct Strict;
    impl Hooks for Strict {
        fn on_tool_result<'a>(
            &'a self,
            _: HookCall<'a>,
            _: &'a CallResult,
        ) -> Eventual<'a, Directives> {
            panic!("called")
        }
        fn transform_tool_result<'a>(
            &'a self,
            _: HookCall<'a>,
            _: CallResult,
        ) -> Eventual<'a, Transformed> {
            panic!("called")
        }
    }
    impl AgentHooks for Strict {
        fn handle_result<'a>(&'a self, _: HookCall<'a>, _: CallResult) -> Eventual<'a, Handled> {
            panic!("called")
        }
    }
    let mut env = env([doing(|_| async { Err(ToolError::failed("no")) })]);
    (env.agent, env.hooks) = (Arc::new(Strict), Arc::new(Strict));
    assert_eq!(real(&env, "act", json!({})).await.result, failure(ToolErrorCode::Failed, "no"));
}

#[tokio::test]
async fn outputs_put_their_labels_on_the_turn() {
    let env = env([giving(json!(1)).configure(|c| c.taint("untrusted"))]);
    assert!(!env.taints.has("untrusted"));
    real(&env, "act", json!({})).await;
    assert!(env.taints.has("untrusted"));
}
