//! What a step's commit costs: microseconds of CPU (all threads) and of wall time.
//!
//! `cargo run --release -p turnbuckle-store --example commit_cost [DIRECTORY]`
//!
//! A step here has two journal entries, six events with some text, and the session's row. It is measured in a small database,
//! at the end of a long session, and among many sessions; the cost should be the same everywhere. The cost of making the
//! commit's data is measured apart and taken off.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::time::Instant;
use turnbuckle_core::event::{Event, EventKind};
use turnbuckle_core::ids::{MessageId, SessionId, TurnId};
use turnbuckle_core::machine::{Input, Recorded};
use turnbuckle_core::time::Timestamp;
use turnbuckle_store::{
    Claim, Commit, Durability, NewSession, OpenTurn, SessionKey, SessionStatus, SqliteOptions,
    SqliteStore, Store,
};

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// CPU seconds of this process, all threads, from the kernel's own account.
fn cpu() -> f64 {
    let mut total = 0u64;
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let path = task.unwrap().path().join("schedstat");
        if let Ok(text) = std::fs::read_to_string(path) {
            total += text.split(' ').next().unwrap().parse::<u64>().unwrap();
        }
    }
    total as f64 / 1e9
}

struct Writer {
    key: SessionKey,
    fence: u64,
    seq: u64,
    n: u32,
}

impl Writer {
    async fn open(store: &SqliteStore, name: &str) -> Self {
        let key = SessionKey::new("acme", name);
        let new = NewSession {
            key: key.clone(),
            user: "ann".into(),
            agent: "main".into(),
            title: None,
            model: None,
            state: None,
            now: NOW,
        };
        store.create_session(new).await.unwrap();
        let Claim::Held { fence, .. } = store.claim(&key, "bench", 60_000, NOW).await.unwrap()
        else {
            panic!("nobody else claims");
        };
        let mut commit = Commit::new(key.clone(), fence, NOW);
        commit.open_turn = Some(OpenTurn { id: "t".into(), spec: "{}".to_owned() });
        commit.session_status = Some(SessionStatus::Running);
        store.commit(commit).await.unwrap();
        Self { key, fence, seq: 1, n: 0 }
    }

    fn step(&mut self) -> Commit {
        let mut commit = Commit::new(self.key.clone(), self.fence, NOW);
        for i in 0..6 {
            commit.events.push(event(&self.key.id, self.seq, i));
            self.seq += 1;
        }
        for step in 0..2 {
            let input = Input::Progress {
                step,
                data: std::sync::Arc::new(serde_json::json!({"text": "x".repeat(300)})),
            };
            commit.journal.push(Recorded { n: self.n, at: NOW, input });
            self.n += 1;
        }
        commit
    }
}

fn event(session: &SessionId, seq: u64, offset: u32) -> Event {
    let kind = EventKind::TextDelta {
        message: MessageId::from("t-a"),
        part: 0,
        offset: offset * 50,
        iteration: 0,
        text: "fifty characters of text as a model streams it now".to_owned(),
    };
    let turn = TurnId::from("t");
    Event { seq, epoch: 0, at: NOW, session: session.clone(), turn, agent: "main".into(), kind }
}

async fn measure(store: &SqliteStore, label: &str, writers: &mut [Writer], count: usize) {
    let made = cpu();
    for i in 0..count {
        let which = i % writers.len();
        let commit = writers[which].step();
        std::hint::black_box(&commit);
        writers[which].seq -= 6;
        writers[which].n -= 2;
    }
    let making = cpu() - made;
    let (cpu0, wall0) = (cpu(), Instant::now());
    for i in 0..count {
        let which = i % writers.len();
        let commit = writers[which].step();
        store.commit(commit).await.unwrap();
    }
    let (cpu1, wall) = (cpu() - cpu0 - making, wall0.elapsed().as_secs_f64());
    let per = 1e6 / count as f64;
    println!("{label:<44} cpu {:>7.1} us   wall {:>7.1} us", cpu1 * per, wall * per);
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let dir = match std::env::args().nth(1) {
        Some(path) => tempfile::tempdir_in(path).unwrap(),
        None => tempfile::tempdir().unwrap(),
    };
    for durability in [Durability::PowerLoss, Durability::ProcessCrash] {
        let path = dir.path().join(format!("{durability:?}.db"));
        let store = SqliteStore::with(SqliteOptions { durability, ..SqliteOptions::new(&path) })
            .await
            .unwrap();
        println!("{durability:?}");
        let mut one = vec![Writer::open(&store, "first").await];
        measure(&store, "  warm up", &mut one, 500).await;
        measure(&store, "  a short session", &mut one, 2000).await;
        for _ in 0..20_000 {
            let commit = one[0].step();
            if durability == Durability::ProcessCrash {
                store.commit(commit).await.unwrap();
            } else {
                one[0].seq -= 6;
                one[0].n -= 2;
                break;
            }
        }
        measure(&store, "  the same session, longer", &mut one, 2000).await;
        let sessions = if durability == Durability::ProcessCrash { 5_000 } else { 200 };
        let mut many = Vec::new();
        for i in 0..sessions {
            many.push(Writer::open(&store, &format!("session-{i:06}")).await);
        }
        measure(&store, "  in turn over many sessions", &mut many, 10_000.min(sessions * 10)).await;
        store.close().await.unwrap();
    }
}
