//! What opening any SQLite file takes when other processes open it at the same moment.

use super::fail;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::{Connection, SqliteConnection};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(10);

/// Waits out what SQLite does not wait out by itself.
///
/// A connection's busy timeout does not cover the moments in which a file is switched to its write-ahead log, recovered after
/// a crash, or closed by its last user; whoever opens it then is told at once that the database is locked.
///
/// ```
/// # use sqlx::{Connection, SqliteConnection};
/// # use turnbuckle_store::Patience;
/// # async fn open(file: &str) -> Result<SqliteConnection, sqlx::Error> {
/// let mut patience = Patience::new(std::time::Duration::from_secs(5));
/// loop {
///     match SqliteConnection::connect(file).await {
///         Err(error) if patience.allows(&error).await => {}
///         opened => return opened,
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Patience {
    ends: Instant,
}

impl Patience {
    /// Patience that ends after `time`.
    pub fn new(time: Duration) -> Self {
        Self { ends: Instant::now() + time }
    }

    /// Whether to try again: another connection was in the way, and there is time left. Waits a moment if so.
    pub async fn allows(&mut self, error: &sqlx::Error) -> bool {
        let again = fail::busy(error) && Instant::now() < self.ends;
        if again {
            tokio::time::sleep(PAUSE).await;
        }
        again
    }
}

/// Brings a schema up to date, one process at a time: SQLite's migrator takes no lock of its own, so of two processes that
/// start at once the second waits and finds the work done.
///
/// # Errors
/// SQLite's own; `sqlx::Error::Migrate` when the file holds a schema that these migrations do not know.
pub async fn migrate(
    connection: &mut SqliteConnection,
    migrations: &Migrator,
) -> Result<(), sqlx::Error> {
    let mut alone = connection.begin_with("BEGIN IMMEDIATE").await?;
    // Not `run`: its future is not `Send` for every lifetime, so that nobody could open a file in a spawned task.
    migrations.run_direct(None, &mut *alone, false).await.map_err(|error| match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => error,
        other => sqlx::Error::Migrate(Box::new(other)),
    })?;
    alone.commit().await
}
