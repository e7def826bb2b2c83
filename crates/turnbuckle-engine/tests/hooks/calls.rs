//! What the hooks of an agent make of its calls, their results, and what a model call counts as.

use super::*;
use turnbuckle_core::error::ToolError;
use turnbuckle_core::event::CallResult;
use turnbuckle_core::limits::TurnLimits;
use turnbuckle_core::machine::{Directives, ModelAnswer};
use turnbuckle_core::usage::Usage;
use turnbuckle_engine::agent::{Charge, Handled};
use turnbuckle_engine::pipeline::{HookCall, Transformed};
use turnbuckle_engine::tool::{Eventual, FnTool, ToolContract};
use turnbuckle_store::{UsageBy, UsageQuery};

/// Has a say in every call, and notes when it is asked.
#[derive(Default)]
struct Minds(Seen<String>);

impl AgentHooks for Minds {
    fn on_tools_selected(&self, step: &StepView<'_>, answer: &ModelResponse) {
        let names = answer.blocks.iter().filter_map(|block| match block {
            Block::ToolCall { name, .. } => Some(&**name),
            _ => None,
        });
        self.0.note(format!("{} selected {}", step.iteration, names.collect::<Vec<_>>().join(" ")));
    }

    fn preprocess_arguments<'a>(
        &'a self,
        call: HookCall<'a>,
    ) -> Eventual<'a, Result<Option<Value>, ToolError>> {
        self.0.note(format!("arguments of {}", call.contract.name()));
        Eventual::later(async move {
            match call.args["key"].as_str() {
                Some("veto") => Err(ToolError::invalid("which of the two do you mean?")),
                Some(key) => Ok(Some(json!({"key": key.to_uppercase()}))),
                None => Ok(None),
            }
        })
    }

    fn handle_result<'a>(
        &'a self,
        call: HookCall<'a>,
        result: CallResult,
    ) -> Eventual<'a, Handled> {
        self.0.note(format!("result of {}: {}", call.contract.name(), result.output));
        if call.contract.name().as_str() != "look_up" {
            return Eventual::Ready(result.into());
        }
        Eventual::later(async move {
            Handled {
                result: Transformed::Success(CallResult {
                    model_view: Some(json!("seen by the agent").into()),
                    ..result
                }),
                directives: Directives {
                    add_context: vec!["Mind the gap.".into()],
                    force_tool: Some("book".into()),
                    ..Directives::default()
                },
            }
        })
    }
}

#[tokio::test]
async fn an_agent_changes_arguments_and_results_adds_context_and_forces_the_next_tool() {
    let hooks = Minds::default();
    let seen = hooks.0.clone();
    let booking = calling(&[("b", "book", r#"{"room": "5"}"#)]);
    let bench = hooked(hooks, [looks_up("x"), booking, text("Booked.")]);
    let key = bench.session().await;
    bench.say(&key, "go").await;
    bench.check(&key).await;
    let message = bench.message(&key).await;
    assert_eq!(outcome(&message), Outcome::Completed);
    assert_eq!(bench.world.all(), ["look_up X", "book 5 under t_2-1"]);
    assert_eq!(calls(&message)[0].args.as_deref(), Some(&json!({"key": "X"})));
    let requests = bench.model.requests();
    let choices: Vec<_> = requests.iter().map(|r| r.tool_choice.clone()).collect();
    assert_eq!(choices, [ToolChoice::Auto, ToolChoice::Tool("book".into()), ToolChoice::Auto]);
    let Item::ToolResults { results } = items(&requests[1]).swap_remove(2) else { panic!() };
    assert_eq!(results[0].content, "seen by the agent");
    assert_eq!(put_in(&message), [(InputKind::Context, "Mind the gap.".to_owned())]);
    assert_eq!(items(&requests[1]).pop(), Some(Item::System { text: "Mind the gap.".into() }));
    let expected = [
        "0 selected look_up",
        "arguments of look_up",
        "result of look_up: {\"key\":\"X\",\"value\":1}",
        "1 selected book",
        "arguments of book",
        "result of book: {\"booked\":\"5\",\"nights\":1}",
    ];
    assert_eq!(seen.all(), expected);
}

/// Shows nothing of what calls give.
struct Covers(Seen<String>);

impl AgentHooks for Covers {
    fn handle_result<'a>(
        &'a self,
        call: HookCall<'a>,
        result: CallResult,
    ) -> Eventual<'a, Handled> {
        self.0.note(format!("{} {}: {}", call.contract.name(), call.args, result.output));
        let model_view = Some(json!("covered").into());
        Eventual::Ready(CallResult { model_view, ..result }.into())
    }
}

#[tokio::test]
async fn what_ran_in_the_front_end_or_as_a_nested_turn_passes_the_hooks_too() {
    let schema = json!({"type": "object", "properties": {"task": {"type": "string"}}});
    let contract = ToolContract::new("ask_reader").description("Has it read.").on_agent("reader");
    let seen = Seen::default();
    let main = agent("main")
        .tool(FnTool::elsewhere(contract.input_schema(schema)))
        .hooks(Covers(seen.clone()))
        .build()
        .unwrap();
    let reader = Agent::builder("reader").instructions("You read.").build().unwrap();
    let script = [
        calling(&[("r", "ask_reader", r#"{"task": "look"}"#)]),
        text("It says much."),
        calling(&[("s", "read_screen", "{}")]),
        text("Done."),
    ];
    let bench = Bench::of(ScriptedModel::new("m", script), [main, reader], |b| b);
    let key = bench.session().await;
    bench.say(&key, "go").await;
    let card = pending_cards(&*bench.store, &key).await.remove(0);
    let result = Ok(Arc::new(json!("f".repeat(100_000))));
    let given = bench.engine.client_result(&key, &card, result, None).await.unwrap();
    drain(given.stream().unwrap()).await;
    bench.check(&key).await;
    let seen = seen.all();
    assert_eq!(seen[0], r#"ask_reader {"task":"look"}: "It says much.""#);
    assert!(seen[1].starts_with("read_screen {}: {"), "{seen:?}");
    assert_eq!(seen.len(), 2);
    let message = bench.message(&key).await;
    assert_eq!(outcome(&message), Outcome::Completed);
    let shown: Vec<_> = calls(&message).iter().map(|c| c.model_view.clone().unwrap()).collect();
    assert_eq!(shown, [json!("covered").into(), json!("covered").into()]);
    let output = calls(&message)[1].output.clone().unwrap();
    let kept = bench.store.get_blob(&key, output["full_output"].as_str().unwrap(), 0..1).await;
    assert_eq!(kept.unwrap().size, 100_000, "what a front end gives is capped, and kept whole");
}

#[tokio::test]
async fn an_agent_refuses_a_call_by_its_arguments_and_the_model_is_told() {
    let bench = hooked(Minds::default(), [looks_up("veto"), looks_up("x"), text("Found.")]);
    let key = bench.session().await;
    bench.say(&key, "go").await;
    bench.check(&key).await;
    let message = bench.message(&key).await;
    assert_eq!(
        made(&message),
        [("look_up", Some(ToolErrorCode::InvalidArguments)), ("look_up", None)]
    );
    assert_eq!(bench.world.all(), ["look_up X"]);
    let error = calls(&message)[0].error.clone().unwrap();
    assert_eq!(error.message, "which of the two do you mean?");
}

/// Calls whose tools were withheld, or that a hook kept from running, were not selected.
#[tokio::test]
async fn an_agent_is_told_of_calls_that_are_to_run_and_of_no_others() {
    struct Kept(Seen<u32>, Flow, SendTools);
    impl AgentHooks for Kept {
        fn on_tools_selected(&self, step: &StepView<'_>, _: &ModelResponse) {
            self.0.note(step.iteration);
        }
        fn process_tool_calls(&self, _: &StepView<'_>, _: &ModelResponse) -> Flow {
            self.1
        }
        fn should_send_tools(&self, _: &StepView<'_>) -> SendTools {
            self.2
        }
    }
    let cases = [
        (Flow::Continue, SendTools::Yes, vec![0]),
        (Flow::Stop, SendTools::Yes, vec![]),
        (Flow::Continue, SendTools::No, vec![]),
    ];
    for (flow, tools, expected) in cases {
        let seen = Seen::default();
        let bench = hooked(Kept(seen.clone(), flow, tools), [looks_up("x"), text("Found.")]);
        let key = bench.session().await;
        bench.say(&key, "go").await;
        bench.check(&key).await;
        assert_eq!(seen.all(), expected);
    }
}

/// Counts by a contract of its own.
struct Contract(u64);

impl AgentHooks for Contract {
    fn calculate_usage(&self, step: &StepView<'_>, answer: &ModelAnswer) -> Option<Charge> {
        let told = answer.response.usage;
        assert_eq!((told.input, told.output, answer.cost_micros), (Some(10), Some(5), None));
        (step.calls_made == 0).then(|| Charge {
            usage: Usage { input: Some(self.0), output: Some(3), ..Usage::default() },
            cost_micros: Some(42),
        })
    }
}

#[tokio::test]
async fn an_agent_says_what_a_model_call_counts_as_and_budgets_and_bills_go_by_it() {
    let run = async |tokens: u64| {
        let main = agent("main").hooks(Contract(tokens)).build().unwrap();
        let model = ScriptedModel::new("m", [looks_up("x"), text("Found."), text("So far.")]);
        let limits = TurnLimits { max_tokens: 1_000, ..TurnLimits::default() };
        let bench = Bench::of(model, [main], |b| b.limits(limits));
        let key = bench.session().await;
        bench.say(&key, "go").await;
        bench.check(&key).await;
        let query = UsageQuery {
            tenant: key.tenant.clone(),
            user: None,
            account: None,
            from: NOW,
            to: NOW.plus(1),
            by: UsageBy::Model,
        };
        let booked = bench.store.usage(query).await.unwrap().remove(0).sum;
        (bench.message(&key).await, booked)
    };
    let (message, booked) = run(7).await;
    let first = &message.iterations[0];
    assert_eq!((first.usage.input, first.usage.output), (Some(7), Some(3)));
    assert_eq!((first.cost_micros, first.estimated), (Some(42), false));
    // The second answer counts as the provider said.
    assert_eq!(message.iterations[1].usage.input, Some(10));
    assert_eq!((booked.calls, booked.input, booked.output, booked.cost_micros), (2, 17, 8, 42));
    let (message, _) = run(1_000).await;
    assert_eq!(outcome(&message), Outcome::Exhausted { reason: ExhaustedReason::TokenBudget });
}

#[tokio::test]
async fn a_family_of_models_has_examples_of_its_own() {
    let of = |name: &str| vec![Item::user(format!("An example for {name}."))];
    for (model, expected) in [
        ("gpt-5-mini", "An example for gpt-5."),
        ("openai/GPT-4o", "An example for gpt."),
        ("claude-opus", "An example for any."),
    ] {
        let main = agent("main")
            .examples(of("any"))
            .examples_for("gpt", of("gpt"))
            .examples_for("GPT-5", of("gpt-5"))
            .build()
            .unwrap();
        let bench = Bench::of(ScriptedModel::new(model, [text("Hello.")]), [main], |b| b);
        let key = bench.session().await;
        bench.say(&key, "hello").await;
        assert_eq!(user_texts(&bench.last_request()), [expected, "hello"]);
    }
}
