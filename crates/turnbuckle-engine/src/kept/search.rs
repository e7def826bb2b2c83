//! Finding text in what is kept, without holding more of it than a window.

use super::Kept;
use super::page::{CHUNK, begins, characters, seek};
use memchr::memmem::Finder;
use turnbuckle_core::error::ToolError;

/// Bytes shown before and after what was found.
const AROUND: usize = 120;
/// Places told at once.
const MOST: usize = 20;

/// A place where the text stands.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Match {
    /// The number of its first character.
    pub(super) offset: u64,
    /// It, with what is around it.
    pub(super) text: String,
}

/// The places from an offset on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) matches: Vec<Match>,
    /// Where to go on, when there may be more.
    pub(super) next: Option<u64>,
}

/// Finds `query` from the character number `offset` on, one place after the other.
pub(super) async fn search(kept: &Kept<'_>, query: &str, offset: u64) -> Result<Found, ToolError> {
    let needle = query.to_ascii_lowercase();
    let finder = Finder::new(&needle);
    let tail = needle.len() + 2 * AROUND;
    let mut at = seek(kept, offset).await?;
    let mut before = offset;
    let mut window: Vec<u8> = Vec::new();
    let mut scanned = 0;
    let mut matches = Vec::new();
    loop {
        let from = at + window.len() as u64;
        let more = kept.bytes(from..from + CHUNK).await?;
        let last = more.is_empty();
        window.extend(more);
        let lower = window.to_ascii_lowercase();
        while let Some(index) = finder.find(lower.get(scanned..).unwrap_or_default()) {
            let start = scanned + index;
            let end = start + needle.len();
            if !last && end + AROUND > window.len() {
                break;
            }
            let offset = before + characters(window.get(..start).unwrap_or_default());
            matches.push(Match { offset, text: around(&window, start, end) });
            scanned = end;
            if matches.len() == MOST {
                let next = Some(offset + query.chars().count() as u64);
                return Ok(Found { matches, next });
            }
        }
        if last {
            return Ok(Found { matches, next: None });
        }
        let gone = window.len().saturating_sub(tail);
        before += characters(window.get(..gone).unwrap_or_default());
        at += gone as u64;
        window.drain(..gone);
        scanned = scanned.saturating_sub(gone);
    }
}

/// What stands at a place, cut at characters.
fn around(window: &[u8], start: usize, end: usize) -> String {
    let mut from = start.saturating_sub(AROUND);
    while from < start && window.get(from).is_some_and(|b| !begins(*b)) {
        from += 1;
    }
    let mut to = (end + AROUND).min(window.len());
    while to > end && window.get(to).is_some_and(|b| !begins(*b)) {
        to -= 1;
    }
    String::from_utf8_lossy(window.get(from..to).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn places(text: &str, query: &str, offset: u64) -> Vec<u64> {
        let kept = Kept::Text(text.to_owned());
        let found = search(&kept, query, offset).await.unwrap();
        found.matches.into_iter().map(|m| m.offset).collect()
    }

    #[tokio::test]
    async fn places_are_counted_in_characters_and_case_does_not_matter() {
        let text = "Öl, oil and OIL; Öl";
        assert_eq!(places(text, "oil", 0).await, [4, 12]);
        assert_eq!(places(text, "OIL", 5).await, [12]);
        assert_eq!(places(text, "öl", 0).await, [] as [u64; 0]);
        assert_eq!(places(text, "Öl", 0).await, [0, 17]);
    }

    #[tokio::test]
    async fn what_lies_across_chunks_is_found_once_with_what_is_around_it() {
        let chunk = CHUNK as usize;
        for shift in [0, 1, 5, 6, 200, 300] {
            let mut text = "ä".repeat(chunk / 2 - 3 + shift);
            let offset = text.chars().count() as u64;
            text.push_str("needle");
            text.push_str(&"x".repeat(chunk));
            let kept = Kept::Text(text);
            let found = search(&kept, "needle", 0).await.unwrap();
            let around = format!("{}needle{}", "ä".repeat(AROUND / 2), "x".repeat(AROUND));
            let expected = Match { offset, text: around };
            assert_eq!(found, Found { matches: vec![expected], next: None }, "{shift}");
        }
    }

    #[tokio::test]
    async fn many_places_are_told_in_turn() {
        let kept = Kept::Text("ha ".repeat(50));
        let mut offset = Some(0);
        let mut all = Vec::new();
        while let Some(from) = offset {
            let found = search(&kept, "ha", from).await.unwrap();
            all.extend(found.matches.iter().map(|m| m.offset));
            offset = found.next;
        }
        assert_eq!(all, (0..50).map(|i| i * 3).collect::<Vec<_>>());
    }
}
