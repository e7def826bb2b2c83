//! Stored turns played again, without model or tools, and compared with what is stored.

use crate::cli::ReplayArgs;
use crate::config::Settings;
use crate::error::CliError;
use crate::exit::Exit;
use crate::host::{Access, Host, turn_events};
use crate::sessions::{all_messages, to_json};
use crate::term::words::count;
use crate::term::{Screen, Style};
use turnbuckle::core::message::{AssistantMessage, Message, MessageState};
use turnbuckle::store::TurnRecord;

/// Runs the command.
///
/// # Errors
/// When there is no such session or turn, or the journal does not fit its turn.
pub async fn run(settings: Settings, args: ReplayArgs) -> Result<Exit, CliError> {
    let host = Host::open(settings, Access::Guest).await?;
    let key = host.session(&args.session).await?.key;
    let store = host.store();
    let turns = store.turns(&key).await?;
    let chosen: Vec<(usize, &TurnRecord)> = match args.turn {
        None => turns.iter().enumerate().collect(),
        Some(n) => {
            let turn = n.checked_sub(1).and_then(|i| Some((i, turns.get(i)?)));
            vec![turn.ok_or_else(|| {
                CliError::Failed(format!(
                    "session {} has {} turns; there is no turn {n}",
                    args.session,
                    turns.len()
                ))
            })?]
        }
    };
    let color = host.settings.color;
    let mut screen = Screen::stdout(color);
    let mut verdict = Verdict::default();
    let messages = all_messages(&**store, &key).await?;
    for (index, turn) in chosen {
        let stored = turn_events(&**store, &key, &turn.id).await?;
        let played = host.engine.replay(&key, &turn.id).await?;
        verdict.turns += 1;
        verdict.events += played.events.len();
        if !args.verify {
            let first = stored.first().map_or(1, |event| event.seq);
            for event in &played.events {
                let mut event = event.clone();
                event.seq += first - 1;
                screen.raw(&(to_json(&event)? + "\n"))?;
            }
        }
        let message = messages.iter().find_map(|m| match m {
            Message::Assistant(m) if m.turn == turn.id => Some(&**m),
            _ => None,
        });
        let compared = played
            .compare(&stored)
            .and_then(|()| same_message(message, played.messages.assistant.as_ref()));
        if let Err(difference) = compared {
            verdict.different.push((index + 1, difference));
        }
    }
    verdict.tell(&mut Screen::stderr(color), &mut screen, args.verify)
}

/// The message of a turn that still runs is stored when the turn pauses or ends.
fn same_message(
    stored: Option<&AssistantMessage>,
    played: Option<&AssistantMessage>,
) -> Result<(), String> {
    match (stored, played) {
        (None, Some(played)) if played.state == MessageState::Running => Ok(()),
        (stored, played) if stored == played => Ok(()),
        _ => Err("the events are the same, but the final message is not the stored one".to_owned()),
    }
}

#[derive(Default)]
struct Verdict {
    turns: usize,
    events: usize,
    different: Vec<(usize, String)>,
}

impl Verdict {
    fn tell(self, notes: &mut Screen, out: &mut Screen, verify: bool) -> Result<Exit, CliError> {
        let screen = if verify { out } else { notes };
        if self.different.is_empty() {
            let line = format!(
                "identical: {}, {}, every final message",
                count(self.turns, "turn"),
                count(self.events, "event")
            );
            screen.line(Style::Good, &line)?;
            return Ok(Exit::Completed);
        }
        for (turn, difference) in &self.different {
            screen.line(Style::Bad, &format!("different: turn {turn}: {difference}"))?;
        }
        Ok(Exit::Failed)
    }
}
