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

use crate::attach;
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
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use turnbuckle::Submission;
use turnbuckle::core::content::ContentPart;
use turnbuckle::core::ids::MessageId;
use turnbuckle::core::model::ModelRef;
use turnbuckle::models::rehearsal::REHEARSAL;
use turnbuckle::store::{Allowance, Posted, Session, SessionKey, SessionStatus};

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
    /// The model for the next session, when the person chose one.
    model: Option<ModelRef>,
    /// Messages that were typed at the prompt, and so are shown already.
    said: BTreeSet<MessageId>,
    /// What `/allowed` listed.
    allowed: Vec<Allowance>,
    /// What goes with the next message.
    attached: Vec<ContentPart>,
    listed: Vec<Session>,
    /// What the next Ctrl-C at the prompt does.
    next_interrupt: NextInterrupt,
}

/// What a Ctrl-C at the prompt does, by what the person was last told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextInterrupt {
    /// It clears the line, and says that another one leaves.
    Warns,
    /// It leaves, as was said when the one before it stopped a turn or cleared the line.
    Leaves,
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
    let model = host.asked_model();
    let mut chat = Chat {
        host,
        view,
        input,
        interrupts,
        session: None,
        model,
        said: BTreeSet::new(),
        allowed: Vec::new(),
        attached: Vec::new(),
        listed: Vec::new(),
        next_interrupt: NextInterrupt::Warns,
    };
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
            if let Some(model) = &self.model {
                self.host.engine.set_model(&session.key, model).await?;
            }
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
        loop {
            self.view.screen()?.wipe()?;
            let given = self.input.next("> ", &mut self.interrupts).await;
            let line = match given {
                Given::Line(line) => line,
                Given::End => return self.leave(Exit::Completed),
                Given::Interrupt
                    if self.next_interrupt == NextInterrupt::Leaves
                        || !self.input.is_terminal() =>
                {
                    return self.leave(Exit::Completed);
                }
                Given::Interrupt => {
                    self.next_interrupt = NextInterrupt::Leaves;
                    self.view.screen()?.line(Style::Dim, "Ctrl-C again, or /quit, leaves.")?;
                    continue;
                }
            };
            self.next_interrupt = NextInterrupt::Warns;
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
                let key = self.host.create_session().await?;
                self.session = Some(key.clone());
                if let Some(model) = &self.model {
                    self.host.engine.set_model(&key, model).await?;
                }
                key
            }
        };
        let submission = self.submission(text);
        let receipt = self.host.engine.post_message(&key, submission).await?;
        if let Posted::Message { message, .. } = &receipt.item().input {
            self.said.insert(message.id.clone());
        }
        let submitted = self.host.engine.work(&key);
        self.follow_all(&key, submitted).await
    }

    /// The person's message, with what they attached.
    fn submission(&mut self, text: &str) -> Submission {
        let mut submission = Submission::new(text.trim());
        submission.author = Some(self.host.user());
        let attached = std::mem::take(&mut self.attached);
        attached.into_iter().fold(submission, Submission::attach)
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
                let label = self.model_label().await?;
                self.tell(&format!("{label}. `turnbuckle models` lists those that are known."))?;
            }
            Slash::Model(Some(name)) => self.choose_model(&name).await?,
            Slash::Attach(what) => {
                let part = attach::read(&what)?;
                self.tell(&format!("With your next message: {}", attach::line(&part)))?;
                self.attached.push(part);
            }
            Slash::Usage => {
                let lines = match &self.session {
                    Some(key) => usage_lines(&all_messages(&**self.host.store(), key).await?),
                    None => vec!["Nothing was said yet.".to_owned()],
                };
                self.tell(&lines.join("\n"))?;
            }
            Slash::Stop => return self.stop_waiting().await,
            // Nothing runs that could be steered, so it is a message like any other.
            Slash::Steer(text) => return self.say(&text).await,
            Slash::Allowed => self.list_allowed().await?,
            Slash::Disallow(number) => self.disallow(number).await?,
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

    /// The model that answers here, and why.
    async fn model_label(&self) -> Result<String, CliError> {
        let default = self.host.choice.model.id();
        let (model, why) = match (&self.session, &self.model) {
            (Some(key), _) => match self.host.kept_model(key).await? {
                Some(kept) if kept == *default => (kept, self.host.choice.why.clone()),
                Some(kept) => (kept, "this session keeps it".to_owned()),
                None => (default.clone(), self.host.choice.why.clone()),
            },
            (None, Some(chosen)) => (chosen.clone(), "chosen here".to_owned()),
            (None, None) => (default.clone(), self.host.choice.why.clone()),
        };
        if is_rehearsal(&model) {
            return Ok(format!("{model} plays: REHEARSAL, no model"));
        }
        Ok(format!("{model} answers ({why})"))
    }

    /// A name without its provider is meant at the provider that answers now. The choice is the session's, from now on.
    async fn choose_model(&mut self, name: &str) -> Result<(), CliError> {
        let now = match &self.session {
            Some(key) => self.host.kept_model(key).await?,
            None => self.model.clone(),
        };
        let now = now.unwrap_or_else(|| self.host.choice.model.id().clone());
        let model = match choice::named(&self.host.settings, name) {
            Some(known) => known,
            // The one script there is goes by its provider's name alone, as it does in the configuration.
            None if name == REHEARSAL => {
                choice::rehearsed(&self.host.settings, String::new()).model.id().clone()
            }
            None => ModelRef::new(now.provider.clone(), name),
        };
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
        match &self.session {
            Some(key) => self.host.engine.set_model(key, &model).await?,
            None => self.model = Some(model),
        }
        let label = self.model_label().await?;
        self.tell(&label)
    }

    /// What the person said to be always allowed, with numbers to take it back by.
    async fn list_allowed(&mut self) -> Result<(), CliError> {
        let (tenant, user) = (self.host.settings.tenant.as_str().into(), self.host.user());
        let session = self.session.as_ref().map(|key| &key.id);
        let all = self.host.engine.allowances(&tenant, &user, session).await?;
        let lines: Vec<String> = all.iter().enumerate().map(|(n, a)| allowed_line(n, a)).collect();
        self.allowed = all;
        self.tell(&if lines.is_empty() {
            "Nothing is always allowed; `a` at an approval changes that.".to_owned()
        } else {
            lines.join("\n")
        })
    }

    async fn disallow(&mut self, number: usize) -> Result<(), CliError> {
        let meant = number.checked_sub(1).and_then(|n| self.allowed.get(n)).cloned();
        let Some(meant) = meant else {
            return self.tell("There is no such number; /allowed lists them.");
        };
        let tenant = self.host.settings.tenant.as_str().into();
        self.host.engine.take_back(&tenant, &self.host.user(), &meant.id).await?;
        self.tell(&format!("You are asked again before {} acts.", meant.tool))
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
        let default = self.host.choice.model.id().to_string();
        let screen = self.view.screen()?;
        let title = session.title.as_deref().unwrap_or("untitled");
        screen.line(Style::Bold, &format!("Session {}: {title}", key.id))?;
        if let Some(kept) = session.model.as_ref().filter(|kept| **kept != default) {
            screen.line(Style::Dim, &format!("It goes on with {kept}; /model chooses another."))?;
        }
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
            // Somebody may have answered without being there to see what came of it.
            if session.pending > 0 {
                let submitted = self.host.engine.work(&key);
                return self.follow_all(&key, submitted).await;
            }
            return self.settle_cards(&key).await;
        }
        Ok(ControlFlow::Continue(()))
    }
}

fn allowed_line(n: usize, allowance: &Allowance) -> String {
    let place = match &allowance.session {
        Some(_) => "in this session",
        None => "in all your sessions",
    };
    let tested = if allowance.args.is_empty() { "" } else { ", for some arguments" };
    format!("{:>3}  {} by {} {place}{tested}", n + 1, allowance.tool, allowance.agent)
}
