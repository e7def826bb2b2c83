//! The conversation in the terminal.
//!
//! | module | holds |
//! |---|---|
//! | [`input`] | lines, typed or piped |
//! | [`commands`] | what begins with a slash |
//! | [`approval`], [`edit`] | cards and the answers to them |
//! | `turns` | following a turn to its end, over its cards |
//!
//! Everything that happened is in the store before it is shown, so leaving at any moment loses nothing.

pub mod approval;
pub mod commands;
pub mod edit;
pub mod input;
mod turns;

use crate::choice::{self, is_rehearsal};
use crate::cli::ChatArgs;
use crate::config::Settings;
use crate::error::CliError;
use crate::exit::Exit;
use crate::host::{Access, Host, is_unfinished, status_word};
use crate::sessions::{all_messages, session_table, usage_lines};
use crate::signals::Interrupts;
use crate::term::{Screen, Style, View, message};
use commands::Slash;
use input::{Given, Input};
use std::ops::ControlFlow;
use turnbuckle::Submission;
use turnbuckle::core::model::ModelRef;
use turnbuckle::store::{Session, SessionKey, SessionStatus};

/// Where the history of the input line lies, in the data folder.
const HISTORY: &str = "history.txt";
/// Sessions that `/sessions` lists.
const LISTED: u32 = 20;
/// Messages shown of a session that is opened.
const SHOWN: usize = 20;

/// What the rehearsal has scenes for.
const TRY: &str = "Try: Which threads are open? · Remind me to call the carrier tomorrow · Reply to the newest thread · Make a plan";

/// A conversation.
pub(crate) struct Chat {
    host: Host,
    view: View,
    input: Input,
    interrupts: Interrupts,
    session: Option<SessionKey>,
    model: ModelRef,
    listed: Vec<Session>,
}

/// Talks until the person leaves.
///
/// # Errors
/// When the data folder cannot be used, the model cannot be had, or the terminal fails.
pub async fn run(settings: Settings, args: &ChatArgs) -> Result<Exit, CliError> {
    let interrupts = Interrupts::listen()?;
    let host = Host::open(settings, Access::Owner).await?;
    let screen = Screen::stdout(host.settings.color);
    let view = View::new(screen, host.titles.clone());
    let input = Input::open(host.folder.join(HISTORY))?;
    let model = host.choice.model.id().clone();
    let mut chat = Chat { host, view, input, interrupts, session: None, model, listed: Vec::new() };
    chat.greet()?;
    if let ControlFlow::Break(exit) = chat.attach(args).await? {
        return Ok(exit);
    }
    chat.talk().await
}

impl Chat {
    fn greet(&mut self) -> Result<(), CliError> {
        let (settings, choice) = (&self.host.settings, self.host.choice.clone());
        let head = format!(
            "Turnbuckle {} · agent {} · {}",
            env!("CARGO_PKG_VERSION"),
            settings.agent.value,
            settings.user.value
        );
        let screen = self.view.screen()?;
        screen.line(Style::Bold, &head)?;
        if choice.is_rehearsal() {
            screen.line(Style::Loud, "REHEARSAL: no model answers. A script plays its part; tools, database and approvals are real.")?;
            screen.line(Style::Dim, &format!("  why: {}", choice.why))?;
            for line in choice::how_to_get_a_model() {
                screen.line(Style::Dim, &format!("  {line}"))?;
            }
            screen.line(Style::Plain, TRY)?;
        } else {
            screen.line(Style::Plain, &format!("Model {} ({})", choice.model.id(), choice.why))?;
        }
        screen.line(Style::Dim, "Type a message, or /help. Ctrl-C stops a turn.")?;
        Ok(())
    }

    /// Goes on with the session that was asked for.
    async fn attach(&mut self, args: &ChatArgs) -> Result<ControlFlow<Exit>, CliError> {
        let wanted = match &args.session {
            Some(id) => Some(self.host.session(id).await?),
            None => self.host.recent(1).await?.into_iter().next(),
        };
        let Some(session) = wanted else { return Ok(ControlFlow::Continue(())) };
        if args.session.is_some() || args.go_on {
            return self.open(session).await;
        }
        if is_unfinished(&session) || session.status == SessionStatus::Paused {
            let line = format!(
                "The last session ({}) is not done: {}. /open {} goes on with it.",
                session.title.as_deref().unwrap_or("untitled"),
                status_word(session.status),
                session.key.id
            );
            self.view.screen()?.line(Style::Loud, &line)?;
        }
        Ok(ControlFlow::Continue(()))
    }

    async fn talk(&mut self) -> Result<Exit, CliError> {
        let mut leaving = false;
        loop {
            self.view.screen()?.wipe()?;
            let given = self.input.next("> ", &mut self.interrupts).await;
            let line = match given {
                Given::Line(line) => line,
                Given::End => return self.leave(Exit::Completed),
                // On a terminal the first one only clears the line.
                Given::Interrupt if leaving || !self.input.is_terminal() => {
                    return self.leave(Exit::Completed);
                }
                Given::Interrupt => {
                    leaving = true;
                    self.view.screen()?.line(Style::Dim, "Ctrl-C again, or /quit, leaves.")?;
                    continue;
                }
            };
            leaving = false;
            if line.trim().is_empty() {
                continue;
            }
            if !self.input.is_terminal() {
                self.view.screen()?.line(Style::Bold, &format!("> {}", line.trim()))?;
            }
            let went = match commands::parse(&line) {
                Some(command) => self.obey(command).await,
                None => self.say(&line).await,
            };
            match went {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(exit)) => return self.leave(exit),
                // The terminal is gone; anything else is told and the conversation goes on.
                Err(error @ CliError::Io { .. }) => return Err(error),
                Err(error) => self.view.screen()?.line(Style::Bad, &error.line())?,
            }
        }
    }

    fn leave(&mut self, exit: Exit) -> Result<Exit, CliError> {
        if let Some(key) = &self.session {
            let line =
                format!("Everything is stored: `turnbuckle chat --session {}` goes on.", key.id);
            self.view.screen()?.line(Style::Dim, &line)?;
        }
        Ok(exit)
    }

    /// Sends a message and follows what it sets in motion.
    async fn say(&mut self, text: &str) -> Result<ControlFlow<Exit>, CliError> {
        let key = match &self.session {
            Some(key) => key.clone(),
            None => {
                let key = self.host.create_session(text.trim()).await?;
                self.session = Some(key.clone());
                key
            }
        };
        let mut submission = Submission::new(text.trim()).model(self.model.clone());
        submission.author = Some(self.host.user());
        let submitted = self.host.engine.submit(&key, submission).await?;
        self.follow_all(&key, submitted).await
    }

    async fn obey(&mut self, command: Slash) -> Result<ControlFlow<Exit>, CliError> {
        match command {
            Slash::Help => self.tell(commands::HELP)?,
            Slash::Unknown(nearest) => {
                self.tell(&format!(
                    "There is no such command; did you mean {nearest}? /help lists all."
                ))?;
            }
            Slash::Incomplete(what) => self.tell(what)?,
            Slash::Sessions => {
                self.listed = self.host.recent(LISTED).await?;
                let table = session_table(&self.listed);
                self.tell(if table.is_empty() { "There are no sessions yet." } else { &table })?;
            }
            Slash::Open(which) => return self.open_named(&which).await,
            Slash::New => {
                self.session = None;
                self.tell("A new session begins with your next message.")?;
            }
            Slash::Model(None) => {
                let label = self.model_label();
                self.tell(&format!("{label}. `turnbuckle models` lists those that are known."))?;
            }
            Slash::Model(Some(name)) => self.choose_model(&name)?,
            Slash::Usage => {
                let lines = match &self.session {
                    Some(key) => usage_lines(&all_messages(&**self.host.store(), key).await?),
                    None => vec!["Nothing was said yet.".to_owned()],
                };
                self.tell(&lines.join("\n"))?;
            }
            Slash::Stop => return self.stop_waiting().await,
            Slash::Title(title) => match &self.session {
                Some(key) => {
                    self.host.store().set_title(key, &title, crate::host::now()).await?;
                    self.tell("Done.")?;
                }
                None => self.tell("The session begins with your first message.")?,
            },
            Slash::Captured => {
                let lines = match &self.session {
                    Some(key) => {
                        let found = self.host.store().captured(key, None).await?;
                        crate::captured::lines(&found)
                    }
                    None => Vec::new(),
                };
                self.tell(&if lines.is_empty() {
                    "Nothing was captured here.".to_owned()
                } else {
                    lines.join("\n")
                })?;
            }
            Slash::Quit => return Ok(ControlFlow::Break(Exit::Completed)),
        }
        Ok(ControlFlow::Continue(()))
    }

    fn tell(&mut self, text: &str) -> Result<(), CliError> {
        let screen = self.view.screen()?;
        for line in text.lines() {
            screen.line(Style::Plain, line)?;
        }
        Ok(())
    }

    fn model_label(&self) -> String {
        if is_rehearsal(&self.model) {
            return format!("{} plays: REHEARSAL, no model", self.model);
        }
        let why = if self.model == *self.host.choice.model.id() {
            &self.host.choice.why
        } else {
            "chosen here"
        };
        format!("{} answers ({why})", self.model)
    }

    /// A name without its provider is meant at the provider that answers now.
    fn choose_model(&mut self, name: &str) -> Result<(), CliError> {
        let known = choice::named(&self.host.settings, name);
        let model = known.unwrap_or_else(|| ModelRef::new(self.model.provider.clone(), name));
        if is_rehearsal(&model)
            && model != *self.host.choice.model.id()
            && self.host.providers.model(&model).is_err()
        {
            return Err(CliError::Failed(format!(
                "there is no rehearsal `{}`; name a model as provider:model",
                model.model
            )));
        }
        self.host.providers.model(&model)?;
        self.model = model;
        let label = self.model_label();
        self.tell(&label)
    }

    async fn open_named(&mut self, which: &str) -> Result<ControlFlow<Exit>, CliError> {
        let listed = which.parse::<usize>().ok().and_then(|n| self.listed.get(n.checked_sub(1)?));
        let id = listed.map_or_else(|| which.to_owned(), |session| session.key.id.to_string());
        let session = self.host.session(&id).await?;
        self.open(session).await
    }

    /// Shows what a session holds and finishes what is unfinished in it.
    async fn open(&mut self, session: Session) -> Result<ControlFlow<Exit>, CliError> {
        let key = session.key.clone();
        self.session = Some(key.clone());
        let messages = all_messages(&**self.host.store(), &key).await?;
        let titles = self.view.titles().clone();
        let screen = self.view.screen()?;
        let title = session.title.as_deref().unwrap_or("untitled");
        screen.line(Style::Bold, &format!("Session {}: {title}", key.id))?;
        let skipped = messages.len().saturating_sub(SHOWN);
        if skipped > 0 {
            screen.line(Style::Dim, &format!("({skipped} earlier messages)"))?;
        }
        for m in messages.iter().skip(skipped) {
            message::show(screen, &titles, m)?;
        }
        if is_unfinished(&session) {
            return self.take_up(&session).await;
        }
        if session.status == SessionStatus::Paused {
            return self.settle_cards(&key).await;
        }
        Ok(ControlFlow::Continue(()))
    }
}
