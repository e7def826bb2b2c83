//! The head of an answer, and its body piece by piece.

use super::direct::DirectBody;
use super::http::causes;
use crate::cassette::{RecordedBody, Tape};
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
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

    /// The next piece of the body; `None` at its end. Never an empty piece.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyFailure>>> {
        loop {
            let chunk = ready!(self.body.poll(cx));
            if let Some(tape) = &mut self.tape {
                tape.chunk(chunk.as_ref());
            }
            match chunk {
                Some(Ok(data)) if data.is_empty() => {}
                other => return Poll::Ready(other),
            }
        }
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
            match std::future::poll_fn(|cx| self.poll_chunk(cx)).await {
                None => break,
                Some(Ok(data)) => all.extend_from_slice(&data),
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
        while let Some(Ok(data)) = std::future::poll_fn(|cx| self.poll_chunk(cx)).await {
            seen += data.len();
            if seen > REST {
                return;
            }
        }
    }
}

impl Body {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyFailure>>> {
        let chunk = match self {
            Body::Direct(body) => ready!(body.poll(cx)),
            // A `chunk` future keeps nothing between polls, so a new one may take over each time.
            Body::Full(answer) => match ready!(pin!(answer.chunk()).poll(cx)) {
                Ok(chunk) => chunk.map(Ok),
                Err(error) => Some(Err(causes(&error.without_url()))),
            },
            Body::Recorded(body) => return Poll::Ready(body.next()),
        };
        Poll::Ready(chunk.map(|chunk| chunk.map_err(BodyFailure)))
    }
}
