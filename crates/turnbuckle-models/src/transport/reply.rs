//! The head of an answer, and its body piece by piece.

use super::direct::DirectBody;
use super::http::causes;
use crate::cassette::{RecordedBody, Tape};
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, ready};
use turnbuckle_core::error::{ModelError, ModelErrorKind};

/// An answer whose body is still to be read. Dropping it drops the request.
#[derive(Debug)]
pub struct Reply {
    status: u16,
    headers: HeaderMap,
    body: Body,
    tape: Option<Tape>,
}

#[derive(Debug)]
enum Body {
    Direct(DirectBody),
    Full(Box<reqwest::Response>),
    Recorded(RecordedBody),
}

/// The connection broke while the body was read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection broke: {0}")]
pub struct BodyFailure(pub String);

impl Reply {
    pub(super) fn direct((head, body): (http::Response<()>, DirectBody)) -> Self {
        let (head, ()) = head.into_parts();
        Self {
            status: head.status.as_u16(),
            headers: head.headers,
            body: Body::Direct(body),
            tape: None,
        }
    }

    pub(super) fn full(mut answer: reqwest::Response) -> Self {
        let headers = std::mem::take(answer.headers_mut());
        Self {
            status: answer.status().as_u16(),
            headers,
            body: Body::Full(Box::new(answer)),
            tape: None,
        }
    }

    pub(super) fn recorded(self, mut tape: Tape) -> Self {
        tape.head(self.status, &self.headers);
        Self { tape: Some(tape), ..self }
    }

    pub(crate) fn replayed(status: u16, headers: HeaderMap, body: RecordedBody) -> Self {
        Self { status, headers, body: Body::Recorded(body), tape: None }
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Gives the next piece of the body to `take`, which is never called with an empty one, and says what it made of it; `None` at
    /// the body's end.
    pub fn poll_chunk<R>(
        &mut self,
        cx: &mut Context<'_>,
        take: impl FnOnce(&[u8]) -> R,
    ) -> Poll<Option<Result<R, BodyFailure>>> {
        let tape = &mut self.tape;
        let chunk = ready!(self.body.poll(cx, |data| {
            if let Some(tape) = tape {
                tape.piece(data);
            }
            take(data)
        }));
        if let (Some(tape), Some(Err(broken))) = (&mut self.tape, &chunk) {
            tape.broken(broken);
        }
        Poll::Ready(chunk)
    }

    /// Says that the next piece is not wanted for now. What comes then wakes nobody, not even the runtime where that can be;
    /// [`poll_chunk`](Self::poll_chunk) still gives it.
    pub fn leave(&mut self) {
        if let Body::Direct(body) = &mut self.body {
            body.leave();
        }
    }

    /// The rest of the body, cut after `limit` bytes.
    ///
    /// # Errors
    /// When the connection breaks before anything came.
    pub async fn read(&mut self, limit: usize) -> Result<Bytes, ModelError> {
        let mut all = BytesMut::new();
        while all.len() < limit {
            let next = poll_fn(|cx| self.poll_chunk(cx, |data| all.extend_from_slice(data)));
            match next.await {
                None => break,
                Some(Ok(())) => {}
                Some(Err(broken)) if all.is_empty() => {
                    return Err(ModelError::new(ModelErrorKind::Network, broken.to_string()));
                }
                Some(Err(_)) => break,
            }
        }
        all.truncate(limit);
        Ok(all.freeze())
    }

    /// Reads what little may follow the end of an answer, so that the connection can be used again.
    pub(crate) async fn drain(mut self) {
        const REST: usize = 64 * 1024;
        let mut seen = 0;
        while let Some(Ok(more)) = poll_fn(|cx| self.poll_chunk(cx, <[u8]>::len)).await {
            seen += more;
            if seen > REST {
                return;
            }
        }
    }
}

impl Body {
    fn poll<R>(
        &mut self,
        cx: &mut Context<'_>,
        take: impl FnOnce(&[u8]) -> R,
    ) -> Poll<Option<Result<R, BodyFailure>>> {
        let data = loop {
            let data = match self {
                Body::Direct(body) => return body.poll(cx, take).map_err(BodyFailure),
                // A `chunk` future keeps nothing between polls, so a new one may take over each time.
                Body::Full(answer) => match ready!(pin!(answer.chunk()).poll(cx)) {
                    Ok(chunk) => chunk.map(Ok),
                    Err(error) => Some(Err(BodyFailure(causes(&error.without_url())))),
                },
                Body::Recorded(body) => body.next(),
            };
            if !matches!(&data, Some(Ok(data)) if data.is_empty()) {
                break data;
            }
        };
        Poll::Ready(data.map(|data| data.map(|data| take(&data))))
    }
}
