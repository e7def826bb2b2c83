//! What is kept beside the sessions: API keys and the audit log.
//!
//! | accounts | for |
//! |---|---|
//! | [`SqliteAccounts`] | one machine: a file |
//! | `PostgresAccounts` (feature `postgres`) | several processes on several machines |

mod archive;
mod model;
#[cfg(feature = "postgres")]
mod postgres;
mod sql;
mod sqlite;

pub use archive::AccountsAnnex;
pub use model::Audit;
#[cfg(feature = "postgres")]
pub use postgres::PostgresAccounts;
pub use sqlite::SqliteAccounts;

use crate::auth::keys::{Hash, Key};
use crate::dto::AuditEntry;
use crate::problem::{Code, Problem};
use futures_util::future::BoxFuture;
use turnbuckle_core::ids::TenantId;
use turnbuckle_core::time::Timestamp;

/// Why something kept beside the sessions cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum AccountsError {
    /// The database failed.
    #[error("the database of keys failed: {0}")]
    Database(#[from] sqlx::Error),
    /// The database cannot be brought up to date.
    #[error("the database of keys cannot be brought up to date: {0}")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// What is stored cannot be read.
    #[error("a stored {0} cannot be read")]
    Corrupt(&'static str),
}

impl AccountsError {
    /// What the caller can do about it.
    fn kind(&self) -> Kind {
        let AccountsError::Database(error) = self else { return Kind::Defect };
        let code = error.as_database_error().and_then(|e| e.code());
        match (error, code.as_deref()) {
            // SQLITE_FULL; disk_full.
            (_, Some("13" | "53100")) => Kind::Full,
            // SQLITE_BUSY, SQLITE_LOCKED, SQLITE_IOERR, SQLITE_CANTOPEN. Extended codes have the plain one in their low byte,
            // and fewer digits than a SQLSTATE's five.
            (_, Some(code))
                if code.len() < 5
                    && code.parse().is_ok_and(|n: i32| matches!(n & 0xff, 5 | 6 | 10 | 14)) =>
            {
                Kind::Away
            }
            // Postgres: it shuts down, starts up, is out of connections, took too long, or the connection broke.
            (_, Some(code)) if code.starts_with("57P") || code.starts_with("08") => Kind::Away,
            (_, Some("57014" | "53300" | "40001" | "40P01" | "25006")) => Kind::Away,
            (
                sqlx::Error::PoolTimedOut
                | sqlx::Error::PoolClosed
                | sqlx::Error::Io(_)
                | sqlx::Error::Tls(_)
                | sqlx::Error::Protocol(_)
                | sqlx::Error::WorkerCrashed,
                _,
            ) => Kind::Away,
            _ => Kind::Defect,
        }
    }
}

/// What can be done about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Wait; it mends itself.
    Away,
    /// Make room.
    Full,
    /// Read the log.
    Defect,
}

impl From<AccountsError> for Problem {
    fn from(error: AccountsError) -> Self {
        match error.kind() {
            Kind::Away => {
                tracing::warn!("{error}");
                Self::new(Code::Unavailable, "The database cannot be reached; try again.")
                    .retry_after(1)
            }
            Kind::Full => {
                tracing::error!("{error}");
                Self::new(Code::StorageFull, "There is no room left to store anything.")
                    .retry_after(30)
            }
            Kind::Defect => Self::internal(&error),
        }
    }
}

/// The future of an operation.
pub type AccountsFuture<'a, T> = BoxFuture<'a, Result<T, AccountsError>>;

/// Keys and audit log. Every row is of a tenant.
pub trait Accounts: Send + Sync + 'static {
    /// Whether it can be reached.
    ///
    /// # Errors
    /// When not.
    fn check(&self) -> AccountsFuture<'_, ()>;

    /// Keeps a new key by the hash of its secret; one that was revoked elsewhere stays so.
    ///
    /// # Errors
    /// Those of the database.
    fn add_key<'a>(&'a self, key: &'a Key, hash: Hash) -> AccountsFuture<'a, ()>;

    /// The key of that hash, revoked or not.
    ///
    /// # Errors
    /// Those of the database.
    fn key_by_hash(&self, hash: Hash) -> AccountsFuture<'_, Option<Key>>;

    /// The keys of a tenant, oldest first.
    ///
    /// # Errors
    /// Those of the database.
    fn keys<'a>(&'a self, tenant: &'a TenantId) -> AccountsFuture<'a, Vec<Key>>;

    /// Keys of every tenant with their hashes, by id, from behind the one given on.
    ///
    /// # Errors
    /// Those of the database.
    fn every_key<'a>(&'a self, after: &'a str, limit: u32) -> AccountsFuture<'a, Vec<(Key, Hash)>>;

    /// Revokes a key; whether there is one. A key that is revoked already stays as it is.
    ///
    /// # Errors
    /// Those of the database.
    fn revoke_key<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: &'a str,
        now: Timestamp,
    ) -> AccountsFuture<'a, bool>;

    /// Whether there is any key at all, of any tenant.
    ///
    /// # Errors
    /// Those of the database.
    fn has_keys(&self) -> AccountsFuture<'_, bool>;

    /// Writes into the audit log, under the next number of the tenant.
    ///
    /// # Errors
    /// Those of the database.
    fn audit(&self, audit: Audit) -> AccountsFuture<'_, ()>;

    /// Reads the audit log, newest first: up to `limit` entries with a number below `before`.
    ///
    /// # Errors
    /// Those of the database.
    fn audit_log<'a>(
        &'a self,
        tenant: &'a TenantId,
        session: Option<&'a str>,
        before: Option<u64>,
        limit: u32,
    ) -> AccountsFuture<'a, Vec<AuditEntry>>;

    /// The audit log of every tenant, by tenant and number, from behind a place on.
    ///
    /// # Errors
    /// Those of the database.
    fn every_entry<'a>(
        &'a self,
        after: (&'a str, u64),
        limit: u32,
    ) -> AccountsFuture<'a, Vec<(TenantId, AuditEntry)>>;
}
