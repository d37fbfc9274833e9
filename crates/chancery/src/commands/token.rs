//! `chancery token`: bearer tokens of a running node (CH-ID-1, CH-ID-2).

use std::io::Write as _;

use clap::Subcommand;
use serde::Deserialize;
use serde_json::json;

use crate::client::{self, Answered, NodeArgs};
use crate::config::{Flags, Sources};
use crate::exit::{Exit, Failed, Outcome};
use crate::terminal::Terminal;

/// The commands of `token`.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Issue a token and show it, once
    #[command(
        after_help = "Example:\n  chancery token new monitor --scope read:log --token-file admin.token"
    )]
    New(NewArgs),
    /// Who has tokens, and what they allow
    #[command(after_help = "Example:\n  chancery token list --token-file admin.token")]
    List(ListArgs),
    /// Take a token back: from the next request on it is none
    #[command(
        after_help = "Example:\n  chancery token revoke 3f0b8c1d2e4a5b6c --token-file admin.token"
    )]
    Revoke(RevokeArgs),
}

/// What `token new` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct NewArgs {
    /// Whom it speaks for
    principal: String,
    /// What it allows: send:AGENT, read:log, read:inbox:AGENT, read:state:AGENT, approve, admin
    #[arg(
        long = "scope",
        value_name = "SCOPE",
        required_unless_present = "addresses"
    )]
    scopes: Vec<String>,
    /// A vibe address it speaks as, such as buyer or merchant:pricing
    #[arg(long = "address", value_name = "ADDRESS")]
    addresses: Vec<String>,
    /// The consumer it acts for
    #[arg(long, value_name = "ID")]
    consumer: Option<String>,
    /// The merchant it acts for
    #[arg(long, value_name = "ID")]
    merchant: Option<String>,
    /// The participant it is one with: suspending that one stops it too
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    #[command(flatten)]
    node: NodeArgs,
}

/// What `token list` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    node: NodeArgs,
}

/// What `token revoke` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct RevokeArgs {
    /// The token's name, as `token list` shows it; never the token itself
    id: String,
    #[command(flatten)]
    node: NodeArgs,
}

const TOKENS: [&str; 2] = ["admin", "tokens"];

/// Runs a command of `token`.
pub(crate) fn run(
    command: TokenCommand,
    sources: &dyn Fn(Flags) -> Sources,
    terminal: &mut Terminal,
) -> Outcome {
    match command {
        TokenCommand::New(args) => {
            let asked = json!({
                "principal": args.principal,
                "scopes": args.scopes,
                "addresses": args.addresses,
                "consumer_id": args.consumer,
                "merchant_id": args.merchant,
                "agent": args.agent,
            });
            let node = args.node.client(sources)?;
            let answered = client::block_on(node.post(&TOKENS, asked.to_string()))?;
            issued(&answered.done("token")?, terminal)?;
        }
        TokenCommand::List(args) => {
            let node = args.node.client(sources)?;
            let answered = client::block_on(node.get(&TOKENS))?.done("tokens")?;
            listed(&answered, terminal)?;
        }
        TokenCommand::Revoke(args) => {
            let node = args.node.client(sources)?;
            // Somebody may give the token instead of its name: it is not repeated in a message.
            let name = if args.id.contains('.') {
                "token"
            } else {
                &args.id
            };
            let path = [TOKENS[0], TOKENS[1], &args.id];
            client::block_on(node.delete(&path))?.done(name)?;
            if terminal.json {
                terminal.json_line(&json!({"revoked": args.id}))?;
            } else {
                writeln!(terminal.out, "revoked {}", args.id)?;
            }
        }
    }
    Ok(Exit::Done)
}

#[derive(Deserialize)]
struct Issued {
    id: String,
    token: String,
}

fn issued(answered: &Answered, terminal: &mut Terminal) -> Result<(), Failed> {
    if terminal.json {
        return Ok(writeln!(terminal.out, "{}", answered.text())?);
    }
    let issued: Issued = answered.value()?;
    let token = terminal.bold(&issued.token);
    Ok(writeln!(
        terminal.out,
        "id     {}\ntoken  {token}\n\nThe token is shown this once: put it in a safe place now.",
        issued.id
    )?)
}

#[derive(Deserialize)]
struct Listed {
    tokens: Vec<chancery_core::admin::TokenRecord>,
}

fn listed(answered: &Answered, terminal: &mut Terminal) -> Result<(), Failed> {
    if terminal.json {
        return Ok(writeln!(terminal.out, "{}", answered.text())?);
    }
    let listed: Listed = answered.value()?;
    let rows = listed.tokens.into_iter().map(|token| {
        let state = if token.revoked { "revoked" } else { "in force" };
        [
            token.id,
            state.to_owned(),
            token.principal,
            [token.scopes, token.addresses].concat().join(" "),
        ]
    });
    terminal.table(["ID", "STATE", "PRINCIPAL", "ALLOWS"], rows)
}
