//! Processes: started, signalled, waited for.

use super::{soon, until};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use tokio::sync::mpsc::unbounded_channel;

/// A signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The process is gone at once.
    Kill,
    /// It falls asleep wherever it is.
    Stop,
    /// It wakes up.
    Continue,
    /// It is asked to end.
    Terminate,
}

/// A process under test. It dies with the test.
pub struct Process {
    child: Child,
    pid: String,
    /// Where it serves, if it does.
    pub base: String,
}

impl Process {
    /// Starts it and does not wait for what it says.
    pub fn begin(mut command: Command) -> Self {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let pid = child.id().to_string();
        Self { child, pid, base: String::new() }
    }

    /// Starts it and waits until it says that it is ready.
    pub async fn start(command: Command) -> Self {
        let mut process = Self::begin(command);
        let lines = BufReader::new(process.child.stdout.take().unwrap()).lines();
        let (tell, mut told) = unbounded_channel();
        // Reads to the end, so that the process can always write.
        std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| drop(tell.send(line)))
        });
        let base = async {
            let mut base = String::new();
            while let Some(line) = told.recv().await {
                if let Some((_, at)) = line.split_once(" at http://") {
                    base = format!("http://{at}");
                }
                if line.ends_with("Ctrl-C ends it.") {
                    return base;
                }
            }
            panic!("the process ended before it was ready")
        };
        process.base = soon("a process is ready", base).await;
        process
    }

    pub fn pid(&self) -> u32 {
        self.pid.parse().unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        let name = match signal {
            Signal::Kill => "-KILL",
            Signal::Stop => "-STOP",
            Signal::Continue => "-CONT",
            Signal::Terminate => "-TERM",
        };
        kill(name, &self.pid);
    }

    /// `kill -9`, and it is gone.
    pub async fn die(mut self) {
        self.signal(Signal::Kill);
        self.exit().await;
    }

    /// Waits for its end.
    pub async fn exit(&mut self) -> ExitStatus {
        until("a process ends", async || self.child.try_wait().unwrap()).await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that ended already cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command to its end.
pub async fn run(mut command: Command) -> Output {
    let run = tokio::task::spawn_blocking(move || command.stdin(Stdio::null()).output());
    soon("a command ends", run).await.unwrap().unwrap()
}

/// Lets this process and its children have as many open files as the system allows.
pub fn allow_many_files() {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let most = line.split_whitespace().nth(4).unwrap();
    let pid = std::process::id().to_string();
    let limit = format!("--nofile={most}:{most}");
    let set = Command::new("prlimit").args(["--pid", &pid, &limit]).status().unwrap();
    assert!(set.success());
}

/// Sends a signal to a process.
pub fn kill(signal: &str, pid: &str) {
    // One that is gone already is where it should be.
    let _gone = std::process::Command::new("kill")
        .args([signal, pid])
        .stderr(Stdio::null())
        .status()
        .unwrap();
}
