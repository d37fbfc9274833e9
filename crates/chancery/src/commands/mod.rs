//! The commands, one file each.

pub(crate) mod agent;
pub(crate) mod agh;
mod agh_send;
mod agh_show;
mod agh_visit;
mod agh_watch;
pub(crate) mod bench;
pub(crate) mod canon;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod conform;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod gate;
pub(crate) mod init;
pub(crate) mod key;
pub(crate) mod log;
pub(crate) mod man;
pub(crate) mod market;
pub(crate) mod mcp;
pub(crate) mod reload;
pub(crate) mod schema;
pub(crate) mod send;
pub(crate) mod serve;
pub(crate) mod store;
mod tenants;
pub(crate) mod token;
pub(crate) mod vacant;
pub(crate) mod vibe;
pub(crate) mod world;

use crate::cli::{Cli, Command};
use crate::config::{Flags, Sources, variables_of_process};
use crate::exit::Outcome;
use crate::terminal::Terminal;

/// Runs a command.
pub(crate) fn run(cli: Cli, terminal: &mut Terminal) -> Outcome {
    let sources = |flags: Flags| Sources {
        file: cli.config.clone(),
        environment: variables_of_process(),
        flags,
    };
    match cli.command {
        Command::Init(args) => init::run(&args, terminal),
        Command::Serve(args) => serve::run(args, &sources, terminal),
        Command::Demo(args) => demo::run(&args, terminal),
        Command::Market(args) => market::run(&args, terminal),
        Command::Send(args) => send::run(&args, &sources, terminal),
        Command::Agent(command) => agent::run(command, &sources, terminal),
        Command::Agh(command) => agh::run(command, &sources, terminal),
        Command::Reload(args) => reload::run(&args, &sources, terminal),
        Command::Token(command) => token::run(command, &sources, terminal),
        Command::Approvals(args) => gate::list(&args, &sources, terminal),
        Command::Approve(args) => gate::approve(&args, &sources, terminal),
        Command::Reject(args) => gate::reject(&args, &sources, terminal),
        Command::World(command) => world::run(command, &sources, terminal),
        Command::Store(command) => store::run(command, &sources, terminal),
        Command::Vibe(command) => vibe::run(command, terminal),
        Command::Vacant(command) => vacant::run(command, &sources, terminal),
        Command::Bench(command) => bench::run(command, terminal),
        Command::Config(command) => config::run(command, &sources, terminal),
        Command::Key(command) => key::run(command, &sources, terminal),
        Command::Log(command) => log::run(command, &sources, terminal),
        Command::Canon(args) => canon::run(&args, terminal),
        Command::Conform(args) => conform::run(&args, &sources, terminal),
        Command::Completions(args) => completions::run(&args, terminal),
        Command::Schema(args) => schema::run(&args, terminal),
        Command::Doctor(args) => doctor::run(&args, &sources, terminal),
        Command::Explain(args) => explain::run(&args, terminal),
        Command::Man(args) => man::run(&args, terminal),
        Command::Mcp(args) => mcp::run(&args, &sources),
    }
}
