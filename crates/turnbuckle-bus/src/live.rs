//! Events on their way to many readers, each rendered once.

use std::io::Write;
use std::sync::OnceLock;
use turnbuckle_core::event::{Event, EventKind};

/// Bytes of an event's envelope, more or less.
const ENVELOPE: usize = 250;

/// Events of one session, in order. However many read them, their JSON is made once, when the first one asks.
#[derive(Debug)]
pub struct Live {
    events: Box<[Event]>,
    lines: OnceLock<Box<[Box<str>]>>,
    weight: OnceLock<usize>,
}

impl Live {
    /// Events to tell. Whoever keeps them to tell them again keeps the events alone: their JSON is larger than they are.
    pub fn new(events: impl Into<Box<[Event]>>) -> Self {
        Self { events: events.into(), lines: OnceLock::new(), weight: OnceLock::new() }
    }

    /// Events that came as JSON.
    #[cfg(feature = "remote")]
    pub(crate) fn with_lines(events: Vec<Event>, lines: Box<[Box<str>]>) -> Self {
        Self { events: events.into(), lines: OnceLock::from(lines), weight: OnceLock::new() }
    }

    /// The events.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Each event as one line of JSON. An event that has no JSON is an empty line; there is none such.
    pub fn lines(&self) -> &[Box<str>] {
        self.lines.get_or_init(|| {
            let line = |event| serde_json::to_string(event).unwrap_or_default().into_boxed_str();
            self.events.iter().map(line).collect()
        })
    }

    /// About how much memory they take. Their JSON is not made for that: it is made when they are read, so that it does not lie
    /// beside them while they wait.
    pub(crate) fn weight(&self) -> usize {
        *self.weight.get_or_init(|| match self.lines.get() {
            Some(lines) => lines.iter().map(|line| line.len()).sum(),
            None => self.events.iter().map(weight_of).sum(),
        })
    }
}

fn weight_of(event: &Event) -> usize {
    match &event.kind {
        EventKind::TextDelta { text, .. }
        | EventKind::ThinkingDelta { text, .. }
        | EventKind::ToolCallArgsDelta { text, .. } => text.len() + ENVELOPE,
        _ => {
            let mut bytes = Bytes(0);
            // Counting does not fail, and an event has JSON.
            let _ = serde_json::to_writer(&mut bytes, event);
            bytes.0
        }
    }
}

/// Counts what is written.
struct Bytes(usize);

impl Write for Bytes {
    fn write(&mut self, more: &[u8]) -> std::io::Result<usize> {
        self.0 += more.len();
        Ok(more.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl PartialEq for Live {
    fn eq(&self, other: &Self) -> bool {
        self.events == other.events
    }
}

impl From<Event> for Live {
    fn from(event: Event) -> Self {
        Self::new([event])
    }
}
