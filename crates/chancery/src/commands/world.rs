//! `chancery world`: what a running node sells, and from which accounts (CH-JRN-1).

use std::io::Write as _;
use std::path::PathBuf;

use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::json::{ReadRules, Value, read};
use chancery_core::rows::MapRows;
use chancery_vibe::world::change::{Change, MAX_ENTRIES};
use chancery_vibe::world::hash::state_hash;
use chancery_vibe::world::rows::Table;
use chancery_vibe::world::seed::Seed;
use clap::Subcommand;
use serde::Serialize;
use serde_json::json;

use crate::client::{self, NodeArgs, NodeClient};
use crate::config::{Flags, Sources};
use crate::exit::{Exit, Failure, Outcome};
use crate::input;
use crate::terminal::{Progress, Terminal};

/// The commands of `world`.
#[derive(Debug, Subcommand)]
pub(crate) enum WorldCommand {
    /// Set merchants, listings, stocks and accounts: each part of the file becomes a line of the log
    #[command(
        after_help = "Example:\n  chancery world apply catalog.json --token-file admin.token"
    )]
    Apply(ApplyArgs),
    /// The SHA-256 over the seven tables, as log replay prints it: of a node that is at rest, or of a seed
    #[command(after_help = "Example:\n  chancery world hash world.json")]
    Hash(HashArgs),
}

/// What `world hash` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct HashArgs {
    /// A world seed; - for standard input [default: the tables of the running node]
    file: Option<PathBuf>,
    #[command(flatten)]
    node: NodeArgs,
}

/// What `world apply` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct ApplyArgs {
    /// JSON with any of merchants, catalog, inventory, ledger, as in a world seed; - for standard input
    file: PathBuf,
    #[command(flatten)]
    node: NodeArgs,
}

/// Runs a command of `world`.
pub(crate) fn run(
    command: WorldCommand,
    sources: &dyn Fn(Flags) -> Sources,
    terminal: &mut Terminal,
) -> Outcome {
    match command {
        WorldCommand::Apply(args) => apply(&args, sources, terminal),
        WorldCommand::Hash(args) => hash(&args, sources, terminal),
    }
}

fn hash(args: &HashArgs, sources: &dyn Fn(Flags) -> Sources, terminal: &mut Terminal) -> Outcome {
    let rows = match &args.file {
        Some(file) => {
            let seed = Seed::parse(&input::read(file)?);
            let name = input::name(file);
            let seed = seed.map_err(|fault| Failure::usage(format!("{name}: {fault}")))?;
            seed.rows()
        }
        None => client::block_on(tables(&args.node.client(sources)?))?,
    };
    let hash = state_hash(&rows).map_err(|damage| Failure::damaged(damage.to_string()))?;
    if terminal.json {
        terminal.json_line(&json!({"state_hash": hash.hex()}))?;
    } else {
        writeln!(terminal.out, "{}", hash.hex())?;
    }
    Ok(Exit::Done)
}

/// All rows of the world, read from a node table by table and page by page.
async fn tables(node: &NodeClient) -> Result<MapRows, Failure> {
    let mut rows = MapRows::default();
    for table in Table::ALL {
        let mut after: Option<String> = None;
        loop {
            let path = ["vcp", "world", table.as_str()];
            let asked = match &after {
                Some(entry) => node.get_where(&path, ("after", entry)).await?,
                None => node.get(&path).await?,
            };
            let told = asked.done(table.as_str())?;
            let page = page(told.text().as_bytes(), table, &mut rows)?;
            match page {
                Some(next) => after = Some(next),
                None => break,
            }
        }
    }
    Ok(rows)
}

/// Takes the rows of a page; gives the entry to go on after.
fn page(text: &[u8], table: Table, rows: &mut MapRows) -> Result<Option<String>, Failure> {
    let rules = ReadRules {
        max_bytes: usize::MAX,
        ..ReadRules::OWN
    };
    let strange = || Failure::damaged(format!("the node's table {} is none", table.as_str()));
    let told = read(text, &rules).map_err(|_| strange())?;
    let found = told.get("rows").and_then(Value::as_object);
    let found = found.ok_or_else(strange)?.iter();
    let row = |(entry, row): (&str, &Value<'_>)| {
        (table.key(entry), Some(to_bytes(row, Dialect::Vibe).into()))
    };
    rows.apply(found.map(row));
    Ok(told.get("next").and_then(Value::as_str).map(str::to_owned))
}

fn apply(args: &ApplyArgs, sources: &dyn Fn(Flags) -> Sources, terminal: &mut Terminal) -> Outcome {
    let text = input::read(&args.file)?;
    let whole: Change = serde_json::from_slice(&text).map_err(|error| {
        Failure::usage(format!("{}: {error}", input::name(&args.file)))
            .next("the file holds merchants, catalog, inventory and ledger as a world seed does; a stock is merchant_id, sku_id, on_hand")
    })?;
    let parts = parts(whole)?;
    let entries: usize = parts.iter().map(entries).sum();
    let node = args.node.client(sources)?;
    let mut progress = Progress::of_steps(entries as u64, terminal);
    let mut last = None;
    client::block_on(async {
        for (number, part) in parts.iter().enumerate() {
            let body =
                serde_json::to_vec(part).map_err(|error| Failure::damaged(error.to_string()))?;
            let about = format!("part {} of {}", number + 1, parts.len());
            let answered = node.post(&["admin", "world"], body).await?.done(&about)?;
            let told: serde_json::Value = answered.value()?;
            last = told["seq"].as_u64();
            progress.advance(entries_of(part));
        }
        Ok(())
    })?;
    progress.finish();
    if terminal.json {
        terminal.json_line(&json!({"entries": entries, "lines": parts.len(), "last": last}))?;
    } else {
        writeln!(
            terminal.out,
            "{entries} entries on record in {} lines",
            parts.len()
        )?;
    }
    Ok(Exit::Done)
}

/// Bytes of a part at most: the node takes 4 MiB, and a part is smaller by some room for what it is wrapped in.
const PART_BYTES: usize = 3 << 20;

fn entries(change: &Change) -> usize {
    change.merchants.len() + change.catalog.len() + change.inventory.len() + change.ledger.len()
}

fn entries_of(change: &Change) -> u64 {
    entries(change) as u64
}

/// Parts that fit a line and a request each: what others refer to comes first.
fn parts(whole: Change) -> Result<Vec<Change>, Failure> {
    let parts = [
        cut(
            whole.ledger,
            |row| format!("ledger: account {}", row.account_id),
            |ledger| Change {
                ledger,
                ..Change::default()
            },
        )?,
        cut(
            whole.merchants,
            |row| format!("merchants: {}", row.merchant_id),
            |merchants| Change {
                merchants,
                ..Change::default()
            },
        )?,
        cut(
            whole.catalog,
            |row| format!("catalog: {}/{}", row.merchant_id, row.sku_id),
            |catalog| Change {
                catalog,
                ..Change::default()
            },
        )?,
        cut(
            whole.inventory,
            |row| format!("inventory: {}/{}", row.merchant_id, row.sku_id),
            |inventory| Change {
                inventory,
                ..Change::default()
            },
        )?,
    ];
    Ok(parts.concat())
}

/// Rows of one table in parts.
fn cut<T: Serialize>(
    rows: Vec<T>,
    name: impl Fn(&T) -> String,
    into: impl Fn(Vec<T>) -> Change,
) -> Result<Vec<Change>, Failure> {
    let mut parts = Vec::new();
    let (mut part, mut part_bytes) = (Vec::new(), 0);
    for row in rows {
        let written =
            serde_json::to_vec(&row).map_err(|error| Failure::damaged(error.to_string()))?;
        // With the comma behind it.
        let bytes = written.len() + 1;
        if bytes > PART_BYTES {
            let name = name(&row);
            return Err(Failure::usage(format!(
                "{name} has {bytes} bytes, and one entry may have {PART_BYTES}"
            ))
            .next("nothing was sent: shorten its texts"));
        }
        if part.len() == MAX_ENTRIES || part_bytes + bytes > PART_BYTES {
            parts.push(into(std::mem::take(&mut part)));
            part_bytes = 0;
        }
        part.push(row);
        part_bytes += bytes;
    }
    if !part.is_empty() {
        parts.push(into(part));
    }
    Ok(parts)
}
