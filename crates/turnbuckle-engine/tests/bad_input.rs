//! Everything a model, a provider, a clock or a person can get wrong on the way in, and what it gets: a result the model can
//! act on or a clear typed error, nothing lost, nothing executed twice, nothing left running.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::*;
use serde_json::json;
use std::sync::Arc;
use turnbuckle_core::error::ToolErrorCode::{self, *};
use turnbuckle_core::error::{ModelError, ModelErrorKind};
use turnbuckle_core::event::EventKind;
use turnbuckle_core::ids::AgentName;
use turnbuckle_core::model::{Block, ModelResponse};
use turnbuckle_core::outcome::{Outcome, TurnError};
use turnbuckle_core::part::{InputKind, Part, ToolCallStatus};
use turnbuckle_core::transcript::Item;
use turnbuckle_core::usage::FinishReason;
use turnbuckle_engine::tool::toolbox::Offer;
use turnbuckle_engine::tool::{FnTool, Resources, Tool, ToolContext, ToolContract};
use turnbuckle_engine::{Agent, Agents, Domain, TurnInfo};
use turnbuckle_models::scripted::{Scripted, ScriptedModel, answer, calls as calling, text};

/// One call of a kind that must fail, then an answer; gives the bench and the session.
async fn one_bad_call(name: &str, arguments: &str) -> (Bench, turnbuckle_store::SessionKey) {
    let bench = Bench::script([calling(&[("c", name, arguments)]), text("I see.")]);
    let key = bench.session().await;
    bench.say(&key, "go").await;
    bench.check(&key).await;
    (bench, key)
}

/// The call failed in this way before anything ran, the model was told in these words, and the turn went on to its end.
async fn assert_refused(name: &str, arguments: &str, code: ToolErrorCode, words: &[&str]) {
    let (bench, key) = one_bad_call(name, arguments).await;
    let message = bench.message(&key).await;
    assert_eq!(outcome(&message), Outcome::Completed);
    assert_eq!(message.text(), "I see.");
    let call = the_call(&message);
    assert_eq!((call.status, call.arguments.as_str()), (ToolCallStatus::Error, arguments));
    let error = call.error.as_ref().unwrap();
    assert_eq!(error.code, code, "{error:?}");
    let requests = bench.model.requests();
    assert_eq!(requests.len(), 2);
    let Item::ToolResults { results } = items(&requests[1]).pop().unwrap() else { panic!() };
    assert!(results[0].is_error);
    for word in words {
        assert!(results[0].content.contains(word), "`{word}` is not in {}", results[0].content);
    }
    assert_eq!(bench.world.all(), [] as [String; 0]);
}

#[tokio::test]
async fn arguments_that_are_not_json() {
    assert_refused("book", "room=7", UnparsedArguments, &["not valid JSON", "room=7"]).await;
    assert_refused("book", "[1]", UnparsedArguments, &["must be a JSON object", "an array"]).await;
}

#[tokio::test]
async fn arguments_that_are_cut() {
    // Without a word from the provider that it cut anything.
    assert_refused("book", r#"{"room": "blu"#, UnparsedArguments, &["not valid JSON", "{\\\"room"])
        .await;
}

#[tokio::test]
async fn null_for_a_required_argument() {
    let words = ["`room` is required and must not be null"];
    assert_refused("book", r#"{"room": null}"#, InvalidArguments, &words).await;
}

#[tokio::test]
async fn an_unknown_argument() {
    let words = ["there is no argument `rom`", "room", "nights"];
    assert_refused("book", r#"{"rom": "blue"}"#, InvalidArguments, &words).await;
}

#[tokio::test]
async fn an_unknown_tool() {
    let words = ["The tool `cook` does not exist", "look_up, book, tag"];
    assert_refused("cook", "{}", UnknownTool, &words).await;
}

#[tokio::test]
async fn a_tool_of_another_agent() {
    let extra = ToolContract::new("sing").description("Sings.");
    let singer = Agent::builder("singer")
        .tool(FnTool::without_args(extra, async |_| Ok::<_, String>("la")))
        .build()
        .unwrap();
    let ask = ToolContract::new("ask_singer").description("Asks the singer.").on_agent("singer");
    let model = ScriptedModel::new("m", [calling(&[("c", "sing", "{}")]), text("No.")]);
    let main = agent("main").tool(FnTool::elsewhere(ask)).build().unwrap();
    let bench = Bench::of(model, [main, singer], |b| b);
    let key = bench.session().await;
    bench.say(&key, "sing").await;
    bench.check(&key).await;
    let message = bench.message(&key).await;
    let error = the_call(&message).error.clone().unwrap();
    assert_eq!(error.code, NotAdvertised);
    assert!(error.message.contains("The tool `sing` is not available here"), "{error}");
}

/// Withholds one tool and switches another off.
struct Choosy(Agents);

impl Domain for Choosy {
    fn agents(&self) -> &std::collections::BTreeMap<AgentName, Arc<Agent>> {
        self.0.agents()
    }

    fn resources(&self) -> Resources {
        self.0.resources()
    }

    fn offers(&self, tool: &dyn Tool, _: &AgentName, _: &TurnInfo) -> Offer {
        match tool.contract().name().as_str() {
            "book" => Offer::Withheld,
            "tag" => Offer::SwitchedOff,
            _ => Offer::Offered,
        }
    }
}

#[tokio::test]
async fn a_tool_that_was_not_offered_in_this_call() {
    let world = World::default();
    let domain = Agents::new([agent("main").build().unwrap()])
        .with_resources(Resources::new().with(world.clone()));
    let both = [("a", "book", r#"{"room": "blue"}"#), ("b", "tag", r#"{"key": "x"}"#)];
    let model = ScriptedModel::new("m", [calling(&both), text("No.")]);
    let bench = Bench::with(model, |b| b.domain(Choosy(domain)));
    let key = bench.session().await;
    bench.say(&key, "book it").await;
    bench.check(&key).await;
    let offered: Vec<_> =
        bench.model.requests()[0].tools.specs.iter().map(|s| s.name.to_string()).collect();
    assert!(!offered.contains(&"book".to_owned()) && !offered.contains(&"tag".to_owned()));
    let message = bench.message(&key).await;
    let codes: Vec<_> = message.calls().map(|c| c.error.clone().unwrap().code).collect();
    assert_eq!(codes, [NotAdvertised, NotEnabled]);
    assert_eq!(world.all(), [] as [String; 0]);
}

/// The model is told of no tool that it cannot call, not even when it asks for one that there is not.
#[tokio::test]
async fn a_name_that_is_wrong_while_some_tools_are_not_offered() {
    let world = World::default();
    let domain = Agents::new([agent("main").build().unwrap()])
        .with_resources(Resources::new().with(world.clone()));
    let wrong = calling(&[("a", "look_upp", r#"{"key": "x"}"#)]);
    let model = ScriptedModel::new("m", [wrong, text("No.")]);
    let bench = Bench::with(model, |b| b.domain(Choosy(domain)));
    let key = bench.session().await;
    bench.say(&key, "look").await;
    bench.check(&key).await;
    let error = the_call(&bench.message(&key).await).error.clone().unwrap();
    assert_eq!(error.code, UnknownTool);
    let (_, named) = error.message.split_once("each: ").unwrap();
    let named: Vec<_> = named.trim_end_matches('.').split(", ").collect();
    assert!(named.contains(&"look_up") && named.contains(&"pay"), "{error}");
    assert!(!named.contains(&"book") && !named.contains(&"tag"), "{error}");
}

#[tokio::test]
async fn a_tool_that_panics() {
    let (bench, key) = one_bad_call("explode", "{}").await;
    let message = bench.message(&key).await;
    let error = the_call(&message).error.clone().unwrap();
    assert_eq!(error.code, Panicked);
    assert!(error.message.contains("the wires were crossed"), "{error}");
    assert!(error.message.contains("check before you repeat it"), "{error}");
    assert_eq!((outcome(&message), bench.world.count("explode")), (Outcome::Completed, 1));
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_hangs() {
    let (bench, key) = one_bad_call("hang", "{}").await;
    let message = bench.message(&key).await;
    let error = the_call(&message).error.clone().unwrap();
    assert_eq!(error.code, Timeout);
    assert!(error.message.contains("did not finish within 30s"), "{error}");
    assert_eq!(message.text(), "I see.");
}

#[tokio::test]
async fn an_output_of_fifty_million_bytes() {
    let (bench, key) = one_bad_call("flood", "{}").await;
    let message = bench.message(&key).await;
    let call = the_call(&message);
    let output = call.output.as_ref().unwrap();
    let whole = 50_000_000 / 6 * 6;
    assert_eq!((&output["truncated"], &output["bytes"]), (&json!(true), &json!(whole)));
    assert!(output.to_string().len() < 64 * 1024);
    let reference = output["full_output"].as_str().unwrap();
    let end = bench.store.get_blob(&key, reference, whole as u64 - 6..u64::MAX).await.unwrap();
    assert_eq!((end.size, end.content.as_slice()), (whole as u64, &b"water "[..]));
    let Item::ToolResults { results } = items(&bench.last_request()).pop().unwrap() else {
        panic!()
    };
    assert!(results[0].content.len() < 64 * 1024);
}

#[tokio::test]
async fn two_calls_with_the_same_id() {
    let both = [("same", "book", r#"{"room": "blue"}"#), ("same", "book", r#"{"room": "red"}"#)];
    let bench = Bench::script([calling(&both), text("Booked.")]);
    let key = bench.session().await;
    bench.say(&key, "book both").await;
    bench.check(&key).await;
    let message = bench.message(&key).await;
    let outputs: Vec<_> =
        message.calls().map(|c| c.output.clone().unwrap()["booked"].clone()).collect();
    assert_eq!(outputs, ["blue", "red"]);
    assert_eq!(bench.world.count("book"), 2);
    let ids: Vec<_> = message.calls().map(|c| c.wire_id.to_string()).collect();
    assert_ne!(ids[0], ids[1]);
}

#[tokio::test]
async fn an_empty_response() {
    let bench = Bench::script([answer(Vec::new()), text("Here I am.")]);
    let key = bench.session().await;
    bench.say(&key, "hello?").await;
    bench.check(&key).await;
    let message = bench.message(&key).await;
    assert_eq!((outcome(&message), message.text().as_str()), (Outcome::Completed, "Here I am."));
    let kinds: Vec<_> = message
        .parts
        .iter()
        .filter_map(|p| match p {
            Part::Input(p) => Some(p.kind),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, [InputKind::Correction]);
    assert!(user_texts(&bench.last_request())[1].contains("was empty"));
}

#[tokio::test]
async fn nothing_but_empty_responses() {
    let bench = Bench::script(vec![answer(Vec::new()); 9]);
    let key = bench.session().await;
    let events = bench.say(&key, "hello?").await;
    bench.check(&key).await;
    let EventKind::TurnError { error, .. } = last_kind(&events) else { panic!("{events:?}") };
    assert_eq!(*error, TurnError::EmptyResponse);
    // Once, and asked again twice.
    assert_eq!(bench.model.requests().len(), 3);
}

fn cut_short(mut response: ModelResponse) -> ModelResponse {
    response.finish = FinishReason::Length;
    response
}

#[tokio::test]
async fn a_response_cut_by_its_length_inside_a_call() {
    let cut = cut_short(calling(&[
        ("a", "book", r#"{"room": "red"}"#),
        ("b", "book", r#"{"room": "bl"#),
    ]));
    let bench = Bench::script([cut, text("I will be brief.")]);
    let key = bench.session().await;
    bench.say(&key, "go").await;
    bench.check(&key).await;
    let message = bench.message(&key).await;
    let got: Vec<_> = message.calls().map(|c| c.error.as_ref().map(|e| e.code)).collect();
    // The one that was whole ran; the one that was cut did not.
    assert_eq!(got, [None, Some(TruncatedArguments)]);
    assert_eq!(bench.world.count("book"), 1);
}

#[tokio::test]
async fn a_call_cut_before_its_arguments() {
    let cut = cut_short(calling(&[("a", "dig", "")]));
    let bench = Bench::script([cut, text("Again.")]);
    let key = bench.session().await;
    bench.say(&key, "go").await;
    bench.check(&key).await;
    let message = bench.message(&key).await;
    assert_eq!(the_call(&message).error.as_ref().unwrap().code, TruncatedArguments);
}

#[tokio::test]
async fn only_thinking() {
    let thought = answer(vec![Block::Thinking { text: "Hm. Hm.".into(), native: None }]);
    let bench = Bench::script([thought, text("Yes.")]);
    let key = bench.session().await;
    bench.say(&key, "well?").await;
    bench.check(&key).await;
    let message = bench.message(&key).await;
    assert_eq!((outcome(&message), message.text().as_str()), (Outcome::Completed, "Yes."));
    assert!(matches!(&message.parts[0], Part::Thinking(p) if p.text == "Hm. Hm."));
}

#[tokio::test]
async fn a_refusal() {
    let refused =
        |blocks: Vec<Block>| ModelResponse { finish: FinishReason::Refusal, ..answer(blocks) };
    // In words, it is an answer.
    let bench = Bench::script([refused(text("I will not do that.").blocks)]);
    let key = bench.session().await;
    bench.say(&key, "do it").await;
    let message = bench.message(&key).await;
    assert_eq!(
        (outcome(&message), message.text().as_str()),
        (Outcome::Completed, "I will not do that.")
    );
    // Without any, it is an error.
    let bench = Bench::script([refused(Vec::new())]);
    let key = bench.session().await;
    let events = bench.say(&key, "do it").await;
    bench.check(&key).await;
    let EventKind::TurnError { error, .. } = last_kind(&events) else { panic!("{events:?}") };
    assert_eq!(error.code(), "content_filter");
    assert_eq!(bench.model.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_provider_says_how_long_to_wait() {
    let mut limited = ModelError::new(ModelErrorKind::RateLimited, "slow down");
    limited.retry_after_ms = Some(7_000);
    let bench = Bench::script([Scripted::from(limited), text("Now.").into()]);
    let key = bench.session().await;
    let before = tokio::time::Instant::now();
    let events = bench.say(&key, "go").await;
    bench.check(&key).await;
    // The clock of this test only moves when something is waited for.
    let waited = before.elapsed().as_millis();
    assert!((7_000..=7_750).contains(&waited), "{waited}");
    let retries: Vec<_> = events
        .iter()
        .filter_map(|e| match &e.kind {
            EventKind::ModelRetry { attempt, delay_ms, error } => {
                Some((*attempt, *delay_ms, error.kind))
            }
            _ => None,
        })
        .collect();
    assert_eq!(retries, [(2, 7_000, ModelErrorKind::RateLimited)]);
    assert_eq!(bench.message(&key).await.text(), "Now.");
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_asks_for_too_long_a_wait_is_not_waited_for() {
    let mut limited = ModelError::new(ModelErrorKind::RateLimited, "come back tomorrow");
    limited.retry_after_ms = Some(86_400_000);
    let bench = Bench::script([limited]);
    let key = bench.session().await;
    let events = bench.say(&key, "go").await;
    bench.check(&key).await;
    let EventKind::TurnError { error, .. } = last_kind(&events) else { panic!("{events:?}") };
    assert_eq!(error.code(), "rate_limited");
    assert!(error.to_string().contains("come back tomorrow"));
}

#[tokio::test]
async fn a_clock_that_goes_backwards() {
    let script = vec![
        calling(&[("a", "look_up", r#"{"key": "x"}"#), ("b", "book", r#"{"room": "blue"}"#)]),
        text("Done."),
    ];
    let clock = Hand::at(NOW).moving(-60_000);
    let bench = Bench::with(by_request(script), |b| b.clock(clock));
    let key = bench.session().await;
    let events = bench.say(&key, "go").await;
    bench.check(&key).await;
    let message = bench.message(&key).await;
    assert_eq!((outcome(&message), message.text().as_str()), (Outcome::Completed, "Done."));
    assert!(events.windows(2).all(|pair| pair[0].at <= pair[1].at));
    assert!(message.calls().all(|c| c.started_at <= c.ended_at));
}

#[test]
fn a_setting_that_does_not_exist() {
    use turnbuckle_core::limits::{AgentLimits, TurnLimits};
    use turnbuckle_core::model::ModelSettings;
    use turnbuckle_engine::pipeline::Rule;
    use turnbuckle_models::{ProviderConfig, Timeouts};
    fn refused<T: serde::de::DeserializeOwned>(with: &str) -> String {
        match serde_json::from_str::<T>(with) {
            Ok(_) => panic!("{with} was taken"),
            Err(e) => e.to_string(),
        }
    }
    let typo = r#"{"max_tokns": 1}"#;
    for said in [
        refused::<TurnLimits>(typo),
        refused::<AgentLimits>(typo),
        refused::<ModelSettings>(typo),
        refused::<Rule>(r#"{"decision": "ask", "max_tokns": 1}"#),
        refused::<ProviderConfig>(typo),
        refused::<Timeouts>(typo),
    ] {
        assert!(said.contains("unknown field `max_tokns`") && said.contains("expected"), "{said}");
    }
}

#[tokio::test]
async fn arguments_deeper_or_longer_than_any_tool_needs() {
    let deep = format!(r#"{{"room": {}1{}}}"#, "[".repeat(100), "]".repeat(100));
    let (bench, key) = one_bad_call("book", &deep).await;
    let error = the_call(&bench.message(&key).await).error.clone().unwrap();
    assert_eq!(error.code, InvalidArguments, "{error}");
    let long = format!(r#"{{"room": "{}"}}"#, "x".repeat(2 << 20));
    let (bench, key) = one_bad_call("book", &long).await;
    let error = the_call(&bench.message(&key).await).error.clone().unwrap();
    assert_eq!(error.code, InvalidArguments, "{error}");
    assert_eq!(bench.world.all(), [] as [String; 0]);
}

#[tokio::test]
async fn a_tool_whose_output_has_no_json_form() {
    let contract = ToolContract::new("odd").description("Gives what cannot be written.");
    let odd = FnTool::without_args(contract, async |_: ToolContext| {
        Ok::<_, String>(std::collections::BTreeMap::from([((1, 2), 3)]))
    });
    let model = ScriptedModel::new("m", [calling(&[("c", "odd", "{}")]), text("I see.")]);
    let bench = Bench::of(model, [Agent::builder("main").tool(odd).build().unwrap()], |b| b);
    let key = bench.session().await;
    bench.say(&key, "go").await;
    bench.check(&key).await;
    let message = bench.message(&key).await;
    assert_eq!(the_call(&message).error.as_ref().unwrap().code, Failed);
}
