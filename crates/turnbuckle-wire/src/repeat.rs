//! Frames that differ from the one before in nothing but a text, and in noise that means nothing.
//!
//! Nearly all frames of a streamed answer say "more text" in the same words: the same id, model and empty members around
//! another piece of content. Reading the JSON of each anew costs fifty times what comparing its bytes does. So a decoder
//! that read a frame whole, and found nothing in it but text, keeps the frame; a later one with the same bytes around a sound
//! JSON string says the same with another text, since the members of a JSON document do not depend on the content of a
//! string among them.
//!
//! The same holds for a string or a whole number that the decoder never looks at, such as the time at which each frame was
//! made or its place in the stream: the decoder points it out, and any other string or number may stand in its place. A frame
//! that differs anywhere else is read in full.

use memchr::{memchr, memchr2};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::ops::Range;

/// After so many frames in a row that could not use what was kept, nothing is kept any more: some servers pad every frame
/// with noise.
const TRIES: u8 = 32;

/// A frame that held nothing but a text.
#[derive(Debug, Default)]
pub(crate) struct Repeat {
    frame: Vec<u8>,
    /// What may differ, in the order of the frame.
    gaps: Vec<Gap>,
    misses: u8,
}

/// The content of a string of the frame, or a whole number, which may differ.
#[derive(Debug)]
struct Gap {
    at: Range<usize>,
    holds: Holds,
}

#[derive(Clone, Copy, Debug)]
enum Holds {
    Text,
    /// A string that nobody looks at.
    Noise,
    /// A number that nobody looks at.
    Number,
}

impl Repeat {
    /// The text of a frame that is otherwise the one kept. Never an empty one.
    #[inline]
    pub fn text<'a>(&mut self, data: &'a [u8]) -> Option<Cow<'a, str>> {
        let at = self.find(data)?;
        let text = match data.get(at.clone()).and_then(plain) {
            Some(text) => Cow::Borrowed(text),
            None => {
                let quoted = data.get(at.start.checked_sub(1)?..=at.end)?;
                Cow::Owned(serde_json::from_slice::<String>(quoted).ok()?)
            }
        };
        if text.is_empty() {
            return None;
        }
        self.misses = 0;
        Some(text)
    }

    /// Where the text lies in a frame that is the one kept but for its gaps.
    #[inline]
    fn find(&self, data: &[u8]) -> Option<Range<usize>> {
        let mut text = None;
        let (mut rest, mut from) = (data, 0);
        for gap in &self.gaps {
            rest = rest.strip_prefix(self.frame.get(from..gap.at.start)?)?;
            let start = data.len() - rest.len();
            let length = match gap.holds {
                Holds::Text => text_length(rest)?,
                Holds::Noise => noise_length(rest)?,
                Holds::Number => number_length(rest)?,
            };
            if let Holds::Text = gap.holds {
                text = Some(start..start + length);
            }
            rest = rest.get(length..)?;
            from = gap.at.end;
        }
        text.filter(|_| self.frame.get(from..) == Some(rest))
    }

    /// Keeps a frame that says nothing but `text`, which is a part of `data`, as are the members of `noise` that nobody looks
    /// at. Says whether it did; otherwise what was kept before stays.
    #[must_use]
    pub fn keep(&mut self, data: &[u8], text: &str, noise: &[Option<&RawValue>]) -> bool {
        if self.misses >= TRIES {
            self.frame.clear();
            self.gaps.clear();
            return false;
        }
        self.misses += 1;
        let Some(text) = content(data, text) else { return false };
        self.frame.clear();
        self.frame.extend_from_slice(data);
        self.gaps.clear();
        self.gaps.push(Gap { at: text, holds: Holds::Text });
        self.gaps.extend(noise.iter().flatten().filter_map(|noise| gap(data, noise.get())));
        self.gaps.sort_unstable_by_key(|gap| gap.at.start);
        true
    }
}

/// The gap where `noise`, a member's value, lies in `data`. Only plain strings and whole numbers may differ.
fn gap(data: &[u8], noise: &str) -> Option<Gap> {
    if let Some(inner) = noise.strip_prefix('"').and_then(|noise| noise.strip_suffix('"')) {
        return content(data, inner).map(|at| Gap { at, holds: Holds::Noise });
    }
    let at = place(data, noise)?;
    (number_length(noise.as_bytes()) == Some(noise.len()))
        .then_some(Gap { at, holds: Holds::Number })
}

/// Where `part`, a part of `data`, lies in it.
fn place(data: &[u8], part: &str) -> Option<Range<usize>> {
    let start = part.as_ptr().addr().wrapping_sub(data.as_ptr().addr());
    let end = start.checked_add(part.len())?;
    (end <= data.len()).then_some(start..end)
}

/// Where `text` lies in `data` as the content of a string. A text with escapes is a copy and lies elsewhere.
fn content(data: &[u8], text: &str) -> Option<Range<usize>> {
    let at = place(data, text)?;
    let around = data.get(at.start.checked_sub(1)?..=at.end)?;
    (around.starts_with(b"\"") && around.ends_with(b"\"")).then_some(at)
}

/// The bytes up to the quote that ends the string whose content begins here.
#[inline]
fn text_length(rest: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr2(b'"', b'\\', rest.get(at..)?)?;
        if rest.get(at) == Some(&b'"') {
            return Some(at);
        }
        // What is escaped ends nothing.
        at += 2;
    }
}

/// The same for a string that nobody reads; `None` unless it is plain ASCII, as noise is.
#[inline]
fn noise_length(rest: &[u8]) -> Option<usize> {
    let length = memchr(b'"', rest)?;
    let inner = rest.get(..length)?;
    (stands_for_itself(inner) && inner.is_ascii()).then_some(length)
}

/// The digits of a whole number that begins here; what follows them is compared, and so no part of the number.
#[inline]
fn number_length(rest: &[u8]) -> Option<usize> {
    match rest.iter().take_while(|byte| byte.is_ascii_digit()).count() {
        0 => None,
        // No number of JSON begins with a zero but zero itself.
        2.. if rest.starts_with(b"0") => None,
        length => Some(length),
    }
}

/// The content of a JSON string that stands for itself.
#[inline]
fn plain(inner: &[u8]) -> Option<&str> {
    stands_for_itself(inner).then(|| std::str::from_utf8(inner).ok()).flatten()
}

/// Whether nothing up to a quote is escaped or must be. Every byte is looked at, so that many are at once.
#[inline]
fn stands_for_itself(inner: &[u8]) -> bool {
    inner.iter().fold(true, |sound, byte| sound & (*byte >= 0x20) & (*byte != b'\\'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn kept(frame: &str, text: &str) -> Repeat {
        let at = frame.find(&format!("\"{text}\"")).unwrap() + 1;
        let mut repeat = Repeat::default();
        assert!(repeat.keep(frame.as_bytes(), frame.get(at..at + text.len()).unwrap(), &[]));
        repeat
    }

    #[derive(serde::Deserialize)]
    struct Noise<'a> {
        #[serde(borrow)]
        at: Option<&'a RawValue>,
        #[serde(borrow)]
        n: Option<&'a RawValue>,
    }

    /// A frame whose members `at` and `n` are noise.
    fn kept_with_noise(frame: &str, text: &str) -> Repeat {
        let at = frame.find(&format!("\"{text}\"")).unwrap() + 1;
        let noise: Noise<'_> = serde_json::from_str(frame).unwrap();
        let mut repeat = Repeat::default();
        let text = frame.get(at..at + text.len()).unwrap();
        assert!(repeat.keep(frame.as_bytes(), text, &[noise.at, noise.n]));
        repeat
    }

    #[test]
    fn the_same_frame_with_another_text() {
        let mut repeat = kept(r#"{"id":1,"t":"one","z":null}"#, "one");
        let text = |repeat: &mut Repeat, frame: &'static str| {
            repeat.text(frame.as_bytes()).map(Cow::into_owned)
        };
        assert_eq!(text(&mut repeat, r#"{"id":1,"t":"two","z":null}"#), Some("two".into()));
        assert_eq!(
            text(&mut repeat, r#"{"id":1,"t":"a\n\"b\"","z":null}"#),
            Some("a\n\"b\"".into())
        );
        assert_eq!(text(&mut repeat, r#"{"id":1,"t":"é 🎉","z":null}"#), Some("é 🎉".into()));
        for other in [
            r#"{"id":2,"t":"two","z":null}"#,
            r#"{"id":1,"t":"two","z":0}"#,
            r#"{"id":1,"t":"","z":null}"#,
            r#"{"id":1,"t":"a","t":"b","z":null}"#,
            r#"{"id":1,"t":"a\","z":null}"#,
            "{\"id\":1,\"t\":\"a\nb\",\"z\":null}",
        ] {
            assert_eq!(text(&mut repeat, other), None, "{other}");
        }
    }

    #[test]
    fn noise_may_be_any_plain_string_before_the_text_or_after_it() {
        let mut repeat = kept_with_noise(r#"{"at":"10:00:00","t":"one"}"#, "one");
        let text = |repeat: &mut Repeat, frame: &'static str| {
            repeat.text(frame.as_bytes()).map(Cow::into_owned)
        };
        assert_eq!(text(&mut repeat, r#"{"at":"10:00:00","t":"two"}"#), Some("two".into()));
        assert_eq!(text(&mut repeat, r#"{"at":"10:00:00.1","t":"\""}"#), Some("\"".into()));
        assert_eq!(text(&mut repeat, r#"{"at":"","t":"é"}"#), Some("é".into()));
        for other in [
            r#"{"at":"10:00:00","t":""}"#,
            r#"{"at":null,"t":"two"}"#,
            r#"{"at":1,"t":"two"}"#,
            r#"{"at":"a\"","t":"two"}"#,
            r#"{"at":"a\","t":"two"}"#,
            r#"{"at":"a","b":"c","t":"two"}"#,
            r#"{"at":"a","t":"two","t":"three"}"#,
            r#"{"at":"a","t":"two"#,
            r#"{"at":"a"#,
            "{\"at\":\"a\nb\",\"t\":\"two\"}",
        ] {
            assert_eq!(text(&mut repeat, other), None, "{other}");
        }

        let mut repeat = kept_with_noise(r#"{"t":"one","at":"xyz"}"#, "one");
        assert_eq!(text(&mut repeat, r#"{"t":"a\\","at":"ab"}"#), Some("a\\".into()));
        assert_eq!(text(&mut repeat, r#"{"t":"two","at":"ab"}}"#), None);
    }

    #[test]
    fn numbers_are_noise_as_well() {
        let mut repeat = kept_with_noise(r#"{"n":9,"t":"one","at":"x"}"#, "one");
        let text = |repeat: &mut Repeat, frame: &'static str| {
            repeat.text(frame.as_bytes()).map(Cow::into_owned)
        };
        assert_eq!(text(&mut repeat, r#"{"n":10,"t":"two","at":""}"#), Some("two".into()));
        assert_eq!(text(&mut repeat, r#"{"n":0,"t":"two","at":"yz"}"#), Some("two".into()));
        for other in ["01", "00", "-1", "1.5", "1e3", "", "null", "\"1\"", "1,\"n\":2", "1 "] {
            let frame = format!(r#"{{"n":{other},"t":"two","at":""}}"#);
            assert_eq!(repeat.text(frame.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn what_is_neither_string_nor_whole_number_is_no_noise() {
        for (noise, other) in [(r#"{"s":"1"}"#, r#"{"s":"2"}"#), ("1.5", "1.6"), ("-1", "-2")] {
            let frame = |noise: &str, text: &str| format!(r#"{{"at":{noise},"t":"{text}"}}"#);
            let mut repeat = kept_with_noise(&frame(noise, "one"), "one");
            assert_eq!(repeat.text(frame(noise, "two").as_bytes()).as_deref(), Some("two"));
            assert_eq!(repeat.text(frame(other, "two").as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn a_text_that_lies_elsewhere_is_not_kept_and_noise_ends_the_trying() {
        let mut repeat = Repeat::default();
        assert!(!repeat.keep(br#"{"t":"a"}"#, &String::from("a"), &[]));
        assert_eq!(repeat.text(br#"{"t":"b"}"#), None);
        for noise in 0..40 {
            let frame = format!(r#"{{"t":"a","n":{noise}}}"#);
            assert_eq!(repeat.text(frame.as_bytes()), None);
            let kept = repeat.keep(frame.as_bytes(), frame.get(6..7).unwrap(), &[]);
            assert_eq!(kept, noise < 31, "{noise}");
        }
        assert_eq!(repeat.text(br#"{"t":"b","n":39}"#), None);
    }

    proptest! {
        #[test]
        fn a_text_is_told_only_when_the_whole_frame_reads_as_that(inner in "[ -~\\n\\\\\"é🎉]{0,12}") {
            let mut repeat = kept(r#"{"id":"x","t":"one","u":"v"}"#, "one");
            let frame = format!(r#"{{"id":"x","t":"{inner}","u":"v"}}"#);
            if let Some(text) = repeat.text(frame.as_bytes()) {
                let read: Value = serde_json::from_str(&frame).unwrap();
                prop_assert_eq!(read, serde_json::json!({"id": "x", "t": text, "u": "v"}));
            }
        }

        #[test]
        fn noise_changes_nothing_of_what_a_frame_says(
            inner in "[ -~\\n\\\\\"é🎉]{0,8}",
            noise in "[ -~\\n\\\\\"é]{0,8}",
            number in "[0-9]{1,22}|[-0-9.e,]{0,4}",
        ) {
            for (kept, frame) in [
                (
                    r#"{"n":1,"at":"zero","t":"one"}"#,
                    format!(r#"{{"n":{number},"at":"{noise}","t":"{inner}"}}"#),
                ),
                (
                    r#"{"t":"one","at":"zero","n":1}"#,
                    format!(r#"{{"t":"{inner}","at":"{noise}","n":{number}}}"#),
                ),
            ] {
                let mut repeat = kept_with_noise(kept, "one");
                if let Some(text) = repeat.text(frame.as_bytes()) {
                    let read: Value = serde_json::from_str(&frame).unwrap();
                    let at = read.get("at").cloned();
                    let n = read.get("n").cloned();
                    prop_assert!(at.as_ref().is_some_and(Value::is_string));
                    prop_assert!(n.as_ref().is_some_and(Value::is_number));
                    prop_assert_eq!(read, serde_json::json!({"at": at, "n": n, "t": text}));
                }
            }
        }

        #[test]
        fn bytes_that_are_no_text_are_never_told_as_one(
            inner in proptest::collection::vec(any::<u8>(), 0..6),
            noise in proptest::collection::vec(any::<u8>(), 0..6),
        ) {
            let mut repeat = kept_with_noise(r#"{"at":"zero","t":"one"}"#, "one");
            let frame = [br#"{"at":""#, &*noise, br#"","t":""#, &*inner, br#""}"#].concat();
            if let Some(text) = repeat.text(&frame) {
                let read: Value = serde_json::from_slice(&frame).unwrap();
                prop_assert_eq!(read.get("t").and_then(Value::as_str), Some(&*text));
            }
        }
    }
}
