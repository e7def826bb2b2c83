//! The seed: the same for the same seed and present, consistent in itself, written once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use std::hash::{DefaultHasher, Hash, Hasher};

use common::{count, desk, ids, now, priya};
use desk::{Desk, FindThreads, SeedOptions, UpdateThread};
use sqlx::{AssertSqlSafe, Row};

/// A hash over every row of every table, in a fixed order.
async fn fingerprint(desk: &Desk) -> u64 {
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB '*_text*'
           AND name NOT GLOB 'sqlite*' AND name NOT GLOB '_sqlx*' ORDER BY name",
    )
    .fetch_all(desk.pool())
    .await
    .unwrap();
    assert!(tables.len() >= 22, "{tables:?}");
    let mut hasher = DefaultHasher::new();
    for table in tables {
        let columns: Vec<String> =
            sqlx::query_scalar("SELECT name FROM pragma_table_info(?) ORDER BY cid")
                .bind(&table)
                .fetch_all(desk.pool())
                .await
                .unwrap();
        let row = columns
            .iter()
            .map(|column| format!("quote({column})"))
            .collect::<Vec<_>>()
            .join(" || ',' || ");
        let sql = format!("SELECT {row} AS line FROM {table} ORDER BY line");
        for line in sqlx::query(AssertSqlSafe(sql)).fetch_all(desk.pool()).await.unwrap() {
            (&table, line.get::<String, _>("line")).hash(&mut hasher);
        }
    }
    hasher.finish()
}

#[tokio::test]
async fn the_same_seed_and_present_give_the_same_rows() {
    let first = fingerprint(&desk().await).await;
    let second = fingerprint(&desk().await).await;
    assert_eq!(first, second);

    let other_seed = SeedOptions { seed: 2, ..SeedOptions::at(now()) };
    assert_ne!(fingerprint(&Desk::in_memory(other_seed).await.unwrap()).await, first);
    let later = SeedOptions::at("2026-11-19T09:30:00Z".parse().unwrap());
    assert_ne!(fingerprint(&Desk::in_memory(later).await.unwrap()).await, first);
}

#[tokio::test]
async fn there_is_enough_of_everything() {
    let desk = desk().await;
    for (sql, least) in [
        ("SELECT count(*) FROM members WHERE active = 1", 30),
        ("SELECT count(*) FROM groups", 10),
        ("SELECT count(*) FROM companies", 60),
        ("SELECT count(*) FROM contacts", 300),
        ("SELECT count(*) FROM inboxes", 8),
        ("SELECT count(*) FROM threads", 450),
        ("SELECT count(*) FROM threads WHERE status = 'open'", 80),
        ("SELECT count(*) FROM threads WHERE status = 'archived'", 80),
        ("SELECT count(*) FROM threads WHERE status = 'spam'", 5),
        ("SELECT count(*) FROM threads WHERE status = 'trash'", 3),
        ("SELECT count(*) FROM threads WHERE assignee_id IS NULL AND status = 'open'", 10),
        ("SELECT count(*) FROM messages", 1_100),
        ("SELECT count(DISTINCT body) FROM messages", 1_000),
        ("SELECT count(DISTINCT subject) FROM threads", 200),
        ("SELECT count(*) FROM tags", 20),
        ("SELECT count(*) FROM drafts", 15),
        ("SELECT count(*) FROM tasks WHERE completed_at IS NULL", 40),
        ("SELECT count(*) FROM tasks WHERE completed_at IS NOT NULL", 30),
        ("SELECT count(*) FROM notes", 150),
        ("SELECT count(*) FROM orders", 500),
        ("SELECT count(DISTINCT status) FROM orders", 5),
        ("SELECT count(*) FROM refunds", 20),
        ("SELECT count(*) FROM articles WHERE audience = 'public'", 55),
        ("SELECT count(*) FROM articles WHERE audience = 'internal'", 8),
        ("SELECT count(*) FROM contacts WHERE phone IS NOT NULL", 150),
    ] {
        let found = count(&desk, sql).await;
        assert!(found >= least, "{found} < {least}: {sql}");
    }
}

#[tokio::test]
async fn the_rows_agree_with_each_other() {
    let desk = desk().await;
    for sql in [
        // Nothing lies in the future.
        "SELECT count(*) FROM messages WHERE sent_at > 1794994200",
        "SELECT count(*) FROM orders WHERE max(placed_at, coalesce(shipped_at, 0), coalesce(delivered_at, 0)) > 1794994200",
        "SELECT count(*) FROM tasks WHERE max(created_at, coalesce(completed_at, 0)) > 1794994200",
        "SELECT count(*) FROM drafts WHERE updated_at > 1794994200",
        "SELECT count(*) FROM refunds WHERE created_at > 1794994200",
        // Counters are what they count.
        "SELECT count(*) FROM threads t WHERE message_count <> (SELECT count(*) FROM messages WHERE thread_id = t.id)",
        "SELECT count(*) FROM threads t WHERE last_message_at <> (SELECT max(sent_at) FROM messages WHERE thread_id = t.id)",
        "SELECT count(*) FROM orders o WHERE total_cents <> (SELECT sum(quantity * unit_cents) FROM order_lines WHERE order_id = o.id)",
        "SELECT count(*) FROM orders o WHERE refunded_cents <> (SELECT coalesce(sum(amount_cents), 0) FROM refunds WHERE order_id = o.id)",
        // Threads are about orders of the one who wrote, placed before.
        "SELECT count(*) FROM threads t JOIN orders o ON o.id = t.order_id WHERE o.contact_id <> t.contact_id OR o.placed_at > t.created_at",
        // Only who may write an inbox is assigned, answers or drafts there.
        "SELECT count(*) FROM threads WHERE assignee_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM inbox_access a WHERE a.member_id = assignee_id AND a.inbox_id = threads.inbox_id AND level = 'write')",
        "SELECT count(*) FROM messages m JOIN threads t ON t.id = m.thread_id WHERE m.member_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM inbox_access a WHERE a.member_id = m.member_id AND a.inbox_id = t.inbox_id AND level = 'write')",
        "SELECT count(*) FROM drafts d WHERE NOT EXISTS (SELECT 1 FROM inbox_access a WHERE a.member_id = d.author_id AND a.inbox_id = d.inbox_id AND level = 'write')",
        // No placeholder was left unfilled.
        "SELECT count(*) FROM messages WHERE body LIKE '%{%' OR subject LIKE '%{%'",
        "SELECT count(*) FROM tasks WHERE title LIKE '%{%'",
        // Phones are E.164.
        "SELECT count(*) FROM contacts WHERE phone IS NOT NULL AND (phone NOT LIKE '+%' OR length(phone) NOT BETWEEN 8 AND 16)",
        "SELECT count(*) FROM members WHERE phone IS NULL AND active = 1",
    ] {
        assert_eq!(count(&desk, sql).await, 0, "{sql}");
    }
    assert_eq!(now().as_second(), 1_794_994_200);
}

#[tokio::test]
async fn last_week_and_today_have_mail() {
    let desk = desk().await;
    let caller = priya(&desk).await;
    let week = FindThreads {
        after: Some("2026-11-09".into()),
        before: Some("2026-11-16".into()),
        ..FindThreads::default()
    };
    assert!(desk.find_threads(&caller, &week).await.unwrap().total >= 10);
    let today = FindThreads { after: Some("2026-11-18".into()), ..FindThreads::default() };
    assert!(desk.find_threads(&caller, &today).await.unwrap().total >= 1);
}

#[tokio::test]
async fn a_second_start_finds_what_the_first_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("desk.db");
    let first = Desk::open_with(&path, SeedOptions::at(now())).await.unwrap();
    let caller = priya(&first).await;
    let open =
        ids(&first, "SELECT id FROM threads WHERE inbox_id = 1 AND status = 'open' ORDER BY id")
            .await[0];
    let archive = UpdateThread {
        thread: open.to_string(),
        status: Some(desk::ThreadStatus::Archived),
        ..UpdateThread::default()
    };
    first.update_thread(&caller, &archive, None).await.unwrap();
    let before = fingerprint(&first).await;
    first.close().await;

    // Another seed and present change nothing once there is a desk.
    let options =
        SeedOptions { seed: 9, ..SeedOptions::at("2027-01-01T00:00:00Z".parse().unwrap()) };
    let second = Desk::open_with(&path, options).await.unwrap();
    assert_eq!(fingerprint(&second).await, before);
    assert_eq!(
        sqlx::query_scalar::<_, String>("PRAGMA journal_mode")
            .fetch_one(second.pool())
            .await
            .unwrap(),
        "wal"
    );
}

#[tokio::test]
async fn two_starts_at_once_fill_it_once() {
    let folder = tempfile::tempdir().unwrap();
    let small = || SeedOptions { threads: 40, orders: 40, contacts: 30, ..SeedOptions::at(now()) };
    // The moment in which they meet is short.
    for round in 0..10 {
        let path = folder.path().join(format!("desk-{round}.db"));
        let (first, second) =
            tokio::join!(Desk::open_with(&path, small()), Desk::open_with(&path, small()));
        let (first, second) = (first.unwrap(), second.unwrap());
        assert_eq!(count(&first, "SELECT count(*) FROM orders").await, 40);
        assert_eq!(fingerprint(&first).await, fingerprint(&second).await);
    }
}
