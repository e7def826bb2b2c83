//! Each tool once through the whole pipeline.

use crate::rig::{Rig, calling, script};
use desk::agent::DEFAULT_USER;
use serde_json::{Value, json};
use turnbuckle::models::scripted::text;

#[tokio::test]
async fn every_read_gives_what_the_desk_holds() {
    let rig = Rig::calling(
        DEFAULT_USER,
        &[
            ("list_members", json!({"query": "billing"})),
            ("list_groups", json!({"query": "workshop"})),
            ("find_threads", json!({"status": "OPEN", "limit": "3"})),
            ("list_drafts", json!({})),
            ("list_tags", json!({"query": "urgent"})),
            ("list_tasks", json!({"assignee": "me"})),
            ("find_orders", json!({"status": "Shipped", "sort_by": "total"})),
            ("get_order", json!({"order_number": "BR-10005"})),
            ("search_knowledge", json!({"query": "descaling"})),
            ("get_article", json!({"article": "warranty-what-is-covered"})),
            ("list_notes", json!({"record": "contact:3"})),
        ],
    )
    .await;
    let played = rig.say("Look around").await;
    let output = |tool: &str| played.output(tool);
    let members = output("list_members");
    assert_eq!(
        members["items"].as_array().unwrap().iter().map(|m| &m["name"]).collect::<Vec<_>>(),
        ["Amelia Stone", "Victor Lang"]
    );
    assert_eq!(output("list_groups")["items"][0]["name"], "Workshop");
    let open = rig
        .count(
            "SELECT count(*) FROM threads WHERE status = 'open' AND inbox_id IN
               (SELECT inbox_id FROM inbox_access WHERE member_id = 2)",
        )
        .await;
    let threads = output("find_threads");
    assert_eq!(
        (&threads["total"], threads["threads"].as_array().unwrap().len()),
        (&json!(open), 3)
    );
    assert_eq!(
        played.call("find_threads").digest.as_deref().unwrap()["samples"].as_array().unwrap().len(),
        3
    );
    assert_eq!(
        output("list_drafts")["total"],
        rig.count("SELECT count(*) FROM drafts WHERE author_id = 2").await
    );
    assert_eq!(output("list_tags")["items"][0]["name"], "urgent");
    assert_eq!(
        output("list_tasks")["total"],
        rig.count(
            "SELECT count(*) FROM tasks k JOIN task_assignees a ON a.task_id = k.id
             WHERE a.member_id = 2 AND k.completed_at IS NULL"
        )
        .await
    );
    assert_eq!(
        output("find_orders")["total"],
        rig.count("SELECT count(*) FROM orders WHERE status = 'shipped'").await
    );
    assert_eq!(output("get_order")["order"]["number"], "BR-10005");
    assert!(output("search_knowledge")["results"][0]["title"].as_str().unwrap().contains("escal"));
    assert_eq!(output("get_article")["title"], "Warranty: what is covered");
    assert_eq!(
        output("list_notes")["total"],
        rig.count("SELECT count(*) FROM notes WHERE kind = 'contact' AND target_id = 3").await
    );
    let summary = played.call("find_threads").summary.unwrap();
    assert!(
        summary.starts_with(&format!("{open} threads matched; among them thread:")),
        "{summary}"
    );
}

#[tokio::test]
async fn a_thread_is_read_whole() {
    let desk = crate::rig::desk().await;
    let (id, subject): (i64, String) =
        sqlx::query_as("SELECT id, subject FROM threads WHERE inbox_id = 1 ORDER BY id LIMIT 1")
            .fetch_one(desk.pool())
            .await
            .unwrap();
    let rig = Rig::calling(DEFAULT_USER, &[("get_thread", json!({"threadId": id}))]).await;
    let played = rig.say("Read it").await;
    let thread = played.output("get_thread");
    assert_eq!(
        (&thread["thread"]["id"], &thread["thread"]["subject"]),
        (&json!(format!("thread:{id}")), &json!(subject))
    );
    assert_eq!(thread["total_messages"], thread["messages"].as_array().unwrap().len());
    assert!(
        played.call("get_thread").summary.unwrap().starts_with(&format!("thread:{id} ({subject})"))
    );
}

#[tokio::test]
async fn writes_that_need_no_word_are_done_and_recorded() {
    let desk = crate::rig::desk().await;
    let thread: i64 = sqlx::query_scalar(
        "SELECT id FROM threads WHERE inbox_id = 1 AND status = 'open' AND assignee_id IS NULL ORDER BY id LIMIT 1",
    )
    .fetch_one(desk.pool())
    .await
    .unwrap();
    let task: i64 =
        sqlx::query_scalar("SELECT id FROM tasks WHERE completed_at IS NULL ORDER BY id LIMIT 1")
            .fetch_one(desk.pool())
            .await
            .unwrap();
    let rig = Rig::calling(
        DEFAULT_USER,
        &[
            ("update_thread", json!({"thread_id": thread, "assigneeId": "me", "add_tags": "vip"})),
            ("create_note", json!({"record": "order:10005", "body": "Rang twice."})),
            ("complete_task", json!({"task": format!("task:{task}")})),
        ],
    )
    .await;
    let played = rig.say("Do it").await;
    assert_eq!(played.output("update_thread")["thread"]["assignee"]["name"], "Priya Raman");
    let id = thread.to_string();
    let assignee: i64 = sqlx::query_scalar("SELECT assignee_id FROM threads WHERE id = ?")
        .bind(&id)
        .fetch_one(rig.desk.pool())
        .await
        .unwrap();
    assert_eq!(assignee, 2);
    assert_eq!(
        rig.find("SELECT body FROM notes WHERE kind = 'order' AND target_id = 10005 ORDER BY id DESC LIMIT 1").await,
        "Rang twice."
    );
    assert_eq!(played.output("complete_task")["outcome"], "completed");
    // The call's own key is what the desk recognises a repetition by.
    let key = played.call("create_note").id.to_string();
    let kept: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM idempotency WHERE key = ? AND action = 'create_note'",
    )
    .bind(key)
    .fetch_one(rig.desk.pool())
    .await
    .unwrap();
    assert_eq!(kept, 1);
}

#[tokio::test]
async fn suggestions_end_the_turn() {
    // The script has one answer only: a second model call would fail the turn.
    let answer = calling(&[("suggest_replies", json!({"prompts": ["Yes", "No", "Yes"]}))]);
    let rig = Rig::new(script(vec![answer])).await;
    let played = rig.say("What could I say?").await;
    assert!(played.is_completed());
    assert_eq!(played.output("suggest_replies"), json!({"prompts": ["Yes", "No"]}));
}

#[tokio::test]
async fn the_plan_survives_turns_and_is_told_to_people() {
    let step = |step: &str, status: &str| json!({"step": step, "status": status});
    let rig = Rig::new(script(vec![
        calling(&[("plan_create", json!({"steps": [{"label": "Ask"}, {"label": "Act"}]}))]),
        text("Planned."),
        calling(&[
            ("plan_update_step", step("1", "completed")),
            ("plan_update_step", step("step 2", "running")),
            ("plan_update_step", step("3", "running")),
        ]),
        text("Updated."),
    ]))
    .await;
    let first = rig.say("Plan it").await;
    let plan = |ask: &str, act: &str| {
        json!({"steps": [
            {"id": "1", "label": "Ask", "status": ask}, {"id": "2", "label": "Act", "status": act},
        ]})
    };
    let told = |played: &crate::rig::Played| -> Vec<Value> {
        let plans = played.events.iter().filter_map(|event| match &event.kind {
            turnbuckle::core::event::EventKind::PlanUpdated { plan } => Some((**plan).clone()),
            _ => None,
        });
        plans.collect()
    };
    assert_eq!(told(&first), [plan("pending", "pending")]);
    let second = rig.say("Go on").await;
    assert_eq!(told(&second).last(), Some(&plan("completed", "running")));
    assert_eq!(
        second.error("plan_update_step"),
        "step: there is no step \"3\"; the plan has 1 to 2"
    );
}

#[tokio::test]
async fn plans_have_one_to_thirty_steps() {
    for steps in [0, 31] {
        let steps: Vec<Value> = (0..steps).map(|n| json!({"label": format!("S{n}")})).collect();
        let rig = Rig::calling(DEFAULT_USER, &[("plan_create", json!({ "steps": steps }))]).await;
        assert!(rig.say("Plan it").await.error("plan_create").contains("steps"));
    }
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused_with_a_way_out() {
    let rig = Rig::calling(
        DEFAULT_USER,
        &[
            ("find_threads", json!({"status": "open", "shared_with_me": true})),
            ("get_order", json!({"order": "BR-1"})),
            ("update_thread", json!({"thread": "1", "assignee": "Mara"})),
        ],
    )
    .await;
    let played = rig.say("Try").await;
    assert!(played.error("find_threads").contains("there is no argument `shared_with_me`"));
    assert!(played.error("get_order").starts_with("no order answers to \"BR-1\""));
    let ambiguous = played.error("update_thread");
    assert!(
        ambiguous.contains("Mara Lindqvist") && ambiguous.contains("Mara Castellanos"),
        "{ambiguous}"
    );
}
