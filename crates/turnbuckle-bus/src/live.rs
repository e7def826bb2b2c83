//! Events on their way to many readers, each rendered once.

use std::sync::{Arc, OnceLock};
use turnbuckle_core::event::{Event, EventKind};

/// Bytes of an event's envelope, more or less.
const ENVELOPE: usize = 250;

/// Events of one session, in order. However many read them, their JSON is made once, when the first one asks.
#[derive(Debug)]
pub struct Live {
    events: Arc<[Event]>,
    lines: OnceLock<Box<[Box<str>]>>,
}

impl Live {
    /// Events to tell. Whoever keeps them to tell them again keeps the events alone: their JSON is larger than they are.
    pub fn new(events: impl Into<Arc<[Event]>>) -> Self {
        Self { events: events.into(), lines: OnceLock::new() }
    }

    /// Events that came as JSON.
    #[cfg(feature = "remote")]
    pub(crate) fn with_lines(events: Vec<Event>, lines: Box<[Box<str>]>) -> Self {
        Self { events: events.into(), lines: OnceLock::from(lines) }
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

    /// About how much memory they take.
    pub(crate) fn weight(&self) -> usize {
        if let Some(lines) = self.lines.get() {
            return lines.iter().map(|line| line.len()).sum();
        }
        let delta = |event: &Event| match &event.kind {
            EventKind::TextDelta { text, .. }
            | EventKind::ThinkingDelta { text, .. }
            | EventKind::ToolCallArgsDelta { text, .. } => Some(text.len() + ENVELOPE),
            _ => None,
        };
        match self.events.iter().map(delta).sum() {
            Some(weight) => weight,
            None => self.lines().iter().map(|line| line.len()).sum(),
        }
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
