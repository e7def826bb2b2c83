//! Actions that were captured instead of carried out.

use crate::cli::CapturedCommand;
use crate::config::Settings;
use crate::error::CliError;
use crate::exit::Exit;
use crate::host::{Access, Host, session};
use crate::keep::open_store;
use crate::sessions::list;
use crate::term::words::brief;
use crate::term::{Screen, Style};
use serde_json::Value;
use std::collections::BTreeMap;
use turnbuckle::Review;
use turnbuckle::store::{Captured, CapturedStatus, SessionKey};

/// Characters of the arguments in a list.
const ARGS: usize = 100;
/// Sessions that are looked through.
const SESSIONS: u32 = 10_000;

/// Runs the command.
///
/// # Errors
/// When there is no such session or action, and the store's.
pub async fn run(settings: Settings, what: CapturedCommand) -> Result<Exit, CliError> {
    let what = match what {
        CapturedCommand::Apply { session, numbers, all, reject, even_if_stale } => {
            let chosen = if all { None } else { Some(numbers) };
            let review = match reject {
                true => Review::Reject,
                false => Review::Approve { amendment: None, even_if_stale },
            };
            return apply(settings, &session, chosen, review).await;
        }
        other => other,
    };
    let store = open_store(&settings).await?.sessions;
    let mut screen = Screen::stdout(settings.color);
    let key = |id: &str| SessionKey::new(settings.tenant.as_str(), id);
    match what {
        CapturedCommand::List { session: Some(id) } => {
            session(&*store, &key(&id)).await?;
            let found = store.captured(&key(&id), None).await?;
            if found.is_empty() {
                screen.line(Style::Dim, "Nothing was captured in this session.")?;
            }
            for line in lines(&found) {
                screen.line(Style::Plain, &line)?;
            }
        }
        CapturedCommand::List { session: None } => {
            let mut none = true;
            for session in list(&*store, &settings, None, SESSIONS).await? {
                let found = store.captured(&session.key, None).await?;
                if found.is_empty() {
                    continue;
                }
                none = false;
                let title = session.title.as_deref().unwrap_or("untitled");
                screen.line(Style::Bold, &format!("{}  {title}", session.key.id))?;
                for line in lines(&found) {
                    screen.line(Style::Plain, &line)?;
                }
            }
            if none {
                screen.line(
                    Style::Dim,
                    "Nothing was captured. `turnbuckle run --capture` captures.",
                )?;
            }
        }
        CapturedCommand::Show { session: id, number } => {
            session(&*store, &key(&id)).await?;
            let found = store.captured(&key(&id), None).await?;
            let action = found.iter().find(|c| c.index == number).ok_or_else(|| {
                CliError::Failed(format!(
                    "session {id} has no captured action {number}: `turnbuckle captured list {id}` lists them"
                ))
            })?;
            let whole = serde_json::json!({
                "number": action.index, "turn": action.turn, "status": action.status, "revision": action.revision,
                "action": action.action, "result": action.result,
            });
            let text = serde_json::to_string_pretty(&whole).unwrap_or_else(|_| whole.to_string());
            screen.raw(&(text + "\n"))?;
        }
        // Carried out above, since it needs more than the store.
        CapturedCommand::Apply { .. } => {}
    }
    Ok(Exit::Completed)
}

/// Reviews actions; `chosen` are their numbers, or all that are pending.
async fn apply(
    settings: Settings,
    id: &str,
    chosen: Option<Vec<u32>>,
    review: Review,
) -> Result<Exit, CliError> {
    let host = Host::open(settings, Access::Guest).await?;
    let key = host.session(id).await?.key;
    let found = host.engine.captured(&key, None).await?;
    if let Some(missing) = chosen.iter().flatten().find(|n| !found.iter().any(|c| c.index == **n)) {
        return Err(CliError::Failed(format!("session {id} has no captured action {missing}")));
    }
    let wanted = |c: &Captured| match &chosen {
        Some(numbers) => numbers.contains(&c.index),
        None => c.status == CapturedStatus::Pending,
    };
    let mut by_turn: Vec<(_, BTreeMap<u32, Review>)> = Vec::new();
    for action in found.iter().filter(|c| wanted(c)) {
        match by_turn.last_mut() {
            Some((turn, reviews)) if *turn == action.turn => {
                reviews.insert(action.index, review.clone());
            }
            _ => by_turn
                .push((action.turn.clone(), BTreeMap::from([(action.index, review.clone())]))),
        }
    }
    let mut screen = Screen::stdout(host.settings.color);
    if by_turn.is_empty() {
        screen.line(Style::Dim, "Nothing is pending.")?;
    }
    let done = match review {
        Review::Approve { .. } => CapturedStatus::Applied,
        Review::Reject => CapturedStatus::Rejected,
    };
    let mut exit = Exit::Completed;
    for (turn, reviews) in by_turn {
        let reports = host.engine.apply_captured(&key, &turn, &reviews, host.user()).await?;
        for report in reports.iter().filter(|r| reviews.contains_key(&r.index)) {
            let style = if report.status == done { Style::Good } else { Style::Bad };
            if report.status != done {
                exit = Exit::Failed;
            }
            let line = format!(
                "{:>3}  {:<9}  {} · {}",
                report.index,
                status_word(report.status),
                report.tool,
                brief(&report.detail, ARGS)
            );
            screen.line(style, &line)?;
        }
    }
    Ok(exit)
}

/// Captured actions, one line each.
pub fn lines(captured: &[Captured]) -> Vec<String> {
    captured
        .iter()
        .map(|c| {
            let tool = c.action.get("tool").and_then(Value::as_str).unwrap_or("?");
            let args = c.action.get("args").map(|a| brief(a, ARGS)).unwrap_or_default();
            format!("{:>3}  {:<9}  {tool} · {args}", c.index, status_word(c.status))
        })
        .collect()
}

const fn status_word(status: CapturedStatus) -> &'static str {
    match status {
        CapturedStatus::Pending => "pending",
        CapturedStatus::Applying => "applying",
        CapturedStatus::Applied => "applied",
        CapturedStatus::Failed => "failed",
        CapturedStatus::Rejected => "rejected",
        CapturedStatus::Skipped => "skipped",
    }
}
