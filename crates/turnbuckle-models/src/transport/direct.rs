//! Plain HTTP/1.1, in the task of the caller.
//!
//! `ureq-proto` keeps the protocol and touches no socket; the socket and when it is read are ours, and so is the reading of
//! chunks. Two things follow that streamed answers live by. A read takes all that has come, so that hundreds of small chunks are one piece and no task is
//! woken for another. And a connection that waits, for an answer or at rest, holds no buffers: they are lent for the moment
//! of a read.

use super::chunked::Chunked;
use super::connection::Connection;
use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use std::error::Error;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tower_service::Service;
use ureq_proto::BodyMode;
use ureq_proto::client::state::{RecvBody, RecvResponse};
use ureq_proto::client::{Call, RecvBodyResult, RecvResponseResult, SendRequestResult};

/// How long a connection may rest before it is not used again.
const REST: Duration = Duration::from_secs(90);
/// Connections kept at rest.
const KEPT: usize = 1024;
const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// The most that is read at once.
const READ: usize = 16 * 1024;
/// Room for the head of a request, which grows when it must.
const HEAD: usize = 1024;
/// The longest head of a request or an answer.
const LONGEST_HEAD: usize = 64 * 1024;
/// Buffers kept for the next reads. As many are lent at once as there are threads.
const KEPT_SCRATCH: usize = 16;

const CLOSED: &str = "the server closed the connection before the end of the answer";

type Cause = Box<dyn Error + Send + Sync>;

/// The connections of one host.
pub(super) struct Direct {
    connector: HttpConnector,
    resting: Mutex<Vec<Resting>>,
    scratch: Mutex<Vec<Scratch>>,
}

struct Resting {
    stream: TcpStream,
    since: Instant,
}

/// Lent for one read.
struct Scratch {
    input: Vec<u8>,
    output: Vec<u8>,
    /// What a read of chunks holds of the body.
    body: Vec<u8>,
}

/// The head of an answer, and its body.
pub(super) type Answered = (Response<()>, DirectBody);

/// Why a request was not answered.
pub(super) enum Refused {
    /// There is no connection.
    NoConnection(Cause),
    /// There was one, and no answer came over it.
    NoAnswer(Cause),
}

impl Direct {
    pub(super) fn new(connect_timeout: Duration) -> Arc<Self> {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(connect_timeout));
        connector.set_keepalive(Some(KEEP_ALIVE));
        Arc::new(Self { connector, resting: Mutex::default(), scratch: Mutex::default() })
    }

    /// Sends a request whose URI is absolute, and gives the head of the answer.
    ///
    /// # Errors
    /// At once when the request is none that can be sent.
    pub(super) fn send(
        self: &Arc<Self>,
        method: Method,
        uri: Uri,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<impl Future<Output = Result<Answered, Refused>> + use<>, Refused> {
        if !body.is_empty() {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        }
        let mut request = Request::new(());
        *request.method_mut() = method;
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = headers;
        let (head, mut call) = head_of(request, &body).map_err(Refused::NoAnswer)?;
        let home = self.clone();
        // Many wait here for their models at the same time: what is done before and behind the waits takes no room in it.
        Ok(async move {
            let mut stream = match home.take() {
                Some(stream) => stream,
                None => home.connect(uri).await?,
            };
            let written = write(&mut stream, &head, &body).await;
            drop((head, body));
            let mut taken = Vec::new();
            let answer = loop {
                // What the server said before it closed explains more than that writing failed.
                let answer =
                    poll_fn(|cx| home.poll_head(&mut stream, &mut call, &mut taken, cx)).await;
                match (answer, &written) {
                    (Ok(Some(answer)), _) => break answer,
                    (Ok(None), _) => {}
                    (Err(_), Err(cause)) => {
                        return Err(Refused::NoAnswer(cause.to_string().into()));
                    }
                    (Err(cause), Ok(_)) => return Err(Refused::NoAnswer(cause)),
                }
            };
            let whole = matches!(written, Ok(Sent::Whole));
            let body = home.begin(stream, call, taken, whole).map_err(Refused::NoAnswer)?;
            Ok((answer, body))
        })
    }

    /// The body of an answer whose head was read. `whole` tells whether the request was sent to its end.
    fn begin(
        self: Arc<Self>,
        stream: TcpStream,
        call: Call<RecvResponse>,
        mut taken: Vec<u8>,
        whole: bool,
    ) -> Result<DirectBody, Cause> {
        taken.shrink_to_fit();
        let reuse = if whole { Reuse::WhenRead } else { Reuse::Never };
        let stream = Some(Connection::Watched(stream));
        let mut body = DirectBody { open: None, stream, reuse, taken, home: self };
        match call.proceed() {
            Some(RecvResponseResult::RecvBody(call)) => body.open = Some(open(call)?),
            Some(RecvResponseResult::Cleanup(end)) => body.ended(end.must_close_connection()),
            Some(RecvResponseResult::Redirect(end)) => body.ended(end.must_close_connection()),
            None => return Err("the head of the answer is not whole".into()),
        }
        Ok(body)
    }

    async fn connect(&self, uri: Uri) -> Result<TcpStream, Refused> {
        let mut connector = self.connector.clone();
        let ready = poll_fn(|cx| connector.poll_ready(cx)).await;
        ready.map_err(|e| Refused::NoConnection(Box::new(e)))?;
        let stream = connector.call(uri).await;
        Ok(stream.map_err(|e| Refused::NoConnection(Box::new(e)))?.into_inner())
    }

    /// Reads until the head of the answer is whole; `None` when what came stands before it, such as `100 Continue`.
    fn poll_head(
        &self,
        stream: &mut TcpStream,
        call: &mut Call<RecvResponse>,
        taken: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Response<()>>, Cause>> {
        loop {
            let (used, answer) = call.try_response(taken, false)?;
            if used > 0 {
                taken.drain(..used);
                return Poll::Ready(Ok(answer));
            }
            if taken.len() > LONGEST_HEAD {
                return Poll::Ready(Err("the head of the answer is too long".into()));
            }
            let more = self.lend(|scratch| {
                let mut into = ReadBuf::new(&mut scratch.input);
                let read = Pin::new(&mut *stream).poll_read(cx, &mut into);
                taken.extend_from_slice(into.filled());
                read.map_ok(|()| into.filled().len())
            });
            if ready!(more)? == 0 {
                return Poll::Ready(Err("the server closed the connection".into()));
            }
        }
    }

    /// The connection that rested least and still stands.
    fn take(&self) -> Option<TcpStream> {
        loop {
            let last = self.resting.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Resting { stream, since } = last?;
            if since.elapsed() < REST && stands(&stream) {
                return Some(stream);
            }
        }
    }

    fn give_back(&self, stream: TcpStream) {
        let now = Instant::now();
        let mut resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = resting.iter().position(|r| now.duration_since(r.since) < REST);
        let stale = fresh.unwrap_or(resting.len());
        if stale > 0 {
            resting.drain(..stale);
        }
        if resting.len() < KEPT {
            resting.push(Resting { stream, since: now });
        }
    }

    /// Lends buffers for one read.
    fn lend<R>(&self, read: impl FnOnce(&mut Scratch) -> R) -> R {
        let kept = self.scratch.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut scratch = kept.unwrap_or_else(|| Scratch {
            input: vec![0; READ],
            output: vec![0; READ],
            body: Vec::new(),
        });
        let result = read(&mut scratch);
        let mut kept = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT_SCRATCH {
            kept.push(scratch);
        }
        result
    }
}

/// Whether a resting connection can be used. One that was closed, or on which something came that nobody asked for, cannot;
/// the kernel is asked, since the runtime may not have looked for a while.
fn stands(stream: &TcpStream) -> bool {
    let mut byte = [std::mem::MaybeUninit::uninit()];
    let peeked = socket2::SockRef::from(stream).peek(&mut byte);
    matches!(peeked, Err(e) if e.kind() == io::ErrorKind::WouldBlock)
}

/// The head of a request as bytes. What is sensitive is added here, since `ureq-proto` logs what it writes.
fn head_of(mut request: Request<()>, body: &Bytes) -> Result<(Vec<u8>, Call<RecvResponse>), Cause> {
    let secret = |(_, value): &(&HeaderName, &HeaderValue)| value.is_sensitive();
    let mut secrets = HeaderMap::new();
    for (name, value) in request.headers().iter().filter(secret) {
        secrets.append(name, value.clone());
    }
    for name in secrets.keys() {
        request.headers_mut().remove(name);
    }
    let mut call = Call::new(request)?.proceed();
    let mut head = vec![0; HEAD];
    let mut filled = 0;
    while !call.can_proceed() {
        let rest = head.get_mut(filled..).unwrap_or_default();
        match call.write(rest) {
            Ok(0) | Err(ureq_proto::Error::OutputOverflow) => {
                if head.len() > LONGEST_HEAD {
                    return Err("the headers of the request are too long".into());
                }
                head.resize(head.len() * 2, 0);
            }
            Ok(written) => filled += written,
            Err(e) => return Err(e.into()),
        }
    }
    // Before the empty line at the end.
    head.truncate(filled.saturating_sub(2));
    for (name, value) in &secrets {
        for piece in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            head.extend_from_slice(piece);
        }
    }
    head.extend_from_slice(b"\r\n");
    let call = match call.proceed()? {
        Some(SendRequestResult::RecvResponse(call)) => Some(call),
        Some(SendRequestResult::SendBody(mut call)) => {
            call.consume_direct_write(body.len())?;
            call.proceed()
        }
        Some(SendRequestResult::Await100(_)) | None => None,
    };
    Ok((head, call.ok_or("the request cannot be sent in one go")?))
}

/// How much of a request was sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    Whole,
    /// The server answered before it had read it all.
    Part,
}

/// Sends head and body, unless the server answers meanwhile.
async fn write(stream: &mut TcpStream, head: &[u8], body: &[u8]) -> io::Result<Sent> {
    let (mut head, mut body) = (head, body);
    poll_fn(|cx| {
        while !(head.is_empty() && body.is_empty()) {
            let slices = [IoSlice::new(head), IoSlice::new(body)];
            let written = match Pin::new(&mut *stream).poll_write_vectored(cx, &slices) {
                Poll::Ready(written) => written?,
                Poll::Pending => return stream.poll_read_ready(cx).map_ok(|()| Sent::Part),
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            let of_body = written.saturating_sub(head.len());
            head = head.get(written..).unwrap_or_default();
            body = body.get(of_body..).unwrap_or_default();
        }
        Poll::Ready(Ok(Sent::Whole))
    })
    .await
}

/// Whether the connection can carry another request after this answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reuse {
    WhenRead,
    Never,
}

/// A body that is being read.
enum Open {
    /// It comes in chunks, which we read. Whether its connection must be closed behind them was asked when it began, so that
    /// what the protocol keeps of request and answer is gone while an answer streams.
    Chunks { chunks: Chunked, must_close: bool },
    /// It ends after so many bytes, or with its connection.
    Plain(Box<Call<RecvBody>>),
}

fn open(mut call: Call<RecvBody>) -> Result<Open, Cause> {
    if call.body_mode() != BodyMode::Chunked {
        return Ok(Open::Plain(Box::new(call)));
    }
    // Of the chunks the protocol is told no more than that they end.
    call.read(b"0\r\n\r\n", &mut [0; 8])?;
    Ok(Open::Chunks { chunks: Chunked::new(), must_close: must_close(call) })
}

/// Whether the connection must be closed behind a body that has been read.
fn must_close(call: Call<RecvBody>) -> bool {
    match call.proceed() {
        Some(RecvBodyResult::Cleanup(end)) => end.must_close_connection(),
        Some(RecvBodyResult::Redirect(end)) => end.must_close_connection(),
        None => true,
    }
}

/// The body of an answer. Dropping it before its end closes the connection, which is how a call is cancelled.
pub(super) struct DirectBody {
    /// The reading of the body; none when it has ended.
    open: Option<Open>,
    stream: Option<Connection>,
    reuse: Reuse,
    /// What was read and cannot be told yet: a piece of a chunk's frame, or what came along with the head.
    taken: Vec<u8>,
    home: Arc<Direct>,
}

impl std::fmt::Debug for DirectBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectBody").finish_non_exhaustive()
    }
}

impl DirectBody {
    /// Nobody wants the next piece for now.
    pub(super) fn leave(&mut self) {
        if let Some(stream) = &mut self.stream {
            stream.leave();
        }
    }

    /// Gives the next piece to `take`, which is never called with an empty one.
    pub(super) fn poll<R>(
        &mut self,
        cx: &mut Context<'_>,
        take: impl FnOnce(&[u8]) -> R,
    ) -> Poll<Option<Result<R, String>>> {
        let home = self.home.clone();
        home.lend(|scratch| {
            let polled = match self.open {
                Some(Open::Chunks { .. }) => self.poll_chunks(scratch, cx),
                Some(Open::Plain(_)) | None => self.poll_plain(scratch, cx),
            };
            polled.map(|came| match came {
                Ok(came) => came.map(|came| Ok(take(came))),
                Err(cause) => {
                    self.open = None;
                    self.stream = None;
                    Some(Err(cause.to_string()))
                }
            })
        })
    }

    fn poll_plain<'s>(
        &mut self,
        scratch: &'s mut Scratch,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<&'s [u8]>, Cause>> {
        let Scratch { input, output, .. } = scratch;
        let made = loop {
            let Some(Open::Plain(call)) = &mut self.open else { return Poll::Ready(Ok(None)) };
            if !self.taken.is_empty() {
                let (used, made) = call.read(&self.taken, output)?;
                self.taken.drain(..used);
                if self.taken.is_empty() {
                    // What waits next holds no room for it.
                    self.taken = Vec::new();
                }
                if made > 0 {
                    break made;
                }
                if used > 0 {
                    continue;
                }
            }
            if call.body_mode() != BodyMode::CloseDelimited && call.can_proceed() {
                if let Some(Open::Plain(call)) = self.open.take() {
                    self.ended(must_close(*call));
                }
                return Poll::Ready(Ok(None));
            }
            let Some(stream) = &mut self.stream else { return Poll::Ready(Ok(None)) };
            let mut into = ReadBuf::new(input);
            ready!(stream.poll_read(cx, &mut into))?;
            let came = into.filled();
            if came.is_empty() {
                let whole = call.can_proceed();
                self.ended(true);
                return Poll::Ready(if whole { Ok(None) } else { Err(CLOSED.into()) });
            }
            if !self.taken.is_empty() {
                self.taken.extend_from_slice(came);
                continue;
            }
            let (used, made) = call.read(came, output)?;
            self.taken.extend_from_slice(came.get(used..).unwrap_or_default());
            if made > 0 {
                break made;
            }
        };
        Poll::Ready(Ok(output.get(..made)))
    }

    fn poll_chunks<'s>(
        &mut self,
        scratch: &'s mut Scratch,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<&'s [u8]>, Cause>> {
        let Scratch { input, body, .. } = scratch;
        body.clear();
        while body.is_empty() {
            let Some(Open::Chunks { chunks, must_close }) = &mut self.open else {
                return Poll::Ready(Ok(None));
            };
            if chunks.is_ended() {
                let must_close = *must_close;
                self.ended(must_close);
                return Poll::Ready(Ok(None));
            }
            if self.taken.is_empty() {
                let Some(stream) = &mut self.stream else { return Poll::Ready(Ok(None)) };
                let mut into = ReadBuf::new(input);
                ready!(stream.poll_read(cx, &mut into))?;
                if into.filled().is_empty() {
                    let whole = chunks.had_last();
                    self.ended(true);
                    return Poll::Ready(if whole { Ok(None) } else { Err(CLOSED.into()) });
                }
                self.taken.extend_from_slice(chunks.read(into.filled(), body)?);
            } else {
                let taken = std::mem::take(&mut self.taken);
                self.taken.extend_from_slice(chunks.read(&taken, body)?);
            }
        }
        Poll::Ready(Ok(Some(body)))
    }

    /// The body has been read, or its connection has ended.
    fn ended(&mut self, must_close: bool) {
        self.open = None;
        let stream = self.stream.take();
        if let Some(stream) = stream
            && !must_close
            && self.reuse == Reuse::WhenRead
            && self.taken.is_empty()
            && let Some(stream) = stream.watched()
        {
            self.home.give_back(stream);
        }
    }
}
