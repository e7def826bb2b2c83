//! The worker: finds sessions that want an owner, drives their turns, and tells the bus what happens.

mod backoff;
mod jobs;
mod running;

use crate::metrics::Metrics;
use backoff::Backoffs;
use jobs::Clockwork;
use running::Running;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use turnbuckle_bus::{Bus, Call, Heard};
use turnbuckle_core::machine::Decision;
use turnbuckle_engine::{Engine, Submitted};
use turnbuckle_store::{Conflict, Jobs, Post, Posted, SessionKey, StoreError};

/// Expired cards settled at once.
const EXPIRED: u32 = 100;

/// How a worker works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerOptions {
    /// Sessions at work at once.
    pub sessions: usize,
    /// How often it looks for work that nobody told it about.
    pub poll: Duration,
    /// When it ends: how long turns may go on until they are left for another process.
    pub grace: Duration,
    /// Then: how long running tools may take.
    pub tool_grace: Duration,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            sessions: 1000,
            poll: Duration::from_secs(1),
            grace: Duration::from_secs(20),
            tool_grace: Duration::from_secs(10),
        }
    }
}

/// A worker at work.
pub struct Worker {
    stop: CancellationToken,
    task: JoinHandle<()>,
    clock: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts one.
    pub fn start(
        engine: Engine,
        bus: Arc<dyn Bus>,
        metrics: Metrics,
        options: WorkerOptions,
    ) -> Self {
        Self::begin(engine, bus, metrics, options, None)
    }

    /// Starts one that sees to jobs, schedules and background tasks as well.
    pub fn start_with_jobs(
        engine: Engine,
        bus: Arc<dyn Bus>,
        metrics: Metrics,
        options: WorkerOptions,
        jobs: Arc<dyn Jobs>,
    ) -> Self {
        Self::begin(engine, bus, metrics, options, Some(jobs))
    }

    fn begin(
        engine: Engine,
        bus: Arc<dyn Bus>,
        metrics: Metrics,
        options: WorkerOptions,
        jobs: Option<Arc<dyn Jobs>>,
    ) -> Self {
        let stop = CancellationToken::new();
        let clock = jobs.map(|jobs| {
            let clock = Clockwork {
                engine: engine.clone(),
                bus: bus.clone(),
                jobs,
                metrics: metrics.clone(),
                owner: uuid::Uuid::now_v7().simple().to_string(),
            };
            tokio::spawn(clock.run(options.poll, stop.clone()))
        });
        let desk = Desk {
            engine,
            bus,
            metrics,
            options,
            running: Mutex::default(),
            failed: Mutex::default(),
        };
        let task = tokio::spawn(Arc::new(desk).work(stop.clone()));
        Self { stop, task, clock }
    }

    /// Takes no new work, waits for what runs as long as the options say, leaves the rest for others, and gives every lease
    /// back.
    pub async fn stop(self) {
        self.stop.cancel();
        for task in [Some(self.task), self.clock].into_iter().flatten() {
            if let Err(e) = task.await {
                tracing::error!("the worker ended with a defect: {e}");
            }
        }
    }
}

/// What a worker has at hand.
struct Desk {
    engine: Engine,
    bus: Arc<dyn Bus>,
    metrics: Metrics,
    options: WorkerOptions,
    running: Mutex<BTreeMap<SessionKey, Arc<Running>>>,
    failed: Mutex<Backoffs>,
}

/// What a search for work gave.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    Left,
    Full,
}

impl Desk {
    async fn work(self: Arc<Self>, stop: CancellationToken) {
        let mut calls = self.bus.attend().await;
        let mut tasks: JoinSet<()> = JoinSet::new();
        let mut poll = tokio::time::interval(self.options.poll);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut starved = false;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(ended) = tasks.join_next(), if !tasks.is_empty() => {
                    self.metrics.set_running(tasks.len());
                    if let Err(e) = ended {
                        tracing::error!("a session's work ended with a defect: {e}");
                    }
                    if std::mem::take(&mut starved) {
                        starved = self.look(&mut tasks).await == Room::Full;
                    }
                }
                heard = calls.next() => match heard {
                    None => break,
                    Some(Heard::Lagged) => starved |= self.look(&mut tasks).await == Room::Full,
                    Some(Heard::Told(call)) => starved |= self.called(call, &mut tasks) == Room::Full,
                },
                _ = poll.tick() => {
                    self.expire().await;
                    starved |= self.look(&mut tasks).await == Room::Full;
                }
            }
        }
        self.finish(tasks).await;
    }

    fn called(self: &Arc<Self>, call: Call, tasks: &mut JoinSet<()>) -> Room {
        match call {
            Call::Inbox { session } | Call::Stop { session, .. } => self.take(session, tasks),
            Call::Recall { session } => {
                if let Some(running) = self.running().get(&session).cloned() {
                    running.tell_again();
                }
                Room::Left
            }
            _ => Room::Left,
        }
    }

    /// Looks for sessions that want an owner.
    async fn look(self: &Arc<Self>, tasks: &mut JoinSet<()>) -> Room {
        let free = self.options.sessions.saturating_sub(tasks.len());
        if free == 0 {
            return Room::Full;
        }
        let now = self.engine.now();
        match self.engine.store().claimable(now, free.min(1000) as u32).await {
            Ok(sessions) => {
                lock(&self.failed).store_answers();
                self.metrics.set_waiting(sessions.len());
                for session in sessions {
                    if self.may_try(&session) && self.take(session, tasks) == Room::Full {
                        return Room::Full;
                    }
                }
            }
            Err(e) => {
                lock(&self.failed).store_fails();
                tracing::warn!("no work can be looked for: {}", e.report());
            }
        }
        Room::Left
    }

    fn may_try(&self, session: &SessionKey) -> bool {
        lock(&self.failed).may_try(session, Instant::now())
    }

    /// Works on a session, unless that is done here already.
    fn take(self: &Arc<Self>, session: SessionKey, tasks: &mut JoinSet<()>) -> Room {
        if self.engine.knock(&session) {
            return Room::Left;
        }
        if tasks.len() >= self.options.sessions {
            return Room::Full;
        }
        let Submitted::Running(stream) = self.engine.work(&session) else { return Room::Left };
        let running = Arc::new(Running::new(
            session.clone(),
            self.bus.clone(),
            &stream,
            self.metrics.clone(),
        ));
        self.running().insert(session.clone(), running.clone());
        self.metrics.set_running(tasks.len() + 1);
        let desk = self.clone();
        tasks.spawn(async move {
            let end = running.drive(stream).await;
            {
                let mut all = desk.running();
                if all.get(&session).is_some_and(|mine| Arc::ptr_eq(mine, &running)) {
                    all.remove(&session);
                }
            }
            desk.note(session, end);
        });
        Room::Left
    }

    fn note(&self, session: SessionKey, end: running::End) {
        let mut failed = lock(&self.failed);
        match end {
            running::End::Done => failed.done(&session),
            running::End::BrokeOff => {
                self.metrics.broke_off();
                failed.broke_off(session, Instant::now());
            }
        }
    }

    /// Cards that nobody decided in time.
    async fn expire(&self) {
        let (store, now) = (self.engine.store(), self.engine.now());
        let cards = match store.expired_cards(now, EXPIRED).await {
            Ok(cards) => cards,
            Err(e) => return tracing::warn!("expired cards cannot be read: {}", e.report()),
        };
        for card in cards {
            let input =
                Posted::Decision { card: card.message.id, decision: Decision::Expire, by: None };
            let key = card.session.clone();
            match store.post(Post { key, idempotency_key: None, input, now }).await {
                Ok(_) => self.bus.call(Call::Inbox { session: card.session }),
                // Somebody decided at the last moment, or deleted the session.
                Err(
                    StoreError::Conflict { what: Conflict::Decided { .. } }
                    | StoreError::NotFound { .. },
                ) => {}
                Err(e) => tracing::warn!("a card cannot be expired: {}", e.report()),
            }
        }
    }

    async fn finish(&self, mut tasks: JoinSet<()>) {
        let options = &self.options;
        if !tasks.is_empty() {
            tracing::info!("waiting for {} sessions", tasks.len());
        }
        if drained(&mut tasks, options.grace).await {
            return;
        }
        tracing::info!("leaving {} sessions for other processes", tasks.len());
        for running in self.running().values() {
            running.park();
        }
        if !drained(&mut tasks, options.tool_grace).await {
            tracing::warn!("{} sessions are left in the middle of a tool call", tasks.len());
            for running in self.running().values() {
                running.abandon();
            }
            while tasks.join_next().await.is_some() {}
            if let Err(e) = self.engine.forfeit().await {
                tracing::warn!("leases could not be given back and run out by themselves: {e}");
            }
        }
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<SessionKey, Arc<Running>>> {
        lock(&self.running)
    }
}

/// Whether everything ended within the time.
async fn drained(tasks: &mut JoinSet<()>, within: Duration) -> bool {
    let all = async { while tasks.join_next().await.is_some() {} };
    tokio::time::timeout(within, all).await.is_ok()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
