//! The command line. A command that is not built does not exist.

use std::path::PathBuf;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::commands::agent::AgentCommand;
use crate::commands::agh::AghCommand;
use crate::commands::bench::BenchCommand;
use crate::commands::canon::CanonArgs;
use crate::commands::completions::CompletionsArgs;
use crate::commands::config::ConfigCommand;
use crate::commands::conform::ConformArgs;
use crate::commands::demo::DemoArgs;
use crate::commands::doctor::DoctorArgs;
use crate::commands::explain::ExplainArgs;
use crate::commands::gate::{ApprovalsArgs, ApproveArgs, RejectArgs};
use crate::commands::init::InitArgs;
use crate::commands::key::KeyCommand;
use crate::commands::log::LogCommand;
use crate::commands::man::ManArgs;
use crate::commands::market::MarketArgs;
use crate::commands::mcp::McpArgs;
use crate::commands::reload::ReloadArgs;
use crate::commands::schema::SchemaArgs;
use crate::commands::send::SendArgs;
use crate::commands::serve::ServeArgs;
use crate::commands::store::StoreCommand;
use crate::commands::token::TokenCommand;
use crate::commands::vacant::VacantCommand;
use crate::commands::vibe::VibeCommand;
use crate::commands::world::WorldCommand;

/// Seals, records and dispatches the messages of AI agents, and settles what they dispute
#[derive(Debug, Parser)]
#[command(name = "chancery", version, arg_required_else_help = true)]
#[command(max_term_width = 100, disable_help_subcommand = true)]
pub struct Cli {
    /// The configuration file [default: ./chancery.toml]
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "CHANCERY_CONFIG",
        hide_env = true
    )]
    pub config: Option<PathBuf>,
    /// Write for machines: JSON instead of text
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Play a story on a node of its own: needs nothing, leaves nothing
    #[command(
        after_help = "Example:\n  chancery demo --keep demo-node && chancery log show demo-node/chancery-data"
    )]
    Demo(DemoArgs),
    /// Let rule-based buyers and merchants trade: reproducible to the byte
    #[command(
        after_help = "Example:\n  chancery market --buyers 50 --merchants 20 --deals 1000 --seed 7 --keep market-data"
    )]
    Market(MarketArgs),
    /// Write a configuration, a node key and an admin token
    #[command(after_help = "Example:\n  chancery init my-node && cd my-node")]
    Init(InitArgs),
    /// Run a node
    #[command(
        after_help = "Example:\n  chancery serve --listen 127.0.0.1:8700 --data chancery-data\n\nCHANCERY_LOG says what is told on standard error:\n  warn (the default), info, debug, trace, and by place:\n  warn,chancery::decision=info tells what became of each envelope"
    )]
    Serve(ServeArgs),
    /// Offer a vacant's tools over MCP on standard input and output
    #[command(after_help = "Example:\n  chancery mcp --agent bob")]
    Mcp(McpArgs),
    /// Send an envelope to a node, signed where a key is given
    #[command(
        after_help = "Example:\n  chancery send value-context share.json --key living-room.key"
    )]
    Send(SendArgs),
    /// Show, check and explain the configuration
    #[command(subcommand, after_help = "Example:\n  chancery config show")]
    Config(ConfigCommand),
    /// Make keys, and change those a node has on record
    #[command(
        subcommand,
        after_help = "Example:\n  chancery key new parent.key --agent agent://home.local/parent"
    )]
    Key(KeyCommand),
    /// Host, suspend, resume and remove agents
    #[command(subcommand, after_help = "Example:\n  chancery agent list")]
    Agent(AgentCommand),
    /// Peers in channels: join, speak, hand over work and watch
    #[command(subcommand, after_help = "Example:\n  chancery agh peers builders")]
    Agh(AghCommand),
    /// Issue, list and revoke bearer tokens
    #[command(
        subcommand,
        after_help = "Example:\n  chancery token new monitor --scope read:log"
    )]
    Token(TokenCommand),
    /// Let a running node read its files again, as SIGHUP does
    #[command(after_help = "Example:\n  chancery reload --token-file admin.token")]
    Reload(ReloadArgs),
    /// List purchases that wait for a person
    #[command(after_help = "Example:\n  chancery approvals --token-file ada.token")]
    Approvals(ApprovalsArgs),
    /// Let a purchase go on
    #[command(
        after_help = "Example:\n  chancery approve cert_1f8b0c2d3e4f5a6b --token-file ada.token"
    )]
    Approve(ApproveArgs),
    /// Stop a purchase
    #[command(
        after_help = "Example:\n  chancery reject cert_1f8b0c2d3e4f5a6b --reason 'too dear' --token-file ada.token"
    )]
    Reject(RejectArgs),
    /// Change catalog, stock, accounts and merchants
    #[command(
        subcommand,
        after_help = "Example:\n  chancery world apply catalog.json --token-file admin.token"
    )]
    World(WorldCommand),
    /// Mandates of vibe commerce in other forms
    #[command(
        subcommand,
        after_help = "Example:\n  chancery vibe ap2 export mandate.json"
    )]
    Vibe(VibeCommand),
    /// A vacant without a node: its key and card, its calls, and what it was told
    #[command(
        subcommand,
        after_help = "Example:\n  chancery vacant call http://127.0.0.1:8700 --key ada.key --text hello"
    )]
    Vacant(VacantCommand),
    /// Move, back up, restore and check a store
    #[command(
        subcommand,
        after_help = "Example:\n  chancery store backup backup-2026-11-16"
    )]
    Store(StoreCommand),
    /// Show, export, verify, replay and explain a log
    #[command(
        subcommand,
        after_help = "Example:\n  chancery log verify chancery-data"
    )]
    Log(LogCommand),
    /// Look at a node, its data and what it needs, and say what is wrong
    #[command(after_help = "Example:\n  chancery doctor --config node/chancery.toml")]
    Doctor(DoctorArgs),
    /// What a code means and what to do about it
    #[command(after_help = "Example:\n  chancery explain sender_suspended")]
    Explain(ExplainArgs),
    /// Canonical JSON bytes of a file
    #[command(after_help = "Example:\n  chancery canon --dialect rfc8785 message.json | sha256sum")]
    Canon(CanonArgs),
    /// The JSON Schema of value-context messages, a node's paths, or its metrics
    #[command(after_help = "Example:\n  chancery schema value-context > message.schema.json")]
    Schema(SchemaArgs),
    /// Test this build by vectors, or any live server by questions
    #[command(
        after_help = "Example:\n  chancery conform --vectors vectors --only canonicalization,uuid7\n  chancery conform --setup under-test && chancery conform --url http://127.0.0.1:8700 --protocol agh"
    )]
    Conform(ConformArgs),
    /// Measure this build against the raw limits of the machine
    #[command(
        subcommand,
        after_help = "Example:\n  chancery bench http --protocol value-context --seconds 10 --json"
    )]
    Bench(BenchCommand),
    /// Completions for a shell
    #[command(
        after_help = "Example:\n  chancery completions bash > /etc/bash_completion.d/chancery"
    )]
    Completions(CompletionsArgs),
    /// Manual pages
    #[command(after_help = "Example:\n  chancery man | man -l -")]
    Man(ManArgs),
}

/// Commands that share a line of the help, and what they do together; empty for one that speaks for itself.
type HelpLine = (&'static [&'static str], &'static str);

/// The groups of `chancery --help`, each command in one.
const GROUPS: [(&str, &[HelpLine]); 4] = [
    (
        "Running",
        &[
            (
                &["demo", "market"],
                "a story, or agents that trade, on a node of its own",
            ),
            (&["init"], ""),
            (
                &["serve", "mcp"],
                "run a node; offer a vacant's tools over MCP",
            ),
            (&["send"], ""),
            (
                &["config", "reload"],
                "show and check the configuration; read the files again",
            ),
        ],
    ),
    (
        "People and keys",
        &[
            (
                &["agent", "agh"],
                "host, suspend and remove agents; peers in channels",
            ),
            (&["key"], ""),
            (&["token"], ""),
            (
                &["approvals", "approve", "reject"],
                "purchases that wait for a person",
            ),
            (
                &["world", "vibe", "vacant"],
                "goods and mandates; signed calls",
            ),
        ],
    ),
    (
        "Log",
        &[(
            &["log", "store"],
            "show, verify, replay a log; move, back up, check a store",
        )],
    ),
    (
        "Tools",
        &[
            (
                &["explain", "doctor"],
                "what a code means; what is wrong with a node",
            ),
            (
                &["canon", "schema"],
                "canonical bytes of a file; the schema of messages",
            ),
            (&["conform"], ""),
            (&["bench"], ""),
            (&["completions", "man"], "for a shell, and for reading"),
        ],
    ),
];

/// The whole command line, with its commands in groups: one line each, so that they fit one screen.
pub fn command() -> clap::Command {
    let command = Cli::command();
    let groups = grouped(&command);
    command
        .help_template("{about}\n\n{usage-heading} {usage}{after-help}\n")
        .after_help(groups)
}

fn grouped(command: &clap::Command) -> String {
    let mut text = String::new();
    for (title, lines) in GROUPS {
        for (index, (names, together)) in lines.iter().enumerate() {
            let title = if index == 0 { title } else { "" };
            let own = command
                .find_subcommand(names[0])
                .and_then(clap::Command::get_about)
                .map(ToString::to_string)
                .unwrap_or_default();
            let about = if together.is_empty() { &own } else { *together };
            text.push_str(&format!("{title:<16} {:<12} {about}\n", names.join(", ")));
        }
    }
    text.push_str(
        "\nEvery command has --help with an example and takes\n  \
         --config <FILE>  the configuration file [default: ./chancery.toml]\n  \
         --json           JSON instead of text, for machines",
    );
    text
}

/// Reads the command line of this process.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    let matches = command().try_get_matches()?;
    Cli::from_arg_matches(&matches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn every_command_is_in_one_group() {
        // CH-CLI-1
        let grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, lines)| lines.iter().flat_map(|(names, _)| names.iter().copied()))
            .collect();
        let mut built: Vec<String> = command()
            .get_subcommands()
            .map(|sub| sub.get_name().to_owned())
            .collect();
        let mut sorted: Vec<String> = grouped.iter().map(ToString::to_string).collect();
        built.sort();
        sorted.sort();
        assert_eq!(sorted, built);
    }

    #[test]
    fn every_command_has_an_example() {
        // CH-CLI-1
        fn check(command: &clap::Command, path: &str) {
            let example = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            assert!(
                example.contains("Example:\n  ") && example.contains("chancery "),
                "{path} has no example"
            );
            for sub in command.get_subcommands() {
                check(sub, &format!("{path} {}", sub.get_name()));
            }
        }
        for sub in command().get_subcommands() {
            check(sub, sub.get_name());
        }
    }

    #[test]
    fn every_example_is_a_command_line_that_the_program_takes() {
        // CH-CLI-1
        fn check(command: &clap::Command, parsed: &mut usize) {
            for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
                let help = sub.get_after_help().map(ToString::to_string);
                for words in command_lines(&help.unwrap_or_default()) {
                    let taken = super::command().try_get_matches_from(&words);
                    assert!(taken.is_ok(), "{words:?}: {}", taken.unwrap_err());
                    *parsed += 1;
                }
                check(sub, parsed);
            }
        }
        let mut parsed = 0;
        check(&command(), &mut parsed);
        assert!(parsed >= 77, "{parsed}");
    }

    #[test]
    fn an_example_is_split_as_a_shell_does() {
        let help = "Example:\n  A=1 chancery x 'a b' \\\n    --y > z && cd z\n  chancery v | chancery w -\n\nMore.";
        let lines = command_lines(help);
        assert_eq!(
            lines,
            [
                vec!["chancery", "x", "a b", "--y"],
                vec!["chancery", "v"],
                vec!["chancery", "w", "-"]
            ]
        );
    }

    /// Every call of the program in the example of a help text.
    fn command_lines(help: &str) -> Vec<Vec<String>> {
        let example = help.split("Example:\n").nth(1).unwrap_or_default();
        let example = example.split("\n\n").next().unwrap_or_default();
        let mut calls = Vec::new();
        for line in example.replace("\\\n", " ").lines() {
            for part in words_of(line).split(|word| word == "&&" || word == "|") {
                let until = part.iter().position(|word| word == ">");
                let words = &part[..until.unwrap_or(part.len())];
                let is_setting = |word: &&String| !word.starts_with('-') && word.contains('=');
                let set = words.iter().take_while(is_setting).count();
                if words.get(set).is_some_and(|word| word == "chancery") {
                    calls.push(words[set..].to_vec());
                }
            }
        }
        calls
    }

    /// The words of a line; what stands in single quotes is one of them.
    fn words_of(line: &str) -> Vec<String> {
        let mut words = Vec::new();
        for (at, text) in line.split('\'').enumerate() {
            if at % 2 == 1 {
                words.push(text.to_owned());
            } else {
                words.extend(text.split_whitespace().map(str::to_owned));
            }
        }
        words
    }
}
