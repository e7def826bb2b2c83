//! A session as others see it: to show, or to take elsewhere.

use super::commit::{card_row, found_by, line, role};
use super::fail::{failed, refused};
use super::pool::Lent;
use super::read::{each, items, waiting};
use super::rows::{get, session_row, string, texts};
use super::sessions::NO_SESSION;
use super::tasks::task_row;
use crate::error::{Conflict, StoreError};
use crate::export::{coherent, span};
use crate::model::{
    BlobInfo, Consumed, Export, ExportedInput, ImportedUsage, Session, SessionKey, SessionStatus,
    TurnLog, View, metered, metered_calls,
};
use crate::sql::{
    Cells, SESSION_COLUMNS, action, add_entries, corrupt, int, item, name, number, session, task,
    text, turn,
};
use crate::work::task_place;
use serde_json::{Value, json};
use std::collections::HashMap;
use turnbuckle_core::event::Event;
use turnbuckle_core::ids::{SessionId, TurnId};
use turnbuckle_core::message::Message;
use turnbuckle_core::pack::Whole;

/// So many events of an imported session are kept in one row.
const EVENTS_PER_STEP: usize = 64;

pub(super) async fn view(
    lent: &mut Lent<'_>,
    key: &SessionKey,
    messages: u32,
) -> Result<View, StoreError> {
    let sql = sqlx::query(concat!(
        "SELECT s.*, t.since, \
         (SELECT array_agg(m.body ORDER BY m.position) FROM (SELECT body, position FROM messages \
          WHERE session = s.id AND NOT (s.status = 'running' AND turn IS NOT DISTINCT FROM s.turn) \
          ORDER BY position DESC LIMIT $3) m), \
         (SELECT (max(position) + 1)::bigint FROM messages \
          WHERE session = s.id AND NOT (s.status = 'running' AND turn IS NOT DISTINCT FROM s.turn)), \
         i.ns, i.ats, i.inputs FROM (SELECT ",
        session_row!(),
        " FROM sessions WHERE id = $1 AND tenant = $2) s \
         LEFT JOIN turns t ON t.session = s.id AND t.id = s.turn ",
        waiting!()
    ));
    let sql = sql.bind(key.id.as_str()).bind(key.tenant.as_str()).bind(i64::from(messages));
    let row = lent.row(sql).await?.ok_or(NO_SESSION)?;
    let at = SESSION_COLUMNS;
    let session = session(&row, 0)?;
    let after_seq = match (session.status, row.maybe_int(at)?) {
        (SessionStatus::Running, Some(since)) => since.unsigned_abs(),
        _ => session.next_seq.saturating_sub(1),
    };
    let messages: Vec<Message> = each(&texts(&row, at + 1)?, "message")?;
    let end = row.maybe_int(at + 2)?.unwrap_or(0).unsigned_abs();
    let first = u32::try_from(end.saturating_sub(messages.len() as u64)).unwrap_or(u32::MAX);
    let inbox = items(&row, at + 3)?;
    Ok(View { session, messages, first, after_seq, inbox })
}

pub(super) async fn export(lent: &mut Lent<'_>, key: &SessionKey) -> Result<Export, StoreError> {
    lent.begin().await?;
    let result = read_all(lent, key).await;
    lent.finish(result).await
}

async fn read_all(lent: &mut Lent<'_>, key: &SessionKey) -> Result<Export, StoreError> {
    let sql = sqlx::query(concat!(
        "SELECT s.*, (SELECT state FROM session_states WHERE session = s.id), \
         (SELECT array_agg(body ORDER BY position) FROM messages WHERE session = s.id) \
         FROM (SELECT ",
        session_row!(),
        " FROM sessions WHERE id = $1 AND tenant = $2) s"
    ));
    let row = lent.row(sql.bind(key.id.as_str()).bind(key.tenant.as_str())).await?;
    let row = row.ok_or(NO_SESSION)?;
    let mut export = Export {
        session: Session { lease: None, ..session(&row, 0)? },
        state: get::<Option<Vec<u8>>>(&row, SESSION_COLUMNS)?.map(string).transpose()?,
        messages: each(&texts(&row, SESSION_COLUMNS + 1)?, "message")?,
        turns: Vec::new(),
        events: Vec::new(),
        captured: Vec::new(),
        inbox: Vec::new(),
        blobs: Vec::new(),
        tasks: Vec::new(),
    };
    let id = key.id.as_str();
    let mut places: HashMap<TurnId, usize> = HashMap::new();
    let sql = sqlx::query(
        "SELECT id, spec, status, outcome, started, ended, queued_below FROM turns WHERE session = $1 ORDER BY ordinal",
    );
    for row in lent.rows(sql.bind(id)).await? {
        let turn = turn(&row, 0)?;
        places.insert(turn.id.clone(), export.turns.len());
        export.turns.push(TurnLog { turn, journal: Vec::new() });
    }
    let sql = sqlx::query(
        "SELECT turn, journal, events FROM steps WHERE session = $1 ORDER BY last_seq, version",
    );
    for row in lent.rows(sql.bind(id)).await? {
        let place = row.maybe_text(0)?.and_then(|turn| places.get(turn));
        if let Some(log) = place.and_then(|place| export.turns.get_mut(*place))
            && let Some(journal) = row.maybe_text(1)?
        {
            add_entries(journal, &mut log.journal)?;
        }
        if let Some(events) = row.maybe_text(2)? {
            let events: Vec<Event> =
                serde_json::from_str(events).map_err(|e| corrupt("events", e))?;
            export.events.extend(events);
        }
    }
    let sql =
        sqlx::query("SELECT n, at, input, key, consumed FROM inbox WHERE session = $1 ORDER BY n");
    for row in lent.rows(sql.bind(id)).await? {
        let consumed = if get::<bool>(&row, 4)? { Consumed::Yes } else { Consumed::No };
        let key = row.maybe_text(3)?.map(str::to_owned);
        export.inbox.push(ExportedInput { item: item(&row, 0)?, key, consumed });
    }
    let sql = sqlx::query("SELECT id, media_type, size FROM blobs WHERE session = $1 ORDER BY id");
    for row in lent.rows(sql.bind(id)).await? {
        let (id, media_type) = (row.text(0)?.to_owned(), row.text(1)?.to_owned());
        export.blobs.push(BlobInfo { id, media_type, size: number(&row, 2)? });
    }
    let sql = sqlx::query(
        "SELECT c.turn, c.number::bigint, c.revision, c.action, c.status, c.result FROM captured c \
         LEFT JOIN turns t ON t.session = c.session AND t.id = c.turn \
         WHERE c.session = $1 ORDER BY t.ordinal NULLS FIRST, c.turn, c.number",
    );
    for row in lent.rows(sql.bind(id)).await? {
        export.captured.push(action(&row, 0)?);
    }
    let sql = sqlx::query(concat!(
        "SELECT ",
        task_row!(),
        " FROM tasks t WHERE session = $1 ORDER BY kind, reference"
    ));
    for row in lent.rows(sql.bind(id)).await? {
        export.tasks.push(task(&row, 0)?);
    }
    Ok(export)
}

pub(super) async fn import(
    lent: &mut Lent<'_>,
    export: &Export,
    usage: ImportedUsage,
) -> Result<Session, StoreError> {
    coherent(export)?;
    lent.begin_committed().await?;
    let result = write(lent, export, usage).await;
    lent.finish(result).await
}

async fn write(
    lent: &mut Lent<'_>,
    export: &Export,
    usage: ImportedUsage,
) -> Result<Session, StoreError> {
    insert_row(lent, export).await?;
    let id = export.session.key.id.as_str();
    let tenant = export.session.key.tenant.as_str();
    if let Some(state) = &export.state {
        let sql = sqlx::query("INSERT INTO session_states (session, state) VALUES ($1, $2)");
        lent.rows(sql.bind(id).bind(state.as_bytes())).await?;
    }
    let mut messages = Vec::with_capacity(export.messages.len());
    let mut cards = Vec::new();
    let own = export.own_cards();
    for message in &export.messages {
        messages.push(json!({
            "id": message.id().as_str(),
            "turn": message.turn().as_str(),
            "role": role(message),
            "body": text(message)?,
            "words": found_by(tenant, message),
        }));
        if let Message::System(card) = message
            && own.contains(&card.id)
        {
            cards.extend(card_row(card)?);
        }
    }
    many(
        lent,
        id,
        tenant,
        messages,
        "INSERT INTO messages (session, position, id, turn, role, body, words) \
         SELECT $1, x.place - 1, x.id, x.turn, x.role, x.body, array_to_tsvector(string_to_array(x.words, ' ')) \
         FROM ROWS FROM (jsonb_to_recordset($3::text::jsonb) \
         AS (id text, turn text, role text, body text, words text)) WITH ORDINALITY \
         AS x (id, turn, role, body, words, place) WHERE $2 <> ''",
    )
    .await?;
    many(
        lent,
        id,
        tenant,
        cards,
        "INSERT INTO cards (id, session, tenant, turn, call, asks, status, at, expires_at) \
         SELECT x.id, $1, $2, x.turn, x.call, x.asks, x.status, x.at, x.expires_at \
         FROM jsonb_to_recordset($3::text::jsonb) \
         AS x (id text, turn text, call text, asks text, status text, at bigint, expires_at bigint)",
    )
    .await?;
    write_turns(lent, export).await?;
    let mut inbox = Vec::with_capacity(export.inbox.len());
    for input in &export.inbox {
        let item = &input.item;
        inbox.push(json!({
            "n": int(item.n),
            "at": item.at.as_millis(),
            "key": input.key,
            "card": item.input.card().map(|card| card.as_str()),
            "input": text(&item.input)?,
            "consumed": input.consumed == Consumed::Yes,
        }));
    }
    many(
        lent,
        id,
        tenant,
        inbox,
        "INSERT INTO inbox (session, n, at, key, card, input, consumed) \
         SELECT $1, x.n, x.at, x.key, x.card, x.input, x.consumed FROM jsonb_to_recordset($3::text::jsonb) \
         AS x (n bigint, at bigint, key text, card text, input text, consumed boolean) WHERE $2 <> ''",
    )
    .await?;
    let mut captured = Vec::with_capacity(export.captured.len());
    for one in &export.captured {
        captured.push(json!({
            "at": export.session.updated.as_millis(),
            "turn": one.turn.as_str(),
            "number": one.index,
            "revision": int(one.revision),
            "action": text(&one.action)?,
            "status": name(&one.status)?,
            "result": one.result.as_ref().map(text).transpose()?,
        }));
    }
    many(
        lent,
        id,
        tenant,
        captured,
        "INSERT INTO captured (session, tenant, at, turn, number, revision, action, status, result) \
         SELECT $1, $2, x.at, x.turn, x.number, x.revision, x.action, x.status, x.result \
         FROM jsonb_to_recordset($3::text::jsonb) AS x (at bigint, turn text, number integer, revision bigint, \
         action text, status text, result text)",
    )
    .await?;
    let mut tasks = Vec::with_capacity(export.tasks.len());
    for one in &export.tasks {
        tasks.push(json!({
            "kind": one.key.kind,
            "reference": one.key.reference,
            "place": task_place(one).1,
            "turn": one.turn.as_str(),
            "call": one.call.as_str(),
            "status": name(&one.status)?,
            "detail": text(&one.detail)?,
            "started": one.started.as_millis(),
            "ended": one.ended.map(|at| at.as_millis()),
            "notified": one.notified.map(|at| at.as_millis()),
        }));
    }
    many(
        lent,
        id,
        tenant,
        tasks,
        "INSERT INTO tasks (tenant, kind, reference, place, session, turn, call, status, detail, started, ended, notified) \
         SELECT $2, x.kind, x.reference, x.place, $1, x.turn, x.call, x.status, x.detail, x.started, x.ended, x.notified \
         FROM jsonb_to_recordset($3::text::jsonb) AS x (kind text, reference text, place text, turn text, call text, \
         status text, detail text, started bigint, ended bigint, notified bigint) ON CONFLICT DO NOTHING",
    )
    .await?;
    if usage == ImportedUsage::FromEvents {
        write_usage(lent, export).await?;
    }
    super::sessions::read(lent, &export.session.key).await
}

/// Writes rows, if there are any.
async fn many(
    lent: &mut Lent<'_>,
    session: &str,
    tenant: &str,
    rows: Vec<Value>,
    sql: &'static str,
) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    let rows = text(&rows)?;
    lent.rows(sqlx::query(sql).bind(session).bind(tenant).bind(rows)).await.map(drop)
}

async fn insert_row(lent: &mut Lent<'_>, export: &Export) -> Result<(), StoreError> {
    let row = &export.session;
    let open = row.turn.as_ref();
    let journal = export.turns.iter().find(|log| Some(&log.turn.id) == open);
    let title = row.title.as_deref().map(line);
    let sql = sqlx::query(
        "INSERT INTO sessions (id, tenant, person, agent, title, title_folded, model, created, updated, version, fence, \
         next_seq, next_n, next_input, next_position, status, turn, pending, kept_below, forked_from, parked, parked_at) \
         SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22 \
         WHERE NOT EXISTS (SELECT 1 FROM deleted_sessions WHERE id = $1) RETURNING 1",
    );
    let sql = sql
        .bind(row.key.id.as_str())
        .bind(row.key.tenant.as_str())
        .bind(row.user.as_str())
        .bind(row.agent.as_str())
        .bind(title.as_deref())
        .bind(title.as_ref().map(|title| title.to_lowercase()))
        .bind(row.model.as_deref())
        .bind(row.created.as_millis())
        .bind(row.updated.as_millis())
        .bind(int(row.version))
        .bind(int(row.fence))
        .bind(int(row.next_seq))
        .bind(int(journal.map_or(0, |log| log.journal.len() as u64)))
        .bind(int(export.inbox.len() as u64 + 1))
        .bind(int(export.messages.len() as u64))
        .bind(name(&row.status)?)
        .bind(open.map(TurnId::as_str))
        .bind(int(row.pending))
        .bind(int(row.kept_below))
        .bind(row.forked_from.as_ref().map(SessionId::as_str))
        .bind(row.parked.as_ref().map(|parked| line(&parked.reason)))
        .bind(row.parked.as_ref().map(|parked| parked.at.as_millis()));
    let exists = || StoreError::from(Conflict::SessionExists(row.key.id.clone()));
    match lent.try_rows(sql).await {
        Ok(rows) => rows.first().map(drop).ok_or_else(exists),
        Err(error) if refused(&error) => Err(exists()),
        Err(error) => Err(failed(error)),
    }
}

/// A row of steps.
struct Step<'a> {
    turn: Option<&'a str>,
    last_seq: i64,
    journal: Option<String>,
    events: Option<String>,
}

async fn write_turns(lent: &mut Lent<'_>, export: &Export) -> Result<(), StoreError> {
    let id = export.session.key.id.as_str();
    let mut steps: Vec<Step<'_>> = Vec::new();
    for log in &export.turns {
        let (since, until) = span(export, &log.turn.id);
        let sql = sqlx::query(
            "INSERT INTO turns (session, id, spec, status, outcome, started, ended, since, until, queued_below) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        );
        let sql = sql
            .bind(id)
            .bind(log.turn.id.as_str())
            .bind(log.turn.spec.as_bytes())
            .bind(name(&log.turn.status)?)
            .bind(log.turn.outcome.as_ref().map(text).transpose()?)
            .bind(log.turn.started.as_millis())
            .bind(log.turn.ended.map(|at| at.as_millis()))
            .bind(int(since))
            .bind(until.map(int))
            .bind(int(log.turn.queued_below));
        lent.rows(sql).await?;
        if !log.journal.is_empty() {
            let journal = Some(text(&log.journal)?);
            let turn = Some(log.turn.id.as_str());
            steps.push(Step { turn, last_seq: int(since), journal, events: None });
        }
    }
    for events in export.events.chunks(EVENTS_PER_STEP) {
        let last_seq = events.last().map_or(0, |event| int(event.seq));
        steps.push(Step { turn: None, last_seq, journal: None, events: Some(text(events)?) });
    }
    // Steps that are written later have higher versions.
    let sql = sqlx::query(
        "INSERT INTO steps (session, turn, last_seq, version, journal, events) \
         SELECT $1, x.turn, x.last_seq, -x.place, x.journal, x.events \
         FROM unnest($2::text[], $3::bigint[], $4::text[], $5::text[]) WITH ORDINALITY \
         AS x (turn, last_seq, journal, events, place)",
    );
    let sql = sql
        .bind(id)
        .bind(steps.iter().map(|step| step.turn).collect::<Vec<_>>())
        .bind(steps.iter().map(|step| step.last_seq).collect::<Vec<_>>())
        .bind(steps.iter().map(|step| step.journal.clone()).collect::<Vec<_>>())
        .bind(steps.iter().map(|step| step.events.clone()).collect::<Vec<_>>());
    lent.rows(sql).await.map(drop)
}

async fn write_usage(lent: &mut Lent<'_>, export: &Export) -> Result<(), StoreError> {
    let rows = metered_calls(export.events.iter().map(Whole::from)).map(|(event, call)| {
        let (model, sum) = metered(call);
        json!({
            "person": export.session.user.as_str(),
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
        })
    });
    many(
        lent,
        export.session.key.id.as_str(),
        export.session.key.tenant.as_str(),
        rows.collect(),
        "INSERT INTO usage (tenant, person, session, turn, agent, model, at, \
         input, cache_read, cache_write, output, reasoning, cost_micros) \
         SELECT $2, x.person, $1, x.turn, x.agent, x.model, x.at, \
         x.input, x.cache_read, x.cache_write, x.output, x.reasoning, x.cost_micros \
         FROM jsonb_to_recordset($3::text::jsonb) AS x (person text, turn text, agent text, model text, at bigint, \
         input bigint, cache_read bigint, cache_write bigint, output bigint, reasoning bigint, cost_micros bigint)",
    )
    .await
}
