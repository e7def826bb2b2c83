//! Keys and the audit log in a Postgres database, beside the sessions of several processes.

use super::sql::{self, keep_accounts};
use super::{Accounts, AccountsError, AccountsFuture, Audit};
use crate::auth::keys::{Hash, Key};
use crate::dto::{AuditEntry, Role};
use futures_util::FutureExt;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgPool, PgPoolOptions, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, ConnectOptions, Postgres, Row};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::timeout;
use turnbuckle_core::ids::TenantId;
use turnbuckle_core::time::Timestamp;
use turnbuckle_store::migrate_postgres;

/// Connections at once; every request with a key asks for it.
const CONNECTIONS: u32 = 8;
/// How long a connection and an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// What the migrations that were run are noted in, beside those of the sessions.
const MIGRATIONS: &str = "_turnbuckle_accounts_migrations";
/// Told from other locks of the same database.
const AUDIT_LOCK: i64 = 0x7475_726e_6275_636b;

/// [`Accounts`] in a Postgres database. Clones share its connections.
#[derive(Clone)]
pub struct PostgresAccounts {
    pool: PgPool,
}

impl PostgresAccounts {
    /// Connects to the database at `postgres://...` and brings its tables up to date.
    ///
    /// # Errors
    /// When it cannot be reached, or the user may not do this. The address is in none of them, since it may hold a password.
    pub async fn open(url: &str) -> Result<Self, AccountsError> {
        let mut connect: PgConnectOptions = url.parse().map_err(AccountsError::Database)?;
        connect = connect.disable_statement_logging();
        if connect.get_application_name().is_none() {
            connect = connect.application_name("turnbuckle");
        }
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(PATIENCE)
            .connect_with(connect)
            .await?;
        let mut migrations = sqlx::migrate!("./migrations/postgres");
        migrations.dangerous_set_table_name(MIGRATIONS);
        migrate_postgres(&mut *pool.acquire().await?, &migrations).await?;
        Ok(Self { pool })
    }

    /// A database that has fallen silent is as good as gone.
    fn within<'a, T: 'a>(
        &self,
        work: impl Future<Output = Result<T, AccountsError>> + Send + 'a,
    ) -> AccountsFuture<'a, T> {
        async move {
            match timeout(PATIENCE, work).await {
                Ok(done) => done,
                Err(_late) => Err(AccountsError::Database(sqlx::Error::PoolTimedOut)),
            }
        }
        .boxed()
    }

    /// Of those who write for one tenant at once, each waits for the one before, so that numbers have no gap and none is taken
    /// twice.
    async fn write_audit(
        &self,
        tenant: &TenantId,
        insert: Query<'_, Postgres, PgArguments>,
    ) -> Result<(), AccountsError> {
        let mut tx = self.pool.begin().await?;
        sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended($1, $2))")
            .bind(tenant.as_str())
            .bind(AUDIT_LOCK)
            .execute(&mut *tx)
            .await?;
        insert.execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(())
    }
}

keep_accounts!(PostgresAccounts, PgRow);
