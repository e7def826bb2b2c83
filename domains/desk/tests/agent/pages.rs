//! Which tools there are: by page, by right, by who asks; and what the page fills in.

use crate::rig::{Rig, calling, from_page, offered, prompt, watched};
use desk::agent::{DEFAULT_USER, DeskDomain, Users};
use serde_json::{Value, json};
use turnbuckle::core::model::ModelRequest;
use turnbuckle::models::scripted::text;

const MAIL: [&str; 7] = [
    "find_threads",
    "get_thread",
    "list_drafts",
    "list_tags",
    "reply_to_thread",
    "start_conversation",
    "update_thread",
];

/// The request that a message from a page makes, for a user.
async fn request(user: &str, page: Option<&str>, references: &[Value]) -> ModelRequest {
    let (model, watch) = watched(vec![text("Hello.")]);
    let rig = Rig::of(model, user).await;
    match page {
        Some(page) => rig.say(from_page("Hello", page, references)).await,
        None => rig.say("Hello").await,
    };
    watch.requests().remove(0)
}

fn mail_of(request: &ModelRequest) -> Vec<String> {
    let mut names: Vec<String> =
        offered(request).into_iter().filter(|name| MAIL.contains(&name.as_str())).collect();
    names.sort();
    names
}

#[tokio::test]
async fn mail_tools_are_on_the_mail_page_only() {
    assert_eq!(mail_of(&request(DEFAULT_USER, Some("mail"), &[]).await), MAIL);
    assert_eq!(
        mail_of(&request(DEFAULT_USER, None, &[]).await),
        MAIL,
        "a terminal is on the mail page"
    );
    for page in ["orders", "a page nobody knows"] {
        let request = request(DEFAULT_USER, Some(page), &[]).await;
        assert_eq!(mail_of(&request), [""; 0], "{page}");
        assert!(offered(&request).contains(&"list_members".to_owned()));
        let prompt = prompt(&request);
        assert!(!prompt.contains("find_threads") && !prompt.contains("Mail: search"), "{prompt}");
    }
}

#[tokio::test]
async fn a_tool_of_another_page_is_refused_as_not_here() {
    let (model, _) =
        watched(vec![calling(&[("find_threads", json!({"status": "open"}))]), text("Not here.")]);
    let rig = Rig::new(model).await;
    let played = rig.say(from_page("Look", "orders", &[])).await;
    assert!(
        played.error("find_threads").starts_with("The tool `find_threads` is not available here.")
    );
}

#[tokio::test]
async fn what_a_member_may_not_do_is_not_offered_and_refused() {
    let jonas = request("jonas.becker@bramling.example", None, &[]).await;
    assert!(!offered(&jonas).contains(&"refund_order".to_owned()));
    assert!(offered(&jonas).contains(&"reply_to_thread".to_owned()));
    let robin = request("robin.teller@bramling.example", None, &[]).await;
    assert_eq!(mail_of(&robin), ["find_threads", "get_thread", "list_drafts", "list_tags"]);
    assert!(!offered(&robin).contains(&"find_orders".to_owned()));

    let args = json!({"order": "BR-10005", "reason": "x"});
    let rig = Rig::calling("jonas.becker@bramling.example", &[("refund_order", args)]).await;
    let played = rig.say("Refund it").await;
    assert!(played.error("refund_order").starts_with("TOOL_NOT_ENABLED"));
    assert_eq!(played.cards().len(), 0);
}

#[tokio::test]
async fn mail_of_a_closed_inbox_is_nobodys_business() {
    let rig = Rig::calling(
        "robin.teller@bramling.example",
        &[("find_threads", json!({"status": "open", "limit": 25}))],
    )
    .await;
    let found = rig.say("Show all").await.output("find_threads");
    let inboxes: Vec<&str> = found["threads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|thread| thread["inbox"]["name"].as_str().unwrap())
        .collect();
    assert!(inboxes.iter().all(|name| ["Customer Support", "Orders and Shipping"].contains(name)));
    assert_eq!(
        found["total"],
        rig.count("SELECT count(*) FROM threads WHERE status = 'open' AND inbox_id IN (1, 2)")
            .await
    );
}

#[tokio::test]
async fn a_right_that_was_withdrawn_is_withdrawn_at_once() {
    let args = json!({"title": "Call"});
    let rig = Rig::calling(DEFAULT_USER, &[("create_task", args)]).await;
    sqlx::query("DELETE FROM member_rights WHERE member_id = 2 AND right = 'write_tasks'")
        .execute(rig.desk.pool())
        .await
        .unwrap();
    let played = rig.say("Note it").await;
    assert!(played.error("create_task").starts_with("you may not create or complete tasks"));
}

#[tokio::test]
async fn a_stranger_is_told_so_and_learns_nothing() {
    for stranger in ["stranger@elsewhere.example", "Priya Raman", "7"] {
        let rig = Rig::calling(stranger, &[("list_members", json!({}))]).await;
        let error = rig.say("Who works here?").await.error("list_members");
        assert!(
            error.starts_with(&format!("This session runs for `{stranger}`, who is no member")),
            "{error}"
        );
        assert!(!error.contains("Raman, ") && !error.contains("member:"), "{error}");
    }
}

#[tokio::test]
async fn users_can_be_listed_as_members() {
    let desk = crate::rig::desk().await;
    let users = Users::new().with("local", "member:7");
    let domain = DeskDomain::new(desk.clone()).await.unwrap().with_users(users);
    let (model, watch) =
        watched(vec![calling(&[("list_tasks", json!({"assignee": "me"}))]), text("Yours.")]);
    let rig = Rig::with(desk, domain, model, "local").await;
    let played = rig.say("My tasks?").await;
    assert!(played.output("list_tasks")["total"].is_u64());
    assert!(prompt(&watch.requests()[0]).contains("You act for Jonas Becker (Support Agent, "));
}

#[tokio::test]
async fn the_prompt_knows_the_time_the_page_and_the_person() {
    let reference = json!({"id": "thread:4", "name": "Late parcel", "origin": "mention"});
    let request = request("jonas.becker@bramling.example", Some("mail"), &[reference]).await;
    let prompt = prompt(&request);
    assert!(prompt.contains("(Europe/Berlin, UTC"), "{prompt}");
    assert!(prompt.contains("The user is on the page `mail`."));
    assert!(prompt.contains("- thread:4 (Late parcel), mentioned"));
    assert!(prompt.contains("Customer Support <support@bramling.example> (write)"));
    assert!(!prompt.contains("People Operations"), "a private group is not told of");
    let cached: Vec<bool> = request.system.iter().map(|block| block.cache).collect();
    assert_eq!(cached, [true, true, false]);
}

#[tokio::test]
async fn what_is_open_fills_in_what_is_missing() {
    let thread = json!({"id": "thread:1", "origin": "page"});
    let order = json!({"id": "order:10005", "origin": "page"});
    let (model, _) = watched(vec![calling(&[("get_order", json!({}))]), text("Read.")]);
    let rig = Rig::new(model).await;
    let played = rig.say(from_page("Read it", "orders", &[thread, order])).await;
    assert_eq!(played.output("get_order")["order"]["id"], "order:10005");
}

#[tokio::test]
async fn of_several_open_threads_none_is_taken() {
    let open = |id: u32| json!({"id": format!("thread:{id}"), "origin": "page"});
    let mention = |id: u32| json!({"id": format!("thread:{id}"), "origin": "mention"});
    let read = || vec![calling(&[("get_thread", json!({}))]), text("Read.")];
    let rig = Rig::new(watched(read()).0).await;
    let played = rig.say(from_page("Read it", "mail", &[open(1), open(2)])).await;
    let error = played.error("get_thread");
    assert!(error.contains("several could be meant: thread:1, thread:2"), "{error}");

    let readable = rig
        .find("SELECT 'thread:' || id FROM threads WHERE inbox_id = 1 ORDER BY id LIMIT 1")
        .await;
    let id: u32 = readable.trim_start_matches("thread:").parse().unwrap();
    let rig = Rig::new(watched(read()).0).await;
    let played = rig.say(from_page("Read it", "mail", &[open(900), open(901), mention(id)])).await;
    assert_eq!(played.output("get_thread")["thread"]["id"], readable);
}
