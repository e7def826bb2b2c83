//! Submitting, watching, stopping, deleting.

use crate::support::*;
use reqwest::{Method, StatusCode};
use serde_json::json;
use turnbuckle_core::message::Message;
use turnbuckle_models::scripted::text;

#[tokio::test]
async fn a_message_is_answered_and_what_was_streamed_is_what_is_stored() {
    let site = site([calling("look_up", json!({"key": "tea"})), text("It is 3.")]).start().await;
    let session = site.session().await;
    let frames = site.say(&session, "How much is tea?").await;
    assert_eq!(events(&frames), site.stored(&session).await);
    assert_eq!(folded(&events(&frames)), site.messages(&session).await);
    let end = frames.last().unwrap();
    let turn = &events(&frames)[0].turn;
    let seq = events(&frames).len();
    assert_eq!(
        (end.event.as_deref(), end.json()),
        (
            Some("turn-end"),
            json!({"turn": turn, "outcome": {"status": "completed"}, "seq": seq, "idle": true})
        )
    );
    let session = &site.get("/v1/sessions").await["items"][0];
    assert_eq!((&session["status"], &session["last_seq"]), (&json!("idle"), &json!(seq)));
    assert_eq!(site.world.all(), ["look_up tea"]);
}

#[tokio::test]
async fn a_submission_can_be_answered_with_the_stream_itself() {
    let site = site([text("Hello.")]).start().await;
    let session = site.session().await;
    let request = site.request(Method::POST, &format!("/v1/sessions/{session}/turns"));
    let frames = Sse::open(request.json(&json!({"content": "Hi"}))).await.rest().await;
    let receipt = &frames[0];
    assert_eq!(receipt.event.as_deref(), Some("receipt"));
    assert_eq!(receipt.json()["turn"], events(&frames)[0].turn.as_str());
    assert_eq!(events(&frames), site.stored(&session).await);
    assert_eq!(frames.last().unwrap().event.as_deref(), Some("turn-end"));
}

#[tokio::test]
async fn a_submission_repeated_under_its_key_runs_once_and_shows_the_same_turn() {
    let site = site([text("Once.")]).start().await;
    let session = site.session().await;
    let path = format!("/v1/sessions/{session}/turns");
    let submit = |text: &str| {
        let request = site.request(Method::POST, &path).header("idempotency-key", "k1");
        answer(request.json(&json!({"content": text})))
    };
    let (first, second) = tokio::join!(submit("Hi"), submit("Hi"));
    let mut both = [first, second];
    both.sort_by_key(|(_, body)| body["duplicate"].as_bool());
    assert_eq!(both.clone().map(|(status, _)| status), [StatusCode::ACCEPTED; 2]);
    assert_eq!(both[0].1["turn"], both[1].1["turn"]);
    assert_eq!(
        both.clone().map(|(_, body)| body["duplicate"].clone()),
        [json!(false), json!(true)]
    );
    let turn = both[0].1["turn"].as_str().unwrap();
    let frames = site.watch(&session, &format!("after=0&until={turn}")).await.rest().await;
    assert_eq!(site.messages(&session).await.len(), 2);

    // Long after, the same request still shows the turn from its beginning.
    let request = site.request(Method::POST, &path).header("idempotency-key", "k1");
    let again = Sse::open(request.json(&json!({"content": "Hi"}))).await.rest().await;
    assert_eq!(events(&again), events(&frames));

    let (status, problem) = submit("Something else").await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::CONFLICT, &json!("idempotency_key_reused"))
    );
}

#[tokio::test]
async fn a_session_created_twice_under_one_key_is_one() {
    let site = site([text("")]).start().await;
    let create = |body| {
        let request = site.request(Method::POST, "/v1/sessions").header("idempotency-key", "k1");
        answer(request.json(&body))
    };
    let (first, second) = tokio::join!(create(json!({})), create(json!({})));
    assert_eq!(first, second);
    assert_eq!(site.get("/v1/sessions").await["items"].as_array().unwrap().len(), 1);
    let id = first.1["id"].as_str().unwrap();
    let (status, _) = answer(site.request(Method::DELETE, &format!("/v1/sessions/{id}"))).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    let (status, problem) = create(json!({})).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::CONFLICT, &json!("idempotency_key_reused"))
    );
}

#[tokio::test]
async fn a_stopped_turn_ends_as_aborted_and_the_next_one_works() {
    let site = site([
        turnbuckle_models::scripted::Scripted::Hang(text("I think about it")),
        text("Hello again.").into(),
    ])
    .start()
    .await;
    let session = site.session().await;
    let submitted = site.submit(&session, "Think").await;
    let turn = submitted["turn"].as_str().unwrap();
    let mut watch = site.watch(&session, &format!("after=0&until={turn}")).await;
    watch.until("text-delta").await;
    let path = format!("/v1/sessions/{session}/turns/{turn}/stop");
    let (status, stopped) = site.post(&path, json!({})).await;
    assert_eq!(
        (status, stopped),
        (StatusCode::ACCEPTED, json!({"turn": turn, "state": "stopping"}))
    );
    let rest = watch.rest().await;
    assert_eq!(rest.last().unwrap().json()["outcome"]["status"], "aborted");
    let Message::Assistant(message) = &site.messages(&session).await[1] else { panic!() };
    assert_eq!(message.text(), "I think about it");

    let (status, stopped) = site.post(&path, json!({})).await;
    assert_eq!((status, stopped), (StatusCode::OK, json!({"turn": turn, "state": "ended"})));
    let frames = site.say(&session, "Hi").await;
    assert_eq!(frames.last().unwrap().json()["outcome"]["status"], "completed");
}

#[tokio::test]
async fn a_stop_while_a_tool_acts_keeps_what_it_did() {
    let site = site([calling("wait", json!({})), text("Never said.")]).start().await;
    let session = site.session().await;
    let submitted = site.submit(&session, "Wait").await;
    site.world.begun.wait().await;
    let (status, _) = site.post(&format!("/v1/sessions/{session}/stop"), json!({})).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    let until = format!("after=0&until={}", submitted["turn"].as_str().unwrap());
    let frames = site.watch(&session, &until).await.rest().await;
    assert_eq!(frames.last().unwrap().json()["outcome"]["status"], "aborted");
    assert_eq!(events(&frames), site.stored(&session).await);
    assert_eq!(folded(&events(&frames)), site.messages(&session).await);
}

#[tokio::test]
async fn deleting_a_session_at_work_stops_it_first() {
    let site = site([turnbuckle_models::scripted::Scripted::Hang(text("On and on"))]).start().await;
    let session = site.session().await;
    site.submit(&session, "Go on").await;
    let mut watch = site.watch(&session, "after=0").await;
    watch.until("text-delta").await;
    let (status, _) =
        answer(site.request(Method::DELETE, &format!("/v1/sessions/{session}"))).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    let rest = watch.rest().await;
    assert_eq!(rest.last().unwrap().event.as_deref(), Some("session-deleted"), "{rest:?}");
    let gone = site.request(Method::GET, &format!("/v1/sessions/{session}"));
    assert_eq!(answer(gone).await.0, StatusCode::NOT_FOUND);
    let audit = site.get("/v1/audit").await;
    assert_eq!(audit["items"][0]["action"], "session.delete");
}

#[tokio::test]
async fn what_is_submitted_while_no_worker_is_up_is_done_when_one_comes() {
    let mut site = site([text("Late, but here.")]).without_worker().start().await;
    let session = site.session().await;
    let submitted = site.submit(&session, "Hello?").await;
    let detail = site.get(&format!("/v1/sessions/{session}")).await;
    assert_eq!(detail["session"]["pending"], 1);
    assert_eq!(
        (&detail["queued"][0]["kind"], &detail["queued"][0]["content"]),
        (&json!("message"), &json!("Hello?"))
    );
    let until = format!("after=0&until={}", submitted["turn"].as_str().unwrap());
    let watch = site.watch(&session, &until).await;
    site.start_worker("late");
    assert_eq!(events(&watch.rest().await), site.stored(&session).await);
}

#[tokio::test]
async fn a_message_in_the_middle_enters_the_running_turn_or_waits_for_its_own() {
    let site =
        site([calling("wait", json!({})), text("Both said."), text("Then this.")]).start().await;
    let session = site.session().await;
    let first = site.submit(&session, "Wait").await;
    site.world.begun.wait().await;
    let path = format!("/v1/sessions/{session}/turns");
    let queued = site.submit(&session, "Later").await;
    let (_, steering) = site.post(&path, json!({"content": "Now", "delivery": "steer"})).await;
    // A stream until the steering message's turn ends with the turn it entered.
    let until = format!("after=0&until={}", steering["turn"].as_str().unwrap());
    let watch = site.watch(&session, &until).await;
    site.world.gate.open();
    let frames = watch.rest().await;
    assert_eq!(frames.last().unwrap().json()["turn"], first["turn"]);
    let until = format!("after=0&until={}", queued["turn"].as_str().unwrap());
    let frames = site.watch(&session, &until).await.rest().await;
    assert_eq!(frames.last().unwrap().json()["turn"], queued["turn"]);
    assert_eq!(events(&frames), site.stored(&session).await);
}

#[tokio::test]
async fn a_session_is_listed_searched_renamed_copied_and_exported() {
    let site = site([text("The parcel is in Oslo."), text("Yes.")]).start().await;
    let (first, second) = (site.session().await, site.session().await);
    site.say(&first, "Where is my parcel?").await;
    site.say(&second, "Is it raining?").await;
    let ids = |page: &serde_json::Value| {
        let items = page["items"].as_array().unwrap();
        items.iter().map(|i| i["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&site.get("/v1/sessions?q=oslo").await), std::slice::from_ref(&first));
    let page = site.get("/v1/sessions?limit=1").await;
    assert_eq!(ids(&page), std::slice::from_ref(&second));
    let cursor = page["next"].as_str().unwrap();
    assert_eq!(
        ids(&site.get(&format!("/v1/sessions?limit=1&cursor={cursor}")).await),
        std::slice::from_ref(&first)
    );

    let path = format!("/v1/sessions/{first}");
    let rename = site.request(Method::PATCH, &path).json(&json!({"title": "The parcel"}));
    assert_eq!(answer(rename).await.1["title"], "The parcel");

    let (status, copy) = site.post(&format!("{path}/fork"), json!({})).await;
    assert_eq!((status, &copy["forked_from"]), (StatusCode::CREATED, &json!(first)));
    let copied = copy["id"].as_str().unwrap();
    assert_eq!(site.messages(copied).await, site.messages(&first).await);
    let turn = site.messages(&first).await[1].turn().clone();
    let cut = |steps: u32| json!({"turn": turn, "steps": steps});
    let (status, _) = site.post(&format!("{path}/fork"), cut(1)).await;
    assert_eq!(status, StatusCode::CREATED);
    let (status, refused) = site.post(&format!("{path}/fork"), cut(99)).await;
    assert_eq!((status, &refused["code"]), (StatusCode::CONFLICT, &json!("no_such_place")));
    for (body, field) in
        [(json!({"steps": 1}), "steps"), (json!({"turn": turn, "steps": 1, "before": 0}), "before")]
    {
        let (status, refused) = site.post(&format!("{path}/fork"), body).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{refused}");
        assert_eq!(refused["errors"][0]["field"], field, "{refused}");
    }

    let export = site.get(&format!("{path}/export")).await;
    assert_eq!(export["format"], "turnbuckle.session/1");
    assert_eq!(export["events"], serde_json::to_value(site.stored(&first).await).unwrap());
}
