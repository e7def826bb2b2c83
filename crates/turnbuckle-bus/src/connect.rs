//! Which bus, by its address.

use crate::bus::Bus;
use crate::error::BusError;
use crate::mailbox::Limits;
use crate::memory::MemoryBus;
use std::sync::Arc;

/// How to open a bus.
#[derive(Clone, PartialEq, Eq)]
pub struct BusOptions {
    /// Its address: `memory:`, `poll:` (as `memory:`, and everyone looks into the store once a second, for processes that share
    /// nothing but a store), `postgres://...`, `redis://...`, `rediss://...`, `nats://...` or `tls://...` (several servers of
    /// a NATS cluster with commas between). Never shown, since it may hold a password.
    pub url: String,
    /// What all processes of one service speak on. Services that share a server of the bus need different ones.
    pub channel: String,
    /// How much may wait for one listener.
    pub limits: Limits,
}

impl BusOptions {
    /// The defaults for an address.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), channel: "turnbuckle".to_owned(), limits: Limits::default() }
    }
}

impl std::fmt::Debug for BusOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BusOptions")
            .field("url", &hide_password(&self.url))
            .field("channel", &self.channel)
            .field("limits", &self.limits)
            .finish()
    }
}

/// The addresses of a build with everything.
const KNOWN: [&str; 7] = ["poll", "postgres", "postgresql", "redis", "rediss", "nats", "tls"];

/// Opens a bus. One that cannot reach its server works within this process and goes on trying; [`Bus::check`] tells.
///
/// # Errors
/// `BadUrl` when the address names no bus, or one that this build does not have.
pub async fn open(options: BusOptions) -> Result<Arc<dyn Bus>, BusError> {
    let bad = |why: String| BusError::BadUrl { url: hide_password(&options.url), why };
    let Some((scheme, _)) = options.url.split_once(':') else {
        return Err(bad("it has no scheme".to_owned()));
    };
    match scheme {
        "memory" => Ok(Arc::new(MemoryBus::with(options.limits))),
        #[cfg(feature = "remote")]
        "poll" => Ok(Arc::new(crate::poll::start(options.limits))),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => {
            let connect = options.url.parse().map_err(|e: sqlx::Error| bad(e.to_string()))?;
            let carrier = crate::postgres::Postgres::new(connect, options.channel);
            Ok(Arc::new(crate::remote::Remote::start(carrier, options.limits).await))
        }
        #[cfg(feature = "redis")]
        "redis" | "rediss" | "redis+unix" | "unix" => {
            encrypt_with_the_usual();
            let client = redis::Client::open(&*options.url).map_err(|e| bad(e.to_string()))?;
            let carrier = crate::redis::Redis::new(client, &options.channel);
            Ok(Arc::new(crate::remote::Remote::start(carrier, options.limits).await))
        }
        #[cfg(feature = "nats")]
        "nats" | "tls" => {
            encrypt_with_the_usual();
            let servers = options.url.split(',').map(str::parse).collect::<Result<Vec<_>, _>>();
            let servers = servers.map_err(|e: std::io::Error| bad(e.to_string()))?;
            let carrier = crate::nats::Nats::new(servers, options.channel);
            Ok(Arc::new(crate::remote::Remote::start(carrier, options.limits).await))
        }
        other if KNOWN.contains(&other) => Err(bad(format!("this build has no {other} bus"))),
        other => Err(bad(format!("nothing is known of {other}:"))),
    }
}

/// Chooses what TLS encrypts with, unless the process has: these clients use what the process has chosen, and fail when it has
/// nothing or the choice.
#[cfg(any(feature = "redis", feature = "nats"))]
fn encrypt_with_the_usual() {
    let _chosen_before = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

/// An address as it may be shown: with `***` for what stands between the scheme and the host, and without its query, which may
/// hold a password as well.
pub fn hide_password(url: &str) -> String {
    let one = |url: &str| {
        let Some((scheme, rest)) = url.split_once("://") else { return plain(url).to_owned() };
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let behind = rest.strip_prefix(host).unwrap_or_default();
        match host.rsplit_once('@') {
            // A password with characters that should have been encoded: where it ends cannot be told.
            _ if behind.contains('@') => format!("{scheme}://***"),
            Some((_, host)) => format!("{scheme}://***@{host}{}", plain(behind)),
            None => format!("{scheme}://{host}{}", plain(behind)),
        }
    };
    let Some((scheme, _)) = url.split_once("://") else {
        return match url.split_once(':') {
            Some((scheme, rest)) if rest.contains('@') => format!("{scheme}:***"),
            _ => plain(url).to_owned(),
        };
    };
    // Only NATS takes lists.
    if !matches!(scheme, "nats" | "tls") {
        return one(url);
    }
    // A comma that no address follows stands in a password.
    if url.split(',').any(|url| !url.contains("://") && url.contains('@')) {
        return format!("{scheme}://***");
    }
    url.split(',').map(one).collect::<Vec<_>>().join(",")
}

fn plain(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_that_names_no_bus_is_refused_without_its_password() {
        for url in ["", "kafka://u:secret@h", "carrier pigeon", "postgres://u:secret@h:port/db"] {
            let error = open(BusOptions::new(url)).await.err().unwrap();
            assert!(matches!(error, BusError::BadUrl { .. }), "{error:?}");
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        }
        let options = BusOptions::new("nats://u:secret@a:1,nats://u:se@cret@b:2");
        assert_eq!(hide_password(&options.url), "nats://***@a:1,nats://***@b:2");
        assert!(!format!("{options:?}").contains("secret"));
        assert_eq!(hide_password("postgres://h/db?password=secret"), "postgres://h/db");
        assert_eq!(hide_password("postgres://u@h/db?password=se@cret"), "postgres://***");
        assert_eq!(hide_password("postgres://u:se,cret@h/db"), "postgres://***@h/db");
        assert_eq!(hide_password("postgres://h/db?x=1,2&password=secret"), "postgres://h/db");
        assert_eq!(hide_password("nats://u:se,cret@h"), "nats://***");
        assert_eq!(hide_password("mysql:u:secret@h"), "mysql:***");
    }

    #[tokio::test]
    async fn memory_needs_nothing() {
        open(BusOptions::new("memory:")).await.unwrap().check().await.unwrap();
    }
}
