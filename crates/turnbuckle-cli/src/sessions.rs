//! Sessions: listed, shown, deleted.

use crate::cli::SessionsCommand;
use crate::config::Settings;
use crate::error::CliError;
use crate::exit::Exit;
use crate::host::{name_untitled, now, session, status_word};
use crate::keep::open_store;
use crate::term::view::Titles;
use crate::term::words::{count, dollars, moment, one_line, usage};
use crate::term::{Screen, Style, message};
use std::collections::BTreeMap;
use turnbuckle::core::message::{AssistantMessage, Message};
use turnbuckle::core::usage::Usage;
use turnbuckle::store::{Session, SessionKey, SessionQuery, Store, StoreError};

/// Messages read at once.
const PAGE: u32 = 500;
/// Sessions read at once.
const SESSIONS: u32 = 200;
/// Characters of a title in a list.
const TITLE: usize = 60;

/// Runs the command.
///
/// # Errors
/// When there is no such session, and the store's.
pub async fn run(settings: Settings, what: Option<SessionsCommand>) -> Result<Exit, CliError> {
    let store = open_store(&settings).await?.sessions;
    let mut screen = Screen::stdout(settings.color);
    let key = |id: &str| SessionKey::new(settings.tenant.as_str(), id);
    match what.unwrap_or(SessionsCommand::List { filter: None, limit: 30 }) {
        SessionsCommand::List { filter, limit } => {
            let mut found = list(&*store, &settings, filter, limit).await?;
            name_untitled(&*store, &mut found).await?;
            if found.is_empty() {
                screen.line(Style::Dim, "There are no sessions. `turnbuckle chat` begins one.")?;
            }
            screen.raw(&session_table(&found))?;
            screen.end_line()?;
        }
        SessionsCommand::Show { id, json } => {
            let key = key(&id);
            let session = session(&*store, &key).await?;
            let messages = all_messages(&*store, &key).await?;
            if json {
                for m in &messages {
                    screen.raw(&(to_json(m)? + "\n"))?;
                }
            } else {
                let title = session.title.as_deref().unwrap_or("untitled");
                let line = format!(
                    "{title} · {} · {} · {}",
                    session.agent,
                    session.user,
                    status_word(session.status)
                );
                screen.line(Style::Bold, &line)?;
                for m in &messages {
                    message::show(&mut screen, &Titles::new(), m)?;
                }
                for line in usage_lines(&messages) {
                    screen.line(Style::Dim, &line)?;
                }
            }
        }
        SessionsCommand::Delete { id } => {
            let key = key(&id);
            session(&*store, &key).await?;
            store.delete_session(&key, now()).await?;
            screen.line(Style::Plain, &format!("Deleted {id}."))?;
        }
    }
    Ok(Exit::Completed)
}

/// Sessions of the tenant, last used first.
///
/// # Errors
/// The store's.
pub async fn list(
    store: &dyn Store,
    settings: &Settings,
    title_contains: Option<String>,
    limit: u32,
) -> Result<Vec<Session>, CliError> {
    let mut found = Vec::new();
    let mut after = None;
    while (found.len() as u32) < limit {
        let page = store
            .list_sessions(SessionQuery {
                title_contains: title_contains.clone(),
                after,
                limit: SESSIONS.min(limit - found.len() as u32),
                ..SessionQuery::of(settings.tenant.as_str().into())
            })
            .await?;
        found.extend(page.items);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(found)
}

/// A table of sessions with numbers to open them by.
pub fn session_table(sessions: &[Session]) -> String {
    let mut table = String::new();
    for (n, session) in sessions.iter().enumerate() {
        let title = one_line(session.title.as_deref().unwrap_or("untitled"), TITLE);
        let line = format!(
            "{:>3}  {}  {}  {:<18}  {title}\n",
            n + 1,
            session.key.id,
            moment(session.updated),
            status_word(session.status)
        );
        table.push_str(&line);
    }
    table
}

/// Every message of a session.
///
/// # Errors
/// The store's.
pub async fn all_messages(store: &dyn Store, key: &SessionKey) -> Result<Vec<Message>, StoreError> {
    let mut all = Vec::new();
    loop {
        let page = store.messages(key, all.len() as u32, PAGE).await?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}

/// Tokens and money of a session: by model, and in all.
pub fn usage_lines(messages: &[Message]) -> Vec<String> {
    #[derive(Default)]
    struct Sum {
        calls: u64,
        usage: Usage,
        cost: u64,
        unpriced: u64,
        estimated: u64,
    }
    fn add(sums: &mut BTreeMap<String, Sum>, message: &AssistantMessage) {
        for call in &message.iterations {
            let sum = sums.entry(format!("{}:{}", call.provider, call.model)).or_default();
            sum.calls += 1;
            sum.usage.add(&call.usage);
            sum.estimated += u64::from(call.estimated);
            match call.cost_micros {
                Some(cost) => sum.cost += cost,
                None => sum.unpriced += 1,
            }
        }
        for child in message.calls().filter_map(|c| c.child.as_ref()) {
            add(sums, child);
        }
    }
    let mut sums = BTreeMap::new();
    for message in messages {
        if let Message::Assistant(m) = message {
            add(&mut sums, m);
        }
    }
    if sums.is_empty() {
        return vec!["No model was called.".to_owned()];
    }
    let mut lines = Vec::new();
    let mut total = Sum::default();
    for (model, sum) in &sums {
        let mut line =
            format!("{model}: {}, {}", count(sum.calls as usize, "call"), usage(&sum.usage));
        match sum.unpriced {
            0 => line.push_str(&format!(", {}", dollars(sum.cost))),
            n if n == sum.calls => line.push_str(", price not known"),
            n => line.push_str(&format!(", {} and {n} calls of unknown price", dollars(sum.cost))),
        }
        if sum.estimated > 0 {
            line.push_str(&format!(
                " ({} calls estimated, since nothing was reported)",
                sum.estimated
            ));
        }
        lines.push(line);
        total.calls += sum.calls;
        total.usage.add(&sum.usage);
        total.cost += sum.cost;
    }
    if sums.len() > 1 {
        lines.push(format!(
            "in all: {} calls, {}, {}",
            total.calls,
            usage(&total.usage),
            dollars(total.cost)
        ));
    }
    lines
}

/// A value as JSON on one line.
///
/// # Errors
/// Never for our own types.
pub fn to_json(value: &impl serde::Serialize) -> Result<String, CliError> {
    serde_json::to_string(value)
        .map_err(|e| CliError::Failed(format!("this cannot be written as JSON: {e}")))
}
