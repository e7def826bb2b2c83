//! Inputs posted to a session by anyone, and the cards they answer.

use crate::error::{Conflict, StoreError};
use crate::inbox::may_answer;
use crate::model::{
    Card, CardQuery, CardStanding, Cursor, InboxItem, Page, Post, Receipt, SessionKey, page,
};
use crate::sql::{CARD, card, int, item, maybe_json, named, number, text};
use crate::sqlite::fail::failed;
use crate::sqlite::link::{Link, Script};
use crate::sqlite::rows::get;
use crate::sqlite::sessions::NO_SESSION;
use turnbuckle_core::ids::{MessageId, TenantId};
use turnbuckle_core::time::Timestamp;

pub(super) async fn post(link: &mut Link, post: Post) -> Result<Receipt, StoreError> {
    if let Some(n) = plain(link, &post).await? {
        return Ok(Receipt::Accepted(InboxItem { n, at: post.now, input: post.input }));
    }
    link.begin().await?;
    let result = post_once(link, post).await;
    link.finish(result).await
}

/// A post that answers no card and was not made before, in one statement; `None` when there is more to look at.
async fn plain(link: &mut Link, post: &Post) -> Result<Option<u64>, StoreError> {
    if post.input.card().is_some() {
        return Ok(None);
    }
    let mut script = Script::new(
        "INSERT INTO inbox (session, n, at, key, input) SELECT id, next_input, ?3, ?4, ?5 FROM sessions \
         WHERE id = ?1 AND tenant = ?2 AND NOT EXISTS (SELECT 1 FROM inbox WHERE session = ?1 AND key = ?4) RETURNING n",
    );
    script
        .bind(post.key.id.as_str())?
        .bind(post.key.tenant.as_str())?
        .bind(post.now.as_millis())?
        .bind(post.idempotency_key.as_deref())?
        .bind(text(&post.input)?)?;
    let rows = link.run(script).await.map_err(failed)?;
    rows.first().map(|row| number(row, 0)).transpose()
}

pub(super) async fn post_once(link: &mut Link, post: Post) -> Result<Receipt, StoreError> {
    let session = post.key.id.as_str();
    let card = post.input.card();
    let mut script = Script::new(
        "SELECT 0, next_input FROM sessions WHERE id = ?1 AND tenant = ?2;\
         SELECT 1, n, at, input FROM inbox WHERE session = ?1 AND key = ?3;\
         SELECT 2, asks, status, (SELECT input FROM inbox WHERE session = ?1 AND card = ?4) \
         FROM cards WHERE id = ?4 AND session = ?1;",
    );
    script
        .bind(session)?
        .bind(post.key.tenant.as_str())?
        .bind(post.idempotency_key.as_deref())?
        .bind(card.map(MessageId::as_str))?;
    let rows = link.step(script).await.map_err(failed)?;
    let mut next = None;
    let mut question = None;
    for row in &rows {
        match get::<i64>(row, 0)? {
            0 => next = Some(number(row, 1)?),
            _ if next.is_none() => return Err(NO_SESSION),
            1 => return repeated(post, item(row, 1)?),
            _ => question = Some((named(row, 1)?, named(row, 2)?, maybe_json(row, 3, "input")?)),
        }
    }
    let n = next.ok_or(NO_SESSION)?;
    if let Some(card) = card {
        let (asks, status, posted) = question.ok_or(StoreError::NotFound { what: "card" })?;
        may_answer(card, asks, status, posted, &post.input)?;
    }
    let mut script = Script::new(
        "INSERT INTO inbox (session, n, at, key, card, input) VALUES (?, ?, ?, ?, ?, ?)",
    );
    script
        .bind(session)?
        .bind(int(n))?
        .bind(post.now.as_millis())?
        .bind(post.idempotency_key.as_deref())?
        .bind(card.map(MessageId::as_str))?
        .bind(text(&post.input)?)?;
    link.step(script).await.map_err(failed)?;
    Ok(Receipt::Accepted(InboxItem { n, at: post.now, input: post.input }))
}

fn repeated(post: Post, first: InboxItem) -> Result<Receipt, StoreError> {
    if first.input.same_request(&post.input) {
        Ok(Receipt::Duplicate(first))
    } else {
        let key = post.idempotency_key.unwrap_or_default();
        Err(Conflict::KeyReused { key, n: first.n }.into())
    }
}

pub(super) async fn inbox(link: &mut Link, key: &SessionKey) -> Result<Vec<InboxItem>, StoreError> {
    let mut script = Script::snapshot();
    script
        .add(
            "SELECT 0 FROM sessions WHERE id = ?1 AND tenant = ?2;\
             SELECT n, at, input FROM inbox WHERE session = ?1 AND consumed = 0 ORDER BY n;",
        )
        .bind(key.id.as_str())?
        .bind(key.tenant.as_str())?
        .end();
    let rows = link.run(script).await.map_err(failed)?;
    let mut rows = found(rows.as_slice())?;
    rows.try_fold(Vec::new(), |mut items, row| {
        items.push(item(row, 0)?);
        Ok(items)
    })
}

/// The rows after the one that proves the session to be the tenant's; it begins with 0 and has one column.
pub(super) fn found(
    rows: &[sqlx::sqlite::SqliteRow],
) -> Result<std::slice::Iter<'_, sqlx::sqlite::SqliteRow>, StoreError> {
    use sqlx::Row;
    match rows.split_first() {
        Some((proof, rest)) if proof.columns().len() == 1 => Ok(rest.iter()),
        _ => Err(NO_SESSION),
    }
}

pub(super) async fn cards(link: &mut Link, query: CardQuery) -> Result<Page<Card>, StoreError> {
    let mut script = Script::new("SELECT ");
    script
        .add(CARD)
        .add(" FROM cards c JOIN messages m ON m.session = c.session AND m.id = c.id WHERE c.tenant = ?")
        .bind(query.tenant.as_str())?;
    if let Some(session) = &query.session {
        script.add(" AND c.session = ?").bind(session.as_str())?;
    }
    if let Some(user) = &query.user {
        script.add(" AND (SELECT user FROM sessions s WHERE s.id = c.session) = ?");
        script.bind(user.as_str())?;
    }
    script.add(match query.standing {
        CardStanding::Any => "",
        CardStanding::Pending => " AND c.status = 'pending'",
        CardStanding::Settled => " AND c.status <> 'pending'",
    });
    if let Some(after) = &query.after {
        script.add(" AND (c.at, c.id) > (?, ?)");
        script.bind(after.at.as_millis())?.bind(after.id.as_str())?;
    }
    script.add(" ORDER BY c.at, c.id LIMIT ?").bind(i64::from(query.limit) + 1)?;
    let rows = link.run(script).await.map_err(failed)?;
    let cards = rows.iter().map(card).collect::<Result<Vec<_>, _>>()?;
    Ok(page(cards, query.limit, |c| Cursor { at: c.message.at, id: c.message.id.to_string() }))
}

pub(super) async fn one_card(
    link: &mut Link,
    tenant: &TenantId,
    id: &MessageId,
) -> Result<Card, StoreError> {
    let mut script = Script::new("SELECT ");
    script
        .add(CARD)
        .add(" FROM cards c JOIN messages m ON m.session = c.session AND m.id = c.id WHERE c.id = ? AND c.tenant = ?")
        .bind(id.as_str())?
        .bind(tenant.as_str())?;
    let rows = link.run(script).await.map_err(failed)?;
    card(rows.first().ok_or(StoreError::NotFound { what: "card" })?)
}

pub(super) async fn expired(
    link: &mut Link,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<Card>, StoreError> {
    let mut script = Script::new("SELECT ");
    script
        .add(CARD)
        .add(
            " FROM cards c JOIN messages m ON m.session = c.session AND m.id = c.id \
             WHERE c.status = 'pending' AND c.expires_at IS NOT NULL AND c.expires_at <= ? \
             AND NOT EXISTS (SELECT 1 FROM inbox i WHERE i.session = c.session AND i.card = c.id) \
             ORDER BY c.expires_at, c.id LIMIT ?",
        )
        .bind(now.as_millis())?
        .bind(i64::from(limit))?;
    let rows = link.run(script).await.map_err(failed)?;
    rows.iter().map(card).collect()
}
