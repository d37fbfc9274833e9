//! `chancery vacant serve`: one vacant on a listener of its own, from a folder that it makes itself (VA-CLI-1).
//!
//! The folder is that of an ordinary node: its key, a `chancery.toml`, and its log. So whatever else a node can do is one
//! line of configuration away, and `chancery serve --config` serves the same vacant.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chancery_doors::http::VacantTools;
use chancery_doors::mcp::serve_stdio;
use chancery_vacant::id::VacantId;
use serde_json::json;

use super::abroad;
use crate::commands::serve::{Signals, log_to_stderr, runtime, until_told};
use crate::config::{Config, DEFAULT_FILE, Flags, Sources};
use crate::exit::{Failure, Outcome};
use crate::host::Host;
use crate::secret_file;
use crate::terminal::Terminal;

/// Where the native path is below the address of a vacant.
const NATIVE_PATH: &str = "/a2a/message/send";

/// What `serve` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// Its name: letters, digits, - and _
    #[arg(long, value_parser = name)]
    name: String,
    /// Its home: key, configuration and log [default: NAME.vacant]
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
    /// What it can do, in words; said when its home is made
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "says what it hears",
        hide_default_value = true
    )]
    capability: String,
    /// The address that it listens at
    #[arg(long, default_value = "127.0.0.1")]
    host: std::net::IpAddr,
    /// The port; 0 picks a free one
    #[arg(long, default_value_t = 8443)]
    port: u16,
    /// Where callers reach it, when that is another address
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// "memory", or "sqlite:DIR" [default: a folder in its home]
    #[arg(long, value_parser = store)]
    store: Option<StoreArg>,
    /// Offer its tools over MCP on standard input and output as well
    #[arg(long)]
    mcp: bool,
    /// Listen beyond this machine without TLS: a proxy in front speaks it
    #[arg(long)]
    allow_plain: bool,
}

/// Where its log is.
#[derive(Clone, Debug)]
enum StoreArg {
    Memory,
    At(PathBuf),
}

fn name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let is_name = (1..=64).contains(&text.len()) && text.chars().all(fits);
    is_name
        .then(|| text.to_owned())
        .ok_or_else(|| "a name has 1 to 64 letters, digits, - and _".to_owned())
}

fn store(text: &str) -> Result<StoreArg, String> {
    match text.split_once(':') {
        None if text == "memory" => Ok(StoreArg::Memory),
        Some(("sqlite", path)) if !path.is_empty() => Ok(StoreArg::At(path.into())),
        _ => Err("a store is memory or sqlite:DIR".to_owned()),
    }
}

/// Serves until a signal, or with `--mcp` until the input ends.
pub(crate) fn run(
    args: &ServeArgs,
    sources: &dyn Fn(Flags) -> Sources,
    terminal: &mut Terminal,
) -> Outcome {
    let home = args.home.clone();
    let home = home.unwrap_or_else(|| format!("{}.vacant", args.name).into());
    let id = make_home(args, &home)?;
    let config = Config::load(&sources_of(args, &home, sources)?)?;
    log_to_stderr()?;
    let runtime = runtime()?;
    let exit = runtime.block_on(serve(args, &config, &id, terminal));
    // Standard input may still be read on a thread of its own.
    runtime.shutdown_background();
    exit
}

/// Makes what is not there yet; gives the vacant's id.
fn make_home(args: &ServeArgs, home: &Path) -> Result<VacantId, Failure> {
    let (key, config) = (home.join("vacant.key"), home.join(DEFAULT_FILE));
    if !home.exists() {
        secret_file::make_private_folder(home)?;
    }
    let key = match key.exists() {
        true => secret_file::read_key(&key)?,
        false => secret_file::new_key(&key)?,
    };
    if !config.exists() {
        // Serialized, so that words with quotes in them stay words.
        let text = |text: &str| toml::Value::from(text).to_string();
        let agent = format!(
            "# The vacant {name}; `chancery config reference` tells what else may stand here.\n\
             [[vacant.agent]]\nname = {name}\nseed = \"vacant.key\"\nstate = \"ACTIVE\"\n\
             capability = {capability}\nbehaviour = \"echo\"\n",
            name = text(&args.name),
            capability = text(&args.capability),
        );
        secret_file::write_new(&config, agent.as_bytes(), 0o644)?;
    }
    Ok(VacantId::of(&key))
}

/// The configuration of its home, with what the flags say.
fn sources_of(
    args: &ServeArgs,
    home: &Path,
    sources: &dyn Fn(Flags) -> Sources,
) -> Result<Sources, Failure> {
    let (data, store) = match &args.store {
        None => (home.join("data"), None),
        Some(StoreArg::At(path)) => (path.clone(), None),
        Some(StoreArg::Memory) => (home.join("data"), Some("memory".to_owned())),
    };
    let mut sources = sources(Flags {
        listen: Some(std::net::SocketAddr::new(args.host, args.port).to_string()),
        data: Some(data),
        store,
        ..Flags::default()
    });
    sources.file = Some(home.join(DEFAULT_FILE));
    let mut set = |name: &str, value: String| sources.environment.push((name.to_owned(), value));
    if let Some(endpoint) = &args.endpoint {
        let url = abroad::parse(endpoint)?.to_string();
        let base = url.strip_suffix(NATIVE_PATH).unwrap_or(&url);
        set("CHANCERY_PUBLIC_URL", base.trim_end_matches('/').to_owned());
    }
    if args.allow_plain {
        set("CHANCERY_TLS_TERMINATED_UPSTREAM", "true".to_owned());
    }
    Ok(sources)
}

async fn serve(
    args: &ServeArgs,
    config: &Config,
    id: &VacantId,
    terminal: &mut Terminal,
) -> Outcome {
    let signals = Signals::new()?;
    let host = Host::start(config).await?;
    let served = host.vacants.as_ref().and_then(|vacants| {
        let vacant = vacants.find(&args.name)?;
        Some((Arc::clone(vacants), Arc::clone(vacant)))
    });
    let Some((vacants, vacant)) = served else {
        host.stop().await?;
        return Err(Failure::usage(format!("its home has no vacant {}", args.name)).into());
    };
    let line = json!({
        "name": args.name,
        "vacant_id": id.hex(),
        "host": host.address().ip().to_string(),
        "port": host.address().port(),
        "endpoint": format!("{}{NATIVE_PATH}", vacants.address_of(&vacant)),
        "mcp": args.mcp,
    });
    if !args.mcp {
        terminal.json_line(&line)?;
        terminal.out.flush()?;
        return until_told(host, signals, std::future::pending()).await;
    }
    // Standard output belongs to the protocol.
    writeln!(std::io::stderr(), "{line}")?;
    let tools = serve_stdio(VacantTools::new(vacants, vacant));
    let ended = async { tools.await.map_err(|error| Failure::no(error.to_string())) };
    until_told(host, signals, ended).await
}
