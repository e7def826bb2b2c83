//! One pooled HTTP client per endpoint.
//!
//! All that does not change from call to call (URL, headers, limits) is prepared once. Nothing is repeated, redirected
//! or decompressed here: a redirect would send the key elsewhere, and repeating is the turn machine's decision.

use super::reply::Reply;
use crate::config::ConfigError;
use crate::secret::Secret;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use reqwest::{Client, Method, Request, Url, redirect, retry};
use std::error::Error;
use std::fmt;
use std::sync::OnceLock;
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
}

/// A provider's API over HTTP.
pub struct HttpEndpoint {
    client: Client,
    base: Url,
    headers: HeaderMap,
    // Nearly every endpoint is called at one path only; its URL is parsed once.
    usual: OnceLock<(String, Url)>,
}

impl fmt::Debug for HttpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpEndpoint").field("base", &self.base.host_str()).finish_non_exhaustive()
    }
}

impl HttpEndpoint {
    /// Sets a client up. Nothing is connected yet. Proxies are taken from the usual environment variables.
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
        if !matches!(base.scheme(), "http" | "https") || !base.has_host() {
            return Err(bad_url(
                "it must begin with http:// or https:// and name a host".to_owned(),
            ));
        }
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
            let bad = || ConfigError::BadHeader { provider: provider(), header: name.to_owned() };
            let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
            let mut value = HeaderValue::from_str(value.expose()).map_err(|_| bad())?;
            // Keeps the value out of every Debug of the map.
            value.set_sensitive(true);
            headers.insert(key, value);
        }
        let client = Client::builder()
            .connect_timeout(options.connect_timeout)
            .tcp_nodelay(true)
            .tcp_keepalive(Duration::from_secs(60))
            .pool_idle_timeout(Duration::from_secs(90))
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .referer(false)
            .build()
            .map_err(|e| ConfigError::Client { provider: provider(), problem: causes(&e) })?;
        Ok(Self { client, base, headers, usual: OnceLock::new() })
    }

    /// Posts a request and gives the head of the answer.
    ///
    /// # Errors
    /// [`ModelErrorKind::Network`] or [`ModelErrorKind::Timeout`] when no answer comes.
    pub async fn send(&self, request: EncodedRequest) -> Result<Reply, ModelError> {
        let url = self.url(&request.path)?;
        let mut post = Request::new(Method::POST, url);
        *post.headers_mut() = self.headers.clone();
        for (name, value) in request.headers {
            let (Ok(name), Ok(value)) =
                (HeaderName::from_bytes(name.as_bytes()), HeaderValue::try_from(value))
            else {
                return Err(ModelError::new(
                    ModelErrorKind::Config,
                    format!("the header `{name}` cannot be sent"),
                ));
            };
            post.headers_mut().insert(name, value);
        }
        *post.body_mut() = Some(request.body.into());
        let answer = self.client.execute(post).await.map_err(|e| failure(e, &self.base))?;
        Ok(Reply::live(answer))
    }

    /// Gets a document, such as the list of models.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn get(&self, path: &str) -> Result<Reply, ModelError> {
        let mut get = Request::new(Method::GET, self.url(path)?);
        *get.headers_mut() = self.headers.clone();
        let answer = self.client.execute(get).await.map_err(|e| failure(e, &self.base))?;
        Ok(Reply::live(answer))
    }

    fn url(&self, path: &str) -> Result<Url, ModelError> {
        let join = || {
            Url::parse(&format!("{}{path}", self.base.as_str().trim_end_matches('/'))).map_err(
                |e| ModelError::new(ModelErrorKind::Config, format!("`{path}` is not a path: {e}")),
            )
        };
        match self.usual.get() {
            Some((usual, url)) if usual == path => Ok(url.clone()),
            Some(_) => join(),
            None => {
                let url = join()?;
                let _ = self.usual.set((path.to_owned(), url.clone()));
                Ok(url)
            }
        }
    }
}

/// An error of the client in our terms. Its URL is left out, since some vendors carry keys in it.
fn failure(error: reqwest::Error, base: &Url) -> ModelError {
    let error = error.without_url();
    let kind = if error.is_timeout() {
        ModelErrorKind::Timeout
    } else if error.is_builder() || error.is_request() && error.is_redirect() {
        ModelErrorKind::Config
    } else {
        ModelErrorKind::Network
    };
    let host = base.host_str().unwrap_or_default();
    let port = base.port().map(|p| format!(":{p}")).unwrap_or_default();
    let what = if error.is_connect() { "no connection to" } else { "no answer from" };
    ModelError::new(kind, format!("{what} {host}{port}: {}", causes(&error)))
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
