//! A card and the answer to it.

use super::edit::{self, Draft, Edited};
use super::input::{Given, Input};
use crate::config::Settings;
use crate::error::CliError;
use crate::signals::Interrupts;
use crate::term::words::plain;
use crate::term::{Screen, Style};
use serde_json::{Map, Value};
use std::io;
use turnbuckle::core::allowance::{Remember, RememberFor};
use turnbuckle::core::machine::Decision;
use turnbuckle::core::message::{ApprovalCard, Asks};

/// What becomes of a card.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// It is decided.
    Decide(Decision),
    /// The whole turn stops.
    Stop,
    /// The same by Ctrl-C, of which a second one quits.
    Interrupt,
    /// Not now: the card stays.
    Later,
}

/// What asking needs.
pub struct Asking<'a> {
    /// Where the card is shown.
    pub screen: &'a mut Screen,
    /// Where answers come from.
    pub input: &'a mut Input,
    /// Ctrl-C.
    pub interrupts: &'a mut Interrupts,
    /// What is configured.
    pub settings: &'a Settings,
}

impl Asking<'_> {
    /// Shows a card and asks until there is an answer.
    ///
    /// # Errors
    /// When the terminal or an edited file fails.
    pub async fn ask(&mut self, card: &ApprovalCard) -> Result<Answer, CliError> {
        show(self.screen, card)?;
        let fields = edit::fields(card);
        let mut changes: Map<String, Value> = Map::new();
        let mut draft = None;
        loop {
            self.screen.line(Style::Bold, &choices(card, &fields, &changes))?;
            let line = match self.input.answer("? ", self.interrupts).await {
                Given::Line(line) => line,
                Given::Interrupt => return Ok(Answer::Interrupt),
                Given::End => return Ok(Answer::Later),
            };
            let line = line.trim();
            if !self.input.is_terminal() {
                self.screen.line(Style::Plain, &format!("? {line}"))?;
            }
            let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let rest = Some(rest.trim().to_owned()).filter(|r| !r.is_empty());
            match word.to_ascii_lowercase().as_str() {
                "y" | "yes" if card.asks == Asks::Decision => {
                    let amendment = (!changes.is_empty()).then(|| Value::Object(changes).into());
                    return Ok(Answer::Decide(Decision::Approve {
                        amendment,
                        reason: rest,
                        remember: None,
                    }));
                }
                "a" | "always" if card.asks == Asks::Decision => {
                    let Some(scope) = reach(rest.as_deref()) else { continue };
                    let amendment = (!changes.is_empty()).then(|| Value::Object(changes).into());
                    return Ok(Answer::Decide(Decision::Approve {
                        amendment,
                        reason: None,
                        remember: Some(Remember::of(scope)),
                    }));
                }
                "n" | "no" => {
                    let reason = match rest {
                        Some(reason) => Some(reason),
                        None => self.reason().await,
                    };
                    return Ok(Answer::Decide(Decision::Reject { reason }));
                }
                "e" | "edit" if !fields.is_empty() => {
                    match self.edit(card, &fields, &changes, draft.as_ref()).await? {
                        Some(Edited::Changes(edited)) => {
                            (changes, draft) = (edited, None);
                            self.show_changes(card, &changes)?;
                        }
                        Some(Edited::Draft(left)) => {
                            self.screen.line(Style::Bad, &left.problem)?;
                            let line = "  It is not used; e opens it again as you left it.";
                            self.screen.line(Style::Dim, line)?;
                            draft = Some(left);
                        }
                        None => {}
                    }
                }
                "/stop" => return Ok(Answer::Stop),
                "/quit" | "/exit" => return Ok(Answer::Later),
                _ => {}
            }
        }
    }

    /// Only a person at a terminal is asked for a reason; a script gives it with its `n`.
    async fn reason(&mut self) -> Option<String> {
        if !self.input.is_terminal() {
            return None;
        }
        match self.input.answer("reason (or nothing): ", self.interrupts).await {
            Given::Line(reason) if !reason.trim().is_empty() => Some(reason.trim().to_owned()),
            _ => None,
        }
    }

    /// What came of the editing; `None` when nothing did.
    async fn edit(
        &mut self,
        card: &ApprovalCard,
        fields: &[edit::Field],
        before: &Map<String, Value>,
        draft: Option<&Draft>,
    ) -> Result<Option<Edited>, CliError> {
        let mut current = card.args.as_object().cloned().unwrap_or_default();
        current.extend(before.clone());
        let Some(command) = edit::editor(self.settings, self.input.is_terminal()) else {
            let Some(edited) = self.by_lines(fields, &current).await? else { return Ok(None) };
            let changes = edit::changes(card, fields, edited);
            return match edit::check(card, &changes) {
                Ok(()) => Ok(Some(Edited::Changes(changes))),
                Err(problem) => self.nothing(&problem),
            };
        };
        let editing = edit::in_editor(&command, card, fields, &current, draft);
        match self.interrupts.left_to(editing).await {
            Ok(edited) => Ok(Some(edited)),
            Err(problem) => self.nothing(&problem),
        }
    }

    /// Nothing came of the editing, and why.
    fn nothing(&mut self, problem: &str) -> Result<Option<Edited>, CliError> {
        self.screen.line(Style::Bad, problem)?;
        Ok(None)
    }

    async fn by_lines(
        &mut self,
        fields: &[edit::Field],
        current: &Map<String, Value>,
    ) -> Result<Option<Map<String, Value>>, CliError> {
        let mut edited = current.clone();
        self.screen.line(Style::Dim, "An empty line keeps a value; \\n is a line end.")?;
        for field in fields {
            let now = current.get(&field.name).map(plain).unwrap_or_default();
            let question = format!("{} [{}]: ", field.name, now.replace('\n', "\\n"));
            if !self.input.is_terminal() {
                self.screen.line(Style::Plain, &question)?;
            }
            loop {
                match self.input.answer(&question, self.interrupts).await {
                    Given::Line(line) if line.trim().is_empty() => break,
                    Given::Line(line) => match field.parse(line.trim()) {
                        Ok(value) => {
                            edited.insert(field.name.clone(), value);
                            break;
                        }
                        Err(problem) => self.screen.line(Style::Bad, &problem)?,
                    },
                    Given::Interrupt | Given::End => return Ok(None),
                }
            }
        }
        Ok(Some(edited))
    }

    fn show_changes(
        &mut self,
        card: &ApprovalCard,
        changes: &Map<String, Value>,
    ) -> io::Result<()> {
        if changes.is_empty() {
            return self.screen.line(Style::Dim, "  Nothing is changed.");
        }
        for (name, value) in changes {
            let old = card.args.get(name).map(plain).unwrap_or_default();
            for line in old.lines() {
                self.screen.line(Style::Bad, &format!("  - {name}: {line}"))?;
            }
            for line in plain(value).lines() {
                self.screen.line(Style::Good, &format!("  + {name}: {line}"))?;
            }
        }
        Ok(())
    }
}

/// How far an "always" reaches; `None` when that is not clear.
fn reach(said: Option<&str>) -> Option<RememberFor> {
    match said {
        None | Some("session" | "here") => Some(RememberFor::Session),
        Some("me" | "user" | "everywhere") => Some(RememberFor::User),
        Some(_) => None,
    }
}

/// Whether a line can only be meant for a card, so that one that comes before its card waits for it.
pub fn is_answer(line: &str) -> bool {
    let line = line.trim().to_ascii_lowercase();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((&line, ""));
    match word {
        "y" | "n" => true,
        "a" | "always" => rest.is_empty() || reach(Some(rest.trim())).is_some(),
        "yes" | "no" | "e" | "edit" => rest.is_empty(),
        _ => false,
    }
}

/// Shows what is asked: the tool, every argument in full, and which may be changed.
///
/// # Errors
/// When the reader is gone.
pub fn show(screen: &mut Screen, card: &ApprovalCard) -> io::Result<()> {
    screen.gap()?;
    let what = match card.asks {
        Asks::Decision => "Approval needed",
        Asks::ClientResult => "A front end is asked (this terminal cannot answer it)",
    };
    screen.line(Style::Loud, &format!("┌ {what}: {} ({})", card.title, card.tool))?;
    for line in card.reason.iter().flat_map(|r| r.lines()) {
        screen.line(Style::Plain, &format!("│ {line}"))?;
    }
    let editable = edit::fields(card);
    match card.args.as_object() {
        Some(args) if args.is_empty() => screen.line(Style::Plain, "│ no arguments")?,
        Some(args) => {
            for (name, value) in args {
                let star = if editable.iter().any(|f| f.name == *name) { "*" } else { "" };
                show_argument(screen, &format!("{name}{star}"), value)?;
            }
        }
        None => screen.line(Style::Plain, &format!("│ {}", plain(&card.args)))?,
    }
    let missing: Vec<&str> = editable
        .iter()
        .map(|f| f.name.as_str())
        .filter(|name| card.args.get(name).is_none())
        .collect();
    if !missing.is_empty() {
        screen.line(Style::Dim, &format!("│ can be added: {}", missing.join(", ")))?;
    }
    let note = if editable.is_empty() { "└" } else { "└ * can be edited" };
    screen.line(Style::Loud, note)
}

fn show_argument(screen: &mut Screen, name: &str, value: &Value) -> io::Result<()> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Object(_) | Value::Array(_) => {
            serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
        }
        other => other.to_string(),
    };
    let mut lines = text.lines();
    match (lines.next(), text.lines().count()) {
        (first, 0 | 1) => {
            screen.line(Style::Plain, &format!("│ {name}: {}", first.unwrap_or_default()))
        }
        _ => {
            screen.line(Style::Plain, &format!("│ {name}:"))?;
            for line in text.lines() {
                screen.line(Style::Plain, &format!("│     {line}"))?;
            }
            Ok(())
        }
    }
}

fn choices(card: &ApprovalCard, fields: &[edit::Field], changes: &Map<String, Value>) -> String {
    let mut choices = Vec::new();
    if card.asks == Asks::Decision {
        choices.push(if changes.is_empty() {
            "y carries it out"
        } else {
            "y carries it out with the changes"
        });
        choices.push("a allows it always in this session (a me: in all of yours)");
    }
    choices.push("n [REASON] rejects it");
    if !fields.is_empty() {
        choices.push("e edits it first");
    }
    choices.push("/stop stops the turn");
    choices.push("/quit decides later");
    format!("{}?", choices.join(" · "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_from_messages() {
        for answer in ["y", " Y ", "y go ahead", "n too late", "e", "a", "always", "a me", "no"] {
            assert!(is_answer(answer), "{answer}");
        }
        for message in ["yes, and then?", "a customer asks", "no idea", "edit it", "/stop", ""] {
            assert!(!is_answer(message), "{message}");
        }
    }

    #[test]
    fn always_reaches_no_further_than_said() {
        assert_eq!(reach(None), Some(RememberFor::Session));
        assert_eq!(reach(Some("me")), Some(RememberFor::User));
        assert_eq!(reach(Some("please")), None);
    }
}
