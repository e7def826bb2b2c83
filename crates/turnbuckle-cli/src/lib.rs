//! The `turnbuckle` binary, as a library: its `main`, and the same with another product's agents.
//!
//! | module | holds |
//! |---|---|
//! | `cli`, `exit`, `error` | the command line, exit codes, errors |
//! | `config`, `address`, `place`, `keep` | what is configured, the data folder, the databases |
//! | `choice`, `nominees`, `product`, `host` | the model, the agents, the engine on all of them |
//! | `chat` | the conversation in the terminal |
//! | `run` | one turn without a conversation |
//! | `serve` | the HTTP API, the worker and the web UI; API keys |
//! | `log` | the log and the traces |
//! | `term` | the terminal: what is printed, markdown, a turn's events, stored messages |
//! | `sessions`, `captured`, `replay`, `tools`, `models`, `wire`, `doctor`, `db` | the other commands |

mod address;
mod attach;
mod captured;
mod chat;
mod choice;
mod cli;
mod config;
mod db;
mod doctor;
mod error;
mod exit;
mod host;
mod keep;
mod log;
mod models;
mod nominees;
mod place;
mod product;
mod replay;
mod run;
mod serve;
mod sessions;
mod signals;
mod term;
mod tools;
mod wire;

use clap::Parser;
use cli::{Cli, Command, Global, Reader, Run};
use config::{FILE_NAME, Settings, process_env, template};
use error::CliError;
use exit::Exit;
use product::Product;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use turnbuckle::Domain;

/// The binary: reads the command line of the process, and does what it says.
pub fn main() -> ExitCode {
    carry_out(Cli::parse(), Product::Desk)
}

/// As [`main`], with another command line (the program's name first) and other agents than the desk's.
pub fn main_with<S: Into<OsString> + Clone>(
    arguments: impl IntoIterator<Item = S>,
    domain: Arc<dyn Domain>,
) -> ExitCode {
    carry_out(Cli::parse_from(arguments), Product::Own(domain))
}

fn carry_out(cli: Cli, product: Product) -> ExitCode {
    match start(cli, product) {
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

fn start(cli: Cli, product: Product) -> Result<Exit, CliError> {
    // A server has work for every core; a command has not.
    let mut runtime = match &cli.command {
        Command::Serve(_) | Command::Work(_) => tokio::runtime::Builder::new_multi_thread(),
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime =
        runtime.enable_all().build().map_err(CliError::io("the runtime cannot be started"))?;
    let reader = cli.command.reader();
    let exit = runtime.block_on(async {
        let exit = dispatch(cli, product).await;
        log::finish().await;
        exit
    });
    // A thread that still waits for a line of input must not hold the process up.
    runtime.shutdown_background();
    match exit {
        Err(error) if reader == Reader::MayLeave && error.is_closed_pipe() => Ok(Exit::Completed),
        exit => exit,
    }
}

async fn dispatch(cli: Cli, product: Product) -> Result<Exit, CliError> {
    let settings = |global: &Global, run: &Run| settings(global, run, &product);
    let global = cli.global;
    match cli.command {
        Command::Init { file, force } => init(file.as_deref(), force),
        Command::Wire { what } => wire::run(what),
        Command::Chat(args) => {
            let settings = settings(&global, &args.run)?;
            chat::run(settings, &args).await
        }
        Command::Serve(args) => serve::run(settings(&global, &args.run)?, args).await,
        Command::Work(run) => {
            let settings = settings(&global, &run)?;
            serve::run(settings, serve::ServeArgs::worker(run)).await
        }
        Command::Openapi => serve::openapi(),
        Command::Keys { what } => serve::keys::run(settings(&global, &Run::default())?, what).await,
        Command::Db { what } => db::run(settings(&global, &Run::default())?, what).await,
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

fn settings(global: &Global, run: &Run, product: &Product) -> Result<Settings, CliError> {
    let mut settings = Settings::load(global, run, &process_env)?;
    settings.product = product.clone();
    log::start(&settings)?;
    Ok(settings)
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
