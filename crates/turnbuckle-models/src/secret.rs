//! A value that must not be seen.

use std::fmt;
use std::sync::Arc;

/// An API key or the like. It prints as `[secret]` however it is printed, and it cannot be serialized.
///
/// ```
/// use turnbuckle_models::Secret;
/// let key = Secret::new("sk-123");
/// assert_eq!(format!("{key} {key:?}"), "[secret] [secret]");
/// assert_eq!(key.expose(), "sk-123");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a value; surrounding white space, as files and shells leave it, is dropped.
    pub fn new(value: &str) -> Self {
        Self(value.trim().into())
    }

    /// The value itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// `text` with every occurrence of the value replaced.
    pub fn strip_from(&self, text: &str) -> String {
        if self.0.is_empty() { text.to_owned() } else { text.replace(&*self.0, "[secret]") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}
