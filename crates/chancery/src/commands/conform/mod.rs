//! `chancery conform`: vector files against this build, or the test kit against a live server.

mod vectors;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::client::{self, NodeArgs};
use crate::config::{Flags, Sources};
use crate::exit::{Exit, Failed, Failure, Outcome};
use crate::kit::{self, Check};
use crate::terminal::Terminal;

/// What `conform` is asked.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["vectors", "url", "setup"]))]
pub(crate) struct ConformArgs {
    /// Run the vector files below this folder against this build
    #[arg(long, value_name = "DIR")]
    vectors: Option<PathBuf>,
    /// Only these suites, such as uuid7, value-context/uuid7, or a part: requests:context_share
    #[arg(
        long,
        value_name = "SUITE",
        value_delimiter = ',',
        requires = "vectors"
    )]
    only: Vec<String>,
    /// Ask the live server at this address, which has to be set up as --setup shows
    #[arg(long, value_name = "URL", requires = "protocol")]
    url: Option<String>,
    /// Which protocol the server is asked about
    #[arg(long, requires = "url", value_parser = ["value-context", "vibe", "vacant", "agh"])]
    protocol: Option<String>,
    /// Ask about what is signed, of a server where vibe or agh is: signed.toml of --setup
    #[arg(long, requires = "url")]
    signed: bool,
    /// File that holds a token for the server [default: the token in CHANCERY_TOKEN]
    #[arg(long, value_name = "FILE", requires = "url")]
    token_file: Option<PathBuf>,
    /// Write the configuration of a server that can be asked, with all agents, keys and goods that the kit uses
    #[arg(long, value_name = "DIR")]
    setup: Option<PathBuf>,
}

/// Runs what was asked for.
pub(crate) fn run(
    args: &ConformArgs,
    sources: &dyn Fn(Flags) -> Sources,
    terminal: &mut Terminal,
) -> Outcome {
    match (&args.vectors, &args.setup, &args.url, &args.protocol) {
        (Some(folder), ..) => vectors::run(folder, &args.only, terminal),
        (_, Some(folder), ..) => set_up(folder, terminal),
        (_, _, Some(url), Some(protocol)) => {
            if args.signed && !kit::is_signed_on_demand(protocol) {
                let what = format!("{protocol} is always signed: --signed is for vibe and agh");
                return Err(Failure::usage(what).into());
            }
            let place = NodeArgs::at(url.clone(), args.token_file.clone());
            let node = place.client(sources)?;
            let checks = client::block_on(kit::run(&node, protocol, args.signed))?;
            tell(url, protocol, &checks, terminal)
        }
        _ => Err(Failure::usage("conform needs --vectors, --url or --setup").into()),
    }
}

fn set_up(folder: &Path, terminal: &mut Terminal) -> Outcome {
    kit::setup::write(folder)?;
    let (shown, signed) = (folder.display(), kit::setup::SIGNED_FILE);
    if terminal.json {
        terminal.json_line(&json!({"folder": folder}))?;
    } else {
        writeln!(
            terminal.out,
            "{shown} holds a node that can be asked, and one that can be asked with --signed:\n  \
             cd {shown} && chancery serve\n  cd {shown} && chancery serve --config {signed}\n\
             Another server needs the agents and keys of agents.json, the merchant and accounts of world.json\n\
             (platform manual, clock of the envelopes), one vacant that echoes, and the peers kit-a and kit-b in channel kit."
        )?;
    }
    Ok(Exit::Done)
}

/// One line a check, failures with what was expected; then the sum.
fn tell(url: &str, protocol: &str, checks: &[Check], terminal: &mut Terminal) -> Outcome {
    let passed = checks.iter().filter(|check| check.passed).count();
    let failed = checks.len() - passed;
    if terminal.json {
        terminal.json_line(&json!({
            "url": url,
            "protocol": protocol,
            "passed": passed,
            "failed": failed,
            "checks": checks,
        }))?;
    } else {
        for check in checks {
            tell_one(check, terminal)?;
        }
        writeln!(terminal.out, "{passed} passed, {failed} failed")?;
    }
    Ok(if failed == 0 { Exit::Done } else { Exit::No })
}

fn tell_one(check: &Check, terminal: &mut Terminal) -> Result<(), Failed> {
    let Check {
        requirement,
        asked,
        expected,
        came_back,
        passed,
    } = check;
    let heard = if came_back.is_empty() {
        "nothing"
    } else {
        came_back
    };
    if *passed {
        let word = terminal.good("ok  ");
        return Ok(writeln!(
            terminal.out,
            "{word}  {requirement}  {asked}: {heard}"
        )?);
    }
    let word = terminal.bad("FAIL");
    Ok(writeln!(
        terminal.out,
        "{word}  {requirement}  {asked}: {heard}, where {expected} is right"
    )?)
}
