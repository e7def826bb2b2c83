//! A turn's events as they come: text streams, tools and thinking are one line each.

use super::markdown::Markdown;
use super::screen::{Screen, Style};
use super::words::{brief, elapsed, model_failure, one_line, plain};
use crate::exit::{exhausted_word, turn_failure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use turnbuckle::core::error::{ToolError, ToolErrorCode};
use turnbuckle::core::event::{CallProgress, CallResult, Event, EventKind};
use turnbuckle::core::ids::{CallId, MessageId};
use turnbuckle::core::part::{InputKind, Part};
use turnbuckle::core::time::Timestamp;

/// Characters of a digest on a tool's line.
pub const DIGEST: usize = 100;
/// Characters of the thinking's beginning.
const THOUGHT: usize = 72;

/// Titles of tools by name.
pub type Titles = BTreeMap<String, String>;

/// Renders events.
pub struct View {
    screen: Screen,
    titles: Titles,
    markdown: Markdown,
    text: Option<Streaming>,
    thinking: Option<Thinking>,
    calls: BTreeMap<CallId, Call>,
}

/// The text part that is being printed.
struct Streaming {
    message: MessageId,
    part: u32,
    shown: String,
}

struct Thinking {
    message: MessageId,
    part: u32,
    text: String,
    since: Timestamp,
    last: Timestamp,
}

struct Call {
    title: String,
    depth: usize,
    since: Timestamp,
}

impl View {
    /// Renders to a screen.
    pub fn new(screen: Screen, titles: Titles) -> Self {
        let markdown = Markdown::new(screen.ansi());
        Self { screen, titles, markdown, text: None, thinking: None, calls: BTreeMap::new() }
    }

    /// The screen, for what is printed between events. What is streaming is ended first.
    ///
    /// # Errors
    /// When the reader is gone.
    pub fn screen(&mut self) -> io::Result<&mut Screen> {
        self.settle()?;
        Ok(&mut self.screen)
    }

    /// Titles of tools.
    pub fn titles(&self) -> &Titles {
        &self.titles
    }

    /// Shows an event.
    ///
    /// # Errors
    /// When the reader is gone.
    pub fn show(&mut self, event: &Event) -> io::Result<()> {
        use EventKind as E;
        let depth = event.agent.matches('/').count();
        match &event.kind {
            E::TextDelta { message, part, text, .. } if depth == 0 => {
                self.stream_text(message, *part, text)
            }
            E::TextReplaced { message, part, text } if depth == 0 => {
                self.replace_text(message, *part, text)
            }
            E::ThinkingDelta { message, part, text, .. } if depth == 0 => {
                self.think(event.at, message, *part, text)
            }
            E::PartsDiscarded { reason, .. } => {
                self.note(Style::Dim, &format!("  (what came of this answer is void: {reason})"))
            }
            E::ToolCallStarted { call, name, .. } => {
                self.settle()?;
                let title = title(&self.titles, name.as_str());
                self.calls.insert(call.clone(), Call { title, depth, since: event.at });
                self.show_running("")
            }
            E::ToolCallStatus { call, status, .. } => {
                if let Some(known) = self.calls.get_mut(call) {
                    known.since = event.at;
                }
                match status {
                    CallProgress::Running | CallProgress::Ready => self.show_running(""),
                    CallProgress::AwaitingApproval => Ok(()),
                }
            }
            E::ToolCallProgress { call, data, .. } => self.progress(call, data),
            E::ToolCallCompleted { call, result, .. } => self.completed(event.at, call, result),
            E::ToolCallFailed { call, error, .. } => self.failed(event.at, call, error),
            E::RouteSelected { route, reasoning } => {
                let why = reasoning.as_deref().map(|r| format!(": {r}")).unwrap_or_default();
                let line = format!("  → {route}{why}");
                self.note(Style::Dim, &one_line(&line, DIGEST))
            }
            E::ContextCompacted { note, before, after } => {
                let line = format!(
                    "  (history shortened for the model, {before} to {after} tokens: {note})"
                );
                self.note(Style::Dim, &line)
            }
            E::ContextOverflowed { cap } => self.note(
                Style::Dim,
                &format!("  (the turn's variables grew over {cap} bytes and were dropped)"),
            ),
            E::PlanUpdated { plan } => self.plan(plan),
            E::TaskStarted { task, reference, .. } => {
                self.note(Style::Dim, &format!("  ↗ background task {task} {reference}"))
            }
            E::ModelRetry { attempt, delay_ms, error } => {
                let line = format!(
                    "  ! {}: attempt {attempt} in {}",
                    model_failure(error),
                    elapsed(*delay_ms)
                );
                self.note(Style::Bad, &line)
            }
            E::ModelReplaced { from, to, reason } => {
                self.note(Style::Loud, &format!("  ! {from} is gone ({reason}); {to} answers now"))
            }
            E::PartAdded { value, .. } if depth == 0 => match &**value {
                Part::Input(input) if input.kind == InputKind::Steering => {
                    self.note(Style::Bold, &format!("> {}", input.content.outline()))
                }
                _ => Ok(()),
            },
            E::TurnExhausted { reason, .. } => self.note(
                Style::Bad,
                &format!("The turn ended at a limit: {}.", exhausted_word(*reason)),
            ),
            E::TurnError { error, .. } => {
                self.note(Style::Bad, &format!("The turn failed: {}", turn_failure(error)))
            }
            E::TurnAborted { .. } => self.note(Style::Bad, "Stopped."),
            E::TurnCompleted { .. } | E::TurnPaused { .. } => self.settle(),
            _ => Ok(()),
        }
    }

    /// Prints a line in the middle of whatever streams, which goes on after it.
    ///
    /// # Errors
    /// When the reader is gone.
    pub fn aside(&mut self, style: Style, text: &str) -> io::Result<()> {
        let streaming = self.text.take();
        if streaming.is_some() {
            let rest = self.markdown.finish();
            self.screen.raw(&rest)?;
        }
        let done = self.screen.line(style, text);
        self.text = streaming;
        done
    }

    fn note(&mut self, style: Style, text: &str) -> io::Result<()> {
        self.settle()?;
        self.screen.line(style, text)
    }

    /// Ends what is streaming.
    fn settle(&mut self) -> io::Result<()> {
        if self.text.take().is_some() {
            let rest = self.markdown.finish();
            self.screen.raw(&rest)?;
            self.screen.end_line()?;
        }
        if let Some(thinking) = self.thinking.take() {
            let line = thinking_line(&thinking.text, Some(thinking.last.since(thinking.since)));
            self.screen.line(Style::Dim, &line)?;
        }
        self.screen.wipe()
    }

    fn stream_text(&mut self, message: &MessageId, part: u32, text: &str) -> io::Result<()> {
        let same = self.text.as_ref().is_some_and(|t| t.message == *message && t.part == part);
        if !same {
            self.settle()?;
            let shown = String::new();
            self.text = Some(Streaming { message: message.clone(), part, shown });
        }
        if let Some(streaming) = &mut self.text {
            streaming.shown.push_str(text);
        }
        let out = self.markdown.push(text);
        self.screen.raw(&out)
    }

    fn replace_text(&mut self, message: &MessageId, part: u32, text: &str) -> io::Result<()> {
        let rest = self
            .text
            .as_ref()
            .filter(|t| t.message == *message && t.part == part)
            .and_then(|t| text.strip_prefix(t.shown.as_str()))
            .map(str::to_owned);
        match rest {
            Some(rest) => self.stream_text(message, part, &rest),
            None => {
                self.note(Style::Dim, "  (in its final form:)")?;
                self.stream_text(message, part, text)
            }
        }
    }

    fn think(
        &mut self,
        at: Timestamp,
        message: &MessageId,
        part: u32,
        text: &str,
    ) -> io::Result<()> {
        let same = self.thinking.as_ref().is_some_and(|t| t.message == *message && t.part == part);
        if !same {
            self.settle()?;
            let message = message.clone();
            self.thinking =
                Some(Thinking { message, part, text: String::new(), since: at, last: at });
        }
        if let Some(thinking) = &mut self.thinking {
            thinking.text.push_str(text);
            thinking.last = at;
            let tail: String = thinking.text.chars().rev().take(THOUGHT).collect();
            let tail: String = tail.chars().rev().collect();
            self.screen.status(&format!("  ∴ {tail}"))?;
        }
        Ok(())
    }

    fn show_running(&mut self, detail: &str) -> io::Result<()> {
        let titles: Vec<&str> = self.calls.values().map(|c| c.title.as_str()).collect();
        if titles.is_empty() {
            return Ok(());
        }
        self.screen.status(&format!("  … {}{detail}", titles.join(", ")))
    }

    fn progress(&mut self, call: &CallId, data: &Value) -> io::Result<()> {
        let said = brief(data, DIGEST);
        if self.screen.is_live() {
            return self.show_running(&format!(": {said}"));
        }
        let Some(known) = self.calls.get(call) else { return Ok(()) };
        let line = format!("{}  … {}: {said}", "  ".repeat(known.depth), known.title);
        self.note(Style::Dim, &line)
    }

    fn completed(&mut self, at: Timestamp, call: &CallId, result: &CallResult) -> io::Result<()> {
        let (title, depth, ms) = self.take_call(at, call);
        let digest = result.digest.as_deref().map(|d| brief(d, DIGEST));
        let notes = Notes { captured: result.captured, cached: result.cached };
        let line = call_line('✓', &title, digest.as_deref(), Some(ms), notes);
        self.note(Style::Good, &indent(&line, depth))?;
        for prompt in suggestions(&result.output) {
            self.screen.line(Style::Dim, &indent(&format!("› {prompt}"), depth + 1))?;
        }
        self.show_running("")
    }

    fn failed(&mut self, at: Timestamp, call: &CallId, error: &ToolError) -> io::Result<()> {
        let (title, depth, ms) = self.take_call(at, call);
        let line = failed_line(&title, error, Some(ms));
        self.note(Style::Bad, &indent(&line, depth))?;
        self.show_running("")
    }

    /// A call that settles; one that was pending when the turn was taken up again is known by its id alone.
    fn take_call(&mut self, at: Timestamp, call: &CallId) -> (String, usize, u64) {
        match self.calls.remove(call) {
            Some(c) => (c.title, c.depth, at.since(c.since)),
            None => ("Call".to_owned(), 0, 0),
        }
    }

    /// Makes a call known that began before the view did.
    pub fn know_call(&mut self, call: &CallId, name: &str, since: Timestamp) {
        let title = title(&self.titles, name);
        self.calls.entry(call.clone()).or_insert(Call { title, depth: 0, since });
    }

    fn plan(&mut self, plan: &Value) -> io::Result<()> {
        self.settle()?;
        for line in plan_lines(plan) {
            self.screen.line(Style::Plain, &line)?;
        }
        Ok(())
    }
}

/// What a tool that suggests replies puts into the person's mouth.
fn suggestions(output: &Value) -> impl Iterator<Item = String> + '_ {
    let prompts = output.get("prompts").and_then(Value::as_array);
    prompts.into_iter().flatten().filter_map(Value::as_str).map(|p| one_line(p, DIGEST))
}

fn indent(line: &str, depth: usize) -> String {
    format!("{}  {line}", "  ".repeat(depth))
}

/// A tool's title for people.
pub fn title(titles: &Titles, name: &str) -> String {
    titles.get(name).cloned().unwrap_or_else(|| {
        let words = name.replace(['_', '-'], " ");
        let mut letters = words.chars();
        letters.next().map_or_else(String::new, |c| c.to_uppercase().chain(letters).collect())
    })
}

/// What is remarkable about a result.
#[derive(Clone, Copy, Debug, Default)]
pub struct Notes {
    /// The action was captured.
    pub captured: bool,
    /// The result came from the turn's cache.
    pub cached: bool,
}

/// A finished call on one line.
pub fn call_line(
    mark: char,
    title: &str,
    digest: Option<&str>,
    ms: Option<u64>,
    notes: Notes,
) -> String {
    let mut line = format!("{mark} {title}");
    if notes.captured {
        line.push_str(" · captured, not carried out");
    }
    if let Some(digest) = digest.filter(|d| !d.is_empty()) {
        line.push_str(" · ");
        line.push_str(digest);
    }
    match ms {
        _ if notes.cached => line.push_str(" · known already"),
        Some(ms) => line.push_str(&format!(" · {}", elapsed(ms))),
        None => {}
    }
    line
}

/// A call without a result on one line.
pub fn failed_line(title: &str, error: &ToolError, ms: Option<u64>) -> String {
    use ToolErrorCode::*;
    let (mark, word) = match error.code {
        Rejected => ('–', "rejected"),
        Superseded => ('–', "superseded by a newer message"),
        Expired => ('–', "nobody decided in time"),
        Cancelled => ('–', "stopped"),
        _ => ('✗', "failed"),
    };
    // How long a person took to say no is no time of the tool's.
    let ms = ms.filter(|_| mark == '✗');
    let reason = one_line(&error.message, DIGEST);
    call_line(mark, title, Some(&format!("{word}: {reason}")), ms, Notes::default())
}

/// Thinking on one line.
pub fn thinking_line(text: &str, ms: Option<u64>) -> String {
    let time = ms.map(|ms| format!(" for {}", elapsed(ms))).unwrap_or_default();
    format!("  ∴ thought{time}: {}", one_line(text, THOUGHT))
}

/// A plan as a list with boxes, whatever its steps are called.
fn plan_lines(plan: &Value) -> Vec<String> {
    let steps = match plan {
        Value::Array(steps) => Some(steps),
        Value::Object(map) => map.values().find_map(Value::as_array),
        _ => None,
    };
    let Some(steps) = steps else { return vec![format!("  plan: {}", brief(plan, DIGEST))] };
    let text = |step: &Value| {
        let named = ["title", "text", "step", "name", "description"];
        let found = named.iter().find_map(|key| step.get(key).and_then(Value::as_str));
        found.map_or_else(|| plain(step), str::to_owned)
    };
    let mark = |step: &Value| {
        let done = step.get("done").and_then(Value::as_bool) == Some(true);
        match step.get("status").and_then(Value::as_str) {
            _ if done => 'x',
            Some("done" | "completed" | "complete") => 'x',
            Some("active" | "in_progress" | "running" | "doing") => '>',
            Some("failed" | "blocked" | "skipped" | "cancelled") => '-',
            _ => ' ',
        }
    };
    steps
        .iter()
        .map(|step| format!("  [{}] {}", mark(step), one_line(&text(step), DIGEST)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_of_calls() {
        let titles = Titles::from([("find_threads".to_owned(), "Find threads".to_owned())]);
        assert_eq!(title(&titles, "find_threads"), "Find threads");
        assert_eq!(title(&titles, "create_task"), "Create task");
        let line = call_line('✓', "Find threads", Some("3 threads"), Some(120), Notes::default());
        assert_eq!(line, "✓ Find threads · 3 threads · 0.1 s");
        let captured = Notes { captured: true, cached: false };
        assert_eq!(
            call_line('✓', "Send", None, None, captured),
            "✓ Send · captured, not carried out"
        );
        let error = ToolError::new(ToolErrorCode::Rejected, "not\nnow");
        assert_eq!(failed_line("Send", &error, Some(0)), "– Send · rejected: not now");
    }

    #[test]
    fn plans_have_boxes() {
        let plan = json!({"steps": [{"title": "Look", "status": "done"}, {"title": "Answer", "status": "in_progress"}, "Rest"]});
        assert_eq!(plan_lines(&plan), ["  [x] Look", "  [>] Answer", "  [ ] Rest"]);
    }
}
