//! The embedded database: how it is opened, its migrations, and the keys that make writes
//! repeatable.

pub(crate) mod idempotency;

use std::path::Path;
use std::time::Duration;

use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use crate::error::Result;

/// Readers that may work at once beside the one writer.
const CONNECTIONS: u32 = 4;

pub(crate) async fn open_file(path: &Path) -> Result<SqlitePool> {
    let options = common(SqliteConnectOptions::new())
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal);
    Ok(SqlitePoolOptions::new().max_connections(CONNECTIONS).connect_with(options).await?)
}

/// An in-memory database belongs to its connection, so there is exactly one and it never ends
/// before the pool does.
pub(crate) async fn open_memory() -> Result<SqlitePool> {
    let options = common(SqliteConnectOptions::new()).in_memory(true);
    let pool = SqlitePoolOptions::new()
        .max_connections(1)
        .min_connections(1)
        .idle_timeout(None)
        .max_lifetime(None);
    Ok(pool.connect_with(options).await?)
}

fn common(options: SqliteConnectOptions) -> SqliteConnectOptions {
    options.foreign_keys(true).busy_timeout(Duration::from_secs(10)).pragma("temp_store", "memory")
}

/// Brings the schema up to date. SQLite's migrator takes no lock of its own, so the write lock is
/// held around it: of two processes starting at once the second finds the work done.
pub(crate) async fn migrate(pool: &SqlitePool) -> Result<()> {
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::migrate!("./migrations")
        // Not `run`: its future is not `Send` for every lifetime, so that a desk could not be opened in a spawned task.
        .run_direct(None, &mut *tx, false)
        .await
        .map_err(|error| sqlx::Error::Migrate(Box::new(error)))?;
    tx.commit().await?;
    Ok(())
}
