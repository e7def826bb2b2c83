//! What processes say to each other: lines of JSON, several to a message.

use crate::live::Live;
use crate::mailbox::Letter;
use crate::notice::{Call, Notice};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::Arc;
use turnbuckle_core::event::Event;
use turnbuckle_core::ids::{SessionKey, TurnId};

/// One thing that is said.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Frame {
    /// To those who watch a session.
    Notice(SessionKey, Notice),
    /// To workers.
    Call(Call),
    /// Somebody here watches a session.
    Watching(SessionKey),
    /// Something could not be said: about this session, or about anything.
    Lost(Option<SessionKey>),
}

impl Frame {
    /// About how many bytes it takes.
    pub(crate) fn weight(&self) -> usize {
        64 + match self {
            Frame::Notice(_, notice) => notice.weight(),
            Frame::Call(call) => call.weight(),
            Frame::Watching(_) | Frame::Lost(_) => 64,
        }
    }

    /// Whether the next one makes it superfluous.
    pub(crate) fn superseded_by(&self, next: &Self) -> bool {
        match (self, next) {
            (Frame::Notice(a, old), Frame::Notice(b, new)) => a == b && old.superseded_by(new),
            (Frame::Call(old), Frame::Call(new)) => old.superseded_by(new),
            (Frame::Watching(old), Frame::Watching(new)) => old == new,
            (Frame::Lost(old), Frame::Lost(new)) => old == new,
            _ => false,
        }
    }
}

/// A frame as it is written. `events` comes last, so that it can be added to the rest without another copy of the events.
#[derive(Serialize, Deserialize)]
struct Line<'a> {
    from: u64,
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    tenant: Option<Cow<'a, str>>,
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    session: Option<Cow<'a, str>>,
    #[serde(flatten)]
    is: Is,
    #[serde(default, borrow, skip_serializing)]
    events: Option<Vec<&'a RawValue>>,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
enum Is {
    Events,
    Committed { seq: u64 },
    Titled,
    Deleted,
    Inbox,
    Recall,
    Stop { turn: Option<TurnId> },
    Work { queue: String },
    Watching,
    Lost,
}

/// Writes frames as messages of at most `most` bytes each. Events that are too large for a message become the word that they
/// were lost.
pub(crate) fn bundle(from: u64, frames: Vec<Frame>, most: usize) -> Vec<String> {
    let mut messages: Vec<String> = Vec::new();
    let mut add = |line: &str| match messages.last_mut() {
        Some(last) if last.len() + 1 + line.len() <= most => {
            last.push('\n');
            last.push_str(line);
        }
        _ => messages.push(line.to_owned()),
    };
    for frame in frames {
        let line = write(from, &frame);
        if line.len() <= most {
            add(&line);
            continue;
        }
        let Frame::Notice(session, Notice::Events(live)) = frame else {
            // Nothing else has a size of its own choosing, names apart.
            add(&write(from, &Frame::Lost(None)));
            continue;
        };
        for event in live.events() {
            let one = Notice::Events(Arc::new(Live::from(event.clone())));
            let line = write(from, &Frame::Notice(session.clone(), one));
            if line.len() <= most {
                add(&line);
            } else {
                add(&write(from, &Frame::Lost(Some(session.clone()))));
            }
        }
    }
    messages
}

fn write(from: u64, frame: &Frame) -> String {
    let (session, is) = match frame {
        Frame::Notice(session, notice) => {
            let is = match notice {
                Notice::Events(_) => Is::Events,
                Notice::Committed { seq } => Is::Committed { seq: *seq },
                Notice::Titled => Is::Titled,
                Notice::Deleted => Is::Deleted,
            };
            (Some(session), is)
        }
        Frame::Call(Call::Inbox { session }) => (Some(session), Is::Inbox),
        Frame::Call(Call::Recall { session }) => (Some(session), Is::Recall),
        Frame::Call(Call::Stop { session, turn }) => {
            (Some(session), Is::Stop { turn: turn.clone() })
        }
        Frame::Call(Call::Work { queue }) => (None, Is::Work { queue: queue.to_string() }),
        Frame::Watching(session) => (Some(session), Is::Watching),
        Frame::Lost(session) => (session.as_ref(), Is::Lost),
    };
    let line = Line {
        from,
        tenant: session.map(|key| Cow::Borrowed(key.tenant.as_str())),
        session: session.map(|key| Cow::Borrowed(key.id.as_str())),
        is,
        events: None,
    };
    let mut text = serde_json::to_string(&line).unwrap_or_default();
    if let Frame::Notice(_, Notice::Events(live)) = frame {
        text.pop();
        text.push_str(",\"events\":[");
        for (i, line) in live.lines().iter().enumerate() {
            if i > 0 {
                text.push(',');
            }
            text.push_str(line);
        }
        text.push_str("]}");
    }
    text
}

/// What a line says to this process.
#[derive(Debug, PartialEq)]
pub(crate) enum Said {
    /// Nothing: it is this process's own, nobody here listens, or it is of a version that says other things.
    Nothing,
    /// This.
    Frame(Frame),
}

/// Reads a line that was not said by `own`. Events are read only when somebody `listens`.
pub(crate) fn read(line: &[u8], own: u64, listens: impl Fn(&SessionKey) -> bool) -> Said {
    match parse(line, own, listens) {
        Some(frame) => Said::Frame(frame),
        None => Said::Nothing,
    }
}

fn parse(line: &[u8], own: u64, listens: impl Fn(&SessionKey) -> bool) -> Option<Frame> {
    let Line { from, tenant, session, is, events } = serde_json::from_slice(line).ok()?;
    if from == own {
        return None;
    }
    let key = match (tenant, session) {
        (Some(tenant), Some(session)) => Some(SessionKey::new(&*tenant, &*session)),
        _ => None,
    };
    let watched = || key.clone().filter(&listens);
    Some(match is {
        Is::Events => {
            let session = watched()?;
            match live(&events?) {
                Some(live) => Frame::Notice(session, Notice::Events(Arc::new(live))),
                // Of a version that has events this one does not know: the store's reader will say what is to be done.
                None => Frame::Lost(Some(session)),
            }
        }
        Is::Committed { seq } => Frame::Notice(watched()?, Notice::Committed { seq }),
        Is::Titled => Frame::Notice(watched()?, Notice::Titled),
        Is::Deleted => Frame::Notice(watched()?, Notice::Deleted),
        Is::Inbox => Frame::Call(Call::Inbox { session: key? }),
        Is::Recall => Frame::Call(Call::Recall { session: key? }),
        Is::Stop { turn } => Frame::Call(Call::Stop { session: key?, turn }),
        Is::Work { queue } => Frame::Call(Call::Work { queue: queue.into() }),
        Is::Watching => Frame::Watching(key?),
        Is::Lost => Frame::Lost(key),
    })
}

fn live(raw: &[&RawValue]) -> Option<Live> {
    let events: Option<Vec<Event>> =
        raw.iter().map(|event| serde_json::from_str(event.get()).ok()).collect();
    let lines = raw.iter().map(|event| Box::from(event.get())).collect();
    Some(Live::with_lines(events?, lines))
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnbuckle_core::event::EventKind;
    use turnbuckle_core::time::Timestamp;

    fn key() -> SessionKey {
        SessionKey::new("acme\n\"", "s")
    }

    fn event(seq: u64, title: String) -> Event {
        let kind = EventKind::SessionTitleUpdated { title };
        let (at, agent) = (Timestamp::from_millis(1), "main".into());
        Event { seq, epoch: 1, at, session: "s".into(), turn: "t".into(), agent, kind }
    }

    fn told(titles: &[&str]) -> Frame {
        let events: Vec<_> =
            titles.iter().zip(1..).map(|(title, seq)| event(seq, (*title).to_owned())).collect();
        Frame::Notice(key(), Notice::Events(Arc::new(Live::new(events))))
    }

    fn heard(messages: &[String]) -> Vec<Frame> {
        let lines = messages.iter().flat_map(|message| message.split('\n'));
        lines
            .filter_map(|line| match read(line.as_bytes(), 7, |_| true) {
                Said::Frame(frame) => Some(frame),
                Said::Nothing => None,
            })
            .collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let frames = vec![
            told(&["one", "two\n\u{0}\u{2028}"]),
            Frame::Notice(key(), Notice::Committed { seq: u64::MAX }),
            Frame::Notice(key(), Notice::Titled),
            Frame::Notice(key(), Notice::Deleted),
            Frame::Call(Call::Inbox { session: key() }),
            Frame::Call(Call::Recall { session: key() }),
            Frame::Call(Call::Stop { session: key(), turn: None }),
            Frame::Call(Call::Stop { session: key(), turn: Some("t".into()) }),
            Frame::Call(Call::Work { queue: "q".into() }),
            Frame::Watching(key()),
            Frame::Lost(None),
            Frame::Lost(Some(key())),
        ];
        let messages = bundle(u64::MAX, frames.clone(), 10_000);
        assert_eq!(messages.len(), 1);
        assert_eq!(heard(&messages), frames);
        assert_eq!(heard(&bundle(7, frames.clone(), 10_000)), [], "one's own words");
        let each = bundle(1, frames.clone(), 1);
        assert_eq!(each.len(), frames.len() + 1, "each line alone, and each event");
    }

    #[test]
    fn what_is_too_large_is_split_or_said_to_be_lost() {
        let large = "x".repeat(1_000);
        let frames = vec![told(&["small", &large, "last"]), Frame::Lost(None)];
        let messages = bundle(1, frames, 500);
        assert!(messages.iter().all(|message| message.len() <= 500));
        let Frame::Notice(_, Notice::Events(last)) = &told(&["", "", "last"]) else { panic!() };
        let last = Notice::Events(Arc::new(Live::new(last.events()[2..].to_vec())));
        let expected = [
            told(&["small"]),
            Frame::Lost(Some(key())),
            Frame::Notice(key(), last),
            Frame::Lost(None),
        ];
        assert_eq!(heard(&messages), expected);
    }

    #[test]
    fn what_nobody_listens_to_or_understands_says_nothing() {
        let line = write(1, &told(&["one"]));
        assert_eq!(read(line.as_bytes(), 7, |_| false), Said::Nothing);
        for line in ["", "{", "{}", r#"{"from":1,"is":"dance"}"#, r#"{"from":1,"is":"inbox"}"#] {
            assert_eq!(read(line.as_bytes(), 7, |_| true), Said::Nothing, "{line}");
        }
        let newer = r#"{"from":1,"tenant":"a","session":"s","is":"events","events":[{"seq":1}]}"#;
        let lost = Said::Frame(Frame::Lost(Some(SessionKey::new("a", "s"))));
        assert_eq!(read(newer.as_bytes(), 7, |_| true), lost);
    }
}
