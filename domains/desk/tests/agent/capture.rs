//! Runs without a person: reads happen, actions are written down with ids that later ones may name.

use crate::rig::{Rig, calling, script};
use desk::agent::DEFAULT_USER;
use serde_json::json;
use std::collections::BTreeMap;
use turnbuckle::models::scripted::text;
use turnbuckle::{Review, Submission};

async fn captured() -> (Rig, crate::rig::Played) {
    let rig = Rig::new(script(vec![
        calling(&[
            ("list_tags", json!({"query": "urgent"})),
            (
                "start_conversation",
                json!({"inbox": "support", "to": ["new@customer.example"], "subject": "Hello", "body": "First"}),
            ),
        ]),
        calling(&[(
            "reply_to_thread",
            json!({"thread": "thread:temp_0", "to": ["new@customer.example"], "body": "Second"}),
        )]),
        calling(&[("create_task", json!({"title": "Wait for them", "links": ["thread:temp_0"]}))]),
        text("Two mails and a task wait for review."),
    ]))
    .await;
    let played = rig.say(Submission::new("Write twice").captured()).await;
    (rig, played)
}

#[tokio::test]
async fn actions_are_minted_and_nothing_is_done() {
    let (rig, played) = captured().await;
    assert!(played.is_completed());
    assert_eq!(played.output("list_tags")["items"][0]["name"], "urgent");
    let minted = played.output("start_conversation");
    assert_eq!(
        (&minted["thread"], &minted["message"], &minted["mode"]),
        (&json!("thread:temp_0"), &json!("message:temp_0"), &json!("send"))
    );
    assert_eq!(played.output("reply_to_thread")["message"], "message:temp_1");
    assert_eq!(played.output("create_task")["id"], "task:temp_2");
    assert!(played.call("create_task").captured);
    assert_eq!(rig.count("SELECT count(*) FROM outbox").await, 0);
    assert_eq!(rig.count("SELECT count(*) FROM tasks WHERE title = 'Wait for them'").await, 0);
}

#[tokio::test]
async fn applying_puts_real_ids_in_the_place_of_minted_ones() {
    let (rig, played) = captured().await;
    let approve = || Review::Approve { amendment: None, even_if_stale: false };
    let reviews = BTreeMap::from([(0, approve()), (1, approve()), (2, approve())]);
    let turn = played.message().turn.clone();
    let reports =
        rig.engine.apply_captured(&rig.key, &turn, &reviews, DEFAULT_USER.into()).await.unwrap();
    assert_eq!(reports.len(), 3, "{reports:#?}");
    assert_eq!(
        rig.count("SELECT count(*) FROM outbox o JOIN messages m ON m.id = o.message_id GROUP BY m.thread_id").await,
        2,
        "{reports:#?}"
    );
    assert_eq!(
        rig.count(
            "SELECT count(*) FROM task_links l JOIN threads t ON t.id = l.target_id
             WHERE l.kind = 'thread' AND t.subject = 'Hello'"
        )
        .await,
        1
    );
    rig.engine.apply_captured(&rig.key, &turn, &reviews, DEFAULT_USER.into()).await.unwrap();
    assert_eq!(rig.count("SELECT count(*) FROM outbox").await, 2, "applying twice does nothing");
}
