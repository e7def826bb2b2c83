//! One attempt: leave to call, request, answer.

use super::{Endpoint, Health, Leave, Pass};
use crate::model::{CallFailure, DeltaSink};
use crate::transport::{BodyFailure, Expired, Reply, Sending, Watch, complete_error, stated_limit};
use bytes::Bytes;
use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, SystemTime};
use tokio::sync::SemaphorePermit;
use tokio::time::Instant;
use turnbuckle_core::error::{ModelError, ModelErrorKind};
use turnbuckle_core::model::{ModelDelta, ModelRequest, ModelResponse};
use turnbuckle_core::usage::FinishReason;
use turnbuckle_wire::{AnswerHead, Decoder};

/// The most of an error's body that is read.
const ERROR_BODY: usize = 64 * 1024;

pub(super) async fn call(
    endpoint: &Endpoint,
    request: &ModelRequest,
    sink: &mut (dyn DeltaSink + '_),
) -> Result<ModelResponse, CallFailure> {
    let encoded = endpoint.codec.encode(request)?;
    let admitted = enter(endpoint).await?;
    let sending = endpoint.transport.send(encoded);
    let mut result = attempt(endpoint, sending, request, admitted.leave, sink).await;
    match &mut result {
        Ok(answer) => endpoint.veil_end(answer),
        Err(failure) => {
            endpoint.veil(&mut failure.error);
            failure.partial.iter_mut().for_each(|partial| endpoint.veil_end(partial));
        }
    }
    admitted.learn(&request.model, result.as_ref().err().map(|failure| &failure.error));
    result
}

impl Endpoint {
    /// Takes the secrets out of an error: some gateways quote the request's headers back, in whatever they say.
    pub(super) fn veil(&self, error: &mut ModelError) {
        self.veil_text(&mut error.message);
        error.code.iter_mut().for_each(|code| self.veil_text(code));
    }

    fn veil_end(&self, answer: &mut ModelResponse) {
        if let FinishReason::Other(reason) = &mut answer.finish {
            self.veil_text(reason);
        }
    }

    fn veil_text(&self, text: &mut String) {
        for secret in &self.secrets {
            *text = secret.strip_from(text);
        }
    }
}

/// Leave to send something. What becomes of it is to be told, see [`Admitted::learn`].
struct Admitted<'a> {
    endpoint: &'a Endpoint,
    leave: Leave,
    pass: Pass<'a>,
    _permit: SemaphorePermit<'a>,
}

/// Waits until something may be sent.
async fn enter(endpoint: &Endpoint) -> Result<Admitted<'_>, ModelError> {
    // The semaphore is fair: whoever waits longest goes first. It is never closed.
    let _permit = endpoint.permits.acquire().await.map_err(|_| closed())?;
    let leave = endpoint.pace.enter().await.map_err(|rest| held_back(endpoint, rest))?;
    let pass = endpoint.breaker.enter(Instant::now()).map_err(|rest| resting(endpoint, rest))?;
    Ok(Admitted { endpoint, leave, pass, _permit })
}

impl Admitted<'_> {
    /// Learns from how it went: why it failed, if it did.
    fn learn(self, model: &str, failed: Option<&ModelError>) {
        let Self { endpoint, leave, pass, _permit } = self;
        let Some(error) = failed else { return pass.tell(Health::Answers) };
        tracing::debug!(provider = %endpoint.name, %model, %error, "model call failed");
        pass.tell(Health::of(error.kind));
        hold_back(endpoint, leave, error);
    }
}

/// Sends a request that is answered at once, and gives the answer's body.
pub(super) async fn exchange(
    endpoint: &Endpoint,
    encoded: turnbuckle_wire::EncodedRequest,
    model: &str,
) -> Result<Bytes, ModelError> {
    let admitted = enter(endpoint).await?;
    let leave = admitted.leave;
    let exchanged = async {
        let mut reply = endpoint.transport.send(encoded).await?;
        if !(200..300).contains(&reply.status()) {
            return Err(refusal(endpoint, &mut reply).await);
        }
        endpoint.pace.accepted(leave, stated_limit(reply.headers(), SystemTime::now));
        let limit = usize::try_from(endpoint.max_response_bytes).unwrap_or(usize::MAX);
        reply.read(limit).await
    };
    let mut result = within(endpoint.timeouts.first_byte(), exchanged).await;
    if let Err(error) = &mut result {
        endpoint.veil(error);
    }
    admitted.learn(model, result.as_ref().err());
    result
}

/// What a refusal says about the calls that follow. An overload holds them back only when the provider says for how long;
/// otherwise it is the breaker's to judge.
fn hold_back(endpoint: &Endpoint, leave: Leave, error: &ModelError) {
    let asked = error.retry_after_ms.map(Duration::from_millis);
    match error.kind {
        ModelErrorKind::RateLimited => endpoint.pace.refused(leave, asked),
        ModelErrorKind::Overloaded if asked.is_some() => endpoint.pace.refused(leave, asked),
        _ => {}
    }
}

async fn attempt(
    endpoint: &Endpoint,
    mut sending: Sending<'_>,
    request: &ModelRequest,
    leave: Leave,
    sink: &mut (dyn DeltaSink + '_),
) -> Result<ModelResponse, CallFailure> {
    let limits = endpoint.timeouts;
    let mut watch = Watch::start(&endpoint.alarms, limits.first_byte(), limits.idle());
    let mut reply = poll_fn(|cx| {
        if let Poll::Ready(sent) = sending.as_mut().poll(cx) {
            return Poll::Ready(sent);
        }
        watch.poll(cx).map(|expired| Err(too_slow(endpoint, expired)))
    })
    .await?;
    // It held the request, and an answer may stream for long.
    drop(sending);
    if !(200..300).contains(&reply.status()) {
        let refused = async { Ok(refusal(endpoint, &mut reply).await) };
        let refused = Box::pin(within(limits.idle(), refused)).await;
        return Err(refused.unwrap_or_else(|slow| slow).into());
    }
    endpoint.pace.accepted(leave, stated_limit(reply.headers(), SystemTime::now));
    let mut decoder = endpoint.codec.decoder_for(request);
    let result = read(endpoint, &mut reply, decoder.as_mut(), &mut watch, sink).await;
    if result.is_ok() {
        Box::pin(finish_reading(reply, &mut watch)).await;
        return result.map_err(CallFailure::from);
    }
    result.map_err(|mut error| {
        complete_error(&mut error, reply.headers(), SystemTime::now());
        let partial = decoder.partial();
        CallFailure { error, partial: (!partial.blocks.is_empty()).then_some(partial) }
    })
}

/// What a wait for the network ended with.
enum Arrived {
    /// A piece, which was decoded.
    Piece(Result<(), ModelError>),
    End,
    Broken(BodyFailure),
    Silence(Expired),
}

async fn read(
    endpoint: &Endpoint,
    reply: &mut Reply,
    decoder: &mut dyn Decoder,
    watch: &mut Watch,
    sink: &mut (dyn DeltaSink + '_),
) -> Result<ModelResponse, ModelError> {
    let mut run = 0;
    let mut received = 0_u64;
    loop {
        let arrived = next(reply, watch, sink, &mut run, |data, sink| {
            received += data.len() as u64;
            decoder.feed(data, &mut |delta| sink.delta(delta))
        })
        .await;
        let mut tell = |delta: ModelDelta<'_>| sink.delta(delta);
        match arrived {
            Arrived::Piece(decoded) => {
                decoded?;
                watch.touch();
                if decoder.is_complete() {
                    return decoder.finish(&mut tell);
                }
                if received > endpoint.max_response_bytes {
                    return Err(ModelError::new(
                        ModelErrorKind::Protocol,
                        format!("the answer is longer than {} bytes", endpoint.max_response_bytes),
                    ));
                }
            }
            Arrived::End => return decoder.finish(&mut tell),
            Arrived::Broken(broken) => {
                // A server may close rudely after a proper end.
                return decoder.finish(&mut tell).map_err(|mut error| {
                    if error.kind == ModelErrorKind::StreamCut {
                        error.message = format!("{}: {broken}", error.message);
                    }
                    error
                });
            }
            Arrived::Silence(expired) => return Err(too_slow(endpoint, expired)),
        }
    }
}

/// Pieces that are taken in a row before the future is pending once, so that whoever polls it can hand on what the sink
/// holds although the network never paused. Taking them costs microseconds; a yield for each would cost as much again.
const RUN: u32 = 4;

/// Waits for the next piece that the sink wants, and decodes it. `run` counts the pieces since the future was last pending.
async fn next<'s>(
    reply: &mut Reply,
    watch: &mut Watch,
    sink: &mut (dyn DeltaSink + 's),
    run: &mut u32,
    mut decode: impl FnMut(&[u8], &mut (dyn DeltaSink + 's)) -> Result<(), ModelError>,
) -> Arrived {
    poll_fn(|cx| {
        if !sink.is_ready() {
            *run = 0;
            reply.leave();
            return Poll::Pending;
        }
        if *run >= RUN {
            *run = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        match reply.poll_chunk(cx, |data| decode(data, sink)) {
            Poll::Pending => {
                *run = 0;
                watch.poll(cx).map(Arrived::Silence)
            }
            Poll::Ready(piece) => {
                *run += 1;
                Poll::Ready(match piece {
                    Some(Ok(decoded)) => Arrived::Piece(decoded),
                    None => Arrived::End,
                    Some(Err(broken)) => Arrived::Broken(broken),
                })
            }
        }
    })
    .await
}

/// The error an answer with an error status stands for, secrets that it quotes included; see [`Endpoint::veil`].
pub(super) async fn refusal(endpoint: &Endpoint, reply: &mut Reply) -> ModelError {
    let body = match reply.read(ERROR_BODY).await {
        Ok(body) => body,
        Err(error) => error.message.into(),
    };
    let headers = reply.headers();
    let header = |name: &str| headers.get(name).and_then(|v| v.to_str().ok());
    let head = AnswerHead { status: reply.status(), header: &header };
    let mut error = endpoint.codec.error(&head, &body);
    complete_error(&mut error, headers, SystemTime::now());
    error
}

/// Reads what follows the end of the answer, so that the connection can be used again. It comes at once from nearly every
/// server; for one that dawdles it is read in the background, and the caller does not wait.
async fn finish_reading(mut reply: Reply, watch: &mut Watch) {
    const GRACE: Duration = Duration::from_millis(20);
    const BACKGROUND: Duration = Duration::from_secs(1);
    // What is there already only has to be passed on by the connection's own task, which needs no timer.
    let mut passes = 3;
    let ended = poll_fn(|cx| {
        while let Poll::Ready(chunk) = reply.poll_chunk(cx, |_| ()) {
            if !matches!(chunk, Some(Ok(_))) {
                return Poll::Ready(true);
            }
        }
        if passes > 0 {
            passes -= 1;
            if passes > 0 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            watch.limit(GRACE);
        }
        watch.poll(cx).map(|_| false)
    })
    .await;
    if !ended {
        tokio::spawn(async move {
            let _ = tokio::time::timeout(BACKGROUND, reply.drain()).await;
        });
    }
}

/// `work` within a time.
pub(super) async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, ModelError>>,
) -> Result<T, ModelError> {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
        Err(ModelError::new(
            ModelErrorKind::Timeout,
            format!("no whole answer within {}", seconds(limit)),
        ))
    })
}

fn too_slow(endpoint: &Endpoint, expired: Expired) -> ModelError {
    let message = match expired {
        Expired::FirstByte => {
            format!("no answer within {}", seconds(endpoint.timeouts.first_byte()))
        }
        Expired::Idle => {
            format!("the answer stood still for {}", seconds(endpoint.timeouts.idle()))
        }
    };
    ModelError::new(ModelErrorKind::Timeout, message)
}

fn held_back(endpoint: &Endpoint, rest: Duration) -> ModelError {
    let mut error = ModelError::new(
        ModelErrorKind::RateLimited,
        format!(
            "{} takes no calls for another {}, as it said itself",
            endpoint.name,
            seconds(rest)
        ),
    );
    error.code = Some("held_back".to_owned());
    error.retry_after_ms = Some(rest.as_millis().try_into().unwrap_or(u64::MAX));
    error
}

fn resting(endpoint: &Endpoint, rest: Duration) -> ModelError {
    let mut error = ModelError::new(
        ModelErrorKind::Overloaded,
        format!("{} failed again and again and is left alone for {}", endpoint.name, seconds(rest)),
    );
    error.code = Some("circuit_open".to_owned());
    error.retry_after_ms = Some(rest.as_millis().try_into().unwrap_or(u64::MAX));
    error
}

fn closed() -> ModelError {
    ModelError::new(ModelErrorKind::Config, "the endpoint was shut down")
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
