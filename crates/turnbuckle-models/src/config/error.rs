//! What can be wrong with a provider's configuration, and the way out.

use std::io;
use std::path::PathBuf;
use turnbuckle_core::error::{ModelError, ModelErrorKind};

/// A provider that cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// No preset of that name, and no base URL.
    #[error("provider `{provider}` is not one of the known ones, so it needs a `base_url`")]
    NoBaseUrl {
        /// The provider.
        provider: String,
    },
    /// The base URL is none.
    #[error("provider `{provider}`: `{base_url}` is not an http or https URL ({problem})")]
    BadBaseUrl {
        /// The provider.
        provider: String,
        /// What was given.
        base_url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The key's variable is not set.
    #[error(
        "provider `{provider}` needs a key: set {variables}, or `api_key_file` in its configuration"
    )]
    NoKey {
        /// The provider.
        provider: String,
        /// The variables looked at.
        variables: String,
    },
    /// The key's file cannot be read.
    #[error("the key file {} cannot be read: {source}", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// No preset of that name.
    #[error(
        "provider `{provider}`: there is no known provider `{like}` to be like; there is {known}"
    )]
    UnknownPreset {
        /// The provider.
        provider: String,
        /// What was asked for.
        like: String,
        /// What there is.
        known: String,
    },
    /// It is not said where in a cloud it is.
    #[error("provider `{provider}` needs `place.{place}` in its configuration{variables}")]
    NoPlace {
        /// The provider.
        provider: String,
        /// What is missing.
        place: String,
        /// The variables that could hold it.
        variables: String,
    },
    /// A place that would lead the URL elsewhere.
    #[error(
        "provider `{provider}`: `{value}` cannot be its `{place}`; a name has letters, digits, `-`, `_`, `.` and `:` only"
    )]
    BadPlace {
        /// The provider.
        provider: String,
        /// Which.
        place: String,
        /// What was given.
        value: String,
    },
    /// None of the ways of being authorised can be used.
    #[error("provider `{provider}` has no credentials: {needs}")]
    NoCredentials {
        /// The provider.
        provider: String,
        /// What to set.
        needs: String,
    },
    /// The credentials cannot be used.
    #[error("provider `{provider}`: its credentials cannot be used: {problem}")]
    BadCredentials {
        /// The provider.
        provider: String,
        /// Why not. Never what stands in them.
        problem: String,
    },
    /// This build cannot use such credentials.
    #[error("provider `{provider}` needs a build with the feature `{feature}`")]
    NotBuilt {
        /// The provider.
        provider: String,
        /// The feature.
        feature: &'static str,
    },
    /// A header, or the key in one, cannot be sent.
    #[error(
        "provider `{provider}`: the header `{header}` has a name or value that HTTP does not allow"
    )]
    BadHeader {
        /// The provider.
        provider: String,
        /// The header's name; never its value.
        header: String,
    },
    /// The provider offers no embeddings.
    #[error(
        "provider `{provider}` has no embeddings over the wire `{wire}`; use one that speaks openai-chat, gemini or ollama, or `lexical`"
    )]
    NoEmbeddings {
        /// The provider.
        provider: String,
        /// How it is spoken to.
        wire: &'static str,
    },
    /// No such wire.
    #[error("provider `{provider}`: there is no wire `{wire}`; there is {known}")]
    UnknownWire {
        /// The provider.
        provider: String,
        /// What was asked for.
        wire: String,
        /// What there is.
        known: String,
    },
    /// No such profile.
    #[error(
        "provider `{provider}`: there is no profile `{profile}`; leave it out or use one of {known}"
    )]
    UnknownProfile {
        /// The provider.
        provider: String,
        /// What was asked for.
        profile: String,
        /// What there is.
        known: String,
    },
    /// The wire has no such setting, or not with such a value.
    #[error("provider `{provider}`: its `options` do not fit the wire: {problem}")]
    Options {
        /// The provider.
        provider: String,
        /// What does not fit.
        problem: String,
    },
    /// A price makes no sense.
    #[error("provider `{provider}`, model `{model}`: {problem}")]
    Prices {
        /// The provider.
        provider: String,
        /// The model.
        model: String,
        /// What is wrong.
        problem: String,
    },
    /// The HTTP client cannot be built.
    #[error("provider `{provider}`: the HTTP client cannot be set up: {problem}")]
    Client {
        /// The provider.
        provider: String,
        /// Why not.
        problem: String,
    },
}

impl From<ConfigError> for ModelError {
    fn from(error: ConfigError) -> Self {
        ModelError::new(ModelErrorKind::Config, error.to_string())
    }
}
