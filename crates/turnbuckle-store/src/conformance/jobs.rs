//! Jobs.

use super::sample::{at, conflict, missing};
use super::work::{JobsSubject, job, key, take};
use crate::cron::Cron;
use crate::error::{Conflict, StoreError};
use crate::memory::MemoryStore;
use crate::model::{
    Enqueued, Job, JobKey, JobQuery, JobStatus, Lease, Missed, NewJob, NewSchedule, QueueDepth,
    Retry, ScheduleKey, ScheduleState, TakeJobs, Tick,
};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use turnbuckle_core::ids::TenantId;
use turnbuckle_core::json::Json;

fn payload(n: i64) -> Json {
    Arc::new(json!({"n": n, "text": "ü \u{0} \"q\""}))
}

fn fenced<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert!(matches!(result, Err(StoreError::Fenced { .. })), "{result:?}");
}

/// A job is taken, done and kept.
pub async fn a_job_is_done_once(store: JobsSubject) {
    let new = NewJob { payload: payload(1), ..job("j1", at(0)) };
    let Enqueued::Added(added) = store.enqueue(new.clone()).await.unwrap() else {
        panic!("it is new");
    };
    let waiting = Job {
        key: key("j1"),
        queue: "q".to_owned(),
        idempotency_key: None,
        payload: payload(1),
        status: JobStatus::Waiting,
        due: at(0),
        attempts: 0,
        max_attempts: 3,
        fence: 0,
        lease: None,
        error: None,
        result: None,
        created: at(0),
        ended: None,
        tick: None,
    };
    assert_eq!(added, waiting);
    assert_eq!(store.job(&key("j1")).await.unwrap(), waiting);
    let lease = Some(Lease { owner: "w".to_owned(), until: at(1_005) });
    let running =
        Job { status: JobStatus::Running, attempts: 1, fence: 1, lease, ..waiting.clone() };
    assert_eq!(store.take_jobs(take("w", at(5))).await.unwrap(), std::slice::from_ref(&running));
    assert_eq!(store.take_jobs(take("x", at(1_004))).await.unwrap(), []);
    fenced(store.finish_job(&key("j1"), 2, None, at(6)).await);
    let done = Job {
        status: JobStatus::Done,
        lease: None,
        result: Some(payload(2)),
        ended: Some(at(6)),
        ..running
    };
    for _ in 0..2 {
        let finished = store.finish_job(&key("j1"), 1, Some(payload(2)), at(6)).await.unwrap();
        assert_eq!(finished, done, "saying it again changes nothing");
    }
    fenced(store.fail_job(&key("j1"), 1, "no", Retry::Never, at(7)).await);
    assert_eq!(store.take_jobs(take("w", at(99_000))).await.unwrap(), []);
    assert_eq!(store.enqueue(new).await.unwrap(), Enqueued::Known(done));
}

/// Somebody may have a job of a schedule done at a moment of their own choice; for each moment there is one.
pub async fn a_job_of_a_schedule_is_made_by_hand(store: JobsSubject) {
    let tick = Tick { schedule: "daily".into(), at: at(7) };
    let new = NewJob { tick: Some(tick.clone()), ..job("daily@7", at(7)) };
    let made = store.enqueue(new.clone()).await.unwrap();
    assert!(matches!(&made, Enqueued::Added(job) if job.tick.as_ref() == Some(&tick)), "{made:?}");
    let again = NewJob { key: key("another"), ..new };
    assert_eq!(store.enqueue(again).await.unwrap(), Enqueued::Known(made.job().clone()));
    let of = |schedule: &str| JobQuery {
        schedule: Some(schedule.into()),
        ..JobQuery::of("acme".into())
    };
    assert_eq!(store.jobs(of("daily")).await.unwrap().items, std::slice::from_ref(made.job()));
    assert_eq!(store.jobs(of("weekly")).await.unwrap().items, []);
}

/// Jobs wait for their moment, and those that have waited longest come first.
pub async fn jobs_come_when_they_are_due(store: JobsSubject) {
    for (id, due, queue) in [("a", 30, "q"), ("b", 10, "q"), ("c", 20, "r"), ("d", 10, "other")] {
        let new = NewJob { due: at(due), queue: queue.to_owned(), ..job(id, at(0)) };
        store.enqueue(new).await.unwrap();
    }
    let ids = async |now, limit| {
        let queues = ["q", "r"].map(str::to_owned).to_vec();
        let take = TakeJobs { queues, limit, ..take("w", at(now)) };
        let jobs = store.take_jobs(take).await.unwrap();
        jobs.into_iter().map(|job| job.key.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(ids(9, 9).await, [""; 0]);
    assert_eq!(ids(25, 1).await, ["b"]);
    assert_eq!(ids(25, 9).await, ["c"]);
    assert_eq!(ids(35, 9).await, ["a"]);
    let none = TakeJobs { queues: Vec::new(), ..take("w", at(99)) };
    assert_eq!(store.take_jobs(none).await.unwrap(), []);
}

/// A failed job is tried again, as often as it may be; then it is a dead letter, until somebody lets it wait anew.
pub async fn a_failing_job_becomes_a_dead_letter(store: JobsSubject) {
    store.enqueue(NewJob { max_attempts: 2, ..job("j", at(0)) }).await.unwrap();
    store.take_jobs(take("w", at(0))).await.unwrap();
    for _ in 0..2 {
        let retry = Retry::At(at(500));
        let job = store.fail_job(&key("j"), 1, "no \u{1F980}", retry, at(1)).await.unwrap();
        assert_eq!((job.status, job.due, job.attempts), (JobStatus::Waiting, at(500), 1));
        assert_eq!((job.error.as_deref(), job.lease), (Some("no \u{1F980}"), None));
    }
    assert_eq!(store.take_jobs(take("w", at(499))).await.unwrap(), []);
    assert_eq!(store.take_jobs(take("w", at(500))).await.unwrap()[0].fence, 2);
    fenced(store.fail_job(&key("j"), 1, "late", Retry::Never, at(501)).await);
    let dead = store.fail_job(&key("j"), 2, "again", Retry::At(at(600)), at(501)).await.unwrap();
    assert_eq!((dead.status, dead.ended), (JobStatus::Dead, Some(at(501))));
    assert_eq!(dead.error.as_deref(), Some("again"));
    assert_eq!(store.take_jobs(take("w", at(9_999))).await.unwrap(), []);
    let letters = JobQuery { status: Some(JobStatus::Dead), ..JobQuery::of("acme".into()) };
    assert_eq!(store.jobs(letters).await.unwrap().items, std::slice::from_ref(&dead));
    assert_eq!(store.purge_jobs(at(99_999), 9).await.unwrap(), 0, "dead letters stay");

    let waiting = store.requeue_job(&key("j"), at(700)).await.unwrap();
    assert_eq!((waiting.status, waiting.due, waiting.attempts), (JobStatus::Waiting, at(700), 0));
    assert_eq!((waiting.ended, waiting.fence), (None, 2));
    let again = conflict(store.requeue_job(&key("j"), at(700)).await);
    assert_eq!(again, Conflict::JobStands { job: "j".into(), status: JobStatus::Waiting });
    assert_eq!(store.take_jobs(take("w", at(700))).await.unwrap()[0].fence, 3);
    store.fail_job(&key("j"), 3, "it would fail again", Retry::Never, at(701)).await.unwrap();
    let dead = store.job(&key("j")).await.unwrap();
    assert_eq!((dead.status, dead.attempts), (JobStatus::Dead, 1));
}

/// The job of a worker that died is taken by another; the first one, should it wake up, changes nothing.
pub async fn a_lost_worker_is_fenced_off(store: JobsSubject) {
    store.enqueue(NewJob { max_attempts: 2, ..job("j", at(0)) }).await.unwrap();
    store.take_jobs(take("one", at(0))).await.unwrap();
    store.prolong_job(&key("j"), 1, 1_000, at(900)).await.unwrap();
    assert_eq!(store.take_jobs(take("two", at(1_899))).await.unwrap(), []);
    let taken = store.take_jobs(take("two", at(1_900))).await.unwrap();
    assert_eq!((taken[0].attempts, taken[0].fence), (2, 2));
    fenced(store.prolong_job(&key("j"), 1, 1_000, at(1_901)).await);
    fenced(store.finish_job(&key("j"), 1, None, at(1_901)).await);
    fenced(store.fail_job(&key("j"), 1, "no", Retry::Never, at(1_901)).await);
    assert_eq!(store.take_jobs(take("three", at(9_999))).await.unwrap(), []);
    let dead = store.job(&key("j")).await.unwrap();
    assert_eq!((dead.status, dead.attempts, dead.lease), (JobStatus::Dead, 2, None));
    assert!(dead.error.unwrap().contains("lost"), "a poisonous job does not go round for ever");
    fenced(store.finish_job(&key("j"), 2, None, at(10_000)).await);
}

/// One idempotency key adds one job to a queue, even when many enqueue at once.
pub async fn one_key_adds_one_job(store: JobsSubject) {
    let new = |id: &str| NewJob { idempotency_key: Some("k".to_owned()), ..job(id, at(0)) };
    let tasks: Vec<_> = (0..8)
        .map(|i| {
            let (store, new) = (Arc::clone(&store), new(&format!("j{i}")));
            tokio::spawn(async move { store.enqueue(new).await.unwrap() })
        })
        .collect();
    let mut added = 0;
    let mut ids = BTreeSet::new();
    for task in tasks {
        let enqueued = task.await.unwrap();
        added += u32::from(matches!(enqueued, Enqueued::Added(_)));
        ids.insert(enqueued.job().key.id.clone());
    }
    assert_eq!((added, ids.len()), (1, 1));
    let other = NewJob { queue: "other".to_owned(), ..new("elsewhere") };
    assert!(matches!(store.enqueue(other).await.unwrap(), Enqueued::Added(_)));
    let foreign = NewJob { key: JobKey::new("other", "foreign"), ..new("x") };
    assert!(matches!(store.enqueue(foreign).await.unwrap(), Enqueued::Added(_)));
    let changed = NewJob { payload: payload(9), ..new("changed") };
    let reused = conflict(store.enqueue(changed).await);
    assert_eq!(reused, Conflict::JobKeyReused { job: ids.pop_first().unwrap() });
}

/// Many workers take from one queue: every job is taken once.
pub async fn no_job_is_taken_twice(store: JobsSubject) {
    const JOBS: usize = 60;
    for i in 0..JOBS {
        store.enqueue(job(&format!("j{i:02}"), at(0))).await.unwrap();
    }
    let workers: Vec<_> = (0..6)
        .map(|i| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let mut mine = Vec::new();
                loop {
                    let take = TakeJobs { limit: 3, ..take(&format!("w{i}"), at(1)) };
                    let jobs = store.take_jobs(take).await.unwrap();
                    if jobs.is_empty() {
                        return mine;
                    }
                    for job in jobs {
                        store.finish_job(&job.key, job.fence, None, at(2)).await.unwrap();
                        mine.push(job.key.id);
                    }
                }
            })
        })
        .collect();
    let mut all = Vec::new();
    for worker in workers {
        all.extend(worker.await.unwrap());
    }
    let unique: BTreeSet<_> = all.iter().cloned().collect();
    assert_eq!((all.len(), unique.len()), (JOBS, JOBS));
}

/// What is called off is not done; what ran meanwhile is fenced off. Ended jobs can be deleted, one by one or as they age.
pub async fn jobs_are_called_off_and_deleted(store: JobsSubject) {
    for id in ["waits", "runs", "done"] {
        store.enqueue(job(id, at(0))).await.unwrap();
    }
    let limit = TakeJobs { limit: 2, ..take("w", at(1)) };
    store.cancel_job(&key("waits"), at(1)).await.unwrap();
    let taken: Vec<_> = store.take_jobs(limit).await.unwrap();
    assert_eq!(taken.len(), 2, "what was called off is not taken");
    store.finish_job(&key("done"), 1, None, at(2)).await.unwrap();
    let cancelled = store.cancel_job(&key("runs"), at(3)).await.unwrap();
    assert_eq!((cancelled.status, cancelled.ended), (JobStatus::Cancelled, Some(at(3))));
    fenced(store.finish_job(&key("runs"), 1, None, at(4)).await);
    let done = store.cancel_job(&key("done"), at(4)).await.unwrap();
    assert_eq!(done.status, JobStatus::Done, "it had ended");

    assert_eq!(store.purge_jobs(at(3), 9).await.unwrap(), 2);
    store.delete_job(&key("runs")).await.unwrap();
    missing(store.job(&key("runs")).await);
    missing(store.delete_job(&key("runs")).await);
    store.enqueue(job("new", at(5))).await.unwrap();
    let stands = conflict(store.delete_job(&key("new")).await);
    assert_eq!(stands, Conflict::JobStands { job: "new".into(), status: JobStatus::Waiting });
}

/// Jobs are listed page by page, by queue and status, and counted.
pub async fn jobs_are_listed_and_counted(store: JobsSubject) {
    for (i, queue) in ["q", "r", "q", "q"].into_iter().enumerate() {
        let n = i as i64;
        let (due, queue) = (at(n * 10), queue.to_owned());
        store.enqueue(NewJob { queue, due, ..job(&format!("j{i}"), at(n)) }).await.unwrap();
    }
    store.take_jobs(TakeJobs { limit: 1, ..take("w", at(0)) }).await.unwrap();
    let ids = |jobs: &[Job]| jobs.iter().map(|j| j.key.id.to_string()).collect::<Vec<_>>();
    let all = JobQuery::of("acme".into());
    let page = store.jobs(JobQuery { limit: 3, ..all.clone() }).await.unwrap();
    assert_eq!(ids(&page.items), ["j3", "j2", "j1"]);
    let after = page.next.map(|next| next.to_string().parse().unwrap());
    let page = store.jobs(JobQuery { after, ..all.clone() }).await.unwrap();
    assert_eq!((ids(&page.items), page.next), (vec!["j0".to_owned()], None));
    let narrow =
        JobQuery { queue: Some("q".to_owned()), status: Some(JobStatus::Waiting), ..all.clone() };
    assert_eq!(ids(&store.jobs(narrow).await.unwrap().items), ["j3", "j2"]);
    let foreign = JobQuery { tenant: "other".into(), ..all };
    assert_eq!(store.jobs(foreign).await.unwrap().items, []);
    let depth = |queue: &str, ready, later, running, oldest| QueueDepth {
        queue: queue.to_owned(),
        ready,
        later,
        running,
        dead: 0,
        oldest,
    };
    let expected = [depth("q", 1, 1, 1, Some(at(20))), depth("r", 1, 0, 0, Some(at(10)))];
    assert_eq!(store.queue_depths(at(25)).await.unwrap(), expected);
}

/// Whatever a stranger guesses, they see and change nothing.
pub async fn a_foreign_tenant_sees_no_job(store: JobsSubject) {
    store.enqueue(job("j", at(0))).await.unwrap();
    let before = store.take_jobs(take("w", at(0))).await.unwrap();
    for foreign in [JobKey::new("other", "j"), JobKey::new("acme", "none")] {
        missing(store.job(&foreign).await);
        missing(store.prolong_job(&foreign, 1, 1, at(1)).await);
        missing(store.finish_job(&foreign, 1, None, at(1)).await);
        missing(store.fail_job(&foreign, 1, "x", Retry::Never, at(1)).await);
        missing(store.requeue_job(&foreign, at(1)).await);
        missing(store.cancel_job(&foreign, at(1)).await);
        missing(store.delete_job(&foreign).await);
    }
    assert_eq!(store.job(&key("j")).await.unwrap(), before[0]);
}

/// Jobs can be taken to another store as they stand, those that have ended too; nobody works on one there.
pub async fn a_job_is_the_same_elsewhere(store: JobsSubject) {
    let elsewhere: JobsSubject = Arc::new(MemoryStore::new());
    let tick = |ms| Some(Tick { schedule: "s".into(), at: at(ms) });
    for (id, ms) in [("done", 0), ("dead", 1), ("runs", 2), ("off", 3), ("waits", 4)] {
        let key = (id == "waits").then(|| "once".to_owned());
        let new = NewJob { tick: tick(ms), idempotency_key: key, due: at(ms), ..job(id, at(0)) };
        store.enqueue(new).await.unwrap();
    }
    let taken = store.take_jobs(take("one", at(2))).await.unwrap();
    let result = Some(Json::from(json!({"session": "s_1", "odd": "\u{0}"})));
    store.finish_job(&taken[0].key, taken[0].fence, result, at(5)).await.unwrap();
    store
        .fail_job(&taken[1].key, taken[1].fence, "no \u{1F980}", Retry::Never, at(6))
        .await
        .unwrap();
    store.cancel_job(&key("off"), at(7)).await.unwrap();
    for (from, to) in [(&store, &elsewhere), (&elsewhere, &store)] {
        for id in ["done", "dead", "runs", "off", "waits"] {
            let exported = from.job(&key(id)).await.unwrap();
            let written = serde_json::to_string(&exported).unwrap();
            let read: Job = serde_json::from_str(&written).unwrap();
            assert_eq!(read, exported, "it survives being a file");
            let mut expected = Job { lease: None, ..exported };
            if expected.status == JobStatus::Running {
                expected.status = JobStatus::Waiting;
            }
            assert_eq!(
                to.import_job(read.clone()).await.unwrap(),
                Enqueued::Added(expected.clone())
            );
            assert_eq!(to.job(&key(id)).await.unwrap(), expected);
            assert_eq!(to.import_job(read.clone()).await.unwrap(), Enqueued::Known(expected));
            let other = Job { payload: Json::from(json!("other")), ..read };
            let reused = conflict(to.import_job(other).await);
            assert_eq!(reused, Conflict::JobKeyReused { job: id.into() });
        }
        // What has ended is not done again, nor is its moment made anew.
        let again = NewJob { tick: tick(0), ..job("anew", at(9)) };
        assert_eq!(to.enqueue(again).await.unwrap().job().key, key("done"));
        let due = to.take_jobs(take("two", at(9))).await.unwrap();
        let ids: Vec<&str> = due.iter().map(|job| job.key.id.as_str()).collect();
        assert_eq!(ids, ["runs", "waits"]);
        for id in ["done", "dead", "runs", "off", "waits"] {
            from.cancel_job(&key(id), at(9)).await.unwrap();
            from.delete_job(&key(id)).await.unwrap();
        }
    }
}

/// Whoever takes a store elsewhere finds those who have nothing in it but work.
pub async fn tenants_with_work_are_listed(store: JobsSubject) {
    let tenants = |names: &[&str]| names.iter().map(|n| TenantId::from(*n)).collect::<Vec<_>>();
    assert_eq!(store.job_tenants(None, 9).await.unwrap(), tenants(&[]));
    for tenant in ["b", "d"] {
        let new = NewJob { key: JobKey::new(tenant, "j"), ..job("j", at(0)) };
        store.enqueue(new).await.unwrap();
    }
    for (tenant, state) in
        [("a", ScheduleState::Active), ("b", ScheduleState::Active), ("c", ScheduleState::Paused)]
    {
        let new = NewSchedule {
            key: ScheduleKey::new(tenant, "s"),
            cron: Cron::parse("0 9 * * *", "UTC").unwrap(),
            queue: "q".to_owned(),
            payload: Json::default(),
            max_attempts: 1,
            missed: Missed::Skip,
            state,
            now: at(0),
        };
        store.put_schedule(new).await.unwrap();
    }
    assert_eq!(store.job_tenants(None, 9).await.unwrap(), tenants(&["a", "b", "c", "d"]));
    assert_eq!(store.job_tenants(None, 2).await.unwrap(), tenants(&["a", "b"]));
    assert_eq!(store.job_tenants(Some(&"b".into()), 9).await.unwrap(), tenants(&["c", "d"]));
    assert_eq!(store.job_tenants(Some(&"d".into()), 9).await.unwrap(), tenants(&[]));
}
