//! The server: the HTTP API, the worker and the web UI in one process, or the parts apart.
//!
//! | module | holds |
//! |---|---|
//! | [`config`] | `[server]` of `turnbuckle.toml` |
//! | [`keys`] | `turnbuckle keys` |
//! | `signals` | when to end |

pub mod config;
pub mod keys;
mod signals;

use crate::cli::Run;
use crate::config::Settings;
use crate::error::CliError;
use crate::exit::Exit;
use crate::host::{Access, Host};
use crate::keep::{Keep, open_accounts};
use clap::Args;
use config::ServerConfig;
use signals::Signals;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use turnbuckle_bus::Bus;
use turnbuckle_server::auth::Authenticator;
use turnbuckle_server::auth::jwt::Tokens;
use turnbuckle_server::auth::principal::Principal;
use turnbuckle_server::config::ApiOptions;
use turnbuckle_server::dto::ModelInUse;
use turnbuckle_server::metrics::Metrics;
use turnbuckle_server::worker::Worker;
use turnbuckle_server::{Api, server, ui};

/// What `serve` takes.
#[derive(Debug, Args)]
pub struct ServeArgs {
    #[command(flatten)]
    pub run: Run,
    /// The address and port to listen on. Otherwise TURNBUCKLE_LISTEN, then the configuration, then 127.0.0.1:7777.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<String>,
    /// The port alone.
    #[arg(long, short, conflicts_with = "listen")]
    pub port: Option<u16>,
    /// Serve the API without driving turns; workers elsewhere do. Needs sessions that the processes share; see --store.
    #[arg(long, conflicts_with = "worker_only")]
    pub no_worker: bool,
    /// Drive turns without serving the API. Needs sessions that the processes share; see --store.
    #[arg(long)]
    pub worker_only: bool,
}

/// Which parts run in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parts {
    All,
    Api,
    Worker,
}

impl ServeArgs {
    /// A worker alone.
    pub fn worker(run: Run) -> Self {
        Self { run, listen: None, port: None, no_worker: false, worker_only: true }
    }

    fn parts(&self) -> Parts {
        match (self.no_worker, self.worker_only) {
            (true, _) => Parts::Api,
            (_, true) => Parts::Worker,
            _ => Parts::All,
        }
    }
}

/// Serves until it is told to end.
///
/// # Errors
/// When it cannot begin.
pub async fn run(settings: Settings, args: ServeArgs) -> Result<Exit, CliError> {
    // From the first moment: what is waited for at the start may never come, and the first process of a container is ended by no
    // signal that it does not listen to.
    let mut signals = Signals::listen()?;
    let running = tokio::select! {
        running = begin(settings, args) => running?,
        () = signals.next() => return Ok(Exit::Completed),
    };
    signals.next().await;
    writeln!(std::io::stderr(), "Ending; a second signal ends at once, and nothing is lost.")?;
    tokio::select! {
        () = running.end() => Ok(Exit::Completed),
        () = signals.next() => std::process::exit(130),
    }
}

/// What runs in this process.
struct Running {
    serving: Option<(Api, JoinHandle<()>)>,
    worker: Option<Worker>,
    bus: Arc<dyn Bus>,
    /// What they work with.
    _host: Host,
    /// Ends what listens.
    stop: CancellationToken,
}

impl Running {
    async fn end(self) {
        self.stop.cancel();
        if let Some((api, serving)) = self.serving {
            api.shutdown().cancel();
            // The streams are told, the turns are not stopped.
            let _ = serving.await;
        }
        if let Some(worker) = self.worker {
            worker.stop().await;
        }
        self.bus.close().await;
    }
}

/// Begins to serve.
async fn begin(settings: Settings, args: ServeArgs) -> Result<Running, CliError> {
    let parts = args.parts();
    let config = settings.server.clone();
    let bus = open_bus(&config, &Keep::of(&settings)?, parts).await?;
    let host = Host::open(settings, Access::Owner).await?;
    let metrics = Metrics::new();
    let worker = (parts != Parts::Api).then(|| {
        Worker::start_with_jobs(
            host.engine.clone(),
            bus.clone(),
            metrics.clone(),
            config.worker.options(),
            host.jobs.clone(),
        )
    });
    let mut out = std::io::stdout();
    let stop = CancellationToken::new();
    let serving = if parts == Parts::Worker {
        if let Some(listener) = operators(&config).await? {
            tokio::spawn(server::serve(listener, server::counts(metrics), stop.clone()));
        }
        writeln!(out, "Working on {}. Ctrl-C ends it.", host.keep)?;
        None
    } else {
        let api = api(&host, &config, bus.clone(), metrics, parts).await?;
        let address = listen(&args, &config);
        let listener = bind(&address, &api).await?;
        let at = listener.local_addr().map_err(CliError::io("the address is not known"))?;
        if let Some(listener) = operators(&config).await? {
            tokio::spawn(server::serve(listener, server::operators(&api), stop.clone()));
        }
        greet(&mut out, &host, &api, at)?;
        let router = turnbuckle_server::router(&api);
        Some((api, tokio::spawn(server::serve(listener, router, stop.clone()))))
    };
    out.flush()?;
    Ok(Running { serving, worker, bus, _host: host, stop })
}

/// Prints the description of the HTTP API.
///
/// # Errors
/// When it cannot be written.
pub fn openapi() -> Result<Exit, CliError> {
    let document = turnbuckle_server::document().to_pretty_json();
    let document =
        document.map_err(|e| CliError::Failed(format!("the document has no JSON: {e}")))?;
    writeln!(std::io::stdout(), "{document}")?;
    Ok(Exit::Completed)
}

/// The listener for whoever watches over the process.
async fn operators(config: &ServerConfig) -> Result<Option<TcpListener>, CliError> {
    let Some(address) = &config.operators else { return Ok(None) };
    let listener = TcpListener::bind(address).await.map_err(|e| {
        CliError::Failed(format!("cannot listen on {address}, which `operators` names: {e}"))
    })?;
    Ok(Some(listener))
}

async fn open_bus(
    config: &ServerConfig,
    keep: &Keep,
    parts: Parts,
) -> Result<Arc<dyn Bus>, CliError> {
    if parts != Parts::All && !keep.is_shared() {
        return Err(CliError::Usage(format!(
            "API and worker in different processes need sessions that they share, and {keep} is one process's: set `url` under [store] in turnbuckle.toml, such as postgres://..., or TURNBUCKLE_STORE"
        )));
    }
    let (url, options) = config.bus_for(keep);
    if parts != Parts::All && url.scheme() == "memory" {
        return Err(CliError::Usage(
            "API and worker in different processes need a bus that they share: leave `bus` out under [server] and TURNBUCKLE_BUS unset, or name postgres://..., redis://..., nats://... or poll:".to_owned(),
        ));
    }
    turnbuckle_bus::open(options).await.map_err(|e| CliError::Failed(format!("{e} ({})", e.hint())))
}

async fn api(
    host: &Host,
    config: &ServerConfig,
    bus: Arc<dyn Bus>,
    metrics: Metrics,
    parts: Parts,
) -> Result<Api, CliError> {
    let accounts = open_accounts(&host.settings).await?;
    let has_keys = accounts.has_keys().await.map_err(|e| CliError::Failed(e.to_string()))?;
    let jwt = match config.auth.tokens()? {
        Some(options) => Some(
            Tokens::new(options).map_err(|e| CliError::Usage(format!("[server.auth.jwt]: {e}")))?,
        ),
        None => None,
    };
    let settings = &host.settings;
    let auth = if has_keys || jwt.is_some() || config.auth.required {
        Authenticator::Required { accounts: accounts.clone(), jwt: jwt.map(Box::new) }
    } else {
        Authenticator::Open(Principal::local(settings.tenant.as_str(), host.user()))
    };
    let mut options = ApiOptions::new(ModelInUse {
        id: host.choice.model.id().to_string(),
        rehearsal: host.choice.is_rehearsal(),
        why: host.choice.why.clone(),
    });
    options.default_agent = Some(settings.agent.value.clone());
    options.worker = parts == Parts::All;
    options.limits = config.limits;
    options.cors.clone_from(&config.cors);
    options.quotas.clone_from(&config.quotas);
    Ok(Api::new(host.engine.clone(), bus, accounts, auth, metrics, options)
        .with_jobs(host.jobs.clone()))
}

fn listen(args: &ServeArgs, config: &ServerConfig) -> String {
    match (&args.listen, args.port) {
        (Some(address), _) => address.clone(),
        (None, Some(port)) => format!("127.0.0.1:{port}"),
        (None, None) => config.listen.clone(),
    }
}

async fn bind(address: &str, api: &Api) -> Result<TcpListener, CliError> {
    let found = tokio::net::lookup_host(address).await.map_err(|e| {
        CliError::Usage(format!("`{address}` is not an address and port to listen on: {e}"))
    })?;
    let found: Vec<SocketAddr> = found.collect();
    if api.auth().is_open() && !found.iter().all(|address| address.ip().is_loopback()) {
        return Err(CliError::Usage(format!(
            "without authentication the server listens on this machine only, not on {address}: make a key first with `turnbuckle keys create`, or set up [server.auth.jwt]"
        )));
    }
    TcpListener::bind(found.as_slice()).await.map_err(|e| {
        let hint = match e.kind() {
            std::io::ErrorKind::AddrInUse => {
                "; something listens there already: choose another with --port"
            }
            _ => "",
        };
        CliError::Failed(format!("cannot listen on {address}: {e}{hint}"))
    })
}

fn greet(out: &mut impl Write, host: &Host, api: &Api, at: SocketAddr) -> Result<(), CliError> {
    let name = if at.ip().is_unspecified() { "localhost".to_owned() } else { at.ip().to_string() };
    let name = if at.is_ipv6() && name.contains(':') { format!("[{name}]") } else { name };
    writeln!(out, "Turnbuckle {} at http://{name}:{}", env!("CARGO_PKG_VERSION"), at.port())?;
    let model = host.choice.model.id();
    writeln!(out, "  model  {model} ({})", host.choice.why)?;
    if host.choice.is_rehearsal() {
        writeln!(
            out,
            "         a script plays in the place of a model; `turnbuckle doctor` says how to have a real one"
        )?;
    }
    writeln!(out, "  data   {}", host.folder.display())?;
    if !matches!(host.keep, Keep::Folder(_)) {
        writeln!(out, "  store  {}", host.keep)?;
    }
    match api.auth() {
        Authenticator::Open(local) => {
            writeln!(out, "  who    everyone on this machine is {}", local.user)?;
        }
        Authenticator::Required { .. } => {
            writeln!(out, "  who    those with an API key or a token")?
        }
    }
    if !ui::is_built() {
        writeln!(
            out,
            "  page   not in this binary: run `npm ci && npm run build` in web/ and build again"
        )?;
    }
    writeln!(out, "Ctrl-C ends it.")?;
    Ok(())
}
