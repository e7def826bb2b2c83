//! The embedded database: how it is opened, its migrations, and the keys that make writes
//! repeatable.

pub(crate) mod idempotency;

use std::path::Path;
use std::time::Duration;

use sqlx::SqlitePool;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use turnbuckle::store::{Patience, migrate};

use crate::error::Result;

static MIGRATIONS: Migrator = sqlx::migrate!("./migrations");

/// Readers that may work at once beside the one writer.
const CONNECTIONS: u32 = 4;
/// How long to wait for other processes that write.
const BUSY: Duration = Duration::from_secs(10);

/// Opens a file and brings its schema up to date, however many processes do so at once.
pub(crate) async fn open_file(path: &Path) -> Result<SqlitePool> {
    let options = common(SqliteConnectOptions::new())
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal);
    let mut patience = Patience::new(BUSY);
    loop {
        match attempt(&options).await {
            Err(error) if patience.allows(&error).await => {}
            opened => return Ok(opened?),
        }
    }
}

async fn attempt(options: &SqliteConnectOptions) -> sqlx::Result<SqlitePool> {
    let pool =
        SqlitePoolOptions::new().max_connections(CONNECTIONS).connect_with(options.clone()).await?;
    migrate(&mut *pool.acquire().await?, &MIGRATIONS).await?;
    Ok(pool)
}

/// A file as it was found.
pub(crate) enum Looked {
    /// It has none of our tables, or nothing in them yet.
    Empty,
    /// Its tables are of an older version.
    Older,
    /// It is up to date, and is only read.
    Current(SqlitePool),
}

/// Looks at a file, and neither makes nor changes anything.
pub(crate) async fn look(path: &Path) -> Result<Looked> {
    let options = SqliteConnectOptions::new().filename(path).read_only(true).busy_timeout(BUSY);
    let mut patience = Patience::new(BUSY);
    loop {
        match look_once(&options).await {
            Err(error) if patience.allows(&error).await => {}
            looked => return Ok(looked?),
        }
    }
}

async fn look_once(options: &SqliteConnectOptions) -> sqlx::Result<Looked> {
    let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options.clone()).await?;
    let tables = "SELECT count(*) FROM sqlite_master WHERE name IN ('_sqlx_migrations', 'meta')";
    if sqlx::query_scalar::<_, i64>(tables).fetch_one(&pool).await? < 2 {
        return Ok(Looked::Empty);
    }
    let newest = "SELECT max(version) FROM _sqlx_migrations WHERE success";
    let newest: Option<i64> = sqlx::query_scalar(newest).fetch_one(&pool).await?;
    let ours = MIGRATIONS.iter().map(|migration| migration.version).max();
    match newest {
        Some(newer) if newest > ours => {
            Err(sqlx::Error::Migrate(Box::new(MigrateError::VersionMissing(newer))))
        }
        _ if newest < ours => Ok(Looked::Older),
        _ => {
            let filled = "SELECT count(*) FROM meta WHERE key = 'seeded_at'";
            match sqlx::query_scalar::<_, i64>(filled).fetch_one(&pool).await? {
                0 => Ok(Looked::Empty),
                _ => Ok(Looked::Current(pool)),
            }
        }
    }
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
    let pool = pool.connect_with(options).await?;
    migrate(&mut *pool.acquire().await?, &MIGRATIONS).await?;
    Ok(pool)
}

fn common(options: SqliteConnectOptions) -> SqliteConnectOptions {
    options.foreign_keys(true).busy_timeout(BUSY).pragma("temp_store", "memory")
}
