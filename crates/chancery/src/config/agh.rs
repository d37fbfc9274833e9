//! The section of AGH: its rule settings and the peers this node hosts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use chancery_agh::peer::PeerRecord;
use chancery_agh::revision::{Mode, Revision};
use chancery_agh::settings::{Bridge, Settings, Tasks};
use chancery_agh::whois::Catalog;
use chancery_core::keys::ed25519::SigningKey;
use serde::Deserialize;

use super::agents::{self, AgentBehaviour, Described, Member, ModelEntry};
use super::table::{self, List};
use crate::exit::Failure;
use crate::secret_file;

/// The section of AGH.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agh {
    /// What the rules go by.
    pub settings: Settings,
    /// The peers as the file names them.
    pub peers: Vec<PeerEntry>,
    /// The models that behaviours may name.
    pub models: BTreeMap<String, ModelEntry>,
    /// The broker whose subjects are joined.
    pub nats: Option<Nats>,
}

/// The broker of AGH (AG-NAT-9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nats {
    /// Its servers.
    pub servers: Vec<String>,
    /// The file of its token, or user and password.
    pub token_file: Option<PathBuf>,
    /// A credentials file.
    pub credentials: Option<PathBuf>,
    /// Whether TLS may be missing towards another machine.
    pub plaintext: bool,
    /// Whether publications are kept in a stream.
    pub jetstream: bool,
}

/// A list of servers; none when one of them is no address of a broker, or holds a secret that would be shown.
pub(super) fn servers(text: &str) -> Option<Vec<String>> {
    let words = text
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty());
    words
        .map(|word| {
            let address = word.strip_prefix("nats://");
            let address = address.or_else(|| word.strip_prefix("tls://"))?;
            let plain = !address.is_empty() && !address.contains(['@', '/', ' ']);
            plain.then(|| word.to_owned())
        })
        .collect()
}

/// A peer that answers by itself.
pub struct AnsweringPeer {
    /// Its record.
    pub record: PeerRecord,
    /// What answers.
    pub behaviour: AgentBehaviour,
    /// The file of what its role asks, in words.
    pub instructions: Option<PathBuf>,
}

/// One `[[agh.peer]]` (CH-CFG-1).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerEntry {
    /// Its Peer ID.
    pub id: String,
    /// The channel it is in.
    pub channel: String,
    /// The workspace, for revision B.
    #[serde(default)]
    pub workspace_id: String,
    /// A label for people.
    #[serde(default)]
    pub display_name: String,
    /// What it can do, by name alone.
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// A file with capability entries.
    #[serde(default)]
    pub catalog: String,
    /// What it does with what comes in.
    #[serde(default = "inbox")]
    pub behaviour: String,
    /// The participant that it is one with (CH-ID-5).
    #[serde(default)]
    pub agent: String,
    /// The file of its secret key: it speaks under its verified handle then (AG-TRU-3). Without the trust profile it
    /// signs what is asked of `http:URL`, and nothing else.
    #[serde(default)]
    pub key: String,
    /// The tool of an MCP server that `mcp:…` asks.
    #[serde(default)]
    pub tool: String,
    /// The file of what its role asks, in words.
    #[serde(default)]
    pub instructions: String,
    /// The folder of the file that names it.
    #[serde(skip)]
    folder: PathBuf,
}

fn inbox() -> String {
    "inbox".to_owned()
}

/// A file's entries: either the list itself, or `{"capabilities": […]}` as answers carry it.
#[derive(Deserialize)]
#[serde(untagged)]
enum CatalogFile {
    List(Vec<serde_json::Value>),
    Named {
        capabilities: Vec<serde_json::Value>,
    },
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    agh: AghTables,
}

/// What stands in the tables below `[agh]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct AghTables {
    #[serde(default)]
    peer: Vec<PeerEntry>,
    bridge: Option<Bridge>,
    tasks: Option<Tasks>,
}

impl AghTables {
    pub(super) fn peers(&self) -> Vec<PeerEntry> {
        self.peer.clone()
    }

    pub(super) fn bridge(&self) -> Option<Bridge> {
        self.bridge.clone()
    }

    pub(super) fn tasks(&self) -> Option<Tasks> {
        self.tasks.clone()
    }

    /// Whether the bridge fits the rest.
    pub(super) fn check(&self, settings: &Settings) -> Result<(), Failure> {
        if self.bridge.is_some() && settings.revision != Mode::Dual {
            return Err(Failure::usage("[agh.bridge] needs both revisions")
                .next("set agh.revision = \"dual\""));
        }
        Ok(())
    }
}

/// The tables of AGH in a configuration file.
pub(super) fn section_of(text: &str, path: &Path) -> Result<AghTables, Failure> {
    let document: Document = toml::from_str(text).map_err(|error| {
        let line = error
            .span()
            .map_or(1, |span| super::file::line_at(text, span.start));
        Failure::usage(format!(
            "{}:{line}: below [agh]: {}",
            path.display(),
            error.message()
        ))
        .next(members_of_tables())
    })?;
    let folder = path.parent().map(Path::to_owned).unwrap_or_default();
    let placed = |mut peer: PeerEntry| {
        peer.folder.clone_from(&folder);
        peer
    };
    let mut tables = document.agh;
    tables.peer = tables.peer.into_iter().map(placed).collect();
    Ok(tables)
}

/// Which tables there are, and what each has.
fn members_of_tables() -> String {
    let members = |list: &List| {
        let names: Vec<&str> = list.keys.iter().map(|key| key.name).collect();
        format!("{} has {}", list.head(), names.join(", "))
    };
    let tables: Vec<String> = table::AGH.iter().map(members).collect();
    tables.join("; ")
}

impl Agh {
    /// The records of the peers, their catalogs read.
    ///
    /// # Errors
    /// A catalog that cannot be read, a behaviour that is not built, a peer that is named twice.
    pub fn peers(&self) -> Result<Vec<PeerRecord>, Failure> {
        let mut records = self.records()?;
        // The bridge is a peer of its own on both sides (AG-B-46).
        if let Some(bridge) = &self.settings.bridge {
            for side in [Revision::A, Revision::B] {
                let (workspace, channel) = bridge.place(side);
                let catalog = Catalog::default();
                let id = &bridge.peer;
                let peer = PeerRecord::new(id, channel, workspace, None, Vec::new(), catalog);
                if !records
                    .iter()
                    .any(|other| other.address() == peer.address())
                {
                    records.push(peer);
                }
            }
        }
        Ok(records)
    }

    /// Those that answer by themselves: their records, what answers, and the file of what its role asks.
    ///
    /// # Errors
    /// As above.
    pub fn answering(&self) -> Result<Vec<AnsweringPeer>, Failure> {
        let mut answering = Vec::new();
        for peer in &self.peers {
            let behaviour = peer.behaviour(&self.models)?;
            if behaviour != AgentBehaviour::Inbox {
                answering.push(AnsweringPeer {
                    record: peer.record(&self.settings, &self.models)?,
                    behaviour,
                    instructions: peer.file(&peer.instructions),
                });
            }
        }
        Ok(answering)
    }

    /// The secret keys of the peers that have one, each with the verified handle it is behind.
    ///
    /// # Errors
    /// A key that cannot be read, or is not that of the handle.
    pub fn keys(&self) -> Result<Vec<(String, SigningKey)>, Failure> {
        let mut keys = Vec::new();
        for peer in &self.peers {
            if let Some(key) = peer.secret_key()? {
                keys.push((peer.record(&self.settings, &self.models)?.card.peer_id, key));
            }
        }
        Ok(keys)
    }

    fn records(&self) -> Result<Vec<PeerRecord>, Failure> {
        let mut records: Vec<PeerRecord> = Vec::with_capacity(self.peers.len());
        for peer in &self.peers {
            let record = peer.record(&self.settings, &self.models)?;
            if records
                .iter()
                .any(|other| other.address() == record.address())
            {
                return Err(Failure::usage(format!(
                    "peer {} is in channel {} twice",
                    peer.id, peer.channel
                )));
            }
            records.push(record);
        }
        Ok(records)
    }
}

impl PeerEntry {
    /// The file of its secret key, where it has one.
    pub fn key_file(&self) -> Option<PathBuf> {
        (!self.key.is_empty()).then(|| self.folder.join(&self.key))
    }

    fn secret_key(&self) -> Result<Option<SigningKey>, Failure> {
        let file = self.key_file();
        file.map(|file| secret_file::read_key(&file)).transpose()
    }

    /// The record under the peer's key, where it has one.
    fn proven(&self, record: PeerRecord, settings: &Settings) -> Result<PeerRecord, Failure> {
        let Some(key) = self.secret_key()? else {
            return Ok(record);
        };
        let wrong = |what: &str| Failure::usage(format!("peer {}: {what}", self.id));
        if !settings.trust.enabled && self.behaviour.starts_with("http:") {
            return Ok(record);
        }
        if !settings.trust.enabled {
            return Err(wrong("a key needs the trust profile").next("set agh.trust = \"on\""));
        }
        let public = key.verifying_key();
        record
            .with_key(public.as_bytes())
            .ok_or_else(|| wrong("neither a nickname nor the verified handle of its key"))
    }

    /// A file that the entry names.
    fn file(&self, name: &str) -> Option<PathBuf> {
        (!name.is_empty()).then(|| self.folder.join(name))
    }

    fn behaviour(&self, models: &BTreeMap<String, ModelEntry>) -> Result<AgentBehaviour, Failure> {
        if self.behaviour == inbox() {
            return Ok(AgentBehaviour::Inbox);
        }
        let described = Described {
            text: &self.behaviour,
            folder: &self.folder,
            key: self.file(&self.key),
            tool: &self.tool,
            models,
        };
        let wrong = |name: &str, wanted: &str| {
            Failure::usage(format!("peer {}: {name} must be {wanted}", self.id))
        };
        let behaviour = described.parse().map_err(|(what, wanted)| match what {
            Member::Behaviour => wrong("behaviour", &wanted),
            Member::Key => wrong("key", &wanted),
            Member::Tool => wrong("tool", &wanted),
        })?;
        behaviour.ok_or_else(|| wrong("behaviour", &agents::wanted("\"inbox\", ")))
    }

    fn record(
        &self,
        settings: &Settings,
        models: &BTreeMap<String, ModelEntry>,
    ) -> Result<PeerRecord, Failure> {
        self.behaviour(models)?;
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let mut record = PeerRecord::new(
            &self.id,
            &self.channel,
            some(&self.workspace_id).as_deref(),
            some(&self.display_name).as_deref(),
            self.capabilities.clone(),
            self.catalog()?,
        );
        record.agent = some(&self.agent);
        self.proven(record, settings)
    }

    fn catalog(&self) -> Result<Catalog, Failure> {
        if self.catalog.is_empty() {
            return Ok(Catalog::default());
        }
        let path = self.folder.join(&self.catalog);
        let wrong = |reason: String| Failure::usage(format!("{}: {reason}", path.display()));
        let text = std::fs::read(&path)
            .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
        let file: CatalogFile = serde_json::from_slice(&text)
            .map_err(|error| wrong(format!("not a list of capabilities: {error}")))?;
        let entries = match file {
            CatalogFile::List(entries) => entries,
            CatalogFile::Named { capabilities } => capabilities,
        };
        Catalog::new(entries).map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::commented_file;

    // CH-CFG-1
    #[test]
    fn the_tables_of_the_file_that_init_writes_are_those_that_are_read() {
        let file = commented_file();
        for list in table::AGH {
            let head = format!("# {}\n", list.head());
            let (_, rest) = file.split_once(&head).expect(list.name);
            let members = rest.lines().map_while(|line| line.strip_prefix("# "));
            let members: Vec<&str> = members.collect();
            assert_eq!(members.len(), list.keys.len(), "{}", list.name);
            let text = format!("{}\n{}\n", list.head(), members.join("\n"));
            let tables = section_of(&text, Path::new("chancery.toml"));
            let tables = tables.unwrap_or_else(|failure| panic!("{failure}"));
            assert_ne!(tables, AghTables::default(), "{}", list.name);
        }
    }
}
