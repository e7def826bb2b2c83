//! What a domain hands to its tools, found by type.

use std::any::{Any, TypeId, type_name};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A value with the name of its type.
type Named = (&'static str, Arc<dyn Any + Send + Sync>);

/// Values by type. Cheap to clone.
#[derive(Clone, Default)]
pub struct Resources(Arc<BTreeMap<TypeId, Named>>);

impl Resources {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value; one of the same type is replaced.
    #[must_use]
    pub fn with<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.insert(Arc::new(value));
        self
    }

    /// Adds a shared value; one of the same type is replaced.
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: Arc<T>) {
        Arc::make_mut(&mut self.0).insert(TypeId::of::<T>(), (type_name::<T>(), value));
    }

    /// The value of a type.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>()).and_then(|(_, value)| value.downcast_ref())
    }

    /// The value of a type, to keep.
    pub fn get_shared<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.0.get(&TypeId::of::<T>()).and_then(|(_, value)| value.clone().downcast().ok())
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.values().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn found_by_type_and_replaced_by_the_latest() {
        let resources = Resources::new().with(1_u8).with("text").with(2_u8);
        assert_eq!(resources.get::<u8>(), Some(&2));
        assert_eq!(resources.get::<&str>(), Some(&"text"));
        assert_eq!(resources.get::<u16>(), None);
        assert_eq!(resources.get_shared::<u8>().as_deref(), Some(&2));
    }

    #[test]
    fn adding_to_a_clone_leaves_the_original_alone() {
        let base = Resources::new().with(1_u8);
        let more = base.clone().with(2_u16);
        assert_eq!((base.get::<u16>(), more.get::<u8>()), (None, Some(&1)));
    }
}
