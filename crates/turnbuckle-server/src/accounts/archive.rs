//! Keys and the audit log as they go into an archive of the whole store, and come out of it.

use super::{Accounts, Audit};
use crate::auth::keys::{Hash, Key};
use crate::digest::hex;
use crate::dto::{AuditEntry, Role};
use futures_util::FutureExt;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use turnbuckle_core::ids::{TenantId, UserId};
use turnbuckle_core::time::Timestamp;
use turnbuckle_store::archive::{Annex, AnnexError, AnnexFuture, AnnexItem, Annexed};

/// [`Accounts`] beside the sessions of an archive.
#[derive(Clone)]
pub struct AccountsAnnex(pub Arc<dyn Accounts>);

/// A key of an archive. What opens doors is not in it: the secret is known to whoever was given it, and this is its hash.
#[derive(Serialize, Deserialize)]
struct ArchivedKey {
    id: String,
    hash: String,
    tenant: TenantId,
    user: UserId,
    name: String,
    roles: BTreeSet<Role>,
    created: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revoked_at: Option<Timestamp>,
}

impl ArchivedKey {
    fn new((key, hash): (Key, Hash)) -> Self {
        let Key { id, tenant, user, name, roles, created, expires_at, revoked_at } = key;
        let hash = hex(&hash);
        Self { id, hash, tenant, user, name, roles, created, expires_at, revoked_at }
    }

    fn read(self) -> Option<(Key, Hash)> {
        let digits = self.hash.as_bytes().chunks(2);
        let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let hash: Hash = digits.map(byte).collect::<Option<Vec<u8>>>()?.try_into().ok()?;
        let Self { id, tenant, user, name, roles, created, expires_at, revoked_at, .. } = self;
        Some((Key { id, tenant, user, name, roles, created, expires_at, revoked_at }, hash))
    }
}

/// An entry of an archive. Its number is given anew where it is read: the same, where the tenant had no entries yet.
#[derive(Serialize, Deserialize)]
struct ArchivedEntry {
    tenant: TenantId,
    #[serde(flatten)]
    entry: AuditEntry,
}

impl From<ArchivedEntry> for Audit {
    fn from(ArchivedEntry { tenant, entry }: ArchivedEntry) -> Self {
        Self {
            tenant,
            at: entry.at,
            user: entry.user.into(),
            key: entry.key,
            action: entry.action,
            subject: entry.subject,
            session: entry.session.map(Into::into),
            detail: entry.detail,
            request: entry.request,
        }
    }
}

fn item(what: impl Serialize) -> Result<AnnexItem, AnnexError> {
    Ok(serde_json::from_value(serde_json::to_value(what)?)?)
}

fn read<T: DeserializeOwned>(item: AnnexItem) -> Result<T, AnnexError> {
    Ok(serde_json::from_value(Value::Object(item))?)
}

impl Annex for AccountsAnnex {
    fn read(
        &self,
        kind: Annexed,
        after: Option<String>,
        limit: u32,
    ) -> AnnexFuture<'_, (Vec<AnnexItem>, Option<String>)> {
        async move {
            let after = after.unwrap_or_default();
            let (items, next) = match kind {
                Annexed::Key => {
                    let keys = self.0.every_key(&after, limit).await?;
                    let next = keys.last().map(|(key, _)| key.id.clone());
                    let items = keys.into_iter().map(ArchivedKey::new).map(item);
                    (items.collect::<Result<_, _>>()?, next)
                }
                Annexed::Audit => {
                    let (n, tenant) = after.split_once(' ').unwrap_or(("0", ""));
                    let entries = self.0.every_entry((tenant, n.parse()?), limit).await?;
                    let next =
                        entries.last().map(|(tenant, entry)| format!("{} {tenant}", entry.n));
                    let archived = |(tenant, entry)| item(ArchivedEntry { tenant, entry });
                    (entries.into_iter().map(archived).collect::<Result<_, _>>()?, next)
                }
            };
            Ok((items, next))
        }
        .boxed()
    }

    fn write(&self, kind: Annexed, item: AnnexItem) -> AnnexFuture<'_, ()> {
        async move {
            match kind {
                Annexed::Key => {
                    let key = read::<ArchivedKey>(item)?.read();
                    let (key, hash) = key.ok_or("its hash is not one of a key's secret")?;
                    self.0.add_key(&key, hash).await?;
                }
                Annexed::Audit => self.0.audit(read::<ArchivedEntry>(item)?.into()).await?,
            }
            Ok(())
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::SqliteAccounts;
    use crate::auth::keys::hash;
    use serde_json::json;

    fn key(id: &str, revoked_at: Option<Timestamp>) -> Key {
        let at = Timestamp::from_millis;
        Key {
            id: id.into(),
            tenant: "acme".into(),
            user: "ada".into(),
            name: "ci".into(),
            roles: [Role::User, Role::Admin].into(),
            created: at(7),
            expires_at: Some(at(100)),
            revoked_at,
        }
    }

    async fn all(annex: &AccountsAnnex, kind: Annexed) -> Vec<AnnexItem> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let (items, next) = annex.read(kind, after, 2).await.unwrap();
            all.extend(items);
            after = next;
            if after.is_none() {
                return all;
            }
        }
    }

    #[tokio::test]
    async fn keys_and_entries_are_the_same_elsewhere() {
        let here = SqliteAccounts::in_memory().await.unwrap();
        for n in 0..5 {
            let key = key(&format!("k_{n}"), (n == 3).then(|| Timestamp::from_millis(50)));
            here.add_key(&key, hash(&format!("secret {n}"))).await.unwrap();
            for tenant in ["acme", "a tenant"] {
                let audit = Audit {
                    tenant: tenant.into(),
                    at: Timestamp::from_millis(n),
                    user: "ada".into(),
                    key: (n > 2).then(|| "k_1".to_owned()),
                    action: "approval.approve".into(),
                    subject: format!("c_{n}"),
                    session: (n > 3).then(|| "s".into()),
                    detail: json!({"changed": ["amount"]}),
                    request: "r".into(),
                };
                here.audit(audit).await.unwrap();
            }
        }
        let here = AccountsAnnex(Arc::new(here));
        let there = AccountsAnnex(Arc::new(SqliteAccounts::in_memory().await.unwrap()));
        for (kind, count) in [(Annexed::Key, 5), (Annexed::Audit, 10)] {
            let told = all(&here, kind).await;
            assert_eq!(told.len(), count);
            for item in told.clone() {
                there.write(kind, item).await.unwrap();
            }
            assert_eq!(all(&there, kind).await, told);
        }
        assert_eq!(there.0.key_by_hash(hash("secret 2")).await.unwrap(), Some(key("k_2", None)));
        let revoked = there.0.key_by_hash(hash("secret 3")).await.unwrap().unwrap();
        assert_eq!(revoked.revoked_at, Some(Timestamp::from_millis(50)));
        let (twice, _) = here.read(Annexed::Key, None, 1).await.unwrap();
        assert!(there.write(Annexed::Key, twice[0].clone()).await.is_err());
        let mut wrong = twice[0].clone();
        wrong.insert("hash".into(), json!("öö"));
        let error = there.write(Annexed::Key, wrong).await.unwrap_err();
        assert!(error.to_string().contains("its hash"), "{error}");
    }
}
