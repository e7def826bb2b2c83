//! Runs the binary: once, or as a conversation whose output is waited on.

use serde_json::Value;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;
use tempfile::TempDir;

/// How long a test waits for output that should come at once, before it is called a hang.
const HANG: Duration = Duration::from_secs(120);

/// A desk is filled once and copied for each test.
static FILLED: LazyLock<TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let output = bare(folder.path()).args(["tools", "list"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    folder
});
static FILLING: Mutex<()> = Mutex::new(());

/// A data folder with a filled desk, and the environment the binary runs in.
pub struct Place {
    pub folder: TempDir,
    env: Vec<(String, String)>,
}

impl Place {
    /// With the rehearsal at full speed.
    pub fn rehearsal() -> Self {
        Self::empty().env("TURNBUCKLE_MODEL", "rehearsal").env("TURNBUCKLE_REHEARSAL_PACE_MS", "0")
    }

    /// With an OpenAI-compatible server.
    pub fn server(base_url: &str) -> Self {
        Self::empty().env("OPENAI_BASE_URL", base_url).env("TURNBUCKLE_MODEL", "openai:test-model")
    }

    /// With nothing but the desk.
    pub fn empty() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let _one = FILLING.lock().unwrap_or_else(|e| e.into_inner());
        for entry in std::fs::read_dir(FILLED.path()).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name().to_string_lossy().starts_with("desk.db") {
                std::fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
            }
        }
        Self { folder, env: Vec::new() }
    }

    /// Sets a variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.retain(|(n, _)| n != name);
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Writes a configuration that every run reads.
    pub fn config(self, text: &str) -> Self {
        let path = self.folder.path().join("turnbuckle.toml");
        std::fs::write(&path, text).unwrap();
        let path = path.to_string_lossy().into_owned();
        self.env("TURNBUCKLE_CONFIG", &path)
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = bare(self.folder.path());
        command.envs(self.env.iter().map(|(n, v)| (n, v))).args(args);
        command
    }

    /// Runs to the end.
    pub fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, "")
    }

    /// Runs to the end with this input.
    pub fn run_with(&self, args: &[&str], input: impl AsRef<[u8]>) -> Ran {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A command that refuses at once does not read its input.
        let _ = stdin.write_all(input.as_ref());
        drop(stdin);
        Ran::of(child.wait_with_output().unwrap())
    }

    /// Begins a conversation.
    pub fn talk(&self, args: &[&str]) -> Talk {
        Talk::start(&mut self.command(args))
    }
}

fn bare(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_turnbuckle"));
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", folder)
        .env("TURNBUCKLE_DATA", folder)
        .env("TERM", "dumb")
        .current_dir(folder);
    command
}

/// How a run ended.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self {
            code: output.status.code().unwrap_or(-1),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// The run, when it ended with this code.
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    /// Each line of stdout as JSON.
    pub fn json_lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Stdout as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap()
    }

    /// The session that `run` told of.
    pub fn session(&self) -> String {
        let line = self.err.lines().find_map(|l| l.strip_prefix("session "));
        line.unwrap_or_else(|| panic!("no session in {}", self.err)).to_owned()
    }
}

/// A conversation with a running process.
pub struct Talk {
    child: Child,
    stdin: Option<Box<dyn Write>>,
    pieces: Receiver<String>,
    seen: String,
    read: usize,
}

impl Talk {
    /// Starts a process and listens to it.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let pieces = listen(child.stdout.take().unwrap());
        let stdin = child.stdin.take().map(|stdin| Box::new(stdin) as Box<dyn Write>);
        Self { child, stdin, pieces, seen: String::new(), read: 0 }
    }

    /// Starts a process at a terminal of its own.
    #[cfg(unix)]
    pub fn at_terminal(command: &mut Command) -> Self {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let end = || std::fs::File::options().read(true).write(true).open(&name).unwrap();
        let child = command.stdin(end()).stdout(end()).stderr(Stdio::inherit()).spawn().unwrap();
        let ours = std::fs::File::from(ours);
        let pieces = listen(ours.try_clone().unwrap());
        Self { child, stdin: Some(Box::new(ours)), pieces, seen: String::new(), read: 0 }
    }

    /// Types a line.
    pub fn say(&mut self, line: &str) -> &mut Self {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
        self
    }

    /// Presses these keys, all at once.
    #[cfg(unix)]
    pub fn press(&mut self, keys: &str) -> &mut Self {
        self.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
        self
    }

    /// Waits until `text` is printed and gives what came up to its end.
    pub fn wait_for(&mut self, text: &str) -> String {
        self.wait_for_any(&[text]).1
    }

    /// Waits for the first of several texts; gives its index and what came up to its end.
    pub fn wait_for_any(&mut self, texts: &[&str]) -> (usize, String) {
        loop {
            let fresh = &self.seen[self.read..];
            let found = texts
                .iter()
                .enumerate()
                .filter_map(|(i, text)| Some((fresh.find(text)? + text.len(), i)))
                .min();
            if let Some((end, index)) = found {
                let came = fresh[..end].to_owned();
                self.read += end;
                return (index, came);
            }
            match self.pieces.recv_timeout(HANG) {
                Ok(piece) => self.seen.push_str(&piece),
                Err(_) => panic!("none of {texts:?} came; what did:\n{}", self.seen),
            }
        }
    }

    /// Presses Ctrl-C.
    pub fn interrupt(&mut self) -> &mut Self {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        self
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends the input and gives the exit code and the rest of the output.
    pub fn end(mut self) -> (i32, String) {
        drop(self.stdin.take());
        self.exit()
    }

    /// Waits for the process to end by itself.
    pub fn exit(&mut self) -> (i32, String) {
        while let Ok(piece) = self.pieces.recv_timeout(HANG) {
            self.seen.push_str(&piece);
        }
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        (code, self.seen[self.read..].to_owned())
    }
}

/// Gives on what is printed, whole characters at a time.
fn listen(mut printed: impl Read + Send + 'static) -> Receiver<String> {
    let (give, pieces) = channel();
    std::thread::spawn(move || {
        let mut held = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = printed.read(&mut buffer) {
            held.extend_from_slice(&buffer[..n]);
            let whole = match std::str::from_utf8(&held) {
                Ok(text) => text.len(),
                Err(e) => e.valid_up_to(),
            };
            let rest = held.split_off(whole);
            let text = String::from_utf8(std::mem::replace(&mut held, rest)).unwrap();
            if give.send(text).is_err() {
                return;
            }
        }
    });
    pieces
}

impl Drop for Talk {
    fn drop(&mut self) {
        // A failed test leaves no process behind; one that ended already cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
