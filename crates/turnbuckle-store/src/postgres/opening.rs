//! What opening any Postgres database takes.

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::{Executor, PgConnection};

/// Brings a schema up to date, one process at a time. That the table of the migrations is there already is not told, as the
/// database would at every start; warnings are.
///
/// # Errors
/// The database's; when it holds a schema that these migrations do not know.
pub async fn migrate_postgres(
    connection: &mut PgConnection,
    migrations: &Migrator,
) -> Result<(), MigrateError> {
    connection.execute("SET client_min_messages TO warning").await?;
    // Not `run`: its future is not `Send` for every lifetime, so that nobody could open a store in a spawned task.
    let migrated = migrations.run_direct(None, &mut *connection, false).await;
    let reset = connection.execute("RESET client_min_messages").await;
    migrated?;
    reset?;
    Ok(())
}
