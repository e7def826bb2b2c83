//! The embedded database of keys and the audit log: one file beside the sessions'.

use super::sql::{self, keep_accounts};
use super::{Accounts, AccountsError, AccountsFuture, Audit};
use crate::auth::keys::{Hash, Key};
use crate::dto::{AuditEntry, Role};
use futures_util::FutureExt;
use sqlx::migrate::Migrator;
use sqlx::query::Query;
use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions,
    SqliteRow, SqliteSynchronous,
};
use sqlx::{AssertSqlSafe, Row, Sqlite};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use turnbuckle_core::ids::TenantId;
use turnbuckle_core::time::Timestamp;
use turnbuckle_store::Patience;

static MIGRATIONS: Migrator = sqlx::migrate!("./migrations/sqlite");

/// Connections; writers wait for each other anyway.
const CONNECTIONS: u32 = 4;
const BUSY: Duration = Duration::from_secs(5);

/// [`Accounts`] in a SQLite file.
#[derive(Clone)]
pub struct SqliteAccounts {
    pool: SqlitePool,
}

impl SqliteAccounts {
    /// Opens the file, and makes it when it is not there.
    ///
    /// # Errors
    /// When it cannot be opened or brought up to date.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, AccountsError> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
            .busy_timeout(BUSY);
        Self::connect(options, CONNECTIONS).await
    }

    /// In memory, for tests and throw-away servers.
    ///
    /// # Errors
    /// When it cannot be made.
    pub async fn in_memory() -> Result<Self, AccountsError> {
        Self::connect(SqliteConnectOptions::new().in_memory(true), 1).await
    }

    async fn connect(
        options: SqliteConnectOptions,
        connections: u32,
    ) -> Result<Self, AccountsError> {
        let mut patience = Patience::new(BUSY);
        loop {
            match Self::attempt(options.clone(), connections).await {
                Err(error) if patience.allows(&error).await => {}
                Err(sqlx::Error::Migrate(error)) => return Err((*error).into()),
                opened => return Ok(Self { pool: opened? }),
            }
        }
    }

    async fn attempt(
        options: SqliteConnectOptions,
        connections: u32,
    ) -> Result<SqlitePool, sqlx::Error> {
        let pool = SqlitePoolOptions::new()
            .max_connections(connections)
            .min_connections(1)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_with(options)
            .await?;
        let mut connection = pool.acquire().await?;
        turnbuckle_store::migrate(&mut connection, &MIGRATIONS).await?;
        Ok(pool)
    }

    /// The file answers, or SQLite gives up by itself.
    fn within<'a, T>(
        &self,
        work: impl Future<Output = Result<T, AccountsError>> + Send + 'a,
    ) -> AccountsFuture<'a, T> {
        work.boxed()
    }

    /// A statement that writes holds the whole file, so nobody else can take the number that it takes.
    async fn write_audit(
        &self,
        _tenant: &TenantId,
        insert: Query<'_, Sqlite, SqliteArguments>,
    ) -> Result<(), AccountsError> {
        insert.execute(&self.pool).await?;
        Ok(())
    }
}

keep_accounts!(SqliteAccounts, SqliteRow);
