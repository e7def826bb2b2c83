//! SQLite's failures in the store's terms.

use crate::error::StoreError;
use std::sync::Arc;

/// Sorts a failure by what the caller can do about it.
pub(super) fn failed(error: sqlx::Error) -> StoreError {
    let code = result_code(&error);
    let lost =
        matches!(error, sqlx::Error::Io(_) | sqlx::Error::WorkerCrashed | sqlx::Error::PoolClosed);
    let cause = Arc::new(error);
    match code {
        // SQLITE_FULL
        Some(13) => StoreError::Full { cause },
        // SQLITE_CORRUPT, SQLITE_NOTADB
        Some(11 | 26) => StoreError::Corrupt { what: "database".to_owned(), cause },
        // SQLITE_BUSY, SQLITE_LOCKED, SQLITE_IOERR, SQLITE_CANTOPEN, SQLITE_PROTOCOL
        Some(5 | 6 | 10 | 14 | 15) => StoreError::Unavailable { cause },
        _ if lost => StoreError::Unavailable { cause },
        _ => StoreError::Other { cause },
    }
}

/// Whether a guard of the statement, or a unique index, refused.
pub(super) fn refused(error: &sqlx::Error) -> bool {
    // SQLITE_CONSTRAINT
    result_code(error) == Some(19)
}

/// Whether another connection was in the way.
pub(super) fn busy(error: &sqlx::Error) -> bool {
    // SQLITE_BUSY, SQLITE_LOCKED
    matches!(result_code(error), Some(5 | 6))
}

fn result_code(error: &sqlx::Error) -> Option<i32> {
    let code: i32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(code & 0xff)
}
