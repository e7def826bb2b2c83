//! What the databases have in common: the statements and the rows, which read the same in each dialect.
//!
//! sqlx has a type for each database, so the code over the statements is a macro that each of them expands for itself.

/// The columns of a key, in the order in which they are read.
pub(super) const KEY: &str =
    "SELECT id, hash, tenant, user_id, name, roles, created, expires_at, revoked_at FROM api_keys";

/// A new key.
pub(super) const ADD_KEY: &str = "INSERT INTO api_keys (id, hash, tenant, user_id, name, roles, created, expires_at, revoked_at) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";

/// The first moment counts.
pub(super) const REVOKE: &str =
    "UPDATE api_keys SET revoked_at = COALESCE(revoked_at, $3) WHERE tenant = $1 AND id = $2";

/// The next number of the tenant. Whoever runs it must be the only one for that tenant at that moment.
pub(super) const AUDIT: &str = "INSERT INTO audit_log (tenant, n, at, user_id, api_key, action, subject, session, detail, request) \
     SELECT $1, COALESCE(MAX(n), 0) + 1, $2, $3, $4, $5, $6, $7, $8, $9 FROM audit_log WHERE tenant = $1";

/// Entries below a number, of one session or of all.
pub(super) const AUDIT_LOG: &str = "SELECT n, at, user_id, api_key, action, subject, session, detail, request FROM audit_log \
     WHERE tenant = $1 AND (CAST($2 AS TEXT) IS NULL OR session = $2) AND n < $3 ORDER BY n DESC LIMIT $4";

/// Entries of every tenant, behind a place.
pub(super) const EVERY_ENTRY: &str = "SELECT tenant, n, at, user_id, api_key, action, subject, session, detail, request FROM audit_log \
     WHERE (tenant, n) > ($1, $2) ORDER BY tenant, n LIMIT $3";

/// Text that every database can hold: Postgres has no place for a NUL.
pub(super) fn clean(text: &str) -> String {
    text.replace('\0', "")
}

/// Whether a text can stand in a database at all; what cannot names nothing that is stored.
pub(super) fn storable(text: &str) -> bool {
    !text.contains('\0')
}

/// [`Accounts`](super::Accounts) for a type with a `pool`, by its kind of row. `within` bounds each operation; `write_audit`
/// writes an entry alone of its tenant.
macro_rules! keep_accounts {
    ($accounts:ty, $row:ty) => {
        fn key(row: &$row) -> Result<Key, AccountsError> {
            let roles: String = row.try_get("roles")?;
            let roles: BTreeSet<Role> =
                serde_json::from_str(&roles).map_err(|_| AccountsError::Corrupt("key"))?;
            let time = |at: Option<i64>| at.map(Timestamp::from_millis);
            Ok(Key {
                id: row.try_get("id")?,
                tenant: row.try_get::<String, _>("tenant")?.into(),
                user: row.try_get::<String, _>("user_id")?.into(),
                name: row.try_get("name")?,
                roles,
                created: Timestamp::from_millis(row.try_get("created")?),
                expires_at: time(row.try_get("expires_at")?),
                revoked_at: time(row.try_get("revoked_at")?),
            })
        }

        fn audit_entry(row: &$row) -> Result<AuditEntry, AccountsError> {
            let detail: String = row.try_get("detail")?;
            let detail =
                serde_json::from_str(&detail).map_err(|_| AccountsError::Corrupt("audit entry"))?;
            Ok(AuditEntry {
                n: row.try_get::<i64, _>("n")? as u64,
                at: Timestamp::from_millis(row.try_get("at")?),
                user: row.try_get("user_id")?,
                key: row.try_get("api_key")?,
                action: row.try_get("action")?,
                subject: row.try_get("subject")?,
                session: row.try_get("session")?,
                detail,
                request: row.try_get("request")?,
            })
        }

        impl Accounts for $accounts {
            fn check(&self) -> AccountsFuture<'_, ()> {
                self.within(async move {
                    sqlx::query("SELECT 1").execute(&self.pool).await?;
                    Ok(())
                })
            }

            fn add_key<'a>(&'a self, key: &'a Key, hash: Hash) -> AccountsFuture<'a, ()> {
                self.within(async move {
                    let roles = serde_json::to_string(&key.roles).unwrap_or_default();
                    sqlx::query(sql::ADD_KEY)
                        .bind(&key.id)
                        .bind(hash.as_slice())
                        .bind(key.tenant.as_str())
                        .bind(key.user.as_str())
                        .bind(sql::clean(&key.name))
                        .bind(roles)
                        .bind(key.created.as_millis())
                        .bind(key.expires_at.map(Timestamp::as_millis))
                        .bind(key.revoked_at.map(Timestamp::as_millis))
                        .execute(&self.pool)
                        .await?;
                    Ok(())
                })
            }

            fn key_by_hash(&self, hash: Hash) -> AccountsFuture<'_, Option<Key>> {
                self.within(async move {
                    let row = sqlx::query(AssertSqlSafe(format!("{} WHERE hash = $1", sql::KEY)))
                        .bind(hash.as_slice())
                        .fetch_optional(&self.pool)
                        .await?;
                    row.as_ref().map(key).transpose()
                })
            }

            fn keys<'a>(&'a self, tenant: &'a TenantId) -> AccountsFuture<'a, Vec<Key>> {
                self.within(async move {
                    let all = format!("{} WHERE tenant = $1 ORDER BY created, id", sql::KEY);
                    let rows = sqlx::query(AssertSqlSafe(all))
                        .bind(tenant.as_str())
                        .fetch_all(&self.pool)
                        .await?;
                    rows.iter().map(key).collect()
                })
            }

            fn revoke_key<'a>(
                &'a self,
                tenant: &'a TenantId,
                id: &'a str,
                now: Timestamp,
            ) -> AccountsFuture<'a, bool> {
                self.within(async move {
                    if !sql::storable(id) {
                        return Ok(false);
                    }
                    let done = sqlx::query(sql::REVOKE)
                        .bind(tenant.as_str())
                        .bind(id)
                        .bind(now.as_millis())
                        .execute(&self.pool)
                        .await?;
                    Ok(done.rows_affected() > 0)
                })
            }

            fn has_keys(&self) -> AccountsFuture<'_, bool> {
                self.within(async move {
                    let any = sqlx::query("SELECT 1 FROM api_keys LIMIT 1");
                    Ok(any.fetch_optional(&self.pool).await?.is_some())
                })
            }

            fn every_key<'a>(
                &'a self,
                after: &'a str,
                limit: u32,
            ) -> AccountsFuture<'a, Vec<(Key, Hash)>> {
                self.within(async move {
                    let all = format!("{} WHERE id > $1 ORDER BY id LIMIT $2", sql::KEY);
                    let rows = sqlx::query(AssertSqlSafe(all))
                        .bind(after)
                        .bind(i64::from(limit))
                        .fetch_all(&self.pool)
                        .await?;
                    let with_hash = |row: &$row| {
                        let hash: Vec<u8> = row.try_get("hash")?;
                        let hash = hash.try_into().map_err(|_| AccountsError::Corrupt("key"))?;
                        Ok((key(row)?, hash))
                    };
                    rows.iter().map(with_hash).collect()
                })
            }

            fn audit(&self, audit: Audit) -> AccountsFuture<'_, ()> {
                self.within(async move {
                    let insert = sqlx::query(sql::AUDIT)
                        .bind(audit.tenant.to_string())
                        .bind(audit.at.as_millis())
                        .bind(sql::clean(audit.user.as_str()))
                        .bind(audit.key)
                        .bind(audit.action)
                        .bind(sql::clean(&audit.subject))
                        .bind(audit.session.map(|session| sql::clean(session.as_str())))
                        .bind(audit.detail.to_string())
                        .bind(sql::clean(&audit.request));
                    self.write_audit(&audit.tenant, insert).await
                })
            }

            fn every_entry<'a>(
                &'a self,
                after: (&'a str, u64),
                limit: u32,
            ) -> AccountsFuture<'a, Vec<(TenantId, AuditEntry)>> {
                self.within(async move {
                    let rows = sqlx::query(sql::EVERY_ENTRY)
                        .bind(after.0)
                        .bind(i64::try_from(after.1).unwrap_or(i64::MAX))
                        .bind(i64::from(limit))
                        .fetch_all(&self.pool)
                        .await?;
                    let of_tenant = |row: &$row| {
                        Ok((row.try_get::<String, _>("tenant")?.into(), audit_entry(row)?))
                    };
                    rows.iter().map(of_tenant).collect()
                })
            }

            fn audit_log<'a>(
                &'a self,
                tenant: &'a TenantId,
                session: Option<&'a str>,
                before: Option<u64>,
                limit: u32,
            ) -> AccountsFuture<'a, Vec<AuditEntry>> {
                self.within(async move {
                    if !session.is_none_or(sql::storable) {
                        return Ok(Vec::new());
                    }
                    let rows = sqlx::query(sql::AUDIT_LOG)
                        .bind(tenant.as_str())
                        .bind(session)
                        .bind(before.map_or(i64::MAX, |n| i64::try_from(n).unwrap_or(i64::MAX)))
                        .bind(i64::from(limit))
                        .fetch_all(&self.pool)
                        .await?;
                    rows.iter().map(audit_entry).collect()
                })
            }
        }
    };
}

pub(super) use keep_accounts;
