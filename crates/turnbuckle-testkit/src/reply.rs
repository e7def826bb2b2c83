//! What the fake server answers, byte by byte where a test wants that.

use crate::gate::Gate;
use bytes::Bytes;
use http_body::{Body, Frame};
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

/// One step of sending an answer's body.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Sends bytes as a write of their own.
    Send(Bytes),
    /// Waits for a gate.
    Gate(Gate),
    /// Breaks the connection.
    Cut,
    /// Sends nothing more and keeps the connection open.
    Hang,
}

/// An answer: status, headers and the steps of its body.
#[derive(Clone, Debug)]
pub struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) head_gate: Option<Gate>,
    pub(crate) steps: VecDeque<Step>,
}

impl Reply {
    /// An answer with an empty body.
    pub fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), head_gate: None, steps: VecDeque::new() }
    }

    /// A JSON answer.
    pub fn json(status: u16, body: &serde_json::Value) -> Self {
        Self::status(status).header("content-type", "application/json").send(body.to_string())
    }

    /// A stream of server-sent events. Each frame is one write.
    pub fn sse<F: Into<Bytes>>(frames: impl IntoIterator<Item = F>) -> Self {
        let start = Self::status(200).header("content-type", "text/event-stream");
        frames.into_iter().fold(start, Reply::send)
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Appends bytes, sent as one write.
    pub fn send(mut self, bytes: impl Into<Bytes>) -> Self {
        self.steps.push_back(Step::Send(bytes.into()));
        self
    }

    /// Waits for the gate before anything further is sent.
    pub fn gate(mut self, gate: &Gate) -> Self {
        self.steps.push_back(Step::Gate(gate.clone()));
        self
    }

    /// Waits for the gate before even the status line is sent.
    pub fn head_gate(mut self, gate: &Gate) -> Self {
        self.head_gate = Some(gate.clone());
        self
    }

    /// Breaks the connection after what was appended so far.
    pub fn cut(mut self) -> Self {
        self.steps.push_back(Step::Cut);
        self
    }

    /// Falls silent after what was appended so far, with the connection left open.
    pub fn hang(mut self) -> Self {
        self.steps.push_back(Step::Hang);
        self
    }

    /// The whole body, gates and breaks left out.
    pub fn body(&self) -> Bytes {
        let mut all = Vec::new();
        for step in &self.steps {
            if let Step::Send(bytes) = step {
                all.extend_from_slice(bytes);
            }
        }
        all.into()
    }

    /// The same answer in writes of at most `size` bytes, cut wherever that falls.
    pub fn in_writes_of(mut self, size: usize) -> Self {
        let mut steps = VecDeque::new();
        for step in self.steps {
            match step {
                Step::Send(bytes) => {
                    let pieces =
                        bytes.chunks(size.max(1)).map(|c| Step::Send(Bytes::copy_from_slice(c)));
                    steps.extend(pieces);
                }
                other => steps.push_back(other),
            }
        }
        self.steps = steps;
        self
    }

    /// The first `offset` bytes of the body, after which the connection breaks.
    pub fn cut_at(self, offset: usize) -> Self {
        self.first(offset).cut()
    }

    /// The first `offset` bytes of the body, after which the answer ends as if it were whole.
    pub fn ended_at(self, offset: usize) -> Self {
        self.first(offset)
    }

    fn first(mut self, offset: usize) -> Self {
        let body = self.body();
        self.steps.clear();
        let kept = body.slice(..offset.min(body.len()));
        if kept.is_empty() { self } else { self.send(kept) }
    }

    pub(crate) fn into_body(self) -> ReplyBody {
        ReplyBody { steps: self.steps, waiting: None, pause: false }
    }
}

/// Performs the steps as an HTTP body.
pub(crate) struct ReplyBody {
    steps: VecDeque<Step>,
    waiting: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    pause: bool,
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        loop {
            if let Some(waiting) = &mut self.waiting {
                match waiting.as_mut().poll(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(()) => self.waiting = None,
                }
            }
            // A pause between frames makes the server flush each as a write of its own.
            if std::mem::take(&mut self.pause) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            match self.steps.pop_front() {
                None => return Poll::Ready(None),
                Some(Step::Send(bytes)) => {
                    self.pause = true;
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
                Some(Step::Gate(gate)) => {
                    self.waiting = Some(Box::pin(async move { gate.wait().await }))
                }
                Some(Step::Cut) => {
                    return Poll::Ready(Some(Err(io::Error::other("cut by the test"))));
                }
                Some(Step::Hang) => self.waiting = Some(Box::pin(std::future::pending())),
            }
        }
    }
}

/// A named server-sent event with JSON data, as Anthropic's Messages and OpenAI's Responses send them.
pub fn event(name: &str, data: &serde_json::Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sends(reply: &Reply) -> Vec<&[u8]> {
        let bytes = reply.steps.iter().filter_map(|s| match s {
            Step::Send(bytes) => Some(&bytes[..]),
            _ => None,
        });
        bytes.collect()
    }

    #[test]
    fn writes_are_cut_and_the_body_stays() {
        let reply = Reply::status(200).send("abcde").send("f");
        let cut = reply.clone().in_writes_of(2);
        assert_eq!(sends(&cut), [&b"ab"[..], b"cd", b"e", b"f"]);
        assert_eq!(cut.body(), reply.body());
    }

    #[test]
    fn cuts_and_early_ends_keep_what_lies_before() {
        let reply = Reply::status(200).send("abc").send("def");
        let cut = reply.clone().cut_at(4);
        assert_eq!(sends(&cut), [b"abcd"]);
        assert!(matches!(cut.steps.back(), Some(Step::Cut)));
        let ended = reply.ended_at(99);
        assert_eq!(sends(&ended), [b"abcdef"]);
        assert!(matches!(ended.steps.back(), Some(Step::Send(_))));
    }
}
