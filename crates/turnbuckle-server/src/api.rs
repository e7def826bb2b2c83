//! What every route works with.

use crate::accounts::{Accounts, Audit};
use crate::auth::Authenticator;
use crate::auth::access::{Want, may};
use crate::auth::principal::Principal;
use crate::config::ApiOptions;
use crate::dto::QuotaView;
use crate::metrics::Metrics;
use crate::problem::{Answer, Code, Problem};
use crate::quota::Quotas;
use crate::rate::Rates;
use crate::request::RequestId;
use crate::routes::Parts;
use crate::streams::Streams;
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use turnbuckle_bus::{Bus, Call};
use turnbuckle_core::ids::{SessionId, SessionKey};
use turnbuckle_core::time::Timestamp;
use turnbuckle_engine::Engine;
use turnbuckle_store::{Jobs, Post, Posted, Receipt, Session, Store};

/// What every route works with. Cheap to clone.
#[derive(Clone)]
pub struct Api(Arc<Inner>);

struct Inner {
    engine: Engine,
    bus: Arc<dyn Bus>,
    accounts: Arc<dyn Accounts>,
    auth: Authenticator,
    options: ApiOptions,
    streams: Streams,
    metrics: Metrics,
    rates: Rates,
    quotas: Quotas,
    jobs: Option<Arc<dyn Jobs>>,
    shutdown: CancellationToken,
    readiness: Mutex<Option<(Instant, Parts)>>,
}

impl Api {
    /// An API over an engine. Turns are driven by a [`Worker`](crate::worker::Worker), here or in another process.
    pub fn new(
        engine: Engine,
        bus: Arc<dyn Bus>,
        accounts: Arc<dyn Accounts>,
        auth: Authenticator,
        metrics: Metrics,
        options: ApiOptions,
    ) -> Self {
        let streams = Streams::new(options.limits.streams, options.limits.streams_per_user);
        let rates = Rates::new(options.limits.requests_per_second, options.limits.burst);
        let quotas = Quotas::new(engine.store().clone(), options.quotas.clone());
        let shutdown = CancellationToken::new();
        Self(Arc::new(Inner {
            engine,
            bus,
            accounts,
            auth,
            options,
            streams,
            metrics,
            rates,
            quotas,
            jobs: None,
            shutdown,
            readiness: Mutex::default(),
        }))
    }

    /// With triggers and background tasks. To be called before the API is shared; it changes nothing after that.
    #[must_use]
    pub fn with_jobs(mut self, jobs: Arc<dyn Jobs>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.jobs = Some(jobs);
        }
        self
    }

    /// Jobs, schedules and background tasks, where there are any.
    pub(crate) fn jobs_kept(&self) -> Option<&Arc<dyn Jobs>> {
        self.0.jobs.as_ref()
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        self.0.engine.store()
    }

    /// The bus.
    pub fn bus(&self) -> &Arc<dyn Bus> {
        &self.0.bus
    }

    /// Keys and audit log.
    pub fn accounts(&self) -> &Arc<dyn Accounts> {
        &self.0.accounts
    }

    /// How requests show who they are.
    pub fn auth(&self) -> &Authenticator {
        &self.0.auth
    }

    /// How it behaves.
    pub fn options(&self) -> &ApiOptions {
        &self.0.options
    }

    /// The event streams there are.
    pub fn streams(&self) -> &Streams {
        &self.0.streams
    }

    /// What is counted.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// How often callers ask.
    pub fn rates(&self) -> &Rates {
        &self.0.rates
    }

    /// The quotas that concern somebody, and how much of them is used.
    ///
    /// # Errors
    /// The store's.
    pub async fn quotas(&self, who: &Principal) -> Answer<Vec<QuotaView>> {
        Ok(self.0.quotas.views(&who.into(), self.now()).await?)
    }

    /// Refuses somebody whose quota is used up.
    ///
    /// # Errors
    /// `quota_exceeded`; the store's.
    pub async fn within_quota(&self, who: &Principal) -> Answer<()> {
        let now = self.now();
        match self.0.quotas.exceeded(&who.into(), now).await? {
            None => Ok(()),
            Some(exceeded) => {
                let wait = exceeded.resets_at.since(now) / 1000 + 1;
                let problem = Problem::new(Code::QuotaExceeded, exceeded.to_string());
                Err(problem.retry_after(wait))
            }
        }
    }

    /// Fires when the server shuts down: streams end, and readiness is withdrawn.
    pub fn shutdown(&self) -> &CancellationToken {
        &self.0.shutdown
    }

    /// What was found out last about the parts it stands on, and when.
    pub(crate) fn readiness(&self) -> &Mutex<Option<(Instant, Parts)>> {
        &self.0.readiness
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        self.0.engine.now()
    }

    /// A session, when the principal may do this with it.
    ///
    /// # Errors
    /// Not found, whether it is not there, another's or not for their roles; the store's.
    pub async fn session(&self, who: &Principal, id: &str, want: Want) -> Answer<Session> {
        let session = self.store().session(&who.session(id)).await?;
        if may(who, &session.user, want) { Ok(session) } else { Err(Problem::not_found()) }
    }

    /// Puts an input into a session's inbox and calls its owner.
    ///
    /// # Errors
    /// The store's.
    pub async fn post(
        &self,
        key: &SessionKey,
        input: Posted,
        idempotency_key: Option<String>,
    ) -> Answer<Receipt> {
        let stop = match &input {
            Posted::Stop { turn, .. } => Some(turn.clone()),
            _ => None,
        };
        let post = Post { key: key.clone(), idempotency_key, input, now: self.now() };
        let receipt = self.store().post(post).await?;
        // A turn of this very process hears of it before whoever posted does, so that a message is never late for a step that
        // begins after its receipt.
        self.0.engine.knock(key);
        let session = key.clone();
        self.bus().call(match stop {
            Some(turn) => Call::Stop { session, turn },
            None => Call::Inbox { session },
        });
        Ok(receipt)
    }

    /// Writes into the audit log.
    ///
    /// # Errors
    /// When that is not possible.
    pub async fn audit(
        &self,
        who: &Principal,
        request: &RequestId,
        action: &'static str,
        subject: impl Into<String>,
        session: Option<&SessionId>,
        detail: Value,
    ) -> Answer<()> {
        let audit = Audit {
            tenant: who.tenant.clone(),
            at: self.now(),
            user: who.user.clone(),
            key: who.key.clone(),
            action: action.to_owned(),
            subject: subject.into(),
            session: session.cloned(),
            detail,
            request: request.to_string(),
        };
        Ok(self.accounts().audit(audit).await?)
    }
}
