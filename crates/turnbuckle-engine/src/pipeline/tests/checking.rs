//! Transform, bind, validate, amend.

use crate::agent::AgentHooks;
use crate::pipeline::testing::*;
use crate::pipeline::{HookCall, Hooks, prepare};
use crate::tool::toolbox::Offer;
use crate::tool::{
    Eventual, FnTool, RegisteredTool, ToolContext, ToolContract, Toolbox, ToolboxError, Validated,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;
use turnbuckle_core::context::InputBinding;
use turnbuckle_core::error::{ToolError, ToolErrorCode};
use turnbuckle_core::json::Json;
use turnbuckle_core::machine::{PrepareCall, PrepareStage, Verdict};

fn pinned() -> FnTool {
    send()
        .bind(InputBinding::reference("inbox", "var:inbox".parse().unwrap()).restrict())
        .configure(|c| {
            c.amendment_schema(json!({"properties": {"body": {"type": "string"}, "inbox": {}}}))
        })
}

fn in_support(env: &crate::pipeline::PipelineEnv) {
    env.scope.context.with(|c| c.set(&"var:inbox".parse().unwrap(), json!("support"))).unwrap();
}

#[tokio::test]
async fn a_valid_call_runs_with_the_very_arguments_it_came_with() {
    let env = env([send()]);
    let args = json!({"to": "ada", "options": {"urgent": true}, "cc": null});
    assert_eq!(check(&env, "send_mail", args.clone()).await, runs(args.clone()));
    let args: Json = args.into();
    let call = PrepareCall {
        call: "t-0".into(),
        tool: "send_mail".into(),
        args: args.clone(),
        stage: PrepareStage::First,
    };
    let Verdict::Run { args: same, .. } = prepare(&env, &call).await else { panic!("it is valid") };
    assert!(Arc::ptr_eq(&args, &same), "nothing is copied when nothing changes");
}

#[tokio::test]
async fn what_does_not_fit_is_refused_in_words_the_model_can_act_on() {
    let env = env([send()]);
    for (args, wrong) in [
        (json!({}), "`to` is required"),
        (json!({"to": null}), "`to` is required and must not be null"),
        (json!({"to": 5}), "`to`: 5 is not of type \"string\""),
        (json!({"to": "a", "body": null}), "`body`: null is not of type \"string\""),
        (
            json!({"to": "a", "inboxx": "x"}),
            "there is no argument `inboxx` (did you mean `inbox`?); \
             the arguments are `body`, `cc`, `inbox`, `options`, `to`",
        ),
        (
            json!({"to": "a", "options": {"loud": true}}),
            "`options`: there is no `loud`; its fields are `urgent`",
        ),
        (json!({"body": 1}), "`to` is required; `body`: 1 is not of type \"string\""),
    ] {
        let expected =
            format!("The arguments do not fit `send_mail`: {wrong}. Correct them and call again.");
        assert_eq!(
            refused(check(&env, "send_mail", args).await),
            (ToolErrorCode::InvalidArguments, expected)
        );
    }
}

#[tokio::test]
async fn bounds_come_before_everything_else() {
    let tool = send().validate(|_, _| panic!("must not be reached"));
    let mut env = env([tool]);
    env.limits.max_args = 1000;
    let (code, text) = refused(check(&env, "send_mail", json!({"to": "a".repeat(1000)})).await);
    assert_eq!(code, ToolErrorCode::InvalidArguments);
    assert_eq!(
        text,
        "The arguments are larger than 1000 bytes. Call again with less, or in parts."
    );
    let deep = (0..70).fold(json!(1), |inner, _| json!([inner]));
    let (_, text) = refused(check(&env, "send_mail", json!({"to": deep})).await);
    assert_eq!(
        text,
        "The arguments are nested deeper than 64 levels. Flatten them and call again."
    );
}

#[tokio::test]
async fn null_counts_for_a_required_argument_only_when_its_schema_says_so() {
    let tool = |schema: Value| {
        FnTool::elsewhere(
            ToolContract::new("t")
                .input_schema(json!({"properties": {"a": schema}, "required": ["a"]})),
        )
    };
    let verdict = check(&env([tool(json!({}))]), "t", json!({"a": null})).await;
    assert_eq!(refused(verdict).0, ToolErrorCode::InvalidArguments);
    let verdict =
        check(&env([tool(json!({"type": ["string", "null"]}))]), "t", json!({"a": null})).await;
    assert_eq!(verdict, runs(json!({"a": null})));
}

#[tokio::test]
async fn a_tool_that_cannot_be_called_is_refused_with_those_that_can() {
    let mut toolbox = Toolbox::new();
    for name in ["find", "close", "archive"] {
        toolbox
            .add(RegisteredTool::new(FnTool::elsewhere(ToolContract::new(name))).unwrap())
            .unwrap();
    }
    let picky = FnTool::elsewhere(ToolContract::new("beta"))
        .should_use(|scope| scope.identity.user == "ada");
    toolbox.add(RegisteredTool::new(picky).unwrap()).unwrap();
    toolbox.set_offer("close", Offer::Withheld);
    toolbox.set_offer("archive", Offer::SwitchedOff);
    let mut env = env([]);
    env.toolbox = Arc::new(toolbox);
    for (name, code, text) in [
        (
            "fidn",
            ToolErrorCode::UnknownTool,
            "There is no tool `fidn`. Did you mean `find`? The tools you can call are `find`.",
        ),
        (
            "close",
            ToolErrorCode::NotAdvertised,
            "The tool `close` is not available here. The tools you can call are `find`.",
        ),
        (
            "archive",
            ToolErrorCode::NotEnabled,
            "TOOL_NOT_ENABLED: `archive` is switched off for this user. The tools you can call are `find`.",
        ),
        (
            "beta",
            ToolErrorCode::NotEnabled,
            "TOOL_NOT_ENABLED: `beta` is switched off for this user. The tools you can call are `find`.",
        ),
    ] {
        assert_eq!(refused(check(&env, name, json!({})).await), (code, text.to_owned()));
        assert_eq!(failed(real(&env, name, json!({})).await).0, code, "nor can it be executed");
    }
    assert_eq!(check(&env, "functions.find", json!({})).await, runs(json!({})));
}

#[test]
fn contracts_that_contradict_themselves_are_found_at_the_start() {
    let register = |tool: FnTool| RegisteredTool::new(tool).map(drop);
    let schema = |s: Value| FnTool::elsewhere(ToolContract::new("t").input_schema(s));
    assert_eq!(register(FnTool::elsewhere(ToolContract::new(""))), Err(ToolboxError::NoName));
    assert_eq!(
        register(schema(json!({"type": "string"}))),
        Err(ToolboxError::NotAnObject { tool: "t".into(), which: "input" })
    );
    assert!(matches!(
        register(schema(json!({"properties": {"a": {"type": 1}}}))),
        Err(ToolboxError::Schema { .. })
    ));
    assert_eq!(
        register(send().bind(InputBinding::constant("from", json!(1)))),
        Err(ToolboxError::NoSuchArgument {
            tool: "send_mail".into(),
            argument: "from".into(),
            by: "binding",
            names: "`body`, `cc`, `inbox`, `options`, `to`".into(),
        })
    );
    let amendment = send().configure(|c| c.amendment_schema(json!({"properties": {"bdy": {}}})));
    assert!(matches!(
        register(amendment),
        Err(ToolboxError::NoSuchArgument { by: "amendment schema", .. })
    ));
    let mut toolbox = Toolbox::new();
    toolbox.add(RegisteredTool::new(send()).unwrap()).unwrap();
    let again = toolbox.add(RegisteredTool::new(send()).unwrap());
    assert_eq!(again, Err(ToolboxError::Duplicate("send_mail".into())));
}

#[tokio::test]
async fn bindings_fill_in_clamp_and_refuse() {
    let env = env([pinned()]);
    let verdict = check(&env, "send_mail", json!({"to": "a", "inbox": "ceo"})).await;
    assert_eq!(
        verdict,
        runs(json!({"to": "a"})),
        "a restriction without a value removes the model's"
    );
    in_support(&env);
    let verdict = check(&env, "send_mail", json!({"to": "a", "inbox": "ceo"})).await;
    assert_eq!(verdict, runs(json!({"to": "a", "inbox": "support"})));

    let required =
        InputBinding::reference("to", "sys:contact".parse().unwrap()).restrict().require();
    let env = super::super::testing::env([send().bind(required)]);
    let (code, _) = refused(check(&env, "send_mail", json!({"to": "a"})).await);
    assert_eq!(code, ToolErrorCode::Denied);
}

#[tokio::test]
async fn the_tools_own_check_cannot_carry_a_value_past_a_restriction() {
    let alias = pinned().validate(|args, _| {
        let mut args = args.clone();
        let map = args.as_object_mut().unwrap();
        match map.remove("mailbox") {
            Some(mailbox) => {
                map.insert("inbox".into(), mailbox);
                Ok(Validated::canonical(args))
            }
            None => Ok(Validated::unchanged()),
        }
    });
    let env = env([alias]);
    in_support(&env);
    let verdict = check(&env, "send_mail", json!({"to": "a", "mailbox": "ceo"})).await;
    assert_eq!(verdict, runs(json!({"to": "a", "inbox": "support"})));
}

#[tokio::test]
async fn the_schema_sees_what_the_tools_check_made_of_the_arguments() {
    let tool = || {
        send().validate_async(|args: Value, _: ToolContext| async move {
            match args["to"].as_array() {
                Some(list) if list.len() == 1 => Ok(Validated::canonical(json!({"to": list[0]}))
                    .warn("one recipient taken from a list")),
                Some(_) => Err(ToolError::invalid("name one recipient")),
                None => Ok(Validated::unchanged()),
            }
        })
    };
    let env = env([tool()]);
    let warnings = vec!["one recipient taken from a list".to_owned()];
    let args = json!({"to": "ada"});
    let checked = Verdict::Run { args: args.clone().into(), warnings: warnings.clone() };
    assert_eq!(check(&env, "send_mail", json!({"to": ["ada"]})).await, checked);
    // What was assumed is told with the result, even by a process that did not check the call itself.
    let other = self::env([tool()]);
    let view = result(warned(&other, "send_mail", args, warnings).await);
    assert_eq!(*view.output, json!({"to": "ada"}));
    assert_eq!(
        view.model_view.as_deref(),
        Some(&json!({"to": "ada", "_warnings": ["one recipient taken from a list"]}))
    );
    let (_, text) = refused(check(&env, "send_mail", json!({"to": ["a", "b"]})).await);
    assert_eq!(text, "name one recipient");
    let verdict = check(&env, "send_mail", json!({"to": [5]})).await;
    assert_eq!(refused(verdict).0, ToolErrorCode::InvalidArguments);
}

struct Defaults;

impl Hooks for Defaults {
    fn transform_tool_input<'a>(
        &'a self,
        call: HookCall<'a>,
    ) -> Eventual<'a, Result<Option<Value>, ToolError>> {
        Eventual::later(async move {
            let mut args = Value::clone(call.args);
            if args["body"] == "veto" {
                return Err(ToolError::invalid("which thread do you mean?"));
            }
            assert_ne!(args["body"], "panic");
            args["cc"] = json!("desk");
            Ok(Some(args))
        })
    }
}

#[tokio::test]
async fn the_domain_adds_defaults_on_the_first_check_only() {
    let mut env = env([send()]);
    env.hooks = Arc::new(Defaults);
    let args = json!({"to": "a", "body": "x"});
    let verdict = check(&env, "send_mail", args.clone()).await;
    assert_eq!(verdict, runs(json!({"to": "a", "body": "x", "cc": "desk"})));
    assert_eq!(check_at(&env, "send_mail", args.clone(), approved(None)).await, runs(args));
    let verdict = check(&env, "send_mail", json!({"body": "veto"})).await;
    assert_eq!(
        refused(verdict),
        (ToolErrorCode::InvalidArguments, "which thread do you mean?".into())
    );
    let verdict = check(&env, "send_mail", json!({"body": "panic"})).await;
    assert_eq!(refused(verdict).0, ToolErrorCode::Panicked);
}

#[tokio::test]
async fn the_agent_has_its_say_before_the_domain() {
    struct Signs;
    impl AgentHooks for Signs {
        fn preprocess_arguments<'a>(
            &'a self,
            call: HookCall<'a>,
        ) -> Eventual<'a, Result<Option<Value>, ToolError>> {
            let mut args = Value::clone(call.args);
            assert_eq!(args.get("cc"), None, "the domain was first");
            args["body"] = json!(format!("{}, the agent", args["body"].as_str().unwrap()));
            Eventual::Ready(Ok(Some(args)))
        }
    }
    let mut env = env([send()]);
    env.agent = Arc::new(Signs);
    env.hooks = Arc::new(Defaults);
    let args = json!({"to": "a", "body": "x"});
    let verdict = check(&env, "send_mail", args.clone()).await;
    assert_eq!(verdict, runs(json!({"to": "a", "body": "x, the agent", "cc": "desk"})));
    // After an approval the arguments are the person's.
    assert_eq!(check_at(&env, "send_mail", args.clone(), approved(None)).await, runs(args));
}

#[tokio::test]
async fn changes_are_checked_merged_bound_and_validated() {
    let env = env([pinned()]);
    in_support(&env);
    let args = json!({"to": "a", "body": "draft", "inbox": "support"});
    let amended =
        |changes: Value| check_at(&env, "send_mail", args.clone(), approved(Some(changes)));
    assert_eq!(
        amended(json!({"body": "final"})).await,
        runs(json!({"to": "a", "body": "final", "inbox": "support"}))
    );
    assert_eq!(
        amended(json!({"inbox": "ceo"})).await,
        runs(args.clone()),
        "a pinned argument stays"
    );
    for (changes, text) in [
        (
            json!({"to": "b"}),
            "the changes made on approval name `to`; what can be changed is `body`, `inbox`",
        ),
        (
            json!({"body": 5}),
            "the changes made on approval do not fit: `body`: 5 is not of type \"string\"",
        ),
        (json!("yes"), "the changes made on approval are not an object of named values"),
    ] {
        assert_eq!(
            refused(amended(changes).await),
            (ToolErrorCode::InvalidArguments, text.to_owned())
        );
    }
    let long = amended(json!({"body": "x".repeat(101)})).await;
    assert_eq!(
        refused(long).0,
        ToolErrorCode::InvalidArguments,
        "the tool's own schema still holds"
    );
}

#[tokio::test]
async fn a_tool_without_an_amendment_schema_cannot_be_changed() {
    let env = env([send()]);
    let verdict =
        check_at(&env, "send_mail", json!({"to": "a"}), approved(Some(json!({"to": "b"})))).await;
    assert_eq!(
        refused(verdict).1,
        "`send_mail` was approved with changes, but nothing about it can be changed"
    );
}

#[tokio::test]
async fn the_card_offers_only_what_may_be_changed() {
    let env = env([pinned().approval(crate::tool::Approval::Always)]);
    let Verdict::Ask { question, .. } = check(&env, "send_mail", json!({"to": "a"})).await else {
        panic!("a person must be asked");
    };
    let editable = json!({"type": "object", "properties": {"body": {"type": "string"}}, "additionalProperties": false});
    assert_eq!(question.editable.as_deref(), Some(&editable));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("(to|body|inbox|cc|options|urgent|x)", inner, 0..5)
                .prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    // `check_at` asserts that the given arguments stay as they were.
    #[test]
    fn a_restricted_argument_is_never_the_models_nor_the_persons(
        args in any_json(),
        changes in proptest::option::of(any_json()),
        first in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let env = env([pinned()]);
            in_support(&env);
            let stage = if first { PrepareStage::First } else { approved(changes) };
            if let Verdict::Run { args, .. } = check_at(&env, "send_mail", args, stage).await {
                assert_eq!(args["inbox"], json!("support"));
                assert!(args["to"].is_string());
            }
        });
    }
}
