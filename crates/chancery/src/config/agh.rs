//! The section of AGH: its rule settings and the peers this node hosts.

use std::path::{Path, PathBuf};

use chancery_agh::peer::PeerRecord;
use chancery_agh::revision::{Mode, Revision};
use chancery_agh::settings::{Bridge, Settings, Tasks};
use chancery_agh::whois::Catalog;
use chancery_core::keys::ed25519::SigningKey;
use serde::Deserialize;

use crate::exit::Failure;
use crate::secret_file;

/// The section of AGH.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agh {
    /// What the rules go by.
    pub settings: Settings,
    /// The peers as the file names them.
    pub peers: Vec<PeerEntry>,
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
    /// The file of its secret key: it speaks under its verified handle then (AG-TRU-3).
    #[serde(default)]
    pub key: String,
    /// The folder of the file that names it.
    #[serde(skip)]
    folder: PathBuf,
}

/// The behaviour that takes on all work and says it back.
const ECHO: &str = "echo";

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

/// The tables below `[agh]`.
pub(super) const TABLES: [&str; 3] = ["peer", "bridge", "tasks"];

/// What stands in them.
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
        let line = error.span().map_or(1, |span| super::file::line_at(text, span.start));
        Failure::usage(format!(
            "{}:{line}: below [agh]: {}",
            path.display(),
            error.message()
        ))
        .next("[[agh.peer]] has id, channel, workspace_id, display_name, capabilities, catalog, behaviour, agent, key; \
               [agh.bridge] peer, channel_a, workspace_id, channel_b; [agh.tasks] keeper, writers")
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

impl Agh {
    /// The records of the peers, their catalogs read.
    ///
    /// # Errors
    /// A catalog that cannot be read, a behaviour that is not built, a peer that is named twice.
    pub fn peers(&self) -> Result<Vec<PeerRecord>, Failure> {
        let mut records = self.records(|_| true)?;
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

    /// The records of those that answer by themselves.
    ///
    /// # Errors
    /// As above.
    pub fn echoes(&self) -> Result<Vec<PeerRecord>, Failure> {
        self.records(|peer| peer.behaviour == ECHO)
    }

    /// The secret keys of the peers that have one, each with the verified handle it is behind.
    ///
    /// # Errors
    /// A key that cannot be read, or is not that of the handle.
    pub fn keys(&self) -> Result<Vec<(String, SigningKey)>, Failure> {
        let mut keys = Vec::new();
        for peer in &self.peers {
            if let Some(key) = peer.secret_key()? {
                keys.push((peer.record(&self.settings)?.card.peer_id, key));
            }
        }
        Ok(keys)
    }

    fn records(&self, wanted: fn(&PeerEntry) -> bool) -> Result<Vec<PeerRecord>, Failure> {
        let mut records: Vec<PeerRecord> = Vec::with_capacity(self.peers.len());
        for peer in self.peers.iter().filter(|peer| wanted(peer)) {
            let record = peer.record(&self.settings)?;
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
    fn secret_key(&self) -> Result<Option<SigningKey>, Failure> {
        if self.key.is_empty() {
            return Ok(None);
        }
        secret_file::read_key(&self.folder.join(&self.key)).map(Some)
    }

    /// The record under the peer's key, where it has one.
    fn proven(&self, record: PeerRecord, settings: &Settings) -> Result<PeerRecord, Failure> {
        let Some(key) = self.secret_key()? else {
            return Ok(record);
        };
        let wrong = |what: &str| Failure::usage(format!("peer {}: {what}", self.id));
        if !settings.trust.enabled {
            return Err(wrong("a key needs the trust profile").next("set agh.trust = \"on\""));
        }
        let public = key.verifying_key();
        record
            .with_key(public.as_bytes())
            .ok_or_else(|| wrong("neither a nickname nor the verified handle of its key"))
    }

    fn record(&self, settings: &Settings) -> Result<PeerRecord, Failure> {
        if !["inbox", ECHO].contains(&self.behaviour.as_str()) {
            let failure = Failure::usage(format!(
                "peer {}: behaviour {} is not built yet",
                self.id, self.behaviour
            ));
            return Err(failure.next("set behaviour = \"inbox\" or \"echo\""));
        }
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
