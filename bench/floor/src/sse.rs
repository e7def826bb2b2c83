//! The server's event stream as a client reads it.

use crate::http::Error;
use memchr::memchr;
use serde::Deserialize;
use std::borrow::Cow;

/// What a turn said.
#[derive(Debug, Default)]
pub struct Said {
    pub text: String,
    pub events: u64,
    pub tool_calls: u64,
    /// Whether its end was told.
    pub completed: bool,
    last: u64,
}

#[derive(Deserialize)]
struct Told<'a> {
    seq: u64,
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    text: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct TurnEnd<'a> {
    #[serde(borrow)]
    outcome: Outcome<'a>,
}

#[derive(Deserialize)]
struct Outcome<'a> {
    #[serde(borrow)]
    status: Cow<'a, str>,
}

impl Said {
    fn event(&mut self, data: &[u8]) -> Result<(), Error> {
        let told: Told<'_> = serde_json::from_slice(data)?;
        if self.last != 0 && told.seq != self.last + 1 {
            return Err(format!("event {} follows event {}", told.seq, self.last).into());
        }
        self.last = told.seq;
        self.events += 1;
        match (&*told.kind, told.text) {
            ("text-delta", Some(text)) => self.text.push_str(&text),
            ("tool-call-completed", _) => self.tool_calls += 1,
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, data: &[u8]) -> Result<(), Error> {
        let end: TurnEnd<'_> = serde_json::from_slice(data)?;
        if end.outcome.status != "completed" {
            return Err(format!("the turn ended as {}", String::from_utf8_lossy(data)).into());
        }
        self.completed = true;
        Ok(())
    }
}

/// Splits the bytes into frames.
#[derive(Default)]
pub struct Frames {
    rest: Vec<u8>,
    /// The name of the frame that is being read; empty for an event of the session.
    name: Vec<u8>,
}

impl Frames {
    pub fn feed(&mut self, bytes: &[u8], said: &mut Said) -> Result<(), Error> {
        let mut bytes = bytes;
        if !self.rest.is_empty() {
            let Some(end) = memchr(b'\n', bytes) else {
                self.rest.extend_from_slice(bytes);
                return Ok(());
            };
            let mut line = std::mem::take(&mut self.rest);
            line.extend_from_slice(&bytes[..end]);
            self.line(&line, said)?;
            bytes = &bytes[end + 1..];
        }
        while let Some(end) = memchr(b'\n', bytes) {
            self.line(&bytes[..end], said)?;
            bytes = &bytes[end + 1..];
        }
        self.rest.extend_from_slice(bytes);
        Ok(())
    }

    fn line(&mut self, line: &[u8], said: &mut Said) -> Result<(), Error> {
        if let Some(data) = line.strip_prefix(b"data: ") {
            return match &*self.name {
                b"" => said.event(data),
                b"turn-end" => said.end(data),
                b"receipt" => Ok(()),
                name => Err(format!("the stream says {}", String::from_utf8_lossy(name)).into()),
            };
        }
        if let Some(name) = line.strip_prefix(b"event: ") {
            self.name = name.to_vec();
        } else if line.is_empty() {
            self.name.clear();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_wherever_they_are_cut() {
        let stream = "retry: 1000\n\nid: 7\ndata: {\"seq\":7,\"type\":\"text-delta\",\"text\":\"a\\nb\"}\n\n\
                      : keep-alive\n\nevent: turn-end\ndata: {\"outcome\":{\"status\":\"completed\"},\"seq\":7}\n\n";
        for cut in 0..stream.len() {
            let (mut frames, mut said) = (Frames::default(), Said::default());
            frames.feed(&stream.as_bytes()[..cut], &mut said).unwrap();
            frames.feed(&stream.as_bytes()[cut..], &mut said).unwrap();
            assert_eq!((&*said.text, said.events, said.completed), ("a\nb", 1, true));
        }
    }

    #[test]
    fn a_gap_is_an_error() {
        let mut said = Said::default();
        said.event(br#"{"seq":3,"type":"turn-started"}"#).unwrap();
        assert!(said.event(br#"{"seq":5,"type":"text-delta","text":"x"}"#).is_err());
    }
}
