//! What links and cards of an answer show after the turn, and what the model reads on the next.

use crate::rig::{Rig, calling, desk, script, watched};
use desk::agent::{DEFAULT_USER, DeskDomain};
use serde_json::{Value, json};
use std::sync::Arc;
use turnbuckle::Engine;
use turnbuckle::core::error::{ModelError, ModelErrorKind};
use turnbuckle::core::transcript::Item;
use turnbuckle::models::ScriptedModel;
use turnbuckle::models::scripted::{Scripted, text};
use turnbuckle::store::{MemoryStore, Store};

#[tokio::test]
async fn links_and_cards_show_what_the_tools_found() {
    let answer = "See [it](desk://record/order:order:10005) and [who](desk://member/999).\n\n\
                  ```desk:record-list\n{\"ids\": [\"order:10005\", \"order:4\"]}\n```";
    let (model, watch) = watched(vec![
        calling(&[("get_order", json!({"order": "BR-10005"}))]),
        text(answer),
        text("Nothing more."),
    ]);
    let rig = Rig::new(model).await;
    let played = rig.say("Show BR-10005").await;
    let shown = played.text();
    assert!(shown.starts_with("See [it](desk://record/order:10005) and [who](desk://member/999)."));
    let links: Vec<&String> = played.message().link_snapshots.keys().collect();
    assert_eq!(links, ["desk://record/order:10005"]);
    let snapshot = &played.message().link_snapshots["desk://record/order:10005"];
    assert_eq!((&snapshot["name"], &snapshot["kind"]), (&json!("BR-10005"), &json!("order")));
    let body = shown.split("```").nth(1).unwrap().strip_prefix("desk:record-list\n").unwrap();
    let body: Value = serde_json::from_str(body.trim()).unwrap();
    assert_eq!(body["snapshots"][0]["name"], "BR-10005");
    assert_eq!(body["snapshots"][1], json!({"id": "order:4", "missing": true}));

    rig.say("And now?").await;
    let requests = watch.requests();
    let later = requests.last().unwrap();
    let seen = later.transcript.entries().iter().find_map(|entry| match &entry.item {
        Item::Assistant { blocks } => blocks.iter().find_map(|block| match block {
            turnbuckle::core::model::Block::Text { text, .. } => Some(text.clone()),
            _ => None,
        }),
        _ => None,
    });
    assert_eq!(
        seen.unwrap(),
        "See it (order:10005) and who (member:999).\n\n[record-list shown to the reader]\n1. order:10005\n2. order:4"
    );
}

#[tokio::test]
async fn large_results_shrink_to_their_ids_on_later_turns() {
    let (model, watch) = watched(vec![
        calling(&[("find_orders", json!({"status": "shipped", "limit": 2}))]),
        text("Two."),
        text("Still two."),
    ]);
    let rig = Rig::new(model).await;
    let first = rig.say("Orders?").await.output("find_orders");
    rig.say("Again?").await;
    let requests = watch.requests();
    let results =
        requests.last().unwrap().transcript.entries().iter().find_map(|entry| match &entry.item {
            Item::ToolResults { results } => Some(results[0].content.clone()),
            _ => None,
        });
    let (id, number) = (&first["orders"][0]["id"], &first["orders"][0]["number"]);
    let expected = format!("among them {} ({})", id.as_str().unwrap(), number.as_str().unwrap());
    let content = results.unwrap();
    assert!(content.contains(&expected) && !content.contains("placed_at"), "{content}");
}

/// An answer that shows an order again from the numbered view, without looking it up.
const FROM_MEMORY: &str = "Still [it](desk://record/order:order:10005).\n\n\
                           ```desk:record-list\n{\"ids\": [\"order:10005\", \"order:4\"]}\n```";

/// That answer as it is shown to whoever has seen the order.
fn assert_shown(played: &crate::rig::Played) {
    let shown = played.text();
    assert!(shown.starts_with("Still [it](desk://record/order:10005)."), "{shown}");
    let links: Vec<&String> = played.message().link_snapshots.keys().collect();
    assert_eq!(links, ["desk://record/order:10005"]);
    let body = shown.split("```").nth(1).unwrap().strip_prefix("desk:record-list\n").unwrap();
    let body: Value = serde_json::from_str(body.trim()).unwrap();
    assert_eq!(body["snapshots"][0]["name"], "BR-10005");
    assert_eq!(body["snapshots"][1], json!({"id": "order:4", "missing": true}));
}

#[tokio::test]
async fn what_an_earlier_turn_found_is_shown_on_later_ones() {
    let rig = Rig::new(script(vec![
        calling(&[("get_order", json!({"order": "BR-10005"}))]),
        text("Found it."),
        text("You are welcome."),
        text(FROM_MEMORY),
    ]))
    .await;
    rig.say("Find BR-10005").await.text();
    rig.say("Thanks").await.text();
    assert_shown(&rig.say("Show it again").await);
}

#[tokio::test]
async fn what_an_earlier_turn_found_is_shown_by_another_process_too() {
    let desk = desk().await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let process = async |answers| {
        let domain = DeskDomain::new(desk.clone()).await.unwrap();
        let engine = Engine::builder().domain(domain).model(script(answers));
        engine.shared_store(store.clone()).build().unwrap()
    };
    let found = vec![calling(&[("get_order", json!({"order": "BR-10005"}))]), text("Found it.")];
    let rig = Rig::on(desk.clone(), process(found).await, DEFAULT_USER).await;
    rig.say("Find BR-10005").await.text();
    let later = process(vec![text(FROM_MEMORY)]).await;
    let rig = Rig { engine: later, ..rig };
    assert_shown(&rig.say("Show it again").await);
}

#[tokio::test]
async fn what_a_turn_found_before_it_failed_is_known_too() {
    let model = vec![
        Scripted::from(calling(&[("get_order", json!({"order": "BR-10005"}))])),
        ModelError::new(ModelErrorKind::Config, "the model is not configured").into(),
        text(FROM_MEMORY).into(),
    ];
    let rig = Rig::new(ScriptedModel::new("script", model)).await;
    assert!(!rig.say("Find BR-10005").await.is_completed());
    assert_shown(&rig.say("Show it").await);
}
