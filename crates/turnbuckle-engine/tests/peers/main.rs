//! The engine against servers that others wrote, started by the tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod aimock;
mod llama;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use turnbuckle_core::tool::ToolSpec;

/// A server that runs under Node.js and says where it listens.
struct Peer {
    process: Child,
    url: String,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Peer {
    fn start(script: impl AsRef<Path>, arguments: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut process = Command::new("node")
            .arg(script.as_ref())
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("node is installed");
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let url = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| line.split_once("listening on ").map(|(_, url)| url.trim().to_owned()))
            .expect("the server says where it listens");
        // Its later output is of no interest, but the pipe must not fill up.
        std::thread::spawn(move || lines.for_each(drop));
        Self { process, url }
    }
}

/// The folder of what tests need beside Rust.
fn tests_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests")
}

/// Says why a test is skipped, which only a run outside CI may do.
fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "{why}; in CI nothing may be skipped");
    eprintln!("SKIPPED: {why}");
}

/// A tool of one argument, which it needs.
fn spec(name: &str, description: &str, argument: &str, kind: &str) -> ToolSpec {
    let schema = serde_json::json!({
        "type": "object", "properties": {argument: {"type": kind}}, "required": [argument],
        "additionalProperties": false,
    });
    ToolSpec { name: name.into(), description: description.into(), input_schema: schema.into() }
}
