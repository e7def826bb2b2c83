//! The clock: makes the jobs of schedules, does them, and tells sessions of background tasks that ended. Any number of processes
//! may do this at once: the store gives each moment one job, each job one worker, and each task one message.

use crate::metrics::Metrics;
use crate::triggers::{QUEUE, Run};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use turnbuckle_bus::{Bus, Call};
use turnbuckle_core::content::Content;
use turnbuckle_core::message::Origin;
use turnbuckle_engine::{Engine, EngineError, Inheritance, Submission};
use turnbuckle_store::{
    Backoff, Conflict, Job, Jobs, NewSession, Notified, Post, Posted, Retry, SessionKey,
    StoreError, TakeJobs, Task, TaskStatus,
};

/// Schedules, jobs or notifications seen to at once.
const AT_ONCE: u32 = 100;
/// A job is another worker's after this, in milliseconds. Submitting a message takes far less.
const LEASE_MS: u64 = 30_000;
/// How often they are looked for that were kept long enough.
const PURGE: Duration = Duration::from_secs(600);
/// Jobs that were done or called off are kept for so long, in milliseconds: 30 days.
const KEPT_MS: i64 = 30 * 24 * 3600 * 1000;

/// The clock at work.
pub(super) struct Clockwork {
    pub(super) engine: Engine,
    pub(super) bus: Arc<dyn Bus>,
    pub(super) jobs: Arc<dyn Jobs>,
    pub(super) metrics: Metrics,
    /// This process, by name.
    pub(super) owner: String,
}

impl Clockwork {
    /// Goes on until it is stopped.
    pub(super) async fn run(self, every: Duration, stop: CancellationToken) {
        let mut tick = tokio::time::interval(every);
        let mut purge = tokio::time::interval(PURGE);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        purge.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let seen = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = purge.tick() => self.purge().await,
                _ = tick.tick() => self.look().await,
            };
            // The store is away, or slow; the next look finds what this one missed.
            if let Err(e) = seen {
                tracing::warn!("jobs cannot be seen to: {}", e.report());
            }
        }
    }

    async fn look(&self) -> Result<(), StoreError> {
        let now = self.engine.now();
        for schedule in self.jobs.due_schedules(now, AT_ONCE).await? {
            let Some(step) = schedule.plan(now) else { continue };
            match self.jobs.advance(step).await {
                Ok(_) | Err(StoreError::NotFound { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        let take = TakeJobs {
            queues: vec![QUEUE.to_owned()],
            owner: self.owner.clone(),
            lease_ms: LEASE_MS,
            limit: AT_ONCE,
            now,
        };
        for job in self.jobs.take_jobs(take).await? {
            self.work_on(&job).await?;
        }
        for task in self.jobs.due_notifications(AT_ONCE).await? {
            self.tell(&task).await?;
        }
        self.metrics.set_jobs(&self.jobs.queue_depths(now).await?);
        Ok(())
    }

    /// Deletes what was kept long enough.
    async fn purge(&self) -> Result<(), StoreError> {
        let before = self.engine.now().plus(-KEPT_MS);
        while self.jobs.purge_jobs(before, AT_ONCE).await? == u64::from(AT_ONCE) {}
        Ok(())
    }

    async fn work_on(&self, job: &Job) -> Result<(), StoreError> {
        let (key, fence) = (&job.key, job.fence);
        let said = match self.submit(job).await {
            Ok(result) => self.jobs.finish_job(key, fence, Some(result.into()), self.engine.now()),
            Err(Failed { why, again }) => {
                tracing::warn!(job = %key.id, "a trigger could not begin its turn: {why}");
                let now = self.engine.now();
                let wait = Backoff::default().after(job.attempts, jitter(job));
                let retry = match again {
                    Again::Later => Retry::At(now.plus(i64::try_from(wait).unwrap_or(0))),
                    Again::Never => Retry::Never,
                };
                match self.jobs.fail_job(key, fence, &why, retry, now).await {
                    Ok(_) | Err(StoreError::Fenced { .. } | StoreError::NotFound { .. }) => {}
                    Err(e) => return Err(e),
                }
                return Ok(());
            }
        };
        match said.await {
            // Called off, deleted, or taken over meanwhile.
            Ok(_) | Err(StoreError::Fenced { .. } | StoreError::NotFound { .. }) => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// Begins the turn of a job. Doing it again changes nothing: session and message are known by the job.
    async fn submit(&self, job: &Job) -> Result<serde_json::Value, Failed> {
        let run = Run::read(&job.payload).map_err(Failed::never)?;
        if !self.engine.domain().agents().contains_key(run.agent.as_str()) {
            return Err(Failed::never(format!("there is no agent `{}`", run.agent)));
        }
        let session = SessionKey { tenant: job.key.tenant.clone(), id: run.session(&job.key) };
        let new = NewSession {
            key: session.clone(),
            user: run.user.as_str().into(),
            agent: run.agent.as_str().into(),
            title: Some(run.name.clone()),
            model: None,
            state: None,
            now: self.engine.now(),
        };
        match self.engine.store().create_session(new).await {
            Ok(_) | Err(StoreError::Conflict { what: Conflict::SessionExists { .. } }) => {}
            Err(e) => return Err(Failed::of_store(&e)),
        }
        let submission = Submission {
            author: Some(run.user.as_str().into()),
            origin: Origin::Trigger { trigger: run.trigger.clone() },
            mode: run.mode.into(),
            account: run.key.map(Into::into),
            idempotency_key: Some("run".to_owned()),
            ..Submission::new(Content::Text(run.content.clone()))
        };
        let receipt = match self.engine.post_message(&session, submission).await {
            Ok(receipt) => receipt,
            Err(EngineError::Store(StoreError::NotFound { .. })) => {
                return Err(Failed::never("its session was deleted".to_owned()));
            }
            Err(EngineError::Store(e)) => return Err(Failed::of_store(&e)),
            Err(e) => return Err(Failed::never(e.to_string())),
        };
        self.bus.call(Call::Inbox { session: session.clone() });
        let turn = match &receipt.item().input {
            Posted::Message { message, .. } => Some(message.turn.clone()),
            _ => None,
        };
        Ok(json!({"session": session.id, "turn": turn}))
    }

    /// Tells a session that a task of it ended.
    async fn tell(&self, task: &Task) -> Result<(), StoreError> {
        let key = task.session_key();
        let (kind, reference) = (task.key.kind.clone(), task.key.reference.clone());
        let how = match task.status {
            TaskStatus::Running => return Ok(()),
            TaskStatus::Completed => "is done",
            TaskStatus::Failed => "failed",
            TaskStatus::Cancelled => "was called off",
        };
        let detail = match &*task.detail {
            serde_json::Value::Null => String::new(),
            detail => format!(" What came of it: {detail}"),
        };
        let text = format!("The background task {kind} {reference} {how}.{detail}");
        let Inheritance { account, surroundings } = self.inheritance(&key, task).await?;
        let submission = Submission {
            origin: Origin::Task { task: kind.clone(), reference: reference.clone() },
            account,
            surroundings,
            ..Submission::new(Content::Text(text))
        };
        let input = match self.engine.compose(&key, submission).await {
            Ok(input) => input,
            Err(EngineError::Store(StoreError::NotFound { .. })) => return Ok(()),
            Err(EngineError::Store(e)) => return Err(e),
            Err(e) => {
                tracing::warn!(session = %key.id, "a session cannot be told of a task: {e}");
                return Ok(());
            }
        };
        let idempotency_key = Some(format!("task:{}:{kind}:{reference}", kind.len()));
        let post = Post { key: key.clone(), idempotency_key, input, now: self.engine.now() };
        match self.jobs.notify(&task.key, post).await {
            Ok(Notified::Posted(_)) => self.bus.call(Call::Inbox { session: key }),
            Ok(Notified::NotIdle | Notified::NothingToTell) | Err(StoreError::NotFound { .. }) => {}
            Err(e) => return Err(e),
        }
        Ok(())
    }
}

impl Clockwork {
    /// What the turn that the end of a task begins takes over from the one that started the task.
    async fn inheritance(
        &self,
        session: &SessionKey,
        task: &Task,
    ) -> Result<Inheritance, StoreError> {
        match self.engine.inheritance(session, &task.turn).await {
            Ok(inheritance) => Ok(inheritance),
            Err(EngineError::Store(e)) if e.retryable() => Err(e),
            // The turn is gone with its session, or cannot be read; others must not wait for it.
            Err(e) => {
                tracing::warn!(session = %session.id, "the turn of a task cannot be read: {e}");
                Ok(Inheritance::default())
            }
        }
    }
}

/// Spreads those that failed together: by the job's own name, so that nothing random is needed.
fn jitter(job: &Job) -> f64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (job.key.id.as_str(), job.attempts).hash(&mut hasher);
    (hasher.finish() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Why a job could not be done.
struct Failed {
    why: String,
    again: Again,
}

enum Again {
    Later,
    Never,
}

impl Failed {
    fn never(why: String) -> Self {
        Self { why, again: Again::Never }
    }

    fn of_store(error: &StoreError) -> Self {
        let again = if error.retryable() { Again::Later } else { Again::Never };
        Self { why: error.report(), again }
    }
}
