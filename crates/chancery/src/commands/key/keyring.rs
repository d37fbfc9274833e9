//! The keyring of a running node (VX-KEY-3, VX-KEY-4).

use std::io::Write as _;
use std::path::PathBuf;

use chancery_core::keys::{KeyRecord, KeyState};
use chancery_core::time::{Time, format_audit};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::{self, NodeArgs, NodeClient};
use crate::config::{Flags, Sources};
use crate::exit::{Exit, Failure, Outcome};
use crate::input;
use crate::terminal::Terminal;

type SourcesOf<'s> = &'s dyn Fn(Flags) -> Sources;

const KEYS: [&str; 2] = ["admin", "keys"];
const SHORT_LIVED: [&str; 3] = ["admin", "keys", "short-lived"];
const STATES: [&str; 3] = ["admin", "keys", "state"];

/// What `key list` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Only the keys of this agent
    #[arg(long, value_name = "AGENT_ID")]
    owner: Option<String>,
    #[command(flatten)]
    node: NodeArgs,
}

/// A key to put on record.
#[derive(Debug, clap::Args)]
pub(crate) struct EntryArgs {
    /// Whose key it is
    owner: String,
    /// The key as `chancery key show` prints it; - for standard input
    #[arg(value_name = "FILE")]
    entry: PathBuf,
    #[command(flatten)]
    node: NodeArgs,
}

/// What `key add` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct AddArgs {
    #[command(flatten)]
    key: EntryArgs,
    /// The key of a spawned agent: it counts from now, for a day at most, and leaves the record with its agent
    #[arg(long)]
    short_lived: bool,
}

/// What `key revoke` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct RevokeArgs {
    /// Whose key it is
    owner: String,
    /// The name of the key, as `key list` shows it
    id: String,
    #[command(flatten)]
    node: NodeArgs,
}

#[derive(Deserialize)]
struct Listed {
    keys: Vec<KeyRecord>,
}

#[derive(Deserialize)]
struct Registered {
    seq: u64,
    id: String,
}

#[derive(Deserialize)]
struct OnRecord {
    seq: u64,
}

/// Lists the keys on record.
pub(super) fn list(args: &ListArgs, sources: SourcesOf<'_>, terminal: &mut Terminal) -> Outcome {
    let node = args.node.client(sources)?;
    let answered = client::block_on(async {
        match &args.owner {
            Some(owner) => node.get_where(&KEYS, ("owner", owner)).await,
            None => node.get(&KEYS).await,
        }
    })?
    .done("keys")?;
    if terminal.json {
        writeln!(terminal.out, "{}", answered.text())?;
        return Ok(Exit::Done);
    }
    let listed: Listed = answered.value()?;
    let rows = listed.keys.into_iter().map(|key| {
        let valid = format!("{} to {}", ends(key.valid_from), ends(key.valid_until));
        [key.owner, key.id, key.state.to_string(), valid]
    });
    terminal.table(["OWNER", "ID", "STATE", "VALID"], rows)?;
    Ok(Exit::Done)
}

fn ends(time: Option<Time>) -> String {
    time.map_or_else(
        || "ever".to_owned(),
        |time| format_audit(time).as_str().chars().take(10).collect(),
    )
}

/// An entry of a trust file (VX-KEY-1).
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: String,
    algorithm: String,
    public_key: String,
    state: String,
    valid_from: Option<String>,
    valid_until: Option<String>,
}

impl EntryArgs {
    fn read(&self) -> Result<Entry, Failure> {
        serde_json::from_slice(&input::read(&self.entry)?).map_err(|error| {
            Failure::usage(format!("{}: {error}", input::name(&self.entry)))
                .next("write it with: chancery key show KEYFILE --id NAME")
        })
    }

    fn record(&self, entry: &Entry, state: &str) -> Value {
        json!({
            "owner": self.owner,
            "id": entry.id,
            "algorithm": entry.algorithm,
            "public": entry.public_key,
            "state": state,
            "valid_from": entry.valid_from,
            "valid_until": entry.valid_until,
        })
    }
}

/// Puts a key on record as it is described, or for a while.
pub(super) fn add(args: &AddArgs, sources: SourcesOf<'_>, terminal: &mut Terminal) -> Outcome {
    let (args, short_lived) = (&args.key, args.short_lived);
    let entry = args.read()?;
    if short_lived {
        return add_short_lived(args, &entry, sources, terminal);
    }
    let node = args.node.client(sources)?;
    let record = args.record(&entry, &entry.state);
    let seq = client::block_on(async { put(&node, &KEYS, &record, &entry.id).await })?;
    tell(&[(&entry.id, &entry.state, seq)], terminal)
}

fn add_short_lived(
    args: &EntryArgs,
    entry: &Entry,
    sources: SourcesOf<'_>,
    terminal: &mut Terminal,
) -> Outcome {
    let node = args.node.client(sources)?;
    let asked = json!({
        "owner": args.owner,
        "public": entry.public_key,
        "valid_until": entry.valid_until,
    });
    let answered = client::block_on(node.post(&SHORT_LIVED, asked.to_string()))?;
    let Registered { seq, id } = answered.done("the key")?.value()?;
    tell(&[(&id, "active", seq)], terminal)
}

/// Makes a successor active first, so that there is never a moment without an active key; then those before rotate.
pub(super) fn rotate(args: &EntryArgs, sources: SourcesOf<'_>, terminal: &mut Terminal) -> Outcome {
    let entry = args.read()?;
    let node = args.node.client(sources)?;
    let told = client::block_on(async {
        let before = on_record(&node, &args.owner).await?;
        let record = args.record(&entry, "active");
        let seq = put(&node, &KEYS, &record, &entry.id).await?;
        let mut told = vec![(entry.id.clone(), "active", seq)];
        let replaced = before
            .into_iter()
            .filter(|key| key.state == KeyState::Active && key.id != entry.id);
        for key in replaced {
            let seq = set_state(&node, &args.owner, &key.id, KeyState::Rotating).await?;
            told.push((key.id, "rotating", seq));
        }
        Ok(told)
    })?;
    let told: Vec<_> = told
        .iter()
        .map(|(id, state, seq)| (id.as_str(), *state, *seq))
        .collect();
    tell(&told, terminal)
}

/// Withdraws a key; one in use goes through `compromised`, as VX-KEY-4 has it.
pub(super) fn revoke(
    args: &RevokeArgs,
    sources: SourcesOf<'_>,
    terminal: &mut Terminal,
) -> Outcome {
    let node = args.node.client(sources)?;
    let (owner, id) = (&args.owner, &args.id);
    let seq = client::block_on(async {
        let keys = on_record(&node, owner).await?;
        let key = keys.into_iter().find(|key| key.id == *id);
        let key = key.ok_or_else(|| {
            Failure::no(format!("{owner} has no key {id} on record"))
                .next(format!("chancery key list --owner {owner}"))
        })?;
        if key.state.usable() {
            set_state(&node, owner, id, KeyState::Compromised).await?;
        }
        set_state(&node, owner, id, KeyState::Revoked).await
    })?;
    tell(&[(id, "revoked", seq)], terminal)
}

async fn on_record(node: &NodeClient, owner: &str) -> Result<Vec<KeyRecord>, Failure> {
    let answered = node.get_where(&KEYS, ("owner", owner)).await?;
    let listed: Listed = answered.done("keys")?.value()?;
    Ok(listed.keys)
}

async fn set_state(
    node: &NodeClient,
    owner: &str,
    id: &str,
    state: KeyState,
) -> Result<u64, Failure> {
    let asked = json!({"owner": owner, "id": id, "state": state});
    put(node, &STATES, &asked, id).await
}

async fn put(node: &NodeClient, path: &[&str], body: &Value, id: &str) -> Result<u64, Failure> {
    let answered = node.post(path, body.to_string()).await?;
    let OnRecord { seq } = answered.done(&format!("key {id}"))?.value()?;
    Ok(seq)
}

fn tell(changes: &[(&str, &str, u64)], terminal: &mut Terminal) -> Outcome {
    for (id, state, seq) in changes {
        if terminal.json {
            terminal.json_line(&json!({"id": id, "state": state, "seq": seq}))?;
        } else {
            writeln!(terminal.out, "key {id} is {state}: line {seq}")?;
        }
    }
    Ok(Exit::Done)
}
