//! Schedules.

use super::sample::{at, missing};
use super::work::JobsSubject;
use crate::cron::Cron;
use crate::model::{
    Advanced, JobQuery, Missed, NewSchedule, Schedule, ScheduleKey, ScheduleQuery, ScheduleState,
};
use serde_json::json;
use std::sync::Arc;
use turnbuckle_core::time::Timestamp;

fn key(id: &str) -> ScheduleKey {
    ScheduleKey::new("acme", id)
}

/// Every full minute; the suite's time begins 20 s after one.
fn minutely(id: &str, now: Timestamp) -> NewSchedule {
    NewSchedule {
        key: key(id),
        cron: Cron::parse("* * * * *", "Europe/Berlin").unwrap(),
        queue: "q".to_owned(),
        payload: Arc::new(json!({"do": id})),
        max_attempts: 2,
        missed: Missed::Latest,
        state: ScheduleState::Active,
        now,
    }
}

const FIRST: i64 = 40_000;

/// A schedule is made, changed, rests and goes.
pub async fn a_schedule_is_kept(store: JobsSubject) {
    let made = store.put_schedule(minutely("s", at(0))).await.unwrap();
    let expected = Schedule {
        key: key("s"),
        cron: Cron::parse("* * * * *", "Europe/Berlin").unwrap(),
        queue: "q".to_owned(),
        payload: Arc::new(json!({"do": "s"})),
        max_attempts: 2,
        missed: Missed::Latest,
        state: ScheduleState::Active,
        next: Some(at(FIRST)),
        last: None,
        revision: 1,
        created: at(0),
        updated: at(0),
    };
    assert_eq!(made, expected);
    assert_eq!(store.schedule(&key("s")).await.unwrap(), expected);

    let paused = store.set_schedule_state(&key("s"), ScheduleState::Paused, at(5)).await.unwrap();
    assert_eq!((paused.next, paused.revision, paused.updated), (None, 2, at(5)));
    let same = store.set_schedule_state(&key("s"), ScheduleState::Paused, at(6)).await.unwrap();
    assert_eq!(same, paused);
    assert_eq!(store.due_schedules(at(999_999), 9).await.unwrap(), []);
    let now = at(100_001);
    let active = store.set_schedule_state(&key("s"), ScheduleState::Active, now).await.unwrap();
    assert_eq!(
        (active.next, active.revision),
        (Some(at(160_000)), 3),
        "what it missed is forgotten"
    );

    let cron = Cron::parse("0 0 1 1 *", "UTC").unwrap();
    let yearly =
        NewSchedule { cron: cron.clone(), missed: Missed::Each(3), ..minutely("s", at(7)) };
    let changed = store.put_schedule(yearly).await.unwrap();
    assert_eq!(
        (changed.cron.clone(), changed.missed, changed.revision),
        (cron, Missed::Each(3), 4)
    );
    assert_eq!((changed.created, changed.updated), (at(0), at(7)));
    store.delete_schedule(&key("s")).await.unwrap();
    missing(store.schedule(&key("s")).await);
    missing(store.delete_schedule(&key("s")).await);
    missing(store.set_schedule_state(&key("s"), ScheduleState::Paused, at(5)).await);
}

/// When its moment comes, one job is made for it.
pub async fn a_due_schedule_makes_its_job(store: JobsSubject) {
    store.put_schedule(minutely("s", at(0))).await.unwrap();
    assert_eq!(store.due_schedules(at(FIRST - 1), 9).await.unwrap(), []);
    let due = store.due_schedules(at(FIRST), 9).await.unwrap();
    let plan = due[0].plan(at(FIRST)).unwrap();
    let new = plan.jobs[0].clone();
    assert_eq!(store.advance(plan.clone()).await.unwrap(), Advanced::Made(1));
    assert_eq!(store.advance(plan).await.unwrap(), Advanced::Elsewhere);
    assert_eq!(store.due_schedules(at(FIRST), 9).await.unwrap(), []);
    let schedule = store.schedule(&key("s")).await.unwrap();
    assert_eq!((schedule.last, schedule.next), (Some(at(FIRST)), Some(at(FIRST + 60_000))));
    assert_eq!(schedule.revision, 1);
    let query = JobQuery { schedule: Some("s".into()), ..JobQuery::of("acme".into()) };
    let jobs = store.jobs(query.clone()).await.unwrap().items;
    assert_eq!((jobs.len(), jobs[0].key.clone(), jobs[0].due), (1, new.key, at(FIRST)));
    assert_eq!((jobs[0].payload.clone(), jobs[0].max_attempts), (Arc::new(json!({"do": "s"})), 2));
    assert_eq!((&jobs[0].tick, new.tick.is_some()), (&new.tick, true));
    let other = JobQuery { schedule: Some("t".into()), ..query };
    assert_eq!(store.jobs(other).await.unwrap().items, []);
}

/// Whichever processes look, and however often: one moment, one job.
pub async fn a_moment_makes_one_job_over_all_replicas(store: JobsSubject) {
    store.put_schedule(minutely("s", at(0))).await.unwrap();
    const MINUTES: i64 = 5;
    let clocks: Vec<_> = (0..6)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let mut made = 0;
                for minute in 0..MINUTES {
                    let now = at(FIRST + minute * 60_000);
                    for schedule in store.due_schedules(now, 9).await.unwrap() {
                        let Some(plan) = schedule.plan(now) else { continue };
                        if let Advanced::Made(count) = store.advance(plan).await.unwrap() {
                            made += count;
                        }
                    }
                }
                made
            })
        })
        .collect();
    let mut made = 0;
    for clock in clocks {
        made += clock.await.unwrap();
    }
    let jobs = store.jobs(JobQuery::of("acme".into())).await.unwrap().items;
    let mut ticks: Vec<_> = jobs.iter().map(|job| job.tick.clone().unwrap().at).collect();
    ticks.sort();
    ticks.dedup();
    assert_eq!((jobs.len(), ticks.len()), (made as usize, made as usize));
    assert!((1..=MINUTES as usize).contains(&jobs.len()), "{ticks:?}");
    assert_eq!(ticks.last(), Some(&at(FIRST + (MINUTES - 1) * 60_000)));

    // Even a schedule that is put back to what it was makes no second job for a moment it had.
    store.put_schedule(minutely("s", at(FIRST - 1))).await.unwrap();
    let again = store.due_schedules(at(FIRST + 1), 9).await.unwrap();
    let plan = again[0].plan(at(FIRST + 1)).unwrap();
    assert_eq!(plan.jobs.len(), 1);
    let before = jobs.len();
    let made = store.advance(plan).await.unwrap();
    let had_first = ticks.contains(&at(FIRST));
    assert_eq!(made, Advanced::Made(u32::from(!had_first)));
    let after = store.jobs(JobQuery::of("acme".into())).await.unwrap().items.len();
    assert_eq!(after, before + usize::from(!had_first));
}

/// A step that was planned on an older version of a schedule is not taken.
pub async fn a_changed_schedule_is_planned_anew(store: JobsSubject) {
    store.put_schedule(minutely("s", at(0))).await.unwrap();
    let plan = store.schedule(&key("s")).await.unwrap().plan(at(FIRST)).unwrap();
    store.put_schedule(minutely("s", at(1))).await.unwrap();
    assert_eq!(store.advance(plan.clone()).await.unwrap(), Advanced::Elsewhere);
    store.delete_schedule(&key("s")).await.unwrap();
    missing(store.advance(plan).await);
    assert_eq!(store.jobs(JobQuery::of("acme".into())).await.unwrap().items, []);
}

/// Schedules are listed by id, each tenant its own.
pub async fn schedules_are_listed(store: JobsSubject) {
    for id in ["b", "a", "c"] {
        store.put_schedule(minutely(id, at(0))).await.unwrap();
    }
    let foreign = NewSchedule { key: ScheduleKey::new("other", "a"), ..minutely("a", at(0)) };
    store.put_schedule(foreign).await.unwrap();
    let ids = |all: &[Schedule]| all.iter().map(|s| s.key.id.to_string()).collect::<Vec<_>>();
    let query = ScheduleQuery { tenant: "acme".into(), after: None, limit: 2 };
    let page = store.schedules(query.clone()).await.unwrap();
    assert_eq!(ids(&page.items), ["a", "b"]);
    let after = page.next.map(|next| next.to_string().parse().unwrap());
    let page = store.schedules(ScheduleQuery { after, ..query }).await.unwrap();
    assert_eq!((ids(&page.items), page.next), (vec!["c".to_owned()], None));
    assert_eq!(store.due_schedules(at(FIRST), 9).await.unwrap().len(), 4);
    assert_eq!(store.due_schedules(at(FIRST), 3).await.unwrap().len(), 3);
    missing(store.schedule(&ScheduleKey::new("other", "b")).await);
}
