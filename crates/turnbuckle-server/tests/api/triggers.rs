//! Turns that begin by the clock, and background tasks.

use crate::support::*;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use turnbuckle_models::scripted::{Scripted, text};
use turnbuckle_server::dto::Mode;
use turnbuckle_server::triggers::{QUEUE, Run};
use turnbuckle_store::{Cron, Missed, NewSchedule, ScheduleKey, ScheduleState};

fn none() -> [Scripted; 0] {
    []
}

async fn create(site: &Site, change: Value) -> (StatusCode, Value) {
    let mut new = json!({"name": "Morning round", "cron": "0 6 * * 1-5", "content": "Look around"});
    for (name, value) in change.as_object().unwrap() {
        new[name] = value.clone();
    }
    site.post("/v1/triggers", new).await
}

/// Waits for the run of a trigger to stand so.
async fn run(site: &Site, trigger: &str, state: &str) -> Value {
    let path = format!("/v1/triggers/{trigger}/runs?state={state}");
    site.until(async || site.get(&path).await["items"][0] != Value::Null).await;
    site.get(&path).await["items"][0].clone()
}

#[tokio::test]
async fn a_trigger_is_made_shown_changed_and_deleted() {
    let site = site(none()).start().await;
    let (status, made) = create(&site, json!({"time_zone": "Europe/Oslo"})).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let id = made["id"].as_str().unwrap();
    let path = format!("/v1/triggers/{id}");
    assert_eq!(site.get(&path).await, made);
    assert_eq!(
        (&made["user"], &made["agent"], &made["mode"], &made["state"], &made["time_zone"]),
        (&json!("ada"), &json!("main"), &json!("capture"), &json!("active"), &json!("Europe/Oslo"))
    );
    let next = made["next"].as_str().unwrap();
    assert!(
        next.ends_with("04:00:00Z") || next.ends_with("05:00:00Z") || next.contains(":00:00"),
        "{next}"
    );
    let change = |state: &str| {
        let body = json!({"state": state});
        answer(site.request(Method::PATCH, &path).json(&body))
    };
    let (_, paused) = change("paused").await;
    assert_eq!((&paused["state"], &paused["next"]), (&json!("paused"), &Value::Null));
    assert_ne!(change("active").await.1["next"], Value::Null);
    assert_eq!(site.get("/v1/triggers").await["items"].as_array().unwrap().len(), 1);
    let (status, _) = answer(site.request(Method::DELETE, &path)).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    assert_eq!(answer(site.request(Method::GET, &path)).await.0, StatusCode::NOT_FOUND);
    let audit = site.get("/v1/audit").await;
    let actions: Vec<_> = audit["items"].as_array().unwrap().iter().map(|e| &e["action"]).collect();
    assert_eq!(actions, ["trigger.delete", "trigger.change", "trigger.change", "trigger.create"]);
}

#[tokio::test]
async fn a_trigger_that_means_nothing_is_refused_by_its_field() {
    let site = site(none()).start().await;
    for (change, field) in [
        (json!({"cron": "every day"}), "cron"),
        (json!({"cron": ""}), "cron"),
        (json!({"time_zone": "Middle/Earth"}), "time_zone"),
        (json!({"agent": "nobody"}), "agent"),
        (json!({"name": " "}), "name"),
        (json!({"content": ""}), "content"),
        (json!({"content": "x".repeat(40_000)}), "content"),
        (json!({"attempts": 0}), "attempts"),
        (json!({"attempts": 99}), "attempts"),
        (json!({"mode": "auto"}), "mode"),
        (json!({"user": "bob"}), "user"),
    ] {
        let (status, problem) = create(&site, change.clone()).await;
        assert!(status.is_client_error(), "{change}: {status}");
        assert_eq!(problem["errors"][0]["field"], field, "{change}: {problem}");
    }
    assert_eq!(site.get("/v1/triggers").await["items"], json!([]));
}

#[tokio::test]
async fn a_due_trigger_begins_a_turn_in_a_session_of_its_own() {
    let site =
        site([calling("pay", json!({"amount": 7})), text("Paid, once you agree.")]).start().await;
    let run_of = Run {
        trigger: "tr_1".into(),
        name: "Payday".into(),
        user: "ada".into(),
        agent: "main".into(),
        content: "Pay".into(),
        mode: Mode::Capture,
        key: None,
    };
    // Due in the moment before now.
    let schedule = NewSchedule {
        key: ScheduleKey::new("acme", "tr_1"),
        cron: Cron::parse("* * * * *", "UTC").unwrap(),
        queue: QUEUE.into(),
        payload: run_of.payload(),
        max_attempts: 3,
        missed: Missed::Latest,
        state: ScheduleState::Active,
        now: site.api.now().plus(-61_000),
    };
    site.jobs.put_schedule(schedule).await.unwrap();
    let done = run(&site, "tr_1", "done").await;
    let session = done["session"].as_str().unwrap();
    site.watch(session, "after=0&until=idle").await.rest().await;
    let shown = site.get(&format!("/v1/sessions/{session}")).await["session"].clone();
    assert_eq!((&shown["title"], &shown["user"]), (&json!("Payday"), &json!("ada")));
    let messages = site.messages(session).await;
    let first = serde_json::to_value(&messages[0]).unwrap();
    assert_eq!((&first["content"], &first["origin"]["kind"]), (&json!("Pay"), &json!("trigger")));
    // Nobody was there, so what needs approval waits for review.
    assert_eq!(site.get("/v1/captured").await["items"].as_array().unwrap().len(), 1);
    assert_eq!(site.world.all(), [""; 0]);
}

#[tokio::test]
async fn a_trigger_runs_now_and_once_for_each_time_it_is_told_to() {
    let site = site([text("One."), text("Two.")]).start().await;
    let id = create(&site, json!({"state": "paused"})).await.1["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/triggers/{id}/run");
    let (status, first) = site.post(&path, json!({})).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{first}");
    let done = run(&site, &id, "done").await;
    assert_eq!(done["id"], first["id"]);
    let session = done["session"].as_str().unwrap();
    site.watch(session, "after=0&until=idle").await.rest().await;
    let texts: Vec<_> = site.messages(session).await.iter().map(|m| m.turn().clone()).collect();
    assert_eq!(texts[0].as_str(), done["turn"].as_str().unwrap());
    assert_eq!(site.model.requests().len(), 1);
    let text = site.request(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    assert!(text.contains(r#"turnbuckle_jobs{queue="triggers",state="Ready"} 0"#), "{text}");
}

#[tokio::test]
async fn a_run_that_cannot_begin_is_a_dead_letter_until_somebody_sees_to_it() {
    let site = site([text("Here I am.")]).start().await;
    let id = create(&site, json!({"state": "paused"})).await.1["id"].as_str().unwrap().to_owned();
    let key = ScheduleKey::new("acme", id.as_str());
    let schedule = site.jobs.schedule(&key).await.unwrap();
    let with = |agent: &str| {
        let run = Run { agent: agent.into(), ..Run::read(&schedule.payload).unwrap() };
        NewSchedule {
            key: key.clone(),
            cron: schedule.cron.clone(),
            queue: QUEUE.into(),
            payload: run.payload(),
            max_attempts: 3,
            missed: Missed::Skip,
            state: ScheduleState::Paused,
            now: site.api.now(),
        }
    };
    site.jobs.put_schedule(with("gone")).await.unwrap();
    site.post(&format!("/v1/triggers/{id}/run"), json!({})).await;
    let dead = run(&site, &id, "dead").await;
    assert_eq!(dead["error"], "there is no agent `gone`");
    let path = format!("/v1/triggers/{id}/runs/{}", dead["id"].as_str().unwrap());
    // It would fail again as it is; called off, it is not tried any more, and tried again it fails again.
    let (status, again) = site.post(&path, json!({"action": "retry"})).await;
    assert_eq!((status, &again["attempts"]), (StatusCode::OK, &json!(0)), "{again}");
    run(&site, &id, "dead").await;
    let (status, problem) =
        site.post(&path.replace(&id, "tr_other"), json!({"action": "retry"})).await;
    assert_eq!(status, StatusCode::NOT_FOUND, "{problem}");
}

#[tokio::test]
async fn a_run_that_is_done_cannot_be_tried_again() {
    let site = site([text("Done.")]).start().await;
    let id = create(&site, json!({})).await.1["id"].as_str().unwrap().to_owned();
    site.post(&format!("/v1/triggers/{id}/run"), json!({})).await;
    let done = run(&site, &id, "done").await;
    let path = format!("/v1/triggers/{id}/runs/{}", done["id"].as_str().unwrap());
    let (status, problem) = site.post(&path, json!({"action": "retry"})).await;
    assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("wrong_state")));
}

#[tokio::test]
async fn a_session_is_told_when_its_background_task_ends() {
    let site = site([
        calling("start_report", json!({})),
        text("It is being written."),
        text("With pleasure."),
        text("The report is there: 12 pages."),
    ])
    .start()
    .await;
    let session = site.session().await;
    let about = json!({"page": "/reports", "surface": "email", "time_zone": "Asia/Tokyo", "references": [{"id": 7}]});
    let mut message = about.clone();
    message["content"] = json!("Write a report");
    message["tools"] =
        json!([{"name": "scroll", "description": "Scrolls.", "input_schema": {"type": "object"}}]);
    let turns = format!("/v1/sessions/{session}/turns");
    assert_eq!(site.post(&turns, message).await.0, StatusCode::ACCEPTED);
    site.watch(&session, "after=0&until=idle").await.rest().await;
    // A message from elsewhere, which takes nothing over.
    site.say(&session, "Thank you").await;
    let tasks = site.get(&format!("/v1/sessions/{session}/tasks")).await;
    assert_eq!(
        (&tasks["items"][0]["kind"], &tasks["items"][0]["reference"], &tasks["items"][0]["state"]),
        (&json!("report"), &json!("r/1"), &json!("running"))
    );
    let path = "/v1/tasks/report/r%2F1";
    let (status, _) = site.post(path, json!({"state": "running"})).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    let end = json!({"state": "completed", "detail": {"pages": 12}});
    let (status, ended) = site.post(path, end).await;
    assert_eq!((status, &ended["state"]), (StatusCode::OK, &json!("completed")), "{ended}");
    // The second word is not heard.
    let (_, again) = site.post(path, json!({"state": "failed"})).await;
    assert_eq!((&again["state"], &again["detail"]), (&json!("completed"), &json!({"pages": 12})));
    site.until(async || site.get(path).await["notified"] != Value::Null).await;
    site.watch(&session, "after=0&until=idle").await.rest().await;
    let messages = site.messages(&session).await;
    let between = serde_json::to_value(&messages[2]).unwrap();
    assert_eq!(between["surroundings"], json!({}));
    let told = serde_json::to_value(&messages[4]).unwrap();
    // The page and what it was about, but no tools of a front end that may be gone.
    assert_eq!(told["surroundings"], about);
    assert_eq!(told["origin"], json!({"kind": "task", "task": "report", "reference": "r/1"}));
    assert_eq!(
        told["content"],
        r#"The background task report r/1 is done. What came of it: {"pages":12}"#
    );
    assert_eq!(site.model.requests().len(), 4);
}
