//! Changing threads and writing mail: all of a call happens or none, and a repeated key repeats
//! nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::{count, desk, ids, invalid, jonas, priya, robin, text};
use desk::{
    Change, Desk, GetThread, ListDrafts, ReplyMode, ReplyToThread, StartConversation, ThreadStatus,
    UpdateThread,
};

async fn open_support_thread(desk: &Desk) -> i64 {
    ids(
        desk,
        "SELECT t.id FROM threads t WHERE inbox_id = 1 AND status = 'open' AND assignee_id IS NULL
           AND contact_id IS NOT NULL ORDER BY id",
    )
    .await[0]
}

#[tokio::test]
async fn an_update_reports_what_became_different() {
    let desk = desk().await;
    let caller = jonas(&desk).await;
    let id = open_support_thread(&desk).await;
    sqlx::query("DELETE FROM thread_tags WHERE thread_id = ?")
        .bind(id)
        .execute(desk.pool())
        .await
        .unwrap();
    let args = UpdateThread {
        thread: id.to_string(),
        status: Some(ThreadStatus::Archived),
        assignee: Some("me".into()),
        add_tags: Some(vec!["urgent".into(), "Order Change".into()]),
        remove_tags: Some(vec!["vip".into()]),
    };
    let change = |field: &str, from: Option<&str>, to: Option<&str>| Change {
        field: field.into(),
        from: from.map(Into::into),
        to: to.map(Into::into),
    };
    let update = desk.update_thread(&caller, &args, None).await.unwrap();
    assert_eq!(
        update.changes,
        [
            change("status", Some("open"), Some("archived")),
            change("assignee", None, Some("Jonas Becker")),
            change("tag", None, Some("order change")),
            change("tag", None, Some("urgent")),
        ]
    );
    assert_eq!(update.thread.status, ThreadStatus::Archived);
    assert_eq!(
        count(&desk, "SELECT count(*) FROM activity WHERE kind = 'thread' AND member_id = 7").await,
        4
    );

    let again = desk.update_thread(&caller, &args, None).await.unwrap();
    assert_eq!(again.changes, []);

    for word in ["unassign", "Unassigned", "nobody"] {
        let args = UpdateThread {
            thread: id.to_string(),
            assignee: Some(word.into()),
            ..UpdateThread::default()
        };
        assert_eq!(desk.update_thread(&caller, &args, None).await.unwrap().thread.assignee, None);
    }
}

#[tokio::test]
async fn a_refused_update_changes_nothing() {
    let desk = desk().await;
    let caller = jonas(&desk).await;
    let id = open_support_thread(&desk).await;
    let of = |args: UpdateThread| UpdateThread {
        thread: id.to_string(),
        status: Some(ThreadStatus::Trash),
        ..args
    };
    let tag = |name: &str| Some(vec![name.to_owned()]);
    for (args, code) in [
        (UpdateThread { add_tags: tag("no such tag"), ..UpdateThread::default() }, "not_found"),
        (UpdateThread { assignee: Some("Mara".into()), ..UpdateThread::default() }, "ambiguous"),
        (
            UpdateThread { assignee: Some("Simon Krause".into()), ..UpdateThread::default() },
            "invalid",
        ),
        (UpdateThread { assignee: Some(" ".into()), ..UpdateThread::default() }, "invalid"),
        (
            UpdateThread {
                add_tags: tag("vip"),
                remove_tags: tag("vip"),
                ..UpdateThread::default()
            },
            "invalid",
        ),
    ] {
        let error = desk.update_thread(&caller, &of(args), None).await.unwrap_err();
        assert_eq!(error.code(), code, "{error}");
    }
    assert_eq!(
        sqlx::query_scalar::<_, String>("SELECT status FROM threads WHERE id = ?")
            .bind(id)
            .fetch_one(desk.pool())
            .await
            .unwrap(),
        "open"
    );
    assert_eq!(count(&desk, "SELECT count(*) FROM activity").await, 0);

    let nothing = UpdateThread { thread: id.to_string(), ..UpdateThread::default() };
    assert_eq!(
        invalid(desk.update_thread(&caller, &nothing, None).await),
        ("changes", "none was named".to_owned())
    );

    let mara = UpdateThread { assignee: Some("Mara".into()), ..of(UpdateThread::default()) };
    assert_eq!(
        desk.update_thread(&caller, &mara, None).await.unwrap_err().to_string(),
        "\"Mara\" could mean more than one member; pass one of these ids: \
         member:5 (Mara Lindqvist, mara.lindqvist@bramling.example), \
         member:6 (Mara Castellanos, mara.castellanos@bramling.example)"
    );
}

#[tokio::test]
async fn a_first_name_only_one_member_has_is_a_unique_name() {
    let desk = desk().await;
    let caller = priya(&desk).await;
    let args = UpdateThread {
        thread: open_support_thread(&desk).await.to_string(),
        assignee: Some("aoife".into()),
        ..UpdateThread::default()
    };
    let update = desk.update_thread(&caller, &args, None).await.unwrap();
    assert_eq!(update.thread.assignee.unwrap().name, "Aoife Brennan");
}

#[tokio::test]
async fn a_reply_is_a_message_and_an_outbox_row() {
    let desk = desk().await;
    let caller = jonas(&desk).await;
    let id = open_support_thread(&desk).await;
    let (sender, messages): (String, i64) = sqlx::query_as(
        "SELECT from_address, (SELECT message_count FROM threads WHERE id = ?1) FROM messages
         WHERE thread_id = ?1 AND direction = 'inbound' ORDER BY sent_at DESC LIMIT 1",
    )
    .bind(id)
    .fetch_one(desk.pool())
    .await
    .unwrap();
    let args = ReplyToThread {
        thread: format!("thread:{id}"),
        body: "  The part leaves today.  ".into(),
        cc: Some(vec!["Ann <Ann.Other@Shop.example>".into(), "me".into(), sender.to_uppercase()]),
        ..ReplyToThread::default()
    };
    let reply = desk.reply_to_thread(&caller, &args, None).await.unwrap();
    assert_eq!((reply.mode, reply.to.clone()), (ReplyMode::Send, vec![sender.clone()]));
    assert_eq!(reply.cc, ["ann.other@shop.example", "jonas.becker@bramling.example"]);
    assert_eq!(
        (reply.from.as_str(), reply.body.as_str()),
        ("support@bramling.example", "The part leaves today.")
    );
    assert!(reply.subject.starts_with("Re: "));

    let outbox: (i64, String, String, String, String, i64) = sqlx::query_as(
        "SELECT message_id, from_address, to_addresses, body, state, queued_at FROM outbox",
    )
    .fetch_one(desk.pool())
    .await
    .unwrap();
    assert_eq!(
        outbox,
        (
            reply.message.unwrap().0,
            "support@bramling.example".into(),
            format!("[\"{sender}\"]"),
            "The part leaves today.".into(),
            "queued".into(),
            common::now().as_second(),
        )
    );
    let thread = desk
        .get_thread(&caller, &GetThread { thread: id.to_string(), ..GetThread::default() })
        .await
        .unwrap();
    let last = thread.messages.last().unwrap();
    assert_eq!((last.id, last.from_name.as_str()), (reply.message.unwrap(), "Jonas Becker"));
    assert_eq!(thread.total_messages, messages as u64 + 1);
    assert!(!thread.thread.unread);
    assert_eq!(thread.thread.last_message_at, "2026-11-18T10:30:00+01:00");
    // What was sent can be found at once.
    let found = desk::FindThreads {
        query: Some("part leaves today".into()),
        inbox: Some("support".into()),
        ..Default::default()
    };
    assert!(
        desk.find_threads(&caller, &found)
            .await
            .unwrap()
            .threads
            .iter()
            .any(|thread| thread.id.0 == id)
    );
}

#[tokio::test]
async fn a_draft_sends_nothing_and_is_its_authors_alone() {
    let desk = desk().await;
    let caller = jonas(&desk).await;
    let id = open_support_thread(&desk).await;
    let messages = count(&desk, "SELECT count(*) FROM messages").await;
    let args = ReplyToThread {
        thread: id.to_string(),
        body: "Not finished".into(),
        mode: ReplyMode::Draft,
        ..ReplyToThread::default()
    };
    let kept = desk.reply_to_thread(&caller, &args, None).await.unwrap();
    assert_eq!((kept.mode, kept.message), (ReplyMode::Draft, None));
    assert_eq!(count(&desk, "SELECT count(*) FROM outbox").await, 0);
    assert_eq!(count(&desk, "SELECT count(*) FROM messages").await, messages);

    let of_thread = ListDrafts {
        thread: Some(id.to_string()),
        query: Some("not fin".into()),
        ..ListDrafts::default()
    };
    let mine = desk.list_drafts(&caller, &of_thread).await.unwrap();
    assert_eq!((mine.total, mine.drafts[0].id), (1, kept.draft.unwrap()));
    assert_eq!(desk.list_drafts(&priya(&desk).await, &of_thread).await.unwrap().total, 0);
}

#[tokio::test]
async fn recipients_that_cannot_be_used_are_reported_together() {
    let desk = desk().await;
    let caller = jonas(&desk).await;
    let id = open_support_thread(&desk).await;
    let to = |entries: &[&str]| ReplyToThread {
        thread: id.to_string(),
        body: "Hello".into(),
        to: Some(entries.iter().map(|entry| (*entry).to_owned()).collect()),
        ..ReplyToThread::default()
    };
    let (field, message) = invalid(
        desk.reply_to_thread(&caller, &to(&["+493023125014", "ok@shop.example", "thread:1"]), None)
            .await,
    );
    assert_eq!(field, "to");
    assert_eq!(
        message,
        "to: \"+493023125014\" is a phone number; mail needs an e-mail address or a contact | \
         to: \"thread:1\" names a thread, but a contact is meant here"
    );
    assert_eq!(
        invalid(desk.reply_to_thread(&caller, &to(&[]), None).await),
        ("to", "is empty; a mail needs a recipient to be sent".to_owned())
    );
    assert_eq!(count(&desk, "SELECT count(*) FROM outbox").await, 0);

    let contact = desk.reply_to_thread(&caller, &to(&["contact:5", "5"]), None).await.unwrap();
    assert_eq!(contact.to, [text(&desk, "SELECT email FROM contacts WHERE id = 5").await]);
    let empty = ReplyToThread { body: " \n".into(), ..to(&["a@b.example"]) };
    assert_eq!(
        invalid(desk.reply_to_thread(&caller, &empty, None).await),
        ("body", "is empty".to_owned())
    );
}

#[tokio::test]
async fn spam_is_not_answered() {
    let desk = desk().await;
    let caller = jonas(&desk).await;
    let id =
        ids(&desk, "SELECT id FROM threads WHERE inbox_id = 1 AND status = 'spam' ORDER BY id")
            .await[0];
    let args =
        ReplyToThread { thread: id.to_string(), body: "No".into(), ..ReplyToThread::default() };
    assert_eq!(
        invalid(desk.reply_to_thread(&caller, &args, None).await),
        ("thread", format!("thread:{id} is in spam; set its status to open before answering"))
    );
}

#[tokio::test]
async fn a_new_conversation_is_a_thread_of_its_sender() {
    let desk = desk().await;
    let caller = jonas(&desk).await;
    let args = StartConversation {
        inbox: "orders@bramling.example".into(),
        to: vec!["contact:9".into()],
        subject: "Your kettle is back in stock".into(),
        body: "Shall we reserve one?".into(),
        ..StartConversation::default()
    };
    let sent = desk.start_conversation(&caller, &args, Some("k1")).await.unwrap();
    let thread = desk
        .get_thread(
            &caller,
            &GetThread { thread: sent.thread.unwrap().to_string(), ..GetThread::default() },
        )
        .await
        .unwrap();
    assert_eq!(thread.thread.inbox.name, "Orders and Shipping");
    assert_eq!(thread.thread.contact.unwrap().id, "contact:9");
    assert_eq!(
        (thread.total_messages, thread.messages[0].body.as_str()),
        (1, "Shall we reserve one?")
    );
    assert_eq!(count(&desk, "SELECT count(*) FROM outbox").await, 1);

    let two_lines = StartConversation { subject: "a\nBcc: all@x.example".into(), ..args.clone() };
    assert_eq!(invalid(desk.start_conversation(&caller, &two_lines, None).await).0, "subject");
    let nobody = StartConversation { to: vec![], ..args };
    assert_eq!(invalid(desk.start_conversation(&caller, &nobody, None).await).0, "to");
    assert_eq!(count(&desk, "SELECT count(*) FROM outbox").await, 1);
}

#[tokio::test]
async fn a_repeated_key_gives_the_first_result_and_writes_nothing() {
    let desk = desk().await;
    let caller = jonas(&desk).await;
    let id = open_support_thread(&desk).await;
    let args =
        ReplyToThread { thread: id.to_string(), body: "Once".into(), ..ReplyToThread::default() };
    let first = desk.reply_to_thread(&caller, &args, Some("call-7")).await.unwrap();
    let changed = ReplyToThread { body: "Twice".into(), ..args.clone() };
    assert_eq!(desk.reply_to_thread(&caller, &changed, Some("call-7")).await.unwrap(), first);
    assert_eq!(count(&desk, "SELECT count(*) FROM outbox").await, 1);

    // The key belongs to one action of one member.
    let update = UpdateThread {
        thread: id.to_string(),
        assignee: Some("me".into()),
        ..UpdateThread::default()
    };
    assert_eq!(
        invalid(desk.update_thread(&caller, &update, Some("call-7")).await),
        (
            "idempotency_key",
            "\"call-7\" was used for reply_to_thread already; a key belongs to one call".to_owned()
        )
    );
    desk.reply_to_thread(&priya(&desk).await, &args, Some("call-7")).await.unwrap();
    assert_eq!(count(&desk, "SELECT count(*) FROM outbox").await, 2);

    // A call that failed does not use up its key.
    let bad = ReplyToThread { to: Some(vec!["nobody at all".into()]), ..args.clone() };
    desk.reply_to_thread(&caller, &bad, Some("call-8")).await.unwrap_err();
    desk.reply_to_thread(&caller, &args, Some("call-8")).await.unwrap();
    assert_eq!(count(&desk, "SELECT count(*) FROM outbox").await, 3);
}

#[tokio::test]
async fn the_same_key_at_once_writes_once() {
    let folder = tempfile::tempdir().unwrap();
    let desk = Desk::open_with(folder.path().join("desk.db"), desk::SeedOptions::at(common::now()))
        .await
        .unwrap();
    let caller = jonas(&desk).await;
    let id = open_support_thread(&desk).await;
    let args =
        ReplyToThread { thread: id.to_string(), body: "Once".into(), ..ReplyToThread::default() };
    let (first, second) = tokio::join!(
        desk.reply_to_thread(&caller, &args, Some("k")),
        desk.reply_to_thread(&caller, &args, Some("k")),
    );
    assert_eq!(first.unwrap(), second.unwrap());
    assert_eq!(count(&desk, "SELECT count(*) FROM outbox").await, 1);
}

#[tokio::test]
async fn who_may_only_read_an_inbox_may_not_write_it() {
    let desk = desk().await;
    let id =
        ids(&desk, "SELECT id FROM threads WHERE inbox_id = 3 AND status = 'open' ORDER BY id")
            .await[0];
    let update = UpdateThread {
        thread: id.to_string(),
        assignee: Some("me".into()),
        ..UpdateThread::default()
    };
    let reply =
        ReplyToThread { thread: id.to_string(), body: "Hello".into(), ..ReplyToThread::default() };
    let caller = jonas(&desk).await;
    assert_eq!(
        desk.update_thread(&caller, &update, None).await.unwrap_err().to_string(),
        "you may not change threads of the inbox Repairs, only read them; \
         ask an administrator of the desk if you should be able to"
    );
    assert_eq!(desk.reply_to_thread(&caller, &reply, None).await.unwrap_err().code(), "forbidden");

    let support = open_support_thread(&desk).await;
    let update = UpdateThread { thread: support.to_string(), ..update };
    let error = desk.update_thread(&robin(&desk).await, &update, None).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "you may not answer or change mail; ask an administrator of the desk if you should be able to"
    );
}
