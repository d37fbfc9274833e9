//! The section of AGH: its rule settings and the peers this node hosts.

use std::path::{Path, PathBuf};

use chancery_agh::peer::PeerRecord;
use chancery_agh::settings::Settings;
use chancery_agh::whois::Catalog;
use serde::Deserialize;

use crate::exit::Failure;

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
    agh: Section,
}

#[derive(Default, Deserialize)]
struct Section {
    #[serde(default)]
    peer: Vec<PeerEntry>,
}

/// The peers of a configuration file.
pub(super) fn peers_of(text: &str, path: &Path) -> Result<Vec<PeerEntry>, Failure> {
    let document: Document = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| super::file::line_at(text, span.start));
        Failure::usage(format!(
            "{}:{line}: [[agh.peer]]: {}",
            path.display(),
            error.message()
        ))
        .next("a peer has id, channel, workspace_id, display_name, capabilities, catalog, behaviour, agent")
    })?;
    let folder = path.parent().map(Path::to_owned).unwrap_or_default();
    let placed = |mut peer: PeerEntry| {
        peer.folder.clone_from(&folder);
        peer
    };
    Ok(document.agh.peer.into_iter().map(placed).collect())
}

impl Agh {
    /// The records of the peers, their catalogs read.
    ///
    /// # Errors
    /// A catalog that cannot be read, a behaviour that is not built, a peer that is named twice.
    pub fn peers(&self) -> Result<Vec<PeerRecord>, Failure> {
        self.records(|_| true)
    }

    /// The records of those that answer by themselves.
    ///
    /// # Errors
    /// As above.
    pub fn echoes(&self) -> Result<Vec<PeerRecord>, Failure> {
        self.records(|peer| peer.behaviour == ECHO)
    }

    fn records(&self, wanted: fn(&PeerEntry) -> bool) -> Result<Vec<PeerRecord>, Failure> {
        let mut records: Vec<PeerRecord> = Vec::with_capacity(self.peers.len());
        for peer in self.peers.iter().filter(|peer| wanted(peer)) {
            let record = peer.record()?;
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
    fn record(&self) -> Result<PeerRecord, Failure> {
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
        Ok(record)
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
