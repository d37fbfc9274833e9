//! `chancery serve`: runs a node until it is told to stop.

use std::io::Write as _;
use std::path::PathBuf;

use chancery_node::tenant::{self, Tenant};
use tracing_subscriber::EnvFilter;

use super::tenants;
use crate::config::{Config, Flags, Settings, Sources};
use crate::exit::{Exit, Failure, Outcome};
use crate::host::Host;
use crate::terminal::Terminal;

/// What `serve` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) flags: Flags,
    /// Also run the node that this file alone describes, apart from the others; may be repeated
    #[arg(long = "tenant", value_name = "FILE")]
    tenants: Vec<PathBuf>,
    /// Be wrong in this way, on purpose
    #[cfg(feature = "seeded-faults")]
    #[arg(long, value_name = "NAME")]
    fault: Option<String>,
}

/// Runs a node.
pub(crate) fn run(
    args: ServeArgs,
    sources: &dyn Fn(Flags) -> Sources,
    terminal: &mut Terminal,
) -> Outcome {
    #[cfg(feature = "seeded-faults")]
    if let Some(name) = &args.fault {
        let _ = chancery_core::fault::choose(name);
    }
    let sources = sources(args.flags);
    let settings = sources.settings()?;
    let config = Config::of(&settings)?;
    log_to_stderr()?;
    raise_open_files();
    if !args.tenants.is_empty() {
        return tenants::run(&sources, &args.tenants, terminal);
    }
    let runtime = runtime()?;
    let exit = runtime.block_on(serve(&config, (sources, settings), terminal));
    // Requests that are never answered (a failed log) must not hold the process.
    runtime.shutdown_background();
    exit
}

/// A runtime for a node: every core.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    runtime_of(None)
}

/// The same for one of several nodes: its threads have the tenant's name.
pub(super) fn runtime_of(tenant: Option<Tenant>) -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .on_thread_start(move || tenant::work_for(tenant.clone()))
        .build()
        .map_err(|error| Failure::damaged(format!("cannot start threads: {error}")))
}

async fn serve(
    config: &Config,
    read_from: (Sources, Settings),
    terminal: &mut Terminal,
) -> Outcome {
    let mut signals = Signals::new()?;
    let host = tokio::select! {
        host = Host::start_to_serve(config, Some(read_from)) => host?,
        // While it waits for its database, say: nobody was answered yet.
        () = signals.stop() => return Ok(Exit::Done),
    };
    terminal.json_line(&host.start_line())?;
    terminal.out.flush()?;
    until_told(host, signals, std::future::pending()).await
}

/// Serves until a signal says to stop, or something else has ended.
pub(crate) async fn until_told(
    host: Host,
    mut signals: Signals,
    ended: impl Future<Output = Result<(), Failure>>,
) -> Outcome {
    let mut ended = std::pin::pin!(ended);
    loop {
        tokio::select! {
            ended = &mut ended => {
                host.stop().await?;
                ended?;
                return Ok(Exit::Done);
            }
            told = signals.next() => match told {
                Told::Stop => {
                    host.stop().await?;
                    return Ok(Exit::Done);
                }
                Told::Reload => host.reload().await,
            },
            () = host.office.gate().failed() => {
                return Err(Failure::damaged("the log or its rows cannot be trusted any more; nothing further was answered")
                    .next("see the messages above; check the disk, then: chancery log verify").into())
            }
        }
    }
}

/// Every connection is an open file, and the usual soft limit is far below `limits.open_connections`.
fn raise_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

/// Logs of the node go to standard error; what is not asked for stays away.
pub(crate) fn log_to_stderr() -> Result<(), Failure> {
    let asked = std::env::var("CHANCERY_LOG").unwrap_or_default();
    let filter = filter_of(&asked)?;
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(crate::terminal::wants_colour(&std::io::stderr()))
        .with_writer(std::io::stderr)
        .try_init();
    Ok(())
}

/// What is told. A part that cannot be meant is refused: whoever asks for something else than the default wants to see it.
fn filter_of(asked: &str) -> Result<EnvFilter, Failure> {
    const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];
    let parts = asked
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    let mut filter = EnvFilter::default();
    let mut is_default = true;
    for part in parts {
        let is_level = LEVELS.iter().any(|level| level.eq_ignore_ascii_case(part));
        // A word alone would count as a place, and a mistyped level is one.
        let is_place = part.contains('=') || part.starts_with("chancery");
        let directive = part.parse().ok().filter(|_| is_level || is_place);
        let directive = directive.ok_or_else(|| {
            Failure::usage(format!(
                "CHANCERY_LOG: {part} says neither a level nor PLACE=LEVEL"
            ))
            .next(format!(
                "levels are {}; parts are set apart by commas, as in warn,chancery::decision=info",
                LEVELS.join(", ")
            ))
        })?;
        filter = filter.add_directive(directive);
        is_default = false;
    }
    Ok(if is_default {
        EnvFilter::new("warn")
    } else {
        filter
    })
}

/// SIGTERM and SIGINT (CH-NET-3); SIGHUP reads the files again (VX-KEY-7).
pub(crate) struct Signals {
    hangup: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    pub(crate) fn new() -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        let on = |kind| {
            signal(kind)
                .map_err(|error| Failure::damaged(format!("cannot wait for signals: {error}")))
        };
        Ok(Self {
            hangup: on(SignalKind::hangup())?,
            terminate: on(SignalKind::terminate())?,
            interrupt: on(SignalKind::interrupt())?,
        })
    }

    /// Returns when the process is to stop.
    async fn stop(&mut self) {
        while let Told::Reload = self.next().await {}
    }

    async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.terminate.recv() => Told::Stop,
            _ = self.interrupt.recv() => Told::Stop,
            _ = self.hangup.recv() => Told::Reload,
        }
    }
}

/// What a signal tells.
enum Told {
    Stop,
    Reload,
}
