//! The commit: one statement when a step is all there is, one call of a function otherwise; either way one round trip.

use super::pool::{Lent, Sql};
use super::rows::get;
use super::sessions::NO_SESSION;
use crate::check::{Checked, Expects, Standing, check};
use crate::error::{Conflict, StoreError};
use crate::model::{Allowance, Blob, Commit, Committed, NewCaptured, metered, metered_calls};
use crate::sql::{Cells, id, int, maybe_id, name, number, text};
use crate::words;
use crate::work::started;
use serde_json::{Map, Value, json};
use sqlx::postgres::PgRow;
use std::sync::Arc;
use turnbuckle_core::message::{Message, SystemBody, SystemMessage};
use turnbuckle_core::pack::Whole;

/// Bytes of one piece of a blob.
pub(super) const PIECE: usize = 256 * 1024;

/// A step that fits the session's row, and what its model calls cost. What does not fit changes nothing and gives no row.
/// Whatever is compared is in the row itself, so that a step that had to wait for another is compared with what that one left.
const STEP: &str = "\
    WITH s AS (\
        UPDATE sessions SET version = version + 1, next_seq = next_seq + $6, next_n = next_n + $8 \
        WHERE id = $1 AND tenant = $2 AND fence = $3 AND owner IS NOT NULL AND (NOT $4 OR turn IS NOT NULL) \
        AND ($5::bigint IS NULL OR next_seq = $5) AND ($7::bigint IS NULL OR next_n = $7) \
        RETURNING id, tenant, person, version, next_seq, pending, turn\
    ), i AS (\
        INSERT INTO steps (session, last_seq, version, turn, journal, events) \
        SELECT id, next_seq - 1, version, turn, $9, $10 FROM s WHERE $9::text IS NOT NULL OR $10::text IS NOT NULL\
    ) SELECT version, next_seq, pending FROM s";

const METERED_STEP: &str = "\
    WITH s AS (\
        UPDATE sessions SET version = version + 1, next_seq = next_seq + $6, next_n = next_n + $8 \
        WHERE id = $1 AND tenant = $2 AND fence = $3 AND owner IS NOT NULL AND (NOT $4 OR turn IS NOT NULL) \
        AND ($5::bigint IS NULL OR next_seq = $5) AND ($7::bigint IS NULL OR next_n = $7) \
        RETURNING id, tenant, person, version, next_seq, pending, turn\
    ), i AS (\
        INSERT INTO steps (session, last_seq, version, turn, journal, events) \
        SELECT id, next_seq - 1, version, turn, $9, $10 FROM s WHERE $9::text IS NOT NULL OR $10::text IS NOT NULL\
    ), u AS (\
        INSERT INTO usage (tenant, person, session, turn, agent, model, at, \
            input, cache_read, cache_write, output, reasoning, cost_micros, account) \
        SELECT s.tenant, s.person, s.id, x.*, $21::text FROM s, unnest($11::text[], $12::text[], $13::text[], $14::bigint[], \
            $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[], $20::bigint[]) AS x\
    ) SELECT version, next_seq, pending FROM s";

/// A commit as it is written: checked, and its largest parts as text.
struct Written<'a> {
    commit: &'a Commit,
    checked: Checked<'a>,
    journal: Option<String>,
    events: Option<String>,
}

pub(super) async fn commit(lent: &mut Lent<'_>, commit: &Commit) -> Result<Committed, StoreError> {
    let checked = check(commit)?;
    let journal = if commit.journal.is_empty() { None } else { Some(text(&commit.journal)?) };
    let events = if commit.events.is_empty() { None } else { Some(text(&commit.events)?) };
    let written = Written { commit, checked, journal, events };
    if bare(commit) {
        let sql = if metered_calls(commit.events.wholes()).next().is_none() {
            step(STEP, &written)
        } else {
            with_usage(step(METERED_STEP, &written), commit)
        };
        return match lent.row(sql).await? {
            Some(row) => committed(&row, 0),
            None => why(lent, &written).await,
        };
    }
    if commit.blobs.is_empty() {
        return whole(lent, &written).await;
    }
    lent.begin_committed().await?;
    let result = with_blobs(lent, &written).await;
    lent.finish(result).await
}

async fn with_blobs(lent: &mut Lent<'_>, written: &Written<'_>) -> Result<Committed, StoreError> {
    let committed = whole(lent, written).await?;
    for blob in &written.commit.blobs {
        lent.row(put_blob(written.commit.key.id.as_str(), blob)).await?;
    }
    Ok(committed)
}

/// A commit by the function that takes all there may be, apart from blobs.
async fn whole(lent: &mut Lent<'_>, written: &Written<'_>) -> Result<Committed, StoreError> {
    let Written { commit, checked, journal, events } = written;
    let (expects, turn) = match checked.expects {
        Expects::Any => ("any", None),
        Expects::None => ("none", commit.open_turn.as_ref().map(|open| open.id.as_str())),
        Expects::Some => ("some", None),
        Expects::This(turn) => ("this", Some(turn.as_str())),
    };
    // A new turn's journal begins at 0, whatever the row says of the turn before.
    let first_n = if commit.open_turn.is_some() { None } else { checked.first_n.map(i64::from) };
    let consumed: Vec<i64> = commit.consumed.iter().map(|n| int(*n)).collect();
    let sql = sqlx::query(
        "SELECT outcome, r_version, r_next_seq, r_pending, r_released FROM \
         commit_step($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16::text::jsonb)",
    );
    let sql = sql
        .bind(commit.key.id.as_str())
        .bind(commit.key.tenant.as_str())
        .bind(int(commit.fence))
        .bind(expects)
        .bind(turn)
        .bind(checked.first_seq.map(int))
        .bind(int(commit.events.len() as u64))
        .bind(first_n)
        .bind(int(commit.journal.len() as u64))
        .bind(journal.as_deref())
        .bind(events.as_deref())
        .bind(commit.now.as_millis())
        .bind(consumed)
        .bind(commit.open_turn.as_ref().map(|open| open.spec.as_bytes()))
        .bind(commit.state.as_ref().map(|state| state.as_bytes()))
        .bind(text(&more(commit)?)?);
    let row = lent.row(sql).await?.ok_or(NO_SESSION)?;
    match row.text(0)? {
        "done" => Ok(Committed { released: get(&row, 4)?, ..committed(&row, 1)? }),
        "refused" => why(lent, written).await,
        _ => Err(NO_SESSION),
    }
}

fn committed(row: &PgRow, from: usize) -> Result<Committed, StoreError> {
    Ok(Committed {
        version: number(row, from)?,
        next_seq: number(row, from + 1)?,
        pending: number(row, from + 2)?,
        released: false,
    })
}

/// Whether a step is all there is, what its model calls cost apart.
fn bare(commit: &Commit) -> bool {
    started(&commit.events).next().is_none()
        && commit.open_turn.is_none()
        && commit.turn.is_none()
        && commit.consumed.is_empty()
        && commit.messages.is_empty()
        && commit.cards.is_empty()
        && commit.captured.is_empty()
        && commit.blobs.is_empty()
        && commit.allowances.is_empty()
        && commit.state.is_none()
        && commit.session_status.is_none()
        && commit.title.is_none()
        && commit.model.is_none()
        && !commit.release
}

fn step<'q>(sql: &'static str, written: &'q Written<'_>) -> Sql<'q> {
    let Written { commit, checked, journal, events } = written;
    sqlx::query(sql)
        .bind(commit.key.id.as_str())
        .bind(commit.key.tenant.as_str())
        .bind(int(commit.fence))
        .bind(matches!(checked.expects, Expects::Some))
        .bind(checked.first_seq.map(int))
        .bind(int(commit.events.len() as u64))
        .bind(checked.first_n.map(i64::from))
        .bind(int(commit.journal.len() as u64))
        .bind(journal.as_deref())
        .bind(events.as_deref())
}

fn with_usage<'q>(sql: Sql<'q>, commit: &'q Commit) -> Sql<'q> {
    let calls: Vec<_> = metered_calls(commit.events.wholes())
        .map(|(event, call)| {
            let (model, sum) = metered(call);
            (event.turn.as_str(), call.agent.as_str(), model, event.at.as_millis(), sum)
        })
        .collect();
    let numbers = |of: fn(&crate::model::UsageSum) -> u64| -> Vec<i64> {
        calls.iter().map(|call| int(of(&call.4))).collect()
    };
    sql.bind(calls.iter().map(|call| call.0).collect::<Vec<_>>())
        .bind(calls.iter().map(|call| call.1).collect::<Vec<_>>())
        .bind(calls.iter().map(|call| call.2.clone()).collect::<Vec<_>>())
        .bind(calls.iter().map(|call| call.3).collect::<Vec<_>>())
        .bind(numbers(|sum| sum.input))
        .bind(numbers(|sum| sum.cache_read))
        .bind(numbers(|sum| sum.cache_write))
        .bind(numbers(|sum| sum.output))
        .bind(numbers(|sum| sum.reasoning))
        .bind(numbers(|sum| sum.cost_micros))
        .bind(commit.account.as_deref())
}

/// Everything of a commit that seldom comes.
fn more(commit: &Commit) -> Result<Value, StoreError> {
    let mut more = Map::new();
    let mut put = |key: &str, value: Value| more.insert(key.to_owned(), value);
    if let Some(change) = &commit.turn {
        let outcome = change.outcome.as_ref().map(text).transpose()?;
        let status = name(&change.status)?;
        put("turn", json!({"id": change.id.as_str(), "status": status, "outcome": outcome}));
    }
    if let Some(status) = &commit.session_status {
        put("status", Value::String(name(status)?));
    }
    if let Some(title) = &commit.title {
        let title = line(title);
        put("title_folded", Value::String(title.to_lowercase()));
        put("title", Value::String(title));
    }
    if let Some(kept) = &commit.model {
        put("model", json!({"instead_of": kept.instead_of, "model": kept.model}));
    }
    let tenant = commit.key.tenant.as_str();
    let mut messages = Vec::with_capacity(commit.messages.len() + commit.cards.len());
    for message in &commit.messages {
        messages.push(message_row(tenant, message)?);
    }
    for card in &commit.cards {
        messages.push(message_row(tenant, &Message::System(card.clone()))?);
    }
    if !messages.is_empty() {
        put("messages", Value::Array(messages));
    }
    let cards = commit.cards.iter().filter_map(|card| card_row(card).transpose());
    let cards = cards.collect::<Result<Vec<_>, _>>()?;
    if !cards.is_empty() {
        put("cards", Value::Array(cards));
    }
    let captured = commit.captured.iter().map(captured_row).collect::<Result<Vec<_>, _>>()?;
    if !captured.is_empty() {
        put("captured", Value::Array(captured));
    }
    let allowances = commit.allowances.iter().map(allowance_row).collect::<Result<Vec<_>, _>>()?;
    if !allowances.is_empty() {
        put("allowances", Value::Array(allowances));
    }
    let tasks = super::tasks::rows(&commit.events);
    if !tasks.is_empty() {
        put("tasks", Value::Array(tasks));
    }
    if commit.release {
        put("release", Value::Bool(true));
    }
    let account = commit.account.as_deref();
    let usage: Vec<_> = metered_calls(commit.events.wholes())
        .map(|(e, call)| usage_row(e, call, account))
        .collect();
    if !usage.is_empty() {
        put("usage", Value::Array(usage));
    }
    Ok(Value::Object(more))
}

/// Text for people that fits a column of text, which cannot hold NUL.
pub(super) fn line(text: &str) -> String {
    text.replace('\0', "")
}

pub(super) const fn role(message: &Message) -> &'static str {
    match message {
        Message::User(_) => "user",
        Message::Assistant(_) => "assistant",
        Message::System(_) => "system",
    }
}

/// The words a message is found by, its tenant's own among them.
pub(super) fn found_by(tenant: &str, message: &Message) -> Option<String> {
    let mut words = words::of_message(message);
    if words.is_empty() {
        return None;
    }
    words.insert(words::of_tenant(tenant));
    Some(words.into_iter().collect::<Vec<_>>().join(" "))
}

fn message_row(tenant: &str, message: &Message) -> Result<Value, StoreError> {
    Ok(json!({
        "id": message.id().as_str(),
        "turn": message.turn().as_str(),
        "role": role(message),
        "body": text(message)?,
        "words": found_by(tenant, message),
    }))
}

/// Where a card is found by its id; nothing for a note.
pub(super) fn card_row(card: &SystemMessage) -> Result<Option<Value>, StoreError> {
    let SystemBody::Approval(body) = &card.body else { return Ok(None) };
    Ok(Some(json!({
        "id": card.id.as_str(),
        "turn": card.turn.as_str(),
        "call": body.call.as_str(),
        "asks": name(&body.asks)?,
        "status": name(&body.status)?,
        "at": card.at.as_millis(),
        "expires_at": body.expires_at.map(|at| at.as_millis()),
    })))
}

fn captured_row(new: &NewCaptured) -> Result<Value, StoreError> {
    Ok(json!({"turn": new.turn.as_str(), "number": new.index, "action": text(&new.action)?}))
}

fn allowance_row(new: &Allowance) -> Result<Value, StoreError> {
    Ok(json!({
        "person": new.user.as_str(),
        "id": new.id.as_str(),
        "session": new.session.as_ref().map(|id| id.as_str()),
        "agent": new.agent.as_str(),
        "tool": new.tool.as_str(),
        "args": text(&new.args)?,
        "at": new.at.as_millis(),
    }))
}

fn usage_row(
    event: Whole<'_>,
    call: &turnbuckle_core::usage::IterationUsage,
    account: Option<&str>,
) -> Value {
    let (model, sum) = metered(call);
    json!({
        "turn": event.turn.as_str(),
        "agent": call.agent.as_str(),
        "model": model,
        "at": event.at.as_millis(),
        "input": int(sum.input),
        "cache_read": int(sum.cache_read),
        "cache_write": int(sum.cache_write),
        "output": int(sum.output),
        "reasoning": int(sum.reasoning),
        "cost_micros": int(sum.cost_micros),
        "account": account,
    })
}

pub(super) fn put_blob<'q>(session: &'q str, blob: &'q Blob) -> Sql<'q> {
    let pieces: Vec<&[u8]> = blob.content.chunks(PIECE).collect();
    sqlx::query("SELECT put_blob($1, $2, $3, $4, $5)")
        .bind(session)
        .bind(blob.id.as_str())
        .bind(blob.media_type.as_str())
        .bind(int(blob.content.len() as u64))
        .bind(pieces)
}

/// What was wrong with a refused commit, or that it is the last one repeated.
async fn why(lent: &mut Lent<'_>, written: &Written<'_>) -> Result<Committed, StoreError> {
    let Written { commit, checked, journal, events } = written;
    let opened = commit.open_turn.as_ref().map(|turn| &turn.id);
    let named = opened.or(commit.turn.as_ref().map(|turn| &turn.id));
    let consumed: Vec<i64> = commit.consumed.iter().map(|n| int(*n)).collect();
    let sql = sqlx::query(
        "SELECT version, next_seq, pending, fence, next_n, turn, owner IS NULL, \
         (SELECT p.journal IS NOT DISTINCT FROM $3 AND p.events IS NOT DISTINCT FROM $4 \
          AND ($5::text IS NULL OR p.turn = $5) \
          FROM steps p WHERE p.session = s.id ORDER BY p.last_seq DESC, p.version DESC LIMIT 1), \
         (SELECT t.id FROM turns t WHERE t.session = s.id AND t.id = $6), \
         (SELECT count(*) FROM inbox i WHERE i.session = s.id AND i.n = ANY ($7) AND NOT i.consumed) \
         FROM sessions s WHERE s.id = $1 AND s.tenant = $2",
    );
    let sql = sql
        .bind(commit.key.id.as_str())
        .bind(commit.key.tenant.as_str())
        .bind(journal.as_deref())
        .bind(events.as_deref())
        .bind(named.map(|id| id.as_str()))
        .bind(opened.map(|id| id.as_str()))
        .bind(consumed);
    let row = lent.row(sql).await?.ok_or(NO_SESSION)?;
    let stored = Standing {
        fence: number(&row, 3)?,
        next_seq: number(&row, 1)?,
        next_n: u32::try_from(number(&row, 4)?).unwrap_or(u32::MAX),
        turn: maybe_id(&row, 5)?,
    };
    let holds = stored.fence == commit.fence && !get::<bool>(&row, 6)?;
    let released = commit.gave_back(stored.fence);
    let has_step = journal.is_some() || events.is_some();
    let is_last = has_step && get::<Option<bool>>(&row, 7)?.unwrap_or(false);
    if (holds || released) && is_last {
        return Ok(Committed { released, ..committed(&row, 0)? });
    }
    if !holds {
        return Err(StoreError::Fenced { held: commit.fence, current: stored.fence });
    }
    checked.against(commit, &stored)?;
    if let (Some(refused), true) = (opened, row.maybe_text(8)?.is_some()) {
        return Err(Conflict::TurnOpen { open: id(&row, 8)?, refused: refused.clone() }.into());
    }
    if number(&row, 9)? != commit.consumed.len() as u64 {
        return Err(Conflict::NotWaiting(commit.consumed.clone()).into());
    }
    // It fits now: what stood in its way was taken back meanwhile.
    let cause = std::io::Error::other("the session changed while the commit was looked at");
    Err(StoreError::Unavailable { cause: Arc::new(cause) })
}
