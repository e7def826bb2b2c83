//! One turn without a conversation.

use crate::attach;
use crate::captured;
use crate::cli::RunArgs;
use crate::config::Settings;
use crate::error::CliError;
use crate::exit::{Exit, turn_failure};
use crate::host::{Access, Host, is_unfinished};
use crate::sessions::to_json;
use crate::signals::Interrupts;
use crate::term::words::{elapsed, model_failure};
use crate::term::{Screen, Style, View};
use futures_util::StreamExt;
use std::io::{IsTerminal, Read};
use turnbuckle::core::content::ContentPart;
use turnbuckle::core::event::{Event, EventKind};
use turnbuckle::core::message::SystemBody;
use turnbuckle::store::SessionKey;
use turnbuckle::{Submission, Submitted};

/// Runs one turn; the answer or the events go to stdout, everything else to stderr.
///
/// # Errors
/// When there is no message, or the turn cannot be started.
pub async fn run(settings: Settings, args: RunArgs) -> Result<Exit, CliError> {
    let mut interrupts = Interrupts::listen()?;
    let message = match (&args.message, args.resume) {
        (_, true) => None,
        (Some(message), false) => Some(message.clone()),
        // A picture may speak for itself.
        (None, false) if !args.attach.is_empty() && std::io::stdin().is_terminal() => {
            Some(String::new())
        }
        (None, false) => Some(from_stdin()?),
    };
    let attached: Vec<ContentPart> =
        args.attach.iter().map(|what| attach::read(what)).collect::<Result<_, _>>()?;
    if attached.is_empty() && message.as_deref().is_some_and(|m| m.trim().is_empty()) {
        return Err(CliError::Usage("the message is empty".to_owned()));
    }
    let host = Host::open(settings, Access::Owner).await?;
    let mut out = Output::new(&host, args.json);
    if host.choice.is_rehearsal() {
        out.notes.line(
            Style::Loud,
            &format!("REHEARSAL: no model answers, a script plays ({})", host.choice.why),
        )?;
    }
    let key = match &args.session {
        Some(id) => host.session(id).await?.key,
        None => host.create_session().await?,
    };
    out.notes.line(Style::Dim, &format!("session {}", key.id))?;
    let submitted = match message {
        None => host.engine.work(&key),
        Some(text) => {
            let mut submission = Submission::new(text.trim());
            submission.model = host.asked_model();
            submission.author = Some(host.user());
            submission = attached.into_iter().fold(submission, Submission::attach);
            if args.capture {
                submission = submission.captured();
            }
            host.engine.submit(&key, submission).await?
        }
    };
    let ended = match out.follow(submitted, &mut interrupts).await {
        Ok(end) => out.close(&host, &key, end, args.resume).await,
        Err(error) => Err(error),
    };
    ended.map_err(|error| match error.is_closed_pipe() {
        true => CliError::Failed(format!(
            "nobody reads the output any more; `turnbuckle run --session {} --resume` goes on with what is unfinished",
            key.id
        )),
        false => error,
    })
}

fn from_stdin() -> Result<String, CliError> {
    if std::io::stdin().is_terminal() {
        return Err(CliError::Usage(
            "there is no message: give it as an argument, or pipe it in".to_owned(),
        ));
    }
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(CliError::io("the message cannot be read from stdin"))?;
    Ok(text)
}

/// How following a stream ended.
struct End {
    exit: Option<Exit>,
    turns: Vec<turnbuckle::core::ids::TurnId>,
}

struct Output {
    /// Events as they come: JSON, or the view of a person at a terminal; nothing when text goes to a pipe.
    json: bool,
    view: Option<View>,
    plain: Screen,
    notes: Screen,
}

impl Output {
    fn new(host: &Host, json: bool) -> Self {
        let color = host.settings.color;
        let watched = !json && std::io::stdout().is_terminal();
        let view = watched.then(|| View::new(Screen::stdout(color), host.titles.clone()));
        Self { json, view, plain: Screen::stdout(color), notes: Screen::stderr(color) }
    }

    async fn follow(
        &mut self,
        submitted: Submitted,
        interrupts: &mut Interrupts,
    ) -> Result<End, CliError> {
        let mut end = End { exit: None, turns: Vec::new() };
        let Some(mut stream) = submitted.stream() else {
            return Err(CliError::Failed(
                "the session is at work already; try again when it is done".to_owned(),
            ));
        };
        let mut stopping = false;
        loop {
            tokio::select! {
                biased;
                () = interrupts.next() => {
                    if stopping {
                        end.exit = Some(Exit::Interrupted);
                        return Ok(end);
                    }
                    stopping = true;
                    stream.stop();
                    self.notes.line(Style::Dim, "Stopping… (again quits)")?;
                }
                event = stream.next() => match event {
                    Some(event) => self.event(&event, &mut end)?,
                    None => return Ok(end),
                },
            }
        }
    }

    fn event(&mut self, event: &Event, end: &mut End) -> Result<(), CliError> {
        if let Some(exit) = Exit::of_event(&event.kind) {
            end.exit = Some(exit);
        }
        if end.turns.last() != Some(&event.turn) {
            end.turns.push(event.turn.clone());
        }
        if self.json {
            return Ok(self.plain.raw(&(to_json(event)? + "\n"))?);
        }
        if let Some(view) = &mut self.view {
            return Ok(view.show(event)?);
        }
        // A pipe gets the answer once it is final; what went wrong is told beside it.
        match &event.kind {
            EventKind::AssistantMessageFinished { message }
                if message.id == event.turn.assistant_message() =>
            {
                let text = message.text();
                if !text.is_empty() {
                    self.plain.raw(&(text + "\n"))?;
                }
            }
            EventKind::TurnError { error, .. } => {
                self.notes
                    .line(Style::Bad, &format!("The turn failed: {}", turn_failure(error)))?;
            }
            EventKind::TurnExhausted { reason, .. } => {
                let why = crate::exit::exhausted_word(*reason);
                self.notes.line(Style::Bad, &format!("The turn ended at a limit: {why}"))?;
            }
            EventKind::TurnAborted { .. } => self.notes.line(Style::Bad, "Stopped.")?,
            EventKind::ModelRetry { error, delay_ms, .. } => {
                let line =
                    format!("trying again in {}: {}", elapsed(*delay_ms), model_failure(error));
                self.notes.line(Style::Dim, &line)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// What is left to say when the turn is over.
    async fn close(
        mut self,
        host: &Host,
        key: &SessionKey,
        end: End,
        resumed: bool,
    ) -> Result<Exit, CliError> {
        if let Some(view) = &mut self.view {
            view.screen()?;
        }
        for turn in &end.turns {
            let found = host.store().captured(key, Some(turn)).await?;
            if found.is_empty() {
                continue;
            }
            // Events own stdout when they are asked for.
            let screen = if self.json { &mut self.notes } else { &mut self.plain };
            screen.line(Style::Bold, "Captured, not carried out:")?;
            for line in captured::lines(&found) {
                screen.line(Style::Plain, &line)?;
            }
        }
        let cards = host.pending_cards(key).await?;
        for card in &cards {
            if let SystemBody::Approval(card) = &card.body {
                let args = crate::term::words::brief(&card.args, 200);
                self.notes
                    .line(Style::Loud, &format!("waits for approval: {} · {args}", card.title))?;
            }
        }
        if !cards.is_empty() {
            let line = format!("`turnbuckle chat --session {}` asks about it", key.id);
            self.notes.line(Style::Dim, &line)?;
        }
        match end.exit {
            Some(exit) => Ok(exit),
            None if !cards.is_empty() => Ok(Exit::Paused),
            None if !resumed => Err(CliError::Failed(
                "somebody else works on the session; what you sent waits for its turn".to_owned(),
            )),
            None if is_unfinished(&host.session(key.id.as_str()).await?) => {
                Err(CliError::Failed("somebody else works on the session".to_owned()))
            }
            None => {
                self.notes.line(Style::Dim, "nothing was unfinished")?;
                Ok(Exit::Completed)
            }
        }
    }
}
