//! What a member may not see does not exist for them, in results and in errors alike.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::{count, desk, ids, jonas, priya, robin, text};
use desk::*;

#[tokio::test]
async fn a_hidden_thread_reads_like_one_that_is_not_there() {
    let desk = desk().await;
    let caller = jonas(&desk).await;
    let hidden = ids(&desk, "SELECT id FROM threads WHERE inbox_id = 8 ORDER BY id").await[0];
    let shape = |error: DeskError, given: &str| error.to_string().replace(given, "X");
    for given in [hidden.to_string(), format!("thread:{hidden}")] {
        let absent = given.replace(&hidden.to_string(), "999999");
        let get = |thread: &str| GetThread { thread: thread.into(), ..GetThread::default() };
        assert_eq!(
            shape(desk.get_thread(&caller, &get(&given)).await.unwrap_err(), &given),
            shape(desk.get_thread(&caller, &get(&absent)).await.unwrap_err(), &absent)
        );
        let update = |thread: &str| UpdateThread {
            thread: thread.into(),
            status: Some(ThreadStatus::Open),
            ..UpdateThread::default()
        };
        assert_eq!(
            shape(desk.update_thread(&caller, &update(&given), None).await.unwrap_err(), &given),
            shape(desk.update_thread(&caller, &update(&absent), None).await.unwrap_err(), &absent)
        );
        let reply = |thread: &str| ReplyToThread {
            thread: thread.into(),
            body: "x".into(),
            ..ReplyToThread::default()
        };
        assert_eq!(
            shape(desk.reply_to_thread(&caller, &reply(&given), None).await.unwrap_err(), &given),
            shape(desk.reply_to_thread(&caller, &reply(&absent), None).await.unwrap_err(), &absent)
        );
        let note = |thread: &str| ListNotes {
            record: format!("thread:{}", thread.trim_start_matches("thread:")),
            limit: None,
        };
        assert_eq!(desk.list_notes(&caller, &note(&given)).await.unwrap_err().code(), "not_found");
    }
    // Not by its subject either, and not as a candidate for something near it.
    let subject =
        text(&desk, "SELECT subject FROM threads WHERE inbox_id = 8 ORDER BY id LIMIT 1").await;
    let half: String = subject.chars().take(12).collect();
    for given in [subject, half] {
        let error = desk
            .get_thread(&caller, &GetThread { thread: given, ..GetThread::default() })
            .await
            .unwrap_err();
        assert_eq!(error.code(), "not_found");
        assert!(
            error.candidates().iter().all(|candidate| candidate.id != format!("thread:{hidden}"))
        );
    }
}

#[tokio::test]
async fn no_search_finds_mail_of_other_inboxes() {
    let desk = desk().await;
    let caller = robin(&desk).await;
    let readable = ids(&desk, "SELECT id FROM threads WHERE inbox_id IN (1, 2)").await;
    assert!(count(&desk, "SELECT count(*) FROM threads WHERE inbox_id NOT IN (1, 2)").await > 50);
    let base = FindThreads { limit: Some(25), ..FindThreads::default() };
    for args in [
        FindThreads { query: Some("the".into()), ..base.clone() },
        FindThreads { sender: Some("example".into()), ..base.clone() },
        FindThreads { status: Some(ThreadStatus::Open), ..base.clone() },
        FindThreads { assignee: Some("Victor Lang".into()), ..base.clone() },
        FindThreads { tags: Some(vec!["invoice".into()]), ..base.clone() },
        FindThreads { after: Some("2020-01-01".into()), ..base.clone() },
    ] {
        let mut args = args;
        let mut seen = 0;
        loop {
            let page = desk.find_threads(&caller, &args).await.unwrap();
            assert!(page.threads.iter().all(|thread| readable.contains(&thread.id.0)));
            assert!(
                page.threads.iter().all(|thread| thread.order.is_none()),
                "orders are hidden too"
            );
            seen += page.threads.len();
            match page.next_offset {
                Some(next) => args.offset = Some(next as i64),
                None => {
                    assert_eq!(page.total, seen as u64);
                    break;
                }
            }
        }
    }
}

#[tokio::test]
async fn without_a_right_its_subject_is_closed() {
    let desk = desk().await;
    let caller = robin(&desk).await;
    let forbidden = |error: DeskError, what: &str| {
        assert_eq!(
            error.to_string(),
            format!(
                "you may not {what}; ask an administrator of the desk if you should be able to"
            )
        );
    };
    forbidden(desk.find_orders(&caller, &FindOrders::default()).await.unwrap_err(), "read orders");
    let existing = GetOrder { order: "10001".into() };
    let absent = GetOrder { order: "99999".into() };
    forbidden(desk.get_order(&caller, &existing).await.unwrap_err(), "read orders");
    forbidden(desk.get_order(&caller, &absent).await.unwrap_err(), "read orders");
    let task = CreateTask { title: "x".into(), ..CreateTask::default() };
    forbidden(
        desk.create_task(&caller, &task, None).await.unwrap_err(),
        "create or complete tasks",
    );
    let refund =
        RefundOrder { order: "10001".into(), reason: "x".into(), ..RefundOrder::default() };
    forbidden(
        desk.refund_order(&jonas(&desk).await, &refund, None).await.unwrap_err(),
        "refund orders",
    );

    let mut blind = priya(&desk).await;
    blind.rights = blind.rights.without(Right::ReadMail);
    let open = FindThreads { status: Some(ThreadStatus::Open), ..FindThreads::default() };
    forbidden(desk.find_threads(&blind, &open).await.unwrap_err(), "read mail");
    forbidden(desk.list_drafts(&blind, &ListDrafts::default()).await.unwrap_err(), "read mail");
    let get = GetThread { thread: "1".into(), ..GetThread::default() };
    forbidden(desk.get_thread(&blind, &get).await.unwrap_err(), "read mail");
}

#[tokio::test]
async fn internal_articles_stay_inside() {
    let desk = desk().await;
    let title = "Goodwill: what may be given";
    let search = SearchKnowledge { query: "goodwill voucher".into(), ..SearchKnowledge::default() };
    let inside = desk.search_knowledge(&jonas(&desk).await, &search).await.unwrap();
    assert_eq!(inside.results[0].title, title);
    let outside = desk.search_knowledge(&robin(&desk).await, &search).await.unwrap();
    assert!(outside.results.iter().all(|hit| hit.audience == Audience::Public));

    // A member who may read them can still ask for what a customer may read.
    let public = SearchKnowledge { audience: Some(Audience::Public), ..search };
    let shown = desk.search_knowledge(&jonas(&desk).await, &public).await.unwrap();
    assert!(shown.results.iter().all(|hit| hit.audience == Audience::Public));

    let get = GetArticle { article: title.into() };
    assert_eq!(desk.get_article(&jonas(&desk).await, &get).await.unwrap().title, title);
    assert_eq!(desk.get_article(&robin(&desk).await, &get).await.unwrap_err().code(), "not_found");
    let category = SearchKnowledge {
        query: "refund".into(),
        category: Some("Procedures".into()),
        ..SearchKnowledge::default()
    };
    let error = desk.search_knowledge(&robin(&desk).await, &category).await.unwrap_err();
    match error {
        DeskError::Invalid { field: "category", allowed, .. } => {
            assert!(
                allowed.contains(&"Shipping".to_owned())
                    && !allowed.contains(&"Procedures".to_owned())
            );
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn private_groups_show_only_to_their_members() {
    let desk = desk().await;
    let names = async |caller: &Caller| {
        let list = desk
            .list_groups(caller, &ListGroups { limit: Some(50), ..ListGroups::default() })
            .await
            .unwrap();
        assert_eq!(list.total, list.items.len() as u64);
        list.items.into_iter().map(|group| group.name).collect::<Vec<_>>()
    };
    let agent = names(&jonas(&desk).await).await;
    assert_eq!(agent.len(), 10);
    assert!(!agent.contains(&"Leadership".to_owned()));
    assert!(names(&priya(&desk).await).await.contains(&"Leadership".to_owned()));
}

#[tokio::test]
async fn tasks_of_others_and_links_to_hidden_mail_stay_hidden() {
    let desk = desk().await;
    let lead = priya(&desk).await;
    let agent = jonas(&desk).await;
    let all = ListTasks { state: TaskState::All, ..ListTasks::default() };
    let everything = desk.list_tasks(&lead, &all).await.unwrap().total;
    assert_eq!(everything as i64, count(&desk, "SELECT count(*) FROM tasks").await);
    let own = desk.list_tasks(&agent, &all).await.unwrap().total;
    let expected = count(&desk, "SELECT count(*) FROM tasks WHERE created_by = 7 OR id IN (SELECT task_id FROM task_assignees WHERE member_id = 7)").await;
    assert_eq!(own as i64, expected);

    let billing = ids(
        &desk,
        "SELECT id FROM threads WHERE inbox_id = 4 AND order_id IS NOT NULL ORDER BY id",
    )
    .await[0];
    let shared = CreateTask {
        title: "Look at this together".into(),
        assignees: Some(vec!["jonas-becker".into()]),
        links: Some(vec![format!("thread:{billing}"), "contact:1".into()]),
        ..CreateTask::default()
    };
    let task = desk.create_task(&lead, &shared, None).await.unwrap();
    assert_eq!(task.links.len(), 2);
    let search = ListTasks { search: Some("look at this".into()), ..ListTasks::default() };
    let seen = desk.list_tasks(&agent, &search).await.unwrap();
    assert_eq!(
        seen.tasks[0].links.iter().map(|link| link.id.as_str()).collect::<Vec<_>>(),
        ["contact:1"]
    );

    // Nor can a hidden thread be linked to, which would show its subject.
    let sneaky = CreateTask {
        title: "x".into(),
        links: Some(vec![format!("thread:{billing}")]),
        ..CreateTask::default()
    };
    assert_eq!(desk.create_task(&agent, &sneaky, None).await.unwrap_err().code(), "not_found");
    let other = ids(&desk, "SELECT id FROM tasks WHERE created_by <> 7 AND id NOT IN (SELECT task_id FROM task_assignees WHERE member_id = 7)").await[0];
    let complete = CompleteTask { task: format!("task:{other}") };
    assert_eq!(desk.complete_task(&agent, &complete, None).await.unwrap_err().code(), "not_found");
}

#[tokio::test]
async fn an_order_shows_only_threads_the_caller_may_read() {
    let desk = desk().await;
    let (order, threads): (i64, i64) = sqlx::query_as(
        "SELECT order_id, count(*) FROM threads WHERE inbox_id = 4 AND order_id IS NOT NULL
           AND order_id NOT IN (SELECT order_id FROM threads WHERE inbox_id <> 4 AND order_id IS NOT NULL)
         GROUP BY order_id ORDER BY order_id LIMIT 1",
    )
    .fetch_one(desk.pool())
    .await
    .unwrap();
    let get = GetOrder { order: format!("order:{order}") };
    assert_eq!(
        desk.get_order(&priya(&desk).await, &get).await.unwrap().threads.len() as i64,
        threads
    );
    assert_eq!(desk.get_order(&jonas(&desk).await, &get).await.unwrap().threads, []);
}

#[tokio::test]
async fn rights_end_with_the_grant_and_the_membership() {
    let desk = desk().await;
    let caller = jonas(&desk).await;
    let support = FindThreads { inbox: Some("support".into()), ..FindThreads::default() };
    assert!(desk.find_threads(&caller, &support).await.unwrap().total > 0);
    sqlx::query("DELETE FROM group_members WHERE member_id = 7")
        .execute(desk.pool())
        .await
        .unwrap();
    assert_eq!(desk.find_threads(&caller, &support).await.unwrap_err().code(), "not_found");

    let gone = desk.caller("oscar.lindgren@bramling.example").await.unwrap_err();
    assert_eq!(gone.code(), "forbidden");
    assert_eq!(desk.caller("me").await.unwrap_err().code(), "not_found");
}
