//! A provider's endpoint and the models behind it.
//!
//! An [`Endpoint`] owns what its models share: the codec, the connections, the bound on calls at once, the pace at which
//! they leave and the circuit breaker. [`Endpoint::model`] gives a [`Model`] of it.

mod breaker;
mod call;
mod pace;
mod wires;

pub use breaker::{Breaker, FIRST_REST, Health, LONGEST_REST, Pass, TRIP_AFTER};
pub use pace::{LONGEST_HOLD, Leave, Pace, Stated, UNSAID_HOLD};

use crate::alarm::Alarms;
use crate::cassette::{Player, Recorder};
use crate::catalogue::{self, InfoSource, ModelInfo};
use crate::cloud::{Asking, Credentials};
use crate::config::{
    Auth, ConfigError, DEFAULT_CONCURRENCY, DEFAULT_MAX_RESPONSE_BYTES, HostKind, ModelOverride,
    ResolvedProvider, Timeouts,
};
use crate::embed::{EmbedOptions, Embedder, RemoteEmbedder};
use crate::model::{CallFailure, DeltaSink, Model};
use crate::secret::Secret;
use crate::transport::{HttpEndpoint, HttpOptions, Route, Transport};
use crate::vision::{self, Sight};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use turnbuckle_core::error::ModelError;
use turnbuckle_core::model::{ModelRef, ModelRequest, ModelResponse};
use turnbuckle_wire::{Codec, EmbedWire, EncodedRequest};

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
    pace: Pace,
    alarms: Arc<Alarms>,
    breaker: Breaker,
    host: HostKind,
    models_path: Option<String>,
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
        let auth = provider.key.as_ref().and_then(|key| match provider.auth {
            Auth::Key => {
                let (name, value) = codec.auth_header(key.expose());
                Some((name, Secret::new(&value)))
            }
            Auth::Bearer => {
                Some(("authorization", Secret::new(&format!("Bearer {}", key.expose()))))
            }
            // What is asked for or signed stands for itself.
            Auth::Token(_) | Auth::Aws(_) => None,
        });
        let credentials = Credentials::of(
            &provider.auth,
            &Asking {
                provider: &provider.name,
                connect_timeout: provider.config.timeouts.connect(),
                answer_timeout: provider.config.timeouts.idle(),
                route,
            },
        )?;
        let headers: Vec<(String, Secret)> =
            provider.config.headers.iter().map(|(n, v)| (n.clone(), Secret::new(&v.0))).collect();
        let http = HttpEndpoint::new(&HttpOptions {
            provider: &provider.name,
            base_url: &provider.base_url,
            auth,
            headers: &headers,
            connect_timeout: provider.config.timeouts.connect(),
            route,
        })?;
        let http = Arc::new(http.with_credentials(credentials));
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
            pace: Pace::new(provider.config.requests_per_minute),
            alarms: Arc::default(),
            breaker: Breaker::default(),
            host: provider.host,
            models_path: provider.models_path,
            overrides: provider.config.models,
            secrets: provider
                .key
                .into_iter()
                .chain(headers.into_iter().map(|(_, value)| value))
                .chain(Credentials::secrets(&provider.auth))
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
            sight: self.sight(name),
            endpoint: self.clone(),
        })
    }

    /// What is known of a model here: the configuration over the catalogue over the defaults.
    pub fn info(&self, name: &str) -> ModelInfo {
        let known = catalogue::lookup(self.host.as_host(), name);
        self.overrides.get(name).map_or(known.clone(), |own| own.apply(known))
    }

    /// An embedding model of this endpoint, by the provider's name of it.
    ///
    /// # Errors
    /// When the provider's wire has no embeddings.
    pub fn embedder(
        self: &Arc<Self>,
        name: &str,
        options: EmbedOptions,
    ) -> Result<Arc<dyn Embedder>, ConfigError> {
        let wire = EmbedWire::of(self.codec.wire()).ok_or_else(|| ConfigError::NoEmbeddings {
            provider: self.name.to_string(),
            wire: self.codec.wire(),
        })?;
        let id = ModelRef::new(self.name.clone(), name);
        Ok(Arc::new(RemoteEmbedder { id, endpoint: self.clone(), wire, options }))
    }

    /// Sends a request that is answered at once, within the endpoint's limits, and gives the answer's body.
    pub(crate) async fn exchange(
        &self,
        request: EncodedRequest,
        model: &str,
    ) -> Result<Bytes, ModelError> {
        call::exchange(self, request, model).await
    }

    /// What neither the configuration nor the catalogue speaks of may see.
    fn sight(&self, name: &str) -> Sight {
        let info = self.info(name);
        let configured = self.overrides.get(name).is_some_and(|own| own.capabilities.is_some());
        let known = configured || info.source != InfoSource::Defaults;
        if known && !info.capabilities.images { Sight::Blind } else { Sight::Maybe }
    }

    /// The models the server says it has: the cheapest question that also proves the key.
    ///
    /// # Errors
    /// The provider's own error, in its category.
    pub async fn list_models(&self) -> Result<Vec<String>, ModelError> {
        let usual = wires::models_path(self.codec.wire());
        let path = self.models_path.as_deref().unwrap_or(usual);
        let mut reply = self.http.get(path).await?;
        call::within(self.timeouts.first_byte(), async {
            if !(200..300).contains(&reply.status()) {
                return Err(call::refusal(self, &mut reply).await);
            }
            const LIMIT: usize = 8 << 20;
            Ok(wires::model_names(&reply.read(LIMIT).await?))
        })
        .await
        .map_err(|mut error| {
            self.veil(&mut error);
            error
        })
    }
}

/// A random number from 0 to 1, to keep callers from coming back in step. A fresh `RandomState` is keyed at random, so that
/// no generator is needed.
pub(crate) fn jitter() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    (RandomState::new().hash_one(0) >> 11) as f64 / (1_u64 << 53) as f64
}

/// One model of an endpoint.
struct EndpointModel {
    id: ModelRef,
    info: ModelInfo,
    sight: Sight,
    endpoint: Arc<Endpoint>,
}

impl Model for EndpointModel {
    fn id(&self) -> &ModelRef {
        &self.id
    }

    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn held(&self) -> Option<Duration> {
        self.endpoint.pace.held()
    }

    fn call<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a mut (dyn DeltaSink + 'a),
    ) -> BoxFuture<'a, Result<ModelResponse, CallFailure>> {
        Box::pin(async move {
            let request = vision::shown(request, self.sight)?;
            call::call(&self.endpoint, &request, sink).await
        })
    }
}
