//! What lies beside the conversation: captured actions and large outputs.

use crate::error::{Conflict, StoreError};
use crate::model::{Blob, BlobPart, Captured, CapturedUpdate, SessionKey};
use crate::sqlite::commit::{PIECE, put_blob};
use crate::sqlite::fail::failed;
use crate::sqlite::inbox::found;
use crate::sqlite::link::{Link, Script};
use crate::sqlite::rows::{get, id, int, json, maybe_json, name, named, number, text};
use sqlx::sqlite::SqliteRow;
use std::ops::Range;
use turnbuckle_core::ids::TurnId;

/// The columns [`action`] reads, in its order.
const ACTION: &str = "c.turn, c.number, c.revision, c.action, c.status, c.result";

fn action(row: &SqliteRow) -> Result<Captured, StoreError> {
    Ok(Captured {
        turn: id(row, 0)?,
        index: u32::try_from(number(row, 1)?).unwrap_or(u32::MAX),
        revision: number(row, 2)?,
        action: json(row, 3, "captured action")?,
        status: named(row, 4)?,
        result: maybe_json(row, 5, "result of a captured action")?,
    })
}

pub(super) async fn captured(
    link: &mut Link,
    key: &SessionKey,
    turn: Option<&TurnId>,
) -> Result<Vec<Captured>, StoreError> {
    let mut script = Script::snapshot();
    script
        .add("SELECT 0 FROM sessions WHERE id = ?1 AND tenant = ?2;SELECT ")
        .add(ACTION)
        .add(
            " FROM captured c LEFT JOIN turns t ON t.session = c.session AND t.id = c.turn \
             WHERE c.session = ?1 AND (?3 IS NULL OR c.turn = ?3) ORDER BY t.ordinal, c.turn, c.number;",
        )
        .bind(key.id.as_str())?
        .bind(key.tenant.as_str())?
        .bind(turn.map(TurnId::as_str))?
        .end();
    let rows = link.run(script).await.map_err(failed)?;
    found(&rows)?.map(action).collect()
}

pub(super) async fn update(
    link: &mut Link,
    update: CapturedUpdate,
) -> Result<Captured, StoreError> {
    let mut script = Script::transaction();
    script
        .add(
            "UPDATE captured AS c SET revision = revision + 1, status = ?1, action = coalesce(?2, action), \
             result = coalesce(?3, result) WHERE session = ?4 AND turn = ?5 AND number = ?6 AND revision = ?7 \
             AND EXISTS (SELECT 1 FROM sessions WHERE id = ?4 AND tenant = ?8) \
             RETURNING turn, number, revision, action, status, result;\
             SELECT c.revision FROM captured c JOIN sessions s ON s.id = c.session \
             WHERE c.session = ?4 AND c.turn = ?5 AND c.number = ?6 AND s.tenant = ?8;",
        )
        .bind(name(&update.status)?)?
        .bind(update.action.as_ref().map(text).transpose()?)?
        .bind(update.result.as_ref().map(text).transpose()?)?
        .bind(update.key.id.as_str())?
        .bind(update.turn.as_str())?
        .bind(i64::from(update.index))?
        .bind(int(update.expected))?
        .bind(update.key.tenant.as_str())?
        .end();
    let rows = link.run(script).await.map_err(failed)?;
    match rows.as_slice() {
        [changed, _] => action(changed),
        [row] => {
            let (current, expected) = (number(row, 0)?, update.expected);
            Err(Conflict::Stale { current, expected }.into())
        }
        _ => Err(StoreError::NotFound { what: "captured action" }),
    }
}

pub(super) async fn put(link: &mut Link, key: &SessionKey, blob: Blob) -> Result<(), StoreError> {
    link.begin().await?;
    let result = put_owned(link, key, blob).await;
    link.finish(result).await
}

async fn put_owned(link: &mut Link, key: &SessionKey, blob: Blob) -> Result<(), StoreError> {
    let mut script = Script::new("SELECT 0 FROM sessions WHERE id = ? AND tenant = ?;");
    script.bind(key.id.as_str())?.bind(key.tenant.as_str())?;
    let _proof = found(&link.step(script).await.map_err(failed)?)?;
    let mut script = Script::default();
    put_blob(&mut script, key.id.as_str(), &blob)?;
    script.uncached();
    link.step(script).await.map(drop).map_err(failed)
}

pub(super) async fn read(
    link: &mut Link,
    key: &SessionKey,
    blob: &str,
    range: Range<u64>,
) -> Result<BlobPart, StoreError> {
    let piece = PIECE as u64;
    let mut script = Script::snapshot();
    script
        .add(
            "SELECT b.media_type, b.size FROM blobs b JOIN sessions s ON s.id = b.session \
             WHERE b.session = ?1 AND s.tenant = ?2 AND b.id = ?3;\
             SELECT content FROM blob_pieces WHERE session = ?1 AND blob = ?3 AND piece >= ?4 AND piece < ?5 \
             ORDER BY piece;",
        )
        .bind(key.id.as_str())?
        .bind(key.tenant.as_str())?
        .bind(blob)?
        .bind(int(range.start / piece))?
        .bind(int(range.end.div_ceil(piece)))?
        .end();
    let rows = link.run(script).await.map_err(failed)?;
    let missing = StoreError::NotFound { what: "blob" };
    let Some((head, pieces)) = rows.split_first() else {
        return Err(missing);
    };
    // Without the head row, the first row would be a piece, which has one column.
    if sqlx::Row::columns(head).len() != 2 {
        return Err(missing);
    }
    let size = number(head, 1)?;
    let end = range.end.min(size);
    let start = range.start.min(end);
    let mut at = (range.start / piece) * piece;
    let mut content = Vec::with_capacity(usize::try_from(end - start).unwrap_or(0));
    for row in pieces {
        let bytes: &[u8] = get(row, 0)?;
        let from = usize::try_from(start.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes.len());
        let to = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes.len());
        content.extend_from_slice(bytes.get(from..to).unwrap_or_default());
        at = at.saturating_add(piece);
    }
    Ok(BlobPart { media_type: get(head, 0)?, size, range: start..end, content })
}
