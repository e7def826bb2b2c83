//! Timestamps that come in from the edge; the machine never reads a clock.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// Milliseconds since the Unix epoch; written as RFC 3339 in UTC with three decimals.
///
/// ```
/// use turnbuckle_core::time::Timestamp;
/// assert_eq!(Timestamp::from_millis(0).to_string(), "1970-01-01T00:00:00.000Z");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
pub struct Timestamp(i64);

impl Timestamp {
    /// From milliseconds since the Unix epoch.
    pub const fn from_millis(ms: i64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Milliseconds from `earlier` to `self`; zero when the clock went backwards.
    pub const fn since(self, earlier: Timestamp) -> u64 {
        if self.0 > earlier.0 { (self.0 - earlier.0) as u64 } else { 0 }
    }

    /// This moment plus `ms` milliseconds.
    pub const fn plus(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = jiff::Timestamp::from_millisecond(self.0).unwrap_or(jiff::Timestamp::MAX);
        write!(f, "{at:.3}")
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(d)?;
        let at: jiff::Timestamp = text.parse().map_err(de::Error::custom)?;
        Ok(Self(at.as_millisecond()))
    }
}
