//! The test's end of every tool call: it counts them, and holds back those it was told to.

use super::agents::Call;
use super::soon;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use turnbuckle_testkit::Gate;

/// What tools did, in all processes of a test.
pub struct World {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

struct Shared {
    gates: Mutex<BTreeMap<String, Gate>>,
    begun: watch::Sender<Vec<Call>>,
    done: watch::Sender<Vec<Call>>,
}

impl World {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            gates: Mutex::default(),
            begun: watch::Sender::default(),
            done: watch::Sender::default(),
        });
        let mut tasks = JoinSet::new();
        let own = shared.clone();
        tasks.spawn(async move {
            let mut calls = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let shared = own.clone();
                // A process that dies in the middle breaks off; that is what tests are about.
                calls.spawn(async move { drop(shared.hear(stream).await) });
                while calls.try_join_next().is_some() {}
            }
        });
        Self { address, shared, _tasks: tasks }
    }

    /// Calls about this thing are held back until the gate is opened.
    pub fn hold(&self, id: &str) -> Gate {
        let gate = Gate::new();
        self.shared.gates.lock().unwrap().insert(id.to_owned(), gate.clone());
        gate
    }

    /// Opens the gate of a thing.
    pub fn open(&self, id: &str) {
        if let Some(gate) = self.shared.gates.lock().unwrap().get(id) {
            gate.open();
        }
    }

    /// Calls about this thing are not held back any more, even when others still are.
    pub fn let_go(&self, id: &str) {
        self.shared.gates.lock().unwrap().remove(id);
    }

    /// Every call that began.
    pub fn begun(&self) -> Vec<Call> {
        self.shared.begun.borrow().clone()
    }

    /// How many calls about a thing began.
    pub fn times(&self, id: &str) -> usize {
        self.begun().iter().filter(|call| call.id == id).count()
    }

    /// Waits until so many calls about a thing have begun.
    pub async fn wait_begun(&self, id: &str, times: usize) -> Vec<Call> {
        wait(&self.shared.begun, id, times).await
    }

    /// Waits until so many calls about a thing have done their deed; their process may know it a moment later.
    pub async fn wait_done(&self, id: &str, times: usize) -> Vec<Call> {
        wait(&self.shared.done, id, times).await
    }

    /// Waits until so many calls of any kind have begun.
    pub async fn wait_for_calls(&self, times: usize) {
        let mut calls = self.shared.begun.subscribe();
        soon("calls of tools", calls.wait_for(|calls| calls.len() >= times)).await.unwrap();
    }
}

async fn wait(calls: &watch::Sender<Vec<Call>>, id: &str, times: usize) -> Vec<Call> {
    let about =
        |calls: &Vec<Call>| calls.iter().filter(|c| c.id == id).cloned().collect::<Vec<_>>();
    let mut calls = calls.subscribe();
    let what = format!("{times} calls about {id}");
    let seen = soon(&what, calls.wait_for(|calls| about(calls).len() >= times)).await.unwrap();
    about(&seen)
}

impl Shared {
    async fn hear(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let call: Call = serde_json::from_str(&line)?;
        let gate = self.gates.lock().unwrap().get(&call.id).cloned();
        self.begun.send_modify(|calls| calls.push(call.clone()));
        if let Some(gate) = gate {
            gate.wait().await;
        }
        stream.write_all(b"go\n").await?;
        line.clear();
        if stream.read_line(&mut line).await? > 0 {
            self.done.send_modify(|calls| calls.push(call));
        }
        Ok(())
    }
}
