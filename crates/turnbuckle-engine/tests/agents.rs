//! What agents do together and without people: captured runs and their application, sub-agents, routes, long histories,
//! structured answers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use turnbuckle_core::error::{ModelError, ModelErrorKind};
use turnbuckle_core::event::EventKind;
use turnbuckle_core::ids::AgentName;
use turnbuckle_core::machine::Routes;
use turnbuckle_core::message::AssistantMessage;
use turnbuckle_core::model::{ModelRequest, OutputSchema};
use turnbuckle_core::outcome::{Outcome, TurnError};
use turnbuckle_core::part::{InputKind, Part};
use turnbuckle_core::transcript::Item;
use turnbuckle_core::usage::Purpose;
use turnbuckle_engine::tool::{FnTool, Resources, ToolContract};
use turnbuckle_engine::{Agent, Agents, Domain, drain};
use turnbuckle_models::TokenMeter;
use turnbuckle_models::catalogue::TokenizerFamily;
use turnbuckle_models::scripted::{Scripted, ScriptedModel, calls as calling, text};

fn ask_researcher() -> FnTool {
    FnTool::elsewhere(
        ToolContract::new("ask_researcher")
            .description("Hands a task to the researcher.")
            .input_schema(json!({
                "type": "object",
                "properties": {"task": {"type": "string"}},
                "required": ["task"],
            }))
            .on_agent("researcher"),
    )
}

fn ask_clerk() -> FnTool {
    FnTool::elsewhere(
        ToolContract::new("ask_clerk")
            .description("Hands a task to the clerk.")
            .input_schema(json!({
                "type": "object",
                "properties": {"task": {"type": "string"}},
                "required": ["task"],
            }))
            .on_agent("clerk"),
    )
}

fn first_text(request: &ModelRequest) -> String {
    user_texts(request)[0].clone()
}

fn child(message: &AssistantMessage, call: usize) -> &AssistantMessage {
    calls(message)[call].child.as_ref().unwrap()
}

#[tokio::test]
async fn sub_agents_run_beside_each_other_and_keep_to_their_task() {
    let model = ScriptedModel::from_fn("m", |request| {
        let answer = match (first_text(request).as_str(), answers(request)) {
            ("ask both", 0) => calling(&[
                ("a", "ask_researcher", r#"{"task": "find tea"}"#),
                ("b", "ask_researcher", r#"{"task": "find cake"}"#),
            ]),
            ("ask both", _) => text("Tea is 3, cake is 4."),
            ("find tea", 0) => calling(&[("c", "look_up", r#"{"key": "tea"}"#)]),
            ("find tea", _) => text("Tea costs 3, by the list."),
            ("find cake", 0) => calling(&[("c", "look_up", r#"{"key": "cake"}"#)]),
            ("find cake", _) => text("Cake costs 4, by the list."),
            (other, _) => panic!("{other}"),
        };
        answer.into()
    });
    let agents = [
        Agent::builder("main").instructions("You lead.").tool(ask_researcher()).build().unwrap(),
        agent("researcher").build().unwrap(),
    ];
    let bench = Bench::of(model, agents, |b| b);
    let key = bench.session().await;
    let events = bench.say(&key, "ask both").await;
    bench.check(&key).await;
    let message = bench.message(&key).await;
    assert_eq!(streamed_message(&events), message);
    assert_eq!(message.text(), "Tea is 3, cake is 4.");
    assert_eq!(child(&message, 0).text(), "Tea costs 3, by the list.");
    assert_eq!(child(&message, 1).text(), "Cake costs 4, by the list.");
    assert_eq!(calls(&message)[1].output.as_deref(), Some(&json!("Cake costs 4, by the list.")));
    // Both began before either was done.
    let requests = bench.model.requests();
    assert_eq!(
        requests[1..3].iter().map(first_text).collect::<Vec<_>>(),
        ["find tea", "find cake"]
    );
    assert!(requests[1..3].iter().all(|r| user_texts(r).len() == 1));
    // Six calls of ten and five tokens each.
    let usage = message.usage();
    assert_eq!((usage.input, usage.output), (Some(60), Some(30)));
    let EventKind::TurnCompleted { usage } = last_kind(&events) else { panic!() };
    assert_eq!(usage.input, Some(60));
    // The paths tell whose events they are.
    let paths: std::collections::BTreeSet<_> = events.iter().map(|e| e.agent.to_string()).collect();
    assert_eq!(paths.len(), 3, "{paths:?}");
}

#[tokio::test]
async fn a_decision_deep_in_the_tree_pauses_and_resumes_all_of_it() {
    let model = ScriptedModel::from_fn("m", |request| {
        let answer = match (first_text(request).as_str(), answers(request)) {
            ("pay it", 0) => calling(&[("a", "ask_researcher", r#"{"task": "have it paid"}"#)]),
            ("pay it", _) => text("It is paid."),
            ("have it paid", 0) => calling(&[
                ("b", "ask_clerk", r#"{"task": "pay 7"}"#),
                ("l", "look_up", r#"{"key": "tea"}"#),
            ]),
            ("have it paid", _) => text("The clerk paid 6."),
            ("pay 7", 0) => calling(&[("c", "pay", r#"{"amount": 7}"#)]),
            ("pay 7", _) => text("I paid 6."),
            (other, _) => panic!("{other}"),
        };
        answer.into()
    });
    let agents = [
        Agent::builder("main").tool(ask_researcher()).build().unwrap(),
        agent("researcher").tool(ask_clerk()).build().unwrap(),
        agent("clerk").build().unwrap(),
    ];
    let bench = Bench::of(model, agents, |b| b);
    let key = bench.session().await;
    let events = bench.say(&key, "pay it").await;
    assert!(matches!(last_kind(&events), EventKind::TurnPaused { .. }), "{events:?}");
    check_session(&bench.engine, &key).await;
    assert_eq!(bench.world.all(), ["look_up tea"]);
    let cards = pending_cards(&*bench.store, &key).await;
    let decided =
        bench.engine.decide(&key, &cards[0], amend(json!({"amount": 6})), None).await.unwrap();
    let events = drain(decided.stream().unwrap()).await;
    assert!(matches!(last_kind(&events), EventKind::TurnCompleted { .. }), "{events:?}");
    bench.check(&key).await;
    let message = bench.message(&key).await;
    assert_eq!(message.text(), "It is paid.");
    let researcher = child(&message, 0);
    assert_eq!(researcher.text(), "The clerk paid 6.");
    assert_eq!(child(researcher, 0).text(), "I paid 6.");
    assert_eq!(bench.world.all()[1..].len(), 1);
    assert_eq!(bench.world.count("pay 6"), 1);
}

#[tokio::test]
async fn stopping_stops_sub_agents_too() {
    let model = ScriptedModel::from_fn("m", |request| match first_text(request).as_str() {
        "go" => calling(&[("a", "ask_researcher", r#"{"task": "think"}"#)]).into(),
        _ => Scripted::Hang(text("Hmm, let me ")),
    });
    let agents = [
        Agent::builder("main").tool(ask_researcher()).build().unwrap(),
        agent("researcher").build().unwrap(),
    ];
    let bench = Bench::of(model, agents, |b| b);
    let key = bench.session().await;
    let mut stream = bench.engine.submit(&key, "go").await.unwrap().stream().unwrap();
    until(&mut stream, |k| matches!(k, EventKind::TextDelta { .. })).await;
    stream.stop();
    drain(stream).await;
    bench.check(&key).await;
    let message = bench.message(&key).await;
    assert!(matches!(outcome(&message), Outcome::Aborted { .. }));
    assert_eq!(child(&message, 0).text(), "Hmm, let me ");
}

/// A boss who sends messages to sales or to help.
struct Firm(Agents, &'static str);

impl Domain for Firm {
    fn agents(&self) -> &BTreeMap<AgentName, Arc<Agent>> {
        self.0.agents()
    }

    fn resources(&self) -> Resources {
        self.0.resources()
    }

    fn routes(&self, _: &AgentName) -> Routes {
        let route = |names: &[&str]| names.iter().map(|n| AgentName::from(*n)).collect();
        Routes {
            supervisor: Some("boss".into()),
            routes: BTreeMap::from([
                ("sales".to_owned(), route(&["seller", "closer"])),
                ("help".to_owned(), route(&["helper"])),
            ]),
            default: self.1.into(),
        }
    }
}

fn firm(answers: impl IntoIterator<Item = &'static str>, default: &'static str) -> Bench {
    let names = ["main", "boss", "seller", "closer", "helper"];
    let agents =
        names.map(|n| Agent::builder(n).instructions(format!("You are {n}.")).build().unwrap());
    let model = ScriptedModel::new("m", answers.into_iter().map(text));
    Bench::with(model, |b| b.domain(Firm(Agents::new(agents), default)))
}

fn systems(bench: &Bench) -> Vec<String> {
    bench.model.requests().iter().map(|r| r.system[0].text.to_string()).collect()
}

#[tokio::test]
async fn a_supervisor_chooses_the_agents() {
    let bench = firm(
        [
            r#"{"route": "sales", "reasoning": "they want to buy"}"#,
            "A fine car.",
            "Sign here, please.",
        ],
        "help",
    );
    let key = bench.session().await;
    let events = bench.say(&key, "I want a car").await;
    bench.check(&key).await;
    assert_eq!(systems(&bench), ["You are boss.", "You are seller.", "You are closer."]);
    assert!(bench.model.requests()[0].output.is_some());
    assert!(bench.model.requests()[0].tools.specs.is_empty());
    let message = bench.message(&key).await;
    assert_eq!(said(&message), ["A fine car.", "Sign here, please."]);
    let chosen: Vec<_> = events
        .iter()
        .filter_map(|e| match &e.kind {
            EventKind::RouteSelected { route, reasoning } => {
                Some((route.clone(), reasoning.clone()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(chosen, [("sales".to_owned(), Some("they want to buy".to_owned()))]);
    let purposes: Vec<_> = message.iterations.iter().map(|i| i.purpose).collect();
    assert_eq!(purposes, [Purpose::Route, Purpose::Step, Purpose::Step]);
}

#[tokio::test]
async fn a_supervisor_that_answers_nonsense_twice_gets_the_default_route() {
    let bench = firm(["Er.", r#"{"route": "legal", "reasoning": "?"}"#, "How can I help?"], "help");
    let key = bench.session().await;
    bench.say(&key, "hm").await;
    bench.check(&key).await;
    assert_eq!(systems(&bench), ["You are boss.", "You are boss.", "You are helper."]);
    assert_eq!(bench.message(&key).await.text(), "How can I help?");
}

#[tokio::test]
async fn routes_that_are_not_sound_are_told_and_the_session_stays_usable() {
    let bench = firm(["x"], "nowhere");
    let key = bench.session().await;
    for _ in 0..2 {
        let events = bench.say(&key, "hello").await;
        let EventKind::TurnError { error, .. } = last_kind(&events) else { panic!("{events:?}") };
        assert!(error.to_string().contains("`nowhere` is not defined"), "{error}");
        check_session(&bench.engine, &key).await;
    }
    assert_eq!(bench.store.turns(&key).await.unwrap().len(), 2);
    assert_eq!(bench.store.session(&key).await.unwrap().pending, 0);
}

fn is_summary(request: &ModelRequest) -> bool {
    request.system.first().is_some_and(|b| b.text.starts_with("Summarise"))
}

/// An agent whose model takes few tokens; it answers shortly, and summaries are numbered.
fn cramped(window: u32) -> Bench {
    let mut summaries = 0;
    let model = ScriptedModel::from_fn("m", move |request| {
        if is_summary(request) {
            summaries += 1;
            return text(&format!("SUMMARY {summaries}: they talked.")).into();
        }
        text("Noted.").into()
    })
    .with_window(window, window / 8);
    let agents =
        [Agent::builder("main").instructions("You listen.").tool(look_up()).build().unwrap()];
    Bench::of(model, agents, |b| b)
}

#[tokio::test]
async fn a_long_history_is_summarised_once_and_stays_whole_in_the_store() {
    let bench = cramped(3_000);
    let key = bench.session().await;
    let mut compacted = Vec::new();
    for n in 0..8 {
        let words = format!("Message {n}: {}", "a few more words. ".repeat(80));
        let events = bench.say(&key, words.as_str()).await;
        assert!(matches!(last_kind(&events), EventKind::TurnCompleted { .. }), "{n}: {events:?}");
        if events.iter().any(|e| matches!(e.kind, EventKind::ContextCompacted { .. })) {
            compacted.push(n);
        }
    }
    check_session(&bench.engine, &key).await;
    let requests = bench.model.requests();
    let summaries = requests.iter().filter(|r| is_summary(r)).count();
    // It was needed, but not in each turn: what was summarised is not summarised again.
    assert!(
        !compacted.is_empty() && compacted.windows(2).all(|w| w[1] > w[0] + 1),
        "{compacted:?}"
    );
    assert_eq!(summaries, compacted.len());
    let stored = messages(&*bench.store, &key).await;
    assert_eq!(stored.len(), 16);
    // The turn after the summary begins with it, and so does not hold the first message.
    let last = bench.last_request();
    let seen = user_texts(&last);
    assert!(seen[0].contains(&format!("SUMMARY {summaries}")), "{}", seen[0]);
    assert!(seen.iter().all(|t| !t.starts_with("Message 0")));
    // Its call is metered, on the message of its turn.
    let all = assistant_messages(&*bench.store, &key).await;
    let purposes: Vec<_> = all[compacted[0]].iterations.iter().map(|i| i.purpose).collect();
    assert_eq!(purposes, [Purpose::Summary, Purpose::Step]);
    // A process that reads the session anew goes on with the summary.
    let agents =
        [Agent::builder("main").instructions("You listen.").tool(look_up()).build().unwrap()];
    let other = builder(bench.model.clone(), &bench.world, agents)
        .shared_store(bench.store.clone())
        .name("two")
        .ids(|| "other".to_owned())
        .build()
        .unwrap();
    say(&other, &key, "And?").await;
    assert!(user_texts(&bench.last_request())[0].contains("SUMMARY"));
}

#[tokio::test]
async fn a_single_message_larger_than_the_window_is_trimmed_with_a_mark() {
    let bench = cramped(3_000);
    let key = bench.session().await;
    let long = format!("Begin. {}", "word ".repeat(20_000));
    let events = bench.say(&key, long.as_str()).await;
    check_session(&bench.engine, &key).await;
    assert!(matches!(last_kind(&events), EventKind::TurnCompleted { .. }), "{events:?}");
    let seen = user_texts(&bench.last_request());
    let (kept, mark) = seen[0].split_once("\n[").unwrap();
    assert!(kept.starts_with("Begin. word"), "{kept}");
    let gone = long.len() - kept.len();
    assert_eq!(mark, format!("… {gone} bytes were left out here to fit the model's window]"));
    // Half of what is left beside the answer, counted as the window is: no more, and hardly less.
    let half = (3_000 - 3_000 / 8) / 2;
    let tokens = TokenMeter::new("m", TokenizerFamily::Unknown).text_at_most(kept);
    assert!((half - half / 16..=half).contains(&tokens), "{tokens} of {half}");
    assert!(events.iter().any(|e| matches!(e.kind, EventKind::ContextCompacted { .. })));
    let turnbuckle_core::message::Message::User(user) = &messages(&*bench.store, &key).await[0]
    else {
        panic!()
    };
    assert_eq!(user.content.text().len(), long.len());
}

#[tokio::test]
async fn many_long_results_at_once_are_trimmed_until_they_fit_beside_each_other() {
    let model = ScriptedModel::from_fn("m", |request| match answers(request) {
        0 => {
            let keys = ["1", "2", "3", "4", "5", "6"].map(|n| format!(r#"{{"key": "{n}"}}"#));
            calling(&keys.each_ref().map(|args| (args.as_str(), "fill", args.as_str()))).into()
        }
        _ => text("Noted.").into(),
    })
    .with_window(3_000, 300);
    let fill = ToolContract::new("fill").description("Gives much.");
    let fill = FnTool::typed(fill, async |args: Key, _| {
        Ok::<_, String>(format!("{} and so on. ", args.key).repeat(400))
    });
    let agents = [Agent::builder("main").instructions("You listen.").tool(fill).build().unwrap()];
    let bench = Bench::of(model, agents, |b| b);
    let key = bench.session().await;
    let events = bench.say(&key, "go").await;
    assert!(matches!(last_kind(&events), EventKind::TurnCompleted { .. }), "{events:?}");
    bench.check(&key).await;
    let Item::ToolResults { results } = items(&bench.last_request()).pop().unwrap() else {
        panic!()
    };
    let size = 400 * "1 and so on. ".len();
    for (n, result) in results.iter().enumerate() {
        let (kept, mark) = result.content.split_once("\n[").unwrap();
        assert!(kept.starts_with(&format!("{} and so on. ", n + 1)), "{kept}");
        // However often it was trimmed, the mark tells of all that is gone.
        let gone = size - kept.len();
        assert_eq!(mark, format!("… {gone} bytes were left out here to fit the model's window]"));
    }
}

#[tokio::test]
async fn a_summary_that_fails_leaves_out_old_tool_results_instead() {
    let model = ScriptedModel::from_fn("m", |request| {
        if is_summary(request) {
            return ModelError::new(ModelErrorKind::Auth, "no summaries today").into();
        }
        if answers(request) > 0 {
            return text("Noted.").into();
        }
        let keys = ["1", "2", "3"].map(|n| format!(r#"{{"key": "{n}"}}"#));
        let all: Vec<_> = keys.iter().map(|args| (args.as_str(), "fill", args.as_str())).collect();
        calling(&all).into()
    })
    .with_window(3_000, 300);
    let fill = ToolContract::new("fill").description("Gives much.");
    let fill = FnTool::typed(fill, async |args: Key, _| Ok::<_, String>(args.key.repeat(700)));
    let agents = [Agent::builder("main").instructions("You listen.").tool(fill).build().unwrap()];
    let bench = Bench::of(model, agents, |b| b);
    let key = bench.session().await;
    let mut notes = Vec::new();
    for _ in 0..20 {
        let words = "and then some more of it. ".repeat(20);
        let events = bench.say(&key, words.as_str()).await;
        assert!(matches!(last_kind(&events), EventKind::TurnCompleted { .. }), "{events:?}");
        notes.extend(events.into_iter().filter_map(|e| match e.kind {
            EventKind::ContextCompacted { note, .. } => Some(note),
            _ => None,
        }));
        if !notes.is_empty() {
            break;
        }
    }
    check_session(&bench.engine, &key).await;
    assert!(notes[0].contains("a summary could not be made"), "{notes:?}");
    assert!(notes[0].contains("oldest tool results were left out"), "{notes:?}");
    check_requests(&bench.model.requests());
    // In the store they are still whole.
    let first = assistant_messages(&*bench.store, &key).await.swap_remove(0);
    assert_eq!(calls(&first)[0].output.as_deref(), Some(&json!("1".repeat(700))));
}

fn number() -> OutputSchema {
    let schema = json!({
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": false,
    });
    OutputSchema { name: "number".into(), schema: schema.into() }
}

fn counting(answers: impl IntoIterator<Item = &'static str>) -> Bench {
    let model = ScriptedModel::new("m", answers.into_iter().map(text));
    Bench::of(model, [Agent::builder("main").output(number()).build().unwrap()], |b| b)
}

#[tokio::test]
async fn a_structured_answer_is_repaired_once() {
    let bench = counting(["About seven.", "```json\n{\"n\": 7}\n```"]);
    let key = bench.session().await;
    bench.say(&key, "how many?").await;
    bench.check(&key).await;
    let message = bench.message(&key).await;
    assert_eq!(outcome(&message), Outcome::Completed);
    let value = turnbuckle_engine::driver::structured(said(&message).last().unwrap()).unwrap();
    assert_eq!(value, json!({"n": 7}));
    let Part::Input(asked) = &message.parts[1] else { panic!("{message:#?}") };
    assert_eq!(asked.kind, InputKind::Nudge);
    let asked = asked.content.text();
    assert!(asked.contains("does not satisfy the required schema"), "{asked}");
    assert!(bench.model.requests().iter().all(|r| r.output == Some(number())));
}

#[tokio::test]
async fn a_structured_answer_that_stays_wrong_is_an_error() {
    let bench = counting([r#"{"n": "seven"}"#, r#"{"m": 7}"#, r#"{"n": 7}"#]);
    let key = bench.session().await;
    let events = bench.say(&key, "how many?").await;
    bench.check(&key).await;
    let EventKind::TurnError { error: TurnError::InvalidOutput { message }, .. } =
        last_kind(&events)
    else {
        panic!("{events:?}")
    };
    assert!(message.contains('n'), "{message}");
    assert_eq!(bench.model.requests().len(), 2);
}

#[tokio::test]
async fn an_eval_replaces_what_tools_do_and_nothing_else() {
    use turnbuckle_engine::tool::{Tool, ToolOutput, ToolRun, Wrapped};
    let wrap = |tool: Arc<dyn Tool>| -> Arc<dyn Tool> {
        match tool.contract().name().as_str() {
            "pay" => Arc::new(Wrapped::new(tool, |_, args, _| {
                ToolRun::ready(Ok(ToolOutput::json(json!({"pretended": args["amount"]}))))
            })),
            _ => tool,
        }
    };
    let script = [
        calling(&[
            ("w", "pay", r#"{"amount": "much"}"#),
            ("l", "look_up", r#"{"key": "tea"}"#),
            ("p", "pay", r#"{"amount": 7}"#),
        ]),
        text("Paid."),
    ];
    let bench = Bench::with(ScriptedModel::new("m", script), |b| b.wrap_tools(Arc::new(wrap)));
    let key = bench.session().await;
    bench.say(&key, "pay").await;
    // Arguments are checked and people are asked as ever.
    let card = pending_cards(&*bench.store, &key).await.remove(0);
    let decided = bench.engine.decide(&key, &card, approve(), None).await.unwrap();
    drain(decided.stream().unwrap()).await;
    bench.check(&key).await;
    let message = bench.message(&key).await;
    let errors: Vec<_> = calls(&message).iter().map(|c| c.error.is_some()).collect();
    assert_eq!(errors, [true, false, false]);
    assert_eq!(calls(&message)[2].output.as_deref(), Some(&json!({"pretended": 7})));
    assert_eq!(bench.world.all(), ["look_up tea"]);
}
