//! `turnbuckle db`: bringing the store up to date, looking whether it is whole, taking it elsewhere.

use crate::config::Settings;
use crate::error::CliError;
use crate::exit::Exit;
use crate::host::now;
use crate::keep::{open_accounts, open_kept, open_kept_accounts, open_store};
use crate::term::words::count;
use clap::{Args, Subcommand};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use turnbuckle::store::Opened;
use turnbuckle::store::archive::{self, Annex, ArchiveError, Checked, Counts, Flaw};
use turnbuckle_server::accounts::AccountsAnnex;

/// How often progress is told.
const EVERY: Duration = Duration::from_secs(1);

/// What to do with the store.
#[derive(Debug, Subcommand)]
pub enum DbCommand {
    /// Bring the tables up to date. Every start does; this one does nothing else.
    Migrate,
    /// Look whether all is whole: numbers without gaps, messages as their events say, nothing without its session.
    Check,
    /// Write all of the store as lines of JSON, for any other store.
    Export(FileArgs),
    /// Read what `export` wrote. What is there already is not changed.
    Import(FileArgs),
}

/// A file.
#[derive(Debug, Args)]
pub struct FileArgs {
    /// The file; without it, or as `-`, standard output or input.
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
}

impl FileArgs {
    fn path(&self) -> Option<&Path> {
        self.file.as_deref().filter(|path| path.as_os_str() != "-")
    }
}

/// Sees to the store.
///
/// # Errors
/// When the store or the file cannot be used, or the store is not whole.
pub async fn run(settings: Settings, what: DbCommand) -> Result<Exit, CliError> {
    match what {
        DbCommand::Migrate => {
            open_store(&settings).await?;
            // Those of keys and of the audit log, too.
            open_accounts(&settings).await?;
            writeln!(io::stdout(), "The tables are up to date.")?;
            Ok(Exit::Completed)
        }
        DbCommand::Check => {
            let (store, annex) = kept(&settings).await?;
            check(&store, beside(&annex)).await
        }
        DbCommand::Export(args) => {
            let (store, annex) = kept(&settings).await?;
            export(&store, beside(&annex), args.path()).await
        }
        DbCommand::Import(args) => {
            let store = open_store(&settings).await?;
            let annex = AccountsAnnex(open_accounts(&settings).await?);
            import(&store, &annex, args.path()).await
        }
    }
}

/// What is there, and what is kept beside it.
async fn kept(settings: &Settings) -> Result<(Opened, Option<AccountsAnnex>), CliError> {
    let store = open_kept(settings).await?;
    Ok((store, open_kept_accounts(settings).await?.map(AccountsAnnex)))
}

fn beside(annex: &Option<AccountsAnnex>) -> Option<&dyn Annex> {
    annex.as_ref().map(|annex| annex as &dyn Annex)
}

async fn check(store: &Opened, annex: Option<&dyn Annex>) -> Result<Exit, CliError> {
    let mut pace = Pace::new();
    let mut told = |checked: &Checked, flaw: Option<&Flaw>| {
        if let Some(flaw) = flaw {
            // Whoever reads this is gone when it fails, and the exit code still says it.
            let _ = writeln!(io::stdout(), "{flaw}");
        }
        pace.tell(|| count(checked.sessions as usize, "session"));
    };
    let checked = archive::check(store, annex, &mut told).await.map_err(failed)?;
    let seen = listed(&[
        (checked.sessions, "session"),
        (checked.turns, "turn"),
        (checked.events, "event"),
        (checked.blobs, "blob"),
        (checked.allowances, "allowance"),
        (checked.keys, "API key"),
        (checked.audit, "audit record"),
    ]);
    if checked.flaws > 0 {
        let flaws = count(checked.flaws as usize, "flaw");
        return Err(CliError::Failed(format!(
            "the store is not whole: {flaws} in {seen}; see \"When the store is not whole\" in docs/operations.md"
        )));
    }
    writeln!(io::stdout(), "The store is whole: {seen}.")?;
    Ok(Exit::Completed)
}

async fn export(
    store: &Opened,
    annex: Option<&dyn Annex>,
    path: Option<&Path>,
) -> Result<Exit, CliError> {
    let mut out: Box<dyn Write + Send> = match path {
        None => Box::new(BufWriter::new(io::stdout())),
        Some(path) => {
            let file = private(path).map_err(|source| match source.kind() {
                io::ErrorKind::AlreadyExists => CliError::Failed(format!(
                    "{} is there already: choose another name, or remove it",
                    path.display()
                )),
                _ => CliError::Io { what: format!("{} cannot be written", path.display()), source },
            })?;
            Box::new(BufWriter::new(file))
        }
    };
    let mut pace = Pace::new();
    let mut progress = |counts: &Counts| pace.tell(|| words(counts));
    let counts = archive::export(store, annex, &mut *out, &mut progress).await.map_err(failed)?;
    writeln!(io::stderr(), "Written: {}.", words(&counts))?;
    Ok(Exit::Completed)
}

async fn import(store: &Opened, annex: &dyn Annex, path: Option<&Path>) -> Result<Exit, CliError> {
    let mut input: Box<dyn BufRead + Send> = match path {
        None => Box::new(BufReader::new(io::stdin())),
        Some(path) => {
            let file = File::open(path)
                .map_err(CliError::io(format!("{} cannot be read", path.display())))?;
            Box::new(BufReader::new(file))
        }
    };
    let mut pace = Pace::new();
    let mut progress = |counts: &Counts| pace.tell(|| words(counts));
    let counts = archive::import(store, annex, &mut *input, now(), &mut progress).await;
    let counts = counts.map_err(failed)?;
    writeln!(io::stderr(), "Stored: {}.", words(&counts))?;
    Ok(Exit::Completed)
}

/// A new file that only its owner may read: it holds what people said.
fn private(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn failed(error: ArchiveError) -> CliError {
    CliError::Failed(error.to_string())
}

fn words(counts: &Counts) -> String {
    listed(&[
        (counts.sessions, "session"),
        (counts.messages, "message"),
        (counts.events, "event"),
        (counts.blobs, "blob"),
        (counts.schedules, "schedule"),
        (counts.jobs, "job"),
        (counts.usage, "metered call"),
        (counts.allowances, "allowance"),
        (counts.keys, "API key"),
        (counts.audit, "audit record"),
    ])
}

fn listed(all: &[(u64, &str)]) -> String {
    let words: Vec<String> = all.iter().map(|(n, what)| count(*n as usize, what)).collect();
    words.join(", ")
}

/// Tells progress now and then.
struct Pace(Instant);

impl Pace {
    fn new() -> Self {
        Self(Instant::now())
    }

    fn tell(&mut self, what: impl FnOnce() -> String) {
        if self.0.elapsed() >= EVERY {
            self.0 = Instant::now();
            let _ = writeln!(io::stderr(), "... {}", what());
        }
    }
}
