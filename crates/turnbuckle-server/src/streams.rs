//! How many event streams there are, and whose.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use turnbuckle_core::ids::{TenantId, UserId};

/// Counts event streams.
#[derive(Clone, Debug)]
pub struct Streams(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    most: usize,
    most_per_user: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    all: usize,
    by_user: HashMap<(TenantId, UserId), usize>,
}

/// A stream that counts as long as it is held.
#[derive(Debug)]
pub struct Place {
    streams: Streams,
    user: (TenantId, UserId),
}

impl Streams {
    /// So many in all, and so many per user.
    pub fn new(most: usize, most_per_user: usize) -> Self {
        Self(Arc::new(Inner { most, most_per_user, open: Mutex::default() }))
    }

    /// A place for one more; `None` when there is none.
    pub fn enter(&self, tenant: &TenantId, user: &UserId) -> Option<Place> {
        let user = (tenant.clone(), user.clone());
        let mut open = self.0.open.lock().unwrap_or_else(PoisonError::into_inner);
        let own = open.by_user.get(&user).copied().unwrap_or(0);
        if open.all >= self.0.most || own >= self.0.most_per_user {
            return None;
        }
        open.all += 1;
        open.by_user.insert(user.clone(), own + 1);
        Some(Place { streams: self.clone(), user })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner).all
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.streams.0.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.all = open.all.saturating_sub(1);
        if let Some(own) = open.by_user.get_mut(&self.user) {
            *own -= 1;
            if *own == 0 {
                open.by_user.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_and_given_back() {
        let streams = Streams::new(3, 2);
        let enter = |user: &str| streams.enter(&"t".into(), &user.into());
        let (a, b) = (enter("ada"), enter("ada"));
        assert!(a.is_some() && b.is_some() && enter("ada").is_none());
        let c = enter("bob");
        assert!(c.is_some() && enter("eve").is_none());
        drop(a);
        assert!(enter("eve").is_some());
        drop((b, c));
        assert_eq!(streams.count(), 0);
        assert!(streams.0.open.lock().unwrap().by_user.is_empty());
    }
}
