//! Owners that come and go: shutdowns, deaths, quotas, counts.

use crate::support::*;
use reqwest::{Method, StatusCode};
use serde_json::json;
use turnbuckle_core::error::ToolErrorCode;
use turnbuckle_core::event::EventKind;
use turnbuckle_core::ids::SessionKey;
use turnbuckle_core::message::CardStatus;
use turnbuckle_models::scripted::{Scripted, text};
use turnbuckle_server::dto::{QuotaOf, QuotaPer};
use turnbuckle_server::quota::QuotaRule;

#[tokio::test]
async fn a_turn_that_outlasts_the_shutdown_is_left_and_goes_on_with_the_next_worker() {
    let mut site = site([
        Scripted::Answer(calling("look_up", json!({"key": "tea"}))),
        Scripted::Hang(text("It is")),
        text("It is 3.").into(),
    ])
    .worker_grace_ms(0)
    .start()
    .await;
    let session = site.session().await;
    site.submit(&session, "How much is tea?").await;
    let mut watch = site.watch(&session, "after=0").await;
    let mut seen = vec![watch.until("text-delta").await];
    site.stop_worker().await;
    let key = SessionKey::new("acme", session.as_str());
    assert_eq!(site.store.session(&key).await.unwrap().lease, None);
    site.start_worker("next");
    loop {
        let frame = watch.next().await.unwrap();
        let end = frame.event.as_deref() == Some("turn-end");
        seen.push(frame);
        if end {
            break;
        }
    }
    let stored = site.stored(&session).await;
    // What was streamed is stored with what the call cost, and void: the message goes on from before it in the next epoch.
    let resumed = events(&seen).into_iter().find(|e| e.epoch == 1).unwrap();
    assert!(matches!(resumed.kind, EventKind::AssistantMessageResumed { .. }), "{resumed:?}");
    assert!(resumed.seq > seen[0].event().unwrap().seq, "{resumed:?}");
    assert_eq!(folded(&stored), site.messages(&session).await);
    assert_eq!(site.world.all(), ["look_up tea"]);

    // A reader that broke off in the void comes back to what is stored.
    let after = seen[0].id.clone().unwrap();
    assert!(after.contains('.'), "{after}");
    let again = site.watch(&session, &format!("after={after}&until=idle")).await.rest().await;
    let again = events(&again);
    assert_eq!(again[..], stored[again[0].seq as usize - 1..]);
    assert!(again.iter().any(|e| matches!(e.kind, EventKind::AssistantMessageResumed { .. })));
}

/// Nobody has to come for it: the worker settles a card whose time is up, and the turn goes on.
#[tokio::test]
async fn a_card_that_nobody_decides_in_time_expires_and_the_turn_comes_to_its_end() {
    let answers = [calling("pay_at_once", json!({"amount": 5})), text("Nobody said yes in time.")];
    let site = site(answers).start().await;
    let session = site.session().await;
    site.submit(&session, "Pay").await;
    let over = async || {
        let last = site.stored(&session).await.pop();
        last.is_some_and(|e| matches!(e.kind, EventKind::TurnCompleted { .. }))
    };
    site.until(over).await;
    let stored = site.stored(&session).await;
    assert_eq!(folded(&stored), site.messages(&session).await);
    let told = stored.iter().find_map(|e| match &e.kind {
        EventKind::ApprovalDecided { decided, status, .. } => Some((*status, decided.by.clone())),
        _ => None,
    });
    assert_eq!(told, Some((CardStatus::Expired, None)));
    let failed = stored.iter().find_map(|e| match &e.kind {
        EventKind::ToolCallFailed { error, .. } => Some(error.code),
        _ => None,
    });
    assert_eq!(failed, Some(ToolErrorCode::Expired));
    assert_eq!(site.world.all(), [] as [&str; 0]);
}

#[tokio::test]
async fn a_tool_that_outlasts_the_shutdown_is_not_repeated() {
    let mut site = site([calling("wait", json!({})), text("I do not know whether it waited.")])
        .worker_grace_ms(0)
        .start()
        .await;
    let session = site.session().await;
    site.submit(&session, "Wait").await;
    site.world.begun.wait().await;
    site.stop_worker().await;
    site.start_worker("next");
    let frames = site.watch(&session, "after=0&until=idle").await.rest().await;
    assert_eq!(frames.last().unwrap().json()["outcome"]["status"], "completed");
    let failed: Vec<_> = events(&frames)
        .into_iter()
        .filter_map(|e| match e.kind {
            EventKind::ToolCallFailed { error, .. } => {
                Some(serde_json::to_value(error.code).unwrap())
            }
            _ => None,
        })
        .collect();
    assert_eq!(failed, ["outcome_unknown"]);
    assert_eq!(site.world.all(), ["wait begins"]);
}

#[tokio::test]
async fn a_quota_holds_before_every_model_call() {
    let rule = QuotaRule {
        of: QuotaOf::User,
        per: QuotaPer::Day,
        only: None,
        tokens: Some(20),
        cost_micros: None,
    };
    // Each call is 15 tokens of new work.
    let site = site([
        calling("look_up", json!({"key": "a"})),
        calling("look_up", json!({"key": "b"})),
        text("Never said."),
    ])
    .options(|o| o.quotas = vec![rule])
    .start()
    .await;
    let session = site.session().await;
    let frames = site.say(&session, "Look").await;
    let end = frames.last().unwrap().json();
    assert_eq!(
        (&end["outcome"]["status"], &end["outcome"]["error"]["kind"]),
        (&json!("error"), &json!("quota_exceeded"))
    );
    assert_eq!(site.model.requests().len(), 2);
    let path = format!("/v1/sessions/{session}/turns");
    let response =
        site.request(Method::POST, &path).json(&json!({"content": "More"})).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(response.headers().contains_key("retry-after"));
    let usage = site.get("/v1/usage?by=model").await;
    assert_eq!(
        (&usage["total"]["calls"], &usage["groups"][0]["key"], &usage["quotas"][0]["tokens"]),
        (&json!(2), &json!("scripted:m"), &json!({"used": 30, "limit": 20}))
    );
}

#[tokio::test]
async fn what_happens_is_counted() {
    let site = site([calling("look_up", json!({"key": "tea"})), text("It is 3.")]).start().await;
    let session = site.session().await;
    site.say(&session, "How much is tea?").await;
    let metrics = async || {
        let answer = site.request(Method::GET, "/metrics").send().await.unwrap();
        answer.text().await.unwrap()
    };
    for line in [
        r#"turnbuckle_turns_total{outcome="Completed"} 1"#,
        r#"turnbuckle_model_calls_total{model="scripted:m"} 2"#,
        r#"turnbuckle_tokens_total{model="scripted:m",kind="Output"} 10"#,
        r#"turnbuckle_http_requests_total{route="/v1/sessions",method="POST",status="201"} 1"#,
        r#"turnbuckle_step_seconds_count{kind="Tool"} 1"#,
        r#"turnbuckle_step_seconds_count{kind="Model"} 2"#,
        r#"turnbuckle_turn_seconds_count{outcome="Completed"} 1"#,
        r#"turnbuckle_cost_micros_total{model="scripted:m"} 0"#,
        "turnbuckle_first_token_seconds_count 1",
        "turnbuckle_streams 0",
        "turnbuckle_sessions_waiting 0",
        "turnbuckle_lease_losses_total 0",
    ] {
        // Some of it is counted a moment after the reader's end, and what waits when the worker next looks.
        site.until(async || metrics().await.contains(line)).await;
    }
    let text = metrics().await;
    assert!(!text.contains("ada") && !text.contains(&session));
}

#[tokio::test]
async fn a_session_that_was_taken_over_is_counted_as_a_lost_lease() {
    let site = site([calling("wait", json!({})), text("It waited.")]).start().await;
    let session = site.session().await;
    site.submit(&session, "Wait").await;
    site.world.begun.wait().await;
    let key = SessionKey::new("acme", session.as_str());
    // Somebody whose clock says that the lease ran out long ago.
    let later = site.api.now().plus(3_600_000);
    site.store.claim(&key, "another", 1000, later).await.unwrap();
    site.world.gate.open();
    let metrics = async || {
        let answer = site.request(Method::GET, "/metrics").send().await.unwrap();
        answer.text().await.unwrap()
    };
    site.until(async || metrics().await.contains("turnbuckle_lease_losses_total 1")).await;
    assert!(metrics().await.contains("turnbuckle_sessions_broke_off_total 1"));
}
