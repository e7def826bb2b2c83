//! Ids and keys that follow from what they stand for, and bytes as text.

use sha2::{Digest, Sha256};
use std::fmt::Write;

/// 128 bits in hexadecimal, the same for the same parts and no others.
pub(crate) fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hex(hash.finalize().iter().take(16))
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex<'a>(bytes: impl IntoIterator<Item = &'a u8>) -> String {
    let mut text = String::new();
    for byte in bytes {
        // Writing into memory does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::digest;

    #[test]
    fn the_parts_count_and_not_only_what_they_give_together() {
        assert_eq!(digest(&["ab", "c"]), digest(&["ab", "c"]));
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
        assert_ne!(digest(&["ab", ""]), digest(&["ab"]));
        assert_eq!(digest(&[]).len(), 32);
    }
}
