//! Addresses of databases and buses. They may hold a password, so that they are shown only in part.

use serde::Deserialize;
use std::fmt;

/// An address such as `postgres://user:password@host/database`. Shown without what may be secret: user, password, query.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Address(String);

impl Address {
    /// From its text.
    pub fn new(url: impl Into<String>) -> Self {
        Self(url.into())
    }

    /// All of it, for those who connect.
    pub fn whole(&self) -> &str {
        &self.0
    }

    /// What stands before the first colon.
    pub fn scheme(&self) -> &str {
        self.0.split_once(':').map_or("", |(scheme, _)| scheme)
    }

    /// What stands behind it.
    pub fn rest(&self) -> &str {
        self.0.split_once(':').map_or("", |(_, rest)| rest)
    }

    /// Whether it is of a Postgres database.
    pub fn is_postgres(&self) -> bool {
        matches!(self.scheme(), "postgres" | "postgresql")
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scheme() {
            // A path may hold anything, and nothing of it is secret.
            "sqlite" | "memory" | "poll" => f.write_str(&self.0),
            _ => f.write_str(&turnbuckle_bus::hide_password(&self.0)),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_secret_is_not_shown() {
        for (whole, shown) in [
            ("postgres://u:secret@h:5432/db?password=secret", "postgres://***@h:5432/db"),
            ("postgres://h/db?user=u&password=secret", "postgres://h/db"),
            ("redis://:secr@et@h:6379/0#secret", "redis://***@h:6379/0"),
            ("nats://u:secret@a:1,nats://u:se?cret@b:2", "nats://***@a:1,nats://***"),
            ("postgres://u@h/db?password=se@cret", "postgres://***"),
            ("postgres://u:se/c@ret@h/db", "postgres://***"),
            ("postgres://u:se,cret@h/db", "postgres://***@h/db"),
            ("sqlite:/var/lib/turn,buckle.db", "sqlite:/var/lib/turn,buckle.db"),
            ("memory:", "memory:"),
        ] {
            let address = Address::new(whole);
            assert_eq!(address.to_string(), shown);
            assert_eq!(format!("{address:?}"), format!("Address({shown})"));
            assert_eq!(address.whole(), whole);
        }
    }
}
