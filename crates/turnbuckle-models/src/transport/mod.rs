//! How requests reach a provider: over HTTP, over HTTP with a recording, or from a recording alone.

mod chunked;
mod connection;
mod direct;
mod headers;
mod http;
mod reply;
mod watch;

pub use headers::{complete_error, retry_after_ms, stated_limit};
pub use http::{HttpEndpoint, HttpOptions, Route, Sending};
pub use reply::{BodyFailure, Reply};
pub use watch::{Expired, Watch};

use crate::cassette::{Player, Recorder};
use futures_util::TryFutureExt;
use std::future::ready;
use std::sync::Arc;
use turnbuckle_wire::EncodedRequest;

/// How requests are sent.
#[derive(Clone, Debug)]
pub enum Transport {
    /// Over HTTP.
    Http(Arc<HttpEndpoint>),
    /// Over HTTP, and written to a cassette.
    Recorded(Arc<HttpEndpoint>, Arc<Recorder>),
    /// Answered from a cassette; nothing is sent.
    Replayed(Arc<Player>),
}

impl Transport {
    /// Sends a request and gives the head of the answer.
    ///
    /// # Errors
    /// When no answer comes, or the cassette holds none for this request.
    pub fn send(&self, request: EncodedRequest) -> Sending<'_> {
        match self {
            Transport::Http(http) => http.send(request),
            Transport::Recorded(http, recorder) => {
                let tape = recorder.tape(&request);
                Box::pin(http.send(request).map_ok(|reply| reply.recorded(tape)))
            }
            Transport::Replayed(player) => Box::pin(ready(player.answer(&request))),
        }
    }
}
