//! A provider's endpoint and the models behind it.
//!
//! An [`Endpoint`] owns what its models share: the codec, the connections, the bound on calls at once and the circuit
//! breaker. [`Endpoint::model`] gives a [`Model`] of it.

mod breaker;
mod call;
mod wires;

pub use breaker::{Breaker, FIRST_REST, Health, LONGEST_REST, Pass, TRIP_AFTER};

use crate::cassette::{Player, Recorder};
use crate::catalogue::{self, ModelInfo};
use crate::config::{
    ConfigError, DEFAULT_CONCURRENCY, DEFAULT_MAX_RESPONSE_BYTES, HostKind, ModelOverride,
    ResolvedProvider, Timeouts,
};
use crate::model::{CallFailure, DeltaSink, Model};
use crate::secret::Secret;
use crate::transport::{HttpEndpoint, HttpOptions, Route, Transport};
use futures_util::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Semaphore;
use turnbuckle_core::error::ModelError;
use turnbuckle_core::model::{ModelRef, ModelRequest, ModelResponse};
use turnbuckle_wire::Codec;

/// A configured provider, ready to be called.
#[derive(Debug)]
pub struct Endpoint {
    name: Arc<str>,
    codec: Box<dyn Codec>,
    transport: Transport,
    http: Arc<HttpEndpoint>,
    timeouts: Timeouts,
    max_response_bytes: u64,
    permits: Semaphore,
    breaker: Breaker,
    host: HostKind,
    overrides: BTreeMap<String, ModelOverride>,
    secrets: Vec<Secret>,
}

impl Endpoint {
    /// Sets a provider up. Nothing is connected yet.
    ///
    /// # Errors
    /// When the wire or profile is unknown, or the URL or a header is not one.
    pub fn new(provider: ResolvedProvider) -> Result<Self, ConfigError> {
        Self::with_route(provider, Route::Auto)
    }

    /// The same with connections made in a certain way.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_route(provider: ResolvedProvider, route: Route) -> Result<Self, ConfigError> {
        let codec = wires::codec(&provider)?;
        let auth = provider.key.as_ref().map(|key| {
            let (name, value) = codec.auth_header(key.expose());
            (name, Secret::new(&value))
        });
        let headers: Vec<(String, Secret)> =
            provider.config.headers.iter().map(|(n, v)| (n.clone(), Secret::new(&v.0))).collect();
        let http = Arc::new(HttpEndpoint::new(&HttpOptions {
            provider: &provider.name,
            base_url: &provider.base_url,
            auth,
            headers: &headers,
            connect_timeout: provider.config.timeouts.connect(),
            route,
        })?);
        let concurrency = provider.config.max_concurrency.unwrap_or(DEFAULT_CONCURRENCY).max(1);
        Ok(Self {
            name: provider.name.into(),
            codec,
            transport: Transport::Http(http.clone()),
            http,
            timeouts: provider.config.timeouts,
            max_response_bytes: provider
                .config
                .max_response_bytes
                .unwrap_or(DEFAULT_MAX_RESPONSE_BYTES),
            permits: Semaphore::new(concurrency as usize),
            breaker: Breaker::default(),
            host: provider.host,
            overrides: provider.config.models,
            secrets: provider
                .key
                .into_iter()
                .chain(headers.into_iter().map(|(_, value)| value))
                .collect(),
        })
    }

    /// The same endpoint with every call recorded to a cassette.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn recorded(
        self,
        cassette: &std::path::Path,
    ) -> Result<Self, crate::cassette::CassetteError> {
        let recorder = Recorder::append(cassette, self.secrets.clone())?;
        Ok(Self { transport: Transport::Recorded(self.http.clone(), recorder), ..self })
    }

    /// The same endpoint answered from a cassette; nothing is sent any more.
    pub fn replayed(self, player: Arc<Player>) -> Self {
        Self { transport: Transport::Replayed(player), ..self }
    }

    /// The provider's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A model of this endpoint, by the provider's name of it.
    pub fn model(self: &Arc<Self>, name: &str) -> Arc<dyn Model> {
        Arc::new(EndpointModel {
            id: ModelRef::new(self.name.clone(), name),
            info: self.info(name),
            endpoint: self.clone(),
        })
    }

    /// What is known of a model here: the configuration over the catalogue over the defaults.
    pub fn info(&self, name: &str) -> ModelInfo {
        let known = catalogue::lookup(self.host.as_host(), name);
        self.overrides.get(name).map_or(known.clone(), |own| own.apply(known))
    }

    /// The models the server says it has: the cheapest question that also proves the key.
    ///
    /// # Errors
    /// The provider's own error, in its category.
    pub async fn list_models(&self) -> Result<Vec<String>, ModelError> {
        let mut reply = self.http.get(wires::models_path(self.codec.wire())).await?;
        call::within(self.timeouts.first_byte(), async {
            if !(200..300).contains(&reply.status()) {
                return Err(call::refusal(self, &mut reply).await);
            }
            const LIMIT: usize = 8 << 20;
            Ok(wires::model_names(&reply.read(LIMIT).await?))
        })
        .await
    }
}

/// One model of an endpoint.
struct EndpointModel {
    id: ModelRef,
    info: ModelInfo,
    endpoint: Arc<Endpoint>,
}

impl Model for EndpointModel {
    fn id(&self) -> &ModelRef {
        &self.id
    }

    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn call<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a mut (dyn DeltaSink + 'a),
    ) -> BoxFuture<'a, Result<ModelResponse, CallFailure>> {
        Box::pin(call::call(&self.endpoint, request, sink))
    }
}
