//! Which model answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use turnbuckle_core::error::{ModelError, ModelErrorKind};
use turnbuckle_core::model::ModelRef;
use turnbuckle_models::Model;

/// Finds models by name.
pub trait ModelSource: Send + Sync {
    /// The model of that name, or the default one.
    ///
    /// # Errors
    /// When there is none of that name; the message lists what there is.
    fn resolve(&self, wanted: Option<&ModelRef>) -> Result<Arc<dyn Model>, ModelError>;
}

/// A fixed set of models, the first of which is the default.
#[derive(Clone)]
pub struct Models {
    default: Arc<dyn Model>,
    by_name: BTreeMap<String, Arc<dyn Model>>,
}

impl Models {
    /// One model.
    pub fn new(default: Arc<dyn Model>) -> Self {
        let by_name = BTreeMap::from([(default.id().to_string(), default.clone())]);
        Self { default, by_name }
    }

    /// Adds another.
    #[must_use]
    pub fn and(mut self, model: Arc<dyn Model>) -> Self {
        self.by_name.insert(model.id().to_string(), model);
        self
    }
}

impl ModelSource for Models {
    fn resolve(&self, wanted: Option<&ModelRef>) -> Result<Arc<dyn Model>, ModelError> {
        let Some(wanted) = wanted else { return Ok(self.default.clone()) };
        if wanted == self.default.id() {
            return Ok(self.default.clone());
        }
        self.by_name.get(&wanted.to_string()).cloned().ok_or_else(|| {
            let names: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
            let message = format!("there is no model `{wanted}`; there are {}", names.join(", "));
            ModelError::new(ModelErrorKind::Config, message)
        })
    }
}
