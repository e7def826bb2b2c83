//! `[server]` of `turnbuckle.toml`. The template documents each key.

use crate::address::Address;
use crate::config::{ConfigProblem, process_env};
use crate::error::CliError;
use crate::keep::Keep;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use turnbuckle_bus::BusOptions;
use turnbuckle_server::auth::jwt::TokenOptions;
use turnbuckle_server::config::Limits;
use turnbuckle_server::dto::Role;
use turnbuckle_server::quota::QuotaRule;
use turnbuckle_server::worker::WorkerOptions;

/// Where the server listens when nobody says.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:7777";

/// The server.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// Address and port.
    pub listen: String,
    /// Pages of these origins may call the API.
    pub cors: Vec<String>,
    /// The bus between processes; the store's usual one when absent.
    pub bus: Option<Address>,
    /// What the processes of one service speak on.
    pub bus_channel: String,
    /// An address of its own for health, readiness and metrics; none when absent.
    pub operators: Option<String>,
    /// What requests may hold.
    pub limits: Limits,
    /// The worker.
    pub worker: WorkerConfig,
    /// Who may come in.
    pub auth: AuthConfig,
    /// How much may be used.
    pub quotas: Vec<QuotaRule>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: DEFAULT_LISTEN.to_owned(),
            cors: Vec::new(),
            bus: None,
            bus_channel: "turnbuckle".to_owned(),
            operators: None,
            limits: Limits::default(),
            worker: WorkerConfig::default(),
            auth: AuthConfig::default(),
            quotas: Vec::new(),
        }
    }
}

/// The worker.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkerConfig {
    /// Sessions at work at once.
    pub sessions: usize,
    /// How often it looks for work that nobody told it about, in milliseconds.
    pub poll_ms: u64,
    /// How long turns may go on when the process ends, in milliseconds.
    pub grace_ms: u64,
    /// How long running tools may take after that, in milliseconds.
    pub tool_grace_ms: u64,
}

impl Default for WorkerConfig {
    fn default() -> Self {
        let options = WorkerOptions::default();
        let ms = |time: Duration| time.as_millis() as u64;
        Self {
            sessions: options.sessions,
            poll_ms: ms(options.poll),
            grace_ms: ms(options.grace),
            tool_grace_ms: ms(options.tool_grace),
        }
    }
}

impl WorkerConfig {
    /// As the worker takes it.
    pub fn options(&self) -> WorkerOptions {
        WorkerOptions {
            sessions: self.sessions.max(1),
            poll: Duration::from_millis(self.poll_ms.max(10)),
            grace: Duration::from_millis(self.grace_ms),
            tool_grace: Duration::from_millis(self.tool_grace_ms),
        }
    }
}

/// Who may come in.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuthConfig {
    /// Whether every request needs credentials. It does anyway as soon as there is a key or a JWT is set up.
    pub required: bool,
    /// Tokens of an identity provider.
    pub jwt: Option<JwtConfig>,
}

/// Tokens of an identity provider.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JwtConfig {
    /// The environment variable that holds the shared secret of HS256.
    pub secret_env: Option<String>,
    /// The file that holds it; it wins over the variable.
    pub secret_file: Option<PathBuf>,
    /// Where the provider's key set is published.
    pub jwks_url: Option<String>,
    /// The issuer a token must name.
    pub issuer: Option<String>,
    /// The audience a token must name.
    pub audience: Option<String>,
    /// The claim that names the tenant; `tenant` by default.
    pub tenant_claim: Option<String>,
    /// The claim that names the user; `sub` by default.
    pub user_claim: Option<String>,
    /// The claim that lists the roles; `roles` by default.
    pub roles_claim: Option<String>,
    /// The roles of a token that has no such claim.
    pub default_roles: BTreeSet<Role>,
}

impl AuthConfig {
    /// How tokens are read, when they are taken.
    ///
    /// # Errors
    /// When the secret is not where it should be.
    pub fn tokens(&self) -> Result<Option<TokenOptions>, CliError> {
        let Some(jwt) = &self.jwt else { return Ok(None) };
        let usual = TokenOptions::default();
        Ok(Some(TokenOptions {
            secret: jwt.secret()?,
            jwks_url: jwt.jwks_url.clone(),
            issuer: jwt.issuer.clone(),
            audience: jwt.audience.clone(),
            tenant_claim: jwt.tenant_claim.clone().unwrap_or(usual.tenant_claim),
            user_claim: jwt.user_claim.clone().unwrap_or(usual.user_claim),
            roles_claim: jwt.roles_claim.clone().unwrap_or(usual.roles_claim),
            default_roles: jwt.default_roles.clone(),
        }))
    }
}

impl JwtConfig {
    fn secret(&self) -> Result<Option<Vec<u8>>, CliError> {
        if let Some(path) = &self.secret_file {
            let text = std::fs::read_to_string(path).map_err(|source| {
                CliError::Config(ConfigProblem::Unreadable { path: path.clone(), source })
            })?;
            return Ok(Some(text.trim_end().as_bytes().to_vec()));
        }
        match &self.secret_env {
            None => Ok(None),
            Some(name) => match process_env(name) {
                Some(secret) => Ok(Some(secret.into_bytes())),
                None => Err(CliError::Usage(format!(
                    "[server.auth.jwt] names the environment variable {name}, which is not set"
                ))),
            },
        }
    }
}

impl ServerConfig {
    /// Paths in the file are meant from the folder it lies in.
    pub fn resolve_paths(&mut self, folder: &Path) {
        let secret = self.auth.jwt.iter_mut().filter_map(|jwt| jwt.secret_file.as_mut());
        for path in secret {
            if path.is_relative() {
                *path = folder.join(&*path);
            }
        }
    }

    /// The bus between processes whose sessions are kept there: its address, and how it is opened.
    pub fn bus_for(&self, keep: &Keep) -> (Address, BusOptions) {
        let url = self.bus.clone().unwrap_or_else(|| keep.usual_bus());
        let channel = self.bus_channel.clone();
        let options = BusOptions { channel, ..BusOptions::new(url.whole()) };
        (url, options)
    }

    /// The environment wins over the file.
    pub fn with_environment(mut self, env: &dyn Fn(&str) -> Option<String>) -> Self {
        if let Some(listen) = env("TURNBUCKLE_LISTEN") {
            self.listen = listen;
        }
        if let Some(operators) = env("TURNBUCKLE_OPERATORS") {
            self.operators = Some(operators);
        }
        if let Some(bus) = env("TURNBUCKLE_BUS") {
            self.bus = Some(Address::new(bus));
        }
        self
    }
}
