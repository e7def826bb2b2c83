//! Two hundred sessions against a provider that allows twenty calls a second.
//!
//! Everything is real but the time: engine, retries, HTTP, the provider's limit. The clock moves only while everybody waits.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;
use tokio::time::Instant;
use turnbuckle_core::event::EventKind;
use turnbuckle_core::fold::fold;
use turnbuckle_core::model::ModelRef;
use turnbuckle_core::outcome::Outcome;
use turnbuckle_engine::runtime::Models;
use turnbuckle_engine::{Agent, Engine, drain};
use turnbuckle_macros::tool;
use turnbuckle_models::{ProviderConfig, Providers};
use turnbuckle_testkit::chat::ChatAnswer;
use turnbuckle_testkit::{FakeModelServer, Quota};

const SESSIONS: usize = 200;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Lookup {
    id: String,
}

/// Looks an order up by its number.
#[tool(crate = turnbuckle_engine, effect = "read_only")]
async fn lookup(args: Lookup) -> Result<String, String> {
    Ok(format!("order {}", args.id))
}

/// A provider with a limit: asks for the order that the user named, then reports it.
async fn provider(quota: &Quota) -> FakeModelServer {
    let server = FakeModelServer::start().await;
    let quota = quota.clone();
    server.otherwise(move |request| {
        let body = request.json();
        let messages = body["messages"].as_array().unwrap();
        let user = messages.iter().find(|m| m["role"] == "user").unwrap();
        let order = user["content"].as_str().unwrap().to_owned();
        if let Err(refusal) = quota.admit(&order) {
            return refusal;
        }
        let last = messages.last().unwrap();
        if last["role"] == "tool" {
            return ChatAnswer::new("m").text(&format!("It is {}", last["content"])).stream();
        }
        ChatAnswer::new("m").call("c", "lookup", &format!(r#"{{"id":"{order}"}}"#)).stream()
    });
    server
}

/// What became of a session: how long it took, and how often it was told to wait.
struct Session {
    took: Duration,
    retries: usize,
}

async fn storm(server: &FakeModelServer, per_minute: Option<u32>) -> Vec<Session> {
    let config = ProviderConfig {
        base_url: Some(server.base_url()),
        requests_per_minute: per_minute.and_then(NonZeroU32::new),
        ..ProviderConfig::default()
    };
    let providers = Providers::with_environment([("fake".to_owned(), config)].into(), |_| None);
    let agent = Agent::builder("main").instructions("Help.").tool(lookup()).build().unwrap();
    let models = Models::new(providers.model(&ModelRef::new("fake", "m")).unwrap());
    let engine = Engine::builder().agent(agent).models(models).build().unwrap();
    let sessions = (0..SESSIONS).map(|number| {
        let engine = engine.clone();
        async move {
            let begin = Instant::now();
            let session = engine.create_session("t", "u", "main").await.unwrap();
            let submitted = engine.submit(&session.key, number.to_string().as_str()).await.unwrap();
            let events = drain(submitted.stream().unwrap()).await;
            let turn = fold(&events).unwrap();
            assert_eq!(turn.outcome(), Some(&Outcome::Completed), "{number}: {:?}", events.last());
            let text = turn.assistant.unwrap().text();
            assert_eq!(text, format!("It is \"order {number}\""));
            let retries = events.iter().filter(|e| matches!(e.kind, EventKind::ModelRetry { .. }));
            Session { took: begin.elapsed(), retries: retries.count() }
        }
    });
    join_all(sessions).await
}

/// How often each session's calls were accepted.
fn accepted(quota: &Quota) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for arrival in quota.arrivals().into_iter().filter(|a| !a.refused) {
        *counts.entry(arrival.who).or_default() += 1;
    }
    counts
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_nobody_knows_is_exceeded_once_and_never_again() {
    let quota = Quota::new(20, Duration::from_secs(1));
    let server = provider(&quota).await;
    let sessions = storm(&server, None).await;

    // Each session made its two calls, and none was made twice.
    let counts = accepted(&quota);
    assert_eq!((counts.len(), counts.values().max()), (SESSIONS, Some(&2)));
    // What was in flight when the first refusal came cannot be called back. From then on the limit holds.
    let arrivals = quota.arrivals();
    let first = arrivals.iter().find(|a| a.refused).unwrap().at;
    let learnt = first + Duration::from_millis(500);
    assert_eq!(arrivals.iter().filter(|a| a.refused && a.at > learnt).count(), 0);
    assert!(quota.busiest(learnt) <= 20, "{} calls in a second", quota.busiest(learnt));
    // Nobody starves: one refusal each at most, and all wait about as long as there are others before them.
    assert!(sessions.iter().all(|s| s.retries <= 1));
    let longest = sessions.iter().map(|s| s.took).max().unwrap();
    assert!(longest < Duration::from_secs(26), "400 calls at 20 per second took {longest:?}");
}

#[tokio::test(start_paused = true)]
async fn a_configured_limit_is_never_exceeded() {
    let quota = Quota::new(120, Duration::from_secs(60));
    let server = provider(&quota).await;
    let begin = Instant::now();
    let sessions = storm(&server, Some(120)).await;

    assert_eq!(accepted(&quota).values().sum::<usize>(), SESSIONS * 2);
    assert_eq!(quota.arrivals().iter().filter(|a| a.refused).count(), 0);
    assert!(quota.busiest(begin) <= 120, "{} calls in a minute", quota.busiest(begin));
    assert!(sessions.iter().all(|s| s.retries == 0));
}
