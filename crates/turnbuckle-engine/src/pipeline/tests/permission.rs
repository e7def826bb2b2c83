//! Who is asked, and what is forbidden.

use crate::pipeline::testing::*;
use crate::pipeline::{Allowances, PipelineEnv, Policy, PolicyDecision, Rule};
use crate::tool::{Approval, Clock, FnTool, ToolScope};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use turnbuckle_core::allowance::ArgTest;
use turnbuckle_core::error::{ToolError, ToolErrorCode};
use turnbuckle_core::machine::{Question, Verdict};
use turnbuckle_core::time::Timestamp;
use turnbuckle_store::Allowance;
use turnbuckle_store::conformance::{Effect, FaultStore, Op, gone};

fn with_rules(tool: FnTool, rules: Value) -> PipelineEnv {
    let mut env = env([tool]);
    env.policy = Arc::new(serde_json::from_value(json!({"rules": rules})).unwrap());
    env
}

/// What becomes of a call: `run`, `ask` (with the reason) or `deny`.
async fn fate(env: &PipelineEnv, args: Value) -> String {
    match check(env, "send_mail", args).await {
        Verdict::Run { .. } => "run".into(),
        Verdict::Ask { question, .. } => {
            format!("ask {}", question.reason.unwrap_or_default()).trim().into()
        }
        Verdict::Refuse { error, .. } if error.code == ToolErrorCode::Denied => "deny".into(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_card_shows_what_would_run() {
    let tool = send()
        .approval(Approval::Always)
        .configure(|c| c.title("Send mail").expires_after(Duration::from_secs(60)))
        .digest_args(|args| Some(json!({"to": args["to"]})))
        .validate(|_, _| Ok(crate::tool::Validated::unchanged().warn("no body given")));
    let mut env = env([tool]);
    let scope = ToolScope {
        clock: Clock::fixed(Timestamp::from_millis(1000)),
        ..ToolScope::clone(&env.scope)
    };
    env.scope = Arc::new(scope);
    let question = Question {
        title: "Send mail".into(),
        digest: Some(json!({"to": "a"}).into()),
        reason: Some("no body given".into()),
        editable: None,
        expires_at: Some(Timestamp::from_millis(61_000)),
    };
    let asked = Verdict::Ask {
        args: json!({"to": "a"}).into(),
        question: Box::new(question),
        warnings: vec!["no body given".into()],
    };
    assert_eq!(check(&env, "send_mail", json!({"to": "a"})).await, asked);
}

#[tokio::test]
async fn a_person_is_never_shown_a_broken_call() {
    let env = env([send().approval(Approval::Always)]);
    let verdict = check(&env, "send_mail", json!({"to": null})).await;
    assert_eq!(refused(verdict).0, ToolErrorCode::InvalidArguments);
}

#[tokio::test]
async fn a_predicate_that_fails_or_panics_is_no_consent() {
    let tool = send().approval_when(|args, _| match args["to"].as_str() {
        Some("me") => Ok(false),
        Some("fail") => Err(ToolError::failed("no directory")),
        Some("panic") => panic!("boom"),
        _ => Ok(true),
    });
    let mut env = env([tool]);
    assert_eq!(fate(&env, json!({"to": "me"})).await, "run");
    assert_eq!(fate(&env, json!({"to": "you"})).await, "ask");
    let because = "ask You are asked because the tool could not decide whether it needs approval:";
    assert_eq!(fate(&env, json!({"to": "fail"})).await, format!("{because} no directory"));
    assert_eq!(fate(&env, json!({"to": "panic"})).await, format!("{because} boom"));
    env.allowances = allowed([always("send_mail")]).await;
    assert_eq!(fate(&env, json!({"to": "you"})).await, "run");
    assert_eq!(fate(&env, json!({"to": "panic"})).await, format!("{because} boom"));
}

#[tokio::test]
async fn the_first_rule_that_matches_decides() {
    let rules = json!([
        {"tool": "send_mail", "args": [{"path": "to", "equals": "ceo"}], "decision": "deny", "reason": "not the ceo"},
        {"user": "loc*", "agent": "main", "args": [{"path": "to", "one_of": ["a", "b"]}], "decision": "allow"},
        {"tool": "send_*", "args": [{"path": "cc", "present": true}], "decision": "ask", "reason": "copies"},
        {"tool": "delete_*", "decision": "deny"},
    ]);
    let env = with_rules(send().approval(Approval::Always), rules);
    assert_eq!(fate(&env, json!({"to": "ceo", "cc": "x"})).await, "deny");
    assert_eq!(fate(&env, json!({"to": "a", "cc": "x"})).await, "run");
    assert_eq!(fate(&env, json!({"to": "z", "cc": "x"})).await, "ask copies");
    assert_eq!(fate(&env, json!({"to": "z", "cc": null})).await, "ask");
    let (_, text) = refused(check(&env, "send_mail", json!({"to": "ceo"})).await);
    assert_eq!(
        text,
        "The workspace's policy forbids this call of `send_mail`: not the ceo. Do not repeat it; find another way or \
         tell the user."
    );
}

#[tokio::test]
async fn tests_of_arguments() {
    for (test, args, expected) in [
        (json!({"path": "n", "above": 5}), json!({"n": 6}), "deny"),
        (json!({"path": "n", "above": 5}), json!({"n": 5}), "run"),
        (json!({"path": "n", "below": 5}), json!({"n": 4.5}), "deny"),
        (json!({"path": "n", "below": 5}), json!({}), "run"),
        (json!({"path": "l[*].t", "contains": "x"}), json!({"l": []}), "ask"),
        (json!({"path": "l[0].t", "contains": "x"}), json!({"l": [{"t": "axb"}]}), "deny"),
        (json!({"path": "n", "present": false}), json!({"n": null}), "deny"),
        (json!({"path": "n", "present": false}), json!({"n": 1}), "run"),
        (json!({"path": "n", "above": 5}), json!({"n": "many"}), "ask"),
    ] {
        let tool = FnTool::elsewhere(
            crate::tool::ToolContract::new("send_mail")
                .input_schema(json!({"additionalProperties": true})),
        );
        let env = with_rules(tool, json!([{"args": [test], "decision": "deny"}]));
        let fate = fate(&env, args.clone()).await;
        assert_eq!(fate.split(' ').next(), Some(expected), "{test} on {args}");
    }
}

#[tokio::test]
async fn a_rule_in_code_that_panics_asks() {
    let mut env = env([send()]);
    let rule = |when: fn(&Value) -> bool| {
        let rule =
            Rule::tool("send_mail", PolicyDecision::Allow).when(move |args, _| Ok(when(args)));
        Arc::new(Policy::new([rule]))
    };
    env.policy = rule(|_| panic!("boom"));
    assert_eq!(
        fate(&env, json!({"to": "a"})).await,
        "ask You are asked because a rule could not be evaluated: boom"
    );
    env.policy = rule(|_| true);
    assert_eq!(fate(&env, json!({"to": "a"})).await, "run");
}

#[tokio::test]
async fn always_allow_answers_a_question_but_lifts_no_denial() {
    let args = json!({"to": "a", "body": "b"});
    let mut asking = with_rules(send(), json!([{"decision": "ask"}]));
    asking.allowances = allowed([always("send_mail")]).await;
    assert_eq!(fate(&asking, args.clone()).await, "run");
    let mut denying = with_rules(send(), json!([{"decision": "deny"}]));
    denying.allowances = asking.allowances.clone();
    assert_eq!(fate(&denying, args).await, "deny");
}

#[tokio::test]
async fn always_allow_reaches_as_far_as_it_was_said() {
    let args = json!({"to": "a"});
    let told = always("send_mail");
    for (allowance, expected) in [
        (told.clone(), "run"),
        (Allowance { session: Some("s".into()), ..told.clone() }, "run"),
        (Allowance { session: Some("other".into()), ..told.clone() }, "ask"),
        (Allowance { user: "bob".into(), ..told.clone() }, "ask"),
        (Allowance { agent: "main2".into(), ..told.clone() }, "ask"),
        (always("send_mails"), "ask"),
    ] {
        let mut env = env([send().approval(Approval::Always)]);
        env.allowances = allowed([allowance.clone()]).await;
        assert_eq!(fate(&env, args.clone()).await, expected, "{allowance:?}");
    }
}

#[tokio::test]
async fn always_allow_may_test_the_arguments() {
    let test = |test: Value| serde_json::from_value::<ArgTest>(test).unwrap();
    let bounded = Allowance {
        args: vec![
            test(json!({"path": "to", "one_of": ["a", "b"]})),
            test(json!({"path": "cc", "present": false})),
        ],
        ..always("send_mail")
    };
    let untestable =
        Allowance { args: vec![test(json!({"path": "to", "above": 1}))], ..always("send_mail") };
    let mut env = env([send().approval(Approval::Always)]);
    env.allowances = allowed([bounded, untestable]).await;
    assert_eq!(fate(&env, json!({"to": "b"})).await, "run");
    assert_eq!(fate(&env, json!({"to": "c"})).await, "ask");
    assert_eq!(fate(&env, json!({"to": "a", "cc": "boss"})).await, "ask");
}

#[tokio::test]
async fn a_person_is_asked_while_what_they_allowed_cannot_be_read() {
    let store = FaultStore::new(allowing([always("send_mail")]).await);
    let mut env = env([send().approval(Approval::Always)]);
    env.allowances = Allowances::Kept(Arc::new(store.clone()));
    store.fail(Op::Allowances, 0, 1, Effect::None, gone());
    assert_eq!(fate(&env, json!({"to": "a"})).await, "ask");
    assert_eq!(fate(&env, json!({"to": "a"})).await, "run");
}

#[tokio::test]
async fn tainted_data_asks_even_where_always_was_said() {
    let mut env = env([send()]);
    env.policy = Arc::new(
        serde_json::from_value(json!({"rules": [
            {"taint": "untrusted", "tool": "send_*", "decision": "ask"},
        ]}))
        .unwrap(),
    );
    env.allowances = allowed([always("send_mail")]).await;
    assert_eq!(fate(&env, json!({"to": "a"})).await, "run");
    env.taints.add(&["untrusted".into()]);
    assert_eq!(fate(&env, json!({"to": "a"})).await, "ask");
}

#[tokio::test]
async fn a_person_is_not_asked_twice_but_a_denial_still_counts() {
    let asking = env([send().approval(Approval::Always)]);
    let args = json!({"to": "a"});
    assert_eq!(
        check_at(&asking, "send_mail", args.clone(), approved(None)).await,
        runs(args.clone())
    );
    let denying = with_rules(send(), json!([{"decision": "deny"}]));
    let verdict = check_at(&denying, "send_mail", args, approved(None)).await;
    assert_eq!(refused(verdict).0, ToolErrorCode::Denied);
}

#[tokio::test]
async fn a_tool_of_the_front_end_is_handed_to_it() {
    let env = env([send().configure(|c| c.on_client())]);
    let args = json!({"to": "a"});
    let expected =
        Verdict::Client { args: args.clone().into(), title: "Send mail".into(), expires_at: None };
    assert_eq!(check(&env, "send_mail", args).await, expected);
}

#[test]
fn rules_travel_as_text_and_unknown_keys_are_refused() {
    let rules = json!({"rules": [
        {"tool": "a*", "args": [{"path": "x[0].y", "above": 1.0}], "decision": "ask"},
    ]});
    let policy: Policy = serde_json::from_value(rules.clone()).unwrap();
    assert_eq!(serde_json::to_value(&policy).unwrap(), rules);
    assert!(
        serde_json::from_value::<Policy>(json!({"rules": [{"toool": "a", "decision": "ask"}]}))
            .is_err()
    );
}
