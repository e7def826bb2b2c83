//! What links and cards of an answer show after the turn, and what the model reads on the next.

use crate::rig::{Rig, calling, watched};
use serde_json::{Value, json};
use turnbuckle::core::transcript::Item;
use turnbuckle::models::scripted::text;

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
