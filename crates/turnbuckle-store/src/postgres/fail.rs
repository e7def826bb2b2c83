//! Postgres' failures in the store's terms.

use crate::error::StoreError;
use sqlx::Error;
use std::sync::Arc;

/// Sorts a failure by what the caller can do about it.
pub(super) fn failed(error: Error) -> StoreError {
    let state = error.as_database_error().and_then(|e| e.code()).map(|code| code.into_owned());
    let gone = lost(&error);
    let cause = Arc::new(error);
    match state.as_deref() {
        // disk_full
        Some("53100") => StoreError::Full { cause },
        // data_corrupted, index_corrupted
        Some("XX001" | "XX002") => StoreError::Corrupt { what: "database".to_owned(), cause },
        // character_not_in_repertoire: text with a NUL character, which Postgres cannot hold. So nothing is known by it.
        Some("22021") => StoreError::NotFound { what: "thing with a NUL character in its name" },
        Some(state) if passes(state) => StoreError::Unavailable { cause },
        _ if gone => StoreError::Unavailable { cause },
        _ => StoreError::Other { cause },
    }
}

/// States that mend themselves: serialization_failure, deadlock_detected, insufficient_resources, lock_not_available,
/// query_canceled, admin_shutdown, crash_shutdown, cannot_connect_now, read_only_sql_transaction (a standby), and every
/// connection_exception.
fn passes(state: &str) -> bool {
    matches!(state, "40001" | "40P01" | "55P03" | "57014" | "57P01" | "57P02" | "57P03" | "25006")
        || state.starts_with("53")
        || state.starts_with("08")
}

/// Whether the connection is of no use any more.
pub(super) fn lost(error: &Error) -> bool {
    match error {
        Error::Io(_)
        | Error::Tls(_)
        | Error::Protocol(_)
        | Error::PoolTimedOut
        | Error::PoolClosed
        | Error::WorkerCrashed => true,
        Error::Database(e) => matches!(e.code().as_deref(), Some("57P01" | "57P02" | "57P03")),
        _ => false,
    }
}

/// Whether a unique index refused.
pub(super) fn refused(error: &Error) -> bool {
    error.as_database_error().is_some_and(|e| e.is_unique_violation())
}
