//! Finding and reading threads: filters narrow or are refused, never dropped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::{count, desk, ids, invalid, jonas, priya, robin, text};
use desk::{DeskError, FindThreads, GetThread, ListTags, ThreadSort, ThreadStatus};

fn find() -> FindThreads {
    FindThreads::default()
}

#[tokio::test]
async fn a_search_without_any_filter_is_refused() {
    let desk = desk().await;
    let caller = priya(&desk).await;
    let only_paging = FindThreads {
        limit: Some(5),
        offset: Some(2),
        sort_by: Some(ThreadSort::Subject),
        ..find()
    };
    for args in [find(), only_paging] {
        let error = desk.find_threads(&caller, &args).await.unwrap_err();
        assert_eq!(error.code(), "invalid");
        assert_eq!(
            error.to_string(),
            "filters: none was named, and all threads of the desk are no answer to anything; use one of: query, sender, status, assignee, contact, tags, inbox, after, before"
        );
    }
}

#[tokio::test]
async fn empty_filters_are_refused_rather_than_dropped() {
    let desk = desk().await;
    let caller = priya(&desk).await;
    let some = || Some(" ".to_owned());
    for (field, args) in [
        ("query", FindThreads { query: some(), ..find() }),
        ("sender", FindThreads { sender: some(), ..find() }),
        ("assignee", FindThreads { assignee: some(), ..find() }),
        ("contact", FindThreads { contact: some(), ..find() }),
        ("inbox", FindThreads { inbox: some(), ..find() }),
        ("after", FindThreads { after: some(), ..find() }),
        ("before", FindThreads { before: some(), ..find() }),
        ("tags", FindThreads { tags: Some(vec![]), ..find() }),
        ("tags", FindThreads { tags: Some(vec![" ".into()]), ..find() }),
        ("query", FindThreads { query: Some("?! --".into()), ..find() }),
    ] {
        assert_eq!(invalid(desk.find_threads(&caller, &args).await).0, field);
    }
}

#[tokio::test]
async fn impossible_dates_are_refused() {
    let desk = desk().await;
    let caller = priya(&desk).await;
    let range = |after: &str, before: &str| {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        FindThreads { after: some(after), before: some(before), ..find() }
    };
    for (args, field, message) in [
        (range("last week", ""), "after", "\"last week\" is no date of the calendar"),
        (range("", "2026-02-30"), "before", "\"2026-02-30\" is no date of the calendar"),
        (range("20261118", ""), "after", "\"20261118\" is no date of the calendar"),
        (range("now-30d", ""), "after", "\"now-30d\" is no date of the calendar"),
        (
            range("2026-11-10", "2026-11-10"),
            "before",
            "must lie later than after, or nothing can be found",
        ),
        (
            range("2026-11-10", "2026-11-01"),
            "before",
            "must lie later than after, or nothing can be found",
        ),
        (
            range("2026-11-19", ""),
            "after",
            "lies in the future (now is 2026-11-18T09:30:00+00:00), so nothing can be found",
        ),
    ] {
        assert_eq!(invalid(desk.find_threads(&caller, &args).await), (field, message.to_owned()));
    }
}

#[tokio::test]
async fn unknown_values_list_only_what_the_caller_may_see() {
    let desk = desk().await;
    let caller = robin(&desk).await;
    let args = FindThreads { inbox: Some("escalations".into()), ..find() };
    let error = desk.find_threads(&caller, &args).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "no inbox answers to \"escalations\" among those you can see; did you mean inbox:1 (Customer Support, support@bramling.example), inbox:2 (Orders and Shipping, orders@bramling.example)"
    );
    // A hidden inbox reads exactly like one that does not exist.
    for hidden in ["legal", "inbox:8", "Legal", "legal@bramling.example"] {
        let args = FindThreads { inbox: Some(hidden.into()), ..find() };
        let error = desk.find_threads(&caller, &args).await.unwrap_err();
        assert_eq!(error.code(), "not_found");
        assert!(
            error.candidates().iter().all(|c| c.id == "inbox:1" || c.id == "inbox:2"),
            "{error}"
        );
    }
    let args = FindThreads { assignee: Some("Zebedee".into()), ..find() };
    let error = desk.find_threads(&caller, &args).await.unwrap_err();
    assert_eq!((error.code(), error.candidates().len()), ("not_found", 10));
    let args = FindThreads { tags: Some(vec!["urgent".into(), "urgnt".into()]), ..find() };
    let error = desk.find_threads(&caller, &args).await.unwrap_err();
    assert_eq!(error.code(), "not_found");
}

#[tokio::test]
async fn unknown_arguments_are_refused_with_the_known_ones() {
    let error =
        serde_json::from_str::<FindThreads>(r#"{"status": "open", "shared": false}"#).unwrap_err();
    assert!(
        error.to_string().starts_with("unknown field `shared`, expected one of `query`, `sender`"),
        "{error}"
    );
    assert!(serde_json::from_str::<FindThreads>(r#"{"status": "deleted"}"#).is_err());
    let schema = serde_json::to_value(schemars::schema_for!(FindThreads)).unwrap();
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(
        schema["properties"]["limit"]["description"],
        "How many at most; 10 unless told, never more than 25."
    );
}

#[tokio::test]
async fn spam_and_trash_are_left_out_unless_named() {
    let desk = desk().await;
    let caller = priya(&desk).await;
    let support = FindThreads { inbox: Some("support".into()), ..find() };
    let total = desk.find_threads(&caller, &support).await.unwrap().total;
    let expected = count(
        &desk,
        "SELECT count(*) FROM threads WHERE inbox_id = 1 AND status IN ('open', 'archived')",
    )
    .await;
    assert_eq!(total, expected as u64);

    let spam = FindThreads { status: Some(ThreadStatus::Spam), ..support.clone() };
    let page = desk.find_threads(&caller, &spam).await.unwrap();
    let expected =
        count(&desk, "SELECT count(*) FROM threads WHERE inbox_id = 1 AND status = 'spam'").await;
    assert_eq!(page.total, expected as u64);
    assert!(page.threads.iter().all(|thread| thread.status == ThreadStatus::Spam));
}

#[tokio::test]
async fn limits_clamp_and_pages_meet_without_gap() {
    let desk = desk().await;
    let caller = priya(&desk).await;
    let page = |limit: Option<i64>, offset: Option<i64>| FindThreads {
        inbox: Some("support".into()),
        limit,
        offset,
        ..find()
    };
    for (asked, given) in [(None, 10), (Some(500), 25), (Some(0), 1), (Some(-4), 1), (Some(7), 7)] {
        let found = desk.find_threads(&caller, &page(asked, None)).await.unwrap();
        assert_eq!(found.threads.len(), given);
    }
    let mut seen = Vec::new();
    let mut offset = Some(0);
    let mut total = 0;
    while let Some(next) = offset {
        let found = desk.find_threads(&caller, &page(Some(25), Some(next as i64))).await.unwrap();
        seen.extend(found.threads.iter().map(|thread| (thread.last_message_at.clone(), thread.id)));
        total = found.total;
        offset = found.next_offset;
    }
    let expected = ids(
        &desk,
        "SELECT id FROM threads WHERE inbox_id = 1 AND status IN ('open', 'archived')
         ORDER BY last_message_at DESC, id DESC",
    )
    .await;
    assert_eq!(seen.iter().map(|(_, id)| id.0).collect::<Vec<_>>(), expected);
    assert_eq!(total, expected.len() as u64);

    let beyond = desk.find_threads(&caller, &page(None, Some(100_000))).await.unwrap();
    assert_eq!(
        beyond.suggestion.unwrap(),
        format!("{total} threads match, but the offset lies beyond the last of them.")
    );
}

#[tokio::test]
async fn every_named_filter_narrows() {
    let desk = desk().await;
    let caller = priya(&desk).await;
    let args = FindThreads {
        query: Some("refund".into()),
        tags: Some(vec!["refund".into()]),
        status: Some(ThreadStatus::Archived),
        inbox: Some("billing".into()),
        ..find()
    };
    let expected = count(
        &desk,
        "SELECT count(*) FROM threads t WHERE status = 'archived' AND inbox_id = 4
           AND EXISTS (SELECT 1 FROM thread_tags x JOIN tags g ON g.id = x.tag_id WHERE x.thread_id = t.id AND g.slug = 'refund')
           AND EXISTS (SELECT 1 FROM messages m WHERE m.thread_id = t.id AND (lower(m.body) LIKE '%refund%' OR lower(m.subject) LIKE '%refund%'))",
    )
    .await;
    assert!(expected > 0);
    assert_eq!(desk.find_threads(&caller, &args).await.unwrap().total, expected as u64);

    let nobody = FindThreads {
        assignee: Some("unassigned".into()),
        inbox: Some("support".into()),
        ..find()
    };
    let page = desk.find_threads(&caller, &nobody).await.unwrap();
    assert!(page.total > 0 && page.threads.iter().all(|thread| thread.assignee.is_none()));

    let mine = FindThreads { assignee: Some("me".into()), ..find() };
    let page = desk.find_threads(&jonas(&desk).await, &mine).await.unwrap();
    assert!(page.total > 0);
    assert!(
        page.threads.iter().all(|thread| thread.assignee.as_ref().unwrap().name == "Jonas Becker")
    );
}

#[tokio::test]
async fn words_may_lie_in_different_messages_and_quotes_do_no_harm() {
    let desk = desk().await;
    let caller = priya(&desk).await;
    sqlx::query("INSERT INTO messages (thread_id, direction, from_name, from_address, to_addresses, cc_addresses, subject, body, sent_at)
        SELECT id, 'inbound', 'Ann', 'ann@zeppelin.example', '[]', '[]', 'x', word, last_message_at
        FROM (SELECT id, last_message_at FROM threads WHERE inbox_id = 1 AND status = 'open' ORDER BY id LIMIT 1),
             (SELECT 'quokka' AS word UNION SELECT 'wombats')")
        .execute(desk.pool()).await.unwrap();
    let search = |query: &str| FindThreads { query: Some(query.into()), ..find() };
    for (query, total) in [
        ("quokka wombat", 1),
        ("QUOKKA", 1),
        ("quokka capybara", 0),
        ("\"quokka\" OR NOT (", 0),
        ("quokka*", 1),
        ("body:quokka", 0),
    ] {
        let found = desk.find_threads(&caller, &search(query)).await.unwrap();
        assert_eq!(found.total, total, "{query}");
    }
    let sender = FindThreads { sender: Some("@zeppelin.example".into()), ..find() };
    assert_eq!(desk.find_threads(&caller, &sender).await.unwrap().total, 1);
    // A percent sign is a character, not "anything".
    let sender = FindThreads { sender: Some("%".into()), ..find() };
    let none = desk.find_threads(&caller, &sender).await.unwrap();
    assert_eq!(none.total, 0);
    assert_eq!(
        none.suggestion.unwrap(),
        "No thread you can read matches all of these filters; spam and trash were left out; name a status to look there."
    );
}

#[tokio::test]
async fn dates_are_days_of_the_caller() {
    let desk = desk().await;
    let mut caller = priya(&desk).await;
    let stamp: jiff::Timestamp = "2026-11-10T23:30:00Z".parse().unwrap();
    sqlx::query("UPDATE threads SET last_message_at = ?, subject = 'zone probe' WHERE id = (SELECT min(id) FROM threads WHERE inbox_id = 1 AND status = 'open')")
        .bind(stamp.as_second()).execute(desk.pool()).await.unwrap();
    let day = |from: &str, to: &str| FindThreads {
        after: Some(from.into()),
        before: Some(to.into()),
        limit: Some(25),
        inbox: Some("support".into()),
        ..find()
    };
    let has = async |caller: &desk::Caller, args: FindThreads| {
        let page = desk.find_threads(caller, &args).await.unwrap();
        assert!(page.total <= 25);
        page.threads.iter().any(|thread| thread.subject == "zone probe")
    };
    assert!(has(&caller, day("2026-11-10", "2026-11-11")).await);
    assert!(!has(&caller, day("2026-11-11", "2026-11-12")).await);
    caller.zone = jiff::tz::TimeZone::get("Europe/Berlin").unwrap();
    assert!(!has(&caller, day("2026-11-10", "2026-11-11")).await);
    assert!(has(&caller, day("2026-11-11", "2026-11-12")).await);
    assert!(has(&caller, day("2026-11-11T00:30:00+01:00", "2026-11-11T00:30:01+01:00")).await);
}

#[tokio::test]
async fn a_thread_pages_from_its_newest_message() {
    let desk = desk().await;
    let caller = priya(&desk).await;
    let id =
        ids(&desk, "SELECT id FROM threads WHERE inbox_id = 1 AND message_count = 5 ORDER BY id")
            .await[0];
    let read = async |limit, offset| {
        let args = GetThread { thread: format!("thread:{id}"), limit, offset };
        desk.get_thread(&caller, &args).await.unwrap()
    };
    let whole = read(None, None).await;
    assert_eq!((whole.messages.len(), whole.total_messages, whole.older_offset), (5, 5, None));
    assert!(whole.messages.windows(2).all(|pair| pair[0].sent_at <= pair[1].sent_at));
    let newest = read(Some(2), None).await;
    assert_eq!((newest.messages.as_slice(), newest.older_offset), (&whole.messages[3..], Some(2)));
    let oldest = read(Some(3), Some(2)).await;
    assert_eq!((oldest.messages.as_slice(), oldest.older_offset), (&whole.messages[..3], None));
    let json = serde_json::to_value(&whole).unwrap();
    assert_eq!(json["thread"]["id"], format!("thread:{id}"));
    assert_eq!(json["messages"][0]["direction"], "inbound");
}

#[tokio::test]
async fn threads_answer_to_every_written_form() {
    let desk = desk().await;
    let caller = priya(&desk).await;
    let id = ids(&desk, "SELECT id FROM threads WHERE inbox_id = 1 GROUP BY subject HAVING count(*) = 1 ORDER BY id").await[0];
    sqlx::query("UPDATE threads SET subject = 'A subject like no other' WHERE id = ?")
        .bind(id)
        .execute(desk.pool())
        .await
        .unwrap();
    for form in [
        id.to_string(),
        format!("#{id}"),
        format!("thread:thread:{id}"),
        format!("desk://thread/{id}"),
        "a subject LIKE no other".into(),
    ] {
        let args = GetThread { thread: form.clone(), ..GetThread::default() };
        assert_eq!(desk.get_thread(&caller, &args).await.unwrap().thread.id.0, id, "{form}");
    }
    let wrong = GetThread { thread: "task:3".into(), ..GetThread::default() };
    assert_eq!(
        invalid(desk.get_thread(&caller, &wrong).await),
        ("thread", "\"task:3\" names a task, but a thread is meant here".to_owned())
    );
    let doubled = text(&desk, "SELECT subject FROM threads WHERE inbox_id IN (1, 2) GROUP BY subject HAVING count(*) BETWEEN 2 AND 9 ORDER BY subject LIMIT 1").await;
    let args = GetThread { thread: doubled, ..GetThread::default() };
    match desk.get_thread(&caller, &args).await.unwrap_err() {
        DeskError::Ambiguous { kind: "thread", candidates, .. } => assert!(candidates.len() >= 2),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn tags_count_only_mail_the_caller_may_read() {
    let desk = desk().await;
    let refund = ListTags { query: Some("refund".into()), limit: None };
    let lead = desk.list_tags(&priya(&desk).await, &refund).await.unwrap();
    let helper = desk.list_tags(&robin(&desk).await, &refund).await.unwrap();
    let open = |list: &desk::TagList| {
        list.items.iter().find(|tag| tag.name == "refund").unwrap().open_threads
    };
    assert!(open(&lead) > 0);
    assert_eq!(open(&helper), 0);
}
