//! Background tasks and the word of their end.

use super::sample::{Owner, at, event, key, message, missing};
use super::work::JobsSubject;
use crate::model::{
    Delivery, Notified, Post, Posted, Receipt, Release, SessionKey, Task, TaskEnded, TaskKey,
    TaskQuery, TaskStatus,
};
use crate::store::Store;
use serde_json::json;
use std::sync::Arc;
use turnbuckle_core::event::{Event, EventKind};
use turnbuckle_core::ids::TurnId;
use turnbuckle_core::message::{Origin, Surroundings, UserMessage};

fn task(reference: &str) -> TaskKey {
    TaskKey::new("acme", "export", reference)
}

fn started(key: &SessionKey, seq: u64, reference: &str) -> Event {
    let call = TurnId::from("t").call(0);
    let (task, reference) = ("export".to_owned(), reference.to_owned());
    let kind = EventKind::TaskStarted { call, task, reference };
    Event { at: at(seq as i64), kind, ..event(key, "t", seq) }
}

/// A session with a turn that started tasks and goes on.
async fn with_tasks(store: &Arc<dyn Store>, key: &SessionKey, references: &[&str]) -> Owner {
    let mut owner = Owner::of_new(store, key).await;
    let open = owner.open("t");
    owner.write(open).await;
    let mut step = owner.commit(at(2));
    for reference in references {
        step.events.extend([started(key, owner.seq, reference)]);
        owner.seq += 1;
    }
    owner.write(step.clone()).await;
    owner.write(step).await;
    owner
}

/// The message that tells of a task's end.
fn word(key: &SessionKey, reference: &str, turn: &str) -> Post {
    let turn = TurnId::from(turn);
    let message = Box::new(UserMessage {
        id: turn.user_message(),
        turn,
        at: at(50),
        content: "The export is done.".into(),
        author: None,
        origin: Origin::Task { task: "export".to_owned(), reference: reference.to_owned() },
        surroundings: Surroundings::default(),
        client_id: None,
    });
    let input = Posted::Message { delivery: Delivery::Queue, message, options: Arc::default() };
    let idempotency_key = Some(format!("task:export:{reference}"));
    Post { key: key.clone(), idempotency_key, input, now: at(50) }
}

/// A task is recorded with the step that started it, and ends once.
pub async fn a_started_task_is_recorded(store: Arc<dyn Store>, jobs: JobsSubject) {
    let key = key("s");
    with_tasks(&store, &key, &["r1", "r2"]).await;
    let running = |reference: &str, ms| Task {
        key: task(reference),
        session: "s".into(),
        turn: "t".into(),
        call: TurnId::from("t").call(0),
        status: TaskStatus::Running,
        detail: Arc::default(),
        started: at(ms),
        ended: None,
        notified: None,
    };
    assert_eq!(jobs.task(&task("r1")).await.unwrap(), running("r1", 3));
    let all = TaskQuery::of("acme".into());
    let page = jobs.tasks(TaskQuery { limit: 1, ..all.clone() }).await.unwrap();
    assert_eq!(page.items, [running("r2", 4)]);
    let after = page.next.map(|next| next.to_string().parse().unwrap());
    let rest = jobs.tasks(TaskQuery { after, ..all.clone() }).await.unwrap();
    assert_eq!((rest.items, rest.next), (vec![running("r1", 3)], None));

    let detail = Arc::new(json!({"rows": 7, "text": "\u{0}"}));
    let completed = TaskStatus::Completed;
    let ended = jobs.end_task(&task("r1"), completed, detail.clone(), at(9)).await.unwrap();
    let expected =
        Task { status: TaskStatus::Completed, detail, ended: Some(at(9)), ..running("r1", 3) };
    assert_eq!(ended, TaskEnded::Now(expected.clone()));
    let late = jobs.end_task(&task("r1"), TaskStatus::Failed, Arc::default(), at(10)).await;
    assert_eq!(late.unwrap(), TaskEnded::Before(expected.clone()));
    let done = TaskQuery { status: Some(TaskStatus::Completed), ..all.clone() };
    assert_eq!(jobs.tasks(done).await.unwrap().items, [expected]);
    let none = TaskQuery { session: Some("other".into()), ..all };
    assert_eq!(jobs.tasks(none).await.unwrap().items, []);
    missing(jobs.task(&TaskKey::new("other", "export", "r1")).await);
    let foreign = TaskKey::new("other", "export", "r1");
    missing(jobs.end_task(&foreign, TaskStatus::Failed, Arc::default(), at(10)).await);
}

/// A session is told of a task's end when it is idle, once, and one task at a time.
pub async fn an_idle_session_is_told_once(store: Arc<dyn Store>, jobs: JobsSubject) {
    let key = key("s");
    let mut owner = with_tasks(&store, &key, &["r1", "r2", "r3"]).await;
    let tell = async |reference: &str| {
        let turn = format!("told-{reference}");
        jobs.notify(&task(reference), word(&key, reference, &turn)).await.unwrap()
    };
    assert_eq!(tell("r1").await, Notified::NothingToTell, "it runs");
    for (reference, ms) in [("r2", 10), ("r1", 11)] {
        let done = TaskStatus::Completed;
        jobs.end_task(&task(reference), done, Arc::default(), at(ms)).await.unwrap();
    }
    assert_eq!(jobs.due_notifications(9).await.unwrap(), [], "a turn is open");
    assert_eq!(tell("r1").await, Notified::NotIdle);
    let finish = owner.finish("t");
    owner.write(finish).await;

    let due = jobs.due_notifications(9).await.unwrap();
    assert_eq!(due.iter().map(|t| t.key.clone()).collect::<Vec<_>>(), [task("r2")]);
    assert_eq!(due[0].session_key(), key);
    let Notified::Posted(Receipt::Accepted(item)) = tell("r2").await else {
        panic!("it is idle");
    };
    assert_eq!(store.inbox(&key).await.unwrap(), [item]);
    assert_eq!(tell("r2").await, Notified::NothingToTell);
    assert_eq!(jobs.task(&task("r2")).await.unwrap().notified, Some(at(50)));
    assert_eq!(jobs.due_notifications(9).await.unwrap(), [], "its inbox is not empty");
    assert_eq!(tell("r1").await, Notified::NotIdle);

    let mut consume = owner.commit(at(60));
    consume.consumed = vec![1];
    owner.write(consume).await;
    store.release(&key, owner.fence, Release::WhenDrained).await.unwrap();
    assert!(matches!(tell("r1").await, Notified::Posted(Receipt::Accepted(_))));
    assert_eq!(store.session(&key).await.unwrap().pending, 1);
    assert_eq!(store.claimable(at(99), 9).await.unwrap(), std::slice::from_ref(&key));
    let elsewhere = Post { key: super::sample::key("other"), ..word(&key, "r3", "x") };
    missing(jobs.notify(&task("r3"), elsewhere).await);
    missing(jobs.notify(&task("none"), word(&key, "none", "x")).await);
}

/// Many processes tell at once, while people write: the session is told once.
pub async fn of_many_who_tell_one_does(store: Arc<dyn Store>, jobs: JobsSubject) {
    let key = key("s");
    let mut owner = with_tasks(&store, &key, &["r1"]).await;
    let finish = owner.finish("t");
    owner.write(finish).await;
    jobs.end_task(&task("r1"), TaskStatus::Failed, Arc::default(), at(9)).await.unwrap();
    let tellers: Vec<_> = (0..8)
        .map(|i| {
            let (jobs, store, key) = (Arc::clone(&jobs), Arc::clone(&store), key.clone());
            tokio::spawn(async move {
                if i % 4 == 3 {
                    store.post(message(&key, &format!("p{i}"), "Hi", None)).await.unwrap();
                    return false;
                }
                let post = word(&key, "r1", &format!("told-{i}"));
                let told = jobs.notify(&task("r1"), post).await.unwrap();
                matches!(told, Notified::Posted(Receipt::Accepted(_)))
            })
        })
        .collect();
    let mut told = 0;
    for teller in tellers {
        told += u64::from(teller.await.unwrap());
    }
    assert!(told <= 1);
    assert_eq!(store.session(&key).await.unwrap().pending, 2 + told);
    assert_eq!(jobs.task(&task("r1")).await.unwrap().notified.is_some(), told == 1);
}

/// The tasks of a deleted session go with it; a paused one is not told.
pub async fn tasks_go_with_their_session(store: Arc<dyn Store>, jobs: JobsSubject) {
    let key = key("s");
    let mut owner = with_tasks(&store, &key, &["r1"]).await;
    jobs.end_task(&task("r1"), TaskStatus::Completed, Arc::default(), at(9)).await.unwrap();
    let pause = owner.pause("t", turnbuckle_core::message::Asks::Decision);
    owner.write(pause).await;
    assert_eq!(jobs.due_notifications(9).await.unwrap(), [], "a card is pending");
    store.release(&key, owner.fence, Release::HandOver).await.unwrap();
    store.delete_session(&key, at(99)).await.unwrap();
    missing(jobs.task(&task("r1")).await);
    assert_eq!(jobs.tasks(TaskQuery::of("acme".into())).await.unwrap().items, []);
}
