//! How events are written to an event stream.

use super::follow::Place;
use crate::dto::TurnEnd;
use bytes::{Bytes, BytesMut};
use serde::Serialize;
use std::fmt::Write;

/// Frames that wait to be written together.
#[derive(Debug, Default)]
pub struct Frames {
    waiting: Vec<Frame>,
    bytes: usize,
}

#[derive(Debug)]
enum Frame {
    /// An event. Where it stands is written last, when it may be known to be stored.
    Event { place: Place, json: Box<str> },
    /// Anything else, as it is written.
    Text(String),
}

/// Bytes around an event's JSON, more or less.
const AROUND: usize = 64;

impl Frames {
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many bytes wait, more or less.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// All that waits. Events up to `stored` are stored by now, and carry their number alone.
    pub fn take(&mut self, stored: u64) -> Bytes {
        let mut out = BytesMut::with_capacity(self.bytes);
        for frame in self.waiting.drain(..) {
            // Writing into memory does not fail.
            let _ = match frame {
                Frame::Event { place, json } if place.seq <= stored => {
                    write!(out, "id: {}\ndata: {json}\n\n", place.seq)
                }
                Frame::Event { place, json } => write!(out, "id: {place}\ndata: {json}\n\n"),
                Frame::Text(text) => write!(out, "{text}"),
            };
        }
        self.bytes = 0;
        out.freeze()
    }

    /// How long a client waits before it connects again.
    pub fn retry(&mut self, ms: u32) {
        self.text(format!("retry: {ms}\n\n"));
    }

    /// An event of the session. JSON on one line.
    pub fn event(&mut self, place: Place, json: &str) {
        self.bytes += json.len() + AROUND;
        self.waiting.push(Frame::Event { place, json: json.into() });
    }

    /// The answer of a streamed request.
    pub fn receipt(&mut self, receipt: &impl Serialize) {
        self.about("receipt", receipt);
    }

    /// A turn ended.
    pub fn turn_end(&mut self, end: &TurnEnd) {
        self.about("turn-end", end);
    }

    /// Somebody gave the session a title.
    pub fn title(&mut self, title: &str) {
        self.about("title", &serde_json::json!({"title": title}));
    }

    /// The session is gone.
    pub fn deleted(&mut self) {
        self.about("session-deleted", &serde_json::json!({}));
    }

    /// The server ends the stream, and the reader shall come again.
    pub fn bye(&mut self, why: &str) {
        self.about("bye", &serde_json::json!({"reason": why}));
    }

    /// A frame that is data alone. JSON on one line.
    pub fn data(&mut self, json: &str) {
        self.text(format!("data: {json}\n\n"));
    }

    /// Keeps proxies awake.
    pub fn keep_alive(&mut self) {
        self.text(": keep-alive\n\n".to_owned());
    }

    fn about(&mut self, event: &str, data: &impl Serialize) {
        // Our own types always have JSON.
        let json = serde_json::to_string(data).unwrap_or_default();
        self.text(format!("event: {event}\ndata: {json}\n\n"));
    }

    fn text(&mut self, text: String) {
        self.bytes += text.len();
        self.waiting.push(Frame::Text(text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_is_stored_when_it_is_written_carries_its_number_alone() {
        let mut frames = Frames::default();
        frames.event("7.1.t_a".parse().unwrap(), "{}");
        frames.event("8.1.t_a".parse().unwrap(), "{}");
        frames.keep_alive();
        let text = String::from_utf8(frames.take(7).to_vec()).unwrap();
        assert_eq!(text, "id: 7\ndata: {}\n\nid: 8.1.t_a\ndata: {}\n\n: keep-alive\n\n");
        assert!(frames.is_empty());
    }
}
