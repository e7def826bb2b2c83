//! Quotas: whose they are, when they are asked, and that every model call counts however it ended.

use crate::support::*;
use futures_util::StreamExt;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use turnbuckle_core::error::{ModelError, ModelErrorKind};
use turnbuckle_core::ids::SessionKey;
use turnbuckle_core::usage::Usage;
use turnbuckle_models::CallFailure;
use turnbuckle_models::scripted::{Scripted, text};
use turnbuckle_server::dto::{QuotaOf, QuotaPer, Role};
use turnbuckle_server::quota::QuotaRule;
use turnbuckle_store::{UsageBy, UsageQuery, UsageSum};

/// Each call of the script is 15 tokens of new work.
fn at_most(of: QuotaOf, tokens: u64) -> QuotaRule {
    QuotaRule { of, per: QuotaPer::Day, only: None, tokens: Some(tokens), cost_micros: None }
}

fn answers(n: usize) -> Vec<Scripted> {
    (0..n).map(|_| text("Said.").into()).collect()
}

/// Somebody with a key and a session.
struct Someone<'a> {
    site: &'a Site,
    secret: String,
    session: String,
}

impl<'a> Someone<'a> {
    async fn new(site: &'a Site, tenant: &str, user: &str, key: &str) -> Self {
        let secret = site.named_key(key, tenant, user, &[Role::User]).await;
        let created = site.request(Method::POST, "/v1/sessions").bearer_auth(&secret);
        let created = answer(created.json(&json!({}))).await.1;
        let session = created["id"].as_str().unwrap().to_owned();
        Self { site, secret, session }
    }

    /// Says something and waits for the end of the turn; the status of the submission.
    async fn say(&self) -> StatusCode {
        let path = format!("/v1/sessions/{}/turns", self.session);
        let request = self.site.request(Method::POST, &path).bearer_auth(&self.secret);
        let (status, submitted) = answer(request.json(&json!({"content": "Hello"}))).await;
        if status == StatusCode::ACCEPTED {
            let turn = submitted["turn"].as_str().unwrap();
            let path = format!("/v1/sessions/{}/events?after=0&until={turn}", self.session);
            Sse::open(self.site.request(Method::GET, &path).bearer_auth(&self.secret))
                .await
                .rest()
                .await;
        } else {
            assert_eq!(submitted["code"], "quota_exceeded", "{submitted}");
        }
        status
    }

    async fn usage(&self, query: &str) -> Value {
        let path = format!("/v1/usage?{query}");
        answer(self.site.request(Method::GET, &path).bearer_auth(&self.secret)).await.1
    }
}

const YES: StatusCode = StatusCode::ACCEPTED;
const NO: StatusCode = StatusCode::TOO_MANY_REQUESTS;

#[tokio::test]
async fn a_keys_quota_is_of_that_key_alone() {
    let site = site(answers(5))
        .with_keys()
        .options(|o| o.quotas = vec![at_most(QuotaOf::Key, 20)])
        .start()
        .await;
    let first = Someone::new(&site, "acme", "ada", "k_first").await;
    let second = Someone::new(&site, "acme", "ada", "k_second").await;
    assert_eq!([first.say().await, first.say().await, first.say().await], [YES, YES, NO]);
    assert_eq!([second.say().await, second.say().await, second.say().await], [YES, YES, NO]);
    let usage = second.usage("by=key").await;
    assert_eq!(usage["quotas"][0]["of"], "key");
    assert_eq!(usage["quotas"][0]["tokens"], json!({"used": 30, "limit": 20}));
    let keys: Vec<_> = usage["groups"].as_array().unwrap().iter().map(|g| &g["key"]).collect();
    assert_eq!(keys, ["k_first", "k_second"]);
    assert_eq!(site.model.requests().len(), 4);
}

#[tokio::test]
async fn a_tenants_quota_is_shared_and_a_users_is_not() {
    let site = site(answers(9))
        .with_keys()
        .options(|o| o.quotas = vec![at_most(QuotaOf::Tenant, 45), at_most(QuotaOf::User, 30)])
        .start()
        .await;
    let ada = Someone::new(&site, "acme", "ada", "k_ada").await;
    let bob = Someone::new(&site, "acme", "bob", "k_bob").await;
    let eve = Someone::new(&site, "umbrella", "ada", "k_eve").await;
    // Ada's own is used up first, then that of them all; the same name elsewhere is somebody else.
    assert_eq!([ada.say().await, ada.say().await, ada.say().await], [YES, YES, NO]);
    assert_eq!([bob.say().await, bob.say().await], [YES, NO]);
    assert_eq!([eve.say().await, eve.say().await, eve.say().await], [YES, YES, NO]);
}

#[tokio::test]
async fn a_quota_may_be_for_one_only() {
    let rule = QuotaRule { only: Some("k_poor".into()), ..at_most(QuotaOf::Key, 1) };
    let site = site(answers(3)).with_keys().options(|o| o.quotas = vec![rule]).start().await;
    let poor = Someone::new(&site, "acme", "ada", "k_poor").await;
    let rich = Someone::new(&site, "acme", "ada", "k_rich").await;
    assert_eq!([poor.say().await, poor.say().await], [YES, NO]);
    assert_eq!([rich.say().await, rich.say().await], [YES, YES]);
}

#[tokio::test]
async fn what_a_trigger_uses_counts_against_the_key_that_made_it() {
    let site = site(answers(3))
        .with_keys()
        .options(|o| o.quotas = vec![at_most(QuotaOf::Key, 20)])
        .start()
        .await;
    let ada = Someone::new(&site, "acme", "ada", "k_ada").await;
    let post = async |path: &str, body: Value| {
        answer(site.request(Method::POST, path).bearer_auth(&ada.secret).json(&body)).await.1
    };
    let get =
        async |path: &str| answer(site.request(Method::GET, path).bearer_auth(&ada.secret)).await.1;
    let new = json!({
        "name": "Daily", "cron": "0 6 * * *", "content": "Look", "state": "paused",
        "mode": "interactive",
    });
    let trigger = post("/v1/triggers", new).await["id"].as_str().unwrap().to_owned();
    let mut outcomes = Vec::new();
    for n in 1..=3 {
        post(&format!("/v1/triggers/{trigger}/run"), json!({})).await;
        let path = format!("/v1/triggers/{trigger}/runs?state=done");
        site.until(async || get(&path).await["items"].as_array().unwrap().len() == n).await;
        let session = get(&path).await["items"][0]["session"].as_str().unwrap().to_owned();
        let path = format!("/v1/sessions/{session}/events?after=0&until=idle");
        let watch = Sse::open(site.request(Method::GET, &path).bearer_auth(&ada.secret)).await;
        outcomes.push(watch.rest().await.last().unwrap().json()["outcome"]["status"].clone());
    }
    assert_eq!(outcomes, ["completed", "completed", "error"]);
    assert_eq!(site.model.requests().len(), 2);
    let usage = ada.usage("by=key").await;
    assert_eq!(usage["groups"][0]["key"], "k_ada", "{usage}");
    assert_eq!(ada.say().await, NO);
}

async fn spent(site: &Site) -> UsageSum {
    let (from, to) = (turnbuckle_core::time::Timestamp::from_millis(0), site.api.now().plus(1000));
    let query = UsageQuery {
        tenant: "acme".into(),
        user: None,
        account: None,
        from,
        to,
        by: UsageBy::Nothing,
    };
    site.store.usage(query).await.unwrap().first().map(|g| g.sum).unwrap_or_default()
}

#[tokio::test]
async fn a_call_that_fails_counts_with_what_it_gave() {
    let error = ModelError::new(ModelErrorKind::BadRequest, "no");
    let mut partial = text("It is");
    partial.usage = Usage { input: Some(7), output: Some(3), ..Usage::default() };
    let failure = CallFailure { error: error.clone(), partial: Some(partial) };
    let site = site([Scripted::Fail(failure), error.into()]).start().await;
    let session = site.session().await;
    site.say(&session, "How much is tea?").await;
    let sum = spent(&site).await;
    assert_eq!((sum.calls, sum.input, sum.output), (1, 7, 3));
    // A call that was refused outright costs nothing.
    site.say(&session, "Again?").await;
    assert_eq!(spent(&site).await, sum);
}

#[tokio::test]
async fn a_call_that_is_stopped_counts_even_before_its_first_word() {
    for said in ["", "It is three euros"] {
        let site = site([Scripted::Hang(text(said))]).start().await;
        let session = site.session().await;
        site.submit(&session, "How much is tea?").await;
        let mut watch = site.watch(&session, "after=0").await;
        match said {
            "" => site.until(async || site.model.requests().len() == 1).await,
            _ => drop(watch.until("text-delta").await),
        }
        site.post(&format!("/v1/sessions/{session}/stop"), json!({})).await;
        watch.until("turn-end").await;
        let sum = spent(&site).await;
        assert_eq!((sum.calls, sum.output > 0), (1, !said.is_empty()), "{sum:?}");
        assert!(sum.input > 10, "{sum:?}");
    }
}

#[tokio::test]
async fn a_call_that_is_left_for_another_process_counts_and_so_does_its_repetition() {
    let mut site = site([Scripted::Hang(text("It is three euros")), text("It is 3.").into()])
        .worker_grace_ms(0)
        .start()
        .await;
    let session = site.session().await;
    site.submit(&session, "How much is tea?").await;
    site.watch(&session, "after=0").await.until("text-delta").await;
    site.stop_worker().await;
    let parked = spent(&site).await;
    assert!(parked.calls == 1 && parked.input > 10 && parked.output > 0, "{parked:?}");
    site.start_worker("next");
    let frames = site.watch(&session, "after=0&until=idle").await.rest().await;
    assert_eq!(frames.last().unwrap().json()["outcome"]["status"], "completed");
    let sum = spent(&site).await;
    assert_eq!(
        (sum.calls, sum.input, sum.output),
        (2, parked.input + 10, parked.output + 5),
        "the one that was left, and the one that answered"
    );
    assert_eq!(folded(&site.stored(&session).await), site.messages(&session).await);
}

#[tokio::test]
async fn a_call_whose_process_died_counts_and_so_does_its_repetition() {
    let mut site = site([Scripted::Hang(text("It is")), text("It is 3.").into()])
        .without_worker()
        .start()
        .await;
    let session = site.session().await;
    site.submit(&session, "How much is tea?").await;
    let key = SessionKey::new("acme", session.as_str());
    let mut stream = site.engine.work(&key).stream().unwrap();
    while let Some(event) = stream.next().await {
        if serde_json::to_value(&event).unwrap()["type"] == "text-delta" {
            break;
        }
    }
    stream.abandon();
    assert_eq!(spent(&site).await.calls, 0, "nothing could be said of it any more");
    site.engine.forfeit().await.unwrap();
    site.start_worker("next");
    site.watch(&session, "after=0&until=idle").await.rest().await;
    let sum = spent(&site).await;
    assert_eq!((sum.calls, sum.output), (2, 5));
    assert!(sum.input > 20, "{sum:?}");
    assert_eq!(folded(&site.stored(&session).await), site.messages(&session).await);
}

#[tokio::test]
async fn what_a_tool_asks_of_models_counts_as_well() {
    let site = site([calling("ask_around", json!({})), text("Nobody knows.")]).start().await;
    let session = site.session().await;
    site.say(&session, "Who knows?").await;
    let sum = spent(&site).await;
    assert_eq!((sum.calls, sum.input, sum.output, sum.cost_micros), (3, 23, 14, 9));
    let usage = site.get("/v1/usage?by=model").await;
    assert_eq!(usage["groups"][1]["key"], "scripted:small");
}

#[tokio::test]
async fn a_turn_that_a_tasks_end_begins_is_booked_to_the_key_that_started_the_task() {
    let started = [
        Scripted::Answer(calling("start_report", json!({}))),
        text("It is being written.").into(),
        text("The report is there.").into(),
    ];
    let site = site(started)
        .with_keys()
        .options(|o| o.quotas = vec![at_most(QuotaOf::Key, 1000)])
        .start()
        .await;
    let ada = Someone::new(&site, "acme", "ada", "k_1").await;
    assert_eq!(ada.say().await, YES);
    let before = ada.usage("by=key").await["quotas"][0]["tokens"]["used"].clone();
    let path = "/v1/tasks/report/r%2F1";
    let end = site.request(Method::POST, path).bearer_auth(&ada.secret);
    let (status, ended) = answer(end.json(&json!({"state": "completed"}))).await;
    assert_eq!(status, StatusCode::OK, "{ended}");
    site.until(async || site.model.requests().len() == 3).await;
    let path = format!("/v1/sessions/{}/events?after=0&until=idle", ada.session);
    Sse::open(site.request(Method::GET, &path).bearer_auth(&ada.secret)).await.rest().await;
    let usage = ada.usage("by=key").await;
    assert_eq!((before, &usage["quotas"][0]["tokens"]["used"]), (json!(30), &json!(45)));
    let groups: Vec<(&Value, &Value)> =
        usage["groups"].as_array().unwrap().iter().map(|g| (&g["key"], &g["calls"])).collect();
    assert_eq!(groups, [(&json!("k_1"), &json!(3))]);
}
