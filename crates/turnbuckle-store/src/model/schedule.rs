//! Schedules: jobs that come again and again.

use crate::cron::Cron;
use crate::model::{Cursor, JobKey, NewJob, Tick};
use serde::{Deserialize, Serialize};
use turnbuckle_core::ids::{JobId, ScheduleId, TenantId};
use turnbuckle_core::json::Json;
use turnbuckle_core::time::Timestamp;

/// A schedule as its tenant may name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ScheduleKey {
    /// Whose it is.
    pub tenant: TenantId,
    /// Its id, unique in the tenant.
    pub id: ScheduleId,
}

impl ScheduleKey {
    /// Names a schedule.
    pub fn new(tenant: impl Into<TenantId>, id: impl Into<ScheduleId>) -> Self {
        Self { tenant: tenant.into(), id: id.into() }
    }
}

/// A schedule to make, or to put in the place of the one of its id.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSchedule {
    /// Its tenant and id.
    pub key: ScheduleKey,
    /// When it is due.
    pub cron: Cron,
    /// The queue of its jobs.
    pub queue: String,
    /// What its jobs do; opaque to the store.
    pub payload: Json,
    /// How often each job is tried.
    pub max_attempts: u32,
    /// What becomes of moments at which nobody looked.
    pub missed: Missed,
    /// Whether it is at work.
    pub state: ScheduleState,
    /// Now.
    pub now: Timestamp,
}

/// A schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// Its tenant and id.
    #[serde(flatten)]
    pub key: ScheduleKey,
    /// When it is due.
    pub cron: Cron,
    /// The queue of its jobs.
    pub queue: String,
    /// What its jobs do.
    pub payload: Json,
    /// How often each job is tried.
    pub max_attempts: u32,
    /// What becomes of moments at which nobody looked.
    pub missed: Missed,
    /// Whether it is at work.
    pub state: ScheduleState,
    /// The next moment it is due; absent when it rests or is never due again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Timestamp>,
    /// The last moment it made a job for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Timestamp>,
    /// Rises with every change of it.
    pub revision: u64,
    /// When it was made.
    pub created: Timestamp,
    /// When it was changed.
    pub updated: Timestamp,
}

/// Whether a schedule is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleState {
    /// It makes jobs.
    Active,
    /// It rests.
    Paused,
}

/// What becomes of moments at which nobody looked for more than [`GRACE_MS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// They are passed over.
    Skip,
    /// One job for the last of them.
    Latest,
    /// One job for each of the last so many.
    Each(u32),
}

/// A moment is not missed before it is so late, in milliseconds.
pub const GRACE_MS: u64 = 60_000;

/// So many moments are made up for at once, whatever the schedule says.
const MOST: u32 = 100;

impl Schedule {
    /// The jobs that are due now, and the moment that comes next. Nothing when nothing is due.
    ///
    /// The ids of the jobs follow from the schedule and the moment, so that whoever works it out gets the same ones.
    pub fn plan(&self, now: Timestamp) -> Option<Advance> {
        let due = self.next.filter(|next| *next <= now)?;
        let most = match self.missed {
            Missed::Skip => MOST,
            Missed::Latest => 1,
            Missed::Each(count) => count.clamp(1, MOST),
        };
        let mut ticks = Vec::new();
        let mut last = self.cron.before(now).filter(|last| *last >= due);
        // What was due by an older expression counts as well.
        let first = if last.is_none() { Some(due) } else { None };
        while let Some(tick) = last.take().or(first.filter(|_| ticks.is_empty())) {
            if self.missed == Missed::Skip && now.since(tick) > GRACE_MS {
                break;
            }
            ticks.push(tick);
            if ticks.len() >= most as usize {
                break;
            }
            let earlier = Timestamp::from_millis(tick.as_millis() - 1);
            last = self.cron.before(earlier).filter(|last| *last >= due);
        }
        ticks.reverse();
        let jobs = ticks.into_iter().map(|tick| self.job(tick, now)).collect();
        let (key, revision, next) = (self.key.clone(), self.revision, self.cron.after(now));
        Some(Advance { key, revision, due, jobs, next, now })
    }

    fn job(&self, at: Timestamp, now: Timestamp) -> NewJob {
        let id = JobId::from(format!("{}@{at}", self.key.id));
        NewJob {
            key: JobKey { tenant: self.key.tenant.clone(), id },
            queue: self.queue.clone(),
            idempotency_key: None,
            payload: self.payload.clone(),
            due: at,
            max_attempts: self.max_attempts,
            tick: Some(Tick { schedule: self.key.id.clone(), at }),
            now,
        }
    }
}

/// A step of a schedule: what [`Schedule::plan`] made of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Advance {
    /// The schedule.
    pub key: ScheduleKey,
    /// Its revision when it was read.
    pub revision: u64,
    /// The moment it waited for when it was read.
    pub due: Timestamp,
    /// The jobs to make, in the order of the moments they are for.
    pub jobs: Vec<NewJob>,
    /// The moment it waits for afterwards.
    pub next: Option<Timestamp>,
    /// Now.
    pub now: Timestamp,
}

impl Advance {
    /// The last moment that a job is made for.
    pub(crate) fn last(&self) -> Option<Timestamp> {
        self.jobs.last()?.tick.as_ref().map(|tick| tick.at)
    }
}

/// What advancing a schedule gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advanced {
    /// The jobs are there. No other process makes them again.
    Made(u32),
    /// Another process was first, or the schedule has changed: look again.
    Elsewhere,
}

/// Which schedules to list, by id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleQuery {
    /// Whose.
    pub tenant: TenantId,
    /// Go on after this place; its time does not matter.
    pub after: Option<Cursor>,
    /// At most so many.
    pub limit: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn at(text: &str) -> Timestamp {
        serde_json::from_str(&format!("\"2026-11-28T{text}Z\"")).unwrap()
    }

    fn schedule(missed: Missed, next: &str) -> Schedule {
        Schedule {
            key: ScheduleKey::new("acme", "daily"),
            cron: Cron::parse("0 * * * *", "UTC").unwrap(),
            queue: "q".to_owned(),
            payload: Arc::default(),
            max_attempts: 3,
            missed,
            state: ScheduleState::Active,
            next: Some(at(next)),
            last: None,
            revision: 4,
            created: at("00:00:00"),
            updated: at("00:00:00"),
        }
    }

    fn planned(missed: Missed, next: &str, now: &str) -> Option<(Vec<String>, String)> {
        let plan = schedule(missed, next).plan(at(now))?;
        let short = |at: Timestamp| at.to_string().chars().skip(11).take(5).collect::<String>();
        for job in &plan.jobs {
            let tick = job.tick.as_ref().unwrap();
            assert_eq!((tick.at, &*tick.schedule.to_string()), (job.due, "daily"));
            assert_eq!(job.key.id, format!("daily@{}", tick.at).as_str());
        }
        let ticks = plan.jobs.iter().map(|job| short(job.tick.as_ref().unwrap().at)).collect();
        Some((ticks, short(plan.next.unwrap())))
    }

    fn gives(ticks: &[&str], next: &str) -> Option<(Vec<String>, String)> {
        Some((ticks.iter().map(|&t| t.to_owned()).collect(), next.to_owned()))
    }

    #[test]
    fn what_is_on_time_is_made_whatever_the_rule() {
        for missed in [Missed::Skip, Missed::Latest, Missed::Each(9)] {
            assert_eq!(planned(missed, "09:00:00", "08:59:59"), None);
            assert_eq!(planned(missed, "09:00:00", "09:00:00"), gives(&["09:00"], "10:00"));
            assert_eq!(planned(missed, "09:00:00", "09:01:00"), gives(&["09:00"], "10:00"));
        }
    }

    #[test]
    fn what_was_missed_goes_by_the_rule() {
        let cases = [
            (Missed::Skip, gives(&[], "13:00")),
            (Missed::Latest, gives(&["12:00"], "13:00")),
            (Missed::Each(2), gives(&["11:00", "12:00"], "13:00")),
            (Missed::Each(9), gives(&["09:00", "10:00", "11:00", "12:00"], "13:00")),
        ];
        for (missed, expected) in cases {
            assert_eq!(planned(missed, "09:00:00", "12:30:00"), expected, "{missed:?}");
        }
        assert_eq!(planned(Missed::Skip, "09:00:00", "12:00:30"), gives(&["12:00"], "13:00"));
    }

    #[test]
    fn a_long_absence_makes_no_flood() {
        let mut long = schedule(Missed::Each(u32::MAX), "00:00:00");
        long.cron = Cron::parse("* * * * * *", "UTC").unwrap();
        let plan = long.plan(at("23:59:59")).unwrap();
        assert_eq!(plan.jobs.len(), MOST as usize);
        assert_eq!(plan.last().unwrap(), at("23:59:59"));
    }

    #[test]
    fn what_was_due_by_an_older_expression_is_made() {
        assert_eq!(planned(Missed::Latest, "09:30:00", "09:31:00"), gives(&["09:30"], "10:00"));
        assert_eq!(planned(Missed::Skip, "09:30:00", "09:45:00"), gives(&[], "10:00"));
    }
}
