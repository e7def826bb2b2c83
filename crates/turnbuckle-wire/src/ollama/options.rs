//! How Ollama's chat API is spoken to one server, as data.

use crate::MediaForm;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The variable parts of the wire.
///
/// ```
/// use turnbuckle_wire::OllamaOptions;
/// let own: OllamaOptions = serde_json::from_str(r#"{"context": 32768}"#).unwrap();
/// assert_eq!(own.path, "/api/chat");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OllamaOptions {
    /// Path below the base URL.
    pub path: String,
    /// The window in tokens that the model is loaded with; without it the server's default holds, which is small, and
    /// what does not fit is cut off silently.
    pub context: Option<u32>,
    /// How long the model stays loaded after the call, such as `30m`.
    pub keep_alive: Option<String>,
    /// Whether the model's images are taken.
    pub images: MediaForm,
    /// Members added to every request.
    pub extra: Map<String, Value>,
}

impl Default for OllamaOptions {
    fn default() -> Self {
        Self {
            path: "/api/chat".to_owned(),
            context: None,
            keep_alive: None,
            images: MediaForm::Data,
            extra: Map::new(),
        }
    }
}
