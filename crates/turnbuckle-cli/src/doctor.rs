//! What is configured, what is reachable, what to set.

use crate::choice;
use crate::config::{ConfigProblem, Settings, process_env};
use crate::error::CliError;
use crate::exit::Exit;
use crate::keep::{self, Keep, open_store};
use crate::place::{DESK, Ownership};
use crate::sessions::list;
use crate::term::{Screen, Style, words};
use desk::Found;
use std::collections::BTreeSet;
use std::io;
use std::time::Duration;
use turnbuckle::models::Providers;
use turnbuckle::models::config::{HostKind, presets};
use turnbuckle::store::{PostgresStore, SqliteStore, StoreError, Tables};

/// How long a provider has to answer the cheapest question.
const PATIENCE: Duration = Duration::from_secs(10);

/// Examines everything.
///
/// # Errors
/// When the terminal fails.
pub async fn run(settings: Result<Settings, ConfigProblem>) -> Result<Exit, CliError> {
    let color = settings.as_ref().map(|s| s.color).unwrap_or_default();
    let mut report = Report { screen: Screen::stdout(color), broken: 0 };
    report.head(&format!("turnbuckle {}", env!("CARGO_PKG_VERSION")))?;
    match settings {
        Err(problem) => report.bad("configuration", &problem.to_string())?,
        Ok(settings) => {
            match &settings.file {
                Some(file) => report.good("configuration", &file.display().to_string())?,
                None => report
                    .note("configuration", "no file; `turnbuckle init` writes a commented one")?,
            }
            report.data(&settings).await?;
            report.sessions(&settings).await?;
            report.bus(&settings).await?;
            let providers = choice::providers(&settings);
            report.model(&settings, &providers).await?;
            report.providers(&settings, &providers).await?;
        }
    }
    report.verdict()
}

struct Report {
    screen: Screen,
    broken: usize,
}

impl Report {
    fn head(&mut self, text: &str) -> io::Result<()> {
        self.screen.line(Style::Bold, text)
    }

    fn good(&mut self, what: &str, text: &str) -> io::Result<()> {
        self.screen.line(Style::Good, &format!("✓ {what:<14} {text}"))
    }

    fn note(&mut self, what: &str, text: &str) -> io::Result<()> {
        self.screen.line(Style::Plain, &format!("· {what:<14} {text}"))
    }

    fn bad(&mut self, what: &str, text: &str) -> io::Result<()> {
        self.broken += 1;
        let text = text.lines().collect::<Vec<_>>().join("; ");
        self.screen.line(Style::Bad, &format!("✗ {what:<14} {text}"))
    }

    /// Looks at the data folder without making it.
    async fn data(&mut self, settings: &Settings) -> io::Result<()> {
        let folder = &settings.data.value;
        let shown = format!("{} ({})", folder.display(), settings.data.source);
        if !folder.exists() {
            return self.note(
                "data folder",
                &format!("{shown} is not there yet; the first start makes it"),
            );
        }
        match Ownership::take(folder) {
            Ok(_) => self.good("data folder", &shown)?,
            Err(CliError::InUse { .. }) => {
                self.note("data folder", &format!("{shown} is in use by another turnbuckle"))?;
            }
            Err(e) => self.bad("data folder", &e.line())?,
        }
        if !folder.join(DESK).exists() {
            return self.note("desk", "not there yet; the first start fills it");
        }
        match desk::Desk::look(folder.join(DESK)).await {
            Err(e) => self.bad("desk", &format!("{DESK}: {e}")),
            Ok(Found::Nothing) => {
                self.note("desk", &format!("{DESK} is empty; the first start fills it"))
            }
            Ok(Found::Older) => self.note(
                "desk",
                &format!("{DESK} is of an older version; the next start brings it up to date"),
            ),
            Ok(Found::Desk(desk)) => match desk.caller(&settings.user.value).await {
                Ok(_) => {
                    self.good("desk", &format!("{DESK} opens, {} is a member", settings.user.value))
                }
                Err(e) => {
                    let line =
                        format!("the user {} ({}): {e}", settings.user.value, settings.user.source);
                    self.bad("desk", &line)
                }
            },
        }
    }

    /// Where sessions are kept, and whether that is there. Nothing is made or changed.
    async fn sessions(&mut self, settings: &Settings) -> io::Result<()> {
        let keep = match Keep::of(settings) {
            Ok(keep) => keep,
            Err(e) => return self.bad("sessions", &e.line()),
        };
        match &keep {
            Keep::Memory => self.note("sessions", &format!("in {keep}")),
            Keep::Folder(path) | Keep::File(path) if !path.exists() => {
                self.note("sessions", &format!("none yet; the first start makes {keep}"))
            }
            Keep::Folder(path) | Keep::File(path) => {
                let looked = SqliteStore::look(path).await;
                self.tables(settings, &keep, looked).await
            }
            Keep::Postgres(url) => {
                let look = PostgresStore::look(keep::postgres(settings, url));
                match tokio::time::timeout(PATIENCE, look).await {
                    Ok(looked) => self.tables(settings, &keep, looked).await,
                    Err(_) => self.bad(
                        "sessions",
                        &format!("{keep} does not answer within {} s", PATIENCE.as_secs()),
                    ),
                }
            }
        }
    }

    /// What was found in the database of sessions.
    async fn tables(
        &mut self,
        settings: &Settings,
        keep: &Keep,
        looked: Result<Tables, StoreError>,
    ) -> io::Result<()> {
        match looked {
            Err(e) => self.bad("sessions", &format!("{keep}: {}", e.report())),
            Ok(Tables::None) => {
                self.note("sessions", &format!("{keep} answers; the first start makes its tables"))
            }
            Ok(Tables::Older) => self.note(
                "sessions",
                &format!("{keep} is of an older version; the next start brings it up to date"),
            ),
            Ok(Tables::Current) => match count(settings).await {
                Ok(count) => self.good("sessions", &format!("{keep} answers, {count}")),
                Err(e) => self.bad("sessions", &e.line()),
            },
        }
    }

    /// How processes tell each other what happens, where there are several.
    async fn bus(&mut self, settings: &Settings) -> io::Result<()> {
        // What is wrong with the address of the sessions is told there.
        let Ok(keep) = Keep::of(settings) else { return Ok(()) };
        let (url, options) = settings.server.bus_for(&keep);
        if url.scheme() == "memory" {
            return Ok(());
        }
        let reached = match turnbuckle_bus::open(options).await {
            Ok(bus) => bus.check().await,
            Err(e) => Err(e),
        };
        match reached {
            Ok(()) => self.good("bus", &format!("{url} answers")),
            Err(e) => {
                let cause =
                    std::error::Error::source(&e).map(|c| format!(": {c}")).unwrap_or_default();
                self.bad("bus", &format!("{url}: {e}{cause} ({})", e.hint()))
            }
        }
    }

    async fn model(&mut self, settings: &Settings, providers: &Providers) -> io::Result<()> {
        match choice::choose(settings, providers).await {
            Err(e) => self.bad("model", &e.line()),
            Ok(choice) if choice.is_rehearsal() => {
                self.note("model", &format!("REHEARSAL, no model: {}", choice.why))?;
                for line in choice::how_to_get_a_model() {
                    self.note("", &line)?;
                }
                Ok(())
            }
            Ok(choice) => {
                let info = choice.model.info();
                let line = format!(
                    "{} ({}), window {} tokens ({})",
                    choice.model.id(),
                    choice.why,
                    info.context_window,
                    info.source
                );
                self.good("model", &line)
            }
        }
    }

    /// Asks every provider that is configured, or has its key in the environment, what models it has.
    async fn providers(&mut self, settings: &Settings, providers: &Providers) -> io::Result<()> {
        let mut names: BTreeSet<String> = settings.providers.keys().cloned().collect();
        for preset in presets() {
            let keyed = preset.key_env.iter().any(|name| process_env(name).is_some());
            let moved = preset.name == "openai" && process_env("OPENAI_BASE_URL").is_some();
            if preset.host != HostKind::Local && (keyed || moved) {
                names.insert(preset.name);
            }
        }
        if names.is_empty() {
            return self.note("providers", "none is configured and no key is set");
        }
        for name in names {
            match ask(providers, &name).await {
                Ok(line) => self.good(&name, &line)?,
                Err(line) => self.bad(&name, &line)?,
            }
        }
        Ok(())
    }

    fn verdict(mut self) -> Result<Exit, CliError> {
        if self.broken == 0 {
            self.screen.line(Style::Good, "Nothing is broken.")?;
            return Ok(Exit::Completed);
        }
        let line = match self.broken {
            1 => "One thing is broken.".to_owned(),
            n => format!("{n} things are broken."),
        };
        self.screen.line(Style::Bad, &line)?;
        Ok(Exit::Failed)
    }
}

/// How many sessions there are, about.
async fn count(settings: &Settings) -> Result<String, CliError> {
    const SOME: u32 = 1000;
    let store = open_store(settings).await?.sessions;
    let found = list(&*store, settings, None, SOME).await?.len();
    Ok(match found as u32 {
        SOME => format!("{SOME} sessions or more"),
        n => words::count(n as usize, "session"),
    })
}

/// The cheapest question, which also proves the key; the error is the provider's own.
async fn ask(providers: &Providers, name: &str) -> Result<String, String> {
    let endpoint = providers.endpoint(name).map_err(|e| e.to_string())?;
    match tokio::time::timeout(PATIENCE, endpoint.list_models()).await {
        Err(_) => Err(format!(
            "no answer within {} s; check that its base URL is reachable",
            PATIENCE.as_secs()
        )),
        Ok(Err(e)) => Err(e.to_string()),
        Ok(Ok(models)) => Ok(format!("answers, {}", words::count(models.len(), "model"))),
    }
}
