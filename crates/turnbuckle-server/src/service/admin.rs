//! Usage, keys, the audit log, exports.

use crate::api::Api;
use crate::auth::access::{Want, Whose, needs, whose};
use crate::auth::keys::{self, Key};
use crate::auth::principal::Principal;
use crate::days;
use crate::dto::{
    AuditEntry, AuditQuery, KeyCreated, KeyView, NewKey, Page, PageQuery, Role, UsageGroup,
    UsageQuery, UsageReport,
};
use crate::problem::{Answer, Problem};
use crate::request::{limit, text};
use serde_json::{Value, json};
use turnbuckle_store::UsageBy as StoreUsageBy;

/// The longest time that usage is summed up over: a little more than a year.
const LONGEST_MS: u64 = 400 * 24 * 3600 * 1000;

impl Api {
    /// Tokens and money of a time.
    ///
    /// # Errors
    /// When the query is wrong, or asks for what is not the caller's; the store's.
    pub async fn usage(&self, who: &Principal, query: UsageQuery) -> Answer<UsageReport> {
        let user = match whose(who, query.user.as_deref(), Role::Operator)? {
            Whose::Of(user) => Some(user),
            Whose::Everyones => None,
        };
        let now = self.now();
        let moment = |field: &'static str, text: Option<&str>, usual| match text {
            None => Ok(usual),
            Some(text) => days::moment(text)
                .ok_or_else(|| Problem::field(field, "must be a day, or a moment in RFC 3339")),
        };
        let from = moment("from", query.from.as_deref(), days::month_of(now))?;
        let to = moment("to", query.to.as_deref(), now)?;
        if to < from || to.since(from) > LONGEST_MS {
            return Err(Problem::field("to", "must be after `from`, and within 400 days of it"));
        }
        let tenant = who.tenant.clone();
        let all = StoreUsageBy::Nothing;
        let query_of = |by| turnbuckle_store::UsageQuery {
            tenant: tenant.clone(),
            user: user.clone(),
            account: None,
            from,
            to,
            by,
        };
        let total = self.store().usage(query_of(all)).await?;
        let total = total.into_iter().next().map(|group| group.sum.into()).unwrap_or_default();
        let groups = match query.by {
            None => Vec::new(),
            Some(by) => self.store().usage(query_of(by.into())).await?,
        };
        let group = |g: turnbuckle_store::UsageGroup| UsageGroup { key: g.key, sum: g.sum.into() };
        let groups = groups.into_iter().map(group).collect();
        let quotas = self.quotas(who).await?;
        Ok(UsageReport { from, to, total, groups, quotas })
    }

    /// Makes an API key for the caller's tenant.
    ///
    /// # Errors
    /// Not found for everyone who is no admin; when a field is wrong; the database's.
    pub async fn create_key(&self, who: &Principal, new: NewKey) -> Answer<KeyCreated> {
        needs(who, Role::Admin)?;
        text("name", &new.name, 100)?;
        text("user", &new.user, 200)?;
        if new.roles.is_empty() {
            return Err(Problem::field("roles", "must not be empty"));
        }
        if new.expires_at.is_some_and(|at| at <= self.now()) {
            return Err(Problem::field("expires_at", "must be in the future"));
        }
        let secret = keys::new_secret().map_err(|e| Problem::internal(&e))?;
        let key = Key {
            id: format!("k_{}", uuid::Uuid::now_v7().simple()),
            tenant: who.tenant.clone(),
            user: new.user.into(),
            name: new.name,
            roles: new.roles,
            created: self.now(),
            expires_at: new.expires_at,
            revoked_at: None,
        };
        self.accounts().add_key(&key, keys::hash(&secret)).await?;
        Ok(KeyCreated { secret, key: key.into() })
    }

    /// The tenant's API keys, oldest first.
    ///
    /// # Errors
    /// As [`create_key`](Self::create_key).
    pub async fn keys(&self, who: &Principal, query: PageQuery) -> Answer<Page<KeyView>> {
        needs(who, Role::Admin)?;
        let most = limit(query.limit, 50, 200)? as usize;
        let keys = self.accounts().keys(&who.tenant).await?;
        let start = match &query.cursor {
            None => 0,
            Some(id) => match keys.iter().position(|key| key.id == *id) {
                Some(last) => last + 1,
                None => return Err(Problem::field("cursor", "is not of this list")),
            },
        };
        let more = keys.len() > start + most;
        let items: Vec<KeyView> =
            keys.into_iter().skip(start).take(most).map(KeyView::from).collect();
        let next = items.last().filter(|_| more).map(|key| key.id.clone());
        Ok(Page { items, next })
    }

    /// Revokes an API key.
    ///
    /// # Errors
    /// Not found for everyone who is no admin, and for a key of another tenant; the database's.
    pub async fn revoke_key(&self, who: &Principal, id: &str) -> Answer<()> {
        needs(who, Role::Admin)?;
        if self.accounts().revoke_key(&who.tenant, id, self.now()).await? {
            Ok(())
        } else {
            Err(Problem::not_found())
        }
    }

    /// The audit log, newest first.
    ///
    /// # Errors
    /// Not found for everyone who is no admin; when the query is wrong; the database's.
    pub async fn audit_log(&self, who: &Principal, query: AuditQuery) -> Answer<Page<AuditEntry>> {
        needs(who, Role::Admin)?;
        let most = limit(query.limit, 50, 200)?;
        let before = query.cursor.map(|cursor| cursor.parse()).transpose();
        let before = before.map_err(|_| Problem::field("cursor", "is not of this list"))?;
        let (tenant, session) = (&who.tenant, query.session.as_deref());
        let mut items = self.accounts().audit_log(tenant, session, before, most + 1).await?;
        let more = items.len() > most as usize;
        items.truncate(most as usize);
        let next = items.last().filter(|_| more).map(|entry| entry.n.to_string());
        Ok(Page { items, next })
    }

    /// All of a session as one document.
    ///
    /// # Errors
    /// Those of [`session`](Self::session); the store's.
    pub async fn export_session(&self, who: &Principal, id: &str) -> Answer<Value> {
        let session = self.session(who, id, Want::Tend).await?;
        let export = self.store().export_session(&session.key).await?;
        let mut document = serde_json::to_value(export).map_err(|e| Problem::internal(&e))?;
        if let Value::Object(fields) = &mut document {
            fields.insert("format".to_owned(), json!("turnbuckle.session/1"));
            fields.insert("exported_at".to_owned(), json!(self.now()));
        }
        Ok(document)
    }
}
