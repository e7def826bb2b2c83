//! Tasks, orders, refunds, knowledge, notes and the directory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::{count, desk, ids, invalid, jonas, priya};
use desk::*;

#[tokio::test]
async fn a_task_takes_its_deadline_in_words() {
    let desk = desk().await;
    let caller = jonas(&desk).await;
    let args = CreateTask {
        title: "Call the carrier".into(),
        deadline: Some("next friday".into()),
        priority: Some(Priority::High),
        assignees: Some(vec!["me".into(), "Aoife Brennan".into(), "member:7".into()]),
        links: Some(vec!["order:BR-10005".into(), "contact:3".into()]),
        ..CreateTask::default()
    };
    let task = desk.create_task(&caller, &args, Some("t1")).await.unwrap();
    assert_eq!(task.deadline.as_deref(), Some("2026-11-27T23:59:59+01:00"));
    assert_eq!(
        task.assignees.iter().map(|m| m.name.as_str()).collect::<Vec<_>>(),
        ["Aoife Brennan", "Jonas Becker"]
    );
    assert_eq!(
        task.links.iter().map(|l| l.id.as_str()).collect::<Vec<_>>(),
        ["contact:3", "order:10005"]
    );
    assert!(!task.overdue);
    assert_eq!(desk.create_task(&caller, &args, Some("t1")).await.unwrap(), task);
    assert_eq!(
        count(&desk, "SELECT count(*) FROM tasks WHERE title = 'Call the carrier'").await,
        1
    );

    let soon = CreateTask { deadline: Some("soonish".into()), ..args.clone() };
    assert_eq!(
        desk.create_task(&caller, &soon, None).await.unwrap_err().to_string(),
        "deadline: \"soonish\" is no deadline the desk can read; use one of: tomorrow, friday at 15:00, \
         next monday, in 3 days, end of month, 12 march, 2027-03-12"
    );
    let past = CreateTask { deadline: Some("2026-11-17".into()), ..args.clone() };
    assert_eq!(
        invalid(desk.create_task(&caller, &past, None).await),
        ("deadline", "\"2026-11-17\" lies in the past".to_owned())
    );
    let bare = CreateTask { links: Some(vec!["17".into()]), ..args.clone() };
    assert_eq!(invalid(desk.create_task(&caller, &bare, None).await).0, "links");
    let long = CreateTask { title: "x".repeat(501), ..args };
    assert_eq!(
        invalid(desk.create_task(&caller, &long, None).await),
        ("title", "has 501 characters; at most 500 fit".to_owned())
    );
}

#[tokio::test]
async fn completing_twice_says_so() {
    let desk = desk().await;
    let caller = jonas(&desk).await;
    let title = CreateTask { title: "Only once".into(), ..CreateTask::default() };
    desk.create_task(&caller, &title, None).await.unwrap();
    let complete = CompleteTask { task: "only once".into() };
    let first = desk.complete_task(&caller, &complete, None).await.unwrap();
    assert_eq!(first.outcome, CompleteOutcome::Completed);
    assert_eq!(first.task.completed_at.as_deref(), Some("2026-11-18T10:30:00+01:00"));
    let second = desk.complete_task(&caller, &complete, None).await.unwrap();
    assert_eq!(second.outcome, CompleteOutcome::AlreadyCompleted);
}

#[tokio::test]
async fn task_filters_narrow() {
    let desk = desk().await;
    let caller = priya(&desk).await;
    let total = async |args: ListTasks| desk.list_tasks(&caller, &args).await.unwrap().total as i64;
    let base = ListTasks::default;
    assert_eq!(
        total(base()).await,
        count(&desk, "SELECT count(*) FROM tasks WHERE completed_at IS NULL").await
    );
    let urgent =
        ListTasks { priority: Some(Priority::Urgent), state: TaskState::Completed, ..base() };
    assert_eq!(
        total(urgent).await,
        count(
            &desk,
            "SELECT count(*) FROM tasks WHERE completed_at IS NOT NULL AND priority = 'urgent'"
        )
        .await
    );
    let nobody = ListTasks { assignee: Some("unassigned".into()), state: TaskState::All, ..base() };
    assert_eq!(
        total(nobody).await,
        count(
            &desk,
            "SELECT count(*) FROM tasks WHERE id NOT IN (SELECT task_id FROM task_assignees)"
        )
        .await
    );
    let overdue = ListTasks { due_before: Some("2026-11-18".into()), limit: Some(25), ..base() };
    let page = desk.list_tasks(&caller, &overdue).await.unwrap();
    assert!(page.total > 0 && page.tasks.iter().all(|task| task.overdue));
    let ahead = ListTasks { due_after: Some("2026-11-18".into()), ..base() };
    assert!(desk.list_tasks(&caller, &ahead).await.unwrap().tasks.iter().all(|task| !task.overdue));
    let none = ListTasks { search: Some("zzz".into()), ..base() };
    assert_eq!(
        desk.list_tasks(&caller, &none).await.unwrap().suggestion.unwrap(),
        "No task you can see matches all of these filters; completed tasks were left out, set state to all to include them."
    );
}

#[tokio::test]
async fn orders_are_found_by_every_filter() {
    let desk = desk().await;
    let caller = jonas(&desk).await;
    let total =
        async |args: FindOrders| desk.find_orders(&caller, &args).await.unwrap().total as i64;
    let base = FindOrders::default;
    assert_eq!(total(base()).await, count(&desk, "SELECT count(*) FROM orders").await);
    let cheap = FindOrders {
        max_total: Some(Amount { cents: 5_000 }),
        status: Some(OrderStatus::Delivered),
        ..base()
    };
    assert_eq!(
        total(cheap).await,
        count(
            &desk,
            "SELECT count(*) FROM orders WHERE total_cents <= 5000 AND status = 'delivered'"
        )
        .await
    );
    let product = FindOrders { query: Some("longneck".into()), ..base() };
    assert_eq!(
        total(product).await,
        count(&desk, "SELECT count(DISTINCT order_id) FROM order_lines WHERE sku = 'BR-K1'").await
    );
    let month = FindOrders {
        placed_after: Some("2026-10-01".into()),
        placed_before: Some("2026-11-01".into()),
        ..base()
    };
    assert_eq!(total(month).await, count(&desk, "SELECT count(*) FROM orders WHERE placed_at >= unixepoch('2026-09-30 22:00') AND placed_at < unixepoch('2026-10-31 23:00')").await);
    let company = FindOrders { company: Some("company:1".into()), ..base() };
    assert_eq!(
        total(company).await,
        count(&desk, "SELECT count(*) FROM orders WHERE company_id = 1").await
    );

    let dearest = FindOrders { sort_by: Some(OrderSort::Total), limit: Some(3), ..base() };
    let page = desk.find_orders(&caller, &dearest).await.unwrap();
    assert_eq!(
        page.orders[0].total.cents,
        count(&desk, "SELECT max(total_cents) FROM orders").await
    );
    let upside_down =
        FindOrders { min_total: Amount::parse("10"), max_total: Amount::parse("9.99"), ..base() };
    assert_eq!(invalid(desk.find_orders(&caller, &upside_down).await).0, "max_total");
    let unknown = FindOrders { contact: Some("nobody@nowhere.example".into()), ..base() };
    assert_eq!(desk.find_orders(&caller, &unknown).await.unwrap_err().code(), "not_found");
}

#[tokio::test]
async fn an_order_answers_to_its_number_and_its_tracking() {
    let desk = desk().await;
    let caller = jonas(&desk).await;
    let (id, tracking): (i64, String) = sqlx::query_as("SELECT id, tracking_number FROM orders WHERE tracking_number IS NOT NULL ORDER BY id LIMIT 1")
        .fetch_one(desk.pool()).await.unwrap();
    for form in [
        id.to_string(),
        format!("#{id}"),
        format!("BR-{id}"),
        format!("br-{id}"),
        format!("order:BR-{id}"),
        tracking,
    ] {
        let order = desk.get_order(&caller, &GetOrder { order: form.clone() }).await.unwrap();
        assert_eq!(order.order.id, ids::OrderId(id), "{form}");
        let lines: i64 =
            order.lines.iter().map(|line| line.unit_price.cents * line.quantity as i64).sum();
        assert_eq!(lines, order.order.total.cents);
    }
}

#[tokio::test]
async fn refunds_never_exceed_what_was_paid() {
    let desk = desk().await;
    let caller = priya(&desk).await;
    let id = ids(&desk, "SELECT id FROM orders WHERE status = 'delivered' AND refunded_cents = 0 AND total_cents > 10000 ORDER BY id").await[0];
    let total: i64 = sqlx::query_scalar("SELECT total_cents FROM orders WHERE id = ?")
        .bind(id)
        .fetch_one(desk.pool())
        .await
        .unwrap();
    let refund = |cents: Option<i64>| RefundOrder {
        order: id.to_string(),
        amount: cents.map(|cents| Amount { cents }),
        reason: "Scratched".into(),
    };
    let first = desk.refund_order(&caller, &refund(Some(2_550)), Some("r1")).await.unwrap();
    assert_eq!((first.amount.cents, first.refundable.cents), (2_550, total - 2_550));
    assert_eq!(serde_json::to_value(&first).unwrap()["amount"], "25.50");
    assert_eq!(desk.refund_order(&caller, &refund(Some(2_550)), Some("r1")).await.unwrap(), first);

    for cents in [0, -100, total - 2_549] {
        let (field, message) =
            invalid(desk.refund_order(&caller, &refund(Some(cents)), None).await);
        assert_eq!(field, "amount");
        assert!(
            message.ends_with(&format!("0.01 to {} EUR can be given back", first.refundable)),
            "{message}"
        );
    }
    let rest = desk.refund_order(&caller, &refund(None), None).await.unwrap();
    assert_eq!((rest.amount.cents, rest.refundable.cents), (total - 2_550, 0));
    assert_eq!(
        invalid(desk.refund_order(&caller, &refund(None), None).await),
        ("order", format!("BR-{id} is refunded in full already"))
    );
    let order = desk.get_order(&caller, &GetOrder { order: id.to_string() }).await.unwrap();
    assert_eq!(
        (order.refunds.len(), order.order.refunded.cents, order.refundable.cents),
        (2, total, 0)
    );

    let cancelled =
        ids(&desk, "SELECT id FROM orders WHERE status = 'cancelled' ORDER BY id").await[0];
    let args = RefundOrder { order: cancelled.to_string(), reason: "x".into(), amount: None };
    assert_eq!(
        invalid(desk.refund_order(&caller, &args, None).await),
        ("order", format!("BR-{cancelled} is cancelled, so there is no payment to give back"))
    );
    let silent = RefundOrder { reason: " ".into(), ..args };
    assert_eq!(invalid(desk.refund_order(&caller, &silent, None).await).0, "reason");
}

#[tokio::test]
async fn knowledge_is_ranked_and_says_how_it_matched() {
    let desk = desk().await;
    let caller = jonas(&desk).await;
    let search = async |query: &str| {
        let args = SearchKnowledge { query: query.into(), ..SearchKnowledge::default() };
        desk.search_knowledge(&caller, &args).await.unwrap()
    };
    for (query, title) in [
        ("How do I descale the Bramling Duo?", "Descaling the Bramling Duo"),
        ("cleaning Pocketmill", "Cleaning the Pocketmill"),
        ("customs duty on a parcel", "Customs, duties and import tax"),
        ("pause subscription", "Pausing, skipping and ending a subscription"),
        ("vat number invoice", "Invoices and VAT numbers"),
    ] {
        assert_eq!(search(query).await.results[0].title, title, "{query}");
    }
    let all = search("vinegar seals").await;
    assert_eq!(all.matched, KnowledgeMatch::AllWords);
    assert!(all.results[0].snippet.to_lowercase().contains("vinegar"));
    let some = search("vinegar helicopter").await;
    assert_eq!(some.matched, KnowledgeMatch::SomeWords);
    let none = search("helicopter").await;
    assert_eq!((none.total, none.results.len()), (0, 0));
    assert!(none.suggestion.is_some());

    let many =
        SearchKnowledge { query: "coffee".into(), limit: Some(99), ..SearchKnowledge::default() };
    let page = desk.search_knowledge(&caller, &many).await.unwrap();
    assert_eq!(page.results.len(), 10);
    assert!(page.total > 10);
    let care = SearchKnowledge {
        query: "coffee".into(),
        category: Some("care".into()),
        ..SearchKnowledge::default()
    };
    assert!(
        desk.search_knowledge(&caller, &care)
            .await
            .unwrap()
            .results
            .iter()
            .all(|hit| hit.category == "Care")
    );
    for hostile in ["\"", "AND", "a* NEAR(b)", "title:x", "()"] {
        let args = SearchKnowledge { query: hostile.into(), ..SearchKnowledge::default() };
        match desk.search_knowledge(&caller, &args).await {
            Ok(_) => {}
            Err(error) => assert_eq!(error.code(), "invalid", "{hostile}"),
        }
    }
}

#[tokio::test]
async fn articles_answer_to_id_slug_and_title() {
    let desk = desk().await;
    let caller = jonas(&desk).await;
    for form in [
        "descaling-the-bramling-one",
        "Descaling the Bramling One",
        "article:descaling-the-bramling-one",
    ] {
        let article =
            desk.get_article(&caller, &GetArticle { article: form.into() }).await.unwrap();
        assert_eq!(article.slug, "descaling-the-bramling-one");
        assert!(article.body.contains("every 60 litres"));
    }
    let near =
        desk.get_article(&caller, &GetArticle { article: "descaling".into() }).await.unwrap_err();
    assert_eq!((near.code(), near.candidates().len()), ("not_found", 3));
}

#[tokio::test]
async fn notes_follow_what_they_are_on() {
    let desk = desk().await;
    let caller = jonas(&desk).await;
    let args = CreateNote { record: "contact:4".into(), body: "Prefers mail.".into() };
    let note = desk.create_note(&caller, &args, Some("n")).await.unwrap();
    assert_eq!(desk.create_note(&caller, &args, Some("n")).await.unwrap(), note);
    let list = desk
        .list_notes(&caller, &ListNotes { record: "contact:4".into(), limit: None })
        .await
        .unwrap();
    assert_eq!(list.items[0], note);
    let bare = ListNotes { record: "4".into(), limit: None };
    assert_eq!(invalid(desk.list_notes(&caller, &bare).await).0, "record");
}

#[tokio::test]
async fn members_are_listed_without_those_who_left() {
    let desk = desk().await;
    let caller = jonas(&desk).await;
    let all = desk
        .list_members(&caller, &ListMembers { limit: Some(50), ..ListMembers::default() })
        .await
        .unwrap();
    assert_eq!((all.total, all.items.len()), (34, 34));
    assert!(all.items.iter().all(|member| member.name != "Oscar Lindgren"));
    let maras = ListMembers { query: Some("mara".into()), ..ListMembers::default() };
    assert_eq!(desk.list_members(&caller, &maras).await.unwrap().total, 2);
    let owner = ListMembers { role: Some(Role::Owner), ..ListMembers::default() };
    assert_eq!(desk.list_members(&caller, &owner).await.unwrap().items[0].name, "Helen Okafor");
    let none = ListMembers { query: Some("zzz".into()), ..ListMembers::default() };
    assert!(desk.list_members(&caller, &none).await.unwrap().suggestion.is_some());
}

#[tokio::test]
async fn contacts_answer_to_phone_and_mail_and_are_never_guessed() {
    let desk = desk().await;
    let caller = jonas(&desk).await;
    sqlx::query("UPDATE contacts SET phone = NULL WHERE id <> 2")
        .execute(desk.pool())
        .await
        .unwrap();
    sqlx::query("UPDATE contacts SET phone = '+493023125014', name = 'Unique Person' WHERE id = 2")
        .execute(desk.pool())
        .await
        .unwrap();
    let email: String = sqlx::query_scalar("SELECT upper(email) FROM contacts WHERE id = 2")
        .fetch_one(desk.pool())
        .await
        .unwrap();
    let orders = count(&desk, "SELECT count(*) FROM orders WHERE contact_id = 2").await as u64;
    for form in ["+49 (0)30 23125-014", "unique person", &email, "contact:2", "2"] {
        let args = FindOrders { contact: Some(form.into()), ..FindOrders::default() };
        assert_eq!(desk.find_orders(&caller, &args).await.unwrap().total, orders, "{form}");
    }
    let part = FindOrders { contact: Some("Unique".into()), ..FindOrders::default() };
    let error = desk.find_orders(&caller, &part).await.unwrap_err();
    assert_eq!((error.code(), error.candidates()[0].id.as_str()), ("not_found", "contact:2"));
}
