//! The `turnbuckle` binary.
//!
//! | module | holds |
//! |---|---|
//! | [`cli`], [`exit`], [`error`] | the command line, exit codes, errors |
//! | [`config`], [`place`], [`choice`], [`host`] | what is configured, the data folder, the model, the engine on them |
//! | [`chat`] | the conversation in the terminal |
//! | [`run`] | one turn without a conversation |
//! | [`term`] | the terminal: what is printed, markdown, a turn's events, stored messages |
//! | [`sessions`], [`captured`], [`replay`], [`tools`], [`models`], [`wire`], [`doctor`] | the other commands |

mod captured;
mod chat;
mod choice;
mod cli;
mod config;
mod doctor;
mod error;
mod exit;
mod host;
mod models;
mod place;
mod replay;
mod run;
mod sessions;
mod signals;
mod term;
mod tools;
mod wire;

use clap::Parser;
use cli::{Cli, Command, Global, Run};
use config::{FILE_NAME, Settings, process_env, template};
use error::CliError;
use exit::Exit;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tracing_subscriber::filter::LevelFilter;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match start(cli) {
        Ok(exit) => exit.into(),
        Err(error) => {
            // Whoever reads the errors is gone when this fails; the exit code still says it.
            let _ = writeln!(std::io::stderr(), "turnbuckle: {}", error.line());
            match error {
                CliError::Usage(_) => ExitCode::from(2),
                _ => Exit::Failed.into(),
            }
        }
    }
}

fn start(cli: Cli) -> Result<Exit, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CliError::io("the runtime cannot be started"))?;
    let exit = runtime.block_on(dispatch(cli));
    // A thread that still waits for a line of input must not hold the process up.
    runtime.shutdown_background();
    exit
}

async fn dispatch(cli: Cli) -> Result<Exit, CliError> {
    let global = cli.global;
    match cli.command {
        Command::Init { file, force } => init(file.as_deref(), force),
        Command::Wire { what } => wire::run(what),
        Command::Chat(args) => {
            let settings = settings(&global, &args.run)?;
            chat::run(settings, &args).await
        }
        Command::Run(args) => {
            let settings = settings(&global, &args.run)?;
            run::run(settings, args).await
        }
        Command::Sessions { what } => {
            sessions::run(settings(&global, &Run::default())?, what).await
        }
        Command::Captured { what } => {
            captured::run(settings(&global, &Run::default())?, what).await
        }
        Command::Tools { run, what } => tools::run(settings(&global, &run)?, what).await,
        Command::Replay(args) => replay::run(settings(&global, &Run::default())?, args).await,
        // What is wrong with the configuration is the doctor's to tell.
        Command::Doctor(run) => doctor::run(Settings::load(&global, &run, &process_env)).await,
        Command::Models { what } => models::run(settings(&global, &Run::default())?, what).await,
    }
}

fn settings(global: &Global, run: &Run) -> Result<Settings, CliError> {
    let settings = Settings::load(global, run, &process_env)?;
    start_log(&settings)?;
    Ok(settings)
}

fn start_log(settings: &Settings) -> Result<(), CliError> {
    let level: LevelFilter = settings.log.parse().map_err(|_| {
        CliError::Usage(format!(
            "the log level is `{}`; it must be off, error, warn, info, debug or trace",
            settings.log
        ))
    })?;
    if level != LevelFilter::OFF {
        tracing_subscriber::fmt()
            .with_max_level(level)
            .with_writer(std::io::stderr)
            .with_ansi(false)
            .init();
    }
    Ok(())
}

fn init(file: Option<&Path>, force: bool) -> Result<Exit, CliError> {
    let path = file.map_or_else(|| PathBuf::from(FILE_NAME), Path::to_owned);
    let mut options = std::fs::File::options();
    options.write(true).create(true).truncate(true);
    if !force {
        options.create_new(true);
    }
    let written = options.open(&path).and_then(|mut f| f.write_all(template::TEMPLATE.as_bytes()));
    written.map_err(|source| match source.kind() {
        std::io::ErrorKind::AlreadyExists => {
            CliError::Failed(format!("{} is there already: --force overwrites it", path.display()))
        }
        _ => CliError::Io { what: format!("{} cannot be written", path.display()), source },
    })?;
    writeln!(std::io::stdout(), "Wrote {}. Every key in it is explained there.", path.display())?;
    Ok(Exit::Completed)
}
