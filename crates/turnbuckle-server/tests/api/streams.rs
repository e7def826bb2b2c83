//! Streams: resumed anywhere, shared by many, never in the way.

use crate::support::*;
use futures_util::future::join_all;
use serde_json::json;
use std::time::Duration;
use turnbuckle_core::event::Event;
use turnbuckle_models::scripted::{Scripted, text};
use turnbuckle_store::{Post, Posted};
use turnbuckle_testkit::Gate;

#[tokio::test]
async fn a_reader_that_comes_in_the_middle_sees_what_was_streamed_and_goes_on() {
    let gate = Gate::new();
    let held = gate.clone();
    let site = site([
        Scripted::Answer(calling("look_up", json!({"key": "tea"}))),
        Scripted::Hang(text("It is three, I think, but let me see")),
        text("x").into(),
    ])
    .in_pieces_of(4)
    .start()
    .await;
    drop(held);
    let session = site.session().await;
    site.submit(&session, "How much is tea?").await;
    let mut early = site.watch(&session, "after=0").await;
    let mut first = vec![];
    loop {
        let frame = early.next().await.unwrap();
        let whole = frame.data.contains("me see");
        first.push(frame);
        if whole {
            break;
        }
    }
    // A page that is loaded now shows the same.
    let detail = site.get(&format!("/v1/sessions/{session}")).await;
    assert_eq!((&detail["messages"], &detail["after"]), (&json!([]), &json!("0")));
    let mut late = site.watch(&session, "after=0").await;
    let mut second = vec![];
    while second.len() < first.len() {
        second.push(late.next().await.unwrap());
    }
    assert_eq!(events(&second), events(&first));
    site.post(&format!("/v1/sessions/{session}/stop"), json!({})).await;
    let (rest, also) = (early.until("turn-end").await, late.until("turn-end").await);
    assert_eq!(rest, also);
    gate.open();
}

#[tokio::test]
async fn a_reader_that_breaks_off_two_hundred_times_sees_every_event_once() {
    let lines: Vec<String> = (0..700).map(|i| format!("Line {i} of a long answer. ")).collect();
    let mut answers: Vec<Scripted> = Vec::new();
    for i in 0..8 {
        answers.push(calling("look_up", json!({"key": format!("thing {i}")})).into());
    }
    answers.push(text(&lines.concat()).into());
    let site = site(answers).in_pieces_of(60).start().await;
    let session = site.session().await;
    let replicas = [site.base.clone(), site.replica().await];
    let submitted = site.submit(&session, "Tell me all").await;
    let turn = submitted["turn"].as_str().unwrap();
    let mut seen: Vec<Event> = Vec::new();
    let mut after = submitted["after"].as_str().unwrap().to_owned();
    let (mut breaks, mut ended) = (0, false);
    while !ended {
        let base = &replicas[breaks % 2];
        let query = format!("after={after}&until={turn}");
        let mut watch = site.watch_at(base, &session, &query).await;
        // Breaks off after one frame or two.
        for _ in 0..=(breaks % 2) {
            let Some(frame) = watch.next().await else { break };
            if frame.event.as_deref() == Some("turn-end") {
                ended = true;
                break;
            }
            after = frame.id.clone().unwrap();
            seen.extend(frame.event());
        }
        breaks += 1;
    }
    assert!(breaks >= 200, "only {breaks} breaks");
    assert_eq!(seen, site.stored(&session).await);
    assert_eq!(folded(&seen), site.messages(&session).await);
}

#[tokio::test]
async fn many_readers_of_many_turns_lose_nothing_and_one_that_never_reads_slows_nobody() {
    let turns = 20;
    let answers: Vec<Scripted> =
        (0..turns).map(|i| text(&format!("Answer {i} ").repeat(40)).into()).collect();
    let site = site(answers).options(|o| o.limits.streams_per_user = 1000).start().await;
    let sessions = join_all((0..turns).map(|_| site.session())).await;
    let mut readers = Vec::new();
    let mut lazy = Vec::new();
    for session in &sessions {
        for _ in 0..5 {
            readers
                .push((session.clone(), site.watch(session, "after=0&until=idle-not-yet").await));
        }
        // Connected, and never read.
        lazy.push(site.watch(session, "after=0").await);
    }
    let readers: Vec<_> = readers.into_iter().map(|(session, _)| session).collect();
    let turns: Vec<(String, String)> = join_all(sessions.iter().map(async |session| {
        let submitted = site.submit(session, "Go").await;
        (session.clone(), submitted["turn"].as_str().unwrap().to_owned())
    }))
    .await;
    let all = join_all(readers.iter().map(async |session| {
        let turn = &turns.iter().find(|(s, _)| s == session).unwrap().1;
        let frames = site.watch(session, &format!("after=0&until={turn}")).await.rest().await;
        (session.clone(), events(&frames))
    }))
    .await;
    for (session, seen) in all {
        assert_eq!(seen, site.stored(&session).await);
    }
}

#[tokio::test]
async fn a_quiet_stream_is_kept_awake_and_an_old_one_ends() {
    let site = site([text("")])
        .options(|o| {
            o.streams.keep_alive = Duration::from_millis(20);
            o.streams.longest = Duration::from_millis(200);
        })
        .start()
        .await;
    let session = site.session().await;
    let mut watch = site.watch(&session, "").await;
    assert_eq!(watch.next().await.unwrap().event.as_deref(), Some("bye"));
    assert!(watch.comments >= 1);
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn stored_events_can_be_read_as_pages() {
    let site = site([text("Hello.")]).start().await;
    let session = site.session().await;
    site.say(&session, "Hi").await;
    let stored = site.stored(&session).await;
    let mut seen: Vec<Event> = Vec::new();
    let mut after = "0".to_owned();
    loop {
        let path = format!("/v1/sessions/{session}/events?limit=3&after={after}");
        let request =
            site.request(reqwest::Method::GET, &path).header("accept", "application/json");
        let page = answer(request).await.1;
        seen.extend(serde_json::from_value::<Vec<Event>>(page["items"].clone()).unwrap());
        let Some(next) = page["next"].as_str() else { break };
        after = next.to_owned();
    }
    assert_eq!(seen, stored);
}

#[tokio::test]
async fn a_stream_of_a_turn_that_ended_long_ago_ends_at_once() {
    let site = site([text("Hello.")]).start().await;
    let session = site.session().await;
    let frames = site.say(&session, "Hi").await;
    let (turn, last) = (frames.last().unwrap().json()["turn"].clone(), events(&frames).len());
    let query = format!("after={last}&until={}", turn.as_str().unwrap());
    let again = site.watch(&session, &query).await.rest().await;
    assert_eq!(again, [frames.last().unwrap().clone()]);
    let idle = site.watch(&session, &format!("after={last}&until=idle")).await.rest().await;
    assert_eq!(idle, []);
}

/// An input can be seen to without any event, such as a stop that comes after the end. Who waits for rest must notice.
#[tokio::test]
async fn a_reader_that_waits_for_rest_notices_it_without_an_event() {
    let mut site = site([text("x")]).without_worker().start().await;
    let session = site.session().await;
    let key = turnbuckle_core::ids::SessionKey::new("acme", session.as_str());
    let input = Posted::Stop { turn: Some("t_gone".into()), by: None };
    let post = Post { key: key.clone(), idempotency_key: None, input, now: site.api.now() };
    site.store.post(post).await.unwrap();
    let stream = site.watch(&session, "after=0&until=idle").await;
    site.start_worker("late");
    let frames = tokio::time::timeout(Duration::from_secs(30), stream.rest()).await.unwrap();
    assert_eq!(frames, []);
    assert_eq!(site.store.session(&key).await.unwrap().pending, 0);
}

#[tokio::test]
async fn a_title_that_somebody_gives_is_told_to_those_who_watch() {
    let site = site([text("Hello.")]).start().await;
    let session = site.session().await;
    let mut watch = site.watch(&session, "").await;
    let mut elsewhere = site.watch_at(&site.replica().await, &session, "").await;
    site.rename(&session, "Late parcels").await;
    assert_eq!(watch.until("title").await.json(), json!({"title": "Late parcels"}));
    assert_eq!(elsewhere.until("title").await.json(), json!({"title": "Late parcels"}));
    // Whoever watched before a break may have missed it in the break.
    let mut back = site.watch(&session, "after=0").await;
    assert_eq!(back.until("title").await.json(), json!({"title": "Late parcels"}));
    // Whoever asks for an answer has the title already.
    let frames = site.say(&session, "Hi").await;
    assert!(!shape(&frames).contains(&"title".to_owned()), "{frames:?}");
}

#[tokio::test]
async fn a_title_that_somebody_gives_in_the_middle_of_a_turn_is_told_in_its_stream() {
    let site = site([calling("wait", json!({})), text("Done.")]).start().await;
    let session = site.session().await;
    let submitted = site.submit(&session, "Wait for it").await;
    let turn = submitted["turn"].as_str().unwrap();
    let mut answer = site.watch(&session, &format!("after=0&until={turn}")).await;
    site.world.begun.wait().await;
    answer.until("tool-call-started").await;
    site.rename(&session, "Late parcels").await;
    assert_eq!(answer.until("title").await.json(), json!({"title": "Late parcels"}));
    site.world.gate.open();
    let rest = answer.rest().await;
    assert_eq!(rest.last().unwrap().event.as_deref(), Some("turn-end"));
    // The turn gives none of its own: what a person gave stays.
    assert!(!shape(&rest).iter().any(|kind| kind.contains("title")), "{rest:?}");
    let mut late = site.watch(&session, "after=0").await;
    assert_eq!(late.until("title").await.json(), json!({"title": "Late parcels"}));
}
