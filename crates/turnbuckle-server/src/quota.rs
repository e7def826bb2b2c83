//! Quotas of tokens and money: asked before a model is called, counted after every call.

use crate::auth::principal::Principal;
use crate::days;
use crate::dto::{QuotaOf, QuotaPer, QuotaUse, QuotaView};
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use turnbuckle_core::error::{ModelError, ModelErrorKind};
use turnbuckle_core::ids::{TenantId, UserId};
use turnbuckle_core::model::{ModelRef, ModelRequest, ModelResponse};
use turnbuckle_core::time::Timestamp;
use turnbuckle_engine::TurnInfo;
use turnbuckle_engine::runtime::WrapModels;
use turnbuckle_models::catalogue::ModelInfo;
use turnbuckle_models::{CallFailure, DeltaSink, Model};
use turnbuckle_store::{Store, StoreError, UsageBy, UsageQuery, UsageSum};

/// How much may be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuotaRule {
    /// Whose it is: each tenant's, each user's, or each API key's.
    pub of: QuotaOf,
    /// For how long.
    pub per: QuotaPer,
    /// Only for the tenant, user or key of this id; for every one, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<String>,
    /// Tokens of new work: uncached input, cache writes and output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Money in millionths of a US dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
}

/// Who pays for a model call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payer {
    /// The organisation.
    pub tenant: TenantId,
    /// The person.
    pub user: UserId,
    /// The id of the API key that the message came with.
    pub key: Option<Arc<str>>,
}

impl From<&Principal> for Payer {
    fn from(who: &Principal) -> Self {
        let key = who.key.as_deref().map(Into::into);
        Self { tenant: who.tenant.clone(), user: who.user.clone(), key }
    }
}

impl From<&TurnInfo> for Payer {
    fn from(info: &TurnInfo) -> Self {
        let key = info.account.clone();
        Self { tenant: info.tenant.clone(), user: info.user.clone(), key }
    }
}

/// A quota that is used up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// Whose.
    pub of: QuotaOf,
    /// For how long it lasts.
    pub per: QuotaPer,
    /// When it begins anew.
    pub resets_at: Timestamp,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = match self.of {
            QuotaOf::Tenant => "organisation",
            QuotaOf::User => "user",
            QuotaOf::Key => "API key",
        };
        let per = match self.per {
            QuotaPer::Day => "day",
            QuotaPer::Month => "month",
        };
        write!(f, "The quota of this {of} for the {per} is used up until {}.", self.resets_at)
    }
}

/// The quotas of this server.
#[derive(Clone)]
pub struct Quotas {
    store: Arc<dyn Store>,
    rules: Arc<[QuotaRule]>,
}

impl Quotas {
    /// Quotas by these rules.
    pub fn new(store: Arc<dyn Store>, rules: Vec<QuotaRule>) -> Self {
        Self { store, rules: rules.into() }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The quota that is used up, if any.
    ///
    /// # Errors
    /// The store's.
    pub async fn exceeded(
        &self,
        payer: &Payer,
        now: Timestamp,
    ) -> Result<Option<Exceeded>, StoreError> {
        for rule in self.rules.iter() {
            let Some((spent, resets_at)) = self.spent(rule, payer, now).await? else {
                continue;
            };
            if is_used_up(rule, spent) {
                return Ok(Some(Exceeded { of: rule.of, per: rule.per, resets_at }));
            }
        }
        Ok(None)
    }

    /// All quotas that concern somebody.
    ///
    /// # Errors
    /// The store's.
    pub async fn views(&self, payer: &Payer, now: Timestamp) -> Result<Vec<QuotaView>, StoreError> {
        let mut views = Vec::new();
        for rule in self.rules.iter() {
            let Some((spent, resets_at)) = self.spent(rule, payer, now).await? else {
                continue;
            };
            views.push(QuotaView {
                of: rule.of,
                per: rule.per,
                tokens: QuotaUse { used: spent.new_work(), limit: rule.tokens },
                cost_micros: QuotaUse { used: spent.cost_micros, limit: rule.cost_micros },
                resets_at,
            });
        }
        Ok(views)
    }

    /// What counts against a rule, and when it begins anew; `None` when it does not concern them.
    async fn spent(
        &self,
        rule: &QuotaRule,
        payer: &Payer,
        now: Timestamp,
    ) -> Result<Option<(UsageSum, Timestamp)>, StoreError> {
        let Some(query) = covered(rule, payer, now) else { return Ok(None) };
        let resets_at = query.to;
        let groups = self.store.usage(query).await?;
        Ok(Some((groups.first().map_or_else(UsageSum::default, |group| group.sum), resets_at)))
    }
}

/// Asks the quotas before every model call of every turn.
pub fn gate(quotas: Quotas, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> WrapModels {
    let clock: Clock = Arc::new(clock);
    Arc::new(move |info: &TurnInfo, model: Arc<dyn Model>| {
        if quotas.is_empty() {
            return model;
        }
        let (quotas, clock) = (quotas.clone(), clock.clone());
        Arc::new(Gated { model, quotas, clock, payer: info.into() })
    })
}

type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// A model behind somebody's quotas.
struct Gated {
    model: Arc<dyn Model>,
    quotas: Quotas,
    clock: Clock,
    payer: Payer,
}

impl Model for Gated {
    fn id(&self) -> &ModelRef {
        self.model.id()
    }

    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn held(&self) -> Option<Duration> {
        self.model.held()
    }

    fn call<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a mut (dyn DeltaSink + 'a),
    ) -> BoxFuture<'a, Result<ModelResponse, CallFailure>> {
        Box::pin(async move {
            let now = (self.clock)();
            match self.quotas.exceeded(&self.payer, now).await {
                Ok(None) => self.model.call(request, sink).await,
                Ok(Some(exceeded)) => {
                    let kind = ModelErrorKind::QuotaExceeded;
                    Err(ModelError::new(kind, exceeded.to_string()).into())
                }
                // Without knowing what was spent nothing more is.
                Err(e) => {
                    let what = format!("what was spent cannot be read: {}", e.report());
                    Err(ModelError::new(ModelErrorKind::Overloaded, what).into())
                }
            }
        })
    }
}

fn covered(rule: &QuotaRule, payer: &Payer, now: Timestamp) -> Option<UsageQuery> {
    let Payer { tenant, user, key } = payer;
    let (id, user, account) = match rule.of {
        QuotaOf::Tenant => (tenant.as_str(), None, None),
        QuotaOf::User => (user.as_str(), Some(user.clone()), None),
        QuotaOf::Key => {
            let key = key.as_deref()?;
            (key, None, Some(key.to_owned()))
        }
    };
    if rule.only.as_deref().is_some_and(|only| only != id) {
        return None;
    }
    let (from, to) = match rule.per {
        QuotaPer::Day => (days::day_of(now), days::next_day(now)),
        QuotaPer::Month => (days::month_of(now), days::next_month(now)),
    };
    Some(UsageQuery { tenant: tenant.clone(), user, account, from, to, by: UsageBy::Nothing })
}

fn is_used_up(rule: &QuotaRule, spent: UsageSum) -> bool {
    rule.tokens.is_some_and(|limit| spent.new_work() >= limit)
        || rule.cost_micros.is_some_and(|limit| spent.cost_micros >= limit)
}
