//! Which store, by its address.

use crate::error::StoreError;
use crate::jobs::Jobs;
use crate::memory::MemoryStore;
use crate::sql::corrupt;
use crate::sqlite::SqliteStore;
use crate::store::Store;
use sqlx::migrate::Migrator;
use std::cmp::Ordering;
use std::sync::Arc;

/// An opened store, by both of its contracts.
#[derive(Clone)]
pub struct Opened {
    /// Sessions and all that belongs to them.
    pub sessions: Arc<dyn Store>,
    /// Jobs, schedules and background tasks.
    pub jobs: Arc<dyn Jobs>,
}

impl Opened {
    /// A store that keeps both contracts.
    pub fn new<S: Store + Jobs>(store: S) -> Self {
        let store = Arc::new(store);
        Self { sessions: Arc::clone(&store) as Arc<dyn Store>, jobs: store }
    }
}

/// What a database holds of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    /// Nothing yet.
    None,
    /// Our tables of an older version, which opening the store brings up to date.
    Older,
    /// Our tables as this version has them.
    Current,
}

impl Tables {
    /// By the newest migration that a database has seen.
    pub(crate) fn by(newest: Option<i64>, migrations: &Migrator) -> Result<Self, StoreError> {
        let ours = migrations.iter().map(|migration| migration.version).max();
        match newest.cmp(&ours) {
            _ if newest.is_none() => Ok(Self::None),
            Ordering::Less => Ok(Self::Older),
            Ordering::Equal => Ok(Self::Current),
            Ordering::Greater => {
                Err(corrupt("schema", std::io::Error::other("it is of a newer version")))
            }
        }
    }
}

/// Opens the store at an address: `memory:`, `sqlite:PATH`, or `postgres://...` in a build that has it. With options of its own,
/// a store is opened by its type and given to [`Opened::new`].
///
/// # Errors
/// Those of the store; `Other` when the address names none.
pub async fn open(address: &str) -> Result<Opened, StoreError> {
    match address.split_once(':') {
        Some(("memory", _)) => Ok(Opened::new(MemoryStore::new())),
        Some(("sqlite", path)) => SqliteStore::open(path).await.map(Opened::new),
        #[cfg(feature = "postgres")]
        Some(("postgres" | "postgresql", _)) => {
            crate::postgres::PostgresStore::open(address).await.map(Opened::new)
        }
        scheme => {
            let scheme = scheme.map_or("nothing", |(scheme, _)| scheme);
            let why = format!(
                "{scheme}: is not the address of a store that this build has; use memory:, sqlite:PATH or postgres://"
            );
            Err(StoreError::Other { cause: Arc::new(std::io::Error::other(why)) })
        }
    }
}
