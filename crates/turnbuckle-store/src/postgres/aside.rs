//! What lies beside the conversation: captured actions, large outputs, usage, what people allowed for good.

use super::commit::{PIECE, put_blob};
use super::inbox::joined;
use super::pool::Lent;
use super::rows::get;
use super::sessions::NO_SESSION;
use crate::error::{Conflict, StoreError};
use crate::model::{
    Allowance, Blob, BlobPart, Captured, CapturedIn, CapturedPlace, CapturedQuery, CapturedUpdate,
    KeptAllowance, KeptUsage, MeteredCall, Page, SessionKey, UsageBy, UsageGroup, UsageQuery,
    UsageSum, page,
};
use crate::sql::{ACTION, Cells, action, id, int, json, maybe_id, name, number, text, time};
use serde_json::json;
use sqlx::postgres::PgRow;
use sqlx::{Postgres, QueryBuilder};
use std::ops::Range;
use turnbuckle_core::ids::{MessageId, SessionId, TenantId, TurnId, UserId};

pub(super) async fn captured(
    lent: &mut Lent<'_>,
    key: &SessionKey,
    turn: Option<&TurnId>,
) -> Result<Vec<Captured>, StoreError> {
    let sql = sqlx::query(
        "SELECT c.turn, c.number::bigint, c.revision, c.action, c.status, c.result FROM sessions s \
         LEFT JOIN captured c ON c.session = s.id AND ($3::text IS NULL OR c.turn = $3) \
         LEFT JOIN turns t ON t.session = s.id AND t.id = c.turn \
         WHERE s.id = $1 AND s.tenant = $2 ORDER BY t.ordinal NULLS FIRST, c.turn, c.number",
    );
    let sql = sql.bind(key.id.as_str()).bind(key.tenant.as_str()).bind(turn.map(TurnId::as_str));
    let rows = lent.rows(sql).await?;
    joined(&rows, 0)?.map(|row| action(row, 0)).collect()
}

pub(super) async fn list_captured(
    lent: &mut Lent<'_>,
    query: &CapturedQuery,
) -> Result<Page<CapturedIn>, StoreError> {
    let mut sql = QueryBuilder::<Postgres>::new("SELECT ");
    sql.push(ACTION.replace("c.number", "c.number::bigint"))
        .push(", c.session, c.at FROM captured c WHERE c.tenant = ")
        .push_bind(query.tenant.as_str());
    if let Some(session) = &query.session {
        sql.push(" AND c.session = ").push_bind(session.as_str());
    }
    if let Some(turn) = &query.turn {
        sql.push(" AND c.turn = ").push_bind(turn.as_str());
    }
    if let Some(user) = &query.user {
        sql.push(" AND (SELECT person FROM sessions s WHERE s.id = c.session) = ");
        sql.push_bind(user.as_str());
    }
    if let Some(status) = &query.status {
        sql.push(" AND c.status = ").push_bind(name(status)?);
    }
    if let Some(after) = &query.after {
        let after = CapturedPlace::read(after);
        sql.push(" AND (c.at, c.session, c.turn, c.number) > (").push_bind(after.at.as_millis());
        sql.push(", ").push_bind(after.session.as_str().to_owned());
        sql.push(", ").push_bind(after.turn.as_str().to_owned());
        sql.push(", ").push_bind(i64::from(after.index)).push(")");
    }
    sql.push(" ORDER BY c.at, c.session, c.turn, c.number LIMIT ");
    sql.push_bind(i64::from(query.limit) + 1);
    let rows = lent.rows(sql.build()).await?;
    let one = |row: &PgRow| {
        let session = SessionKey { tenant: query.tenant.clone(), id: id(row, 6)? };
        Ok(CapturedIn { session, at: time(row, 7)?, captured: action(row, 0)? })
    };
    let items = rows.iter().map(one).collect::<Result<Vec<_>, StoreError>>()?;
    Ok(page(items, query.limit, |one| CapturedPlace::of(one).cursor()))
}

pub(super) async fn update(
    lent: &mut Lent<'_>,
    update: &CapturedUpdate,
) -> Result<Captured, StoreError> {
    let sql = sqlx::query(
        "UPDATE captured AS c SET revision = revision + 1, status = $1, action = coalesce($2, action), \
         result = coalesce($3, result) WHERE session = $4 AND turn = $5 AND number = $6 AND revision = $7 \
         AND tenant = $8 RETURNING turn, number::bigint, revision, action, status, result",
    );
    let sql = sql
        .bind(name(&update.status)?)
        .bind(update.action.as_ref().map(text).transpose()?)
        .bind(update.result.as_ref().map(text).transpose()?)
        .bind(update.key.id.as_str())
        .bind(update.turn.as_str())
        .bind(i64::from(update.index))
        .bind(int(update.expected))
        .bind(update.key.tenant.as_str());
    if let Some(row) = lent.row(sql).await? {
        return action(&row, 0);
    }
    let sql = sqlx::query(
        "SELECT revision FROM captured WHERE session = $1 AND turn = $2 AND number = $3 AND tenant = $4",
    );
    let sql = sql
        .bind(update.key.id.as_str())
        .bind(update.turn.as_str())
        .bind(i64::from(update.index))
        .bind(update.key.tenant.as_str());
    let row = lent.row(sql).await?.ok_or(StoreError::NotFound { what: "captured action" })?;
    let (current, expected) = (number(&row, 0)?, update.expected);
    Err(Conflict::Stale { current, expected }.into())
}

pub(super) async fn put(
    lent: &mut Lent<'_>,
    key: &SessionKey,
    blob: &Blob,
) -> Result<(), StoreError> {
    lent.begin_committed().await?;
    let result = put_owned(lent, key, blob).await;
    lent.finish(result).await
}

async fn put_owned(lent: &mut Lent<'_>, key: &SessionKey, blob: &Blob) -> Result<(), StoreError> {
    let sql = sqlx::query("SELECT 1 FROM sessions WHERE id = $1 AND tenant = $2 FOR NO KEY UPDATE");
    let row = lent.row(sql.bind(key.id.as_str()).bind(key.tenant.as_str())).await?;
    row.ok_or(NO_SESSION)?;
    lent.rows(put_blob(key.id.as_str(), blob)).await.map(drop)
}

pub(super) async fn read(
    lent: &mut Lent<'_>,
    key: &SessionKey,
    blob: &str,
    range: Range<u64>,
) -> Result<BlobPart, StoreError> {
    let piece = PIECE as u64;
    let sql = sqlx::query(
        "SELECT b.media_type, b.size, (SELECT array_agg(p.content ORDER BY p.piece) FROM blob_pieces p \
          WHERE p.session = b.session AND p.blob = b.id AND p.piece >= $4 AND p.piece < $5) \
         FROM blobs b JOIN sessions s ON s.id = b.session WHERE b.session = $1 AND s.tenant = $2 AND b.id = $3",
    );
    let sql = sql
        .bind(key.id.as_str())
        .bind(key.tenant.as_str())
        .bind(blob)
        .bind(int(range.start / piece))
        .bind(int(range.end.div_ceil(piece)));
    let row = lent.row(sql).await?.ok_or(StoreError::NotFound { what: "blob" })?;
    let size = number(&row, 1)?;
    let end = range.end.min(size);
    let start = range.start.min(end);
    let mut at = (range.start / piece) * piece;
    let mut content = Vec::with_capacity(usize::try_from(end - start).unwrap_or(0));
    for bytes in get::<Option<Vec<Vec<u8>>>>(&row, 2)?.unwrap_or_default() {
        let from = usize::try_from(start.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes.len());
        let to = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes.len());
        content.extend_from_slice(bytes.get(from..to).unwrap_or_default());
        at = at.saturating_add(piece);
    }
    Ok(BlobPart { media_type: row.text(0)?.to_owned(), size, range: start..end, content })
}

pub(super) async fn usage(
    lent: &mut Lent<'_>,
    query: &UsageQuery,
) -> Result<Vec<UsageGroup>, StoreError> {
    let key = match query.by {
        UsageBy::Nothing => "''",
        UsageBy::Day => "to_char(to_timestamp(at / 1000) AT TIME ZONE 'UTC', 'YYYY-MM-DD')",
        UsageBy::Model => "model",
        UsageBy::Agent => "agent",
        UsageBy::User => "person",
        UsageBy::Account => "coalesce(account, '')",
    };
    let mut sql = QueryBuilder::<Postgres>::new("SELECT ");
    sql.push(key)
        .push(
            "::text COLLATE \"C\" AS k, count(*), sum(input)::bigint, sum(cache_read)::bigint, sum(cache_write)::bigint, \
             sum(output)::bigint, sum(reasoning)::bigint, sum(cost_micros)::bigint FROM usage WHERE tenant = ",
        )
        .push_bind(query.tenant.as_str());
    sql.push(" AND at >= ").push_bind(query.from.as_millis());
    sql.push(" AND at < ").push_bind(query.to.as_millis());
    if let Some(user) = &query.user {
        sql.push(" AND person = ").push_bind(user.as_str());
    }
    if let Some(account) = &query.account {
        sql.push(" AND account = ").push_bind(account.as_str());
    }
    sql.push(" GROUP BY k ORDER BY k");
    let rows = lent.rows(sql.build()).await?;
    let group = |row: &PgRow| {
        let sum = UsageSum {
            calls: number(row, 1)?,
            input: number(row, 2)?,
            cache_read: number(row, 3)?,
            cache_write: number(row, 4)?,
            output: number(row, 5)?,
            reasoning: number(row, 6)?,
            cost_micros: number(row, 7)?,
        };
        Ok(UsageGroup { key: row.text(0)?.to_owned(), sum })
    };
    rows.iter().map(group).collect()
}

pub(super) async fn allowances(
    lent: &mut Lent<'_>,
    tenant: &TenantId,
    user: &UserId,
    session: Option<&SessionId>,
) -> Result<Vec<Allowance>, StoreError> {
    let sql = sqlx::query(
        "SELECT id, person, session, agent, tool, args, at FROM allowances WHERE tenant = $1 AND person = $2 \
         AND ($3::text IS NULL OR session IS NULL OR session = $3) ORDER BY ordinal",
    );
    let sql = sql.bind(tenant.as_str()).bind(user.as_str()).bind(session.map(SessionId::as_str));
    lent.rows(sql).await?.iter().map(allowance).collect()
}

fn allowance(row: &PgRow) -> Result<Allowance, StoreError> {
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

pub(super) async fn every_usage(
    lent: &mut Lent<'_>,
    after: u64,
    limit: u32,
) -> Result<Vec<KeptUsage>, StoreError> {
    let sql = sqlx::query(
        "SELECT ordinal, tenant, person, account, session, turn, agent, model, at, input, cache_read, cache_write, output, \
         reasoning, cost_micros FROM usage WHERE ordinal > $1 ORDER BY ordinal LIMIT $2",
    );
    let rows = lent.rows(sql.bind(int(after)).bind(i64::from(limit))).await?;
    rows.iter().map(crate::sql::usage).collect()
}

pub(super) async fn meter(lent: &mut Lent<'_>, calls: &[MeteredCall]) -> Result<(), StoreError> {
    let sql = sqlx::query(
        "INSERT INTO usage (tenant, person, account, session, turn, agent, model, at, \
         input, cache_read, cache_write, output, reasoning, cost_micros) \
         SELECT x.tenant, x.\"user\", x.account, x.session, x.turn, x.agent, x.model, x.millis, \
         x.input, x.cache_read, x.cache_write, x.output, x.reasoning, x.cost_micros \
         FROM jsonb_to_recordset($1::text::jsonb) AS x (tenant text, \"user\" text, account text, session text, turn text, \
         agent text, model text, millis bigint, input bigint, cache_read bigint, cache_write bigint, output bigint, \
         reasoning bigint, cost_micros bigint)",
    );
    let mut rows = Vec::with_capacity(calls.len());
    for call in calls {
        rows.push(json!({
            "tenant": call.tenant, "user": call.user, "account": call.account, "session": call.session,
            "turn": call.turn, "agent": call.agent, "model": call.model, "millis": call.at.as_millis(),
            "input": int(call.sum.input), "cache_read": int(call.sum.cache_read),
            "cache_write": int(call.sum.cache_write), "output": int(call.sum.output),
            "reasoning": int(call.sum.reasoning), "cost_micros": int(call.sum.cost_micros),
        }));
    }
    lent.rows(sql.bind(text(&rows)?)).await.map(drop)
}

pub(super) async fn every_allowance(
    lent: &mut Lent<'_>,
    after: u64,
    limit: u32,
) -> Result<Vec<KeptAllowance>, StoreError> {
    let sql = sqlx::query(
        "SELECT id, person, session, agent, tool, args, at, ordinal, tenant FROM allowances WHERE ordinal > $1 \
         ORDER BY ordinal LIMIT $2",
    );
    let rows = lent.rows(sql.bind(int(after)).bind(i64::from(limit))).await?;
    let kept = |row| {
        Ok(KeptAllowance { n: number(row, 7)?, tenant: id(row, 8)?, allowance: allowance(row)? })
    };
    rows.iter().map(kept).collect()
}

pub(super) async fn allow(
    lent: &mut Lent<'_>,
    tenant: &TenantId,
    allowance: &Allowance,
) -> Result<(), StoreError> {
    let session = allowance.session.as_ref().map(SessionId::as_str);
    // One statement: the session cannot be deleted between the look and the writing.
    let sql = sqlx::query(
        "WITH there AS (SELECT 1 FROM sessions WHERE id = $4 AND tenant = $1 FOR KEY SHARE), \
         added AS (INSERT INTO allowances (tenant, person, id, session, agent, tool, args, at) \
         SELECT $1, $2, $3, $4, $5, $6, $7, $8 WHERE $4 IS NULL OR EXISTS (SELECT FROM there) \
         ON CONFLICT DO NOTHING) \
         SELECT 1 WHERE $4 IS NULL OR EXISTS (SELECT FROM there)",
    );
    let sql = sql
        .bind(tenant.as_str())
        .bind(allowance.user.as_str())
        .bind(allowance.id.as_str())
        .bind(session)
        .bind(allowance.agent.as_str())
        .bind(allowance.tool.as_str())
        .bind(text(&allowance.args)?)
        .bind(allowance.at.as_millis());
    lent.row(sql).await?.map(drop).ok_or(NO_SESSION)
}

pub(super) async fn take_back(
    lent: &mut Lent<'_>,
    tenant: &TenantId,
    user: &UserId,
    allowance: &MessageId,
) -> Result<(), StoreError> {
    let sql = sqlx::query(
        "DELETE FROM allowances WHERE tenant = $1 AND person = $2 AND id = $3 RETURNING 1",
    );
    let sql = sql.bind(tenant.as_str()).bind(user.as_str()).bind(allowance.as_str());
    match lent.rows(sql).await?.is_empty() {
        true => Err(StoreError::NotFound { what: "allowance" }),
        false => Ok(()),
    }
}
