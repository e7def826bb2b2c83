//! Bytes as the text in which every wire carries them.

use super::ContentError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// Bytes in standard, padded Base64, checked when it was made. A copy costs nothing.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Base64(Arc<str>);

impl Base64 {
    /// From bytes.
    pub fn encode(bytes: &[u8]) -> Self {
        Self(STANDARD.encode(bytes).into())
    }

    /// From text that is Base64 already.
    ///
    /// # Errors
    /// [`ContentError::NotBase64`].
    pub fn parse(text: impl Into<Arc<str>>) -> Result<Self, ContentError> {
        let text = text.into();
        match STANDARD.decode(text.as_bytes()) {
            Ok(_) => Ok(Self(text)),
            Err(cause) => Err(ContentError::NotBase64 { cause: cause.to_string() }),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// How many bytes it stands for.
    pub fn bytes(&self) -> u64 {
        let padding = self.0.bytes().rev().take_while(|b| *b == b'=').count() as u64;
        (self.0.len() as u64 / 4 * 3).saturating_sub(padding)
    }

    /// The bytes.
    pub fn decode(&self) -> Vec<u8> {
        // Checked when it was made.
        STANDARD.decode(self.0.as_bytes()).unwrap_or_default()
    }

    /// The first bytes, at least `bytes` of them where there are so many.
    pub fn head(&self, bytes: usize) -> Vec<u8> {
        let characters = bytes.div_ceil(3).saturating_mul(4).min(self.0.len());
        STANDARD.decode(self.0.as_bytes().get(..characters).unwrap_or_default()).unwrap_or_default()
    }
}

impl fmt::Debug for Base64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Base64({} bytes)", self.bytes())
    }
}

impl TryFrom<String> for Base64 {
    type Error = ContentError;
    fn try_from(text: String) -> Result<Self, ContentError> {
        Self::parse(text)
    }
}

impl From<Base64> for String {
    fn from(data: Base64) -> String {
        data.as_str().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_base64_is_refused() {
        for text in ["abc", "ab==cd==", "*bcd", "ab cd", "YQ"] {
            assert!(matches!(Base64::parse(text), Err(ContentError::NotBase64 { .. })), "{text}");
        }
        assert_eq!(Base64::parse("").unwrap().bytes(), 0);
    }

    proptest! {
        #[test]
        fn bytes_come_back_whole_and_by_their_head(
            bytes in prop::collection::vec(any::<u8>(), 0..80), head in 0usize..100,
        ) {
            let data = Base64::encode(&bytes);
            prop_assert_eq!(data.bytes(), bytes.len() as u64);
            prop_assert_eq!(data.decode(), bytes.clone());
            prop_assert_eq!(Base64::parse(data.as_str()).unwrap(), data.clone());
            let first = data.head(head);
            prop_assert!(bytes.starts_with(&first));
            prop_assert!(first.len() >= head.min(bytes.len()));
        }
    }
}
