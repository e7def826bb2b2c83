//! Frames that differ from the one before in nothing but a text.
//!
//! Nearly all frames of a streamed answer say "more text" in the same words: the same id, model and empty members around
//! another piece of content. Reading the JSON of each anew costs fifty times what comparing its bytes does. So a decoder
//! that read a frame whole, and found nothing in it but text, keeps the bytes around that text; a later frame with the same
//! bytes around a sound JSON string says the same with another text, since the members of a JSON document do not depend on
//! the content of a string among them. A frame that differs anywhere else is read in full.

use memchr::memchr2;
use std::borrow::Cow;

/// After so many frames in a row that could not use what was kept, nothing is kept any more: some servers pad every frame
/// with noise.
const TRIES: u8 = 32;

/// The bytes around the text of a frame that held nothing else.
#[derive(Debug, Default)]
pub(crate) struct Repeat {
    /// Up to the opening quote of the text, which is included.
    before: Vec<u8>,
    /// From the closing quote on.
    after: Vec<u8>,
    misses: u8,
}

impl Repeat {
    /// The text of a frame that is otherwise the one kept. Never an empty one.
    pub fn text<'a>(&mut self, data: &'a [u8]) -> Option<Cow<'a, str>> {
        if self.before.is_empty() {
            return None;
        }
        let inner = data.strip_prefix(&*self.before)?.strip_suffix(&*self.after)?;
        let text = plain(inner).map_or_else(
            || {
                let quoted = data.get(self.before.len() - 1..data.len() - self.after.len() + 1)?;
                serde_json::from_slice::<String>(quoted).ok().map(Cow::Owned)
            },
            |text| Some(Cow::Borrowed(text)),
        );
        let text = text.filter(|text| !text.is_empty())?;
        self.misses = 0;
        Some(text)
    }

    /// Keeps what stands around `text`, a part of `data` and all that the frame says. Says whether it did; otherwise what was
    /// kept before stays.
    #[must_use]
    pub fn keep(&mut self, data: &[u8], text: &str) -> bool {
        if self.misses >= TRIES {
            self.before.clear();
            return false;
        }
        self.misses += 1;
        let start = text.as_ptr().addr().wrapping_sub(data.as_ptr().addr());
        let around = data.split_at_checked(start).and_then(|(before, rest)| {
            rest.split_at_checked(text.len()).map(|(_, after)| (before, after))
        });
        let Some((before, after)) = around else { return false };
        // A text with escapes is a copy and lies elsewhere.
        if before.last() != Some(&b'"') || after.first() != Some(&b'"') {
            return false;
        }
        self.before.clear();
        self.before.extend_from_slice(before);
        self.after.clear();
        self.after.extend_from_slice(after);
        true
    }
}

/// The content of a JSON string that stands for itself.
fn plain(inner: &[u8]) -> Option<&str> {
    if memchr2(b'"', b'\\', inner).is_some() || inner.iter().any(|b| *b < 0x20) {
        return None;
    }
    std::str::from_utf8(inner).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn kept(frame: &str, text: &str) -> Repeat {
        let at = frame.find(&format!("\"{text}\"")).unwrap() + 1;
        let mut repeat = Repeat::default();
        assert!(repeat.keep(frame.as_bytes(), frame.get(at..at + text.len()).unwrap()));
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
    fn a_text_that_lies_elsewhere_is_not_kept_and_noise_ends_the_trying() {
        let mut repeat = Repeat::default();
        assert!(!repeat.keep(br#"{"t":"a"}"#, &String::from("a")));
        assert_eq!(repeat.text(br#"{"t":"b"}"#), None);
        for noise in 0..40 {
            let frame = format!(r#"{{"t":"a","n":{noise}}}"#);
            assert_eq!(repeat.text(frame.as_bytes()), None);
            let kept = repeat.keep(frame.as_bytes(), frame.get(6..7).unwrap());
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
    }
}
