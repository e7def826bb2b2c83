//! The scenes of the rehearsal: each ends, with data of the desk, and never pretends to be a model.

use crate::rig::{Rig, approve, rehearsal, reject};
use serde_json::json;
use turnbuckle::Submission;

const LABEL: &str = "_(rehearsal, no real model)_";

#[tokio::test]
async fn what_is_open() {
    let rig = Rig::rehearsing().await;
    let played = rig.say("Which deliveries are late?").await;
    let text = played.text();
    assert_eq!(played.names(), ["find_threads", "find_orders", "get_thread", "suggest_replies"]);
    let found = played.output("find_threads");
    let first = &found["threads"][0];
    assert!(text.contains(first["subject"].as_str().unwrap()), "{text}");
    assert!(text.contains(&format!("Open threads that match: {}.", found["total"])), "{text}");
    let orders = played.output("find_orders");
    assert!(text.contains(orders["orders"][0]["number"].as_str().unwrap()), "{text}");
    let link = first["id"].as_str().unwrap().replace(':', "/");
    assert_eq!(
        played.message().link_snapshots[&format!("desk://{link}")]["name"],
        first["subject"],
        "links of the answer have snapshots"
    );
    assert!(
        played.message().parts.iter().filter_map(|p| p.as_text()).all(|t| t.starts_with(LABEL))
    );
    let prompts = &played.output("suggest_replies")["prompts"];
    assert_eq!(prompts[0], format!("Reply to {}", first["id"].as_str().unwrap().replace(':', " ")));
}

#[tokio::test]
async fn an_order_with_its_mail() {
    let rig = Rig::rehearsing().await;
    let number = rig
        .find(
            "SELECT o.number FROM orders o JOIN threads t ON t.order_id = o.id
             WHERE t.inbox_id IN (1, 2) AND t.status = 'open' ORDER BY o.id LIMIT 1",
        )
        .await;
    let played = rig.say(Submission::new(format!("What about {number}?"))).await;
    let text = played.text();
    let order = played.output("get_order");
    assert!(text.contains(order["order"]["contact"]["name"].as_str().unwrap()), "{text}");
    assert!(text.contains("Mail about it: "), "{text}");
}

async fn thread_to_answer(rig: &Rig) -> String {
    rig.find(
        "SELECT 'thread ' || id FROM threads WHERE inbox_id = 1 AND status = 'open'
           AND subject LIKE '%descale%' ORDER BY id LIMIT 1",
    )
    .await
}

#[tokio::test]
async fn an_answer_that_is_approved() {
    let rig = Rig::rehearsing().await;
    let thread = thread_to_answer(&rig).await;
    let played = rig.say(Submission::new(format!("Reply to {thread}, please"))).await;
    let (message, card) = played.card();
    let body = card.args["body"].as_str().unwrap().to_owned();
    assert!(
        body.starts_with("Hello ") && body.contains("Kind regards,\nPriya Raman\nBramling"),
        "{body}"
    );
    let played = rig.decide(&message, approve(None)).await;
    let article = played.output("get_article");
    let sentence = article["body"].as_str().unwrap().split_once(". ").unwrap().0.to_owned();
    assert!(body.contains(&sentence), "the draft keeps to the article: {body}");
    assert_eq!(rig.find("SELECT body FROM outbox").await, body);
    assert!(played.text().contains("was approved and sent to "), "{}", played.text());
}

#[tokio::test]
async fn an_answer_that_a_person_changes() {
    let rig = Rig::rehearsing().await;
    let thread = thread_to_answer(&rig).await;
    let played = rig.say(Submission::new(format!("Reply to {thread}"))).await;
    let amendment = json!({"body": "Dear customer, it is on its way."});
    let played = rig.decide(&played.card().0, approve(Some(amendment))).await;
    let text = played.text();
    assert!(text.contains("as you changed it: “Dear customer, it is on its way.”"), "{text}");
    assert_eq!(rig.find("SELECT body FROM outbox").await, "Dear customer, it is on its way.");
}

#[tokio::test]
async fn an_answer_that_is_rejected() {
    let rig = Rig::rehearsing().await;
    let thread = thread_to_answer(&rig).await;
    let played = rig.say(Submission::new(format!("Reply to {thread}"))).await;
    let played = rig.decide(&played.card().0, reject("I will call instead")).await;
    let text = played.text();
    assert!(
        text.contains("the answer was not approved") && text.contains("Nothing was sent"),
        "{text}"
    );
    assert!(text.contains("I will call instead"), "{text}");
    assert_eq!(rig.count("SELECT count(*) FROM outbox").await, 0);
}

#[tokio::test]
async fn an_answer_to_what_was_spoken_of() {
    let rig = Rig::rehearsing().await;
    let number = rig
        .find(
            "SELECT o.number FROM orders o JOIN threads t ON t.order_id = o.id WHERE t.inbox_id = 2
             AND t.status = 'open' AND t.message_count = 1 ORDER BY o.id LIMIT 1",
        )
        .await;
    rig.say(Submission::new(format!("What about {number}?"))).await;
    let played = rig.say("Reply to it").await;
    let (_, card) = played.card();
    let thread = card.args["thread"].as_str().unwrap().trim_start_matches("thread:").to_owned();
    let about: String = sqlx::query_scalar(
        "SELECT o.number FROM threads t JOIN orders o ON o.id = t.order_id WHERE t.id = ?",
    )
    .bind(thread.parse::<i64>().unwrap())
    .fetch_one(rig.desk.pool())
    .await
    .unwrap();
    assert_eq!(about, number);
}

#[tokio::test]
async fn a_reminder_with_its_deadline() {
    let rig = Rig::rehearsing().await;
    let played = rig.say("Remind me to call the carrier tomorrow at 15:00").await;
    let (message, card) = played.card();
    assert_eq!(
        *card.args,
        json!({
            "title": "Call the carrier", "deadline": "2026-11-19T15:00:00+00:00", "assignees": ["me"],
        })
    );
    let played = rig.decide(&message, approve(None)).await;
    assert!(played.text().contains("was created, due 2026-11-19 15:00."), "{}", played.text());
    let again = rig.say("Remind me to call the carrier tomorrow at 15:00").await;
    assert!(again.text().contains("There is such a task already"), "{}", again.text());
    assert_eq!(rig.count("SELECT count(*) FROM tasks WHERE title = 'Call the carrier'").await, 1);
}

#[tokio::test]
async fn several_reminders_are_asked_about_at_once() {
    let rig = Rig::rehearsing().await;
    let ask = "Remind me to call the carrier tomorrow and remind me to count the stock in 3 days.";
    let played = rig.say(ask).await;
    let titles: Vec<_> =
        played.cards().iter().map(|(_, card)| card.args["title"].clone()).collect();
    assert_eq!(titles, ["Call the carrier", "Count the stock"]);
    let (first, second) = (played.cards()[0].0.clone(), played.cards()[1].0.clone());
    rig.decide(&first, reject("Done by phone")).await;
    let played = rig.decide(&second, approve(None)).await;
    let text = played.text();
    assert!(text.contains("No task was created.") && text.contains("Done by phone"), "{text}");
    assert!(text.contains("The task [Count the stock]"), "{text}");
    assert_eq!(rig.count("SELECT count(*) FROM tasks WHERE title = 'Call the carrier'").await, 0);
    assert_eq!(rig.count("SELECT count(*) FROM tasks WHERE title = 'Count the stock'").await, 1);
}

#[tokio::test]
async fn a_refund_of_a_part() {
    let rig = Rig::rehearsing().await;
    let number = rig
        .find("SELECT number FROM orders WHERE status = 'delivered' AND refunded_cents = 0 ORDER BY id LIMIT 1")
        .await;
    let ask = format!("Refund 12.50 of {number} because it came late.");
    let played = rig.say(Submission::new(ask)).await;
    let (message, card) = played.card();
    assert_eq!(*card.args, json!({"order": number, "amount": "12.50", "reason": "it came late"}));
    let played = rig.decide(&message, approve(None)).await;
    assert!(played.text().contains("12.50 EUR were given back on "), "{}", played.text());
    assert_eq!(rig.count("SELECT amount_cents FROM refunds ORDER BY id DESC LIMIT 1").await, 1250);
}

#[tokio::test]
async fn a_refund_without_an_order_asks_which() {
    let rig = Rig::rehearsing().await;
    let played = rig.say("Refund the customer").await;
    assert!(
        played.text().contains("Which order? The latest that arrived are [BR-"),
        "{}",
        played.text()
    );
}

#[tokio::test]
async fn a_refund_by_somebody_who_may_not() {
    let rig = Rig::of(rehearsal(), "jonas.becker@bramling.example").await;
    let number = rig
        .find("SELECT number FROM orders WHERE status = 'delivered' AND refunded_cents = 0 ORDER BY id LIMIT 1")
        .await;
    let played = rig.say(Submission::new(format!("Refund {number}"))).await;
    let text = played.text();
    assert!(text.contains("No refund was made.") && text.contains("you lack the right"), "{text}");
}

#[tokio::test]
async fn a_plan_and_a_later_step() {
    let rig = Rig::rehearsing().await;
    let played = rig.say("Plan my morning").await;
    assert_eq!(
        played.names(),
        ["plan_create", "plan_update_step", "list_tasks", "plan_update_step"]
    );
    assert!(played.text().contains(r#""label":"See which tasks are due","status":"completed""#));
    let later = rig.say("Step 2 is done").await;
    assert_eq!(later.output("plan_update_step")["steps"][1]["status"], "completed");
    assert!(later.text().contains(r#""label":"Go through the open mail","status":"completed""#));
}

#[tokio::test]
async fn knowledge_and_people() {
    let rig = Rig::rehearsing().await;
    let played = rig.say("How do I descale the Bramling One?").await;
    assert!(played.text().contains("Descaling the Bramling One"), "{}", played.text());
    let played = rig.say("Who works in billing?").await;
    assert!(played.text().contains("Victor Lang"), "{}", played.text());
}

#[tokio::test]
async fn anything_else_is_answered_plainly() {
    let rig = Rig::rehearsing().await;
    for words in ["Hello", "Sing me a song", "", "🦀", "plan step refund reply remind"] {
        let played = rig.say(words).await;
        if played.cards().is_empty() {
            assert!(played.text().starts_with(LABEL), "{words}: {}", played.text());
        }
    }
    let played = rig.say("Sing me a song").await;
    assert!(played.text().contains("I am the rehearsal model: a script, not a language model"));
    assert!(played.text().contains("the desk has "), "{}", played.text());
}

#[tokio::test]
async fn a_tool_that_fails_is_told_and_ends_the_scene() {
    let rig = Rig::of(rehearsal(), "stranger@elsewhere.example").await;
    for words in ["What is open?", "Reply to thread 4", "Remind me to call tomorrow", "Who is Ana?"]
    {
        let played = rig.say(words).await;
        let text = played.text();
        assert!(text.contains("did not work: This session runs for"), "{words}: {text}");
        assert!(played.calls().len() <= 2, "{words}");
    }
    let rig = Rig::rehearsing().await;
    let played = rig.say("Reply to thread 999999").await;
    assert!(
        played.text().contains("`get_thread` did not work: no thread answers to"),
        "{}",
        played.text()
    );
}

#[tokio::test]
async fn a_captured_run_says_that_nothing_was_sent() {
    let rig = Rig::rehearsing().await;
    let thread = thread_to_answer(&rig).await;
    let played = rig.say(Submission::new(format!("Reply to {thread}")).captured()).await;
    assert!(played.text().contains("waits for review; nothing was sent."), "{}", played.text());
    assert_eq!(rig.count("SELECT count(*) FROM outbox").await, 0);
}
