//! What goes wrong in the binary: one line with the cause and the way out.

use std::io;
use std::path::PathBuf;
use turnbuckle::EngineError;
use turnbuckle::core::error::ModelError;
use turnbuckle::store::StoreError;

/// A command that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The command was not given what it needs.
    #[error("{0}")]
    Usage(String),
    /// The configuration is not sound.
    #[error(transparent)]
    Config(#[from] crate::config::ConfigProblem),
    /// A provider cannot be set up.
    #[error(transparent)]
    Provider(#[from] turnbuckle::models::ConfigError),
    /// A model call failed.
    #[error("{}", crate::term::words::model_failure(.0))]
    Model(#[from] ModelError),
    /// The engine refused.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The store refused or failed.
    #[error("{}", .0.report())]
    Store(#[from] StoreError),
    /// The desk's database cannot be used.
    #[error("the desk's database cannot be used: {0}")]
    Desk(#[from] desk::DeskError),
    /// The desk's agent cannot be set up.
    #[error("the desk's agent cannot be set up: {0}")]
    Domain(#[from] desk::agent::DeskAgentError),
    /// A file or the terminal.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// The system's own words.
        source: io::Error,
    },
    /// Another process owns the data folder.
    #[error(
        "another turnbuckle{} works in the data folder {}: end it first, or use another folder with --data", holder(.pid), .folder.display()
    )]
    InUse {
        /// The folder.
        folder: PathBuf,
        /// The other process, when it left its number.
        pid: Option<String>,
    },
    /// No session of that id.
    #[error("there is no session `{0}`: `turnbuckle sessions` lists those there are")]
    NoSession(String),
    /// Anything else, worded with its way out.
    #[error("{0}")]
    Failed(String),
}

fn holder(pid: &Option<String>) -> String {
    pid.as_ref().map(|pid| format!(" (process {pid})")).unwrap_or_default()
}

impl CliError {
    /// A failed file operation.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// Whether whoever read the output has had enough of it.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
    }

    /// The error on one line.
    pub fn line(&self) -> String {
        let text = self.to_string();
        text.lines().map(str::trim).filter(|l| !l.is_empty()).collect::<Vec<_>>().join("; ")
    }
}

impl From<io::Error> for CliError {
    fn from(source: io::Error) -> Self {
        Self::Io { what: "the terminal or the pipe cannot be read or written".to_owned(), source }
    }
}
