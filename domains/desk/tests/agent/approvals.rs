//! What a person decides about: shown as it would run, done as they decided.

use crate::rig::{Played, Rig, approve, calling, from_page, reject, watched};
use desk::agent::DEFAULT_USER;
use serde_json::{Value, json};
use turnbuckle::core::part::ToolCallStatus;
use turnbuckle::models::scripted::text;

async fn open_thread() -> (String, String) {
    let desk = crate::rig::desk().await;
    let (id, sender): (i64, String) = sqlx::query_as(
        "SELECT t.id, m.from_address FROM threads t JOIN messages m ON m.thread_id = t.id
         WHERE t.inbox_id = 1 AND t.status = 'open' AND m.direction = 'inbound'
         ORDER BY t.id, m.sent_at DESC LIMIT 1",
    )
    .fetch_one(desk.pool())
    .await
    .unwrap();
    (format!("thread:{id}"), sender)
}

async fn replying(body: &str) -> (Rig, Played, String) {
    let (thread, sender) = open_thread().await;
    let bare = thread.trim_start_matches("thread:");
    let rig =
        Rig::calling(DEFAULT_USER, &[("reply_to_thread", json!({"thread": bare, "body": body}))])
            .await;
    let played = rig.say("Answer them").await;
    (rig, played, sender)
}

#[tokio::test]
async fn the_card_shows_what_would_run() {
    let (thread, _) = open_thread().await;
    let (rig, played, sender) = replying("Hello").await;
    let (_, card) = played.card();
    assert_eq!(
        *card.args,
        json!({"thread": thread, "body": "Hello", "to": [sender], "mode": "send"})
    );
    assert_eq!(
        card.digest.as_deref(),
        Some(&json!({"mode": "send", "thread": thread, "to": [sender], "text": "Hello"}))
    );
    let editable = card.editable.unwrap();
    let fields: Vec<&String> = editable["properties"].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["body", "cc", "mode", "to"]);
    assert_eq!(rig.count("SELECT count(*) FROM outbox").await, 0, "trying leaves nothing");
}

#[tokio::test]
async fn what_the_person_changed_is_what_is_sent() {
    let (rig, played, _) = replying("Hello").await;
    let amendment = json!({"body": "Hello, changed.", "to": ["other@customer.example"]});
    let played = rig.decide(&played.card().0, approve(Some(amendment))).await;
    assert!(played.is_completed());
    assert_eq!(rig.find("SELECT body FROM outbox").await, "Hello, changed.");
    assert_eq!(rig.find("SELECT to_addresses FROM outbox").await, r#"["other@customer.example"]"#);
    assert_eq!(played.output("reply_to_thread")["body"], "Hello, changed.");
}

#[tokio::test]
async fn a_draft_is_kept_and_nothing_sent() {
    let (rig, played, _) = replying("Hello").await;
    let before = rig.count("SELECT count(*) FROM drafts WHERE author_id = 2").await;
    rig.decide(&played.card().0, approve(Some(json!({"mode": "draft"})))).await;
    assert_eq!(rig.count("SELECT count(*) FROM outbox").await, 0);
    assert_eq!(rig.count("SELECT count(*) FROM drafts WHERE author_id = 2").await, before + 1);
}

#[tokio::test]
async fn a_rejection_sends_nothing() {
    let (rig, played, _) = replying("Hello").await;
    let played = rig.decide(&played.card().0, reject("Too short")).await;
    assert!(played.is_completed());
    assert_eq!(played.call("reply_to_thread").status, ToolCallStatus::Rejected);
    assert_eq!(rig.count("SELECT count(*) FROM outbox").await, 0);
}

#[tokio::test]
async fn a_change_that_cannot_be_is_refused_and_nothing_is_sent() {
    let (rig, played, _) = replying("Hello").await;
    let played =
        rig.decide(&played.card().0, approve(Some(json!({"to": ["not an address"]})))).await;
    assert!(played.is_completed());
    assert!(played.error("reply_to_thread").contains("not an address"));
    assert_eq!(rig.count("SELECT count(*) FROM outbox").await, 0);
}

#[tokio::test]
async fn nobody_is_asked_about_a_call_that_would_fail() {
    let rig = Rig::calling(
        DEFAULT_USER,
        &[
            ("reply_to_thread", json!({"thread": "999999", "body": "x"})),
            ("refund_order", json!({"order": "BR-10005", "amount": 9_999_999, "reason": "x"})),
            ("create_task", json!({"title": "x", "deadline": "soonish"})),
            (
                "start_conversation",
                json!({"inbox": "support", "to": [], "subject": "x", "body": "x"}),
            ),
        ],
    )
    .await;
    let played = rig.say("Do it").await;
    assert!(played.is_completed());
    assert_eq!(played.cards().len(), 0);
    assert!(played.error("refund_order").contains("out of range"));
    assert!(played.error("create_task").contains("soonish"));
}

#[tokio::test]
async fn a_deadline_in_words_is_a_date_on_the_card() {
    let task = json!({"title": "Call back", "deadline": "friday at 15:00", "assignees": "me"});
    let rig = Rig::calling(DEFAULT_USER, &[("create_task", task)]).await;
    let played = rig.say("Note it").await;
    let (message, card) = played.card();
    assert_eq!(card.args["deadline"], "2026-11-20T15:00:00+00:00");
    let played = rig.decide(&message, approve(Some(json!({"deadline": "next monday"})))).await;
    assert_eq!(played.output("create_task")["deadline"], "2026-11-23T23:59:59+00:00");
    assert_eq!(rig.count("SELECT count(*) FROM tasks WHERE title = 'Call back'").await, 1);
}

async fn refundable() -> (i64, String, i64) {
    let desk = crate::rig::desk().await;
    sqlx::query_as(
        "SELECT id, number, total_cents FROM orders WHERE status = 'delivered' AND refunded_cents = 0 ORDER BY id LIMIT 1",
    )
    .fetch_one(desk.pool())
    .await
    .unwrap()
}

#[tokio::test]
async fn the_amount_of_a_refund_is_on_the_card_and_can_be_lowered() {
    let (_, number, cents) = refundable().await;
    let args = json!({"order": number, "reason": "late"});
    let rig = Rig::calling(DEFAULT_USER, &[("refund_order", args)]).await;
    let (message, card) = rig.say("Refund it").await.card();
    let all = format!("{}.{:02}", cents / 100, cents % 100);
    assert_eq!(*card.args, json!({"order": number, "amount": all, "reason": "late"}));
    let played = rig.decide(&message, approve(Some(json!({"amount": "5.00"})))).await;
    assert_eq!(played.output("refund_order")["amount"], "5.00");
    assert_eq!(rig.count("SELECT amount_cents FROM refunds ORDER BY id DESC LIMIT 1").await, 500);
}

#[tokio::test]
async fn several_cards_are_decided_one_by_one() {
    let (_, number, _) = refundable().await;
    let rig = Rig::calling(
        DEFAULT_USER,
        &[
            ("create_task", json!({"title": "First of two"})),
            ("refund_order", json!({"order": number, "amount": 1, "reason": "late"})),
        ],
    )
    .await;
    let played = rig.say("Both").await;
    let cards = played.cards();
    assert_eq!(cards.len(), 2);
    let refunds = rig.count("SELECT count(*) FROM refunds").await;
    rig.decide(&cards[1].0, reject("no")).await;
    let played = rig.decide(&cards[0].0, approve(None)).await;
    assert!(played.is_completed());
    assert_eq!(rig.count("SELECT count(*) FROM tasks WHERE title = 'First of two'").await, 1);
    assert_eq!(rig.count("SELECT count(*) FROM refunds").await, refunds);
}

#[tokio::test]
async fn a_conversation_begins_with_an_approved_mail() {
    let args = json!({
        "inbox": "support", "to": "new@customer.example", "subject": "Your visit", "body": "Hello",
    });
    let rig = Rig::calling(DEFAULT_USER, &[("start_conversation", args)]).await;
    let (message, card) = rig.say("Write to them").await.card();
    assert_eq!(
        *card.args,
        json!({
            "inbox": "support@bramling.example", "to": ["new@customer.example"],
            "subject": "Your visit", "body": "Hello", "mode": "send",
        })
    );
    let played = rig.decide(&message, approve(None)).await;
    let sent: Value = played.output("start_conversation");
    assert!(sent["thread"].as_str().unwrap().starts_with("thread:"));
    assert_eq!(rig.find("SELECT subject FROM outbox").await, "Your visit");
}

#[tokio::test]
async fn what_follows_an_approval_knows_the_page_and_a_fresh_message_does_not() {
    let (thread, _) = open_thread().await;
    let read = || calling(&[("get_thread", json!({}))]);
    let reply = calling(&[("reply_to_thread", json!({"body": "Hello"}))]);
    let script = vec![reply, read(), text("Sent."), read(), text("Which one?")];
    let rig = Rig::new(watched(script).0).await;
    let open = json!({"id": thread, "origin": "page"});
    let played = rig.say(from_page("Answer them", "mail", &[open])).await;
    assert_eq!(played.card().1.args["thread"], thread);
    // Bound again, with what the person changed.
    let changed = approve(Some(json!({"body": "Hello again"})));
    let played = rig.decide(&played.card().0, changed).await;
    assert!(played.is_completed());
    assert_eq!(played.output("reply_to_thread")["body"], "Hello again");
    assert_eq!(played.output("get_thread")["thread"]["id"], thread);
    let fresh = rig.say("And the next?").await;
    assert!(fresh.error("get_thread").contains("thread"), "{}", fresh.error("get_thread"));
}
