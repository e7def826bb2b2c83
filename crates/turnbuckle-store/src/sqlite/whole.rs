//! A session as others see it: to show, or to take elsewhere.

use crate::error::{Conflict, StoreError};
use crate::export::{coherent, span};
use crate::model::{
    BlobInfo, Consumed, Export, ExportedInput, ImportedUsage, InboxItem, Session, SessionKey,
    SessionStatus, TurnLog, View,
};
use crate::sql::{
    ACTION, SESSION_COLUMNS, TASK, TURN, action, entries, int, item, json, maybe_json, name,
    number, session, task, text, turn,
};
use crate::sqlite::commit::{index_card, meter, put_message};
use crate::sqlite::fail::{failed, refused};
use crate::sqlite::link::{Link, Script};
use crate::sqlite::rows::{SESSION, get};
use crate::sqlite::sessions::{NO_SESSION, first};
use crate::sqlite::tasks;
use std::collections::HashMap;
use turnbuckle_core::event::Event;
use turnbuckle_core::ids::{SessionId, TurnId};
use turnbuckle_core::message::Message;

/// So many events of an imported session are kept in one row.
const EVENTS_PER_STEP: usize = 64;

pub(super) async fn view(
    link: &mut Link,
    key: &SessionKey,
    messages: u32,
) -> Result<View, StoreError> {
    let mut script = Script::snapshot();
    script
        .add("SELECT 0, ")
        .add(SESSION)
        .add(
            ", (SELECT t.since FROM turns t WHERE t.session = sessions.id AND t.id = sessions.turn) \
             FROM sessions WHERE id = ?1 AND tenant = ?2;\
             SELECT 1, position, body FROM messages m WHERE session = ?1 \
             AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = ?1 AND s.status = 'running' AND s.turn = m.turn) \
             ORDER BY position DESC LIMIT ?3;\
             SELECT 2, n, at, input FROM inbox WHERE session = ?1 AND consumed = 0 ORDER BY n;\
             SELECT 3, coalesce(max(position) + 1, 0) FROM messages m WHERE session = ?1 \
             AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = ?1 AND s.status = 'running' AND s.turn = m.turn);",
        )
        .bind(key.id.as_str())?
        .bind(key.tenant.as_str())?
        .bind(i64::from(messages))?
        .end();
    let rows = link.run(script).await.map_err(failed)?;
    let (head, rest) = rows.split_first().ok_or(NO_SESSION)?;
    if get::<i64>(head, 0)? != 0 {
        return Err(NO_SESSION);
    }
    let row = session(head, 1)?;
    let since: Option<i64> = get(head, 1 + SESSION_COLUMNS)?;
    let after_seq = match (row.status, since) {
        (SessionStatus::Running, Some(since)) => since.unsigned_abs(),
        _ => row.next_seq.saturating_sub(1),
    };
    let mut view =
        View { session: row, messages: Vec::new(), first: 0, after_seq, inbox: Vec::new() };
    let mut end = 0;
    for row in rest {
        match get::<i64>(row, 0)? {
            1 => view.messages.push(json(row, 2, "message")?),
            2 => view.inbox.push(item(row, 1)?),
            _ => end = get::<i64>(row, 1)?.unsigned_abs(),
        }
    }
    view.messages.reverse();
    let first = end.saturating_sub(view.messages.len() as u64);
    view.first = u32::try_from(first).unwrap_or(u32::MAX);
    Ok(view)
}

pub(super) async fn export(link: &mut Link, key: &SessionKey) -> Result<Export, StoreError> {
    let mut script = Script::snapshot();
    script
        .add("SELECT 0, ")
        .add(SESSION)
        .add(" FROM sessions WHERE id = ?1 AND tenant = ?2;")
        .add("SELECT 1, state FROM session_states WHERE session = ?1;")
        .add("SELECT 2, body FROM messages WHERE session = ?1 ORDER BY position;")
        .add("SELECT 3, ")
        .add(TURN)
        .add(" FROM turns WHERE session = ?1 ORDER BY ordinal;")
        .add("SELECT 4, turn, journal, events FROM steps WHERE session = ?1 ORDER BY last_seq, ordinal;")
        .add("SELECT 5, n, at, input, key, consumed FROM inbox WHERE session = ?1 ORDER BY n;")
        .add("SELECT 6, id, media_type, size FROM blobs WHERE session = ?1 ORDER BY id;")
        .add("SELECT 7, ").add(ACTION).add(" FROM captured c \
              LEFT JOIN turns t ON t.session = c.session AND t.id = c.turn \
              WHERE c.session = ?1 ORDER BY t.ordinal, c.turn, c.number;")
        .add("SELECT 8, ")
        .add(TASK)
        .add(" FROM tasks t WHERE session = ?1 ORDER BY kind, reference;")
        .bind(key.id.as_str())?
        .bind(key.tenant.as_str())?
        .end();
    let rows = link.run(script).await.map_err(failed)?;
    let (head, rest) = rows.split_first().ok_or(NO_SESSION)?;
    if get::<i64>(head, 0)? != 0 {
        return Err(NO_SESSION);
    }
    let mut export = Export {
        session: Session { lease: None, ..session(head, 1)? },
        state: None,
        messages: Vec::new(),
        turns: Vec::new(),
        events: Vec::new(),
        captured: Vec::new(),
        inbox: Vec::new(),
        blobs: Vec::new(),
        tasks: Vec::new(),
    };
    let mut places: HashMap<TurnId, usize> = HashMap::new();
    for row in rest {
        match get::<i64>(row, 0)? {
            1 => export.state = get(row, 1)?,
            2 => export.messages.push(json(row, 1, "message")?),
            3 => {
                let turn = turn(row, 1)?;
                places.insert(turn.id.clone(), export.turns.len());
                export.turns.push(TurnLog { turn, journal: Vec::new() });
            }
            4 => {
                let turn: Option<String> = get(row, 1)?;
                let place = turn.and_then(|turn| places.get(turn.as_str()));
                if let Some(log) = place.and_then(|place| export.turns.get_mut(*place))
                    && get::<Option<&str>>(row, 2)?.is_some()
                {
                    entries(row, 2, &mut log.journal)?;
                }
                let events: Option<Vec<Event>> = maybe_json(row, 3, "events")?;
                export.events.extend(events.unwrap_or_default());
            }
            5 => {
                let consumed = if get::<bool>(row, 5)? { Consumed::Yes } else { Consumed::No };
                let key = get(row, 4)?;
                export.inbox.push(ExportedInput { item: item(row, 1)?, key, consumed });
            }
            6 => export.blobs.push(BlobInfo {
                id: get(row, 1)?,
                media_type: get(row, 2)?,
                size: number(row, 3)?,
            }),
            7 => export.captured.push(action(row, 1)?),
            _ => export.tasks.push(task(row, 1)?),
        }
    }
    Ok(export)
}

pub(super) async fn import(
    link: &mut Link,
    export: Export,
    usage: ImportedUsage,
) -> Result<Session, StoreError> {
    coherent(&export)?;
    link.begin().await?;
    let result = write(link, export, usage).await;
    link.finish(result).await
}

async fn write(
    link: &mut Link,
    export: Export,
    usage: ImportedUsage,
) -> Result<Session, StoreError> {
    let key = export.session.key.clone();
    insert_row(link, &export).await?;
    let own = export.own_cards();
    for message in &export.messages {
        let mut script = Script::default();
        put_message(&mut script, &key, message)?;
        if let Message::System(card) = message
            && own.contains(&card.id)
        {
            index_card(&mut script, &key, card)?;
        }
        link.step(script).await.map_err(failed)?;
    }
    for log in &export.turns {
        let (since, until) = span(&export, &log.turn.id);
        let mut script = Script::new(
            "INSERT INTO turns (session, id, spec, status, outcome, started, ended, since, until, queued_below) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        );
        script
            .bind(key.id.as_str())?
            .bind(log.turn.id.as_str())?
            .bind(log.turn.spec.as_str())?
            .bind(name(&log.turn.status)?)?
            .bind(log.turn.outcome.as_ref().map(text).transpose()?)?
            .bind(log.turn.started.as_millis())?
            .bind(log.turn.ended.map(|at| at.as_millis()))?
            .bind(int(since))?
            .bind(until.map(int))?
            .bind(int(log.turn.queued_below))?;
        link.step(script).await.map_err(failed)?;
        if !log.journal.is_empty() {
            let journal = Some(text(&log.journal)?);
            step(link, &key, Some(&log.turn.id), since, journal, None).await?;
        }
    }
    for events in export.events.chunks(EVENTS_PER_STEP) {
        let last = events.last().map_or(0, |event| event.seq);
        step(link, &key, None, last, None, Some(text(events)?)).await?;
    }
    for input in &export.inbox {
        let mut script = Script::new(
            "INSERT INTO inbox (session, n, at, key, card, input, consumed) VALUES (?, ?, ?, ?, ?, ?, ?)",
        );
        let InboxItem { n, at, input: posted } = &input.item;
        script
            .bind(key.id.as_str())?
            .bind(int(*n))?
            .bind(at.as_millis())?
            .bind(input.key.as_deref())?
            .bind(posted.card().map(|card| card.as_str()))?
            .bind(text(posted)?)?
            .bind(input.consumed == Consumed::Yes)?;
        link.step(script).await.map_err(failed)?;
    }
    for captured in &export.captured {
        let mut script = Script::new(
            "INSERT INTO captured (session, tenant, at, turn, number, revision, action, status, result) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        );
        script
            .bind(key.id.as_str())?
            .bind(key.tenant.as_str())?
            .bind(export.session.updated.as_millis())?
            .bind(captured.turn.as_str())?
            .bind(i64::from(captured.index))?
            .bind(int(captured.revision))?
            .bind(text(&captured.action)?)?
            .bind(name(&captured.status)?)?
            .bind(captured.result.as_ref().map(text).transpose()?)?;
        link.step(script).await.map_err(failed)?;
    }
    for one in &export.tasks {
        let mut script = Script::default();
        tasks::put(&mut script, one)?;
        link.step(script).await.map_err(failed)?;
    }
    let mut script = Script::default();
    if usage == ImportedUsage::FromEvents {
        meter(&mut script, key.id.as_str(), &export.events)?;
    }
    script.add("SELECT ").add(SESSION).add(" FROM sessions WHERE id = ?").bind(key.id.as_str())?;
    script.uncached();
    let rows = link.step(script).await.map_err(failed)?;
    session(first(&rows)?, 0)
}

async fn insert_row(link: &mut Link, export: &Export) -> Result<(), StoreError> {
    let row = &export.session;
    let open = row.turn.as_ref();
    let journal = export.turns.iter().find(|log| Some(&log.turn.id) == open);
    let mut script = Script::new(
        "INSERT INTO sessions (id, tenant, user, agent, title, title_folded, model, created, updated, version, fence, \
         next_seq, next_n, next_input, status, turn, pending, kept_below, forked_from, parked, parked_at) \
         VALUES ((SELECT ?1 WHERE NOT EXISTS (SELECT 1 FROM deleted_sessions WHERE id = ?1)), \
         ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)",
    );
    script
        .bind(row.key.id.as_str())?
        .bind(row.key.tenant.as_str())?
        .bind(row.user.as_str())?
        .bind(row.agent.as_str())?
        .bind(row.title.as_deref())?
        .bind(row.title.as_ref().map(|title| title.to_lowercase()))?
        .bind(row.model.as_deref())?
        .bind(row.created.as_millis())?
        .bind(row.updated.as_millis())?
        .bind(int(row.version))?
        .bind(int(row.fence))?
        .bind(int(row.next_seq))?
        .bind(int(journal.map_or(0, |log| log.journal.len() as u64)))?
        .bind(int(export.inbox.len() as u64 + 1))?
        .bind(name(&row.status)?)?
        .bind(open.map(TurnId::as_str))?
        .bind(int(row.pending))?
        .bind(int(row.kept_below))?
        .bind(row.forked_from.as_ref().map(SessionId::as_str))?
        .bind(row.parked.as_ref().map(|parked| parked.reason.as_str()))?
        .bind(row.parked.as_ref().map(|parked| parked.at.as_millis()))?;
    let inserted = link.step(script).await;
    inserted.map(drop).map_err(|error| {
        if refused(&error) {
            Conflict::SessionExists(row.key.id.clone()).into()
        } else {
            failed(error)
        }
    })?;
    let Some(state) = &export.state else { return Ok(()) };
    let mut script = Script::new("INSERT INTO session_states (session, state) VALUES (?, ?)");
    script.bind(row.key.id.as_str())?.bind(state.as_str())?;
    link.step(script).await.map(drop).map_err(failed)
}

async fn step(
    link: &mut Link,
    key: &SessionKey,
    turn: Option<&TurnId>,
    last_seq: u64,
    journal: Option<String>,
    events: Option<String>,
) -> Result<(), StoreError> {
    let mut script = Script::new(
        "INSERT INTO steps (session, turn, last_seq, journal, events) VALUES (?, ?, ?, ?, ?)",
    );
    script
        .bind(key.id.as_str())?
        .bind(turn.map(TurnId::as_str))?
        .bind(int(last_seq))?
        .bind(journal)?
        .bind(events)?;
    link.step(script).await.map(drop).map_err(failed)
}
