//! Inputs posted to a session by anyone, and the cards they answer.

use super::pool::Lent;
use super::sessions::NO_SESSION;
use crate::error::{Conflict, StoreError};
use crate::inbox::may_answer;
use crate::model::{
    Card, CardQuery, CardStanding, Cursor, InboxItem, Page, Post, Posted, Receipt, SessionKey, page,
};
use crate::sql::{CARD, Cells, card, item, maybe_json, named, number, text};
use sqlx::postgres::PgRow;
use sqlx::{Postgres, QueryBuilder};
use std::sync::Arc;
use turnbuckle_core::ids::{MessageId, TenantId};
use turnbuckle_core::message::{Asks, CardStatus};
use turnbuckle_core::time::Timestamp;

const NO_CARD: StoreError = StoreError::NotFound { what: "card" };

/// How often an answer is looked at again when another comes in between; the second look finds that one.
const LOOKS: usize = 4;

pub(super) async fn post(lent: &mut Lent<'_>, post: &Post) -> Result<Receipt, StoreError> {
    for _ in 0..LOOKS {
        if let Some(receipt) = check(lent, post).await? {
            return Ok(receipt);
        }
        let sql = sqlx::query(
            "SELECT outcome, r_n, r_at, r_input FROM post_input($1, $2, $3, $4, $5, $6)",
        );
        let sql = sql
            .bind(post.key.id.as_str())
            .bind(post.key.tenant.as_str())
            .bind(post.now.as_millis())
            .bind(post.idempotency_key.as_deref())
            .bind(post.input.card().map(MessageId::as_str))
            .bind(text(&post.input)?);
        let row = lent.row(sql).await?.ok_or(NO_SESSION)?;
        match row.text(0)? {
            "accepted" => {
                let (n, at, input) = (number(&row, 1)?, post.now, post.input.clone());
                return Ok(Receipt::Accepted(InboxItem { n, at, input }));
            }
            "duplicate" => return repeated(post, item(&row, 1)?),
            "answered" => {}
            _ => return Err(NO_SESSION),
        }
    }
    let cause = std::io::Error::other("the card is being answered");
    Err(StoreError::Unavailable { cause: Arc::new(cause) })
}

/// Whether an answer may be posted about its card. The function that posts it makes sure that the card still waits.
async fn check(lent: &mut Lent<'_>, post: &Post) -> Result<Option<Receipt>, StoreError> {
    let Some(card) = post.input.card() else { return Ok(None) };
    let sql = sqlx::query(
        "SELECT c.asks, c.status, a.input, k.n, k.at, k.input FROM sessions s \
         LEFT JOIN cards c ON c.id = $3 AND c.session = s.id \
         LEFT JOIN inbox a ON a.session = s.id AND a.card = $3 \
         LEFT JOIN inbox k ON k.session = s.id AND k.key = $4 \
         WHERE s.id = $1 AND s.tenant = $2",
    );
    let sql = sql
        .bind(post.key.id.as_str())
        .bind(post.key.tenant.as_str())
        .bind(card.as_str())
        .bind(post.idempotency_key.as_deref());
    let row = lent.row(sql).await?.ok_or(NO_SESSION)?;
    if row.maybe_int(3)?.is_some() {
        return repeated(post, item(&row, 3)?).map(Some);
    }
    if row.maybe_text(0)?.is_none() {
        return Err(NO_CARD);
    }
    let (asks, status): (Asks, CardStatus) = (named(&row, 0)?, named(&row, 1)?);
    let posted: Option<Posted> = maybe_json(&row, 2, "input")?;
    may_answer(card, asks, status, posted, &post.input)?;
    Ok(None)
}

pub(super) fn repeated(post: &Post, first: InboxItem) -> Result<Receipt, StoreError> {
    if first.input.same_request(&post.input) {
        Ok(Receipt::Duplicate(first))
    } else {
        let key = post.idempotency_key.clone().unwrap_or_default();
        Err(Conflict::KeyReused { key, n: first.n }.into())
    }
}

pub(super) async fn inbox(
    lent: &mut Lent<'_>,
    key: &SessionKey,
) -> Result<Vec<InboxItem>, StoreError> {
    let sql = sqlx::query(
        "SELECT i.n, i.at, i.input FROM sessions s \
         LEFT JOIN inbox i ON i.session = s.id AND NOT i.consumed \
         WHERE s.id = $1 AND s.tenant = $2 ORDER BY i.n",
    );
    let rows = lent.rows(sql.bind(key.id.as_str()).bind(key.tenant.as_str())).await?;
    joined(&rows, 0)?.map(|row| item(row, 0)).collect()
}

/// The rows joined to a session: none when all of the only one is NULL, which only proves that the session is there.
pub(super) fn joined(
    rows: &[PgRow],
    column: usize,
) -> Result<impl Iterator<Item = &PgRow>, StoreError> {
    use sqlx::{Row, ValueRef};
    let first = rows.first().ok_or(NO_SESSION)?;
    let nothing = first.try_get_raw(column).map_or(true, |value| value.is_null());
    Ok(rows.iter().skip(usize::from(nothing)))
}

pub(super) async fn cards(
    lent: &mut Lent<'_>,
    query: &CardQuery,
) -> Result<Page<Card>, StoreError> {
    let mut sql = QueryBuilder::<Postgres>::new("SELECT ");
    sql.push(CARD)
        .push(" FROM cards c JOIN messages m ON m.session = c.session AND m.id = c.id WHERE c.tenant = ")
        .push_bind(query.tenant.as_str());
    if let Some(session) = &query.session {
        sql.push(" AND c.session = ").push_bind(session.as_str());
    }
    if let Some(user) = &query.user {
        sql.push(" AND (SELECT person FROM sessions s WHERE s.id = c.session) = ");
        sql.push_bind(user.as_str());
    }
    sql.push(match query.standing {
        CardStanding::Any => "",
        CardStanding::Pending => " AND c.status = 'pending'",
        CardStanding::Settled => " AND c.status <> 'pending'",
    });
    if let Some(after) = &query.after {
        sql.push(" AND (c.at, c.id) > (").push_bind(after.at.as_millis());
        sql.push(", ").push_bind(after.id.as_str()).push(")");
    }
    sql.push(" ORDER BY c.at, c.id LIMIT ").push_bind(i64::from(query.limit) + 1);
    let rows = lent.rows(sql.build()).await?;
    let cards = rows.iter().map(card).collect::<Result<Vec<_>, _>>()?;
    Ok(page(cards, query.limit, |c| Cursor { at: c.message.at, id: c.message.id.to_string() }))
}

pub(super) async fn one_card(
    lent: &mut Lent<'_>,
    tenant: &TenantId,
    id: &MessageId,
) -> Result<Card, StoreError> {
    let sql = sqlx::query(
        "SELECT c.tenant, c.session, m.body, (SELECT n FROM inbox i WHERE i.session = c.session AND i.card = c.id) \
         FROM cards c JOIN messages m ON m.session = c.session AND m.id = c.id WHERE c.id = $1 AND c.tenant = $2",
    );
    let row = lent.row(sql.bind(id.as_str()).bind(tenant.as_str())).await?;
    card(&row.ok_or(NO_CARD)?)
}

pub(super) async fn expired(
    lent: &mut Lent<'_>,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<Card>, StoreError> {
    let sql = sqlx::query(
        "SELECT c.tenant, c.session, m.body, NULL::bigint \
         FROM cards c JOIN messages m ON m.session = c.session AND m.id = c.id \
         WHERE c.status = 'pending' AND c.expires_at IS NOT NULL AND c.expires_at <= $1 \
         AND NOT EXISTS (SELECT 1 FROM inbox i WHERE i.session = c.session AND i.card = c.id) \
         ORDER BY c.expires_at, c.id LIMIT $2",
    );
    let rows = lent.rows(sql.bind(now.as_millis()).bind(i64::from(limit))).await?;
    rows.iter().map(card).collect()
}
