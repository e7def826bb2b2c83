//! Writes exchanges to a cassette.

use super::{CassetteError, Exchange, Piece, bare_path};
use crate::secret::Secret;
use crate::transport::BodyFailure;
use http::HeaderMap;
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use turnbuckle_wire::EncodedRequest;

/// The answer's headers that a replay needs; everything else may tell on the account.
const KEPT: [&str; 6] = [
    "content-type",
    "retry-after",
    "retry-after-ms",
    "x-request-id",
    "request-id",
    "x-should-retry",
];

/// Records every call of the endpoints it is given to.
#[derive(Debug)]
pub struct Recorder {
    file: Mutex<File>,
    secrets: Vec<Secret>,
}

impl Recorder {
    /// Appends to the file, creating it if need be. `secrets` are replaced in bodies.
    ///
    /// # Errors
    /// When the file cannot be opened for writing.
    pub fn append(path: &Path, secrets: Vec<Secret>) -> Result<Arc<Self>, CassetteError> {
        let opened = OpenOptions::new().create(true).append(true).open(path);
        let file =
            opened.map_err(|source| CassetteError::File { path: path.to_owned(), source })?;
        Ok(Arc::new(Self { file: Mutex::new(file), secrets }))
    }

    /// Begins to record one call.
    pub fn tape(self: &Arc<Self>, request: &EncodedRequest) -> Tape {
        let body = self.strip(&String::from_utf8_lossy(&request.body));
        let exchange = Exchange {
            path: self.strip(bare_path(&request.path)),
            request: serde_json::from_str(&body).unwrap_or(Value::String(body)),
            status: 0,
            headers: Vec::new(),
            body: Vec::new(),
            broken: None,
        };
        Tape { recorder: self.clone(), exchange, pieces: Vec::new(), broken: None }
    }

    fn strip(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| secret.strip_from(&text))
    }

    fn write(&self, exchange: &Exchange) {
        let Ok(mut line) = serde_json::to_vec(exchange) else { return };
        line.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(&line) {
            tracing::warn!(%error, "a recorded call could not be written to the cassette");
        }
    }
}

/// One call being recorded. It is written when it is dropped.
#[derive(Debug)]
pub struct Tape {
    recorder: Arc<Recorder>,
    exchange: Exchange,
    pieces: Vec<Vec<u8>>,
    broken: Option<String>,
}

impl Tape {
    /// The head of the answer came.
    pub fn head(&mut self, status: u16, headers: &HeaderMap) {
        self.exchange.status = status;
        self.exchange.headers = KEPT
            .iter()
            .filter_map(|name| {
                Some(((*name).to_owned(), headers.get(*name)?.to_str().ok()?.to_owned()))
            })
            .collect();
    }

    /// A piece of the body came.
    pub fn piece(&mut self, data: &[u8]) {
        self.pieces.push(data.to_vec());
    }

    /// The body broke off.
    pub fn broken(&mut self, broken: &BodyFailure) {
        self.broken = Some(broken.0.clone());
    }

    fn body(&self) -> Vec<Piece> {
        // A secret may lie across two pieces: then the pieces are joined before it is replaced.
        let joined = self.pieces.concat();
        if let Ok(text) = std::str::from_utf8(&joined) {
            let stripped = self.recorder.strip(text);
            if stripped != text {
                return vec![Piece::Text(stripped)];
            }
        }
        self.pieces.iter().map(|data| Piece::of(data)).collect()
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        if self.exchange.status == 0 {
            return;
        }
        self.exchange.body = self.body();
        self.exchange.broken = self.broken.take();
        self.recorder.write(&self.exchange);
    }
}
