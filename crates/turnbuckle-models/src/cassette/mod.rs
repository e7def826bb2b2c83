//! Cassettes: live calls recorded to a file, and replayed without a network.
//!
//! A cassette is a text file with one exchange per line as JSON: what was asked (path and body), and the answer (status,
//! the headers worth keeping, and the body in the pieces in which it came). No request header and no query string is ever
//! written, and the endpoint's secrets are replaced wherever they occur in bodies. An exchange is written when its answer
//! ended, broke or was given up, so that a recorded failure replays as one.
//!
//! On replay a request is answered by the first unused exchange with the same path and body (compared as JSON, so the
//! order of keys does not matter). A request that was never recorded is a configuration error which says so.

mod play;
mod record;

pub use play::{Player, RecordedBody};
pub use record::{Recorder, Tape};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io;
use std::path::PathBuf;

/// A cassette that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CassetteError {
    /// The file cannot be read or written.
    #[error("the cassette {} cannot be used: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A line is not an exchange.
    #[error("line {line} of the cassette {} is not a recorded exchange: {source}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// Why not.
        source: serde_json::Error,
    },
}

/// One call and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Exchange {
    path: String,
    request: Value,
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<Piece>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    broken: Option<String>,
}

/// A piece of a body: text where it is text, else hexadecimal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Piece {
    Text(String),
    Hex(String),
}

impl Piece {
    fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Piece::Text(text.to_owned()),
            Err(_) => Piece::Hex(bytes.iter().map(|b| format!("{b:02x}")).collect()),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        match self {
            Piece::Text(text) => text.clone().into_bytes(),
            Piece::Hex(hex) => hex
                .as_bytes()
                .chunks(2)
                .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
                .collect(),
        }
    }
}

/// A path without its query, where some vendors carry the key.
fn bare_path(path: &str) -> &str {
    path.split('?').next().unwrap_or(path)
}
