//! Steps through the store alone, of realistic size: two journal entries, six events with some text, and the session's row.

use crate::took;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::task::JoinSet;
use turnbuckle::core::event::{Event, EventKind};
use turnbuckle::core::ids::{MessageId, TurnId};
use turnbuckle::core::machine::{Input, Recorded};
use turnbuckle::core::time::Timestamp;
use turnbuckle::store::{Claim, Commit, NewSession, OpenTurn, SessionKey, SessionStatus, Store};
use turnbuckle_bench::Error;

const EVENTS: u32 = 6;
const TURN: &str = "t_bench";

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// The owner of a session with an open turn.
pub struct Writer {
    key: SessionKey,
    fence: u64,
    seq: u64,
    n: u32,
}

impl Writer {
    /// In a session of its own.
    pub async fn new(store: &dyn Store, tenant: &str, id: &str) -> Result<Self, Error> {
        let key = SessionKey::new(tenant, id);
        let new = NewSession {
            key: key.clone(),
            user: "bench".into(),
            agent: "main".into(),
            title: None,
            model: None,
            state: None,
            now: now(),
        };
        store.create_session(new).await?;
        Self::of(store, key).await
    }

    /// In a session that is there.
    pub async fn of(store: &dyn Store, key: SessionKey) -> Result<Self, Error> {
        let Claim::Held { fence, session } = store.claim(&key, "bench", 600_000, now()).await?
        else {
            return Err(format!("somebody else has {}", key.id).into());
        };
        let mut commit = Commit::new(key.clone(), fence, now());
        commit.open_turn = Some(OpenTurn { id: TURN.into(), spec: "{}".to_owned() });
        commit.session_status = Some(SessionStatus::Running);
        store.commit(commit).await?;
        Ok(Self { key, fence, seq: session.next_seq, n: 0 })
    }

    pub async fn step(&mut self, store: &dyn Store) -> Result<(), Error> {
        let at = now();
        let mut commit = Commit::new(self.key.clone(), self.fence, at);
        for i in 0..EVENTS {
            let kind = EventKind::TextDelta {
                message: MessageId::from("t_bench-a"),
                part: 0,
                offset: i * 50,
                iteration: 0,
                text: "fifty characters of text as a model streams it now".to_owned(),
            };
            let (session, turn) = (self.key.id.clone(), TurnId::from(TURN));
            let seq = self.seq + u64::from(i);
            let agent = "main".into();
            commit.events.extend([Event { seq, epoch: 0, at, session, turn, agent, kind }]);
        }
        for step in 0..2 {
            let data = Arc::new(json!({"text": "x".repeat(300)}));
            let input = Input::Progress { step, data };
            commit.journal.push(Recorded { n: self.n + step, at, input });
        }
        self.seq += u64::from(EVENTS);
        self.n += 2;
        store.commit(commit).await?;
        Ok(())
    }
}

/// So many sessions with an open turn.
pub async fn open(store: &Arc<dyn Store>, count: usize) -> Result<Vec<Writer>, Error> {
    let mut writers = Vec::with_capacity(count);
    for i in 0..count {
        writers.push(Writer::new(&**store, &tenant(i), &format!("s_steps_{i}")).await?);
    }
    Ok(writers)
}

fn tenant(i: usize) -> String {
    format!("tenant_{:04}", i % 1_000)
}

/// Each turn steps at its own moments, `rate` steps a second of all together. What is late counts from when it was to be.
pub async fn paced(
    store: &Arc<dyn Store>,
    writers: Vec<Writer>,
    rate: usize,
    seconds: u64,
) -> Result<(Value, Vec<Writer>), Error> {
    let start = Instant::now();
    let gap = Duration::from_secs_f64(writers.len() as f64 / rate as f64);
    let until = start + Duration::from_secs(seconds);
    let count = writers.len();
    let mut tasks = JoinSet::new();
    for (i, mut writer) in writers.into_iter().enumerate() {
        let store = store.clone();
        tasks.spawn(async move {
            let mut next = start + gap.mul_f64(i as f64 / count as f64);
            let mut took = Vec::new();
            while next < until {
                tokio::time::sleep_until(next.into()).await;
                writer.step(&*store).await?;
                took.push(next.elapsed());
                next += gap;
            }
            Ok::<_, Error>((writer, took))
        });
    }
    let (mut writers, mut all) = (Vec::with_capacity(count), Vec::new());
    while let Some(done) = tasks.join_next().await {
        let (writer, took) = done??;
        writers.push(writer);
        all.extend(took);
    }
    Ok((took::row(all, start.elapsed()), writers))
}

/// Every turn steps as soon as its last step is stored.
pub async fn ceiling(
    store: &Arc<dyn Store>,
    writers: Vec<Writer>,
    seconds: u64,
) -> Result<Value, Error> {
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for mut writer in writers {
        let store = store.clone();
        tasks.spawn(async move {
            let mut took = Vec::new();
            while start.elapsed() < Duration::from_secs(seconds) {
                let began = Instant::now();
                writer.step(&*store).await?;
                took.push(began.elapsed());
            }
            Ok::<_, Error>(took)
        });
    }
    let mut all = Vec::new();
    while let Some(done) = tasks.join_next().await {
        all.extend(done??);
    }
    Ok(took::row(all, start.elapsed()))
}
