//! The connections of one endpoint.
//!
//! All that does not change from call to call (URLs, headers, limits) is prepared once. Nothing is repeated, redirected
//! or decompressed here: a redirect would send the key elsewhere, and repeating is the turn machine's decision.

use super::direct::{Direct, Refused};
use super::reply::Reply;
use crate::cloud::Credentials;
use crate::config::ConfigError;
use crate::secret::Secret;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Uri};
use reqwest::{Url, redirect, retry};
use std::error::Error;
use std::fmt;
use std::future::ready;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use turnbuckle_core::error::{ModelError, ModelErrorKind};
use turnbuckle_wire::EncodedRequest;

/// What an endpoint is set up with.
#[derive(Clone, Debug)]
pub struct HttpOptions<'a> {
    /// The provider, for messages.
    pub provider: &'a str,
    /// Where the API is, without a slash at the end.
    pub base_url: &'a str,
    /// The header that carries the key, and its value.
    pub auth: Option<(&'a str, Secret)>,
    /// Further headers.
    pub headers: &'a [(String, Secret)],
    /// How long a connection may take to stand.
    pub connect_timeout: Duration,
    /// How connections are made.
    pub route: Route,
}

/// How connections are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Route {
    /// Directly for plain HTTP to this machine, or to any when no proxy is set in the environment; else as `Full`. Directly
    /// there is no TLS to set up and no proxy to look for, which saves a local server milliseconds at the start and some
    /// 20 µs per call.
    #[default]
    Auto,
    /// With TLS, HTTP/2 where the server offers it, and the proxies of the environment.
    Full,
}

/// A request under way, until the head of its answer has come.
pub type Sending<'a> = BoxFuture<'a, Result<Reply, ModelError>>;

/// A provider's API over HTTP.
pub struct HttpEndpoint {
    client: Client,
    host: String,
    base: String,
    headers: HeaderMap,
    credentials: Option<Credentials>,
}

enum Client {
    Direct(Arc<Direct>, Parsed<Uri>),
    Full(reqwest::Client, Parsed<Url>),
}

/// Nearly every endpoint is called at one path only; its URL is parsed once.
type Parsed<T> = OnceLock<(String, T)>;

const POOL_IDLE: Duration = Duration::from_secs(90);
const KEEP_ALIVE: Duration = Duration::from_secs(60);

impl fmt::Debug for HttpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpEndpoint").field("host", &self.host).finish_non_exhaustive()
    }
}

impl HttpEndpoint {
    /// Sets a client up. Nothing is connected yet.
    ///
    /// # Errors
    /// When the URL or a header is not one.
    pub fn new(options: &HttpOptions<'_>) -> Result<Self, ConfigError> {
        let provider = || options.provider.to_owned();
        let bad_url = |problem: String| ConfigError::BadBaseUrl {
            provider: provider(),
            base_url: options.base_url.to_owned(),
            problem,
        };
        let base = Url::parse(options.base_url).map_err(|e| bad_url(e.to_string()))?;
        let Some(host) = base.host_str().filter(|_| matches!(base.scheme(), "http" | "https"))
        else {
            return Err(bad_url(
                "it must begin with http:// or https:// and name a host".to_owned(),
            ));
        };
        let client = if options.route == Route::Auto
            && base.scheme() == "http"
            && needs_no_proxy(host)
        {
            Client::Direct(Direct::new(options.connect_timeout), OnceLock::new())
        } else {
            full(options.connect_timeout)
                .map_err(|e| ConfigError::Client { provider: provider(), problem: causes(&e) })?
        };
        Ok(Self {
            client,
            host: base.port().map_or(host.to_owned(), |port| format!("{host}:{port}")),
            base: base.as_str().trim_end_matches('/').to_owned(),
            headers: headers(options)?,
            credentials: None,
        })
    }

    /// The same with what is added to each request as it is sent.
    pub(crate) fn with_credentials(self, credentials: Option<Credentials>) -> Self {
        Self { credentials, ..self }
    }

    /// Posts a request and gives the head of the answer.
    ///
    /// # Errors
    /// [`ModelErrorKind::Network`] or [`ModelErrorKind::Timeout`] when no answer comes.
    pub fn send(&self, request: EncodedRequest) -> Sending<'_> {
        let EncodedRequest { path, headers, body } = request;
        match self.headers_with(headers) {
            Ok(headers) => self.execute(Method::POST, path, headers, body),
            Err(e) => failed(e),
        }
    }

    /// Gets a document, such as the list of models.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn get(&self, path: &str) -> Sending<'_> {
        self.execute(Method::GET, path.to_owned(), self.headers.clone(), Bytes::new())
    }

    fn headers_with(&self, more: Vec<(&'static str, String)>) -> Result<HeaderMap, ModelError> {
        let mut headers = self.headers.clone();
        for (name, value) in more {
            let (Ok(name), Ok(value)) =
                (HeaderName::from_bytes(name.as_bytes()), HeaderValue::try_from(value))
            else {
                return Err(ModelError::new(
                    ModelErrorKind::Config,
                    format!("the header `{name}` cannot be sent"),
                ));
            };
            headers.insert(name, value);
        }
        Ok(headers)
    }

    fn execute(
        &self,
        method: Method,
        path: String,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Sending<'_> {
        let Some(credentials) = &self.credentials else {
            return self.transmit(method, &path, headers, body);
        };
        Box::pin(async move {
            let url = format!("{}{path}", self.base);
            credentials.apply(&method, &url, &mut headers, &body).await?;
            let reply = self.transmit(method, &path, headers, body).await?;
            if reply.status() == 401 {
                credentials.refused();
            }
            Ok(reply)
        })
    }

    fn transmit(&self, method: Method, path: &str, headers: HeaderMap, body: Bytes) -> Sending<'_> {
        match &self.client {
            Client::Direct(client, usual) => {
                let refused = |refused| match refused {
                    Refused::NoConnection(e) => self.failure(true, &*e),
                    Refused::NoAnswer(e) => self.failure(false, &*e),
                };
                let sent = self
                    .at(path, usual)
                    .and_then(|uri| client.send(method, uri, headers, body).map_err(refused));
                match sent {
                    Ok(sent) => {
                        let told =
                            move |answer: Result<_, _>| answer.map(Reply::direct).map_err(refused);
                        Box::pin(sent.map(told))
                    }
                    Err(e) => failed(e),
                }
            }
            Client::Full(client, usual) => {
                let url = match self.at(path, usual) {
                    Ok(url) => url,
                    Err(e) => return failed(e),
                };
                let mut request = reqwest::Request::new(method, url);
                *request.headers_mut() = headers;
                *request.body_mut() = Some(body.into());
                Box::pin(client.execute(request).map(|answer| match answer {
                    Ok(answer) => Ok(Reply::full(answer)),
                    // The URL is left out of errors, since some vendors carry keys in it.
                    Err(e) => {
                        let e = e.without_url();
                        Err(self.failure(e.is_connect(), &e))
                    }
                }))
            }
        }
    }

    fn at<T>(&self, path: &str, usual: &Parsed<T>) -> Result<T, ModelError>
    where
        T: std::str::FromStr + Clone,
        T::Err: fmt::Display,
    {
        if let Some((known, at)) = usual.get()
            && known == path
        {
            return Ok(at.clone());
        }
        let at: T = format!("{}{path}", self.base).parse().map_err(|e| {
            ModelError::new(ModelErrorKind::Config, format!("`{path}` is not a path: {e}"))
        })?;
        let _ = usual.set((path.to_owned(), at.clone()));
        Ok(at)
    }

    fn failure(&self, connecting: bool, error: &(dyn Error + 'static)) -> ModelError {
        let kind = if timed_out(error) { ModelErrorKind::Timeout } else { ModelErrorKind::Network };
        let what = if connecting { "no connection to" } else { "no answer from" };
        ModelError::new(kind, format!("{what} {}: {}", self.host, causes(error)))
    }
}

fn failed<'a>(error: ModelError) -> Sending<'a> {
    Box::pin(ready(Err(error)))
}

fn headers(options: &HttpOptions<'_>) -> Result<HeaderMap, ConfigError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(
        USER_AGENT,
        HeaderValue::from_static(concat!("turnbuckle/", env!("CARGO_PKG_VERSION"))),
    );
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    let given = options.headers.iter().map(|(name, value)| (name.as_str(), value));
    let auth = options.auth.iter().map(|(name, value)| (*name, value));
    for (name, value) in auth.chain(given) {
        let bad = || ConfigError::BadHeader {
            provider: options.provider.to_owned(),
            header: name.to_owned(),
        };
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        let mut value = HeaderValue::from_str(value.expose()).map_err(|_| bad())?;
        // Keeps the value out of every Debug of the map.
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}

fn full(connect_timeout: Duration) -> Result<Client, reqwest::Error> {
    let client = reqwest::Client::builder()
        .connect_timeout(connect_timeout)
        .tcp_nodelay(true)
        .tcp_keepalive(KEEP_ALIVE)
        .pool_idle_timeout(POOL_IDLE)
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .referer(false)
        .build()?;
    Ok(Client::Full(client, OnceLock::new()))
}

/// Whether plain HTTP to `host` goes there directly: a proxy for this very machine is never meant.
fn needs_no_proxy(host: &str) -> bool {
    const PROXIES: [&str; 4] = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let loopback =
        name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    loopback || PROXIES.iter().all(|name| std::env::var_os(name).is_none_or(|v| v.is_empty()))
}

fn timed_out(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(cause) = next {
        let io =
            cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::TimedOut);
        if io || cause.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_timeout) {
            return true;
        }
        next = cause.source();
    }
    false
}

/// An error with all its causes; the client's own words alone seldom say what happened.
pub(super) fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        next = cause.source();
    }
    text
}
