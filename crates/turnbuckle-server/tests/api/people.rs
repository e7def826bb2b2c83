//! Cards, decisions, results of the front end, captured actions.

use crate::support::*;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use turnbuckle_core::message::Message;
use turnbuckle_models::scripted::{calls, text};

async fn until_paused(site: &Site, session: &str) -> Value {
    let frames = site.say(session, "Pay").await;
    assert_eq!(frames.last().unwrap().json()["outcome"]["status"], "paused");
    site.card().await
}

fn paying() -> SiteBuilder {
    site([calling("pay", json!({"amount": 100})), text("Done.")])
}

#[tokio::test]
async fn an_amended_approval_runs_exactly_what_was_approved() {
    let site = paying().start().await;
    let session = site.session().await;
    let card = until_paused(&site, &session).await;
    assert_eq!(
        (&card["tool"], &card["args"], &card["status"], &card["asks"]),
        (&json!("pay"), &json!({"amount": 100}), &json!("pending"), &json!("decision"))
    );
    assert!(card["editable"]["properties"]["amount"].is_object());
    let path = format!("/v1/approvals/{}", card["id"].as_str().unwrap());
    let body = json!({"decision": "approve", "amendment": {"amount": 80}, "reason": "too much"});
    let frames = Sse::open(site.request(Method::POST, &path).json(&body)).await.rest().await;
    assert_eq!(frames.last().unwrap().json()["outcome"]["status"], "completed");
    assert_eq!(site.world.all(), ["pay 80"]);
    let decided = site.get(&path).await;
    assert_eq!(
        (&decided["status"], &decided["decided"]["by"], &decided["decided"]["amendment"]),
        (&json!("approved"), &json!("ada"), &json!({"amount": 80}))
    );
    let Message::Assistant(message) = &site.messages(&session).await[1] else { panic!() };
    assert_eq!(message.text(), "Done.");
    let audit = &site.get("/v1/audit").await["items"][0];
    assert_eq!(
        (&audit["action"], &audit["user"], &audit["detail"]["amendment"]),
        (&json!("approval.approve"), &json!("ada"), &json!({"amount": 80}))
    );
}

#[tokio::test]
async fn of_two_who_decide_at_once_one_is_told_that_it_is_decided() {
    let site = paying().start().await;
    let session = site.session().await;
    let card = until_paused(&site, &session).await;
    let other = site.replica().await;
    let id = card["id"].as_str().unwrap();
    let decide = |base: &str| {
        let url = format!("{base}/v1/approvals/{id}");
        answer(reqwest::Client::new().post(url).json(&json!({"decision": "approve"})))
    };
    let (first, second) = tokio::join!(decide(&site.base), decide(&other));
    let mut statuses = [first.0, second.0];
    statuses.sort();
    assert_eq!(statuses, [StatusCode::ACCEPTED, StatusCode::CONFLICT]);
    let refused = if first.0 == StatusCode::CONFLICT { first.1 } else { second.1 };
    assert_eq!(refused["code"], "already_decided");
    assert!(refused["detail"].as_str().unwrap().contains("approved"), "{refused}");
    site.watch(&session, "after=0&until=idle").await.rest().await;
    assert_eq!(site.world.all(), ["pay 100"]);
}

#[tokio::test]
async fn a_decision_repeated_under_its_key_is_the_same_decision() {
    let site = paying().start().await;
    let session = site.session().await;
    let card = until_paused(&site, &session).await;
    let path = format!("/v1/approvals/{}", card["id"].as_str().unwrap());
    let decide = || {
        let request = site.request(Method::POST, &path).header("idempotency-key", "d1");
        answer(request.json(&json!({"decision": "reject", "reason": "no"})))
    };
    assert_eq!(decide().await.0, StatusCode::ACCEPTED);
    assert_eq!(decide().await.0, StatusCode::ACCEPTED);
    site.watch(&session, "after=0&until=idle").await.rest().await;
    assert_eq!(site.world.all(), [""; 0]);
}

#[tokio::test]
async fn a_decision_while_no_worker_is_up_takes_effect_when_one_comes() {
    let mut site = paying().start().await;
    let session = site.session().await;
    let card = until_paused(&site, &session).await;
    site.stop_worker().await;
    let path = format!("/v1/approvals/{}", card["id"].as_str().unwrap());
    let (status, answered) = site.post(&path, json!({"decision": "approve"})).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    assert_eq!(site.get(&path).await["status"], "answered");
    let (status, problem) = site.post(&path, json!({"decision": "reject"})).await;
    assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("already_decided")));
    let after = answered["after"].as_str().unwrap();
    let turn = answered["turn"].as_str().unwrap();
    let watch = site.watch(&session, &format!("after={after}&until=idle")).await;
    site.start_worker("late");
    let frames = watch.rest().await;
    assert_eq!(frames.last().unwrap().json()["turn"], turn);
    assert_eq!(site.world.all(), ["pay 100"]);
}

#[tokio::test]
async fn a_message_that_comes_while_a_card_waits_settles_the_card() {
    let site = site([calling("pay", json!({"amount": 100})), text("As you like.")]).start().await;
    let session = site.session().await;
    let card = until_paused(&site, &session).await;
    let path = format!("/v1/approvals/{}", card["id"].as_str().unwrap());
    site.say(&session, "Never mind").await;
    assert_eq!(site.get(&path).await["status"], "superseded");
    let (status, problem) = site.post(&path, json!({"decision": "approve"})).await;
    assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("already_decided")));
    assert_eq!(site.world.all(), [""; 0]);
    assert_eq!(site.get("/v1/approvals").await["items"], json!([]));
    assert_eq!(site.get("/v1/approvals?status=decided").await["items"][0]["id"], card["id"]);
}

#[tokio::test]
async fn an_approval_and_a_message_at_once_have_one_outcome() {
    let site =
        site([calling("pay", json!({"amount": 100})), text("One."), text("Two.")]).start().await;
    let session = site.session().await;
    let card = until_paused(&site, &session).await;
    let path = format!("/v1/approvals/{}", card["id"].as_str().unwrap());
    let (decided, submitted) = tokio::join!(
        site.post(&path, json!({"decision": "approve"})),
        site.submit(&session, "And now?"),
    );
    let until = format!("after=0&until={}", submitted["turn"].as_str().unwrap());
    let frames = site.watch(&session, &until).await.rest().await;
    assert_eq!(events(&frames), site.stored(&session).await);
    // Whichever was stored first counts: an accepted decision is carried out, once.
    let status = site.get(&path).await["status"].clone();
    match decided.0 {
        StatusCode::ACCEPTED if status == "approved" => assert_eq!(site.world.all(), ["pay 100"]),
        StatusCode::ACCEPTED | StatusCode::CONFLICT => {
            assert_eq!(status, "superseded");
            assert_eq!(site.world.all(), [""; 0]);
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_tool_of_the_front_end_gets_its_result_once() {
    let site = site([calling("read_screen", json!({})), text("I see a cat.")]).start().await;
    let session = site.session().await;
    let frames = site.say(&session, "What do you see?").await;
    assert!(shape(&frames).contains(&"client-tool-required".to_owned()));
    let card = site.card().await;
    assert_eq!(card["asks"], "client_result");
    let (status, problem) = site
        .post(
            &format!("/v1/approvals/{}", card["id"].as_str().unwrap()),
            json!({"decision": "approve"}),
        )
        .await;
    assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("wrong_answer")));
    let path = format!("/v1/tool-results/{}", card["call"].as_str().unwrap());
    let (status, problem) = site.post(&path, json!({})).await;
    assert_eq!(
        (status, &problem["errors"][0]["field"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("output"))
    );
    let request = site.request(Method::POST, &path).json(&json!({"output": {"animal": "cat"}}));
    let frames = Sse::open(request).await.rest().await;
    assert_eq!(frames.last().unwrap().json()["outcome"]["status"], "completed");
    let (status, problem) = site.post(&path, json!({"output": null})).await;
    assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("already_decided")));
}

/// Decides about a card, and reads to where the turn rests again; how it does.
async fn approve(site: &Site, card: &Value) -> Value {
    let path = format!("/v1/approvals/{}", card["id"].as_str().unwrap());
    let request = site.request(Method::POST, &path).json(&json!({"decision": "approve"}));
    let frames = Sse::open(request).await.rest().await;
    frames.last().unwrap().json()["outcome"]["status"].clone()
}

/// Gives the result of a call, and reads to where the turn rests again; how it does.
async fn give(site: &Site, call: &Value, output: &str) -> Value {
    let path = format!("/v1/tool-results/{}", call.as_str().unwrap());
    let request = site.request(Method::POST, &path).json(&json!({"output": output}));
    let frames = Sse::open(request).await.rest().await;
    frames.last().unwrap().json()["outcome"]["status"].clone()
}

#[tokio::test]
async fn a_tool_of_the_front_end_that_needs_approval_gets_its_result_after_it() {
    let site = site([calling("read_screen", json!({})), text("I see a cat.")]);
    let site = site.asking_about(&["read_screen"]).start().await;
    let session = site.session().await;
    let asked = until_paused(&site, &session).await;
    assert_eq!(asked["asks"], "decision");
    let path = format!("/v1/tool-results/{}", asked["call"].as_str().unwrap());
    let (status, problem) = site.post(&path, json!({"output": "A cat."})).await;
    assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("wrong_answer")));

    assert_eq!(approve(&site, &asked).await, "paused");
    let card = site.card().await;
    assert_eq!((&card["asks"], &card["call"]), (&json!("client_result"), &asked["call"]));
    assert_ne!(card["id"], asked["id"]);
    assert_eq!(give(&site, &card["call"], "A cat.").await, "completed");

    let (status, again) = site.post(&path, json!({"output": "A cat."})).await;
    assert_eq!((status, &again["approval"]), (StatusCode::ACCEPTED, &card["id"]));
    let (status, problem) = site.post(&path, json!({"output": "A dog."})).await;
    assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("already_decided")));
}

#[tokio::test]
async fn a_result_that_comes_before_the_front_end_is_asked_for_it_is_not_taken() {
    let site = site([calling("read_screen", json!({})), text("I see a cat.")]);
    let mut site = site.asking_about(&["read_screen"]).start().await;
    let session = site.session().await;
    let asked = until_paused(&site, &session).await;
    site.stop_worker().await;
    let path = format!("/v1/approvals/{}", asked["id"].as_str().unwrap());
    let (status, _) = site.post(&path, json!({"decision": "approve"})).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let path = format!("/v1/tool-results/{}", asked["call"].as_str().unwrap());
    let (status, problem) = site.post(&path, json!({"output": "A cat."})).await;
    assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("wrong_answer")));

    site.start_worker("another");
    site.until(async || site.get("/v1/approvals").await["items"][0]["asks"] == "client_result")
        .await;
    assert_eq!(give(&site, &asked["call"], "A cat.").await, "completed");
}

#[tokio::test]
async fn a_tool_of_the_front_end_that_a_person_refused_takes_no_result() {
    let site = site([calling("read_screen", json!({})), text("Then not.")]);
    let site = site.asking_about(&["read_screen"]).start().await;
    let session = site.session().await;
    let asked = until_paused(&site, &session).await;
    let path = format!("/v1/approvals/{}", asked["id"].as_str().unwrap());
    let request = site.request(Method::POST, &path).json(&json!({"decision": "reject"}));
    Sse::open(request).await.rest().await;
    let path = format!("/v1/tool-results/{}", asked["call"].as_str().unwrap());
    let (status, problem) = site.post(&path, json!({"output": "A cat."})).await;
    assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("already_decided")));
}

#[tokio::test]
async fn of_two_tools_of_the_front_end_that_need_approval_each_gets_its_own_result() {
    // Whether both are approved before the first result comes, or one after the other.
    for together in [true, false] {
        let both = calls(&[("a", "open_page", "{}"), ("b", "read_screen", "{}")]);
        let site = site([both, text("I see a cat.")]);
        let site = site.asking_about(&["open_page", "read_screen"]).start().await;
        let session = site.session().await;
        let path = format!("/v1/sessions/{session}/turns");
        let tools = json!([{"name": "open_page", "description": "Opens a page."}]);
        let body = json!({"content": "What do you see?", "tools": tools});
        Sse::open(site.request(Method::POST, &path).json(&body)).await.rest().await;
        let asked = site.get("/v1/approvals").await["items"].clone();
        let call = |tool: &str| {
            let mut cards = asked.as_array().unwrap().iter();
            cards.find(|card| card["tool"] == tool).unwrap()
        };
        let (page, screen) = (call("open_page"), call("read_screen"));

        assert_eq!(approve(&site, screen).await, "paused");
        match together {
            true => {
                assert_eq!(approve(&site, page).await, "paused");
                assert_eq!(give(&site, &screen["call"], "A cat.").await, "paused");
            }
            false => {
                assert_eq!(give(&site, &screen["call"], "A cat.").await, "paused");
                assert_eq!(approve(&site, page).await, "paused");
            }
        }
        assert_eq!(give(&site, &page["call"], "Opened.").await, "completed");
        let Message::Assistant(message) = &site.messages(&session).await[1] else { panic!() };
        let outputs: Vec<(String, Value)> = message
            .calls()
            .map(|call| (call.name.to_string(), (**call.output.as_ref().unwrap()).clone()))
            .collect();
        assert_eq!(
            outputs,
            [
                ("open_page".to_owned(), json!("Opened.")),
                ("read_screen".to_owned(), json!("A cat."))
            ]
        );
        assert_eq!(message.text(), "I see a cat.");
    }
}

#[tokio::test]
async fn captured_actions_are_reviewed_and_applied_once() {
    let site = paying().start().await;
    let session = site.session().await;
    let path = format!("/v1/sessions/{session}/turns");
    let body = json!({"content": "Pay", "mode": "capture"});
    Sse::open(site.request(Method::POST, &path).json(&body)).await.rest().await;
    let page = site.get("/v1/captured?status=pending").await;
    let action = &page["items"][0];
    assert_eq!(
        (&action["tool"], &action["args"], &action["index"]),
        (&json!("pay"), &json!({"amount": 100}), &json!(0))
    );
    let path = format!("/v1/captured/{session}/{}", action["turn"].as_str().unwrap());
    let review =
        json!({"actions": [{"index": 0, "decision": "approve", "amendment": {"amount": 70}}]});
    let (status, reports) = site.post(&path, review.clone()).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        reports,
        json!({"reports": [{"index": 0, "tool": "pay", "status": "applied", "detail": {"paid": 70}}]})
    );
    let (_, again) = site.post(&path, review).await;
    assert_eq!(again["reports"][0]["status"], "applied");
    assert_eq!(site.world.all(), ["pay 70"]);
    let (status, problem) =
        site.post(&path, json!({"actions": [{"index": 7, "decision": "reject"}]})).await;
    assert_eq!(
        (status, &problem["errors"][0]["field"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("actions[0].index"))
    );
}
