//! Splits a byte stream into JSON documents, one to a line.
//!
//! Blank lines and carriage returns are passed over. A document that a proxy broke over several lines is put together again:
//! lines are gathered until they are a whole document.

use crate::fold::Split;
use crate::scan::Scan;
use crate::sse::{Frame, limit, without_bom};
use memchr::memchr2;
use turnbuckle_core::error::ModelError;

/// The splitter.
#[derive(Debug, Default)]
pub(crate) struct LineSplitter {
    /// The unfinished line, and before it the lines that are no whole document yet.
    carry: Vec<u8>,
    /// Whether the document in `carry` is one of several lines, and how far it has come.
    several: bool,
    scan: Scan,
    documents: u64,
    foreign: Option<String>,
}

impl LineSplitter {
    fn line(
        &mut self,
        line: &[u8],
        on: &mut impl FnMut(Frame<'_>) -> Result<(), ModelError>,
    ) -> Result<(), ModelError> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(());
        }
        if !line.starts_with(b"{") && self.documents == 0 && self.foreign.is_none() {
            let start: Vec<u8> = line.iter().take(300).copied().collect();
            self.foreign = Some(String::from_utf8_lossy(&start).into_owned());
        }
        self.documents += 1;
        on(Frame { event: b"", data: line, unterminated: false })
    }
}

/// Whether a line looks like a whole document. It is not read for that: nearly every line is one.
fn is_document(line: &[u8]) -> bool {
    line.starts_with(b"{") && line.trim_ascii_end().ends_with(b"}")
}

impl Split for LineSplitter {
    fn feed(
        &mut self,
        bytes: &[u8],
        on: &mut impl FnMut(Frame<'_>) -> Result<(), ModelError>,
    ) -> Result<(), ModelError> {
        let mut rest = bytes;
        while let Some(end) = memchr2(b'\n', b'\r', rest) {
            let (line, tail) = rest.split_at(end);
            rest = tail.get(1..).unwrap_or_default();
            if self.carry.is_empty() && is_document(line) {
                self.line(line, on)?;
                continue;
            }
            limit(self.carry.len().saturating_add(line.len()))?;
            let mut whole = std::mem::take(&mut self.carry);
            whole.extend_from_slice(line);
            let text = without_bom(&whole).trim_ascii();
            let document = !self.several && is_document(text);
            if !document && text.starts_with(b"{") && !self.scan.is_complete(&whole) {
                whole.push(b'\n');
                self.several = true;
                self.carry = whole;
                continue;
            }
            self.line(text, on)?;
            whole.clear();
            self.carry = whole;
            self.scan = Scan::default();
            self.several = false;
        }
        limit(self.carry.len().saturating_add(rest.len()))?;
        self.carry.extend_from_slice(rest);
        Ok(())
    }

    fn finish(
        &mut self,
        on: &mut impl FnMut(Frame<'_>) -> Result<(), ModelError>,
    ) -> Result<(), ModelError> {
        let carry = std::mem::take(&mut self.carry);
        let data = without_bom(&carry).trim_ascii();
        if data.is_empty() {
            return Ok(());
        }
        if !data.starts_with(b"{") {
            return self.line(data, on);
        }
        self.documents += 1;
        on(Frame { event: b"", data, unterminated: true })
    }

    fn is_plain(&self) -> bool {
        false
    }

    fn foreign(&self) -> Option<String> {
        self.foreign.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(chunks: &[&[u8]]) -> Vec<(String, bool)> {
        let mut out = Vec::new();
        let mut on = |f: Frame<'_>| {
            out.push((String::from_utf8_lossy(f.data).into_owned(), f.unterminated));
            Ok(())
        };
        let mut splitter = LineSplitter::default();
        for chunk in chunks {
            splitter.feed(chunk, &mut on).unwrap();
        }
        splitter.finish(&mut on).unwrap();
        out
    }

    #[test]
    fn each_line_is_a_document_however_it_is_cut() {
        let text = "\u{feff}{\"a\":1}\r\n\n {\"b\":\"\u{e4}\"} \n{\"c\":{}}";
        let expected = [("{\"a\":1}", false), ("{\"b\":\"\u{e4}\"}", false), ("{\"c\":{}}", true)];
        let expected = expected.map(|(text, torn)| (text.to_owned(), torn)).to_vec();
        for cut in 0..=text.len() {
            let (a, b) = text.as_bytes().split_at(cut);
            assert_eq!(split(&[a, b]), expected, "cut at {cut}");
        }
    }

    #[test]
    fn a_document_over_several_lines_is_one() {
        let text = "{\n  \"a\": {\n    \"b\": 1\n  }\n}\n{\"c\":2}\n";
        let expected = vec![
            ("{\n  \"a\": {\n    \"b\": 1\n  }\n}".to_owned(), false),
            ("{\"c\":2}".to_owned(), false),
        ];
        for cut in 0..=text.len() {
            let (a, b) = text.as_bytes().split_at(cut);
            assert_eq!(split(&[a, b]), expected, "cut at {cut}");
        }
    }

    #[test]
    fn a_page_is_remembered_for_the_error() {
        let mut splitter = LineSplitter::default();
        splitter.feed(b"<html>\nBad gateway\n", &mut |_| Ok(())).unwrap();
        assert_eq!(splitter.foreign().as_deref(), Some("<html>"));
    }

    proptest! {
        #[test]
        fn chunking_never_matters(
            lines in proptest::collection::vec("[\\{\\}a\": ]{0,6}(\n|\r\n|\n\n)", 0..12),
            cuts in proptest::collection::vec(0usize..200, 0..8),
        ) {
            let text = lines.concat();
            let whole = split(&[text.as_bytes()]);
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
    }
}
