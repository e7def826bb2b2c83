//! Triggers and their runs.

use crate::api::Api;
use crate::auth::access::{Want, Whose, may, needs, whose};
use crate::auth::principal::Principal;
use crate::dto::{
    MissedWish, NewTrigger, Page, Role, RunAction, RunView, RunsQuery, TriggerState, TriggerView,
    TriggersQuery,
};
use crate::problem::{Answer, Code, Problem};
use crate::request::{limit, text};
use crate::triggers::{QUEUE, Run};
use std::sync::Arc;
use turnbuckle_core::ids::{JobId, UserId};
use turnbuckle_store::{
    Conflict, Cron, Cursor, Enqueued, Job, JobKey, JobQuery, Jobs, Missed, NewJob, NewSchedule,
    Schedule, ScheduleKey, ScheduleQuery, StoreError, Tick,
};

/// Characters of a name.
const NAME: usize = 200;
/// Characters of what is said.
const CONTENT: usize = 32_000;
/// Triggers of one tenant.
const TRIGGERS: usize = 1000;
/// Schedules read at once.
const PAGE: u32 = 200;
/// Attempts of a run.
const ATTEMPTS: u32 = 3;
const MOST_ATTEMPTS: u32 = 20;

impl Api {
    /// The contract for jobs, where this service keeps any.
    ///
    /// # Errors
    /// Not found, where it does not.
    pub(crate) fn jobs(&self) -> Answer<&Arc<dyn Jobs>> {
        self.jobs_kept().ok_or_else(Problem::not_found)
    }

    /// Makes a trigger.
    ///
    /// # Errors
    /// Not found for everyone who talks to no agents; when a field is wrong; the store's.
    pub async fn create_trigger(&self, who: &Principal, new: NewTrigger) -> Answer<TriggerView> {
        needs(who, Role::User)?;
        let jobs = self.jobs()?;
        text("name", &new.name, NAME)?;
        if new.content.trim().is_empty() {
            return Err(Problem::field("content", "must not be empty"));
        }
        if new.content.chars().count() > CONTENT {
            let what = format!("must have at most {CONTENT} characters");
            return Err(Problem::too_large("content", what));
        }
        let agent = match new.agent.or_else(|| self.options().default_agent.clone()) {
            Some(agent) if self.engine().domain().agents().contains_key(agent.as_str()) => agent,
            _ => return Err(Problem::field("agent", "there is no such agent")),
        };
        let attempts = new.attempts.unwrap_or(ATTEMPTS);
        if !(1..=MOST_ATTEMPTS).contains(&attempts) {
            let what = format!("must be between 1 and {MOST_ATTEMPTS}");
            return Err(Problem::field("attempts", what));
        }
        let zone = new.time_zone.unwrap_or_else(|| "UTC".to_owned());
        if new.cron.len() > NAME || zone.len() > NAME {
            return Err(Problem::field("cron", format!("must have at most {NAME} characters")));
        }
        let cron = Cron::parse(&new.cron, &zone).map_err(|e| {
            let field = if Cron::parse(&new.cron, "UTC").is_ok() { "time_zone" } else { "cron" };
            Problem::field(field, e.to_string())
        })?;
        if self.schedules(who, &Whose::Everyones).await?.len() >= TRIGGERS {
            let what = format!("there may be {TRIGGERS} triggers; delete some first");
            return Err(Problem::field("name", what));
        }
        let id = format!("tr_{}", uuid::Uuid::now_v7().simple());
        let run = Run {
            trigger: id.clone(),
            name: new.name,
            user: who.user.to_string(),
            agent,
            content: new.content,
            mode: new.mode,
            key: who.key.clone(),
        };
        let schedule = NewSchedule {
            key: ScheduleKey::new(who.tenant.clone(), id),
            cron,
            queue: QUEUE.to_owned(),
            payload: run.payload(),
            max_attempts: attempts,
            missed: match new.missed {
                MissedWish::Skip => Missed::Skip,
                MissedWish::Latest => Missed::Latest,
            },
            state: new.state.into(),
            now: self.now(),
        };
        view(jobs.put_schedule(schedule).await?)
    }

    /// Triggers by id: the caller's, or others' for an operator.
    ///
    /// # Errors
    /// Not found for what is not for them; when the query is wrong; the store's.
    pub async fn triggers(
        &self,
        who: &Principal,
        query: TriggersQuery,
    ) -> Answer<Page<TriggerView>> {
        let of = whose(who, query.user.as_deref(), Role::Operator)?;
        let most = limit(query.limit, 50, 200)? as usize;
        let after = query.cursor.unwrap_or_default();
        let mut items = Vec::new();
        for schedule in self.schedules(who, &of).await? {
            if schedule.key.id.as_str() > after.as_str() {
                items.push(view(schedule)?);
            }
        }
        let more = items.len() > most;
        items.truncate(most);
        let next = items.last().filter(|_| more).map(|last| last.id.clone());
        Ok(Page { items, next })
    }

    /// The schedules that are triggers; there are at most [`TRIGGERS`] of a tenant.
    async fn schedules(&self, who: &Principal, of: &Whose) -> Answer<Vec<Schedule>> {
        let jobs = self.jobs()?;
        let mut query = ScheduleQuery { tenant: who.tenant.clone(), after: None, limit: PAGE };
        let mut all = Vec::new();
        loop {
            let page = jobs.schedules(query.clone()).await?;
            all.extend(page.items.into_iter().filter(|schedule| {
                Run::read(&schedule.payload).is_ok_and(|run| match of {
                    Whose::Everyones => true,
                    Whose::Of(user) => run.user == user.as_str(),
                })
            }));
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(all),
            }
        }
    }

    /// A schedule that is a trigger, when the principal may do this with it.
    async fn schedule(&self, who: &Principal, id: &str, want: Want) -> Answer<(Schedule, Run)> {
        let key = ScheduleKey::new(who.tenant.clone(), id);
        let schedule = self.jobs()?.schedule(&key).await?;
        let run = Run::read(&schedule.payload).map_err(|_| Problem::not_found())?;
        match may(who, &UserId::from(run.user.as_str()), want) {
            true => Ok((schedule, run)),
            false => Err(Problem::not_found()),
        }
    }

    /// One trigger.
    ///
    /// # Errors
    /// Not found, whatever the reason; the store's.
    pub async fn trigger(&self, who: &Principal, id: &str) -> Answer<TriggerView> {
        view(self.schedule(who, id, Want::Read).await?.0)
    }

    /// Lets a trigger rest or work again.
    ///
    /// # Errors
    /// Not found, whatever the reason; the store's.
    pub async fn change_trigger(
        &self,
        who: &Principal,
        id: &str,
        state: TriggerState,
    ) -> Answer<TriggerView> {
        let (schedule, _) = self.schedule(who, id, Want::Tend).await?;
        let now = self.now();
        view(self.jobs()?.set_schedule_state(&schedule.key, state.into(), now).await?)
    }

    /// Deletes a trigger. Sessions of its runs stay.
    ///
    /// # Errors
    /// Not found, whatever the reason; the store's.
    pub async fn delete_trigger(&self, who: &Principal, id: &str) -> Answer<()> {
        let (schedule, _) = self.schedule(who, id, Want::Tend).await?;
        Ok(self.jobs()?.delete_schedule(&schedule.key).await?)
    }

    /// Has a trigger begin a turn now, whether or not it rests.
    ///
    /// # Errors
    /// Not found, whatever the reason; the store's.
    pub async fn run_trigger(&self, who: &Principal, id: &str) -> Answer<RunView> {
        let (schedule, _) = self.schedule(who, id, Want::Tend).await?;
        let now = self.now();
        let job = NewJob {
            key: JobKey {
                tenant: who.tenant.clone(),
                id: JobId::from(format!("{}@{now}", schedule.key.id)),
            },
            queue: QUEUE.to_owned(),
            idempotency_key: None,
            payload: schedule.payload,
            due: now,
            max_attempts: schedule.max_attempts,
            tick: Some(Tick { schedule: schedule.key.id, at: now }),
            now,
        };
        match self.jobs()?.enqueue(job).await? {
            Enqueued::Added(job) | Enqueued::Known(job) => Ok(run_view(job)),
        }
    }

    /// The runs of a trigger, last made first.
    ///
    /// # Errors
    /// Not found, whatever the reason; when the query is wrong; the store's.
    pub async fn runs(&self, who: &Principal, id: &str, query: RunsQuery) -> Answer<Page<RunView>> {
        let (schedule, _) = self.schedule(who, id, Want::Read).await?;
        let most = limit(query.limit, 50, 200)?;
        let after = query.cursor.map(|cursor| cursor.parse::<Cursor>()).transpose();
        let after = after.map_err(|e| Problem::field("cursor", e.to_string()))?;
        let page = JobQuery {
            status: query.state.map(Into::into),
            schedule: Some(schedule.key.id),
            after,
            limit: most,
            ..JobQuery::of(who.tenant.clone())
        };
        let page = self.jobs()?.jobs(page).await?;
        let next = page.next.map(|cursor| cursor.to_string());
        Ok(Page { items: page.items.into_iter().map(run_view).collect(), next })
    }

    /// Tries a run again, or calls it off.
    ///
    /// # Errors
    /// Not found, whatever the reason; when the run stands otherwise; the store's.
    pub async fn change_run(
        &self,
        who: &Principal,
        trigger: &str,
        run: &str,
        action: RunAction,
    ) -> Answer<RunView> {
        let (schedule, _) = self.schedule(who, trigger, Want::Tend).await?;
        let jobs = self.jobs()?;
        let key = JobKey { tenant: who.tenant.clone(), id: run.into() };
        let job = jobs.job(&key).await?;
        if job.tick.as_ref().map(|tick| &tick.schedule) != Some(&schedule.key.id) {
            return Err(Problem::not_found());
        }
        let now = self.now();
        let job = match action {
            RunAction::Cancel => jobs.cancel_job(&key, now).await?,
            RunAction::Retry => match jobs.requeue_job(&key, now).await {
                Err(StoreError::Conflict { what: Conflict::JobStands { .. } }) => {
                    let what = "only a run that is dead or was called off can be tried again";
                    return Err(Problem::new(Code::WrongState, what));
                }
                other => other?,
            },
        };
        Ok(run_view(job))
    }
}

fn view(schedule: Schedule) -> Answer<TriggerView> {
    let run = Run::read(&schedule.payload).map_err(|_| Problem::not_found())?;
    Ok(TriggerView {
        id: schedule.key.id.to_string(),
        name: run.name,
        user: run.user,
        cron: schedule.cron.expression().to_owned(),
        time_zone: schedule.cron.zone().to_owned(),
        agent: run.agent,
        content: run.content,
        mode: run.mode,
        state: schedule.state.into(),
        next: schedule.next,
        last: schedule.last,
        created: schedule.created,
        updated: schedule.updated,
    })
}

fn run_view(job: Job) -> RunView {
    let of = |name: &str| {
        let result = job.result.as_ref()?;
        Some(result.get(name)?.as_str()?.to_owned())
    };
    RunView {
        session: of("session"),
        turn: of("turn"),
        id: job.key.id.to_string(),
        state: job.status.into(),
        due: job.due,
        attempts: job.attempts,
        error: job.error,
        created: job.created,
        ended: job.ended,
    }
}
