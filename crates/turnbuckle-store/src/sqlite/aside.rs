//! What lies beside the conversation: captured actions, large outputs, what people allowed for good.

use crate::error::{Conflict, StoreError};
use crate::model::{
    Allowance, Blob, BlobPart, Captured, CapturedIn, CapturedPlace, CapturedQuery, CapturedUpdate,
    KeptAllowance, KeptUsage, MeteredCall, Page, SessionKey, UsageBy, UsageGroup, UsageQuery,
    UsageSum, page,
};
use crate::sql::{ACTION, action, id, int, json, maybe_id, name, number, text, time};
use crate::sqlite::commit::{PIECE, put_allowance, put_blob};
use crate::sqlite::fail::failed;
use crate::sqlite::inbox::found;
use crate::sqlite::link::{Link, Script};
use crate::sqlite::rows::get;
use crate::sqlite::sessions::NO_SESSION;
use sqlx::sqlite::SqliteRow;
use std::ops::Range;
use turnbuckle_core::ids::{MessageId, SessionId, TenantId, TurnId, UserId};

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
    found(&rows)?.map(|row| action(row, 0)).collect()
}

pub(super) async fn list_captured(
    link: &mut Link,
    query: CapturedQuery,
) -> Result<Page<CapturedIn>, StoreError> {
    let mut script = Script::new("SELECT ");
    script.add(ACTION).add(", c.session, c.at FROM captured c WHERE c.tenant = ?");
    script.bind(query.tenant.as_str())?;
    if let Some(session) = &query.session {
        script.add(" AND c.session = ?").bind(session.as_str())?;
    }
    if let Some(turn) = &query.turn {
        script.add(" AND c.turn = ?").bind(turn.as_str())?;
    }
    if let Some(user) = &query.user {
        script.add(" AND (SELECT user FROM sessions s WHERE s.id = c.session) = ?");
        script.bind(user.as_str())?;
    }
    if let Some(status) = &query.status {
        script.add(" AND c.status = ?").bind(name(status)?)?;
    }
    if let Some(after) = &query.after {
        let after = CapturedPlace::read(after);
        script.add(" AND (c.at, c.session, c.turn, c.number) > (?, ?, ?, ?)");
        script.bind(after.at.as_millis())?.bind(after.session.as_str())?;
        script.bind(after.turn.as_str())?.bind(i64::from(after.index))?;
    }
    script.add(" ORDER BY c.at, c.session, c.turn, c.number LIMIT ?");
    script.bind(i64::from(query.limit) + 1)?;
    let rows = link.run(script).await.map_err(failed)?;
    let one = |row: &SqliteRow| {
        let session = SessionKey { tenant: query.tenant.clone(), id: id(row, 6)? };
        Ok(CapturedIn { session, at: time(row, 7)?, captured: action(row, 0)? })
    };
    let items = rows.iter().map(one).collect::<Result<Vec<_>, StoreError>>()?;
    Ok(page(items, query.limit, |one| CapturedPlace::of(one).cursor()))
}

pub(super) async fn usage(
    link: &mut Link,
    query: UsageQuery,
) -> Result<Vec<UsageGroup>, StoreError> {
    let key = match query.by {
        UsageBy::Nothing => "''",
        UsageBy::Day => "date(at / 1000, 'unixepoch')",
        UsageBy::Model => "model",
        UsageBy::Agent => "agent",
        UsageBy::User => "user",
        UsageBy::Account => "coalesce(account, '')",
    };
    let mut script = Script::new("SELECT ");
    script.add(key).add(
        " AS k, count(*), sum(input), sum(cache_read), sum(cache_write), sum(output), sum(reasoning), \
         sum(cost_micros) FROM usage WHERE tenant = ? AND at >= ? AND at < ?",
    );
    script.bind(query.tenant.as_str())?;
    script.bind(query.from.as_millis())?.bind(query.to.as_millis())?;
    if let Some(user) = &query.user {
        script.add(" AND user = ?").bind(user.as_str())?;
    }
    if let Some(account) = &query.account {
        script.add(" AND account = ?").bind(account.as_str())?;
    }
    script.add(" GROUP BY k ORDER BY k");
    let rows = link.run(script).await.map_err(failed)?;
    let group = |row: &SqliteRow| {
        let sum = UsageSum {
            calls: number(row, 1)?,
            input: number(row, 2)?,
            cache_read: number(row, 3)?,
            cache_write: number(row, 4)?,
            output: number(row, 5)?,
            reasoning: number(row, 6)?,
            cost_micros: number(row, 7)?,
        };
        Ok(UsageGroup { key: get(row, 0)?, sum })
    };
    rows.iter().map(group).collect()
}

pub(super) async fn every_usage(
    link: &mut Link,
    after: u64,
    limit: u32,
) -> Result<Vec<KeptUsage>, StoreError> {
    let mut script = Script::new(
        "SELECT ordinal, tenant, user, account, session, turn, agent, model, at, input, cache_read, cache_write, output, \
         reasoning, cost_micros FROM usage WHERE ordinal > ? ORDER BY ordinal LIMIT ?",
    );
    script.bind(int(after))?.bind(i64::from(limit))?;
    link.run(script).await.map_err(failed)?.iter().map(crate::sql::usage).collect()
}

pub(super) async fn meter(link: &mut Link, calls: Vec<MeteredCall>) -> Result<(), StoreError> {
    link.begin().await?;
    let result = meter_within(link, &calls).await;
    link.finish(result).await
}

async fn meter_within(link: &mut Link, calls: &[MeteredCall]) -> Result<(), StoreError> {
    for call in calls {
        let mut script = Script::new(
            "INSERT INTO usage (tenant, user, account, session, turn, agent, model, at, \
             input, cache_read, cache_write, output, reasoning, cost_micros) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        );
        script
            .bind(call.tenant.as_str())?
            .bind(call.user.as_str())?
            .bind(call.account.as_deref())?
            .bind(call.session.as_str())?
            .bind(call.turn.as_str())?
            .bind(call.agent.as_str())?
            .bind(call.model.as_str())?
            .bind(call.at.as_millis())?
            .bind(int(call.sum.input))?
            .bind(int(call.sum.cache_read))?
            .bind(int(call.sum.cache_write))?
            .bind(int(call.sum.output))?
            .bind(int(call.sum.reasoning))?
            .bind(int(call.sum.cost_micros))?;
        link.step(script).await.map_err(failed)?;
    }
    Ok(())
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
        [changed, _] => action(changed, 0),
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

pub(super) async fn allowances(
    link: &mut Link,
    tenant: &TenantId,
    user: &UserId,
    session: Option<&SessionId>,
) -> Result<Vec<Allowance>, StoreError> {
    let mut script = Script::new(
        "SELECT id, user, session, agent, tool, args, at FROM allowances WHERE tenant = ?1 AND user = ?2 \
         AND (?3 IS NULL OR session IS NULL OR session = ?3) ORDER BY ordinal",
    );
    script.bind(tenant.as_str())?.bind(user.as_str())?.bind(session.map(SessionId::as_str))?;
    let rows = link.run(script).await.map_err(failed)?;
    rows.iter().map(allowance).collect()
}

fn allowance(row: &SqliteRow) -> Result<Allowance, StoreError> {
    Ok(Allowance {
        id: id(row, 0)?,
        user: id(row, 1)?,
        session: maybe_id(row, 2)?,
        agent: id(row, 3)?,
        tool: id(row, 4)?,
        args: json(row, 5, "allowance")?,
        at: time(row, 6)?,
    })
}

pub(super) async fn every_allowance(
    link: &mut Link,
    after: u64,
    limit: u32,
) -> Result<Vec<KeptAllowance>, StoreError> {
    let mut script = Script::new(
        "SELECT id, user, session, agent, tool, args, at, ordinal, tenant FROM allowances WHERE ordinal > ? \
         ORDER BY ordinal LIMIT ?",
    );
    script.bind(int(after))?.bind(i64::from(limit))?;
    let rows = link.run(script).await.map_err(failed)?;
    let kept = |row| {
        Ok(KeptAllowance { n: number(row, 7)?, tenant: id(row, 8)?, allowance: allowance(row)? })
    };
    rows.iter().map(kept).collect()
}

pub(super) async fn allow(
    link: &mut Link,
    tenant: &TenantId,
    allowance: &Allowance,
) -> Result<(), StoreError> {
    link.begin().await?;
    let result = allow_within(link, tenant, allowance).await;
    link.finish(result).await
}

async fn allow_within(
    link: &mut Link,
    tenant: &TenantId,
    allowance: &Allowance,
) -> Result<(), StoreError> {
    if let Some(session) = &allowance.session {
        let mut script = Script::new("SELECT 1 FROM sessions WHERE id = ? AND tenant = ?");
        script.bind(session.as_str())?.bind(tenant.as_str())?;
        if link.step(script).await.map_err(failed)?.is_empty() {
            return Err(NO_SESSION);
        }
    }
    let mut script = Script::default();
    put_allowance(&mut script, tenant.as_str(), allowance)?;
    link.step(script).await.map(drop).map_err(failed)
}

pub(super) async fn take_back(
    link: &mut Link,
    tenant: &TenantId,
    user: &UserId,
    allowance: &MessageId,
) -> Result<(), StoreError> {
    let mut script =
        Script::new("DELETE FROM allowances WHERE tenant = ? AND user = ? AND id = ? RETURNING 1");
    script.bind(tenant.as_str())?.bind(user.as_str())?.bind(allowance.as_str())?;
    match link.run(script).await.map_err(failed)?.is_empty() {
        true => Err(StoreError::NotFound { what: "allowance" }),
        false => Ok(()),
    }
}
