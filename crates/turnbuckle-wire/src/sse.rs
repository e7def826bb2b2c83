//! Splits a byte stream into server-sent events, however the bytes are cut.
//!
//! Follows the event stream format of the HTML standard (LF, CRLF and CR line ends, byte order mark, comments, several
//! `data:` lines) and forgives what servers really do:
//! - A last event without its blank line, or without its line end, is an event.
//! - A `data:` line that begins a JSON object right after one that ended a JSON object begins a new event even without a
//!   blank line between them. No JSON document can contain that sequence, so nothing valid is torn apart.
//! - A body that begins with `{` or `[` is no event stream but one plain JSON document; it is given out whole at the end.
//!
//! Lines that lie whole in one chunk are not copied, each byte is looked at once, and what is held back is bounded.

use crate::fold::Split;
use memchr::memchr2;
use turnbuckle_core::error::{ModelError, ModelErrorKind};

/// The most bytes an unfinished event or a plain body may hold.
pub const MAX_EVENT_BYTES: usize = 64 << 20;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The `event:` name; empty when there is none.
    pub event: &'a [u8],
    /// The data, lines joined by LF.
    pub data: &'a [u8],
    /// Whether the stream ended inside the event, which then may be torn.
    pub unterminated: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    /// Nothing but white space and a byte order mark so far.
    #[default]
    Start,
    Events,
    /// One plain JSON document.
    Body,
}

/// The splitter. Feed it, then [`finish`](Self::finish) it.
#[derive(Debug, Default)]
pub struct SseSplitter {
    mode: Mode,
    /// The unfinished line, or the plain body.
    carry: Vec<u8>,
    event: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    after_cr: bool,
    seen: Seen,
}

/// What the stream consisted of, to word an error when nothing came of it.
#[derive(Clone, Debug, Default)]
struct Seen {
    frames: bool,
    /// The beginning of the first line that is no field at all.
    foreign: Vec<u8>,
}

impl SseSplitter {
    /// Takes the next bytes and hands every event they complete to `on`.
    ///
    /// # Errors
    /// Those of `on`, and a protocol error when an event grows beyond [`MAX_EVENT_BYTES`].
    pub fn feed(
        &mut self,
        bytes: &[u8],
        on: &mut impl FnMut(Frame<'_>) -> Result<(), ModelError>,
    ) -> Result<(), ModelError> {
        if self.mode != Mode::Events {
            return self.feed_start(bytes, on);
        }
        self.feed_events(bytes, on)
    }

    fn feed_start(
        &mut self,
        bytes: &[u8],
        on: &mut impl FnMut(Frame<'_>) -> Result<(), ModelError>,
    ) -> Result<(), ModelError> {
        self.hold(bytes)?;
        if self.mode == Mode::Body {
            return Ok(());
        }
        let start = without_bom(&self.carry);
        match start.iter().find(|b| !b.is_ascii_whitespace()) {
            None => Ok(()),
            Some(b'{' | b'[') => {
                self.mode = Mode::Body;
                Ok(())
            }
            // The first bytes of a byte order mark that is not complete yet.
            Some(0xEF) if start.len() < 3 => Ok(()),
            Some(_) => {
                self.mode = Mode::Events;
                let held = std::mem::take(&mut self.carry);
                self.feed_events(without_bom(&held), on)
            }
        }
    }

    fn feed_events(
        &mut self,
        bytes: &[u8],
        on: &mut impl FnMut(Frame<'_>) -> Result<(), ModelError>,
    ) -> Result<(), ModelError> {
        let mut rest = bytes;
        if self.after_cr {
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            self.after_cr = bytes.is_empty();
        }
        // A single data line that lies whole in `bytes` waits here for its blank line without being copied.
        let mut pending: Option<&[u8]> = None;
        while let Some(end) = memchr2(b'\n', b'\r', rest) {
            let (line, tail) = rest.split_at(end);
            rest = match tail {
                [b'\r', b'\n', after @ ..] => after,
                [b'\r'] => {
                    self.after_cr = true;
                    &[]
                }
                [_, after @ ..] => after,
                [] => &[],
            };
            if self.carry.is_empty() {
                self.line(line, &mut pending, on)?;
            } else {
                let mut whole = std::mem::take(&mut self.carry);
                whole.extend_from_slice(line);
                let mut held = None;
                self.keep(&mut pending);
                self.line(&whole, &mut held, on)?;
                self.keep(&mut held);
                whole.clear();
                self.carry = whole;
            }
        }
        self.keep(&mut pending);
        self.hold(rest)
    }

    /// Ends the stream: gives out what is left, which may be a last event or the plain body.
    ///
    /// # Errors
    /// Those of `on`.
    pub fn finish(
        &mut self,
        on: &mut impl FnMut(Frame<'_>) -> Result<(), ModelError>,
    ) -> Result<(), ModelError> {
        let carry = std::mem::take(&mut self.carry);
        if self.mode == Mode::Events {
            let torn = !carry.is_empty();
            let mut pending = None;
            if torn {
                self.line(&carry, &mut pending, on)?;
            }
            self.keep(&mut pending);
            return self.dispatch(torn, on);
        }
        self.mode = Mode::Events;
        let body = without_bom(&carry).trim_ascii();
        if body.is_empty() {
            return Ok(());
        }
        self.seen.frames = true;
        on(Frame { event: b"", data: body, unterminated: true })
    }

    /// Whether the body is one plain JSON document rather than an event stream.
    pub fn is_plain(&self) -> bool {
        self.mode == Mode::Body
    }

    /// Whether any event came.
    pub fn has_frames(&self) -> bool {
        self.seen.frames
    }

    /// The beginning of what came when it was no event stream at all, such as a proxy's page.
    pub fn foreign(&self) -> Option<String> {
        (!self.seen.frames && !self.seen.foreign.is_empty())
            .then(|| String::from_utf8_lossy(&self.seen.foreign).into_owned())
    }

    #[inline]
    fn line<'c>(
        &mut self,
        line: &'c [u8],
        pending: &mut Option<&'c [u8]>,
        on: &mut impl FnMut(Frame<'_>) -> Result<(), ModelError>,
    ) -> Result<(), ModelError> {
        if let Some(data) = line.strip_prefix(b"data:") {
            let data = data.strip_prefix(b" ").unwrap_or(data);
            if let Some(first) = pending.take() {
                if begins_anew(first, data) {
                    self.emit(first, on)?;
                } else {
                    self.append(first)?;
                    return self.append(data);
                }
            } else if self.has_data {
                if !begins_anew(&self.data, data) {
                    return self.append(data);
                }
                self.dispatch(false, on)?;
            }
            *pending = Some(data);
            return Ok(());
        }
        if line.is_empty() {
            return match pending.take() {
                Some(data) => self.emit(data, on),
                None => self.dispatch(false, on),
            };
        }
        if let Some(name) = line.strip_prefix(b"event:") {
            let name = name.strip_prefix(b" ").unwrap_or(name);
            self.event.clear();
            self.event.extend_from_slice(name);
        } else if !is_other_field(line) && self.seen.foreign.is_empty() {
            self.seen.foreign.extend(line.iter().take(300));
        }
        Ok(())
    }

    #[inline]
    fn emit(
        &mut self,
        data: &[u8],
        on: &mut impl FnMut(Frame<'_>) -> Result<(), ModelError>,
    ) -> Result<(), ModelError> {
        self.seen.frames = true;
        let result = on(Frame { event: &self.event, data, unterminated: false });
        self.event.clear();
        result
    }

    fn dispatch(
        &mut self,
        unterminated: bool,
        on: &mut impl FnMut(Frame<'_>) -> Result<(), ModelError>,
    ) -> Result<(), ModelError> {
        if !self.has_data {
            self.event.clear();
            return Ok(());
        }
        self.seen.frames = true;
        self.has_data = false;
        let result = on(Frame { event: &self.event, data: &self.data, unterminated });
        self.event.clear();
        self.data.clear();
        result
    }

    fn keep(&mut self, pending: &mut Option<&[u8]>) {
        if let Some(data) = pending.take() {
            self.data.clear();
            self.data.extend_from_slice(data);
            self.has_data = true;
        }
    }

    fn append(&mut self, data: &[u8]) -> Result<(), ModelError> {
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        self.data.extend_from_slice(data);
        limit(self.data.len())
    }

    fn hold(&mut self, rest: &[u8]) -> Result<(), ModelError> {
        limit(self.carry.len().saturating_add(rest.len()))?;
        self.carry.extend_from_slice(rest);
        Ok(())
    }
}

impl Split for SseSplitter {
    fn feed(
        &mut self,
        bytes: &[u8],
        on: &mut impl FnMut(Frame<'_>) -> Result<(), ModelError>,
    ) -> Result<(), ModelError> {
        SseSplitter::feed(self, bytes, on)
    }

    fn finish(
        &mut self,
        on: &mut impl FnMut(Frame<'_>) -> Result<(), ModelError>,
    ) -> Result<(), ModelError> {
        SseSplitter::finish(self, on)
    }

    fn is_plain(&self) -> bool {
        SseSplitter::is_plain(self)
    }

    fn foreign(&self) -> Option<String> {
        SseSplitter::foreign(self)
    }
}

pub(crate) fn limit(held: usize) -> Result<(), ModelError> {
    if held <= MAX_EVENT_BYTES {
        return Ok(());
    }
    Err(ModelError::new(
        ModelErrorKind::Protocol,
        format!("one event of the answer is longer than {MAX_EVENT_BYTES} bytes"),
    ))
}

pub(crate) fn without_bom(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes)
}

/// Whether `next` cannot continue the JSON document `before`, so that it begins the next event.
fn begins_anew(before: &[u8], next: &[u8]) -> bool {
    before.trim_ascii_end().ends_with(b"}")
        && before.trim_ascii_start().starts_with(b"{")
        && (next.starts_with(b"{") || next.starts_with(b"[DONE]"))
}

/// Whether a line is a field we pass over, or the torn beginning of any field.
fn is_other_field(line: &[u8]) -> bool {
    let torn = [&b"data:"[..], b"event:"].iter().any(|field| field.starts_with(line));
    torn || line.starts_with(b":") || line.starts_with(b"id") || line.starts_with(b"retry")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Owned = (String, String);

    fn split(chunks: &[&[u8]]) -> Vec<Owned> {
        let mut out = Vec::new();
        let mut on = |f: Frame<'_>| {
            out.push((
                String::from_utf8_lossy(f.event).into_owned(),
                String::from_utf8_lossy(f.data).into_owned(),
            ));
            Ok(())
        };
        let mut splitter = SseSplitter::default();
        for chunk in chunks {
            splitter.feed(chunk, &mut on).unwrap();
        }
        splitter.finish(&mut on).unwrap();
        out
    }

    fn frames(text: &str) -> Vec<Owned> {
        split(&[text.as_bytes()])
    }

    fn own(list: &[(&str, &str)]) -> Vec<Owned> {
        list.iter().map(|(e, d)| (e.to_string(), d.to_string())).collect()
    }

    #[test]
    fn every_line_end_gives_the_same_events() {
        let expected = own(&[("a", "1"), ("", "2\n3")]);
        for end in ["\n", "\r\n", "\r"] {
            let text = "event: a\ndata: 1\n\ndata:2\ndata: 3\n\n".replace('\n', end);
            assert_eq!(frames(&text), expected, "{end:?}");
            for cut in 0..=text.len() {
                let (a, b) = text.as_bytes().split_at(cut);
                assert_eq!(split(&[a, b]), expected, "{end:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn a_byte_order_mark_comments_and_unknown_fields_are_passed_over() {
        let text = "\u{feff}: hello\nid: 7\nretry: 10\ndata: x\n\n:\n\ndata: y\n\n";
        for cut in 0..=text.len() {
            let (a, b) = text.as_bytes().split_at(cut);
            assert_eq!(split(&[a, b]), own(&[("", "x"), ("", "y")]), "cut at {cut}");
        }
    }

    #[test]
    fn a_last_event_needs_neither_blank_line_nor_line_end() {
        assert_eq!(frames("data: x\n"), own(&[("", "x")]));
        assert_eq!(frames("data: x"), own(&[("", "x")]));
    }

    #[test]
    fn objects_on_adjacent_data_lines_are_events_of_their_own() {
        let expected = own(&[("", "{\"a\":1}"), ("", "{\"b\":2}"), ("", "[DONE]")]);
        let text = "data: {\"a\":1}\ndata: {\"b\":2}\ndata: [DONE]\n";
        for cut in 0..=text.len() {
            let (a, b) = text.as_bytes().split_at(cut);
            assert_eq!(split(&[a, b]), expected, "cut at {cut}");
        }
        assert_eq!(frames("data: {\"a\":\ndata: {}}\n\n"), own(&[("", "{\"a\":\n{}}")]));
    }

    #[test]
    fn a_plain_document_is_given_out_whole() {
        assert_eq!(frames(" \n{\"a\":\n\n1}\n"), own(&[("", "{\"a\":\n\n1}")]));
        let mut splitter = SseSplitter::default();
        splitter.feed(b"{", &mut |_| Ok(())).unwrap();
        assert!(splitter.is_plain());
    }

    #[test]
    fn a_page_is_remembered_for_the_error() {
        let mut splitter = SseSplitter::default();
        splitter.feed(b"<html>\nBad gateway\n", &mut |_| Ok(())).unwrap();
        splitter.finish(&mut |_| Ok(())).unwrap();
        assert_eq!(splitter.foreign().as_deref(), Some("<html>"));
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut splitter = SseSplitter::default();
        let chunk = vec![b'x'; 16 << 20];
        splitter.feed(b"data: ", &mut |_| Ok(())).unwrap();
        let refused = (0..5).find_map(|_| splitter.feed(&chunk, &mut |_| Ok(())).err());
        assert_eq!(refused.map(|e| e.kind), Some(ModelErrorKind::Protocol));
    }

    proptest! {
        #[test]
        fn chunking_never_matters(
            lines in proptest::collection::vec("(data: ?|event: ?|:|id: |)[\\{\\}a\u{e4}\u{1F600} ]{0,6}(\n|\r\n|\r|\n\n)", 0..12),
            cuts in proptest::collection::vec(0usize..200, 0..8),
        ) {
            let text = lines.concat();
            let whole = frames(&text);
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|c| *c <= text.len()).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in cuts {
                chunks.push(&text.as_bytes()[from..cut]);
                from = cut;
            }
            chunks.push(&text.as_bytes()[from..]);
            prop_assert_eq!(split(&chunks), whole);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = split(&[&bytes]);
        }
    }
}
