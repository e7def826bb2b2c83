//! Answers requests from a cassette.

use super::{CassetteError, Exchange, bare_path};
use crate::transport::{BodyFailure, Reply};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use turnbuckle_core::error::{ModelError, ModelErrorKind};
use turnbuckle_core::json::clip;
use turnbuckle_wire::EncodedRequest;

/// A cassette in play. Each exchange answers once.
#[derive(Debug)]
pub struct Player {
    name: String,
    exchanges: Mutex<Vec<Option<Exchange>>>,
}

impl Player {
    /// Reads a cassette.
    ///
    /// # Errors
    /// When the file cannot be read, or a line of it is no exchange.
    pub fn open(path: &Path) -> Result<Arc<Self>, CassetteError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| CassetteError::File { path: path.to_owned(), source })?;
        let exchanges = text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
            .map(|(index, line)| {
                serde_json::from_str(line).map(Some).map_err(|source| CassetteError::Line {
                    path: path.to_owned(),
                    line: index + 1,
                    source,
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Arc::new(Self { name, exchanges: Mutex::new(exchanges) }))
    }

    /// The exchanges not yet used.
    pub fn remaining(&self) -> usize {
        let exchanges = self.exchanges.lock().unwrap_or_else(PoisonError::into_inner);
        exchanges.iter().flatten().count()
    }

    /// The recorded answer to a request.
    ///
    /// # Errors
    /// [`ModelErrorKind::Config`] when there is none (left).
    pub fn answer(&self, request: &EncodedRequest) -> Result<Reply, ModelError> {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
        let path = bare_path(&request.path);
        let mut exchanges = self.exchanges.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = exchanges
            .iter_mut()
            .find(|slot| slot.as_ref().is_some_and(|e| e.path == path && e.request == body));
        let Some(exchange) = slot.and_then(Option::take) else {
            let text = body.to_string();
            return Err(ModelError::new(
                ModelErrorKind::Config,
                format!(
                    "the cassette {} holds no (further) answer to this request; record it anew: {path} {}",
                    self.name,
                    clip(&text, 300)
                ),
            ));
        };
        let headers: HeaderMap = exchange
            .headers
            .iter()
            .filter_map(|(name, value)| {
                Some((
                    HeaderName::from_bytes(name.as_bytes()).ok()?,
                    HeaderValue::from_str(value).ok()?,
                ))
            })
            .collect();
        let mut pieces: Vec<Result<Bytes, BodyFailure>> =
            exchange.body.iter().map(|piece| Ok(piece.bytes().into())).collect();
        pieces.extend(exchange.broken.map(|words| Err(BodyFailure(words))));
        Ok(Reply::replayed(exchange.status, headers, RecordedBody { pieces: pieces.into_iter() }))
    }
}

/// A body from a cassette, in the pieces in which it once came.
#[derive(Debug)]
pub struct RecordedBody {
    pieces: std::vec::IntoIter<Result<Bytes, BodyFailure>>,
}

impl Iterator for RecordedBody {
    type Item = Result<Bytes, BodyFailure>;

    fn next(&mut self) -> Option<Self::Item> {
        self.pieces.next()
    }
}
