//! Stored messages as a reader sees them.

use super::markdown::Markdown;
use super::screen::{Screen, Style};
use super::view::{DIGEST, Notes, Titles, call_line, failed_line, thinking_line, title};
use super::words::{brief, one_line};
use crate::exit::outcome_word;
use std::io;
use turnbuckle::core::message::{
    ApprovalCard, AssistantMessage, CardStatus, Message, MessageState, SystemBody,
};
use turnbuckle::core::outcome::Outcome;
use turnbuckle::core::part::{InputKind, Part, ToolCallPart, ToolCallStatus};

/// Prints a message.
///
/// # Errors
/// When the reader is gone.
pub fn show(screen: &mut Screen, titles: &Titles, message: &Message) -> io::Result<()> {
    match message {
        Message::User(m) => screen.line(Style::Bold, &format!("> {}", m.content.outline())),
        Message::Assistant(m) => show_assistant(screen, titles, m),
        Message::System(m) => match &m.body {
            SystemBody::Note { text } => screen.line(Style::Dim, &format!("  note: {text}")),
            SystemBody::Approval(card) => screen.line(Style::Dim, &card_line(card)),
        },
    }
}

/// Prints what the assistant said and did.
///
/// # Errors
/// When the reader is gone.
pub fn show_assistant(
    screen: &mut Screen,
    titles: &Titles,
    message: &AssistantMessage,
) -> io::Result<()> {
    show_parts(screen, titles, &message.parts, 0)?;
    match &message.state {
        MessageState::Finished { outcome: Outcome::Completed } => Ok(()),
        MessageState::Finished { outcome } => {
            screen.line(Style::Bad, &format!("({})", outcome_word(outcome)))
        }
        MessageState::Paused => screen.line(Style::Dim, "(waits for approval)"),
        MessageState::Running => screen.line(Style::Dim, "(unfinished)"),
    }
}

fn show_parts(
    screen: &mut Screen,
    titles: &Titles,
    parts: &[Part],
    depth: usize,
) -> io::Result<()> {
    for part in parts {
        match part {
            Part::Text(p) if depth == 0 => {
                let mut markdown = Markdown::new(screen.ansi());
                let text = markdown.push(&p.text) + &markdown.finish();
                screen.raw(&text)?;
                screen.end_line()?;
            }
            Part::Thinking(p) if depth == 0 => {
                screen.line(Style::Dim, &thinking_line(&p.text, None))?;
            }
            Part::ToolCall(call) => {
                let (style, line) = line_of(titles, call);
                screen.line(style, &format!("{}  {line}", "  ".repeat(depth)))?;
                if let Some(child) = &call.child {
                    show_parts(screen, titles, &child.parts, depth + 1)?;
                }
            }
            Part::Input(p) if p.kind == InputKind::Steering => {
                screen.line(Style::Bold, &format!("> {}", p.content.outline()))?;
            }
            Part::Text(_) | Part::Thinking(_) | Part::Input(_) | Part::Native(_) => {}
        }
    }
    Ok(())
}

fn line_of(titles: &Titles, call: &ToolCallPart) -> (Style, String) {
    let title = title(titles, call.name.as_str());
    let ms = match (call.started_at, call.ended_at) {
        (Some(start), Some(end)) => Some(end.since(start)),
        _ => None,
    };
    if let Some(error) = &call.error {
        return (Style::Bad, failed_line(&title, error, ms));
    }
    let notes = Notes { captured: call.captured, cached: call.cached };
    match call.status {
        ToolCallStatus::AwaitingApproval => {
            (Style::Loud, call_line('?', &title, Some("waits for approval"), None, notes))
        }
        ToolCallStatus::Running => (Style::Dim, call_line('…', &title, None, None, notes)),
        _ => {
            let digest = call.digest.as_deref().map(|d| brief(d, DIGEST));
            (Style::Good, call_line('✓', &title, digest.as_deref(), ms, notes))
        }
    }
}

fn card_line(card: &ApprovalCard) -> String {
    let status = match card.status {
        CardStatus::Pending => "pending",
        CardStatus::Approved => "approved",
        CardStatus::Rejected => "rejected",
        CardStatus::Expired => "expired",
        CardStatus::Superseded => "superseded",
        CardStatus::Cancelled => "cancelled",
    };
    let mut line = format!("  [{status}] {}", card.title);
    if let Some(decided) = &card.decided {
        if let Some(by) = &decided.by {
            line.push_str(&format!(" by {by}"));
        }
        if decided.amendment.is_some() {
            line.push_str(", with changes");
        }
        if decided.remember.is_some() {
            line.push_str(", from now on");
        }
        if let Some(reason) = &decided.reason {
            line.push_str(&format!(": {}", one_line(reason, DIGEST)));
        }
    }
    line
}
