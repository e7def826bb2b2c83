//! Postgres' rows.

use super::fail::failed;
use crate::error::StoreError;
use crate::sql::{Cells, corrupt};
use sqlx::postgres::PgRow;
use sqlx::{Decode, Postgres, Row, Type};

/// The columns [`session`](crate::sql::session) reads, as text to be put together with other text.
macro_rules! session_row {
    () => {
        crate::sql::session_columns!("person")
    };
}
pub(super) use session_row;

/// A column.
pub(super) fn get<'r, T>(row: &'r PgRow, column: usize) -> Result<T, StoreError>
where
    T: Decode<'r, Postgres> + Type<Postgres>,
{
    row.try_get(column).map_err(|error| match error {
        sqlx::Error::ColumnDecode { .. } => corrupt("column", error),
        other => failed(other),
    })
}

impl Cells for PgRow {
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
        string(get(self, column)?)
    }
}

/// Text that was stored as bytes, since it may hold any character.
pub(super) fn string(bytes: Vec<u8>) -> Result<String, StoreError> {
    String::from_utf8(bytes).map_err(|e| corrupt("text", e))
}

/// A column with an array of texts, or with nothing for none.
pub(super) fn texts(row: &PgRow, column: usize) -> Result<Vec<String>, StoreError> {
    Ok(get::<Option<Vec<String>>>(row, column)?.unwrap_or_default())
}
