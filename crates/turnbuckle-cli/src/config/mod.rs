//! The configuration: `turnbuckle.toml`, then the environment, then flags; what comes later wins.
//!
//! | module | holds |
//! |---|---|
//! | [`file`] | the file's keys, and what is said about unknown ones |
//! | [`template`] | the commented file that `turnbuckle init` writes |

pub mod file;
pub mod template;

use crate::address::Address;
use crate::cli::{Global, Run};
use crate::keep::StoreConfig;
use crate::log::{LogFormat, TelemetryConfig};
use crate::product::Product;
use crate::serve::config::ServerConfig;
use file::{ColorChoice, FileConfig};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use turnbuckle::core::limits::TurnLimits;
use turnbuckle::core::model::ModelRef;
use turnbuckle::models::ProviderConfig;
use turnbuckle::pipeline::Policy;
use turnbuckle::runtime::Titles;

/// The name of the file, wherever it lies.
pub const FILE_NAME: &str = "turnbuckle.toml";
/// The agent when nobody says which.
pub const DEFAULT_AGENT: &str = desk::agent::AGENT;
/// The person when nobody says who: a member of the seeded desk.
pub const DEFAULT_USER: &str = desk::agent::DEFAULT_USER;
/// The organisation of everything on this machine.
pub const DEFAULT_TENANT: &str = "local";

/// A configuration that is not sound.
#[derive(Debug, thiserror::Error)]
pub enum ConfigProblem {
    /// The file cannot be read.
    #[error("the configuration {} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's own words.
        source: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("{}:{line}: {message}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong, and the way out.
        message: String,
    },
    /// An environment variable or flag has a value that means nothing.
    #[error("{name} is `{value}`; it must be {expected}")]
    Value {
        /// The variable or flag.
        name: &'static str,
        /// What it is.
        value: String,
        /// What it could be.
        expected: &'static str,
    },
    /// What is to name the variable of a key cannot be a name, and so may be the key itself: it is not shown.
    #[error(
        "providers.{provider}: `api_key_env` is to name a variable (letters, digits and `_`, no digit first), not to hold the key"
    )]
    KeyVariable {
        /// The provider.
        provider: String,
    },
    /// The platform names no folder for data.
    #[error("this platform names no data folder: set TURNBUCKLE_DATA or use --data")]
    NoDataFolder,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nobody said anything.
    Default,
    /// The file.
    File,
    /// An environment variable.
    Environment(&'static str),
    /// A flag.
    Flag(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Default => "by default",
            Source::File => FILE_NAME,
            Source::Environment(name) | Source::Flag(name) => name,
        })
    }
}

/// A value with its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen<T> {
    /// The value.
    pub value: T,
    /// Where it comes from.
    pub source: Source,
}

/// Everything that is configured.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The file that was read.
    pub file: Option<PathBuf>,
    /// The data folder; it may not be there yet.
    pub data: Chosen<PathBuf>,
    /// The model asked for.
    pub model: Option<Chosen<String>>,
    /// The agent.
    pub agent: Chosen<String>,
    /// The person.
    pub user: Chosen<String>,
    /// The organisation.
    pub tenant: String,
    /// Limits of a turn.
    pub limits: TurnLimits,
    /// Rules about tool calls.
    pub policy: Policy,
    /// Providers of models.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// The rehearsal's pause after each word.
    pub pace: Duration,
    /// How sessions get their titles.
    pub titles: Titles,
    /// Whether to look for model servers on this machine.
    pub local_servers: bool,
    /// Whether to colour.
    pub color: ColorChoice,
    /// The editor for approvals, when the file names one.
    pub editor: Option<String>,
    /// How much to log.
    pub log: String,
    /// Where sessions are kept.
    pub store: StoreConfig,
    /// How lines of the log look.
    pub log_format: LogFormat,
    /// Traces.
    pub telemetry: TelemetryConfig,
    /// The server.
    pub server: ServerConfig,
    /// Whose agents run.
    pub product: Product,
}

/// Looks environment variables up.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The process's environment; an empty variable counts as unset.
pub fn process_env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|v| !v.trim().is_empty())
}

impl Settings {
    /// Reads the file, the environment and the flags.
    ///
    /// # Errors
    /// When any of them says something that means nothing.
    pub fn load(global: &Global, run: &Run, env: Env<'_>) -> Result<Self, ConfigProblem> {
        let path = find_file(global, env);
        let mut config = match &path {
            Some(path) => FileConfig::read(path)?,
            None => FileConfig::default(),
        };
        if let Some(folder) = path.as_deref().and_then(Path::parent) {
            config.resolve_paths(folder);
        }
        key_variables(&config.providers)?;
        let pick = |flag: Option<String>,
                    flag_name: &'static str,
                    variable: &'static str,
                    own: Option<String>| {
            flag.map(|value| Chosen { value, source: Source::Flag(flag_name) })
                .or_else(|| {
                    env(variable)
                        .map(|value| Chosen { value, source: Source::Environment(variable) })
                })
                .or_else(|| own.map(|value| Chosen { value, source: Source::File }))
        };
        let or = |found: Option<Chosen<String>>, default: &str| {
            found.unwrap_or_else(|| Chosen { value: default.to_owned(), source: Source::Default })
        };
        let text = |path: &Option<PathBuf>| path.as_ref().map(|p| p.to_string_lossy().into_owned());
        let data = match pick(text(&global.data), "--data", "TURNBUCKLE_DATA", text(&config.data)) {
            Some(Chosen { value, source }) => Chosen { value: PathBuf::from(value), source },
            None => Chosen {
                value: platform_folder(Folder::Data).ok_or(ConfigProblem::NoDataFolder)?,
                source: Source::Default,
            },
        };
        let log =
            or(pick(global.log.clone(), "--log", "TURNBUCKLE_LOG", config.log.clone()), "off");
        let log_format = match env("TURNBUCKLE_LOG_FORMAT") {
            None => config.log_format.unwrap_or_default(),
            Some(value) => value.parse().map_err(|()| ConfigProblem::Value {
                name: "TURNBUCKLE_LOG_FORMAT",
                value,
                expected: "text or json",
            })?,
        };
        let pace_ms = match env("TURNBUCKLE_REHEARSAL_PACE_MS") {
            None => config.rehearsal.pace_ms,
            Some(value) => value.parse().map_err(|_| ConfigProblem::Value {
                name: "TURNBUCKLE_REHEARSAL_PACE_MS",
                value,
                expected: "a number of milliseconds",
            })?,
        };
        let titles = titles(config.titles)?;
        let mut store = config.store;
        let own = store.url.take().map(|url| url.whole().to_owned());
        store.url = pick(global.store.clone(), "--store", "TURNBUCKLE_STORE", own)
            .map(|chosen| Address::new(chosen.value));
        let color = match env("NO_COLOR") {
            Some(_) => ColorChoice::Never,
            None => config.chat.color,
        };
        Ok(Self {
            file: path,
            data,
            model: pick(run.model.clone(), "--model", "TURNBUCKLE_MODEL", config.model),
            agent: or(
                pick(run.agent.clone(), "--agent", "TURNBUCKLE_AGENT", config.agent),
                DEFAULT_AGENT,
            ),
            user: or(
                pick(run.user.clone(), "--user", "TURNBUCKLE_USER", config.user),
                DEFAULT_USER,
            ),
            tenant: config.tenant.unwrap_or_else(|| DEFAULT_TENANT.to_owned()),
            limits: config.limits,
            policy: config.policy,
            providers: config.providers,
            pace: Duration::from_millis(pace_ms),
            titles,
            local_servers: config.local_servers,
            color,
            editor: config.chat.editor,
            log: log.value,
            store,
            log_format,
            telemetry: config.telemetry.with_environment(env),
            server: config.server.with_environment(env),
            product: Product::default(),
        })
    }
}

/// Looks at what is to name the variables of keys.
fn key_variables(providers: &BTreeMap<String, ProviderConfig>) -> Result<(), ConfigProblem> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let names = |text: &str| {
        text.chars().all(plain) && text.starts_with(|first: char| !first.is_ascii_digit())
    };
    for (provider, config) in providers {
        if config.api_key_env.as_deref().is_some_and(|variable| !names(variable)) {
            return Err(ConfigProblem::KeyVariable { provider: provider.clone() });
        }
    }
    Ok(())
}

fn titles(wish: Option<String>) -> Result<Titles, ConfigProblem> {
    let Some(value) = wish else { return Ok(Titles::default()) };
    match (value.as_str(), ModelRef::parse(&value)) {
        ("off", _) => Ok(Titles::Off),
        ("first-message", _) => Ok(Titles::FirstMessage),
        (_, Some(model)) => Ok(Titles::Model(model)),
        (_, None) => Err(ConfigProblem::Value {
            name: "titles",
            value,
            expected: "off, first-message, or a model as provider:model",
        }),
    }
}

/// The file to read: the one that was named, else the first there is.
fn find_file(global: &Global, env: Env<'_>) -> Option<PathBuf> {
    let named = global.config.clone().or_else(|| env("TURNBUCKLE_CONFIG").map(PathBuf::from));
    named.or_else(|| {
        let here = PathBuf::from(FILE_NAME);
        let there = platform_folder(Folder::Config).map(|folder| folder.join(FILE_NAME));
        [Some(here), there].into_iter().flatten().find(|path| path.is_file())
    })
}

/// What a platform has folders for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folder {
    /// Configuration.
    Config,
    /// Data.
    Data,
}

/// Our folder in the platform's own.
pub fn platform_folder(folder: Folder) -> Option<PathBuf> {
    use etcetera::BaseStrategy;
    let strategy = etcetera::base_strategy::choose_native_strategy().ok()?;
    let base = match folder {
        Folder::Config => strategy.config_dir(),
        Folder::Data => strategy.data_dir(),
    };
    Some(base.join("turnbuckle"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str, env: &[(&str, &str)], run: &Run) -> Result<Settings, ConfigProblem> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE_NAME);
        std::fs::write(&path, text).unwrap();
        let global = Global { config: Some(path), data: Some("d".into()), ..Global::default() };
        let env = |name: &str| env.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        Settings::load(&global, run, &env)
    }

    #[test]
    fn flags_win_over_the_environment_and_that_over_the_file() {
        let file = "model = \"file:m\"\nagent = \"a\"\nuser = \"u\"";
        let none = Run::default();
        let model = |s: Settings| s.model.map(|m| (m.value, m.source)).unwrap();
        assert_eq!(model(load(file, &[], &none).unwrap()), ("file:m".into(), Source::File));
        let env = [("TURNBUCKLE_MODEL", "env:m")];
        let variable = Source::Environment("TURNBUCKLE_MODEL");
        assert_eq!(model(load(file, &env, &none).unwrap()), ("env:m".into(), variable));
        let flag = Run { model: Some("flag:m".into()), ..Run::default() };
        let settings = load(file, &env, &flag).unwrap();
        assert_eq!((settings.agent.value.as_str(), settings.user.value.as_str()), ("a", "u"));
        assert_eq!(model(settings), ("flag:m".into(), Source::Flag("--model")));
    }

    #[test]
    fn nothing_said_gives_the_documented_defaults() {
        let settings = load("", &[], &Run::default()).unwrap();
        assert_eq!(settings.agent, Chosen { value: DEFAULT_AGENT.into(), source: Source::Default });
        assert_eq!(settings.user.value, DEFAULT_USER);
        assert_eq!(settings.limits, TurnLimits::default());
        assert_eq!(settings.pace, Duration::from_millis(15));
        assert_eq!(settings.log, "off");
    }

    #[test]
    fn a_key_is_never_taken_for_the_name_of_its_variable() {
        let load = |name: &str| {
            load(&format!("[providers.mine]\napi_key_env = \"{name}\""), &[], &Run::default())
        };
        for name in ["MY_KEY", "_k2", "key"] {
            assert!(load(name).is_ok(), "{name}");
        }
        for key in ["sk-very-secret", "2secret", "", "a secret", "sécret"] {
            let told = load(key).unwrap_err().to_string();
            assert!(told.starts_with("providers.mine: `api_key_env`"), "{told}");
            assert!(!told.contains("secret"), "{told}");
        }
    }

    #[test]
    fn titles_are_made_in_one_of_three_ways() {
        let titles = |text: &str| load(text, &[], &Run::default()).map(|s| s.titles);
        assert_eq!(titles("").unwrap(), Titles::FirstMessage);
        assert_eq!(titles("titles = \"off\"").unwrap(), Titles::Off);
        let small = ModelRef::new("openai", "small");
        assert_eq!(titles("titles = \"openai:small\"").unwrap(), Titles::Model(small));
        assert_eq!(
            titles("titles = \"maybe\"").unwrap_err().to_string(),
            "titles is `maybe`; it must be off, first-message, or a model as provider:model"
        );
    }

    #[test]
    fn a_store_is_named_like_anything_else() {
        let none = Run::default();
        let url = |s: Settings| s.store.url.map(|url| url.whole().to_owned());
        assert_eq!(url(load("", &[], &none).unwrap()), None);
        let file = "[store]\nurl = \"sqlite:/var/s.db\"\nlease_ms = 5000";
        let settings = load(file, &[], &none).unwrap();
        assert_eq!(settings.store.lease(), Duration::from_secs(5));
        assert_eq!(url(settings), Some("sqlite:/var/s.db".to_owned()));
        let env = [("TURNBUCKLE_STORE", "postgres://u:secret@h/db")];
        let settings = load(file, &env, &none).unwrap();
        assert!(!format!("{settings:?}").contains("secret"));
        assert_eq!(url(settings), Some("postgres://u:secret@h/db".to_owned()));
    }

    #[test]
    fn a_pace_that_is_no_number_names_its_variable() {
        let env = [("TURNBUCKLE_REHEARSAL_PACE_MS", "slow")];
        let error = load("", &env, &Run::default()).unwrap_err().to_string();
        assert_eq!(
            error,
            "TURNBUCKLE_REHEARSAL_PACE_MS is `slow`; it must be a number of milliseconds"
        );
    }

    #[test]
    fn the_file_that_init_writes_is_sound_and_changes_nothing() {
        let settings = load(template::TEMPLATE, &[], &Run::default()).unwrap();
        let plain = load("", &[], &Run::default()).unwrap();
        assert_eq!(settings.limits, plain.limits);
        assert_eq!(settings.providers, plain.providers);
        assert_eq!(settings.agent.value, plain.agent.value);
        assert!(settings.model.is_none());
    }

    #[test]
    fn every_line_of_the_template_is_valid_when_uncommented() {
        // A key that is commented out stands as `# key = value`; prose begins with `##`.
        let live: Vec<&str> = template::TEMPLATE
            .lines()
            .filter(|line| !line.starts_with("##"))
            .map(|line| line.strip_prefix("# ").unwrap_or(line))
            .collect();
        let settings = load(&live.join("\n"), &[], &Run::default()).unwrap();
        assert_eq!(settings.policy.rules.len(), 1);
        assert!(settings.providers.contains_key("my-gateway"));
        assert!(settings.model.is_some());
    }
}
