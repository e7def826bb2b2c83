//! The unmodified AG-UI clients, 1.0.0 and 0.0.59, through everything a conversation can be.

use crate::clients::{Client, installed};
use crate::support::*;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use turnbuckle_core::error::{ModelError, ModelErrorKind};
use turnbuckle_core::model::Block;
use turnbuckle_models::scripted::{Scripted, answer as blocks, calls, text};

/// The packages by their names in `tests/clients`, with the version they say they speak.
const CLIENTS: [(&str, Option<&str>); 2] = [("ag-ui-1", Some("1.0")), ("ag-ui-0059", None)];

fn start(site: &Site, package: &str, scenario: &str) -> Client {
    Client::start("ag-ui.mjs", &[package, scenario, &site.base])
}

/// A message without what differs from run to run.
fn brief(messages: &Value) -> Vec<String> {
    let line = |message: &Value| {
        let role = message["role"].as_str().unwrap();
        let calls = message["toolCalls"].as_array().into_iter().flatten();
        let calls: Vec<String> = calls
            .map(|call| {
                let function = &call["function"];
                let text = |name: &str| function[name].as_str().unwrap().to_owned();
                format!("{}{}", text("name"), text("arguments"))
            })
            .collect();
        let content = message["content"].as_str().unwrap_or_default();
        format!("{role}: {content}{}", calls.join(" "))
    };
    messages.as_array().unwrap().iter().map(line).collect()
}

fn ids(messages: &Value) -> Vec<&str> {
    messages.as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap()).collect()
}

fn two_lookups() -> Scripted {
    calls(&[("a", "look_up", r#"{"key": "tea"}"#), ("b", "look_up", r#"{"key": "coffee"}"#)]).into()
}

/// Text, and a call in the same breath.
fn says_and_calls(said: &str, tool: &str, args: &str) -> Scripted {
    blocks(vec![
        Block::Text { text: said.to_owned(), native: None },
        Block::ToolCall {
            wire_id: "c".to_owned(),
            name: tool.to_owned(),
            arguments: args.to_owned(),
            native: None,
        },
    ])
    .into()
}

#[tokio::test]
async fn text_is_told_and_a_transcript_sent_again_adds_only_what_is_new() {
    if !installed() {
        return;
    }
    for (package, version) in CLIENTS {
        let site = site([text("Hello there, how are you?"), text("Now this.")]).start().await;
        let told = start(&site, package, "text").done().await;
        assert_eq!(
            brief(&told["messages"]),
            [
                "user: Hi",
                "assistant: Hello there, how are you?",
                "user: And now?",
                "assistant: Now this."
            ]
        );
        assert_eq!(told["outcomes"], json!(["success", "success"]));
        assert_eq!(told["version"], json!(version));
        // In how many pieces depends on how far the turn was when the client began to listen; the golden turns hold to that.
        assert!(told["deltas"].as_u64().unwrap() > 0, "{told}");
        let usage = &told["usage"][0];
        assert_eq!((&usage["inputTokens"], &usage["totalTokens"]), (&json!(10), &json!(15)));
        assert_eq!(site.model.requests().len(), 2);
        let sessions = site.get("/v1/sessions").await;
        assert_eq!(sessions["items"].as_array().unwrap().len(), 1);
        let id = sessions["items"][0]["id"].as_str().unwrap();
        assert_eq!(site.messages(id).await.len(), 4);
    }
}

#[tokio::test]
async fn the_same_input_again_runs_nothing_and_shows_the_same() {
    if !installed() {
        return;
    }
    for (package, _) in CLIENTS {
        let site = site([text("Hello there.")]).start().await;
        let told = start(&site, package, "again").done().await;
        let [first, second, third] = [0, 1, 2].map(|i| &told["messages"][i]);
        assert_eq!(brief(first), ["user: Hi", "assistant: Hello there."]);
        assert_eq!((ids(second), ids(third)), (ids(first), ids(first)));
        assert_eq!((brief(second), brief(third)), (brief(first), brief(first)));
        assert_eq!(told["outcome"], "success");
        assert_eq!(site.model.requests().len(), 1);
    }
}

#[tokio::test]
async fn parallel_tools_are_called_and_answered_by_their_ids() {
    if !installed() {
        return;
    }
    for (package, _) in CLIENTS {
        let site = site([two_lookups(), text("Both are there.").into()]).start().await;
        let told = start(&site, package, "tools").done().await;
        let mut said = brief(&told["messages"]);
        // They finish in whichever order.
        said[2..4].sort();
        assert_eq!(
            said,
            [
                "user: Look it up",
                r#"assistant: look_up{"key": "tea"} look_up{"key": "coffee"}"#,
                r#"tool: {"key":"coffee","value":6}"#,
                r#"tool: {"key":"tea","value":3}"#,
                "assistant: Both are there.",
            ]
        );
        let mut world = site.world.all();
        world.sort();
        assert_eq!(world, ["look_up coffee", "look_up tea"]);
    }
}

#[tokio::test]
async fn an_approval_is_given_with_changed_arguments() {
    if !installed() {
        return;
    }
    for (package, _) in CLIENTS {
        let site = site([calling("pay", json!({"amount": 5})), text("Paid three.")]).start().await;
        let told = start(&site, package, "amend").done().await;
        let interrupt = &told["interrupt"];
        assert_eq!(interrupt["reason"], "tool_call");
        assert_eq!(interrupt["metadata"]["args"], json!({"amount": 5}));
        let schema = &interrupt["responseSchema"]["properties"];
        assert_eq!(schema["editedArgs"]["properties"]["amount"]["type"], "integer", "{schema}");
        assert_eq!(
            brief(&told["paused"]),
            ["user: Pay", r#"assistant: pay{"amount":5}"#],
            "the messages at the pause hold the arguments that would run"
        );
        assert!(
            ["refused by the client", "interrupts_open"]
                .contains(&told["refused"].as_str().unwrap())
        );
        let kinds: Vec<&str> = told["second"]["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| e["type"].as_str().unwrap())
            .collect();
        assert!(!kinds.contains(&"TOOL_CALL_START"), "it was started in the first run: {kinds:?}");
        assert_eq!(told["second"]["outcome"], "success");
        let said = brief(&told["messages"]);
        assert_eq!(said[2..], [r#"tool: {"paid":3}"#, "assistant: Paid three."]);
        assert_eq!(site.world.all(), ["pay 3"]);
        let audit = site.get("/v1/audit").await;
        assert_eq!(audit["items"][0]["action"], "approval.approve");
        assert_eq!(audit["items"][0]["detail"]["amendment"], json!({"amount": 3}));
    }
}

#[tokio::test]
async fn a_rejected_or_cancelled_approval_runs_nothing_and_the_turn_goes_on() {
    if !installed() {
        return;
    }
    for (package, _) in CLIENTS {
        for scenario in ["reject", "cancel"] {
            let site =
                site([calling("pay", json!({"amount": 5})), text("Then not.")]).start().await;
            let told = start(&site, package, scenario).done().await;
            assert_eq!(told["outcomes"], json!(["interrupt", "success"]));
            let said = brief(&told["messages"]);
            assert_eq!(said.last().unwrap(), "assistant: Then not.");
            assert_eq!(said[2].contains("too much"), scenario == "reject", "{said:?}");
            assert_eq!(site.world.all(), [""; 0]);
        }
    }
}

#[tokio::test]
async fn a_page_loaded_while_a_card_waits_shows_it_and_its_answer_acts_once() {
    if !installed() {
        return;
    }
    for (package, _) in CLIENTS {
        let site = site([calling("pay", json!({"amount": 5})), text("Paid.")]).start().await;
        let told = start(&site, package, "card").done().await;
        assert_eq!(told["shown"]["outcome"], "interrupt");
        let expected = [
            "user: Pay",
            r#"assistant: pay{"amount":5}"#,
            r#"tool: {"paid":5}"#,
            "assistant: Paid.",
        ];
        assert_eq!(brief(&told["messages"]), expected);
        assert_eq!(brief(&told["repeated"]), expected);
        assert_eq!(told["outcomes"], json!(["success", "success"]));
        assert_eq!(site.world.all(), ["pay 5"]);
        assert_eq!(site.model.requests().len(), 2);
    }
}

#[tokio::test]
async fn a_page_loaded_in_the_middle_of_a_stream_goes_on_with_it() {
    if !installed() {
        return;
    }
    for (package, _) in CLIENTS {
        let answers = [says_and_calls("Let me wait.", "wait", "{}"), text("That is done.").into()];
        let site = site(answers).start().await;
        let mut client = start(&site, package, "reload");
        client.hear("resumed").await;
        site.world.gate.open();
        client.go();
        let told = client.done().await;
        assert_eq!(told["errors"], json!([]));
        assert_eq!(
            brief(&told["messages"]),
            [
                "user: Wait for it",
                "assistant: Let me wait.wait{}",
                "tool: waited",
                "assistant: That is done."
            ]
        );
        assert_eq!(site.world.all(), ["wait begins", "wait ends"]);
    }
}

#[tokio::test]
async fn a_stopped_run_is_cancelled_and_the_thread_goes_on() {
    if !installed() {
        return;
    }
    for (package, version) in CLIENTS {
        let answers = [Scripted::Hang(text("I think about it")), text("Here.").into()];
        let site = site(answers).start().await;
        let told = start(&site, package, "stop").done().await;
        assert_eq!(told["stopped"], "stopping");
        match version {
            Some(_) => {
                assert_eq!((&told["outcome"], &told["errors"]), (&json!("cancelled"), &json!([])))
            }
            None => assert_eq!(told["errors"][0]["code"], "abort"),
        }
        assert_eq!(
            brief(&told["messages"]),
            ["user: Think", "assistant: I think about it", "user: Go on", "assistant: Here."]
        );
        assert_eq!(told["next"], "success");
    }
}

#[tokio::test]
async fn a_failed_run_says_why_and_the_thread_goes_on() {
    if !installed() {
        return;
    }
    for (package, _) in CLIENTS {
        let failure = ModelError::new(ModelErrorKind::Config, "the model is not configured");
        let site = site([Scripted::from(failure), text("Here.").into()]).start().await;
        let told = start(&site, package, "error").done().await;
        let error = &told["errors"][0];
        assert_eq!(error["code"], "model_error");
        assert!(error["message"].as_str().unwrap().contains("the model is not configured"));
        assert_eq!((&told["outcome"], &told["next"]), (&Value::Null, &json!("success")));
        let expected = ["user: Fail", "user: Try again", "assistant: Here."];
        assert_eq!(brief(&told["messages"]), expected);
    }
}

#[tokio::test]
async fn tools_of_the_front_end_are_run_by_it() {
    if !installed() {
        return;
    }
    for (package, version) in CLIENTS {
        let both = calls(&[("a", "open_page", r#"{"page": "mail"}"#), ("b", "read_screen", "{}")]);
        let look = calling("look_up", json!({"key": "tea"}));
        let site = site([both, look, text("It shows a form.")]).start().await;
        let told = start(&site, package, "client_tools").done().await;
        assert_eq!((&told["first"], &told["second"]), (&json!("success"), &json!("success")));
        let called: Vec<&Value> =
            told["asked"].as_array().unwrap().iter().map(|c| &c["id"]).collect();
        if version.is_some() {
            assert_eq!(told["pending"], json!(called));
        }
        assert_eq!(
            brief(&told["messages"]),
            [
                "user: Show me",
                r#"assistant: open_page{"page":"mail"} read_screen{}"#,
                r#"tool: {"opened":true}"#,
                "tool: A form.",
                r#"assistant: look_up{"key":"tea"}"#,
                r#"tool: {"key":"tea","value":3}"#,
                "assistant: It shows a form.",
            ]
        );
        assert_eq!(site.world.all(), ["look_up tea"], "the agent's own tool stays its own");
        let offered =
            site.model.requests()[0].tools.specs.iter().filter(|s| s.name == "look_up").count();
        assert_eq!(offered, 1);
    }
}

#[tokio::test]
async fn tools_of_the_front_end_that_need_approval_get_their_results_after_it() {
    if !installed() {
        return;
    }
    for (package, version) in CLIENTS {
        let both = calls(&[("a", "open_page", r#"{"page": "mail"}"#), ("b", "read_screen", "{}")]);
        let site = site([both, text("It shows a form.")]);
        let site = site.asking_about(&["open_page", "read_screen"]).start().await;
        let told = start(&site, package, "approved_client_tools").done().await;
        assert_eq!(told["errors"], json!([]));
        assert_eq!(told["outcomes"], json!(["interrupt", "success", "success"]));
        if version.is_some() {
            assert_eq!(told["pending"].as_array().unwrap().len(), 2, "{told}");
        }
        assert_eq!(
            brief(&told["messages"]),
            [
                "user: Show me",
                r#"assistant: open_page{"page":"mail"} read_screen{}"#,
                r#"tool: {"opened":true}"#,
                "tool: A form.",
                "assistant: It shows a form.",
            ]
        );
    }
}

/// The events of a run with this transcript, without a client that has a transcript of its own.
async fn run(site: &Site, thread: &str, messages: Value) -> Vec<Value> {
    let input = json!({
        "threadId": thread, "runId": "r", "protocolVersion": "1.0", "messages": messages,
    });
    let response = site.request(Method::POST, "/ag-ui/main").json(&input).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let text = response.text().await.unwrap();
    let frames = text.split("\n\n").filter_map(|frame| frame.strip_prefix("data: "));
    frames.map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

fn said(id: &str, text: &str) -> Value {
    json!({"id": id, "role": "user", "content": text})
}

#[tokio::test]
async fn a_transcript_that_is_cut_back_is_refused_with_the_way_to_another_answer() {
    let site = site([text("One."), text("Two."), text("Another two.")]).start().await;
    let (first, second) = (said("u1", "First"), said("u2", "Second"));
    let answer = json!({"id": "a1", "role": "assistant", "content": "One."});
    run(&site, "thread", json!([first])).await;
    run(&site, "thread", json!([first, answer, second])).await;
    let session = site.get("/v1/sessions").await["items"][0]["id"].as_str().unwrap().to_owned();
    let fork = format!("/v1/sessions/{session}/fork");

    let refused = run(&site, "thread", json!([first])).await;
    assert_eq!(kinds(&refused), ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_ERROR"]);
    assert_eq!(
        brief(&refused[1]["messages"]),
        ["user: First", "assistant: One.", "user: Second", "assistant: Two."]
    );
    assert_eq!(refused[2]["code"], "regenerate");
    let way = refused[2]["message"].as_str().unwrap();
    assert!(way.contains(&format!(r#"POST {fork} with {{"before": 0}}"#)), "{way}");

    // The last message may be sent again because its answer was lost.
    let again = run(&site, "thread", json!([first, answer, second])).await;
    assert_eq!(kinds(&again), ["RUN_STARTED", "MESSAGES_SNAPSHOT", "CUSTOM", "RUN_FINISHED"]);
    assert_eq!(
        (&again[2]["name"], &again[2]["value"]),
        (&json!("answered-before"), &json!({"fork": fork, "before": 2}))
    );
    assert_eq!(site.model.requests().len(), 2);

    let (status, copy) = site.post(&fork, json!({"before": 2})).await;
    assert_eq!(status, StatusCode::CREATED, "{copy}");
    let anew = run(&site, copy["id"].as_str().unwrap(), json!([first, answer, second])).await;
    let deltas = anew.iter().filter_map(|event| event["delta"].as_str());
    assert_eq!(deltas.collect::<String>(), "Another two.");
    assert_eq!(anew.last().unwrap()["outcome"]["type"], "success");
}

#[tokio::test]
async fn a_transcript_that_is_cut_back_far_is_refused_too() {
    let turns = 20;
    let answers: Vec<Scripted> = (0..turns).map(|i| text(&format!("Answer {i}.")).into()).collect();
    let site = site(answers).start().await;
    for turn in 0..turns {
        run(&site, "thread", json!([said(&format!("u{turn}"), "Go on")])).await;
    }
    let refused = run(&site, "thread", json!([said("u0", "Go on")])).await;
    assert_eq!(kinds(&refused), ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_ERROR"]);
    assert_eq!(refused[2]["code"], "regenerate");
    assert_eq!(site.model.requests().len(), turns);
}
