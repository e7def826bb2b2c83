//! Two wishes at once, from two replicas: each pair has one defined outcome, whoever comes first.

use crate::support::{Api, Database, Script, Session, Site, on_both, soon};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use turnbuckle::core::outcome::Outcome;
use turnbuckle::core::part::ToolCallStatus;

/// How often each race is run.
const ROUNDS: usize = 8;

/// A new session in which a card about a thing waits, and the card.
async fn waiting(client: &Api, id: &str) -> (String, String) {
    let session = client.session().await;
    client.submit(&session, &Script::default().call(&[("ask", id)]).say("Paid.")).await;
    let card = client.card(&session).await;
    (session, card)
}

on_both!(approved_twice_at_once);
async fn approved_twice_at_once(database: Database) {
    let site = Site::on(database).await;
    let (_replicas, clients) = site.replicas().await;
    for round in 0..ROUNDS {
        let (client, id) = (&clients[round % 2], format!("bill-{round}"));
        let (session, card) = waiting(client, &id).await;
        let (one, two) = tokio::join!(clients[0].approve(&card), clients[1].approve(&card));
        let mut both = [one, two];
        both.sort_by_key(|(status, _)| *status);
        assert_eq!(both.each_ref().map(|b| b.0), [StatusCode::ACCEPTED, StatusCode::CONFLICT]);
        assert_eq!(both[1].1["code"], "already_decided", "{}", both[1].1);
        let found = client.at_rest(&session).await;
        assert_eq!((found.outcome(), found.answer().text()), (Outcome::Completed, "Paid.".into()));
        assert_eq!(site.world.times(&id), 1);
    }
}

on_both!(approved_while_a_new_message_arrives);
async fn approved_while_a_new_message_arrives(database: Database) {
    let site = Site::on(database).await;
    let (_replicas, clients) = site.replicas().await;
    for round in 0..ROUNDS {
        let (client, id) = (&clients[round % 2], format!("bill-{round}"));
        let (session, card) = waiting(client, &id).await;
        let next = Script::default().say("And now?");
        let (approved, _) =
            tokio::join!(clients[0].approve(&card), clients[1].submit(&session, &next));
        let found = client.at_rest(&session).await;
        // The approval came first and holds, or the message took the card's place. The message has its turn either way.
        let times = match (approved.0, found.ended(&id).0) {
            (StatusCode::ACCEPTED, ToolCallStatus::Completed) => 1,
            (StatusCode::ACCEPTED | StatusCode::CONFLICT, ToolCallStatus::Rejected) => 0,
            other => panic!("{other:?}"),
        };
        assert_eq!(site.world.times(&id), times);
        assert_eq!(found.answers().count(), 2);
        assert_eq!(
            (found.outcome(), found.answer().text()),
            (Outcome::Completed, "And now?".into())
        );
        assert_eq!(client.cards(&session).await, Vec::<Value>::new());
    }
}

on_both!(stopped_while_a_tool_commits);
async fn stopped_while_a_tool_commits(database: Database) {
    let site = Site::on(database).await;
    let (_replicas, clients) = site.replicas().await;
    for round in 0..ROUNDS {
        let (client, id) = (&clients[round % 2], format!("bill-{round}"));
        let session = client.session().await;
        let gate = site.world.hold(&id);
        let script = Script::default().call(&[("pay", &id)]).say("Paid.");
        client.submit(&session, &script).await;
        site.world.wait_begun(&id, 1).await;
        let path = format!("/v1/sessions/{session}/stop");
        let nothing = json!({});
        let stop = clients[(round + 1) % 2].post(&path, &nothing);
        gate.open();
        let (status, _) = stop.await;
        assert!(status.is_success(), "{status}");
        let found = client.at_rest(&session).await;
        // A deed that was done before the stop is in the message; one that was not known to be done says so.
        match (found.outcome(), found.ended(&id).0) {
            (Outcome::Completed, ToolCallStatus::Completed) => {}
            (Outcome::Aborted { .. }, ToolCallStatus::Completed) => {}
            (Outcome::Aborted { .. }, ToolCallStatus::Cancelled | ToolCallStatus::Error) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(site.world.times(&id), 1);
        client.submit(&session, &Script::default().say("Go on.")).await;
        assert_eq!(client.at_rest(&session).await.answer().text(), "Go on.");
    }
}

on_both!(deleted_while_it_runs);
async fn deleted_while_it_runs(database: Database) {
    let site = Site::on(database).await;
    let (owner, other) = (site.serve().await, site.serve().await);
    let (client, remote) = (site.client(&owner), site.client(&other));
    let session = client.session().await;
    let script = Script::default().call(&[("look", "tea")]).say_around("never", "I ", "never end");
    client.submit(&session, &script).await;
    let mut watch = client.watch(&session, "0", None).await;
    watch.until("text-delta").await;
    let path = format!("/v1/sessions/{session}");
    let deleted = remote.request(Method::DELETE, &path).send().await.unwrap();
    assert_eq!(deleted.status(), StatusCode::NO_CONTENT);
    soon("the reader is told", watch.until("session-deleted")).await;
    site.model.wait_abandoned(1).await;
    for client in [&client, &remote] {
        assert_eq!(client.get(&path).await.0, StatusCode::NOT_FOUND);
        let (status, _) = client.post(&format!("{path}/turns"), &json!({"content": "x"})).await;
        assert_eq!(status, StatusCode::NOT_FOUND);
    }
    // Nothing of it lingers: both processes do their next work.
    for client in [&client, &remote] {
        let session = client.session().await;
        client.submit(&session, &Script::default().say("Here.")).await;
        assert_eq!(client.at_rest(&session).await.answer().text(), "Here.");
    }
}

on_both!(submitted_twice_under_one_key);
async fn submitted_twice_under_one_key(database: Database) {
    let site = Site::on(database).await;
    let (_replicas, clients) = site.replicas().await;
    let session = clients[0].session().await;
    let path = format!("/v1/sessions/{session}/turns");
    for round in 0..ROUNDS {
        let id = format!("bill-{round}");
        let script = Script::default().call(&[("pay", &id)]).say("Paid.");
        let submit = async |n: usize| {
            let request = clients[n].request(Method::POST, &path).header("idempotency-key", &id);
            let response =
                request.json(&json!({"content": script.message()})).send().await.unwrap();
            (response.status(), response.json::<Value>().await.unwrap())
        };
        let (one, two) = tokio::join!(submit(0), submit(1));
        assert_eq!((one.0, two.0), (StatusCode::ACCEPTED, StatusCode::ACCEPTED));
        assert_eq!(one.1["turn"], two.1["turn"]);
        assert_ne!(one.1["duplicate"], two.1["duplicate"]);
        let found: Session = clients[1].at_rest(&session).await;
        assert_eq!(found.answers().count(), round + 1);
        assert_eq!(site.world.times(&id), 1);
    }
}
