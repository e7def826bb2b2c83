//! Providers that the environment or the configuration names. What is meant for one of them goes to no other, and no rehearsal
//! plays in its place.

use crate::address::Address;
use crate::config::{Env, Settings};
use crate::error::CliError;
use std::sync::Arc;
use std::time::Duration;
use turnbuckle::models::config::{Detected, HostKind, Preset, presets};
use turnbuckle::models::{ConfigError, Model, Providers};

/// The provider that [`BASE_URL`] moves.
const OPENAI: &str = "openai";
/// How other tools are pointed at a compatible server.
const BASE_URL: &str = "OPENAI_BASE_URL";
/// How long a provider that was passed over has to say what is wrong.
const PATIENCE: Duration = Duration::from_secs(10);

/// A provider that is named.
pub struct Nominee {
    /// Its name.
    provider: String,
    /// What names it, in words.
    why: String,
    /// Where it is, when it is not where its preset says.
    at: Option<Address>,
}

/// Everything that is named, in the order in which the providers are tried.
pub fn nominees(settings: &Settings, env: Env<'_>) -> Vec<Nominee> {
    let configured = |name: &str| settings.providers.get(name);
    let moved = |name: &str| env(BASE_URL).filter(|_| name == OPENAI);
    let nominee = |name: &str, why: String| {
        let own = configured(name).and_then(|config| config.base_url.clone());
        let at = own.or_else(|| moved(name)).map(Address::new);
        Nominee { provider: name.to_owned(), why, at }
    };
    let (near, far): (Vec<_>, Vec<_>) =
        presets().into_iter().partition(|p| p.host == HostKind::Local);
    let mut found = Vec::new();
    for preset in &far {
        let name = preset.name.as_str();
        let key = preset.key_env.iter().find(|variable| env(variable).is_some());
        let why = match key {
            _ if configured(name).is_some() => format!("{name} is configured"),
            _ if moved(name).is_some() => format!("{BASE_URL} is set"),
            Some(key) if preset.detected == Detected::ByKey => format!("{key} is set"),
            _ => continue,
        };
        found.push(nominee(name, why));
    }
    let is = |presets: &[Preset], name: &str| presets.iter().any(|p| p.name == name);
    // Servers on this machine are asked last, where they are looked for at all.
    let last = |name: &str| settings.local_servers && is(&near, name);
    let others = settings.providers.keys().filter(|name| !is(&far, name) && !last(name));
    let near = near.iter().map(|p| &p.name).filter(|name| last(name) && configured(name).is_some());
    found.extend(others.chain(near).map(|name| nominee(name, format!("{name} is configured"))));
    found
}

/// Why a nominee was passed over.
enum Fault {
    /// It lacks what it needs to be called at all, as one may that is configured for another machine.
    Lacks(String),
    /// It is meant to be called, and cannot be.
    Broken(String),
}

impl Nominee {
    /// What is wrong with it.
    async fn fault(&self, providers: &Providers) -> Fault {
        let endpoint = match providers.endpoint(&self.provider) {
            Ok(endpoint) => endpoint,
            Err(
                lack @ (ConfigError::NoKey { .. }
                | ConfigError::NoPlace { .. }
                | ConfigError::NoCredentials { .. }),
            ) => return Fault::Lacks(self.told(&lack.to_string())),
            Err(e) => return Fault::Broken(self.told(&e.to_string())),
        };
        Fault::Broken(match tokio::time::timeout(PATIENCE, endpoint.list_models()).await {
            Err(_) => self.told(&format!("no answer within {} s", PATIENCE.as_secs())),
            Ok(Err(e)) => self.told(&e.to_string()),
            Ok(Ok(_)) => {
                let name = &self.provider;
                self.told(&format!("it lists no model in time; name one: --model {name}:MODEL"))
            }
        })
    }

    fn told(&self, problem: &str) -> String {
        let Self { provider, why, at } = self;
        let at = at.as_ref().map(|at| format!(" at {at}")).unwrap_or_default();
        format!("{why}, but {provider}{at} cannot be used: {problem}")
    }
}

/// Looks at those that were tried before the one that was taken. One that lacks its key or its place steps back for another.
///
/// # Errors
/// When one of them is broken, or none was taken.
pub async fn passed_over(
    providers: &Providers,
    named: &[Nominee],
    taken: Option<&Arc<dyn Model>>,
) -> Result<(), CliError> {
    let at = taken.and_then(|model| {
        named.iter().position(|nominee| *nominee.provider == *model.id().provider)
    });
    let mut lacking = None;
    for nominee in named.iter().take(at.unwrap_or(named.len())) {
        match nominee.fault(providers).await {
            Fault::Broken(told) => return Err(CliError::Failed(told)),
            Fault::Lacks(told) => {
                lacking.get_or_insert(told);
            }
        }
    }
    match lacking.filter(|_| at.is_none()) {
        Some(told) => Err(CliError::Failed(told)),
        None => Ok(()),
    }
}
