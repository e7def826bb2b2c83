//! The unmodified AI SDK clients, versions 6 and 7, through everything a conversation can be.

use crate::clients::{Client, installed};
use crate::support::*;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use turnbuckle_core::error::{ModelError, ModelErrorKind};
use turnbuckle_core::model::Block;
use turnbuckle_models::scripted::{Scripted, answer as blocks, calls, text};

/// The clients with the profiles they are served in. Version 7 takes that of 6 as well.
const CLIENTS: [(&str, &str); 3] = [("6", "v6"), ("7", "v6"), ("7", "v7")];

fn start(site: &Site, (version, profile): (&str, &str), scenario: &str) -> Client {
    Client::start("ai-sdk.mjs", &[version, scenario, &site.base, profile])
}

fn part(part: &Value) -> Option<String> {
    let kind = part["type"].as_str().unwrap();
    let text = |name: &str| part[name].as_str().unwrap_or_default().to_owned();
    Some(match kind {
        "step-start" => return None,
        "text" | "reasoning" => format!("{kind}: {}", text("text")),
        "dynamic-tool" => {
            format!("{} {} {} {}", text("toolName"), part["input"], text("state"), part["output"])
        }
        tool if tool.starts_with("tool-") => {
            format!("{tool} {} {} {}", part["input"], text("state"), part["output"])
        }
        other => other.to_owned(),
    })
}

/// Messages without what differs from run to run.
fn brief(messages: &Value) -> Vec<(String, Vec<String>)> {
    let line = |message: &Value| {
        let parts = message["parts"].as_array().unwrap().iter().filter_map(part);
        (message["role"].as_str().unwrap().to_owned(), parts.collect())
    };
    messages.as_array().unwrap().iter().map(line).collect()
}

fn expected(messages: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
    let owned = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect();
    messages.iter().map(|(role, parts)| ((*role).to_owned(), owned(parts))).collect()
}

fn steps(message: &Value) -> usize {
    message["parts"].as_array().unwrap().iter().filter(|p| p["type"] == "step-start").count()
}

/// The messages as the client has them, and as a page loads them, are the same.
fn same(told: &Value, messages: &[(&str, &[&str])]) {
    assert_eq!(brief(&told["messages"]), expected(messages));
    assert_eq!(brief(&told["loaded"]), expected(messages));
    let ids = |messages: &Value| -> Vec<String> {
        messages.as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&told["messages"]), ids(&told["loaded"]));
    let all = told["messages"].as_array().unwrap().iter();
    for (mine, loaded) in all.zip(told["loaded"].as_array().unwrap()) {
        assert_eq!(steps(mine), steps(loaded));
    }
    assert_eq!(told["errors"], json!([]));
}

#[tokio::test]
async fn text_is_streamed_and_a_transcript_sent_again_adds_only_what_is_new() {
    if !installed() {
        return;
    }
    for client in CLIENTS {
        let site = site([text("Hello there, how are you?"), text("Now this.")]).start().await;
        let told = start(&site, client, "text").done().await;
        same(
            &told,
            &[
                ("user", &["text: Hi"]),
                ("assistant", &["text: Hello there, how are you?"]),
                ("user", &["text: And now?"]),
                ("assistant", &["text: Now this."]),
            ],
        );
        assert_eq!(told["finished"][0]["finishReason"], "stop");
        let metadata = &told["messages"][1]["metadata"];
        assert_eq!(metadata["usage"], json!({"inputTokens": 10, "outputTokens": 5}));
        assert_eq!(site.model.requests().len(), 2);
    }
}

#[tokio::test]
async fn the_same_message_again_runs_nothing_and_gives_the_same() {
    if !installed() {
        return;
    }
    for client in CLIENTS {
        let site = site([text("Hello there.")]).start().await;
        let told = start(&site, client, "again").done().await;
        let chunks: Vec<&str> =
            told["chunks"].as_array().unwrap().iter().map(|c| c.as_str().unwrap()).collect();
        let start: Value = serde_json::from_str(chunks[0]).unwrap();
        assert_eq!(start["messageId"], told["messages"][1]["id"]);
        assert_eq!(chunks.last(), Some(&"[DONE]"));
        let deltas = chunks.iter().filter_map(|c| serde_json::from_str::<Value>(c).ok());
        let text: String = deltas.filter_map(|c| c["delta"].as_str().map(str::to_owned)).collect();
        assert_eq!(text, "Hello there.");
        assert_eq!(site.model.requests().len(), 1);
    }
}

#[tokio::test]
async fn parallel_tools_are_called_and_answered_by_their_ids() {
    if !installed() {
        return;
    }
    for client in CLIENTS {
        let lookups = calls(&[
            ("a", "look_up", r#"{"key": "tea"}"#),
            ("b", "look_up", r#"{"key": "coffee"}"#),
        ]);
        let site = site([lookups, text("Both are there.")]).start().await;
        let told = start(&site, client, "tools").done().await;
        let parts = [
            r#"look_up {"key":"tea"} output-available {"key":"tea","value":3}"#,
            r#"look_up {"key":"coffee"} output-available {"key":"coffee","value":6}"#,
            "text: Both are there.",
        ];
        same(&told, &[("user", &["text: Look it up"]), ("assistant", &parts)]);
        assert_eq!(steps(&told["messages"][1]), 2);
        assert_eq!(told["finished"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn an_approval_is_given_with_changed_arguments_in_one_message() {
    if !installed() {
        return;
    }
    for client in CLIENTS {
        let site = site([calling("pay", json!({"amount": 5})), text("Paid three.")]).start().await;
        let told = start(&site, client, "amend").done().await;
        let asked = &told["paused"][1]["parts"][1];
        assert_eq!(
            (&asked["state"], &asked["input"]),
            (&json!("approval-requested"), &json!({"amount": 5}))
        );
        let parts = [r#"pay {"amount":3} output-available {"paid":3}"#, "text: Paid three."];
        same(&told, &[("user", &["text: Pay"]), ("assistant", &parts)]);
        assert_eq!(told["finished"][0]["finishReason"], "tool-calls");
        assert_eq!(told["finished"][1]["finishReason"], "stop");
        assert_eq!(site.world.all(), ["pay 3"]);
        let audit = site.get("/v1/audit").await;
        assert_eq!(audit["items"][0]["detail"]["amendment"], json!({"amount": 3}));
    }
}

#[tokio::test]
async fn a_rejected_approval_runs_nothing_and_the_turn_goes_on() {
    if !installed() {
        return;
    }
    for client in CLIENTS {
        let site = site([calling("pay", json!({"amount": 5})), text("Then not.")]).start().await;
        let told = start(&site, client, "reject").done().await;
        let parts = [r#"pay {"amount":5} output-denied null"#, "text: Then not."];
        same(&told, &[("user", &["text: Pay"]), ("assistant", &parts)]);
        for messages in ["messages", "loaded"] {
            let approval = &told[messages][1]["parts"][1]["approval"];
            assert_eq!(
                (&approval["approved"], &approval["reason"]),
                (&json!(false), &json!("too much"))
            );
        }
        assert_eq!(site.world.all(), [""; 0]);
    }
}

#[tokio::test]
async fn a_page_loaded_while_a_card_waits_shows_it_and_can_answer() {
    if !installed() {
        return;
    }
    for client in CLIENTS {
        let site = site([calling("pay", json!({"amount": 5})), text("Paid.")]).start().await;
        let told = start(&site, client, "card").done().await;
        assert_eq!(
            brief(&told["shown"]),
            expected(&[
                ("user", &["text: Pay"]),
                ("assistant", &[r#"pay {"amount":5} approval-requested null"#])
            ])
        );
        let descriptor = &told["shown"][1]["parts"][1]["approval"]["descriptor"];
        assert_eq!(descriptor["editable"]["properties"]["amount"]["type"], "integer");
        let parts = [r#"pay {"amount":5} output-available {"paid":5}"#, "text: Paid."];
        same(&told, &[("user", &["text: Pay"]), ("assistant", &parts)]);
        assert_eq!(site.world.all(), ["pay 5"]);
    }
}

#[tokio::test]
async fn a_page_loaded_in_the_middle_of_a_stream_goes_on_with_it() {
    if !installed() {
        return;
    }
    for client in CLIENTS {
        let begins = blocks(vec![
            Block::Text { text: "Let me wait.".to_owned(), native: None },
            Block::ToolCall {
                wire_id: "c".to_owned(),
                name: "wait".to_owned(),
                arguments: "{}".to_owned(),
                native: None,
            },
        ]);
        let site = site([begins, text("That is done.")]).start().await;
        let mut program = start(&site, client, "reload");
        program.hear("resumed").await;
        site.world.gate.open();
        program.go();
        let told = program.done().await;
        let parts =
            ["text: Let me wait.", r#"wait {} output-available "waited""#, "text: That is done."];
        let messages: [(&str, &[&str]); 2] =
            [("user", &["text: Wait for it"]), ("assistant", &parts)];
        same(&told, &messages);
        assert_eq!(brief(&told["kept"]), expected(&messages));
        assert_eq!(told["none"], 204);
        assert_eq!(site.world.all(), ["wait begins", "wait ends"]);
    }
}

#[tokio::test]
async fn a_stopped_answer_keeps_what_was_said_and_the_chat_goes_on() {
    if !installed() {
        return;
    }
    for client in CLIENTS {
        let answers = [Scripted::Hang(text("I think about it")), text("Here.").into()];
        let site = site(answers).start().await;
        let told = start(&site, client, "stop").done().await;
        assert_eq!((&told["stopped"], &told["status"]), (&json!("stopping"), &json!("ready")));
        let reason = if client.1 == "v7" { "interrupted" } else { "other" };
        assert_eq!(told["finished"][0]["finishReason"], reason);
        same(
            &told,
            &[
                ("user", &["text: Think"]),
                ("assistant", &["text: I think about it"]),
                ("user", &["text: Go on"]),
                ("assistant", &["text: Here."]),
            ],
        );
    }
}

#[tokio::test]
async fn a_failed_answer_says_why_and_the_chat_goes_on() {
    if !installed() {
        return;
    }
    for client in CLIENTS {
        let failure = ModelError::new(ModelErrorKind::Config, "the model is not configured");
        let site = site([Scripted::from(failure), text("Here.").into()]).start().await;
        let told = start(&site, client, "error").done().await;
        assert_eq!(told["status"], "error");
        let errors = told["errors"].as_array().unwrap();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].as_str().unwrap().contains("the model is not configured"));
        let last = told["messages"].as_array().unwrap().last().unwrap();
        assert_eq!(brief(&json!([last])), expected(&[("assistant", &["text: Here."])]));
    }
}

#[tokio::test]
async fn tools_of_the_front_end_are_run_by_it() {
    if !installed() {
        return;
    }
    for client in CLIENTS {
        let both = calls(&[("a", "open_page", r#"{"page": "mail"}"#), ("b", "read_screen", "{}")]);
        let look = calling("look_up", json!({"key": "tea"}));
        let site = site([both, look, text("It shows a form.")]).start().await;
        let told = start(&site, client, "client_tools").done().await;
        assert_eq!(told["called"], json!(["open_page", "read_screen"]));
        let parts = [
            r#"tool-open_page {"page":"mail"} output-available {"opened":true}"#,
            r#"tool-read_screen {} output-available "A form.""#,
            r#"look_up {"key":"tea"} output-available {"key":"tea","value":3}"#,
            "text: It shows a form.",
        ];
        same(&told, &[("user", &["text: Show me"]), ("assistant", &parts)]);
        assert_eq!(site.world.all(), ["look_up tea"], "the agent's own tool stays its own");
    }
}

#[tokio::test]
async fn a_result_of_the_front_end_that_is_sent_again_changes_nothing_and_another_is_refused() {
    let site = site([calling("read_screen", json!({})), text("It shows a form.")]).start().await;
    let chat = Chat { site: &site };
    assert_eq!(chat.ask().await.0, StatusCode::OK);
    let call = site.card().await["call"].as_str().unwrap().to_owned();
    for _ in 0..2 {
        let (status, told) = chat.give(&call, "A form.").await;
        assert_eq!(status, StatusCode::OK, "{told}");
        assert!(told.contains(r#""finishReason":"stop""#), "{told}");
        assert!(told.contains("tool-output-available"), "{told}");
    }
    let (status, problem) = chat.give(&call, "A list.").await;
    assert_eq!(status, StatusCode::CONFLICT, "{problem}");
    assert!(problem.contains("already_decided"), "{problem}");
    assert_eq!(site.model.requests().len(), 2);
}

/// A tool of the front end that a nested agent calls, from the question to the end.
#[tokio::test]
async fn a_tool_of_the_front_end_is_offered_for_a_nested_agent_too() {
    let site = site([
        calling("ask_helper", json!({"task": "Look"})),
        calling("read_screen", json!({})),
        text("There is a form."),
        text("It shows a form."),
    ])
    .start()
    .await;
    let chat = Chat { site: &site };
    let (status, told) = chat.ask().await;
    assert_eq!(status, StatusCode::OK);
    let chunks = chunks_of(&told);
    let call = site.card().await["call"].as_str().unwrap().to_owned();
    let offered = chunks.iter().find(|chunk| chunk["toolCallId"] == *call).unwrap();
    assert_eq!(
        *offered,
        json!({
            "type": "tool-input-available", "toolCallId": call, "toolName": "read_screen",
            "input": {}, "title": "helper: Read screen",
        })
    );
    assert_eq!(chunks.last().unwrap()["finishReason"], "tool-calls");
    // A page that is loaded now can answer as well.
    let loaded = site.get("/ai-sdk/main/chat").await;
    let parts = loaded["messages"][1]["parts"].as_array().unwrap();
    let waits = parts.iter().find(|part| part["toolCallId"] == *call).unwrap();
    assert_eq!(
        (&waits["type"], &waits["state"]),
        (&json!("tool-read_screen"), &json!("input-available"))
    );
    let (status, told) = chat.give(&call, "A form.").await;
    assert_eq!(status, StatusCode::OK, "{told}");
    let chunks = chunks_of(&told);
    let given = chunks.iter().find(|chunk| chunk["toolCallId"] == *call).unwrap();
    assert_eq!(
        *given,
        json!({"type": "tool-output-available", "toolCallId": call, "output": "A form."})
    );
    let deltas = chunks.iter().filter_map(|chunk| chunk["delta"].as_str());
    assert_eq!(deltas.collect::<String>(), "It shows a form.");
    assert_eq!(chunks.last().unwrap()["finishReason"], "stop");
}

#[tokio::test]
async fn what_nested_agents_ask_of_the_front_end_and_of_people_is_answered_by_itself() {
    if !installed() {
        return;
    }
    for client in CLIENTS {
        let ask = || calling("ask_helper", json!({"task": "Look"}));
        let both = calls(&[("a", "open_page", r#"{"page": "mail"}"#), ("b", "read_screen", "{}")]);
        let site = site([ask(), both, text("There is a form."), text("It shows a form.")]);
        let site = site.start().await;
        let told = start(&site, client, "client_tools").done().await;
        assert_eq!(told["called"], json!(["open_page", "read_screen"]));
        let parts = [
            r#"ask_helper {"task":"Look"} output-available "There is a form.""#,
            r#"tool-open_page {"page":"mail"} output-available {"opened":true}"#,
            r#"tool-read_screen {} output-available "A form.""#,
            "text: It shows a form.",
        ];
        same(&told, &[("user", &["text: Show me"]), ("assistant", &parts)]);
        assert_eq!(steps(&told["messages"][1]), 3);
    }
    for client in CLIENTS {
        let site = site([
            calling("ask_helper", json!({"task": "Pay"})),
            calling("pay", json!({"amount": 5})),
            text("I paid."),
            text("Paid three."),
        ])
        .start()
        .await;
        let told = start(&site, client, "amend").done().await;
        let parts = [
            r#"ask_helper {"task":"Pay"} output-available "I paid.""#,
            r#"pay {"amount":3} output-available {"paid":3}"#,
            "text: Paid three.",
        ];
        same(&told, &[("user", &["text: Pay"]), ("assistant", &parts)]);
        assert_eq!(site.world.all(), ["pay 3"]);
    }
}

#[tokio::test]
async fn tools_of_the_front_end_that_need_approval_run_once_it_is_given() {
    if !installed() {
        return;
    }
    for client in CLIENTS {
        let both = calls(&[("a", "open_page", r#"{"page": "mail"}"#), ("b", "read_screen", "{}")]);
        let site = site([both, text("It shows a form.")]);
        let site = site.asking_about(&["open_page", "read_screen"]).start().await;
        let told = start(&site, client, "approved_client_tools").done().await;
        assert_eq!(told["early"], json!([]), "nothing runs before a person allows it");
        let asked = [
            r#"tool-open_page {"page":"mail"} approval-requested null"#,
            "tool-read_screen {} approval-requested null",
        ];
        let waiting = expected(&[("user", &["text: Show me"]), ("assistant", &asked)]);
        assert_eq!(brief(&told["paused"]), waiting);
        assert_eq!(brief(&told["waiting"]), waiting);
        assert_eq!(told["called"], json!(["open_page", "read_screen"]));
        let parts = [
            r#"tool-open_page {"page":"mail"} output-available {"opened":true}"#,
            r#"tool-read_screen {} output-available "A form.""#,
            "text: It shows a form.",
        ];
        same(&told, &[("user", &["text: Show me"]), ("assistant", &parts)]);
    }
}

#[tokio::test]
async fn what_a_nested_agent_asks_of_the_front_end_with_approval_is_answered() {
    if !installed() {
        return;
    }
    for client in CLIENTS {
        let ask = || calling("ask_helper", json!({"task": "Look"}));
        let screen = calling("read_screen", json!({}));
        let site = site([ask(), screen, text("There is a form."), text("It shows a form.")]);
        let site = site.asking_about(&["read_screen"]).start().await;
        let told = start(&site, client, "approved_client_tools").done().await;
        assert_eq!(told["early"], json!([]), "nothing runs before a person allows it");
        let asked = [
            r#"ask_helper {"task":"Look"} input-available null"#,
            "tool-read_screen {} approval-requested null",
        ];
        let waiting = expected(&[("user", &["text: Show me"]), ("assistant", &asked)]);
        assert_eq!(brief(&told["paused"]), waiting);
        assert_eq!(brief(&told["waiting"]), waiting);
        assert_eq!(told["called"], json!(["read_screen"]));
        let parts = [
            r#"ask_helper {"task":"Look"} output-available "There is a form.""#,
            r#"tool-read_screen {} output-available "A form.""#,
            "text: It shows a form.",
        ];
        same(&told, &[("user", &["text: Show me"]), ("assistant", &parts)]);
    }
}

#[tokio::test]
async fn a_person_is_shown_the_input_that_would_run_though_the_client_may_not_run_it_yet() {
    // What the model wrote is not what runs: nothing at all stands for no arguments.
    let site = site([calls(&[("c", "read_screen", "")]), text("It shows a form.")]);
    let site = site.asking_about(&["read_screen"]).start().await;
    let (status, told) = Chat { site: &site }.ask().await;
    assert_eq!(status, StatusCode::OK);
    let card = site.card().await;
    let about = |chunk: &Value| chunk["toolCallId"] == card["call"];
    let chunks: Vec<Value> = chunks_of(&told).into_iter().filter(about).collect();
    let kinds: Vec<&str> = chunks.iter().map(|chunk| chunk["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        ["tool-input-start", "tool-input-start", "tool-input-delta", "tool-approval-request"]
    );
    assert_eq!(chunks[2]["inputTextDelta"], "{}");
}

#[tokio::test]
async fn a_result_after_an_approval_that_is_sent_again_changes_nothing() {
    let site = site([calling("read_screen", json!({})), text("It shows a form.")]);
    let site = site.asking_about(&["read_screen"]).start().await;
    let chat = Chat { site: &site };
    assert_eq!(chat.ask().await.0, StatusCode::OK);
    let asked = site.card().await;
    let call = asked["call"].as_str().unwrap().to_owned();
    let (status, told) = chat.approve(&call, asked["id"].as_str().unwrap()).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    let chunks = chunks_of(&told);
    let wants = chunks.iter().find(|chunk| chunk["type"] == "tool-input-available").unwrap();
    assert_eq!(
        *wants,
        json!({
            "type": "tool-input-available", "toolCallId": call, "toolName": "read_screen", "input": {},
        })
    );
    let loaded = site.get("/ai-sdk/main/chat").await;
    let part = loaded["messages"][1]["parts"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        part,
        json!({
            "type": "tool-read_screen", "toolCallId": call, "state": "input-available", "input": {},
        })
    );
    for _ in 0..2 {
        let (status, told) = chat.give(&call, "A form.").await;
        assert_eq!(status, StatusCode::OK, "{told}");
        assert!(told.contains(r#""finishReason":"stop""#), "{told}");
    }
    let (status, problem) = chat.give(&call, "A list.").await;
    assert_eq!(status, StatusCode::CONFLICT, "{problem}");
    assert!(problem.contains("already_decided"), "{problem}");
}

/// The chunks of a stream, without its last line.
fn chunks_of(told: &str) -> Vec<Value> {
    let frames = told.split("\n\n").filter_map(|frame| frame.strip_prefix("data: "));
    frames.filter_map(|data| serde_json::from_str(data).ok()).collect()
}

#[tokio::test]
async fn the_same_result_by_another_way_changes_nothing() {
    for native_first in [true, false] {
        let site =
            site([calling("read_screen", json!({})), text("It shows a form.")]).start().await;
        let chat = Chat { site: &site };
        assert_eq!(chat.ask().await.0, StatusCode::OK);
        let call = site.card().await["call"].as_str().unwrap().to_owned();
        let path = format!("/v1/tool-results/{call}");
        let native = async |output: &str| site.post(&path, json!({"output": output})).await.0;
        match native_first {
            true => {
                assert_eq!(native("A form.").await, StatusCode::ACCEPTED);
                let (status, told) = chat.give(&call, "A form.").await;
                assert_eq!(status, StatusCode::OK, "{told}");
                assert!(told.contains(r#""finishReason":"stop""#), "{told}");
            }
            false => {
                assert_eq!(chat.give(&call, "A form.").await.0, StatusCode::OK);
                assert_eq!(native("A form.").await, StatusCode::ACCEPTED);
            }
        }
        assert_eq!(chat.give(&call, "A list.").await.0, StatusCode::CONFLICT);
        assert_eq!(native("A list.").await, StatusCode::CONFLICT);
        assert_eq!(site.model.requests().len(), 2);
    }
}

/// A chat whose client is written out.
struct Chat<'a> {
    site: &'a Site,
}

impl Chat<'_> {
    async fn send(&self, messages: Value) -> (StatusCode, String) {
        let body = json!({"id": "chat", "messages": messages});
        let request = self.site.request(Method::POST, "/ai-sdk/main").json(&body);
        let response = request.send().await.unwrap();
        (response.status(), response.text().await.unwrap())
    }

    fn question() -> Value {
        json!({"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Show me"}]})
    }

    async fn ask(&self) -> (StatusCode, String) {
        self.send(json!([Self::question()])).await
    }

    /// Approves a call of `read_screen`.
    async fn approve(&self, call: &str, card: &str) -> (StatusCode, String) {
        let part = json!({
            "type": "tool-read_screen", "toolCallId": call, "state": "approval-responded",
            "input": {}, "approval": {"id": card, "approved": true},
        });
        let answer = json!({"id": "a", "role": "assistant", "parts": [part]});
        self.send(json!([Self::question(), answer])).await
    }

    /// Gives the result of a call of `read_screen`.
    async fn give(&self, call: &str, output: &str) -> (StatusCode, String) {
        let part = json!({
            "type": "tool-read_screen", "toolCallId": call, "state": "output-available",
            "input": {}, "output": output,
        });
        let answer = json!({"id": "a", "role": "assistant", "parts": [part]});
        self.send(json!([Self::question(), answer])).await
    }
}
