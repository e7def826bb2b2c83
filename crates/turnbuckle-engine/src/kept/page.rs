//! Reading by characters what is stored by bytes.

use super::Kept;
use turnbuckle_core::error::ToolError;

/// Bytes read at once.
pub(super) const CHUNK: u64 = 256 * 1024;

/// A stretch of text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) text: String,
    /// Where the next one begins, unless this is the last.
    pub(super) next: Option<u64>,
}

/// Whether a byte of UTF-8 begins a character.
pub(super) const fn begins(byte: u8) -> bool {
    byte & 0xC0 != 0x80
}

/// How many characters begin in these bytes.
pub(super) fn characters(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|b| begins(**b)).count() as u64
}

/// The byte at which the character number `offset` begins. What comes before is read through once.
///
/// # Errors
/// When there are fewer characters.
pub(super) async fn seek(kept: &Kept<'_>, offset: u64) -> Result<u64, ToolError> {
    let (mut at, mut before) = (0, 0);
    if offset == 0 {
        return Ok(0);
    }
    loop {
        let bytes = kept.bytes(at..at + CHUNK).await?;
        if bytes.is_empty() {
            let text =
                format!("The output has {before} characters, so nothing begins at {offset}.");
            return Err(ToolError::invalid(text));
        }
        let here = characters(&bytes);
        if before + here > offset {
            let nth = (offset - before) as usize;
            let index = bytes.iter().enumerate().filter(|(_, b)| begins(**b)).nth(nth);
            return Ok(at + index.map_or(0, |(index, _)| index as u64));
        }
        before += here;
        at += bytes.len() as u64;
    }
}

/// Up to `limit` characters from the character number `offset` on.
pub(super) async fn page(kept: &Kept<'_>, offset: u64, limit: u32) -> Result<Page, ToolError> {
    let mut at = seek(kept, offset).await?;
    let mut text = Vec::new();
    let mut taken = 0;
    loop {
        let bytes = kept.bytes(at..at + CHUNK.min(u64::from(limit) * 4 + 4)).await?;
        if bytes.is_empty() {
            return Ok(finished(&text, None));
        }
        for byte in &bytes {
            if begins(*byte) {
                if taken == limit {
                    return Ok(finished(&text, Some(offset + u64::from(taken))));
                }
                taken += 1;
            }
            text.push(*byte);
        }
        at += bytes.len() as u64;
    }
}

fn finished(text: &[u8], next: Option<u64>) -> Page {
    Page { text: String::from_utf8_lossy(text).into_owned(), next }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    async fn all(text: &str, limit: u32) -> Vec<Page> {
        let kept = Kept::Text(text.to_owned());
        let (mut pages, mut offset) = (Vec::new(), 0);
        loop {
            let page = page(&kept, offset, limit).await.unwrap();
            let next = page.next;
            pages.push(page);
            match next {
                Some(next) => offset = next,
                None => return pages,
            }
        }
    }

    #[tokio::test]
    async fn pages_are_counted_in_characters() {
        let pages = all("aäの🦀b", 2).await;
        let expected = [("aä", Some(2)), ("の🦀", Some(4)), ("b", None)];
        assert_eq!(pages, expected.map(|(text, next)| Page { text: text.to_owned(), next }));
        assert_eq!(all("", 5).await, [Page { text: String::new(), next: None }]);
    }

    #[tokio::test]
    async fn beyond_the_end_there_is_nothing_and_its_length_is_told() {
        let kept = Kept::Text("äää".to_owned());
        let error = page(&kept, 3, 1).await.unwrap_err();
        assert_eq!(error.message, "The output has 3 characters, so nothing begins at 3.");
    }

    #[tokio::test]
    async fn characters_may_lie_across_chunks() {
        // Three bytes each, so that chunks end within characters.
        let text = "の".repeat(400_000);
        let kept = Kept::Text(text.clone());
        let at = 200_000;
        let page = page(&kept, at, 10).await.unwrap();
        assert_eq!(page, Page { text: "の".repeat(10), next: Some(at + 10) });
        assert_eq!(seek(&kept, 399_999).await.unwrap(), text.len() as u64 - 3);
    }

    proptest! {
        #[test]
        fn pages_make_up_the_whole(text in "\\PC{0,80}", limit in 1u32..9) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let pages = runtime.block_on(all(&text, limit));
            let whole: String = pages.iter().map(|p| p.text.as_str()).collect();
            prop_assert_eq!(whole, text);
        }
    }
}
