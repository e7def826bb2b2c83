//! SQLite's rows.

use crate::error::StoreError;
use crate::sql::{Cells, corrupt, session_columns};
use crate::sqlite::fail::failed;
use sqlx::sqlite::SqliteRow;
use sqlx::{Decode, Row, Sqlite, Type};

/// The columns [`session`](crate::sql::session) reads.
pub(super) const SESSION: &str = session_columns!("user");

/// A column.
pub(super) fn get<'r, T>(row: &'r SqliteRow, column: usize) -> Result<T, StoreError>
where
    T: Decode<'r, Sqlite> + Type<Sqlite>,
{
    row.try_get(column).map_err(|error| match error {
        sqlx::Error::ColumnDecode { .. } => corrupt("column", error),
        other => failed(other),
    })
}

impl Cells for SqliteRow {
    fn text(&self, column: usize) -> Result<&str, StoreError> {
        get(self, column)
    }

    fn maybe_text(&self, column: usize) -> Result<Option<&str>, StoreError> {
        get(self, column)
    }

    fn int(&self, column: usize) -> Result<i64, StoreError> {
        get(self, column)
    }

    fn maybe_int(&self, column: usize) -> Result<Option<i64>, StoreError> {
        get(self, column)
    }

    fn opaque(&self, column: usize) -> Result<String, StoreError> {
        get(self, column)
    }
}
