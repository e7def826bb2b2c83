//! The keys of `turnbuckle.toml`. [`super::template`] documents each of them.

use super::ConfigProblem;
use crate::keep::StoreConfig;
use crate::log::{LogFormat, TelemetryConfig};
use crate::serve::config::ServerConfig;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use turnbuckle::core::limits::TurnLimits;
use turnbuckle::models::ProviderConfig;
use turnbuckle::pipeline::Policy;

/// The file.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FileConfig {
    /// The model.
    pub model: Option<String>,
    /// The agent.
    pub agent: Option<String>,
    /// The person the agent works for.
    pub user: Option<String>,
    /// The organisation.
    pub tenant: Option<String>,
    /// The data folder.
    pub data: Option<PathBuf>,
    /// How much to log.
    pub log: Option<String>,
    /// How lines of the log look.
    pub log_format: Option<LogFormat>,
    /// Traces.
    pub telemetry: TelemetryConfig,
    /// How sessions get their titles.
    pub titles: Option<String>,
    /// Whether to look for model servers on this machine.
    pub local_servers: bool,
    /// Limits of a turn.
    pub limits: TurnLimits,
    /// Rules about tool calls.
    pub policy: Policy,
    /// Providers of models by name.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// The rehearsal.
    pub rehearsal: Rehearsal,
    /// The terminal.
    pub chat: ChatConfig,
    /// Where sessions are kept.
    pub store: StoreConfig,
    /// The server.
    pub server: ServerConfig,
}

impl Default for FileConfig {
    fn default() -> Self {
        Self {
            model: None,
            agent: None,
            user: None,
            tenant: None,
            data: None,
            log: None,
            log_format: None,
            telemetry: TelemetryConfig::default(),
            titles: None,
            local_servers: true,
            limits: TurnLimits::default(),
            policy: Policy::default(),
            providers: BTreeMap::new(),
            rehearsal: Rehearsal::default(),
            chat: ChatConfig::default(),
            store: StoreConfig::default(),
            server: ServerConfig::default(),
        }
    }
}

/// The rehearsal.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rehearsal {
    /// The pause after each word, in milliseconds.
    pub pace_ms: u64,
}

impl Default for Rehearsal {
    fn default() -> Self {
        Self { pace_ms: 15 }
    }
}

/// The terminal.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChatConfig {
    /// Whether to colour.
    pub color: ColorChoice,
    /// The editor for approvals; it is used even when input is piped.
    pub editor: Option<String>,
}

/// Whether to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColorChoice {
    /// On a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl FileConfig {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, or has a key or value that means nothing.
    pub fn read(path: &Path) -> Result<Self, ConfigProblem> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigProblem::Unreadable { path: path.to_owned(), source })?;
        toml::from_str(&text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            let line = text.bytes().take(start).filter(|b| *b == b'\n').count() + 1;
            ConfigProblem::Wrong { path: path.to_owned(), line, message: explain(error.message()) }
        })
    }

    /// Paths in a file are meant from the folder it lies in.
    pub fn resolve_paths(&mut self, folder: &Path) {
        self.server.resolve_paths(folder);
        self.store.resolve_paths(folder);
        let keys = self.providers.values_mut().flat_map(ProviderConfig::files_mut);
        for path in self.data.iter_mut().chain(keys) {
            if path.is_relative() {
                *path = folder.join(&*path);
            }
        }
    }
}

/// An unknown key gets the nearest known one as a suggestion.
fn explain(message: &str) -> String {
    let message = message.trim();
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let Some((wrong, known)) = quoted.split_first() else { return message.to_owned() };
    if !message.starts_with("unknown field") && !message.starts_with("unknown variant") {
        return message.to_owned();
    }
    let kind = if message.starts_with("unknown field") { "key" } else { "value" };
    if kind == "key" && matches!(*wrong, "api_key" | "key" | "token" | "secret") {
        return format!(
            "there is no key `{wrong}`: secrets never stand in this file; name their place with `api_key_env` or `api_key_file`"
        );
    }
    let close = |name: &&&str| strsim::jaro_winkler(wrong, name);
    let nearest =
        known.iter().max_by(|a, b| close(a).total_cmp(&close(b))).filter(|name| close(name) > 0.6);
    let all = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match nearest {
        Some(name) => {
            format!("there is no {kind} `{wrong}`; did you mean `{name}`? There are {all}")
        }
        None => format!("there is no {kind} `{wrong}`; there are {all}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.toml");
        std::fs::write(&path, text).unwrap();
        let shown = FileConfig::read(&path).unwrap_err().to_string();
        shown.replace(&path.display().to_string(), "t.toml")
    }

    #[test]
    fn an_unknown_key_gets_the_nearest_one() {
        let text = problem("agent = \"a\"\n\n[limits]\nmax_token = 5\n");
        assert!(
            text.starts_with("t.toml:4: there is no key `max_token`; did you mean `max_tokens`?"),
            "{text}"
        );
        let text = problem("modle = \"x\"");
        assert!(
            text.starts_with("t.toml:1: there is no key `modle`; did you mean `model`?"),
            "{text}"
        );
        let text = problem("[providers.mine]\nbase-url = \"http://x\"");
        assert!(text.contains("did you mean `base_url`?"), "{text}");
    }

    #[test]
    fn a_secret_in_the_file_is_told_where_it_belongs() {
        let text = problem("[providers.openai]\napi_key = \"sk-1\"");
        assert!(text.contains("api_key_env") && !text.contains("sk-1"), "{text}");
    }

    #[test]
    fn a_wrong_value_says_what_there_is() {
        let text = problem("[chat]\ncolor = \"alway\"");
        assert!(text.contains("there is no value `alway`; did you mean `always`?"), "{text}");
    }

    #[test]
    fn paths_are_meant_from_the_file() {
        let mut config: FileConfig = toml::from_str(
            "data = \"d\"\n[providers.p]\napi_key_file = \"k\"\n[providers.q]\napi_key_file = \"/abs\"\n\
             [providers.v.auth]\nkind = \"google\"\ncredentials_file = \"c\"",
        )
        .unwrap();
        config.resolve_paths(Path::new("/etc/x"));
        assert_eq!(config.data.as_deref(), Some(Path::new("/etc/x/d")));
        let key = |name: &str| config.providers[name].api_key_file.clone().unwrap();
        assert_eq!(key("p"), Path::new("/etc/x/k"));
        assert_eq!(key("q"), Path::new("/abs"));
        let mut vertex = config.providers["v"].clone();
        let files: Vec<_> = vertex.files_mut().map(|path| path.clone()).collect();
        assert_eq!(files, [Path::new("/etc/x/c")]);
    }
}
